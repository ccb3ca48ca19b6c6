-- execute_batch_json: batches as drivers send them.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all

SELECT create_table('Employees');
SELECT insert_entity('Employees', 'Sales', 'replaced', '{"a": 1, "b": 1}') AS replaced_etag \gset
SELECT count(*) FROM execute_batch_json('Employees', 'Sales',
    '[{"insert": {"RowKey": "merged", "a": 1, "b": 1}}, {"insert": {"RowKey": "deleted"}}, {"insert_or_merge": {"RowKey": "there", "a": 1}}]');

-- All six operations. PartitionKey, Timestamp and odata members may be there, as they are in an entity that was read.
SELECT index, row_key, etag IS NOT NULL AS has_etag FROM execute_batch_json('Employees', 'Sales', format('[
    {"insert": {"PartitionKey": "Sales", "RowKey": "new", "odata.etag": "x", "Timestamp": "2020-01-01T00:00:00Z", "a": 2, "Id@odata.type": "Edm.Int64", "Id": "7"}},
    {"replace": {"RowKey": "replaced", "b": 2, "c": 2}, "if_match": %s},
    {"if_match": "*", "merge": {"RowKey": "merged", "b": 2, "c": 2}},
    {"insert_or_replace": {"RowKey": "there", "b": 2}},
    {"insert_or_merge": {"b": 2, "RowKey": "also new"}},
    {"delete": {"RowKey": "deleted"}}
]', to_json(:'replaced_etag'::text)));
SELECT row_key, properties FROM table_service_data."Employees" ORDER BY row_key;

-- A delete takes a condition, or means any version. What else its entity holds does not matter.
SELECT index, row_key FROM execute_batch_json('Employees', 'Sales',
    '[{"delete": {"RowKey": "new", "a": {"nested": [1]}}, "if_match": "*"}, {"delete": {"RowKey": "there"}}]');
SELECT * FROM execute_batch_json('Employees', 'Sales', '[{"delete": {"RowKey": "merged"}, "if_match": "W/\"x\""}]');
:state

-- What is no batch. A typo does not lose a check.
SELECT json, pg_temp.outcome(format('SELECT count(*) FROM execute_batch_json(''Employees'', ''Sales'', %L)', json))
FROM unnest(ARRAY[
    '', 'null', '{}', '"x"', '[', '[] []', '[{"delete": {"RowKey": "1"}},]', '[{"insert": {"RowKey": "1"]',
    '[]', '[null]', '[7]', '[{}]', '[{"if_match": "*"}]',
    '[{"update": {"RowKey": "1"}}]', '[{"Insert": {"RowKey": "1"}}]', '[{"insert": 1}]', '[{"insert": null}]', '[{"insert": [1]}]',
    '[{"insert": {"RowKey": "1"}, "delete": {"RowKey": "2"}}]', '[{"insert": {"RowKey": "1"}, "insert": {"RowKey": "2"}}]',
    '[{"merge": {"RowKey": "1"}}]', '[{"replace": {"RowKey": "1"}}]', '[{"merge": {"RowKey": "1"}, "If-Match": "*"}]',
    '[{"merge": {"RowKey": "1"}, "if_match": null}]', '[{"merge": {"RowKey": "1"}, "if_match": 1}]',
    '[{"merge": {"RowKey": "1"}, "if_match": "*", "if_match": "*"}]', '[{"merge": {"RowKey": "1"}, "if_match": "abc"}]',
    '[{"insert": {"RowKey": "1"}, "if_match": "*"}]', '[{"insert_or_merge": {"RowKey": "1"}, "if_match": "*"}]',
    '[{"insert": {}}]', '[{"insert": {"RowKey": null}}]', '[{"insert": {"RowKey": 1}}]', '[{"delete": {}}]',
    '[{"insert": {"RowKey": "1", "PartitionKey": "Marketing"}}]', '[{"insert": {"RowKey": "1", "PartitionKey": "sales"}}]',
    '[{"insert": {"RowKey": "1", "a": {}}}]', '[{"insert": {"RowKey": "1", "a b": 1}}]', '[{"insert": {"RowKey": "1", "a": 1, "a": 2}}]',
    '[{"insert": {"RowKey": "1", "a@odata.type": "Edm.Guid", "a": "x"}}]', '[{"insert": {"RowKey": "1", "a": 1e999}}]',
    '[{"insert": {"RowKey": "a/b"}}]']) AS json;

-- The index is that of the operation, not that of what is wrong with it.
SELECT json, pg_temp.outcome(format('SELECT count(*) FROM execute_batch_json(''Employees'', ''Sales'', %L)', json))
FROM unnest(ARRAY[
    '[{"insert": {"RowKey": "1"}}, {"insert": {"RowKey": "2"}}, {"insert": {"RowKey": "3", "a b": 1}}]',
    '[{"insert": {"RowKey": "1"}}, {"insert": {"RowKey": "2", "PartitionKey": "Marketing"}}, {"insert": {"RowKey": "1"}}]',
    '[{"insert": {"RowKey": "1"}}, {"insert": {"RowKey": "1", "PartitionKey": "Marketing"}}]',
    '[{"insert": {"RowKey": "a/b"}}, {"insert": {"RowKey": "1", "a b": 1}}]',
    '[{"insert": {"RowKey": "1"}}, {"insert": {"RowKey": "1"}}, {"insert": {"RowKey": "2", "a b": 1}}]',
    '[{"insert": {"RowKey": "merged"}}, {"insert": {"RowKey": "2"}}, {"insert": {"RowKey": "2"}}]',
    '[{"insert": {"RowKey": "1"}}, {"insert": {"RowKey": "merged"}}]',
    '[{"insert": {"RowKey": "1"}}, {"insert": {"RowKey": "2", "a": 1 1}}]']) AS json;

-- An entity has 1 MiB at most.
SELECT pg_temp.outcome(format('SELECT count(*) FROM execute_batch_json(''Employees'', ''Sales'', %L)',
    jsonb_build_array('{"insert": {"RowKey": "1"}}'::jsonb,
        jsonb_build_object('insert', jsonb_build_object('RowKey', '2') || jsonb_object_agg('n' || n, repeat('x', 32000))))))
FROM generate_series(1, 17) AS n;

-- The payload is the text, space included: 4 MiB of it fit.
\set row '[{"insert_or_replace": {"RowKey": "1"}}'
SELECT pg_temp.outcome(format('SELECT count(*) FROM execute_batch_json(''Employees'', ''Sales'', %L)', rpad(:'row', 4 * 1024 * 1024 - 1) || ']'));
SELECT pg_temp.outcome(format('SELECT count(*) FROM execute_batch_json(''Employees'', ''Sales'', %L)', rpad(:'row', 4 * 1024 * 1024) || ']'));
-- Too many operations are reported before that, and before anything that is wrong with one of them.
SELECT pg_temp.outcome(format('SELECT count(*) FROM execute_batch_json(''Employees'', ''Sales'', %L)',
    '[' || string_agg(format('{"insert_or_replace": {"RowKey": "%s"}}', i), ',') || ']'))
FROM generate_series(1, 100) AS i;
SELECT pg_temp.outcome(format('SELECT count(*) FROM execute_batch_json(''Employees'', ''Sales'', %L)',
    '[' || string_agg(format('{"nonsense": {"RowKey": "%s"}}', i), ',') || rpad(']', 4 * 1024 * 1024)))
FROM generate_series(1, 101) AS i;

-- Nothing of all this was written but the hundred.
SELECT count(*), count(*) FILTER (WHERE row_key ~ '^\d+$') AS numbers FROM table_service_data."Employees";

-- NULLs.
SELECT * FROM execute_batch_json(NULL, 'Sales', '[{"delete": {"RowKey": "1"}}]');
:state
SELECT * FROM execute_batch_json('Employees', NULL, '[{"delete": {"RowKey": "1"}}]');
:state
SELECT * FROM execute_batch_json('Employees', 'Sales', NULL);
:state

SELECT delete_table('Employees');
