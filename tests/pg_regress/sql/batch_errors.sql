-- execute_batch: what can be wrong with a batch, which of several errors is reported, and that nothing is left behind.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all

SELECT create_table('Employees');
SELECT count(*) FROM execute_batch('Employees', 'p', batch_insert('a', '{"n": 0}'), batch_insert('b', '{"n": 0}'), batch_insert('c', '{"n": 0}'));
CREATE TEMP TABLE before AS TABLE table_service_data."Employees";

-- The error of an operation has its index before the message, also when there is but one operation.
SELECT operations, pg_temp.outcome(format('SELECT count(*) FROM execute_batch(''Employees'', ''p'', %s)', operations))
FROM unnest(ARRAY[
    'batch_insert(''a'', ''{}'')',
    'batch_replace(''x'', ''{}'', ''*'')',
    'batch_merge(''x'', ''{}'', ''*'')',
    'batch_delete(''x'')',
    'batch_replace(''a'', ''{}'', ''W/"x"'')',
    'batch_merge(''a'', ''{}'', ''W/"x"'')',
    'batch_delete(''a'', ''W/"x"'')',
    -- A missing entity is reported before a wrong version.
    'batch_replace(''x'', ''{}'', ''W/"x"'')',
    'batch_delete(''x'', ''W/"x"'')',
    'batch_insert(''x'', ''{}''), batch_insert(''y'', ''{}''), batch_insert(''a'', ''{}'')',
    'batch_insert(''x'', ''{}''), batch_merge(''y'', ''{}'', ''*'')',
    'batch_merge(''a'', ''{"n": 1}'', ''*''), batch_delete(''b'', ''W/"x"''), batch_insert_or_merge(''z'', ''{}'')']) AS operations;

-- Of several errors that the data decide, that of the lowest index is reported, wherever its key stands.
SELECT operations, pg_temp.outcome(format('SELECT count(*) FROM execute_batch(''Employees'', ''p'', %s)', operations))
FROM unnest(ARRAY[
    'batch_insert(''c'', ''{}''), batch_insert(''b'', ''{}''), batch_insert(''a'', ''{}'')',
    'batch_insert(''a'', ''{}''), batch_insert(''b'', ''{}''), batch_insert(''c'', ''{}'')',
    'batch_merge(''z'', ''{}'', ''*''), batch_insert(''a'', ''{}'')',
    'batch_insert(''z'', ''{}''), batch_delete(''y''), batch_insert(''a'', ''{}''), batch_merge(''b'', ''{}'', ''W/"x"'')',
    'batch_merge(''c'', ''{}'', ''*''), batch_merge(''b'', ''{}'', ''W/"x"''), batch_merge(''a'', ''{}'', ''W/"x"'')',
    'batch_delete(''c'', ''W/"x"''), batch_replace(''0'', ''{}'', ''*''), batch_delete(''b'', ''W/"x"'')',
    'batch_insert_or_merge(''z'', ''{}''), batch_insert(''c'', ''{}''), batch_insert_or_merge(''y'', ''{}''), batch_insert(''a'', ''{}'')']) AS operations;

-- What is wrong without looking at the data comes first, whatever the index.
SELECT operations, pg_temp.outcome(format('SELECT count(*) FROM execute_batch(''Employees'', ''p'', %s)', operations))
FROM unnest(ARRAY[
    'batch_insert(''a'', ''{}''), batch_insert(''x'', ''{}''), batch_insert(''x'', ''{}'')',
    'batch_insert(''a'', ''{}''), batch_delete(''a'')',
    'batch_insert(''a'', ''{}''), batch_insert(''x/y'', ''{}'')',
    'batch_insert(''a'', ''{}''), batch_delete(E''x\ty'')',
    'batch_insert(''x/y'', ''{}''), batch_insert(''x/y'', ''{}''), NULL',
    'batch_insert(''x'', ''{}''), batch_insert(''x'', ''{}''), NULL',
    'batch_insert(''x'', ''{}''), NULL, batch_insert(''x'', ''{}'')',
    -- ... keys too long to insert included. Where an entity must be there, they name none.
    'batch_insert(''a'', ''{}''), batch_insert(repeat(''x'', 1025), ''{}'')',
    'batch_insert(''a'', ''{}''), batch_insert_or_merge(repeat(''x'', 1025), ''{}'')',
    'batch_insert(''x'', ''{}''), batch_delete(repeat(''x'', 1025))',
    'batch_merge(repeat(''x'', 1025), ''{}'', ''*''), batch_insert(''a'', ''{}'')']) AS operations;

-- Tables and partitions.
SELECT * FROM execute_batch('Nobody', 'p', batch_delete('a'), batch_delete('b'));
:state
SELECT * FROM execute_batch('Employees', 'p/q', batch_delete('a'), batch_delete('b'));
:state
SELECT * FROM execute_batch('Employees', repeat('p', 1025), batch_insert('a', '{}'));
:state
SELECT * FROM execute_batch('Employees', repeat('p', 1025), batch_delete('a'));
:state

-- NULLs and nothing.
SELECT * FROM execute_batch(NULL, 'p', batch_delete('a'));
:state
SELECT * FROM execute_batch('Employees', NULL, batch_delete('a'));
:state
SELECT * FROM execute_batch('Employees', 'p', VARIADIC NULL);
:state
SELECT * FROM execute_batch('Employees', 'p', VARIADIC '{}');
:state
SELECT * FROM execute_batch('Employees', 'p', batch_delete('a'), NULL);
:state

-- The constructors check what they are given, and have no index yet.
SELECT statement, pg_temp.outcome('SELECT ' || statement)
FROM unnest(ARRAY[
    'batch_insert(''r'', ''{"a": 1}'')', 'batch_replace(''r'', ''{"a": 1}'', ''*'')', 'batch_merge(''r'', ''{"a": 1}'', ''W/"x"'')',
    'batch_insert_or_replace(''r'', ''{"a": 1}'')', 'batch_insert_or_merge(''r'', ''{"a": 1}'')', 'batch_delete(''r'')',
    'batch_delete(''r'', ''W/"x"'')',
    'batch_insert(NULL, ''{}'')', 'batch_insert(''r'', NULL)', 'batch_delete(NULL)', 'batch_delete(''r'', NULL)',
    'batch_replace(''r'', ''{}'', NULL)', 'batch_merge(''r'', ''{}'', NULL)', 'batch_merge(''r'', ''{}'', ''abc'')', 'batch_delete(''r'', ''"abc"'')']) AS statement;
-- A composite value can be made without them, so it is checked again.
SELECT operation, pg_temp.outcome(format('SELECT count(*) FROM execute_batch(''Employees'', ''p'', batch_insert(''x'', ''{}''), %L::batch_operation)', operation))
FROM unnest(ARRAY['(,a,,*)', '(update,a,{},)', '(INSERT,a,{},)', '(insert,,{},)', '(insert,y,,)', '(insert,y,{},*)', '(insert_or_merge,y,{},*)',
    '(merge,a,{},)', '(replace,a,,*)', '(delete,a,,)', '(delete,a,,abc)', '(delete,nobody,{},*)']) AS operation;

-- More than 100 operations are reported before anything else.
SELECT pg_temp.outcome('SELECT count(*) FROM execute_batch(''Employees'', ''p'', VARIADIC
    (SELECT array_agg(batch_insert(''a'', ''{}'')) FROM generate_series(1, 101)))');
SELECT pg_temp.outcome('SELECT count(*) FROM execute_batch(''Nobody'', ''p/q'', VARIADIC
    (SELECT array_agg(NULL::batch_operation) FROM generate_series(1, 101)))');
-- In the typed form, what counts for the 4 MiB are bags and keys.
SELECT n, pg_temp.outcome(format('SELECT count(*) FROM execute_batch(''Employees'', ''p'', VARIADIC
    (SELECT array_agg(batch_insert_or_replace(''large'' || i, jsonb_build_object(''a'', repeat(''x'', 32000), ''b'', repeat(''x'', 15000)))) FROM generate_series(1, %s) AS i))', n))
FROM unnest(ARRAY[89, 90]) AS n;

-- Limits that only the stored entity decides: what a merge makes of it. They come after the condition.
SELECT count(*) FROM execute_batch('Employees', 'p', VARIADIC
    (SELECT array_agg(batch_insert(row_key, (SELECT jsonb_object_agg('n' || i, i) FROM generate_series(1, 252) AS i))) FROM unnest(ARRAY['full', 'full too']) AS row_key));
SELECT operations, pg_temp.outcome(format('SELECT count(*) FROM execute_batch(''Employees'', ''p'', %s)', operations))
FROM unnest(ARRAY[
    'batch_merge(''full'', ''{"n1": 0}'', ''*''), batch_insert_or_merge(''full too'', ''{"n1": 0}'')',
    'batch_insert(''x'', ''{}''), batch_merge(''full'', ''{"more": 0}'', ''*'')',
    'batch_insert(''x'', ''{}''), batch_insert_or_merge(''full'', ''{"more": 0}'')',
    'batch_merge(''full'', ''{"more": 0}'', ''W/"x"'')',
    'batch_insert_or_merge(''full too'', ''{"more": 0}''), batch_insert_or_merge(''full'', ''{"more": 0}''), batch_insert(''a'', ''{}'')',
    'batch_insert(''a'', ''{}''), batch_insert_or_merge(''full'', ''{"more": 0}'')',
    'batch_insert_or_replace(''full'', ''{"more": 0}''), batch_replace(''full too'', ''{"more": 0}'', ''*'')']) AS operations;
-- An entity may have 1 MiB.
SELECT count(*) FROM execute_batch('Employees', 'p', VARIADIC (SELECT array_agg(batch_insert('mega' || i,
    (SELECT jsonb_object_agg('n' || n, repeat('x', 32000)) FROM generate_series(1, 16) AS n))) FROM generate_series(1, 2) AS i));
SELECT operations, pg_temp.outcome(format('SELECT count(*) FROM execute_batch(''Employees'', ''p'', %s)', operations))
FROM unnest(ARRAY[
    'batch_insert(''x'', ''{}''), batch_merge(''mega1'', jsonb_build_object(''more'', repeat(''x'', 20000)), ''*'')',
    'batch_insert(''x'', ''{}''), batch_insert_or_merge(''mega1'', jsonb_build_object(''more'', repeat(''x'', 20000)))',
    'batch_merge(''mega1'', jsonb_build_object(''n1'', ''short''), ''*''), batch_insert_or_merge(''mega2'', jsonb_build_object(''n1'', ''short''))',
    'batch_insert(''a'', ''{}''), batch_insert(''x'', (SELECT jsonb_object_agg(''n'' || n, repeat(''x'', 32000)) FROM generate_series(1, 17) AS n))']) AS operations;

-- All that failed has left nothing behind.
TABLE before EXCEPT TABLE table_service_data."Employees";
SELECT row_key FROM table_service_data."Employees" WHERE row_key !~ '^large' ORDER BY row_key;

SELECT delete_table('Employees');
