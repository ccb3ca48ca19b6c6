-- Entities of distributed tables expire.
\set SHOW_CONTEXT never
\getenv worker1 WORKER1_PORT
\getenv coordinator PGPORT
SELECT create_table('Leases');
SELECT set_expiry('Leases', 'Until', '1 hour');
SELECT set_expiry('Leases', 'Until', '1 hour');
SELECT table_name, property, time_to_live, is_valid, oldest FROM query_expiry();
SELECT expiry_sql('Leases', 'Until');
SELECT create_table('Later');
SELECT expiry_sql('Later', 'Until', '1 day') \gexec
SELECT is_valid FROM query_expiry('Later');
SELECT delete_table('Later');
-- In partitions of all servers: one entity that lives, and one that has expired.
SELECT count(insert_entity('Leases', 'p' || i, r, CASE r WHEN 'alive' THEN '{"N": 1}' ELSE '{"N": 2, "Until@odata.type": "Edm.DateTime", "Until": "2020-01-01T00:00:00Z"}' END::properties))
FROM generate_series(1, 20) AS i, unnest('{alive,dead}'::text[]) AS r;
SELECT count(*), count(DISTINCT row_key) FROM table_service_data."Leases";
SELECT oldest AT TIME ZONE 'UTC' AS named FROM query_expiry('Leases');
SELECT oldest AT TIME ZONE 'UTC' AS of_all FROM query_expiry();

-- Reads, through a worker too: one partition is here, and most are not.
SELECT row_key FROM get_entity('Leases', 'p1', 'dead');
SELECT row_key FROM get_entities('Leases', 'p1', '{alive,dead}');
SELECT count(*), min(row_key) FROM query_entities('Leases');
SELECT count(*) FROM query_entities('Leases', 'N eq 2');
SELECT count(*), min(row_key) FROM query_page('Leases');
SELECT count(*) FROM query_page('Leases', 'PartitionKey eq ''p1''');
-- The more rows have expired, the more a page asks for at once.
SELECT create_table('Stale');
SELECT set_expiry('Stale', 'Until');
SELECT count(insert_entity('Stale', 'p', 'dead' || i, '{"Until@odata.type": "Edm.DateTime", "Until": "2020-01-01T00:00:00Z"}')) FROM generate_series(1, 300) AS i;
SELECT insert_entity('Stale', 'p', 'living', '{}') IS NOT NULL AS written;
SET citus.enable_stat_counters = on;
SELECT query_execution_single_shard AS before FROM citus_stat_counters WHERE name = current_database() \gset
SELECT row_key FROM query_page('Stale', 'PartitionKey eq ''p''', top => 1);
SELECT query_execution_single_shard - :before < 20 AS are_few_statements FROM citus_stat_counters WHERE name = current_database();
RESET citus.enable_stat_counters;
SELECT delete_table('Stale');
\c - - 127.0.0.1 :worker1
SET search_path = table_service, public;
SELECT count(*) FROM generate_series(1, 20) AS i, get_entity('Leases', 'p' || i, 'dead');
SELECT count(*) FROM generate_series(1, 20) AS i, get_entity('Leases', 'p' || i, 'alive');
SELECT count(*) FROM query_entities('Leases', 'N ge 1');
-- Writes.
SELECT merge_entity('Leases', 'p1', 'dead', '{}', '*');
SELECT delete_entity('Leases', 'p1', 'dead', '*');
SELECT insert_entity('Leases', 'p1', 'dead', '{"N": 3}') IS NOT NULL AS written;
SELECT insert_or_merge_entity('Leases', 'p2', 'dead', '{"N": 3}') IS NOT NULL AS written;
SELECT properties FROM get_entity('Leases', 'p2', 'dead');
SELECT count(*) FROM execute_batch('Leases', 'p3', batch_insert('dead', '{"N": 3}'), batch_insert_or_merge('new', '{}'), batch_merge('alive', '{"M": 1}', '*'));
SELECT execute_batch('Leases', 'p4', batch_merge('alive', '{}', '*'), batch_merge('dead', '{}', '*'));
SELECT count(*) FROM execute_batch('Leases', 'p5', VARIADIC ARRAY(SELECT batch_insert('b' || lpad(i::text, 2, '0'), '{}') FROM generate_series(1, 20) AS i) || batch_insert('dead', '{"N": 3}'));
SELECT count(*) FROM query_entities('Leases', 'N eq 3');
SELECT oldest AT TIME ZONE 'UTC' AS named FROM query_expiry('Leases');

-- Sweeps, on any server: 16 are left.
SELECT count(*) FROM table_service_data."Leases" WHERE (properties ->> 'N')::int = 2;
SELECT table_name, deleted, more, reason FROM expire_entities('Leases', 5);
SELECT table_name, deleted, more, reason FROM expire_entities(top => 5);
\c - - - :coordinator
SET search_path = table_service, public;
SELECT table_name, deleted, more, reason FROM expire_entities('Leases', as_owner => true);
SELECT table_name, deleted, more, reason FROM expire_entities();
SELECT count(*), count(*) FILTER (WHERE (properties ->> 'N')::int = 2) AS expired FROM table_service_data."Leases";

-- The owner of the table, who is no superuser.
SET ROLE owner;
SELECT create_table('Owned');
SELECT set_expiry('Owned', 'Until');
SELECT count(insert_entity('Owned', 'p' || i, 'r', '{"Until@odata.type": "Edm.DateTime", "Until": "2020-01-01T00:00:00Z"}')) FROM generate_series(1, 5) AS i;
SELECT table_name, deleted, more, reason FROM expire_entities('Owned', 2);
RESET ROLE;
SELECT table_name, deleted, more, reason FROM expire_entities();

-- What has expired does not come back.
SELECT delete_table('Owned');
SELECT insert_entity('Leases', 'p9', 'again', '{"N": 2, "Until@odata.type": "Edm.DateTime", "Until": "2020-01-01T00:00:00Z"}') IS NOT NULL AS written;
SELECT drop_expiry('Leases');
SELECT count(*) FROM query_entities('Leases', 'N eq 2');
SELECT drop_expiry('Leases');

-- A table with an expiry is distributed, and taken back.
SELECT set_expiry('Leases', 'Until');
SELECT insert_entity('Leases', 'p9', 'again', '{"N": 2, "Until@odata.type": "Edm.DateTime", "Until": "2020-01-01T00:00:00Z"}') IS NOT NULL AS written;
SET client_min_messages = error;
SELECT disable_citus();
SELECT count(*) FROM query_entities('Leases', 'N eq 2');
SELECT table_name, deleted FROM expire_entities('Leases');
SELECT enable_citus(8);
RESET client_min_messages;
SELECT count(*) FROM query_entities('Leases', 'N eq 2');
SELECT table_name, property FROM query_expiry('Leases');
SELECT delete_table('Leases');
