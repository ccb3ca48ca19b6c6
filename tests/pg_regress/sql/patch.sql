-- Patch: set, add to and remove properties of one entity, under a condition; alone and in batches.
\set SHOW_CONTEXT never
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SELECT create_table('Stock');
CREATE PROCEDURE pg_temp.fill() LANGUAGE sql AS $$
  TRUNCATE table_service_data."Stock";
  INSERT INTO table_service_data."Stock" SELECT 'p', r, '2022-04-13T21:50:14Z', '{"N": 5, "L@odata.type": "Edm.Int64", "L": "5", "D": 0.5, "S": "x", "Old": true}'
    FROM unnest(ARRAY['a', 'b', 'c', 'd']) AS r
$$;
CALL pg_temp.fill();

\echo 'what it does'
SELECT partition_key, row_key, "timestamp" > '2022-04-13T21:50:14Z' AS later, properties
FROM patch_entity('Stock', 'p', 'a', '{"State": "open"}', '{"N": -1, "L": 2, "D": 1, "New": 7}', '{Old,None}');
-- What it returns is what is stored.
SELECT patch_entity('stock', 'p', 'a', increment => '{"N": 1}') AS patched \gset
SELECT :'patched'::entity = e AS is_stored, properties FROM get_entity('Stock', 'p', 'a') AS e;
-- Nothing to set, and nothing that is there to remove, are still writes.
SELECT "timestamp" > '2022-04-13T21:50:14Z' AS later, properties FROM patch_entity('Stock', 'p', 'b', '{}');
SELECT properties FROM patch_entity('Stock', 'p', 'b', remove => '{None}');
SELECT properties FROM patch_entity('Stock', 'p', 'b', remove => '{N,L,D,S,Old}');

\echo 'conditions'
SELECT properties FROM patch_entity('Stock', 'p', 'c', increment => '{"N": -3}', condition => 'N ge @n', parameters => '{"n": 3}');
SELECT pg_temp.outcome($$SELECT patch_entity('Stock', 'p', 'c', increment => '{"N": -3}', condition => 'N ge @n', parameters => '{"n": 3}')$$);
-- The condition sees what is stored, keys and Timestamp too; a blank one is none.
SELECT (patch_entity('Stock', 'p', 'c', '{"N": 100}', condition => 'N eq 2 and RowKey eq ''c'' and Timestamp gt datetime''2022-04-13T21:50:14Z''')).properties;
SELECT (patch_entity('Stock', 'p', 'c', increment => '{"N": 1}', condition => c)).properties -> 'N' AS n FROM (VALUES (NULL), (''), ('  ')) AS v (c);
SELECT pg_temp.outcome(format($$SELECT patch_entity('Stock', 'p', 'c', '{"A": 1}', condition => %L)$$, c))
FROM (VALUES ('false'), ('N eq 100'), ('RowKey eq ''d'''), ('N eq'), ('N eq @n')) AS v (c);

\echo 'if_match'
SELECT etag(e) AS tag FROM get_entity('Stock', 'p', 'd') AS e \gset
SELECT (patch_entity('Stock', 'p', 'd', increment => '{"N": 1}', if_match => :'tag')).properties -> 'N' AS n;
SELECT pg_temp.outcome(format($$SELECT patch_entity('Stock', 'p', 'd', increment => '{"N": 1}', if_match => %L)$$, m))
FROM (VALUES (:'tag'), ('W/"x"'), ('W/"datetime''2022-04-13T21%3A50%3A14.1234567Z''"'), ('x'), (NULL)) AS v (m);

\echo 'sums'
SELECT increment, pg_temp.outcome(format('SELECT properties FROM patch_entity(''Stock'', ''p'', ''d'', increment => %L)', increment))
FROM (VALUES ('{"N": 2147483647}'), ('{"N": -2147483647}'), ('{"N@odata.type": "Edm.Int64", "N": "1"}'), ('{"N": 0.5}'), ('{"L": 0.5}'),
  ('{"L@odata.type": "Edm.Int64", "L": "9223372036854775807"}'), ('{"D": 1.7976931348623157e308}'), ('{"D": 1.7976931348623157e308}'),
  ('{"D@odata.type": "Edm.Double", "D": "NaN"}'), ('{"D@odata.type": "Edm.Double", "D": "Infinity"}'), ('{"D@odata.type": "Edm.Double", "D": "-Infinity"}'),
  ('{"S": 1}'), ('{"S": "1"}'), ('{"Old": 1}'), ('{"N": true}')) AS v (increment);

\echo 'arguments'
SELECT arguments, pg_temp.outcome(format('SELECT patch_entity(%s)', arguments)) FROM (VALUES
    ('''Stock'', ''p'', ''a'''), ('''Stock'', ''p'', ''a'', NULL, NULL, NULL'), ('NULL, ''p'', ''a'', ''{}'''), ('''Stock'', NULL, ''a'', ''{}'''), ('''Stock'', ''p'', NULL, ''{}'''),
    ('''Nothing'', ''p'', ''a'', ''{}'''), ('''No-name'', ''p'', ''a'', ''{}'''), ('''Stock'', ''p'', ''a/b'', ''{}'''), ('''Stock'', ''p'', ''none'', ''{}'''),
    ('''Stock'', ''p'', ''a'', ''{"A": 1}'', ''{"A": 1}'''), ('''Stock'', ''p'', ''a'', ''{"A": 1}'', remove => ''{A}'''), ('''Stock'', ''p'', ''a'', increment => ''{"A": 1}'', remove => ''{A}'''),
    ('''Stock'', ''p'', ''a'', remove => ''{RowKey}'''), ('''Stock'', ''p'', ''a'', remove => ''{no name}'''), ('''Stock'', ''p'', ''a'', remove => ''{NULL}'''),
    ('''Stock'', ''p'', ''a'', ''{}'', create_missing => NULL')) AS v (arguments);
-- Keys that are too long are those of no entity, or cannot be inserted.
SELECT pg_temp.outcome(format('SELECT patch_entity(''Stock'', ''p'', repeat(''k'', 1025), ''{}'', create_missing => %s)', create_missing)) FROM (VALUES ('false'), ('true')) AS v (create_missing);

\echo 'limits'
SELECT (SELECT '{' || string_agg(format('"P%s": 1', i), ', ') || '}' FROM generate_series(1, 252) AS i)::properties AS full,
  (SELECT '{' || string_agg(format('"P%s": "%s"', i, repeat('x', 30000)), ', ') || '}' FROM generate_series(1, 17) AS i)::properties AS large \gset
SELECT replace_entity('Stock', 'p', 'a', :'full', '*') IS NOT NULL AS replaced;
SELECT pg_temp.outcome($$SELECT patch_entity('Stock', 'p', 'a', '{"Q": 1}')$$), pg_temp.outcome($$SELECT patch_entity('Stock', 'p', 'a', increment => '{"Q": 1}')$$);
SELECT property_type((patch_entity('Stock', 'p', 'a', '{"Q": 1}', remove => '{P1}')).properties, 'Q');
SELECT replace_entity('Stock', 'p', 'a', :'large', '*') IS NOT NULL AS replaced;
SELECT pg_temp.outcome(format('SELECT patch_entity(''Stock'', ''p'', ''a'', %L)', jsonb_build_object('Q', repeat('x', 30000))));
SELECT property_type((patch_entity('Stock', 'p', 'a', jsonb_build_object('Q', repeat('x', 30000)), remove => '{P1}')).properties, 'Q');

\echo 'missing entities'
SELECT row_key, "timestamp" > '2022-04-13T21:50:14Z' AS later, properties FROM patch_entity('Stock', 'p', 'new', '{"S": "x"}', '{"N": 1}', '{None}', create_missing => true);
SELECT row_key, properties FROM patch_entity('Stock', 'p', 'new', '{"S": "y"}', '{"N": 1}', create_missing => true);
-- The condition sees keys, but no properties and no Timestamp.
SELECT c, pg_temp.outcome(format($$SELECT properties FROM patch_entity('Stock', 'p', 'cond', increment => '{"N": 1}', condition => %L, create_missing => true)$$, c))
FROM (VALUES ('N eq 0'), ('Timestamp gt datetime''2000-01-01T00:00:00Z'''), ('not (N ge 3) and RowKey eq ''cond''')) AS v (c);
-- A lock: where nothing is stored, the property that says until when is missing. The hint says so.
SELECT c, pg_temp.outcome(format($$SELECT properties FROM patch_entity('Stock', 'p', 'lock', '{"Until": 5}', condition => %L, create_missing => true)$$, c))
FROM (VALUES ('Until lt 3'), ('not (Until ge 3)'), ('Until lt 3'), ('Until lt 3 and Owner eq ''x'''), ('Until lt 9 and Owner eq ''x'''), ('not (Until ge 3)')) AS v (c);
SELECT pg_temp.outcome($$SELECT patch_entity('Stock', 'p', 'other', '{}', if_match => 'W/"datetime''2022-04-13T21%3A50%3A14Z''"', create_missing => true)$$);
SELECT pg_temp.outcome($$SELECT patch_entity('Stock', 'p', 'other', increment => '{"D@odata.type": "Edm.Double", "D": "NaN"}', create_missing => true)$$);
SELECT count(*) FROM get_entity('Stock', 'p', 'other');
-- Again and again in one statement.
SELECT array_agg((patch_entity('Stock', 'p', 'count', increment => '{"N": 1}', create_missing => true)).properties -> 'N' ORDER BY i) FROM generate_series(1, 5) AS i;

\echo 'batches'
CALL pg_temp.fill();
SELECT * FROM batch_patch('a', '{"S": "it''s \"x\""}', '{"N@odata.type": "Edm.Int64", "N": "1"}', '{Old}', 'S eq @s', '{"s": "x"}', create_missing => true);
SELECT * FROM batch_patch('a', remove => '{Old}', if_match => 'W/"x"');
SELECT index, row_key, etag IS NOT NULL AS has_etag FROM execute_batch('Stock', 'p',
  batch_patch('d', '{"S": "d"}', '{"N": 1}', '{Old}'), batch_merge('a', '{"S": "merged"}', '*'), batch_patch('new', increment => '{"N": 1}', create_missing => true),
  batch_delete('b'), batch_patch('c', increment => '{"L": -5, "D": 0.25}', condition => 'L ge @l', parameters => '{"l": 5}'), batch_insert('e', '{}'));
SELECT row_key, properties FROM query_entities('Stock');
-- All or none; the index of the operation that failed; the first one that failed.
SELECT pg_temp.outcome(format('SELECT count(*) FROM execute_batch(''Stock'', ''p'', %s)', operations)) FROM (VALUES
  ('batch_patch(''a'', ''{"S": "y"}''), batch_patch(''c'', ''{"S": "y"}'', condition => ''L ge 5'')'),
  ('batch_patch(''a'', ''{"S": "y"}''), batch_patch(''none'', ''{"S": "y"}'')'),
  ('batch_patch(''a'', ''{"S": "y"}''), batch_patch(''c'', ''{}'', if_match => ''W/"x"'')'),
  ('batch_patch(''a'', ''{"S": "y"}''), batch_patch(''c'', increment => ''{"N": 2147483647}'')'),
  ('batch_patch(''a'', ''{"S": "y"}''), batch_patch(''c'', increment => ''{"S": 1}'')'),
  ('batch_patch(''x'', ''{"S": "y"}'', create_missing => true), batch_patch(''y'', ''{}'', condition => ''A eq 1'', create_missing => true)'),
  ('batch_patch(''z'', ''{}'', condition => ''A eq 1'', create_missing => true), batch_patch(''none'', ''{}'')'),
  ('batch_patch(''a'', ''{}''), batch_patch(''a'', ''{}'')'),
  ('batch_patch(''a'', ''{}''), batch_merge(''a'', ''{}'', ''*'')'),
  ('batch_patch(''a'', ''{}''), batch_patch(repeat(''k'', 1025), ''{}'')'),
  ('batch_patch(''a'', ''{}''), batch_patch(repeat(''k'', 1025), ''{}'', create_missing => true)'),
  ('batch_patch(''a'', ''{}''), batch_patch(''n'', ''{}'', if_match => ''W/"x"'', create_missing => true)')) AS v (operations);
SELECT row_key, properties FROM query_entities('Stock', 'RowKey eq ''a'' or RowKey gt ''e''');
-- Many at once, of which some are new.
SELECT count(*) FROM execute_batch('Stock', 'q', VARIADIC (SELECT array_agg(batch_patch(lpad(i::text, 3, '0'), increment => '{"N": 1}', create_missing => true)) FROM generate_series(2, 100, 2) AS i));
SELECT count(*) FROM execute_batch('Stock', 'q', VARIADIC (SELECT array_agg(batch_patch(lpad(i::text, 3, '0'), increment => '{"N": 1}', create_missing => true) ORDER BY i DESC) FROM generate_series(1, 100) AS i));
SELECT get_int32(properties, 'N') AS n, count(*) FROM query_entities('Stock', 'PartitionKey eq ''q''') GROUP BY n ORDER BY n;
-- What cannot be made.
SELECT arguments, pg_temp.outcome(format('SELECT batch_patch(%s)', arguments)) FROM (VALUES
  ('NULL, ''{}'''), ('''a'''), ('''a'', ''{"A": 1}'', ''{"A": 1}'''), ('''a'', increment => ''{"A": "x"}'''), ('''a'', remove => ''{NULL}'''), ('''a'', remove => ''{Timestamp}'''),
  ('''a'', ''{}'', condition => ''A eq'''), ('''a'', ''{}'', if_match => NULL'), ('''a'', ''{}'', if_match => ''x'''), ('''a'', ''{}'', create_missing => NULL')) AS v (arguments);
-- What is made by hand is checked in the same way.
SELECT operation, pg_temp.outcome(format('SELECT count(*) FROM execute_batch(''Stock'', ''p'', ROW(%L, ''a'', %L, %L)::batch_operation)', operation, properties, if_match)) FROM (VALUES
  ('patch', '{}', '*'), ('patch ', '{}', '*'), ('patch x', '{}', '*'), ('patch []', '{}', '*'), ('patch {}', NULL, '*'), ('patch {"remove": ["A"]}', '{"A": 1}', '*'),
  ('patch {"increments": {}}', NULL, '*'), ('patch {"increment": {"N": 1}, "increment": {}}', NULL, '*'), ('patch {"increment": 1}', NULL, '*'),
  ('patch {"condition": "N eq"}', '{}', '*'), ('patch {"create_missing": "yes"}', '{}', '*'), ('patch {"remove": [1]}', '{}', '*'), ('patch {"remove": [null]}', '{}', '*'),
  ('patch {}', '{}', NULL), ('patch {}', '{}', 'x'), ('PATCH {}', '{}', '*'), ('patch {}', '{}', '*'), ('patch {"increment": {"N": 1}, "condition": "N gt @n", "parameters": {"n": 1}}', NULL, '*'))
  AS v (operation, properties, if_match);
-- In JSON the arguments stand beside if_match.
SELECT index, row_key, etag IS NOT NULL AS has_etag FROM execute_batch_json('Stock', 'p', $$[
  {"patch": {"RowKey": "a", "J": 1}, "increment": {"N": 1}, "remove": ["S"], "condition": "N gt @n", "parameters": {"n": 1}},
  {"patch": {"RowKey": "json"}, "increment": {"N": 1}, "create_missing": true, "if_match": "*"}]$$);
SELECT row_key, properties FROM query_entities('Stock', 'RowKey eq ''a'' or RowKey eq ''json''');
SELECT pg_temp.outcome(format('SELECT count(*) FROM execute_batch_json(''Stock'', ''p'', %L)', operations)) FROM (VALUES
  ('[{"patch": {"RowKey": "a"}, "condition": "N gt 1000"}]'), ('[{"merge": {"RowKey": "a"}, "if_match": "*", "increment": {"N": 1}}]'),
  ('[{"patch": {"RowKey": "a"}, "increment": {"N": 1}, "remove": ["N"]}]'), ('[{"patch": {"RowKey": "a"}, "set": {"N": 1}}]')) AS v (operations);

\echo 'property indexes'
CALL pg_temp.fill();
SELECT create_property_index('Stock', 'N') IS NOT NULL AS created;
SELECT (patch_entity('Stock', 'p', 'b', increment => '{"N": 37}')).properties -> 'N' AS n;
SELECT row_key FROM query_entities('Stock', 'N eq 42');
SELECT count(*) FROM query_entities('Stock', 'N eq 5');

\echo 'triggers, checks and rules of users'
CREATE FUNCTION public.mark() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.row_key LIKE 'skip%' THEN RETURN NULL; END IF;
  NEW.properties := NEW.properties || jsonb_build_object('By', TG_OP)::properties;
  RETURN NEW;
END $$;
CREATE TRIGGER mark BEFORE INSERT OR UPDATE ON table_service_data."Stock" FOR EACH ROW EXECUTE FUNCTION public.mark();
-- What it returns is what the trigger has made of it.
SELECT properties FROM patch_entity('Stock', 'p', 'b', increment => '{"N": 1}', remove => '{L,D,S}', condition => 'N eq 42');
SELECT properties FROM patch_entity('Stock', 'p', 'marked', increment => '{"N": 1}', create_missing => true);
SELECT properties FROM patch_entity('Stock', 'p', 'marked', increment => '{"N": 1}', create_missing => true);
SELECT pg_temp.outcome(call) FROM (VALUES
  ('SELECT patch_entity(''Stock'', ''p'', ''b'', ''{}'', condition => ''N eq 42'')'), ('SELECT patch_entity(''Stock'', ''p'', ''none'', ''{}'')'),
  ('SELECT patch_entity(''Stock'', ''p'', ''b'', increment => ''{"N": 2147483647}'')'), ('SELECT patch_entity(''Stock'', ''p'', ''b'', increment => ''{"By": 1}'')'),
  ('SELECT patch_entity(''Stock'', ''p'', ''b'', ''{}'', if_match => ''W/"x"'')'),
  ('SELECT patch_entity(''Stock'', ''p'', ''skip'', ''{}'', create_missing => true)'),
  ('SELECT count(*) FROM execute_batch(''Stock'', ''p'', batch_patch(''b'', ''{}''), batch_patch(''skip'', ''{}'', create_missing => true))')) AS v (call);
ALTER TABLE table_service_data."Stock" DISABLE TRIGGER mark;
SELECT insert_entity('Stock', 'p', 'skip1', '{"N": 1}') IS NOT NULL AS inserted;
ALTER TABLE table_service_data."Stock" ENABLE TRIGGER mark;
SELECT pg_temp.outcome('SELECT patch_entity(''Stock'', ''p'', ''skip1'', ''{}'')'), pg_temp.outcome('SELECT count(*) FROM execute_batch(''Stock'', ''p'', batch_patch(''skip1'', ''{}''))');
DROP TRIGGER mark ON table_service_data."Stock";
ALTER TABLE table_service_data."Stock" ADD CONSTRAINT few CHECK (get_int32(properties, 'N') < 50);
SELECT (patch_entity('Stock', 'p', 'b', increment => '{"N": 6}')).properties -> 'N' AS n;
SELECT pg_temp.outcome('SELECT patch_entity(''Stock'', ''p'', ''b'', increment => ''{"N": 1}'')');
ALTER TABLE table_service_data."Stock" DROP CONSTRAINT few;
CREATE UNIQUE INDEX few ON table_service_data."Stock" (get_string(properties, 'Unique'));
SELECT properties FROM patch_entity('Stock', 'p', 'u1', '{"Unique": "x"}', create_missing => true);
SELECT pg_temp.outcome('SELECT patch_entity(''Stock'', ''p'', ''u2'', ''{"Unique": "x"}'', create_missing => true)'),
  pg_temp.outcome('SELECT count(*) FROM execute_batch(''Stock'', ''p'', batch_patch(''u2'', ''{"Unique": "x"}'', create_missing => true))');
DROP INDEX table_service_data.few;
CREATE RULE nothing AS ON UPDATE TO table_service_data."Stock" DO INSTEAD NOTHING;
SELECT pg_temp.outcome('SELECT patch_entity(''Stock'', ''p'', ''b'', ''{}'')'), pg_temp.outcome('SELECT merge_entity(''Stock'', ''p'', ''b'', ''{}'', ''*'')');
DROP RULE nothing ON table_service_data."Stock";

\echo 'a partitioned table'
CREATE TABLE table_service_data."Parted" OF table_service.entity (PRIMARY KEY (partition_key, row_key)) PARTITION BY HASH (partition_key);
CREATE TABLE table_service_data.parted_0 PARTITION OF table_service_data."Parted" FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE table_service_data.parted_1 PARTITION OF table_service_data."Parted" FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT (patch_entity('Parted', p, 'r', increment => '{"N": 1}', create_missing => true)).properties FROM (VALUES ('a'), ('b'), ('c'), ('a'), ('b'), ('a')) AS v (p);
SELECT pg_temp.outcome('SELECT patch_entity(''Parted'', ''a'', ''r'', increment => ''{"N": 1}'', condition => ''N lt 3'')'), pg_temp.outcome('SELECT patch_entity(''Parted'', ''d'', ''r'', ''{}'')');
SELECT count(*) FROM execute_batch('Parted', 'a', batch_patch('r', increment => '{"N": 1}'), batch_patch('s', increment => '{"N": 1}', create_missing => true));
SELECT partition_key, row_key, properties FROM query_entities('Parted');

\echo 'rights'
CALL pg_temp.fill();
CREATE ROLE golden_patch;
GRANT SELECT, UPDATE ON table_service_data."Stock" TO golden_patch;
SET ROLE golden_patch;
SELECT (patch_entity('Stock', 'p', 'a', increment => '{"N": 1}')).properties -> 'N' AS n;
SELECT pg_temp.outcome('SELECT patch_entity(''Stock'', ''p'', ''x'', ''{}'', create_missing => true)');
RESET ROLE;
REVOKE UPDATE ON table_service_data."Stock" FROM golden_patch;
SET ROLE golden_patch;
SELECT pg_temp.outcome('SELECT patch_entity(''Stock'', ''p'', ''a'', ''{}'')'), pg_temp.outcome('SELECT patch_entity(''Stock'', ''p'', ''a'', ''{}'', condition => ''false'')');
RESET ROLE;
-- Policies: an entity that a role may not see is not there; one that it may see but not write is refused.
GRANT UPDATE, INSERT ON table_service_data."Stock" TO golden_patch;
ALTER TABLE table_service_data."Stock" ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON table_service_data."Stock" FOR SELECT TO golden_patch USING (row_key <> 'd');
CREATE POLICY updated ON table_service_data."Stock" FOR UPDATE TO golden_patch USING (row_key < 'c') WITH CHECK (get_int32(properties, 'N') < 100);
CREATE POLICY inserted ON table_service_data."Stock" FOR INSERT TO golden_patch WITH CHECK (get_int32(properties, 'N') = 1);
SET ROLE golden_patch;
SELECT (patch_entity('Stock', 'p', 'a', increment => '{"N": 1}')).properties -> 'N' AS n;
SELECT (patch_entity('Stock', 'p', 'f', increment => '{"N": 1}', create_missing => true)).properties -> 'N' AS n;
SELECT pg_temp.outcome(format('SELECT patch_entity(''Stock'', ''p'', %s)', arguments)) FROM (VALUES
  ('''d'', ''{}'''), ('''d'', increment => ''{"N": 1}'', create_missing => true'), ('''c'', ''{}'''), ('''a'', ''{"N": 100}'''), ('''g'', ''{"N": 2}'', create_missing => true')) AS v (arguments);
SELECT pg_temp.outcome(format('SELECT count(*) FROM execute_batch(''Stock'', ''p'', %s)', operations)) FROM (VALUES
  ('batch_patch(''a'', ''{}''), batch_patch(''d'', ''{}'')'), ('batch_patch(''a'', ''{}''), batch_patch(''c'', ''{}'')'),
  ('batch_patch(''a'', ''{}''), batch_patch(''d'', increment => ''{"N": 1}'', create_missing => true)')) AS v (operations);
RESET ROLE;

\echo 'read only'
BEGIN READ ONLY;
SELECT patch_entity('Stock', 'p', 'a', '{}');
ROLLBACK;
SELECT delete_table('Stock'), delete_table('Parted');
DROP FUNCTION public.mark;
DROP OWNED BY golden_patch;
DROP ROLE golden_patch;
