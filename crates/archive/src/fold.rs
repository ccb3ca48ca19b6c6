//! A table as it was: a base and the changes since then, merged by key.

use table_service_model::{PropertiesBuf, Ticks};

use table_service_files::{Key, Record};

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

/// Takes a version of an entity: as it was before a change, and after it.
pub type TakeVersion<'v> = dyn FnMut(&Stamp, Option<&Record>, Option<&Record>) -> Result<(), String> + 'v;

/// Takes an entity as it is in the end, and returns whether it wants more. They come in the order of keys.
pub type TakeEntity<'v> = dyn FnMut(Record) -> Result<bool, String> + 'v;

/// How a merge ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Nobody wanted more.
    pub stopped: bool,
    /// Changes that cannot be applied, because the entity before them is missing.
    pub unknown: u64,
}

/// A change of one entity, as its line says.
struct KeyedChange {
    stamp: Stamp,
    key: Key,
    timestamp: Option<Ticks>,
    /// `None` if the line does not have it.
    properties: Option<PropertiesBuf>,
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
        let properties = match kind {
            Change::Delete => None,
            _ => change.bag()?,
        };
        let timestamp = change.ticks();
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
            key: Key { partition_key, row_key },
            timestamp,
            properties,
        })
    }

    /// The entity after the change. The inner `None` says that there is none; the outer one, that nobody knows.
    fn apply(self, before: Option<&Record>) -> Option<Option<Record>> {
        let Key { partition_key, row_key } = self.key;
        if self.stamp.change == Change::Delete {
            return Some(None);
        }
        // An update that leaves large properties as they were does not have them.
        let unchanged = before.filter(|_| self.stamp.change == Change::Update);
        let properties = self.properties.or_else(|| Some(unchanged?.properties.clone()))?;
        Some(Some(Record {
            partition_key,
            row_key,
            timestamp: self.timestamp,
            properties,
        }))
    }
}

/// Merges the entities of a base, in the order of keys, with the changes since then: their numbers and lines, in the
/// order of keys, and of commits for each key. `clears` says when the table was emptied, in the order of commits.
///
/// # Errors
/// Errors of the files and of the closures; a change of an entity in an unknown state, unless gaps are allowed.
pub fn merge(
    base: &mut dyn FnMut() -> Result<Option<Record>, String>,
    changes: &mut dyn FnMut() -> Result<Option<(u64, Vec<u8>)>, String>,
    clears: &[Stamp],
    allow_gaps: bool,
    version: &mut TakeVersion<'_>,
    entity: &mut TakeEntity<'_>,
) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    let mut stored = base()?;
    let mut next = changes()?.map(KeyedChange::read).transpose()?;
    loop {
        let (at, mut state) = match (stored.take(), &next) {
            (None, None) => return Ok(outcome),
            (Some(record), Some(change)) if record.keys() > (&change.key.partition_key, &change.key.row_key) => {
                stored = Some(record);
                (change.key.clone(), None)
            }
            (None, Some(change)) => (change.key.clone(), None),
            (Some(record), _) => {
                stored = base()?;
                if stored.as_ref().is_some_and(|stored| stored.keys() <= record.keys()) {
                    return Err("the entities of a base are not in the order of keys".to_owned());
                }
                (record.key(), Some(record))
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
                version(clear, before.as_ref(), None)?;
            }
            let Some(change) = change else { break };
            last = number;
            let stamp = change.stamp;
            match change.apply(state.as_ref()) {
                Some(after) => {
                    let before = std::mem::replace(&mut state, after);
                    version(&stamp, before.as_ref(), state.as_ref())?;
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
            && !entity(record)?
        {
            outcome.stopped = true;
            return Ok(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen {
        entities: Vec<String>,
        versions: Vec<String>,
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
        let mut seen = Seen::default();
        let json = |record: Option<&Record>| record.map_or("-".to_owned(), Record::json);
        let outcome = merge(
            &mut || Ok(base.next()),
            &mut || Ok(changes.next()),
            &clears,
            allow_gaps,
            &mut |stamp, before, after| {
                let (number, name) = (stamp.number, stamp.change.name());
                let version = format!("{number} {name}: {} > {}", json(before), json(after));
                seen.versions.push(version);
                Ok(())
            },
            &mut |record| {
                seen.entities.push(record.json());
                Ok(true)
            },
        )?;
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
