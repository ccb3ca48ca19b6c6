//! All statements of the gateway. They only call functions of the SQL API; a test compares them with the catalog of a
//! database.

/// The version of the extension. This works also in a database without the extension.
pub const READY: &str =
    "SELECT extversion FROM pg_catalog.pg_extension WHERE extname OPERATOR(pg_catalog.=) 'table_service'";

/// Loads the extension's library, and finds a function there that versions before 0.3 lack. The result is NULL.
pub const LIBRARY: &str = "SELECT table_service.expires_at(NULL, NULL, NULL, NULL)";

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
    pub const ALL: [Statement; 20] = [
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
        Statement::QueryPage,
        Statement::QueryPageChunks,
        Statement::GetAccessPolicies,
        Statement::SetAccessPolicies,
        Statement::GetServiceProperties,
        Statement::SetServiceProperties,
    ];

    pub const fn sql(self) -> &'static str {
        match self {
            Statement::CreateTable => "SELECT table_service.create_table($1)",
            Statement::DeleteTable => "SELECT table_service.delete_table($1)",
            Statement::QueryTables => {
                "SELECT t.table_name, t.continuation_token FROM table_service.query_tables($1, $2, $3) AS t"
            }
            Statement::InsertEntity => "SELECT table_service.insert_entity($1, $2, $3, $4)",
            Statement::ReplaceEntity => "SELECT table_service.replace_entity($1, $2, $3, $4, $5)",
            Statement::MergeEntity => "SELECT table_service.merge_entity($1, $2, $3, $4, $5)",
            Statement::InsertOrReplaceEntity => "SELECT table_service.insert_or_replace_entity($1, $2, $3, $4)",
            Statement::InsertOrMergeEntity => "SELECT table_service.insert_or_merge_entity($1, $2, $3, $4)",
            Statement::DeleteEntity => "SELECT table_service.delete_entity($1, $2, $3, $4)",
            Statement::ExecuteBatch => "SELECT b.etag FROM table_service.execute_batch($1, $2, VARIADIC $3) AS b",
            Statement::ExpireEntities => {
                "SELECT e.table_name, e.deleted, e.more, e.oldest FROM table_service.expire_entities(NULL, $1, $2) AS e"
            }
            Statement::GetEntity => {
                "SELECT e.\"timestamp\", e.properties FROM table_service.get_entity($1, $2, $3) AS e"
            }
            Statement::GetVersion => {
                "SELECT e.\"timestamp\" FROM table_service.get_entity($1, $2, $3, 'PartitionKey') AS e"
            }
            Statement::QueryChangeFeeds => {
                "SELECT f.feed_name, f.retained_bytes, f.wal_status FROM table_service.query_change_feeds() AS f"
            }
            Statement::QueryPage => {
                "SELECT p.partition_key, p.row_key, p.\"timestamp\", p.properties, p.continuation_token FROM table_service.query_page($1, $2, $3, $4, $5) AS p"
            }
            Statement::QueryPageChunks => {
                "SELECT p.chunk, p.continuation_token FROM table_service.query_page_chunks($1, $2, NULL, $3, $4, NULL, $5, $6) AS p"
            }
            Statement::GetAccessPolicies => "SELECT table_service.get_access_policies($1)",
            Statement::SetAccessPolicies => "SELECT table_service.set_access_policies($1, $2)",
            Statement::GetServiceProperties => "SELECT table_service.get_service_properties()",
            Statement::SetServiceProperties => "SELECT table_service.set_service_properties($1)",
        }
    }

    pub const fn place(self) -> WhichNode {
        match self {
            Statement::CreateTable
            | Statement::DeleteTable
            | Statement::ExpireEntities
            | Statement::QueryChangeFeeds
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
