//! Removes entities that have expired. Nobody sees them any more; this gives their room back.

use super::expiry::Expiries;
use super::table::Table;
use crate::postgres::clock::now;
use crate::postgres::spi::connect;
use crate::postgres::statement::IndexScan;

/// What a sweep of a table has done.
pub struct Swept {
    pub deleted: u64,
    /// Whether there was more than the sweep might delete.
    pub more: bool,
    /// Entities that expired before this moment are gone, but those that others had locked. In microseconds since 2000-01-01.
    pub oldest: i64,
}

/// `-infinity`.
pub const BEGINNING: i64 = i64::MIN;

/// Removes at most `top` of the entities of a table that have expired since a moment, those first that expired first. It leaves
/// those that others have locked, so that it waits for nobody.
pub fn sweep(table: &Table, top: u64, since: i64) -> Swept {
    let until = now();
    let mut swept = Swept {
        deleted: 0,
        more: false,
        oldest: until,
    };
    for expiry in Expiries::of(table).iter() {
        let left = top.saturating_sub(swept.deleted);
        let scan = IndexScan::sweep(table.name(), expiry, (since, until), left);
        let (deleted, found, last) = connect(|spi| {
            let rows = spi.run_by_index(table.name(), &scan);
            let row = rows.first();
            let count = |column| row.as_ref().and_then(|row| row.int8(column)).unwrap_or_default();
            let last = row.as_ref().and_then(|row| row.timestamptz(3));
            (count(1), count(2), last)
        });
        swept.deleted += u64::try_from(deleted).unwrap_or_default();
        if u64::try_from(found).is_ok_and(|found| found >= left) {
            swept.more = true;
            swept.oldest = swept.oldest.min(last.unwrap_or(since));
        }
    }
    swept
}

/// Removes all entities of a table that have expired by now.
pub fn sweep_all(table: &Table) {
    let until = now();
    for expiry in Expiries::of(table).iter() {
        let scan = IndexScan::sweep_all(table.name(), expiry, until);
        connect(|spi| spi.run_by_index(table.name(), &scan).processed());
    }
}
