-- A table of the service is what a user may have shaped. Every shape is handled or refused with an error of the catalog; none crashes
-- the server.
\set SHOW_CONTEXT never
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
-- What each function makes of a table with one row (p, r).
CREATE FUNCTION pg_temp.try_all(name text) RETURNS TABLE (call text, outcome text) LANGUAGE sql VOLATILE AS $$
  SELECT call, regexp_replace(pg_temp.outcome(format(call, name)), 'datetime''.*?''', 'datetime''…''') FROM (VALUES
    (1, 'SELECT e FROM get_entity(%L, ''p'', ''r'') AS e'),
    (2, 'SELECT e.properties FROM get_entity(%L, ''p'', ''r'', ''A'') AS e'),
    (3, 'SELECT e.properties FROM get_entities(%L, ''p'', ARRAY[''r'']) AS e'),
    (4, 'SELECT e.properties FROM query_entities(%L) AS e'),
    (5, 'SELECT e.properties FROM query_entities(%L, ''A eq 1'', ''A'') AS e'),
    (6, 'SELECT e.properties FROM query_entities(%L, ''A eq 1 or RowKey eq ''''r'''''', ''A'') AS e'),
    (7, 'SELECT e.properties FROM query_page(%L, ''A ge 0'', ''A'') AS e'),
    (8, 'SELECT query_page_json(%L)'),
    (9, 'SELECT merge_entity(%L, ''p'', ''r'', ''{"B": 1}'', ''*'')'),
    (10, 'SELECT insert_or_merge_entity(%L, ''p'', ''r'', ''{"B": 1}'')'),
    (11, 'SELECT etag FROM execute_batch(%L, ''p'', batch_merge(''r'', ''{"B": 1}'', ''*''))'),
    (12, 'SELECT etag FROM execute_batch(%L, ''p'', batch_insert_or_merge(''r'', ''{"B": 1}''))'),
    (13, 'SELECT partition_key FROM partition_statistics(%L)'),
    (14, 'SELECT access FROM explain_query(%L, ''A eq 1'')'),
    (15, 'SELECT replace_entity(%L, ''p'', ''r'', ''{"C": 1}'', ''*'')'),
    (16, 'SELECT delete_entity(%L, ''p'', ''r'')')) AS calls (number, call) ORDER BY number
$$;
\set ECHO all

-- NULL properties: a table that was not made by create_table.
CREATE TABLE table_service_data."Evil" OF table_service.entity;
INSERT INTO table_service_data."Evil" VALUES ('p', 'r', '2026-01-01', NULL);
SELECT * FROM pg_temp.try_all('Evil');
-- The same in a table of ours, whose CHECK passes NULL.
SELECT create_table('Ours');
ALTER TABLE table_service_data."Ours" ALTER COLUMN properties DROP NOT NULL;
INSERT INTO table_service_data."Ours" VALUES ('p', 'r', '2026-01-01', NULL);
SELECT * FROM pg_temp.try_all('Ours');

-- A NULL Timestamp, and NULL keys.
CREATE TABLE table_service_data."NoTime" OF table_service.entity (PRIMARY KEY (partition_key, row_key));
INSERT INTO table_service_data."NoTime" VALUES ('p', 'r', NULL, '{"A": 1}');
SELECT * FROM pg_temp.try_all('NoTime');
CREATE TABLE table_service_data."NoKeys" OF table_service.entity;
INSERT INTO table_service_data."NoKeys" VALUES (NULL, 'r', '2026-01-01', '{"A": 1}'), ('p', NULL, NULL, NULL);
SELECT * FROM pg_temp.try_all('NoKeys');

-- A column with a default that older rows do not have on disk.
CREATE TABLE table_service_data."Grown" (partition_key text COLLATE "C", row_key text COLLATE "C", "timestamp" timestamptz, PRIMARY KEY (partition_key, row_key));
INSERT INTO table_service_data."Grown" VALUES ('p', 'r', '2026-01-01');
ALTER TABLE table_service_data."Grown" ADD COLUMN properties table_service.properties DEFAULT '{"A": 1}';
ALTER TABLE table_service_data."Grown" OF table_service.entity;
SELECT * FROM pg_temp.try_all('Grown');

-- Generated columns.
CREATE TABLE table_service_data."Made" (partition_key text COLLATE "C", row_key text COLLATE "C", "timestamp" timestamptz,
  properties table_service.properties GENERATED ALWAYS AS ('{"A": 1}'::table_service.properties) STORED, PRIMARY KEY (partition_key, row_key));
ALTER TABLE table_service_data."Made" OF table_service.entity;
INSERT INTO table_service_data."Made" (partition_key, row_key, "timestamp") VALUES ('p', 'r', '2026-01-01');
SELECT * FROM pg_temp.try_all('Made');

-- Partitions, of each kind, and children.
CREATE TABLE table_service_data."Divided" OF table_service.entity (PRIMARY KEY (partition_key, row_key)) PARTITION BY HASH (partition_key);
CREATE TABLE table_service_data."Divided_0" PARTITION OF table_service_data."Divided" FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO table_service_data."Divided" VALUES ('p', 'r', '2026-01-01', '{"A": 1}');
SELECT * FROM pg_temp.try_all('Divided');
SELECT pg_temp.outcome($$SELECT query_page_json('Divided_0')$$);

-- Relations that are no tables of the service, whatever their row type.
CREATE VIEW table_service_data."Seen" AS SELECT * FROM table_service_data."Ours";
CREATE MATERIALIZED VIEW table_service_data."Kept" AS SELECT * FROM table_service_data."Ours";
CREATE SEQUENCE table_service_data."Counter";
SELECT pg_temp.outcome(format('SELECT query_page_json(%L)', name)) FROM unnest(ARRAY['Seen', 'Kept', 'Counter']) AS name;
CREATE TEMPORARY TABLE "Passing" OF table_service.entity;
SELECT pg_temp.outcome($$SELECT query_page_json('Passing')$$);

-- No primary key, another one, one that is deferred or of another collation.
CREATE TABLE table_service_data."Heap" OF table_service.entity;
INSERT INTO table_service_data."Heap" VALUES ('p', 'r', '2026-01-01', '{"A": 1}'), ('p', 'r', '2026-01-01', '{"A": 2}');
SELECT * FROM pg_temp.try_all('Heap');
CREATE TABLE table_service_data."Deferred" OF table_service.entity (PRIMARY KEY (partition_key, row_key) DEFERRABLE);
INSERT INTO table_service_data."Deferred" VALUES ('p', 'r', '2026-01-01', '{"A": 1}');
SELECT * FROM pg_temp.try_all('Deferred');
CREATE TABLE table_service_data."Reversed" OF table_service.entity (PRIMARY KEY (row_key, partition_key));
INSERT INTO table_service_data."Reversed" VALUES ('p', 'r', '2026-01-01', '{"A": 1}');
SELECT * FROM pg_temp.try_all('Reversed');

-- A row that is broken is repaired, or deleted, with SQL.
UPDATE table_service_data."Evil" SET properties = '{}' WHERE properties IS NULL;
SELECT properties FROM get_entity('Evil', 'p', 'r');

\set ECHO none
SET client_min_messages = error;
DROP MATERIALIZED VIEW table_service_data."Kept";
DROP VIEW table_service_data."Seen";
DROP SEQUENCE table_service_data."Counter";
SELECT count(delete_table(table_name)) AS deleted FROM query_tables();
