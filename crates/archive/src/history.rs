//! The versions of entities, in the order of commits.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use table_service_model::Properties;
use table_service_model::json::properties_to_json;

use table_service_files::Record;

use crate::fold::{Stamp, Visitor};
use crate::law::Unknown;
use crate::manifest::{Moment, Position};

use crate::sort::{Sorted, Sorter};

/// A version of an entity.
#[derive(Debug, Serialize, Deserialize)]
pub struct Version {
    pub position: String,
    pub committed: String,
    pub table_name: String,
    pub kind: String,
    /// `None` for what is no version of an entity: a `gap`.
    pub partition_key: Option<String>,
    pub row_key: Option<String>,
    pub timestamp: Option<String>,
    /// After the change; `None` if there is no entity any more. Of a `gap`, why and until when.
    pub properties: Option<Box<RawValue>>,
    /// Those properties that the change has changed, as they were.
    pub before: Box<RawValue>,
    /// The same, as they are after it.
    pub after: Box<RawValue>,
}

/// Collects the versions that a filter selects, before a change or after it.
pub struct History<'h> {
    pub table: &'h str,
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
        // A bag has one representation, so that of one property says whether it is the same.
        .filter(|(name, _)| {
            let name = [*name];
            other.is_none_or(|other| other.project(&name).as_bytes() != bag.project(&name).as_bytes())
        })
        .map(|(name, _)| name)
        .collect();
    raw(properties_to_json(bag.project(&names).as_properties()))
}

impl<'h> History<'h> {
    pub fn new(
        table: &'h str,
        selects: &'h dyn Fn(&Record) -> bool,
        since: Option<Moment>,
        until: Option<Moment>,
    ) -> History<'h> {
        History {
            table,
            selects,
            since,
            until,
            sorter: Sorter::new(),
        }
    }

    /// Notes that versions are missing.
    pub fn gap(&mut self, unknown: &Unknown) -> Result<(), String> {
        let about = serde_json::json!({ "Reason": unknown.reason, "Until": unknown.until });
        let version = Version {
            position: unknown.position.to_string(),
            committed: unknown.from.to_string(),
            table_name: self.table.to_owned(),
            kind: "gap".to_owned(),
            partition_key: None,
            row_key: None,
            timestamp: None,
            properties: Some(raw(about.to_string().into_bytes())?),
            before: raw(b"{}".to_vec())?,
            after: raw(b"{}".to_vec())?,
        };
        self.push(unknown.position, 0, "", &version)
    }

    fn push(&mut self, position: Position, number: u64, key: &str, version: &Version) -> Result<(), String> {
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

impl Visitor for History<'_> {
    fn version(&mut self, stamp: &Stamp, before: Option<&Record>, after: Option<&Record>) -> Result<bool, String> {
        let selects = |record: Option<&Record>| record.is_some_and(|record| (self.selects)(record));
        let is_between = self.since.is_none_or(|since| stamp.committed >= since)
            && self.until.is_none_or(|until| stamp.committed <= until);
        let Some(of) = after.or(before) else { return Ok(true) };
        if !is_between || !selects(before) && !selects(after) {
            return Ok(true);
        }
        let bag = |record: Option<&'_ Record>| record.map(|record| record.properties.clone());
        let (old, new) = (bag(before), bag(after));
        let (old, new) = (
            old.as_ref().map(|bag| bag.as_properties()),
            new.as_ref().map(|bag| bag.as_properties()),
        );
        let version = Version {
            position: stamp.position.to_string(),
            committed: stamp.committed.to_string(),
            table_name: self.table.to_owned(),
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
        self.push(stamp.position, stamp.number, &key, &version)?;
        Ok(true)
    }

    fn entity(&mut self, _: Record) -> Result<bool, String> {
        Ok(true)
    }
}
