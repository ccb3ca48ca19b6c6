-- The schema table_service exists already: CREATE EXTENSION makes it. What the tables of the service need stands first.

GRANT USAGE ON SCHEMA table_service TO PUBLIC;

-- Where the tables of the service live. pg_database_owner is the one owner under which both the installation and the
-- restore of a dump work for a database owner who is no superuser.
CREATE SCHEMA table_service_data AUTHORIZATION pg_database_owner;
GRANT USAGE ON SCHEMA table_service_data TO PUBLIC;
COMMENT ON SCHEMA table_service_data IS
    'Tables of the Table service: the relations here that are OF table_service.entity';

CREATE TYPE table_service.properties;
