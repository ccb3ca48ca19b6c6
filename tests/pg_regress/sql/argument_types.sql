-- Every function and operator that takes properties takes a literal, a bag, jsonb and json there: no such call is ambiguous, and all
-- reach the same function or operator. The catalog says which there are, so what is new is here too.
\pset format unaligned
\pset fieldsep ' | '
\pset footer off
CREATE TEMPORARY TABLE forms (form text, expression text);
INSERT INTO forms VALUES ('literal', $$'{"a": 1}'$$), ('text', $$'{"a": 1}'::text::properties$$), ('jsonb', $$'{"a": 1}'::jsonb$$), ('json', $$'{"a": 1}'::json$$), ('NULL', 'NULL');
-- Where a view can be made of an expression, what it depends on says which function or operator was found.
CREATE FUNCTION pg_temp.found(catalog regclass, expression text) RETURNS oid LANGUAGE plpgsql AS $$
DECLARE
    result oid;
BEGIN
    EXECUTE 'CREATE TEMPORARY VIEW called AS SELECT ' || expression || ' AS result';
    SELECT d.refobjid INTO result
    FROM pg_rewrite AS r JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = catalog
    WHERE r.ev_class = 'called'::regclass
        AND d.refobjid NOT IN (SELECT castfunc FROM pg_cast);
    DROP VIEW called;
    RETURN result;
END $$;

-- Functions, by a name on the search path. Arguments of other types are NULL of their type.
SELECT p.oid::regprocedure::text AS function, string_agg(f.form, ' ' ORDER BY f.form) FILTER (WHERE pg_temp.found('pg_proc', format('(SELECT count(*) FROM %I(%s))', p.proname,
    (SELECT string_agg(CASE WHEN t.type = 'properties'::regtype THEN f.expression ELSE 'NULL::' || t.type::regtype END, ', ' ORDER BY t.ordinality)
        FROM unnest(p.proargtypes) WITH ORDINALITY AS t (type, ordinality)))) = p.oid) AS found_with
FROM pg_proc AS p, forms AS f
WHERE p.pronamespace = 'table_service'::regnamespace AND 'properties'::regtype = ANY (p.proargtypes) AND p.prokind = 'f' AND p.oid NOT IN (SELECT castfunc FROM pg_cast)
GROUP BY p.oid ORDER BY p.oid::regprocedure::text COLLATE "C";

-- Operators: a bag on one side, and any form where the operator takes a bag on the other.
SELECT o.oid::regoperator::text AS operator, string_agg(f.form, ' ' ORDER BY f.form) FILTER (WHERE pg_temp.found('pg_operator', format('%s %s %s', bag, o.oprname,
        CASE WHEN o.oprright = 'properties'::regtype THEN f.expression ELSE 'NULL::' || o.oprright::regtype END)) = o.oid) AS found_with_right,
    string_agg(f.form, ' ' ORDER BY f.form) FILTER (WHERE o.oprright = 'properties'::regtype AND pg_temp.found('pg_operator', format('%s %s %s', f.expression, o.oprname, bag)) = o.oid)
        AS found_with_left
FROM pg_operator AS o, forms AS f, (VALUES ($$'{"b": 2}'::properties$$)) AS v (bag)
WHERE o.oprnamespace = 'table_service'::regnamespace
GROUP BY o.oid ORDER BY o.oid::regoperator::text COLLATE "C";
-- Literals on the right of operators that take texts.
SELECT pg_typeof(p -> 'a') AS get, pg_typeof(p ->> 'a') AS get_text, pg_typeof(p ? 'a') AS has, pg_typeof(p - 'a') AS less, pg_typeof(p - '{a}'::text[]) AS less_several,
    pg_typeof(p ?| '{a}') AS has_any, pg_typeof(p ?& '{a}') AS has_all, pg_typeof(p #> '{a}') AS path, pg_typeof(p #>> '{a}') AS path_text
FROM (SELECT '{"b": 2}'::properties) AS v (p);

-- What json and jsonb can do by themselves stays theirs.
SELECT pg_typeof(j -> 'a') AS get, j ->> 'a' AS get_text, pg_typeof(j #> '{a}') AS path, j || 'x' AS text, pg_typeof(to_json(j)) AS to_json, pg_typeof(coalesce(j, '{}')) AS coalesce
FROM (SELECT '{"a": 1}'::json) AS v (j);
SELECT pg_typeof(j -> 'a') AS get, j ->> 'a' AS get_text, pg_typeof(j #> '{a}') AS path, pg_typeof(j || '{"b": 2}') AS merged, j @> '{"a": 1.0}' AS contains, '{"a": 1.0}' <@ j AS contained,
    j ? 'a' AS has, j ?| ARRAY['a'] AS has_any, j ?& '{a}' AS has_all, pg_typeof(j - 'a') AS less, pg_typeof(j - '{a}'::text[]) AS less_several, j = '{"a": 1.0}' AS equal, pg_typeof(j['a']) AS subscript
FROM (SELECT '{"a": 1}'::jsonb) AS v (j);
-- A bag beside them is a bag.
SELECT pg_typeof(coalesce(NULL::json, p)) AS json, pg_typeof(coalesce(p, NULL::jsonb)) AS jsonb, pg_typeof(CASE WHEN true THEN p ELSE '{}' END) AS literal, pg_typeof(p || '{}') AS merged
FROM (SELECT '{"a": 1}'::properties) AS v (p);

-- Parameters of a prepared statement: with a type, and without one.
SELECT create_table('Employees');
PREPARE as_json (json) AS SELECT insert_or_merge_entity('Employees', 'p', 'r', $1) IS NOT NULL AS merged, '{"a": 1}' || $1 AS text, '{"a": 1}'::properties || $1 AS bag, '{"a": 1}'::properties @> $1 AS contains;
EXECUTE as_json ('{"a": 1}');
PREPARE as_jsonb (jsonb) AS SELECT insert_or_merge_entity('Employees', 'p', 'r', $1) IS NOT NULL AS merged, '{"a": 1}'::properties || $1 AS bag, '{"a": 1}'::properties @> $1 AS contains;
EXECUTE as_jsonb ('{"a": 1}');
PREPARE as_it_is AS SELECT insert_or_merge_entity('Employees', 'p', 'r', $1) IS NOT NULL AS merged, '{"a": 1}'::properties || $1 AS bag, '{"a": 1}'::properties @> $1 AS contains;
EXECUTE as_it_is ('{"a": 1}');
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'as_it_is';
DEALLOCATE ALL;
SELECT delete_table('Employees');
