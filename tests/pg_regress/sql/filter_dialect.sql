-- table_service.filter_dialect: what a filter may say beyond the service's grammar, where the session asks for it.
\set SHOW_CONTEXT never
-- pg_temp.holds(filter, properties, parameters) says whether an entity passes, whichever way the filter is run, or gives
-- the error.
\getenv directory PG_ABS_SRCDIR
\set filter :directory '/filter.psql'
\set ECHO none
\i :filter
\set ECHO all
SELECT create_table('Filters');

-- The setting is the user's; filters are the service's unless it says otherwise.
SHOW table_service.filter_dialect;
SELECT context, vartype, enumvals, boot_val FROM pg_settings WHERE name = 'table_service.filter_dialect';
SELECT pg_temp.outcome('SET table_service.filter_dialect = odata');
-- There they are what the service answers, and the hint says what to do.
SELECT filter, pg_temp.holds(filter, '{"a": "xyz"}')
FROM (VALUES ('startswith(a, ''x'')'), ('endswith(a, ''z'')'), ('contains(a, ''y'')'), ('substringof(''y'', a)'), ('a in (''xyz'')'), ('a eq null'), ('a ne null'), ('null eq a'), ('length(a) eq 3')) AS v (filter);

SET table_service.filter_dialect = extended;
-- Parts of texts: case and every character count, and a value that is no String has none.
SELECT filter, pg_temp.holds(filter, '{"a": "Straße, 😀"}') AS text, pg_temp.holds(filter, '{"a": 5}') AS number, pg_temp.holds(filter, '{}') AS absent
FROM (VALUES ('startswith(a, ''Stra'')'), ('startswith(a, ''stra'')'), ('startswith(a, '''')'), ('not startswith(a, ''Stra'')'), ('endswith(a, '' 😀'')'), ('not endswith(a, ''x'')'), ('contains(a, ''ße'')'),
    ('contains(a, ''ss'')'), ('not contains(a, ''ss'')'), ('substringof(''aß'', a)'), ('a in (''x'', ''Straße, 😀'')'), ('a in (4, 5)'), ('a in (5L, 5.0)'), ('not a in (''x'')'),
    ('a eq null'), ('a ne null'), ('not (a eq null)'), ('a in (null, 5)')) AS v (filter);
-- With what else a filter says; names may be those of the functions.
SELECT filter, pg_temp.holds(filter, '{"a": "xy", "b": true, "in": 1, "contains": true}')
FROM (VALUES ('b and startswith(a, ''x'') and endswith(a, ''y'')'), ('not b or a in (''z'', ''xy'') and c eq null'), ('in eq 1 and contains and startswith eq null'), ('in in (1)'), ('(contains(a,''x''))and(b)')) AS v (filter);
SELECT filter, pg_temp.holds(filter, '{"a": "O''Brien"}', '{"name": "O''Br", "n": 5}')
FROM (VALUES ('startswith(a, @name)'), ('contains(a, @n)'), ('a in (@n, @name)'), ('a in (@name, ''O''''Brien'')'), ('startswith(a, @missing)')) AS v (filter);
-- Keys and the Timestamp are never absent; the Timestamp is no text.
SELECT filter, pg_temp.holds(filter)
FROM (VALUES ('PartitionKey eq null'), ('RowKey ne null'), ('Timestamp eq null'), ('contains(RowKey, ''r'')'), ('endswith(PartitionKey, ''x'')'), ('startswith(Timestamp, ''2'')'), ('contains(Timestamp, ''2'')')) AS v (filter);
-- What it does not have.
SELECT filter, pg_temp.holds(filter)
FROM (VALUES ('length(a) eq 3'), ('startswith(tolower(a), ''x'')'), ('startswith(''x'', a)'), ('substringof(a, ''x'')'), ('contains(a, 5)'), ('contains(a, ''x'') eq true'), ('contains(a)'), ('contains(a, ''x'''),
    ('a in ()'), ('a in ''x'''), ('a in (''x'' ''y'')'), ('a in (b)'), ('1 in (1)'), ('a gt null'), ('null'), ('a has null')) AS v (filter);

-- A prefix of a key is a seek, a list of keys are points, and a prefix of a property with an index is a span.
SELECT filter, access, key_ranges, residual
FROM (VALUES ('PartitionKey eq ''p'' and startswith(RowKey, ''ab'')'), ('startswith(PartitionKey, ''ab'')'), ('PartitionKey eq ''p'' and RowKey in (''1'', ''2'')'), ('startswith(RowKey, ''\'')'), ('contains(RowKey, ''x'')'),
    ('a ne null'), ('a eq null and startswith(b, ''x'')')) AS v (filter), explain_query('Filters', filter);
DELETE FROM table_service_data."Filters";
SELECT count(insert_entity('Filters', 'p' || i % 3, lpad(i::text, 4, '0'), jsonb_build_object('Name', 'name' || i, 'N', i) - CASE WHEN i % 500 = 0 THEN '' ELSE 'N' END)) FROM generate_series(1, 3000) AS i;
SELECT create_property_index('Filters', 'Name');
SELECT create_property_index('Filters', 'N');
ANALYZE table_service_data."Filters";
SELECT filter, access, residual, string_agg(row_key, ' ' ORDER BY row_key) AS found
FROM (VALUES ('startswith(Name, ''name29'') and endswith(Name, ''99'')'), ('N ne null'), ('contains(Name, ''e250'')'), ('Name in (''name7'', ''name8'', ''name9'')')) AS v (filter), explain_query('Filters', filter), query_entities('Filters', filter)
GROUP BY filter, access, residual ORDER BY filter;

-- Whatever takes a filter takes the session's dialect.
SELECT count_entities('Filters', 'startswith(Name, ''name29'')');
SELECT count(*) FROM query_page('Filters', 'N ne null', top => 3);
SELECT query_page_json('Filters', 'startswith(RowKey, ''001'')', 'RowKey', 2)::jsonb #>> '{value, 1, RowKey}' AS second;
SELECT * FROM query_tables('startswith(TableName, ''FILT'')');
SELECT update_entities('Filters', 'N in (500, 1000)', '{"Marked": true}'), delete_entities('Filters', 'Marked ne null and N eq 1000');
SELECT table_name FROM query_tables('contains(TableName, ''z'')');
SELECT properties FROM patch_entity('Filters', 'p2', '0500', '{"Seen": true}', condition => 'startswith(Name, ''name5'')');
SELECT pg_temp.outcome($$SELECT patch_entity('Filters', 'p2', '0500', '{"Seen": false}', condition => 'N eq null')$$);
SELECT count(*) FROM execute_batch('Filters', 'p2', batch_patch('0500', '{"Seen": 2}', condition => 'Seen ne null'));
SELECT count(*) FROM execute_batch_json('Filters', 'p2', '[{"patch": {"RowKey": "0500", "Seen": 3}, "condition": "Seen in (2)"}]');
-- An operation that was made in one dialect is executed in that of the session.
SELECT batch_patch('0500', '{"Seen": 4}', condition => 'Seen ne null') AS operation \gset
RESET table_service.filter_dialect;
SELECT pg_temp.outcome(format('SELECT execute_batch(''Filters'', ''p2'', %L::batch_operation)', :'operation'));

-- filter_to_sql says what the filter said, wherever its condition is used later.
SET table_service.filter_dialect = extended;
SELECT filter_to_sql('startswith(RowKey, ''001'') and contains(Name, ''7'')') AS condition \gset
\echo :condition
RESET table_service.filter_dialect;
SELECT row_key FROM table_service_data."Filters" WHERE :condition ORDER BY 1;

-- A token of a query names a key alone; one of work in steps belongs to its filter and its dialect.
SET table_service.filter_dialect = extended;
SELECT continuation_token AS token FROM update_entities_step('Filters', 'Name ge ''name''', '{"Stepped": true}', NULL, 10) \gset
RESET table_service.filter_dialect;
SELECT pg_temp.outcome(format('SELECT updated FROM update_entities_step(''Filters'', ''Name ge ''''name'''''', ''{"Stepped": true}'', NULL, 10, %L)', :'token'));
SET table_service.filter_dialect = extended;
SELECT pg_temp.outcome(format('SELECT updated FROM update_entities_step(''Filters'', ''Name ge ''''name'''''', ''{"Stepped": true}'', NULL, 10, %L)', :'token'));

-- A plan that is kept: each execution has the dialect of the session at that time, also where conditions that the filter
-- implies leave no row to test.
PREPARE found AS SELECT count(*) FROM table_service_data."Filters" AS f WHERE matches(f, 'startswith(Name, ''name299'')');
PREPARE page AS SELECT count(*) FROM query_entities('Filters', 'startswith(Name, ''name299'')');
SET plan_cache_mode = force_generic_plan;
EXECUTE found;
EXECUTE page;
SELECT generic_plans > 0 AS is_kept FROM pg_prepared_statements WHERE name = 'found';
SET table_service.filter_dialect = service;
SELECT pg_temp.outcome('EXECUTE found'), pg_temp.outcome('EXECUTE page');
SET table_service.filter_dialect = extended;
EXECUTE found;
RESET plan_cache_mode;
-- A statement that changes the setting under itself.
SELECT pg_temp.outcome(format($$SELECT set_config('table_service.filter_dialect', d, false) || matches(ROW('p', 'r', now(), '{}')::entity, format('%%s eq null', n)) FROM (VALUES ('extended', 'a'), (%L, 'a')) AS v (d, n) OFFSET 1$$, d))
FROM (VALUES ('extended'), ('service')) AS v (d);
SET table_service.filter_dialect = extended;

-- A partial index: in the other dialect it proves nothing, and the call is refused as it is without the index. Nor is a plan
-- kept that rests on it.
CREATE INDEX tens ON table_service_data."Filters" (row_key) WHERE matches("Filters", 'endswith(Name, ''00'')');
CREATE INDEX ones ON table_service_data."Filters" (row_key) WHERE matches(ROW(partition_key, row_key, "timestamp", properties)::entity, 'endswith(Name, ''11'')');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT row_key FROM table_service_data."Filters" AS f WHERE matches(f, 'endswith(Name, ''00'')');
SELECT pg_temp.outcome(format('SELECT count(*) FROM table_service_data."Filters" AS f WHERE matches(%s)', call)) AS extended
FROM (VALUES ('f, ''endswith(Name, ''''00'''')'''), ('ROW(partition_key, row_key, "timestamp", properties)::entity, ''endswith(Name, ''''11'''')''')) AS v (call);
PREPARE by_index AS SELECT count(*) FROM table_service_data."Filters" AS f WHERE matches(f, 'endswith(Name, ''00'')');
SET plan_cache_mode = force_generic_plan;
EXECUTE by_index;
SET table_service.filter_dialect = service;
SELECT pg_temp.outcome('EXECUTE by_index');
RESET plan_cache_mode;
SELECT pg_temp.outcome(format('SELECT count(*) FROM table_service_data."Filters" AS f WHERE matches(%s)', call)) AS service
FROM (VALUES ('f, ''endswith(Name, ''''00'''')'''), ('ROW(partition_key, row_key, "timestamp", properties)::entity, ''endswith(Name, ''''11'''')''')) AS v (call);
-- Its table takes writes in its dialect only. An index on what filter_to_sql gives has none of this.
SELECT pg_temp.outcome($$SELECT insert_entity('Filters', 'p', 'new', '{"Name": "name00"}')$$);
DROP INDEX table_service_data.tens, table_service_data.ones;
SET table_service.filter_dialect = extended;
SELECT filter_to_sql('endswith(Name, ''00'')') AS condition \gset
CREATE INDEX tens ON table_service_data."Filters" (row_key) WHERE :condition;
SET table_service.filter_dialect = service;
SELECT insert_entity('Filters', 'p', 'new', '{"Name": "name00"}') IS NOT NULL AS inserted;
SELECT count(*) FROM table_service_data."Filters" WHERE :condition;
EXPLAIN (COSTS OFF) SELECT row_key FROM table_service_data."Filters" WHERE :condition;

-- A function may have the dialect for itself.
CREATE FUNCTION pg_temp.named(part text) RETURNS bigint LANGUAGE sql SET table_service.filter_dialect = extended AS $$
    SELECT count(*) FROM query_entities('Filters', 'contains(Name, @part)', parameters => jsonb_build_object('part', part)) $$;
SELECT pg_temp.named('e299'), current_setting('table_service.filter_dialect');

SELECT delete_table('Filters');
