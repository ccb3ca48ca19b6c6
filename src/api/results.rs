//! The rows that functions return: one type for each `RETURNS SETOF` and `RETURNS TABLE`.

use crate::storage::result_set::sets_of;

sets_of! {
    /// Entities, in key order.
    Entities = ThisExtension "SETOF table_service.entity";
    /// The tables of the service.
    Tables = External "TABLE (table_name text, relation regclass, continuation_token text)";
    /// The properties of a bag.
    EachProperty = External "TABLE (name text, type text, value text)";
    /// The results of the operations of a batch.
    BatchResults = External "TABLE (index integer, row_key text, etag text)";
    /// The outcomes of independent writes.
    WriteOutcomes = External "TABLE (index integer, outcome text, etag text, sqlstate text, message text, detail text, hint text)";
    /// Entities, each with the place of its keys in the arguments.
    EntitiesByKeys = External "TABLE (partition_key text, row_key text, \"timestamp\" timestamptz, properties table_service.properties, index integer)";
    /// One page of entities.
    Page = External "TABLE (partition_key text, row_key text, \"timestamp\" timestamptz, properties table_service.properties, continuation_token text)";
    /// One page of entities, as text.
    PageChunks = External "TABLE (chunk text, continuation_token text)";
    /// The result of a step of a delete.
    DeletedStep = External "TABLE (deleted bigint, continuation_token text)";
    /// The result of a step of an update.
    UpdatedStep = External "TABLE (updated bigint, continuation_token text)";
    /// How a query runs.
    Explanation = External "TABLE (access text, key_ranges text[], residual text, sql text, plan text)";
    /// The partitions of a table.
    PartitionStatistics = External "TABLE (partition_key text, entities bigint, bytes bigint)";
    /// The servers of the shards of a table.
    ShardMap = External "TABLE (from_hash integer, to_hash integer, node_name text, node_port integer, is_local boolean)";
    /// The property indexes of tables.
    PropertyIndexes = External "TABLE (table_name text, property text, index regclass, is_valid boolean, bytes bigint, scans bigint)";
    /// The expiries of tables.
    ExpiryIndexes = External "TABLE (table_name text, property text, time_to_live interval, index regclass, is_valid boolean, oldest timestamptz)";
    /// The results of a sweep.
    Sweeps = External "TABLE (table_name text, deleted bigint, more boolean, oldest timestamptz, reason text)";
    /// The change feeds of a database.
    ChangeFeeds = External "TABLE (feed_name text, table_names text[], is_active boolean, wal_status text, retained_bytes bigint, \"position\" text)";
    /// Changes of entities, definitions of tables and marks, in the order of commits.
    FeedRows = External "TABLE (\"position\" text, committed timestamptz, kind text, relation oid, table_name text, partition_key text, row_key text, \"timestamp\" timestamptz, properties table_service.properties, old_properties table_service.properties)";
    /// Changes of entities, in the order of commits.
    Changes = External "TABLE (\"position\" text, committed timestamptz, table_name text, kind text, partition_key text, row_key text, \"timestamp\" timestamptz, properties table_service.properties, old_properties table_service.properties)";
}
