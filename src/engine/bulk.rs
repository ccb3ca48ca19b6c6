//! Work on all entities that a filter selects.
//!
//! A query finds the entities, under the caller's snapshot and in key order: all of them like `query_entities`, the
//! first ones like a page. While the query is open, the entities are locked in this order, which batches also use,
//! tested again in their current versions, and written. So two sessions cannot deadlock if each call is a transaction
//! of its own, and concurrent changes count.

use std::borrow::Cow;
use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use table_service_model::filter::Plan;
use table_service_model::{Error, Patch, Predicate, PropertiesBuf};

use super::page::{Page, PageRequest};
use super::property_index::FilterIndexes;
use super::scan::{Entities, Workers, predicate};
use crate::postgres::{Array, Text, TextArg, connect, now};
use crate::storage::expiry::Expiries;
use crate::storage::row::{KeyPair, Row};
use crate::storage::statement::{IndexScan, Kind, RangeScan, ScanFilter, Statement};
use crate::storage::table::Table;

/// How many entities one statement locks, and how many bytes their new properties have, about.
const LOCKED: usize = 1000;
const LOCKED_BYTES: usize = 4 * 1024 * 1024;

/// Which entities are changed, and how.
pub struct Bulk<'a> {
    pub table: &'a Table,
    pub plan: &'a Plan,
    /// `None` means that they are deleted.
    pub patch: Option<&'a Patch<'a>>,
}

/// How far the work has come.
pub struct Step {
    /// How many entities were changed.
    pub changed: u64,
    /// The keys at which the next step begins. `None` says that there is nothing left.
    pub next: Option<KeyPair>,
}

/// Counts the entities of a plan's ranges that pass its filter, under the caller's snapshot.
pub fn count(table: &Table, plan: &Plan) -> i64 {
    let filter = predicate(table, plan.residual.as_ref()).map(|predicate| Rc::new(ScanFilter::new(&predicate)));
    let knowledge = FilterIndexes::new(table, plan.residual.as_ref());
    let mut count = 0;
    for range in &plan.ranges {
        count += connect(|spi| {
            let through_indexes = match (&knowledge, &filter) {
                (Some(knowledge), Some(filter)) if range.point().is_none() => {
                    let condition = knowledge.within(std::slice::from_ref(range));
                    let scan = IndexScan::counted(table.name(), range, (&condition, &knowledge.indexes), filter);
                    table.count_through(spi, &scan, &knowledge.oids())
                }
                _ => None,
            };
            through_indexes.unwrap_or_else(|| {
                let scan = RangeScan::count(range, filter.as_ref());
                let rows = spi.run(table.name(), &Statement::of_range(&scan));
                rows.first().and_then(|row| row.int8(1)).unwrap_or_default()
            })
        });
        pgrx::check_for_interrupts!();
    }
    count
}

impl Bulk<'_> {
    /// Changes all entities in key order. Returns how many.
    ///
    /// # Errors
    /// The errors of the limits, for the first entity that the change would take beyond them.
    pub fn run(&self) -> Result<u64, Error> {
        let mut writer = Writer::new(self);
        connect(|spi| {
            let mut entities = Entities::all(spi, self.table, self.plan, Workers::Prevented);
            while entities.next() && writer.add(&entities.row()) {}
        });
        let changed = writer.finish()?;
        self.require_rights(changed)?;
        Ok(changed)
    }

    /// Changes entities in key order from `start` on, at most `top` of them, until `time_limit` is over. Each call changes or
    /// examines at least one.
    pub fn step(&self, start: Option<KeyPair>, top: u64, time_limit: Duration) -> Result<Step, Error> {
        let began = Instant::now();
        let mut step = Step {
            changed: 0,
            next: match top {
                // Nothing is looked at, so it is not known whether all is done.
                0 => Some(start.unwrap_or_default()),
                _ => start,
            },
        };
        loop {
            let ranges = match &step.next {
                None => Cow::Borrowed(self.plan.ranges.as_slice()),
                Some((partition_key, row_key)) => Cow::Owned(self.plan.ranges_from(partition_key, row_key)),
            };
            let request = PageRequest {
                ranges,
                filter: self.plan.residual.as_ref(),
                top: top - step.changed,
                time_limit: time_limit.saturating_sub(began.elapsed()),
            };
            if request.top == 0 {
                break;
            }
            let mut writer = Writer::new(self);
            step.next = connect(|spi| {
                let mut page = Page::open(spi, self.table, &request);
                while page.next() {
                    if !writer.add(&page.row()) {
                        page.fill();
                    }
                }
                page.into_next()
            });
            step.changed += writer.finish()?;
            if step.next.is_none() || began.elapsed() >= time_limit {
                break;
            }
        }
        self.require_rights(step.changed)?;
        Ok(step)
    }

    /// Lets PostgreSQL check the privileges. It has not done so yet if nothing was written.
    fn require_rights(&self, changed: u64) -> Result<(), Error> {
        if changed == 0 {
            Writer::new(self).write_locked(&[])?;
        }
        Ok(())
    }
}

/// Changes the entities that a query finds, those of a partition together.
struct Writer<'b> {
    bulk: &'b Bulk<'b>,
    /// The filter that they must still pass.
    filter: Option<Predicate>,
    partition_key: String,
    /// In order.
    row_keys: Vec<String>,
    /// The versions that were locked and could not be written, because of a moved shard or of a policy.
    unwritten: HashSet<(String, i64)>,
    changed: u64,
    /// The error of the first entity that cannot be changed.
    refused: Option<Error>,
}

impl<'b> Writer<'b> {
    fn new(bulk: &'b Bulk<'b>) -> Writer<'b> {
        Writer {
            bulk,
            filter: bulk.plan.residual.as_ref().map(Predicate::new),
            partition_key: String::new(),
            row_keys: Vec::new(),
            unwritten: HashSet::new(),
            changed: 0,
            refused: None,
        }
    }

    /// Adds an entity that the query found. Returns whether the next one may also be changed.
    fn add(&mut self, row: &Row<'_>) -> bool {
        if row.partition_key() != self.partition_key {
            self.write();
            self.unwritten.clear();
            row.partition_key().clone_into(&mut self.partition_key);
        }
        self.row_keys.push(row.row_key().to_owned());
        if self.row_keys.len() >= LOCKED {
            self.write();
        }
        self.refused.is_none()
    }

    /// Changes those of the entities that still pass the filter.
    fn write(&mut self) {
        let row_keys = std::mem::take(&mut self.row_keys);
        self.write_all(&row_keys);
    }

    fn write_all(&mut self, mut rest: &[String]) {
        while !rest.is_empty() && self.refused.is_none() {
            match self.write_locked(rest) {
                Ok(done) => rest = rest.get(done..).unwrap_or_default(),
                Err(error) => self.refused = Some(error),
            }
            pgrx::check_for_interrupts!();
        }
    }

    /// Returns how many entities were changed.
    fn finish(mut self) -> Result<u64, Error> {
        self.write();
        self.refused.map_or(Ok(self.changed), Err)
    }

    /// Locks entities in key order, as many as one statement takes, and changes them. Returns how many of the RowKeys are done.
    fn write_locked(&mut self, row_keys: &[String]) -> Result<usize, Error> {
        let locked = self.lock(row_keys)?;
        if !locked.versions.is_empty() || row_keys.is_empty() {
            let unwritten = self.change(&locked);
            // If this version could not be written before, a policy keeps it.
            let versions = unwritten
                .into_iter()
                .filter(|version| self.unwritten.insert(version.clone()));
            let again: Vec<String> = versions.map(|(row_key, _)| row_key).collect();
            self.write_all(&again);
        }
        Ok(locked.done)
    }

    /// Locks those of the entities that still pass the filter, and makes their new properties.
    fn lock(&self, row_keys: &[String]) -> Result<Locked, Error> {
        let (table, partition_key) = (self.bulk.table, self.partition_key.as_str());
        let (partition, given) = (
            Text::new(partition_key),
            Array::of_texts(row_keys.iter().map(String::as_str)),
        );
        let (mut locked, mut bytes) = (Locked::default(), 0);
        locked.done = row_keys.len();
        let expiries = Expiries::of(table);
        connect(|spi| {
            let statement = Statement::of_row_keys(Kind::LockMany, partition.value(), &given);
            let mut fetch = spi.fetch(table.name(), &statement);
            while let Some(row) = fetch.next_row() {
                if self.filter.as_ref().is_some_and(|filter| !row.passes(filter))
                    || expiries.have_passed(row.timestamp(), row.properties())
                {
                    continue;
                }
                let row_key = row.row_key();
                if let Some(patch) = self.bulk.patch {
                    let bag = patch.apply(partition_key, row_key, row.properties());
                    let bag = bag.map_err(|error| error.of_entity(partition_key, row_key))?;
                    bytes += bag.as_bytes().len();
                    locked.bags.push(bag);
                }
                locked.versions.push((row_key.to_owned(), row.timestamp()));
                if bytes >= LOCKED_BYTES {
                    locked.done = row_keys.partition_point(|key| &**key <= row_key);
                    break;
                }
            }
            Ok(locked)
        })
    }

    /// Changes entities that are locked. Returns those that were not written: their shard has moved, or a policy keeps
    /// them. If entities stay, it returns none.
    fn change(&mut self, locked: &Locked) -> Vec<(String, i64)> {
        let (table, partition) = (self.bulk.table, Text::new(&self.partition_key));
        let keys = Array::of_texts(locked.versions.iter().map(|(row_key, _)| row_key.as_str()));
        let bags = Array::of_bags(locked.bags.iter().map(PropertiesBuf::as_properties));
        let of_versions = || Array::of_timestamps(locked.versions.iter().map(|&(_, version)| version));
        let versions = (!table.entities_stay()).then(of_versions);
        let replace = |kind| Statement::of_arrays(kind, partition.value(), &keys, now(), &bags);
        let statement = match (self.bulk.patch, &versions) {
            (None, None) => Statement::of_row_keys(Kind::DeleteLocked, partition.value(), &keys),
            (None, versions) => Statement::delete_many(partition.value(), &keys, versions.as_ref()),
            (Some(_), None) => replace(Kind::ReplaceLocked),
            (Some(_), Some(versions)) => replace(Kind::ReplaceVersions).with(versions.value()),
        };
        connect(|spi| {
            let rows = spi.run(table.name(), &statement);
            // A policy or a trigger keeps the others.
            self.changed += rows.processed();
            let written: HashSet<&str> = rows.iter().filter_map(|row| row.text(1)).map(TextArg::get).collect();
            let is_unwritten = |(row_key, _): &&(String, i64)| !written.contains(row_key.as_str());
            let of_versions = versions.iter().flat_map(|_| &locked.versions);
            of_versions.filter(is_unwritten).cloned().collect()
        })
    }
}

/// The entities that one statement has locked.
#[derive(Default)]
struct Locked {
    /// The RowKeys and Timestamps, in order.
    versions: Vec<(String, i64)>,
    /// Their new properties, unless they are deleted.
    bags: Vec<PropertiesBuf>,
    /// How many of the RowKeys were examined.
    done: usize,
}
