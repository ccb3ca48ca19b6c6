-- What the service keeps beside entities. Accounts and their keys are the gateway's; no key is ever stored here.
--
-- The database's owner owns both tables, so that a dump and its restore work without a superuser. Everybody else is subject to
-- the rules below, which hold for the functions and for direct SQL alike.

-- By the table's OID, which no table that is created later under the same name has. It dumps as a name.
CREATE TABLE table_service.access_policies (
    relation regclass PRIMARY KEY,
    policies jsonb NOT NULL
);
COMMENT ON TABLE table_service.access_policies IS 'Stored access policies of tables';
ALTER TABLE table_service.access_policies OWNER TO pg_database_owner;
ALTER TABLE table_service.access_policies ENABLE ROW LEVEL SECURITY;
GRANT SELECT, INSERT, UPDATE, DELETE ON table_service.access_policies TO PUBLIC;
-- Who may work with a table's entities sees its policies; who owns the table sets them.
CREATE POLICY readable ON table_service.access_policies FOR SELECT
    USING (pg_catalog.has_table_privilege(relation, 'SELECT, INSERT, UPDATE, DELETE'));
CREATE POLICY owned ON table_service.access_policies
    USING (pg_catalog.pg_has_role(
        (SELECT c.relowner FROM pg_catalog.pg_class AS c WHERE c.oid OPERATOR(pg_catalog.=) relation), 'USAGE'));
SELECT pg_catalog.pg_extension_config_dump('table_service.access_policies',
    'WHERE relation IN (SELECT oid FROM pg_catalog.pg_class)');

-- At most one row; without it every property has its default.
CREATE TABLE table_service.service_properties (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    properties jsonb NOT NULL
);
COMMENT ON TABLE table_service.service_properties IS 'Logging, metrics and CORS rules of the service';
ALTER TABLE table_service.service_properties OWNER TO pg_database_owner;
GRANT SELECT ON table_service.service_properties TO PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('table_service.service_properties', '');
