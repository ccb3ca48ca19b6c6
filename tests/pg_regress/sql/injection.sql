-- Names and values are never part of a statement's text: attempts to inject SQL.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
CREATE TABLE public.canary (alive boolean);
INSERT INTO public.canary VALUES (true);
SELECT create_table('Employees');
SELECT insert_entity('Employees', 'p', 'r', '{"a": 1}') IS NOT NULL AS inserted;

CREATE TEMPORARY TABLE attempts AS SELECT attempt
FROM (VALUES ('x"; DROP TABLE public.canary; --'), ('Employees"; DROP TABLE public.canary; --'), ('Employees; DROP TABLE public.canary'), (''' OR ''1''=''1'), ('p''; DROP TABLE public.canary; --'),
    ('\''; DROP TABLE public.canary; --'), ('"Employees"'), ('table_service_data."Employees"'), ('table_service_data.Employees'), ('pg_catalog.pg_class'), ('pg_class'), ('../Employees'),
    ('Employees" WHERE true --'), ('$1'), ('%s'), ('{}'), ('E''\x27'''), (repeat('"', 63)), (U&'Employees\02BC\FF07')) AS v (attempt);

-- As names of tables: there is no such table, and there cannot be one.
SELECT attempt, left(pg_temp.outcome(format('SELECT create_table(%L)', attempt)), 25) AS "create", left(pg_temp.outcome(format('SELECT delete_table(%L)', attempt)), 22) AS "delete",
    left(pg_temp.outcome(format('SELECT insert_entity(%L, ''p'', ''r'', ''{}'')', attempt)), 19) AS "insert", left(pg_temp.outcome(format('SELECT get_entity(%L, ''p'', ''r'')', attempt)), 19) AS "get"
FROM attempts;

-- As keys, values, property names and projections: they are what they are. (Some hold characters that keys may not have.)
SELECT count(*) FROM attempts WHERE pg_temp.outcome(format('SELECT insert_entity(''Employees'', %L, %L, %L)', attempt, attempt, json_build_object('V', attempt))) LIKE 'W/%';
SELECT count(*) AS as_keys, bool_and(e.properties ->> 'V' = attempt) AS as_values FROM attempts, LATERAL get_entity('Employees', attempt, attempt) AS e WHERE attempt !~ '[/\\#?]';
SELECT count(*) AS as_keys FROM attempts, LATERAL get_entities('Employees', attempt, ARRAY[attempt, 'x']) AS e WHERE attempt !~ '[/\\#?]';
SELECT bool_and((SELECT count(*) FROM get_entity('Employees', 'p', 'r', attempt)) = 1) AS as_projection FROM attempts;
SELECT pg_temp.outcome(format('SELECT merge_entity(''Employees'', ''p'', ''r'', ''{}'', %L)', attempt)) LIKE '22023 InvalidInput: The etag value %' AS as_etag, count(*) FROM attempts GROUP BY 1;
SELECT left(pg_temp.outcome(format('SELECT %L::properties', json_build_object(attempt, 1))), 25) AS as_name, count(*) FROM attempts GROUP BY 1 ORDER BY 1;

-- A name that no table can have: what a user renamed so is no table of the service any more, and is not listed.
ALTER TABLE table_service_data."Employees" RENAME TO "Emp""loy'ees; --";
SELECT insert_entity('emp"LOY''ees; --', 'p', 'by hand', '{"a": 1}');
SELECT row_key, properties FROM get_entities('Emp"loy''ees; --', 'p', '{r, by hand}');
SELECT table_name, relation FROM query_tables();
SELECT create_table('Employees');
SELECT delete_table('Emp"loy''ees; --');
SELECT delete_table('Employees');
ALTER TABLE table_service_data."Emp""loy'ees; --" RENAME TO "Employees";
SELECT delete_table('Employees');

SELECT alive FROM public.canary;
DROP TABLE public.canary;
