-- In table_service_data no two relations have names that differ in case only, because functions find tables regardless of case, and none is
-- called Tables. This event trigger refuses every statement that would make one, also those of superusers and of
-- session_replication_role = 'replica'. Its function needs the extension's library only for relations of that schema: a server that lacks the
-- library refuses nothing else, and drops the extension.
CREATE FUNCTION table_service.keep_names_apart() RETURNS event_trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $names$
DECLARE
    command record;
BEGIN
    -- An extension that moves into the schema takes its relations along.
    FOR command IN
        SELECT o.class, o.object FROM pg_catalog.pg_event_trigger_ddl_commands() AS c
        CROSS JOIN LATERAL (
            SELECT c.classid AS class, c.objid AS object
            UNION ALL
            SELECT d.classid, d.objid FROM pg_catalog.pg_depend AS d
            WHERE c.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
                AND d.refclassid OPERATOR(pg_catalog.=) c.classid AND d.refobjid OPERATOR(pg_catalog.=) c.objid) AS o
        WHERE c.schema_name OPERATOR(pg_catalog.=) 'table_service_data' OR c.object_type OPERATOR(pg_catalog.=) 'extension'
    LOOP
        PERFORM table_service.refuse_taken_names(command.class, command.object);
    END LOOP;
END
$names$;

CREATE EVENT TRIGGER table_service_names ON ddl_command_end
    WHEN TAG IN ('ALTER EXTENSION', 'ALTER FOREIGN TABLE', 'ALTER INDEX', 'ALTER MATERIALIZED VIEW', 'ALTER SEQUENCE', 'ALTER TABLE', 'ALTER TYPE', 'ALTER VIEW',
        'CREATE FOREIGN TABLE', 'CREATE INDEX', 'CREATE MATERIALIZED VIEW', 'CREATE SCHEMA', 'CREATE SEQUENCE', 'CREATE TABLE', 'CREATE TABLE AS', 'CREATE TYPE',
        'CREATE VIEW', 'IMPORT FOREIGN SCHEMA', 'SELECT INTO')
    EXECUTE FUNCTION table_service.keep_names_apart();
ALTER EVENT TRIGGER table_service_names ENABLE ALWAYS;
