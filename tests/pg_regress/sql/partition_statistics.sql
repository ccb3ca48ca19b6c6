-- partition_statistics: how many entities each partition has, and how many bytes.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
SELECT create_table('Employees');
SELECT * FROM partition_statistics('Employees');
INSERT INTO table_service_data."Employees" SELECT p, i::text, clock_timestamp(), '{"Age": 30}' FROM unnest(ARRAY['', 'Sales', 'sales', 'é', 'Marketing']) AS p, generate_series(1, 3) AS i;
INSERT INTO table_service_data."Employees" VALUES ('Sales', 'x', clock_timestamp(), ('{"Notes": "' || repeat('long ', 1000) || '"}')::properties);
-- In the order of the keys.
SELECT partition_key, entities, bytes > 0 AS has_bytes FROM partition_statistics('Employees');
-- Exact, in the transaction that writes too.
BEGIN;
DELETE FROM table_service_data."Employees" WHERE partition_key = 'Sales' AND row_key <> '1' OR partition_key = 'Marketing';
SELECT partition_key, entities FROM partition_statistics('employees');
ROLLBACK;
SELECT sum(entities) FROM partition_statistics('Employees');
-- Larger entities take more bytes.
SELECT s.bytes > m.bytes AS more FROM partition_statistics('Employees') AS s, partition_statistics('Employees') AS m WHERE s.partition_key = 'Sales' AND m.partition_key = 'Marketing';
SELECT * FROM partition_statistics('Nobody');
:state
SELECT * FROM partition_statistics(NULL);
:state
SELECT delete_table('Employees');
