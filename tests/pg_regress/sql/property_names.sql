-- The names of properties, and how many there may be.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SELECT create_table('Names');

-- A name is an identifier: a letter or _ first, then letters, digits, _, combining and formatting characters.
SELECT name, pg_temp.outcome(format('SELECT %L::properties', json_build_object(name, 1)))
FROM (VALUES ('a'), ('_'), ('_1'), ('FirstName'), ('été'), ('名前'), (U&'a\0301'), (U&'a\200Db'), ('Ⅷ'), ('а'), ('a١'),
    (''), ('1a'), ('123abc'), ('a-b'), ('a b'), ('a.b'), ('a$'), ('a"b'), ('a\b'), (U&'\0301a'), ('😀'), ('a😀'), ('𝒳'), ('a²')) AS v (name);
-- Case matters, and only the exact spellings of the system properties are special.
SELECT '{"a": 1, "A": 2, "timestamp": 3, "partitionkey": 4, "ROWKEY": 5, "etag": 6, "ETag": 7, "odata": 8}'::properties;

-- A name has at most 255 characters.
SELECT n, left(pg_temp.outcome(format('SELECT length(%L::properties::text)', json_build_object(repeat(c, n), 1))), 30)
FROM (VALUES ('a'), ('日')) AS v (c), (VALUES (255), (256), (100000)) AS w (n);
SELECT insert_entity('Names', 'p', 'r', json_build_object(repeat('n', 256), 1)::text::properties);
:state

-- The same name twice.
SELECT insert_entity('Names', 'p', 'r', '{"a": 1, "b": 2, "a": 3}');
:state
SELECT pg_temp.outcome(format('SELECT %L::properties', json))
FROM (VALUES ('{"a": 1, "a": 1}'), ('{"a": null, "a": 1}'), ('{"a": null, "a": null}'), ('{"a": 1, "\u0061": 2}')) AS v (json);
-- A system property is none of the bag's, also twice.
SELECT '{"PartitionKey": 1, "PartitionKey": 2, "odata.etag": 1, "odata.etag": 2}'::properties;

-- An entity has at most 252 properties; null is none.
CREATE FUNCTION pg_temp.bag(count integer, first integer DEFAULT 1) RETURNS text LANGUAGE sql
AS $$ SELECT json_object_agg('P' || i, i)::text FROM generate_series(first, first + count - 1) AS i $$;
SELECT insert_entity('Names', 'p', 'r', pg_temp.bag(252)::properties) IS NOT NULL AS inserted;
SELECT insert_entity('Names', 'p', 'r2', pg_temp.bag(253)::properties);
:state
SELECT insert_entity('Names', 'p', 'r3', (left(pg_temp.bag(252), -1) || ', "Nothing": null}')::properties) IS NOT NULL AS inserted;
-- After a merge too: every way to merge says so, and the entity stays as it was.
SELECT merge_entity('Names', 'p', 'r', pg_temp.bag(10, 243)::properties, '*') IS NOT NULL AS merged;
SELECT merge_entity('Names', 'p', 'r', '{"One": "more"}', '*');
:state
SELECT merge_entity('Names', 'p', 'r', '{"One": "more"}', etag(e)) FROM get_entity('Names', 'p', 'r') AS e;
:state
SELECT insert_or_merge_entity('Names', 'p', 'r', '{"One": "more"}');
:state
UPDATE table_service_data."Names" SET properties = properties || '{"One": "more"}'::properties;
:state
SELECT properties || '{"One": "more"}'::properties FROM get_entity('Names', 'p', 'r');
:state
SELECT count(*) FROM get_entity('Names', 'p', 'r') AS e, each_property(e.properties);
-- Replace is no merge.
SELECT insert_or_replace_entity('Names', 'p', 'r', '{"One": "more"}') IS NOT NULL AS replaced;

SELECT delete_table('Names');
