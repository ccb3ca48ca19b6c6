//! This session's knowledge of the tables of the service and of their indexes. It is kept until PostgreSQL's invalidation messages say that
//! they have changed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::LocalKey;

use pgrx::pg_sys;
use table_service_model::Expiry;

use super::name::QualifiedName;
use crate::postgres::catalog::{accept_changes, changes};
use crate::postgres::citus::{MINIMUM_MAJOR, local_shards};
use crate::postgres::{LocalShard, connect, settings};

/// How many tables are known.
const TABLES_KEPT: usize = 1000;

/// A table of the service.
#[derive(Clone)]
pub struct KnownTable {
    pub oid: pg_sys::Oid,
    pub name: QualifiedName,
    /// Whether its entities are on other servers.
    pub is_distributed: bool,
}

/// An index of a table that finds entities by a property.
#[derive(Debug, Clone)]
pub struct PropertyIndex {
    pub oid: pg_sys::Oid,
    pub property: Rc<str>,
    /// Whether the planner may read the index.
    pub is_valid: bool,
    /// Whether an entry needs nothing else: the index is neither unique nor has further columns.
    pub is_plain: bool,
}

/// An index of a table that says when its entities expire.
#[derive(Debug, Clone)]
pub struct ExpiryIndex {
    pub oid: pg_sys::Oid,
    pub expiry: Expiry,
    /// Whether the planner may read the index. Only then entities expire.
    pub is_valid: bool,
    /// Whether an entry needs nothing else: the index is neither unique nor has further columns.
    pub is_plain: bool,
}

/// The indexes of a table that the extension knows.
#[derive(Clone)]
pub struct Indexes {
    pub properties: Rc<[PropertyIndex]>,
    pub expiries: Rc<[ExpiryIndex]>,
    /// The expiries of the valid indexes in `expiries`, each once.
    pub in_force: Arc<[Expiry]>,
}

impl Indexes {
    /// Makes the knowledge of a table's indexes.
    pub fn new(properties: Vec<PropertyIndex>, expiries: Vec<ExpiryIndex>) -> Indexes {
        let mut indexes = Indexes {
            properties: properties.into(),
            expiries: expiries.into(),
            in_force: Arc::default(),
        };
        indexes.in_force = indexes.of_each_expiry().into_iter().map(|index| index.expiry).collect();
        indexes
    }

    /// Returns an index of each expiry that is in force.
    pub fn of_each_expiry(&self) -> Vec<ExpiryIndex> {
        let mut found: Vec<ExpiryIndex> = Vec::new();
        for index in self.expiries.iter().filter(|index| index.is_valid) {
            if !found.iter().any(|known| known.expiry == index.expiry) {
                found.push(index.clone());
            }
        }
        found
    }

    fn has(&self, index: pg_sys::Oid) -> bool {
        self.properties.iter().any(|known| known.oid == index) || self.expiries.iter().any(|known| known.oid == index)
    }
}

impl AsRef<str> for PropertyIndex {
    fn as_ref(&self) -> &str {
        &self.property
    }
}

thread_local! {
    /// The tables of the service by the spelling that was asked for.
    static TABLES: RefCell<HashMap<Box<str>, KnownTable>> = RefCell::default();
    /// The indexes of tables.
    static INDEXES: RefCell<HashMap<pg_sys::Oid, Indexes>> = RefCell::default();
    /// The local shards of distributed tables.
    static SHARDS: RefCell<HashMap<pg_sys::Oid, Vec<LocalShard>>> = RefCell::default();
}

/// Forgets a relation that has changed, or all for `InvalidOid`.
pub fn forget(relation: pg_sys::Oid) {
    let is_other = |oid: pg_sys::Oid| relation != pg_sys::InvalidOid && oid != relation;
    TABLES.with_borrow_mut(|tables| tables.retain(|_, table| is_other(table.oid)));
    INDEXES.with_borrow_mut(|tables| {
        tables.retain(|&table, indexes| is_other(table) && !indexes.has(relation));
    });
    SHARDS.with_borrow_mut(|tables| {
        tables.retain(|&table, shards| is_other(table) && shards.iter().all(|shard| is_other(shard.relation)));
    });
}

/// Forgets all names, because a relation may have got one, and no code checks which other spellings are the same name.
pub fn forget_names() {
    TABLES.with_borrow_mut(HashMap::clear);
}

/// Returns the table of the service with this name, from the cache or from `look_up`.
///
/// The cache keeps a table until an invalidation message says that it has changed, or that any relation has got a name. So a caller that
/// locks the table must check afterwards whether such a message has arrived, as after any catalog look-up.
pub fn table<E>(name: &str, look_up: impl FnOnce() -> Result<Option<KnownTable>, E>) -> Result<Option<KnownTable>, E> {
    let kept = TABLES.with_borrow(|tables| tables.get(name).cloned());
    if kept.is_some() {
        return Ok(kept);
    }
    // Another session may have committed the table after this session last processed messages.
    accept_changes();
    let before = changes();
    let found = look_up()?;
    if let Some(table) = &found {
        keep(&TABLES, before, name.into(), table.clone());
    }
    Ok(found)
}

/// Keeps the result of a look-up, unless the catalogs have changed since.
fn keep<K: Eq + Hash, V>(cache: &'static LocalKey<RefCell<HashMap<K, V>>>, before: u64, key: K, value: V) {
    if before == changes() {
        cache.with_borrow_mut(|tables| {
            if tables.len() >= TABLES_KEPT {
                tables.clear();
            }
            tables.insert(key, value);
        });
    }
}

/// Applies `take` to the indexes of a table that the extension knows, from the cache or from `look_up`. The caller must
/// have locked the table.
pub fn indexes<R>(table: pg_sys::Oid, look_up: impl FnOnce() -> Indexes, take: impl Fn(&Indexes) -> R) -> R {
    take_of(&INDEXES, table, look_up, take)
}

/// Applies `take` to the shard of a partition, if only this server has it. Citus sends PostgreSQL's invalidation
/// messages for the table when a shard of it has moved.
pub fn local_shard<R>(table: pg_sys::Oid, partition: i32, take: impl Fn(&LocalShard) -> R) -> Option<R> {
    let majors = MINIMUM_MAJOR..=settings::direct_access_citus_major();
    let look_up = || connect(|spi| local_shards(spi, table));
    take_of(&SHARDS, table, look_up, |shards| {
        let has = |shard: &&LocalShard| shard.hashes.contains(&partition) && majors.contains(&shard.citus_major);
        shards.iter().find(has).map(&take)
    })
}

/// Locks the local shard of a partition. Returns `None` if there is none, or if it has changed before it was locked.
pub fn locked_shard(table: pg_sys::Oid, partition: i32, mode: u32) -> Option<pg_sys::Oid> {
    let mode = mode as pg_sys::LOCKMODE;
    let relation = |shard: &LocalShard| shard.relation;
    let shard = local_shard(table, partition, relation)?;
    // SAFETY: the functions lock any OID, and invalidation messages may be accepted at any time in a transaction.
    unsafe {
        pg_sys::LockRelationOid(shard, mode);
        accept_changes();
        if local_shard(table, partition, relation) == Some(shard) {
            return Some(shard);
        }
        pg_sys::UnlockRelationOid(shard, mode);
    }
    None
}

fn take_of<V, R>(
    cache: &'static LocalKey<RefCell<HashMap<pg_sys::Oid, V>>>,
    table: pg_sys::Oid,
    look_up: impl FnOnce() -> V,
    take: impl Fn(&V) -> R,
) -> R {
    if let Some(taken) = cache.with_borrow(|tables| tables.get(&table).map(&take)) {
        return taken;
    }
    let before = changes();
    let value = look_up();
    let taken = take(&value);
    keep(cache, before, table, value);
    taken
}
