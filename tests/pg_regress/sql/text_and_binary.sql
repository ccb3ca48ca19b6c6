-- The text form of a bag reads back to an equal bag under any settings, and so does the binary form.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SET timezone = 'UTC';
CREATE TEMPORARY TABLE bags (id serial, bag properties);
INSERT INTO bags (bag) SELECT json::properties FROM (VALUES ('{}'), ('{"S": "text", "E": "", "Q": "\"\\\/\b\f\n\r\t\u0001\u007f\u2028é日😀'''' {}[],:"}'), ('{"I": 0}'), ('{"I": -2147483648, "J": 2147483647}'),
    ('{"L@odata.type": "Edm.Int64", "L": "-9223372036854775808", "M@odata.type": "Edm.Int64", "M": "1"}'),
    ('{"D": 0.1, "E": -0.0, "F": 0.30000000000000004, "G": 1.7976931348623157e308, "H": 5e-324, "I": 1e15, "J": 123456789012345.6, "K": 1e-5}'),
    ('{"N@odata.type": "Edm.Double", "N": "NaN", "O@odata.type": "Edm.Double", "O": "Infinity", "P@odata.type": "Edm.Double", "P": "-Infinity"}'), ('{"B": true, "C": false}'),
    ('{"T@odata.type": "Edm.DateTime", "T": "1601-01-01T00:00:00Z", "U@odata.type": "Edm.DateTime", "U": "9999-12-31T23:59:59.9999999Z", "V@odata.type": "Edm.DateTime", "V": "2020-06-15T12:00:00.5Z"}'),
    ('{"G@odata.type": "Edm.Guid", "G": "a455c812-1f7a-4f5c-9c3b-0123456789ab"}'), ('{"X@odata.type": "Edm.Binary", "X": "AAEC/w==", "Y@odata.type": "Edm.Binary", "Y": ""}')) AS v (json);
INSERT INTO bags (bag) SELECT jsonb_build_object('Long', repeat('日', 32768), 'Longer', repeat('x', 32768));
INSERT INTO bags (bag) SELECT json_object_agg('P' || i, i * 1.5)::text::properties FROM generate_series(1, 252) AS i;
SELECT md5(string_agg(bag::text, '' ORDER BY id)) AS texts FROM bags \gset

-- A function that checks all of it.
CREATE FUNCTION pg_temp.check_all() RETURNS TABLE (text_is_equal boolean, jsonb_is_equal boolean, payload_is_equal boolean, texts text) LANGUAGE sql AS $$
    SELECT bool_and(bag::text::properties = bag), bool_and(bag::jsonb::properties = bag),
        bool_and(entity_from_json(entity_to_json(ROW('p', 'r', '2020-01-01 00:00:00+00', bag)::entity)::text) = ROW('p', 'r', '2020-01-01 00:00:00+00', bag)::entity),
        md5(string_agg(bag::text, '' ORDER BY id))
    FROM bags
$$;
SELECT text_is_equal, jsonb_is_equal, payload_is_equal, texts = :'texts' AS texts_are_equal FROM pg_temp.check_all();
-- Settings that change how other types print.
SET datestyle = 'SQL, DMY'; SET timezone = 'Pacific/Chatham'; SET intervalstyle = 'sql_standard';
SET extra_float_digits = -15; SET bytea_output = 'escape'; SET xmlbinary = 'hex'; SET backslash_quote = off;
-- (PostgreSQL 19 has only one setting of strings.)
DO $$BEGIN
    IF current_setting('server_version_num')::int < 190000 THEN
        SET standard_conforming_strings = off;
        SET escape_string_warning = off;
    END IF;
END$$;
SELECT text_is_equal, jsonb_is_equal, payload_is_equal, texts = :'texts' AS texts_are_equal FROM pg_temp.check_all();
SET datestyle = 'German'; SET timezone = 'America/New_York'; SET extra_float_digits = 3;
SELECT text_is_equal, jsonb_is_equal, payload_is_equal, texts = :'texts' AS texts_are_equal FROM pg_temp.check_all();
RESET standard_conforming_strings;
-- ETags and payloads do not depend on them either.
SELECT etag(timestamptz '2020-06-15 12:00:00.5Z'), entity_to_json(ROW('p', 'r', '2020-06-15 12:00:00.5Z', '{"D": 0.1}')::entity), ticks('2020-06-15 12:00:00.5Z');
RESET ALL;

-- The binary form, through COPY.
SELECT current_setting('data_directory') || '/golden_bags' AS file \gset
COPY bags TO :'file' (FORMAT binary);
CREATE TEMPORARY TABLE copied (LIKE bags);
COPY copied FROM :'file' (FORMAT binary);
SELECT count(*), bool_and(b.bag = c.bag) AS is_equal, bool_and(b.bag::text = c.bag::text) AS text_is_equal FROM bags AS b JOIN copied AS c USING (id);
-- It carries its version: here the bag {"a": 1}. (1 property, size 14 by the service's formula, type 2 is Edm.Int32.)
SELECT properties_send('{"a": 1}');
SELECT properties_send('{}');

-- Bytes that are no bag are refused. What COPY reads: one row with one column of these bytes.
CREATE FUNCTION pg_temp.receive(bytes bytea) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    path text := current_setting('data_directory') || '/golden_bytes';
    bag text;
    object oid := lo_from_bytea(0, '\x5047434f50590aff0d0a00' || int4send(0) || int4send(0) || int2send(1::int2) || int4send(length(bytes)) || bytes || int2send((-1)::int2));
BEGIN
    PERFORM lo_export(object, path);
    PERFORM lo_unlink(object);
    CREATE TEMPORARY TABLE received (bag properties);
    EXECUTE format('COPY received FROM %L (FORMAT binary)', path);
    SELECT received.bag::text INTO bag FROM received;
    DROP TABLE received;
    RETURN bag;
END $$;
SELECT what, bytes, pg_temp.outcome(format('SELECT pg_temp.receive(%L)', bytes))
FROM (VALUES
    ('{"a": 1}', '\x01010e000000020100040061'::bytea || '\x01000000'),
    ('no bytes', ''), ('a header cut off', '\x0100000000'), ('an unknown version', '\x02000000'::bytea || '\x0000'), ('a wide bag without need', '\x81000000'::bytea || '\x0000'),
    ('trailing bytes', '\x010000000000'::bytea || '\xff'), ('cut off', '\x01010e000000020100040061'::bytea || '\x0100'),
    ('the wrong size', '\x01010f000000020100040061'::bytea || '\x01000000'), ('an unknown type', '\x01010e000000090100040061'::bytea || '\x01000000'),
    ('a short integer', '\x01010e000000020100030061'::bytea || '\x010000'), ('no name', '\x01010c000000020000040001'::bytea || '\x000000'),
    ('a name that is no UTF-8', '\x01010e0000000201000400ff'::bytea || '\x01000000'), ('a name that is none', '\x01010e000000020100040031'::bytea || '\x01000000'),
    ('a system property', '\x010118000000020600040052'::bytea || '\x6f774b6579' || '\x01000000'),
    ('a String that is no UTF-8', '\x010110000000010100010061'::bytea || '\xff'), ('a Boolean of two', '\x01010b000000050100010061'::bytea || '\x02'),
    ('another NaN', '\x010112000000040100080061'::bytea || '\x010000000000f87f'),
    ('names in the wrong order', '\x01021a0000000505010001000200020062610101'::bytea), ('the same name twice', '\x0102160000000505010001000200020061610101'::bytea),
    ('offsets that go back', '\x0102160000000505020001000100020061620101'::bytea), ('a DateTime before 1601', '\x010112000000060100080061'::bytea || '\x0000000000000000'),
    ('a DateTime after 9999', '\x010112000000060100080061'::bytea || '\xffffffffffffff7f')) AS v (what, bytes);
-- Every way to cut a bag short or to change one byte of it gives an error or a bag that reads back to itself; nothing else.
SELECT outcome, count(*) > 0 AS seen FROM (
    SELECT CASE WHEN o LIKE '22P03 InvalidInput%' THEN 'malformed' WHEN o ~ '^(22|54)... [A-Z][A-Za-z]+: ' THEN 'refused' WHEN o LIKE '{%' AND o::properties::text = o THEN 'a bag' ELSE o END AS outcome
    FROM (SELECT properties_send('{"S": "text", "I": 1, "D": 1.5, "B": true, "T@odata.type": "Edm.DateTime", "T": "2020-01-01T00:00:00Z"}') AS b) AS b,
        LATERAL (SELECT substr(b, 1, i) AS bytes FROM generate_series(0, length(b) - 1) AS i
            UNION ALL SELECT set_byte(b, i, (get_byte(b, i) + d) % 256) FROM generate_series(0, length(b) - 1) AS i, (VALUES (1), (128), (255)) AS v (d)) AS c,
        LATERAL (SELECT pg_temp.outcome(format('SELECT pg_temp.receive(%L)', bytes)) AS o) AS o) AS o
GROUP BY outcome ORDER BY outcome;
