//! An archive that is read: the files that a moment needs are found and checked before anything is done with them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use table_service_command_line::failure::{Failure, exit};
use table_service_files::Record;

use crate::definition::Definition;
use crate::directory::{Directory, Found};
use crate::fold::Stamp;
use crate::history::{Called, History};
use crate::law::{At, Lacking, NOTHING_YET, Point, Stretch, Unknown, needed, point, stretches};
use crate::manifest::{Epoch, Moment, Table, WhyEnded};
use crate::read::Checker;
use crate::sort::Sorted;
use crate::state::{State, Versions};
use table_service_model::Lsn;

/// The contents of an archive's directory, and the lock that keeps its files there.
pub struct Archive {
    directory: Directory,
    found: Found,
    reading: Option<File>,
}

/// The selection to restore.
pub struct Wanted<'w> {
    pub at: At,
    /// All tables without a name.
    pub table: Option<&'w str>,
    /// The name that the table gets.
    pub named: Option<&'w str>,
    pub allow_gaps: bool,
}

/// Tables as they were at a point, which are read once, in the order in which they are listed.
pub struct Restored {
    pub directory: Directory,
    /// The names that they get, and their numbers in the archive, in the order of those.
    pub tables: Vec<(String, u32)>,
    /// Those that are not known, and why.
    pub lacking: Vec<(String, Failure)>,
    /// Which tables the archive follows, as [`is_selected`](crate::is_selected) takes them.
    pub selected: Vec<String>,
    /// The definitions of tables, as far as they are known, by the names that the tables get.
    pub definitions: BTreeMap<String, Definition>,
    pub state: State,
    /// Keeps the files there.
    pub reading: Option<File>,
}

/// Messages about a history.
pub struct Told {
    pub notes: Vec<String>,
    /// Messages about its unknown parts.
    pub unknown: Vec<String>,
}

impl Archive {
    /// Reads the manifest of an archive, and keeps the files there.
    pub fn open(path: &Path) -> Result<Archive, Failure> {
        let directory = Directory::new(path);
        let reading = directory.read_lock();
        Ok(Archive {
            found: directory.found()?,
            directory,
            reading,
        })
    }

    /// The archive does not have it. The newest manifest may have it, if that is damaged.
    fn failed(&self, problem: &dyn std::fmt::Display) -> Failure {
        match self.found.damage.as_ref().filter(|_| self.found.is_earlier) {
            Some(damage) => self.damaged(&format!("{problem}. {damage}")),
            None => self.directory.failed(problem),
        }
    }

    fn damaged(&self, problem: &str) -> Failure {
        let mut failure = self.directory.failed(&problem);
        failure.code = exit::DIFFERENT;
        failure
    }

    fn lacking(&self, Lacking { what, is_damage }: &Lacking) -> Failure {
        match is_damage {
            true => self.damaged(what),
            false => self.failed(what),
        }
    }

    fn point(&self, checker: &Checker<'_>, at: At, allow_gaps: bool) -> Result<Point, Lacking> {
        let mut is_damage = false;
        let found = point(&self.found.manifest, at, allow_gaps, &mut |segment, moment, after| {
            let found = checker.first_later(segment, moment, after, allow_gaps);
            is_damage |= found.is_err();
            found
        });
        found.map_err(|what| Lacking { what, is_damage })
    }

    /// The tables of a name, or all, that were there at a point.
    fn tables(&self, name: Option<&str>, point: &Point) -> Result<Vec<Table>, String> {
        let named = self.found.manifest.tables.iter();
        let named: Vec<&Table> = named.filter(|table| name.is_none_or(|name| table.was(name))).collect();
        let is_there = |table: &&&Table| {
            table.is_at(point) && name.is_none_or(|name| name.eq_ignore_ascii_case(table.name_at(point)))
        };
        let there: Vec<Table> = named.iter().filter(is_there).map(|&table| table.clone()).collect();
        match (name, there.is_empty()) {
            (Some(name), true) => Err(match named.iter().max_by_key(|table| table.since.moment) {
                None => format!("it has no table {name}"),
                Some(table) => match table
                    .says_end()
                    .filter(|_| point.at.is_none_or(|at| at >= table.since.moment))
                {
                    Some(ended) => format!("the table {} was not there at that moment: {ended}", table.name()),
                    None => format!(
                        "the table {} was not there at that moment, or not yet in the archive, which has it from {} on",
                        table.name(),
                        table.since.moment
                    ),
                },
            }),
            _ => Ok(there),
        }
    }

    /// Names the tables that were not selected at a point, and those that may have been there.
    fn unselected(
        &self,
        wanted: &Wanted<'_>,
        point: &Point,
        lacking: &mut Vec<(String, Failure)>,
        notes: &mut Vec<String>,
    ) {
        let tables = &self.found.manifest.tables;
        let is_later = |later: &&Table| wanted.table.is_none() && !later.created && !point.is_after(later.since);
        for later in tables.iter().filter(is_later) {
            let is_before = |before: &&Table| before.oid == later.oid && before.id < later.id;
            let (name, until) = (later.name_at(point).to_owned(), later.since.moment);
            match tables
                .iter()
                .rfind(is_before)
                .map(|before| before.ended.filter(|ended| point.is_after(ended.at)))
            {
                Some(Some(ended)) if ended.why == WhyEnded::Deselected => {
                    let from = ended.at.moment;
                    let problem = format!("the table {name} was not selected from {from} to {until}");
                    lacking.push((name, self.failed(&problem)));
                }
                // One that a new source has, or that came in a gap, was not there.
                None if !later.since.begins_epoch() && self.tables(Some(&name), point).is_err() => {
                    notes.push(format!("the table {name} is in the archive from {until} on"));
                }
                _ => {}
            }
        }
    }

    /// Prepares the wanted tables. If these are all, those that are not known are left out.
    ///
    /// # Errors
    /// A moment that the archive does not have, damaged files.
    pub fn restored(self, wanted: &Wanted<'_>) -> Result<(Restored, Vec<String>), Failure> {
        let mut notes: Vec<String> = self.found.damage.iter().cloned().collect();
        if let (true, At::Latest, false, Some(damage)) =
            (self.found.is_earlier, wanted.at, wanted.allow_gaps, &self.found.damage)
        {
            let last = self.found.manifest.last();
            return Err(self.lacking(&Lacking::damaged(format!(
                "{damage}. The manifest before it goes to {last}: give that moment, or an earlier one, or --allow-gaps"
            ))));
        }
        let (mut tables, mut lacking, mut definitions) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut prepare = || -> Result<State, Lacking> {
            let manifest = &self.found.manifest;
            let checker = Checker::new(&self.directory, manifest);
            let point = self.point(&checker, wanted.at, wanted.allow_gaps)?;
            let mut found = Vec::new();
            for table in self.tables(wanted.table, &point)? {
                let name = wanted.named.unwrap_or(table.name_at(&point)).to_owned();
                let is_damaged = |number| checker.is_damaged(number);
                match needed(manifest, &table, &point, &is_damaged, wanted.allow_gaps) {
                    Ok(needed) => {
                        let missing = needed.missing.iter();
                        notes.extend(missing.map(|what| format!("the table {name}: {what}")));
                        if let Some((definition, was_seen)) = table.definition_at(&point) {
                            if !was_seen {
                                notes.push(format!(
                                    "the table {name}: its access policies, property indexes and expiry were first seen later than that moment"
                                ));
                            }
                            definitions.insert(name.clone(), definition.clone());
                        }
                        tables.push((name, table.id));
                        found.push((table, needed));
                    }
                    Err(problem) if wanted.table.is_some() => return Err(problem),
                    Err(problem) => lacking.push((name, self.lacking(&problem))),
                }
            }
            self.unselected(wanted, &point, &mut lacking, &mut notes);
            let versions = Versions::Last;
            let state = State::gather(&self.directory, manifest, &found, &point, versions, wanted.allow_gaps);
            Ok(state?)
        };
        let state = prepare().map_err(|problem| self.lacking(&problem))?;
        tables.sort_by_key(|(_, id)| *id);
        let restored = Restored {
            directory: self.directory,
            tables,
            lacking,
            selected: self.found.manifest.selected,
            definitions,
            state,
            reading: self.reading,
        };
        Ok((restored, notes))
    }

    /// Finds the versions of the entities of a table that a filter selects. They come epoch by epoch, in the order of commits, with a `gap`
    /// where versions are not known.
    ///
    /// # Errors
    /// A table that the archive does not have, files that differ from the manifest.
    pub fn history(
        &self,
        table: &str,
        selects: &dyn Fn(&Record) -> bool,
        since: Option<Moment>,
        until: Option<Moment>,
    ) -> Result<(Vec<Sorted>, Told), Failure> {
        let manifest = &self.found.manifest;
        let tables = manifest.tables.iter();
        let tables: Vec<&Table> = tables.filter(|known| known.was(table)).collect();
        let begins = tables.iter().flat_map(|known| {
            let is_known = |called: &Called| called.from != known.since || known.created;
            let called = known.called(table).into_iter();
            called.map(move |called| (called.from.moment.max(manifest.floor.moment), is_known(&called)))
        });
        let Some((begin, is_known)) = begins.min() else {
            return Err(self.failed(&format!("it has no table {table}")));
        };
        // Before that, nothing had the name, unless the archive began later.
        let is_known = is_known && begin > manifest.floor.moment;
        let first = if is_known { manifest.floor.moment } else { begin };
        if let (None, Some(until)) = (since, until.filter(|until| *until < first)) {
            return Err(self.failed(&format!(
                "{until} is outside of what the archive has: nothing is known of the table {table} before {first}"
            )));
        }
        let mut told = Told {
            notes: self.found.damage.iter().cloned().collect(),
            unknown: Vec::new(),
        };
        let checker = Checker::new(&self.directory, manifest);
        let is_damaged = |number| checker.is_damaged(number);
        let mut found = Vec::new();
        let mut before: Option<&Epoch> = None;
        let mut epochs = manifest.whole_epochs().peekable();
        while let Some(epoch) = epochs.next() {
            let mut history = History::new(epoch.number, selects, since, until);
            let mut collect = || -> Result<(), String> {
                let mut unknown = Vec::new();
                let mut lost = |position, from, until, reason: &str| {
                    let unbounded = Unknown::from(Lsn(position), from, reason);
                    unknown.push(Unknown { until, ..unbounded });
                };
                match (before, since) {
                    (None, Some(since)) if since < begin && !is_known => {
                        lost(0, since, Some(begin), "the archive has the table since then");
                    }
                    (Some(before), _) if begin < epoch.begins => {
                        lost(0, manifest.end_of(before), Some(epoch.begins), epoch.reason());
                    }
                    _ => {}
                }
                if epochs.peek().is_none() {
                    let last = manifest.last();
                    match (until, &self.found.damage) {
                        (until, Some(damage)) if self.found.is_earlier && until.is_none_or(|until| until > last) => {
                            lost(u64::MAX, last, until, damage);
                        }
                        (Some(until), _) if until > last => {
                            lost(u64::MAX, last, Some(until), "the archive has nothing later");
                        }
                        _ => {}
                    }
                }
                for known in &tables {
                    history.called = known.called(table);
                    for event in known.events(table) {
                        if event.at.epoch == epoch.number {
                            history.event(&event)?;
                        }
                    }
                    let is_called = |unknown: &Unknown| history.called.iter().any(|called| called.is_between(unknown));
                    let (stretches, missing) = stretches(manifest, known, epoch, since, &is_damaged);
                    unknown.extend(missing.into_iter().filter(is_called));
                    for Stretch { needed, end } in stretches {
                        let (from, position) = (needed.base.moment, needed.base.position);
                        let wanted = vec![((*known).clone(), needed)];
                        let mut state = State::gather(&self.directory, manifest, &wanted, &end, Versions::All, true)?;
                        let mut take = |stamp: &Stamp, before: Option<&Record>, after: Option<&Record>| {
                            history.version(stamp, before, after)
                        };
                        if state.visit(known.id, &mut take, &mut |_| Ok(true))?.unknown > 0 {
                            let reason = "changes have no properties, and nothing says which they were before";
                            unknown.push(Unknown::from(position, from, reason));
                        }
                    }
                }
                unknown.retain(|unknown| unknown.is_between(since, until));
                for unknown in unknown {
                    history.gap(table, &unknown)?;
                    told.unknown.push(unknown.text());
                }
                Ok(())
            };
            collect().map_err(|problem| self.failed(&problem))?;
            found.push(history.finish().map_err(|problem| self.failed(&problem))?);
            before = Some(epoch);
        }
        match before {
            Some(_) => Ok((found, told)),
            None => Err(self.failed(&NOTHING_YET)),
        }
    }
}
