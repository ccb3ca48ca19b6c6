-- execute_batch: entity group transactions, all or nothing.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'

SELECT create_table('Employees');
SELECT insert_entity('Employees', 'Sales', 'replaced', '{"a": 1, "b": 1}') AS replaced_etag \gset
SELECT insert_entity('Employees', 'Sales', 'merged', '{"a": 1, "b": 1}') AS merged_etag \gset
SELECT insert_entity('Employees', 'Sales', 'deleted', '{}') AS deleted_etag \gset
SELECT insert_entity('Employees', 'Sales', 'there', '{"a": 1, "b": 1}') IS NOT NULL AS inserted;
SELECT insert_entity('Employees', 'Sales', 'there too', '{"a": 1, "b": 1}') IS NOT NULL AS inserted;

-- All six operations. The results have the order of the operations; a delete has no ETag.
CREATE TEMP TABLE result AS SELECT * FROM execute_batch('Employees', 'Sales',
    batch_insert('new', '{"a": 2}'),
    batch_replace('replaced', '{"b": 2, "c": 2}', :'replaced_etag'),
    batch_merge('merged', '{"b": 2, "c": 2}', :'merged_etag'),
    batch_insert_or_replace('there', '{"b": 2, "c": 2}'),
    batch_insert_or_replace('not there', '{"b": 2, "c": 2}'),
    batch_insert_or_merge('there too', '{"b": 2, "c": 2}'),
    batch_insert_or_merge('not there either', '{"b": 2, "c": 2}'),
    batch_delete('deleted', :'deleted_etag'));
SELECT index, row_key, etag IS NOT NULL AS has_etag FROM result;
SELECT row_key, properties, r.etag = etag(e) AS is_returned
FROM table_service_data."Employees" AS e FULL JOIN result AS r USING (row_key) ORDER BY row_key COLLATE "C";

-- Without a condition: * is any version, and what batch_delete means.
SELECT index, row_key, etag IS NULL AS is_deleted FROM execute_batch('Employees', 'Sales',
    batch_replace('new', '{}', '*'), batch_merge('merged', '{"d": 3}', '*'), batch_delete('replaced'), batch_delete('there', '*'));
SELECT row_key, properties FROM table_service_data."Employees" ORDER BY row_key;

-- A batch of what a query finds.
SELECT count(*), count(etag) FROM execute_batch('Employees', 'Sales', VARIADIC
    (SELECT array_agg(batch_delete(row_key)) FROM table_service_data."Employees" WHERE partition_key = 'Sales'));
SELECT count(*) FROM table_service_data."Employees";
-- And of what an array holds; its order is that of the operations.
SELECT index, row_key FROM execute_batch('Employees', 'Sales', VARIADIC ARRAY[batch_insert('2', '{}'), batch_insert('1', '{}')]);
SELECT index, row_key FROM execute_batch('Employees', 'Sales', VARIADIC '{"(delete,2,,*)","(merge,1,\"{\"\"a\"\": 1}\",*)"}'::batch_operation[]);
-- An array may have any bounds, and more than one dimension.
SELECT index, row_key FROM execute_batch('Employees', 'Sales', VARIADIC '[7:8]={"(delete,1,,*)","(insert,3,\"{}\",)"}'::batch_operation[]);
SELECT index, row_key FROM execute_batch('Employees', 'Sales', VARIADIC ARRAY[[batch_insert('4', '{}')], [batch_insert('5', '{}')]]);
SELECT properties, count(*) FROM table_service_data."Employees" GROUP BY properties;

-- A hundred inserts, upserts of half of them, and deletes of all, each in one batch.
SELECT count(*), min(index), max(index), count(DISTINCT row_key) FROM execute_batch('Employees', 'Hundred', VARIADIC
    (SELECT array_agg(batch_insert(lpad(i::text, 3, '0'), jsonb_build_object('i', i)) ORDER BY random()) FROM generate_series(1, 100) AS i));
SELECT count(*) FROM execute_batch('Employees', 'Hundred', VARIADIC
    (SELECT array_agg(batch_insert_or_merge(lpad(i::text, 3, '0'), '{"even": true}') ORDER BY random()) FROM generate_series(2, 100, 2) AS i));
SELECT get_boolean(properties, 'even'), count(*), min(get_int32(properties, 'i')), max(get_int32(properties, 'i'))
FROM table_service_data."Employees" WHERE partition_key = 'Hundred' GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM execute_batch('Employees', 'Hundred', VARIADIC
    (SELECT array_agg(batch_delete(row_key, etag(e))) FROM table_service_data."Employees" AS e WHERE partition_key = 'Hundred'));
SELECT count(*) FROM table_service_data."Employees" WHERE partition_key = 'Hundred';

-- An ETag of this batch is the condition of the next.
SELECT etag AS first FROM execute_batch('Employees', 'Tags', batch_insert('r', '{}')) \gset
SELECT etag AS second FROM execute_batch('Employees', 'Tags', batch_merge('r', '{}', :'first')) \gset
SELECT etag AS third FROM execute_batch('Employees', 'Tags', batch_insert_or_merge('r', '{}')) \gset
SELECT etag AS fourth FROM execute_batch('Employees', 'Tags', batch_insert_or_replace('r', '{}')) \gset
SELECT count(DISTINCT tag) FROM (VALUES (:'first'), (:'second'), (:'third'), (:'fourth')) AS t (tag);
SELECT * FROM execute_batch('Employees', 'Tags', batch_replace('r', '{}', :'third'));
:state
SELECT * FROM execute_batch('Employees', 'Tags', batch_delete('r', :'third'));
:state
SELECT * FROM execute_batch('Employees', 'Tags', batch_delete('r', :'fourth'));

-- Any spelling of the table's name, empty keys, and names of another script.
SELECT index, row_key FROM execute_batch('eMPLOYEES', '', batch_insert('', '{}'), batch_insert('Ünïcödé', '{"ключ": "значение"}'));
SELECT row_key, properties FROM table_service_data."Employees" WHERE partition_key = '' ORDER BY row_key;

-- Large properties, which are stored compressed or out of line, are merged and kept.
SELECT count(*) FROM execute_batch('Employees', 'Large', VARIADIC
    (SELECT array_agg(batch_insert(i::text, jsonb_build_object('text', repeat(md5(i::text), 900)))) FROM generate_series(1, 9) AS i));
SELECT count(*) FROM execute_batch('Employees', 'Large', VARIADIC
    (SELECT array_agg(CASE WHEN i % 2 = 0 THEN batch_merge(i::text, '{"n": 1}', '*')
        ELSE batch_insert_or_merge(i::text, '{"n": 1}') END) FROM generate_series(1, 9) AS i));
SELECT count(*) FROM table_service_data."Employees"
WHERE partition_key = 'Large' AND properties ->> 'text' = repeat(md5(row_key), 900) AND properties ->> 'n' = '1';

SELECT delete_table('Employees');
