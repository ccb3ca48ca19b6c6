-- The tour, second part, on the packages of this machine's Debian release.
\pset null '∅'
\pset format wrapped
\pset columns 110
\set ECHO queries
\timing on

\echo
\echo '-- 6. The packages: the partition is the section, the row is the package. One of them:'
\echo
SELECT name, type, value
FROM get_entity('Packages', 'shells', 'bash') AS e, each_property(e.properties);

\echo
\echo '-- One partition, in key order, straight from the primary key:'
\echo
SELECT row_key, properties ->> 'Version' AS version, left(properties ->> 'Description', 50) AS description
FROM table_service_data."Packages"
WHERE partition_key = 'shells'
LIMIT 8;

\echo
\echo '-- The biggest sections: SQL aggregates over what the entities hold.'
\echo
SELECT partition_key AS section, count(*) AS packages,
       pg_size_pretty(sum(get_int64(properties, 'InstalledSize'))) AS installed,
       round(avg(get_double(properties, 'Compression'))::numeric, 2) AS compression,
       count(*) FILTER (WHERE has_property(properties, 'Homepage')) AS with_homepage
FROM table_service_data."Packages"
GROUP BY section
ORDER BY sum(get_int64(properties, 'InstalledSize')) DESC NULLS LAST
LIMIT 8;

\echo
\echo '-- Typed access is immutable, so it can be indexed.'
\echo
CREATE INDEX ON table_service_data."Packages" (get_int64(properties, 'InstalledSize'));
ANALYZE;

SELECT row_key AS package, partition_key AS section, pg_size_pretty(get_int64(properties, 'InstalledSize')) AS installed
FROM table_service_data."Packages"
WHERE get_int64(properties, 'InstalledSize') > 0
ORDER BY get_int64(properties, 'InstalledSize') DESC
LIMIT 5;
\timing off

\echo
\echo '-- 7. What is there, and what it takes:'
\echo
SELECT t.table_name, c.reltuples::bigint AS entities, pg_size_pretty(pg_table_size(relation)) AS data,
       pg_size_pretty(pg_indexes_size(relation)) AS indexes
FROM query_tables() AS t JOIN pg_class AS c ON c.oid = t.relation;
