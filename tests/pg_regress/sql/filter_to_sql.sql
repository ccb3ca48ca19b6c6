-- filter_to_sql: the predicate that a filter stands for, to be written into a WHERE clause.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
SELECT create_table('Employees');
SELECT count(insert_entity('Employees', p, r, bag::properties))
FROM (VALUES ('Sales', '1', '{"LastName": "O''Brien", "Age": 34}'), ('Sales', '2', '{"LastName": "Hall", "Age": 50}'), ('Marketing', '1', '{"LastName": "C:\\dir", "Age": 20.5}'),
    ('O''Brien', '%', '{}')) AS v (p, r, bag);

-- Keys become conditions on the columns, everything else a call for each row.
SELECT filter, filter_to_sql(filter)
FROM (VALUES (''), ('true'), ('false'), ('PartitionKey eq ''Sales'''), ('PartitionKey eq ''Sales'' and RowKey eq ''1'''), ('PartitionKey eq ''Sales'' and RowKey ge ''1'' and RowKey lt ''2'''),
    ('PartitionKey gt ''Marketing'''), ('PartitionKey ge ''M'' and PartitionKey lt ''T'''), ('PartitionKey ge ''M'' and not (PartitionKey eq ''M'' and RowKey lt ''5'')'),
    ('PartitionKey eq ''a'' or PartitionKey eq ''b'' and RowKey eq ''1'''), ('RowKey eq ''1'''), ('Age gt 30'), ('PartitionKey eq ''Sales'' and Age gt 30'),
    ('PartitionKey eq ''Sales'' or Age gt 30'), ('Timestamp ge datetime''2020-01-01'''), ('PartitionKey eq ''a'' and PartitionKey eq ''b''')) AS v (filter);
-- Qualified with an alias, which may be any identifier.
SELECT alias, filter_to_sql('PartitionKey eq ''Sales'' and Age gt 30', alias) FROM (VALUES ('e'), ('E'), ('my alias'), ('a"b'), ('select'), (NULL)) AS v (alias);
SELECT filter_to_sql('Age gt 30', '');
:state
-- Quotes and backslashes, in keys and in the rest.
SELECT filter_to_sql('PartitionKey eq ''O''''Brien'' and RowKey eq ''\'' or LastName eq ''C:\dir''''; DROP TABLE x; --''');

-- It runs as it is, also under NOT. The entities of each filter, from the predicate without and with an alias, and from
-- query_entities.
CREATE FUNCTION pg_temp.run(filter text, OUT plain text, OUT aliased text, OUT queried text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT string_agg(partition_key || row_key, '' '' ORDER BY partition_key, row_key) FROM table_service_data."Employees" WHERE ' || filter_to_sql(filter) INTO plain;
    EXECUTE 'SELECT string_agg(partition_key || row_key, '' '' ORDER BY partition_key, row_key) FROM table_service_data."Employees" AS "O''Brien" WHERE ' || filter_to_sql(filter, 'O''Brien')
        || ' AND NOT NOT ' || filter_to_sql(filter, 'O''Brien') INTO aliased;
    SELECT string_agg(partition_key || row_key, ' ' ORDER BY partition_key, row_key) INTO queried FROM query_entities('Employees', filter);
END $$;
CREATE TEMPORARY TABLE filters AS SELECT unnest(ARRAY['', 'false', 'PartitionKey eq ''Sales''', 'PartitionKey eq ''O''''Brien''', 'RowKey eq ''%''', 'LastName eq ''O''''Brien''', 'LastName eq ''C:\dir''',
    'Age gt 30', 'Age lt 30 or PartitionKey eq ''Sales'' and RowKey eq ''2''', 'not (Age gt 30)', 'LastName eq ''x'''' OR 1=1 --''', 'PartitionKey lt ''P''',
    'PartitionKey ge ''M'' and not (PartitionKey eq ''Marketing'' and RowKey le ''1'')', 'Timestamp gt datetime''2001-01-01'' and PartitionKey eq ''Sales''']) AS filter;
SELECT filter, run.*, plain IS NOT DISTINCT FROM queried AND aliased IS NOT DISTINCT FROM queried AS same FROM filters, LATERAL pg_temp.run(filter);
-- Whatever the search_path and the settings of strings are.
BEGIN;
-- (PostgreSQL 19 has only one setting of strings.)
DO $$BEGIN
    IF current_setting('server_version_num')::int < 190000 THEN
        SET LOCAL standard_conforming_strings = off;
        SET LOCAL escape_string_warning = off;
    END IF;
END$$;
SELECT count(*) AS differ FROM filters, LATERAL pg_temp.run(filter) WHERE plain IS DISTINCT FROM queried OR aliased IS DISTINCT FROM queried;
ROLLBACK;
SELECT table_service.filter_to_sql('PartitionKey eq ''Sales'' and LastName eq ''Hall''', 'e') AS predicate \gset
BEGIN;
SET LOCAL search_path = pg_catalog;
SELECT row_key FROM table_service_data."Employees" AS e WHERE :predicate;
ROLLBACK;
-- In a join, an UPDATE, a DELETE, and in an index's or a view's definition.
SELECT v.note, e.row_key FROM table_service_data."Employees" AS e JOIN (VALUES ('1', 'first'), ('2', 'second')) AS v (row_key, note) ON v.row_key = e.row_key WHERE :predicate;
CREATE VIEW halls AS SELECT e.row_key FROM table_service_data."Employees" AS e WHERE :predicate;
SELECT * FROM halls;
DROP VIEW halls;
DELETE FROM table_service_data."Employees" AS e WHERE :predicate RETURNING row_key;
SELECT table_service.filter_to_sql('Age gt 30') AS predicate \gset
CREATE INDEX older ON table_service_data."Employees" (partition_key) WHERE :predicate;
UPDATE table_service_data."Employees" SET properties = properties || '{"Older": true}' WHERE :predicate RETURNING row_key;

-- parameters, and the errors of filters.
SELECT filter_to_sql('PartitionKey eq @p and Age gt @age', 'e', '{"p": "O''Brien", "age": 30}');
SELECT filter, pg_temp.outcome(format('SELECT filter_to_sql(%L)', filter)) FROM (VALUES (NULL), ('a b'), ('a eq b'), ('a eq @b'), ('a eq null')) AS v (filter);

SELECT delete_table('Employees');
