//! All statements of the gateway. Those for requests only call functions of the SQL API; a test compares them with the catalog of
//! a database. The others ask a server about itself.

/// Begins and ends a statement of the explorer that may only read.
pub const BEGIN_READ_ONLY: &str = "BEGIN TRANSACTION READ ONLY";
/// Ends a transaction that only reads.
pub const ROLLBACK: &str = "ROLLBACK";

/// Asks whether a server is in recovery.
pub const IN_RECOVERY: &str = "SELECT pg_catalog.pg_is_in_recovery()";

/// Probes a server. The clock is read before the position, so that all that was acknowledged before that moment is before that
/// position. Without the privileges of `pg_read_all_stats` the timeline of a standby is that of its last restartpoint.
pub const PROBE: &str = "SELECT pg_catalog.clock_timestamp(), \
     CASE WHEN r.recovers THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_insert_lsn() END::pg_catalog.text, \
     CASE WHEN NOT r.recovers THEN pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()) END, \
     coalesce((SELECT w.received_tli FROM pg_catalog.pg_stat_wal_receiver AS w), \
              (SELECT c.timeline_id FROM pg_catalog.pg_control_checkpoint() AS c)), \
     s.system_identifier, i.wal_block_size, i.bytes_per_wal_segment, r.recovers, \
     EXISTS (SELECT FROM pg_catalog.pg_extension AS e WHERE e.extname OPERATOR(pg_catalog.=) 'citus'), \
     (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()), \
     pg_catalog.pg_postmaster_start_time() \
     FROM (SELECT pg_catalog.pg_is_in_recovery() AS recovers OFFSET 0) AS r, \
     pg_catalog.pg_control_system() AS s, pg_catalog.pg_control_init() AS i";

/// Asks whether Citus is in the database, which then has the relations of [`CLUSTER`].
pub const HAS_CLUSTER: &str = "SELECT pg_catalog.to_regclass('pg_catalog.pg_dist_node') IS NOT NULL";

/// Asks a server of a cluster for its servers, for its own number and database, and whether tables of the service are
/// distributed.
pub const CLUSTER: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_dist_partition AS t \
         JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) t.logicalrelid \
         JOIN pg_catalog.pg_namespace AS s ON s.oid OPERATOR(pg_catalog.=) c.relnamespace \
         WHERE s.nspname OPERATOR(pg_catalog.=) 'table_service_data' \
         OR s.nspname OPERATOR(pg_catalog.=) 'table_service' AND c.relname OPERATOR(pg_catalog.=) 'citus_anchor'), \
     l.groupid, n.groupid, n.nodename, n.nodeport, n.isactive AND n.hasmetadata AND n.metadatasynced, \
     pg_catalog.current_database()::pg_catalog.text \
     FROM pg_catalog.pg_dist_local_group AS l \
     LEFT JOIN pg_catalog.pg_dist_node AS n ON n.noderole OPERATOR(pg_catalog.=) 'primary'";

/// Loads the extension's library, and finds a function there that versions before 0.3 lack. The result is NULL.
pub const LIBRARY: &str = "SELECT table_service.expires_at(NULL::pg_catalog.timestamptz, NULL::table_service.properties, \
    NULL::pg_catalog.text, NULL::pg_catalog.int8)";

/// Whether a statement may be retried if it is not known whether it was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Reads,
    Writes,
}

/// The nodes of an account that can execute a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    /// Only the first node: for definitions and lists of tables, access to them, and statements about all of them.
    First,
    Any,
}

macro_rules! statements {
    ($($name:ident, $nodes:ident, $effect:ident, $sql:literal;)*) => {
        /// A call of one function of the extension.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Statement {
            $($name,)*
        }

        impl Statement {
            /// Each of them once.
            pub const ALL: [Statement; [$(Statement::$name),*].len()] = [$(Statement::$name),*];

            /// Returns its text.
            pub const fn sql(self) -> &'static str {
                match self {
                    $(Statement::$name => $sql,)*
                }
            }

            /// Returns the nodes that can execute it.
            pub const fn nodes(self) -> Nodes {
                match self {
                    $(Statement::$name => Nodes::$nodes,)*
                }
            }

            /// Returns whether it writes.
            pub const fn effect(self) -> Effect {
                match self {
                    $(Statement::$name => Effect::$effect,)*
                }
            }
        }
    };
}

impl Statement {
    /// The same call of a table that must be the relation of the parameter `number`. The argument is computed before
    /// the call, in the same transaction, and until its end the name leads to that table.
    pub fn sql_of_held(self, number: usize) -> String {
        const TABLE: &str = "$1::pg_catalog.text";
        let held = format!(
            "CASE WHEN table_service.hold_table({TABLE}, ${number}::pg_catalog.oid) IS NOT NULL THEN {TABLE} END"
        );
        self.sql().replacen(TABLE, &held, 1)
    }
}

// Each gives all arguments of a function, with their types. So it calls that function, also if another user has made functions of
// the same name: those have other types or more arguments.
statements! {
    CreateTable, First, Writes,
        "SELECT table_service.create_table($1::pg_catalog.text, false)";
    DeleteTable, First, Writes,
        "SELECT table_service.delete_table($1::pg_catalog.text, false)";
    QueryTables, First, Reads,
        "SELECT t.table_name, t.continuation_token FROM table_service.query_tables(\
         $1::pg_catalog.text, $2::pg_catalog.int8, $3::pg_catalog.text, NULL::table_service.properties) AS t";
    InsertEntity, Any, Writes,
        "SELECT table_service.insert_entity(\
         $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::table_service.properties)";
    ReplaceEntity, Any, Writes,
        "SELECT table_service.replace_entity(\
         $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::table_service.properties, $5::pg_catalog.text)";
    MergeEntity, Any, Writes,
        "SELECT table_service.merge_entity(\
         $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::table_service.properties, $5::pg_catalog.text)";
    InsertOrReplaceEntity, Any, Writes,
        "SELECT table_service.insert_or_replace_entity(\
         $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::table_service.properties)";
    InsertOrMergeEntity, Any, Writes,
        "SELECT table_service.insert_or_merge_entity(\
         $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::table_service.properties)";
    DeleteEntity, Any, Writes,
        "SELECT table_service.delete_entity(\
         $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::pg_catalog.text, false)";
    ExecuteBatch, Any, Writes,
        "SELECT b.etag FROM table_service.execute_batch(\
         $1::pg_catalog.text, $2::pg_catalog.text, VARIADIC $3::table_service.batch_operation[]) AS b";
    ExpireEntities, First, Writes,
        "SELECT e.deleted, e.more, e.oldest, e.reason FROM table_service.expire_entities(\
         $1::pg_catalog.text, $2::pg_catalog.int8, $3::pg_catalog.timestamptz, true) AS e";
    GetEntity, Any, Reads,
        "SELECT e.\"timestamp\", e.properties FROM table_service.get_entity(\
         $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, NULL::pg_catalog.text) AS e";
    GetVersion, Any, Reads,
        "SELECT e.\"timestamp\" FROM table_service.get_entity(\
         $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, 'PartitionKey'::pg_catalog.text) AS e";
    GetEntitiesByKeys, Any, Reads,
        "SELECT e.\"timestamp\", e.properties, e.index FROM table_service.get_entities_by_keys(\
         $1::pg_catalog.text, $2::pg_catalog.text[], $3::pg_catalog.text[], NULL::pg_catalog.text) AS e";
    WriteEntities, Any, Writes,
        "SELECT w.index, w.outcome, w.etag, w.sqlstate, w.message, w.hint FROM table_service.write_entities(\
         $1::pg_catalog.text, $2::pg_catalog.text[], $3::table_service.batch_operation[]) AS w";
    QueryChangeFeeds, First, Writes,
        "SELECT f.feed_name, f.retained_bytes, f.wal_status FROM table_service.query_change_feeds() AS f";
    QueryExpiry, First, Reads,
        "SELECT x.table_name, x.oldest FROM table_service.query_expiry(NULL::pg_catalog.text) AS x WHERE x.is_valid";
    QueryPage, Any, Reads,
        "SELECT p.partition_key, p.row_key, p.\"timestamp\", p.properties, p.continuation_token FROM table_service.query_page(\
         $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::pg_catalog.int8, $5::pg_catalog.text, \
         NULL::table_service.properties) AS p";
    QueryPageChunks, Any, Reads,
        "SELECT p.chunk, p.continuation_token FROM table_service.query_page_chunks(\
         $1::pg_catalog.text, $2::pg_catalog.text, NULL::pg_catalog.text, $3::pg_catalog.int8, $4::pg_catalog.text, \
         NULL::table_service.properties, $5::pg_catalog.text, $6::pg_catalog.int8) AS p";
    ShardMap, Any, Reads,
        "SELECT m.from_hash, m.to_hash, m.node_name, m.node_port, m.is_local \
         FROM table_service.shard_map($1::pg_catalog.text) AS m";
    GetAccessPolicies, First, Reads,
        "SELECT table_service.get_access_policies($1::pg_catalog.text)";
    HoldAccessPolicies, First, Reads,
        "SELECT table_service.get_access_policies($1::pg_catalog.text), \
         table_service.hold_table($1::pg_catalog.text, NULL::pg_catalog.oid)";
    SetAccessPolicies, First, Writes,
        "SELECT table_service.set_access_policies($1::pg_catalog.text, $2::pg_catalog.json)";
    GetServiceProperties, First, Reads,
        "SELECT table_service.get_service_properties()";
    SetServiceProperties, First, Writes,
        "SELECT table_service.set_service_properties($1::pg_catalog.json)";
}
