-- $filter: the grammar, the comparisons, the errors. Each case has the name of its row in the reference of the Table
-- service's semantics; a test counts them.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.holds(filter, properties) says whether an entity passes, whichever way the filter is run, or gives the error.
\getenv directory PG_ABS_SRCDIR
\set filter :directory '/filter.psql'
\set ECHO none
\i :filter
\set ECHO all
SELECT create_table('Filters');

-- Grammar.

\echo '6.2 empty'
SELECT filter, pg_temp.holds(filter) FROM (VALUES (NULL), (''), (' '), (E'\t\r\n'), (U&'\00A0')) AS v (filter);

\echo '6.2 case-sensitive'
SELECT filter, pg_temp.holds(filter, '{"a": 1, "b": 2}')
FROM (VALUES ('a eq 1'), ('a EQ 1'), ('a Eq 1'), ('a eq 1 AND b eq 2'), ('a eq 1 Or b eq 2'), ('NOT a'), ('Not a eq 1'), ('A eq 1')) AS v (filter);
-- What is no keyword is a property.
SELECT pg_temp.holds('Eq eq 1 and True and Null eq ''x'' and nan eq 1', '{"Eq": 1, "True": true, "Null": "x", "nan": 1}');

\echo '6.2 or'
SELECT bag, pg_temp.holds('a eq 1 or b eq 2 or c eq 3', bag) FROM (VALUES ('{"a": 1}'), ('{"b": 2}'), ('{"c": 3}'), ('{"a": 2}')) AS v (bag);

\echo '6.2 and'
SELECT bag, pg_temp.holds('a eq 1 and b eq 2 and c eq 3', bag)
FROM (VALUES ('{"a": 1, "b": 2, "c": 3}'), ('{"a": 1, "b": 2, "c": 4}'), ('{"a": 1, "b": 2}')) AS v (bag);

\echo '6.2 precedence'
SELECT bag, pg_temp.holds('a or b and c', bag), pg_temp.holds('(a or b) and c', bag), pg_temp.holds('c and b or a', bag)
FROM (VALUES ('{"a": true}'), ('{"b": true}'), ('{"b": true, "c": true}'), ('{"a": true, "c": true}')) AS v (bag);

\echo '6.2 cmp'
SELECT filter, pg_temp.holds(filter, '{"a": 1, "b": true}')
FROM (VALUES ('b'), ('(b)'), ('((a eq 1))'), ('((b))and((a eq 1))'), ('a eq 1 eq 1'), ('(b) eq true'), ('a eq (1)'), ('()'), ('1'), ('''x'''), ('a eq'), ('eq 1'),
    ('(a eq 1'), ('a eq 1)')) AS v (filter);

\echo '6.2 op'
SELECT op, pg_temp.holds('a ' || op || ' 4', '{"a": 5}') AS "5 op 4", pg_temp.holds('a ' || op || ' 5', '{"a": 5}') AS "5 op 5",
    pg_temp.holds('a ' || op || ' 6', '{"a": 5}') AS "5 op 6"
FROM (VALUES ('eq'), ('ne'), ('gt'), ('ge'), ('lt'), ('le')) AS v (op);
SELECT filter, pg_temp.holds(filter) FROM (VALUES ('a = 1'), ('a == 1'), ('a != 1'), ('a > 1'), ('a like ''x'''), ('a in 1'), ('a is 1')) AS v (filter);

\echo '6.2 whitespace'
SELECT filter, pg_temp.holds(filter, '{"a": 1, "b": 2, "c": true}')
FROM (VALUES (E' a  eq\t1\r\nand   not(b eq 3)and(c)'), ('(a eq 1)and(b eq 2)'), ('a eq 1and b eq 2'), ('c and b eq 2or a'), ('a eq''x'''), ('a eq-5'), ('a eq 1 andc'),
    ('notc'), ('not c'), ('not(c)')) AS v (filter);

\echo '6.2 not'
SELECT filter, pg_temp.holds(filter, '{"a": 1, "b": true}'), pg_temp.holds(filter, '{"a": 2, "b": false}')
FROM (VALUES ('not (a eq 1)'), ('not a eq 1'), ('not b'), ('not (a eq 1) and b'), ('not a eq 1 and b'), ('not (a eq 1 and b)'), ('not (a eq 1 or b)'), ('a eq 1 and not b'),
    ('not'), ('not and b'), ('a not eq 1'), ('a eq not 1')) AS v (filter);

\echo '6.2 not not'
SELECT filter, pg_temp.holds(filter, '{"a": true}'), pg_temp.holds(filter, '{"a": false}'), pg_temp.holds(filter)
FROM (VALUES ('not not a'), ('not not not a'), ('not (not (not a))'), ('not not (a eq false)')) AS v (filter);

\echo '6.2 functions'
SELECT filter, pg_temp.holds(filter)
FROM (VALUES ('startswith(a, ''x'')'), ('substringof(''x'', a) eq true'), ('length(a) eq 5'), ('a eq length(b)'), ('a add 1 eq 2'), ('a eq 1 sub 2'), ('a mul 1 eq 2'),
    ('a div 1 eq 2'), ('a mod 2 eq 0'), ('-a eq 1')) AS v (filter);
SELECT pg_temp.holds('mod eq 1 and length eq 2', '{"mod": 1, "length": 2}');

\echo '6.2 property'
SELECT name, pg_temp.holds(name || ' eq 1', json_build_object(name, 1)::text)
FROM (VALUES ('a'), ('_'), ('_1'), ('été'), ('名前'), (U&'a\0300'), ('X'), ('datetime'), ('guid'), ('binary'), ('L'), ('timestamp'), ('partitionkey')) AS v (name);
SELECT filter, pg_temp.holds(filter) FROM (VALUES ('a-b eq 1'), ('a.b eq 1'), ('a/b eq 1'), ('😀 eq 1'), ('"a" eq 1'), ('[a] eq 1'), ('$a eq 1'), ('1a eq 1')) AS v (filter);

\echo '6.2 system properties'
SELECT filter, pg_temp.holds(filter)
FROM (VALUES ('PartitionKey eq ''p'' and RowKey eq ''r'''), ('PartitionKey gt ''o'' and RowKey lt ''s'''), ('RowKey ne ''r'''), ('not (PartitionKey ge ''q'')'),
    ('Timestamp eq datetime''2022-04-13T21:50:14.247704Z'''), ('Timestamp gt datetime''2022-04-13T21:50:14.2477039Z'''),
    ('Timestamp lt datetime''2022-04-13T21:50:14.2477041Z'''), ('Timestamp ge datetime''2022-04-13T21:50:14.2477041Z'''),
    ('timestamp ge datetime''2001-01-01T00:00:00Z'''), ('partitionkey eq ''p''')) AS v (filter);

\echo '6.2 String'
SELECT filter, pg_temp.holds(filter, '{"a": "o''clock", "b": "", "c": "\\n%27日本 😀", "d": "''"}')
FROM (VALUES ('a eq ''o''''clock'''), ('b eq '''''), ('c eq ''\n%27日本 😀'''), ('d eq '''''''''), ('a eq ''o''clock'''), ('a eq ''b'), ('a eq ''b'''''), ('a eq ''😀''x'), ('a eq "b"'))
    AS v (filter);

\echo '6.2 Int32'
SELECT filter, pg_temp.holds(filter, '{"a": 123, "b": -5, "min": -2147483648, "max": 2147483647}')
FROM (VALUES ('a eq 123'), ('a eq 00123'), ('b eq -5'), ('min eq -2147483648'), ('max eq 2147483647'), ('a eq +123'), ('b eq - 5'), ('a eq 0x7b'), ('a eq 1_2_3')) AS v (filter);

\echo '6.2 Int64'
SELECT filter, pg_temp.holds(filter, '{"a@odata.type": "Edm.Int64", "a": "123", "b": 2147483648, "min": -9223372036854775808, "max": 9223372036854775807, "i": 123}')
FROM (VALUES ('a eq 123L'), ('a eq 123l'), ('i eq 123L'), ('b eq 2147483648'), ('b eq 2147483648L'), ('min eq -9223372036854775808'), ('max eq 9223372036854775807L'),
    ('max eq 9223372036854775808'), ('a eq 1.5L'), ('a eq 123 L'), ('a eq 123LL')) AS v (filter);

\echo '6.2 Double'
SELECT literal, pg_temp.holds('a eq ' || literal, '{"a": 3.0}') AS "3.0", pg_temp.holds('a eq ' || literal, '{"a": 1e10}') AS "1e10"
FROM (VALUES ('3.0'), ('3D'), ('3d'), ('3f'), ('3F'), ('3m'), ('3M'), ('3.0d'), ('0.3e1'), ('30E-1'), ('1e10'), ('1E+10'), ('1e10d'), ('3.'), ('.3e1'), ('3e'), ('3.0x')) AS v (literal);
SELECT literal, pg_temp.holds('a eq ' || literal, '{"a@odata.type": "Edm.Double", "a": "Infinity"}') AS "Infinity",
    pg_temp.holds('a eq ' || literal, '{"a@odata.type": "Edm.Double", "a": "-Infinity"}') AS "-Infinity",
    pg_temp.holds('a ne ' || literal, '{"a@odata.type": "Edm.Double", "a": "NaN"}') AS "NaN, ne"
FROM (VALUES ('INF'), ('-INF'), ('NaN'), ('-NaN'), ('Infinity'), ('1e400')) AS v (literal);

\echo '6.2 Boolean'
SELECT filter, pg_temp.holds(filter, '{"a": true, "b": false}') FROM (VALUES ('a eq true'), ('b eq false'), ('a eq false'), ('b ne true'), ('a eq True'), ('a eq ''true''')) AS v (filter);

\echo '6.2 DateTime'
SELECT literal, pg_temp.holds('a eq ' || literal, '{"a@odata.type": "Edm.DateTime", "a": "2013-08-22T01:12:06.2608595Z"}') AS "…06.2608595Z",
    pg_temp.holds('a eq ' || literal, '{"a@odata.type": "Edm.DateTime", "a": "2013-08-22T01:12:06Z"}') AS "…06Z"
FROM (VALUES ('datetime''2013-08-22T01:12:06.2608595Z'''), ('datetime''2013-08-22T01:12:06.2608595'''), ('datetime''2013-08-22T03:12:06.2608595+02:00'''),
    ('datetime''2013-08-22T01:12:06Z'''), ('datetime''2013-08-22T01:12:06'''), ('datetime''2013-08-22T01:12:06.0Z'''), ('datetime''2013-08-22T01:12:06.0000000Z'''),
    ('datetime''2013-08-21T18:12:06-07:00'''), ('DateTime''2013-08-22T01:12:06Z'''), ('datetime ''2013-08-22T01:12:06Z'''), ('''2013-08-22T01:12:06Z''')) AS v (literal);
-- Unlike a stored value, a literal may lie before 1601.
SELECT pg_temp.holds('Timestamp gt datetime''0001-01-01T00:00:00Z'' and Timestamp lt datetime''9999-12-31T23:59:59.9999999Z''');

\echo '6.2 Guid'
SELECT literal, pg_temp.holds('a eq ' || literal, '{"a@odata.type": "Edm.Guid", "a": "a455c812-1f7a-4f5c-9c3b-0123456789ab"}')
FROM (VALUES ('guid''a455c812-1f7a-4f5c-9c3b-0123456789ab'''), ('guid''A455C812-1F7A-4F5C-9C3B-0123456789AB'''), ('Guid''a455c812-1f7a-4f5c-9c3b-0123456789ab'''),
    ('''a455c812-1f7a-4f5c-9c3b-0123456789ab''')) AS v (literal);

\echo '6.2 Binary'
SELECT literal, pg_temp.holds('a eq ' || literal, '{"a@odata.type": "Edm.Binary", "a": "Chs="}') AS "0A1B", pg_temp.holds('a eq ' || literal, '{"a@odata.type": "Edm.Binary", "a": ""}') AS "empty"
FROM (VALUES ('X''0A1B'''), ('x''0a1b'''), ('binary''0a1B'''), ('X'''''), ('binary'''''), ('Binary''0A1B'''), ('''0A1B''')) AS v (literal);

\echo '6.2 null'
SELECT filter, pg_temp.holds(filter) FROM (VALUES ('null'), ('not null'), ('null eq a'), ('a eq 1 or null'), ('null eq null'), ('1 ne null'), ('null eq 1 and (')) AS v (filter);

\echo '6.2 SDK helpers'
SELECT pg_temp.holds('((((((((S eq ''o''''x'') and (L eq 123L)) and (I eq 5)) and (D eq 3.0)) and (B eq true)) and (T eq datetime''2020-01-01T00:00:00.0000000Z'')) and '
    '(G eq guid''a455c812-1f7a-4f5c-9c3b-0123456789ab'')) and (X eq X''0aff''))',
    '{"S": "o''x", "L@odata.type": "Edm.Int64", "L": "123", "I": 5, "D": 3.0, "B": true, "T@odata.type": "Edm.DateTime", "T": "2020-01-01T00:00:00Z",
      "G@odata.type": "Edm.Guid", "G": "a455c812-1f7a-4f5c-9c3b-0123456789ab", "X@odata.type": "Edm.Binary", "X": "Cv8="}');

-- Comparisons.

\echo '6.3.1'
SELECT op, pg_temp.holds('a ' || op || ' 1') AS "absent", pg_temp.holds('not (a ' || op || ' 1)') AS "not", pg_temp.holds('a ' || op || ' 1 or b eq 2', '{"b": 2}') AS "or"
FROM (VALUES ('eq'), ('ne'), ('gt'), ('ge'), ('lt'), ('le')) AS v (op);
SELECT filter, pg_temp.holds(filter) FROM (VALUES ('a'), ('not a'), ('not (a eq 1) and not (a ne 1)'), ('not (a eq 1 or a ne 1)')) AS v (filter);
-- A property that was given as null is absent.
SELECT pg_temp.holds('a eq 1', '{"a": null}'), pg_temp.holds('a ne 1', '{"a": null}'), pg_temp.holds('not (a eq 1)', '{"a": null}');

\echo '6.3.2 String'
SELECT filter, pg_temp.holds(filter, '{"a": "b", "e": "é", "smile": "😀"}')
FROM (VALUES ('a gt ''B'''), ('a lt ''bB'''), ('a eq ''B'''), ('a gt '''''), ('a lt ''ä'''), ('a lt ''c'''), (U&'e eq ''e\0301'''), ('e gt ''z'''),
    -- By UTF-16 units: U+1F600 begins with D83D.
    (U&'smile lt ''\E000'''), (U&'smile lt ''\FFFD'''), (U&'smile gt ''\D7FF'''), (U&'smile lt ''\+01F601''')) AS v (filter);

\echo '6.3.2 Boolean'
SELECT op, pg_temp.holds('a ' || op || ' true', '{"a": false}') AS "false op true", pg_temp.holds('a ' || op || ' false', '{"a": true}') AS "true op false",
    pg_temp.holds('a ' || op || ' true', '{"a": true}') AS "true op true"
FROM (VALUES ('eq'), ('ne'), ('gt'), ('ge'), ('lt'), ('le')) AS v (op);

\echo '6.3.2 Guid'
SELECT filter, pg_temp.holds(filter, '{"a@odata.type": "Edm.Guid", "a": "01000000-0000-0000-0000-000000000000"}')
FROM (VALUES ('a gt guid''00ffffff-ffff-ffff-ffff-ffffffffffff'''), ('a lt guid''01000000-0000-0000-0000-000000000001'''), ('a lt guid''01000000-0000-0000-0100-000000000000'''),
    ('a lt guid''01000000-0100-0000-0000-000000000000'''), ('a lt guid''f1000000-0000-0000-0000-000000000000''')) AS v (filter);

\echo '6.3.2 Binary'
SELECT filter, pg_temp.holds(filter, '{"a@odata.type": "Edm.Binary", "a": "CgE="}')
FROM (VALUES ('a eq X''0A01'''), ('a gt X''0A'''), ('a gt X'''''), ('a lt X''0A0100'''), ('a lt X''0B'''), ('a lt X''FF'''), ('a gt X''09FFFF''')) AS v (filter);

\echo '6.3.2 DateTime'
SELECT filter, pg_temp.holds(filter, '{"a@odata.type": "Edm.DateTime", "a": "2020-01-01T00:00:00.0000001Z"}')
FROM (VALUES ('a gt datetime''2020-01-01T00:00:00Z'''), ('a lt datetime''2020-01-01T00:00:00.0000002Z'''), ('a eq datetime''2020-01-01T00:00:00.0000001Z'''),
    ('a eq datetime''2020-01-01T00:00:00Z'''), ('a eq datetime''2020-01-01T01:00:00.0000001+01:00'''), ('a gt datetime''1600-01-01T00:00:00Z''')) AS v (filter);

\echo '6.3.2 Double'
SELECT filter, pg_temp.holds(filter, '{"a": 1.0, "zero": 0.0, "big": 1.7e308, "nan@odata.type": "Edm.Double", "nan": "NaN"}')
FROM (VALUES ('zero eq -0.0'), ('big lt INF and big gt -INF'), ('a ne NaN'), ('a lt NaN'), ('a gt NaN'), ('not (a ge NaN)'), ('nan eq NaN'), ('nan ne NaN'), ('nan ne 1.0'), ('nan lt 1.0'),
    ('nan le 1.0'), ('nan gt 1.0'), ('nan ge 1.0'), ('nan eq 1'), ('nan lt 1L'), ('nan gt INF'), ('a gt 0.9999999999999999')) AS v (filter);

\echo '6.3.3 Int32'
SELECT filter, pg_temp.holds(filter, '{"a": 3}') FROM (VALUES ('a eq 3'), ('a eq 3L'), ('a lt 1L'), ('a eq 3.0'), ('a le 1.0'), ('a ge 2.0')) AS v (filter);

\echo '6.3.3 Int64'
SELECT filter, pg_temp.holds(filter, '{"a@odata.type": "Edm.Int64", "a": "3"}')
FROM (VALUES ('a eq 3'), ('a gt 2'), ('a eq 3L'), ('a gt 2L'), ('a eq 3.0'), ('a lt 1.0'), ('a ge 2.0')) AS v (filter);

\echo '6.3.3 Double'
SELECT filter, pg_temp.holds(filter, '{"a": 3.0, "big": 9007199254740992.0}')
FROM (VALUES ('a eq 3'), ('a gt 2'), ('a eq 3L'), ('a gt 2L'), ('a eq 3.0'), ('a lt 3.5'), ('big eq 9007199254740993L'), ('big lt 9007199254740994L')) AS v (filter);

\echo '6.3.4'
SELECT filter, string_agg(pg_temp.holds(replace(filter, 'OP', op), bag), ' ' ORDER BY n) AS "eq ne lt le gt ge"
FROM (VALUES ('a OP 5', '{"a": "x"}'), ('a OP ''x''', '{"a": 5}'), ('a OP 3L', '{"a": 3}'), ('a OP 3.0', '{"a": 3}'), ('a OP true', '{"a": 1}'), ('a OP ''true''', '{"a": true}'),
    ('a OP datetime''2020-01-01T00:00:00Z''', '{"a": "2020-01-01T00:00:00Z"}'), ('a OP X''''', '{"a": ""}'),
    -- Keys are strings, the Timestamp is a DateTime.
    ('PartitionKey OP 5', '{}'), ('RowKey OP true', '{}'), ('Timestamp OP ''2022''', '{}'), ('Timestamp OP 5L', '{}')) AS v (filter, bag),
    (VALUES (1, 'eq'), (2, 'ne'), (3, 'lt'), (4, 'le'), (5, 'gt'), (6, 'ge')) AS o (n, op)
GROUP BY filter ORDER BY filter COLLATE "C";

\echo '6.3.5'
SELECT bag, pg_temp.holds('a', bag) AS "a", pg_temp.holds('not a', bag) AS "not a", pg_temp.holds('a eq true', bag) AS "a eq true"
FROM (VALUES ('{"a": true}'), ('{"a": false}'), ('{"a": 1}'), ('{"a": "true"}'), ('{"a": "True"}'), ('{}')) AS v (bag);
SELECT filter, pg_temp.holds(filter) FROM (VALUES ('PartitionKey'), ('not RowKey'), ('Timestamp or RowKey'), ('PartitionKey and (')) AS v (filter);

\echo '6.3.6'
SELECT filter, pg_temp.holds(filter, '{"a": 5}')
FROM (VALUES ('5 eq a'), ('5 ne a'), ('4 lt a'), ('5 lt a'), ('5 le a'), ('6 gt a'), ('5 gt a'), ('5 ge a'), ('''p'' eq PartitionKey'), ('''o'' lt PartitionKey'),
    ('datetime''2001-01-01T00:00:00Z'' lt Timestamp'), ('5L gt a'), ('5L lt a')) AS v (filter);

\echo '6.3.7'
SELECT filter, pg_temp.holds(filter, '{"a": 1}')
FROM (VALUES ('true'), ('false'), ('not true'), ('not false'), ('true and a eq 1'), ('false or a eq 1'), ('a eq 2 or true'), ('a eq 1 and false'), ('not (false or true)')) AS v (filter);

-- Errors.

\echo '6.4 syntax'
SELECT query_entities('Filters', 'aaa bbb ccc');
:state
-- Positions are the ends of the words that have no place, in UTF-16 units.
SELECT filter, pg_temp.holds(filter)
FROM (VALUES ('aéé bbb ccc'), ('a eq ''😀😀'' b'), ('   aaa bbb'), ('a eq 1 b eq 2'), ('and'), ('a and'), ('a and or b'), ('(a'), ('a)'), ('a eq 1;'), ('a eq 1, b'), ('a eq ''x')) AS v (filter);

\echo '6.4 literal glued'
SELECT pg_temp.holds('property1 eq 1''invalid''');

\echo '6.4 shapes'
SELECT filter, pg_temp.holds(filter)
FROM (VALUES ('a eq b'), ('PartitionKey eq RowKey'), ('1 eq 2'), ('''a'' eq ''a'''), ('true eq true'), ('a eq 1 and b lt c'),
    -- A syntax error further on comes first.
    ('a eq b and ('), ('1 eq 2 and)')) AS v (filter);

\echo '6.4 null equality'
SELECT filter, pg_temp.holds(filter) FROM (VALUES ('p eq null'), ('p ne null'), ('null ne p'), ('p eq null and )')) AS v (filter);

\echo '6.4 null order'
SELECT filter, pg_temp.holds(filter) FROM (VALUES ('p lt null'), ('p le null'), ('p gt null'), ('p ge null')) AS v (filter);

\echo '6.4 literal body'
SELECT literal, pg_temp.holds('p eq ' || literal)
FROM (VALUES ('datetime''x'''), ('datetime'''''), ('datetime''2013-02-30T00:00:00Z'''), ('datetime''2013-08-22T01:12:06.26085951Z'''), ('guid''1'''),
    ('guid''{a455c812-1f7a-4f5c-9c3b-0123456789ab}'''), ('X''0A1'''), ('binary''0G'''), ('9223372036854775808L'), ('1e400')) AS v (literal);

\echo '6.4 many comparisons'
SELECT bag, pg_temp.holds((SELECT string_agg('a ne ' || i, ' and ') FROM generate_series(0, 50) AS i), bag) FROM (VALUES ('{"a": 51}'), ('{"a": 50}')) AS v (bag);

SELECT delete_table('Filters');
