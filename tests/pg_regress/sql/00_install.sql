-- The first test: installs the extension. Every other test relies on that, and on nothing else that another test did.

-- A clean start, whether or not the extension is there already.
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS table_service CASCADE;
CREATE EXTENSION table_service;
RESET client_min_messages;

-- With the schema on the search_path the functions and operators need no qualification. Nothing that the extension runs
-- itself depends on it.
SELECT current_database() AS database \gset
ALTER DATABASE :"database" SET search_path = "$user", public, table_service;

-- Everybody may look into both schemas. Only the database's owner may create tables, until they grant it to others.
SELECT nspname, pg_get_userbyid(nspowner) = 'pg_database_owner' AS is_database_owners,
    has_schema_privilege('public', nspname, 'USAGE') AS usage, has_schema_privilege('public', nspname, 'CREATE') AS create
FROM pg_namespace WHERE nspname LIKE 'table\_service%' ORDER BY nspname;

-- Extensions of this kind can be installed by any owner of a database, and cannot be moved to another schema.
SELECT relocatable, schema, trusted, superuser FROM pg_available_extension_versions WHERE name = 'table_service' AND installed;
