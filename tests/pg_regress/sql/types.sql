-- The eight Edm types: how they are written, how they are read back, and what is no value of them.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
-- The type and the text of the property V, or the error.
CREATE FUNCTION pg_temp.try(value text, type text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    SELECT pg_temp.outcome(format('SELECT property_type(v, ''V'') || ''  '' || (v ->> ''V'') || ''  '' || v::text FROM (SELECT %L::properties AS v) AS v',
        '{' || coalesce('"V@odata.type": "' || type || '", ', '') || '"V": ' || value || '}'))
$$;

-- Without an annotation JSON says the type: a string, true and false, a number without fraction and exponent (the
-- narrowest integer that holds it, else a Double if that is exact), a number with one of them.
SELECT value, pg_temp.try(value)
FROM (VALUES ('"text"'), ('""'), ('"é \u65e5 \ud83d\ude00 \" \\ \/ \n"'), ('true'), ('false'), ('null'),
    ('0'), ('-0'), ('34'), ('2147483647'), ('-2147483648'), ('2147483648'), ('-2147483649'), ('9223372036854775807'), ('-9223372036854775808'),
    ('9223372036854775808'), ('-9223372036854775809'), ('18446744073709551616'), ('100000000000000000000'), ('99999999999999999999999'),
    ('3.0'), ('3.1'), ('-0.0'), ('1e0'), ('1E+2'), ('1e24'), ('1.23456789012346E+24'), ('0.1'), ('0.30000000000000004'), ('1e-5'), ('5e-324'), ('1e-400'),
    ('1.7976931348623157e308'), ('1.797693134862316e308'), ('-1e309')) AS v (value);

-- Edm.String.
SELECT value, pg_temp.try(value, 'Edm.String') FROM (VALUES ('"x"'), ('1'), ('true'), ('null')) AS v (value);
-- U+0000 has no place in PostgreSQL's text; half a surrogate pair is no character.
SELECT value, pg_temp.try(value) FROM (VALUES ('"a\u0000b"'), ('"\ud83d"'), ('"\ude00"'), ('"\ud83dx"'), ('"\ude00\ud83d"')) AS v (value);

-- Edm.Int32.
SELECT value, pg_temp.try(value, 'Edm.Int32')
FROM (VALUES ('2147483647'), ('"12345"'), ('"-12345"'), ('"007"'), ('2147483648'), ('"-2147483649"'), ('3.0'), ('1e2'), ('"3.0"'), ('""'), ('" 1"'), ('"+1"'),
    ('"abc"'), ('true')) AS v (value);

-- Edm.Int64 is written as a string.
SELECT value, pg_temp.try(value, 'Edm.Int64')
FROM (VALUES ('"123"'), ('123'), ('"9223372036854775807"'), ('-9223372036854775808'), ('"9223372036854775808"'), ('9223372036854775808'), ('"1.0"'), ('1.0'),
    ('""'), ('"+1"'), ('false')) AS v (value);

-- Edm.Double always has a point or an exponent; what JSON has no number for is a string.
SELECT value, pg_temp.try(value, 'Edm.Double')
FROM (VALUES ('3.14'), ('3'), ('"3.14"'), ('"0"'), ('"1.23456789012346e+24"'), ('-0.0'), ('"-0.0"'), ('"NaN"'), ('"Infinity"'), ('"-Infinity"'), ('1e400'), ('"1e400"'),
    ('"nan"'), ('"INF"'), ('"0x10"'), ('"1,5"'), ('""'), ('true')) AS v (value);

-- Edm.Boolean.
SELECT value, pg_temp.try(value, 'Edm.Boolean')
FROM (VALUES ('true'), ('"true"'), ('"False"'), ('"TRUE"'), ('"yes"'), ('""'), ('1'), ('"1"')) AS v (value);

-- Edm.DateTime: 1601 to 9999 in units of 100 ns, in UTC. Without a zone it is UTC; seconds and time of day may be missing;
-- what is finer than 100 ns is cut off.
SELECT value, pg_temp.try(value, 'Edm.DateTime')
FROM (VALUES ('"2020-01-01T01:02:00.0000000Z"'), ('"2020-01-01T01:02:03.1234567Z"'), ('"2020-01-01T01:02:03.123456789Z"'), ('"2020-01-01T01:02:03.5+02:00"'),
    ('"2020-01-01T01:02:03-14:00"'), ('"2008-07-10T00:00:00"'), ('"2008-07-10T00:00"'), ('"2008-07-10"'), ('"1601-01-01T00:00:00Z"'), ('"9999-12-31T23:59:59.9999999Z"'),
    ('"2000-02-29T12:00:00Z"'),
    -- Out of range: the message has the service's own form.
    ('"1600-12-31T23:59:59.9999999Z"'), ('"0001-01-01T00:00:00Z"'), ('"1601-01-01T00:00:00+00:01"'),
    -- No DateTime.
    ('"9999-12-31T23:59:59-00:01"'), ('"0000-01-01T00:00:00Z"'), ('""'), ('"2019-02-29T00:00:00Z"'), ('"2020-13-01T00:00:00Z"'), ('"2020-01-01T24:00:00Z"'),
    ('"2020-01-01 01:02:03Z"'), ('"2020-01-01T01:02:03.Z"'), ('"2020-01-01T01:02:03z"'), ('"2020-1-1T01:02:03Z"'), ('"infinity"'), ('"now"'),
    ('1577840523'), ('true')) AS v (value);

-- Edm.Guid has one form, in any case.
SELECT value, pg_temp.try(value, 'Edm.Guid')
FROM (VALUES ('"a455c812-1f7a-4f5c-9c3b-0123456789ab"'), ('"A455C812-1F7A-4F5C-9C3B-0123456789AB"'), ('"00000000-0000-0000-0000-000000000000"'),
    ('"{a455c812-1f7a-4f5c-9c3b-0123456789ab}"'), ('"a455c8121f7a4f5c9c3b0123456789ab"'), ('"a455c812-1f7a-4f5c-9c3b-0123456789ag"'), ('""'), ('1')) AS v (value);

-- Edm.Binary is base64 with padding.
SELECT value, pg_temp.try(value, 'Edm.Binary')
FROM (VALUES ('""'), ('"AA=="'), ('"AP8="'), ('"AP+A"'), ('"AA"'), ('"AA="'), ('"A"'), ('"AB=="'), ('"A A="'), ('"_-=="'), ('1')) AS v (value);

-- An annotation that is no type; null is no value under any annotation, known or not.
SELECT pg_temp.try('1', 'Edm.Int16');
SELECT pg_temp.try('"x"', 'edm.string');
SELECT pg_temp.try('null', 'Edm.Int64');
SELECT pg_temp.try('null', 'Edm.Int16');
SELECT pg_temp.outcome($$SELECT '{"V@odata.type": 7, "V": 1}'::properties$$);

-- Annotations may stand anywhere. Without a value, and about anything else than a type, they are ignored.
SELECT json, pg_temp.outcome(format('SELECT %L::properties', json))
FROM (VALUES ('{"V@odata.type": "Edm.Int64", "W": true, "V": "1"}'), ('{"V": "1", "W": true, "V@odata.type": "Edm.Int64"}'), ('{"W@odata.type": "Edm.Int64"}'),
    ('{"V@odata.type@odata.type": "Edm.Int64", "V": "1"}'), ('{"V@odata.navigationLinkUrl": {}, "V": "1"}'), ('{"V@something": "Edm.Int64"}')) AS v (json);

-- Nested values have no type. The hint says what to do; PartitionKey, RowKey, Timestamp and odata.* may hold what they like.
SELECT '{"Address": {"City": "Seattle"}}'::properties;
:state
SELECT '{"Phones": [1, 2]}'::properties;
:state
SELECT '{"Timestamp": {"a": []}, "RowKey": [1], "odata.x": [[[[]]]], "a": 1}'::properties;
SELECT ('{"Address": "{\"City\": \"Seattle\"}"}'::properties ->> 'Address')::jsonb ->> 'City' AS city;

-- What is no JSON object at all.
SELECT json, pg_temp.outcome(format('SELECT %L::properties', json))
FROM (VALUES (''), (' '), ('x'), ('1'), ('null'), ('"a"'), ('[]'), ('[{"a": 1}]'), ('{'), ('{"a"'), ('{"a":'), ('{"a": 1'), ('{"a": 1,}'), ('{a: 1}'), ('{''a'': 1}'),
    ('{"a": 1} x'), ('{"a": 1}{"b": 2}'), ('{"a": 01}'), ('{"a": +1}'), ('{"a": .5}'), ('{"a": 1.}'), ('{"a": 0x1}'), ('{"a": NaN}'), ('{"a": Infinity}'),
    ('{"a": tru}'), ('{"a": "x}'), (E'{"a": "\n"}'), ('{"a": "\x"}'), ('{"a": "\u12"}'), ('{"a" 1}'), ('{1: 1}'), ('/**/{}')) AS v (json);
SELECT '{"a": nothing}'::properties;
:state
-- White space is that of JSON.
SELECT E' \t\r\n{ \n"a"\t: 1 , "b":2}\n '::properties;

-- Hostile input ends in an error: deep nesting, very long strings, very many members.
SELECT left(pg_temp.outcome(format('SELECT %L::properties', '{"a": ' || repeat('[', 100000))), 60);
SELECT left(pg_temp.outcome(format('SELECT %L::properties', '{"odata.a": ' || repeat('[', 100000))), 200);
SELECT left(pg_temp.outcome(format('SELECT %L::properties', '{"odata.a": ' || repeat('{"a":', 100000))), 200);
SELECT left(pg_temp.outcome(format('SELECT %L::properties', repeat('[', 100000))), 200);
SELECT left(pg_temp.outcome(format('SELECT %L::properties', '{"a": "' || repeat('x', 10000000) || '"}')), 60);
SELECT left(pg_temp.outcome(format('SELECT %L::properties', '{"a@odata.type": "' || repeat('x', 10000000) || '", "a": 1}')), 60);
SELECT left(pg_temp.outcome(format('SELECT %L::properties', '{' || repeat('"a": null, ', 1000000) || '"b": 1}')), 60);
SELECT left(pg_temp.outcome(format('SELECT %L::properties', '{"a": 1' || repeat('0', 1000000) || '}')), 60);

-- Properties are in the order of their names (bytes), whatever order they came in.
SELECT '{"b": 1, "a": 2, "B": 3, "_": 4, "é": 5, "aa": 6, "a1": 7}'::properties;
