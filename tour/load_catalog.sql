-- The columns of PostgreSQL's catalogs as entities: what the tour shows where there is no package index.
\o /dev/null
SELECT create_table('Columns');
\o
SELECT count(insert_entity('Columns', relation, name, to_properties(described))) AS entities
FROM (
  SELECT c.relname AS relation, a.attname AS name, format_type(a.atttypid, a.atttypmod) AS "Type", a.attnum AS "Position",
         a.attnotnull AS "NotNull", nullif(a.attlen, -1) AS "Length"
  FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
  WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind IN ('r', 'v') AND a.attnum > 0
) AS described;
