-- Writes of single entities in a shard of this server, without Citus: by the only call of a transaction, if the session says that it makes
-- no others. Citus counts its statements.
\set SHOW_CONTEXT never
\set VERBOSITY terse
\getenv worker1 WORKER1_PORT
SELECT create_table('Written');
\c - - 127.0.0.1 :worker1
SET search_path = table_service, public;
SET citus.enable_stat_counters = on;
SET citus.enable_ddl_propagation = off; -- for the functions of this session
CREATE FUNCTION pg_temp.statements() RETURNS bigint LANGUAGE sql AS
  $$ SELECT query_execution_single_shard FROM pg_catalog.citus_stat_counters WHERE name = current_database() $$;
CREATE FUNCTION pg_temp.write(partitions text[], key text) RETURNS bigint LANGUAGE plpgsql SET search_path = table_service AS $$
DECLARE partition text;
BEGIN
  FOREACH partition IN ARRAY partitions LOOP
    PERFORM insert_entity('Written', partition, key || partition, '{}');
    key := key || key;
  END LOOP;
  RETURN (SELECT count(*) FROM query_entities('Written', format('RowKey ge %L', left(key, 1))));
END $$;
SELECT min('p' || i) FILTER (WHERE is_local) AS here, min('p' || i) FILTER (WHERE NOT is_local) AS there
FROM generate_series(1, 100) AS i, shard_map('Written') AS m
WHERE partition_hash('p' || i) BETWEEN m.from_hash AND m.to_hash \gset

-- The first write shows that Citus locks the shard in the way that is known here.
SET table_service.single_call_transactions = on;
SELECT pg_temp.statements() AS before \gset
SELECT insert_entity('Written', :'here', 'a', '{"N": 1}') IS NOT NULL AS written;
SELECT pg_temp.statements() - :before AS statements;
SELECT insert_entity('Written', :'here', 'b', '{"N": 1}') IS NOT NULL AS written;
SELECT merge_entity('Written', :'here', 'a', '{"M": 2}', '*') IS NOT NULL AS written;
SELECT replace_entity('Written', :'here', 'b', '{"M": 2}', '*') IS NOT NULL AS written;
SELECT pg_temp.statements() - :before AS statements;
SELECT row_key, properties FROM query_entities('Written') ORDER BY 1;
-- Errors are those of a statement.
SELECT insert_entity('Written', :'here', 'a', '{}');
SELECT merge_entity('Written', :'here', 'c', '{}', '*');
SELECT merge_entity('Written', :'here', 'a', '{}', etag('2000-01-01'::timestamptz));
SELECT insert_entity('Written', :'here', repeat('k', 1100), '{}');

-- Elsewhere, and where the session does not say so.
SELECT pg_temp.statements() AS before \gset
SELECT insert_entity('Written', :'there', 'a', '{"N": 1}') IS NOT NULL AS written;
SELECT insert_entity('Written', :'there', 'b', '{"N": 1}') IS NOT NULL AS written;
SET table_service.single_call_transactions = off;
SELECT insert_entity('Written', :'here', 'c', '{"N": 1}') IS NOT NULL AS written;
SET table_service.single_call_transactions = on;
SET table_service.enable_direct_access = off;
SELECT insert_entity('Written', :'here', 'd', '{"N": 1}') IS NOT NULL AS written;
RESET table_service.enable_direct_access;
SELECT pg_temp.statements() - :before AS statements;

-- A transaction that may go on finds what it has written.
SELECT pg_temp.statements() AS before \gset
BEGIN;
SELECT insert_entity('Written', :'here', 'e', '{"N": 1}') IS NOT NULL AS written;
SELECT count(*) FROM query_entities('Written', 'RowKey eq ''e''');
ROLLBACK;
SELECT pg_temp.statements() - :before AS statements;
SELECT insert_entity('Written', :'here', 'e', '{"N": 1}') IS NOT NULL AS written\; SELECT count(*) FROM query_entities('Written', 'RowKey eq ''e''');
SELECT delete_entity('Written', :'here', 'e');
-- The second call of a transaction is a statement, and so are both if the first one wrote elsewhere.
SELECT pg_temp.statements() AS before \gset
SELECT pg_temp.write(ARRAY[:'here', :'here'], 'f');
SELECT pg_temp.statements() - :before AS statements;
SELECT pg_temp.write(ARRAY[:'there', :'here'], 'g');
SELECT pg_temp.statements() - :before AS statements;
SELECT count(*) FROM query_entities('Written');

\getenv coordinator PGPORT
\c - - - :coordinator
SELECT table_service.delete_table('Written');
