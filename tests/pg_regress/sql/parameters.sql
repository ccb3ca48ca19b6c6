-- parameters: values for the names of a filter, so that nobody writes them into its text.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.holds(filter, properties, parameters) says whether an entity passes, whichever way the filter is run, or gives
-- the error.
\getenv directory PG_ABS_SRCDIR
\set filter :directory '/filter.psql'
\set ECHO none
\i :filter
\set ECHO all
SELECT create_table('Filters');

-- A value of each type, equal to that of the entity, and the same name in another type.
SELECT name, pg_temp.holds('V eq @' || name, format('{"V@odata.type": "Edm.%s", "V": %s}', name, value), format('{"%s@odata.type": "Edm.%1$s", "%1$s": %s}', name, value)::properties) AS same,
    pg_temp.holds('V eq @' || name, format('{"V@odata.type": "Edm.%s", "V": %s}', name, value), format('{"%s": "other"}', name)::properties) AS string
FROM (VALUES ('String', '"x"'), ('Int32', '5'), ('Int64', '"5"'), ('Double', '5.0'), ('Boolean', 'true'), ('DateTime', '"2020-01-01T00:00:00.0000001Z"'),
    ('Guid', '"a455c812-1f7a-4f5c-9c3b-0123456789ab"'), ('Binary', '"AQI="')) AS v (name, value);
-- A type is a literal's type: a property widens no literal.
SELECT pg_temp.holds('V eq @v', '{"V": 5}', '{"v@odata.type": "Edm.Int64", "v": "5"}'), pg_temp.holds('V eq @v', '{"V": 5.0}', '{"v@odata.type": "Edm.Int64", "v": "5"}'),
    pg_temp.holds('V ne @v', '{"V": 1.5}', '{"v@odata.type": "Edm.Double", "v": "NaN"}');

-- Text needs no quoting and is never read as a part of the filter.
SELECT parameters, pg_temp.holds('LastName eq @name', '{"LastName": "O''Brien"}', parameters::properties)
FROM (VALUES ('{"name": "O''Brien"}'), ('{"name": "O''''Brien"}'), ('{"name": "x'' or true or ''a'' eq ''a"}'), ('{"name": "@name"}')) AS v (parameters);
SELECT filter_to_sql('LastName eq @name', parameters => '{"name": "O''Brien'' or true\\"}');

-- Where a literal may stand: on the left, bare, repeated, against keys and the Timestamp. As keys they make ranges.
SELECT filter, pg_temp.holds(filter, '{"a": 5}', '{"n": 5, "yes": true, "no": false, "p": "p", "r": "r", "t@odata.type": "Edm.DateTime", "t": "2022-04-13T21:50:14.247704Z"}')
FROM (VALUES ('@n eq a'), ('a eq @n and @n le a'), ('@yes'), ('@no or @yes'), ('not @yes'), ('PartitionKey eq @p and RowKey eq @r'), ('Timestamp eq @t'), ('Timestamp lt @t'),
    ('(a eq @n)and(@yes)'), ('@n eq @n'), ('@n eq 5'), ('@n'), ('@n eq null')) AS v (filter);
SELECT access, key_ranges, residual FROM explain_query('Filters', 'PartitionKey eq @p and RowKey ge @r and a eq @n', '{"p": "O''Brien", "r": "1", "n": 5}');

-- Names are identifiers, with their case; those of no use do not matter.
SELECT pg_temp.holds('a eq @名前_1', '{"a": 5}', '{"名前_1": 5, "unused": 6}');
SELECT filter, pg_temp.holds(filter, '{"a": 5}', '{"n": 5}') FROM (VALUES ('a eq @N'), ('a eq @missing'), ('a eq @'), ('a eq @1'), ('a eq @ n'), ('a eq @@n'), ('a@n'), ('a eq@n')) AS v (filter);
-- One without a value is InvalidInput, also where there are no parameters at all; null is no value.
SELECT count(*) FROM query_entities('Filters', 'a eq @name');
:state
SELECT function, pg_temp.outcome(format(statement, 'NULL')) AS "NULL", pg_temp.outcome(format(statement, '''{"name": null}''')) AS "null"
FROM (VALUES ('query_page', 'SELECT count(*) FROM query_page(''Filters'', ''a eq @name'', parameters => %s)'), ('query_page_json', 'SELECT query_page_json(''Filters'', ''a eq @name'', parameters => %s)'),
    ('explain_query', 'SELECT access FROM explain_query(''Filters'', ''a eq @name'', %s)'), ('filter_to_sql', 'SELECT filter_to_sql(''a eq @name'', parameters => %s)'),
    ('matches', 'SELECT matches(ROW(''p'', ''r'', now(), ''{}'')::entity, ''a eq @name'', %s)'), ('query_tables', 'SELECT count(*) FROM query_tables(''TableName eq @name'', parameters => %s)')) AS v (function, statement);

-- The same filter with other parameters, in one statement and from a table.
DELETE FROM table_service_data."Filters";
SELECT count(insert_entity('Filters', 'p', i::text, jsonb_build_object('N', i))) FROM generate_series(1, 9) AS i;
SELECT n, (SELECT string_agg(row_key, ' ') FROM query_entities('Filters', 'N gt @n', parameters => jsonb_build_object('n', n))) FROM (VALUES (7), (3), (8)) AS v (n);
SELECT n, string_agg(row_key, ' ' ORDER BY row_key) FROM table_service_data."Filters" AS f, (VALUES (7), (3), (8)) AS v (n) WHERE matches(f, 'N gt @n', jsonb_build_object('n', n)) GROUP BY n ORDER BY n;

SELECT delete_table('Filters');
