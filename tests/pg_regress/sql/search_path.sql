-- Nothing that the extension runs depends on the search_path: what other schemas hold cannot get in between.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- All that can be done, in one function, which names everything fully. It returns what it saw.
CREATE FUNCTION public.everything() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    tag pg_catalog.text;
    saw pg_catalog.text := '';
BEGIN
    saw := saw || table_service.create_table('Employees') || ' ';
    tag := table_service.insert_entity('Employees', 'p', '1', '{"a": 1}');
    tag := table_service.merge_entity('employees', 'p', '1', '{"b": 2}', tag);
    tag := table_service.replace_entity('Employees', 'p', '1', '{"c": 3}', tag);
    tag := table_service.merge_entity('Employees', 'p', '1', '{"d": 4}', '*');
    tag := table_service.insert_or_merge_entity('Employees', 'p', '1', '{"e": 5}');
    tag := table_service.insert_or_replace_entity('Employees', 'p', '2', '{"f": 6}');
    tag := table_service.insert_or_replace_entity('Employees', 'p', '2', '{"g": 7}');
    UPDATE table_service_data."Employees" SET properties = table_service.merge_properties(properties, '{"h": 8}') WHERE row_key OPERATOR(pg_catalog.=) '2';
    SELECT pg_catalog.concat(saw, pg_catalog.string_agg(pg_catalog.concat(e.row_key, e.properties, e."timestamp" OPERATOR(pg_catalog.>) '2026-01-01'), ' '))
    INTO saw FROM table_service.get_entities('EMPLOYEES', 'p', pg_catalog.string_to_array('2,1', ',')) AS e;
    SELECT pg_catalog.concat(saw, ' ', e.properties, table_service.etag(e) IS NOT NULL) INTO saw FROM table_service.get_entity('Employees', 'p', '2') AS e;
    SELECT pg_catalog.concat(saw, ' ', pg_catalog.string_agg(table_name, ',')) INTO saw FROM table_service.query_tables();
    saw := pg_catalog.concat(saw, ' ', table_service.delete_entity('Employees', 'p', '2', '*'), table_service.delete_entity('Employees', 'p', '1'), table_service.delete_table('Employees'));
    RETURN saw;
END $$;
SELECT public.everything() AS expected \gset
SELECT :'expected';

-- A hostile schema: functions, operators, types and tables of the same names, which fail when they are touched.
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.fail() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'hostile code runs'; END $$;
SELECT format('CREATE FUNCTION hostile.%s(%s) RETURNS %s LANGUAGE plpgsql AS $f$ BEGIN RAISE ''hostile code runs''; END $f$;', name, arguments, result)
FROM (VALUES ('lower', 'text', 'text'), ('lower', 'name', 'text'), ('clock_timestamp', '', 'timestamptz'), ('next_timestamp', 'timestamptz, timestamptz', 'timestamptz'),
    ('entity_is_valid', 'text, text, timestamptz, table_service.properties', 'boolean'), ('merge_properties', 'table_service.properties, table_service.properties', 'table_service.properties'),
    ('rising_timestamp', '', 'trigger'), ('texteq', 'text, text', 'boolean'), ('oideq', 'oid, oid', 'boolean'), ('tseq', 'timestamptz, timestamptz', 'boolean'),
    ('properties_get_text', 'table_service.properties, text', 'text')) AS v (name, arguments, result) \gexec
CREATE OPERATOR hostile.= (FUNCTION = hostile.texteq, LEFTARG = text, RIGHTARG = text);
CREATE OPERATOR hostile.= (FUNCTION = hostile.oideq, LEFTARG = oid, RIGHTARG = oid);
CREATE OPERATOR hostile.= (FUNCTION = hostile.tseq, LEFTARG = timestamptz, RIGHTARG = timestamptz);
CREATE OPERATOR hostile.|| (FUNCTION = hostile.merge_properties, LEFTARG = table_service.properties, RIGHTARG = table_service.properties);
CREATE DOMAIN hostile.text AS integer CHECK (false);
CREATE DOMAIN hostile.timestamptz AS integer CHECK (false);
CREATE DOMAIN hostile.regclass AS integer CHECK (false);
-- A variable of such a domain runs its CHECK before it has a value.
CREATE TYPE hostile.pair AS (a integer);
CREATE FUNCTION hostile.fail(hostile.pair) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'hostile code runs'; END $$;
CREATE DOMAIN hostile.record AS hostile.pair CHECK (hostile.fail(VALUE));
CREATE TABLE hostile.pg_class (oid oid, relname name, relnamespace oid, reloftype oid);
CREATE TABLE hostile."Employees" (partition_key text);
CREATE COLLATION hostile."C" FROM "POSIX";

-- The hostile schema comes first, even before the system's. A new session has nothing prepared.
\c -
SET search_path = hostile, pg_catalog, public;
SELECT public.everything() OPERATOR(pg_catalog.=) :'expected' AS is_equal;
-- The same once more, now that everything is prepared, and under an empty path.
SELECT public.everything() OPERATOR(pg_catalog.=) :'expected' AS is_equal;
SET search_path = '';
SELECT public.everything() = :'expected' AS is_equal;

-- Temporary objects, which PostgreSQL looks for first.
\c -
SET search_path = public;
CREATE DOMAIN pg_temp.record AS hostile.pair CHECK (hostile.fail(VALUE));
CREATE TEMPORARY TABLE "Employees" (partition_key text);
CREATE TEMPORARY TABLE pg_class (oid oid, relname name, relnamespace oid, reloftype oid);
SELECT public.everything() = :'expected' AS is_equal;
DROP TABLE pg_temp."Employees", pg_temp.pg_class;
DROP DOMAIN pg_temp.record;

-- A table that was made under one path works under every other, also for direct writes.
SET search_path = hostile, pg_catalog;
SELECT table_service.create_table('Employees');
SET search_path = '';
INSERT INTO table_service_data."Employees" (partition_key, row_key, properties) VALUES ('p', '1', '{"a": 1}') RETURNING row_key, properties;
INSERT INTO table_service_data."Employees" (partition_key, row_key, properties) VALUES ('p', 'a/b', '{"a": 1}') RETURNING row_key;
:state
UPDATE table_service_data."Employees" SET "timestamp" = '2020-01-01' RETURNING "timestamp" > pg_catalog.now() AS rises;
SET search_path = hostile, pg_catalog;
UPDATE table_service_data."Employees" SET properties = '{}' RETURNING properties;
SELECT table_service.delete_table('Employees');

SET client_min_messages = warning;
DROP SCHEMA hostile CASCADE;
DROP FUNCTION public.everything();
