-- Casts between properties and json, jsonb or text.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all

-- jsonb in payload form becomes a bag, implicitly; a bag becomes jsonb explicitly.
SELECT jsonb_build_object('Name', 'Don', 'Age', 34, 'Score', 1.5, 'Active', true, 'Nothing', NULL)::properties;
SELECT '{"Name": "Don", "Id@odata.type": "Edm.Int64", "Id": "123"}'::properties::jsonb;
SELECT create_table('Employees');
SELECT insert_entity('Employees', 'p', 'r', jsonb_build_object('Age', 34)) IS NOT NULL AS inserted;
INSERT INTO table_service_data."Employees" VALUES ('p', 'r2', DEFAULT, jsonb_build_object('Age', 35));
SELECT row_key, properties::jsonb FROM table_service_data."Employees";
SELECT delete_table('Employees');

-- There and back again every bag is the same. Doubles that numeric would change are annotated strings: -0.0, and those that
-- print as integers.
SELECT text, text::properties::jsonb, text::properties::jsonb::properties = text::properties AS is_equal
FROM (VALUES ('{}'), ('{"V": "text"}'), ('{"V": 1}'), ('{"V": 1.0}'), ('{"V": 0.0}'), ('{"V": -0.0}'), ('{"V": 100.0}'), ('{"V": 123456789012345.0}'), ('{"V": 1e14}'),
    ('{"V": 1e15}'), ('{"V": 1E+24}'), ('{"V": 1.5e+24}'), ('{"V": 1234567890123456.5}'), ('{"V": 0.1}'), ('{"V": 0.30000000000000004}'), ('{"V": 1e-5}'), ('{"V": -1.5e-7}'),
    ('{"V": 123456.789e-20}'), ('{"V@odata.type": "Edm.Double", "V": "NaN"}'), ('{"V@odata.type": "Edm.Double", "V": "-Infinity"}'),
    ('{"V": 2147483647}'), ('{"V": 9223372036854775807}'), ('{"V": false}'), ('{"V@odata.type": "Edm.DateTime", "V": "2020-01-01T00:00:00.1234567Z"}'),
    ('{"V@odata.type": "Edm.Guid", "V": "a455c812-1f7a-4f5c-9c3b-0123456789ab"}'), ('{"V@odata.type": "Edm.Binary", "V": "AAEC/w=="}'),
    ('{"V": "\"\\\/\b\f\n\r\t\u0001\u007f\u2028é日😀"}')) AS v (text);
SELECT v AS double, json_build_object('V@odata.type', 'Edm.Double', 'V', v)::text::properties::jsonb::properties = json_build_object('V@odata.type', 'Edm.Double', 'V', v)::text::properties AS is_equal
FROM unnest(ARRAY['5e-324', '2.2250738585072014e-308', '1.7976931348623157e308', '-1.7976931348623157e308', '4.5e15', '9007199254740993', '1e22', '1e23']) AS v;

-- jsonb has only one kind of number: an integer without annotation is Int32, Int64, or a Double if that is exact; with
-- decimals it is a Double.
SELECT json, pg_temp.outcome(format('SELECT %L::jsonb::properties', json))
FROM (VALUES ('{"V": 3000000000}'), ('{"V": 1.0}'), ('{"V": 1.50}'), ('{"V": 1e2}'), ('{"V": 1e20}'), ('{"V": 1e24}'), ('{"V": 1e-30}'), ('{"V": 1e400}'),
    ('{"V": 0.1000000000000000055511151231257827021181583404541015625}')) AS v (json);
-- The other errors are those of the text form. (jsonb keeps the last of two equal members before we see them.)
SELECT json, pg_temp.outcome(format('SELECT %L::jsonb::properties', json))
FROM (VALUES ('{"a": 1, "a": 2}'), ('[]'), ('"a"'), ('1'), ('null'), ('{"a": {}}'), ('{"a b": 1}'), ('{"a@odata.type": "Edm.Int64", "a": "x"}'),
    ('{"PartitionKey": "ignored", "odata.etag": {}}')) AS v (json);
SELECT jsonb_build_object('Address', jsonb_build_object('City', 'Seattle'))::properties;
:state
SELECT NULL::jsonb::properties IS NULL AS from_null, NULL::properties::jsonb IS NULL AS to_null;

-- json becomes a bag implicitly, by its text and not by way of jsonb: a number with an exponent is a Double, duplicates are found.
SELECT json, pg_temp.outcome(format('SELECT %L::json::properties', json)), pg_temp.outcome(format('SELECT %L::jsonb::properties', json)) AS by_way_of_jsonb
FROM (VALUES ('{"V": 1e5}'), ('{"V": 1E+24}'), ('{"V": -0.0}'), ('{"V": 1.0}'), ('{"V": 3000000000}'), ('{"a": 1, "a": 2}'), ('{"b": 1, "a": null}'),
    ('{"V@odata.type": "Edm.Int64", "V": "1"}'), ('[]'), ('null'), ('{"a": {}}'), ('{"V": "\u0000"}'), ('{"PartitionKey": "ignored", "odata.etag": {}}')) AS v (json);
SELECT NULL::json::properties IS NULL AS from_null, NULL::properties::json IS NULL AS to_null;
-- Every function that takes properties takes json.
SELECT create_table('Employees');
SELECT insert_entity('Employees', 'p', 'r', json_build_object('Age', 34)) IS NOT NULL AS inserted;
SELECT merge_entity('Employees', 'p', 'r', json_build_object('Name', 'Don'), '*') IS NOT NULL AS merged;
PREPARE merge (json) AS SELECT merge_entity('Employees', 'p', 'r', $1, '*') IS NOT NULL AS merged;
EXECUTE merge ('{"Ratio": 1e5}');
DEALLOCATE merge;
INSERT INTO table_service_data."Employees" VALUES ('p', 'r2', DEFAULT, json_build_object('Age', 35));
UPDATE table_service_data."Employees" SET properties = json_build_object('Age', 36) WHERE row_key = 'r2';
SELECT row_key, properties FROM query_entities('Employees', 'Age lt @age', parameters => json_build_object('age', 35));
SELECT (ARRAY['{"a": 1}', '{"b": 2}']::json[])::properties[] AS arrays;

-- A bag becomes json in payload form, with its types, and in a column by assignment. It casts back to the same bag.
SELECT text, text::properties::json, text::properties::json::properties = text::properties AS is_equal
FROM (VALUES ('{}'), ('{"V": "text"}'), ('{"V": 1}'), ('{"V": 1.0}'), ('{"V": -0.0}'), ('{"V": 1e15}'), ('{"V": 1E+24}'), ('{"V": 5e-324}'), ('{"V": 9223372036854775807}'),
    ('{"V@odata.type": "Edm.Double", "V": "NaN"}'), ('{"V@odata.type": "Edm.DateTime", "V": "2020-01-01T00:00:00.1234567Z"}'),
    ('{"V@odata.type": "Edm.Guid", "V": "a455c812-1f7a-4f5c-9c3b-0123456789ab"}'), ('{"V@odata.type": "Edm.Binary", "V": "AAEC/w=="}'),
    ('{"V": "\"\\\/\b\f\n\r\t\u0001\u007f\u2028é日😀"}')) AS v (text);
CREATE TEMPORARY TABLE documents (document json);
INSERT INTO documents SELECT properties FROM table_service_data."Employees" ORDER BY row_key;
SELECT * FROM documents;

-- PostgreSQL's JSON functions show an object, not a text with escaped quotes.
\set entities '(SELECT row_key, properties FROM table_service_data."Employees" ORDER BY row_key) AS e'
SELECT to_json(e), to_jsonb(e), row_to_json(e) FROM :entities;
SELECT json_agg(properties), jsonb_agg(properties), json_object_agg(row_key, properties), jsonb_object_agg(row_key, properties) FROM :entities;
SELECT json_build_object('bag', properties), jsonb_build_object('bag', properties), json_build_array(properties), jsonb_build_array(properties), array_to_json(ARRAY[properties])
FROM :entities;
SELECT to_jsonb(e) -> 'properties' -> 'Age' AS age, (to_jsonb(e) ->> 'properties')::properties = properties AS by_text FROM :entities;
-- And entities come back from it.
SELECT (json_populate_record(NULL::entity, to_json(e))).properties = e.properties AS from_json, (jsonb_populate_record(NULL::entity, to_jsonb(e))).properties = e.properties AS from_jsonb
FROM table_service_data."Employees" AS e;
SELECT row_key, key, value FROM :entities, json_each(properties::json) ORDER BY row_key, key;
-- Where jsonb is made, such a Double is kept only by the cast to jsonb.
SELECT to_jsonb('{"V": 1e15}'::properties) AS to_jsonb, '{"V": 1e15}'::properties::jsonb AS "cast";
SELECT delete_table('Employees');

-- Text that is no literal takes a cast.
SELECT concat('{"a":', ' 1}')::properties;
