//! Looks up in PostgreSQL's catalogs the state of Citus, which distributes tables over several servers.
//!
//! Citus replaces the planner: statements on a distributed table reach its entities on the other servers. The table
//! itself is empty here. A database without Citus lacks all the relations that this file looks for.
//!
//! docs/decisions.md lists all assumptions of direct access to shards about Citus.

use std::cell::Cell;
use std::ffi::CStr;
use std::ops::RangeInclusive;
use std::sync::Once;

use pgrx::prelude::*;
use table_service_model::partition_hash::partition_hash;

use super::catalog_scan::scan;
use super::spi::{Connection, Tuple, connect};
use super::types::value::{Text, Value};
use super::{catalog, settings};

/// The oldest major version that distributes tables of the service.
pub const MINIMUM_MAJOR: u32 = 14;

/// The table that all distributed tables of the service are colocated with, without its schema. It exists as long as
/// new tables are distributed.
pub const ANCHOR: &CStr = c"citus_anchor";

/// Returns the relation of PostgreSQL's own schema with this name.
fn system_relation(name: &CStr) -> Option<pg_sys::Oid> {
    let schema = pg_sys::Oid::from(pg_sys::PG_CATALOG_NAMESPACE);
    // SAFETY: a transaction is running, and the name is a C string.
    let oid = unsafe { pg_sys::get_relname_relid(name.as_ptr(), schema) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// Returns whether Citus is in this database.
pub fn is_present() -> bool {
    system_relation(c"pg_dist_partition").is_some()
}

/// Returns whether Citus distributes this relation.
pub fn is_distributed(relation: pg_sys::Oid) -> bool {
    let Some(distributed) = system_relation(c"pg_dist_partition") else {
        return false;
    };
    let index = system_relation(c"pg_dist_partition_logical_relid_index");
    // SAFETY: the first column of this catalog is the OID of a relation, and nothing else of a row is read. The whole catalog is scanned if
    // there is no such index.
    unsafe { scan(distributed, index, (1, relation), |_: &pg_sys::Oid| Some(())) }.is_some()
}

/// Returns whether the relation is a table of the service: `OF table_service.entity`, or distributed with the columns of an entity.
pub fn is_table(oid: pg_sys::Oid) -> bool {
    let found = |class: &pg_sys::FormData_pg_class| (class.relnamespace, class.reloftype);
    let Some((schema, of_type)) = catalog::row_of(oid, found) else {
        return false;
    };
    if of_type == pg_sys::InvalidOid {
        return schema == catalog::data_schema() && is_distributed_entity_table(oid);
    }
    of_type == catalog::entity_type()
}

/// Returns whether this relation in the schema of the tables of the service is a distributed one with the columns of an
/// entity. The other servers know a distributed table without the type that it is `OF`.
fn is_distributed_entity_table(relation: pg_sys::Oid) -> bool {
    is_present()
        // SAFETY: the function takes any OID and any number of a column.
        && (1..).zip(catalog::types_of_entity()).all(|(column, type_oid)| unsafe { pg_sys::get_atttype(relation, column) } == type_oid)
        && is_distributed(relation)
}

/// Returns the table with which new tables of the service are colocated, if they are distributed.
pub fn anchor() -> Option<pg_sys::Oid> {
    is_present().then(|| catalog::own_relation(ANCHOR)).flatten()
}

/// Returns whether new tables of the service are distributed.
pub fn is_enabled() -> bool {
    anchor().is_some()
}

/// Returns the major version of Citus, if it is in this database.
pub fn major_version() -> Option<u32> {
    const VERSION: &str =
        "SELECT e.extversion FROM pg_catalog.pg_extension AS e WHERE e.extname OPERATOR(pg_catalog.=) 'citus'";
    if !is_present() {
        return None;
    }
    connect(|spi| {
        let rows = spi.read(VERSION, &[]);
        let version = rows.first()?.text(1)?.get();
        version.split(['.', '-']).next()?.parse().ok()
    })
}

/// Returns the major version of Citus. Logs it once a session if it is newer than direct access permits.
fn major_for_direct_access() -> u32 {
    static TOLD: Once = Once::new();
    let (major, limit) = (
        major_version().unwrap_or(u32::MAX),
        settings::direct_access_citus_major(),
    );
    if major > limit {
        TOLD.call_once(|| {
            ereport!(
                LOG,
                PgSqlErrorCode::ERRCODE_WARNING,
                format!("table_service has no direct access to shards, because Citus {major} is newer than {limit}"),
                "Calls are slower and have the same results. See table_service.direct_access_citus_major."
            );
        });
    }
    major
}

/// A clause for the row `t` of a table with the OID `$1`, and for its shards `s`. There are none if the hash of the
/// PartitionKey does not determine the shard of an entity: users may distribute a table otherwise than `create_table`.
const SHARDS_BY_PARTITION: &str = "\
    FROM pg_catalog.pg_dist_partition AS t \
    JOIN pg_catalog.pg_dist_shard AS s ON s.logicalrelid OPERATOR(pg_catalog.=) t.logicalrelid \
        AND t.logicalrelid OPERATOR(pg_catalog.=) $1 \
        AND t.partmethod OPERATOR(pg_catalog.=) 'h' \
        AND pg_catalog.column_to_column_name(t.logicalrelid, t.partkey) OPERATOR(pg_catalog.=) 'partition_key'";

/// The shards of a distributed table.
pub struct Shards {
    /// The least hash of each, in order. Without any, there is one shard.
    lower: Vec<i64>,
}

impl Shards {
    /// All rows are in one shard.
    pub fn one() -> Shards {
        Shards { lower: Vec::new() }
    }

    /// Returns the shards of a table.
    pub fn of(spi: &Connection, table: pg_sys::Oid) -> Shards {
        let lower = format!("SELECT s.shardminvalue::pg_catalog.int8 {SHARDS_BY_PARTITION} ORDER BY 1");
        let rows = spi.read_catalogs(&lower, &[Value::oid(table)]);
        Shards {
            lower: rows.iter().filter_map(|row| row.int8(1)).collect(),
        }
    }

    /// Returns how many there are.
    pub fn count(&self) -> u64 {
        self.lower.len().max(1) as u64
    }

    /// Returns the number of the shard that has this partition.
    pub fn of_partition(&self, partition_key: &str) -> usize {
        let hash = i64::from(partition_hash(partition_key));
        self.lower.partition_point(|&lower| lower <= hash).saturating_sub(1)
    }
}

/// Calls `each` with every placement of the table's shards, in the order of their hashes: the least and the greatest hash, the name
/// and the port of the server as Citus knows it, and whether it is this one. A table that is not distributed by PartitionKey has none.
pub fn placements(spi: &Connection, table: pg_sys::Oid, mut each: impl FnMut([Option<Value<'_>>; 5])) {
    let placements = format!(
        "SELECT s.shardminvalue::pg_catalog.int8, s.shardmaxvalue::pg_catalog.int8, n.nodename, n.nodeport::pg_catalog.int8, \
            n.groupid OPERATOR(pg_catalog.=) l.groupid \
        {SHARDS_BY_PARTITION} \
        JOIN pg_catalog.pg_dist_placement AS p ON p.shardid OPERATOR(pg_catalog.=) s.shardid \
        JOIN pg_catalog.pg_dist_node AS n ON n.groupid OPERATOR(pg_catalog.=) p.groupid \
        CROSS JOIN pg_catalog.pg_dist_local_group AS l \
        WHERE p.shardstate OPERATOR(pg_catalog.=) 1 \
        AND n.noderole OPERATOR(pg_catalog.=) 'primary'::pg_catalog.noderole \
        ORDER BY 1, 3, 4"
    );
    if !is_present() {
        return;
    }
    let integer = |value: i64| i32::try_from(value).ok().map(Value::int4);
    for row in spi.read_catalogs(&placements, &[Value::oid(table)]).iter() {
        each([
            row.int8(1).and_then(integer),
            row.int8(2).and_then(integer),
            row.text(3).map(Value::text),
            row.int8(4).and_then(integer),
            row.boolean(5).map(Value::boolean),
        ]);
    }
}

/// Locks of Citus, by the number that it gives to a kind of them (`AdvisoryLocktagClass`).
const COLOCATED_SHARDS_METADATA: u16 = 8;
const REBALANCE_PLACEMENT_COLOCATION: u16 = 13;

const SHARED: pg_sys::LOCKMODE = pg_sys::ShareLock as pg_sys::LOCKMODE;

/// Returns the name of a lock, as Citus makes it (`SET_LOCKTAG_ADVISORY`).
fn lock_tag(kind: u16, high: u32, low: u32) -> pg_sys::LOCKTAG {
    pg_sys::LOCKTAG {
        // SAFETY: the variable is a global of this process, which has one thread.
        locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
        locktag_field2: high,
        locktag_field3: low,
        locktag_field4: kind,
        locktag_type: pg_sys::LockTagType::LOCKTAG_ADVISORY as u8,
        locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
    }
}

/// The lock of a transaction that keeps a shard from moving until it ends: a write shares it, and a move has it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardLock {
    colocation: u32,
    /// The number of the shard in the order of the hashes.
    index: u32,
}

impl ShardLock {
    fn tag(self) -> pg_sys::LOCKTAG {
        lock_tag(COLOCATED_SHARDS_METADATA, self.index, self.colocation)
    }

    /// Returns whether this transaction has the lock. After a write by Citus that says whether Citus uses this lock.
    pub fn is_held(self) -> bool {
        // SAFETY: the function takes any tag.
        unsafe {
            #[cfg(not(since_pg17))]
            let is_held = pg_sys::LockHeldByMe(&self.tag(), SHARED);
            #[cfg(since_pg17)]
            let is_held = pg_sys::LockHeldByMe(&self.tag(), SHARED, false);
            is_held
        }
    }

    /// Takes the lock, until the transaction ends.
    pub fn take(self) {
        // SAFETY: a transaction is running, and the function takes any tag.
        unsafe { pg_sys::LockAcquire(&self.tag(), SHARED, false, false) };
    }
}

/// The lock of a transaction that makes a table beside others: no shard of these tables begins to move or to be split
/// until the transaction ends.
#[derive(Debug, Clone, Copy)]
pub struct ColocationLock(u32);

impl ColocationLock {
    /// Returns the lock of the tables that are colocated with this one.
    pub fn of(spi: &Connection, table: pg_sys::Oid) -> Option<ColocationLock> {
        const COLOCATION: &str = "SELECT t.colocationid::pg_catalog.int8 FROM pg_catalog.pg_dist_partition AS t \
            WHERE t.logicalrelid OPERATOR(pg_catalog.=) $1";
        let rows = spi.read_catalogs(COLOCATION, &[Value::oid(table)]);
        let number = rows.first()?.int8(1)?;
        u32::try_from(number).ok().map(ColocationLock)
    }

    /// Takes the lock until the transaction ends, if no shard moves. Nobody waits for a session that only tries.
    pub fn try_take(self) -> bool {
        let tag = lock_tag(REBALANCE_PLACEMENT_COLOCATION, 0, self.0);
        // SAFETY: a transaction is running, and the function takes any tag.
        let taken = unsafe { pg_sys::LockAcquire(&tag, SHARED, false, true) };
        taken != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
    }
}

/// A shard of a distributed table that only this server has.
#[derive(Debug)]
pub struct LocalShard {
    /// The hashes of its partitions.
    pub hashes: RangeInclusive<i32>,
    pub relation: pg_sys::Oid,
    pub lock: ShardLock,
    /// Whether a write by Citus has taken `lock`.
    pub is_lock_known: Cell<bool>,
    /// The major version of Citus.
    pub citus_major: u32,
}

/// Returns the local shards of a table.
pub fn local_shards(spi: &Connection, table: pg_sys::Oid) -> Vec<LocalShard> {
    let shards = format!(
        "SELECT s.shardminvalue::pg_catalog.int8, s.shardmaxvalue::pg_catalog.int8, \
            pg_catalog.to_regclass(pg_catalog.shard_name(s.logicalrelid, s.shardid)), \
            t.colocationid::pg_catalog.int8, ( \
                SELECT pg_catalog.count(*) FROM pg_catalog.pg_dist_shard AS o \
                WHERE o.logicalrelid OPERATOR(pg_catalog.=) s.logicalrelid \
                AND o.shardminvalue::pg_catalog.int8 OPERATOR(pg_catalog.<) s.shardminvalue::pg_catalog.int8) \
        {SHARDS_BY_PARTITION} \
        JOIN pg_catalog.pg_dist_placement AS p ON p.shardid OPERATOR(pg_catalog.=) s.shardid \
        JOIN pg_catalog.pg_dist_local_group AS l ON l.groupid OPERATOR(pg_catalog.=) p.groupid \
        WHERE p.shardstate OPERATOR(pg_catalog.=) 1 \
        AND NOT EXISTS ( \
            SELECT FROM pg_catalog.pg_dist_placement AS o \
            WHERE o.shardid OPERATOR(pg_catalog.=) p.shardid AND o.placementid OPERATOR(pg_catalog.<>) p.placementid)"
    );
    if transaction_function().is_none() {
        return Vec::new();
    }
    let citus_major = major_for_direct_access();
    let shard = |row: Tuple<'_>| {
        let hash = |column| i32::try_from(row.int8(column)?).ok();
        let number = |column| u32::try_from(row.int8(column)?).ok();
        Some(LocalShard {
            hashes: hash(1)?..=hash(2)?,
            relation: row.relation(3)?,
            lock: ShardLock {
                colocation: number(4)?,
                index: number(5)?,
            },
            is_lock_known: Cell::new(false),
            citus_major,
        })
    };
    spi.read_catalogs(&shards, &[Value::oid(table)])
        .iter()
        .filter_map(shard)
        .collect()
}

/// Returns a query for the relations in which a server that runs it has shards of a table. `table` is its OID in SQL.
pub fn relations_of_shards(table: &str) -> String {
    format!(
        "SELECT shard.oid FROM pg_catalog.pg_dist_shard AS s \
        CROSS JOIN LATERAL (SELECT pg_catalog.to_regclass(pg_catalog.shard_name(s.logicalrelid, s.shardid))) AS shard (oid) \
        WHERE s.logicalrelid OPERATOR(pg_catalog.=) {table} AND shard.oid IS NOT NULL"
    )
}

/// Returns whether Citus coordinates this transaction with others: with those that it has begun on servers, perhaps also on this one,
/// or with the one for which this server works.
pub fn coordinates_transaction() -> bool {
    const NUMBER: pg_sys::AttrNumber = 4;
    let Some(function) = transaction_function() else {
        return true;
    };
    // SAFETY: a transaction is running. The function takes nothing and returns a row. Its fourth column is the number
    // of the transaction, of type bigint.
    unsafe {
        let row = pg_sys::OidFunctionCall0Coll(function, pg_sys::InvalidOid);
        let row = pg_sys::pg_detoast_datum(row.cast_mut_ptr()).cast();
        let mut is_null = false;
        let number = pg_sys::GetAttributeByNum(row, NUMBER, &mut is_null);
        is_null || number.value() != 0
    }
}

/// Returns whether Citus runs statements on shards of this server in the session itself, and not in others.
pub fn executes_locally() -> bool {
    // SAFETY: the function takes any name, and returns NULL or a C string that is valid until the setting changes.
    let value = unsafe { pg_sys::GetConfigOption(c"citus.enable_local_execution".as_ptr(), true, false) };
    // SAFETY: as above.
    !value.is_null() && unsafe { CStr::from_ptr(value) } == c"on"
}

/// Returns the function of Citus that says which transaction it coordinates. Only catalogs of another kind lack it.
fn transaction_function() -> Option<pg_sys::Oid> {
    let oid = catalog::procedure(pg_sys::PG_CATALOG_NAMESPACE.into(), c"get_current_transaction_id", &[]);
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// Returns whether this server is a worker of a cluster, and not its coordinator.
pub fn is_worker() -> bool {
    const GROUP: &str =
        "SELECT true FROM pg_catalog.pg_dist_local_group AS g WHERE g.groupid OPERATOR(pg_catalog.<>) 0";
    is_present() && connect(|spi| spi.read(GROUP, &[]).first().is_some())
}

/// Returns whether Citus repeats grants on this schema on the workers. It does not on a schema of an extension.
pub fn is_known_to_workers(schema: &str) -> bool {
    const KNOWN: &str = "\
        SELECT true \
        FROM pg_catalog.pg_dist_object AS o \
        WHERE o.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass \
        AND o.objid OPERATOR(pg_catalog.=) $1::pg_catalog.regnamespace::pg_catalog.oid";
    let schema = Text::new(schema);
    connect(|spi| spi.read(KNOWN, &[schema.value()]).first().is_some())
}

/// Runs a command on servers of the cluster by Citus' function `run_command_on_workers` or `run_command_on_all_nodes`,
/// in their own transactions. It must not wait for this one: nothing would detect a deadlock.
///
/// # Errors
/// The answer of the first server that does not give this result.
pub fn run_by(function: &str, command: &str, result: &str) -> Result<(), String> {
    let run = format!(
        "SELECT r.result FROM pg_catalog.{function}($1) AS r WHERE NOT r.success OR r.result OPERATOR(pg_catalog.<>) $2"
    );
    let (command, result) = (Text::new(command), Text::new(result));
    connect(|spi| {
        let refusals = spi.read(&run, &[command.value(), result.value()]);
        match refusals.first() {
            Some(refusal) => Err(refusal.text(1).map_or_else(String::new, |text| text.get().to_owned())),
            None => Ok(()),
        }
    })
}
