//! The work that is done already, kept in a file so that an interrupted copy or delete can go on.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use table_service_model::Ticks;

use crate::created;
use crate::failure::Failure;

use super::record::{Position, Range};

const VERSION: u32 = 1;
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// The largest resume file: so many tables with hundreds of ranges are more than a service has.
const LARGEST: u64 = 64 << 20;

/// The state of the change feed that a copy follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Followed {
    /// It never had one, or was begun by a version that had none.
    #[default]
    Never,
    /// Tables that are copied, by the file, are also followed, as long as the feed is there.
    Whole,
    /// Its feed is lost: the changes since then are not known.
    Lost,
}

#[derive(Debug, Serialize, Deserialize)]
struct State {
    version: u32,
    /// The parameters of a copy or a delete: the file of one cannot go on with another. Names have no secrets.
    job: Value,
    tables: BTreeMap<String, Table>,
    /// The time of the source's clock when the copy began.
    started: Option<String>,
    #[serde(default)]
    followed: Followed,
    /// The OIDs of the tables that are followed, by their names in lower case.
    #[serde(default)]
    relations: BTreeMap<String, u32>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Table {
    done: bool,
    ranges: Vec<Part>,
    /// The length of the target's file at these positions.
    length: Option<u64>,
}

/// A range of a table, and how far it is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    pub range: Range,
    /// `None` at the beginning, [`Position::End`] when it is copied.
    pub position: Option<Position>,
}

/// The work that is done, in a file if there is a path.
pub struct Journal {
    path: Option<PathBuf>,
    state: Mutex<State>,
    saved: Mutex<Instant>,
    /// Whether an earlier run has begun this copy.
    pub is_resumed: bool,
}

/// The checksum behind the state, which is one line of JSON.
fn checksum(json: &[u8]) -> String {
    format!("\n{:08x}\n", crc32fast::hash(json))
}

/// The state in the bytes of a file; `None` if its checksum is another. Version 0.2 has written none.
fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (json, rest) = bytes.split_at_checked(end)?;
    (rest.is_empty() || rest == checksum(json).as_bytes()).then_some(json)
}

impl Journal {
    /// Reads the file if it is there; one of another job is an error. Without a path nothing is kept.
    pub fn open(path: Option<PathBuf>, job: Value) -> Result<Journal, Failure> {
        let mut state = State {
            version: VERSION,
            job,
            tables: BTreeMap::new(),
            started: None,
            followed: Followed::default(),
            relations: BTreeMap::new(),
        };
        let failed =
            |path: &PathBuf, error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
        let earlier = path
            .as_ref()
            .map(|path| created::contents(path, LARGEST).map_err(|error| failed(path, &error)));
        let earlier = path.as_ref().zip(earlier.transpose()?.flatten());
        let is_resumed = earlier.is_some();
        if let Some((path, bytes)) = earlier {
            let failed = |error: &dyn std::fmt::Display| failed(path, error);
            let json = checked(&bytes)
                .ok_or_else(|| failed(&"it is damaged, so it does not say what is done. Remove it to begin again"))?;
            let read: State = serde_json::from_slice(json)
                .map_err(|error| failed(&format!("it is no resume file of this program: {error}")))?;
            if read.version != VERSION {
                return Err(failed(
                    &"another version of this program has written it. Remove it to begin again",
                ));
            }
            if read.job != state.job {
                return Err(failed(
                    &"it belongs to another copy or delete (--from, --to, --on-conflict, --since, --table or --filter \
                      differ). Remove it to begin again",
                ));
            }
            state = read;
        }
        let journal = Journal {
            path,
            state: Mutex::new(state),
            saved: Mutex::new(Instant::now()),
            is_resumed,
        };
        // A file that cannot be written is found now, not after an hour.
        journal.save()?;
        Ok(journal)
    }

    /// The state of the change feed.
    pub fn followed(&self) -> Followed {
        self.state.lock().followed
    }

    /// Notes that the feed is lost, before there is a new one of its name.
    pub fn lose_feed(&self) -> Result<(), Failure> {
        self.state.lock().followed = Followed::Lost;
        self.save()
    }

    /// The tables that were there when the feed began.
    pub fn relations(&self) -> BTreeMap<String, u32> {
        self.state.lock().relations.clone()
    }

    /// There is a new feed of these tables: nothing counts as copied that was copied before it.
    pub fn begin_feed(&self, relations: BTreeMap<String, u32>) -> Result<(), Failure> {
        {
            let mut state = self.state.lock();
            state.tables.clear();
            state.started = None;
            state.followed = Followed::Whole;
            state.relations = relations;
        }
        self.save()
    }

    /// From now on the target's entities of this table come from this relation, or from an unknown one.
    pub fn set_relation(&self, table: &str, relation: Option<u32>) -> Result<(), Failure> {
        {
            let relations = &mut self.state.lock().relations;
            match relation {
                Some(relation) => relations.insert(table.to_owned(), relation),
                None => relations.remove(table),
            };
        }
        self.save()
    }

    /// Returns whether a table is copied.
    pub fn is_done(&self, table: &str) -> bool {
        self.state.lock().tables.get(table).is_some_and(|table| table.done)
    }

    /// The ranges of a table, if an earlier run has found them.
    pub fn parts(&self, table: &str) -> Option<Vec<Part>> {
        let state = self.state.lock();
        let table = state.tables.get(table)?;
        (!table.ranges.is_empty()).then(|| table.ranges.clone())
    }

    /// Notes the ranges of a table. None of them is begun.
    pub fn begin(&self, table: &str, ranges: &[Range]) -> Vec<Part> {
        let parts: Vec<Part> = ranges
            .iter()
            .map(|range| Part {
                range: range.clone(),
                position: None,
            })
            .collect();
        self.state.lock().tables.insert(
            table.to_owned(),
            Table {
                ranges: parts.clone(),
                ..Table::default()
            },
        );
        parts
    }

    /// The length of the file of a table at the last checkpoint.
    pub fn length(&self, table: &str) -> Option<u64> {
        self.state.lock().tables.get(table)?.length
    }

    fn note(&self, table: &str, note: impl FnOnce(&mut Table)) {
        if let Some(table) = self.state.lock().tables.get_mut(table) {
            note(table);
        }
    }

    /// Notes how long the file of a table is.
    pub fn set_length(&self, table: &str, length: u64) {
        self.note(table, |table| table.length = Some(length));
    }

    /// Notes how far a range is done.
    pub fn set_position(&self, table: &str, range: usize, position: Position) {
        self.note(table, |table| {
            if let Some(part) = table.ranges.get_mut(range) {
                part.position = Some(position);
            }
        });
    }

    /// Notes that a table is copied.
    pub fn set_done(&self, table: &str) {
        self.note(table, |table| table.done = true);
    }

    /// The time of the source's clock when the copy, or a later round, began.
    pub fn started(&self) -> Option<Ticks> {
        self.state.lock().started.as_deref().and_then(Ticks::parse)
    }

    /// Notes the time of the source's clock.
    pub fn set_started(&self, at: Ticks) {
        self.state.lock().started = Some(at.to_string());
    }

    /// Returns whether it is time to save again.
    pub fn is_due(&self) -> bool {
        self.path.is_some() && self.saved.lock().elapsed() >= SAVE_EVERY
    }

    /// Returns whether there is a file.
    pub fn is_kept(&self) -> bool {
        self.path.is_some()
    }

    /// Writes the file anew and replaces the old one, so that there is always a whole one.
    pub fn save(&self) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        // One at a time: they share the temporary file.
        let mut saved = self.saved.lock();
        let failed = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
        let mut bytes = serde_json::to_vec(&*self.state.lock()).map_err(|error| failed(&error))?;
        let checksum = checksum(&bytes);
        bytes.extend_from_slice(checksum.as_bytes());
        created::replaced(path, &bytes, created::PRIVATE).map_err(|error| failed(&error))?;
        *saved = Instant::now();
        Ok(())
    }

    /// Removes the file: the copy is complete.
    pub fn remove(&self) {
        if let Some(path) = &self.path {
            // If it stays, another run with it finds that nothing is left to do.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::records::OnConflict;

    fn job(to: &str) -> Value {
        json!({ "from": "a", "to": to, "on_conflict": OnConflict::Fail, "since": null })
    }

    #[test]
    fn a_copy_goes_on_where_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("resume");
        let journal = Journal::open(Some(path.clone()), job("b")).unwrap();
        assert!(!journal.is_resumed);
        journal.begin("T", &[Range::Filter(None), Range::Stream]);
        journal.set_position("T", 1, Position::Records(7));
        journal.set_length("T", 70);
        journal.save().unwrap();
        let again = Journal::open(Some(path.clone()), job("b")).unwrap();
        assert!(again.is_resumed && !again.is_done("T"));
        let parts = again.parts("T").unwrap();
        assert_eq!(parts[0].position, None);
        assert_eq!(parts[1].position, Some(Position::Records(7)));
        assert_eq!(again.length("T"), Some(70));
        assert!(Journal::open(Some(path.clone()), job("c")).is_err());
        let delete = |filter: &str| json!({ "delete_from": "a", "table": "T", "filter": filter });
        assert!(Journal::open(Some(path.clone()), delete("true")).is_err());
        std::fs::remove_file(&path).unwrap();
        Journal::open(Some(path.clone()), delete("true")).unwrap();
        assert!(Journal::open(Some(path.clone()), delete("true")).is_ok());
        assert!(Journal::open(Some(path.clone()), delete("false")).is_err());
        assert!(Journal::open(Some(path), job("b")).is_err());
    }

    #[test]
    fn what_no_copy_of_this_version_has_left_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("resume");
        Journal::open(Some(path.clone()), job("b")).unwrap();
        let saved = std::fs::read_to_string(&path).unwrap();
        let later = saved.lines().next().unwrap().replace("\"version\":1", "\"version\":2");
        std::fs::write(&path, later).unwrap();
        let refused = |path| Journal::open(Some(path), job("b")).err().unwrap().to_string();
        assert!(refused(path).contains("another version"));
        let pipe = directory.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        assert!(refused(pipe).contains("it is no file"));
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("resume");
        let journal = Journal::open(Some(path.clone()), job("b")).unwrap();
        journal.begin("T", &[Range::Stream]);
        journal.set_position("T", 0, Position::Records(7));
        journal.save().unwrap();
        let saved = std::fs::read(&path).unwrap();
        for bit in 0..saved.len() * 8 {
            let mut damaged = saved.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &damaged).unwrap();
            assert!(Journal::open(Some(path.clone()), job("b")).is_err(), "bit {bit}");
        }
        for length in 0..saved.len() {
            std::fs::write(&path, &saved[..length]).unwrap();
            if let Ok(journal) = Journal::open(Some(path.clone()), job("b")) {
                // Only its checksum is cut off.
                assert_eq!(journal.parts("T").unwrap()[0].position, Some(Position::Records(7)));
            }
        }
    }

    #[test]
    fn a_file_knows_what_became_of_its_feed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("resume");
        let open = || Journal::open(Some(path.clone()), job("b")).unwrap();
        let journal = open();
        journal.begin("T", &[Range::Stream]);
        journal.set_done("T");
        journal.save().unwrap();
        // As version 0.2 has written it.
        let saved = std::fs::read(&path).unwrap();
        let mut state: serde_json::Value = serde_json::from_slice(checked(&saved).unwrap()).unwrap();
        assert!(state.as_object_mut().unwrap().remove("followed").is_some());
        std::fs::write(&path, state.to_string()).unwrap();
        let journal = open();
        assert!(journal.is_done("T"));
        assert_eq!(journal.followed(), Followed::Never);
        let relations = BTreeMap::from([("t".to_owned(), 16384)]);
        journal.begin_feed(relations.clone()).unwrap();
        let journal = open();
        assert!(!journal.is_done("T"));
        assert_eq!(journal.relations(), relations);
        assert_eq!(journal.followed(), Followed::Whole);
        journal.lose_feed().unwrap();
        assert_eq!(open().followed(), Followed::Lost);
    }
}
