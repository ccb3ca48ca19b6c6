//! The tables of an archive as they were at a point.

use std::collections::{BTreeMap, HashMap, HashSet};

use table_service_model::json::properties_to_json;
use table_service_model::table_name;

use table_service_files::Record;

use crate::directory::Directory;
use crate::fold::{Change, Outcome, Stamp, TakeEntity, TakeVersion, merge};
use crate::law::{Needed, Point};
use crate::manifest::{Base, Kind, Manifest, Table};
use crate::read::{ChangeLine, Lines};
use crate::sort::{Sorted, Sorter};

/// How often a table may be emptied between two bases, so that all of that fits into memory.
const MOST_CLEARS: usize = 1_000_000;
/// How many keys of entities with large properties may be changed between two bases, so that all of that fits into memory.
const MOST_MOVES: usize = 1_000_000;

/// The changes that are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    All,
    /// Only the entities that are there in the end.
    Last,
}

/// A table that is wanted.
struct Wanted {
    table: Table,
    base: Base,
    clears: Vec<Stamp>,
    /// Why it cannot be had, whatever the others are.
    problem: Option<String>,
}

/// The bases of some tables and their changes, sorted by table, key and commit. The tables are visited in the order of their numbers.
pub struct State {
    directory: Directory,
    wanted: BTreeMap<u32, Wanted>,
    changes: Sorted,
    versions: Versions,
    allow_gaps: bool,
}

impl State {
    /// Reads the segments.
    ///
    /// A change of a key is a `delete` and an `insert`. The insert lacks properties that are large: they are those that the delete before
    /// it has removed. So these are looked up first, again as long as one of them depends on another.
    pub fn gather(
        directory: &Directory,
        manifest: &Manifest,
        tables: &[(Table, Needed<'_>)],
        point: &Point,
        versions: Versions,
        allow_gaps: bool,
    ) -> Result<State, String> {
        let collect = |known| State::collect(directory, manifest, tables, point, versions, allow_gaps, known);
        let (mut state, mut moves) = collect(None)?;
        let mut unknown = usize::MAX;
        while moves.unknown > 0 && moves.unknown < unknown {
            unknown = moves.unknown;
            // The properties that deletes have removed, by the number of the insert.
            let mut found = Sorter::new();
            let mut look_up = |stamp: &Stamp, before: Option<&Record>, _: Option<&Record>| {
                let is_wanted = stamp.change == Change::Delete && moves.deletes.contains(&stamp.number);
                let Some(before) = before.filter(|_| is_wanted) else {
                    return Ok(());
                };
                let json = properties_to_json(before.properties.as_properties());
                let key = (stamp.number + 1).to_be_bytes();
                found.push(&key, &json).map_err(|error| error.to_string())
            };
            state.allow_gaps = true;
            let ids: Vec<u32> = state.wanted.keys().copied().collect();
            for id in ids {
                // A problem of a table is reported when it is visited.
                let _ = state.visit(id, &mut look_up, &mut |_| Ok(true));
            }
            let found = found.finish().map_err(|error| error.to_string())?;
            (state, moves) = collect(Some(found))?;
        }
        Ok(state)
    }

    /// Reads the segments, with the properties that are known of the inserts that lack them.
    fn collect(
        directory: &Directory,
        manifest: &Manifest,
        tables: &[(Table, Needed<'_>)],
        point: &Point,
        versions: Versions,
        allow_gaps: bool,
        mut known: Option<Sorted>,
    ) -> Result<(State, Moves), String> {
        let mut segments = BTreeMap::new();
        let mut wanted: BTreeMap<u32, Wanted> = BTreeMap::new();
        let (mut by_oid, mut by_name): (HashMap<u32, Vec<u32>>, HashMap<String, Vec<u32>>) = Default::default();
        let mut moves = Moves::default();
        for (table, needed) in tables {
            segments.extend(needed.segments.iter().map(|segment| (segment.number, *segment)));
            by_oid.entry(table.oid).or_default().push(table.id);
            by_name
                .entry(table_name::fold(table.name()))
                .or_default()
                .push(table.id);
            wanted.insert(
                table.id,
                Wanted {
                    base: needed.base.clone(),
                    table: table.clone(),
                    clears: Vec::new(),
                    problem: None,
                },
            );
        }
        let mut sorter = Sorter::new();
        let mut number = 0;
        // In the order of the manifest, which is the order of commits.
        for segment in manifest
            .segments
            .iter()
            .filter(|segment| segments.contains_key(&segment.number))
        {
            let mut lines = Lines::open(directory, Kind::Segment, segment.number, &segment.contents)?;
            while let Some(line) = lines.next()? {
                number += 1;
                let change = ChangeLine::read(line)?;
                let (position, committed) = change.position_and_moment()?;
                if position < segment.first || position > segment.last {
                    return Err(format!(
                        "the segment {} has a change of another position",
                        segment.number
                    ));
                }
                if !point.includes(position) {
                    break;
                }
                let ids = match change.relation {
                    Some(oid) => by_oid.get(&oid),
                    None => by_name.get(&table_name::fold(&change.table_name)),
                };
                let is_of = |wanted: &&mut Wanted| {
                    wanted.table.has_change(segment.epoch, position) && position > wanted.base.through
                };
                let Some(of) = ids
                    .into_iter()
                    .flatten()
                    .find(|id| wanted.get_mut(id).as_ref().is_some_and(is_of))
                else {
                    continue;
                };
                let Some(table) = wanted.get_mut(of).filter(|table| table.problem.is_none()) else {
                    continue;
                };
                match change.kind.as_ref() {
                    "gap" => {}
                    "clear" => {
                        if versions == Versions::Last {
                            table.clears.clear();
                        }
                        if table.clears.len() == MOST_CLEARS {
                            table.problem = Some("it was emptied too often".to_owned());
                            continue;
                        }
                        table.clears.push(Stamp {
                            number,
                            position,
                            committed,
                            change: Change::Clear,
                        });
                    }
                    _ => {
                        let keys = change.partition_key.as_ref().zip(change.row_key.as_ref());
                        let Some(key) = keys.and_then(|(partition, row)| sort_key(*of, partition, row, number)) else {
                            table.problem = Some("a change has no keys that an entity can have".to_owned());
                            continue;
                        };
                        let mut whole = None;
                        if change.kind == "insert" && change.properties.is_none() {
                            if moves.deletes.len() == MOST_MOVES {
                                table.problem = Some("too many keys of its entities were changed".to_owned());
                                continue;
                            }
                            moves.deletes.insert(number - 1);
                            whole = known_properties(&mut known, number)?
                                .map(|json| change.with_properties(&json))
                                .transpose()?;
                            moves.unknown += usize::from(whole.is_none());
                        }
                        let line = whole.as_deref().unwrap_or(line);
                        sorter.push(&key, line).map_err(|error| error.to_string())?;
                    }
                }
            }
        }
        let state = State {
            directory: directory.clone(),
            wanted,
            changes: sorter.finish().map_err(|error| error.to_string())?,
            versions,
            allow_gaps,
        };
        Ok((state, moves))
    }

    /// Visits a table. Tables with smaller numbers cannot be visited afterwards.
    pub fn visit(
        &mut self,
        id: u32,
        version: &mut TakeVersion<'_>,
        entity: &mut TakeEntity<'_>,
    ) -> Result<Outcome, String> {
        let Some(Wanted {
            base, clears, problem, ..
        }) = self.wanted.remove(&id)
        else {
            return Err("a table is read twice".to_owned());
        };
        if let Some(problem) = problem {
            return Err(problem);
        }
        let changes = &mut self.changes;
        // After the last time that the table was emptied, nothing before it matters.
        let begin = match self.versions {
            Versions::Last => clears.last().map_or(0, |clear| clear.number),
            Versions::All => 0,
        };
        let mut next = || loop {
            match changes.peek().and_then(parts) {
                Some((table, _)) if table > id => return Ok(None),
                None => return Ok(None),
                Some((table, number)) => {
                    let taken = changes.next().map_err(|error| error.to_string())?;
                    if table == id && number > begin {
                        return Ok(taken.map(|(_, line)| (number, line)));
                    }
                }
            }
        };
        let mut lines = match begin {
            0 => Some(Lines::open(&self.directory, Kind::Base, base.number, &base.contents)?),
            _ => None,
        };
        let mut stored = || {
            let Some(lines) = &mut lines else { return Ok(None) };
            let Some(line) = lines.next()? else { return Ok(None) };
            let text = std::str::from_utf8(line).map_err(|error| error.to_string())?;
            Record::from_json(text)
                .map(Some)
                .map_err(|error| format!("a line of the base {} is no entity: {}", base.number, error.report()))
        };
        let clears = match self.versions {
            Versions::All => clears.as_slice(),
            Versions::Last => &[],
        };
        merge(&mut stored, &mut next, clears, self.allow_gaps, version, entity)
    }

    /// Returns whether a table has changes behind its base. It must be the next one to be visited.
    pub fn has_changes(&mut self, id: u32) -> Result<bool, String> {
        let is_changed = |wanted: &Wanted| !wanted.clears.is_empty() || wanted.problem.is_some();
        if self.wanted.get(&id).is_some_and(is_changed) {
            return Ok(true);
        }
        loop {
            match self.changes.peek().and_then(parts) {
                Some((table, _)) if table < id => {
                    self.changes.next().map_err(|error| error.to_string())?;
                }
                next => return Ok(next.is_some_and(|(table, _)| table == id)),
            }
        }
    }
}

/// Changes of keys, with inserts that lack their properties.
#[derive(Default)]
struct Moves {
    /// The numbers of their deletes. The insert is the next change.
    deletes: HashSet<u64>,
    /// How many of them are not known.
    unknown: usize,
}

/// The properties of the insert with this number, which is larger than those that were asked for before.
fn known_properties(known: &mut Option<Sorted>, number: u64) -> Result<Option<Vec<u8>>, String> {
    let Some(known) = known else { return Ok(None) };
    let wanted = number.to_be_bytes();
    while known.peek().is_some_and(|key| key <= wanted.as_slice()) {
        let next = known.next().map_err(|error| error.to_string())?;
        if let Some((_, json)) = next.filter(|(key, _)| key.as_slice() == wanted) {
            return Ok(Some(json));
        }
    }
    Ok(None)
}

/// The order of changes: by table, keys and commit. No key of an entity has the character 0.
fn sort_key(table: u32, partition_key: &str, row_key: &str, number: u64) -> Option<Vec<u8>> {
    if partition_key.contains('\0') || row_key.contains('\0') {
        return None;
    }
    let mut key = Vec::with_capacity(14 + partition_key.len() + row_key.len());
    key.extend_from_slice(&table.to_be_bytes());
    key.extend_from_slice(partition_key.as_bytes());
    key.push(0);
    key.extend_from_slice(row_key.as_bytes());
    key.push(0);
    key.extend_from_slice(&number.to_be_bytes());
    Some(key)
}

/// The table and the number of a change in the order of commits.
fn parts(key: &[u8]) -> Option<(u32, u64)> {
    let table = key.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    table.zip(key.last_chunk().map(|bytes| u64::from_be_bytes(*bytes)))
}
