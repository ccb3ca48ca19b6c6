-- Expiry: an entity is gone at its moment, for every function, whether it is still stored or not.
\set SHOW_CONTEXT never
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
-- A bag that has expired, and one that has not.
CREATE FUNCTION pg_temp.expired(more jsonb DEFAULT '{}') RETURNS properties LANGUAGE sql AS
  $$ SELECT (jsonb_build_object('E', '2020-01-01T00:00:00Z', 'E@odata.type', 'Edm.DateTime') || more)::properties $$;
CREATE FUNCTION pg_temp.alive(more jsonb DEFAULT '{}') RETURNS properties LANGUAGE sql AS
  $$ SELECT (jsonb_build_object('E', '2999-01-01T00:00:00Z', 'E@odata.type', 'Edm.DateTime') || more)::properties $$;
SELECT create_table('Sessions');
CREATE PROCEDURE pg_temp.fill() LANGUAGE sql AS $$
  TRUNCATE table_service_data."Sessions";
  INSERT INTO table_service_data."Sessions" SELECT 'p', 'a' || i, '2024-04-13T21:50:14Z', pg_temp.alive('{"N": 1}') FROM generate_series(1, 3) AS i;
  INSERT INTO table_service_data."Sessions" SELECT 'p', 'x' || i, '2024-04-13T21:50:14Z', pg_temp.expired('{"N": 1}') FROM generate_series(1, 3) AS i;
$$;

\echo 'the moment'
SELECT name, expires_at('2000-01-01T00:00:00Z', bag::properties, 'E', ttl) AT TIME ZONE 'UTC' AS expires
FROM (VALUES
  ('DateTime', '{"E": "2020-01-01T00:00:00.123456Z", "E@odata.type": "Edm.DateTime"}', 60),
  ('1601', '{"E": "1601-01-01T00:00:00Z", "E@odata.type": "Edm.DateTime"}', 60),
  ('9999', '{"E": "9999-12-31T23:59:59.9999999Z", "E@odata.type": "Edm.DateTime"}', 60),
  ('Int32', '{"E": 90}', 60),
  ('Int64', '{"E": "90", "E@odata.type": "Edm.Int64"}', 60),
  ('too late', '{"E": "9223372036854775807", "E@odata.type": "Edm.Int64"}', 60),
  ('0', '{"E": 0}', 60), ('-1', '{"E": -1}', 60),
  ('String', '{"E": "90"}', 60), ('Double', '{"E": 90.5}', 60), ('Boolean', '{"E": true}', 60),
  ('absent', '{"F": 90}', 60), ('absent, no default', '{"F": 90}', NULL)) AS given(name, bag, ttl);
SELECT expires_at('2000-01-01T00:00:00Z', '{}', NULL, 60) AT TIME ZONE 'UTC' AS by_time_to_live,
  expires_at(NULL, '{}', NULL, 60), expires_at('2000-01-01T00:00:00Z', NULL, 'E', 60), expires_at('2000-01-01T00:00:00Z', '{}', NULL, 0),
  expires_at('infinity', '{}', NULL, 60), expires_at('-infinity', '{}', NULL, 60);
SELECT provolatile, proisstrict, proparallel FROM pg_proc WHERE oid = 'expires_at'::regproc;

\echo 'set and drop'
SELECT set_expiry('Sessions', 'E', '1 day 00:00:30') AS index;
SELECT table_name, property, time_to_live, index, is_valid, oldest FROM query_expiry();
SELECT pg_get_indexdef('table_service_data."Sessions_expiry"'::regclass);
SELECT pg_temp.outcome($$SELECT set_expiry('Sessions', 'F')$$);
SELECT set_expiry('sessions', 'F', if_not_exists => true);
SELECT pg_temp.outcome($$SELECT expiry_sql('Sessions', 'F')$$);
SELECT drop_expiry('Sessions'), drop_expiry('Sessions', if_exists => true);
SELECT pg_temp.outcome($$SELECT drop_expiry('Sessions')$$);
SELECT pg_temp.outcome(statement) FROM (VALUES
  ($$SELECT set_expiry('Sessions')$$), ($$SELECT set_expiry(NULL, 'E')$$), ($$SELECT set_expiry('None', 'E')$$), ($$SELECT set_expiry('Sessions', 'E', if_not_exists => NULL)$$),
  ($$SELECT set_expiry('Sessions', 'RowKey')$$), ($$SELECT set_expiry('Sessions', 'no name')$$), ($$SELECT set_expiry('Sessions', '')$$),
  ($$SELECT set_expiry('Sessions', time_to_live => '1 month')$$), ($$SELECT set_expiry('Sessions', time_to_live => '0')$$),
  ($$SELECT set_expiry('Sessions', time_to_live => '-1 day')$$), ($$SELECT set_expiry('Sessions', time_to_live => '1.5 s')$$),
  ($$SELECT set_expiry('Sessions', 'E', '178000000 years')$$),
  ($$SELECT drop_expiry(NULL)$$), ($$SELECT drop_expiry('None')$$), ($$SELECT drop_expiry('Sessions', NULL)$$), ($$SELECT * FROM query_expiry('None')$$),
  ($$SELECT expire_entities('None')$$), ($$SELECT expire_entities(top => -1)$$), ($$SELECT expire_entities(top => NULL)$$), ($$SELECT expire_entities(as_owner => NULL)$$), ($$SELECT expire_entities('None', as_owner => true)$$), ($$SELECT expiry_sql('Sessions')$$)) AS given(statement);
SELECT * FROM query_expiry('Sessions');
SELECT expire_entities('Sessions'), expire_entities();
-- By hand, concurrently.
SELECT expiry_sql('Sessions', 'E', '30 s');
SELECT expiry_sql('Sessions', 'E') \gexec
SELECT property, time_to_live, index, is_valid FROM query_expiry('Sessions');

\echo 'reads'
CALL pg_temp.fill();
SELECT row_key FROM get_entity('Sessions', 'p', 'a1') UNION ALL SELECT row_key FROM get_entity('Sessions', 'p', 'x1');
SELECT row_key FROM get_entities('Sessions', 'p', ARRAY['a1', 'x1', 'a2', 'x2']);
SELECT row_key FROM query_entities('Sessions');
SELECT row_key FROM query_entities('Sessions', top => 2);
SELECT row_key FROM query_entities('Sessions', $$RowKey ge 'a3'$$);
SELECT row_key FROM query_entities('Sessions', 'N eq 1 and not (N gt 5)');
SELECT row_key, continuation_token IS NOT NULL AS more FROM query_page('Sessions', top => 3);
SELECT query_page_json('Sessions', $$PartitionKey eq 'p' and RowKey eq 'x1'$$);
SELECT chunk FROM query_page_chunks('Sessions', $$RowKey ge 'x'$$);
SELECT count_entities('Sessions'), count_entities('Sessions', 'N eq 1'), count_entities('Sessions', $$RowKey eq 'x1'$$);
SELECT partition_key, entities FROM partition_statistics('Sessions');
-- The same through a property index.
SELECT create_property_index('Sessions', 'N') IS NOT NULL AS created;
SELECT row_key FROM query_entities('Sessions', 'N eq 1');
SELECT row_key, continuation_token IS NOT NULL AS more FROM query_page('Sessions', 'N eq 1', top => 3);
SELECT count_entities('Sessions', 'N eq 1');
SELECT drop_property_index('Sessions', 'N');
-- Pages over a range in which all have expired end as others do.
SELECT row_key, continuation_token IS NOT NULL AS more FROM query_page('Sessions', top => 2);
SELECT continuation_token AS token FROM query_page('Sessions', top => 2) WHERE continuation_token IS NOT NULL \gset
SELECT row_key, continuation_token IS NOT NULL AS more FROM query_page('Sessions', top => 2, continuation_token => :'token');
-- Direct SQL sees what is stored; this is its test.
SELECT count(*), count(*) FILTER (WHERE expires_at("timestamp", properties, 'E', NULL) > now()) AS alive FROM table_service_data."Sessions";

\echo 'writes'
SELECT etag(e) AS tag FROM table_service_data."Sessions" AS e WHERE row_key = 'x1' \gset
SELECT pg_temp.outcome(format(statement, :'tag')) FROM (VALUES
  ($$SELECT merge_entity('Sessions', 'p', 'x1', '{"N": 2}', '*')$$), ($$SELECT merge_entity('Sessions', 'p', 'x1', '{"N": 2}', %L)$$),
  ($$SELECT replace_entity('Sessions', 'p', 'x1', '{"N": 2}', '*')$$), ($$SELECT replace_entity('Sessions', 'p', 'x1', '{"N": 2}', %L)$$),
  ($$SELECT patch_entity('Sessions', 'p', 'x1', '{"N": 2}')$$), ($$SELECT patch_entity('Sessions', 'p', 'x1', '{"N": 2}', if_match => %L)$$),
  ($$SELECT delete_entity('Sessions', 'p', 'x1', %L)$$), ($$SELECT delete_entity('Sessions', 'p', 'x1')$$), ($$SELECT delete_entity('Sessions', 'p', 'x1', if_exists => true)$$),
  ($$SELECT insert_entity('Sessions', 'p', 'a1', '{}')$$),
  ($$SELECT execute_batch('Sessions', 'p', batch_merge('x2', '{"N": 2}', '*'))$$),
  ($$SELECT execute_batch('Sessions', 'p', batch_merge('a1', '{"N": 2}', '*'), batch_delete('x2'))$$),
  ($$SELECT execute_batch('Sessions', 'p', batch_merge('a1', '{"N": 2}', '*'), batch_replace('x2', '{}', %L))$$),
  ($$SELECT execute_batch('Sessions', 'p', batch_patch('x2', increment => '{"N": 1}'))$$),
  ($$SELECT execute_batch('Sessions', 'p', batch_insert('x2', '{}'), batch_insert('a1', '{}'))$$),
  ($$SELECT delete_entities('Sessions', $f$RowKey ge 'x2'$f$)$$), ($$SELECT update_entities('Sessions', $f$RowKey ge 'x2'$f$, '{"N": 9}')$$),
  ($$SELECT deleted, continuation_token IS NULL FROM delete_entities_step('Sessions', $f$RowKey ge 'x2'$f$)$$)) AS given(statement);
SELECT row_key, properties FROM table_service_data."Sessions" ORDER BY row_key;
-- What is inserted has nothing of what has expired, and a later Timestamp.
CALL pg_temp.fill();
DELETE FROM table_service_data."Sessions" WHERE row_key LIKE 'x%';
INSERT INTO table_service_data."Sessions" SELECT 'p', 'x' || i, '2099-01-01T00:00:00Z', pg_temp.expired('{"N": 1}') FROM generate_series(1, 3) AS i;
SELECT insert_entity('Sessions', 'p', 'x1', '{"New": 1}') > 'W/"datetime''2099' AS later;
SELECT insert_or_merge_entity('Sessions', 'p', 'x2', '{"New": 2}') > 'W/"datetime''2099' AS later;
SELECT insert_or_replace_entity('Sessions', 'p', 'x3', '{"New": 3}') > 'W/"datetime''2099' AS later;
SELECT row_key, properties FROM query_entities('Sessions', $$RowKey ge 'x'$$);
CALL pg_temp.fill();
DELETE FROM table_service_data."Sessions" WHERE row_key LIKE 'x%';
INSERT INTO table_service_data."Sessions" SELECT 'p', 'x' || i, '2099-01-01T00:00:00Z', pg_temp.expired('{"N": 1}') FROM generate_series(1, 3) AS i;
SELECT index, row_key, etag > 'W/"datetime''2099' AS later FROM execute_batch('Sessions', 'p', batch_insert_or_merge('x3', '{"New": 3}'), batch_insert('x1', '{"New": 1}'),
  batch_insert_or_replace('x0', '{"New": 0}'), batch_patch('x2', increment => '{"N": 5}', create_missing => true), batch_insert_or_merge('a1', '{"New": 4}'), batch_delete('a2'));
SELECT row_key, properties FROM query_entities('Sessions');
SELECT properties FROM patch_entity('Sessions', 'p', 'x9', increment => '{"N": 1}', create_missing => true);
CALL pg_temp.fill();
SELECT properties FROM patch_entity('Sessions', 'p', 'x1', increment => '{"N": 1}', create_missing => true);
SELECT pg_temp.outcome($$SELECT patch_entity('Sessions', 'p', 'x2', increment => '{"N": 1}', condition => 'N eq 1', create_missing => true)$$);
-- One that expires at once can be written, and is not there.
SELECT insert_entity('Sessions', 'p', 'y', pg_temp.expired()) IS NOT NULL AS inserted, (SELECT count(*) FROM get_entity('Sessions', 'p', 'y')) AS seen;
SELECT insert_entity('Sessions', 'p', 'y', '{}') IS NOT NULL AS inserted, (SELECT count(*) FROM get_entity('Sessions', 'p', 'y')) AS seen;
SELECT merge_entity('Sessions', 'p', 'y', pg_temp.expired(), '*') IS NOT NULL AS written, (SELECT count(*) FROM get_entity('Sessions', 'p', 'y')) AS seen;
SELECT pg_temp.outcome($$SELECT merge_entity('Sessions', 'p', 'y', '{"E": -1}', '*')$$);

\echo 'a write renews the time to live'
CALL pg_temp.fill();
SELECT drop_expiry('Sessions'), set_expiry('Sessions', time_to_live => '1 hour') IS NOT NULL AS set;
-- What had expired was removed, so it does not come back; the others are older than an hour.
SELECT row_key FROM table_service_data."Sessions" ORDER BY row_key;
SELECT count(*) FROM query_entities('Sessions');
INSERT INTO table_service_data."Sessions" SELECT 'q', age::text, clock_timestamp() - age * interval '1 minute', '{"N": 1}' FROM unnest(ARRAY[50, 70]) AS age;
SELECT row_key, merge_entity('Sessions', 'q', row_key, '{"M": 2}', '*') IS NOT NULL AS written FROM query_entities('Sessions');
SELECT row_key, properties, expires_at("timestamp", properties, NULL, 3600) > now() + interval '59 minutes' AS renewed FROM query_entities('Sessions');
-- Within one statement, and within one transaction.
DO $$
DECLARE
  moment text := to_json(clock_timestamp() AT TIME ZONE 'UTC' + interval '0.2 s')::text;
BEGIN
  PERFORM drop_expiry('Sessions'), set_expiry('Sessions', 'E');
  PERFORM insert_entity('Sessions', 'q', 's', format('{"E@odata.type": "Edm.DateTime", "E": %s}', moment)::properties);
  PERFORM pg_sleep(0.3);
  RAISE NOTICE 'seen: %', (SELECT count(*) FROM get_entity('Sessions', 'q', 's'));
END $$;

\echo 'sweeps'
CALL pg_temp.fill();
SELECT table_name, deleted, more, oldest <= now() AS oldest FROM expire_entities('sessions', 0);
SELECT table_name, deleted, more, oldest AT TIME ZONE 'UTC' AS oldest FROM expire_entities('sessions', 2);
SELECT table_name, deleted, more, oldest BETWEEN now() AND clock_timestamp() AS oldest FROM expire_entities(top => 2);
SELECT table_name, deleted, more FROM expire_entities();
SELECT row_key FROM table_service_data."Sessions" ORDER BY row_key;
CALL pg_temp.fill();
SELECT table_name, deleted, more FROM expire_entities(since => '2020-01-01T00:00:01Z');
SELECT table_name, deleted, more FROM expire_entities(since => '2020-01-01T00:00:00Z');
SELECT oldest AT TIME ZONE 'UTC' AS oldest FROM query_expiry('Sessions');

\echo 'with several expiries the earliest counts'
CALL pg_temp.fill();
CREATE INDEX ON table_service_data."Sessions" (expires_at("timestamp", properties, NULL, 3600)) WHERE expires_at("timestamp", properties, NULL, 3600) IS NOT NULL;
SELECT property, time_to_live FROM query_expiry('Sessions');
SELECT count_entities('Sessions');
SELECT insert_entity('Sessions', 'q', 'r', '{}') IS NOT NULL AS inserted, insert_entity('Sessions', 'q', 's', pg_temp.expired()) IS NOT NULL AS inserted;
SELECT row_key FROM query_entities('Sessions');
SELECT table_name, deleted, more FROM expire_entities();
SELECT drop_expiry('Sessions');
SELECT count(*) FROM query_expiry();
SELECT row_key FROM query_entities('Sessions');
-- These are no expiries: the index lacks entities, or the expression is another.
CREATE INDEX ON table_service_data."Sessions" (expires_at("timestamp", properties, 'E', NULL));
CREATE INDEX ON table_service_data."Sessions" (expires_at("timestamp", properties, 'E', NULL)) WHERE partition_key = 'p';
CREATE INDEX ON table_service_data."Sessions" (expires_at("timestamp", properties, 'E', 60)) WHERE expires_at("timestamp", properties, 'E', 61) IS NOT NULL;
CREATE INDEX ON table_service_data."Sessions" (partition_key, expires_at("timestamp", properties, 'E', 60)) WHERE expires_at("timestamp", properties, 'E', 60) IS NOT NULL;
SELECT count(*) FROM query_expiry();

\echo 'parts of a partitioned table'
CREATE TABLE table_service_data."Parted" OF entity (PRIMARY KEY (partition_key, row_key)) PARTITION BY RANGE (partition_key);
CREATE TABLE table_service_data."Parted1" PARTITION OF table_service_data."Parted" FOR VALUES FROM (MINVALUE) TO ('m');
CREATE TABLE table_service_data."Parted2" PARTITION OF table_service_data."Parted" FOR VALUES FROM ('m') TO (MAXVALUE);
SELECT set_expiry('Parted', 'E');
SELECT count(insert_entity('Parted', p, r, CASE r WHEN 'x' THEN pg_temp.expired() ELSE pg_temp.alive() END)) FROM unnest(ARRAY['a', 'z']) AS p, unnest(ARRAY['r', 'x']) AS r;
SELECT partition_key, row_key FROM query_entities('Parted');
SELECT insert_or_merge_entity('Parted', 'z', 'x', '{"New": 1}') IS NOT NULL AS written;
SELECT partition_key, row_key, properties FROM query_entities('Parted', $$RowKey eq 'x'$$);
SELECT table_name, deleted, more FROM expire_entities('Parted');
SELECT partition_key, row_key FROM table_service_data."Parted" ORDER BY 1, 2;
SELECT drop_expiry('Parted');
DROP TABLE table_service_data."Parted";

\echo 'rights'
SELECT clear_table('Sessions'), set_expiry('Sessions', 'E') IS NOT NULL AS set;
CREATE ROLE regress_expiry;
GRANT USAGE ON SCHEMA table_service_data TO regress_expiry;
GRANT INSERT ON table_service_data."Sessions" TO regress_expiry;
CALL pg_temp.fill();
SET ROLE regress_expiry;
-- Whoever may only insert is told nothing of what has expired.
SELECT insert_entity('Sessions', 'p', 'x1', '{}') IS NOT NULL AS inserted;
SELECT insert_entity('Sessions', 'p', 'a1', '{}') IS NOT NULL AS inserted;
RESET ROLE;
GRANT SELECT ON table_service_data."Sessions" TO regress_expiry;
SET ROLE regress_expiry;
SELECT insert_entity('Sessions', 'p', 'x1', '{}') IS NOT NULL AS inserted;
SELECT insert_entity('Sessions', 'p', 'a1', '{}') IS NOT NULL AS inserted;
SELECT count(*) FROM expire_entities();
SELECT expire_entities('Sessions');
SELECT set_expiry('Sessions', 'F', if_not_exists => true);
SELECT drop_expiry('Sessions');
SELECT property, oldest AT TIME ZONE 'UTC' AS oldest FROM query_expiry();
RESET ROLE;
GRANT DELETE ON table_service_data."Sessions" TO regress_expiry;
SET ROLE regress_expiry;
SELECT insert_entity('Sessions', 'p', 'x1', '{}') IS NOT NULL AS inserted;
SELECT expire_entities('Sessions');
RESET ROLE;
-- What a policy hides exists, and nobody learns that it has expired.
GRANT UPDATE ON table_service_data."Sessions" TO regress_expiry;
ALTER TABLE table_service_data."Sessions" ENABLE ROW LEVEL SECURITY;
CREATE POLICY insertable ON table_service_data."Sessions" FOR INSERT WITH CHECK (true);
CREATE POLICY visible ON table_service_data."Sessions" FOR ALL USING (row_key < 'x3');
SET ROLE regress_expiry;
SELECT insert_entity('Sessions', 'p', 'x3', '{}') IS NOT NULL AS inserted;
SELECT insert_entity('Sessions', 'p', 'x2', '{}') IS NOT NULL AS inserted;
SELECT table_name, deleted FROM expire_entities();
RESET ROLE;
SELECT row_key FROM table_service_data."Sessions" ORDER BY row_key;
-- What has expired and may be read, and not written, is refused as if it had not expired.
CREATE POLICY kept ON table_service_data."Sessions" AS RESTRICTIVE FOR UPDATE USING (row_key <> 'x0');
CREATE POLICY stays ON table_service_data."Sessions" AS RESTRICTIVE FOR DELETE USING (row_key <> 'x0');
SELECT insert_entity('Sessions', 'p', 'x0', pg_temp.expired()) IS NOT NULL AS inserted;
SET ROLE regress_expiry;
SELECT insert_or_merge_entity('Sessions', 'p', 'x0', '{}');
SELECT insert_or_replace_entity('Sessions', 'p', 'x0', '{}');
SELECT patch_entity('Sessions', 'p', 'x0', '{}', create_missing => true);
SELECT * FROM execute_batch('Sessions', 'p', batch_insert_or_merge('x0', '{}'));
RESET ROLE;
ALTER TABLE table_service_data."Sessions" OWNER TO regress_expiry;
ALTER TABLE table_service_data."Sessions" FORCE ROW LEVEL SECURITY;
SET ROLE regress_expiry;
SELECT drop_expiry('Sessions');
RESET ROLE;
SELECT delete_table('Sessions');

\echo 'tables of others'
-- A sweep of all tables runs no code of others with the caller's rights.
GRANT CREATE ON SCHEMA table_service_data TO regress_expiry;
CREATE SCHEMA regress_expiry AUTHORIZATION regress_expiry;
SET client_min_messages = warning;
SELECT create_table('Mine'), create_table('Zoo');
SET ROLE regress_expiry;
SELECT create_table('Others'), set_expiry('Others', 'E') IS NOT NULL AS set;
CREATE TABLE regress_expiry.log (who name, path text);
CREATE FUNCTION regress_expiry.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO regress_expiry.log VALUES (current_user, current_setting('search_path'));
  SET search_path = regress_expiry;
  RETURN OLD;
END $$;
CREATE TRIGGER note BEFORE DELETE ON table_service_data."Others" FOR EACH ROW EXECUTE FUNCTION regress_expiry.note();
SELECT insert_entity('Others', 'p', 'x', pg_temp.expired()) IS NOT NULL AS inserted;
RESET ROLE;
SELECT set_expiry(name, 'E') IS NOT NULL AS set, insert_entity(name, 'p', 'x', pg_temp.expired()) IS NOT NULL AS inserted FROM unnest(ARRAY['Mine', 'Zoo']) AS name;
SELECT table_name, deleted, more, oldest IS NOT NULL AS oldest, reason FROM expire_entities();
SELECT who, path FROM regress_expiry.log;
SELECT current_user = session_user AS is_same, current_setting('search_path') <> 'regress_expiry' AS is_kept;
-- Its policies would run with the caller's rights.
CREATE ROLE regress_expiry_reader;
GRANT USAGE ON SCHEMA table_service_data TO regress_expiry_reader;
GRANT SELECT, UPDATE, DELETE ON table_service_data."Others", table_service_data."Mine" TO regress_expiry_reader;
SET ROLE regress_expiry;
CREATE FUNCTION regress_expiry.peek() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'runs as %', current_user; RETURN true; END $$;
ALTER TABLE table_service_data."Others" ENABLE ROW LEVEL SECURITY;
GRANT USAGE ON SCHEMA regress_expiry TO PUBLIC;
CREATE POLICY peek ON table_service_data."Others" USING (regress_expiry.peek());
SELECT insert_entity('Others', 'p', 'x', pg_temp.expired()) IS NOT NULL AS inserted;
SET ROLE regress_expiry_reader;
SELECT table_name, oldest FROM query_expiry();
SELECT table_name, deleted, more, oldest IS NOT NULL AS oldest, reason FROM expire_entities();
RESET ROLE;
-- A table that cannot be swept keeps no other one, and says why.
SELECT insert_entity('Mine', 'p', 'x', pg_temp.expired()) IS NOT NULL, insert_entity('Zoo', 'p', 'x', pg_temp.expired()) IS NOT NULL AS inserted;
CREATE TABLE regress_expiry.child (p text COLLATE "C", r text COLLATE "C", FOREIGN KEY (p, r) REFERENCES table_service_data."Mine" DEFERRABLE INITIALLY IMMEDIATE);
INSERT INTO regress_expiry.child VALUES ('p', 'x');
SELECT table_name, deleted, more, CASE WHEN more THEN oldest AT TIME ZONE 'UTC' END AS oldest, reason FROM expire_entities();
SELECT pg_temp.outcome($$SELECT expire_entities('Mine')$$);
-- Triggers that run when the transaction ends would do so with the caller's rights.
SET ROLE regress_expiry;
ALTER TABLE table_service_data."Others" DISABLE ROW LEVEL SECURITY;
DROP TRIGGER note ON table_service_data."Others";
CREATE CONSTRAINT TRIGGER note AFTER DELETE ON table_service_data."Others" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION regress_expiry.note();
SELECT insert_entity('Others', 'p', 'x', pg_temp.expired()) IS NOT NULL AS inserted;
RESET ROLE;
SELECT table_name, deleted, more, reason FROM expire_entities();
SELECT who, path FROM regress_expiry.log;
-- Others may own partitions, and create triggers.
CREATE TABLE table_service_data."Parts" OF entity (PRIMARY KEY (partition_key, row_key)) PARTITION BY RANGE (partition_key);
CREATE TABLE table_service_data."PartsA" PARTITION OF table_service_data."Parts" FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
SELECT set_expiry('Parts', 'E') IS NOT NULL AS set;
ALTER TABLE table_service_data."PartsA" OWNER TO regress_expiry;
CREATE TRIGGER note BEFORE DELETE ON table_service_data."PartsA" FOR EACH ROW EXECUTE FUNCTION regress_expiry.note();
GRANT TRIGGER ON table_service_data."Zoo" TO regress_expiry;
SET ROLE regress_expiry;
CREATE TRIGGER note BEFORE DELETE ON table_service_data."Zoo" FOR EACH ROW EXECUTE FUNCTION regress_expiry.note();
TRUNCATE regress_expiry.log;
RESET ROLE;
SELECT insert_entity(name, 'p', 'y', pg_temp.expired()) IS NOT NULL AS inserted FROM unnest(ARRAY['Parts', 'Zoo']) AS name;
DROP TABLE regress_expiry.child;
SELECT table_name, deleted, more, reason FROM expire_entities() WHERE table_name <> 'Others';
SELECT count(*) FROM regress_expiry.log;
-- A function that has its own rights could still change settings of the session.
ALTER FUNCTION regress_expiry.note() SECURITY DEFINER;
SELECT table_name, deleted, more, reason FROM expire_entities() WHERE table_name IN ('Parts', 'Zoo');
DROP TRIGGER note ON table_service_data."PartsA";
DROP TRIGGER note ON table_service_data."Zoo";
SELECT table_name, deleted, more, reason FROM expire_entities() WHERE table_name IN ('Parts', 'Zoo');
ALTER TABLE table_service_data."PartsA" OWNER TO CURRENT_USER;
SELECT table_name, deleted, more, reason FROM expire_entities() WHERE table_name IN ('Parts', 'Zoo');
SELECT count(*) FROM regress_expiry.log;
DROP TABLE table_service_data."Parts";
-- A trigger can keep entities. The next sweep goes on behind them.
SELECT delete_table('Others'), delete_table('Zoo');
TRUNCATE table_service_data."Mine";
CREATE FUNCTION regress_expiry.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN CASE WHEN OLD.row_key < 'c' THEN NULL ELSE OLD END; END $$;
CREATE TRIGGER keep BEFORE DELETE ON table_service_data."Mine" FOR EACH ROW EXECUTE FUNCTION regress_expiry.keep();
INSERT INTO table_service_data."Mine" SELECT 'p', row_key, now(), format('{"E": "2020-01-01T00:00:0%sZ", "E@odata.type": "Edm.DateTime"}', n)::properties
  FROM unnest(ARRAY['a', 'b', 'c', 'd']) WITH ORDINALITY AS given(row_key, n);
SELECT table_name, deleted, more, oldest AT TIME ZONE 'UTC' AS oldest FROM expire_entities(top => 2);
SELECT table_name, deleted, more, oldest > now() - interval '1 day' AS is_recent FROM expire_entities(top => 2, since => '2020-01-01T00:00:02.000001Z');
SELECT row_key FROM table_service_data."Mine" ORDER BY row_key;
-- What it keeps would appear again.
SELECT drop_expiry('Mine');
SELECT count_entities('Mine'), count(*) FROM query_expiry('Mine');
DROP TRIGGER keep ON table_service_data."Mine";
SELECT drop_expiry('Mine');
SELECT count_entities('Mine');
SELECT delete_table('Mine');
-- A query with parallel workers beside it.
SELECT create_table('Beside'), set_expiry('Beside', 'E') IS NOT NULL AS set;
CREATE TABLE regress_expiry.many AS SELECT n FROM generate_series(1, 10000) AS n;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SELECT m.count, e.property FROM (SELECT count(*) FROM regress_expiry.many) AS m, query_expiry('Beside') AS e;
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_table_scan_size;
DROP TABLE regress_expiry.many;
SELECT delete_table('Beside');
-- A table that cannot even be read is in the result, for whoever watches the sweeps.
SELECT create_table('Torn');
SELECT set_expiry('Torn', 'E') IS NOT NULL AS set, insert_entity('Torn', 'p', 'x', pg_temp.expired()) IS NOT NULL AS inserted;
ALTER TABLE table_service_data."Torn" ENABLE ROW LEVEL SECURITY;
CREATE POLICY torn ON table_service_data."Torn" USING (length(row_key) / 0 = 1);
GRANT SELECT, UPDATE, DELETE ON table_service_data."Torn" TO regress_expiry;
SET ROLE regress_expiry;
SELECT table_name, deleted, more, oldest, reason FROM expire_entities();
RESET ROLE;
SELECT delete_table('Torn');
RESET client_min_messages;
DROP SCHEMA regress_expiry CASCADE;
REVOKE ALL ON SCHEMA table_service_data FROM regress_expiry, regress_expiry_reader;
DROP ROLE regress_expiry, regress_expiry_reader;
