-- Tables on a cluster: made on the coordinator, known everywhere.
\set SHOW_CONTEXT never
\getenv worker1 WORKER1_PORT
\getenv coordinator_port PGPORT
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'

-- A second call changes nothing, whatever its number of shards is.
SELECT enable_citus();
SELECT create_table('Employees');
SELECT create_table('employees');
SELECT create_table('EMPLOYEES', if_not_exists => true);
-- The longest name.
SELECT create_table(repeat('N', 63));
SELECT length(table_name) FROM query_tables($$TableName ge 'n' and TableName lt 'o'$$);
SELECT DISTINCT shard_count FROM citus_tables WHERE table_name::text LIKE 'table_service_data.%';
SELECT count(DISTINCT colocation_id) FROM citus_tables WHERE table_name::text LIKE 'table_service%' AND citus_table_type = 'distributed';

SELECT insert_entity('Employees', 'Marketing', '00001', '{"FirstName": "Don"}') IS NOT NULL AS written;
SELECT set_access_policies('Employees', '[{"Id": "readers", "Permission": "r"}]');
SELECT get_access_policies('Employees') -> 0 ->> 'Id' AS id;
SELECT set_service_properties('{"HourMetrics": {"Version": "1.0", "Enabled": true, "IncludeAPIs": true, "RetentionPolicy": {"Enabled": true, "Days": 7}}}');

-- The map of shards is that of Citus, on every server.
CREATE FUNCTION public.map() RETURNS TABLE (shards bigint, covers boolean, local bigint, servers bigint) LANGUAGE sql AS $$
    SELECT count(*), min(from_hash) = -2147483648 AND max(to_hash) = 2147483647 AND sum(to_hash::bigint - from_hash + 1) = 4294967296,
        count(*) FILTER (WHERE is_local), count(DISTINCT (node_name, node_port))
    FROM table_service.shard_map('Employees') $$;
SELECT * FROM public.map();
SELECT count(*) FROM generate_series(1, 500) AS i, table_service.shard_map('Employees') AS m
WHERE partition_hash('p' || i) BETWEEN m.from_hash AND m.to_hash
AND (m.node_name, m.node_port) = (SELECT n.nodename, n.nodeport FROM pg_dist_placement AS p JOIN pg_dist_node AS n USING (groupid)
    WHERE p.shardid = get_shard_id_for_distribution_column('table_service_data."Employees"', 'p' || i));

-- No relation has the name of a table, in any case.
CREATE TABLE table_service_data.employees (n integer);
-- On a worker entities are read and written, and tables are not.
\c - - 127.0.0.1 :worker1
SET search_path = table_service, public;
SELECT table_name FROM query_tables($$TableName ge 'e' and TableName lt 'n'$$);
SELECT partition_key, row_key, properties FROM get_entity('Employees', 'Marketing', '00001');
SELECT partition_key, row_key, properties FROM get_entity('eMPLOYEES', 'Marketing', '00001');
SELECT insert_entity('Employees', 'Sales', '00002', '{"FirstName": "Ken"}') IS NOT NULL AS written;
SELECT insert_entity('Nobody', 'Sales', '00002', '{}');
SELECT get_service_properties() -> 'HourMetrics' -> 'RetentionPolicy' ->> 'Days' AS days;
SELECT * FROM public.map();
SELECT create_table('Others');
SELECT delete_table('Employees');
SELECT get_access_policies('Employees');
SELECT set_access_policies('Employees', '[]');
SELECT create_property_index('Employees', 'FirstName');
SELECT drop_property_index('Employees', 'FirstName');
SELECT set_expiry('Employees', 'Until');
SELECT create_change_feed('feed');
SELECT query_changes('feed');
SELECT enable_citus();
SELECT disable_citus();
-- Nor has a relation of a worker the name of a table. Where the event trigger does not run, nobody is served from either.
SET citus.enable_ddl_propagation = off;
CREATE TABLE table_service_data.employees (n integer);
ALTER EVENT TRIGGER table_service_definitions DISABLE;
CREATE TABLE table_service_data.employees OF entity (PRIMARY KEY (partition_key, row_key));
ALTER EVENT TRIGGER table_service_definitions ENABLE ALWAYS;
SELECT row_key FROM get_entity('Employees', 'Marketing', '00001');
SELECT insert_entity('employees', 'Marketing', '00003', '{}');
DROP TABLE table_service_data.employees;
SELECT row_key FROM get_entity('employees', 'Marketing', '00001');
RESET citus.enable_ddl_propagation;

\c - - - :coordinator_port
SET search_path = table_service, public;
-- There are no change feeds of distributed tables.
SELECT create_change_feed('feed');
SELECT query_changes('feed');
SELECT confirm_changes('feed', '0/0');
SELECT partition_key, row_key, properties FROM query_entities('Employees');
SELECT delete_table(repeat('N', 63));
-- In a transaction that is rolled back.
BEGIN;
SELECT create_table('Others');
SELECT insert_entity('Others', 'p', 'r', '{}') IS NOT NULL AS written;
ROLLBACK;
SELECT table_name FROM query_tables();
-- Citus cannot create tables with long names in a transaction that has gone to several servers at once.
BEGIN;
SELECT count(*) FROM query_entities('Employees');
SELECT create_table(repeat('N', 63));
ROLLBACK;

-- The Timestamp rises, whoever writes.
SELECT "timestamp" AS before FROM get_entity('Employees', 'Sales', '00002') \gset
UPDATE table_service_data."Employees" SET "timestamp" = '2000-01-01' WHERE partition_key = 'Sales';
SELECT "timestamp" > :'before' AS rises FROM get_entity('Employees', 'Sales', '00002');
-- And the limits hold.
INSERT INTO table_service_data."Employees" VALUES ('a/b', '', clock_timestamp(), '{}');
:state

-- And back: the entities, the policies and the rules stay.
SET client_min_messages = warning;
SELECT disable_citus();
SELECT disable_citus();
RESET client_min_messages;
SELECT count(*) FROM citus_tables WHERE table_name::text LIKE 'table_service_data.%';
SELECT partition_key, row_key, properties FROM query_entities('Employees');
SELECT get_access_policies('Employees') -> 0 ->> 'Id' AS id;
UPDATE table_service_data."Employees" SET "timestamp" = '2000-01-01' WHERE partition_key = 'Sales';
SELECT "timestamp" > :'before' AS rises FROM get_entity('Employees', 'Sales', '00002');
INSERT INTO table_service_data."Employees" VALUES ('a/b', '', clock_timestamp(), '{}');
:state
SELECT merge_entity('employees', 'Sales', '00002', '{"Age": 30}', '*') IS NOT NULL AS written;
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'table_service_data."Employees"'::regclass AND contype IN ('c', 'p') ORDER BY contype;
SELECT tgname FROM pg_trigger WHERE tgrelid = 'table_service_data."Employees"'::regclass AND NOT tgisinternal;
SELECT reloftype::regtype, reloptions FROM pg_class WHERE oid = 'table_service_data."Employees"'::regclass;
SELECT create_table('Local');
SELECT insert_entity('Local', 'p', 'r', '{"N": 1}') IS NOT NULL AS written;

-- Existing tables are distributed with their entities.
SELECT enable_citus(0);
SELECT enable_citus(NULL);
SET client_min_messages = warning;
SELECT enable_citus(8);
RESET client_min_messages;
SELECT table_name::text, shard_count FROM citus_tables WHERE table_name::text LIKE 'table_service_data.%' ORDER BY 1;
SELECT partition_key, row_key, properties FROM query_entities('Employees');
SELECT partition_key, row_key, properties FROM query_entities('Local');
SELECT get_access_policies('Employees') -> 0 ->> 'Id' AS id;
SELECT delete_table('Employees'), delete_table('Local');

-- What follows finds the service properties of a new database.
SELECT set_service_properties('{"HourMetrics": {"Version": "1.0", "Enabled": false, "RetentionPolicy": {"Enabled": false}}}');

-- A transaction that only reads.
SET default_transaction_read_only = on;
SELECT enable_citus();
SELECT disable_citus();
