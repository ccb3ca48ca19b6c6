-- Rights: functions run with the rights of the caller, and tables belong to who created them.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
CREATE ROLE golden_owner;
CREATE ROLE golden_reader;
CREATE ROLE golden_writer;
CREATE ROLE golden_nobody;
-- pg_temp.outcome belongs to this session's user; let the others call it.
SELECT nspname AS temp FROM pg_namespace WHERE oid = pg_my_temp_schema() \gset
GRANT USAGE ON SCHEMA :temp TO PUBLIC;

-- Creating tables is for the owner of the database, and for whom they grant it to.
SET ROLE golden_owner;
SELECT create_table('Employees');
:state
RESET ROLE;
GRANT CREATE ON SCHEMA table_service_data TO golden_owner;
SET ROLE golden_owner;
SELECT create_table('Employees');
SELECT insert_entity('Employees', 'p', 'r', '{"a": 1}') IS NOT NULL AS inserted;
GRANT SELECT ON table_service_data."Employees" TO golden_reader;
GRANT SELECT, INSERT, UPDATE, DELETE ON table_service_data."Employees" TO golden_writer;
RESET ROLE;

-- What each role may do. Missing rights are reported before a wrong version.
CREATE FUNCTION pg_temp.try(what text) RETURNS text LANGUAGE sql AS $$ SELECT replace(left(pg_temp.outcome('SELECT ' || what), 56), E'\n', ' ') $$;
CREATE TEMPORARY TABLE calls AS SELECT * FROM (VALUES
    (1, 'get_entity(''Employees'', ''p'', ''missing'')'), (2, 'get_entities(''Employees'', ''p'', ''{missing}'')'),
    (3, 'insert_entity(''Employees'', ''p'', ''new'', ''{}'') IS NOT NULL'), (4, 'replace_entity(''Employees'', ''p'', ''r'', ''{}'', ''*'') IS NOT NULL'),
    (5, 'merge_entity(''Employees'', ''p'', ''r'', ''{}'', ''*'') IS NOT NULL'), (6, 'merge_entity(''Employees'', ''p'', ''r'', ''{}'', ''W/"x"'') IS NOT NULL'),
    (7, 'insert_or_replace_entity(''Employees'', ''p'', ''r'', ''{}'') IS NOT NULL'), (8, 'insert_or_merge_entity(''Employees'', ''p'', ''r'', ''{}'') IS NOT NULL'),
    (9, 'delete_entity(''Employees'', ''p'', ''new'')'), (10, 'delete_entity(''Employees'', ''p'', ''r'', ''W/"x"'')'), (11, 'create_table(''Others'')'), (12, 'create_table(''Employees'')'),
    (13, 'create_table(''employees'', true)'), (14, 'delete_table(''Employees'')'), (15, 'delete_table(''Nothing'', true)'), (16, '(SELECT string_agg(table_name, '' '') FROM query_tables())')) AS v (n, call);
GRANT SELECT ON calls TO PUBLIC;
SET ROLE golden_nobody;
SELECT call, pg_temp.try(call) FROM calls ORDER BY n;
SET ROLE golden_reader;
SELECT call, pg_temp.try(call) FROM calls ORDER BY n;
SET ROLE golden_writer;
SELECT call, pg_temp.try(call) FROM calls ORDER BY n;
RESET ROLE;
-- insert_entity needs INSERT and nothing else: who may add need not be able to read.
REVOKE ALL ON table_service_data."Employees" FROM golden_writer;
GRANT INSERT ON table_service_data."Employees" TO golden_writer;
SET ROLE golden_writer;
SELECT insert_entity('Employees', 'p', 'added', '{}') IS NOT NULL AS inserted;
SELECT insert_entity('Employees', 'p', 'added', '{}');
:state
SELECT get_entity('Employees', 'p', 'added');
:state
RESET ROLE;

-- Who may not use the schema cannot name its tables, whatever their rights on them.
REVOKE USAGE ON SCHEMA table_service_data FROM PUBLIC;
SET ROLE golden_reader;
SELECT call, pg_temp.try(call) FROM calls WHERE n = 1;
SET ROLE golden_writer;
SELECT insert_entity('Employees', 'p', 'more', '{}');
:state
SELECT count(*) FROM execute_batch('Employees', 'p', VARIADIC (SELECT array_agg(batch_insert(n::text, '{}')) FROM generate_series(1, 10) AS n));
:state
RESET ROLE;
GRANT USAGE ON SCHEMA table_service_data TO PUBLIC;

-- A SECURITY DEFINER function lends its owner's rights.
CREATE FUNCTION public.golden_count() RETURNS bigint SECURITY DEFINER SET search_path = pg_catalog, pg_temp LANGUAGE sql
AS $$ SELECT count(*) FROM table_service.get_entity('Employees', 'p', 'added') $$;
ALTER FUNCTION public.golden_count() OWNER TO golden_owner;
SET ROLE golden_nobody;
SELECT golden_count();
SELECT get_entity('Employees', 'p', 'added');
:state
RESET ROLE;

-- Row-level security: the caller's policies hold in every function. Here a writer sees and writes partitions of their own
-- name, and reads the partition "all" too.
ALTER TABLE table_service_data."Employees" ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON table_service_data."Employees" FOR ALL TO golden_writer USING (partition_key = current_user) WITH CHECK (partition_key = current_user);
CREATE POLICY everybody ON table_service_data."Employees" FOR SELECT TO golden_writer USING (partition_key = 'all');
GRANT SELECT, INSERT, UPDATE, DELETE ON table_service_data."Employees" TO golden_writer;
SELECT count(insert_entity('Employees', p, '1', '{"a": 1}')) FROM unnest(ARRAY['golden_writer', 'all', 'secret']) AS p;
SET ROLE golden_writer;
-- Their own partition.
SELECT insert_entity('Employees', 'golden_writer', '2', '{}') IS NOT NULL AS inserted, merge_entity('Employees', 'golden_writer', '2', '{"b": 2}', '*') IS NOT NULL AS merged,
    replace_entity('Employees', 'golden_writer', '1', '{"c": 3}', '*') IS NOT NULL AS replaced, insert_or_merge_entity('Employees', 'golden_writer', '1', '{"d": 4}') IS NOT NULL AS merged,
    insert_or_replace_entity('Employees', 'golden_writer', '3', '{}') IS NOT NULL AS inserted, delete_entity('Employees', 'golden_writer', '3') AS deleted;
SELECT row_key, properties FROM get_entities('Employees', 'golden_writer', '{1, 2, 3}');
-- Another's partition: nothing is there for them, and nothing can be put there.
SELECT count(*) FROM get_entity('Employees', 'secret', '1');
SELECT call, pg_temp.outcome('SELECT ' || call)
FROM (VALUES ('replace_entity(''Employees'', ''secret'', ''1'', ''{}'', ''*'')'), ('merge_entity(''Employees'', ''secret'', ''1'', ''{}'', ''W/"x"'')'), ('delete_entity(''Employees'', ''secret'', ''1'')'),
    ('delete_entity(''Employees'', ''secret'', ''1'', if_exists => true)'), ('insert_entity(''Employees'', ''secret'', ''2'', ''{}'')'), ('insert_or_replace_entity(''Employees'', ''secret'', ''2'', ''{}'')'),
    ('insert_or_merge_entity(''Employees'', ''secret'', ''1'', ''{}'')')) AS v (call);
-- What they may read and not write: they are told so.
SELECT count(*) FROM get_entity('Employees', 'all', '1');
SELECT etag(e) AS etag FROM get_entity('Employees', 'all', '1') AS e \gset
SELECT merge_entity('Employees', 'all', '1', '{}', '*');
:state
SELECT replace_entity('Employees', 'all', '1', '{}', :'etag');
:state
SELECT delete_entity('Employees', 'all', '1');
:state
SELECT delete_entity('Employees', 'all', '1', 'W/"another"');
:state
RESET ROLE;
SELECT partition_key, row_key, properties FROM table_service_data."Employees" WHERE partition_key <> 'p' ORDER BY 1, 2;

-- A trigger that takes a write away is not passed over in silence either.
CREATE FUNCTION public.golden_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON table_service_data."Employees" FOR EACH ROW EXECUTE FUNCTION public.golden_refuse();
SELECT merge_entity('Employees', 'all', '1', '{}', '*');
:state
SELECT insert_or_merge_entity('Employees', 'all', '1', '{}');
:state
SELECT delete_entity('Employees', 'all', '1');
:state

DROP FUNCTION public.golden_refuse() CASCADE;
DROP FUNCTION public.golden_count();
SELECT delete_table('Employees');
REVOKE CREATE ON SCHEMA table_service_data FROM golden_owner;
REVOKE USAGE ON SCHEMA :temp FROM PUBLIC;
DROP ROLE golden_owner, golden_reader, golden_writer, golden_nobody;

-- The owner of the database may grant TRIGGER, and no other role's code runs with that owner's rights.
CREATE ROLE regress_planter;
CREATE SCHEMA regress_planter AUTHORIZATION regress_planter;
GRANT TRIGGER ON service_properties TO regress_planter;
SET ROLE regress_planter;
CREATE FUNCTION regress_planter.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'runs as %', current_user; RETURN NEW; END $$;
CREATE TRIGGER note BEFORE INSERT OR UPDATE ON service_properties FOR EACH ROW EXECUTE FUNCTION regress_planter.note();
RESET ROLE;
SELECT set_service_properties('{"Cors": []}');
DROP SCHEMA regress_planter CASCADE;
REVOKE ALL ON service_properties FROM regress_planter;
DROP ROLE regress_planter;
