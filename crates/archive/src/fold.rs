//! A table as it was: a base and the changes since then, merged by key.

use table_service_model::PropertiesBuf;

use table_service_files::Record;

use crate::manifest::Moment;
use crate::read::ChangeLine;
use table_service_model::Lsn;

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Insert,
    Update,
    Delete,
    /// The table was emptied.
    Clear,
}

impl Change {
    /// The name in a history.
    pub fn name(self) -> &'static str {
        match self {
            Change::Insert => "insert",
            Change::Update => "update",
            Change::Delete => "delete",
            Change::Clear => "clear",
        }
    }
}

/// The time of a change, and its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Its number in the order of commits.
    pub number: u64,
    pub position: Lsn,
    pub committed: Moment,
    pub change: Change,
}

/// Takes the versions and the entities of a merge. Each function returns whether it wants more.
pub trait Visitor {
    /// A version of an entity: as it was before a change, and after it.
    fn version(&mut self, stamp: &Stamp, before: Option<&Record>, after: Option<&Record>) -> Result<bool, String> {
        let _ = (stamp, before, after);
        Ok(true)
    }

    /// An entity as it is in the end. They come in the order of keys.
    fn entity(&mut self, record: Record) -> Result<bool, String>;
}

/// How a merge ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Nobody wanted more.
    pub stopped: bool,
    /// Changes that cannot be applied, because the entity before them is missing.
    pub unknown: u64,
}

/// A table in a base, and its changes since then.
pub struct Merge<'m> {
    /// The entities of the base, in the order of keys.
    pub base: &'m mut dyn FnMut() -> Result<Option<Record>, String>,
    /// The changes in the order of keys, and of commits for each key: their numbers and lines.
    pub changes: &'m mut dyn FnMut() -> Result<Option<(u64, Vec<u8>)>, String>,
    /// When the table was emptied, in the order of commits.
    pub clears: &'m [Stamp],
    /// Whether changes may be missing.
    pub allow_gaps: bool,
}

type Parts = (String, String);

fn key(record: &Record) -> (&str, &str) {
    (&record.partition_key, &record.row_key)
}

/// A change of one entity, as its line says.
struct KeyedChange {
    stamp: Stamp,
    key: Parts,
    line: Vec<u8>,
}

impl KeyedChange {
    fn read((number, line): (u64, Vec<u8>)) -> Result<KeyedChange, String> {
        let change = ChangeLine::read(&line)?;
        let (position, committed) = change.position_and_moment()?;
        let kind = match change.kind.as_ref() {
            "insert" => Change::Insert,
            "update" => Change::Update,
            "delete" => Change::Delete,
            other => return Err(format!("a change has the kind {other:?}, which no entity has")),
        };
        let (Some(partition_key), Some(row_key)) = (change.partition_key, change.row_key) else {
            return Err("a change has no keys".to_owned());
        };
        Ok(KeyedChange {
            stamp: Stamp {
                number,
                position,
                committed,
                change: kind,
            },
            key: (partition_key, row_key),
            line,
        })
    }

    /// The entity after the change. The inner `None` says that there is none; the outer one, that nobody knows.
    fn apply(&self, before: Option<&Record>) -> Result<Option<Option<Record>>, String> {
        if self.stamp.change == Change::Delete {
            return Ok(Some(None));
        }
        let change = ChangeLine::read(&self.line)?;
        let timestamp = change.ticks();
        // An update that leaves large properties as they were does not have them.
        let unchanged = || before.filter(|_| self.stamp.change == Change::Update);
        let bag: Option<PropertiesBuf> = change
            .bag()?
            .or_else(|| unchanged().map(|before| before.properties.clone()));
        Ok(bag.map(|properties| {
            Some(Record {
                partition_key: self.key.0.clone(),
                row_key: self.key.1.clone(),
                timestamp,
                properties,
            })
        }))
    }
}

impl Merge<'_> {
    /// Merges to the end.
    ///
    /// # Errors
    /// Errors of the files and of the visitor; a change of an entity in an unknown state, unless gaps are allowed.
    pub fn run(self, visitor: &mut dyn Visitor) -> Result<Outcome, String> {
        let Merge {
            base,
            changes,
            clears,
            allow_gaps,
        } = self;
        let mut outcome = Outcome::default();
        let mut stored = base()?;
        let mut next = changes()?.map(KeyedChange::read).transpose()?;
        loop {
            let (at, mut state) = match (stored.take(), &next) {
                (None, None) => return Ok(outcome),
                (Some(record), Some(change)) if key(&record) > (change.key.0.as_str(), change.key.1.as_str()) => {
                    stored = Some(record);
                    (change.key.clone(), None)
                }
                (None, Some(change)) => (change.key.clone(), None),
                (Some(record), _) => {
                    stored = base()?;
                    if stored.as_ref().is_some_and(|stored| key(stored) <= key(&record)) {
                        return Err("the entities of a base are not in the order of keys".to_owned());
                    }
                    ((record.partition_key.clone(), record.row_key.clone()), Some(record))
                }
            };
            let mut last = 0;
            loop {
                let change = next.take_if(|change| change.key == at);
                let number = change.as_ref().map_or(u64::MAX, |change| change.stamp.number);
                // The first time that the table was emptied since then.
                if state.is_some()
                    && let Some(clear) = clears.get(clears.partition_point(|clear| clear.number <= last))
                    && clear.number < number
                {
                    let before = state.take();
                    if !visitor.version(clear, before.as_ref(), None)? {
                        outcome.stopped = true;
                        return Ok(outcome);
                    }
                }
                let Some(change) = change else { break };
                last = number;
                match change.apply(state.as_ref())? {
                    Some(after) => {
                        let before = std::mem::replace(&mut state, after);
                        if !visitor.version(&change.stamp, before.as_ref(), state.as_ref())? {
                            outcome.stopped = true;
                            return Ok(outcome);
                        }
                    }
                    None if allow_gaps => {
                        outcome.unknown += 1;
                        state = None;
                    }
                    None => {
                        return Err("a change has no properties, and nothing says which they were before".to_owned());
                    }
                }
                next = changes()?.map(KeyedChange::read).transpose()?;
            }
            if let Some(record) = state
                && !visitor.entity(record)?
            {
                outcome.stopped = true;
                return Ok(outcome);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Seen {
        entities: Vec<String>,
        versions: Vec<String>,
    }

    impl Visitor for Seen {
        fn version(&mut self, stamp: &Stamp, before: Option<&Record>, after: Option<&Record>) -> Result<bool, String> {
            let json = |record: Option<&Record>| record.map_or("-".to_owned(), Record::json);
            self.versions.push(format!(
                "{} {}: {} > {}",
                stamp.number,
                stamp.change.name(),
                json(before),
                json(after)
            ));
            Ok(true)
        }

        fn entity(&mut self, record: Record) -> Result<bool, String> {
            self.entities.push(record.json());
            Ok(true)
        }
    }

    fn record(key: &str, a: &str) -> Record {
        Record::from_json(&format!(r#"{{"PartitionKey":"p","RowKey":"{key}","A":"{a}"}}"#)).unwrap()
    }

    fn line(kind: &str, key: &str, a: Option<&str>) -> Vec<u8> {
        let properties = a.map_or("null".to_owned(), |a| format!(r#"{{"A":"{a}"}}"#));
        format!(
            r#"{{"position":"0/1","committed":"2026-01-01T00:00:00Z","table_name":"T","kind":"{kind}","partition_key":"p","row_key":"{key}","timestamp":null,"properties":{properties}}}"#
        )
        .into_bytes()
    }

    fn merged(
        base: &[Record],
        changes: &[(u64, Vec<u8>)],
        clears: &[u64],
        allow_gaps: bool,
    ) -> Result<(Seen, Outcome), String> {
        let (mut base, mut changes) = (base.iter().cloned(), changes.iter().cloned());
        let clears: Vec<Stamp> = clears
            .iter()
            .map(|&number| Stamp {
                number,
                position: Lsn(0),
                committed: Moment(0),
                change: Change::Clear,
            })
            .collect();
        let mut seen = Seen {
            entities: Vec::new(),
            versions: Vec::new(),
        };
        let merge = Merge {
            base: &mut || Ok(base.next()),
            changes: &mut || Ok(changes.next()),
            clears: &clears,
            allow_gaps,
        };
        let outcome = merge.run(&mut seen)?;
        Ok((seen, outcome))
    }

    #[test]
    fn the_last_change_of_each_key_counts() {
        let base = [record("a", "1"), record("b", "1"), record("d", "1")];
        let changes = [
            (5, line("update", "a", Some("2"))),
            (7, line("update", "a", None)),
            (1, line("delete", "b", None)),
            (2, line("insert", "c", Some("1"))),
            (3, line("delete", "c", None)),
            (4, line("insert", "c", Some("2"))),
            (6, line("delete", "e", None)),
        ];
        let (seen, outcome) = merged(&base, &changes, &[], false).unwrap();
        assert_eq!(outcome, Outcome::default());
        let expected = [record("a", "2"), record("c", "2"), record("d", "1")].map(|record| record.json());
        assert_eq!(seen.entities, expected);
        assert_eq!(seen.versions.len(), 7);
        assert!(seen.versions[1].ends_with(r#""A":"2"} > {"PartitionKey":"p","RowKey":"a","A":"2"}"#));
    }

    #[test]
    fn an_emptied_table_has_what_came_later() {
        let base = [record("a", "1"), record("b", "1")];
        let changes = [
            (1, line("update", "a", Some("2"))),
            (9, line("insert", "a", Some("3"))),
            (2, line("insert", "c", Some("1"))),
        ];
        let (seen, _) = merged(&base, &changes, &[5, 6], false).unwrap();
        assert_eq!(seen.entities, [record("a", "3").json()]);
        let clears = seen.versions.iter().filter(|version| version.starts_with("5 clear"));
        assert_eq!(clears.count(), 3);
        assert!(!seen.versions.iter().any(|version| version.starts_with("6 clear")));
    }

    #[test]
    fn what_nobody_knows_is_not_made_up() {
        for changes in [[(1, line("update", "a", None))], [(1, line("insert", "a", None))]] {
            assert!(merged(&[], &changes, &[], false).is_err());
            let (seen, outcome) = merged(&[], &changes, &[], true).unwrap();
            assert!(seen.entities.is_empty() && outcome.unknown == 1);
        }
        for wrong in [
            &b"{}"[..],
            &line("gap", "a", None),
            &line("insert", "a", Some("1\u{1}")),
        ] {
            assert!(merged(&[], &[(1, wrong.to_vec())], &[], true).is_err());
        }
        assert!(merged(&[record("b", "1"), record("a", "1")], &[], &[], true).is_err());
    }
}
