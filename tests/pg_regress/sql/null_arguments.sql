-- NULL arguments: where a value is needed they raise. Nothing is silently not written.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SELECT create_table('Employees');
SELECT insert_entity('Employees', 'p', 'r', '{"a": 1}') IS NOT NULL AS inserted;

-- Every call of a function for tables, writes and reads with one NULL: keys are properties that need a value, the rest is
-- invalid input. (The tables and keys exist, so that a NULL is all that is wrong.)
SELECT call, pg_temp.outcome('SELECT ' || call)
FROM (VALUES
    ('create_table(NULL)'), ('create_table(''Other'', NULL)'),
    ('delete_table(NULL)'), ('delete_table(''Employees'', NULL)'),
    ('insert_entity(NULL, ''p'', ''new'', ''{}'')'), ('insert_entity(''Employees'', NULL, ''new'', ''{}'')'), ('insert_entity(''Employees'', ''p'', NULL, ''{}'')'),
    ('insert_entity(''Employees'', ''p'', ''new'', NULL)'),
    ('replace_entity(NULL, ''p'', ''r'', ''{}'', ''*'')'), ('replace_entity(''Employees'', NULL, ''r'', ''{}'', ''*'')'), ('replace_entity(''Employees'', ''p'', NULL, ''{}'', ''*'')'),
    ('replace_entity(''Employees'', ''p'', ''r'', NULL, ''*'')'), ('replace_entity(''Employees'', ''p'', ''r'', ''{}'', NULL)'),
    ('merge_entity(NULL, ''p'', ''r'', ''{}'', ''*'')'), ('merge_entity(''Employees'', NULL, ''r'', ''{}'', ''*'')'), ('merge_entity(''Employees'', ''p'', NULL, ''{}'', ''*'')'),
    ('merge_entity(''Employees'', ''p'', ''r'', NULL, ''*'')'), ('merge_entity(''Employees'', ''p'', ''r'', ''{}'', NULL)'),
    ('insert_or_replace_entity(NULL, ''p'', ''r'', ''{}'')'), ('insert_or_replace_entity(''Employees'', NULL, ''r'', ''{}'')'),
    ('insert_or_replace_entity(''Employees'', ''p'', NULL, ''{}'')'), ('insert_or_replace_entity(''Employees'', ''p'', ''r'', NULL)'),
    ('insert_or_merge_entity(NULL, ''p'', ''r'', ''{}'')'), ('insert_or_merge_entity(''Employees'', NULL, ''r'', ''{}'')'),
    ('insert_or_merge_entity(''Employees'', ''p'', NULL, ''{}'')'), ('insert_or_merge_entity(''Employees'', ''p'', ''r'', NULL)'),
    ('delete_entity(NULL, ''p'', ''r'')'), ('delete_entity(''Employees'', NULL, ''r'')'), ('delete_entity(''Employees'', ''p'', NULL)'),
    ('delete_entity(''Employees'', ''p'', ''r'', NULL)'), ('delete_entity(''Employees'', ''p'', ''r'', ''*'', NULL)'),
    ('get_entity(NULL, ''p'', ''r'')'), ('get_entity(''Employees'', NULL, ''r'')'), ('get_entity(''Employees'', ''p'', NULL)'),
    ('get_entities(NULL, ''p'', ''{r}'')'), ('get_entities(''Employees'', NULL, ''{r}'')'), ('get_entities(''Employees'', ''p'', NULL)'),
    ('get_entities(''Employees'', ''p'', ''{r, NULL}'')'), ('get_entities_by_keys(NULL, ''{p}'', ''{r}'')'), ('get_entities_by_keys(''Employees'', NULL, ''{r}'')'),
    ('get_entities_by_keys(''Employees'', ''{p}'', NULL)'), ('get_entities_by_keys(''Employees'', ''{NULL}'', ''{r}'')'),
    ('write_entities(NULL, ''{p}'', ARRAY[batch_delete(''r'')])'), ('write_entities(''Employees'', NULL, ARRAY[batch_delete(''r'')])'),
    ('write_entities(''Employees'', ''{p}'', NULL)')) AS v (call);

-- Batches and queries likewise; there a NULL that stands for "no filter" or "no limit" is one.
SELECT call, pg_temp.outcome('SELECT ' || call)
FROM (VALUES
    ('execute_batch(NULL, ''p'', batch_delete(''r''))'), ('execute_batch(''Employees'', NULL, batch_delete(''r''))'), ('execute_batch(''Employees'', ''p'', NULL)'),
    ('execute_batch(''Employees'', ''p'', VARIADIC NULL)'), ('execute_batch(''Employees'', ''p'', batch_delete(NULL))'), ('execute_batch(''Employees'', ''p'', batch_delete(''r'', NULL))'),
    ('execute_batch(''Employees'', ''p'', batch_insert(''new'', NULL))'), ('execute_batch(''Employees'', ''p'', batch_merge(''r'', ''{}'', NULL))'),
    ('execute_batch(''Employees'', ''p'', batch_replace(''r'', ''{}'', NULL))'), ('execute_batch(''Employees'', ''p'', batch_insert_or_merge(''r'', NULL))'),
    ('execute_batch(''Employees'', ''p'', batch_insert_or_replace(NULL, ''{}''))'),
    ('execute_batch_json(NULL, ''p'', ''[]'')'), ('execute_batch_json(''Employees'', NULL, ''[]'')'), ('execute_batch_json(''Employees'', ''p'', NULL)'),
    ('count(*) FROM query_entities(NULL)'), ('count(*) FROM query_entities(''Employees'', NULL, NULL, NULL, NULL)'), ('count(*) FROM query_page(NULL)'),
    ('count(*) FROM query_page(''Employees'', NULL, NULL, NULL, NULL, NULL)'), ('query_page_json(NULL)'), ('query_page_json(''Employees'', metadata => NULL)'),
    ('filter_to_sql(NULL)'), ('matches(NULL, ''a eq 1'')'), ('matches(ROW(''p'', ''r'', now(), ''{}'')::entity, NULL)'), ('count(*) FROM explain_query(NULL)'),
    ('count(*) FROM explain_query(''Employees'', NULL, NULL)'), ('partition_statistics(NULL)'), ('count(*) FROM query_tables(NULL, NULL, NULL, NULL)')) AS v (call);

-- Nothing happened.
SELECT table_name FROM query_tables();
SELECT partition_key, row_key, properties FROM table_service_data."Employees";

-- A NULL projection is none.
SELECT properties FROM get_entity('Employees', 'p', 'r', NULL);
SELECT properties FROM get_entities('Employees', 'p', '{r}', NULL);

-- Functions of values are strict: of NULL they are NULL.
SELECT etag(NULL::entity) IS NULL AS etag, etag(NULL::timestamptz) IS NULL AS etag, entity_to_json(NULL) IS NULL AS to_json, entity_to_json(ROW('', '', now(), '{}'), NULL) IS NULL AS level,
    entity_from_json(NULL) IS NULL AS from_json, to_properties(NULL) IS NULL AS to_properties, ticks(NULL) IS NULL AS ticks, from_ticks(NULL) IS NULL AS from_ticks,
    inverted_ticks(NULL) IS NULL AS inverted, from_inverted_ticks(NULL) IS NULL AS from_inverted, retry_delay(NULL) IS NULL AS retry, retry_delay(1, NULL) IS NULL AS backoff;
SELECT count(*) FROM each_property(NULL);

SELECT delete_table('Employees');
