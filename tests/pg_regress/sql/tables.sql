-- Tables: create_table, delete_table, query_tables.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all

-- A table of the service is an ordinary PostgreSQL table in the schema table_service_data.
SELECT create_table('Employees');
SELECT create_table('accounts');
SELECT create_table('Zoo');

-- Tables are listed in the order of their lower-case names, spelled as they were created.
SELECT * FROM query_tables();

-- The columns of every table are those of the type entity, and all are NOT NULL.
SELECT attname, format_type(atttypid, atttypmod), attnotnull
FROM pg_attribute WHERE attrelid = 'table_service_data."Employees"'::regclass AND attnum > 0 ORDER BY attnum;
SELECT reloftype::regtype FROM pg_class WHERE oid = 'table_service_data."Employees"'::regclass;
ALTER TABLE table_service_data."Employees" ADD COLUMN more integer;
:state

-- Keys are compared by code point, and the primary key is the order in which CLUSTER puts the rows.
SELECT a.attname, c.collname
FROM pg_attribute AS a JOIN pg_collation AS c ON c.oid = a.attcollation
WHERE a.attrelid = 'table_service_data."Employees"'::regclass ORDER BY a.attnum;
SELECT i.indisprimary, i.indisclustered, c.relname
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = 'table_service_data."Employees"'::regclass ORDER BY c.relname;

-- A name exists in all its spellings at once.
SELECT create_table('Employees');
:state
SELECT create_table('EMPLOYEES');
:state
-- if_not_exists gives the table that is there.
SELECT create_table('employees', if_not_exists => true);
SELECT create_table('Robots', if_not_exists => true);
-- Any spelling finds the table.
SELECT insert_entity('eMPLOYEES', 'p', 'r', '{}') IS NOT NULL AS inserted;
SELECT partition_key, row_key, properties FROM get_entity('EMPLOYEES', 'p', 'r');

-- The primary key has the table's name. A hash is in the place of a long name.
CREATE TEMPORARY TABLE names AS SELECT name, create_table(name) AS relation FROM (VALUES ('Short'), (repeat('Aa', 21)), (repeat('Aa', 21) || 'a'), (repeat('Aa', 31) || 'a')) AS v (name);
SELECT length(name), indexrelid::regclass AS primary_key, insert_entity(upper(name), 'p', 'r', '{}') IS NOT NULL AS found, pg_temp.outcome(format('SELECT create_table(%L)', upper(name))) AS created
FROM names JOIN pg_index ON indrelid = relation AND indisprimary ORDER BY length(name);
-- A property index of that name, and other relations, are no hindrance.
SELECT delete_table('Short');
SELECT create_table('abc'), create_property_index('abc', 'pkey');
ALTER TABLE table_service_data.abc RENAME TO def;
CREATE TABLE table_service_data.short_pkey ();
SELECT create_table('Short'), create_table('ABC');
SELECT indrelid::regclass, indexrelid::regclass AS primary_key FROM pg_index WHERE indrelid IN ('table_service_data."Short"'::regclass, 'table_service_data."ABC"'::regclass) ORDER BY indrelid::regclass::text;
SELECT pg_temp.outcome(format('SELECT create_table(%L)', name)) FROM (VALUES ('short'), ('abc'), ('DEF')) AS v (name);
DROP TABLE table_service_data.short_pkey;
SELECT bool_and(delete_table(name)) AS deleted FROM (SELECT name FROM names UNION ALL VALUES ('ABC'), ('DEF')) AS v;
DROP TABLE names;

-- Names have 3 to 63 letters and digits (ASCII), a letter first; "tables" is reserved.
SELECT name, pg_temp.outcome(format('SELECT create_table(%L)', name))
FROM (VALUES ('ab'), (''), (repeat('a', 64)), (repeat('日', 64)), ('1abc'), ('a-bc'), ('a_bc'), ('a bc'), ('été'), ('日本語'),
    ('a.bc'), ('"abc"'), ('a''bc'), ('$MetricsHour'), (' abc'), (E'abc\n'), ('tables'), ('Tables'), ('TABLES')) AS v (name);
SELECT length(name), pg_temp.outcome(format('SELECT create_table(%L)', name))
FROM (VALUES ('abc'), ('A12'), (repeat('a', 63)), (repeat('A', 63))) AS v (name);
-- The rules for names hold before anything else is looked at.
SELECT create_table('Tables', if_not_exists => true);
:state

-- hold_table finds a table and keeps it, and refuses another one in its place.
SELECT hold_table('EMPLOYEES') = 'table_service_data."Employees"'::regclass AS is_held;
SELECT hold_table('EMPLOYEES', 'table_service_data."Employees"'::regclass) = 'table_service_data."Employees"'::regclass AS is_held;
SELECT pg_temp.outcome(call) FROM (VALUES ('SELECT hold_table(''Employees'', ''pg_class''::regclass)'), ('SELECT hold_table(''Absent'')'), ('SELECT hold_table(''Absent'', 0)'), ('SELECT hold_table(NULL, 0)'),
    ('SELECT hold_table(''a-b'')')) AS v (call);
BEGIN;
SELECT hold_table('Employees') IS NOT NULL AS is_held;
SELECT mode FROM pg_locks WHERE relation = 'table_service_data."Employees"'::regclass AND pid = pg_backend_pid();
COMMIT;

-- delete_table drops a table, found in any spelling, with all its entities.
SELECT delete_table('EMPLOYEES');
SELECT to_regclass('table_service_data."Employees"');
SELECT * FROM get_entity('Employees', 'p', 'r');
:state
-- Deleting what is no table says so, and does not check names.
SELECT name, pg_temp.outcome(format('SELECT delete_table(%L)', name))
FROM (VALUES ('Employees'), ('tables'), ('ab'), (''), ('1 "'';'), (repeat('x', 1000))) AS v (name);
-- With if_exists it says false instead.
SELECT delete_table('Employees', if_exists => true), delete_table('Absent', if_exists => true), delete_table('zoo', if_exists => true);

-- The name of a deleted table is free at once.
SELECT create_table('EMPLOYEES');
SELECT insert_entity('Employees', 'p', 'r', '{}') IS NOT NULL AS inserted;

-- Only relations OF table_service.entity are tables of the service. Others in the schema are not seen, but keep their name.
CREATE TABLE table_service_data.other (partition_key text, row_key text);
CREATE VIEW table_service_data.looks AS SELECT * FROM table_service_data."EMPLOYEES";
SELECT table_name FROM query_tables();
SELECT pg_temp.outcome($$SELECT insert_entity('other', 'p', 'r', '{}')$$);
SELECT pg_temp.outcome($$SELECT get_entity('looks', 'p', 'r')$$);
SELECT pg_temp.outcome($$SELECT delete_table('other')$$);
SELECT pg_temp.outcome($$SELECT create_table('other')$$);
SELECT pg_temp.outcome($$SELECT create_table('other', if_not_exists => true)$$);
CREATE TYPE table_service_data.kind AS ENUM ('a');
SELECT pg_temp.outcome($$SELECT create_table('kind')$$);
DROP TYPE table_service_data.kind;
-- What depends on a table keeps it, as for any table of PostgreSQL.
\set VERBOSITY terse
SELECT delete_table('Employees');
:state
\set VERBOSITY default
DROP VIEW table_service_data.looks;
DROP TABLE table_service_data.other;

-- An ordinary DROP TABLE is as good as delete_table, and a table made OF the type is a table of the service.
DROP TABLE table_service_data."EMPLOYEES";
SELECT pg_temp.outcome($$SELECT insert_entity('Employees', 'p', 'r', '{}')$$);
CREATE TABLE table_service_data.byhand OF table_service.entity (PRIMARY KEY (partition_key, row_key));
SELECT insert_entity('ByHand', 'p', 'r', '{"a": 1}') IS NOT NULL AS inserted;
SELECT partition_key, row_key, properties FROM get_entity('BYHAND', 'p', 'r');

SELECT table_name, delete_table(table_name) FROM query_tables();
SELECT count(*) FROM query_tables();
