-- Stored access policies and service properties. The gateway keeps the accounts and their keys; no key is stored here.
--
-- The owner of the database owns both tables, so that a dump and its restore work without a superuser. Other roles may
-- only read them: a role that may write a table may also lock it, and so block all others. The functions for access
-- policies check the caller's rights, and then write with the owner's.

-- The primary key is the table's OID. A table that is created later under the same name has another OID. A dump
-- contains the table's name instead.
CREATE TABLE table_service.access_policies (
    relation regclass PRIMARY KEY,
    policies jsonb NOT NULL
);
ALTER TABLE table_service.access_policies OWNER TO pg_database_owner;
ALTER TABLE table_service.access_policies ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON table_service.access_policies TO PUBLIC;
-- A role sees the policies of the tables whose entities it may work with.
CREATE POLICY readable ON table_service.access_policies FOR SELECT
    USING (pg_catalog.has_table_privilege(relation, 'SELECT, INSERT, UPDATE, DELETE'));
SELECT pg_catalog.pg_extension_config_dump('table_service.access_policies',
    'WHERE relation IN (SELECT oid FROM pg_catalog.pg_class)');

-- At most one row. Without it every property has its default.
CREATE TABLE table_service.service_properties (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    properties jsonb NOT NULL
);
ALTER TABLE table_service.service_properties OWNER TO pg_database_owner;
GRANT SELECT ON table_service.service_properties TO PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('table_service.service_properties', '');
