-- explain_query: what a query reads. An OR of points and ranges is as many seeks in the primary key, never a scan of the
-- table.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
-- A new table, without statistics.
SELECT create_table('Employees');
-- The name of the primary key is made of a hash.
CREATE FUNCTION pg_temp.explain(filter text) RETURNS TABLE (explained text) LANGUAGE sql AS $$
    SELECT concat_ws(E'\n', access, array_to_string(key_ranges, E'\n'), 'residual: ' || coalesce(residual, 'none'), plan)
    FROM explain_query('Employees', filter)
$$;

-- The classes of access.
SELECT filter, access, key_ranges, residual
FROM (VALUES (NULL), (''), ('false'), ('PartitionKey eq ''a'' and PartitionKey eq ''b'''), ('RowKey lt '''''), ('PartitionKey eq ''a'' and RowKey eq ''1'''), ('PartitionKey eq ''a'''),
    ('PartitionKey eq ''a'' and RowKey gt ''1'''), ('PartitionKey eq ''a'' and RowKey ne ''1'''), ('PartitionKey gt ''a'''), ('PartitionKey ge ''a'' and PartitionKey lt ''b'''),
    ('PartitionKey ne ''a'''), ('RowKey eq ''1'''), ('Age gt 30'), ('PartitionKey eq ''a'' and Age gt 30'), ('PartitionKey eq ''a'' and RowKey eq ''1'' and Age gt 30'),
    ('PartitionKey eq ''a'' or Age gt 30'), ('not (PartitionKey eq ''a'')'), ('PartitionKey eq 5'), ('PartitionKey ne 5'), ('PartitionKey eq ''a'' and not (RowKey le 5)'), ('true')) AS v (filter),
    LATERAL explain_query('Employees', filter);
-- Ranges from the whole structure: sorted, merged, apart.
SELECT filter, access, key_ranges, residual
FROM (VALUES ('(PartitionKey eq ''a'' and RowKey eq ''1'') or (PartitionKey eq ''b'' and RowKey ge ''5'')'), ('PartitionKey eq ''b'' or PartitionKey eq ''a'' or PartitionKey eq ''b'''),
    ('PartitionKey eq ''a'' and (RowKey lt ''3'' or RowKey ge ''2'' and RowKey le ''5'' or RowKey gt ''7'')'), ('(PartitionKey eq ''a'' or PartitionKey eq ''b'') and (RowKey eq ''1'' or RowKey eq ''2'')'),
    ('PartitionKey eq ''a'' and not (RowKey ge ''3'' and RowKey lt ''5'')'), ('PartitionKey lt ''m'' and not (PartitionKey eq ''a'' and RowKey eq ''1'')'),
    ('(PartitionKey eq ''a'' and Age gt 30) or (PartitionKey eq ''b'' and RowKey eq ''1'')'), ('PartitionKey eq ''a'' and (Age gt 30 or RowKey eq ''1'')')) AS v (filter), LATERAL explain_query('Employees', filter);

-- The plans, on a new table without statistics.
SELECT explained FROM pg_temp.explain('PartitionKey eq ''a'' and RowKey eq ''1''');
SELECT explained FROM pg_temp.explain('(PartitionKey eq ''a'' and RowKey eq ''1'') or (PartitionKey eq ''b'' and RowKey ge ''5'' and RowKey lt ''6'') or (PartitionKey eq ''c'' and Age gt 30) or PartitionKey gt ''x''');
SELECT explained FROM pg_temp.explain('PartitionKey ge ''a'' and not (PartitionKey eq ''a'' and RowKey le ''1'') and not (PartitionKey ge ''b'' and not (PartitionKey eq ''b'' and RowKey lt ''1''))');
SELECT explained FROM pg_temp.explain('Age gt 30');
SELECT explained FROM pg_temp.explain('false');
-- And the statements.
SELECT sql FROM explain_query('Employees', '(PartitionKey eq ''O''''Brien'' and RowKey eq ''1'' or PartitionKey eq ''b'') and Age gt 30');

-- Nothing but scans of the primary key, whatever the filter: when the table is new, after ANALYZE, and with many rows.
CREATE TEMPORARY TABLE filters AS SELECT string_agg(format('(PartitionKey eq ''p%s'' and RowKey %s ''%s'')', i % 5, op, i), ' or ') AS filter
FROM generate_series(1, 50) AS i, unnest(ARRAY['eq', 'ge', 'lt', 'ne']) AS op GROUP BY op
UNION ALL VALUES ('PartitionKey gt ''p1'' and PartitionKey lt ''p3'''), ('RowKey eq ''1'''), ('Age gt 30'), ('');
CREATE FUNCTION pg_temp.scans() RETURNS TABLE (scans text) LANGUAGE sql AS $$
    SELECT DISTINCT substring(line, '^[^:]*$') FROM filters, LATERAL explain_query('Employees', filter), regexp_split_to_table(plan, E'\n') AS line WHERE line NOT LIKE ' %'
$$;
SELECT * FROM pg_temp.scans();
INSERT INTO table_service_data."Employees" SELECT 'p' || i % 5, i::text, clock_timestamp(), format('{"Age": %s}', i % 100)::properties FROM generate_series(1, 2000) AS i;
SELECT * FROM pg_temp.scans();
ANALYZE table_service_data."Employees";
SELECT * FROM pg_temp.scans();
-- What the session prefers does not matter.
BEGIN;
SET LOCAL enable_indexscan = off;
SET LOCAL random_page_cost = 100;
SET LOCAL plan_cache_mode = force_custom_plan;
SELECT * FROM pg_temp.scans();
ROLLBACK;

-- parameters and errors.
SELECT access, key_ranges, residual FROM explain_query('Employees', 'PartitionKey eq @p and Age gt @age', '{"p": "a", "age": 30}');
SELECT statement, pg_temp.outcome(statement)
FROM (VALUES ('SELECT explain_query(''Employees'', ''a b'')'), ('SELECT explain_query(''Nobody'', ''a'')'), ('SELECT explain_query(NULL, ''a'')'), ('SELECT explain_query(''Employees'', ''a eq @b'')')) AS v (statement);

SELECT delete_table('Employees');
