//! Work on all entities that a filter selects.
//!
//! The entities are found as a page finds them: in key order, under the caller's snapshot, through key ranges and property
//! indexes. They are locked in the same order, which is that of batches too, tested again as they are now, and written. So
//! two sessions cannot deadlock if each call is a transaction of its own, and what others have changed meanwhile counts.

use std::borrow::Cow;
use std::ffi::CStr;
use std::time::{Duration, Instant};

use table_service_model::Error;
use table_service_model::PropertiesBuf;
use table_service_model::filter::{Plan, Predicate};
use table_service_model::patch::Patch;

use super::page::{self, Measure, PageRequest, PageSink};
use super::property_index::FilterIndexes;
use super::scan::{RowFilter, predicate};
use crate::postgres::clock::now;
use crate::postgres::spi::connect;
use crate::postgres::types::value::{Array, Text, Value};
use crate::storage::expiry::Expiries;
use crate::storage::row::{KeyPair, Row};
use crate::storage::statement::{IndexScan, RangeKeys, ScanFilter, Statement};
use crate::storage::table::Table;

/// How many entities are found before they are changed, and how many bytes their keys have. To find them through an index
/// takes longer for many small numbers than for a few large ones.
const FOUND: u64 = 16 * 1024;
const FOUND_BYTES: usize = 4 * 1024 * 1024;

/// How many entities one statement locks, and how many bytes their new properties have, about.
const LOCKED: usize = 1000;
const LOCKED_BYTES: usize = 4 * 1024 * 1024;

/// The change of an entity.
#[derive(Clone, Copy)]
pub enum BulkChange<'a> {
    Delete,
    Patch(&'a Patch<'a>),
}

/// Which entities are changed, and how.
pub struct Bulk<'a> {
    pub table: &'a Table,
    pub plan: &'a Plan,
    pub change: BulkChange<'a>,
}

/// How far the work has come.
pub struct Step {
    /// How many entities were changed.
    pub changed: u64,
    /// The keys at which the next step begins. `None` says that there is nothing left.
    pub next: Option<KeyPair>,
}

/// Refuses tables whose entities Citus keeps on other servers.
///
/// # Errors
/// `NotImplemented`.
pub fn require_local(table: &Table, function: &CStr) -> Result<(), Error> {
    table.require_local(|| {
        format!(
            "{} does not work on distributed tables. Read pages of keys with query_page(), and delete or merge them in \
             batches",
            function.to_string_lossy()
        )
    })
}

/// Counts the entities of a plan's ranges that pass its filter, under the caller's snapshot.
pub fn count(table: &Table, plan: &Plan) -> i64 {
    let filter = predicate(table, plan.residual.as_ref()).map(|predicate| ScanFilter::new(&predicate));
    let knowledge = FilterIndexes::new(table, plan.residual.as_ref());
    let mut count = 0;
    for range in &plan.ranges {
        count += connect(|spi| {
            let through_indexes = match (&knowledge, &filter) {
                (Some(knowledge), Some(filter)) if range.point().is_none() => {
                    let condition = knowledge.within(std::slice::from_ref(range));
                    let scan = IndexScan::counted(table.name(), range, (&condition, &knowledge.indexes), filter);
                    spi.count_through(&scan, &knowledge.oids())
                }
                _ => None,
            };
            through_indexes.unwrap_or_else(|| {
                let keys = RangeKeys::new(range);
                let rows = spi.run(table.name(), &Statement::count(&keys, filter.as_ref()));
                rows.first().and_then(|row| row.int8(1)).unwrap_or_default()
            })
        });
        pgrx::check_for_interrupts!();
    }
    count
}

impl Bulk<'_> {
    /// Changes entities in key order from `start` on, at most `top` of them, until `time_limit` is over. Each call changes or
    /// examines at least one.
    ///
    /// # Errors
    /// The errors of the limits, for the first entity that the change would take beyond them.
    pub fn run(&self, start: Option<KeyPair>, top: Option<u64>, time_limit: Duration) -> Result<Step, Error> {
        let began = Instant::now();
        let filter = self.plan.residual.as_ref();
        let filter = filter.map(|filter| RowFilter::new(Predicate::new(filter)));
        let mut step = Step {
            changed: 0,
            next: match top {
                // Nothing is looked at, so it is not known whether all is done.
                Some(0) => Some(start.unwrap_or_default()),
                _ => start,
            },
        };
        while top.is_none_or(|top| step.changed < top) {
            let left = top.map_or(FOUND, |top| FOUND.min(top - step.changed));
            let ranges = match &step.next {
                None => Cow::Borrowed(self.plan.ranges.as_slice()),
                Some((partition_key, row_key)) => Cow::Owned(self.plan.ranges_from(partition_key, row_key)),
            };
            let request = PageRequest {
                ranges,
                filter: self.plan.residual.as_ref(),
                top: left,
                time_limit: time_limit.saturating_sub(began.elapsed()),
            };
            let (found, next) = page::read_until(request, self.table, Found::default());
            for (partition_key, row_keys) in &found.partitions {
                step.changed += self.partition(partition_key, row_keys, filter.as_ref())?;
            }
            step.next = next;
            if step.next.is_none() || began.elapsed() >= time_limit {
                break;
            }
        }
        if step.changed == 0 {
            // Nothing was written, so PostgreSQL has not asked for the rights yet.
            self.partition("", &[], None)?;
        }
        Ok(step)
    }

    /// Changes those entities of a partition that still pass the filter. The RowKeys are in order.
    fn partition(&self, partition_key: &str, row_keys: &[String], filter: Option<&RowFilter>) -> Result<u64, Error> {
        let (mut changed, mut rest) = (0, row_keys);
        loop {
            let (now, _) = rest.split_at(rest.len().min(LOCKED));
            let done = self.locked(partition_key, now, filter, &mut changed)?;
            rest = rest.get(done..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(changed);
            }
            pgrx::check_for_interrupts!();
        }
    }

    /// Locks entities in key order, as many as one statement takes, and changes them. Returns how many of the RowKeys are done.
    fn locked(
        &self,
        partition_key: &str,
        row_keys: &[String],
        filter: Option<&RowFilter>,
        changed: &mut u64,
    ) -> Result<usize, Error> {
        let partition = Text::new(partition_key);
        let partition = || Value::text(partition.arg());
        let given = Array::of_texts(row_keys.iter().map(String::as_str));
        let (mut locked, mut bags, mut bytes) = (Vec::<String>::new(), Vec::<PropertiesBuf>::new(), 0);
        let (mut refused, mut last) = (None, None);
        let expiries = Expiries::of(self.table);
        connect(|spi| {
            let statement = Statement::lock_many(partition(), &given);
            let mut fetch = spi.fetch(self.table.name(), &statement);
            while let Some(row) = fetch.next_row() {
                if filter.is_some_and(|filter| !filter.passes(&row))
                    || expiries.have_passed(row.timestamp(), row.properties())
                {
                    continue;
                }
                let row_key = row.row_key();
                if let BulkChange::Patch(patch) = self.change {
                    match patch.apply(partition_key, row_key, row.properties()) {
                        Ok(bag) => {
                            bytes += bag.as_bytes().len();
                            bags.push(bag);
                        }
                        Err(error) => {
                            refused = Some(error.of_entity(partition_key, row_key));
                            break;
                        }
                    }
                }
                locked.push(row_key.to_owned());
                if bytes >= LOCKED_BYTES {
                    last = Some(row_key.to_owned());
                    break;
                }
            }
        });
        if let Some(refused) = refused {
            return Err(refused);
        }
        if !locked.is_empty() || row_keys.is_empty() {
            let keys = Array::of_texts(locked.iter().map(String::as_str));
            *changed += connect(|spi| {
                let table = self.table.name();
                let rows = match self.change {
                    BulkChange::Delete => spi.run(table, &Statement::delete_locked(partition(), &keys)),
                    BulkChange::Patch(_) => {
                        let bags = Array::of_bags(bags.iter().map(PropertiesBuf::as_properties));
                        let statement = Statement::replace_locked(partition(), &keys, now(), &bags);
                        spi.run(table, &statement)
                    }
                };
                // Others are kept by a policy or a trigger.
                rows.processed()
            });
        }
        Ok(match last {
            None => row_keys.len(),
            Some(last) => row_keys.partition_point(|row_key| *row_key <= last),
        })
    }
}

/// Collects the keys of a page.
#[derive(Default)]
struct Found {
    /// PartitionKeys with RowKeys, in order.
    partitions: Vec<(String, Vec<String>)>,
    bytes: usize,
}

impl PageSink for Found {
    fn measure(&mut self, row: &Row<'_>) -> Measure {
        self.bytes += row.size_of_keys();
        if self.bytes >= FOUND_BYTES {
            Measure::Fills
        } else {
            Measure::Fits
        }
    }

    fn entity(&mut self, row: &Row<'_>, _: bool) {
        let row_key = row.row_key().to_owned();
        match self.partitions.last_mut() {
            Some((partition_key, row_keys)) if partition_key == row.partition_key() => row_keys.push(row_key),
            _ => self.partitions.push((row.partition_key().to_owned(), vec![row_key])),
        }
    }
}
