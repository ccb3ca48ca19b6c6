-- Upgrades a database from version 0.5.0 to 0.6.0. Objects that are new or that change are here and in sql/install.sql: a test
-- compares an upgraded database with a new one, object by object.

\echo Use "ALTER EXTENSION table_service UPDATE TO '0.6.0'" to load this file. \quit

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

-- Where the event trigger did not run, relations may have names that functions cannot tell apart. The upgrade goes on, and says which.
DO $twins$
DECLARE
    twins text;
BEGIN
    SELECT pg_catalog.string_agg(t.names, '; ' ORDER BY t.names) INTO twins
    FROM (
        SELECT pg_catalog.string_agg(pg_catalog.quote_ident(c.relname::pg_catalog.text), ', ' ORDER BY c.relname) AS names
        FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
        WHERE n.nspname OPERATOR(pg_catalog.=) 'table_service_data' AND c.relkind OPERATOR(pg_catalog.<>) ALL ('{i,I}')
        GROUP BY pg_catalog.lower(c.relname::pg_catalog.text COLLATE pg_catalog."C")
        HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 1 OR pg_catalog.lower(pg_catalog.min(c.relname::pg_catalog.text) COLLATE pg_catalog."C") OPERATOR(pg_catalog.=) 'tables'
    ) AS t;
    IF twins IS NOT NULL THEN
        RAISE WARNING 'relations in the schema table_service_data have names that differ in case only, or that are reserved: %', twins
            USING HINT = 'Rename them: ALTER TABLE, VIEW or INDEX table_service_data.name RENAME TO another. Until then calls with a name that two tables have fail.';
    END IF;
END
$twins$;

CREATE FUNCTION table_service.get_entities_by_keys("table_name" TEXT, "partition_keys" TEXT[], "row_keys" TEXT[], "projection" TEXT DEFAULT NULL)
RETURNS TABLE (partition_key text, row_key text, "timestamp" timestamptz, properties table_service.properties, index integer)
LANGUAGE c STABLE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'get_entities_by_keys_wrapper';
CREATE FUNCTION table_service.write_entities("table_name" TEXT, "partition_keys" TEXT[], "operations" table_service.batch_operation[])
RETURNS TABLE (index integer, outcome text, etag text, sqlstate text, message text, detail text, hint text)
LANGUAGE c AS 'MODULE_PATHNAME', 'write_entities_wrapper';
-- As sql/definitions.sql: a type without its schema may be another role's. In an extension's script PostgreSQL replaces only what is a
-- member of the extension. EXECUTE is there because pgspot does not know that.
DO $definitions$
BEGIN
    EXECUTE $replace$
CREATE OR REPLACE FUNCTION table_service.watch_definitions() RETURNS event_trigger LANGUAGE plpgsql AS $watch$
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
$watch$
    $replace$;
END
$definitions$;
-- As sql/planner.sql: pg_upgrade from PostgreSQL 18 or earlier kept the function without its support.
DO $support$
BEGIN
    IF pg_catalog.current_setting('server_version_num')::pg_catalog.int4 OPERATOR(pg_catalog.>=) 190000 THEN
        ALTER FUNCTION table_service.query_entities(text, text, text, bigint, table_service.properties) SUPPORT table_service.query_entities_support;
    END IF;
END
$support$;

-- What psql says of each object. Made from docs/reference by `cargo xtask schema --accept`: change the sentence there.
COMMENT ON FUNCTION table_service.set_access_policies(text, json) IS
    'Sets all stored access policies of a table at once.';
COMMENT ON FUNCTION table_service.get_access_policies(text) IS
    'Returns the stored access policies of a table.';
COMMENT ON TABLE table_service.access_policies IS
    'The stored access policies of all tables, one row a table.';
COMMENT ON COLUMN table_service.access_policies."relation" IS
    'The table.';
COMMENT ON COLUMN table_service.access_policies."policies" IS
    'Its policies, as set_access_policies takes them.';
COMMENT ON FUNCTION table_service.generate_sas(text, text, text, text, timestamptz, timestamptz, text, text, text, text, text, text, text) IS
    'Makes a shared access signature for a table.';
COMMENT ON FUNCTION table_service.set_service_properties(json) IS
    'Changes the service properties.';
COMMENT ON FUNCTION table_service.get_service_properties() IS
    'Returns the service properties.';
COMMENT ON TABLE table_service.service_properties IS
    'The service properties, in at most one row.';
COMMENT ON COLUMN table_service.service_properties."is_only" IS
    'Always true, so that there is one row.';
COMMENT ON COLUMN table_service.service_properties."properties" IS
    'The properties that somebody has set, as set_service_properties takes them.';
COMMENT ON FUNCTION table_service.grant_gateway_access(text) IS
    'Grants a role what the gateway needs besides its own tables.';
COMMENT ON FUNCTION table_service.execute_batch(text, text, VARIADIC table_service.batch_operation[]) IS
    'Executes operations on entities of one partition: all of them or none.';
COMMENT ON FUNCTION table_service.batch_insert(text, table_service.properties) IS
    'Makes the operation that inserts an entity.';
COMMENT ON FUNCTION table_service.batch_replace(text, table_service.properties, text) IS
    'Makes the operation that replaces all properties of an existing entity.';
COMMENT ON FUNCTION table_service.batch_merge(text, table_service.properties, text) IS
    'Makes the operation that sets the given properties of an existing entity.';
COMMENT ON FUNCTION table_service.batch_insert_or_replace(text, table_service.properties) IS
    'Makes the operation that inserts an entity, or replaces all properties if it exists.';
COMMENT ON FUNCTION table_service.batch_insert_or_merge(text, table_service.properties) IS
    'Makes the operation that inserts an entity, or sets the given properties if it exists.';
COMMENT ON FUNCTION table_service.batch_delete(text, text) IS
    'Makes the operation that deletes an entity.';
COMMENT ON FUNCTION table_service.batch_patch(text, table_service.properties, table_service.properties, text[], text, table_service.properties, text, boolean) IS
    'Makes the operation that changes an entity depending on what is stored.';
COMMENT ON TYPE table_service.batch_operation IS
    'The type of an operation in an entity group transaction.';
COMMENT ON COLUMN table_service.batch_operation."operation" IS
    'What to do: insert, replace, merge, insert_or_replace, insert_or_merge or delete; or patch with its arguments, as batch_patch writes it.';
COMMENT ON COLUMN table_service.batch_operation."row_key" IS
    'The RowKey of the entity.';
COMMENT ON COLUMN table_service.batch_operation."properties" IS
    'The properties; NULL for a delete, and for a patch that sets none.';
COMMENT ON COLUMN table_service.batch_operation."if_match" IS
    'The ETag of the version that may be changed, or * for any; NULL for operations that have none.';
COMMENT ON FUNCTION table_service.execute_batch_json(text, text, text) IS
    'Executes operations that are given as a JSON array, all of them or none.';
COMMENT ON FUNCTION table_service.count_entities(text, text, table_service.properties) IS
    'Returns how many entities pass a filter.';
COMMENT ON FUNCTION table_service.delete_entities(text, text, bigint, table_service.properties) IS
    'Deletes the entities that pass a filter and returns how many it has deleted.';
COMMENT ON FUNCTION table_service.update_entities(text, text, table_service.properties, text[], bigint, table_service.properties) IS
    'Changes the entities that pass a filter, and returns how many.';
COMMENT ON FUNCTION table_service.delete_entities_step(text, text, bigint, text, table_service.properties) IS
    'Deletes some of the entities that pass a filter, in key order, and returns how many, with the token of the next step.';
COMMENT ON FUNCTION table_service.update_entities_step(text, text, table_service.properties, text[], bigint, text, table_service.properties) IS
    'Changes some of the entities that pass a filter, as update_entities does, and returns how many, with the token of the next step.';
COMMENT ON PROCEDURE table_service.delete_entities_in_steps(table_name text, filter text, step bigint, pause interval, parameters properties, INOUT bigint, INOUT text) IS
    'Deletes the entities that pass a filter in steps of step entities, and commits after each.';
COMMENT ON PROCEDURE table_service.update_entities_in_steps(table_name text, filter text, properties properties, remove text[], step bigint, pause interval, parameters properties, INOUT bigint, INOUT text) IS
    'Changes the entities that pass a filter, as update_entities does, in steps, and commits after each.';
COMMENT ON FUNCTION table_service.clear_table(text) IS
    'Removes all entities of a table by TRUNCATE.';
COMMENT ON FUNCTION table_service.create_change_feed(text, text[], boolean, boolean) IS
    'Creates a change feed of tables, and returns its first position.';
COMMENT ON FUNCTION table_service.query_changes(text, bigint) IS
    'Returns the changes that are not confirmed, in the order of commits.';
COMMENT ON FUNCTION table_service.confirm_changes(text, text) IS
    'Confirms all changes of a feed up to a position, when the transaction commits: they do not come again.';
COMMENT ON FUNCTION table_service.query_feed(text, bigint) IS
    'Returns what query_changes returns, with the OIDs of the tables, and beside it their definitions and the marks of the feed.';
COMMENT ON FUNCTION table_service.mark_change_feed(text, text) IS
    'Writes a mark into PostgreSQL''s log, and returns its position.';
COMMENT ON FUNCTION table_service.query_change_feeds() IS
    'Returns the change feeds of the database, with their tables and with how much of PostgreSQL''s log they retain.';
COMMENT ON FUNCTION table_service.drop_change_feed(text, boolean) IS
    'Drops a change feed when the transaction commits, and returns whether there was one.';
COMMENT ON TYPE table_service.entity IS
    'The type of all tables of the service.';
COMMENT ON COLUMN table_service.entity."partition_key" IS
    'The PartitionKey; entities with the same one can be changed together.';
COMMENT ON COLUMN table_service.entity."row_key" IS
    'The RowKey, which identifies the entity in its partition.';
COMMENT ON COLUMN table_service.entity."timestamp" IS
    'The time of the latest write, from which the ETag is derived.';
COMMENT ON COLUMN table_service.entity."properties" IS
    'The typed properties.';
COMMENT ON SCHEMA table_service_data IS
    'The schema of the tables of the service: the relations in it of the type table_service.entity.';
COMMENT ON FUNCTION table_service.etag(table_service.entity) IS
    'Returns the ETag of an entity.';
COMMENT ON FUNCTION table_service.etag(timestamptz) IS
    'Returns the ETag of an entity with this Timestamp.';
COMMENT ON FUNCTION table_service.entity_to_json(table_service.entity, text) IS
    'Returns the entity in the service''s payload form.';
COMMENT ON FUNCTION table_service.entity_from_json(text) IS
    'Returns the entity in a payload.';
COMMENT ON FUNCTION table_service.ticks(timestamptz) IS
    'Returns a point in time as .NET''s DateTime.Ticks: units of 100 ns since the year 1.';
COMMENT ON FUNCTION table_service.from_ticks(bigint) IS
    'Returns the point in time of ticks, truncated to microseconds.';
COMMENT ON FUNCTION table_service.inverted_ticks(timestamptz) IS
    'Returns 19 digits that become smaller as time goes on.';
COMMENT ON FUNCTION table_service.from_inverted_ticks(text) IS
    'Returns the point in time of inverted ticks.';
COMMENT ON FUNCTION table_service.retry_delay(integer, interval, interval, interval) IS
    'Returns how long to wait before retry number retry.';
COMMENT ON FUNCTION table_service.set_expiry(text, text, interval, boolean) IS
    'Says when the entities of a table expire, and returns the index that keeps it.';
COMMENT ON FUNCTION table_service.drop_expiry(text, boolean) IS
    'Ends the expiry of a table, after it has removed the entities that have expired: they would appear again.';
COMMENT ON FUNCTION table_service.expiry_sql(text, text, interval) IS
    'Returns the statement that sets the expiry of a table while others read and write it.';
COMMENT ON FUNCTION table_service.query_expiry(text) IS
    'Returns when the entities of a table, or of all tables, expire: one row for each index.';
COMMENT ON FUNCTION table_service.expire_entities(text, bigint, timestamptz, boolean) IS
    'Removes entities that have expired, of a table or of all tables: of each at most top, those first that expired first.';
COMMENT ON FUNCTION table_service.expires_at(timestamptz, table_service.properties, text, bigint) IS
    'Returns when an entity expires, or NULL if never.';
COMMENT ON SCHEMA table_service IS
    'The functions, types and operators of the extension.';
COMMENT ON FUNCTION table_service.properties_in(cstring) IS
    'Reads the text form.';
COMMENT ON FUNCTION table_service.properties_out(table_service.properties) IS
    'Writes the text form.';
COMMENT ON FUNCTION table_service.properties_recv(internal) IS
    'Reads the binary form, and checks it.';
COMMENT ON FUNCTION table_service.properties_send(table_service.properties) IS
    'Writes the binary form.';
COMMENT ON FUNCTION table_service.properties_from_json(json) IS
    'Is the cast from json.';
COMMENT ON FUNCTION table_service.properties_to_json(table_service.properties) IS
    'Is the cast to json.';
COMMENT ON FUNCTION table_service.properties_from_jsonb(jsonb) IS
    'Is the cast from jsonb.';
COMMENT ON FUNCTION table_service.properties_to_jsonb(table_service.properties) IS
    'Is the cast to jsonb.';
COMMENT ON FUNCTION table_service.properties_to_text(table_service.properties) IS
    'Is the cast to text.';
COMMENT ON FUNCTION table_service.properties_get(table_service.properties, text) IS
    'Is the operator -> under a name.';
COMMENT ON FUNCTION table_service.properties_get_text(table_service.properties, text) IS
    'Is the operator ->> under a name.';
COMMENT ON FUNCTION table_service.properties_get_path(table_service.properties, text[]) IS
    'Is the operator #> under a name.';
COMMENT ON FUNCTION table_service.properties_get_path_text(table_service.properties, text[]) IS
    'Is the operator #>> under a name.';
COMMENT ON FUNCTION table_service.properties_contains(table_service.properties, table_service.properties) IS
    'Is the operator @> under a name.';
COMMENT ON FUNCTION table_service.properties_contained(table_service.properties, table_service.properties) IS
    'Is the operator <@ under a name.';
COMMENT ON FUNCTION table_service.properties_subscript(internal) IS
    'Tells PostgreSQL how subscripts of properties are parsed and evaluated.';
COMMENT ON FUNCTION table_service.merge_properties(table_service.properties, table_service.properties) IS
    'Is the operator || under a name.';
COMMENT ON FUNCTION table_service.remove_property(table_service.properties, text) IS
    'Is the operator - under a name, for one property.';
COMMENT ON FUNCTION table_service.remove_properties(table_service.properties, text[]) IS
    'Is the operator - under a name, for several properties.';
COMMENT ON FUNCTION table_service.properties_cmp(table_service.properties, table_service.properties) IS
    'Compares two values in an order without a meaning: -1, 0 or 1.';
COMMENT ON FUNCTION table_service.properties_eq(table_service.properties, table_service.properties) IS
    'Is the operator =.';
COMMENT ON FUNCTION table_service.properties_ne(table_service.properties, table_service.properties) IS
    'Is the operator <>.';
COMMENT ON FUNCTION table_service.properties_lt(table_service.properties, table_service.properties) IS
    'Is the operator <.';
COMMENT ON FUNCTION table_service.properties_le(table_service.properties, table_service.properties) IS
    'Is the operator <=.';
COMMENT ON FUNCTION table_service.properties_gt(table_service.properties, table_service.properties) IS
    'Is the operator >.';
COMMENT ON FUNCTION table_service.properties_ge(table_service.properties, table_service.properties) IS
    'Is the operator >=.';
COMMENT ON FUNCTION table_service.properties_hash(table_service.properties) IS
    'Returns a hash value.';
COMMENT ON FUNCTION table_service.properties_hash_extended(table_service.properties, bigint) IS
    'Returns a hash value that depends on a seed.';
COMMENT ON FUNCTION table_service.entity_is_valid(text, text, timestamptz, table_service.properties) IS
    'Is the CHECK constraint of every table.';
COMMENT ON FUNCTION table_service.rising_timestamp() IS
    'Is the trigger of every table that makes the Timestamp rise.';
COMMENT ON FUNCTION table_service.next_timestamp(timestamptz, timestamptz) IS
    'Returns the later of the clock and one microsecond after the old Timestamp.';
COMMENT ON FUNCTION table_service.merge_fits(text, text, table_service.properties, table_service.properties) IS
    'Says whether a merge stays within the limits.';
COMMENT ON EVENT TRIGGER table_service_definitions IS
    'Keeps the names of relations in table_service_data apart, and notes definitions of tables for the readers of change feeds.';
COMMENT ON EVENT TRIGGER table_service_drops IS
    'Notes for the readers of change feeds that tables are dropped.';
COMMENT ON FUNCTION table_service.watch_definitions() IS
    'Is the function of both event triggers.';
COMMENT ON FUNCTION pg_catalog.table_service_refuse_taken_names(oid, oid) IS
    'Refuses a name that a command has given to a relation in table_service_data, if another one has it in any case.';
COMMENT ON FUNCTION pg_catalog.table_service_note_definition(oid) IS
    'Notes in PostgreSQL''s log what a relation is as a table of the service, if the transaction has locked it.';
COMMENT ON FUNCTION table_service.entity_passes(text, text, timestamptz, table_service.properties, text) IS
    'Tests an entity with the part of a filter that no key range covers.';
COMMENT ON FUNCTION table_service.scan_passes(table_service.properties, bytea) IS
    'Tests the properties of a row with a compiled filter, in the scans of queries.';
COMMENT ON FUNCTION table_service.scan_passes(text, text, timestamptz, table_service.properties, bytea) IS
    'Tests a row with a compiled filter that also needs keys or Timestamp, in the scans of queries.';
COMMENT ON FUNCTION table_service.property_index_key(text, text, table_service.properties, text) IS
    'Is the expression of property indexes: the value of a property, and behind it the keys.';
COMMENT ON FUNCTION table_service.matches_support(internal) IS
    'Tells PostgreSQL''s planner how matches can be read through indexes, and how many entities pass a filter.';
COMMENT ON FUNCTION table_service.query_entities_support(internal) IS
    'Gives PostgreSQL''s planner the query that a call of query_entities in FROM stands for, from PostgreSQL 19 on.';
COMMENT ON TYPE table_service.properties IS
    'The typed properties of one entity.';
COMMENT ON OPERATOR table_service.-> (table_service.properties, text) IS
    'The value of a property in payload form, as jsonb; NULL if it is absent.';
COMMENT ON OPERATOR table_service.->> (table_service.properties, text) IS
    'The value of a property in payload form, as text; NULL if it is absent.';
COMMENT ON OPERATOR table_service.#> (table_service.properties, text[]) IS
    'The value of the property that a path names, as jsonb; all properties for the empty path.';
COMMENT ON OPERATOR table_service.#>> (table_service.properties, text[]) IS
    'The value of the property that a path names, as text; all properties for the empty path.';
COMMENT ON OPERATOR table_service.? (table_service.properties, text) IS
    'Whether there is a property of that name.';
COMMENT ON OPERATOR table_service.?| (table_service.properties, text[]) IS
    'Whether there is a property of any of those names.';
COMMENT ON OPERATOR table_service.?& (table_service.properties, text[]) IS
    'Whether there are properties of all those names.';
COMMENT ON OPERATOR table_service.@> (table_service.properties, table_service.properties) IS
    'Whether the left side has every property of the right side, with the same type and value.';
COMMENT ON OPERATOR table_service.<@ (table_service.properties, table_service.properties) IS
    'Whether the right side has every property of the left side, with the same type and value.';
COMMENT ON OPERATOR table_service.|| (table_service.properties, table_service.properties) IS
    'The properties of both sides; the right side wins.';
COMMENT ON OPERATOR table_service.- (table_service.properties, text) IS
    'The properties without the named one.';
COMMENT ON OPERATOR table_service.- (table_service.properties, text[]) IS
    'The properties without those named.';
COMMENT ON OPERATOR table_service.= (table_service.properties, table_service.properties) IS
    'Whether both sides have the same names with the same types and values.';
COMMENT ON OPERATOR table_service.<> (table_service.properties, table_service.properties) IS
    'Whether the sides differ in a name, a type or a value.';
COMMENT ON OPERATOR table_service.< (table_service.properties, table_service.properties) IS
    'Whether the left side is earlier in an order without a meaning.';
COMMENT ON OPERATOR table_service.<= (table_service.properties, table_service.properties) IS
    'Whether the left side is earlier in an order without a meaning, or equal.';
COMMENT ON OPERATOR table_service.> (table_service.properties, table_service.properties) IS
    'Whether the left side is later in an order without a meaning.';
COMMENT ON OPERATOR table_service.>= (table_service.properties, table_service.properties) IS
    'Whether the left side is later in an order without a meaning, or equal.';
COMMENT ON OPERATOR CLASS table_service.properties_ops USING btree IS
    'For DISTINCT, ORDER BY, merge joins and B-tree indexes.';
COMMENT ON OPERATOR FAMILY table_service.properties_ops USING btree IS
    'For DISTINCT, ORDER BY, merge joins and B-tree indexes.';
COMMENT ON OPERATOR CLASS table_service.properties_ops USING hash IS
    'For DISTINCT, GROUP BY, hash joins and hash indexes.';
COMMENT ON OPERATOR FAMILY table_service.properties_ops USING hash IS
    'For DISTINCT, GROUP BY, hash joins and hash indexes.';
COMMENT ON FUNCTION table_service.has_property(table_service.properties, text) IS
    'Says whether there is a property of that name; the operator ? under a name.';
COMMENT ON FUNCTION table_service.has_any_property(table_service.properties, text[]) IS
    'Says whether there is a property of any of those names; the operator ?| under a name.';
COMMENT ON FUNCTION table_service.has_all_properties(table_service.properties, text[]) IS
    'Says whether there are properties of all those names; the operator ?& under a name.';
COMMENT ON FUNCTION table_service.property_type(table_service.properties, text) IS
    'Returns the name of a property''s Edm type, or NULL if the property is absent.';
COMMENT ON FUNCTION table_service.each_property(table_service.properties) IS
    'Returns a row for each property, in the order of names.';
COMMENT ON FUNCTION table_service.get_string(table_service.properties, text) IS
    'Returns the value of a String property, or NULL.';
COMMENT ON FUNCTION table_service.get_int32(table_service.properties, text) IS
    'Returns the value of an Int32 property, or NULL.';
COMMENT ON FUNCTION table_service.get_int64(table_service.properties, text) IS
    'Returns the value of an Int64 or Int32 property, or NULL.';
COMMENT ON FUNCTION table_service.get_double(table_service.properties, text) IS
    'Returns the value of a Double or Int32 property, or NULL.';
COMMENT ON FUNCTION table_service.get_boolean(table_service.properties, text) IS
    'Returns the value of a Boolean property, or NULL.';
COMMENT ON FUNCTION table_service.get_datetime(table_service.properties, text) IS
    'Returns the value of a DateTime property, truncated to microseconds, or NULL.';
COMMENT ON FUNCTION table_service.get_ticks(table_service.properties, text) IS
    'Returns the exact value of a DateTime property, in units of 100 ns since the year 1, or NULL.';
COMMENT ON FUNCTION table_service.get_guid(table_service.properties, text) IS
    'Returns the value of a Guid property, or NULL.';
COMMENT ON FUNCTION table_service.get_binary(table_service.properties, text) IS
    'Returns the value of a Binary property, or NULL.';
COMMENT ON CAST (json AS table_service.properties) IS
    'Takes a JSON object in payload form, and reads its text as it is.';
COMMENT ON CAST (table_service.properties AS json) IS
    'Gives the payload form; PostgreSQL''s JSON functions use it.';
COMMENT ON CAST (jsonb AS table_service.properties) IS
    'Takes a JSON object in payload form.';
COMMENT ON CAST (table_service.properties AS jsonb) IS
    'Gives the payload form; cast back, it is the same value.';
COMMENT ON CAST (table_service.properties AS text) IS
    'Gives the payload form, as the output of the type does.';
COMMENT ON FUNCTION table_service.to_properties(record) IS
    'Converts the columns of a row to properties.';
COMMENT ON FUNCTION table_service.create_property_index(text, text, boolean) IS
    'Creates an index on a property of a table, collects statistics with ANALYZE, and returns the index.';
COMMENT ON FUNCTION table_service.drop_property_index(text, text, boolean) IS
    'Drops the indexes on a property, those that are not valid included.';
COMMENT ON FUNCTION table_service.query_property_indexes(text) IS
    'Returns the property indexes of a table, or of all tables.';
COMMENT ON FUNCTION table_service.property_index_sql(text, text) IS
    'Returns the statement that creates an index while others read and write the table.';
COMMENT ON FUNCTION table_service.get_entity(text, text, text, text) IS
    'Returns the entity with these keys, or no row.';
COMMENT ON FUNCTION table_service.get_entities(text, text, text[], text) IS
    'Returns those of the entities with these keys that exist, in key order.';
COMMENT ON FUNCTION table_service.get_entities_by_keys(text, text[], text[], text) IS
    'Returns those of the entities with these pairs of keys that exist, in the order of the pairs.';
COMMENT ON FUNCTION table_service.query_entities(text, text, text, bigint, table_service.properties) IS
    'Returns all entities that satisfy the filter, in key order, under one snapshot.';
COMMENT ON FUNCTION table_service.query_page(text, text, text, bigint, text, table_service.properties) IS
    'Returns one page of the entities that satisfy the filter, in key order.';
COMMENT ON FUNCTION table_service.query_page_json(text, text, text, bigint, text, table_service.properties, text) IS
    'Returns one page as one JSON object, for drivers.';
COMMENT ON FUNCTION table_service.query_page_chunks(text, text, text, bigint, text, table_service.properties, text, bigint) IS
    'Returns one page as the text of a JSON array, in rows of at most 64 KiB.';
COMMENT ON FUNCTION table_service.filter_to_sql(text, text, table_service.properties) IS
    'Returns the SQL condition for a filter, over the columns of an entity, for a WHERE clause.';
COMMENT ON FUNCTION table_service.matches(table_service.entity, text, table_service.properties) IS
    'Says whether an entity satisfies a filter, for use in WHERE, CHECK and CASE.';
COMMENT ON FUNCTION table_service.explain_query(text, text, table_service.properties) IS
    'Shows how a query would run, without running it.';
COMMENT ON FUNCTION table_service.partition_statistics(text) IS
    'Returns the number of entities of each partition and the bytes of their rows, in the order of PartitionKeys.';
COMMENT ON FUNCTION table_service.enable_citus(integer) IS
    'Distributes the tables of the service over the servers of a Citus cluster, by their PartitionKey.';
COMMENT ON FUNCTION table_service.disable_citus() IS
    'Takes all distributed tables of the service back to the coordinator.';
COMMENT ON FUNCTION table_service.shard_map(text) IS
    'Returns which server has which partitions of a table: a row for each range of hashes.';
COMMENT ON FUNCTION table_service.partition_hash(text) IS
    'Returns the hash of a PartitionKey: the ranges of shard_map are of such hashes.';
COMMENT ON FUNCTION table_service.create_table(text, boolean) IS
    'Creates a table and returns it.';
COMMENT ON FUNCTION table_service.delete_table(text, boolean) IS
    'Drops a table with all its entities and frees its name.';
COMMENT ON FUNCTION table_service.hold_table(text, oid) IS
    'Returns the OID of a table, and holds its name: until the transaction ends, the name leads to this table.';
COMMENT ON FUNCTION table_service.query_tables(text, bigint, text, table_service.properties) IS
    'Returns the tables whose names satisfy the filter, in the order of their lower-case names.';
COMMENT ON FUNCTION table_service.insert_entity(text, text, text, table_service.properties) IS
    'Inserts an entity.';
COMMENT ON FUNCTION table_service.replace_entity(text, text, text, table_service.properties, text) IS
    'Replaces all properties of an existing entity.';
COMMENT ON FUNCTION table_service.merge_entity(text, text, text, table_service.properties, text) IS
    'Sets the given properties of an existing entity and keeps its others.';
COMMENT ON FUNCTION table_service.insert_or_replace_entity(text, text, text, table_service.properties) IS
    'Inserts an entity, or replaces all properties if it exists.';
COMMENT ON FUNCTION table_service.insert_or_merge_entity(text, text, text, table_service.properties) IS
    'Inserts an entity, or sets the given properties if it exists.';
COMMENT ON FUNCTION table_service.patch_entity(text, text, text, table_service.properties, table_service.properties, text[], text, table_service.properties, text, boolean) IS
    'Changes an entity depending on what is stored, and returns it as it is stored afterwards.';
COMMENT ON FUNCTION table_service.delete_entity(text, text, text, text, boolean) IS
    'Deletes an entity and returns true.';
COMMENT ON FUNCTION table_service.write_entities(text, text[], table_service.batch_operation[]) IS
    'Executes up to 32 independent operations on a table, each with its own outcome.';
-- The end of what psql says.
