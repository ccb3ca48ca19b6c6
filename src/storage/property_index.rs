//! How many entries indexes have, by their statistics and by counting, and which index may be read.

use std::ffi::{CStr, c_char, c_int};

use pgrx::prelude::*;

use crate::postgres::guarded::guarded;
use crate::postgres::{Index, ScanCondition, active_snapshot, btree, varlena, with_relation};

/// Returns whether a relation is a partitioned table.
pub fn is_partitioned(relation: pg_sys::Oid) -> bool {
    // SAFETY: the function takes any OID.
    unsafe { pg_sys::get_rel_relkind(relation) == pg_sys::RELKIND_PARTITIONED_TABLE as c_char }
}

/// Returns the command that creates an index concurrently, which PostgreSQL cannot do for a partitioned table.
pub fn concurrent_creation(table: pg_sys::Oid) -> &'static str {
    if is_partitioned(table) {
        "CREATE INDEX"
    } else {
        "CREATE INDEX CONCURRENTLY"
    }
}

/// Returns the name of a relation with its schema, quoted for SQL.
pub fn qualified_name(relation: pg_sys::Oid) -> Option<String> {
    // SAFETY: the functions take any OID. They return NULL or a palloc'ed C string.
    unsafe {
        let name = pg_sys::get_rel_name(relation);
        let schema = pg_sys::get_namespace_name(pg_sys::get_rel_namespace(relation));
        if name.is_null() || schema.is_null() {
            return None;
        }
        let quoted = pg_sys::quote_qualified_identifier(schema, name);
        CStr::from_ptr(quoted).to_str().ok().map(str::to_owned)
    }
}

/// Returns whether ANALYZE has collected statistics of an index's expression. The index of a partitioned table has them
/// if the indexes of all its parts have them. The caller must have locked the table.
pub fn has_statistics(table: pg_sys::Oid, index: pg_sys::Oid) -> bool {
    parts(table, index, pg_sys::AccessShareLock, Wait::Yes).is_some_and(|parts| {
        // SAFETY: a transaction is running. STATRELATTINH takes a relation, the number of a column, and whether the
        // statistics include child tables.
        parts.into_iter().all(|part| unsafe {
            pg_sys::SearchSysCacheExists(
                pg_sys::SysCacheIdentifier::STATRELATTINH as c_int,
                part.index.into(),
                1i16.into(),
                false.into(),
                pg_sys::Datum::null(),
            )
        })
    })
}

/// Estimates which part of a table's entities have entries with `lower <= entry < upper` for one of these bounds, by the
/// statistics that ANALYZE has collected of the index. `None` without them, and for a partitioned table.
pub fn part_between<'b>(index: pg_sys::Oid, bounds: impl Iterator<Item = [&'b [u8]; 2]> + Clone) -> Option<f64> {
    // SAFETY: a transaction is running. STATRELATTINH takes a relation, the number of a column, and whether the statistics
    // include child tables. A non-NULL tuple of it is a row of `pg_statistic`, which is released after its last use. The
    // index is on one expression of the type bytea, so the histogram has as many values of it as the slot says.
    unsafe {
        let tuple = pg_sys::SearchSysCache3(
            pg_sys::SysCacheIdentifier::STATRELATTINH as c_int,
            index.into(),
            1i16.into(),
            false.into(),
        );
        if tuple.is_null() {
            return None;
        }
        let without_entry = (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_statistic>()).stanullfrac;
        let mut slot = pg_sys::AttStatsSlot::default();
        let is_there = pg_sys::get_attstatsslot(
            &mut slot,
            tuple,
            pg_sys::STATISTIC_KIND_HISTOGRAM as c_int,
            pg_sys::InvalidOid,
            pg_sys::ATTSTATSSLOT_VALUES as c_int,
        );
        let part = is_there.then(|| {
            let values = std::slice::from_raw_parts(slot.values, usize::try_from(slot.nvalues).unwrap_or_default());
            let is_between = |&&value: &&pg_sys::Datum| {
                let entry = varlena::bytes(value);
                bounds.clone().any(|[lower, upper]| lower <= entry && entry < upper)
            };
            let found = values.iter().filter(is_between).count() as f64 / values.len() as f64;
            pg_sys::free_attstatsslot(&mut slot);
            found * f64::from(1.0 - without_entry)
        });
        pg_sys::ReleaseSysCache(tuple);
        part
    }
}

/// Returns how many pages a table has. A partitioned table has none itself. The caller must have locked the table.
pub fn count_pages(table: pg_sys::Oid) -> usize {
    if is_partitioned(table) {
        return 0;
    }
    // SAFETY: tables with rows of their own have files, also with another table access method.
    with_relation(table, |relation| unsafe {
        pg_sys::RelationGetNumberOfBlocksInFork(relation.as_ptr(), pg_sys::ForkNumber::MAIN_FORKNUM) as usize
    })
}

/// Returns the planner's estimate of the number of a table's rows. The caller must have locked the table.
pub fn estimate_rows(table: pg_sys::Oid) -> f64 {
    let (mut pages, mut rows, mut visible) = (0, 0.0, 0.0);
    // SAFETY: the relation is open. The function writes its three results.
    with_relation(table, |relation| unsafe {
        pg_sys::estimate_rel_size(
            relation.as_ptr(),
            std::ptr::null_mut(),
            &mut pages,
            &mut rows,
            &mut visible,
        );
    });
    rows
}

/// Returns whether entries can be counted: the planner may plan a statement before it has a snapshot.
pub fn can_count() -> bool {
    // SAFETY: the function reads a global of this process.
    unsafe { pg_sys::ActiveSnapshotSet() }
}

/// Counts the entries of an index that meet conditions, up to a limit. It also counts the entries of rows that no
/// transaction sees any more. The caller must have locked the table, and the values must have the types of the columns.
///
/// The index of a partitioned table has no entries itself: the entries of its parts are counted. Returns the limit if a
/// part has no such index.
pub fn count_entries(
    table: pg_sys::Oid,
    index: pg_sys::Oid,
    conditions: &mut [ScanCondition<'_>],
    limit: usize,
) -> usize {
    let Some(parts) = parts(table, index, pg_sys::AccessShareLock, Wait::Yes) else {
        return limit;
    };
    let mut count = 0;
    for part in parts {
        if count >= limit {
            break;
        }
        count += with_relation(part.table, |relation| {
            let index = Index::open(part.index, pg_sys::AccessShareLock);
            // SAFETY: the caller promises that it is an index of the table, and the types of its columns.
            unsafe { btree::count(relation, &index, active_snapshot(), conditions, limit - count) }
        });
    }
    count
}

unsafe extern "C-unwind" {
    /// PostgreSQL's function, which `pg_sys` lacks.
    fn index_get_partition(partition: pg_sys::Relation, index: pg_sys::Oid) -> pg_sys::Oid;
}

/// A locked table that has entities itself, with its index: a plain table, or a part of a partitioned one.
#[derive(Clone, Copy)]
pub struct Part {
    pub table: pg_sys::Oid,
    pub(super) index: pg_sys::Oid,
}

/// Whether to wait for locks of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Yes,
    No,
}

/// Returns the parts of a partitioned table that have entities, each with its part of an index, and locks them as the caller has locked the
/// table. `None` if a part has no such index, or if another session has locked a part and this one is not to wait.
pub(super) fn parts(table: pg_sys::Oid, index: pg_sys::Oid, lock: u32, wait: Wait) -> Option<Vec<Part>> {
    if !is_partitioned(table) {
        return Some(vec![Part { table, index }]);
    }
    let (mode, no_lock) = (lock as pg_sys::LOCKMODE, pg_sys::NoLock as pg_sys::LOCKMODE);
    let mut all = Vec::new();
    // SAFETY: the description belongs to the relation cache's entry, and has `nparts` OIDs.
    let children: Vec<pg_sys::Oid> = with_relation(table, |relation| unsafe {
        let description = &*pg_sys::RelationGetPartitionDesc(relation.as_ptr(), true);
        let count = usize::try_from(description.nparts).unwrap_or_default();
        (0..count).map(|number| *description.oids.add(number)).collect()
    });
    // SAFETY: a part is locked when it is opened, and it stays so.
    unsafe {
        for child in children {
            if wait == Wait::No && !pg_sys::ConditionalLockRelationOid(child, mode) {
                return None;
            }
            let part = pg_sys::try_relation_open(child, mode);
            if part.is_null() {
                return None;
            }
            let index = guarded(|| index_get_partition(part, index));
            pg_sys::relation_close(part, no_lock);
            if index == pg_sys::InvalidOid {
                return None;
            }
            all.extend(parts(child, index, lock, wait)?);
        }
    }
    Some(all)
}
