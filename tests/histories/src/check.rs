//! Whether the model explains a history.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History as Actions};
use todc_utils::specifications::Specification;

use crate::history::{History, Operation, Outcome, Record, Seen};
use crate::model::{
    Condition, Key, Kind, Partition, Properties, Refusal, Timestamp, VERSION, Write, WriteId, apply_all, entity,
};

/// Checks the history of one partition, which was empty at the beginning.
///
/// # Errors
/// What is wrong, in words, with the operations that show it.
pub fn check(history: &History) -> Result<(), String> {
    let versions = versions(history)?;
    if explains(history, &versions, usize::MAX, Rules::ALL) {
        return Ok(());
    }
    Err(explanation(history, &versions))
}

/// The Timestamp of every version that somebody saw or made with success, by its entity and the write that made it.
type Versions = HashMap<(Key, WriteId), Timestamp>;

/// Finds the Timestamp of each version.
///
/// # Errors
/// If an ETag names two versions, or a write made two.
fn versions(history: &History) -> Result<Versions, String> {
    let mut versions = Versions::new();
    let mut named: HashMap<(Key, Timestamp), (WriteId, usize)> = HashMap::new();
    for (number, record) in history.records.iter().enumerate() {
        for (key, id, timestamp) in sightings(record) {
            let (other, first) = *named.entry((key, timestamp)).or_insert((id, number));
            if other != id {
                return Err(format!(
                    "an ETag names two versions: {timestamp:?} of k{key} is version {other} in\n  {:?}\nand version {id} in\n  {record:?}",
                    history.records[first]
                ));
            }
            let known = *versions.entry((key, id)).or_insert(timestamp);
            if known != timestamp {
                return Err(format!(
                    "a write was done twice: version {id} of k{key} has the Timestamps {known:?} and {timestamp:?}, the latter in\n  {record:?}"
                ));
            }
        }
    }
    Ok(versions)
}

/// The versions in an answer.
fn sightings(record: &Record) -> Vec<(Key, WriteId, Timestamp)> {
    match (&record.operation, &record.outcome) {
        (Operation::Write(writes), Outcome::Written(timestamps)) => writes
            .iter()
            .zip(timestamps)
            .filter_map(|(write, timestamp)| Some((write.key, write.id, (*timestamp)?)))
            .collect(),
        (_, Outcome::Found(found)) => found
            .iter()
            .map(|(key, seen)| {
                (
                    *key,
                    seen.properties.get(VERSION).copied().unwrap_or_default(),
                    seen.timestamp,
                )
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Which rules a history has to keep. Without some of them, a check shows which one is broken.
#[derive(Debug, Clone, Copy)]
struct Rules {
    /// The Timestamps of an entity rise.
    timestamps: bool,
    /// A refused batch names the first write that fails, not just any.
    first_refusal: bool,
    /// Only this entity of what a query found.
    only: Option<Key>,
}

impl Rules {
    const ALL: Rules = Rules {
        timestamps: true,
        first_refusal: true,
        only: None,
    };
}

/// A recorded operation, as the checker takes it.
#[derive(Debug, Clone)]
enum Step {
    Written(Vec<Write>, Vec<Option<Timestamp>>),
    /// It may have been done.
    Perhaps(Vec<Write>, Vec<Option<Timestamp>>),
    Refused(Vec<Write>, usize, Refusal, Rules),
    Found(Vec<Key>, BTreeMap<Key, Properties>),
}

struct Model;

impl Specification for Model {
    type State = Partition;
    type Operation = Step;

    fn init() -> Partition {
        Partition::new()
    }

    fn apply(step: &Step, state: &Partition) -> (bool, Partition) {
        match step {
            Step::Written(writes, timestamps) => match written(writes, timestamps, state) {
                Some(after) => (true, after),
                None => (false, state.clone()),
            },
            // What nobody has seen may as well happen at the end, or never.
            Step::Perhaps(writes, timestamps) => (
                true,
                written(writes, timestamps, state).unwrap_or_else(|| state.clone()),
            ),
            Step::Refused(writes, index, refusal, rules) => {
                let is_valid = match rules.first_refusal {
                    true => apply_all(writes, state).err() == Some((*index, *refusal)),
                    false => {
                        let write = &writes[*index];
                        write.apply(entity(state, write.key)).err() == Some(*refusal)
                    }
                };
                (is_valid, state.clone())
            }
            Step::Found(keys, found) => {
                let is_valid = keys.iter().all(|key| entity(state, *key) == found.get(key));
                (is_valid, state.clone())
            }
        }
    }
}

fn written(writes: &[Write], timestamps: &[Option<Timestamp>], state: &Partition) -> Option<Partition> {
    let mut after = apply_all(writes, state).ok()?;
    for (write, timestamp) in writes.iter().zip(timestamps) {
        let slot = after.entry(write.key).or_default();
        if timestamp.is_some() {
            if slot.timestamp >= *timestamp {
                return None;
            }
            slot.timestamp = *timestamp;
        }
    }
    Some(after)
}

/// Whether there is an order that explains all answers until this moment.
fn explains(history: &History, versions: &Versions, until: usize, rules: Rules) -> bool {
    let timestamps_of = |writes: &[Write]| {
        let of = |write: &Write| {
            versions
                .get(&(write.key, write.id))
                .copied()
                .filter(|_| rules.timestamps)
        };
        writes.iter().map(of).collect::<Vec<_>>()
    };
    let keys: Vec<Key> = keys(history);
    let mut events = Vec::new();
    for (process, record) in history
        .records
        .iter()
        .enumerate()
        .filter(|(_, record)| record.begin < until)
    {
        let is_known = record.end <= until && record.end != usize::MAX;
        let step = match (&record.operation, &record.outcome) {
            (_, Outcome::RolledBack) | (Operation::Get(_) | Operation::Query, Outcome::Unknown) => continue,
            (Operation::Write(writes), Outcome::Written(_)) if is_known => {
                Step::Written(writes.clone(), timestamps_of(writes))
            }
            (Operation::Write(writes), Outcome::Refused(index, refusal)) if is_known => {
                Step::Refused(writes.clone(), *index, *refusal, rules)
            }
            (Operation::Write(writes), Outcome::Written(_) | Outcome::Unknown) => {
                Step::Perhaps(writes.clone(), timestamps_of(writes))
            }
            (operation, Outcome::Found(found)) if is_known => {
                let asked = match operation {
                    Operation::Get(key) => vec![*key],
                    _ => keys.clone(),
                };
                let asked = asked
                    .into_iter()
                    .filter(|key| record.end != until || rules.only.is_none_or(|only| only == *key));
                let contents = |(key, seen): (&Key, &Seen)| (*key, seen.properties.clone());
                Step::Found(asked.collect(), found.iter().map(contents).collect())
            }
            _ => continue,
        };
        let end = if is_known { record.end } else { usize::MAX };
        events.push((record.begin, process, Action::Call(step.clone())));
        events.push((end, process, Action::Response(step)));
    }
    if events.is_empty() {
        return true;
    }
    events.sort_by_key(|(at, ..)| *at);
    let actions = events
        .into_iter()
        .map(|(_, process, action)| (process, action))
        .collect();
    WGLChecker::<Model>::is_linearizable(Actions::from_actions(actions))
}

/// The entities that a history is about.
fn keys(history: &History) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for record in &history.records {
        match &record.operation {
            Operation::Write(writes) => keys.extend(writes.iter().map(|write| write.key)),
            Operation::Get(key) => keys.push(*key),
            Operation::Query => {}
        }
        if let Outcome::Found(found) = &record.outcome {
            keys.extend(found.keys());
        }
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Finds the first answer that no order explains, and says what is wrong with it.
fn explanation(history: &History, versions: &Versions) -> String {
    let mut ends: Vec<usize> = history
        .records
        .iter()
        .map(|record| record.end)
        .filter(|end| *end != usize::MAX)
        .collect();
    ends.sort_unstable();
    let first = ends.partition_point(|end| explains(history, versions, *end, Rules::ALL));
    let until = ends[first];
    let record = history.records.iter().find(|record| record.end == until).unwrap();
    let mut text = reason(history, versions, record);
    write!(
        text,
        "\nNo order of the operations explains\n  {record:?}\nThe operations until then:"
    )
    .unwrap();
    for record in history.records.iter().filter(|record| record.begin <= until) {
        write!(text, "\n  {record:?}").unwrap();
    }
    if !history.kills.is_empty() {
        write!(text, "\nPostgreSQL was killed at {:?}", history.kills).unwrap();
    }
    text
}

fn reason(history: &History, versions: &Versions, record: &Record) -> String {
    let holds = |rules: Rules| explains(history, versions, record.end, rules);
    if holds(Rules {
        timestamps: false,
        ..Rules::ALL
    }) {
        return "a Timestamp does not rise: a version got one that is not later than that of the version before it"
            .to_owned();
    }
    match (&record.operation, &record.outcome) {
        (_, Outcome::Found(found)) => {
            let keys = match &record.operation {
                Operation::Get(key) => vec![*key],
                _ => keys(history),
            };
            let wrong = keys.into_iter().find(|key| {
                !holds(Rules {
                    only: Some(*key),
                    ..Rules::ALL
                })
            });
            match wrong {
                Some(key) => wrong_version(history, record, key, found.get(&key)),
                None => "a torn batch: each entity of a query was so at some moment, but not all of them at the same"
                    .to_owned(),
            }
        }
        (Operation::Write(writes), Outcome::Refused(index, _)) => {
            if holds(Rules {
                first_refusal: false,
                ..Rules::ALL
            }) {
                return format!(
                    "a refused batch names operation {index}, but one before it fails in every state in which that one fails"
                );
            }
            wrong_condition(history, record, &writes[*index..=*index])
        }
        (Operation::Write(writes), _) => wrong_condition(history, record, writes),
        _ => "no reason".to_owned(),
    }
}

/// The last write of an entity that was acknowledged before this record began.
fn last_acknowledged(history: &History, before: usize, key: Key) -> Option<(&Record, &Write)> {
    let earlier = history.records.iter().filter(|record| record.end < before);
    let writes = earlier.filter_map(|record| match (&record.operation, &record.outcome) {
        (Operation::Write(writes), Outcome::Written(_)) => {
            Some((record, writes.iter().find(|write| write.key == key)?))
        }
        _ => None,
    });
    writes.max_by_key(|(record, _)| record.end)
}

/// Whether somebody saw what a write did, after another moment.
fn is_seen_later(history: &History, after: usize, write: &Write) -> bool {
    history
        .records
        .iter()
        .filter(|record| record.begin > after)
        .any(|record| {
            let is_asked = match &record.operation {
                Operation::Get(key) => *key == write.key,
                Operation::Query => true,
                Operation::Write(_) => false,
            };
            match &record.outcome {
                Outcome::Found(found) if is_asked => match (write.kind, found.get(&write.key)) {
                    (Kind::Delete, seen) => seen.is_none(),
                    (_, Some(seen)) => seen.properties.values().any(|id| *id == write.id),
                    (_, None) => false,
                },
                _ => false,
            }
        })
}

/// Says what is wrong with a version that a read found, or with its absence.
fn wrong_version(history: &History, record: &Record, key: Key, seen: Option<&Seen>) -> String {
    let shown = match seen {
        Some(seen) => format!("version {}", seen.properties.get(VERSION).copied().unwrap_or_default()),
        None => "nothing".to_owned(),
    };
    if let Some(seen) = seen {
        let id = seen.properties.get(VERSION).copied().unwrap_or_default();
        let maker = history.records.iter().find(|record| match &record.operation {
            Operation::Write(writes) => writes.iter().any(|write| write.id == id && write.key == key),
            _ => false,
        });
        match maker {
            None => return format!("a version that nobody wrote: a read of k{key} shows {shown}"),
            Some(maker) if matches!(maker.outcome, Outcome::Refused(..) | Outcome::RolledBack) => {
                return format!("a write that was refused: a read of k{key} shows {shown}, which is of\n  {maker:?}");
            }
            Some(_) => {}
        }
    }
    let Some((last, write)) = last_acknowledged(history, record.begin, key) else {
        return format!("a read of k{key} shows {shown}");
    };
    let what = if is_seen_later(history, record.end, write) {
        "a stale read"
    } else if history.kills.iter().any(|kill| *kill < record.end) {
        "an acknowledged write is lost, because PostgreSQL was killed"
    } else {
        "a stale read, or an acknowledged write is lost"
    };
    format!("{what}: a read of k{key} shows {shown}, although this was acknowledged before it began:\n  {last:?}")
}

/// Says what is wrong with a write that was done or refused.
fn wrong_condition(history: &History, record: &Record, writes: &[Write]) -> String {
    let lasts = writes
        .iter()
        .filter_map(|write| last_acknowledged(history, record.begin, write.key));
    let lasts: String = lasts.map(|(last, _)| format!("\n  {last:?}")).collect();
    let has_version = |write: &Write| matches!(write.condition, Condition::Version(_));
    let what = match &record.outcome {
        Outcome::Written(_) if writes.iter().any(has_version) => {
            "a lost update: a write succeeded whose condition did not hold"
        }
        Outcome::Written(_) => "a write succeeded that should have failed",
        _ => "a write was refused without reason",
    };
    let lost = match history.kills.iter().any(|kill| *kill < record.end) {
        true => "; or an acknowledged write before it is lost, because PostgreSQL was killed",
        false => "",
    };
    format!("{what}{lost}. Acknowledged before it began:{lasts}")
}
