-- Names: in table_service_data no two relations have names that differ in case only, and none is called Tables.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all

SELECT create_table('Orders'), insert_entity('Orders', 'p', 'r', '{"A": 1}') IS NOT NULL AS inserted;
CREATE SCHEMA other;
CREATE TABLE other.orders ();
CREATE TABLE other."TABLES" (id int PRIMARY KEY);
CREATE TYPE other.odd AS (a int);
CREATE TABLE table_service_data.parts (id int, CONSTRAINT parts_key PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE SEQUENCE table_service_data.numbers;
CREATE FOREIGN DATA WRAPPER elsewhere;
CREATE SERVER elsewhere FOREIGN DATA WRAPPER elsewhere;
PREPARE one AS SELECT 1 AS a;

-- Every statement that makes, renames or moves a relation. Superusers are refused too.
SELECT count(*), string_agg(DISTINCT pg_temp.outcome(statement), E'\n') AS outcomes
FROM (VALUES
    ('CREATE TABLE table_service_data.orders OF entity (PRIMARY KEY (partition_key, row_key))'),
    ('CREATE TABLE table_service_data."ORDERS" ()'),
    ('CREATE TABLE table_service_data.orders PARTITION OF table_service_data.parts FOR VALUES FROM (1) TO (2)'),
    ('CREATE FOREIGN TABLE table_service_data.orders (a int) SERVER elsewhere'),
    ('CREATE UNLOGGED TABLE table_service_data.orders ()'),
    ('CREATE TABLE table_service_data.orders AS SELECT 1 AS a'),
    ('SELECT 1 AS a INTO table_service_data.orders'),
    ('CREATE TABLE table_service_data.orders AS EXECUTE one'),
    ('CREATE VIEW table_service_data.orders AS SELECT 1 AS a'),
    ('CREATE OR REPLACE VIEW table_service_data.orders AS SELECT 1 AS a'),
    ('CREATE RECURSIVE VIEW table_service_data.orders (a) AS SELECT 1'),
    ('CREATE MATERIALIZED VIEW table_service_data.orders AS SELECT 1 AS a'),
    ('CREATE INDEX orders ON table_service_data."Orders" (row_key)'),
    ('CREATE UNIQUE INDEX "ordERS" ON table_service_data.parts (id)'),
    ('CREATE SEQUENCE table_service_data.orders'),
    ('CREATE TYPE table_service_data.orders AS (a int)'),
    ('CREATE TABLE table_service_data.x (id int CONSTRAINT orders PRIMARY KEY)'),
    ('ALTER TABLE table_service_data.numbers RENAME TO orders'),
    ('ALTER SEQUENCE table_service_data.numbers RENAME TO orders'),
    ('ALTER TABLE table_service_data.parts RENAME TO orders'),
    ('ALTER TABLE table_service_data.parts RENAME CONSTRAINT parts_key TO orders'),
    ('ALTER INDEX table_service_data.parts_key RENAME TO orders'),
    ('ALTER TABLE table_service_data."Orders" ADD CONSTRAINT orders UNIQUE (row_key, partition_key)'),
    ('ALTER TABLE table_service_data.parts ADD COLUMN n int GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME table_service_data.orders)'),
    ('ALTER TABLE other.orders SET SCHEMA table_service_data'),
    ('ALTER TYPE other.odd SET SCHEMA table_service_data; ALTER TYPE table_service_data.odd RENAME TO orders'),
    ('CREATE VIEW other.seen AS SELECT 1 AS a; ALTER VIEW other.seen SET SCHEMA table_service_data; ALTER VIEW table_service_data.seen RENAME TO orders'),
    ('CREATE MATERIALIZED VIEW other.kept AS SELECT 1 AS a; ALTER MATERIALIZED VIEW other.kept SET SCHEMA table_service_data; ALTER MATERIALIZED VIEW table_service_data.kept RENAME TO orders'),
    ('CREATE FOREIGN TABLE other.far (a int) SERVER elsewhere; ALTER FOREIGN TABLE other.far SET SCHEMA table_service_data; ALTER FOREIGN TABLE table_service_data.far RENAME TO orders'),
    -- A name that goes away for a moment.
    ('ALTER TABLE table_service_data."Orders" RENAME TO away; CREATE TABLE table_service_data.orders (); ALTER TABLE table_service_data.away RENAME TO "Orders"'),
    ('ALTER TABLE table_service_data."Orders" SET SCHEMA other; CREATE VIEW table_service_data."ORDERS" AS SELECT 1 AS a; ALTER TABLE other."Orders" SET SCHEMA table_service_data')
) AS v (statement) \g (format=unaligned)
-- The reserved name.
SELECT pg_temp.outcome('CREATE TABLE table_service_data."tAbles" ()');
SELECT pg_temp.outcome('CREATE VIEW table_service_data.tables AS SELECT 1 AS a');
SELECT pg_temp.outcome('ALTER TABLE table_service_data.parts RENAME TO "Tables"');
-- What comes along has a name too, such as the index of a table.
CREATE VIEW table_service_data."MOVED_PKEY" AS SELECT 1 AS a;
CREATE TABLE other.moved (id int PRIMARY KEY);
SELECT pg_temp.outcome('ALTER TABLE other.moved SET SCHEMA table_service_data');
-- An extension takes its relations along, whatever is quoted.
INSERT INTO pg_extension SELECT 4294967293, 'mover', extowner, 'other'::regnamespace, true, '1.0' FROM pg_extension WHERE extname = 'table_service';
INSERT INTO pg_depend VALUES ('pg_extension'::regclass, 4294967293, 0, 'pg_namespace'::regclass, 'other'::regnamespace, 0, 'n');
ALTER EXTENSION mover ADD TABLE other.orders;
SELECT pg_temp.outcome('ALTER EXTENSION mover SET SCHEMA table_service_data');
SET quote_all_identifiers = on;
SELECT pg_temp.outcome('ALTER EXTENSION mover SET SCHEMA table_service_data');
RESET quote_all_identifiers;
ALTER EXTENSION mover DROP TABLE other.orders;
DELETE FROM pg_depend WHERE objid = 4294967293;
DELETE FROM pg_extension WHERE extname = 'mover';
-- It is as if nothing had happened.
SELECT relname, relkind FROM pg_class WHERE relnamespace = 'table_service_data'::regnamespace ORDER BY relname;
SELECT properties FROM get_entity('ORDERS', 'p', 'r');

-- A relation may change the case of its own name, and a name is free once it is given back, also in one transaction.
ALTER TABLE table_service_data."Orders" RENAME TO "orderS";
SELECT properties FROM get_entity('Orders', 'p', 'r');
BEGIN;
ALTER TABLE table_service_data."orderS" RENAME TO between;
ALTER SEQUENCE table_service_data.numbers RENAME TO orders;
ALTER SEQUENCE table_service_data.orders RENAME TO numbers;
ALTER TABLE table_service_data.between RENAME TO "Orders";
COMMIT;
-- Temporary tables and other schemas have names of their own.
CREATE TEMPORARY TABLE orders ();
CREATE TABLE other."Orders" ();
-- session_replication_role switches other triggers off.
SET session_replication_role = 'replica';
SELECT pg_temp.outcome('CREATE TABLE table_service_data.orders ()');
RESET session_replication_role;
-- The function of the event trigger does nothing by itself: it finds no name that this transaction has given.
SELECT table_service_refuse_taken_names('pg_class'::regclass, oid) FROM pg_class WHERE relname = 'Orders' AND relnamespace = 'table_service_data'::regnamespace;
SELECT table_service_refuse_taken_names(1, 2), table_service_refuse_taken_names('pg_type'::regclass, 0), table_service_refuse_taken_names('pg_constraint'::regclass, 0), table_service_refuse_taken_names('pg_class'::regclass, 0);

-- The names of indexes: what others have taken keeps nobody from an index, an expiry or a table.
CREATE VIEW table_service_data."ORDERS_a" AS SELECT 1 AS a;
CREATE VIEW table_service_data."ORDERS_expiry" AS SELECT 1 AS a;
CREATE TABLE table_service_data."Invoices_PKEY" ();
DO $$ BEGIN FOR i IN 1..120 LOOP EXECUTE format('CREATE VIEW table_service_data."orders_A_%s" AS SELECT 1 AS a', i); END LOOP; END $$;
SELECT create_property_index('Orders', 'A'), set_expiry('Orders', time_to_live => '1 day'), create_table('Invoices');
SELECT property_index_sql('Orders', 'a');
SELECT indexrelid::regclass FROM pg_index WHERE indrelid = 'table_service_data."Invoices"'::regclass;
SELECT delete_table('Invoices');

-- Where the event trigger does not run, two tables can have one name. Then none of them is read or written, whatever its spelling is,
-- also in a session that knows one of them.
SELECT count_entities('Orders');
ALTER EVENT TRIGGER table_service_definitions DISABLE;
CREATE TABLE table_service_data.orders OF entity (PRIMARY KEY (partition_key, row_key));
CREATE TABLE table_service_data.tables OF entity (PRIMARY KEY (partition_key, row_key));
ALTER EVENT TRIGGER table_service_definitions ENABLE ALWAYS;
SELECT pg_temp.outcome($$SELECT insert_entity('orders', 'p', 'r2', '{}')$$);
SELECT pg_temp.outcome(format('SELECT %s', call)) FROM (VALUES
    ($$insert_entity('Orders', 'p', 'r2', '{}')$$), ($$count(*) FROM get_entity('ORDERS', 'p', 'r')$$), ($$count(*) FROM query_entities('Orders')$$),
    ($$create_table('Orders')$$), ($$create_table('orders', if_not_exists => true)$$), ($$delete_table('orders')$$),
    ($$set_access_policies('orders', '[]')$$), ($$get_access_policies('Orders')$$), ($$count_entities('Orders')$$),
    ($$create_change_feed('twins', '{Orders}')$$), ($$clear_table('Orders')$$)) AS v (call)
WHERE pg_temp.outcome(format('SELECT %s', call)) NOT LIKE '42P09 AmbiguousTableName:%';
-- Lists go on, and so does what works on all tables.
SELECT table_name FROM query_tables();
SELECT table_name, is_valid FROM query_expiry();
-- What the owner does to its table has nothing to do with names.
ALTER TABLE table_service_data."Orders" SET (fillfactor = 80);
CREATE INDEX ON table_service_data."Orders" (row_key);
SELECT pg_temp.outcome('ALTER TABLE table_service_data.orders RENAME TO "oRders"');
-- Another relation is not found by its name, so it does not become a table of the service beside one.
DROP TABLE table_service_data.orders, table_service_data.tables;
ALTER EVENT TRIGGER table_service_definitions DISABLE;
CREATE TABLE table_service_data.orders (LIKE entity);
CREATE TABLE table_service_data.tables (LIKE entity);
ALTER EVENT TRIGGER table_service_definitions ENABLE ALWAYS;
ALTER TABLE table_service_data.orders ADD CHECK (row_key <> 'x');
SELECT pg_temp.outcome('ALTER TABLE table_service_data.orders DROP CONSTRAINT orders_row_key_check, OF entity');
SELECT pg_temp.outcome('ALTER TABLE table_service_data.tables OF entity');
SELECT properties FROM get_entity('ORDERS', 'p', 'r');
-- Where the trigger does not run it does, without a new name, and a session that knows the other one sees it.
ALTER EVENT TRIGGER table_service_definitions DISABLE;
ALTER TABLE table_service_data.orders DROP CONSTRAINT orders_row_key_check, OF entity;
SELECT pg_temp.outcome($$SELECT count(*) FROM get_entity('ORDERS', 'p', 'r')$$);
ALTER EVENT TRIGGER table_service_definitions ENABLE ALWAYS;
-- A view cannot be meant.
DROP TABLE table_service_data.orders;
ALTER EVENT TRIGGER table_service_definitions DISABLE;
CREATE VIEW table_service_data.orders AS SELECT 1 AS a;
ALTER EVENT TRIGGER table_service_definitions ENABLE ALWAYS;
SELECT properties FROM get_entity('ORDERS', 'p', 'r');
SELECT create_table('Ordersx'), delete_table('Orders');
SELECT pg_temp.outcome($$SELECT create_table('Orders')$$);

SET client_min_messages = warning;
DO $$ DECLARE v record; BEGIN FOR v IN SELECT relname FROM pg_class WHERE relkind = 'v' AND relnamespace = 'table_service_data'::regnamespace LOOP EXECUTE format('DROP VIEW table_service_data.%I', v.relname); END LOOP; END $$;
DROP TABLE table_service_data.tables, table_service_data.parts, table_service_data."Invoices_PKEY", table_service_data."Ordersx";
DROP SEQUENCE table_service_data.numbers;
DROP SCHEMA other CASCADE;
DROP FOREIGN DATA WRAPPER elsewhere CASCADE;
