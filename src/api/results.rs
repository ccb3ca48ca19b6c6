//! The rows that functions return: one type for each `RETURNS SETOF` and `RETURNS TABLE`.

use crate::storage::result_set::sets_of;

sets_of! {
    /// Entities, in key order.
    Entities = sql_type "SETOF table_service.entity";
    /// The tables of the service.
    Tables = external_sql_type "TABLE (table_name text, relation regclass, continuation_token text)";
    /// The properties of a bag.
    EachProperty = external_sql_type "TABLE (name text, type text, value text)";
    /// The results of the operations of a batch.
    BatchResults = external_sql_type "TABLE (index integer, row_key text, etag text)";
    /// The outcomes of independent writes.
    WriteOutcomes = external_sql_type "TABLE (index integer, outcome text, etag text, sqlstate text, message text, detail text, hint text)";
    /// Entities, each with the place of its keys in the arguments.
    EntitiesByKeys = external_sql_type "TABLE (partition_key text, row_key text, \"timestamp\" timestamptz, properties table_service.properties, index integer)";
    /// One page of entities.
    Page = external_sql_type "TABLE (partition_key text, row_key text, \"timestamp\" timestamptz, properties table_service.properties, continuation_token text)";
    /// One page of entities, as text.
    PageChunks = external_sql_type "TABLE (chunk text, continuation_token text)";
    /// The result of a step of a delete.
    DeletedStep = external_sql_type "TABLE (deleted bigint, continuation_token text)";
    /// The result of a step of an update.
    UpdatedStep = external_sql_type "TABLE (updated bigint, continuation_token text)";
    /// How a query runs.
    Explanation = external_sql_type "TABLE (access text, key_ranges text[], residual text, sql text, plan text)";
    /// The partitions of a table.
    PartitionStatistics = external_sql_type "TABLE (partition_key text, entities bigint, bytes bigint)";
    /// The servers of the shards of a table.
    ShardMap = external_sql_type "TABLE (from_hash integer, to_hash integer, node_name text, node_port integer, is_local boolean)";
    /// The property indexes of tables.
    PropertyIndexes = external_sql_type "TABLE (table_name text, property text, index regclass, is_valid boolean, bytes bigint, scans bigint)";
    /// The expiries of tables.
    ExpiryIndexes = external_sql_type "TABLE (table_name text, property text, time_to_live interval, index regclass, is_valid boolean, oldest timestamptz)";
    /// The results of a sweep.
    Sweeps = external_sql_type "TABLE (table_name text, deleted bigint, more boolean, oldest timestamptz, reason text)";
    /// The change feeds of a database.
    ChangeFeeds = external_sql_type "TABLE (feed_name text, table_names text[], is_active boolean, wal_status text, retained_bytes bigint, \"position\" text)";
    /// Changes of entities, definitions of tables and marks, in the order of commits.
    FeedRows = external_sql_type "TABLE (\"position\" text, committed timestamptz, kind text, relation oid, table_name text, partition_key text, row_key text, \"timestamp\" timestamptz, properties table_service.properties, old_properties table_service.properties)";
    /// Changes of entities, in the order of commits.
    Changes = external_sql_type "TABLE (\"position\" text, committed timestamptz, table_name text, kind text, partition_key text, row_key text, \"timestamp\" timestamptz, properties table_service.properties, old_properties table_service.properties)";
}
