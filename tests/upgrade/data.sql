-- What a database with the extension may hold, with nothing that only a later version knows. Every Timestamp is given, so that two
-- databases have the same ETags.
SELECT table_service.create_table('Types');
SELECT table_service.create_table('Employees');
SELECT table_service.create_table('Empty');
SELECT table_service.create_table('OldName');
ALTER TABLE table_service_data."OldName" RENAME TO "Renamed";

-- Every type, at the edges.
INSERT INTO table_service_data."Types" (partition_key, row_key, "timestamp", properties)
SELECT k.partition_key, k.row_key, '2024-02-29 12:00:00.123456Z'::timestamptz, '{
    "Bin@odata.type": "Edm.Binary", "Bin": "AAEC/w==", "NoBytes@odata.type": "Edm.Binary", "NoBytes": "",
    "Flag": true, "Unflag": false,
    "When@odata.type": "Edm.DateTime", "When": "2022-04-13T21:50:14.2477041Z",
    "First@odata.type": "Edm.DateTime", "First": "1601-01-01T00:00:00Z",
    "Last@odata.type": "Edm.DateTime", "Last": "9999-12-31T23:59:59.9999999Z",
    "Third": 0.1, "Whole": 3.0, "Minus": -0.0, "Tiny": 5e-324, "Huge": 1.7976931348623157e308,
    "NaN@odata.type": "Edm.Double", "NaN": "NaN", "Inf@odata.type": "Edm.Double", "Inf": "-Infinity",
    "Id@odata.type": "Edm.Guid", "Id": "c9da6455-213d-42c9-9a79-3e9149a57833",
    "Small": -2147483648, "Big@odata.type": "Edm.Int64", "Big": "-9223372036854775808",
    "Empty": "", "Text": "tab \t, \"quotes\", \\ and \\N; ä €, 𐐷, \u0001",
    "_größe": "a name beyond ASCII"}'::table_service.properties
FROM (VALUES ('p', 'r'), ('', ''), ('ä ''q'' "d" %', '😀'), ('a+b:c', 'null')) AS k (partition_key, row_key);
-- Values that are compressed, and values that are stored out of line.
INSERT INTO table_service_data."Types"
SELECT 'toast', n::text, '2024-03-01 00:00:00Z'::timestamptz + n * interval '1 ms', jsonb_build_object(
    'Same', repeat('x', 30000), 'Random', (SELECT string_agg(md5(n::text || i::text), '') FROM generate_series(1, 1000) AS i))
FROM generate_series(1, 5) AS n;
INSERT INTO table_service_data."Renamed" VALUES ('p', 'old', '1999-12-31 23:59:59.123456Z', '{"A": 1}');
INSERT INTO table_service_data."Employees"
SELECT 'dept' || n % 7, lpad(n::text, 5, '0'), '2024-04-01 00:00:00Z'::timestamptz + n * interval '1 s',
    jsonb_build_object('Age', n % 60, 'Name', 'name' || n, 'Salary', n * 1.5, 'Manager', n % 10 = 0)
FROM generate_series(1, 3000) AS n;

SELECT table_service.set_access_policies('Renamed', '[{"Id": "readers", "Expiry": "2030-01-01", "Permission": "r"}]');
SELECT table_service.set_access_policies('Employees', '[{"Id": "ä"}]');
SELECT table_service.set_service_properties('{"Cors": [{"AllowedOrigins": ["*"], "AllowedMethods": ["GET"], "MaxAgeInSeconds": 5}]}');

-- What users build on top.
CREATE INDEX by_age ON table_service_data."Employees" (table_service.get_int32(properties, 'Age'));
CREATE UNIQUE INDEX by_name ON table_service_data."Employees" (table_service.get_string(properties, 'Name')) WHERE table_service.has_property(properties, 'Name');
CREATE INDEX by_bag ON table_service_data."Employees" USING hash (properties);
CREATE VIEW public.managers AS
    SELECT e.row_key, table_service.get_string(e.properties, 'Name') AS name, table_service.etag(e) AS etag
    FROM table_service_data."Employees" AS e WHERE table_service.matches(e, 'Manager eq true');
CREATE MATERIALIZED VIEW public.departments AS
    SELECT partition_key, count(*) AS employees, max(table_service.get_double(properties, 'Salary')) AS most
    FROM table_service_data."Employees" GROUP BY partition_key;
CREATE TABLE public.mirror (
    bag table_service.properties PRIMARY KEY CHECK (table_service.has_property(bag, 'Age')),
    age integer GENERATED ALWAYS AS (table_service.get_int32(bag, 'Age')) STORED
);
INSERT INTO public.mirror SELECT properties FROM table_service_data."Employees" WHERE row_key < '00100';
ALTER TABLE table_service_data."Employees" ENABLE ROW LEVEL SECURITY;
CREATE POLICY adults ON table_service_data."Employees" USING (table_service.get_int32(properties, 'Age') >= 18);
ANALYZE table_service_data."Employees";
-- Operators, casts and functions, with literals and jsonb beside bags: a view keeps what it found, and a function looks again.
SET search_path = public, table_service;
CREATE VIEW public.expressions AS
    SELECT row_key, properties -> 'Age' AS value, properties ->> 'Name' AS text, properties ? 'Manager' AS has, properties || '{"Salary": 1}' AS literal, '{"Salary": 1}' || properties AS literal_left,
        properties || jsonb_build_object('Age', 1) AS jsonb, properties - 'Age' AS less, properties - ARRAY['Age', 'Name'] AS less_several, properties = '{"Age": 1}' AS equal,
        properties <> jsonb_build_object('Age', 1) AS unequal, '{"Age": 1}' < properties AS ordered, properties::jsonb ->> 'Age' AS to_jsonb, properties::text AS to_text,
        '{"A": 1}'::jsonb::properties AS from_jsonb, '{"A": 1}'::json::text::properties AS from_text, coalesce(properties, '{}') AS coalesced, merge_properties(properties, '{"A": 1}') AS merged,
        get_int32(jsonb_build_object('A', row_key::integer), 'A') AS number, '{"a": 1}'::json || 'x' AS json, '{"a": 1}'::json -> 'a' AS json_value, '{"a": 1}'::jsonb || '{"b": 2}' AS jsonb_merged
    FROM table_service_data."Employees" WHERE row_key <= '00003';
CREATE FUNCTION public.expressions(bag properties) RETURNS text LANGUAGE plpgsql SET search_path = public, table_service AS $$
DECLARE
    made properties := jsonb_build_object('Age', 1);
BEGIN
    RETURN concat_ws(' ', bag -> 'Age', bag ->> 'Name', bag ? 'Manager', bag || '{"Salary": 1}', '{"Salary": 1}' || bag, bag || jsonb_build_object('Age', 1), bag - 'Age', bag - ARRAY['Age', 'Name'],
        bag = '{"Age": 1}', bag <> jsonb_build_object('Age', 1), '{"Age": 1}' < bag, made, bag::text::json -> 'Age', bag::jsonb, bag::text, coalesce(bag, '{}'),
        merge_properties(bag, '{"A": 1}'), has_property(jsonb_build_object('A', 1), 'A'), filter_to_sql('A eq @a', parameters => '{"a": 1}'), filter_to_sql('A eq @a', parameters => jsonb_build_object('a', 1)));
END $$;
RESET search_path;
