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
SELECT delete_table('Parts');

-- The entry of an entity: its property and then its keys. Without the property there is none.
SELECT property_index_key('p', 'r', '{"Age": 1}', 'Age'), property_index_key('p', 'r', '{"Age": 1}', 'Other') IS NULL AS absent, property_index_key(NULL, 'r', '{"Age": 1}', 'Age') IS NULL AS no_key;
