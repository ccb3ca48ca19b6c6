-- Property indexes: ordinary indexes, by which filters find entities.

\set ON_ERROR_STOP off
\pset footer off
\pset format unaligned

SELECT create_table('Staff');
SELECT count(*) FROM (
    SELECT insert_entity('Staff', 'p' || n % 5, lpad(n::text, 4, '0'),
        jsonb_build_object('Email', 'user' || n || '@example.com', 'Age', n % 100, 'City', (ARRAY['Paris', 'Rome', 'Oslo'])[1 + n % 3])::properties)
    FROM generate_series(1, 3000) AS n) AS inserted;

-- Create, list, drop.
SELECT create_property_index('Staff', 'Email');
SELECT create_property_index('staff', 'Email', if_not_exists => true);
SELECT create_property_index('STAFF', 'Email');
SELECT create_property_index('Staff', 'Age');
SELECT table_name, property, index, is_valid, bytes > 0 AS has_bytes, scans >= 0 AS has_scans FROM query_property_indexes('staff');
SELECT property_index_sql('Staff', 'City') \gexec
SELECT property_index_sql('Staff', 'City');
SELECT table_name, property, index, is_valid FROM query_property_indexes();
SELECT pg_get_indexdef('table_service_data."Staff_Email"'::regclass);
SELECT drop_property_index('Staff', 'City');
SELECT drop_property_index('Staff', 'City', if_exists => true);
SELECT drop_property_index('Staff', 'City');

-- What cannot be.
SELECT create_property_index('Nowhere', 'Email');
SELECT create_property_index('no-table', 'Email');
SELECT create_property_index(NULL, 'Email');
SELECT create_property_index('Staff', NULL);
SELECT create_property_index('Staff', 'Email', NULL);
SELECT create_property_index('Staff', 'two words');
SELECT create_property_index('Staff', '');
SELECT create_property_index('Staff', repeat('x', 256));
SELECT create_property_index('Staff', 'PartitionKey');
SELECT create_property_index('Staff', 'RowKey');
SELECT create_property_index('Staff', 'Timestamp');
SELECT drop_property_index('Nowhere', 'Email', if_exists => true);
SELECT drop_property_index('Staff', NULL);
SELECT drop_property_index(NULL, 'Email');
SELECT drop_property_index('Staff', 'Email', NULL);
SELECT drop_property_index('Staff', 'Timestamp');
SELECT property_index_sql('Nowhere', 'Email');
SELECT property_index_sql(NULL, 'Email');
SELECT property_index_sql('Staff', NULL);
SELECT property_index_sql('Staff', 'Email');
SELECT * FROM query_property_indexes('Nowhere');

-- A name that is no valid identifier without quotes, long names, and names that other relations have.
SELECT create_property_index('Staff', 'Größe');
SELECT create_property_index('Staff', repeat('Long', 60));
SELECT create_property_index('Staff', repeat('Long', 60), if_not_exists => true);
CREATE TABLE table_service_data."Staff_Phone" ();
SELECT create_property_index('Staff', 'Phone');
DROP TABLE table_service_data."Staff_Phone";
SELECT property, index FROM query_property_indexes('Staff');
DO $$ BEGIN
    EXECUTE (SELECT string_agg('CREATE TABLE table_service_data."Staff_Fax' || CASE n WHEN 0 THEN '' ELSE '_' || n END || '" ()', '; ') FROM generate_series(0, 99) AS n);
END $$;
SELECT create_property_index('Staff', 'Fax');
SELECT drop_property_index('Staff', 'Fax');
DO $$ BEGIN
    EXECUTE (SELECT string_agg('DROP TABLE table_service_data."Staff_Fax' || CASE n WHEN 0 THEN '' ELSE '_' || n END || '"', '; ') FROM generate_series(0, 99) AS n);
END $$;

-- Not where nothing is written.
BEGIN READ ONLY;
SELECT create_property_index('Staff', 'City');
ROLLBACK;
BEGIN READ ONLY;
SELECT drop_property_index('Staff', 'Email');
ROLLBACK;

-- Only the owner may do it.
CREATE ROLE property_index_guest;
GRANT ALL ON table_service_data."Staff" TO property_index_guest;
SET ROLE property_index_guest;
SELECT create_property_index('Staff', 'City');
SELECT drop_property_index('Staff', 'Email');
SELECT count(*) FROM query_property_indexes('Staff');
RESET ROLE;
REVOKE ALL ON table_service_data."Staff" FROM property_index_guest;
DROP ROLE property_index_guest;

-- A user's own index on the same expression is a property index. Others are not.
CREATE INDEX own ON table_service_data."Staff" (property_index_key(partition_key, row_key, properties, 'City'));
CREATE INDEX other_function ON table_service_data."Staff" (get_string(properties, 'City'));
CREATE INDEX other_class ON table_service_data."Staff" USING hash (property_index_key(partition_key, row_key, properties, 'City'));
CREATE INDEX partial ON table_service_data."Staff" (property_index_key(partition_key, row_key, properties, 'Street')) WHERE partition_key = 'p1';
SELECT property, index FROM query_property_indexes('Staff');
SELECT create_property_index('Staff', 'City');
SELECT drop_property_index('Staff', 'City');
DROP INDEX table_service_data.other_function, table_service_data.other_class, table_service_data.partial;

-- An invalid index is listed as such. It does not keep a new one from being made, and both are dropped together.
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'table_service_data."Staff_Age"'::regclass;
SELECT property, index, is_valid FROM query_property_indexes('Staff') WHERE property = 'Age';
SELECT create_property_index('Staff', 'Age');
SELECT drop_property_index('Staff', 'Age');
SELECT count(*) FROM query_property_indexes('Staff') WHERE property = 'Age';

-- A partitioned table.
CREATE TABLE table_service_data."Parts" OF table_service.entity (PRIMARY KEY (partition_key, row_key)) PARTITION BY HASH (partition_key);
CREATE TABLE parts_0 PARTITION OF table_service_data."Parts" FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts_1 PARTITION OF table_service_data."Parts" FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT property_index_sql('Parts', 'Age');
SELECT create_property_index('Parts', 'Age');
SELECT insert_entity('Parts', 'p' || n, 'r', jsonb_build_object('Age', n)::properties) IS NOT NULL AS inserted FROM generate_series(1, 3) AS n;
SELECT property, index, is_valid, bytes > 0 AS has_bytes FROM query_property_indexes('Parts');
SELECT partition_key FROM query_entities('Parts', 'Age eq 2');
SELECT partition_key FROM query_entities('Parts', 'Age ge 2');
SELECT drop_property_index('Parts', 'Age');
-- PostgreSQL takes the indexes of the partitions for parts of the new one, those that are not valid too.
CREATE INDEX unfinished ON parts_0 (property_index_key(partition_key, row_key, properties, 'Age'));
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'unfinished'::regclass;
SELECT create_property_index('Parts', 'Age');
DROP INDEX unfinished;
SELECT create_property_index('Parts', 'Age');
SELECT delete_table('Parts');

-- The entry of an entity: its property and then its keys. Without the property there is none.
SELECT property_index_key('p', 'r', '{"Age": 1}', 'Age'), property_index_key('p', 'r', '{"Age": 1}', 'Other') IS NULL AS absent, property_index_key(NULL, 'r', '{"Age": 1}', 'Age') IS NULL AS no_key;

-- How queries use the indexes.
SELECT create_property_index('Staff', 'City'), create_property_index('Staff', 'Age');
SELECT access, key_ranges, residual, sql, plan FROM explain_query('Staff', $$Email eq 'user77@example.com'$$);
SELECT plan FROM explain_query('Staff', $$PartitionKey eq 'p1' and City eq 'Rome'$$);
SELECT plan FROM explain_query('Staff', $$Age ge 20 and Age lt 22$$);
SELECT plan FROM explain_query('Staff', $$Email eq 'user8@example.com' or Age eq 5$$);
SELECT query_page_json('Staff', $$Email eq 'user77@example.com'$$, 'Email', metadata => 'none')::jsonb #- '{value,0,Timestamp}' AS page;

-- A token is valid whatever happens to the index between two pages.
SELECT continuation_token AS token FROM query_page('Staff', $$City eq 'Rome'$$, top => 3) WHERE continuation_token IS NOT NULL \gset
SELECT row_key FROM query_page('Staff', $$City eq 'Rome'$$, top => 3, continuation_token => :'token');
SELECT drop_property_index('Staff', 'City');
SELECT row_key FROM query_page('Staff', $$City eq 'Rome'$$, top => 3, continuation_token => :'token');
SELECT create_property_index('Staff', 'City');
-- An invalid index is not used.
UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'table_service_data."Staff_City"'::regclass;
SELECT access FROM explain_query('Staff', $$City eq 'Rome'$$);
UPDATE pg_index SET indisvalid = true WHERE indexrelid = 'table_service_data."Staff_City"'::regclass;
SELECT access FROM explain_query('Staff', $$City eq 'Rome'$$);

-- Values that are cut in the index, and types that differ from entity to entity.
SELECT create_table('Mixed');
SELECT create_property_index('Mixed', 'V');
SELECT insert_entity('Mixed', 'p', 'cut' || n, jsonb_build_object('V', repeat('é', 1000) || n)::properties) IS NOT NULL AS inserted FROM generate_series(1, 3) AS n;
SELECT insert_entity('Mixed', repeat('k', 1000) || n % 2, repeat('r', 1000) || n, jsonb_build_object('V', repeat('x', 500))::properties) IS NOT NULL AS inserted FROM generate_series(1, 4) AS n;
SELECT insert_entity('Mixed', 'p', 'number' || n, v) IS NOT NULL AS inserted
FROM unnest('{"{\"V\": 1}", "{\"V\": 1.5}", "{\"V@odata.type\": \"Edm.Int64\", \"V\": \"9007199254740993\"}", "{\"V@odata.type\": \"Edm.Double\", \"V\": \"NaN\"}", "{\"V@odata.type\": \"Edm.Double\", \"V\": \"-0.0\"}", "{\"V\": true}", "{\"V@odata.type\": \"Edm.DateTime\", \"V\": \"2026-01-01T00:00:00.1234567Z\"}", "{\"V@odata.type\": \"Edm.Guid\", \"V\": \"11111111-1111-1111-1111-111111111111\"}", "{\"V@odata.type\": \"Edm.Binary\", \"V\": \"AAEC\"}", "{\"W\": 1}"}'::properties[]) WITH ORDINALITY AS given(v, n);
SELECT filter, left(array_agg(left(e.partition_key, 1) || right(e.partition_key, 1) || '/' || left(e.row_key, 1) || right(e.row_key, 1))::text, 200) AS entities
FROM (VALUES ($$V ge 1$$), ($$V eq 1.0$$), ($$V eq 9007199254740993L$$), ($$V eq 9007199254740992L$$), ($$V eq 0.0$$), ($$V eq true$$), ($$V$$), ($$not V$$), ($$V eq datetime'2026-01-01T00:00:00.1234567Z'$$), ($$V lt datetime'2026-01-01T00:00:00.1234568Z'$$),
    ($$V eq guid'11111111-1111-1111-1111-111111111111'$$), ($$V eq binary'000102'$$), ($$V gt 'x'$$), ($$V eq '$$ || repeat('x', 500) || $$'$$), ($$V eq '$$ || repeat('é', 1000) || $$2'$$), ($$V ne 1$$)) AS f(filter),
    LATERAL query_entities('Mixed', filter) WITH ORDINALITY AS e
GROUP BY filter ORDER BY left(filter, 20) COLLATE "C", length(filter);
SELECT delete_table('Mixed');

-- In anybody's SQL, matches() uses the primary key and property indexes if its filter is a constant.
ANALYZE table_service_data."Staff";
EXPLAIN (COSTS OFF) SELECT * FROM table_service_data."Staff" AS t WHERE matches(t, $$PartitionKey eq 'p1' and RowKey ge '2990'$$);
EXPLAIN (COSTS OFF) SELECT * FROM table_service_data."Staff" AS t WHERE matches(t, $$Email eq 'user77@example.com'$$);
EXPLAIN (COSTS OFF) SELECT * FROM table_service_data."Staff" AS t WHERE matches(t, 'Email eq @email', '{"email": "user77@example.com"}');
EXPLAIN (COSTS OFF) SELECT * FROM table_service_data."Staff" AS t WHERE matches(t, $$Email eq 'user77@example.com' or Email eq 'user78@example.com'$$);
-- Of two tables under one name: the planner gives each table its own filter.
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT t AS e FROM table_service_data."Staff" AS t UNION ALL SELECT u FROM table_service_data."Staff" AS u) AS s WHERE matches(s.e, $$PartitionKey eq 'p1' and RowKey ge '2990'$$);
PREPARE by_filter(text) AS SELECT row_key FROM table_service_data."Staff" AS t WHERE matches(t, $1) ORDER BY row_key;
EXECUTE by_filter($$Email eq 'user77@example.com'$$);
SET plan_cache_mode = force_generic_plan;
EXECUTE by_filter($$Email eq 'user78@example.com'$$);
EXECUTE by_filter($$Email eq $$);
RESET plan_cache_mode;
DEALLOCATE by_filter;
-- A custom plan has the value of a parameter, and stays cheaper than the generic one.
PREPARE by_filter(text) AS SELECT row_key FROM table_service_data."Staff" AS t WHERE matches(t, $1) ORDER BY row_key;
SELECT format('EXECUTE by_filter(%L)', 'Email eq ''user' || n || '@example.com''') FROM generate_series(77, 83) AS n \gexec
EXPLAIN (COSTS OFF) EXECUTE by_filter($$Email eq 'user78@example.com'$$);
DEALLOCATE by_filter;
-- How many entities the planner expects, and what it makes of a join.
CREATE FUNCTION pg_temp.expected(filter text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE format('EXPLAIN (FORMAT JSON) SELECT 1 FROM table_service_data."Staff" AS t WHERE matches(t, %L)', filter) INTO plan;
    RETURN plan #>> '{0,Plan,Plan Rows}';
END $$;
SELECT f.filter, pg_temp.expected(f.filter) BETWEEN least AND most AS is_near
FROM (VALUES ($$Age ge 20 and Age lt 22$$, 30, 120), ($$City eq 'Rome'$$, 800, 1200), ($$Email eq 'user77@example.com'$$, 1, 3), ($$PartitionKey eq 'p1'$$, 500, 700), ($$PartitionKey eq 'p1' and City eq 'Rome'$$, 10, 300),
    ($$Age eq 33$$, 15, 60), ($$Age eq 33 or Age eq 34$$, 30, 120), ($$PartitionKey eq 'p1' and Age eq 6$$, 15, 60), ($$Age eq 33 and Age eq 34$$, 1, 60),
    ($$Size eq 1$$, 10, 20), ($$not (Size eq 1)$$, 2900, 3000), ($$Age ge 20 and Age lt 22 and (Size gt 1 or Size lt 0)$$, 15, 50), ('', 3000, 3000)) AS f (filter, least, most);
EXPLAIN (COSTS OFF) SELECT b.row_key FROM table_service_data."Staff" AS a JOIN table_service_data."Staff" AS b ON b.partition_key = a.partition_key AND b.row_key = a.row_key || '' WHERE matches(a, $$Email eq 'user77@example.com' and Age lt 100$$);
-- The planner does not hear of entries that take longer to read than the entities that the keys find: with statistics and
-- without.
SELECT create_table('Towns');
INSERT INTO table_service_data."Towns" SELECT 'p' || lpad((n % 200)::text, 3, '0'), lpad(n::text, 4, '0'), clock_timestamp(), jsonb_build_object('City', (ARRAY['Paris', 'Rome', 'Oslo', 'Graz'])[1 + n / 200 % 4])::properties
FROM generate_series(0, 7999) AS n;
CREATE INDEX towns_city ON table_service_data."Towns" (property_index_key(partition_key, row_key, properties, 'City'));
CREATE FUNCTION pg_temp.hears(filter text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE format('EXPLAIN (FORMAT JSON) SELECT 1 FROM table_service_data."Towns" AS t WHERE matches(t, %L)', filter) INTO plan;
    RETURN plan::text LIKE '%property_index_key%';
END $$;
SELECT f.filter, pg_temp.hears(f.filter) FROM (VALUES ($$PartitionKey eq 'p001' and City ge 'R' and City lt 'S'$$), ($$PartitionKey ge 'p001' and City ge 'R' and City lt 'S'$$), ($$PartitionKey eq 'p001' and City eq 'Rome'$$)) AS f (filter);
ANALYZE table_service_data."Towns";
SELECT f.filter, pg_temp.hears(f.filter) FROM (VALUES ($$PartitionKey eq 'p001' and City ge 'R' and City lt 'S'$$), ($$PartitionKey ge 'p001' and City ge 'R' and City lt 'S'$$), ($$PartitionKey eq 'p001' and City eq 'Rome'$$)) AS f (filter);
SELECT count(*) FROM table_service_data."Towns" AS t WHERE matches(t, $$PartitionKey eq 'p001' and City ge 'R' and City lt 'S'$$);
SELECT count(*) FROM query_entities('Towns', $$PartitionKey eq 'p001' and City ge 'R' and City lt 'S'$$);
SELECT delete_table('Towns');
-- The filter of another row, a row of a subquery, filters that are not valid, and joins of a table with itself.
SELECT count(*) FROM table_service_data."Staff" AS a JOIN table_service_data."Staff" AS b ON a.row_key = b.row_key AND matches(a, $$Email eq 'user77@example.com'$$) AND matches(b, 'Age lt 100');
SELECT count(*) FROM (VALUES ($$Email eq 'user77@example.com'$$), ($$Age eq 33$$)) AS f(filter) JOIN table_service_data."Staff" AS t ON matches(t, f.filter);
SELECT count(*) FROM (SELECT * FROM table_service_data."Staff" OFFSET 0) AS t WHERE matches((t.partition_key, t.row_key, t."timestamp", t.properties)::entity, $$Age eq 33$$);
SELECT count(*) FROM table_service_data."Staff" AS t WHERE matches(t, 'Age eq');
SELECT count(*) FROM table_service_data."Staff" AS t WHERE matches(t, NULL);
SELECT count(*) FROM table_service_data."Staff" AS t WHERE matches(t, 'Age eq @age');
SELECT count(*) FROM table_service_data."Staff" AS t WHERE matches(t, '') AND matches(t, $$RowKey eq '0001' or RowKey eq '0002'$$);
SELECT count(*) FROM table_service_data."Staff" AS t WHERE NOT matches(t, $$City eq 'Rome'$$);
SELECT count(*) FILTER (WHERE matches(t, $$City eq 'Rome'$$)), bool_or(matches(t, $$Email eq 'nobody'$$)) FROM table_service_data."Staff" AS t;
SELECT count(*) FROM (VALUES ('p1', '0006'), ('p1', 'none')) AS v(p, r) LEFT JOIN table_service_data."Staff" AS t ON t.partition_key = v.p AND t.row_key = v.r AND matches(t, $$Age eq 6$$);
UPDATE table_service_data."Staff" AS t SET properties = properties WHERE matches(t, $$Email eq 'user79@example.com'$$) RETURNING row_key;

-- Writes keep the indexes, by direct access and by statements. A property that is removed leaves its index.
SELECT insert_or_merge_entity('Staff', 'p1', '0001', '{"Email": "new@example.com"}') IS NOT NULL AS merged;
SELECT row_key FROM query_entities('Staff', $$Email eq 'new@example.com'$$);
SELECT row_key FROM query_entities('Staff', $$Email eq 'user1@example.com'$$);
SELECT replace_entity('Staff', 'p1', '0001', '{"Other": 1}', '*') IS NOT NULL AS replaced;
SELECT row_key FROM query_entities('Staff', $$Email eq 'new@example.com'$$);
SELECT row_key FROM execute_batch('Staff', 'p1', batch_insert('b1', '{"Email": "b1", "Age": 7}'), batch_insert_or_merge('0006', '{"Email": "b1"}'), batch_delete('0011'), batch_replace('0016', '{"Email": "b1"}', '*'));
SELECT row_key FROM query_entities('Staff', $$Email eq 'b1'$$);
SET table_service.enable_direct_access = off;
SELECT row_key FROM query_entities('Staff', $$Email eq 'b1'$$);
RESET table_service.enable_direct_access;
SELECT delete_entity('Staff', 'p1', 'b1');
SELECT row_key FROM query_entities('Staff', $$Email eq 'b1'$$);
-- A unique index beside them is a rule of the user's own.
CREATE UNIQUE INDEX one_number ON table_service_data."Staff" (get_int32(properties, 'Number'));
SELECT insert_entity('Staff', 'p1', 'n1', '{"Number": 1, "Email": "n1"}') IS NOT NULL AS inserted;
SELECT insert_entity('Staff', 'p1', 'n2', '{"Number": 1, "Email": "n2"}');
SELECT row_key FROM query_entities('Staff', $$Email eq 'n1' or Email eq 'n2'$$);
DROP INDEX table_service_data.one_number;
SELECT delete_table('Staff');

-- A table that lost its primary key to its owner: entities with the same keys are different ones, and each comes once.
SELECT create_table('Loose');
SELECT create_property_index('Loose', 'A'), create_property_index('Loose', 'B');
SELECT conname AS ours FROM pg_constraint WHERE conrelid = 'table_service_data."Loose"'::regclass AND contype = 'p' \gset
ALTER TABLE table_service_data."Loose" DROP CONSTRAINT :"ours";
INSERT INTO table_service_data."Loose" SELECT 'p', '1', clock_timestamp(), jsonb_build_object('A', 1, 'B', 1, 'N', n)::properties FROM generate_series(1, 2) AS n;
INSERT INTO table_service_data."Loose" SELECT 'p', 'r' || n, clock_timestamp(), jsonb_build_object('A', n, 'B', -n)::properties FROM generate_series(2, 400) AS n;
SELECT partition_key, row_key, get_int32(properties, 'N') AS n FROM query_entities('Loose', 'A eq 1 or B eq 1') ORDER BY n;
SELECT partition_key, row_key, get_int32(properties, 'N') AS n FROM query_page('Loose', 'A eq 1 or B eq 1') ORDER BY n;
SET table_service.enable_direct_access = off;
SELECT partition_key, row_key, get_int32(properties, 'N') AS n FROM query_page('Loose', 'A eq 1 or B eq 1') ORDER BY n;
RESET table_service.enable_direct_access;
SELECT row_key FROM query_page('Loose', $$PartitionKey eq 'p' and RowKey eq 'r7' and A eq 7$$);
SELECT delete_table('Loose');

-- An index in descending order serves like any other.
SELECT create_table('Down');
CREATE INDEX descending ON table_service_data."Down" (property_index_key(partition_key, row_key, properties, 'A') DESC NULLS LAST);
INSERT INTO table_service_data."Down" SELECT 'p', 'r' || n, clock_timestamp(), jsonb_build_object('A', n % 2)::properties FROM generate_series(1, 9) AS n;
SELECT access FROM explain_query('Down', 'A eq 1');
SELECT row_key FROM query_entities('Down', 'A eq 1');
SELECT row_key FROM query_entities('Down', 'A ge 1 and A lt 2');
SELECT row_key, continuation_token IS NOT NULL AS has_token FROM query_page('Down', 'A eq 1', top => 3);
SELECT continuation_token AS token FROM query_page('Down', 'A eq 1', top => 3) WHERE continuation_token IS NOT NULL \gset
SELECT row_key, continuation_token IS NOT NULL AS has_token FROM query_page('Down', 'A eq 1', top => 3, continuation_token => :'token');
SELECT delete_table('Down');
