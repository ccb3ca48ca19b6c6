-- The functions behind operators, casts and constraints, called by name. What they do is told where the operator is; here
-- each gives what its operator gives, and NULL of NULL.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
\pset null NULL

SELECT properties_get(bag, 'a') = bag -> 'a' AS get, properties_get_text(bag, 'a') = bag ->> 'a' AS get_text, has_property(bag, 'a') = (bag ? 'a') AS has,
    merge_properties(bag, '{"b": 2}') = bag || '{"b": 2}'::properties AS merge, remove_property(bag, 'a') = bag - 'a' AS remove,
    remove_properties(bag, '{a}') = bag - ARRAY['a'] AS remove_several
FROM (SELECT '{"a": 1}'::properties AS bag) AS b;
-- A total order, and hashes that go with it.
SELECT bool_and(properties_cmp(a, b) = (a > b)::int - (a < b)::int) AS cmp, bool_and(properties_eq(a, b) = (a = b)) AS eq, bool_and(properties_ne(a, b) = (a <> b)) AS ne,
    bool_and(properties_lt(a, b) = (a < b)) AS lt, bool_and(properties_le(a, b) = (a <= b)) AS le, bool_and(properties_gt(a, b) = (a > b)) AS gt,
    bool_and(properties_ge(a, b) = (a >= b)) AS ge, bool_and((properties_hash(a) = properties_hash(b)) = (a = b)) AS hash,
    bool_and((properties_hash_extended(a, 7) = properties_hash_extended(b, 7)) = (a = b)) AS hash_extended
FROM unnest(ARRAY['{}', '{"a": 1}', '{"a": 2}', '{"a": "x"}', '{"b": 1}']::properties[]) AS a, unnest(ARRAY['{}', '{"a": 1}', '{"b": 1}']::properties[]) AS b;
SELECT properties_hash_extended('{}', 7) <> properties_hash_extended('{}', 8) AS seed_matters;
-- Casts.
SELECT properties_from_jsonb('{"a": 1.0}'), properties_to_text('{"a": -0.0}'), properties_to_jsonb('{"a": -0.0}');
SELECT properties_from_json('{"a": 1.0}'), properties_to_json('{"a": -0.0}'), properties_from_json(NULL), properties_to_json(NULL);
-- Operators of jsonb, and subscripts.
SELECT properties_contains('{"a": 1, "b": 2}', '{"a": 1}'), properties_contained('{"a": 1}', '{"a": 2}'), properties_get_path('{"a": 1}', '{a}'),
    properties_get_path_text('{"a": "x"}', '{a}'), has_all_properties('{"a": 1}', '{a,b}'), has_any_property('{"a": 1}', '{a,b}');
SELECT typsubscript = 'properties_subscript'::regproc AS has_subscripts FROM pg_type WHERE oid = 'properties'::regtype;
-- What statements of the extension test: whether a merge stays within the limits, and whether a row passes a filter.
SELECT merge_fits('p', 'r', '{"a": 1}', '{"b": 1}') AS fits,
    merge_fits('p', 'r', (SELECT jsonb_object_agg('n' || i, i) FROM generate_series(1, 252) AS i), '{"more": 1}') AS one_too_many;
SELECT entity_passes('p', 'r', now(), '{"a": 1}', 'a eq 1') AS passes, entity_passes('p', 'r', now(), '{"a": 1}', 'a eq 2') AS does_not;

-- NULL in, NULL out.
SELECT properties_get(NULL, 'a'), properties_get_text('{}', NULL), has_property(NULL, 'a'), merge_properties('{}', NULL), remove_property(NULL, 'a'), remove_properties(NULL, '{a}');
SELECT properties_cmp('{}', NULL), properties_eq(NULL, '{}'), properties_hash(NULL), properties_hash_extended(NULL, 1), properties_from_jsonb(NULL), properties_to_text(NULL), properties_to_jsonb(NULL);
SELECT get_int32(NULL, 'a'), get_int64(NULL, 'a'), get_double(NULL, 'a'), get_boolean(NULL, 'a'), get_datetime(NULL, 'a'), get_ticks(NULL, 'a'), get_guid(NULL, 'a'), get_binary('{}', NULL);
SELECT merge_fits('p', 'r', '{}', NULL), next_timestamp(NULL, now()), entity_is_valid('p', 'r', now(), NULL);
