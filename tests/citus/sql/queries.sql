-- Queries and pages over the partitions of a distributed table: in key order, whole, on every server.
\set SHOW_CONTEXT never
\getenv worker1 WORKER1_PORT
\getenv coordinator PGPORT
SELECT create_table('Queries');
-- 300 partitions of 10 entities.
INSERT INTO table_service_data."Queries" SELECT 'p' || lpad(p::text, 3, '0'), lpad(r::text, 2, '0'), '2022-04-13T21:50:14Z', format('{"N": %s, "Even": %s, "Name": "n%s"}', p * 10 + r, (r % 2 = 0)::text, p)::table_service.properties
FROM generate_series(0, 299) AS p, generate_series(0, 9) AS r;
-- Keys in the order of code points, whatever the server's collation is.
SELECT insert_entity('Queries', k, '', '{}') IS NOT NULL AS written FROM unnest(ARRAY['B', 'a', 'Z', 'é', '_', '日']) AS k;

-- A loop over pages: how many there were, and whether they give what query_entities gives.
CREATE PROCEDURE public.loop(filter text, top bigint, time_limit text DEFAULT '5s') LANGUAGE plpgsql SET search_path = table_service, pg_catalog AS $$
DECLARE
    token text;
    keys text[];
    given text[] := '{}';
    pages integer := 0;
BEGIN
    PERFORM set_config('table_service.page_time_limit', time_limit, true);
    LOOP
        SELECT coalesce(array_agg(p.partition_key || '/' || p.row_key) FILTER (WHERE p.partition_key IS NOT NULL), '{}'), max(p.continuation_token) INTO keys, token
        FROM query_page('Queries', filter, NULL, top, token) AS p;
        given := given || keys;
        pages := pages + 1;
        EXIT WHEN token IS NULL OR pages > 10000;
    END LOOP;
    RAISE NOTICE '% entities, whole: %, in order: %', cardinality(given), given = ARRAY(SELECT q.partition_key || '/' || q.row_key FROM query_entities('Queries', filter) AS q),
        given = ARRAY(SELECT g COLLATE "C" FROM unnest(given) AS g ORDER BY split_part(g, '/', 1) COLLATE "C", split_part(g, '/', 2) COLLATE "C");
END $$;
CREATE VIEW public.cases (filter, top) AS VALUES
    (NULL, 1000), (NULL, 7), ('PartitionKey eq ''p005''', 3), ('PartitionKey eq ''p005'' and RowKey gt ''03''', 3), ('PartitionKey ge ''p010'' and PartitionKey lt ''p020''', 9),
    ('Even', 100), ('Even and PartitionKey gt ''p100''', 100), ('N eq 77', 10), ('N eq 100000', 10), ('PartitionKey eq ''p100'' and N gt 1004', 2), ('RowKey eq ''03'' and Even eq false', 50),
    ('(PartitionKey eq ''p001'' and RowKey eq ''01'') or (PartitionKey eq ''p299'' and RowKey ge ''05'') or PartitionKey eq ''p003''', 2), ('Name eq ''n7'' or Name eq ''n8''', 5),
    ('Timestamp gt datetime''2020-01-01T00:00:00Z''', 400);
SELECT format('CALL public.loop(%L, %s)', filter, top) FROM public.cases \gexec
-- With no time at all, pages are small and whole all the same.
CALL public.loop('Even and PartitionKey lt ''p010''', 1000, '0');
CALL public.loop('N eq 77 and PartitionKey lt ''p010''', 1000, '0');
CALL public.loop('PartitionKey eq ''p100'' and N gt 1004', 2, '0');
SELECT count(*) FROM query_entities('Queries', top => 2500);
SELECT count(*), min(partition_key), max(partition_key) FROM query_entities('Queries', 'Even', top => 1000);
SELECT partition_key FROM query_entities('Queries', $$RowKey eq ''$$);
SELECT count(*), count(continuation_token) FROM query_page('Queries', top => 0);
SELECT json_array_length(query_page_json('Queries', top => 5) -> 'value') AS entities;

-- How many shards a query goes to.
SELECT access, substring(plan FROM 'Task Count: \d+') AS tasks FROM explain_query('Queries', $$PartitionKey eq 'p001' and RowKey eq '01'$$);
SELECT access, substring(plan FROM 'Task Count: \d+') AS tasks FROM explain_query('Queries', $$PartitionKey eq 'p001'$$);
SELECT access, substring(plan FROM 'Task Count: \d+') AS tasks FROM explain_query('Queries', $$PartitionKey ge 'p001'$$);
SELECT access, substring(plan FROM 'Task Count: \d+') AS tasks FROM explain_query('Queries', $$N eq 7$$);

SELECT count(*), sum(entities), min(bytes) > 0 AS has_bytes FROM partition_statistics('Queries');

-- Rows of a distributed table, in functions on entities.
SELECT count(*) FROM table_service_data."Queries" AS t WHERE matches(ROW(t.partition_key, t.row_key, t."timestamp", t.properties)::entity, $$N lt 10$$);
SELECT etag(ROW(t.partition_key, t.row_key, t."timestamp", t.properties)::entity) FROM table_service_data."Queries" AS t WHERE partition_key = 'p001' AND row_key = '01';

-- The extended dialect. What the other servers test is compiled, so the setting of their sessions does not count.
SET table_service.filter_dialect = extended;
CALL public.loop('startswith(PartitionKey, ''p00'')', 30);
CALL public.loop('contains(Name, ''29'')', 50);
CALL public.loop('RowKey in (''03'', ''04'') and N ne null', 100);
CALL public.loop('N eq null', 4);
-- A call of matches is sent as it is: what it says, the sessions of the other servers decide. The condition of filter_to_sql says it everywhere.
SELECT count(*) FROM table_service_data."Queries" AS t WHERE matches(ROW(t.partition_key, t.row_key, t."timestamp", t.properties)::entity, 'contains(Name, ''29'')');
SELECT filter_to_sql('contains(Name, ''29'')') AS condition \gset
SELECT count(*) FROM table_service_data."Queries" WHERE :condition;
RESET table_service.filter_dialect;

-- An index on a property is one on every shard.
SELECT create_property_index('Queries', 'N');
SELECT property, is_valid FROM query_property_indexes('Queries');
CALL public.loop('N eq 77', 10);
CALL public.loop('N eq 77 and Even', 10);
CALL public.loop('Even and N lt 77', 10);
CALL public.loop('N eq 77 or N eq 1077', 10);
CALL public.loop('N gt 77 and N lt 90', 3);
SELECT access, substring(plan FROM 'Task Count: \d+') AS tasks FROM explain_query('Queries', $$N eq 77$$);
SELECT access, substring(plan FROM 'Task Count: \d+') AS tasks, plan ~ 'Queries_N' AS by_the_index FROM explain_query('Queries', $$N gt 77 and N lt 90$$);
SELECT count(*), min(properties ->> 'N'), max(properties ->> 'N') FROM query_entities('Queries', $$N gt 77 and N lt 90$$);
SELECT drop_property_index('Queries', 'N');

-- On a worker.
\c - - 127.0.0.1 :worker1
SET search_path = table_service, public;
SELECT count(*), min(partition_key), max(partition_key) FROM query_page('Queries', 'Even', top => 1000);
SELECT count(*) FROM query_entities('Queries');
SELECT count(*) FROM query_entities('Queries', $$PartitionKey eq 'p100' and N gt 1004$$);
SELECT access, substring(plan FROM 'Task Count: \d+') AS tasks FROM explain_query('Queries', $$N eq 7$$);
SELECT count(*), sum(entities) FROM partition_statistics('Queries');
\c - - - :coordinator
SELECT table_service.delete_table('Queries');
DROP PROCEDURE public.loop;
DROP VIEW public.cases;
