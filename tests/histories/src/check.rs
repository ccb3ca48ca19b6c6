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
/// The problem, in words, with the operations that show it.
pub fn check(history: &History) -> Result<(), String> {
    let versions = versions(history)?;
    let facts = Facts {
        history,
        proofs: proofs(history),
        versions,
    };
    if facts.explain(usize::MAX, Rules::ALL) {
        return Ok(());
    }
    Err(facts.explanation())
}

/// A history, and the facts that can be read off it at once.
struct Facts<'h> {
    history: &'h History,
    /// Of each record, see [`proofs`].
    proofs: Vec<Option<usize>>,
    versions: Versions,
}

/// Of each write without an answer that was done, because somebody saw its version: the first end of a record that
/// shows it. It was done before that.
fn proofs(history: &History) -> Vec<Option<usize>> {
    let mut seen: HashMap<WriteId, usize> = HashMap::new();
    for record in &history.records {
        let Outcome::Found(found) = &record.outcome else {
            continue;
        };
        for id in found.values().flat_map(|seen| seen.properties.values()) {
            let first = seen.entry(*id).or_insert(record.end);
            *first = record.end.min(*first);
        }
    }
    let proof = |record: &Record| match (&record.operation, &record.outcome) {
        (Operation::Write(writes), Outcome::Unknown) => {
            writes.iter().filter_map(|write| seen.get(&write.id)).min().copied()
        }
        _ => None,
    };
    history.records.iter().map(proof).collect()
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
    /// Only this entity of those that a query found.
    only: Option<Key>,
}

impl Rules {
    const ALL: Rules = Rules {
        timestamps: true,
        first_refusal: true,
        only: None,
    };
}

/// The Timestamp of a version that a write makes, as far as it is known.
#[derive(Debug, Clone, Copy)]
enum Stamp {
    Unknown,
    Known(Timestamp),
    /// The next version need not be later than those before: this write deletes an entity of a distributed table.
    Forgotten,
}

/// A recorded operation, as the checker takes it.
#[derive(Debug, Clone)]
enum Step {
    Written(Vec<Write>, Vec<Stamp>),
    /// It may have been done.
    Perhaps(Vec<Write>, Vec<Stamp>),
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
            Step::Written(writes, stamps) => match written(writes, stamps, state) {
                Some(after) => (true, after),
                None => (false, state.clone()),
            },
            // A write that nobody has seen may as well happen at the end, or never.
            Step::Perhaps(writes, stamps) => (true, written(writes, stamps, state).unwrap_or_else(|| state.clone())),
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

fn written(writes: &[Write], stamps: &[Stamp], state: &Partition) -> Option<Partition> {
    let mut after = apply_all(writes, state).ok()?;
    for (write, stamp) in writes.iter().zip(stamps) {
        let slot = after.entry(write.key).or_default();
        match stamp {
            Stamp::Unknown => {}
            Stamp::Known(timestamp) if slot.timestamp >= Some(*timestamp) => return None,
            Stamp::Known(timestamp) => slot.timestamp = Some(*timestamp),
            Stamp::Forgotten => slot.timestamp = None,
        }
    }
    Some(after)
}

/// Which writes are tried of those that were perhaps done and that nobody saw. The fewer, the faster: each may be at any place
/// of the order, or nowhere.
const PERHAPS: [fn(&Write) -> bool; 3] = [|_| false, |write| write.kind == Kind::Delete, |_| true];

impl Facts<'_> {
    /// Whether there is an order that explains all answers until this moment.
    fn explain(&self, until: usize, rules: Rules) -> bool {
        PERHAPS.iter().any(|perhaps| self.explain_with(until, rules, perhaps))
    }

    /// The same, where those writes without an answer were not done that nobody saw and that `perhaps` does not choose.
    fn explain_with(&self, until: usize, rules: Rules, perhaps: &dyn Fn(&Write) -> bool) -> bool {
        let stamps_of = |writes: &[Write]| {
            let of = |write: &Write| match self.versions.get(&(write.key, write.id)) {
                _ if !rules.timestamps => Stamp::Unknown,
                Some(timestamp) => Stamp::Known(*timestamp),
                None if write.kind == Kind::Delete && self.history.is_distributed => Stamp::Forgotten,
                None => Stamp::Unknown,
            };
            writes.iter().map(of).collect::<Vec<_>>()
        };
        let keys: Vec<Key> = keys(self.history);
        let mut events = Vec::new();
        let records = self.history.records.iter().zip(&self.proofs).enumerate();
        for (process, (record, proof)) in records.filter(|(_, (record, _))| record.begin < until) {
            let end = proof.unwrap_or(record.end);
            let is_known = end <= until && end != usize::MAX;
            let step = match (&record.operation, &record.outcome) {
                (_, Outcome::RolledBack) | (Operation::Get(_) | Operation::Query, Outcome::Unknown) => continue,
                (Operation::Write(writes), Outcome::Written(_) | Outcome::Unknown) if is_known => {
                    Step::Written(writes.clone(), stamps_of(writes))
                }
                (Operation::Write(writes), Outcome::Refused(index, refusal)) if is_known => {
                    Step::Refused(writes.clone(), *index, *refusal, rules)
                }
                (Operation::Write(writes), Outcome::Unknown) if proof.is_none() && !writes.iter().any(perhaps) => {
                    continue;
                }
                (Operation::Write(writes), Outcome::Written(_) | Outcome::Unknown) => {
                    Step::Perhaps(writes.clone(), stamps_of(writes))
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
            let end = if is_known { end } else { usize::MAX };
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

    /// Finds the first answer that no order explains, and describes its fault.
    fn explanation(&self) -> String {
        let history = self.history;
        let mut ends: Vec<usize> = history
            .records
            .iter()
            .map(|record| record.end)
            .filter(|end| *end != usize::MAX)
            .collect();
        ends.sort_unstable();
        let first = ends.partition_point(|end| self.explain(*end, Rules::ALL));
        let until = ends[first];
        let record = history.records.iter().find(|record| record.end == until).unwrap();
        let mut text = self.reason(record);
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

    fn reason(&self, record: &Record) -> String {
        let history = self.history;
        let holds = |rules: Rules| self.explain(record.end, rules);
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
                    None => {
                        "a torn batch: each entity of a query was so at some moment, but not all of them at the same"
                            .to_owned()
                    }
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

/// Returns whether somebody saw the effect of a write, after another moment.
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

/// Describes the fault of a version that a read found, or of its absence.
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

/// Describes the fault of a write that was done or refused.
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
