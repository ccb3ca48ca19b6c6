-- Projection: which properties queries give back. Each case has the name of its row in the reference of the Table
-- service's semantics; a test counts them.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
\pset format unaligned
\pset fieldsep ' | '
\pset footer off
SELECT create_table('Reviews');
INSERT INTO table_service_data."Reviews" VALUES
    ('Sales', '000123_2011', '2022-04-13T21:50:14.2477Z', '{"ManagerRating": 4, "PeerRating": 5, "Comments": "good", "When@odata.type": "Edm.DateTime", "When": "2011-12-31T00:00:00Z", "NaN@odata.type": "Edm.Double", "NaN": "NaN"}'),
    ('Sales', '000123_2012', '2022-04-13T21:50:14.2478Z', '{"PeerRating": 3}');
-- The entities with a projection, from all functions that take one.
CREATE FUNCTION pg_temp.projected(projection text) RETURNS TABLE (row_key text, properties text, "timestamp" boolean) LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT array_agg(q ORDER BY q.row_key) FROM query_entities('Reviews', NULL, projection) AS q)
        IS DISTINCT FROM (SELECT array_agg((p.partition_key, p.row_key, p."timestamp", p.properties)::entity ORDER BY p.row_key) FROM query_page('Reviews', NULL, projection) AS p)
        OR (SELECT array_agg(q ORDER BY q.row_key) FROM query_entities('Reviews', NULL, projection) AS q)
        IS DISTINCT FROM (SELECT array_agg(g ORDER BY g.row_key) FROM get_entities('Reviews', 'Sales', ARRAY['000123_2011', '000123_2012'], projection) AS g) THEN
        RAISE 'query_entities, query_page and get_entities differ for %', projection;
    END IF;
    RETURN QUERY SELECT q.row_key, q.properties::text, q."timestamp" IS NOT NULL FROM query_entities('Reviews', NULL, projection) AS q;
END $$;

\echo '6.5 star or absent'
SELECT projection, p.* FROM (VALUES (NULL), (''), (' '), ('*'), (' * '), ('Comments,*'), (','), (',,')) AS v (projection), LATERAL pg_temp.projected(projection) AS p WHERE row_key = '000123_2012';

\echo '6.5 comma list'
SELECT * FROM pg_temp.projected('ManagerRating,Comments');
SELECT * FROM pg_temp.projected('Comments,,When,');

\echo '6.5 case-sensitive'
SELECT * FROM pg_temp.projected('managerrating,COMMENTS,PeerRating');

\echo '6.5 trimmed'
SELECT * FROM pg_temp.projected(E' Comments ,\tPeerRating\n');

\echo '6.5 duplicates'
SELECT * FROM pg_temp.projected('PeerRating,PeerRating, PeerRating');
SELECT query_page_json('Reviews', NULL, 'PeerRating,PeerRating', metadata => 'none');

\echo '6.5 selected and absent'
-- In a bag a property that the entity lacks is left out, in JSON it is null.
SELECT * FROM pg_temp.projected('Comments');
SELECT query_page_json('Reviews', NULL, 'Comments,Nothing', metadata => 'none');
-- Whatever the name is, the JSON stays JSON, and says about itself what it says without a projection.
SELECT projection, query_page_json('Reviews', 'RowKey eq ''000123_2012''', projection)::jsonb -> 'value' -> 0
FROM (VALUES ('a"b'), (E'a\\'), ('x":1,"PeerRating'), ('odata.etag'), ('odata.etag,PeerRating'), ('When@odata.type,PeerRating')) AS v (projection);
-- A name that is too long for a property is not repeated for every entity.
SELECT length(query_page_json('Reviews', NULL, repeat('x', 200000), metadata => 'none')::text);

\echo '6.5 etag'
SELECT query_page_json('Reviews', 'RowKey eq ''000123_2012''', 'Comments', metadata => metadata) FROM (VALUES ('none'), ('minimal'), ('full')) AS v (metadata);

\echo '6.5 keys and Timestamp'
-- They are always there, whether or not they are selected.
SELECT * FROM pg_temp.projected('PartitionKey,RowKey,Timestamp');
SELECT * FROM pg_temp.projected('Nothing');
SELECT query_page_json('Reviews', 'RowKey eq ''000123_2012''', projection, metadata => 'none') FROM (VALUES ('RowKey'), ('Timestamp'), ('PeerRating,PartitionKey')) AS v (projection);

\echo '6.5 annotations'
-- They come along with the selected value; a null has none.
SELECT query_page_json('Reviews', NULL, 'When,NaN', metadata => metadata) FROM (VALUES ('none'), ('minimal'), ('full')) AS v (metadata);

\echo '6.5 at most 255 names'
SELECT count(*) FROM query_entities('Reviews', NULL, (SELECT string_agg('P' || i, ',') FROM generate_series(1, 255) AS i));
SELECT count(*) FROM query_entities('Reviews', NULL, (SELECT string_agg('P' || i, ',') FROM generate_series(1, 256) AS i));
:state
SELECT count(*) FROM query_page('Reviews', NULL, (SELECT string_agg('P' || i, ',') FROM generate_series(1, 256) AS i));
:state

-- A name that no property can have is the name of no property.
SELECT * FROM pg_temp.projected('Manager Rating,Peer Rating,"Comments",1');
-- A filter sees all properties, whatever is selected.
SELECT row_key, properties FROM query_entities('Reviews', 'PeerRating eq 5 and ManagerRating eq 4', 'Comments');
-- Metadata is none, minimal or full.
SELECT query_page_json('Reviews', metadata => 'verbose');
:state
SELECT query_page_json('Reviews', metadata => NULL);
:state

SELECT delete_table('Reviews');
