//! The statements of the explorer. Each call of the page is one statement, so each is one transaction.
//!
//! A statement takes texts and casts them itself. It returns one JSON value, which goes to the page unchanged. It calls
//! the SQL API, and reads sizes, indexes and estimates in PostgreSQL's catalogs and counters. All names are qualified,
//! because other users may have made functions, operators and types in a schema of the search_path. Each call gives its
//! arguments with their types, because the owner of the database may have made another function of that name.

use std::sync::LazyLock;

/// A call.
pub struct Call {
    /// Its path behind the account.
    pub name: &'static str,
    /// The names of `$1`, `$2` and so on in the body.
    pub parameters: &'static [&'static str],
    pub sql: &'static str,
}

/// The length of a value in the grid. `get_entity` gives the whole value.
const SHOWN: &str = "200";

/// The relations of the table `t`: itself and its partitions. PostgreSQL takes the steps of a recursion for many relations, and would read the
/// whole catalog to join with it. An array is looked up in the index. `pg_partition_tree` would lock the partitions.
const RELATIONS: &str = "ARRAY(WITH RECURSIVE tree (oid) AS (SELECT t.relation::pg_catalog.oid UNION ALL
               SELECT h.inhrelid FROM tree AS p JOIN pg_catalog.pg_inherits AS h ON h.inhparent OPERATOR(pg_catalog.=) p.oid
                 JOIN pg_catalog.pg_class AS k ON k.oid OPERATOR(pg_catalog.=) h.inhrelid AND k.relispartition)
             SELECT p.oid FROM tree AS p)";

/// The relations whose size is not asked for, because that would wait: another session has or awaits the strongest lock
/// on them, or on an index of theirs.
const LOCKED: &str = "ARRAY(SELECT coalesce(x.indrelid, l.relation) FROM pg_catalog.pg_locks AS l
             LEFT JOIN pg_catalog.pg_index AS x ON x.indexrelid OPERATOR(pg_catalog.=) l.relation
           WHERE l.locktype OPERATOR(pg_catalog.=) 'relation' AND l.mode OPERATOR(pg_catalog.=) 'AccessExclusiveLock'
             AND l.database OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database AS d
               WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()))";

/// The table `$1`, found by its name.
const TABLE: &str =
    "table_service.query_tables('TableName eq @name'::pg_catalog.text, NULL::pg_catalog.int8, NULL::pg_catalog.text,
           pg_catalog.json_build_object('name', $1::pg_catalog.text)::pg_catalog.text::table_service.properties)";

/// The rows that this session has read of the relations of `r`, until now.
const ROWS_READ: &str = "(SELECT pg_catalog.sum(x.seq_tup_read OPERATOR(pg_catalog.+) coalesce(x.idx_tup_fetch, 0))
          FROM pg_catalog.pg_stat_xact_all_tables AS x WHERE x.relid OPERATOR(pg_catalog.=) ANY (r.oids))";

/// The call that prepares a download ([`EXPORTED`]). It is no statement.
pub const EXPORT: &str = "export";
/// The call that shows the beginning of a file. It is no statement.
pub const PREVIEW: &str = "preview_import";
/// The call that gets its `entities` from a part of a file.
pub const IMPORT: &str = "import_entities";

macro_rules! calls {
    ($($name:ident($($parameter:ident),*) $sql:literal;)*) => {
        vec![$(Call {
            name: stringify!($name),
            parameters: &[$(stringify!($parameter)),*],
            sql: format!($sql).leak(),
        }),*]
    };
}

/// All other calls. Their names are here once; a test compares the page's scripts with them.
pub static CALLS: LazyLock<Vec<Call>> = LazyLock::new(|| {
    let moment = |value: &str| {
        // As the service writes it.
        format!("pg_catalog.to_char({value} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
    };
    // The properties of the bag of `e`: name, type, the value or its beginning, and its length.
    let properties = |value: &str| {
        format!(
            "(SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(v.name, v.type, {value}, pg_catalog.length(v.value))), '[]') FROM table_service.each_property(e.properties) AS v)"
        )
    };
    // The members of the entity `e`.
    let entity = |properties: &str| {
        format!(
            "'partitionKey', e.partition_key, 'rowKey', e.row_key, 'etag', table_service.etag(e.\"timestamp\"), 'timestamp', {}, 'properties', {properties}",
            moment("e.\"timestamp\"")
        )
    };
    let whole_properties = properties("v.value");
    let whole_entity = entity(&whole_properties);
    let shown_entity = entity(&properties(&format!("pg_catalog.left(v.value, {SHOWN})")));
    let (oldest, committed) = (moment("x.oldest"), moment("c.committed"));
    calls! {
        // PostgreSQL counts the rows of a table that was never analysed, unless it has crashed since.
        query_tables(token)
            "SELECT pg_catalog.json_build_object('tables', coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
                'name', t.table_name, 'estimate', s.estimate, 'bytes', s.bytes, 'indexes', i.indexes)
                  ORDER BY pg_catalog.lower(t.table_name) COLLATE pg_catalog.\"C\"), '[]'),
                'token', pg_catalog.max(t.continuation_token))
              FROM (SELECT {LOCKED} AS oids) AS l, table_service.query_tables(NULL::pg_catalog.text, 1000::pg_catalog.int8, $1::pg_catalog.text, NULL::table_service.properties) AS t,
                LATERAL (SELECT pg_catalog.sum(z.entities)::pg_catalog.int8 AS estimate,
                                CASE WHEN pg_catalog.count(*) OPERATOR(pg_catalog.=) pg_catalog.count(z.bytes)
                                  THEN pg_catalog.sum(z.bytes)::pg_catalog.int8 END AS bytes
                         FROM (SELECT CASE WHEN c.reltuples OPERATOR(pg_catalog.>) 0 THEN c.reltuples
                                 WHEN pg_catalog.pg_stat_get_live_tuples(c.oid) OPERATOR(pg_catalog.>) 0 THEN pg_catalog.pg_stat_get_live_tuples(c.oid)
                                 WHEN c.reltuples OPERATOR(pg_catalog.=) 0 THEN 0 WHEN c.oid OPERATOR(pg_catalog.=) ANY (l.oids) THEN NULL
                                 WHEN pg_catalog.pg_relation_size(c.oid, 'main') OPERATOR(pg_catalog.=) 0 THEN 0 END AS entities,
                               CASE WHEN c.oid OPERATOR(pg_catalog.=) ANY (l.oids) OR c.reltoastrelid OPERATOR(pg_catalog.=) ANY (l.oids) THEN NULL
                                 ELSE pg_catalog.pg_total_relation_size(c.oid) END AS bytes
                               FROM pg_catalog.pg_class AS c
                               WHERE c.relkind OPERATOR(pg_catalog.=) 'r' AND c.oid OPERATOR(pg_catalog.=) ANY ({RELATIONS}) OFFSET 0) AS z) AS s,
                LATERAL (SELECT pg_catalog.count(*) AS indexes FROM pg_catalog.pg_index AS n
                         WHERE n.indrelid OPERATOR(pg_catalog.=) t.relation::pg_catalog.oid AND NOT n.indisprimary) AS i";
        create_table(table)
            "SELECT pg_catalog.json_build_object('relation', table_service.create_table($1::pg_catalog.text, false))";
        delete_table(table)
            "SELECT pg_catalog.json_build_object('deleted', table_service.delete_table($1::pg_catalog.text, false))";
        clear_table(table)
            "SELECT pg_catalog.json_build_object('cleared', table_service.clear_table($1::pg_catalog.text)::pg_catalog.text)";
        count_entities(table, filter)
            "SELECT pg_catalog.json_build_object('count', table_service.count_entities($1::pg_catalog.text, $2::pg_catalog.text, NULL::table_service.properties))";
        explain_query(table, filter)
            "SELECT pg_catalog.row_to_json(e) FROM table_service.explain_query($1::pg_catalog.text, $2::pg_catalog.text, NULL::table_service.properties) AS e";
        // The counters of the session may have more than this transaction, so they are read before and behind the page.
        query_page(table, filter, select, top, token)
            "WITH before AS MATERIALIZED (SELECT r.oids, {ROWS_READ} AS read FROM (SELECT {RELATIONS} AS oids FROM {TABLE} AS t UNION ALL SELECT '{{}}'::pg_catalog.oid[] LIMIT 1) AS r),
             page AS MATERIALIZED (SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_object({shown_entity}) ORDER BY e.ordinality) FILTER (WHERE e.partition_key IS NOT NULL), '[]') AS entities,
                 pg_catalog.max(e.continuation_token) AS token
               FROM before AS r, LATERAL table_service.query_page($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text,
                 CASE WHEN r.oids IS NOT NULL THEN $4::pg_catalog.text::pg_catalog.int8 END, $5::pg_catalog.text,
                 NULL::table_service.properties) WITH ORDINALITY AS e)
             SELECT pg_catalog.json_build_object('entities', p.entities, 'token', p.token, 'read', {ROWS_READ} OPERATOR(pg_catalog.-) r.read) FROM page AS p, before AS r";
        // The first PartitionKeys behind one, each found by a look-up, and those that PostgreSQL's statistics know as the commonest.
        query_partitions(table, after)
            "WITH RECURSIVE walk AS (
               SELECT p.partition_key, p.continuation_token, 1 AS step
                 FROM table_service.query_page($1::pg_catalog.text,
                   CASE WHEN $2::pg_catalog.text IS NOT NULL THEN 'PartitionKey gt @after' END::pg_catalog.text,
                   'PartitionKey'::pg_catalog.text, 1::pg_catalog.int8, NULL::pg_catalog.text,
                   pg_catalog.json_build_object('after', coalesce($2::pg_catalog.text, ''))::pg_catalog.text::table_service.properties) AS p
               UNION ALL
               SELECT p.partition_key, p.continuation_token, w.step OPERATOR(pg_catalog.+) 1
                 FROM walk AS w, LATERAL table_service.query_page($1::pg_catalog.text, 'PartitionKey gt @after'::pg_catalog.text,
                   'PartitionKey'::pg_catalog.text, 1::pg_catalog.int8, NULL::pg_catalog.text,
                   pg_catalog.json_build_object('after', w.partition_key)::pg_catalog.text::table_service.properties) AS p
                 WHERE w.step OPERATOR(pg_catalog.<) 50 AND w.partition_key IS NOT NULL)
             SELECT pg_catalog.json_build_object(
               'partitions', coalesce((SELECT pg_catalog.json_agg(w.partition_key ORDER BY w.step)
                                       FROM walk AS w WHERE w.partition_key IS NOT NULL), '[]'),
               'more', EXISTS (SELECT FROM walk AS w WHERE w.step OPERATOR(pg_catalog.=) 50 OR (w.partition_key IS NULL AND w.continuation_token IS NOT NULL)),
               'common', coalesce((SELECT pg_catalog.json_agg(pg_catalog.json_build_array(m.key,
                     pg_catalog.round((m.frequency OPERATOR(pg_catalog.*) s.estimate)::pg_catalog.numeric)) ORDER BY m.frequency DESC)
                   FROM (SELECT z.* FROM pg_catalog.pg_stats AS z
                         WHERE z.schemaname OPERATOR(pg_catalog.=) c.nspname AND z.tablename OPERATOR(pg_catalog.=) c.relname
                           AND z.attname OPERATOR(pg_catalog.=) 'partition_key' ORDER BY z.inherited DESC LIMIT 1) AS z,
                     LATERAL ROWS FROM (pg_catalog.unnest(z.most_common_vals::pg_catalog.text::pg_catalog.text[]),
                       pg_catalog.unnest(z.most_common_freqs)) AS m (key, frequency)), '[]'),
               'estimate', s.estimate, 'bytes', s.bytes)
             FROM {TABLE} AS t, LATERAL (SELECT k.relname, n.nspname FROM pg_catalog.pg_class AS k
                   JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) k.relnamespace
                 WHERE k.oid OPERATOR(pg_catalog.=) t.relation::pg_catalog.oid) AS c,
               LATERAL (SELECT pg_catalog.sum(k.reltuples) FILTER (WHERE k.reltuples OPERATOR(pg_catalog.>=) 0)::pg_catalog.int8 AS estimate,
                   pg_catalog.sum(pg_catalog.pg_table_size(k.oid))::pg_catalog.int8 AS bytes
                 FROM pg_catalog.pg_class AS k WHERE k.relkind OPERATOR(pg_catalog.=) 'r' AND k.oid OPERATOR(pg_catalog.=) ANY ({RELATIONS})) AS s";
        // A page of a partition: its size, if it has no more.
        measure_partition(table, partitionKey)
            "SELECT pg_catalog.json_build_object('entities', pg_catalog.count(e.partition_key),
              'bytes', coalesce(pg_catalog.sum(pg_catalog.octet_length(e.partition_key) OPERATOR(pg_catalog.+) pg_catalog.octet_length(e.row_key)
                OPERATOR(pg_catalog.+) pg_catalog.pg_column_size(e.properties)), 0),
              'isAll', pg_catalog.max(e.continuation_token) IS NULL)
          FROM table_service.query_page($1::pg_catalog.text, 'PartitionKey eq @key'::pg_catalog.text, NULL::pg_catalog.text,
            1000::pg_catalog.int8, NULL::pg_catalog.text,
            pg_catalog.json_build_object('key', $2::pg_catalog.text)::pg_catalog.text::table_service.properties) AS e";
        get_entity(table, partitionKey, rowKey)
            "SELECT pg_catalog.json_build_object({whole_entity}, 'json', e.properties::pg_catalog.text) FROM table_service.get_entity(
               $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, NULL::pg_catalog.text) AS e";
        read_properties(properties)
            "SELECT pg_catalog.json_build_object('properties', {whole_properties}, 'json', e.properties::pg_catalog.text)
             FROM (SELECT $1::pg_catalog.text::table_service.properties) AS e (properties)";
        insert_entity(table, partitionKey, rowKey, properties)
            "SELECT pg_catalog.json_build_object('etag',
            table_service.insert_entity(
              $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::pg_catalog.text::table_service.properties))";
        replace_entity(table, partitionKey, rowKey, properties, etag)
            "SELECT pg_catalog.json_build_object('etag',
            table_service.replace_entity($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text,
              $4::pg_catalog.text::table_service.properties, $5::pg_catalog.text))";
        // The delete tests the ETag under the lock. If it fails, nothing is inserted either.
        rename_entity(table, partitionKey, rowKey, etag, newPartitionKey, newRowKey, properties)
            "SELECT pg_catalog.json_build_object(
            'etag', table_service.insert_entity(
              $1::pg_catalog.text, $5::pg_catalog.text, $6::pg_catalog.text, $7::pg_catalog.text::table_service.properties),
            'deleted', table_service.delete_entity(
              $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::pg_catalog.text, false))";
        // In the order of the keys, as all writes of many entities, so that two of them cannot wait for each other.
        delete_entities_by_key(table, keys)
            "SELECT pg_catalog.json_build_object('deleted', pg_catalog.count(table_service.delete_entity($1::pg_catalog.text,
            k.key OPERATOR(pg_catalog.->>) 0, k.key OPERATOR(pg_catalog.->>) 1, k.key OPERATOR(pg_catalog.->>) 2, false)))
          FROM (SELECT j.key FROM pg_catalog.json_array_elements($2::pg_catalog.text::pg_catalog.json) AS j (key)
                ORDER BY (j.key OPERATOR(pg_catalog.->>) 0) COLLATE pg_catalog.\"C\",
                  (j.key OPERATOR(pg_catalog.->>) 1) COLLATE pg_catalog.\"C\" OFFSET 0) AS k";
        delete_entities_step(table, filter, top, token)
            "SELECT pg_catalog.json_build_object('deleted', d.deleted, 'token', d.continuation_token)
          FROM table_service.delete_entities_step($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text::pg_catalog.int8,
            $4::pg_catalog.text, NULL::table_service.properties) AS d";
        import_entities(table, entities, mode)
            "SELECT pg_catalog.json_build_object('written', pg_catalog.count(CASE
            WHEN $3 OPERATOR(pg_catalog.=) 'insert'
              THEN table_service.insert_entity($1::pg_catalog.text, e.partition_key, e.row_key, e.properties)
            WHEN $3 OPERATOR(pg_catalog.=) 'replace'
              THEN table_service.insert_or_replace_entity($1::pg_catalog.text, e.partition_key, e.row_key, e.properties)
            WHEN $3 OPERATOR(pg_catalog.=) 'merge'
              THEN table_service.insert_or_merge_entity($1::pg_catalog.text, e.partition_key, e.row_key, e.properties) END))
          FROM (SELECT i.* FROM pg_catalog.json_array_elements($2::pg_catalog.text::pg_catalog.json) AS j (entity),
                  LATERAL table_service.entity_from_json(j.entity::pg_catalog.text) AS i
                ORDER BY i.partition_key COLLATE pg_catalog.\"C\", i.row_key COLLATE pg_catalog.\"C\" OFFSET 0) AS e";
        query_property_indexes(table)
            "SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
            'property', i.property, 'index', i.index, 'isValid', i.is_valid, 'bytes', i.bytes, 'scans', i.scans)
              ORDER BY i.property COLLATE pg_catalog.\"C\"), '[]')
          FROM table_service.query_property_indexes($1::pg_catalog.text) AS i";
        create_property_index(table, property)
            "SELECT pg_catalog.json_build_object('index', table_service.create_property_index(
            $1::pg_catalog.text, $2::pg_catalog.text, false))";
        property_index_sql(table, property)
            "SELECT pg_catalog.json_build_object('sql', table_service.property_index_sql(
            $1::pg_catalog.text, $2::pg_catalog.text))";
        drop_property_index(table, property)
            "SELECT pg_catalog.json_build_object('dropped', table_service.drop_property_index(
            $1::pg_catalog.text, $2::pg_catalog.text, false))";
        query_expiry(table)
            "SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
               'property', x.property, 'timeToLive', x.time_to_live::pg_catalog.text,
               'index', x.index, 'isValid', x.is_valid, 'oldest', {oldest})), '[]') FROM table_service.query_expiry($1::pg_catalog.text) AS x";
        set_expiry(table, property, timeToLive)
            "SELECT pg_catalog.json_build_object('index',
            table_service.set_expiry(
              $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text::pg_catalog.interval, false))";
        drop_expiry(table)
            "SELECT pg_catalog.json_build_object('dropped', table_service.drop_expiry($1::pg_catalog.text, false))";
        query_change_feeds()
            "SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(
            'name', f.feed_name, 'tables', f.table_names, 'isActive', f.is_active, 'walStatus', f.wal_status, 'retainedBytes', f.retained_bytes)
              ORDER BY f.feed_name COLLATE pg_catalog.\"C\"), '[]')
          FROM table_service.query_change_feeds() AS f";
        create_change_feed(feed, table)
            "SELECT pg_catalog.json_build_object('position', table_service.create_change_feed($1::pg_catalog.text,
            ARRAY[$2::pg_catalog.text], false, false))";
        drop_change_feed(feed)
            "SELECT pg_catalog.json_build_object('dropped', table_service.drop_change_feed($1::pg_catalog.text, false))";
        // A feed is not confirmed here: that would take its changes away from the program that reads it.
        query_changes(feed, top)
            "SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('committed', {committed}, 'table', c.table_name, 'kind', c.kind, 'partitionKey', c.partition_key, 'rowKey', c.row_key,
                'properties', pg_catalog.left(c.properties::pg_catalog.text, {SHOWN}), 'length', pg_catalog.length(c.properties::pg_catalog.text)) ORDER BY c.ordinality), '[]')
             FROM (SELECT q.* FROM table_service.query_changes($1::pg_catalog.text, $2::pg_catalog.text::pg_catalog.int8)
               WITH ORDINALITY AS q LIMIT 1000) AS c";
        get_access_policies(table)
            "SELECT table_service.get_access_policies($1::pg_catalog.text)";
        set_access_policies(table, policies)
            "SELECT pg_catalog.json_build_object('set',
            table_service.set_access_policies($1::pg_catalog.text, $2::pg_catalog.text::pg_catalog.json)::pg_catalog.text)";
    }
});

/// A page of entities, each as a line of JSON. `$4` is the token of the page before.
pub const EXPORTED: &str = "SELECT table_service.entity_to_json(
              ROW(p.partition_key, p.row_key, p.\"timestamp\", p.properties)::table_service.entity, 'minimal'::pg_catalog.text)::pg_catalog.text,
            p.partition_key, p.continuation_token
     FROM table_service.query_page($1::pg_catalog.text, $2::pg_catalog.text, NULL::pg_catalog.text,
       $3::pg_catalog.text::pg_catalog.int8, $4::pg_catalog.text, NULL::table_service.properties) AS p";
