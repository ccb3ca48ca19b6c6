-- DROP EXTENSION is refused while a table exists.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
SELECT create_table('Employees');
SELECT insert_entity('Employees', 'p', 'r', '{"a": 1}') IS NOT NULL AS inserted;

-- (The DETAIL, which lists what depends on it, is left out.)
\set VERBOSITY terse
DROP EXTENSION table_service;
:state
DROP SCHEMA table_service_data;
:state
DROP TYPE entity;
:state
\set VERBOSITY default
SELECT properties FROM get_entity('Employees', 'p', 'r');

-- The tables are no members of the extension: they are dumped and dropped as any table.
SELECT count(*) FROM pg_depend WHERE objid = 'table_service_data."Employees"'::regclass AND deptype = 'e';
SELECT delete_table('Employees');

-- Without tables the extension goes and comes, also in a session that has used it.
DROP EXTENSION table_service;
SELECT nspname FROM pg_namespace WHERE nspname LIKE 'table\_service%';
CREATE EXTENSION table_service;
SELECT create_table('Employees');
SELECT insert_entity('Employees', 'p', 'r', '{"a": 1}') IS NOT NULL AS inserted;
SELECT merge_entity('Employees', 'p', 'r', '{"b": 1}', etag(e)) IS NOT NULL AS merged FROM get_entity('Employees', 'p', 'r') AS e;
SELECT row_key, properties FROM get_entities('Employees', 'p', '{r}');

-- CASCADE takes the tables along, because it says so.
SET client_min_messages = warning;
DROP EXTENSION table_service CASCADE;
SELECT to_regclass('table_service_data."Employees"') IS NULL AS gone;
CREATE EXTENSION table_service;
SELECT count(*) FROM query_tables();
SELECT create_table('Employees');
SELECT insert_entity('Employees', 'p', 'r', '{"a": 1}') IS NOT NULL AS inserted;
SELECT delete_table('Employees');
