-- Entities of a distributed table, through the coordinator and through a worker.
\set SHOW_CONTEXT never
\getenv worker1 WORKER1_PORT
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
SELECT create_table('Entities');

-- The same statements everywhere. Partitions are on all servers.
SET client_min_messages = error; -- Citus says that it does not send it to other servers
CREATE FUNCTION pg_temp.outcome(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE statement INTO result;
    RETURN coalesce(result, 'NULL');
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
RESET client_min_messages;
SELECT count(insert_entity('Entities', 'p' || i, 'r', format('{"N": %s}', i)::properties)) FROM generate_series(1, 40) AS i;
SELECT pg_temp.outcome($$SELECT insert_entity('Entities', 'p1', 'r', '{}')$$);
SELECT merge_entity('Entities', 'p1', 'r', '{"M": true}', '*') IS NOT NULL AS written;
SELECT replace_entity('Entities', 'p2', 'r', '{"M": true}', etag(e)) IS NOT NULL AS written FROM get_entity('Entities', 'p2', 'r') AS e;
SELECT pg_temp.outcome($$SELECT merge_entity('Entities', 'p2', 'r', '{}', 'W/"datetime''2020-01-01T00%3A00%3A00Z''"')$$);
SELECT pg_temp.outcome($$SELECT merge_entity('Entities', 'p99', 'r', '{}', '*')$$);
SELECT insert_or_merge_entity('Entities', 'p3', 'r', '{"M": 1}') IS NOT NULL AS written;
SELECT insert_or_merge_entity('Entities', 'p41', 'r', '{"M": 1}') IS NOT NULL AS written;
SELECT insert_or_replace_entity('Entities', 'p4', 'r', '{"M": 1}') IS NOT NULL AS written;
SELECT delete_entity('Entities', 'p5', 'r', '*');
SELECT pg_temp.outcome($$SELECT delete_entity('Entities', 'p5', 'r', '*')$$);
SELECT partition_key, properties FROM query_entities('Entities') WHERE partition_key IN ('p1', 'p2', 'p3', 'p4', 'p41');
SELECT row_key, properties FROM get_entities('Entities', 'p1', '{r, absent}');
SELECT * FROM get_entity('Entities', 'p5', 'r');
-- Patches, too: they lock the entity and write the version that was locked.
SELECT properties FROM patch_entity('Entities', 'p1', 'r', '{"S": "x"}', '{"N": 1}', '{M}', 'N eq 1');
SELECT pg_temp.outcome($$SELECT patch_entity('Entities', 'p1', 'r', '{}', condition => 'N eq 1')$$);
SELECT pg_temp.outcome($$SELECT patch_entity('Entities', 'p99', 'r', '{}')$$);
SELECT properties FROM patch_entity('Entities', 'patched', 'r', increment => '{"N": 1}', create_missing => true);
SELECT count(*) FROM execute_batch('Entities', 'patched', batch_patch('r', increment => '{"N": 1}'), batch_patch('s', increment => '{"N": 1}', create_missing => true));
SELECT row_key, properties FROM query_entities('Entities', $$PartitionKey eq 'patched'$$);
-- Properties are stored exactly.
SELECT insert_entity('Entities', 'exact', 'r', '{"D": 0.1, "I": 9007199254740993, "B": true, "T": "2020-01-01T00:00:00.1234567Z", "T@odata.type": "Edm.DateTime", "S": "日\u0001''\\"}') IS NOT NULL AS written;
SELECT properties FROM get_entity('Entities', 'exact', 'r');
-- Checks of the tables reach the caller.
SELECT pg_temp.outcome(format($$SELECT insert_or_merge_entity('Entities', 'p1', 'r', %L)$$, (SELECT ('{' || string_agg(format('"P%s": 1', i), ', ') || '}') FROM generate_series(1, 252) AS i)));

-- Batches: all or nothing.
SELECT index, row_key, etag IS NOT NULL AS written FROM execute_batch('Entities', 'batch', batch_insert('b', '{"N": 1}'), batch_insert('a', '{"N": 2}'), batch_insert_or_merge('c', '{"N": 3}'), batch_insert_or_replace('d', '{"N": 4}'));
SELECT index, row_key, etag IS NOT NULL AS written FROM execute_batch('Entities', 'batch', batch_merge('c', '{"M": 1}', '*'), batch_replace('b', '{"M": 2}', '*'), batch_delete('a'), batch_insert_or_merge('d', '{"M": 3}'), batch_insert_or_merge('e', '{"M": 4}'));
SELECT row_key, properties FROM query_entities('Entities', $$PartitionKey eq 'batch'$$);
SELECT pg_temp.outcome($$SELECT execute_batch('Entities', 'batch', batch_insert('f', '{}'), batch_insert('b', '{}'))$$);
SELECT pg_temp.outcome($$SELECT execute_batch('Entities', 'batch', batch_insert('f', '{}'), batch_merge('a', '{}', '*'))$$);
SELECT pg_temp.outcome($$SELECT execute_batch('Entities', 'batch', batch_merge('b', '{}', 'W/"datetime''2020-01-01T00%3A00%3A00Z''"'), batch_delete('c'))$$);
SELECT count(*) FROM query_entities('Entities', $$PartitionKey eq 'batch'$$);
SELECT count(*) FROM execute_batch('Entities', 'hundred', VARIADIC ARRAY(SELECT batch_insert(lpad(i::text, 3, '0'), format('{"N": %s}', i)::properties) FROM generate_series(1, 100) AS i));
SELECT count(*), count(DISTINCT etag) FROM execute_batch('Entities', 'hundred', VARIADIC ARRAY(SELECT batch_merge(lpad(i::text, 3, '0'), '{"M": 1}', '*') FROM generate_series(100, 1, -1) AS i));
SELECT count(*), min(properties ->> 'N'), max(properties ->> 'M') FROM query_entities('Entities', $$PartitionKey eq 'hundred'$$);

-- Partitions on several servers in a transaction.
BEGIN;
SELECT insert_entity('Entities', 'x' || i, 'r', '{}') IS NOT NULL AS written FROM generate_series(1, 4) AS i;
SAVEPOINT s;
SELECT delete_entity('Entities', 'x1', 'r', '*');
ROLLBACK TO s;
SELECT count(*) FROM query_entities('Entities', $$PartitionKey ge 'x' and PartitionKey lt 'y'$$);
ROLLBACK;
SELECT count(*) FROM query_entities('Entities', $$PartitionKey ge 'x' and PartitionKey lt 'y'$$);

-- Writes of several requests: a distributed table takes none of them in a group.
SELECT * FROM write_entities('Entities', '{p6,p7}', ARRAY[batch_insert('group', '{}'), batch_merge('r', '{"G": 1}', '*')]);
SELECT count(*) FROM query_entities('Entities', $$RowKey eq 'group' or G eq 1$$);
-- Reads of several requests.
SELECT index, partition_key, row_key, properties FROM get_entities_by_keys('Entities', '{p8,p9,p5,p8}', '{r,r,r,absent}', 'N');

-- Many calls in one session: kept plans.
SELECT count(*) FROM generate_series(1, 20) AS i, get_entity('Entities', 'p' || i, 'r');
SELECT count(merge_entity('Entities', 'p' || i, 'r', '{"K": 1}', '*')) FROM generate_series(6, 26) AS i;

-- Through a worker.
\c - - 127.0.0.1 :worker1
SET search_path = table_service, public;
SELECT count(insert_entity('Entities', 'w' || i, 'r', format('{"N": %s}', i)::properties)) FROM generate_series(1, 40) AS i;
SELECT count(merge_entity('Entities', 'w' || i, 'r', '{"M": 1}', '*')) FROM generate_series(1, 40) AS i;
SELECT count(delete_entity('Entities', 'w' || i, 'r', '*')) FROM generate_series(1, 20) AS i;
SELECT count(*), min((properties ->> 'M')::int) FROM query_entities('Entities', $$PartitionKey ge 'w' and PartitionKey lt 'x'$$);
SELECT index, row_key, etag IS NOT NULL AS written FROM execute_batch('Entities', 'worker', batch_insert('b', '{"N": 1}'), batch_insert('a', '{"N": 2}'), batch_insert_or_merge('c', '{"N": 3}'));
SELECT index, row_key, etag IS NOT NULL AS written FROM execute_batch('Entities', 'worker', batch_merge('b', '{"N": 2}', '*'), batch_delete('a'), batch_insert_or_merge('c', '{"M": 3}'));
SELECT insert_entity('Entities', 'worker', 'b', '{}');
SELECT merge_entity('Entities', 'worker', 'b', '{}', 'W/"datetime''2020-01-01T00%3A00%3A00Z''"');
SELECT row_key, properties FROM query_page('Entities', $$PartitionKey eq 'worker'$$);
SELECT * FROM write_entities('Entities', '{worker}', ARRAY[batch_insert('group', '{}')]);
SELECT index, partition_key, row_key, properties FROM get_entities_by_keys('Entities', '{w40,worker,w39,w1}', '{r,b,r,r}');
SELECT delete_table('Entities');
\getenv coordinator PGPORT
\c - - - :coordinator
SELECT table_service.delete_table('Entities');
