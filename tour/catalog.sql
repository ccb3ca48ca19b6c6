-- The tour, second part, where there is no package index: PostgreSQL's own catalogs.
\pset null '∅'
\pset format wrapped
\pset columns 110
\set ECHO queries
\timing on

\echo
\echo '-- 6. The catalogs: the partition is the relation, the row is the column. One of them:'
\echo
SELECT name, type, value
FROM get_entity('Columns', 'pg_class', 'relname') AS e, each_property(e.properties);

\echo
\echo '-- One partition, in key order, straight from the primary key:'
\echo
SELECT row_key, properties ->> 'Type' AS type, get_int32(properties, 'Position') AS position
FROM table_service_data."Columns"
WHERE partition_key = 'pg_namespace';

\echo
\echo '-- SQL aggregates over what the entities hold. Typed access is immutable, so it can be indexed, too.'
\echo
SELECT properties ->> 'Type' AS type, count(*) AS columns, count(DISTINCT partition_key) AS relations
FROM table_service_data."Columns"
GROUP BY type
ORDER BY columns DESC
LIMIT 8;
\timing off

\echo
\echo '-- 7. What is there, and what it takes:'
\echo
ANALYZE;
SELECT t.table_name, c.reltuples::bigint AS entities, pg_size_pretty(pg_table_size(relation)) AS data,
       pg_size_pretty(pg_indexes_size(relation)) AS indexes
FROM query_tables() AS t JOIN pg_class AS c ON c.oid = t.relation;
