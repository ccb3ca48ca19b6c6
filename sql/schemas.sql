-- The schema table_service exists already: CREATE EXTENSION makes it, unless another role has made it before. A role
-- that owns the schema, or may create in it, could add functions that users of the extension would run. So an existing
-- schema is accepted only if it is empty, no other role may create in it, and its owner is the installing role, a
-- superuser or the owner of the database. A restored dump brings the schema of the database's owner along.
DO $check$
DECLARE
    installer oid;
    planted record;
BEGIN
    SELECT e.extowner INTO installer FROM pg_catalog.pg_extension AS e WHERE e.extname OPERATOR(pg_catalog.=) 'table_service';
    FOR planted IN
        SELECT n.oid, n.nspname,
            n.nspowner OPERATOR(pg_catalog.=) installer OR r.rolsuper OR r.rolname OPERATOR(pg_catalog.=) 'pg_database_owner'
                OR EXISTS (SELECT 1 FROM pg_catalog.pg_database AS d
                    WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() AND d.datdba OPERATOR(pg_catalog.=) n.nspowner) AS is_trusted,
            EXISTS (SELECT 1 FROM pg_catalog.aclexplode(n.nspacl) AS a
                WHERE a.privilege_type OPERATOR(pg_catalog.=) 'CREATE' AND a.grantee OPERATOR(pg_catalog.<>) n.nspowner) AS is_shared,
            EXISTS (SELECT 1 FROM pg_catalog.pg_depend AS d
                WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass AND d.refobjid OPERATOR(pg_catalog.=) n.oid
                    AND NOT (d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
                        AND d.objid OPERATOR(pg_catalog.=) (SELECT e.oid FROM pg_catalog.pg_extension AS e WHERE e.extname OPERATOR(pg_catalog.=) 'table_service'))) AS has_objects
        FROM pg_catalog.pg_namespace AS n JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
        WHERE n.nspname OPERATOR(pg_catalog.=) ANY (ARRAY['table_service', 'table_service_data']::pg_catalog.name[])
    LOOP
        IF planted.nspname OPERATOR(pg_catalog.=) 'table_service_data' THEN
            RAISE EXCEPTION 'schema "table_service_data" exists already'
                USING ERRCODE = 'duplicate_schema', HINT = 'The extension makes it. Drop or rename it, then create the extension.';
        ELSIF NOT planted.is_trusted THEN
            RAISE EXCEPTION 'schema "table_service" belongs to a role that could change what others run'
                USING ERRCODE = 'insufficient_privilege', HINT = 'Drop or rename it, then create the extension, which makes it.';
        ELSIF planted.is_shared OR planted.has_objects THEN
            RAISE EXCEPTION 'schema "table_service" exists already and is not empty, or others may create objects in it'
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Drop or rename it, then create the extension, which makes it.';
        END IF;
    END LOOP;
END
$check$;

GRANT USAGE ON SCHEMA table_service TO PUBLIC;

-- The schema of the tables of the service. Only if pg_database_owner owns it, both the installation and the restore of
-- a dump work for a database owner who is not a superuser.
CREATE SCHEMA table_service_data AUTHORIZATION pg_database_owner;
GRANT USAGE ON SCHEMA table_service_data TO PUBLIC;

CREATE TYPE table_service.properties;
