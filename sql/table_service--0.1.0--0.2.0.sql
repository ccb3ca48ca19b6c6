-- Upgrades a database from version 0.1.0 to 0.2.0. Objects that are new or that change are here and in sql/install.sql: a test
-- compares an upgraded database with a new one, object by object.

\echo Use "ALTER EXTENSION table_service UPDATE TO '0.2.0'" to load this file. \quit

-- A role that owns the schema table_service, or may create in it, could add functions that users of the extension would run
-- instead of its own. So an upgrade, as an installation, accepts the schema only if its owner is the owner of the extension, a
-- superuser or the owner of the database, if no other role may create in it, and if everything in it belongs to the
-- extension. Every upgrade script begins in this way: a test compares them with sql/upgrade.sql.
DO $check$
DECLARE
    installer oid;
    shared record;
    foreign_objects text;
BEGIN
    SELECT e.extowner INTO installer FROM pg_catalog.pg_extension AS e WHERE e.extname OPERATOR(pg_catalog.=) 'table_service';
    SELECT n.nspowner OPERATOR(pg_catalog.=) installer OR r.rolsuper OR r.rolname OPERATOR(pg_catalog.=) 'pg_database_owner'
            OR EXISTS (SELECT 1 FROM pg_catalog.pg_database AS d
                WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() AND d.datdba OPERATOR(pg_catalog.=) n.nspowner) AS is_trusted,
        EXISTS (SELECT 1 FROM pg_catalog.aclexplode(n.nspacl) AS a
            WHERE a.privilege_type OPERATOR(pg_catalog.=) 'CREATE' AND a.grantee OPERATOR(pg_catalog.<>) n.nspowner) AS may_create
    INTO shared
    FROM pg_catalog.pg_namespace AS n JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
    WHERE n.nspname OPERATOR(pg_catalog.=) 'table_service';
    IF NOT shared.is_trusted THEN
        RAISE EXCEPTION 'schema "table_service" belongs to a role that could change what others run'
            USING ERRCODE = 'insufficient_privilege',
                HINT = 'A superuser can change that: ALTER SCHEMA table_service OWNER TO the role that owns the extension. Then update again.';
    ELSIF shared.may_create THEN
        RAISE EXCEPTION 'others may create objects in the schema "table_service"'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'Take the privilege away: REVOKE CREATE ON SCHEMA table_service FROM the roles that \dn+ table_service lists. Then update again.';
    END IF;
    -- On a Citus cluster the schema also has the table that says how tables are distributed, and shards of the extension's
    -- tables.
    SELECT pg_catalog.string_agg(pg_catalog.pg_describe_object(d.classid, d.objid, 0), ', ') INTO foreign_objects
    FROM pg_catalog.pg_depend AS d
    WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass
        AND d.refobjid OPERATOR(pg_catalog.=) 'table_service'::pg_catalog.regnamespace::pg_catalog.oid
        AND d.classid OPERATOR(pg_catalog.<>) ALL (ARRAY['pg_catalog.pg_extension', 'pg_catalog.pg_default_acl',
            'pg_catalog.pg_publication_namespace']::pg_catalog.regclass[])
        AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend AS m
            WHERE m.classid OPERATOR(pg_catalog.=) d.classid AND m.objid OPERATOR(pg_catalog.=) d.objid
                AND m.deptype OPERATOR(pg_catalog.=) 'e'
                AND m.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
                AND m.refobjid OPERATOR(pg_catalog.=) (SELECT e.oid FROM pg_catalog.pg_extension AS e
                    WHERE e.extname OPERATOR(pg_catalog.=) 'table_service'))
        AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) c.relowner
            WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass AND c.oid OPERATOR(pg_catalog.=) d.objid
                AND c.relkind OPERATOR(pg_catalog.=) 'r'
                AND c.relname::pg_catalog.text OPERATOR(pg_catalog.~) '^(citus_anchor|service_properties)(_[0-9]+)?$'
                AND (r.rolsuper OR c.relowner OPERATOR(pg_catalog.=) installer OR EXISTS (SELECT 1 FROM pg_catalog.pg_database AS o
                    WHERE o.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() AND o.datdba OPERATOR(pg_catalog.=) c.relowner)));
    IF foreign_objects IS NOT NULL THEN
        RAISE EXCEPTION 'schema "table_service" has objects that do not belong to the extension: %', foreign_objects
            USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'Drop them, or move them to another schema: ALTER FUNCTION, TABLE or TYPE name SET SCHEMA another. Then update again.';
    END IF;
END
$check$;

-- Roles that may write a table may also lock it, and so block all others. The functions for access policies write with the
-- rights of the table's owner.
REVOKE INSERT, UPDATE, DELETE ON table_service.access_policies FROM PUBLIC;
DROP POLICY IF EXISTS owned ON table_service.access_policies;

-- A row with a NULL in it is reported. A strict function would skip it.
ALTER FUNCTION table_service.scan_passes(text, text, timestamptz, table_service.properties, bytea) CALLED ON NULL INPUT;
ALTER FUNCTION table_service.scan_passes(table_service.properties, bytea) CALLED ON NULL INPUT;

-- Property indexes, and the planner's support for filters.
CREATE FUNCTION table_service.property_index_key(partition_key text, row_key text, properties table_service.properties, property text) RETURNS bytea
IMMUTABLE STRICT PARALLEL SAFE COST 50 LANGUAGE c AS 'MODULE_PATHNAME', 'property_index_key_wrapper';
CREATE FUNCTION table_service.create_property_index("table_name" TEXT, "property" TEXT, "if_not_exists" bool DEFAULT false) RETURNS regclass
LANGUAGE c AS 'MODULE_PATHNAME', 'create_property_index_wrapper';
CREATE FUNCTION table_service.drop_property_index("table_name" TEXT, "property" TEXT, "if_exists" bool DEFAULT false) RETURNS bool
LANGUAGE c AS 'MODULE_PATHNAME', 'drop_property_index_wrapper';
CREATE FUNCTION table_service.query_property_indexes("table_name" TEXT DEFAULT NULL)
RETURNS TABLE (table_name text, property text, index regclass, is_valid boolean, bytes bigint, scans bigint)
STABLE PARALLEL RESTRICTED LANGUAGE c AS 'MODULE_PATHNAME', 'query_property_indexes_wrapper';
CREATE FUNCTION table_service.property_index_sql("table_name" TEXT, "property" TEXT) RETURNS TEXT
STABLE PARALLEL RESTRICTED LANGUAGE c AS 'MODULE_PATHNAME', 'property_index_sql_wrapper';
CREATE FUNCTION table_service.matches_support(internal) RETURNS internal
STRICT LANGUAGE c AS 'MODULE_PATHNAME', 'matches_support_wrapper';
ALTER FUNCTION table_service.matches(table_service.entity, text, table_service.properties) SUPPORT table_service.matches_support;

-- Tables on a Citus cluster.
CREATE FUNCTION table_service.enable_citus("shard_count" INT DEFAULT 32) RETURNS void
LANGUAGE c AS 'MODULE_PATHNAME', 'enable_citus_wrapper';
CREATE FUNCTION table_service.disable_citus() RETURNS void STRICT
LANGUAGE c AS 'MODULE_PATHNAME', 'disable_citus_wrapper';
