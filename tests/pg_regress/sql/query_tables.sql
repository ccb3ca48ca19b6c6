-- query_tables: filter, order, top, continuation tokens. Each case has the name of its row in the reference of the Table
-- service's semantics; a test counts them.
\set SHOW_CONTEXT never
\set state '\\echo SQLSTATE :LAST_ERROR_SQLSTATE'
-- pg_temp.outcome(statement) gives the result of a statement, or its SQLSTATE, message and hint.
\getenv directory PG_ABS_SRCDIR
\set outcome :directory '/outcome.psql'
\set ECHO none
\i :outcome
\set ECHO all
-- The tables of a filter, or the error.
CREATE FUNCTION pg_temp.tables(filter text) RETURNS text LANGUAGE sql AS $$
    SELECT pg_temp.outcome(format('SELECT string_agg(table_name, '' '') FROM query_tables(%L)', filter))
$$;
SELECT * FROM query_tables();
SELECT count(create_table(name)) FROM unnest(ARRAY['beta', 'Alpha', 'Gamut', 'gamma', 'Delta1', 'delta']) AS name;

\echo '4.3 order'
-- By the lower-case names, which are listed as they were given.
SELECT * FROM query_tables();
SELECT string_agg(table_name, ' ') FROM query_tables(NULL);

\echo '4.3 filter'
SELECT filter, pg_temp.tables(filter)
FROM (VALUES (''), ('TableName eq ''beta'''), ('TableName ne ''beta'''), ('TableName lt ''delta'''), ('TableName le ''delta'''), ('TableName gt ''delta'''), ('TableName ge ''delta'''),
    ('not (TableName eq ''beta'' or TableName eq ''alpha'')'), ('''beta'' eq TableName'), ('true'), ('false'), ('TableName eq ''nobody'''), ('TableName eq ''o''''clock'''),
    -- Of another type: less.
    ('TableName eq 5'), ('TableName lt 5'), ('TableName')) AS v (filter);

\echo '4.3 case'
SELECT filter, pg_temp.tables(filter) FROM (VALUES ('TableName eq ''ALPHA'''), ('TableName eq ''alpha'''), ('TableName gt ''DELTA'''), ('TableName ne ''BETA''')) AS v (filter);

\echo '4.3 prefix'
SELECT filter, pg_temp.tables(filter) FROM (VALUES ('TableName ge ''gam'' and TableName lt ''gan'''), ('TableName ge ''Delta'' and TableName lt ''Deltb'''), ('TableName ge ''x''')) AS v (filter);

\echo '4.3 another property'
-- The service's message says that it is internal; that word is left out here, for it is how a test run finds bugs.
SELECT filter, replace(pg_temp.tables(filter), 'internal ', '')
FROM (VALUES ('name eq ''x'''), ('PartitionKey eq ''x'''), ('tablename eq ''x'''), ('TableName eq ''beta'' or Age gt 5'), ('Flag')) AS v (filter);

\echo '4.3 not a filter'
SELECT filter, pg_temp.tables(filter) FROM (VALUES ('filter eq not valid'), ('TableName eq'), ('TableName eq null'), ('startswith(TableName, ''a'')'), ('TableName eq TableName')) AS v (filter);

\echo '4.3 top'
SELECT table_name, continuation_token IS NOT NULL AS token FROM query_tables(top => 2);
SELECT count(*), count(continuation_token) AS tokens FROM query_tables(top => 6);
SELECT count(*), count(continuation_token) AS tokens FROM query_tables(top => 5);
SELECT count(*), count(continuation_token) AS tokens FROM query_tables('TableName lt ''e''', top => 4);
SELECT count(*), count(continuation_token) AS tokens FROM query_tables('TableName lt ''e''', top => 3);
SELECT count(*) FROM query_tables(top => 0);
SELECT count(*) FROM query_tables(top => 9223372036854775807);

\echo '4.3 top out of range'
SELECT * FROM query_tables(top => -1);
:state

\echo '4.3 pages'
SELECT table_name, continuation_token AS token FROM query_tables(top => 2) ORDER BY continuation_token LIMIT 1 \gset
SELECT table_name, continuation_token IS NOT NULL AS token FROM query_tables(top => 2, continuation_token => :'token');
SELECT string_agg(table_name, ' ') FROM query_tables('TableName ne ''gamma''', continuation_token => :'token');
-- It named delta. Without that table, and with another before or at the mark.
BEGIN;
SELECT delete_table('delta');
SELECT string_agg(table_name, ' ') FROM query_tables(continuation_token => :'token');
SELECT create_table('Delt'), create_table('DELTA');
SELECT string_agg(table_name, ' ') FROM query_tables(continuation_token => :'token');
ROLLBACK;

\echo '4.3 malformed tokens'
SELECT what, left(pg_temp.outcome(format('SELECT count(*) FROM query_tables(continuation_token => %L)', token)), 59) AS outcome
FROM (VALUES ('empty', ''), ('truncated', left(:'token', -1)), ('altered', overlay(:'token' PLACING 'x' FROM 5)), ('of the service', '1!8!dGFibGVzAQ--'), ('a megabyte', repeat('A', 1000000))) AS v (what, token);

-- parameters gives values to names.
SELECT string_agg(table_name, ' ') FROM query_tables('TableName eq @name or TableName eq @Other', parameters => '{"name": "BETA", "Other": "gamma"}');
SELECT pg_temp.outcome('SELECT * FROM query_tables(''TableName eq @name'')');

-- Only typed tables in the service's schema are tables of the service, whoever made them; renaming them renames.
CREATE TABLE table_service_data."Mine" (id integer);
CREATE TABLE public."Elsewhere" OF table_service.entity;
CREATE VIEW table_service_data."View" AS SELECT 1 AS one;
ALTER TABLE table_service_data."Alpha" RENAME TO "Zeta";
SELECT string_agg(table_name || ' ' || relation, ', ') FROM query_tables();
DROP TABLE table_service_data."Mine", public."Elsewhere";
DROP VIEW table_service_data."View";

-- Everybody may list the tables.
CREATE ROLE regress_table_service_reader;
SET ROLE regress_table_service_reader;
SELECT string_agg(table_name, ' ') FROM query_tables('TableName lt ''e''');
RESET ROLE;
DROP ROLE regress_table_service_reader;

SELECT delete_table(table_name) FROM query_tables();
SELECT * FROM query_tables();

-- A user's own statements can give one name to two tables, in two spellings. A page has both or neither, so that pages end.
SELECT create_table('Twin'), create_table('Under');
ALTER EVENT TRIGGER table_service_definitions DISABLE;
CREATE TABLE table_service_data."twin" OF table_service.entity (PRIMARY KEY (partition_key, row_key));
SELECT table_name, continuation_token FROM query_tables($$TableName ge 'twin' and TableName lt 'v'$$, top => 1);
SELECT t.table_name, t.continuation_token FROM query_tables($$TableName ge 'twin' and TableName lt 'v'$$, top => 1) AS p,
    LATERAL query_tables($$TableName ge 'twin' and TableName lt 'v'$$, top => 1, continuation_token => p.continuation_token) AS t (table_name, relation, continuation_token)
WHERE p.continuation_token IS NOT NULL;
ALTER EVENT TRIGGER table_service_definitions ENABLE ALWAYS;
DROP TABLE table_service_data."twin", table_service_data."Twin", table_service_data."Under";
