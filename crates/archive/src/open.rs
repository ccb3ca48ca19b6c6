//! An archive that is read: the files that a moment needs are found and checked before anything is done with them.

use std::path::Path;

use table_service_command_line::failure::Failure;
use table_service_files::Record;

use crate::directory::{Directory, Found, Reading};
use crate::history::History;
use crate::manifest::{Moment, Table};
use crate::plan::{At, Needed, Point, needed, point};
use crate::read::Checker;
use crate::sort::Sorted;
use crate::state::{State, Versions};

/// What an archive's directory says, and what keeps its files there.
pub struct Archive {
    directory: Directory,
    found: Found,
    reading: Reading,
}

/// What is to be restored.
pub struct Wanted<'w> {
    pub at: At,
    /// All tables without a name.
    pub table: Option<&'w str>,
    /// The name that the table gets.
    pub named: Option<&'w str>,
    pub allow_gaps: bool,
}

/// The name that a table gets, and its number in the archive.
pub type Named = (String, u32);

/// Tables as they were at a point, which are read once, in the order in which they are listed.
pub struct Restored {
    pub directory: Directory,
    /// In the order of their numbers.
    pub tables: Vec<Named>,
    pub state: State,
    /// Keeps the files there.
    pub reading: Reading,
}

/// What is said of what was left out.
pub type Notes = Vec<String>;

impl Archive {
    pub fn open(path: &Path) -> Result<Archive, Failure> {
        let directory = Directory::new(path);
        let reading = directory.read_lock();
        Ok(Archive {
            found: directory.found()?,
            directory,
            reading,
        })
    }

    fn failed(&self, problem: &dyn std::fmt::Display) -> Failure {
        self.directory.failed(problem)
    }

    fn point(&self, checker: &Checker<'_>, at: At, allow_gaps: bool) -> Result<Point, String> {
        point(&self.found.manifest, at, allow_gaps, &mut |segment, moment, after| {
            checker.first_later(segment, moment, after, allow_gaps)
        })
    }

    /// The tables of a name, or all, that were there at a point.
    fn tables(&self, name: Option<&str>, point: &Point) -> Result<Vec<Table>, String> {
        let is_named = |table: &&Table| name.is_none_or(|name| name.eq_ignore_ascii_case(&table.name));
        let named: Vec<&Table> = self.found.manifest.tables.iter().filter(is_named).collect();
        let there: Vec<Table> = named
            .iter()
            .filter(|table| table.is_at(point))
            .map(|&table| table.clone())
            .collect();
        match (name, there.is_empty()) {
            (Some(name), true) => Err(match named.iter().max_by_key(|table| table.since.moment) {
                None => format!("it has no table {name}"),
                Some(table) => match table
                    .says_end()
                    .filter(|_| point.at.is_none_or(|at| at >= table.since.moment))
                {
                    Some(ended) => format!("the table {} was not there at that moment: {ended}", table.name),
                    None => format!(
                        "the table {} was not there at that moment, or not yet in the archive, which has it from {} on",
                        table.name, table.since.moment
                    ),
                },
            }),
            _ => Ok(there),
        }
    }

    /// Prepares what is wanted.
    ///
    /// # Errors
    /// A moment that the archive does not have, damaged files.
    pub fn restored(self, wanted: &Wanted<'_>) -> Result<(Restored, Notes), Failure> {
        let mut notes: Notes = self.found.damage.iter().cloned().collect();
        if self.found.is_earlier && wanted.at == At::Latest && !wanted.allow_gaps {
            let damage = self.found.damage.as_deref().unwrap_or_default();
            return Err(self.failed(&format!(
                "{damage}. The manifest before it goes to {}: give that moment, or an earlier one, or --allow-gaps",
                self.found.manifest.last()
            )));
        }
        let prepared = || -> Result<(Vec<Named>, State, Notes), String> {
            let checker = Checker::new(&self.directory, &self.found.manifest);
            let point = self.point(&checker, wanted.at, wanted.allow_gaps)?;
            let tables = self.tables(wanted.table, &point)?;
            let (found, notes) = self.needed(&checker, &tables, &point, wanted.allow_gaps)?;
            let names = tables
                .iter()
                .map(|table| (wanted.named.unwrap_or(&table.name).to_owned(), table.id))
                .collect();
            let versions = Versions::Last;
            let state = State::gather(
                &self.directory,
                &self.found.manifest,
                &found,
                &point,
                versions,
                wanted.allow_gaps,
            )?;
            Ok((names, state, notes))
        };
        let (mut tables, state, missing) = prepared().map_err(|problem| self.failed(&problem))?;
        notes.extend(missing);
        tables.sort_by_key(|(_, id)| *id);
        let restored = Restored {
            directory: self.directory,
            tables,
            state,
            reading: self.reading,
        };
        Ok((restored, notes))
    }

    fn needed<'m>(
        &'m self,
        checker: &Checker<'_>,
        tables: &[Table],
        point: &Point,
        allow_gaps: bool,
    ) -> Result<(Vec<(Table, Needed<'m>)>, Notes), String> {
        let (mut found, mut notes) = (Vec::new(), Notes::new());
        for table in tables {
            let is_damaged = |number| checker.is_damaged(number);
            let needed = needed(&self.found.manifest, table, point, &is_damaged, allow_gaps)?;
            notes.extend(
                needed
                    .missing
                    .iter()
                    .map(|what| format!("the table {}: {what}", table.name)),
            );
            found.push((table.clone(), needed));
        }
        Ok((found, notes))
    }

    /// Finds the versions of the entities of a table that a filter selects. They come epoch by epoch, in the order of commits.
    ///
    /// # Errors
    /// A table that the archive does not have, damaged files.
    pub fn history(
        &self,
        table: &str,
        selects: &dyn Fn(&Record) -> bool,
        since: Option<Moment>,
        until: Option<Moment>,
    ) -> Result<(Vec<Sorted>, Notes), Failure> {
        let tables = self.found.manifest.tables.iter();
        let tables: Vec<&Table> = tables.filter(|known| known.name.eq_ignore_ascii_case(table)).collect();
        if tables.is_empty() {
            return Err(self.failed(&format!("it has no table {table}")));
        }
        let checker = Checker::new(&self.directory, &self.found.manifest);
        let mut found = Vec::new();
        let mut notes: Notes = self.found.damage.iter().cloned().collect();
        for epoch in self.found.manifest.whole_epochs() {
            if found.len() + notes.len() > 0 && epoch.reason.is_some() {
                notes.push(format!(
                    "changes before {} are missing: {}",
                    epoch.begins,
                    epoch.reason.as_deref().unwrap_or_default()
                ));
            }
            let mut history = History::new(table, selects, since, until);
            let mut any = false;
            for table in &tables {
                any |= self
                    .versions(&checker, table, epoch.number, since, &mut history, &mut notes)
                    .map_err(|problem| self.failed(&problem))?;
            }
            if any {
                found.push(history.finish().map_err(|problem| self.failed(&problem))?);
            }
        }
        Ok((found, notes))
    }

    /// Collects the versions of a table in an epoch, from the last base before a moment on. Returns whether there can be any.
    fn versions(
        &self,
        checker: &Checker<'_>,
        table: &Table,
        epoch: u32,
        since: Option<Moment>,
        history: &mut History<'_>,
        notes: &mut Notes,
    ) -> Result<bool, String> {
        let bases = self.found.manifest.bases.iter();
        let mut bases: Vec<_> = bases
            .filter(|base| base.table == table.id && base.epoch == epoch && !checker.is_damaged(base.number))
            .collect();
        bases.sort_by_key(|base| base.position);
        // A base divides nothing: the changes before it and after it are in the segments. So the first one that is early enough will do.
        let early = bases
            .iter()
            .rposition(|base| since.is_some_and(|since| base.moment <= since));
        let Some(base) = bases.get(early.unwrap_or(0)) else {
            return Ok(false);
        };
        let segments = self
            .found
            .manifest
            .segments_of(epoch)
            .filter(|segment| segment.last > base.through);
        let (whole, damaged): (Vec<_>, Vec<_>) = segments.partition(|segment| !checker.is_damaged(segment.number));
        notes.extend(damaged.iter().map(|segment| {
            format!(
                "changes from {} to {} are missing: the segment {} is missing or damaged",
                segment.earliest, segment.latest, segment.number
            )
        }));
        notes.extend(
            table
                .gaps
                .iter()
                .filter(|gap| gap.from.epoch == epoch)
                .map(|gap| format!("changes since {} are missing: {}", gap.from.moment, gap.reason)),
        );
        let needed = Needed {
            base,
            segments: whole,
            missing: Vec::new(),
        };
        let wanted = vec![(table.clone(), needed)];
        let mut state = State::gather(
            &self.directory,
            &self.found.manifest,
            &wanted,
            &Point::end_of(epoch),
            Versions::All,
            true,
        )?;
        state.visit(table.id, history)?;
        Ok(true)
    }
}
