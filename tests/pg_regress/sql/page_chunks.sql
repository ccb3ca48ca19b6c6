-- Pages as text in chunks: the same entities and tokens as other pages, and a limit in bytes of the text.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
SELECT create_table('Chunks');
INSERT INTO table_service_data."Chunks" SELECT 'p', lpad(i::text, 2, '0'), '2022-04-13T21:50:14Z', format('{"N": %s}', i)::properties FROM generate_series(1, 12) AS i;

-- One row: the text, and the token if there may be more.
SELECT chunk, continuation_token IS NOT NULL AS token FROM query_page_chunks('Chunks', top => 2);
SELECT chunk, continuation_token IS NOT NULL AS token FROM query_page_chunks('Chunks', 'N ge 11', metadata => 'none');
SELECT chunk, continuation_token IS NOT NULL AS token FROM query_page_chunks('Chunks', 'N eq 5', projection => 'X', metadata => 'full');
SELECT chunk, continuation_token IS NOT NULL AS token FROM query_page_chunks('Chunks', top => 0);
SELECT chunk, continuation_token IS NOT NULL AS token FROM query_page_chunks('Chunks', 'N eq 99');
SET table_service.page_time_limit = 0;
SELECT chunk, continuation_token IS NOT NULL AS token FROM query_page_chunks('Chunks', 'N eq 99');
RESET table_service.page_time_limit;

-- The first entity that does not fit is the one that the token names. One entity always fits.
SELECT string_agg(chunk, '') AS first FROM query_page_chunks('Chunks', top => 1) \gset
SELECT string_agg(chunk, '') AS second FROM query_page_chunks('Chunks', top => 2) \gset
SELECT byte_limit - octet_length(:'second') AS room, json_array_length(chunk::json) AS entities, continuation_token = (SELECT max(continuation_token) FROM query_page('Chunks', top => 2)) AS third
FROM unnest(ARRAY[1, octet_length(:'first'), octet_length(:'second') - 1, octet_length(:'second'), octet_length(:'second') + 1]) AS byte_limit, query_page_chunks('Chunks', byte_limit => byte_limit);

-- A loop over the pages: how many there were, and whether they give what query_entities gives.
CREATE FUNCTION pg_temp.loop(filter text, byte_limit bigint DEFAULT NULL, top bigint DEFAULT NULL)
RETURNS TABLE (pages bigint, whole boolean, within boolean, "64 KiB" boolean, one_token boolean) LANGUAGE plpgsql AS $$
DECLARE
    token text;
    page record;
    given jsonb := '[]';
BEGIN
    pages := 0;
    within := true;
    "64 KiB" := true;
    one_token := true;
    LOOP
        SELECT string_agg(c.chunk, '' ORDER BY c.ordinality) AS text, max(octet_length(c.chunk)) AS longest, max(c.continuation_token) AS token, count(c.continuation_token) AS tokens
        INTO page FROM query_page_chunks('Chunks', filter, NULL, top, token, NULL, 'minimal', byte_limit) WITH ORDINALITY AS c;
        pages := pages + 1;
        given := given || page.text::jsonb;
        within := within AND (octet_length(page.text) <= least(byte_limit, 16 * 1024 * 1024) OR jsonb_array_length(page.text::jsonb) = 1);
        "64 KiB" := "64 KiB" AND page.longest <= 65536;
        one_token := one_token AND page.tokens <= 1;
        token := page.token;
        EXIT WHEN token IS NULL;
    END LOOP;
    whole := given = (SELECT coalesce(jsonb_agg(entity_to_json(q)::jsonb), '[]') FROM query_entities('Chunks', filter) AS q);
    RETURN NEXT;
END $$;
SELECT * FROM pg_temp.loop(NULL);
SELECT * FROM pg_temp.loop(NULL, 1);
SELECT * FROM pg_temp.loop(NULL, 500);
SELECT * FROM pg_temp.loop(NULL, 500, 2);
SELECT * FROM pg_temp.loop('N gt 3 and N ne 7', 700);

-- Text of control characters is one byte stored and six in JSON. Four entities of 3 MB; characters of three bytes lie across the ends of chunks.
INSERT INTO table_service_data."Chunks" SELECT 'q', i::text, clock_timestamp(), ('{' || string_agg(format('"P%s": "%s"', n, repeat(text, 32000)), ', ') || '}')::properties
FROM generate_series(1, 4) AS i, generate_series(10, 25) AS n, (VALUES ('\u0001')) AS v (text) GROUP BY i;
INSERT INTO table_service_data."Chunks" SELECT 'r', i::text, clock_timestamp(), ('{' || string_agg(format('"P%s": "%s"', n, repeat('日', 32000)), ', ') || '}')::properties
FROM generate_series(1, 3) AS i, generate_series(10, 25) AS n GROUP BY i;
SELECT * FROM pg_temp.loop('PartitionKey eq ''q''', 4000000);
SELECT * FROM pg_temp.loop('PartitionKey eq ''q''', 6500000);
SELECT * FROM pg_temp.loop('PartitionKey gt ''p''');
SELECT * FROM pg_temp.loop('PartitionKey gt ''p'' and P10 ne ''x''', 5000000);
SELECT count(*) FROM query_page('Chunks', 'PartitionKey gt ''p''');
-- The same holds for the page in one piece.
SELECT json_array_length(page -> 'value'), page ->> 'continuationToken' IS NOT NULL AS token, octet_length(page::text) <= 16 * 1024 * 1024 AS small_enough
FROM query_page_json('Chunks', 'PartitionKey gt ''p''') AS page;

SELECT count(*) FROM query_page_chunks('Chunks', byte_limit => 0);
:state
SELECT count(*) FROM query_page_chunks('Chunks', byte_limit => -1);
:state
SELECT count(*) FROM query_page_chunks('Chunks', top => 1001);
:state
SELECT count(*) FROM query_page_chunks('Chunks', metadata => 'some');
:state
SELECT count(*) FROM query_page_chunks('Chunks', metadata => NULL);
:state
SELECT count(*) FROM query_page_chunks(NULL);
:state
SELECT count(*) FROM query_page_chunks('Nobody');
:state
SELECT count(*) FROM query_page_chunks('Chunks', continuation_token => 'x');
:state
SELECT count(*) > 0 AS unlimited FROM query_page_chunks('Chunks', byte_limit => 9223372036854775807);
BEGIN READ ONLY;
SELECT octet_length(chunk) > 0 AS read FROM query_page_chunks('Chunks', 'N eq 1');
ROLLBACK;
SELECT delete_table('Chunks');
