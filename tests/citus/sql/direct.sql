-- Direct access to shards: on the server that has the partition, an entity is read without a statement of Citus, and of many inserts only the
-- first is one. Citus counts its statements.
\set SHOW_CONTEXT never
\getenv worker1 WORKER1_PORT
SELECT create_table('Direct');
\c - - 127.0.0.1 :worker1
SET search_path = table_service, public;
SET citus.enable_stat_counters = on;
SET citus.enable_ddl_propagation = off; -- for the functions of this session
CREATE FUNCTION pg_temp.statements() RETURNS bigint LANGUAGE sql AS
  $$ SELECT query_execution_single_shard FROM pg_catalog.citus_stat_counters WHERE name = current_database() $$;
-- A partition that is here, and one that is not.
SELECT min('p' || i) FILTER (WHERE is_local) AS here, min('p' || i) FILTER (WHERE NOT is_local) AS there
FROM generate_series(1, 100) AS i, shard_map('Direct') AS m
WHERE partition_hash('p' || i) BETWEEN m.from_hash AND m.to_hash \gset
SELECT count(insert_entity('Direct', p, r, '{"N": 1}')) FROM unnest(ARRAY[:'here', :'there']) AS p, unnest('{a,b}'::text[]) AS r;

-- Reads.
SELECT pg_temp.statements() AS before \gset
SELECT row_key, properties FROM get_entity('Direct', :'here', 'a');
SELECT row_key, properties FROM get_entity('Direct', :'here', 'b', 'Absent');
SELECT row_key, properties FROM get_entity('Direct', :'here', 'absent');
SELECT pg_temp.statements() - :before AS statements;
SELECT row_key, properties FROM get_entity('Direct', :'there', 'a');
SELECT pg_temp.statements() - :before AS statements;
SET table_service.enable_direct_access = off;
SELECT row_key, properties FROM get_entity('Direct', :'here', 'a');
RESET table_service.enable_direct_access;
SELECT pg_temp.statements() - :before AS statements;
-- Reads of several partitions: only those that are not here are statements.
SELECT pg_temp.statements() AS before \gset
SELECT e.index, e.partition_key = :'here' AS is_here, e.row_key FROM get_entities_by_keys('Direct', ARRAY[:'here', :'here', :'here'], '{b,absent,a}') AS e;
SELECT pg_temp.statements() - :before AS statements;
SELECT e.index, e.partition_key = :'here' AS is_here, e.row_key FROM get_entities_by_keys('Direct', ARRAY[:'here', :'there', :'here'], '{a,b,b}') AS e;
SELECT pg_temp.statements() - :before AS statements;
-- Nor with a newer Citus than was tested.
SELECT pg_temp.statements() AS before \gset
SET table_service.direct_access_citus_major = 13;
SELECT row_key, properties FROM get_entity('Direct', :'here', 'a');
RESET table_service.direct_access_citus_major;
SELECT pg_temp.statements() - :before AS statements;

-- Queries of one partition are read so too: pages, and all entities.
SELECT count(insert_entity('Direct', :'here', 'q' || i, json_build_object('N', i)::properties)) FROM generate_series(1, 5) AS i;
CREATE FUNCTION pg_temp.rows(partition text, condition text) RETURNS text LANGUAGE sql SET search_path = table_service AS $$
  SELECT string_agg(e.row_key, ' ') FROM query_entities('Direct', format('PartitionKey eq ''%s'' and (%s)', partition, condition)) AS e $$;
SELECT pg_temp.statements() AS before \gset
SELECT pg_temp.rows(:'here', 'RowKey ge ''q2'' and RowKey lt ''q4''') AS from_to, pg_temp.rows(:'here', 'RowKey gt ''q2'' and RowKey le ''q4''') AS above_up_to,
  pg_temp.rows(:'here', 'RowKey eq ''q3''') AS point, pg_temp.rows(:'here', 'RowKey gt ''q5''') AS none,
  pg_temp.rows(:'here', 'RowKey lt ''b'' or RowKey gt ''q4''') AS ranges, pg_temp.rows(:'here', 'N ge 2 and N lt 5') AS filtered;
SELECT row_key, continuation_token IS NOT NULL AS has_next FROM query_page('Direct', format('PartitionKey eq ''%s'' and N ge 2', :'here'), top => 2);
SELECT pg_temp.statements() - :before AS statements;
SELECT pg_temp.rows(:'there', 'true');
SELECT pg_temp.statements() - :before AS statements;
SELECT count(delete_entity('Direct', :'here', 'q' || i)) FROM generate_series(1, 5) AS i;

-- A transaction reads what it has written: in this session ...
BEGIN;
SELECT merge_entity('Direct', :'here', 'a', '{"N": 2}', '*') IS NOT NULL AS written;
SELECT properties FROM get_entity('Direct', :'here', 'a');
ROLLBACK;
-- ... and in another one, which Citus has begun for it.
BEGIN;
SET LOCAL citus.enable_local_execution = off;
SELECT merge_entity('Direct', :'here', 'a', '{"N": 3}', '*') IS NOT NULL AS written;
SELECT properties FROM get_entity('Direct', :'here', 'a');
SELECT pg_temp.rows(:'here', 'N eq 3');
ROLLBACK;

-- Batches of inserts: the first row is of one command, and the others of another.
CREATE FUNCTION pg_temp.batch(partition text, prefix text) RETURNS bigint LANGUAGE sql SET search_path = table_service AS
  $$ SELECT count(*) FROM execute_batch('Direct', partition, VARIADIC
       ARRAY(SELECT batch_insert(prefix || lpad(i::text, 2, '0'), json_build_object('N', i)::properties) FROM generate_series(1, 20) AS i)) $$;
SELECT pg_temp.batch(:'here', 'c'), pg_temp.batch(:'there', 'c');
SELECT partition_key = :'here' AS is_here, count(*), count(DISTINCT cmin::text) AS commands, count(DISTINCT "timestamp") AS moments
FROM table_service_data."Direct" WHERE partition_key = :'here' AND row_key LIKE 'c%' GROUP BY 1;
SELECT partition_key = :'here' AS is_here, count(*), count(DISTINCT cmin::text) AS commands, count(DISTINCT "timestamp") AS moments
FROM table_service_data."Direct" WHERE partition_key = :'there' AND row_key LIKE 'c%' GROUP BY 1;
-- One that exists, in the first place and in the last. Which partition is here differs.
\set VERBOSITY terse
SELECT count(*) FROM execute_batch('Direct', :'here', VARIADIC ARRAY(SELECT batch_insert('c' || lpad(i::text, 2, '0'), '{}') FROM generate_series(20, 40) AS i));
SELECT count(*) FROM execute_batch('Direct', :'here', VARIADIC ARRAY(SELECT batch_insert('b' || lpad(i::text, 2, '0'), '{}') FROM generate_series(1, 20) AS i) || batch_insert('c05', '{}'));
\set VERBOSITY default
SELECT count(*) FROM query_entities('Direct', format('PartitionKey eq ''%s''', :'here'));
-- An invalid one.
SELECT execute_batch('Direct', :'here', VARIADIC ARRAY(SELECT batch_insert('d' || lpad(i::text, 2, '0'), '{}') FROM generate_series(1, 20) AS i) || batch_insert(repeat('k', 1100), '{}'));
-- Where Citus writes in another session, it writes all of them there.
BEGIN;
SET LOCAL citus.enable_local_execution = off;
SELECT pg_temp.batch(:'here', 'e');
SELECT count(*) FROM query_entities('Direct', format('PartitionKey eq ''%s'' and RowKey ge ''e''', :'here'));
ROLLBACK;
-- Statements of the same transaction find them.
BEGIN;
SELECT pg_temp.batch(:'here', 'e'), pg_temp.batch(:'there', 'e');
SELECT count(*) FROM query_entities('Direct', 'RowKey ge ''e''');
SELECT properties FROM get_entity('Direct', :'here', 'e07');
SELECT delete_entity('Direct', :'here', 'e07');
SELECT properties FROM get_entity('Direct', :'here', 'e07');
ROLLBACK;
SELECT count(*) FROM query_entities('Direct', 'RowKey ge ''e''');

-- A session needs no memory for what it has done: Citus would keep a plan of each call.
CREATE PROCEDURE pg_temp.work(partition text) LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN 1..100 LOOP
    PERFORM insert_or_merge_entity('Direct', partition, 'm', '{"N": 1}'), merge_entity('Direct', partition, 'm', '{"N": 2}', '*');
    PERFORM insert_entity('Direct', partition, 'n', '{}');
    PERFORM delete_entity('Direct', partition, 'n');
    PERFORM count(*) FROM query_page('Direct', format('PartitionKey eq ''%s''', partition), top => 5);
    PERFORM count(*) FROM query_entities('Direct', format('PartitionKey eq ''%s''', partition));
  END LOOP;
END $$;
CALL pg_temp.work(:'here');
SELECT sum(total_bytes) AS before FROM pg_backend_memory_contexts \gset
CALL pg_temp.work(:'here');
SELECT sum(total_bytes) - :before < 2 * 1024 * 1024 AS is_kept FROM pg_backend_memory_contexts;

-- The privileges are those on the table.
\c - - - :worker1
SET client_min_messages = error;
SET citus.enable_ddl_propagation = off;
CREATE ROLE citus_stranger;
GRANT USAGE ON SCHEMA table_service TO citus_stranger;
SET ROLE citus_stranger;
SELECT table_service.get_entity('Direct', :'here', 'a');
RESET ROLE;
REVOKE USAGE ON SCHEMA table_service FROM citus_stranger;
DROP ROLE citus_stranger;

-- A shard with something of somebody else is read by statements.
SET citus.enable_stat_counters = on;
SET citus.enable_manual_changes_to_shards = on;
SELECT format('table_service_data."Direct_%s"', get_shard_id_for_distribution_column('table_service_data."Direct"', :'here')) AS shard \gset
ALTER TABLE :shard ENABLE ROW LEVEL SECURITY;
SELECT query_execution_single_shard AS before FROM citus_stat_counters WHERE name = current_database() \gset
SELECT row_key FROM table_service.get_entity('Direct', :'here', 'a');
SELECT row_key FROM table_service.query_page('Direct', format('PartitionKey eq ''%s''', :'here'), top => 1);
SELECT query_execution_single_shard - :before AS statements FROM citus_stat_counters WHERE name = current_database();
ALTER TABLE :shard DISABLE ROW LEVEL SECURITY;
-- So is one that Citus keeps twice.
BEGIN;
INSERT INTO pg_dist_placement (placementid, shardid, shardstate, shardlength, groupid)
  SELECT -1, shardid, shardstate, shardlength, groupid + 1 FROM pg_dist_placement
  WHERE shardid = get_shard_id_for_distribution_column('table_service_data."Direct"', :'here');
SELECT row_key FROM table_service.get_entity('Direct', :'here', 'a');
SELECT query_execution_single_shard - :before AS statements FROM citus_stat_counters WHERE name = current_database();
ROLLBACK;
SELECT row_key FROM table_service.get_entity('Direct', :'here', 'a');
SELECT query_execution_single_shard - :before AS statements FROM citus_stat_counters WHERE name = current_database();

\getenv coordinator PGPORT
\c - - - :coordinator
SELECT table_service.delete_table('Direct');
