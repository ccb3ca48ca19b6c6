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
SELECT create_property_index('Heap', 'A');
INSERT INTO table_service_data."Heap" VALUES ('p', 'r', '2026-01-01', '{"A": 1}');
SELECT access FROM explain_query('Heap', 'A eq 1');
SELECT row_key FROM query_entities('Heap', 'A eq 1');
CREATE TABLE table_service_data."Deferred" OF table_service.entity (PRIMARY KEY (partition_key, row_key) DEFERRABLE);
INSERT INTO table_service_data."Deferred" VALUES ('p', 'r', '2026-01-01', '{"A": 1}');
SELECT * FROM pg_temp.try_all('Deferred');
CREATE TABLE table_service_data."Reversed" OF table_service.entity (PRIMARY KEY (row_key, partition_key));
INSERT INTO table_service_data."Reversed" VALUES ('p', 'r', '2026-01-01', '{"A": 1}');
SELECT * FROM pg_temp.try_all('Reversed');

-- Other keys beside a property index: of another type, of one column. The index counts only what it has.
CREATE TABLE table_service_data."Timed" OF table_service.entity (PRIMARY KEY ("timestamp"));
CREATE TABLE table_service_data."OneKey" OF table_service.entity (PRIMARY KEY (row_key));
CREATE TABLE table_service_data."Bags" OF table_service.entity (PRIMARY KEY (properties, partition_key));
INSERT INTO table_service_data."Timed" SELECT 'p', 'r' || i, '2026-01-01'::timestamptz + i * interval '1 s', jsonb_build_object('A', i) FROM generate_series(1, 500) AS i;
INSERT INTO table_service_data."OneKey" SELECT * FROM table_service_data."Timed";
INSERT INTO table_service_data."Bags" SELECT * FROM table_service_data."Timed";
SELECT create_property_index(name, 'A') FROM unnest(ARRAY['Timed', 'OneKey', 'Bags']) AS name;
SELECT name, filter, (SELECT count(*) FROM query_entities(name, filter)), (SELECT count(*) FROM query_page(name, filter))
FROM unnest(ARRAY['Timed', 'OneKey', 'Bags']) AS name,
  unnest(ARRAY['A gt 1 and A lt 4', 'PartitionKey eq ''p'' and A gt 1 and A lt 4', 'PartitionKey eq ''p'' and RowKey gt ''r'' and A gt 1 and A lt 4', 'PartitionKey gt ''a'' and A lt 4']) AS filter;

-- Columns that are gone, so that those of an entity have other numbers.
CREATE TABLE table_service_data."Holes" (gone int, partition_key text COLLATE "C", row_key text COLLATE "C", gone2 text, "timestamp" timestamptz,
  properties table_service.properties, gone3 int, PRIMARY KEY (partition_key, row_key));
INSERT INTO table_service_data."Holes" SELECT 7, 'p', 'r' || i, 'x', '2026-01-01', jsonb_build_object('A', i) FROM generate_series(1, 500) AS i;
ALTER TABLE table_service_data."Holes" DROP COLUMN gone, DROP COLUMN gone2, DROP COLUMN gone3;
ALTER TABLE table_service_data."Holes" OF table_service.entity;
SELECT row_key FROM table_service_data."Holes" AS t WHERE matches(t, 'PartitionKey eq ''p'' and RowKey lt ''r2'' and A eq 1');
SELECT create_property_index('Holes', 'A');
SELECT table_name, property, is_valid FROM query_property_indexes('Holes');
SELECT row_key FROM table_service_data."Holes" AS t WHERE matches(t, 'PartitionKey eq ''p'' and A eq 1');
SELECT access FROM explain_query('Holes', 'A eq 1');
SELECT row_key FROM query_entities('Holes', 'A gt 7 and A lt 10');
DELETE FROM table_service_data."Holes";
INSERT INTO table_service_data."Holes" VALUES ('p', 'r', '2026-01-01', '{"A": 1}');
SELECT * FROM pg_temp.try_all('Holes');

-- A row that is broken is repaired, or deleted, with SQL.
UPDATE table_service_data."Evil" SET properties = '{}' WHERE properties IS NULL;
SELECT properties FROM get_entity('Evil', 'p', 'r');

\set ECHO none
SET client_min_messages = error;
DROP MATERIALIZED VIEW table_service_data."Kept";
DROP VIEW table_service_data."Seen";
DROP SEQUENCE table_service_data."Counter";
SELECT count(delete_table(table_name)) AS deleted FROM query_tables();
