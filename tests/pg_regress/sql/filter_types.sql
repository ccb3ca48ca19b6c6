-- Comparisons of all pairs of types: a property of each of the eight types, and none, against a literal of each.
\set SHOW_CONTEXT never
SELECT create_table('Types');
-- One entity for each type, with the value in the middle of three, and one without the property.
SELECT count(insert_entity('Types', 'p', type, ('{"V@odata.type": "Edm.' || type || '", "V": ' || value || '}')::properties))
FROM (VALUES ('String', '"5"'), ('Int32', '5'), ('Int64', '"5"'), ('Double', '5.0'), ('DateTime', '"2020-01-02T00:00:00Z"'),
    ('Guid', '"00000000-0000-0000-0000-000000000005"'), ('Binary', '"BQ=="')) AS v (type, value);
-- There are only two Booleans.
SELECT insert_entity('Types', 'p', 'Boolean', '{"V": false}') IS NOT NULL AS inserted;
SELECT insert_entity('Types', 'p', 'absent', '{"W": 5}') IS NOT NULL AS inserted;
CREATE TEMPORARY TABLE stored (n integer, type text);
INSERT INTO stored VALUES (1, 'String'), (2, 'Int32'), (3, 'Int64'), (4, 'Double'), (5, 'Boolean'), (6, 'DateTime'), (7, 'Guid'), (8, 'Binary'), (9, 'absent');
-- For each type a literal that is less than the stored value, equal, and greater.
CREATE TEMPORARY TABLE literals (n integer, type text, less text, equal text, greater text);
INSERT INTO literals VALUES (1, 'String', '''4''', '''5''', '''6'''), (2, 'Int32', '4', '5', '6'), (3, 'Int64', '4L', '5L', '6L'), (4, 'Double', '4.5', '5.0', '5.5'),
    (5, 'Boolean', NULL, 'false', 'true'), (6, 'DateTime', 'datetime''2020-01-01T23:59:59.9999999Z''', 'datetime''2020-01-02''', 'datetime''2020-01-02T00:00:00.0000001Z'''),
    (7, 'Guid', 'guid''00000000-0000-0000-0000-000000000004''', 'guid''00000000-0000-0000-0000-000000000005''', 'guid''00000000-0000-0000-0000-000000000006'''),
    (8, 'Binary', 'X''04FF''', 'X''05''', 'X''0500''');

-- Which of the six operators hold: E for eq, N for ne, L for lt, l for le, G for gt, g for ge. So NLl is less, Elg equal,
-- NGg greater. A property that does not compare with a literal is less than any.
CREATE TEMPORARY TABLE operators (n integer, op text, letter text);
INSERT INTO operators VALUES (1, 'eq', 'E'), (2, 'ne', 'N'), (3, 'lt', 'L'), (4, 'le', 'l'), (5, 'gt', 'G'), (6, 'ge', 'g');
CREATE FUNCTION pg_temp.holding(form text, stored_type text, literal text) RETURNS text LANGUAGE sql AS $$
    SELECT coalesce(string_agg(letter, '' ORDER BY n), '')
    FROM operators
    WHERE EXISTS (SELECT FROM query_entities('Types', format(form, op, literal)) WHERE row_key = stored_type)
$$;
CREATE FUNCTION pg_temp.matrix(form text) RETURNS TABLE (stored text, "String" text, "Int32" text, "Int64" text, "Double" text, "Boolean" text, "DateTime" text, "Guid" text, "Binary" text)
LANGUAGE sql AS $$
    SELECT s.type, l[1], l[2], l[3], l[4], l[5], l[6], l[7], l[8]
    FROM stored AS s, LATERAL (
        SELECT array_agg(concat_ws(' ', CASE WHEN less IS NULL THEN '-' ELSE nullif(pg_temp.holding(form, s.type, less), '') END,
            nullif(pg_temp.holding(form, s.type, equal), ''), nullif(pg_temp.holding(form, s.type, greater), '')) ORDER BY n) AS l
        FROM literals) AS results
    ORDER BY s.n
$$;
-- Against a literal that is less, equal, greater.
SELECT * FROM pg_temp.matrix('V %s %s');
-- The literal on the left: the operators swap their sides, so G and L and their like change places.
SELECT * FROM pg_temp.matrix('%2$s %1$s V');
-- Under not each has the other letters, and the absent property all of them.
SELECT * FROM pg_temp.matrix('not (V %s %s)');

-- The predicate as SQL, and matches, say the same for each of the 9 * 23 * 6 * 2 comparisons.
SELECT count(*) AS comparisons, count(*) FILTER (WHERE matches(t, filter) IS DISTINCT FROM EXISTS (SELECT FROM query_entities('Types', filter) AS q WHERE q.row_key = t.row_key)) AS differ
FROM table_service_data."Types" AS t, operators, literals, unnest(ARRAY[less, equal, greater]) AS literal,
    LATERAL (VALUES (format('V %s %s', op, literal)), (format('not V %s %s', op, literal))) AS f (filter)
WHERE literal IS NOT NULL;

SELECT delete_table('Types');
