-- With the tables of twins.sql: lists have them, functions take none of them, and the remedy of the hint helps.
SELECT table_name FROM table_service.query_tables() WHERE lower(table_name) IN ('twins', 'tables') ORDER BY table_name COLLATE "C";
\i tests/pg_regress/outcome.psql
SELECT split_part(pg_temp.outcome('SELECT properties FROM table_service.get_entity(''' || name || ''', ''p'', ''' || row_key || ''')'), ': ', 1)
FROM (VALUES (1, 'Twins', 'r'), (2, 'twins', 'r'), (3, 'Tables', 'r'), (4, 'Renamed', 'old')) AS v (n, name, row_key) ORDER BY n;
SELECT pg_temp.outcome('CREATE TABLE table_service_data."tWINS" ()') LIKE '42P07 TableAlreadyExists:%';
ALTER TABLE table_service_data.twins RENAME TO "Others";
ALTER TABLE table_service_data."Tables" RENAME TO "Thirds";
SELECT table_service.get_int32(properties, 'A')
FROM unnest('{Twins,Others,Thirds}'::text[]) WITH ORDINALITY AS v (name, n), LATERAL table_service.get_entity(name, 'p', 'r') ORDER BY n;
