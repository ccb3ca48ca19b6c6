-- Bytes and tokens of a database with data.sql, and what they stand for, one JSON array a line: what every later version has to read.
SELECT json_build_array('bag', encode(table_service.properties_send(properties), 'hex'), properties::text)
FROM table_service_data."Types" WHERE (partition_key, row_key) = ('p', 'r')
UNION ALL
SELECT json_build_array('bag', encode(table_service.properties_send(b), 'hex'), b::text)
FROM unnest(ARRAY['{}', '{"Empty": ""}', '{"A": 1, "B": 2, "a": true}', '{"L@odata.type": "Edm.Int64", "L": "9223372036854775807", "Z": "z"}',
    ('{"Long": "' || repeat('ä', 300) || '"}'), (SELECT json_object_agg('P' || n, n)::text FROM generate_series(1, 252) AS n)]::table_service.properties[]) AS b;
SELECT json_build_array('entity token', continuation_token, (lead_key).partition_key, (lead_key).row_key) FROM (
    SELECT p.continuation_token, (SELECT e FROM table_service_data."Types" AS e WHERE (e.partition_key, e.row_key) >= (p.partition_key, p.row_key)
        AND (e.partition_key, e.row_key) <> (p.partition_key, p.row_key) ORDER BY e.partition_key, e.row_key LIMIT 1) AS lead_key
    FROM generate_series(1, 8) AS n, LATERAL table_service.query_page('Types', top => n) AS p WHERE p.continuation_token IS NOT NULL) AS page;
SELECT json_build_array('table token', continuation_token, (SELECT lower(t.table_name) FROM table_service.query_tables() AS t OFFSET 2 LIMIT 1))
FROM table_service.query_tables(top => 2) WHERE continuation_token IS NOT NULL;
