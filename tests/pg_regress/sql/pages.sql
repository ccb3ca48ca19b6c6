-- Pages: order, limits, continuation tokens. Each case has the name of its row in the reference of the Table service's
-- semantics; a test counts them.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SELECT create_table('Pages');
-- Three partitions of 100 entities each, and one of 1001.
INSERT INTO table_service_data."Pages" SELECT p, lpad(i::text, 3, '0'), '2022-04-13T21:50:14Z', properties
FROM unnest(ARRAY['a', 'b', 'c']) AS p, generate_series(1, 100) AS i, LATERAL (SELECT format('{"N": %s, "Even": %s}', i, (i % 2 = 0)::text)::properties AS properties) AS bag;
INSERT INTO table_service_data."Pages" SELECT 'many', lpad(i::text, 4, '0'), '2022-04-13T21:50:14Z', '{}' FROM generate_series(1, 1001) AS i;

-- A loop over pages: how many there were, what they gave, and whether that is what query_entities gives.
CREATE FUNCTION pg_temp.loop(filter text, top bigint DEFAULT NULL, time_limit text DEFAULT NULL, projection text DEFAULT NULL)
RETURNS TABLE (pages bigint, empty bigint, entities bigint, whole boolean) LANGUAGE plpgsql AS $$
DECLARE
    token text;
    given entity[];
    page_entities entity[];
BEGIN
    PERFORM set_config('table_service.page_time_limit', coalesce(time_limit, '5s'), true);
    pages := 0;
    empty := 0;
    LOOP
        SELECT array_agg((p.partition_key, p.row_key, p."timestamp", p.properties)::entity) FILTER (WHERE p.partition_key IS NOT NULL), max(p.continuation_token)
        INTO page_entities, token
        FROM query_page('Pages', filter, projection, top, token) AS p;
        pages := pages + 1;
        IF page_entities IS NULL THEN
            empty := empty + 1;
        END IF;
        given := given || page_entities;
        EXIT WHEN token IS NULL;
        IF pages > 10000 THEN
            RAISE 'no end';
        END IF;
    END LOOP;
    entities := coalesce(cardinality(given), 0);
    whole := coalesce(given, ARRAY[]::entity[]) = ARRAY(SELECT q FROM query_entities('Pages', filter, projection) AS q);
    RETURN NEXT;
END $$;

\echo '6.1 key order'
SELECT partition_key, count(*), min(row_key), max(row_key) FROM query_entities('Pages') GROUP BY partition_key ORDER BY partition_key;
-- With ranges from all over the table, written in any order.
SELECT string_agg(partition_key || row_key, ' ') FROM query_entities('Pages', '(PartitionKey eq ''c'' and RowKey le ''002'') or (RowKey gt ''098'' and PartitionKey eq ''a'') or
    (PartitionKey eq ''b'' and (RowKey eq ''050'' or RowKey eq ''007''))');

\echo '6.6 top'
SELECT partition_key, row_key, properties, continuation_token IS NOT NULL AS token FROM query_page('Pages', top => 3);
SELECT count(*), count(continuation_token) AS tokens FROM query_page('Pages', 'PartitionKey eq ''a''', top => 99);
SELECT count(*), count(continuation_token) AS tokens FROM query_page('Pages', top => 1);
-- It is the page's, not the whole query's.
SELECT * FROM pg_temp.loop('PartitionKey lt ''d''', 7);

\echo '6.6 1000 entities'
SELECT count(*), count(continuation_token) AS tokens, max(row_key) FROM query_page('Pages', 'PartitionKey eq ''many''');
SELECT count(*), count(continuation_token) AS tokens, max(row_key) FROM query_page('Pages', 'PartitionKey eq ''many'' and RowKey gt ''0001''', top => 1000);
SELECT * FROM pg_temp.loop(NULL);

\echo '6.6 16 MiB'
-- 20 entities of 16 of the longest texts: almost a MiB by the service's formula, 1.5 MiB in UTF-8.
SELECT create_table('Large');
INSERT INTO table_service_data."Large" SELECT 'p', lpad(i::text, 2, '0'), clock_timestamp(), bag
FROM generate_series(1, 20) AS i, (SELECT ('{' || string_agg(format('"P%s": "%s"', n, repeat('日', 32700)), ', ') || '}')::properties AS bag FROM generate_series(1, 16) AS n) AS bag;
SELECT count(*), count(continuation_token) AS tokens, sum(octet_length(properties::text)) < 16 * 1024 * 1024 AS small_enough FROM query_page('Large');
SELECT count(*), count(continuation_token) AS tokens FROM query_page('Large', 'P1 ne ''''');
-- What is left out by a projection was read nevertheless.
SELECT count(*), count(continuation_token) AS tokens FROM query_page('Large', projection => 'P1', continuation_token => (SELECT max(continuation_token) FROM query_page('Large')));
SELECT count(*) AS entities_of_large FROM query_entities('Large');
SELECT delete_table('Large');

\echo '6.6 time'
-- With no time at all a page examines one entity, and a second one to know where the next page begins.
SET table_service.page_time_limit = 0;
SELECT partition_key, row_key, continuation_token IS NOT NULL AS token FROM query_page('Pages');
RESET table_service.page_time_limit;
SELECT * FROM pg_temp.loop('PartitionKey eq ''a''', NULL, '0');
SELECT * FROM pg_temp.loop('N gt 50 and PartitionKey le ''b''', 10, '0');
SELECT * FROM pg_temp.loop('Even and (PartitionKey eq ''b'' or PartitionKey eq ''a'' and RowKey ge ''050'')', 1000, '0');
-- Whatever plans the session asks for.
BEGIN;
SET LOCAL plan_cache_mode = force_custom_plan;
SET LOCAL enable_indexscan = off;
SELECT * FROM pg_temp.loop('N gt 50 and PartitionKey le ''b''', 10, '0');
SELECT * FROM pg_temp.loop('Even and (PartitionKey eq ''b'' or PartitionKey eq ''a'' and RowKey ge ''050'')', 1000, '0');
ROLLBACK;
-- The setting's limits.
SELECT value, left(pg_temp.outcome(format('SELECT set_config(''table_service.page_time_limit'', %L, false)', value)), 5) FROM (VALUES ('60s'), ('61s'), ('-1'), ('x'), ('5000')) AS v (value);
SHOW table_service.page_time_limit;

\echo '6.6 fewer, even none'
-- A page that found nothing yet is a row of NULLs with the token.
SET table_service.page_time_limit = 0;
SELECT partition_key, row_key, "timestamp", properties, continuation_token IS NOT NULL AS token FROM query_page('Pages', 'N eq 77');
SELECT query_page_json('Pages', 'N eq 77') ->> 'value' AS value, query_page_json('Pages', 'N eq 77') ->> 'continuationToken' IS NOT NULL AS token;
RESET table_service.page_time_limit;
SELECT * FROM pg_temp.loop('N eq 77', NULL, '0');
SELECT * FROM pg_temp.loop('N eq 1000', NULL, '0');

\echo '6.6 top 0'
SELECT count(*) FROM query_page('Pages', top => 0);
SELECT query_page_json('Pages', top => 0);
SELECT count(*) FROM query_entities('Pages', top => 0);

\echo '6.6 top out of range'
SELECT count(*) FROM query_page('Pages', top => -1);
:state
SELECT statement, pg_temp.outcome(statement)
FROM (VALUES ('SELECT count(*) FROM query_page(''Pages'', top => 1001)'), ('SELECT count(*) FROM query_page(''Pages'', top => 9223372036854775807)'),
    ('SELECT query_page_json(''Pages'', top => -1)'), ('SELECT query_page_json(''Pages'', top => 1001)'),
    ('SELECT count(*) FROM query_entities(''Pages'', top => -1)'), ('SELECT count(*) FROM query_entities(''Pages'', top => -9223372036854775808)'),
    -- A whole result has no page.
    ('SELECT count(*) FROM query_entities(''Pages'', top => 1001)'), ('SELECT count(*) FROM query_entities(''Pages'', top => 9223372036854775807)')) AS v (statement);

\echo '6.6 next match'
-- The token names the next entity that matches, so that a page that ends at the last match has none.
SELECT count(*), count(continuation_token) AS tokens FROM query_page('Pages', 'PartitionKey eq ''a'' and Even', top => 50);
SELECT count(*), count(continuation_token) AS tokens FROM query_page('Pages', 'PartitionKey eq ''a'' and Even', top => 49);
SELECT count(*), count(continuation_token) AS tokens FROM query_page('Pages', 'RowKey eq ''100''', top => 3);
SELECT count(*), count(continuation_token) AS tokens FROM query_page('Pages', 'PartitionKey eq ''c'' and N ge 100', top => 1);
SELECT * FROM pg_temp.loop('PartitionKey eq ''a'' and Even', 25);
-- Among points, one of them without an entity.
SELECT string_agg(row_key, ' '), count(continuation_token) AS tokens
FROM query_page('Pages', 'PartitionKey eq ''a'' and (RowKey eq ''001'' or RowKey eq ''002'' or RowKey eq ''nobody'')', top => 2);
SELECT * FROM pg_temp.loop('PartitionKey eq ''a'' and (RowKey eq ''001'' or RowKey eq ''0011'' or RowKey eq ''002'' or RowKey eq ''nobody'' or RowKey eq ''050'')', 1);

\echo '6.6 token stands in the last row'
SELECT row_key, continuation_token IS NULL AS no_token FROM query_page('Pages', 'PartitionKey eq ''a''', top => 3);
SELECT row_key, continuation_token IS NULL AS no_token FROM query_page('Pages', 'PartitionKey eq ''a'' and Even', top => 3);
SELECT json_array_length(page -> 'value'), page ->> 'continuationToken' = (SELECT max(continuation_token) FROM query_page('Pages', top => 3)) AS same_token
FROM query_page_json('Pages', top => 3) AS page;

\echo '6.6 malformed tokens'
SELECT max(continuation_token) AS token FROM query_page('Pages', top => 3) \gset
SELECT create_table('Another');
SELECT max(continuation_token) AS table_token FROM query_tables(top => 1) \gset
SELECT count(*) FROM query_page('Pages', continuation_token => 'nonsense');
:state
SELECT what, left(pg_temp.outcome(format('SELECT min(row_key) FROM query_page(''Pages'', continuation_token => %L)', token)), 59) AS query_page,
    left(pg_temp.outcome(format('SELECT query_page_json(''Pages'', top => 1, continuation_token => %L)', token)), 59) AS query_page_json
FROM (VALUES ('empty', ''), ('blank', ' '), ('of the service', '1!4!MTE-'), ('truncated', left(:'token', -1)), ('halved', left(:'token', length(:'token') / 2)), ('altered', overlay(:'token' PLACING 'x' FROM 5)),
    ('padded', :'token' || '='), ('with space', :'token' || ' '), ('twice', :'token' || :'token'), ('for tables', :'table_token'), ('a megabyte', repeat('A', 1000000)), ('not ASCII', 'é')) AS v (what, token);
SELECT pg_temp.outcome(format('SELECT count(*) FROM query_tables(continuation_token => %L)', :'token')) AS "for entities";
-- No character can change or be missing.
SELECT count(*) FILTER (WHERE pg_temp.outcome(format('SELECT query_page_json(''Pages'', continuation_token => %L)', overlay(:'token' PLACING c FROM i))) NOT LIKE '22023 %') AS altered_accepted
FROM generate_series(1, length(:'token')) AS i, unnest(ARRAY['A', 'b', '0', '-']) AS c WHERE c <> substr(:'token', i, 1);
SELECT count(*) FILTER (WHERE pg_temp.outcome(format('SELECT query_page_json(''Pages'', continuation_token => %L)', left(:'token', i))) NOT LIKE '22023 %') AS cut_accepted
FROM generate_series(0, length(:'token') - 1) AS i;
-- NULL is no token.
SELECT min(row_key) FROM query_page('Pages', continuation_token => NULL, top => 3);

\echo '6.6 the longest keys'
SELECT create_table('LongKeys');
SELECT count(insert_entity('LongKeys', repeat('p', 1024), key, '{}')) FROM unnest(ARRAY[repeat('é', 828), repeat('é', 827), 'r']) AS key;
SELECT octet_length(row_key), length(continuation_token) FROM query_page('LongKeys', top => 2);
SELECT octet_length(row_key) FROM query_page('LongKeys', continuation_token => (SELECT max(continuation_token) FROM query_page('LongKeys', top => 2)));
SELECT delete_table('LongKeys');

\echo '6.6 empty keys'
SELECT create_table('EmptyKeys');
SELECT count(insert_entity('EmptyKeys', p, r, '{}')) FROM unnest(ARRAY['', 'a']) AS p, unnest(ARRAY['', 'a']) AS r;
SELECT * FROM query_entities('EmptyKeys', projection => 'x') AS q (p, r, t, b) WHERE t IS NULL;
SELECT string_agg(format('%L,%L', partition_key, row_key), ' ') FROM query_page('EmptyKeys', top => 4, continuation_token => (SELECT max(continuation_token) FROM query_page('EmptyKeys', top => 1)));
SELECT filter, (SELECT string_agg(format('%L,%L', partition_key, row_key), ' ') FROM query_entities('EmptyKeys', filter))
FROM (VALUES ('PartitionKey eq '''''), ('RowKey eq '''''), ('PartitionKey gt '''''), ('RowKey le '''''), ('PartitionKey eq '''' and RowKey gt '''''), ('PartitionKey lt '''''),
    ('PartitionKey le '''' and RowKey ge '''''), ('not (PartitionKey eq '''' and RowKey eq '''')')) AS v (filter);
SELECT delete_table('EmptyKeys');

\echo '6.6 the entity of the token is gone'
-- It named a004.
SELECT delete_entity('Pages', 'a', '004');
SELECT row_key FROM query_page('Pages', continuation_token => :'token', top => 1);
-- And so is all of its partition, or everything after it.
BEGIN;
DELETE FROM table_service_data."Pages" WHERE partition_key = 'a';
SELECT partition_key, row_key FROM query_page('Pages', continuation_token => :'token', top => 1);
DELETE FROM table_service_data."Pages";
SELECT count(*) FROM query_page('Pages', continuation_token => :'token');
ROLLBACK;

\echo '6.6 no snapshot across pages'
-- What was written meanwhile, behind the mark, is seen; what was written before it is not.
SELECT insert_entity('Pages', 'a', '0035', '{}') IS NOT NULL AND insert_entity('Pages', 'a', '0041', '{}') IS NOT NULL AS inserted;
SELECT string_agg(row_key, ' ') FROM query_page('Pages', continuation_token => :'token', top => 3);
SELECT delete_entity('Pages', 'a', '0035'), delete_entity('Pages', 'a', '0041');

\echo '6.6 tokens are not bound to a query'
SELECT string_agg(partition_key || row_key, ' ') FROM query_page('Pages', 'RowKey eq ''050''', continuation_token => :'token', top => 2);
SELECT string_agg(partition_key || row_key, ' ') FROM query_page('Pages', 'PartitionKey eq ''b'' and N lt 3', continuation_token => :'token');
SELECT count(*) FROM query_page('Pages', 'PartitionKey eq ''a'' and RowKey lt ''004''', continuation_token => :'token');
SELECT count(*) FROM query_page('Another', continuation_token => :'token');

-- NULL where a value is needed, and tables that are not there.
SELECT function, pg_temp.outcome(format('SELECT count(*) FROM %s(NULL)', function)) AS "NULL", pg_temp.outcome(format('SELECT count(*) FROM %s(''Nobody'')', function)) AS absent,
    pg_temp.outcome(format('SELECT count(*) FROM %s(''Pages'', NULL)', function)) AS "no filter"
FROM (VALUES ('query_entities'), ('query_page'), ('query_page_json'), ('explain_query'), ('partition_statistics')) AS v (function);
-- A filter is read before the table is looked for.
SELECT count(*) FROM query_page('Nobody', 'a b');

-- Everything works in READ ONLY transactions.
BEGIN READ ONLY;
SELECT count(*) FROM query_entities('Pages', 'N eq 1');
SELECT count(*) FROM query_page('Pages', 'N eq 1');
SELECT json_array_length(query_page_json('Pages', 'N eq 1') -> 'value');
SELECT access FROM explain_query('Pages', 'N eq 1');
SELECT entities FROM partition_statistics('Pages') LIMIT 1;
SELECT count(*) FROM query_tables('TableName eq ''pages''');
ROLLBACK;

\echo '6.6 another session'
SELECT current_database() AS database \gset
\connect :database
SELECT min(row_key), max(row_key) FROM query_page('Pages', continuation_token => :'token', top => 3);

SELECT delete_table('Pages'), delete_table('Another');
