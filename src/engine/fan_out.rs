//! Reads key ranges of a distributed table. The other servers test the filter and send all rows of a statement before the
//! first one arrives, so a caller who wants only the first ones gets them by statements that end by themselves.
//!
//! A statement over several partitions goes to all shards. Each shard sends its first rows, a few more than its share of
//! what is wanted. In key order they are complete up to the last row of the first shard that has no more to show. There
//! the next statement begins. Few large partitions are read one by one: the shards are asked for two rows, which say which
//! partition comes next, and that one is read from its shard.
//!
//! From a page's deadline on every row passes the filter of its statement, so that the statement soon ends. The page tests the
//! filter again: it may get rows that do not pass, and never misses one that does.
//!
//! A partition whose shard this server has is read without a statement.
//!
//! Citus' coordinator would count the rows of all shards together, so its count is taken off the plan. It plans a statement
//! that goes to several shards with its values each time; only one that goes to a single shard can be planned without them.

use std::cell::RefCell;
use std::collections::HashMap;

use pgrx::pg_sys;
use table_service_model::filter::{Bound, Filter, KeyRange, Predicate};

use super::output::Output;
use super::property_index::FilterIndexes;
use crate::postgres::citus::Shards;
use crate::postgres::memory::RowMemory;
use crate::postgres::spi::Connection;
use crate::postgres::types::value::Text;
use crate::storage::direct::{Lookup, Reader, with_reader};
use crate::storage::row::{KeyPair, Row};
use crate::storage::statement::{Bounds, First, IndexScan, RangeKeys, ScanFilter, Statement, Tested};
use crate::storage::table::Table;

/// Reads entities of key ranges into `output`, in key order: all that pass the filter, or the `first` ones until the caller wants no more,
/// among which may be others.
pub fn read<'a>(
    spi: &'a Connection,
    table: &'a Table,
    ranges: &[KeyRange],
    filter: Option<&'a Filter>,
    first: Option<First>,
    output: Output<'a>,
) {
    let mut reading = FanOut {
        spi,
        table,
        knowledge: FilterIndexes::new(table, filter),
        filter: filter.map(|filter| ScanFilter::new(&Predicate::new(filter))),
        output,
        memory: RowMemory::new(),
    };
    let Some(first) = first else {
        for range in ranges {
            reading.all(range);
            pgrx::check_for_interrupts!();
        }
        return;
    };
    let mut left = Left {
        rows: first.rows,
        expired: 0,
        wanted: first.rows,
        until: first.until,
        // A filter may let a few entities of a large partition pass.
        in_partition: if filter.is_none() { in_partition(table) } else { 1 },
    };
    let shards = match ranges.iter().any(|range| range.partition().is_none()) {
        true => Shards::of(spi, table.oid()),
        false => Shards::one(),
    };
    // The first range last.
    let mut rest: Vec<KeyRange> = ranges.iter().rev().cloned().collect();
    while let Some(range) = rest.pop() {
        rest.extend(reading.first(&range, &shards, &mut left));
        if reading.output.has_ended {
            break;
        }
        pgrx::check_for_interrupts!();
    }
    if filter.is_none() && shards.count() > 1 {
        remember_in_partition(table, left.in_partition);
    }
}

thread_local! {
    /// How many entities the partitions of a table have, as the last page saw them.
    static IN_PARTITION: RefCell<HashMap<pg_sys::Oid, u64>> = RefCell::default();
}

/// Of how many tables the size of partitions is remembered.
const REMEMBERED: usize = 1000;

fn in_partition(table: &Table) -> u64 {
    IN_PARTITION.with_borrow(|known| known.get(&table.oid()).copied().unwrap_or(1))
}

fn remember_in_partition(table: &Table, entities: u64) {
    IN_PARTITION.with_borrow_mut(|known| {
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(table.oid(), entities);
    });
}

struct FanOut<'a> {
    spi: &'a Connection,
    table: &'a Table,
    /// The knowledge of property indexes about the filter.
    knowledge: Option<FilterIndexes<'a>>,
    filter: Option<ScanFilter>,
    output: Output<'a>,
    /// For what a local shard is opened with: a filter may have many ranges.
    memory: RowMemory,
}

/// The first rows that are still to be read.
struct Left {
    /// How many there were at first.
    wanted: u64,
    rows: u64,
    /// How many rows have arrived in vain, because they have expired.
    expired: u64,
    until: i64,
    /// How many rows of a partition there are, as far as is known.
    in_partition: u64,
}

impl Left {
    /// Takes off the entities that the caller has taken so far. Where many have expired, as many again may follow.
    fn count(&mut self, output: &Output<'_>) {
        let rows = self.wanted.saturating_sub(output.taken as u64);
        self.rows = rows.max(self.expired.min(EXPIRED)).max(2);
    }

    /// Notes that a partition has shown so many rows, and whether it may have more. It may have been read from its middle.
    fn note_partition(&mut self, rows: u64, has_more: bool) {
        let known = if has_more {
            self.in_partition
        } else {
            self.in_partition / 2
        };
        self.in_partition = known.max(rows).max(1);
    }

    /// Returns how many rows to ask each shard for, so that most often no shard has too few; or [`NEXT`], if it takes less
    /// time to read the partitions one by one.
    fn rows_of_each(&self, shards: u64) -> u64 {
        let share = self.rows.div_ceil(shards);
        // Twice the standard deviation of what a shard has of the rows, if partitions are spread by chance.
        let spread = 2 * share.saturating_mul(self.in_partition).isqrt();
        let rows = share
            .saturating_add(spread)
            .saturating_add(self.in_partition)
            .min(self.rows);
        let partitions = 1 + self.rows / self.in_partition.max(1);
        let one_by_one = self.rows.saturating_add(PARTITION.saturating_mul(partitions));
        if shards > 1 && rows.saturating_mul(shards) > one_by_one {
            NEXT.min(rows)
        } else {
            rows
        }
    }
}

/// The most rows of a statement that are asked for because others have expired. All of them are in memory.
const EXPIRED: u64 = 1000;
/// So many rows of a shard say which partition comes next, and whether it has several entities.
const NEXT: u64 = 2;
/// To find the next partition and to read it takes about as long as so many rows.
const PARTITION: u64 = 700;

/// The progress of reading a shard.
#[derive(Clone, Default)]
struct Arrived {
    rows: u64,
    partitions: u64,
    partition_key: String,
}

impl FanOut<'_> {
    fn all(&mut self, range: &KeyRange) {
        let index_scan = self.index_scan(range, None);
        if index_scan.is_none() && self.in_local_shard(range) {
            return;
        }
        let output = &mut self.output;
        let keys = RangeKeys::new(range);
        let mut fetch = match &index_scan {
            Some(scan) => self.spi.fetch_once(scan),
            None => {
                let statement = Statement::scan_distributed(&keys, self.filter.as_ref(), None);
                self.spi.fetch(self.table.name(), &statement)
            }
        };
        while fetch.next_row().is_some_and(|row| output.give(&row)) {}
    }

    /// Reads the first rows of a range. Returns the ranges that are left of it, the last one first.
    fn first(&mut self, range: &KeyRange, shards: &Shards, left: &mut Left) -> Vec<KeyRange> {
        let index_scan = self.index_scan(range, Some(left.rows));
        let before = self.output.taken;
        if index_scan.is_none() && self.in_local_shard(range) {
            left.count(&self.output);
            left.note_partition((self.output.taken - before) as u64, self.output.has_ended);
            return Vec::new();
        }
        let output = &mut self.output;
        let is_partition = range.partition().is_some();
        let one = Shards::one();
        let shards = if is_partition || index_scan.is_some() {
            &one
        } else {
            shards
        };
        let rows = left.rows_of_each(shards.count());
        let first = First {
            rows,
            until: left.until,
        };
        let mut arrived = vec![Arrived::default(); usize::try_from(shards.count()).unwrap_or_default()];
        let (mut cut, mut in_partition) = (None, 1);
        let take = &mut |row: &Row<'_>| {
            let taken = output.taken;
            let wants_more = output.give(row);
            left.expired += u64::from(output.taken == taken);
            left.count(output);
            let (partition_key, row_key) = (row.partition_key(), row.row_key());
            if let Some(arrived) = arrived.get_mut(shards.of_partition(partition_key)) {
                arrived.rows += 1;
                if arrived.partitions == 0 || arrived.partition_key != partition_key {
                    arrived.partitions += 1;
                    partition_key.clone_into(&mut arrived.partition_key);
                }
                in_partition = in_partition.max(arrived.rows / arrived.partitions);
                if arrived.rows >= rows && wants_more {
                    cut = Some(((partition_key.to_owned(), row_key.to_owned()), arrived.partitions == 1));
                }
            }
            wants_more && cut.is_none()
        };
        let keys = RangeKeys::new(range);
        let mut fetch = if let Some(scan) = &index_scan {
            self.spi.fetch_once(scan)
        } else {
            let first = Some(first).filter(|_| range.point().is_none());
            let statement = Statement::scan_distributed(&keys, self.filter.as_ref(), first);
            match shards.count() {
                1 => self.spi.fetch(self.table.name(), &statement),
                _ => self.spi.fetch_of_shards(self.table.name(), &statement),
            }
        };
        while fetch.next_row().is_some_and(|row| take(&row)) {}
        drop(fetch);
        match &cut {
            // The shard has shown several partitions.
            Some((_, false)) => left.in_partition = in_partition,
            None if is_partition => left.note_partition(in_partition, output.has_ended),
            _ => left.in_partition = left.in_partition.max(in_partition),
        }
        match cut {
            None => Vec::new(),
            // The shard has more rows of this partition, and the others need not be asked for it.
            Some((keys, true)) if !is_partition => partition_first(range, keys),
            Some((keys, _)) => vec![after(range, keys)],
        }
    }

    /// Reads the rows of a range in one partition until the caller wants no more, if this server has the partition's shard. Returns false,
    /// without reading, if only a statement can do it.
    fn in_local_shard(&mut self, range: &KeyRange) -> bool {
        let Some(partition_key) = range.partition().map(Text::new) else {
            return false;
        };
        let (partition_key, output) = (partition_key.arg(), &mut self.output);
        let read = |reader: &mut Reader<'_>| {
            reader.each_of_partition((partition_key, range), |row| output.give_if_passes(row));
            Some(())
        };
        self.memory.enter();
        let is_read = with_reader(self.table, Lookup::KeysOf(partition_key), read).is_some();
        self.memory.leave();
        is_read
    }

    /// Returns the scan of a range that lets the other servers use property indexes.
    fn index_scan(&self, range: &KeyRange, limit: Option<u64>) -> Option<IndexScan> {
        let filter = self.filter.as_ref().map_or(Tested::ByCaller, Tested::Compiled);
        index_scan(self.table, range, self.knowledge.as_ref()?, filter, limit)
    }
}

/// Does the same as [`FanOut::index_scan`], also for a text that users see.
///
/// If all entities are read, the planner of each server decides between the indexes and the keys. Under a `limit` the filter
/// must ask for the entities of some values, which are seldom many: a scan for other filters might run long after the page's
/// time.
pub fn index_scan(
    table: &Table,
    range: &KeyRange,
    knowledge: &FilterIndexes<'_>,
    filter: Tested<'_>,
    limit: Option<u64>,
) -> Option<IndexScan> {
    let ranges = std::slice::from_ref(range);
    let condition = knowledge.within(ranges);
    if range.point().is_some() || (limit.is_some() && !FilterIndexes::is_some_values(&condition)) {
        return None;
    }
    let condition = (&*condition, &*knowledge.indexes);
    let bounds = Bounds::Searched;
    Some(IndexScan::sorted(
        table.name(),
        ranges,
        condition,
        filter,
        limit,
        bounds,
    ))
}

/// Returns the part of a range behind these keys.
fn after(range: &KeyRange, (partition_key, row_key): KeyPair) -> KeyRange {
    KeyRange {
        lower: Some(Bound {
            partition_key,
            row_key: Some(row_key),
            inclusive: false,
        }),
        upper: range.upper.clone(),
    }
}

/// Returns the part of a range behind these keys: the rest of the partition, and the partitions after it.
fn partition_first(range: &KeyRange, keys: KeyPair) -> Vec<KeyRange> {
    let end = Bound {
        partition_key: keys.0.clone(),
        row_key: None,
        inclusive: true,
    };
    let partition = after(range, keys);
    if range
        .upper
        .as_ref()
        .is_some_and(|upper| upper.partition_key == end.partition_key)
    {
        return vec![partition];
    }
    let others = KeyRange {
        lower: Some(Bound {
            inclusive: false,
            ..end.clone()
        }),
        upper: range.upper.clone(),
    };
    let partition = KeyRange {
        upper: Some(end),
        ..partition
    };
    vec![others, partition]
}

#[cfg(any(test, feature = "pg_test"))]
#[pgrx::pg_schema]
mod tests {
    use pgrx::prelude::*;

    use super::{Left, NEXT};

    #[pg_test]
    fn few_large_partitions_are_read_one_by_one() {
        let rows_of_each = |in_partition, rows, shards| {
            let left = Left {
                wanted: rows,
                rows,
                expired: 0,
                until: 0,
                in_partition,
            };
            left.rows_of_each(shards)
        };
        // A page of 1000 and one more, of 8 shards: 126 of each, and a margin.
        for in_partition in [1, 10, 100] {
            let rows = rows_of_each(in_partition, 1001, 8);
            assert!(rows > 126 + in_partition && rows < 126 * 4, "{in_partition}: {rows}");
        }
        for in_partition in [500, 1000, 1_000_000] {
            assert_eq!(rows_of_each(in_partition, 1001, 8), NEXT);
        }
        // Never more than are wanted, and all of them of a single shard.
        assert_eq!(rows_of_each(1000, 1, 8), 1);
        assert_eq!(rows_of_each(10, 20, 8), 20);
        assert_eq!(rows_of_each(1000, 1001, 1), 1001);
    }
}
