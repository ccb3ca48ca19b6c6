//! Reads key ranges of a distributed table. The other servers test the filter and send all rows of a statement before
//! the first one arrives, so a caller that wants only the first ones gets them by statements that end by themselves.
//!
//! A statement over several partitions goes to all shards. Each shard sends its first rows, a few more than its share
//! of the wanted rows. In key order they are complete up to the last row of the first shard that has sent all rows that
//! it was asked for. There the next statement begins. Few large partitions are read one by one: the shards are asked
//! for two rows, which tell the next partition, and that one is read from its shard.
//!
//! From a page's deadline on every row passes the filter of its statement, so that the statement soon ends. The page tests the
//! filter again: it may get rows that do not pass, and never misses one that does.
//!
//! A partition in a shard of this server is read without a statement.
//!
//! Citus' coordinator would count the rows of all shards together, so its LIMIT is removed from the plan. It plans a
//! statement on several shards with its values each time; only one on a single shard can be planned without them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use pgrx::pg_sys;
use table_service_model::filter::Bound;
use table_service_model::{Filter, KeyRange, Predicate};

use super::property_index::FilterIndexes;
use crate::postgres::{Connection, RowMemory, Shards, Text};
use crate::storage::direct::{Lookup, Reader};
use crate::storage::fetch::Fetch;
use crate::storage::row::{KeyPair, Row};
use crate::storage::statement::{Bounds, First, IndexScan, RangeScan, ScanFilter, Tested};
use crate::storage::table::Table;

thread_local! {
    /// How many entities the partitions of a table have, as the last page saw them.
    static IN_PARTITION: RefCell<HashMap<pg_sys::Oid, u64>> = RefCell::default();
}

/// For how many tables the size of partitions is remembered.
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

/// The rows of ranges of a distributed table, in key order: all that pass the filter, or the first and perhaps others.
pub struct FanOut<'a> {
    source: Source<'a>,
    spi: &'a Connection,
    table: &'a Table,
    /// The knowledge of property indexes about the filter.
    knowledge: Option<FilterIndexes<'a>>,
    filter: Option<Rc<ScanFilter>>,
    /// The ranges that are left to read, the first one last.
    rest: Vec<KeyRange>,
    /// `None` if all rows are wanted.
    first: Option<FirstRows>,
    /// How many entities the caller has taken so far.
    taken: usize,
    /// The memory in which local shards are opened: a filter may have many ranges.
    memory: RowMemory,
}

/// Where the rows come from.
enum Source<'a> {
    None,
    Statement(Fetch<'a>),
    /// A shard that this server has.
    Shard(Reader),
}

/// The progress of a read of the first rows.
struct FirstRows {
    left: Left,
    shards: Shards,
    range: Option<Running>,
}

/// A range that is being read.
struct Running {
    range: KeyRange,
    /// How many entities the caller had taken before it.
    before: usize,
    /// How many rows each shard was asked for.
    rows: u64,
    /// The progress of each shard.
    arrived: Vec<Arrived>,
    /// The keys of the last row, if its shard has sent all rows asked for, and whether it has shown only one partition.
    cut: Option<(KeyPair, bool)>,
    in_partition: u64,
}

/// The first rows that are still to be read.
struct Left {
    /// How many there were at first.
    wanted: u64,
    rows: u64,
    /// How many rows have arrived that have expired.
    expired: u64,
    until: i64,
    /// How many rows of a partition there are, as far as is known.
    in_partition: u64,
}

impl Left {
    /// Takes off the entities that the caller has taken so far. If many have expired, as many again may follow.
    fn count(&mut self, taken: usize) {
        let rows = self.wanted.saturating_sub(taken as u64);
        self.rows = rows.max(self.expired.min(EXPIRED)).max(2);
    }

    /// Notes that a partition has shown this many rows, and whether it may have more. It may be read from its middle.
    fn note_partition(&mut self, rows: u64, has_more: bool) {
        let known = if has_more {
            self.in_partition
        } else {
            self.in_partition / 2
        };
        self.in_partition = known.max(rows).max(1);
    }

    /// Returns how many rows to ask each shard for, so that they usually suffice; or [`NEXT`], if it takes less time to
    /// read the partitions one by one.
    fn rows_of_each(&self, shards: u64) -> u64 {
        let share = self.rows.div_ceil(shards);
        // Twice the standard deviation of a shard's number of rows, if partitions are spread by chance.
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
/// This many rows of a shard tell the next partition, and whether it has several entities.
const NEXT: u64 = 2;
/// To find the next partition and to read it takes about as long as this many rows.
const PARTITION: u64 = 700;

/// The progress of reading a shard.
#[derive(Clone, Default)]
struct Arrived {
    rows: u64,
    partitions: u64,
    partition_key: String,
}

impl Running {
    /// Notes that a row has arrived from the shard with this number.
    fn note(&mut self, shard: usize, row: &Row<'_>) {
        let Some(arrived) = self.arrived.get_mut(shard) else {
            return;
        };
        arrived.rows += 1;
        if arrived.partitions == 0 || arrived.partition_key != row.partition_key() {
            arrived.partitions += 1;
            row.partition_key().clone_into(&mut arrived.partition_key);
        }
        self.in_partition = self.in_partition.max(arrived.rows / arrived.partitions);
        if arrived.rows >= self.rows {
            self.cut = Some((row.keys(), arrived.partitions == 1));
        }
    }
}

impl<'a> FanOut<'a> {
    /// Returns the rows of key ranges, which must be in key order: all of them, or the `first` ones, of which the
    /// caller takes as many as it likes.
    pub fn new(
        spi: &'a Connection,
        table: &'a Table,
        ranges: &[KeyRange],
        filter: Option<&'a Filter>,
        first: Option<First>,
    ) -> FanOut<'a> {
        let first = first.map(|first| FirstRows {
            left: Left {
                rows: first.rows,
                expired: 0,
                wanted: first.rows,
                until: first.until,
                // A filter may let a few entities of a large partition pass.
                in_partition: if filter.is_none() { in_partition(table) } else { 1 },
            },
            shards: match ranges.iter().any(|range| range.partition().is_none()) {
                true => Shards::of(spi, table.oid()),
                false => Shards::one(),
            },
            range: None,
        });
        FanOut {
            source: Source::None,
            spi,
            table,
            knowledge: FilterIndexes::new(table, filter),
            filter: filter.map(|filter| Rc::new(ScanFilter::new(&Predicate::new(filter)))),
            rest: ranges.iter().rev().cloned().collect(),
            first,
            taken: 0,
            memory: RowMemory::new(),
        }
    }

    /// Returns whether a statement has made the tests of a predicate on the row. The other servers test the filter alone.
    pub fn is_tested(&self, predicate: &Predicate) -> bool {
        self.first.is_none() && !self.is_direct() && predicate.alive().is_none()
    }

    /// Returns whether no statement has found the row.
    pub fn is_direct(&self) -> bool {
        matches!(self.source, Source::Shard(_))
    }

    /// Returns the current row.
    pub fn row(&self) -> Row<'_> {
        match &self.source {
            Source::Statement(fetch) => fetch.row(),
            Source::Shard(reader) => reader.row(),
            // Nothing else has rows.
            Source::None => unreachable!("a row is read after it was found"),
        }
    }

    /// Moves to the next row. `taken` is how many entities the caller has taken. Returns false after the last row.
    pub fn next(&mut self, taken: usize) -> bool {
        if let (Some(first), Source::Statement(_)) = (&mut self.first, &self.source) {
            first.left.expired += u64::from(taken == self.taken);
        }
        self.taken = taken;
        loop {
            let is_cut = self.running().is_some_and(|running| running.cut.is_some());
            let is_there = !is_cut
                && match &mut self.source {
                    Source::None => false,
                    Source::Statement(fetch) => fetch.next(),
                    Source::Shard(reader) => reader.next(),
                };
            if is_there {
                self.note_row();
                return true;
            }
            self.end_range(false);
            let Some(range) = self.rest.pop() else { return false };
            pgrx::check_for_interrupts!();
            self.begin(range);
        }
    }

    fn running(&self) -> Option<&Running> {
        self.first.as_ref()?.range.as_ref()
    }

    /// Notes the row that has arrived from a statement.
    fn note_row(&mut self) {
        if let (
            Some(FirstRows {
                shards,
                range: Some(running),
                ..
            }),
            Source::Statement(fetch),
        ) = (&mut self.first, &self.source)
        {
            let row = fetch.row();
            let shard = match running.arrived.len() {
                1 => 0,
                _ => shards.of_partition(row.partition_key()),
            };
            running.note(shard, &row);
        }
    }

    /// Begins to read a range.
    fn begin(&mut self, range: KeyRange) {
        let index_scan = self.index_scan(&range);
        let shard = range.partition().filter(|_| index_scan.is_none()).map(Text::new);
        if let Some(partition_key) = shard {
            self.memory.enter();
            match Reader::open(self.table, Lookup::Keys(Some(partition_key.arg()))) {
                Some(mut reader) => {
                    reader.search_range(&range);
                    self.source = Source::Shard(reader);
                }
                None => self.memory.leave(),
            }
        }
        let one = range.partition().is_some() || index_scan.is_some();
        let asked = self.first.as_ref().map(|FirstRows { left, shards, .. }| {
            let shards = if one { 1 } else { shards.count() };
            let (rows, until) = (left.rows_of_each(shards), left.until);
            (shards, First { rows, until })
        });
        if !self.is_direct() {
            let first = asked.map(|(_, first)| first).filter(|_| range.point().is_none());
            let scan = || RangeScan::distributed(&range, self.filter.as_ref(), first);
            self.source = Source::Statement(match (&index_scan, asked) {
                (Some(scan), _) => self.spi.fetch_once(scan),
                (None, Some((2.., _))) => self.spi.fetch_of_shards(self.table.name(), &scan()),
                (None, _) => self.spi.fetch_range(self.table.name(), scan()),
            });
        }
        if let (Some(first), Some((shards, First { rows, .. }))) = (&mut self.first, asked) {
            first.range = Some(Running {
                range,
                before: self.taken,
                rows,
                arrived: vec![Arrived::default(); usize::try_from(shards).unwrap_or_default()],
                cut: None,
                in_partition: 1,
            });
        }
    }

    /// Ends the range that is being read, and notes its rest. `has_more` says that the caller wants no more of it.
    fn end_range(&mut self, has_more: bool) {
        let is_direct = self.is_direct();
        self.source = Source::None;
        self.memory.leave();
        let taken = self.taken;
        let Some((left, running)) = self
            .first
            .as_mut()
            .and_then(|it| Some((&mut it.left, it.range.take()?)))
        else {
            return;
        };
        left.count(taken);
        let (range, is_partition) = (&running.range, running.range.partition().is_some());
        if is_direct {
            left.note_partition((taken - running.before) as u64, has_more);
            return;
        }
        let cut = running.cut.filter(|_| !has_more);
        match &cut {
            // The shard has shown several partitions.
            Some((_, false)) => left.in_partition = running.in_partition,
            None if is_partition => left.note_partition(running.in_partition, has_more),
            _ => left.in_partition = left.in_partition.max(running.in_partition),
        }
        match cut {
            None => {}
            // The shard has more rows of this partition, and the others need not be asked for it.
            Some((keys, true)) if !is_partition => self.rest.extend(partition_first(range, keys)),
            Some((keys, _)) => self.rest.push(after(range, keys)),
        }
    }

    /// Returns the scan of a range that lets the other servers use property indexes.
    fn index_scan(&self, range: &KeyRange) -> Option<IndexScan> {
        let filter = self.filter.as_deref().map_or(Tested::ByCaller, Tested::Compiled);
        let limit = self.first.as_ref().map(|first| first.left.rows);
        index_scan(self.table, range, self.knowledge.as_ref()?, filter, limit)
    }
}

impl Drop for FanOut<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.end_range(true);
        if let Some(first) = &self.first
            && self.filter.is_none()
            && first.shards.count() > 1
        {
            remember_in_partition(self.table, first.left.in_partition);
        }
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
