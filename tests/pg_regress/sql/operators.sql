-- Operators on property bags.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'

\set bag '''{"Name": "Don", "Age": 34, "Id@odata.type": "Edm.Int64", "Id": "123", "Score": 1.0, "Active": true, "When@odata.type": "Edm.DateTime", "When": "2020-01-01T00:00:00Z"}''::properties'

-- ->> gives a property as text, -> as jsonb, in payload form; NULL when there is none. Names are case-sensitive.
SELECT :bag ->> 'Name' AS name, :bag ->> 'Age' AS age, :bag ->> 'Id' AS id, :bag ->> 'Score' AS score, :bag ->> 'Active' AS active, :bag ->> 'When' AS when_;
SELECT :bag -> 'Name' AS name, :bag -> 'Age' AS age, :bag -> 'Id' AS id, :bag -> 'Score' AS score, :bag -> 'Active' AS active, :bag -> 'When' AS when_;
SELECT :bag ->> 'name' IS NULL AS other_case, :bag -> 'Nothing' IS NULL AS absent, :bag ->> '' IS NULL AS no_name;

-- ? says whether there is one.
SELECT :bag ? 'Age' AS age, :bag ? 'age' AS other_case, has_property(:bag, 'Name') AS name;

-- ?| and ?& look for several. As in jsonb, NULL is no name.
SELECT :bag ?| '{Age,Email}' AS one_of, :bag ?| ARRAY['age', 'Email'] AS none_of, :bag ?| '{}' AS none_of_none, :bag ?| ARRAY[NULL, 'Age'] AS with_null;
SELECT :bag ?& '{Age,Name}' AS both, :bag ?& ARRAY['Age', 'Email'] AS not_both, :bag ?& '{}' AS all_of_none, :bag ?& ARRAY[NULL, 'Age'] AS with_null;
SELECT has_any_property(:bag, ARRAY['Age', 'Email']) AS any, has_all_properties(:bag, ARRAY['Age', 'Email']) AS all;

-- @> and <@ compare properties by name, type and value, as = does.
SELECT :bag @> '{"Age": 34}' AS contains, :bag @> '{"Age": 35}' AS other_value, :bag @> '{"Age": 34.0}' AS other_type, :bag @> '{"age": 34}' AS other_name, :bag @> '{"Age": 34, "Email": ""}' AS more,
    :bag @> '{"Name": "Don", "Id@odata.type": "Edm.Int64", "Id": "123"}' AS several, :bag @> '{}' AS nothing, '{}'::properties @> :bag AS fewer, :bag @> :bag AS itself;
SELECT '{"Age": 34}' <@ :bag AS contained, '{"Age": 35}' <@ :bag AS other_value, :bag <@ '{}' AS more, :bag @> jsonb_build_object('Age', 34) AS jsonb, json_build_object('Age', 34) <@ :bag AS json;
SELECT '{"V@odata.type": "Edm.Double", "V": "NaN"}'::properties @> '{"V@odata.type": "Edm.Double", "V": "NaN"}' AS nan, '{"V": 0.0}'::properties @> '{"V": -0.0}' AS zeros;
-- Bags that contain each other are equal, and what is contained changes nothing when it is merged.
CREATE TEMPORARY TABLE few (bag properties);
INSERT INTO few VALUES ('{}'), ('{"a": 1}'), ('{"b": 1}'), ('{"a": 1, "b": 1}'), ('{"a": 2, "b": 1}'), ('{"a": 1.0}'), ('{"a": "1"}'), ('{"a": 1, "b": 1, "c": true}');
SELECT bool_and((a.bag @> b.bag AND b.bag @> a.bag) = (a.bag = b.bag)) AS equal, bool_and((a.bag @> b.bag) = (a.bag || b.bag = a.bag)) AS merged,
    bool_and((a.bag @> b.bag) = (b.bag <@ a.bag)) AS commutes, count(*) FILTER (WHERE a.bag @> b.bag) AS contained
FROM few AS a, few AS b;
DROP TABLE few;

-- A path has one name, or none for the whole bag.
SELECT :bag #> '{Age}' AS age, :bag #> '{Id}' AS id, :bag #>> '{Id}' AS id_text, :bag #>> '{Nothing}' IS NULL AS absent, :bag #> ARRAY[NULL]::text[] IS NULL AS no_name;
SELECT :bag #> '{}' AS bag, :bag #>> '{}' AS text;
SELECT :bag #>> '{Address,City}';
:state
SELECT :bag #> '{Age,0}';
:state

-- A subscript is what -> is.
SELECT (:bag)['Name'] AS name, (:bag)['Age'] AS age, (:bag)['Id'] AS id, (:bag)['age'] IS NULL AS other_case, (:bag)[NULL] IS NULL AS no_name, pg_typeof((:bag)['Age']) AS type;
SELECT v.p['Age']::int + 1 AS age, v.p[v.n] AS of_a_column, (NULL::properties)['Age'] IS NULL AS of_null FROM (SELECT :bag, 'Active'::varchar) AS v (p, n) WHERE v.p['Age'] = '34';
SELECT (:bag)['Address']['City'];
:state
SELECT (:bag)[0];
:state
SELECT (:bag)['A':'Z'];
:state
-- It cannot be assigned: a value would have no type.
CREATE TEMPORARY TABLE subscripts (p properties);
INSERT INTO subscripts VALUES ('{"Age": 34}'), (NULL);
UPDATE subscripts SET p['Age'] = '35';
:state
INSERT INTO subscripts (p['Age']) VALUES ('35');
:state
DO $$ DECLARE p properties := '{"Age": 34}'; BEGIN p['Age'] := '35'; END $$;
:state
-- Views, indexes and the variables of PL/pgSQL have it too.
CREATE TEMPORARY VIEW ages AS SELECT p['Age'] AS age FROM subscripts;
SELECT pg_get_viewdef('ages'::regclass) LIKE '%p[''Age''::text]%' AS is_a_subscript;
SELECT * FROM ages ORDER BY age;
CREATE INDEX subscripts_age ON subscripts ((p['Age']));
SET enable_seqscan = off; SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM subscripts WHERE p['Age'] = '34';
SELECT * FROM subscripts WHERE p['Age'] = '34';
RESET enable_seqscan; RESET enable_bitmapscan;
DO $$ DECLARE p properties := '{"Age": 34}'; BEGIN RAISE NOTICE '%', p['Age']; END $$;

-- || merges; where both have a property, the right one stays.
SELECT '{"a": 1, "b": 1}'::properties || '{"b": "two", "c": 2}'::properties;
SELECT '{}'::properties || '{"a": 1}'::properties, '{"a": 1}'::properties || '{}'::properties, '{}'::properties || '{}'::properties;
-- jsonb becomes a bag by itself here.
SELECT '{"a": 1}'::properties || jsonb_build_object('b', 2);

-- - removes one or several properties; what is not there need not be removed.
SELECT '{"a": 1, "b": 2, "c": 3}'::properties - 'b' AS one, '{"a": 1, "b": 2, "c": 3}'::properties - ARRAY['a', 'c', 'x', NULL] AS several,
    '{"a": 1}'::properties - 'x' AS none, '{"a": 1}'::properties - ARRAY[]::text[] AS empty, '{"a": 1}'::properties - 'a' AS all;

-- Bags are equal when they have the same properties with the same types and values, in whatever order they were given.
SELECT '{"a": 1, "b": 2}'::properties = '{"b": 2, "a": 1}'::properties AS other_order,
    '{"a": 1}'::properties = '{"a": 1.0}'::properties AS other_type,
    '{"a": 1}'::properties = '{"a": 1, "b": null}'::properties AS with_null,
    '{"a": 1.0}'::properties = '{"a": 1e0}'::properties AS other_spelling,
    '{"a@odata.type": "Edm.Double", "a": "NaN"}'::properties = '{"a@odata.type": "Edm.Double", "a": "NaN"}'::properties AS nan,
    '{}'::properties <> '{"a": 1}'::properties AS unequal,
    '{}'::properties <> '{}'::properties AS not_unequal;

-- There is a total order; it has no meaning, but makes DISTINCT, GROUP BY, ORDER BY, joins and indexes work.
CREATE TEMPORARY TABLE bags (id integer, bag properties);
INSERT INTO bags SELECT i, jsonb_build_object('V', i % 7, 'W', repeat('x', i % 3 * 1000)) FROM generate_series(1, 1000) AS i;
ANALYZE bags;
SELECT count(*), count(DISTINCT bag) FROM bags;
SELECT count(*) FROM (SELECT DISTINCT bag FROM bags) AS d;
SELECT min(n), max(n), count(*) FROM (SELECT count(*) AS n FROM bags GROUP BY bag) AS g;
SELECT bool_and(bag >= before) AS is_ordered FROM (SELECT bag, lag(bag) OVER (ORDER BY bag) AS before FROM bags) AS o WHERE before IS NOT NULL;
SELECT bool_and((a.bag < b.bag)::int + (a.bag = b.bag)::int + (a.bag > b.bag)::int = 1) AS exactly_one,
    bool_and((a.bag <= b.bag) = (a.bag < b.bag OR a.bag = b.bag)) AS le, bool_and((a.bag >= b.bag) = (a.bag > b.bag OR a.bag = b.bag)) AS ge,
    bool_and((a.bag <> b.bag) = NOT (a.bag = b.bag)) AS ne
FROM bags AS a, bags AS b WHERE a.id <= 30 AND b.id <= 30;
-- Hash, merge and nested-loop joins agree.
SET enable_mergejoin = off; SET enable_nestloop = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM bags AS a JOIN bags AS b USING (bag);
SELECT count(*) FROM bags AS a JOIN bags AS b USING (bag);
RESET enable_mergejoin; SET enable_hashjoin = off;
SELECT count(*) FROM bags AS a JOIN bags AS b USING (bag);
RESET enable_nestloop; SET enable_mergejoin = off;
SELECT count(*) FROM bags AS a JOIN bags AS b USING (bag);
RESET enable_hashjoin; RESET enable_mergejoin;
-- Statistics of the column say how many rows a condition finds.
CREATE FUNCTION pg_temp.estimated(condition text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT json) SELECT FROM kinds WHERE ' || condition INTO plan;
    RETURN plan -> 0 -> 'Plan' ->> 'Plan Rows';
END $$;
CREATE TEMPORARY TABLE kinds AS
    SELECT jsonb_build_object('Id', i, 'Kind', i % 4)::properties || CASE WHEN i % 2 = 0 THEN '{"Even": true}' ELSE '{}' END::properties AS bag FROM generate_series(1, 1000) AS i;
ANALYZE kinds;
SELECT condition, pg_temp.estimated(condition) BETWEEN rows * 0.6 AND rows * 1.6 AS is_near
FROM (VALUES ($$bag ? 'Even'$$, 500), ($$bag ? 'Id'$$, 1000), ($$bag ?| '{Even,x}'$$, 500), ($$bag ?& '{Even,Id}'$$, 500), ($$bag @> '{"Kind": 3}'$$, 250),
    ($$'{"Kind": 3}' <@ bag$$, 250)) AS v (condition, rows);
-- btree and hash indexes.
CREATE INDEX bags_btree ON bags (bag);
SET enable_seqscan = off; SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM bags WHERE bag = '{"V": 3, "W": ""}'::properties;
SELECT count(*) FROM bags WHERE bag = '{"V": 3, "W": ""}'::properties;
DROP INDEX bags_btree;
CREATE INDEX bags_hash ON bags USING hash (bag);
SELECT count(*) FROM bags WHERE bag = '{"V": 3, "W": ""}'::properties;
RESET enable_seqscan; RESET enable_bitmapscan;
-- Hash partitioning, unique constraints, set operations.
CREATE TEMPORARY TABLE parted (bag properties UNIQUE) PARTITION BY HASH (bag);
CREATE TEMPORARY TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TEMPORARY TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parted SELECT bag FROM bags ON CONFLICT DO NOTHING;
SELECT count(*) FROM parted;
SELECT count(*) FROM (SELECT bag FROM bags INTERSECT SELECT bag FROM parted) AS i;

-- Operators are strict: NULL gives NULL.
SELECT NULL::properties -> 'a' IS NULL AS get, :bag ->> NULL IS NULL AS get_text, (NULL::properties ? 'a') IS NULL AS has,
    (NULL::properties ?| '{a}') IS NULL AS has_any, (:bag ?& NULL) IS NULL AS has_all, (:bag @> NULL) IS NULL AS contains, (NULL <@ :bag) IS NULL AS contained,
    (:bag #> NULL) IS NULL AS path, (NULL::properties #>> '{a}') IS NULL AS path_text, (NULL || :bag) IS NULL AS merge, (:bag - NULL::text) IS NULL AS remove, (:bag = NULL) IS NULL AS equal;

-- Without the schema on the search_path the operators need their own.
SET search_path = public;
SELECT '{"a": 1}'::table_service.properties OPERATOR(table_service.->>) 'a' AS a;
\set VERBOSITY terse
SELECT '{"a": 1}'::table_service.properties ->> 'a' AS a;
:state
