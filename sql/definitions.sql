-- What follows when somebody defines a relation in table_service_data: also a superuser, and with session_replication_role = 'replica'.
-- No two relations there have names that differ in case only, because functions find tables regardless of case, and none is called Tables: every
-- statement that would make one is refused. And notes in PostgreSQL's log tell the readers of change feeds that a relation has become a table of the
-- service, has another name, or is none any more.
-- Only relations of that schema and tables of the type entity need the library: a server that lacks it refuses no other definition, and drops the
-- extension. What the function calls is in pg_catalog: the owner of a database can put another schema in the place of table_service, and would have own
-- code run with the rights of whoever makes a table. All names have their schemas, also those of types: a
-- domain pg_temp.record would run its CHECK. So there is no SET search_path: PostgreSQL 15 ends the session if memory is missing for that.
CREATE FUNCTION table_service.watch_definitions() RETURNS event_trigger LANGUAGE plpgsql AS $watch$
DECLARE
    defined pg_catalog.record;
BEGIN
    IF TG_EVENT OPERATOR(pg_catalog.=) 'sql_drop' THEN
        -- A query that calls the library loads it, also if no row needs it.
        FOR defined IN
            SELECT d.objid AS table_oid FROM pg_catalog.pg_event_trigger_dropped_objects() AS d
            WHERE d.schema_name OPERATOR(pg_catalog.=) 'table_service_data' AND d.object_type OPERATOR(pg_catalog.=) 'table'
        LOOP
            PERFORM pg_catalog.table_service_note_definition(defined.table_oid);
        END LOOP;
        RETURN;
    END IF;
    FOR defined IN
        SELECT o.class, o.object, c.oid AS table_oid
        FROM (
            SELECT d.classid AS class, d.objid AS object, d.schema_name AS schema FROM pg_catalog.pg_event_trigger_ddl_commands() AS d
            UNION ALL
            -- An extension that moves takes its relations along. With quote_all_identifiers the schema's name is quoted.
            SELECT m.classid, m.objid, pg_catalog.btrim((pg_catalog.pg_identify_object(m.classid, m.objid, 0)).schema, '"')
            FROM pg_catalog.pg_event_trigger_ddl_commands() AS d
            JOIN pg_catalog.pg_depend AS m ON m.refclassid OPERATOR(pg_catalog.=) d.classid AND m.refobjid OPERATOR(pg_catalog.=) d.objid
            WHERE d.object_type OPERATOR(pg_catalog.=) 'extension'
        ) AS o
        LEFT JOIN pg_catalog.pg_class AS c ON o.class OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
            AND c.oid OPERATOR(pg_catalog.=) o.object AND c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p}')
        WHERE o.schema OPERATOR(pg_catalog.=) 'table_service_data'
            OR c.reloftype OPERATOR(pg_catalog.=) (SELECT t.oid FROM pg_catalog.pg_type AS t JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) t.typnamespace
                WHERE t.typname OPERATOR(pg_catalog.=) 'entity' AND n.nspname OPERATOR(pg_catalog.=) 'table_service')
    LOOP
        PERFORM pg_catalog.table_service_refuse_taken_names(defined.class, defined.object);
        PERFORM pg_catalog.table_service_note_definition(defined.table_oid);
    END LOOP;
END
$watch$;

CREATE EVENT TRIGGER table_service_definitions ON ddl_command_end
    WHEN TAG IN ('ALTER EXTENSION', 'ALTER FOREIGN TABLE', 'ALTER INDEX', 'ALTER MATERIALIZED VIEW', 'ALTER SEQUENCE', 'ALTER TABLE', 'ALTER TYPE', 'ALTER VIEW',
        'CREATE FOREIGN TABLE', 'CREATE INDEX', 'CREATE MATERIALIZED VIEW', 'CREATE SCHEMA', 'CREATE SEQUENCE', 'CREATE TABLE', 'CREATE TABLE AS', 'CREATE TYPE',
        'CREATE VIEW', 'IMPORT FOREIGN SCHEMA', 'SELECT INTO')
    EXECUTE FUNCTION table_service.watch_definitions();
ALTER EVENT TRIGGER table_service_definitions ENABLE ALWAYS;
CREATE EVENT TRIGGER table_service_drops ON sql_drop EXECUTE FUNCTION table_service.watch_definitions();
ALTER EVENT TRIGGER table_service_drops ENABLE ALWAYS;
