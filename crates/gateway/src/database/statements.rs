//! All statements of the gateway. They only call functions of the SQL API; a test compares them with the catalog of a
//! database.

/// Loads the extension's library, and finds a function there that versions before 0.3 lack. The result is NULL.
pub const LIBRARY: &str = "SELECT table_service.expires_at(NULL::pg_catalog.timestamptz, NULL::table_service.properties, \
    NULL::pg_catalog.text, NULL::pg_catalog.int8)";

/// A call of one function of the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Statement {
    CreateTable,
    DeleteTable,
    QueryTables,
    InsertEntity,
    ReplaceEntity,
    MergeEntity,
    InsertOrReplaceEntity,
    InsertOrMergeEntity,
    DeleteEntity,
    ExecuteBatch,
    ExpireEntities,
    GetEntity,
    GetVersion,
    QueryChangeFeeds,
    QueryExpiry,
    QueryPage,
    QueryPageChunks,
    GetAccessPolicies,
    SetAccessPolicies,
    GetServiceProperties,
    SetServiceProperties,
}

/// Whether a statement may be retried if it is not known whether it was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Reads,
    Writes,
}

/// Which of an account's nodes can execute a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichNode {
    /// Only the first one: what creates, deletes or lists tables, what concerns access to them, and what concerns all of them.
    First,
    Any,
}

impl Statement {
    pub const ALL: [Statement; 21] = [
        Statement::CreateTable,
        Statement::DeleteTable,
        Statement::QueryTables,
        Statement::InsertEntity,
        Statement::ReplaceEntity,
        Statement::MergeEntity,
        Statement::InsertOrReplaceEntity,
        Statement::InsertOrMergeEntity,
        Statement::DeleteEntity,
        Statement::ExecuteBatch,
        Statement::ExpireEntities,
        Statement::GetEntity,
        Statement::GetVersion,
        Statement::QueryChangeFeeds,
        Statement::QueryExpiry,
        Statement::QueryPage,
        Statement::QueryPageChunks,
        Statement::GetAccessPolicies,
        Statement::SetAccessPolicies,
        Statement::GetServiceProperties,
        Statement::SetServiceProperties,
    ];

    /// Each gives all arguments of a function, with their types. So it calls that function, whatever others of its name somebody has put
    /// beside it: they can have the same types only in other places, or more arguments.
    pub const fn sql(self) -> &'static str {
        match self {
            Statement::CreateTable => "SELECT table_service.create_table($1::pg_catalog.text, false)",
            Statement::DeleteTable => "SELECT table_service.delete_table($1::pg_catalog.text, false)",
            Statement::QueryTables => {
                "SELECT t.table_name, t.continuation_token FROM table_service.query_tables(\
                 $1::pg_catalog.text, $2::pg_catalog.int8, $3::pg_catalog.text, NULL::table_service.properties) AS t"
            }
            Statement::InsertEntity => {
                "SELECT table_service.insert_entity(\
                 $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::table_service.properties)"
            }
            Statement::ReplaceEntity => {
                "SELECT table_service.replace_entity(\
                 $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::table_service.properties, $5::pg_catalog.text)"
            }
            Statement::MergeEntity => {
                "SELECT table_service.merge_entity(\
                 $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::table_service.properties, $5::pg_catalog.text)"
            }
            Statement::InsertOrReplaceEntity => {
                "SELECT table_service.insert_or_replace_entity(\
                 $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::table_service.properties)"
            }
            Statement::InsertOrMergeEntity => {
                "SELECT table_service.insert_or_merge_entity(\
                 $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::table_service.properties)"
            }
            Statement::DeleteEntity => {
                "SELECT table_service.delete_entity(\
                 $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::pg_catalog.text, false)"
            }
            Statement::ExecuteBatch => {
                "SELECT b.etag FROM table_service.execute_batch(\
                 $1::pg_catalog.text, $2::pg_catalog.text, VARIADIC $3::table_service.batch_operation[]) AS b"
            }
            Statement::ExpireEntities => {
                "SELECT e.deleted, e.more, e.oldest, e.reason FROM table_service.expire_entities(\
                 $1::pg_catalog.text, $2::pg_catalog.int8, $3::pg_catalog.timestamptz, true) AS e"
            }
            Statement::GetEntity => {
                "SELECT e.\"timestamp\", e.properties FROM table_service.get_entity(\
                 $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, NULL::pg_catalog.text) AS e"
            }
            Statement::GetVersion => {
                "SELECT e.\"timestamp\" FROM table_service.get_entity(\
                 $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, 'PartitionKey'::pg_catalog.text) AS e"
            }
            Statement::QueryChangeFeeds => {
                "SELECT f.feed_name, f.retained_bytes, f.wal_status FROM table_service.query_change_feeds() AS f"
            }
            Statement::QueryExpiry => {
                "SELECT x.table_name, x.oldest FROM table_service.query_expiry(NULL::pg_catalog.text) AS x WHERE x.is_valid"
            }
            Statement::QueryPage => {
                "SELECT p.partition_key, p.row_key, p.\"timestamp\", p.properties, p.continuation_token FROM table_service.query_page(\
                 $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text, $4::pg_catalog.int8, $5::pg_catalog.text, \
                 NULL::table_service.properties) AS p"
            }
            Statement::QueryPageChunks => {
                "SELECT p.chunk, p.continuation_token FROM table_service.query_page_chunks(\
                 $1::pg_catalog.text, $2::pg_catalog.text, NULL::pg_catalog.text, $3::pg_catalog.int8, $4::pg_catalog.text, \
                 NULL::table_service.properties, $5::pg_catalog.text, $6::pg_catalog.int8) AS p"
            }
            Statement::GetAccessPolicies => "SELECT table_service.get_access_policies($1::pg_catalog.text)",
            Statement::SetAccessPolicies => {
                "SELECT table_service.set_access_policies($1::pg_catalog.text, $2::pg_catalog.json)"
            }
            Statement::GetServiceProperties => "SELECT table_service.get_service_properties()",
            Statement::SetServiceProperties => "SELECT table_service.set_service_properties($1::pg_catalog.json)",
        }
    }

    pub const fn place(self) -> WhichNode {
        match self {
            Statement::CreateTable
            | Statement::DeleteTable
            | Statement::ExpireEntities
            | Statement::QueryChangeFeeds
            | Statement::QueryExpiry
            | Statement::QueryTables
            | Statement::GetAccessPolicies
            | Statement::SetAccessPolicies
            | Statement::GetServiceProperties
            | Statement::SetServiceProperties => WhichNode::First,
            _ => WhichNode::Any,
        }
    }

    pub const fn effect(self) -> Effect {
        match self {
            Statement::QueryTables
            | Statement::QueryExpiry
            | Statement::GetEntity
            | Statement::GetVersion
            | Statement::QueryPage
            | Statement::QueryPageChunks
            | Statement::GetAccessPolicies
            | Statement::GetServiceProperties => Effect::Reads,
            _ => Effect::Writes,
        }
    }
}
