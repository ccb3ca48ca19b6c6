-- PartitionKey and RowKey: what they may hold, and how long they may be.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SELECT create_table('Keys');

-- Every function refuses forbidden characters in either key; so do the tables, however they are written.
SELECT insert_entity('Keys', 'p', 'r', '{}') IS NOT NULL AS inserted;
SELECT function, pg_temp.outcome(format(statement, 'a/b', 'r')) AS partition_key, pg_temp.outcome(format(statement, 'p', 'a#b')) AS row_key
FROM (VALUES
    ('insert_entity', 'SELECT insert_entity(''Keys'', %L, %L, ''{}'')'),
    ('replace_entity', 'SELECT replace_entity(''Keys'', %L, %L, ''{}'', ''*'')'),
    ('merge_entity', 'SELECT merge_entity(''Keys'', %L, %L, ''{}'', ''*'')'),
    ('insert_or_replace_entity', 'SELECT insert_or_replace_entity(''Keys'', %L, %L, ''{}'')'),
    ('insert_or_merge_entity', 'SELECT insert_or_merge_entity(''Keys'', %L, %L, ''{}'')'),
    ('delete_entity', 'SELECT delete_entity(''Keys'', %L, %L)'),
    ('delete_entity if_exists', 'SELECT delete_entity(''Keys'', %L, %L, if_exists => true)'),
    ('get_entity', 'SELECT get_entity(''Keys'', %L, %L)'),
    ('get_entities', 'SELECT get_entities(''Keys'', %L, ARRAY[%L])'),
    ('entity_from_json', 'SELECT entity_from_json(json_build_object(''PartitionKey'', %L, ''RowKey'', %L)::text)'),
    ('INSERT', 'INSERT INTO table_service_data."Keys" VALUES (%L, %L, DEFAULT, ''{}'')'),
    ('UPDATE', 'UPDATE table_service_data."Keys" SET (partition_key, row_key) = (%L, %L)')) AS v (function, statement);
-- They are checked before the table is looked for.
SELECT insert_entity('Nobody', 'a\b', 'r', '{}');
:state

-- The forbidden characters: / \ # ? and the control characters U+0001 to U+001F and U+007F to U+009F. Of the characters
-- up to U+3000 these are the ones that are refused.
SELECT string_agg('U+' || upper(lpad(to_hex(c), 4, '0')), ' ' ORDER BY c) AS forbidden
FROM generate_series(1, 12 * 1024) AS c
WHERE pg_temp.outcome(format('SELECT count(*) FROM get_entity(''Keys'', ''p'', %L)', 'a' || chr(c))) LIKE '22003 OutOfRangeInput%';

-- All other text is a key and comes back as it was, quotes, spaces and characters beyond U+FFFF included.
CREATE TEMPORARY TABLE texts AS SELECT unnest(ARRAY['', ' ', '  a', 'a  ', '%', '%2F', '''', '"', ';--', '$$', 'NULL', '*',
    '@*$!&,:;+=~|<>()[]{}^`', 'é', '日本語', '😀', 'a😀b', U&'\00A0', U&'\200D', U&'\FFFD', U&'\+10FFFF']) AS key;
SELECT count(insert_entity('Keys', key, key, '{}')), (SELECT count(*) FROM texts) AS expected FROM texts;
SELECT count(*) FROM texts, LATERAL get_entity('Keys', key, key) AS e WHERE e.partition_key = key AND e.row_key = key;
SELECT count(delete_entity('Keys', key, key)) FROM texts;

-- A key has at most 1024 UTF-16 units; characters beyond U+FFFF count two. Both keys together have at most 2680 bytes of
-- UTF-8. Where an entity would be inserted, one unit or byte more is PropertyValueTooLarge.
CREATE TEMPORARY TABLE sizes (n integer, what text, partition_key text, row_key text);
INSERT INTO sizes VALUES
    (1, '1024 and 1024 units', repeat('p', 1024), repeat('r', 1024)),
    (2, '1025 units', 'p', repeat('r', 1025)),
    (3, '1025 units', repeat('p', 1025), 'r'),
    (4, '512 pairs', 'p', repeat('😀', 512)),
    (5, '512 pairs and 1', repeat('😀', 512) || 'x', 'r'),
    (6, '2680 bytes', repeat('日', 800), repeat('r', 280)),
    (7, '2681 bytes', repeat('日', 800), repeat('r', 281)),
    (8, '2680 bytes that do not compress',
        (SELECT string_agg(chr(19968 + i * 7919 % 20000), '' ORDER BY i) FROM generate_series(1, 600) AS i),
        (SELECT string_agg(chr(19968 + i * 6007 % 20000), '' ORDER BY i) || 'x' FROM generate_series(1, 293) AS i)),
    (9, '2680 bytes in one key', '', repeat('日', 893) || 'x'),
    (10, '2681 bytes in one key', '', repeat('日', 893) || 'xy');
CREATE FUNCTION pg_temp.try_keys(statement text, partition_key text, row_key text) RETURNS text LANGUAGE sql AS $$
    SELECT left(pg_temp.outcome(format(statement, partition_key, row_key)), 27)
$$;
SELECT what, length(partition_key) AS p_chars, length(row_key) AS r_chars, octet_length(partition_key) + octet_length(row_key) AS bytes,
    pg_temp.try_keys('SELECT insert_entity(''Keys'', %L, %L, ''{}'') IS NOT NULL', partition_key, row_key) AS insert,
    pg_temp.try_keys('SELECT insert_or_replace_entity(''Keys'', %L, %L, ''{}'') IS NOT NULL', partition_key, row_key) AS insert_or_replace,
    pg_temp.try_keys('SELECT insert_or_merge_entity(''Keys'', %L, %L, ''{}'') IS NOT NULL', partition_key, row_key) AS insert_or_merge,
    pg_temp.try_keys('UPDATE table_service_data."Keys" SET (partition_key, row_key) = (%L, %L)
        WHERE (partition_key, row_key) = (''p'', ''r'') RETURNING ''t''', partition_key, row_key) AS direct
FROM sizes ORDER BY n;
-- Everywhere else a key beyond the limits is the key of no entity.
SELECT what, (SELECT count(*) FROM get_entity('Keys', partition_key, row_key)) AS get,
    (SELECT count(*) FROM get_entities('Keys', partition_key, ARRAY[row_key])) AS get_many,
    pg_temp.try_keys('SELECT replace_entity(''Keys'', %L, %L, ''{}'', ''*'') IS NOT NULL', partition_key, row_key) AS replace,
    pg_temp.try_keys('SELECT merge_entity(''Keys'', %L, %L, ''{}'', ''*'') IS NOT NULL', partition_key, row_key) AS merge,
    pg_temp.try_keys('SELECT delete_entity(''Keys'', %L, %L)', partition_key, row_key) AS delete
FROM sizes ORDER BY n;
-- The whole message.
SELECT insert_entity('Keys', '', repeat('r', 1025), '{}');
:state
-- In a long key a forbidden character is found first. The message quotes only the beginning.
SELECT pg_temp.outcome(format('SELECT get_entity(''Keys'', %L, ''r'')', repeat('x', 100000) || '/')) AS message \gset
SELECT left(:'message', 80), length(:'message');

SELECT delete_table('Keys');
