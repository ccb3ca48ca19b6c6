-- Change feeds: names, arguments, what comes out, and what follows the transaction. Real servers, roles and crashes are tested in
-- tests/system.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SELECT create_table('Orders');
SELECT create_table('Items');

-- Names of feeds and other arguments.
SELECT call, pg_temp.outcome('SELECT ' || call)
FROM (VALUES
    ('create_change_feed(NULL)'), ('create_change_feed('''')'), ('create_change_feed('' '')'), ('create_change_feed(''a-b'')'), ('create_change_feed(''ä'')'),
    ('create_change_feed(''a"; DROP TABLE t'')'), ('create_change_feed(repeat(''x'', 39))'), ('create_change_feed(''f'', ''{}'')'), ('create_change_feed(''f'', ''{NULL}'')'),
    ('create_change_feed(''f'', ''{none}'')'), ('create_change_feed(''f'', ''{a b}'')'), ('create_change_feed(''f'', old_images => NULL)'), ('create_change_feed(''f'', if_not_exists => NULL)'),
    ('drop_change_feed(NULL)'), ('drop_change_feed(''a b'')'), ('drop_change_feed(''f'')'), ('drop_change_feed(''f'', NULL)'), ('drop_change_feed(''f'', true)'),
    ('query_changes(NULL)'), ('query_changes(''a b'')'), ('query_changes(''f'')'), ('query_changes(''f'', NULL)'), ('query_changes(''f'', -1)'),
    ('confirm_changes(NULL, ''0/0'')'), ('confirm_changes(''f'', ''0/0'')'), ('confirm_changes(''f'', NULL)'), ('confirm_changes(''f'', '''')'), ('confirm_changes(''f'', ''0'')'),
    ('confirm_changes(''f'', ''0/0/0'')'), ('confirm_changes(''f'', ''x/y'')'), ('confirm_changes(''f'', ''000000001/0'')')) AS v (call);

-- A feed.
SELECT create_change_feed('Feed') ~ '^[0-9A-F]+/[0-9A-F]+$' AS made;
SELECT create_change_feed('feed');
SELECT create_change_feed('feed', if_not_exists => true) = (SELECT "position" FROM query_change_feeds()) AS is_there;
SELECT feed_name, table_names, is_active, wal_status, retained_bytes > 0 AS retains FROM query_change_feeds();
SELECT pubname, puballtables, pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot FROM pg_publication;
SELECT slot_name = 'table_service_' || datoid || '_feed' AS is_named, plugin, slot_type, temporary, two_phase FROM pg_replication_slots WHERE database = current_database();

-- What comes out.
SELECT count(*) FROM query_changes('feed');
SELECT insert_entity('Orders', 'p', '1', '{"A": 1, "When@odata.type": "Edm.DateTime", "When": "2026-01-02T03:04:05.6789012Z"}') IS NOT NULL AS inserted;
BEGIN;
SELECT merge_entity('Orders', 'p', '1', '{"B": 2.5}', '*') IS NOT NULL AS merged;
SAVEPOINT s;
SELECT insert_entity('Items', 'p', 'x', '{}') IS NOT NULL AS inserted;
ROLLBACK TO s;
SELECT insert_entity('Items', 'é😀', '', '{"T": "é😀"}') IS NOT NULL AS inserted;
COMMIT;
UPDATE table_service_data."Items" SET row_key = 'r';
SELECT delete_entity('Orders', 'p', '1');
TRUNCATE table_service_data."Orders", table_service_data."Items";
SELECT dense_rank() OVER (ORDER BY "position"::pg_lsn) AS transaction, committed <= clock_timestamp() AS committed, table_name, kind, partition_key, row_key,
    "timestamp" <= committed AS timestamp, properties, old_properties
FROM query_changes('feed') WITH ORDINALITY AS c ORDER BY ordinality;
-- The session's settings do not matter.
SET client_encoding = 'LATIN1';
SET datestyle = 'SQL, DMY';
SET bytea_output = 'escape';
SELECT count(*) FROM query_changes('feed') WHERE partition_key = U&'\00E9\+01F600';
RESET client_encoding;
RESET datestyle;
RESET bytea_output;
-- A page ends with a transaction.
SELECT (SELECT count(*) FROM query_changes('feed', 0)) AS of_0, (SELECT count(*) FROM query_changes('feed', 1)) AS of_1, (SELECT count(*) FROM query_changes('feed', 2)) AS of_2,
    (SELECT count(*) FROM query_changes('feed', 3)) AS of_3, (SELECT count(*) FROM query_changes('feed', 9223372036854775807)) AS of_all;

-- What is confirmed does not come again.
SELECT "position" FROM query_changes('feed', 2) OFFSET 2 \gset
BEGIN;
SELECT confirm_changes('feed', :'position');
SELECT kind, table_name, row_key FROM query_changes('feed');
ROLLBACK;
SELECT count(*) FROM query_changes('feed');
SELECT confirm_changes('feed', :'position');
SELECT count(*) FROM query_changes('feed');
SELECT "position" = :'position' AS is_confirmed FROM query_change_feeds();
SELECT confirm_changes('feed', '0/0');
SELECT confirm_changes('feed', 'FFFFFFFF/0');
:state

-- A feed follows its transaction.
BEGIN;
SELECT drop_change_feed('feed');
SELECT count(*) FROM query_changes('feed');
ROLLBACK;
SELECT count(*) FROM query_changes('feed');
BEGIN;
SELECT create_change_feed('other', '{items, ITEMS}') IS NOT NULL AS made;
SELECT feed_name, table_names FROM query_change_feeds();
ROLLBACK;
BEGIN;
SELECT create_table('New');
SELECT create_change_feed('other');
:state
ROLLBACK;
SELECT feed_name FROM query_change_feeds();
SELECT count(*) FROM pg_replication_slots WHERE database = current_database();

-- Old images.
SELECT create_change_feed('images', '{orders}', old_images => true) IS NOT NULL AS made;
SELECT insert_entity('Orders', 'p', '1', '{"A": 1}') IS NOT NULL AS inserted;
SELECT insert_or_replace_entity('Orders', 'p', '1', '{"A": 2}') IS NOT NULL AS replaced;
SELECT delete_entity('Orders', 'p', '1');
SELECT kind, properties, old_properties FROM query_changes('images');

-- What is asked of a feed that is there: tables that it has, and old images.
SELECT create_change_feed('images', '{orders}', old_images => true, if_not_exists => true) IS NOT NULL AS is_there;
SELECT create_change_feed('images', '{orders, items}', if_not_exists => true);
:state
SELECT create_change_feed('feed', '{items}', if_not_exists => true) IS NOT NULL AS is_there;
SELECT create_change_feed('feed', old_images => true, if_not_exists => true);
:state

-- A publication that leaves changes out.
ALTER PUBLICATION table_service_images SET (publish = 'insert, update');
SELECT kind FROM query_changes('images');
:state
ALTER PUBLICATION table_service_images SET (publish = 'insert, update, delete, truncate', publish_via_partition_root = false);
SELECT create_change_feed('images', if_not_exists => true);
:state
ALTER PUBLICATION table_service_images SET (publish_via_partition_root);
ALTER PUBLICATION table_service_images SET TABLE table_service_data."Orders" WHERE (row_key > 'm');
SELECT confirm_changes('images', '0/1');
:state
ALTER PUBLICATION table_service_images SET TABLE table_service_data."Orders";
SELECT count(*) FROM query_changes('images');

-- Names in another case are those of other publications.
CREATE PUBLICATION "TABLE_SERVICE_IMAGES";
CREATE PUBLICATION "table_service_Images";
SELECT count(*) FROM query_changes('Images');
SELECT feed_name, table_names FROM query_change_feeds();
DROP PUBLICATION "TABLE_SERVICE_IMAGES", "table_service_Images";

-- Changes of a table that cannot be read are gaps, one in a transaction. Those of other tables go on, and so does the table when it is mended.
SELECT confirm_changes('feed', pg_current_wal_flush_lsn()::text);
ALTER TABLE table_service_data."Orders" NOT OF;
SET client_min_messages = warning;
ALTER TABLE table_service_data."Orders" DROP COLUMN properties CASCADE, ADD COLUMN properties text;
RESET client_min_messages;
BEGIN;
INSERT INTO table_service_data."Orders" (partition_key, row_key, properties) VALUES ('p', '1', 'text'), ('p', '2', 'text');
SELECT insert_entity('Items', 'p', '1', '{}') IS NOT NULL AS inserted;
UPDATE table_service_data."Orders" SET properties = 'other';
COMMIT;
TRUNCATE table_service_data."Orders";
ALTER TABLE table_service_data."Orders" DROP COLUMN properties, ADD COLUMN properties properties NOT NULL;
ALTER TABLE table_service_data."Orders" OF entity;
SELECT insert_entity('Orders', 'p', '3', '{"A": 3}') IS NOT NULL AS inserted;
SELECT dense_rank() OVER (ORDER BY "position"::pg_lsn) AS transaction, table_name, kind, partition_key, row_key, "timestamp" IS NULL AS is_untimed, properties, old_properties
FROM query_changes('feed') WITH ORDINALITY AS c ORDER BY ordinality;
SELECT (SELECT count(*) FROM query_changes('feed', 1)) AS of_1, (SELECT count(*) FROM query_changes('feed', 3)) AS of_3;

-- A part that is missing.
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE '%_images';
SELECT kind FROM query_changes('images');
:state
SELECT feed_name, table_names, is_active, wal_status, retained_bytes > 0 AS retains, "position" IS NULL AS has_no_position FROM query_change_feeds() ORDER BY 1;
SELECT create_change_feed('images', if_not_exists => true) IS NOT NULL AS made;
DROP PUBLICATION table_service_images;
SELECT kind FROM query_changes('images');
:state
SELECT feed_name, table_names FROM query_change_feeds() ORDER BY 1;
SELECT drop_change_feed('images');
SELECT drop_change_feed('feed');
SELECT count(*) FROM query_change_feeds();
SELECT count(*) FROM pg_replication_slots WHERE database = current_database();

-- In a transaction that only reads.
BEGIN READ ONLY;
SELECT create_change_feed('feed');
:state
ROLLBACK;
-- What the relations are: definitions of tables and marks come with the changes, in the order of commits. Numbers stand for the OIDs.
SELECT create_change_feed('all') IS NOT NULL AS made;
CREATE VIEW definitions AS
    SELECT dense_rank() OVER (ORDER BY "position"::pg_lsn) AS transaction, kind, dense_rank() OVER (ORDER BY relation) AS relation, table_name, row_key, properties
    FROM query_feed('all') WITH ORDINALITY ORDER BY ordinality;
CREATE TABLE table_service_data."Stock" OF entity (PRIMARY KEY (partition_key, row_key));
ALTER PUBLICATION table_service_all ADD TABLE table_service_data."Stock";
INSERT INTO table_service_data."Stock" VALUES ('p', '1', now(), '{}');
-- Two names are exchanged in one transaction.
BEGIN;
INSERT INTO table_service_data."Stock" VALUES ('p', '2', now(), '{}');
ALTER TABLE table_service_data."Stock" RENAME TO "Old";
ALTER TABLE table_service_data."Items" RENAME TO "Stock";
SAVEPOINT s;
ALTER TABLE table_service_data."Old" RENAME TO "Items";
RELEASE s;
SELECT insert_entity('Stock', 'p', '3', '{}') IS NOT NULL AS inserted;
SELECT insert_entity('Items', 'p', '4', '{}') IS NOT NULL AS inserted;
COMMIT;
-- What is undone is not told, and neither is what changes no name.
BEGIN;
SAVEPOINT s;
ALTER TABLE table_service_data."Stock" RENAME TO "Other";
ROLLBACK TO s;
ALTER TABLE table_service_data."Stock" SET (fillfactor = 90);
ALTER TABLE table_service_data."Stock" ADD CHECK (true);
COMMENT ON TABLE table_service_data."Stock" IS 'Goods';
COMMIT;
-- There and back, the first time by a statement for indexes.
BEGIN;
ALTER INDEX table_service_data."Stock" RENAME TO "Goods";
ALTER TABLE table_service_data."Goods" RENAME TO "Stock";
COMMIT;
-- In and out of the schema and of the type.
CREATE SCHEMA elsewhere;
ALTER TABLE table_service_data."Stock" SET SCHEMA elsewhere;
ALTER TABLE elsewhere."Stock" RENAME TO "Away";
ALTER TABLE elsewhere."Away" SET SCHEMA table_service_data;
ALTER TABLE table_service_data."Away" NOT OF;
ALTER TABLE table_service_data."Away" ADD COLUMN note text;
ALTER TABLE table_service_data."Away" DROP COLUMN note;
ALTER TABLE table_service_data."Away" OF entity;
-- Created and gone in one transaction, with a change between.
BEGIN;
SELECT create_table('Short');
SELECT insert_entity('Short', 'p', '1', '{}') IS NOT NULL AS inserted;
ALTER TABLE table_service_data."Short" RENAME TO "Shorter";
SELECT delete_table('Shorter');
COMMIT;
-- All that a role owns, and what is no table of the service.
CREATE ROLE feed_stranger;
GRANT CREATE, USAGE ON SCHEMA table_service_data TO feed_stranger;
SET ROLE feed_stranger;
SELECT create_table('Strange') IS NOT NULL AS made, create_table('Stranger') IS NOT NULL AS made;
CREATE TABLE table_service_data.other (a int);
CREATE VIEW table_service_data.view AS SELECT;
CREATE TEMPORARY TABLE passing OF entity;
ALTER TABLE table_service_data.other RENAME TO another;
RESET ROLE;
DROP OWNED BY feed_stranger;
DROP ROLE feed_stranger;
SELECT * FROM definitions;
SELECT (SELECT count(*) FROM query_feed('all', 1)) AS of_1, (SELECT count(*) FROM query_feed('all', 3)) AS of_3, (SELECT count(*) FROM query_changes('all')) AS changes;
SELECT kind, table_name, relation = 'table_service_data."Away"'::regclass AS is_away, old_properties, "timestamp", partition_key FROM query_feed('all') WHERE kind = 'rename';

-- Marks are those of one feed. Others can write what looks like one.
SELECT create_change_feed('second') IS NOT NULL AS made;
SELECT mark_change_feed('All', 'begin "1"') ~ '^[0-9A-F]+/[0-9A-F]+$' AS is_position;
BEGIN;
SELECT mark_change_feed('all', 'undone') IS NOT NULL AS marked;
ROLLBACK;
-- Between two changes, also if it alone is in a subtransaction.
BEGIN;
INSERT INTO table_service_data."Items" VALUES ('p', '5', now(), '{}');
SAVEPOINT s;
SELECT mark_change_feed('all', 'between') IS NOT NULL AS marked;
RELEASE s;
INSERT INTO table_service_data."Items" VALUES ('p', '6', now(), '{}');
COMMIT;
SELECT kind, row_key, properties FROM query_feed('all') WITH ORDINALITY WHERE row_key IN ('5', '6') OR kind = 'mark' ORDER BY ordinality;
SELECT pg_logical_emit_message(true, 'table_service', 'forged') IS NOT NULL AS emitted, pg_logical_emit_message(false, 'table_service', repeat('x', 100)) IS NOT NULL AS emitted;
SELECT kind, relation, table_name, properties FROM query_feed('all') WHERE kind = 'mark';
SELECT kind, row_key FROM query_feed('second');
SELECT call, pg_temp.outcome('SELECT ' || call)
FROM (VALUES
    ('query_feed(NULL)'), ('query_feed(''a b'')'), ('query_feed(''none'')'), ('query_feed(''all'', NULL)'), ('query_feed(''all'', -1)'),
    ('mark_change_feed(NULL, ''m'')'), ('mark_change_feed(''none'', ''m'')'), ('mark_change_feed(''all'', NULL)'), ('mark_change_feed(''all'', '''')'),
    ('mark_change_feed(''all'', repeat(''x'', 257))'), ('mark_change_feed(''all'', repeat(''ä'', 128)) IS NULL'), ('table_service_note_definition(NULL)'), ('table_service_note_definition(0)')) AS v (call);
BEGIN READ ONLY;
SELECT count(*) > 0 AS is_read FROM query_feed('all');
SELECT mark_change_feed('all', 'm');
:state
ROLLBACK;
DROP VIEW definitions;
DROP SCHEMA elsewhere;
SELECT drop_change_feed('all'), drop_change_feed('second');
ALTER TABLE table_service_data."Away" RENAME TO "Stock";
SELECT delete_table('Stock');
SELECT delete_table(name) FROM unnest(ARRAY['Orders', 'Items']) AS name;
