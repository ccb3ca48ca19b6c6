//! New bases from the last ones and the segments since then, and the files that no kept moment needs.

use std::collections::{BTreeSet, HashMap, HashSet};

use table_service_command_line::failure::Failure;

use crate::directory::Directory;
use crate::law::{At, Point, needed, point, prune};
use crate::manifest::{Base, Contents, Manifest, Moment, Table};
use crate::read::Checker;
use crate::state::{State, Versions};
use crate::write::BaseWriter;
use table_service_model::Lsn;

/// New bases that are to be made. The database is not read for them.
pub struct Fold {
    manifest: Manifest,
    point: Point,
    /// The last position that is folded.
    position: Lsn,
    /// The tables, with the numbers of their new bases.
    tables: Vec<(Table, u64)>,
}

/// The outcome for one table.
pub struct Folded {
    pub table: u32,
    pub epoch: u32,
    pub position: Lsn,
    /// The new base; `None` if the last one is still as the table is. The error is a matter of this table.
    pub base: Result<Option<(u64, Contents)>, String>,
}

impl Fold {
    /// Returns the bases that are to be made, if it is time: when the segments since the last bases are as large as those are,
    /// or an eighth of the kept time, in microseconds, is over. It leaves tables out if no base can be made of them.
    pub fn due(manifest: &mut Manifest, least: u64, keep: Option<i64>, left_out: &BTreeSet<u32>) -> Option<Fold> {
        let epoch = manifest.epoch()?.clone();
        let position = manifest.segments_of(epoch.number).next_back()?.last;
        let latest = |table: &Table| {
            let of_table = manifest.bases.iter();
            let of_table = of_table.filter(|base| base.table == table.id && base.epoch == epoch.number);
            of_table.max_by_key(|base| base.position)
        };
        // One that was read behind the last change has nothing that is new.
        let is_behind = |table: &&Table| latest(table).is_some_and(|base| base.through < position);
        let is_whole = |table: &&Table| !table.has_open_gap() && !left_out.contains(&table.id) && is_behind(table);
        let tables: Vec<Table> = manifest.living().filter(is_whole).cloned().collect();
        let bases: Vec<&Base> = tables.iter().filter_map(latest).collect();
        let folded = bases.iter().map(|base| base.through).min()?;
        let stored: u64 = bases.iter().map(|base| base.contents.bytes).sum();
        let since: Vec<_> = manifest
            .segments_of(epoch.number)
            .filter(|segment| segment.last > folded)
            .collect();
        let bytes: u64 = since.iter().map(|segment| segment.contents.bytes).sum();
        let is_old = keep.is_some_and(|keep| {
            let oldest = since.iter().map(|segment| segment.earliest).min();
            oldest.is_some_and(|oldest| epoch.reached.0.saturating_sub(oldest.0) > keep / 8)
        });
        if bytes < least.max(stored) && !is_old {
            return None;
        }
        let tables = tables
            .into_iter()
            .map(|table| (table, manifest.take_number()))
            .collect();
        Some(Fold {
            point: Point {
                epoch: epoch.number,
                before: Lsn(position.0 + 1),
                at: None,
            },
            position,
            tables,
            manifest: manifest.clone(),
        })
    }

    /// Makes them. The trouble of one table does not stop the others.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn run(self, directory: &Directory) -> Result<Vec<Folded>, Failure> {
        let checker = Checker::new(directory, &self.manifest);
        let is_damaged = |number| checker.is_damaged(number);
        let (mut wanted, mut problems) = (Vec::new(), HashMap::new());
        for (table, _) in &self.tables {
            match needed(&self.manifest, table, &self.point, &is_damaged, false) {
                Ok(needed) => wanted.push((table.clone(), needed)),
                Err(problem) => drop(problems.insert(table.id, problem)),
            }
        }
        let state = State::gather(directory, &self.manifest, &wanted, &self.point, Versions::Last, false);
        let mut state = state.map_err(|problem| directory.failed(&problem))?;
        let mut tables = self.tables;
        tables.sort_by_key(|(table, _)| table.id);
        let mut all = Vec::new();
        for (table, number) in tables {
            let base = match problems.remove(&table.id) {
                Some(problem) => Err(problem.what),
                None => fold(&mut state, directory, table.id, number)?,
            };
            all.push(Folded {
                table: table.id,
                epoch: self.point.epoch,
                position: self.position,
                base,
            });
        }
        Ok(all)
    }
}

/// Writes a base, if the table has changed. The inner error is a matter of the table, the outer one of the disk.
fn fold(
    state: &mut State,
    directory: &Directory,
    table: u32,
    number: u64,
) -> Result<Result<Option<(u64, Contents)>, String>, Failure> {
    match state.has_changes(table) {
        Ok(true) => {}
        Ok(false) => return Ok(Ok(None)),
        Err(problem) => return Err(directory.failed(&problem)),
    }
    let (mut writer, mut failure) = (BaseWriter::begin(directory, number)?, None);
    let visited = state.visit(table, &mut |_, _, _| Ok(()), &mut |record| {
        failure = writer.add(&record).err();
        Ok(failure.is_none())
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    Ok(match visited {
        Ok(_) => Ok(Some((number, writer.finish()?))),
        Err(problem) => {
            directory.remove(&|other| other == number)?;
            Err(problem)
        }
    })
}

impl Folded {
    /// Puts it into the manifest. Returns whether there is a new base.
    ///
    /// # Errors
    /// The table, and why it has none.
    pub fn apply(self, manifest: &mut Manifest) -> Result<bool, (u32, String)> {
        let Folded {
            table,
            epoch,
            position,
            base,
        } = self;
        let Some((number, contents)) = base.map_err(|problem| (table, problem))? else {
            let of_table = manifest.bases.iter_mut();
            let of_table =
                of_table.filter(|base| base.table == table && base.epoch == epoch && base.position <= position);
            if let Some(base) = of_table.max_by_key(|base| base.position) {
                base.through = base.through.max(position);
            }
            return Ok(false);
        };
        let before = manifest.segments_of(epoch).filter(|segment| segment.last <= position);
        let latest = before.map(|segment| segment.latest).max();
        let begins = manifest
            .epochs
            .iter()
            .find(|known| known.number == epoch)
            .map(|known| known.begins);
        manifest.bases.push(Base {
            number,
            table,
            epoch,
            position,
            moment: latest.max(begins).unwrap_or(Moment(0)),
            through: position,
            contents,
        });
        Ok(true)
    }
}

/// Returns the manifest without the files that no moment from this one on needs, and their numbers; `None` if all are needed.
pub fn pruned(directory: &Directory, manifest: &Manifest, from: Moment) -> Option<(Manifest, HashSet<u64>)> {
    let checker = Checker::new(directory, manifest);
    let at = point(manifest, At::Moment(from), true, &mut |segment, moment, after| {
        checker.first_later(segment, moment, after, true)
    });
    prune(manifest, &at.ok()?)
}
