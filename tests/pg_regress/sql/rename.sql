-- Tables that are dropped, created again, renamed: a session that has used the old one sees the new one at once.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
SELECT create_table('Employees');
-- Use it in every way, so that the session has everything prepared.
CREATE FUNCTION pg_temp.use(name text, row_key text) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    stored text;
BEGIN
    PERFORM insert_entity(name, 'p', row_key, '{"a": 1}');
    PERFORM replace_entity(name, 'p', row_key, '{"b": 1}', '*');
    PERFORM replace_entity(name, 'p', row_key, '{"b": 2}', etag(e)) FROM get_entity(name, 'p', row_key) AS e;
    PERFORM merge_entity(name, 'p', row_key, '{"c": 1}', '*');
    PERFORM merge_entity(name, 'p', row_key, '{"c": 2}', etag(e)) FROM get_entity(name, 'p', row_key) AS e;
    PERFORM insert_or_replace_entity(name, 'p', row_key, '{"d": 1}');
    PERFORM insert_or_merge_entity(name, 'p', row_key, '{"e": 1}');
    PERFORM insert_entity(name, 'p', row_key || 'x', '{}');
    PERFORM delete_entity(name, 'p', row_key || 'x', etag(e)) FROM get_entity(name, 'p', row_key || 'x') AS e;
    PERFORM insert_entity(name, 'p', row_key || 'x', '{}');
    PERFORM delete_entity(name, 'p', row_key || 'x');
    SELECT string_agg(e.row_key || e.properties::text, ' ') INTO stored FROM get_entities(name, 'p', ARRAY[row_key, row_key || 'x']) AS e;
    RETURN stored;
END $$;
SELECT pg_temp.use('Employees', 'old');
SELECT pg_temp.use('EMPLOYEES', 'spelled');

-- Dropped and created again.
SELECT delete_table('employees');
SELECT create_table('Employees');
SELECT row_key FROM get_entities('Employees', 'p', '{old, spelled, new}');
SELECT pg_temp.use('Employees', 'new');
SELECT row_key FROM table_service_data."Employees";
-- By other means, and in another spelling.
DROP TABLE table_service_data."Employees";
SELECT pg_temp.use('Employees', 'none');
:state
SELECT create_table('EmployeeS');
SELECT pg_temp.use('Employees', 'newer');
SELECT row_key FROM table_service_data."EmployeeS";

-- A table that a user renamed has the new name, in all its spellings, and not the old one.
ALTER TABLE table_service_data."EmployeeS" RENAME TO "Staff";
SELECT table_name FROM query_tables();
SELECT pg_temp.use('Employees', 'none');
:state
SELECT pg_temp.use('Staff', 'renamed');
SELECT pg_temp.use('STAFF', 'respelled');
SELECT row_key FROM table_service_data."Staff" ORDER BY 1;
SELECT create_table('staff');
:state
-- The old name is free for a new table, which is another one.
SELECT create_table('employees');
SELECT pg_temp.use('Employees', 'another');
SELECT pg_temp.use('Staff', 'same');
SELECT row_key FROM table_service_data.employees ORDER BY 1;
SELECT row_key FROM table_service_data."Staff" ORDER BY 1;
SELECT table_name FROM query_tables();
-- All names still collide in all spellings.
SELECT create_table('EMPLOYEES');
:state
SELECT create_table('STAFF');
:state

-- Two tables that swap their names.
BEGIN;
ALTER TABLE table_service_data."Staff" RENAME TO between;
ALTER TABLE table_service_data.employees RENAME TO "Staff";
ALTER TABLE table_service_data.between RENAME TO employees;
COMMIT;
SELECT row_key FROM get_entities('Staff', 'p', '{another, same}');
SELECT row_key FROM get_entities('STAFF', 'p', '{another, same}');
SELECT row_key FROM get_entities('Employees', 'p', '{another, same}');
SELECT pg_temp.use('staff', 'swapped');
SELECT row_key FROM table_service_data."Staff" ORDER BY 1;
-- A rename that is rolled back was none.
BEGIN;
ALTER TABLE table_service_data."Staff" RENAME TO "People";
SELECT pg_temp.use('People', 'people');
ROLLBACK;
SELECT pg_temp.use('Staff', 'staff');
SELECT pg_temp.use('People', 'none');
:state

-- However tables hold each other's old names: here Staff moves on, and its name is used again.
ALTER TABLE table_service_data."Staff" RENAME TO "Crew";
SELECT create_table('Staff');
SELECT create_table('crew');
:state
SELECT pg_temp.use('Staff', 'third');
SELECT pg_temp.use('CREW', 'moved');
SELECT row_key FROM table_service_data."Crew" ORDER BY 1;
SELECT row_key FROM table_service_data."Staff" ORDER BY 1;
SELECT row_key FROM table_service_data.employees ORDER BY 1;
-- RENAME gives no two tables one name in two spellings.
ALTER TABLE table_service_data."Crew" RENAME TO "STAFF";
:state
SELECT table_name, delete_table(table_name) FROM query_tables();

-- A table that leaves the schema is no table of the service any more; it can come back.
SELECT create_table('Moving');
SELECT pg_temp.use('Moving', 'before');
ALTER TABLE table_service_data."Moving" SET SCHEMA public;
SELECT pg_temp.use('Moving', 'none');
:state
SELECT create_table('Moving');
SELECT pg_temp.use('Moving', 'fresh');
SELECT row_key FROM table_service_data."Moving";
SELECT delete_table('Moving');
ALTER TABLE public."Moving" SET SCHEMA table_service_data;
SELECT pg_temp.use('MOVING', 'back');
SELECT row_key FROM table_service_data."Moving" ORDER BY 1;
SELECT delete_table('Moving');

-- Nor is one that is not of the type any more, until it is again.
SELECT create_table('Loose');
SELECT pg_temp.use('Loose', 'before');
ALTER TABLE table_service_data."Loose" NOT OF;
SELECT pg_temp.use('Loose', 'none');
:state
ALTER TABLE table_service_data."Loose" OF entity;
SELECT pg_temp.use('Loose', 'back');
SELECT row_key FROM table_service_data."Loose" ORDER BY 1;
SELECT delete_table('Loose');

-- A session uses many tables, more than it keeps statements for.
DO $$
BEGIN
    FOR i IN 1..150 LOOP
        PERFORM create_table('Many' || i);
        PERFORM insert_entity('Many' || i, 'p', 'r', jsonb_build_object('I', i));
    END LOOP;
    FOR i IN 1..150 LOOP
        PERFORM merge_entity('Many' || i, 'p', 'r', jsonb_build_object('J', i), '*');
    END LOOP;
END $$;
SELECT count(*), bool_and(e.properties = jsonb_build_object('I', i, 'J', i)::properties) FROM generate_series(1, 150) AS i, LATERAL get_entity('Many' || i, 'p', 'r') AS e;
SELECT count(delete_table('Many' || i)) FROM generate_series(1, 150) AS i;
