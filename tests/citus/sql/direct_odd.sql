-- Direct access on the server of the shard, where the shard, the table or the session is not as usual: the answers are those of statements.
\set SHOW_CONTEXT never
\getenv worker1 WORKER1_PORT
\getenv coordinator PGPORT
SET client_min_messages = error;
CREATE ROLE direct_reader LOGIN;
SET ROLE owner;
SELECT create_table('Odd');
RESET ROLE;
SELECT format('GRANT SELECT (partition_key, row_key, "timestamp", properties), INSERT (partition_key, row_key, "timestamp", properties) ON table_service_data."Odd" TO direct_reader')
\gexec
\c - - 127.0.0.1 :worker1
SET citus.enable_ddl_propagation = off;
-- Of this server. A session keeps plans of shards that are replaced, so each has a new one.
ALTER DATABASE tables SET citus.enable_manual_changes_to_shards = on;
ALTER DATABASE tables SET citus.enable_ddl_propagation = off;
ALTER DATABASE tables SET client_min_messages = error;
ALTER DATABASE tables SET search_path = table_service, public;
\c
GRANT USAGE ON SCHEMA table_service TO direct_reader;
GRANT USAGE ON SCHEMA table_service_data TO direct_reader;
SELECT min('p' || i) AS here FROM generate_series(1, 100) AS i, shard_map('Odd') AS m
WHERE is_local AND partition_hash('p' || i) BETWEEN m.from_hash AND m.to_hash \gset
SELECT format('table_service_data."Odd_%s"', get_shard_id_for_distribution_column('table_service_data."Odd"', :'here')) AS shard \gset
SELECT insert_entity('Odd', :'here', 'a', '{"N": 1}') IS NOT NULL AS written;
CREATE SCHEMA odd;
GRANT USAGE ON SCHEMA odd TO PUBLIC;
-- Reads of an entity and of its partition, what a batch inserts, and what a read and a count then find; and by how many commands the batch was inserted.
CREATE FUNCTION odd.answer(name text, partition text, direct boolean) RETURNS text[] LANGUAGE plpgsql SET search_path = table_service AS $$
DECLARE
  answer text;
  ended text;
  commands text;
BEGIN
  PERFORM pg_catalog.set_config('table_service.enable_direct_access', direct::text, true);
  BEGIN
    SELECT concat(count(*), min(properties::text)) INTO answer FROM get_entity(name, partition, 'a');
    SELECT concat(answer, ', ', count(*), min(properties::text)) INTO answer FROM query_entities(name, format('PartitionKey eq ''%s''', partition));
    SELECT concat(answer, ', ', count(*), min(properties::text)) INTO answer FROM query_page(name, format('PartitionKey eq ''%s''', partition));
  EXCEPTION WHEN OTHERS THEN
    answer := concat(SQLSTATE, ' ', SQLERRM);
  END;
  BEGIN
    SELECT count(b.etag)::text INTO ended FROM execute_batch(name, partition, VARIADIC
      ARRAY(SELECT batch_insert('b' || lpad(i::text, 2, '0'), json_build_object('N', i)::properties) FROM generate_series(1, 10) AS i)) AS b;
    ended := concat(ended, ', ', (SELECT concat(count(*), min(properties::text)) FROM get_entity(name, partition, 'b07')),
      ', ', (SELECT count(*) FROM query_entities(name, format('PartitionKey eq ''%s''', partition))));
    BEGIN
      EXECUTE format('SELECT count(DISTINCT cmin::text) FROM table_service_data.%I WHERE partition_key = $1 AND row_key > $2', name)
        INTO commands USING partition, 'b';
    EXCEPTION WHEN OTHERS THEN
      NULL; -- A view has none.
    END;
    RAISE EXCEPTION USING ERRCODE = 'UNDO1';
  EXCEPTION WHEN SQLSTATE 'UNDO1' THEN
    RETURN ARRAY[concat(answer, '; ', ended), commands];
  WHEN OTHERS THEN
    RETURN ARRAY[concat(answer, '; ', SQLSTATE, ' ', SQLERRM)];
  END;
END $$;
-- Whether direct access gives the answers of statements, whether it inserted the batch, and these answers.
CREATE FUNCTION odd.same(partition text, name text DEFAULT 'Odd', OUT same boolean, OUT direct boolean, OUT answers text) LANGUAGE plpgsql AS $$
DECLARE
  of_direct text[] := odd.answer(name, partition, true);
  of_statements text[] := odd.answer(name, partition, false);
BEGIN
  same := of_direct[1] = of_statements[1];
  direct := of_direct[2] = '2' AND of_statements[2] = '1';
  answers := regexp_replace(regexp_replace(of_statements[1], '_[0-9]{6}', '_n', 'g'), 'OID [0-9]+', 'OID n', 'g');
END $$;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA odd TO PUBLIC;
SELECT * FROM odd.same(:'here');

-- Sessions.
SET citus.enable_local_execution = off;
SELECT * FROM odd.same(:'here');
RESET citus.enable_local_execution;
SET citus.override_table_visibility = off;
SET citus.hide_citus_dependent_objects = on;
SET search_path = '';
SELECT * FROM odd.same(:'here');
RESET citus.override_table_visibility;
RESET citus.hide_citus_dependent_objects;
SET search_path = table_service, public;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM odd.same(:'here');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;
SELECT * FROM odd.same(:'here');
COMMIT;
BEGIN;
SELECT * FROM odd.same(:'here');
PREPARE TRANSACTION 'odd';
ROLLBACK PREPARED 'odd';

-- Roles: the owner, one with privileges on the columns, and one whose privileges on the shard are gone.
SET ROLE owner;
SELECT * FROM odd.same(:'here');
SET ROLE direct_reader;
SELECT * FROM odd.same(:'here');
RESET ROLE;
GRANT SELECT, INSERT ON table_service_data."Odd" TO direct_reader;
SET ROLE direct_reader;
SELECT * FROM odd.same(:'here');
RESET ROLE;

-- The table.
ALTER TABLE table_service_data."Odd" ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SET ROLE owner;
SELECT * FROM odd.same(:'here');
RESET ROLE;
ALTER TABLE table_service_data."Odd" DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY;
CREATE RULE r AS ON INSERT TO table_service_data."Odd" DO INSTEAD NOTHING;
SELECT * FROM odd.same(:'here');
DROP RULE r ON table_service_data."Odd";

-- The shard: policies, a trigger, columns, constraints, indexes, a child.
ALTER TABLE :shard ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY p ON :shard USING (row_key > 'b') WITH CHECK (true);
SET ROLE owner;
SELECT * FROM odd.same(:'here');
RESET ROLE;
DROP POLICY p ON :shard;
ALTER TABLE :shard DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY;
CREATE FUNCTION odd.change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.properties := '{"T": 1}'::table_service.properties; RETURN NEW; END $$;
CREATE FUNCTION odd.skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE FUNCTION odd.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
CREATE TRIGGER t BEFORE INSERT ON :shard FOR EACH ROW EXECUTE FUNCTION odd.change();
SELECT * FROM odd.same(:'here');
DROP TRIGGER t ON :shard;
CREATE TRIGGER t BEFORE INSERT ON :shard FOR EACH ROW WHEN (NEW.row_key = 'b05') EXECUTE FUNCTION odd.skip();
SELECT * FROM odd.same(:'here');
DROP TRIGGER t ON :shard;
CREATE CONSTRAINT TRIGGER t AFTER INSERT ON :shard DEFERRABLE FOR EACH ROW EXECUTE FUNCTION odd.fail();
SELECT * FROM odd.same(:'here');
DROP TRIGGER t ON :shard;
CREATE TRIGGER t AFTER INSERT ON :shard FOR EACH STATEMENT EXECUTE FUNCTION odd.fail();
SELECT * FROM odd.same(:'here');
DROP TRIGGER t ON :shard;
CREATE RULE r AS ON INSERT TO :shard DO INSTEAD NOTHING;
SELECT * FROM odd.same(:'here');
DROP RULE r ON :shard;
CREATE FUNCTION odd.is_allowed(text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT $1 <> 'b05' $$;
ALTER TABLE :shard ADD CONSTRAINT odd CHECK (odd.is_allowed(row_key));
SELECT * FROM odd.same(:'here');
ALTER TABLE :shard DROP CONSTRAINT odd;
CREATE UNIQUE INDEX odd_length ON :shard ((length(row_key)));
SELECT * FROM odd.same(:'here');
DROP INDEX table_service_data.odd_length;
CREATE TABLE odd.child () INHERITS (:shard);
INSERT INTO odd.child SELECT :'here', 'a', now(), '{"N": 2}';
SELECT * FROM odd.same(:'here');
DROP TABLE odd.child;
ANALYZE :shard; -- It says that there is a child.

-- Something else in the place of the shard.
SELECT format('"Odd_%s"', get_shard_id_for_distribution_column('table_service_data."Odd"', :'here')) AS name \gset
ALTER TABLE :shard SET SCHEMA odd;
\c
SELECT * FROM odd.same(:'here');
CREATE VIEW :shard AS SELECT partition_key, row_key, "timestamp", '{"V": 1}'::properties AS properties FROM odd.:name;
\c
SELECT * FROM odd.same(:'here');
DROP VIEW :shard;
CREATE MATERIALIZED VIEW :shard AS SELECT * FROM odd.:name;
\c
SELECT * FROM odd.same(:'here');
DROP MATERIALIZED VIEW :shard;
CREATE SEQUENCE :shard;
\c
SELECT * FROM odd.same(:'here');
DROP SEQUENCE :shard;
CREATE TYPE :shard AS (partition_key text, row_key text, "timestamp" timestamptz, properties properties);
\c
SELECT * FROM odd.same(:'here');
DROP TYPE :shard;
CREATE FOREIGN DATA WRAPPER odd;
CREATE SERVER odd FOREIGN DATA WRAPPER odd;
CREATE FOREIGN TABLE :shard (partition_key text COLLATE "C", row_key text COLLATE "C", "timestamp" timestamptz, properties properties) SERVER odd;
\c
SELECT * FROM odd.same(:'here');
DROP FOREIGN DATA WRAPPER odd CASCADE;
CREATE TABLE :shard (partition_key text COLLATE "C", row_key text COLLATE "C", "timestamp" timestamptz, properties properties, PRIMARY KEY (partition_key, row_key)) PARTITION BY LIST (partition_key);
CREATE TABLE odd.part PARTITION OF :shard DEFAULT;
\c
SELECT * FROM odd.same(:'here');
DROP TABLE :shard;
CREATE TABLE :shard (row_key text COLLATE "C", partition_key text COLLATE "C", properties properties, "timestamp" timestamptz, PRIMARY KEY (partition_key, row_key));
\c
SELECT * FROM odd.same(:'here');
DROP TABLE :shard;
ALTER TABLE odd.:name SET SCHEMA table_service_data;
\c
SELECT * FROM odd.same(:'here');
-- Without a key, with one that compares otherwise, and with columns that an entity lacks.
ALTER TABLE :shard SET SCHEMA odd;
CREATE TABLE :shard (partition_key text COLLATE "C", row_key text COLLATE "C", "timestamp" timestamptz, properties table_service.properties);
INSERT INTO :shard VALUES (:'here', 'a', now(), '{"N": 4}'), (:'here', 'a', NULL, NULL);
\c
SELECT * FROM odd.same(:'here');
DROP TABLE :shard;
CREATE TABLE :shard (partition_key text COLLATE "POSIX", row_key text COLLATE "POSIX", "timestamp" timestamptz, properties table_service.properties, PRIMARY KEY (row_key, partition_key));
INSERT INTO :shard VALUES (:'here', 'a', now(), '{"N": 5}');
\c
SELECT * FROM odd.same(:'here');
DROP TABLE :shard;
ALTER TABLE odd.:name SET SCHEMA table_service_data;
\c
ALTER TABLE :shard ADD COLUMN more int GENERATED ALWAYS AS (1 / (length(row_key) - 3)) STORED;
SELECT * FROM odd.same(:'here');
ALTER TABLE :shard DROP COLUMN more;
SELECT * FROM odd.same(:'here');

-- Other kinds of tables of Citus: with two copies, with a copy on each server, in one shard, as those of a schema, and distributed by RowKey.
\c - - - :coordinator
SET client_min_messages = error;
SET search_path = table_service, public;
SET citus.shard_replication_factor = 2;
CREATE TABLE table_service_data."Twice" OF table_service.entity (PRIMARY KEY (partition_key, row_key));
SELECT create_distributed_table('table_service_data."Twice"', 'partition_key', colocate_with => 'none', shard_count => 4);
RESET citus.shard_replication_factor;
CREATE TABLE table_service_data."Everywhere" OF table_service.entity (PRIMARY KEY (partition_key, row_key));
SELECT create_reference_table('table_service_data."Everywhere"');
CREATE TABLE table_service_data."Once" OF table_service.entity (PRIMARY KEY (partition_key, row_key));
SELECT create_distributed_table('table_service_data."Once"', NULL, colocate_with => 'none');
CREATE TABLE table_service_data."ByRow" OF table_service.entity (PRIMARY KEY (partition_key, row_key));
SELECT create_distributed_table('table_service_data."ByRow"', 'row_key', colocate_with => 'none', shard_count => 4);
\c - - - :worker1
SELECT name, insert_entity(name, :'here', 'a', '{"N": 1}') IS NOT NULL AS written FROM unnest('{Twice,Everywhere,Once,ByRow}'::text[]) AS name;
SELECT name, a.* FROM unnest('{Twice,Everywhere,Once,ByRow}'::text[]) AS name, odd.same(:'here', name) AS a;
SELECT count(*) FROM shard_map('ByRow');
-- Partitions with one entity each, all in one shard.
SELECT count(insert_entity('ByRow', 'page' || i, 'r', '{}')) FROM generate_series(101, 300) AS i;
SELECT count(*), min(partition_key), max(partition_key) FROM query_page('ByRow', 'PartitionKey ge ''page''', top => 150);
SELECT (SELECT count(row_key) FROM generate_series(101, 300) AS i, get_entity('ByRow', 'page' || i, 'r')) AS got,
  (SELECT count(row_key) FROM generate_series(101, 300) AS i, query_entities('ByRow', format('PartitionKey eq ''page%s''', i))) AS found;
DROP SCHEMA odd CASCADE;
ALTER DATABASE tables RESET ALL;
REVOKE ALL ON SCHEMA table_service, table_service_data FROM direct_reader;
\c - - - :coordinator
SET client_min_messages = error;
SELECT table_service.delete_table(name) FROM unnest('{Odd,Twice,Everywhere,Once,ByRow}'::text[]) AS name;
DROP ROLE direct_reader;
