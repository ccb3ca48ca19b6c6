-- Typed access to properties: get_string, get_int32, get_int64, get_double, get_boolean, get_datetime, get_ticks, get_guid,
-- get_binary; property_type and each_property.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';
SET bytea_output = 'hex';

CREATE TEMPORARY TABLE bags AS SELECT '{"String": "text", "Int32": -34, "Int64@odata.type": "Edm.Int64", "Int64": "9007199254740993", "Double": 1.5, "Boolean": true,
    "DateTime@odata.type": "Edm.DateTime", "DateTime": "2020-02-29T12:34:56.1234567Z",
    "Guid@odata.type": "Edm.Guid", "Guid": "a455c812-1f7a-4f5c-9c3b-0123456789ab", "Binary@odata.type": "Edm.Binary", "Binary": "AAEC/w=="}'::properties AS bag;

-- The properties of a bag, by name.
SELECT p.* FROM bags, each_property(bag) AS p;
SELECT name, property_type(bag, name) FROM bags, each_property(bag) AS p WHERE property_type(bag, name) <> p.type OR bag ->> name <> p.value;
SELECT count(*) FROM each_property('{}');

-- Each function gives values of its type. Int32 widens to Int64 and Double, where nothing is lost; Int64 to Double could lose
-- digits. A DateTime is cut off to microseconds; ticks are exact.
\pset null -
SELECT name, get_string(bag, name) AS string, get_int32(bag, name) AS int32, get_int64(bag, name) AS int64, get_double(bag, name) AS double, get_boolean(bag, name) AS boolean
FROM bags, each_property(bag);
SELECT name, get_datetime(bag, name) AS datetime, get_ticks(bag, name) AS ticks, get_guid(bag, name) AS guid, get_binary(bag, name) AS binary
FROM bags, each_property(bag);
-- The types are those of PostgreSQL.
SELECT pg_typeof(get_string(bag, '')) AS string, pg_typeof(get_int32(bag, '')) AS int32, pg_typeof(get_int64(bag, '')) AS int64, pg_typeof(get_double(bag, '')) AS double,
    pg_typeof(get_boolean(bag, '')) AS boolean, pg_typeof(get_datetime(bag, '')) AS datetime, pg_typeof(get_ticks(bag, '')) AS ticks,
    pg_typeof(get_guid(bag, '')) AS guid, pg_typeof(get_binary(bag, '')) AS binary
FROM bags;
-- What is not there is NULL; so is everything of NULL.
SELECT get_string(bag, 'string'), get_int32(bag, 'x'), get_int64(bag, 'x'), get_double(bag, 'x'), get_boolean(bag, 'x'), get_datetime(bag, 'x'), get_ticks(bag, 'x'),
    get_guid(bag, 'x'), get_binary(bag, 'x'), property_type(bag, 'x'), get_string(NULL, 'String'), get_string(bag, NULL), property_type(NULL, 'x')
FROM bags;

-- Values at the ends of their ranges.
SELECT get_int32('{"V": -2147483648}', 'V'), get_int64('{"V@odata.type": "Edm.Int64", "V": "-9223372036854775808"}', 'V'),
    get_double('{"V@odata.type": "Edm.Double", "V": "-Infinity"}', 'V'), get_double('{"V@odata.type": "Edm.Double", "V": "NaN"}', 'V'), get_double('{"V": -0.0}', 'V'),
    get_double('{"V": 5e-324}', 'V'), get_string('{"V": ""}', 'V') = '' AS empty, length(get_binary('{"V@odata.type": "Edm.Binary", "V": ""}', 'V')) AS no_bytes;
SELECT get_datetime('{"V@odata.type": "Edm.DateTime", "V": "1601-01-01T00:00:00.0000009Z"}', 'V') AS first, get_datetime('{"V@odata.type": "Edm.DateTime", "V": "9999-12-31T23:59:59.9999999Z"}', 'V') AS last,
    get_datetime('{"V@odata.type": "Edm.DateTime", "V": "1999-12-31T23:59:59.9999999Z"}', 'V') AS before_2000;
SELECT length(get_string(jsonb_build_object('V', repeat('日', 32768)), 'V'));

-- The functions are immutable and parallel safe: properties can be indexed, also in tables of the service.
SELECT create_table('People');
SELECT count(insert_entity('People', 'p', i::text, jsonb_build_object('Name', 'N' || i % 100, 'Age', i % 50))) FROM generate_series(1, 1000) AS i;
CREATE INDEX ON table_service_data."People" (get_string(properties, 'Name'));
CREATE INDEX ON table_service_data."People" (get_int32(properties, 'Age')) WHERE properties ? 'Age';
ANALYZE table_service_data."People";
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM table_service_data."People" WHERE get_string(properties, 'Name') = 'N42';
SELECT count(*) FROM table_service_data."People" WHERE get_string(properties, 'Name') = 'N42';
EXPLAIN (COSTS OFF) SELECT * FROM table_service_data."People" WHERE properties ? 'Age' AND get_int32(properties, 'Age') < 2;
SELECT count(*) FROM table_service_data."People" WHERE properties ? 'Age' AND get_int32(properties, 'Age') < 2;
SELECT count(merge_entity('People', 'p', '1', '{"Name": "N42"}', '*'));
SELECT count(*) FROM table_service_data."People" WHERE get_string(properties, 'Name') = 'N42';
-- A unique index is a rule that the service does not have. (Deterministic DETAIL: the key of the index.)
CREATE UNIQUE INDEX one_email ON table_service_data."People" (get_string(properties, 'Email'));
SELECT insert_or_replace_entity('People', 'q', '1', '{"Email": "donh@contoso.com"}') IS NOT NULL AS first;
SELECT insert_or_replace_entity('People', 'q', '2', '{"Email": "donh@contoso.com"}') IS NOT NULL AS second;
:state
SELECT delete_table('People');
