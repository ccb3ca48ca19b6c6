-- What the service keeps beside entities. Accounts and their keys are the gateway's; no key is ever stored here.
--
-- The database's owner owns both tables, so that a dump and its restore work without a superuser. Others only read them: whoever may write
-- a table may also lock it, and keep everybody else waiting. The functions write with the owner's rights, after they have checked
-- the caller's.

-- By the table's OID, which no table that is created later under the same name has. It dumps as a name.
CREATE TABLE table_service.access_policies (
    relation regclass PRIMARY KEY,
    policies jsonb NOT NULL
);
COMMENT ON TABLE table_service.access_policies IS 'Stored access policies of tables';
ALTER TABLE table_service.access_policies OWNER TO pg_database_owner;
ALTER TABLE table_service.access_policies ENABLE ROW LEVEL SECURITY;
GRANT SELECT ON table_service.access_policies TO PUBLIC;
-- Who may work with a table's entities sees its policies.
CREATE POLICY readable ON table_service.access_policies FOR SELECT
    USING (pg_catalog.has_table_privilege(relation, 'SELECT, INSERT, UPDATE, DELETE'));
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
