//! The versions of entities, in the order of commits.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use table_service_model::Properties;
use table_service_model::json::properties_to_json;

use table_service_files::Record;

use crate::fold::Stamp;
use crate::law::Unknown;
use crate::manifest::{Ended, Moment, Table, Until, WhyEnded};
use table_service_model::Lsn;

use crate::sort::{Sorted, Sorter};

/// A version of an entity.
#[derive(Debug, Serialize, Deserialize)]
pub struct Version {
    pub position: String,
    pub committed: String,
    pub table_name: String,
    pub kind: String,
    /// `None` if it is no version of an entity, but a `gap` or an event of the table.
    pub partition_key: Option<String>,
    pub row_key: Option<String>,
    pub timestamp: Option<String>,
    /// After the change; `None` if there is no entity any more. Or the details of a `gap` or a `rename`.
    pub properties: Option<Box<RawValue>>,
    /// Those properties that the change has changed, as they were.
    pub before: Box<RawValue>,
    /// The same, as they are after it.
    pub after: Box<RawValue>,
}

/// A time in which a table has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    pub name: String,
    pub from: Until,
    /// Its next name, or its end.
    pub until: Option<Until>,
}

/// A change of a table's name or existence.
#[derive(Debug, PartialEq, Eq)]
pub struct Event<'t> {
    pub kind: &'static str,
    pub at: Until,
    pub name: &'t str,
    /// Its name until then.
    pub before: Option<&'t str>,
}

impl Table {
    /// The times in which it has its names.
    pub fn times(&self) -> Vec<Called> {
        // The last change of a range still belongs to the table.
        let behind = |Lsn(position)| Lsn(position.saturating_add(1));
        let ended = self
            .ended
            .map(|Ended { at, .. }| Until::new(at.epoch, behind(at.position), at.moment));
        let ends = self.names.iter().skip(1).map(|next| Some(next.from)).chain([ended]);
        let times = self.names.iter().zip(ends).map(|(known, until)| Called {
            name: known.name.clone(),
            from: known.from,
            until,
        });
        times.collect()
    }

    /// The times in which it has a name.
    pub fn called(&self, name: &str) -> Vec<Called> {
        let mut times = self.times();
        times.retain(|time| time.name.eq_ignore_ascii_case(name));
        times
    }

    /// The events that gave the table its name, and took it.
    pub fn events(&self, name: &str) -> Vec<Event<'_>> {
        let event = |kind, at, name, before| Event { kind, at, name, before };
        let first = self.names.first().filter(|_| self.created);
        let mut events: Vec<Event<'_>> = first
            .map(|first| event("create", first.from, &first.name, None))
            .into_iter()
            .collect();
        let renamed = self.names.iter().zip(self.names.iter().skip(1));
        events.extend(
            renamed.map(|(before, after)| event("rename", after.from, &after.name, Some(before.name.as_str()))),
        );
        events.extend(self.ended.and_then(|ended| match ended.why {
            WhyEnded::Dropped if ended.at.begins_epoch() => None,
            WhyEnded::Dropped => Some(event("drop", ended.at, self.name(), None)),
            WhyEnded::Renamed => Some(event("rename", ended.at, self.name(), Some(self.name()))),
            WhyEnded::Deselected => None,
        }));
        let is_of = |known: &str| known.eq_ignore_ascii_case(name);
        events.retain(|event| is_of(event.name) || event.before.is_some_and(is_of));
        events
    }
}

impl Called {
    /// Returns whether it has the name at a position.
    fn is_at(&self, epoch: u32, position: Lsn) -> bool {
        let place = (epoch, position);
        self.from.place() <= place && self.until.is_none_or(|until| place < until.place())
    }

    /// Returns whether it has the name at any moment of a time.
    pub fn is_between(&self, unknown: &Unknown) -> bool {
        unknown.is_between(Some(self.from.moment), self.until.map(|until| until.moment))
    }
}

/// Collects the versions that a filter selects, before a change or after it.
pub struct History<'h> {
    epoch: u32,
    /// When the table that is visited has the name that is asked for.
    pub called: Vec<Called>,
    selects: &'h dyn Fn(&Record) -> bool,
    pub since: Option<Moment>,
    pub until: Option<Moment>,
    sorter: Sorter,
}

fn raw(json: Vec<u8>) -> Result<Box<RawValue>, String> {
    let text = String::from_utf8(json).map_err(|error| error.to_string())?;
    RawValue::from_string(text).map_err(|error| error.to_string())
}

/// The properties of one bag that another one has not, or has otherwise.
fn different(bag: Option<Properties<'_>>, other: Option<Properties<'_>>) -> Result<Box<RawValue>, String> {
    let Some(bag) = bag else { return raw(b"{}".to_vec()) };
    let names: Vec<&str> = bag
        .iter()
        // A bag has one representation, so a property is the same if the bag of this property alone is.
        .filter(|(name, _)| {
            let name = [*name];
            other.is_none_or(|other| other.project(&name).as_bytes() != bag.project(&name).as_bytes())
        })
        .map(|(name, _)| name)
        .collect();
    raw(properties_to_json(bag.project(&names).as_properties()))
}

impl<'h> History<'h> {
    /// An empty history of an epoch.
    pub fn new(
        epoch: u32,
        selects: &'h dyn Fn(&Record) -> bool,
        since: Option<Moment>,
        until: Option<Moment>,
    ) -> History<'h> {
        History {
            epoch,
            called: Vec::new(),
            selects,
            since,
            until,
            sorter: Sorter::new(),
        }
    }

    /// Notes that versions are missing.
    pub fn gap(&mut self, table: &str, unknown: &Unknown) -> Result<(), String> {
        let about = serde_json::json!({ "Reason": unknown.reason, "Until": unknown.until });
        self.note("gap", table, (unknown.position, 0, unknown.from), Some(about))
    }

    /// Notes an event of a table: its creation before the changes of its transaction, all else behind them.
    pub fn event(&mut self, event: &Event<'_>) -> Result<(), String> {
        let number = if event.kind == "create" { 0 } else { u64::MAX };
        let about = event.before.map(|before| serde_json::json!({ "Before": before }));
        let at = (event.at.position, number, event.at.moment);
        self.note(event.kind, event.name, at, about)
    }

    fn note(
        &mut self,
        kind: &str,
        table: &str,
        (position, number, committed): (Lsn, u64, Moment),
        about: Option<Value>,
    ) -> Result<(), String> {
        let is_before = self.since.is_some_and(|since| committed < since) && kind != "gap";
        if is_before || self.until.is_some_and(|until| committed > until) {
            return Ok(());
        }
        let version = Version {
            position: position.to_string(),
            committed: committed.to_string(),
            table_name: table.to_owned(),
            kind: kind.to_owned(),
            partition_key: None,
            row_key: None,
            timestamp: None,
            properties: about.map(|about| raw(about.to_string().into_bytes())).transpose()?,
            before: raw(b"{}".to_vec())?,
            after: raw(b"{}".to_vec())?,
        };
        self.push(position, number, "", &version)
    }

    fn push(&mut self, position: Lsn, number: u64, key: &str, version: &Version) -> Result<(), String> {
        let line = serde_json::to_vec(version).map_err(|error| error.to_string())?;
        let place = [position.0.to_be_bytes(), number.to_be_bytes()].concat();
        let key = [&place, key.as_bytes()].concat();
        self.sorter.push(&key, &line).map_err(|error| error.to_string())
    }

    /// The versions as lines of JSON, in the order of commits.
    pub fn finish(self) -> Result<Sorted, String> {
        self.sorter.finish().map_err(|error| error.to_string())
    }
}

impl History<'_> {
    /// Takes a version.
    pub fn version(&mut self, stamp: &Stamp, before: Option<&Record>, after: Option<&Record>) -> Result<(), String> {
        let selects = |record: Option<&Record>| record.is_some_and(|record| (self.selects)(record));
        let is_between = self.since.is_none_or(|since| stamp.committed >= since)
            && self.until.is_none_or(|until| stamp.committed <= until);
        let Some(of) = after.or(before) else { return Ok(()) };
        let called = self
            .called
            .iter()
            .find(|called| called.is_at(self.epoch, stamp.position));
        let Some(called) = called.filter(|_| is_between && (selects(before) || selects(after))) else {
            return Ok(());
        };
        fn bag(record: Option<&Record>) -> Option<Properties<'_>> {
            record.map(|record| record.properties.as_properties())
        }
        let (old, new) = (bag(before), bag(after));
        let version = Version {
            position: stamp.position.to_string(),
            committed: stamp.committed.to_string(),
            table_name: called.name.clone(),
            kind: stamp.change.name().to_owned(),
            partition_key: Some(of.partition_key.clone()),
            row_key: Some(of.row_key.clone()),
            timestamp: after
                .and_then(|record| record.timestamp)
                .map(|timestamp| timestamp.to_string()),
            properties: new.map(|bag| raw(properties_to_json(bag))).transpose()?,
            before: different(old, new)?,
            after: different(new, old)?,
        };
        // Entities that one clear has deleted have one number.
        let key = format!("{}\0{}", of.partition_key, of.row_key);
        self.push(stamp.position, stamp.number, &key, &version)
    }
}
