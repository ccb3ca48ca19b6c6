-- Work by filter: count, delete and update what a filter selects, at once, in steps, and in steps that commit.
\set SHOW_CONTEXT never
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SELECT create_table('Bulk');
CREATE PROCEDURE pg_temp.fill() LANGUAGE sql AS $$
  TRUNCATE table_service_data."Bulk";
  INSERT INTO table_service_data."Bulk"
    SELECT p, lpad(i::text, 4, '0'), '2022-04-13T21:50:14Z', format('{"N": %s, "Even": %s}', i, (i % 2 = 0)::text)::properties
    FROM unnest(ARRAY['a', 'b', 'c']) AS p, generate_series(1, 1500) AS i
$$;
CALL pg_temp.fill();

\echo 'count'
SELECT count_entities('Bulk'), count_entities('Bulk', ''), count_entities('bulk', 'Even'), count_entities('Bulk', 'N le @n', '{"n": 10}'),
  count_entities('Bulk', 'PartitionKey eq ''b'''), count_entities('Bulk', 'PartitionKey eq ''b'' and RowKey eq ''0007'''),
  count_entities('Bulk', 'PartitionKey eq ''b'' and (RowKey eq ''0007'' or RowKey eq ''0009'' or RowKey eq ''x'')'), count_entities('Bulk', 'false');

\echo 'delete'
SELECT delete_entities('Bulk', 'PartitionKey eq ''b'' and N gt 1400');
SELECT count_entities('Bulk', 'PartitionKey eq ''b''');
-- The first in key order.
SELECT delete_entities('Bulk', 'Even', 3);
SELECT string_agg(partition_key || row_key, ' ') FROM query_entities('Bulk', NULL, '', 5);
SELECT delete_entities('Bulk', 'N eq @n', parameters => '{"n": 1}'), delete_entities('Bulk', 'N eq 1'), delete_entities('Bulk', 'true', 0);
-- The caller's snapshot: what the same statement has inserted before is not there yet.
SELECT insert_entity('Bulk', 'a', 'new', '{"New": true}') IS NOT NULL AS inserted, delete_entities('Bulk', 'New') AS deleted;
SELECT delete_entities('Bulk', 'New');
SELECT delete_entities('Bulk', 'true');
SELECT count_entities('Bulk');

\echo 'update'
CALL pg_temp.fill();
SELECT update_entities('Bulk', 'PartitionKey eq ''c'' and Even', '{"State": "done", "N": -1}', ARRAY['Even']);
SELECT count(*), min("timestamp") > '2022-04-13T21:50:14Z' AS later FROM query_entities('Bulk', 'PartitionKey eq ''c'' and N eq -1 and State eq ''done''');
SELECT row_key, properties FROM query_entities('Bulk', 'PartitionKey eq ''c''', NULL, 2);
-- Each entity once, also when it still passes the filter; removing what is not there is a write.
SELECT update_entities('Bulk', 'PartitionKey eq ''c''', NULL, ARRAY['Nothing']), update_entities('Bulk', 'PartitionKey eq ''c''', '{}', top => 2);
SELECT properties FROM get_entity('Bulk', 'c', '0001');

\echo 'large entities are changed in parts'
SELECT insert_entity('Bulk', 'large', i::text, format('{"A": "%s", "B": "%s", "C": "%s"}', repeat('x', 30000), repeat('y', 30000), repeat('z', 30000))::properties) IS NOT NULL AS inserted
FROM generate_series(101, 200) AS i OFFSET 99;
SELECT update_entities('Bulk', 'PartitionKey eq ''large''', '{"D": 1}');
SELECT count_entities('Bulk', 'PartitionKey eq ''large'' and D eq 1');

\echo 'arguments'
SELECT call, pg_temp.outcome('SELECT ' || call) FROM (VALUES
    ('delete_entities(''Bulk'', NULL)'), ('delete_entities(''Bulk'', '' '')'), ('delete_entities(NULL, ''true'')'), ('delete_entities(''Bulk'', ''true'', -1)'),
    ('delete_entities(''Bulk'', ''N eq'')'), ('delete_entities(''Nothing'', ''true'')'), ('delete_entities(''No-name'', ''true'')'),
    ('update_entities(''Bulk'', NULL, ''{}'')'), ('update_entities(''Bulk'', ''true'', NULL)'), ('update_entities(''Bulk'', ''true'', ''{"A": 1}'', ''{A}'')'),
    ('update_entities(''Bulk'', ''true'', NULL, ''{Timestamp}'')'), ('update_entities(''Bulk'', ''true'', NULL, ''{NULL}'')'), ('update_entities(''Bulk'', ''true'', NULL, ''{no name}'')'),
    ('delete_entities_step(''Bulk'', '''')'), ('delete_entities_step(''Bulk'', ''true'', -1)'), ('delete_entities_step(''Bulk'', ''true'', 1, ''x'')'),
    ('count_entities(NULL)'), ('count_entities(''Bulk'', ''N eq'')'), ('clear_table(NULL)'), ('clear_table(''Nothing'')')) AS v (call);
-- An error of one entity names it, and nothing is changed.
SELECT merge_entity('Bulk', 'c', '0700', (SELECT '{' || string_agg(format('"P%s": 1', i), ', ') || '}' FROM generate_series(1, 250) AS i)::properties, '*') IS NOT NULL AS merged;
SELECT update_entities('Bulk', 'PartitionKey eq ''c''', '{"X": 1, "Y": 2, "Z": 3}');
SELECT count_entities('Bulk', 'X eq 1');

\echo 'steps'
CALL pg_temp.fill();
-- A loop over steps, and what they return.
CREATE FUNCTION pg_temp.loop(call text) RETURNS TABLE (steps bigint, done bigint) LANGUAGE plpgsql AS $$
DECLARE
    token text;
    now_done bigint;
BEGIN
    steps := 0;
    done := 0;
    LOOP
        EXECUTE format('SELECT * FROM ' || call, token) INTO now_done, token;
        steps := steps + 1;
        done := done + now_done;
        EXIT WHEN token IS NULL;
    END LOOP;
    RETURN NEXT;
END $$;
SELECT * FROM pg_temp.loop($$update_entities_step('Bulk', 'Even', '{"Seen": true}', NULL, 1000, %L)$$);
SELECT count_entities('Bulk', 'Seen');
SELECT * FROM pg_temp.loop($$delete_entities_step('Bulk', 'Even', continuation_token => %L)$$);
SELECT count_entities('Bulk'), count_entities('Bulk', 'Even');
-- A step ends when its time is over; it may have done nothing. The next one goes on.
SET table_service.page_time_limit = 0;
SELECT steps > 1000 AS many, done FROM pg_temp.loop($$delete_entities_step('Bulk', 'N gt 1490', 1000, %L)$$);
RESET table_service.page_time_limit;
-- A token is that of its operation.
SELECT continuation_token AS token FROM delete_entities_step('Bulk', 'true', 1) \gset
SELECT deleted FROM delete_entities_step('Bulk', 'true', 1, :'token');
SELECT pg_temp.outcome(format('SELECT deleted FROM delete_entities_step(%L, %L, 1, %L, %s)', "table", filter, :'token', parameters))
FROM (VALUES ('Bulk', 'N gt 0', 'NULL'), ('Bulk', 'true', '''{"a": 1}'''), ('Bulk', 'true ', 'NULL')) AS v ("table", filter, parameters);
SELECT pg_temp.outcome(format('SELECT updated FROM update_entities_step(''Bulk'', ''true'', ''{}'', NULL, 1, %L)', :'token'));
SELECT pg_temp.outcome(format('SELECT count(*) FROM query_page(''Bulk'', continuation_token => %L)', :'token'));
-- Also when what was done is done again: a step can be repeated.
SELECT deleted FROM delete_entities_step('Bulk', 'true', 1, :'token');
-- Where nothing is looked at, nothing is known to be done: the token is that of the beginning.
SELECT deleted, continuation_token IS NULL AS done, continuation_token AS token FROM delete_entities_step('Bulk', 'RowKey eq ''none''', 0) \gset
SELECT :deleted AS deleted, :'done' AS done;
SELECT * FROM delete_entities_step('Bulk', 'RowKey eq ''none''', 1, :'token');

\echo 'procedures'
CALL pg_temp.fill();
CALL delete_entities_in_steps('Bulk', 'Even', 100);
SELECT count_entities('Bulk');
CALL update_entities_in_steps('Bulk', 'N gt 100', '{"Late": true}', step => 1000, updated => 5);
SELECT count_entities('Bulk', 'Late');
CALL delete_entities_in_steps('Bulk', 'N lt 100', pause => '1 ms', step => 50);
-- From a token on.
SELECT continuation_token AS token FROM delete_entities_step('Bulk', 'Late', 10) \gset
CALL delete_entities_in_steps('Bulk', 'Late', deleted => 10, continuation_token => :'token');
SELECT count_entities('Bulk');
-- Not where they cannot commit, before anything else is looked at.
BEGIN;
CALL delete_entities_in_steps('Bulk', NULL);
ROLLBACK;
CREATE FUNCTION pg_temp.inside() RETURNS void LANGUAGE plpgsql AS $$ DECLARE deleted bigint; token text;
  BEGIN CALL delete_entities_in_steps('Bulk', 'true', 1, deleted => deleted, continuation_token => token); END $$;
SELECT pg_temp.outcome('SELECT pg_temp.inside()');
-- A procedure that may commit may call them.
CALL pg_temp.fill();
DO $$ DECLARE deleted bigint := 0; token text; BEGIN CALL delete_entities_in_steps('Bulk', 'true', 100, deleted => deleted, continuation_token => token); RAISE NOTICE '% deleted', deleted; END $$;
-- Arguments.
CALL delete_entities_in_steps('Bulk', '');
CALL delete_entities_in_steps('Bulk', 'true', 0);
CALL delete_entities_in_steps('Bulk', 'true', NULL);
CALL delete_entities_in_steps('Bulk', 'true', pause => '-1 s');
CALL delete_entities_in_steps('Bulk', 'true', pause => NULL);
CALL delete_entities_in_steps('Bulk', 'true', deleted => -1);
CALL delete_entities_in_steps('Bulk', 'true', continuation_token => 'x');
-- What was done before an error stays. Its hint has the token with which to go on (as tests/system shows; it is another in each
-- database).
\set VERBOSITY terse
CALL pg_temp.fill();
CREATE FUNCTION public.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF OLD.partition_key = 'b' AND OLD.row_key = '0150' THEN RAISE EXCEPTION 'kept' USING ERRCODE = '45000', HINT = 'Ask.'; END IF;
  RETURN OLD;
END $$;
CREATE TRIGGER keep BEFORE DELETE ON table_service_data."Bulk" FOR EACH ROW EXECUTE FUNCTION public.keep();
CALL delete_entities_in_steps('Bulk', 'true', 1000);
SELECT count_entities('Bulk');
DROP TRIGGER keep ON table_service_data."Bulk";
-- At COMMIT too.
CREATE CONSTRAINT TRIGGER keep AFTER DELETE ON table_service_data."Bulk" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.keep();
CALL delete_entities_in_steps('Bulk', 'true', 100);
SELECT count_entities('Bulk');
DROP TRIGGER keep ON table_service_data."Bulk";
-- A limit that only a later entity meets.
SELECT merge_entity('Bulk', 'c', '0700', (SELECT '{' || string_agg(format('"P%s": 1', i), ', ') || '}' FROM generate_series(1, 250) AS i)::properties, '*') IS NOT NULL AS merged;
CALL update_entities_in_steps('Bulk', 'true', '{"X": 1, "Y": 2, "Z": 3}', step => 1000);
SELECT count_entities('Bulk', 'X eq 1');
\set VERBOSITY default

\echo 'property indexes'
CALL pg_temp.fill();
SELECT create_property_index('Bulk', 'N') IS NOT NULL AS created;
ANALYZE table_service_data."Bulk";
SELECT count_entities('Bulk', 'N eq 7'), count_entities('Bulk', 'N lt 10 and Even'), count_entities('Bulk', 'N ge 0'), count_entities('Bulk', 'PartitionKey eq ''a'' and N eq 7');
SELECT delete_entities('Bulk', 'N eq 7'), update_entities('Bulk', 'N lt 10', '{"Small": true}');
SELECT delete_entities('Bulk', 'N gt 500 or N eq 1', 2000);
SELECT count_entities('Bulk', 'Small'), count_entities('Bulk'), count_entities('Bulk', 'N eq 7');

\echo 'triggers and rules of users'
CALL pg_temp.fill();
CREATE FUNCTION public.skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF OLD.row_key = '0002' THEN RETURN NULL; END IF; RETURN coalesce(NEW, OLD); END $$;
CREATE TRIGGER skip BEFORE DELETE OR UPDATE ON table_service_data."Bulk" FOR EACH ROW EXECUTE FUNCTION public.skip();
SELECT delete_entities('Bulk', 'PartitionKey eq ''a'' and N le 4'), update_entities('Bulk', 'PartitionKey eq ''b'' and N le 4', '{"T": 1}');
SELECT * FROM pg_temp.loop($$delete_entities_step('Bulk', 'PartitionKey eq ''c''', 100, %L)$$);
DROP TRIGGER skip ON table_service_data."Bulk";
CREATE RULE nothing AS ON DELETE TO table_service_data."Bulk" DO INSTEAD NOTHING;
SELECT delete_entities('Bulk', 'PartitionKey eq ''a''');
DROP RULE nothing ON table_service_data."Bulk";
SELECT delete_entities('Bulk', 'PartitionKey eq ''a''');

\echo 'a partitioned table'
CREATE TABLE table_service_data."Parted" OF table_service.entity (PRIMARY KEY (partition_key, row_key)) PARTITION BY HASH (partition_key);
CREATE TABLE table_service_data.parted_0 PARTITION OF table_service_data."Parted" FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE table_service_data.parted_1 PARTITION OF table_service_data."Parted" FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO table_service_data."Parted" SELECT 'p' || i % 7, i::text, now(), format('{"N": %s}', i)::properties FROM generate_series(1, 700) AS i;
SELECT count_entities('Parted', 'N gt 350'), update_entities('Parted', 'N gt 350', '{"Big": true}');
SELECT delete_entities('Parted', 'Big', 100);
SELECT count_entities('Parted', 'Big');
SELECT clear_table('Parted');
SELECT count_entities('Parted');

\echo 'rights'
CREATE ROLE golden_bulk;
GRANT SELECT, UPDATE ON table_service_data."Bulk" TO golden_bulk;
SET ROLE golden_bulk;
SELECT count_entities('Bulk', 'N eq 1'), update_entities('Bulk', 'N eq 1', '{"X": 1}');
SELECT pg_temp.outcome(call) FROM (VALUES ('SELECT delete_entities(''Bulk'', ''N eq 1'')'), ('SELECT delete_entities(''Bulk'', ''false'')'), ('SELECT clear_table(''Bulk'')')) AS v (call);
RESET ROLE;
-- Locking needs the right to update.
REVOKE UPDATE ON table_service_data."Bulk" FROM golden_bulk;
GRANT DELETE ON table_service_data."Bulk" TO golden_bulk;
SET ROLE golden_bulk;
SELECT pg_temp.outcome('SELECT delete_entities(''Bulk'', ''N eq 1'')');
RESET ROLE;
-- Policies: what a role may not see or write is not touched.
GRANT UPDATE, TRUNCATE ON table_service_data."Bulk" TO golden_bulk;
ALTER TABLE table_service_data."Bulk" ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON table_service_data."Bulk" FOR SELECT TO golden_bulk USING (row_key <= '0010');
CREATE POLICY updated ON table_service_data."Bulk" FOR UPDATE TO golden_bulk USING (row_key <= '0008');
CREATE POLICY deleted ON table_service_data."Bulk" FOR DELETE TO golden_bulk USING (row_key <= '0006');
SET ROLE golden_bulk;
SELECT count_entities('Bulk'), update_entities('Bulk', 'true', '{"Y": 1}');
SELECT delete_entities('Bulk', 'true');
RESET ROLE;
SELECT count_entities('Bulk', 'Y eq 1'), min(row_key) FROM query_entities('Bulk');
SET ROLE golden_bulk;
SELECT clear_table('Bulk');
RESET ROLE;
SELECT count_entities('Bulk');

\echo 'read only'
BEGIN READ ONLY;
SELECT count_entities('Bulk');
SELECT delete_entities('Bulk', 'true');
ROLLBACK;
BEGIN READ ONLY;
SELECT clear_table('Bulk');
ROLLBACK;
SELECT delete_table('Bulk'), delete_table('Parted');
DROP FUNCTION public.keep, public.skip;
DROP OWNED BY golden_bulk;
DROP ROLE golden_bulk;
