-- insert_entity: a new entity, and its ETag.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'

SELECT create_table('Employees');

-- An insert returns the ETag of the new entity, which is made of its Timestamp.
SELECT insert_entity('Employees', 'Marketing', '00001', '{"FirstName": "Don", "LastName": "Hall", "Age": 34}') AS etag \gset
SELECT :'etag' ~ '^W/"datetime''\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d(\.\d{1,6})?Z''"$' AS looks_right;
SELECT etag(e) = :'etag' AS is_the_entitys, etag(e."timestamp") = :'etag' AS is_the_timestamps
FROM get_entity('Employees', 'Marketing', '00001') AS e;
-- The Timestamp is the clock's, not that of the transaction.
SELECT "timestamp" BETWEEN now() - interval '1 minute' AND clock_timestamp() AS is_now
FROM get_entity('Employees', 'Marketing', '00001');

-- What was inserted is there, for the functions and for SQL.
SELECT partition_key, row_key, properties FROM get_entity('Employees', 'Marketing', '00001');
SELECT partition_key, row_key, properties FROM table_service_data."Employees";

-- An entity with these keys exists: nothing changes.
SELECT insert_entity('Employees', 'Marketing', '00001', '{"FirstName": "Jun"}');
:state
SELECT etag(e) = :'etag' AS is_unchanged, properties FROM get_entity('Employees', 'Marketing', '00001') AS e;

-- Keys are case-sensitive, are not trimmed, and may be empty. Entities of one table may have different properties.
SELECT insert_entity('Employees', 'marketing', '00001', '{"EmployeeCount": 153}') IS NOT NULL AS inserted;
SELECT insert_entity('Employees', 'Marketing ', '00001', '{"Age": "thirty"}') IS NOT NULL AS inserted;
SELECT insert_entity('Employees', '', '', '{}') IS NOT NULL AS inserted;
-- é is one character here, and two there; they are different keys.
SELECT insert_entity('Employees', U&'\00E9', 'x', '{}') IS NOT NULL AS inserted;
SELECT insert_entity('Employees', U&'e\0301', 'x', '{}') IS NOT NULL AS inserted;
-- Order is by code point.
SELECT partition_key, row_key, properties FROM table_service_data."Employees" ORDER BY partition_key, row_key;

-- Members that name the keys, the Timestamp, or begin with odata. are ignored in the properties; null is no value.
SELECT insert_entity('Employees', 'p', 'r', '{"PartitionKey": 1, "RowKey": [2], "Timestamp": "x", "Timestamp@odata.type": "y",
    "odata.etag": "z", "odata.anything": {"a": 1}, "Nothing": null, "partitionkey": "mine"}') IS NOT NULL AS inserted;
SELECT partition_key, row_key, properties FROM get_entity('Employees', 'p', 'r');

-- A jsonb value is taken as well, and so is a row.
SELECT insert_entity('Employees', 'p', 'jsonb', jsonb_build_object('Age', 47, 'Name', 'Jun')) IS NOT NULL AS inserted;
SELECT insert_entity('Employees', 'p', 'row', to_properties(r)) IS NOT NULL AS inserted
FROM (SELECT 23 AS "Age", 'Ken'::text AS "Name") AS r;
SELECT row_key, properties FROM get_entities('Employees', 'p', ARRAY['jsonb', 'row']);

-- Functions can stand wherever SQL takes an expression: one statement inserts many, all or nothing.
SELECT count(insert_entity('Employees', 'series', to_char(i, 'FM0000'), jsonb_build_object('I', i)))
FROM generate_series(1, 100) AS i;
SELECT count(insert_entity('Employees', 'series', to_char(i, 'FM0000'), jsonb_build_object('I', i)))
FROM generate_series(101, 0, -1) AS i;
:state
SELECT count(*) FROM table_service_data."Employees" WHERE partition_key = 'series';

-- No such table.
SELECT insert_entity('Nobody', 'p', 'r', '{}');
:state

-- In PL/pgSQL an error has a condition name.
DO $$
BEGIN
    PERFORM insert_entity('Employees', 'Marketing', '00001', '{}');
EXCEPTION WHEN unique_violation THEN
    RAISE NOTICE 'it was there: %', SQLERRM;
END $$;

SELECT delete_table('Employees');
