-- The errors, one of each: "<Code>: <message of the Table service>", under a standard SQLSTATE. Programs look at the SQLSTATE
-- and, where that is not enough, at the code before the colon. A hint says what to do where that helps.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SELECT create_table('Employees');
SELECT insert_entity('Employees', 'p', 'r', '{"a": 1}') IS NOT NULL AS inserted;

SELECT pg_temp.outcome(statement), statement
FROM (VALUES
    -- 409
    ('SELECT insert_entity(''Employees'', ''p'', ''r'', ''{}'')'),
    ('SELECT create_table(''EMPLOYEES'')'),
    -- 404
    ('SELECT merge_entity(''Employees'', ''p'', ''missing'', ''{}'', ''*'')'),
    ('SELECT get_entity(''Nobody'', ''p'', ''r'')'),
    ('SELECT delete_table(''Nobody'')'),
    -- 412
    ('SELECT merge_entity(''Employees'', ''p'', ''r'', ''{}'', ''W/"datetime''''2020-01-01T00%3A00%3A00Z''''"'')'),
    -- 400: input
    ('SELECT create_table(''tables'')'),
    ('SELECT merge_entity(''Employees'', ''p'', ''r'', ''{}'', ''abc'')'),
    ('SELECT insert_entity(''Employees'', ''p'', ''s'', NULL)'),
    ('SELECT ''{"a": {"b": 1}}''::properties'),
    ('SELECT ''{"a@odata.type": "Edm.Int32", "a": "x"}''::properties'),
    ('SELECT ''{"a": "\u0000"}''::properties'),
    ('SELECT ''{"a b": 1}''::properties'),
    ('SELECT ''{"a": 1, "a": 2}''::properties'),
    ('SELECT ''{"a": 1''::properties'),
    ('SELECT ''[]''::properties'),
    ('SELECT insert_entity(''Employees'', ''p'', ''a/b'', ''{}'')'),
    ('SELECT ''{"a@odata.type": "Edm.DateTime", "a": "0001-01-01T00:00:00Z"}''::properties'),
    ('SELECT create_table(''ab'')'),
    ('SELECT create_table(''a-bc'')'),
    ('SELECT insert_entity(''Employees'', ''p'', NULL, ''{}'')'),
    ('SELECT entity_from_json(''{"PartitionKey": "p"}'')'),
    -- 400: limits
    ('SELECT json_object_agg(''P'' || i, i)::text::properties FROM generate_series(1, 253) AS i'),
    ('SELECT json_object_agg(''P'' || i, repeat(''x'', 32768))::text::properties FROM generate_series(1, 16) AS i'),
    ('SELECT json_build_object(''Long'', repeat(''x'', 32769))::text::properties'),
    ('SELECT insert_entity(''Employees'', ''p'', repeat(''r'', 1025), ''{}'')'),
    ('SELECT json_build_object(repeat(''n'', 256), 1)::text::properties'),
    -- What PostgreSQL raises itself keeps its message.
    ('INSERT INTO table_service_data."Employees" (row_key, properties) VALUES (''r'', ''{}'')')) AS v (statement);

\echo 'what an error is about'
-- The entity; of a long key the start.
SELECT insert_entity('Employees', 'p', 'r', '{}');
SELECT delete_entity('Employees', 'p', 'it''s missing');
SELECT replace_entity('Employees', 'p', 'r', '{}', 'W/"x"');
SELECT patch_entity('Employees', repeat('é', 1024), 'none', '{}');
SELECT count(*) FROM execute_batch('Employees', 'p', batch_insert('s', '{}'), batch_delete('none'));
SELECT count(*) FROM execute_batch_json('Employees', 'p', '[{"insert": {"RowKey": "r"}}]');
-- An error of the values is not about what is stored.
SELECT insert_entity('Employees', 'p', repeat('r', 1025), '{}');
-- The table, and the nearest name of one whose entities the caller may read or write.
SELECT create_table('EMPLOYEES');
SELECT get_entity('Employes', 'p', 'r');
SELECT delete_table('emploeyees');
SELECT count(*) FROM query_entities('Nobody');
SELECT create_change_feed('feed', '{Employee}');
SELECT create_table('Employes') IS NOT NULL AS created;
SELECT count_entities('EmployesX');
CREATE ROLE golden_clerk;
GRANT SELECT ON table_service_data."Employees" TO golden_clerk;
SET ROLE golden_clerk;
SELECT count_entities('EmployesX');
RESET ROLE;
REVOKE SELECT ON table_service_data."Employees" FROM golden_clerk;
SET ROLE golden_clerk;
SELECT count_entities('EmployesX');
-- A role that may not create tables is told what makes it able to.
SELECT create_table('Offices');
:state
RESET ROLE;
GRANT CREATE ON SCHEMA table_service_data TO golden_clerk;
SET ROLE golden_clerk;
SELECT create_table('Offices');
RESET ROLE;
SELECT delete_table('Offices'), delete_table('Employes');
REVOKE CREATE ON SCHEMA table_service_data FROM golden_clerk;
DROP ROLE golden_clerk;

\echo 'arguments in another order'
SELECT filter_to_sql('Packages', 'Section eq ''net'''), 'the table first';
SELECT filter_to_sql('Packages', 'startswith(Section, ''net'')'), 'the table first, and a function';
SELECT filter_to_sql('Active', 'e'), filter_to_sql('Active', 'true'), filter_to_sql('Active', 'my alias');
SELECT count(*) FROM query_entities('Employees', 'FirstName', 'Age gt 30');
SELECT count(*) FROM query_entities('Employees', NULL, 'Age, FirstName');
SELECT generate_sas('c2VjcmV0a2V5', 'accounts', 'Employees', 'r', '2030-01-01');

-- PostgreSQL's own: a timeout, missing rights.
SET statement_timeout = '50 ms'\; SELECT get_entity('Employees', 'p', 'r'), pg_sleep(10);
:state
CREATE ROLE golden_nobody;
SET ROLE golden_nobody;
SELECT get_entity('Employees', 'p', 'r');
:state
RESET ROLE;
DROP ROLE golden_nobody;
-- An error of a user's own trigger is passed on as it is, as far as its SQLSTATE is a standard one.
CREATE FUNCTION public.golden_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not on Sundays' USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Wait.'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON table_service_data."Employees" FOR EACH ROW EXECUTE FUNCTION public.golden_refuse();
SELECT insert_entity('Employees', 'p', 's', '{}');
:state
DROP FUNCTION public.golden_refuse() CASCADE;

-- Conditions have names in PL/pgSQL.
DO $$
DECLARE
    statement text;
BEGIN
    FOREACH statement IN ARRAY ARRAY['insert_entity(''Employees'', ''p'', ''r'', ''{}'')', 'create_table(''Employees'')', 'merge_entity(''Employees'', ''p'', ''missing'', ''{}'', ''*'')',
        'get_entity(''Nobody'', ''p'', ''r'')', 'merge_entity(''Employees'', ''p'', ''r'', ''{}'', ''W/"x"'')', 'insert_entity(''Employees'', ''p'', ''a/b'', ''{}'')',
        'insert_entity(''Employees'', ''p'', NULL, ''{}'')', 'create_table(''ab'')', 'delete_entity(''Employees'', ''p'', ''r'', ''x'')', 'insert_entity(''Employees'', ''p'', repeat(''r'', 2000), ''{}'')'] LOOP
        BEGIN
            EXECUTE 'SELECT ' || statement;
        EXCEPTION
            WHEN unique_violation THEN RAISE NOTICE 'unique_violation: %', statement;
            WHEN duplicate_table THEN RAISE NOTICE 'duplicate_table: %', statement;
            WHEN no_data_found THEN RAISE NOTICE 'no_data_found: %', statement;
            WHEN undefined_table THEN RAISE NOTICE 'undefined_table: %', statement;
            WHEN transaction_integrity_constraint_violation THEN RAISE NOTICE 'transaction_integrity_constraint_violation: %', statement;
            WHEN numeric_value_out_of_range THEN RAISE NOTICE 'numeric_value_out_of_range: %', statement;
            WHEN not_null_violation THEN RAISE NOTICE 'not_null_violation: %', statement;
            WHEN invalid_name THEN RAISE NOTICE 'invalid_name: %', statement;
            WHEN invalid_parameter_value THEN RAISE NOTICE 'invalid_parameter_value: %', statement;
            WHEN program_limit_exceeded THEN RAISE NOTICE 'program_limit_exceeded: %', statement;
        END;
    END LOOP;
END $$;

SELECT delete_table('Employees');
