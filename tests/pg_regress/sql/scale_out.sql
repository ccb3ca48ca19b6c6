-- Tables on several servers. The functions that make them need Citus. The statements on them do not: to a catalog that says that
-- a table is distributed it does not matter who wrote it. So this test, too, reads and writes as on a distributed table, and
-- compares with an ordinary one. `cargo xtask citus` tests the rest.
\set SHOW_CONTEXT never
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SELECT enable_citus();
SELECT enable_citus(NULL);
SELECT disable_citus();

-- The hash of a PartitionKey is PostgreSQL's.
SELECT count(*) FROM generate_series(0, 2000) AS i, LATERAL (VALUES (repeat('x', i)), (md5(i::text)), (i::text), (repeat(chr(i + 1000), i % 50))) AS t (key)
WHERE partition_hash(key) <> hashtext(key COLLATE "C");
SELECT partition_hash(NULL), partition_hash('');
-- A server without Citus has no map.
SELECT create_table('Alone');
SELECT * FROM shard_map('aLONE');
SELECT * FROM shard_map('Nobody');
SELECT * FROM shard_map('a');
SELECT * FROM shard_map(NULL);
SELECT delete_table('Alone');

-- What the catalogs of Citus say, for the functions of this session alone.
BEGIN;
SET LOCAL allow_system_table_mods = on;
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass, partmethod "char" DEFAULT 'h', partkey text DEFAULT 'partition_key');
CREATE FUNCTION pg_catalog.column_to_column_name(regclass, text) RETURNS text LANGUAGE sql AS 'SELECT $2';
CREATE TABLE pg_catalog.pg_dist_local_group (groupid integer);
CREATE TABLE pg_catalog.pg_dist_shard (logicalrelid regclass, shardid bigint, shardminvalue text, shardmaxvalue text);
CREATE TABLE pg_catalog.pg_dist_placement (shardid bigint, shardstate integer, groupid integer);
CREATE TYPE pg_catalog.noderole AS ENUM ('primary', 'secondary');
CREATE TABLE pg_catalog.pg_dist_node (groupid integer, nodename text, nodeport integer, noderole pg_catalog.noderole);
INSERT INTO pg_catalog.pg_dist_local_group VALUES (0);
INSERT INTO pg_extension SELECT 4294967294, 'citus', extowner, extnamespace, extrelocatable, '13.2-1' FROM pg_extension WHERE extname = 'table_service';
SELECT pg_temp.outcome('SELECT enable_citus()');
SELECT pg_temp.outcome('SELECT disable_citus()');
UPDATE pg_extension SET extversion = '14.0-1' WHERE extname = 'citus';
SELECT pg_temp.outcome('SELECT enable_citus(0)');
SELECT pg_temp.outcome('SELECT enable_citus(64001)');

-- On a worker tables are known and not made.
UPDATE pg_catalog.pg_dist_local_group SET groupid = 1;
SELECT statement, pg_temp.outcome(statement) FROM (VALUES ('SELECT enable_citus()'), ('SELECT disable_citus()'), ('SELECT create_table(''Scaled'')'), ('SELECT create_table(''a'')'),
    ('SELECT delete_table(''Scaled'')'), ('SELECT get_access_policies(''Scaled'')'), ('SELECT set_access_policies(''Scaled'', ''[]'')'),
    ('SELECT create_property_index(''Scaled'', ''N'')'), ('SELECT drop_property_index(''Scaled'', ''N'')')) AS s (statement);
CREATE TABLE table_service_data."Shell" (LIKE entity, PRIMARY KEY (partition_key, row_key));
CREATE TABLE table_service_data."Other" (a integer);
SELECT table_name FROM query_tables($$TableName eq 'Shell' or TableName eq 'Other'$$);
SELECT pg_temp.outcome($$SELECT insert_entity('Shell', 'p', 'r', '{}')$$);
INSERT INTO pg_catalog.pg_dist_partition VALUES ('table_service_data."Shell"'), ('table_service_data."Other"');
ALTER TABLE table_service_data."Shell" SET (fillfactor = 90);
SELECT table_name FROM query_tables($$TableName eq 'Shell' or TableName eq 'Other'$$);
SELECT insert_entity('Shell', 'p', 'r', '{"N": 1}') IS NOT NULL AS written;
SELECT properties FROM get_entity('sHELL', 'p', 'r');
SELECT pg_temp.outcome($$SELECT insert_entity('Other', 'p', 'r', '{}')$$);
UPDATE pg_catalog.pg_dist_local_group SET groupid = 0;

-- The same entities in two tables, one of which is distributed.
SELECT create_table('Scaled'), create_table('Single');
INSERT INTO pg_catalog.pg_dist_partition VALUES ('table_service_data."Scaled"');
INSERT INTO pg_catalog.pg_dist_shard SELECT 'table_service_data."Scaled"', i, -2147483648 + i * 536870912, -2147483649 + (i + 1) * 536870912 FROM generate_series(0::bigint, 7) AS i;
INSERT INTO pg_catalog.pg_dist_placement SELECT i, 1, i % 2 FROM generate_series(0, 7) AS i;
INSERT INTO pg_catalog.pg_dist_placement VALUES (1, 4, 0), (2, 1, 1);
INSERT INTO pg_catalog.pg_dist_node VALUES (0, 'coordinator', 5432, 'primary'), (1, 'worker', 5433, 'primary'), (1, 'standby', 5434, 'secondary');
SELECT * FROM shard_map('Scaled');
SELECT k, partition_hash(k), m.node_name FROM unnest(ARRAY['p1', 'p2', 'p3', '']) AS k LEFT JOIN shard_map('Scaled') AS m ON partition_hash(k) BETWEEN m.from_hash AND m.to_hash ORDER BY k, m.node_name;
SELECT count(*) FROM shard_map('Single');
ALTER TABLE table_service_data."Scaled" SET (fillfactor = 90);
CREATE FUNCTION pg_temp.both(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    scaled text := pg_temp.outcome(format(statement, 'Scaled'));
    single text := pg_temp.outcome(format(statement, 'Single'));
BEGIN
    RETURN CASE WHEN scaled = single THEN 'same: ' || left(scaled, 120) ELSE format('Scaled: %s, Single: %s', scaled, single) END;
END $$;
SELECT pg_temp.both($$SELECT count(insert_entity(%L, 'p' || p, lpad(r::text, 2, '0'), format('{"N": %%s, "Even": %%s}', p * 30 + r, (r %% 2 = 0)::text)::properties)) FROM generate_series(0, 29) AS p, generate_series(0, 29) AS r$$);
SELECT pg_temp.both($$SELECT insert_entity(%L, 'p1', '01', '{}')$$);
SELECT pg_temp.both($$SELECT merge_entity(%L, 'p1', '01', '{"M": 1}', '*') IS NOT NULL$$);
SELECT pg_temp.both($$SELECT replace_entity(%L, 'p1', '02', '{"M": 1}', 'W/"datetime''2020-01-01T00%%3A00%%3A00Z''"')$$);
SELECT pg_temp.both($$SELECT delete_entity(%L, 'p1', '03', '*') IS NULL$$);
SELECT pg_temp.both($$SELECT string_agg(row_key || (etag IS NOT NULL), ' ' ORDER BY index) FROM execute_batch(%L, 'b', batch_insert('b', '{"N": 1}'), batch_insert('a', '{"N": 2}'), batch_insert_or_merge('c', '{"N": 3}'), batch_insert_or_replace('d', '{"N": 4}'))$$);
SELECT pg_temp.both($$SELECT string_agg(row_key || (etag IS NOT NULL), ' ' ORDER BY index) FROM execute_batch(%L, 'b', batch_merge('c', '{"M": 1}', '*'), batch_replace('b', '{"M": 2}', '*'), batch_delete('a'), batch_insert_or_merge('d', '{"M": 3}'), batch_insert('e', '{}'))$$);
SELECT pg_temp.both($$SELECT execute_batch(%L, 'b', batch_insert('f', '{}'), batch_insert('e', '{}'))$$);
SELECT pg_temp.both($$SELECT execute_batch(%L, 'b', batch_insert_or_merge('b', '{}'), batch_merge('a', '{}', '*'))$$);
SELECT pg_temp.both($$SELECT count(*) FROM execute_batch(%L, 'h', VARIADIC ARRAY(SELECT batch_insert(i::text, '{}') FROM generate_series(1, 100) AS i))$$);
SELECT pg_temp.both($$SELECT string_agg(row_key || properties::text, ' ' ORDER BY row_key) FROM query_entities(%L, 'PartitionKey eq ''b''')$$);

-- All pages of a query: their keys, and where each begins.
CREATE FUNCTION pg_temp.pages(table_name text, filter text, top bigint, time_limit text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    token text;
    page text;
    given text := '';
    pages integer := 0;
BEGIN
    PERFORM set_config('table_service.page_time_limit', time_limit, true);
    LOOP
        SELECT string_agg(p.partition_key || '/' || p.row_key, ' '), max(p.continuation_token) INTO page, token FROM query_page($1, filter, NULL, top, token) AS p;
        pages := pages + 1;
        given := concat_ws(' ', given, page) || CASE WHEN time_limit = '0' THEN '' ELSE ';' END;
        EXIT WHEN token IS NULL OR pages > 2000;
    END LOOP;
    RETURN md5(given) || ' ' || length(given) || CASE WHEN time_limit = '0' THEN '' ELSE format(' in %s pages', pages) END;
END $$;
CREATE TEMP TABLE filters (filter text);
INSERT INTO filters VALUES (NULL), ('PartitionKey eq ''p5'''), ('PartitionKey eq ''p5'' and RowKey gt ''03'''), ('PartitionKey ge ''p1'' and PartitionKey lt ''p2'''), ('Even'),
    ('Even and PartitionKey gt ''p2'''), ('N eq 77'), ('N eq 100000'), ('PartitionKey eq ''p10'' and N gt 310'), ('RowKey eq ''03'' and Even eq false'),
    ('(PartitionKey eq ''p1'' and RowKey eq ''01'') or (PartitionKey eq ''p29'' and RowKey ge ''05'') or PartitionKey eq ''p3'''), ('N eq 7 or N eq 8'),
    ('Timestamp gt datetime''2020-01-01T00:00:00Z'''), ('Timestamp gt datetime''2020-01-01T00:00:00Z'' and PartitionKey eq ''p3'''), ('PartitionKey gt ''p28''');
SELECT filter, pg_temp.both(format('SELECT pg_temp.pages(%%L, %L, 7, ''5s'')', filter)) FROM filters;
SELECT filter, pg_temp.both(format('SELECT pg_temp.pages(%%L, %L, 1000, ''5s'')', filter)) FROM filters;
-- With no time, pages may end elsewhere, but they are whole.
SELECT filter, pg_temp.both(format('SELECT pg_temp.pages(%%L, %L, 7, ''0'')', filter)) FROM filters;
SELECT filter, pg_temp.both(format('SELECT md5(string_agg(partition_key || row_key, '' '')) FROM query_entities(%%L, %L)', filter)) FROM filters;
SELECT filter, pg_temp.both(format('SELECT md5(string_agg(partition_key || row_key, '' '')) FROM query_entities(%%L, %L, top => 11)', filter)) FROM filters;
SELECT filter, pg_temp.both(format('SELECT access FROM explain_query(%%L, %L)', filter)) FROM filters;
SELECT pg_temp.both('SELECT md5(query_page_json(%L, top => 100, metadata => ''none'')::text) IS NOT NULL');
SELECT pg_temp.both('SELECT count(*) FROM query_page(%L, top => 0)');
SELECT pg_temp.both('SELECT md5(string_agg(partition_key || entities, '' '')) FROM partition_statistics(%L)');

-- Property indexes.
SELECT pg_temp.both('SELECT create_property_index(%L, ''N'') IS NOT NULL');
SELECT filter, pg_temp.both(format('SELECT pg_temp.pages(%%L, %L, 7, ''5s'')', filter)) FROM filters;
SELECT pg_temp.both('SELECT access FROM explain_query(%L, ''N eq 77'')');
SELECT pg_temp.both('SELECT drop_property_index(%L, ''N'')');
ROLLBACK;
SELECT count(*) FROM pg_extension WHERE extname = 'citus';
