-- What tells the readers of change feeds that a relation has become a table of the service, has another name, or is none any more: notes
-- in PostgreSQL's log. Only what concerns these tables calls the library, so no other definition needs it. With ENABLE ALWAYS a session with
-- session_replication_role = 'replica' notes its definitions too.
CREATE FUNCTION table_service.note_definitions() RETURNS event_trigger LANGUAGE plpgsql AS $notes$
DECLARE
    changed pg_catalog.oid;
BEGIN
    FOR changed IN
        SELECT d.objid FROM pg_catalog.pg_event_trigger_dropped_objects() AS d
        WHERE TG_EVENT OPERATOR(pg_catalog.=) 'sql_drop' AND d.schema_name OPERATOR(pg_catalog.=) 'table_service_data' AND d.object_type OPERATOR(pg_catalog.=) 'table'
        UNION ALL
        SELECT DISTINCT c.oid FROM (
            SELECT d.classid, d.objid FROM pg_catalog.pg_event_trigger_ddl_commands() AS d WHERE TG_EVENT OPERATOR(pg_catalog.=) 'ddl_command_end'
            UNION ALL
            -- An extension that moves takes its tables along.
            SELECT m.classid, m.objid FROM pg_catalog.pg_event_trigger_ddl_commands() AS d
            JOIN pg_catalog.pg_depend AS m ON m.refclassid OPERATOR(pg_catalog.=) d.classid AND m.refobjid OPERATOR(pg_catalog.=) d.objid
            WHERE TG_EVENT OPERATOR(pg_catalog.=) 'ddl_command_end' AND d.object_type OPERATOR(pg_catalog.=) 'extension'
        ) AS d
        JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) d.objid
        WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
            AND c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p}')
            AND (c.relnamespace OPERATOR(pg_catalog.=) (SELECT n.oid FROM pg_catalog.pg_namespace AS n WHERE n.nspname OPERATOR(pg_catalog.=) 'table_service_data')
                OR c.reloftype OPERATOR(pg_catalog.=) (SELECT t.oid FROM pg_catalog.pg_type AS t JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) t.typnamespace
                    WHERE t.typname OPERATOR(pg_catalog.=) 'entity' AND n.nspname OPERATOR(pg_catalog.=) 'table_service'))
    LOOP
        PERFORM pg_catalog.table_service_note_definition(changed);
    END LOOP;
END
$notes$;
CREATE EVENT TRIGGER table_service_definitions ON ddl_command_end EXECUTE FUNCTION table_service.note_definitions();
ALTER EVENT TRIGGER table_service_definitions ENABLE ALWAYS;
CREATE EVENT TRIGGER table_service_drops ON sql_drop EXECUTE FUNCTION table_service.note_definitions();
ALTER EVENT TRIGGER table_service_drops ENABLE ALWAYS;
