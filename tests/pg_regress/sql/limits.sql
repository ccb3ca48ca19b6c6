-- How large values and entities may be: accepted at the limit, refused one past it.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SELECT create_table('Sizes');

-- What is longer than any argument needs to be is refused before it is read.
SELECT length(pg_temp.outcome(format('SELECT * FROM query_page(''Sizes'', projection => repeat(%L, %s))', 'a,', n))) < 20 AS accepted, left(pg_temp.outcome(format('SELECT * FROM query_page(''Sizes'', projection => repeat(%L, %s))', 'a,', n)), 120) AS outcome
FROM (VALUES (131072), (131073)) AS v (n);
SELECT pg_temp.outcome(format('SELECT set_access_policies(''Sizes'', (%L || repeat('' '', %s))::json)', '[]', n)) FROM (VALUES (65534), (65535)) AS v (n);
SELECT pg_temp.outcome(format('SELECT set_service_properties((%L || repeat('' '', %s))::json)', '{}', 65535));
SELECT pg_temp.outcome('SELECT ' || call) FROM (VALUES
    ($$count(*) FROM get_entity('Sizes', repeat('k', 67108864), 'r')$$), ($$count(*) FROM get_entity('Sizes', repeat('k', 67108865), 'r')$$),
    ($$remove_properties('{}', array_fill(repeat('k', 1000000), '{68}'))$$), ($$create_table(repeat('k', 67108865))$$),
    ($$insert_entity('Sizes', 'p', 'r', (SELECT jsonb_build_array(repeat('k', 67108865)))::jsonb::properties)$$)) AS v (call);
-- What scans call says of a NULL what it is.
SELECT pg_temp.outcome('SELECT scan_passes(' || arguments || ')') FROM (VALUES ($$NULL, '\x'$$), ($$'{}', NULL$$), ($$NULL, 'r', now(), '{}', '\x'$$)) AS v (arguments);

-- A String has at most 32768 UTF-16 units; characters beyond U+FFFF count two. A Binary has at most 65536 bytes.
CREATE FUNCTION pg_temp.try_value(value text, type text) RETURNS text LANGUAGE sql AS $$
    SELECT left(pg_temp.outcome(format('SELECT octet_length(%L::properties ->> ''V'')', json_build_object('V@odata.type', type, 'V', value))), 40)
$$;
SELECT what, pg_temp.try_value(value, 'Edm.String')
FROM (VALUES ('32768 a', repeat('a', 32768)), ('32769 a', repeat('a', 32769)), ('32768 日', repeat('日', 32768)), ('32769 日', repeat('日', 32769)),
    ('16384 😀', repeat('😀', 16384)), ('16384 😀 and a', repeat('😀', 16384) || 'a'), ('1000000 a', repeat('a', 1000000))) AS v (what, value);
SELECT bytes, pg_temp.try_value(translate(encode(convert_to(repeat('x', bytes), 'UTF8'), 'base64'), E'\n', ''), 'Edm.Binary')
FROM (VALUES (65536), (65537), (1000000)) AS v (bytes);
-- The whole message, and what it is about.
SELECT json_build_object('Long', repeat('a', 32769))::text::properties;
:state
-- The limit holds wherever a value comes in.
SELECT left(pg_temp.outcome(format('SELECT jsonb_build_object(''V'', repeat(''a'', %s))::properties IS NOT NULL', n)), 30) AS jsonb,
    left(pg_temp.outcome(format('SELECT to_properties(r) IS NOT NULL FROM (SELECT repeat(''a'', %s) AS "V") AS r', n)), 30) AS record,
    left(pg_temp.outcome(format('SELECT to_properties(r) IS NOT NULL FROM (SELECT convert_to(repeat(''a'', %s * 2), ''UTF8'') AS "V") AS r', n)), 30) AS bytes
FROM (VALUES (32768), (32769)) AS v (n);

-- An entity has at most 1 MiB by the service's formula: 4 + 2 for each unit of the keys + for each property 8 + 2 for each
-- unit of its name + its value, for a String 4 + 2 for each unit. With keys of one unit, fifteen Strings of 32768 units
-- and one of 32620, all with names of three units, that is 4 + 4 + 15 * 65554 + 65258 = 1048576.
CREATE FUNCTION pg_temp.large(last integer) RETURNS properties LANGUAGE sql AS $$
    SELECT json_object_agg('S' || i, repeat('x', CASE i WHEN 25 THEN last ELSE 32768 END))::text::properties FROM generate_series(10, 25) AS i
$$;
SELECT insert_entity('Sizes', 'p', '1', pg_temp.large(32620)) IS NOT NULL AS inserted;
SELECT insert_entity('Sizes', 'p', '2', pg_temp.large(32621));
:state
-- Longer keys leave less room, whoever writes.
SELECT insert_entity('Sizes', 'p', '10', pg_temp.large(32620));
:state
SELECT insert_entity('Sizes', 'p', '10', pg_temp.large(32619)) IS NOT NULL AS inserted;
SELECT insert_or_replace_entity('Sizes', 'p', '11', pg_temp.large(32620));
:state
SELECT insert_or_merge_entity('Sizes', 'p', '11', pg_temp.large(32620));
:state
INSERT INTO table_service_data."Sizes" VALUES ('p', '11', DEFAULT, pg_temp.large(32620));
:state
UPDATE table_service_data."Sizes" SET row_key = '11' WHERE row_key = '1';
:state
-- A bag that would be too large under any keys is none.
SELECT pg_temp.large(32623) IS NOT NULL AS fits_empty_keys;
:state
SELECT pg_temp.large(32622) IS NOT NULL AS fits_empty_keys;
SELECT insert_entity('Sizes', '', '', pg_temp.large(32622)) IS NOT NULL AS inserted;

-- After a merge the limit is that of the whole entity. (A Boolean named Bo counts 8 + 4 + 1 = 13: seven units of a String.)
SELECT merge_entity('Sizes', 'p', '1', '{"Bo": true}', '*');
:state
SELECT insert_or_merge_entity('Sizes', 'p', '1', '{"Bo": true}');
:state
UPDATE table_service_data."Sizes" SET properties = properties || '{"Bo": true}' WHERE row_key = '1';
:state
SELECT merge_entity('Sizes', 'p', '1', jsonb_build_object('Bo', true, 'S25', repeat('x', 32613)), '*') IS NOT NULL AS merged;
SELECT merge_entity('Sizes', 'p', '1', jsonb_build_object('S25', repeat('x', 32614)), '*');
:state
SELECT merge_entity('Sizes', 'p', '1', jsonb_build_object('Bo', 'x', 'S25', ''), etag(e)) IS NOT NULL AS merged FROM get_entity('Sizes', 'p', '1') AS e;
SELECT replace_entity('Sizes', 'p', '1', pg_temp.large(32621), '*');
:state
SELECT replace_entity('Sizes', 'p', '1', pg_temp.large(32620), '*') IS NOT NULL AS replaced;
-- Where an entity must exist, a missing one is reported first.
SELECT replace_entity('Sizes', 'p', 'missing', pg_temp.large(32620), '*');
:state
-- Where one may be inserted, the limit is reported first, also when there is one with these keys.
SELECT insert_entity('Sizes', 'p', '10', pg_temp.large(32620));
:state
-- What was written is what is read.
SELECT row_key, e.properties = pg_temp.large(CASE row_key WHEN '1' THEN 32620 ELSE 32619 END) AS is_equal
FROM get_entities('Sizes', 'p', ARRAY['1', '10']) AS e;

-- What each type counts: a bag of one property of each, filled up to the limit by Strings. 4 + 4 + (10 + 4) Int32
-- + (10 + 8) Int64 + (10 + 8) Double + (10 + 1) Boolean + (10 + 8) DateTime + (10 + 16) Guid + (10 + 4 + 5) Binary = 132,
-- and 15 * 65554 + 14 + 4 + 2 * 32558 = 1048444: together 1048576.
CREATE FUNCTION pg_temp.all_types(binary_value text) RETURNS text LANGUAGE sql AS $$
    SELECT '{"I": 1, "L@odata.type": "Edm.Int64", "L": "1", "D": 1.5, "B": true, "T@odata.type": "Edm.DateTime",
        "T": "2026-01-01T00:00:00Z", "G@odata.type": "Edm.Guid", "G": "00000000-0000-0000-0000-000000000001",
        "X@odata.type": "Edm.Binary", "X": "' || binary_value || '"}'
$$;
SELECT insert_entity('Sizes', 't', '1', pg_temp.all_types('MTIzNDU=')::properties || pg_temp.large(32558)) IS NOT NULL AS inserted;
-- One byte of the Binary more; then one unit of a String less.
SELECT insert_entity('Sizes', 't', '2', pg_temp.all_types('MTIzNDU2')::properties || pg_temp.large(32558));
:state
SELECT insert_entity('Sizes', 't', '2', pg_temp.all_types('MTIzNDU2')::properties || pg_temp.large(32557)) IS NOT NULL AS inserted;

SELECT delete_table('Sizes');
