-- Filters that are made to hurt: they end in a result or a clean error, and the session lives on.
\set SHOW_CONTEXT never
\pset format unaligned
\pset fieldsep ' | '
\pset footer off
SELECT create_table('Hostile');
SELECT count(insert_entity('Hostile', 'p' || i % 2, lpad(i::text, 5, '0'), jsonb_build_object('a', i, 'b', true))) FROM generate_series(1, 10) AS i;
-- The result of each way to run a filter, or the code and the length of the error.
CREATE FUNCTION pg_temp.try(statement text, filter text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE statement INTO result USING filter;
    RETURN result;
EXCEPTION WHEN OTHERS THEN
    RETURN format('%s, %s', SQLSTATE, CASE WHEN length(SQLERRM) < 10000 THEN 'short' ELSE length(SQLERRM)::text END);
END $$;
CREATE TEMPORARY TABLE filters (n integer, what text, filter text);
INSERT INTO filters VALUES
    (1, '100,000 parentheses', repeat('(', 100000) || 'b' || repeat(')', 100000)),
    (2, '100,001 parentheses', repeat('(', 100001) || 'b' || repeat(')', 100001)),
    (3, 'parentheses without end', repeat('(', 1000000)),
    (4, 'parentheses without begin', 'b' || repeat(')', 1000000)),
    (5, '100,000 nots', repeat('not ', 100000) || 'b'),
    (6, '100,001 nots', repeat('not ', 100001) || 'b'),
    (7, '100,000 nots with parentheses', repeat('not(', 100000) || 'b' || repeat(')', 100000)),
    (8, '100,000 nots that do not end', repeat('not ', 100000)),
    (9, 'and, or and not in turn, 200 deep', repeat('b and (a eq 0 or not (', 66) || 'b' || repeat('))', 66)),
    (10, 'and and or in turn, 1,000 deep', repeat('b and (a eq 0 or (', 1000) || 'b' || repeat('))', 1000)),
    (11, '20,000 ors', (SELECT string_agg('a eq ' || i, ' or ') FROM generate_series(6, 20005) AS i)),
    (12, '20,000 ands', (SELECT string_agg('a ne ' || i, ' and ') FROM generate_series(6, 20005) AS i)),
    (13, '20,000 points', (SELECT string_agg(format('(PartitionKey eq ''p%s'' and RowKey eq ''%s'')', i % 2, lpad(i::text, 5, '0')), ' or ') FROM generate_series(1, 20000) AS i)),
    (14, '20,000 points in one partition', 'PartitionKey eq ''p1'' and (' || (SELECT string_agg(format('RowKey eq ''%s''', lpad(i::text, 5, '0')), ' or ') FROM generate_series(1, 20000) AS i) || ')'),
    (15, '500 by 500 points', format('(%s) and (%s)', (SELECT string_agg(format('PartitionKey eq ''p%s''', i), ' or ') FROM generate_series(1, 500) AS i),
        (SELECT string_agg(format('RowKey eq ''%s''', lpad(i::text, 5, '0')), ' or ') FROM generate_series(1, 500) AS i))),
    (16, '5,000 points with a property each', (SELECT string_agg(format('(PartitionKey eq ''p%s'' and RowKey eq ''%s'' and a eq %s)', i % 2, lpad(i::text, 5, '0'), i), ' or ') FROM generate_series(1, 5000) AS i)),
    (17, 'a literal of a megabyte', 'a eq ''' || repeat('x', 1000000) || ''''),
    (18, 'a binary of a megabyte', 'a eq X''' || repeat('0A', 500000) || ''''),
    (19, 'a key of a megabyte', 'PartitionKey lt ''' || repeat('x', 1000000) || ''''),
    (20, 'a number of a megabyte', 'a eq ' || repeat('9', 1000000)),
    (21, 'a name of a megabyte', repeat('x', 1000000) || ' eq 1'),
    (22, 'quotes', 'a eq ' || repeat('''', 1000000)),
    (23, 'blanks', repeat(' ', 1000000) || 'b' || repeat(E'\t', 1000000)),
    (24, '3 MiB', repeat(' ', 3 * 1024 * 1024) || 'b'),
    (25, 'no ASCII', 'a eq ''' || repeat('😀', 250000) || ''''),
    (26, 'nonsense', repeat('😀', 250000)),
    (27, 'a parameter of a megabyte', 'a eq @' || repeat('x', 1000000));
SET statement_timeout = '60s';
SELECT what, pg_temp.try('SELECT count(*) FROM query_entities(''Hostile'', $1)', filter) AS query_entities, pg_temp.try('SELECT count(partition_key) FROM query_page(''Hostile'', $1)', filter) AS query_page,
    pg_temp.try('SELECT count(*) FROM table_service_data."Hostile" AS h WHERE matches(h, $1)', filter) AS matches, pg_temp.try('SELECT left(filter_to_sql($1), 0) || ''a text''', filter) AS filter_to_sql
FROM filters ORDER BY n;
-- A table filter, a projection, parameters and tokens of that size.
SELECT what, pg_temp.try('SELECT count(*) FROM query_tables($1)', replace(filter, 'b', 'TableName')) AS query_tables, pg_temp.try('SELECT count(*) FROM query_entities(''Hostile'', NULL, $1)', filter) AS projection,
    pg_temp.try('SELECT count(*) FROM query_page(''Hostile'', continuation_token => $1)', filter) AS token
FROM filters WHERE n IN (1, 3, 5, 11, 17, 24) ORDER BY n;
RESET statement_timeout;
-- The session lives.
SELECT count(*) FROM query_entities('Hostile', 'b');

SELECT delete_table('Hostile');
