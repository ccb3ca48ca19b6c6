-- Queries through property indexes give the same entities in the same order as without, in pages of every size. Not in
-- property_indexes: where each statement is slow, a page of few entities reaches its time limit, and there are thousands.

\set ON_ERROR_STOP off
\pset footer off
\pset format unaligned

SELECT create_table('Staff');
SELECT count(*) FROM (
    SELECT insert_entity('Staff', 'p' || n % 5, lpad(n::text, 4, '0'),
        jsonb_build_object('Email', 'user' || n || '@example.com', 'Age', n % 100, 'City', (ARRAY['Paris', 'Rome', 'Oslo'])[1 + n % 3])::properties)
    FROM generate_series(1, 3000) AS n) AS inserted;
SELECT create_property_index('Staff', property) FROM unnest('{Email,Age,City}'::text[]) AS property;

-- All pages of a query, as keys.
CREATE FUNCTION pg_temp.pages(query text, page_size bigint) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    keys text[] = '{}';
    token text;
    r record;
BEGIN
    LOOP
        FOR r IN SELECT * FROM query_page('Staff', query, top => page_size, continuation_token => token) LOOP
            keys = CASE WHEN r.row_key IS NULL THEN keys ELSE keys || (r.partition_key || '/' || r.row_key) END;
            token = r.continuation_token;
        END LOOP;
        EXIT WHEN token IS NULL;
    END LOOP;
    RETURN keys;
END $$;
CREATE TEMP TABLE questions (filter text);
INSERT INTO questions VALUES
    ($$Email eq 'user77@example.com'$$), ($$Email eq 'nobody'$$), ($$Age eq 33$$), ($$Age eq 33L$$), ($$Age eq 33.5$$), ($$Age gt 97$$), ($$Age ge 10$$), ($$Age ge 20 and Age lt 22$$),
    ($$Email ge 'user12' and Email lt 'user13'$$), ($$City eq 'Paris'$$), ($$City eq 'Paris' and Age eq 3$$), ($$City eq 'Paris' and Age gt 95$$), ($$City eq 'Paris' or Email eq 'user8@example.com'$$),
    ($$City eq 'Paris' or City eq 'Oslo'$$), ($$Email eq 'user7@example.com' or Email eq 'user8@example.com' or Age eq 5$$), ($$PartitionKey eq 'p1' and Age eq 6$$), ($$PartitionKey eq 'p1' and Age gt 90$$),
    ($$PartitionKey eq 'p1' and RowKey ge '1000' and City eq 'Rome'$$), ($$PartitionKey gt 'p1' and PartitionKey lt 'p4' and City eq 'Rome'$$), ($$RowKey eq '0077' and City eq 'Oslo'$$),
    ($$(PartitionKey eq 'p1' or PartitionKey eq 'p3') and Age eq 8$$), ($$not (Age lt 98)$$), ($$Age ne 5$$), ($$City gt 'P'$$), ($$Email eq 'x' and Email eq 'y'$$), ($$Age eq 'text'$$), ($$Age eq 5 and Size eq 1$$);
SELECT q.filter, e.access,
    a.keys IS NOT DISTINCT FROM w.keys AS entities, pg_temp.pages(q.filter, 7) IS NOT DISTINCT FROM w.keys AS pages_of_7, pg_temp.pages(q.filter, 1000) IS NOT DISTINCT FROM w.keys AS pages_of_1000,
    b.keys IS NOT DISTINCT FROM w.keys[1:10] AS first_10, cardinality(w.keys) AS number
FROM questions AS q CROSS JOIN LATERAL explain_query('Staff', q.filter) AS e
    CROSS JOIN LATERAL (SELECT coalesce(array_agg(x.partition_key || '/' || x.row_key), '{}') AS keys FROM query_entities('Staff', q.filter) AS x) AS a
    CROSS JOIN LATERAL (SELECT coalesce(array_agg(x.partition_key || '/' || x.row_key), '{}') AS keys FROM query_entities('Staff', q.filter, top => 10) AS x) AS b
    CROSS JOIN LATERAL (SELECT coalesce(array_agg(t.partition_key || '/' || t.row_key ORDER BY t.partition_key, t.row_key), '{}') AS keys FROM table_service_data."Staff" AS t WHERE matches(t, q.filter)) AS w;
SELECT delete_table('Staff');
