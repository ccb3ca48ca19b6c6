-- In table_service_data no two relations have names that differ in case only, because functions find tables regardless of case, and none is
-- called Tables. This event trigger refuses every statement that would make one, also those of superusers and of
-- session_replication_role = 'replica'. Its function needs the extension's library only for relations of that schema: a server that lacks the
-- library refuses nothing else, and drops the extension. What it calls is in pg_catalog: the owner of a database can put another schema in the
-- place of table_service, and would have own code run with the rights of whoever makes a table. All names have their schemas, so there is no
-- SET search_path: PostgreSQL 15 ends the session if memory is missing for that.
CREATE FUNCTION table_service.keep_names_apart() RETURNS event_trigger LANGUAGE plpgsql AS $names$
DECLARE
    command record;
BEGIN
    -- An extension that moves into the schema takes its relations along. With quote_all_identifiers its name is quoted.
    FOR command IN
        SELECT c.classid AS class, c.objid AS object FROM pg_catalog.pg_event_trigger_ddl_commands() AS c
        WHERE c.schema_name OPERATOR(pg_catalog.=) 'table_service_data'
        UNION ALL
        SELECT d.classid, d.objid FROM pg_catalog.pg_event_trigger_ddl_commands() AS c
        JOIN pg_catalog.pg_depend AS d ON d.refclassid OPERATOR(pg_catalog.=) c.classid AND d.refobjid OPERATOR(pg_catalog.=) c.objid
        WHERE c.object_type OPERATOR(pg_catalog.=) 'extension'
            AND pg_catalog.btrim((pg_catalog.pg_identify_object(d.classid, d.objid, 0)).schema, '"') OPERATOR(pg_catalog.=) 'table_service_data'
    LOOP
        PERFORM pg_catalog.table_service_refuse_taken_names(command.class, command.object);
    END LOOP;
END
$names$;

CREATE EVENT TRIGGER table_service_names ON ddl_command_end
    WHEN TAG IN ('ALTER EXTENSION', 'ALTER FOREIGN TABLE', 'ALTER INDEX', 'ALTER MATERIALIZED VIEW', 'ALTER SEQUENCE', 'ALTER TABLE', 'ALTER TYPE', 'ALTER VIEW',
        'CREATE FOREIGN TABLE', 'CREATE INDEX', 'CREATE MATERIALIZED VIEW', 'CREATE SCHEMA', 'CREATE SEQUENCE', 'CREATE TABLE', 'CREATE TABLE AS', 'CREATE TYPE',
        'CREATE VIEW', 'IMPORT FOREIGN SCHEMA', 'SELECT INTO')
    EXECUTE FUNCTION table_service.keep_names_apart();
ALTER EVENT TRIGGER table_service_names ENABLE ALWAYS;
