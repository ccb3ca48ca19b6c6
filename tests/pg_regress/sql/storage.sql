-- How bags are stored: short ones, compressed ones, ones out of line, and ones in between read the same.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
SELECT create_table('Stored');

-- From a few bytes to a megabyte, well and badly compressible. (md5 gives text that does not compress.)
CREATE FUNCTION pg_temp.noise(units integer) RETURNS text LANGUAGE sql AS $$ SELECT left(string_agg(md5(i::text), '' ORDER BY i), units) FROM generate_series(1, units / 32 + 1) AS i $$;
CREATE TEMPORARY TABLE samples (id text PRIMARY KEY, bag properties);
INSERT INTO samples VALUES ('empty', '{}'), ('short', '{"A": "x"}'), ('126 bytes', jsonb_build_object('A', repeat('x', 114))), ('127 bytes', jsonb_build_object('A', repeat('x', 115))),
    ('compressed', jsonb_build_object('A', repeat('x', 30000), 'Z', 1)), ('out of line', jsonb_build_object('A', pg_temp.noise(30000), 'Z', 1)),
    ('both', (SELECT json_object_agg('S' || i, repeat(pg_temp.noise(320), 102))::text::properties FROM generate_series(10, 24) AS i)),
    ('largest', (SELECT json_object_agg('S' || i, pg_temp.noise(32768))::text::properties FROM generate_series(10, 24) AS i)),
    ('many', (SELECT json_object_agg('P' || i, i)::text::properties FROM generate_series(1, 252) AS i));
SELECT count(insert_entity('Stored', 'p', id, bag)) FROM samples;

-- They are stored in different ways: with a header of one byte, or of four; compressed; out of line...
SELECT row_key, octet_length(properties_send(properties)) AS bytes, pg_column_size(properties) - octet_length(properties_send(properties)) AS header
FROM table_service_data."Stored" WHERE row_key IN ('empty', 'short', '126 bytes', '127 bytes') ORDER BY bytes;
SELECT pg_column_size(properties) < 1000 AS is_compressed FROM table_service_data."Stored" WHERE row_key = 'compressed';
SELECT pg_relation_size(reltoastrelid) > 0 AS has_values_out_of_line FROM pg_class WHERE oid = 'table_service_data."Stored"'::regclass;
-- ... and read the same, by functions and by SQL.
SELECT s.id, e.properties = s.bag AS is_equal, get_int32(e.properties, 'Z') AS z, length(e.properties ->> 'A') AS a, e.properties ? 'Z' AS has_z
FROM samples AS s, LATERAL get_entity('Stored', 'p', s.id) AS e ORDER BY s.id COLLATE "C";
SELECT count(*) FROM table_service_data."Stored" AS e JOIN samples AS s ON s.id = e.row_key AND s.bag = e.properties AND s.bag::text = e.properties::text AND etag(e) IS NOT NULL
    AND entity_from_json(entity_to_json(e)::text) = e AND properties_hash(s.bag) = properties_hash(e.properties);
SELECT count(*) FROM get_entities('Stored', 'p', ARRAY(SELECT id FROM samples)) AS e JOIN samples AS s ON s.id = e.row_key AND s.bag = e.properties;
-- A bag that is read from a table goes into another as it is, compressed or out of line.
SELECT create_table('Copies');
SELECT count(insert_entity('Copies', partition_key, row_key, properties)) FROM table_service_data."Stored";
SELECT count(merge_entity('Copies', partition_key, row_key, properties, '*')) FROM table_service_data."Stored";
SELECT count(*) FROM table_service_data."Copies" AS c JOIN samples AS s ON s.id = c.row_key AND s.bag = c.properties;
SELECT count(insert_or_merge_entity('Copies', 'q', row_key, properties)) + count(insert_or_replace_entity('Copies', 'r', row_key, properties)) FROM table_service_data."Stored";
-- The source may go.
SELECT delete_table('Stored');
VACUUM table_service_data."Copies";
SELECT partition_key, count(*) FROM table_service_data."Copies" AS c JOIN samples AS s ON s.id = c.row_key AND s.bag = c.properties GROUP BY 1 ORDER BY 1;

-- Every way to merge small into large and large into small.
SELECT count(*) FILTER (WHERE (a.bag || b.bag) - ARRAY(SELECT name FROM each_property(b.bag)) = a.bag - ARRAY(SELECT name FROM each_property(b.bag))) = count(*) AS left_stays,
    bool_and(NOT EXISTS (SELECT FROM each_property(b.bag) AS p WHERE (a.bag || b.bag) ->> p.name <> p.value)) AS right_wins
FROM samples AS a, samples AS b WHERE 'largest' NOT IN (a.id, b.id) AND ('many' NOT IN (a.id, b.id) OR a.id = b.id);

-- Updates that leave room on the page are HOT: no index grows.
SELECT create_table('Hot');
SELECT insert_entity('Hot', 'p', 'r', '{"a": 1}') IS NOT NULL AS inserted;
SELECT pg_relation_size('table_service_data."Hot"') AS before \gset
SELECT count(merge_entity('Hot', 'p', 'r', jsonb_build_object('a', i), '*')) FROM generate_series(1, 20) AS i;
SELECT pg_relation_size('table_service_data."Hot"') = :before AS is_one_page;
SELECT delete_table('Copies'), delete_table('Hot');
