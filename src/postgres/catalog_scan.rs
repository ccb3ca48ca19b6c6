//! Scans of PostgreSQL's catalogs, as they are now and not as the caller's snapshot sees them.

use pgrx::prelude::*;

use super::types::{name_bytes, name_of};

/// Calls `take` with each row of a catalog that has this OID in a column, as the catalogs are now and not as the caller's snapshot sees
/// them, until it returns something. The index, if there is one, begins with that column.
///
/// # Safety
/// The rows of the catalog must be of the type `T`.
pub unsafe fn scan<T, R>(
    catalog: pg_sys::Oid,
    index: Option<pg_sys::Oid>,
    column: (u32, pg_sys::Oid),
    take: impl FnMut(&T) -> Option<R>,
) -> Option<R> {
    // SAFETY: the caller's promise.
    unsafe { scan_at(false, catalog, index, column, take) }
}

/// Does the same. If `is_before`, it does not see the changes of this transaction.
///
/// # Safety
/// As for [`scan`].
pub unsafe fn scan_at<T, R>(
    is_before: bool,
    catalog: pg_sys::Oid,
    index: Option<pg_sys::Oid>,
    column: (u32, pg_sys::Oid),
    take: impl FnMut(&T) -> Option<R>,
) -> Option<R> {
    // SAFETY: the caller's promise. Without a snapshot PostgreSQL takes one of the catalogs. The other one is a copy.
    // It is released here, or by PostgreSQL after an error. With its first command a transaction has changed nothing.
    unsafe {
        if !is_before {
            return scan_with(std::ptr::null_mut(), catalog, index, column, take);
        }
        let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
        (*snapshot).curcid = 0;
        let found = scan_with(snapshot, catalog, index, column, take);
        pg_sys::UnregisterSnapshot(snapshot);
        found
    }
}

/// # Safety
/// As for [`scan`]. The snapshot must be NULL or registered.
unsafe fn scan_with<T, R>(
    snapshot: pg_sys::Snapshot,
    catalog: pg_sys::Oid,
    index: Option<pg_sys::Oid>,
    (column, oid): (u32, pg_sys::Oid),
    mut take: impl FnMut(&T) -> Option<R>,
) -> Option<R> {
    // SAFETY: the caller's promise. The scan and the catalog are closed; after an error PostgreSQL closes them.
    unsafe {
        let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        let relation = pg_sys::table_open(catalog, lock);
        let mut key = pg_sys::ScanKeyData::default();
        pg_sys::ScanKeyInit(
            &mut key,
            column as pg_sys::AttrNumber,
            pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
            pg_sys::RegProcedure::from(pg_sys::F_OIDEQ),
            oid.into(),
        );
        let scan = pg_sys::systable_beginscan(
            relation,
            index.unwrap_or(pg_sys::InvalidOid),
            index.is_some(),
            snapshot,
            1,
            &mut key,
        );
        let mut found = None;
        while found.is_none() {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            found = take(&*pg_sys::GETSTRUCT(tuple).cast::<T>());
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(relation, lock);
        found
    }
}

/// Returns the first name of a relation in any schema, in the order of bytes, that is not before this one. A name of PostgreSQL is shorter
/// than its `NAMEDATALEN`.
pub fn first_relation_name(from: &str) -> Option<Vec<u8>> {
    if from.len() >= pg_sys::NAMEDATALEN as usize {
        return None;
    }
    let name = name_of(from);
    // SAFETY: the name is there until the scan has ended. The scan and both relations are closed; after an error PostgreSQL closes them. The
    // index has all rows of `pg_class` in the order of their names.
    unsafe {
        let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        let relation = pg_sys::table_open(pg_sys::RelationRelationId, lock);
        let index = pg_sys::index_open(pg_sys::Oid::from(pg_sys::ClassNameNspIndexId), lock);
        let mut key = pg_sys::ScanKeyData::default();
        pg_sys::ScanKeyInit(
            &mut key,
            pg_sys::Anum_pg_class_relname as pg_sys::AttrNumber,
            pg_sys::BTGreaterEqualStrategyNumber as pg_sys::StrategyNumber,
            pg_sys::RegProcedure::from(pg_sys::F_NAMEGE),
            pg_sys::Datum::from(std::ptr::from_ref(&name)),
        );
        let scan = pg_sys::systable_beginscan_ordered(relation, index, std::ptr::null_mut(), 1, &mut key);
        let tuple = pg_sys::systable_getnext_ordered(scan, pg_sys::ScanDirection::ForwardScanDirection);
        let found = tuple.as_mut().map(|tuple| {
            let class = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>();
            name_bytes(&(*class).relname).to_vec()
        });
        pg_sys::systable_endscan_ordered(scan);
        pg_sys::index_close(index, lock);
        pg_sys::table_close(relation, lock);
        found
    }
}
