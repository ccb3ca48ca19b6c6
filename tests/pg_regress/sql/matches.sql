-- matches: whether an entity passes a filter.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SELECT create_table('Employees');
SELECT count(insert_entity('Employees', p, r, bag::properties))
FROM (VALUES ('Sales', '1', '{"Age": 34}'), ('Sales', '2', '{"Age": 50}'), ('Marketing', '1', '{"Age": 20, "Manager": true}'), ('Marketing', '2', '{}')) AS v (p, r, bag);

-- Of the rows of a table, of what queries give, of entities made on the spot.
SELECT partition_key, row_key FROM table_service_data."Employees" AS e WHERE matches(e, 'Age gt 30') ORDER BY 1, 2;
SELECT e.partition_key, e.row_key, matches(e, 'not (Age lt 40)'), matches(e, 'Manager'), matches(e, 'RowKey eq ''1''') FROM query_entities('Employees') AS e;
SELECT matches(entity_from_json('{"PartitionKey": "p", "RowKey": "r", "Age": 30}'), 'PartitionKey eq ''p'' and Age eq 30');
SELECT matches(ROW('p', 'r', '2022-04-13T21:50:14.247704Z', '{"Age": 30}')::entity, 'Timestamp eq datetime''2022-04-13T21:50:14.247704Z''');
-- A filter from a column: another one for each row.
SELECT filter, string_agg(partition_key || row_key, ' ' ORDER BY partition_key, row_key) FILTER (WHERE matches(e, filter))
FROM table_service_data."Employees" AS e, unnest(ARRAY['Age gt 30', 'Age lt 30', '', 'false', 'PartitionKey eq ''Sales''']) AS filter GROUP BY filter ORDER BY filter COLLATE "C";
SELECT count(*) FILTER (WHERE matches(e, format('Age eq %s', i))) AS found, count(*) AS tested FROM generate_series(1, 1000) AS i, table_service_data."Employees" AS e;
-- After an error in the middle, in the same function.
CREATE FUNCTION pg_temp.try(filter text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN matches(ROW('p', 'r', now(), '{"a": 1}')::entity, filter);
EXCEPTION WHEN OTHERS THEN
    RETURN SQLERRM;
END $$;
SELECT filter, pg_temp.try(filter) FROM unnest(ARRAY['a eq 1', 'a b', 'a eq 1', 'a eq 2', 'a eq', 'a eq 2', 'a eq 1']) AS filter;

-- It is immutable: an index may have it.
CREATE INDEX managers ON table_service_data."Employees" (row_key) WHERE matches("Employees", 'Manager');
SELECT provolatile, proparallel, proisstrict FROM pg_proc WHERE proname = 'matches';

-- A system property that is NULL is absent, as any other.
SELECT filter, matches(ROW(NULL, NULL, NULL, '{}')::entity, filter)
FROM unnest(ARRAY['PartitionKey eq ''p''', 'PartitionKey ne ''p''', 'not (PartitionKey eq ''p'')', 'Timestamp lt datetime''9999-01-01''', 'RowKey lt 5', '']) AS filter;
-- No entity, on the nullable side of an outer join: NULL, whatever the plan is. A row of NULLs is no entity either.
SELECT d, matches(e, 'Age gt 30') AS age, matches(e, 'PartitionKey eq ''Sales''') AS partition, matches(e, 'PartitionKey eq ''Sales'' and Age gt 30') AS both,
    matches(e, '') AS everything, matches(e, 'PartitionKey eq ''Nowhere''') IS NULL AS is_null
FROM (VALUES ('1'), ('3')) AS v (d) LEFT JOIN table_service_data."Employees" AS e ON e.row_key = d AND e.partition_key = 'Sales' ORDER BY d;
CREATE FUNCTION pg_temp.answers(query text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    setting text;
    answer text;
    answers text[] = '{}';
BEGIN
    FOREACH setting IN ARRAY '{parallel_append,hashjoin,mergejoin,nestloop,seqscan,indexscan,sort}'::text[] LOOP
        PERFORM set_config('enable_' || setting, 'off', false);
        EXECUTE query INTO answer;
        PERFORM set_config('enable_' || setting, 'on', false);
        answers = answers || answer;
    END LOOP;
    RETURN answers;
END $$;
SELECT name, pg_temp.answers('SELECT count(*) FROM ' || query) AS answers
FROM (VALUES ('left', $$generate_series(1, 4) AS d LEFT JOIN table_service_data."Employees" AS e ON e.row_key = d::text WHERE matches(e, 'Age gt 30')$$),
    ('left, is null', $$generate_series(1, 4) AS d LEFT JOIN table_service_data."Employees" AS e ON e.row_key = d::text WHERE matches(e, 'Age gt 30') IS NULL$$),
    ('left, not', $$generate_series(1, 4) AS d LEFT JOIN table_service_data."Employees" AS e ON e.row_key = d::text WHERE NOT matches(e, 'PartitionKey eq ''Sales''')$$),
    ('left, keys', $$generate_series(1, 4) AS d LEFT JOIN table_service_data."Employees" AS e ON e.row_key = d::text WHERE matches(e, 'PartitionKey eq ''Sales''') IS NOT TRUE$$),
    ('left, in ON', $$generate_series(1, 4) AS d LEFT JOIN table_service_data."Employees" AS e ON e.row_key = d::text AND matches(e, 'Manager')$$),
    ('of a function', $$generate_series(1, 4) AS d LEFT JOIN query_entities('Employees') AS e ON e.row_key = d::text WHERE matches(e, 'Age gt 30') IS NULL$$),
    ('right', $$table_service_data."Employees" AS e RIGHT JOIN generate_series(1, 4) AS d ON e.row_key = d::text WHERE matches(e, 'RowKey eq ''1''') IS NULL$$),
    ('full', $$generate_series(1, 4) AS d FULL JOIN (SELECT t AS e, t.row_key FROM table_service_data."Employees" AS t OFFSET 0) AS s ON s.row_key = d::text WHERE matches(e, 'Age gt 30') IS NULL$$)) AS v (name, query);
SELECT matches(NULL, 'a') IS NULL AS matches, matches(ROW(NULL, NULL, NULL, NULL)::entity, 'a') IS NULL AS of_nulls, matches(NULL, 'a b') IS NULL AS invalid,
    entity_to_json(ROW(NULL, NULL, NULL, NULL)::entity) IS NULL AS to_json, etag(ROW(NULL, NULL, NULL, NULL)::entity) IS NULL AS etag;
-- NULL where a value is needed.
SELECT statement, pg_temp.outcome('SELECT ' || statement)
FROM (VALUES ('matches(ROW(''p'', ''r'', now(), ''{}'')::entity, NULL)'), ('matches(ROW(''p'', ''r'', now(), ''{"a": true}'')::entity, ''a'', NULL)'),
    ('matches(ROW(''p'', ''r'', now(), NULL)::entity, ''a'')'), ('matches(e, ''a'') FROM (SELECT 1) AS one LEFT JOIN table_service_data."Employees" AS e ON false')) AS v (statement);
-- The errors of filters.
SELECT matches(e, 'a b') FROM table_service_data."Employees" AS e;
:state

SELECT delete_table('Employees');
