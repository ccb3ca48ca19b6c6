-- Work by filter on a distributed table: the servers test the filter on their shards, and the results are those of one server.
\set SHOW_CONTEXT never
SELECT create_table('Bulk');
CREATE PROCEDURE fill() LANGUAGE sql AS $$
  DELETE FROM table_service_data."Bulk";
  INSERT INTO table_service_data."Bulk"
    SELECT 'p' || p, lpad(i::text, 4, '0'), '2022-04-13T21:50:14Z', format('{"N": %s, "Even": %s}', i, (i % 2 = 0)::text)::properties
    FROM generate_series(1, 20) AS p, generate_series(1, 100) AS i
$$;
CALL fill();
SELECT count_entities('Bulk'), count_entities('Bulk', 'Even'), count_entities('Bulk', 'N le @n', '{"n": 10}'),
  count_entities('Bulk', 'PartitionKey eq ''p2'''), count_entities('Bulk', 'PartitionKey eq ''p2'' and RowKey eq ''0007'''),
  count_entities('Bulk', 'PartitionKey gt ''p2'' and RowKey ge ''0050'''), count_entities('Bulk', 'RowKey eq ''0007'' and Even'), count_entities('Bulk', 'false');
SELECT create_property_index('Bulk', 'N') IS NOT NULL AS created;
SELECT count_entities('Bulk', 'N eq 7'), count_entities('Bulk', 'N gt 90 and Even'), count_entities('Bulk', 'PartitionKey eq ''p2'' and N gt 90');

SELECT delete_entities('Bulk', 'PartitionKey eq ''p2'' and N gt 90'), delete_entities('Bulk', 'N eq 7');
SELECT count_entities('Bulk'), count_entities('Bulk', 'PartitionKey eq ''p2''');
-- The first in key order.
SELECT delete_entities('Bulk', 'Even', 3);
SELECT string_agg(partition_key || '/' || row_key, ' ') FROM query_entities('Bulk', NULL, '', 5);

SELECT update_entities('Bulk', 'Even', '{"State": "done", "N": -1}', ARRAY['Even']);
SELECT count(*), min("timestamp") > '2022-04-13T21:50:14Z' AS later FROM query_entities('Bulk', 'N eq -1 and State eq ''done''');
SELECT count_entities('Bulk', 'Even'), count_entities('Bulk', 'State eq ''done''');
-- The first error changes nothing.
SELECT merge_entity('Bulk', 'p9', '0070', (SELECT '{' || string_agg(format('"P%s": 1', i), ', ') || '}' FROM generate_series(1, 248) AS i)::properties, '*') IS NOT NULL AS merged;
SELECT update_entities('Bulk', 'true', '{"X": 1, "Y": 2, "Z": 3}');
SELECT count_entities('Bulk', 'X eq 1');

-- In steps.
CALL fill();
SELECT deleted, continuation_token AS token FROM delete_entities_step('Bulk', 'Even', 300) \gset
SELECT :deleted AS deleted, count_entities('Bulk', 'Even');
SELECT deleted, continuation_token IS NULL AS done FROM delete_entities_step('Bulk', 'Even', 10000, :'token');
CALL update_entities_in_steps('Bulk', 'N gt 50', '{"Late": true}', step => 100, updated => 5);
SELECT count_entities('Bulk', 'Late');
CALL delete_entities_in_steps('Bulk', 'Late', step => 100);
SELECT count_entities('Bulk');

-- A transaction sees its own work, and may undo it.
BEGIN;
SELECT insert_entity('Bulk', 'new', 'r', '{"N": 1000}') IS NOT NULL AS inserted;
SELECT update_entities('Bulk', 'N eq 1000', '{"N": 2000}');
SELECT count_entities('Bulk', 'N ge 1000');
SELECT delete_entities('Bulk', 'true');
SELECT count_entities('Bulk');
ROLLBACK;
SELECT count_entities('Bulk');

-- On a worker.
\getenv worker1 WORKER1_PORT
\getenv coordinator PGPORT
\c - - 127.0.0.1 :worker1
SET search_path = table_service, public;
SELECT count_entities('Bulk', 'N gt 30'), delete_entities('Bulk', 'N gt 30'), update_entities('Bulk', 'N eq 3', '{"Three": true}');
SELECT count_entities('Bulk'), count_entities('Bulk', 'Three');
\c - - - :coordinator
SET search_path = table_service, public;
SELECT delete_entities('Bulk', 'N eq 1');
-- A worker and the coordinator can empty the table, and undo it.
\c - - 127.0.0.1 :worker1
SET search_path = table_service, public;
BEGIN;
SELECT clear_table('Bulk');
SELECT count_entities('Bulk');
SELECT count(insert_entity('Bulk', 'new' || i, 'r', '{}')) FROM generate_series(1, 8) AS i;
SELECT count_entities('Bulk');
ROLLBACK;
SELECT count_entities('Bulk');
SELECT clear_table('Bulk');
\c - - - :coordinator
SET search_path = table_service, public;
SELECT count_entities('Bulk');
SELECT count(insert_entity('Bulk', 'new' || i, 'r', '{}')) FROM generate_series(1, 8) AS i;
SELECT clear_table('Bulk');
SELECT count_entities('Bulk');
DROP PROCEDURE fill();
SELECT delete_table('Bulk');
