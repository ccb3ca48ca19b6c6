-- write_entities: independent operations on a table, each with its own outcome.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SELECT create_table('Orders');
SELECT insert_entity('Orders', 'Ann', '1', '{"item": "pen"}') AS etag \gset
SELECT insert_entity('Orders', 'Ann', '2', '{"item": "ink"}') IS NOT NULL AS inserted;

-- Each has its own outcome, in every partition, and a failure undoes nothing of the others.
SELECT index, outcome, etag IS NOT NULL AS has_etag, sqlstate, message, detail, hint
FROM write_entities('orders', ARRAY['Ann', 'Ann', 'Bob', 'Ann', 'Bob', 'Ann', 'Cid', 'Cid', 'Dan', 'Ann'], ARRAY[
    batch_insert('3', '{"n": 3}'), batch_insert('1', '{"n": 0}'), batch_insert('1', '{"n": 1}'), batch_merge('1', '{"n": 2}', :'etag'), batch_merge('9', '{}', '*'),
    batch_replace('2', '{"n": 4}', :'etag'), batch_insert_or_replace('1', '{"n": 5}'), batch_insert_or_merge('1', '{"m": 6}'),
    batch_patch('1', increment => '{"n": 7}', create_missing => true), batch_delete('2')]);
SELECT partition_key, row_key, properties FROM table_service_data."Orders" ORDER BY 1, 2;

-- The errors are those of the single calls, word for word.
SELECT w.sqlstate || ' ' || w.message || coalesce(' HINT: ' || w.hint, '') = o.outcome AS is_the_same, o.outcome
FROM (VALUES
    ('insert_entity(''Orders'', ''Ann'', ''1'', ''{}'')', 'Ann', batch_insert('1', '{}')),
    ('insert_entity(''Orders'', ''a/b'', ''1'', ''{}'')', 'a/b', batch_insert('1', '{}')),
    ('insert_entity(''Orders'', NULL, ''1'', ''{}'')', NULL, batch_insert('1', '{}')),
    ('insert_entity(''Orders'', ''Ann'', NULL, ''{}'')', 'Ann', ROW('insert', NULL, '{}', NULL)::batch_operation),
    ('insert_entity(''Orders'', repeat(''p'', 1025), ''1'', ''{}'')', repeat('p', 1025), batch_insert('1', '{}')),
    ('replace_entity(''Orders'', ''Ann'', ''9'', ''{}'', ''*'')', 'Ann', batch_replace('9', '{}', '*')),
    ('merge_entity(''Orders'', ''Ann'', ''1'', ''{}'', ''W/"datetime''''2020-01-01T00%3A00%3A00Z''''"'')', 'Ann',
        batch_merge('1', '{}', 'W/"datetime''2020-01-01T00%3A00%3A00Z''"')),
    ('merge_entity(''Orders'', ''Ann'', ''1'', ''{}'', ''abc'')', 'Ann', ROW('merge', '1', '{}', 'abc')::batch_operation),
    ('delete_entity(''Orders'', ''Ann'', ''9'')', 'Ann', batch_delete('9')),
    ('patch_entity(''Orders'', ''Ann'', ''1'', ''{"n": 1}'', condition => ''n eq 77'')', 'Ann', batch_patch('1', '{"n": 1}', condition => 'n eq 77'))) AS v (call, partition_key, operation),
    LATERAL (SELECT pg_temp.outcome('SELECT ' || call) AS outcome) AS o,
    LATERAL write_entities('Orders', ARRAY[partition_key], ARRAY[operation]) AS w;

-- An ETag whose seventh digit is not zero matches none, as in the single call.
SELECT etag(e) AS etag FROM get_entity('Orders', 'Ann', '3') AS e \gset
SELECT outcome, message FROM write_entities('Orders', ARRAY['Ann'], ARRAY[batch_merge('3', '{}', regexp_replace(:'etag', '(\.\d+)?Z', '.1234567Z'))]);

-- Operations on one entity come one after the other, and each sees the one before.
SELECT index, outcome, message FROM write_entities('Orders', ARRAY['Eve', 'Eve', 'Eve', 'Eve', 'Eve'], ARRAY[
    batch_insert('1', '{"n": 1}'), batch_patch('1', increment => '{"n": 1}'), batch_insert('1', '{}'), batch_delete('1'), batch_insert('1', '{"last": true}')]);
SELECT count(*), min(properties::text) FROM table_service_data."Orders" WHERE partition_key = 'Eve';
-- No two versions of an entity have the same ETag.
SELECT count(DISTINCT etag) FROM write_entities('Orders', array_fill('Fay'::text, ARRAY[32]),
    (SELECT array_agg(batch_insert_or_merge('1', jsonb_build_object('n', n))) FROM generate_series(1, 32) AS n));

-- They are one transaction.
BEGIN;
SELECT outcome FROM write_entities('Orders', ARRAY['Gil', 'Gil'], ARRAY[batch_insert('1', '{}'), batch_insert('1', '{}')]);
ROLLBACK;
SELECT count(*) FROM get_entity('Orders', 'Gil', '1');
-- The caller's limit for locks is as before.
SET lock_timeout = '7s';
SELECT count(*) FROM write_entities('Orders', ARRAY['Gil'], ARRAY[batch_delete('1')]);
SHOW lock_timeout;
RESET lock_timeout;

-- The limits of the arguments.
SELECT call, pg_temp.outcome('SELECT count(*) FROM ' || call)
FROM (VALUES ('write_entities(''Orders'', ''{}'', ''{}'')'), ('write_entities(''Nowhere'', ''{}'', ''{}'')'), ('write_entities(''no-name'', ''{}'', ''{}'')'),
    ('write_entities(''Orders'', ''{p}'', ''{}'')'), ('write_entities(''Orders'', ''{}'', ARRAY[batch_delete(''1'')])'),
    ('write_entities(''Orders'', array_fill(''p''::text, ARRAY[33]), array_fill(batch_delete(''1''), ARRAY[33]))')) AS v (call);
SELECT outcome, sqlstate, message FROM write_entities('Orders', ARRAY['p', 'p', 'p', 'p'], ARRAY[NULL, ROW('truncate', '1', '{}', NULL), ROW('insert', '1', NULL, NULL),
    ROW('insert', '1', '{}', '*')]::batch_operation[]);
BEGIN READ ONLY;
SELECT * FROM write_entities('Orders', ARRAY['p'], ARRAY[batch_delete('1')]);
:state
ROLLBACK;

-- Above READ COMMITTED a write may fail because of others, and the whole transaction with it.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT outcome FROM write_entities('Orders', ARRAY['Hal'], ARRAY[batch_insert('1', '{}')]);
ROLLBACK;

-- A transaction that has many subtransactions gets no more.
BEGIN;
DO $$
BEGIN
    FOR n IN 1 .. 60 LOOP
        BEGIN
            PERFORM insert_entity('Orders', 'Ida', n::text, '{}');
        EXCEPTION WHEN OTHERS THEN
            RAISE;
        END;
    END LOOP;
END $$;
SELECT outcome FROM write_entities('Orders', ARRAY['Hal'], ARRAY[batch_insert('1', '{}')]);
ROLLBACK;

-- Entities that have expired are gone.
SELECT create_table('Sessions');
SELECT set_expiry('Sessions', time_to_live => '1 hour') IS NOT NULL AS expires;
INSERT INTO table_service_data."Sessions" SELECT 'p', n::text, now() - interval '2 hours', '{"old": true}' FROM generate_series(1, 4) AS n;
SELECT index, outcome, message FROM write_entities('Sessions', ARRAY['p', 'p', 'p', 'p', 'p'], ARRAY[
    batch_insert('1', '{"new": 1}'), batch_merge('2', '{"new": 2}', '*'), batch_insert_or_merge('3', '{"new": 3}'), batch_delete('4'), batch_insert('1', '{}')]);
SELECT row_key, properties FROM query_entities('Sessions');

-- Property indexes are the extension's own.
SELECT create_property_index('Orders', 'item') IS NOT NULL AS indexed;
SELECT outcome FROM write_entities('Orders', ARRAY['Ann', 'Jan'], ARRAY[batch_merge('1', '{"item": "cap"}', '*'), batch_insert('1', '{"item": "cap"}')]);
SELECT partition_key, row_key FROM query_entities('Orders', $$item eq 'cap'$$);

-- Nothing of users runs: everything that a user adds to a table makes its operations "alone".
CREATE FUNCTION public.golden_shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'it ran'; RETURN coalesce(NEW, OLD); END $$;
CREATE FUNCTION public.golden_yes() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'it ran'; RETURN true; END $$;
CREATE FUNCTION public.golden_same(properties) RETURNS properties LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'it ran'; RETURN $1; END $$;
CREATE FUNCTION pg_temp.all_of(table_name text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(DISTINCT outcome, ' ') FROM write_entities(table_name, ARRAY['p', 'p', 'p', 'p', 'p'], ARRAY[
        batch_insert('new', '{"n": 1}'), batch_merge('r', '{"n": 2}', '*'), batch_insert_or_replace('r', '{"n": 3}'), batch_patch('r', increment => '{"n": 1}'),
        batch_delete('new')])
$$;
SELECT create_table('Shaped');
SELECT insert_entity('Shaped', 'p', 'r', '{"n": 1}') IS NOT NULL AS inserted;
SELECT pg_temp.all_of('Shaped') AS plain;
CREATE TRIGGER t AFTER INSERT ON table_service_data."Shaped" FOR EACH ROW EXECUTE FUNCTION golden_shout();
SELECT pg_temp.all_of('Shaped') AS trigger_on_insert;
DROP TRIGGER t ON table_service_data."Shaped";
CREATE TRIGGER t BEFORE DELETE ON table_service_data."Shaped" FOR EACH STATEMENT EXECUTE FUNCTION golden_shout();
SELECT pg_temp.all_of('Shaped') AS trigger_on_delete;
DROP TRIGGER t ON table_service_data."Shaped";
CREATE CONSTRAINT TRIGGER t AFTER UPDATE ON table_service_data."Shaped" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION golden_shout();
SELECT pg_temp.all_of('Shaped') AS deferred_trigger;
DROP TRIGGER t ON table_service_data."Shaped";
SELECT tgfoid::regproc AS stamps FROM pg_trigger WHERE tgrelid = 'table_service_data."Shaped"'::regclass AND NOT tgisinternal \gset
CREATE TRIGGER t BEFORE UPDATE ON table_service_data."Shaped" FOR EACH ROW WHEN (golden_yes()) EXECUTE FUNCTION :stamps();
SELECT pg_temp.all_of('Shaped') AS condition_of_a_trigger;
DROP TRIGGER t ON table_service_data."Shaped";
ALTER TABLE table_service_data."Shaped" ADD CONSTRAINT c CHECK (golden_yes());
SELECT pg_temp.all_of('Shaped') AS check_constraint;
ALTER TABLE table_service_data."Shaped" DROP CONSTRAINT c;
SELECT conname AS ours FROM pg_constraint WHERE conrelid = 'table_service_data."Shaped"'::regclass AND contype = 'c' \gset
ALTER TABLE table_service_data."Shaped" DROP CONSTRAINT :"ours",
    ADD CONSTRAINT :"ours" CHECK (entity_is_valid(partition_key, row_key, "timestamp", golden_same(properties)));
SELECT pg_temp.all_of('Shaped') AS argument_of_the_check;
SELECT insert_entity('Shaped', 'p', 'by a statement', '{}') IS NOT NULL AS inserted;
ALTER TABLE table_service_data."Shaped" DROP CONSTRAINT :"ours",
    ADD CONSTRAINT :"ours" CHECK (entity_is_valid(partition_key, row_key, "timestamp", properties));
SELECT pg_temp.all_of('Shaped') AS plain;
CREATE INDEX i ON table_service_data."Shaped" (row_key);
SELECT pg_temp.all_of('Shaped') AS index;
DROP INDEX table_service_data.i;
CREATE RULE r AS ON DELETE TO table_service_data."Shaped" DO ALSO SELECT golden_yes();
SELECT pg_temp.all_of('Shaped') AS rule;
DROP RULE r ON table_service_data."Shaped";
CREATE TABLE child (partition_key text COLLATE "C", row_key text COLLATE "C",
    FOREIGN KEY (partition_key, row_key) REFERENCES table_service_data."Shaped" ON DELETE CASCADE);
SELECT pg_temp.all_of('Shaped') AS foreign_key;
DROP TABLE child;
ALTER TABLE table_service_data."Shaped" ENABLE ROW LEVEL SECURITY;
SELECT pg_temp.all_of('Shaped') AS policies;
ALTER TABLE table_service_data."Shaped" DISABLE ROW LEVEL SECURITY;
SELECT pg_temp.all_of('Shaped') AS plain;

-- An error of PostgreSQL is that of one operation, which the single call reports. Those behind it on its entity stay behind it.
CREATE ROLE golden_grouper;
GRANT SELECT, UPDATE, DELETE ON table_service_data."Orders" TO golden_grouper;
SET ROLE golden_grouper;
SELECT index, outcome FROM write_entities('Orders', ARRAY['Cid', 'Cid', 'Bob'], ARRAY[batch_insert_or_replace('1', '{}'), batch_delete('1'), batch_delete('1')]);
SELECT insert_or_replace_entity('Orders', 'Cid', '1', '{}');
:state
RESET ROLE;
REVOKE ALL ON table_service_data."Orders" FROM golden_grouper;
DROP ROLE golden_grouper;
SELECT count(*) FROM get_entity('Orders', 'Cid', '1');

-- An error that concerns the server ends the call: here the properties of a row are damaged.
ALTER TABLE table_service_data."Shaped" ALTER COLUMN properties DROP NOT NULL;
UPDATE table_service_data."Shaped" SET properties = NULL WHERE row_key = 'r';
SELECT * FROM write_entities('Shaped', ARRAY['p', 'p'], ARRAY[batch_insert('x', '{}'), batch_merge('r', '{}', '*')]);
:state
SELECT count(*) FROM get_entity('Shaped', 'p', 'x');

DROP FUNCTION public.golden_shout(), public.golden_yes(), public.golden_same(properties);
SELECT delete_table('Orders'), delete_table('Sessions'), delete_table('Shaped');
