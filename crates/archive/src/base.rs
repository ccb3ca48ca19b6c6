//! New bases from the last ones and the segments since then, and what no kept moment needs.

use std::collections::HashSet;

use table_service_files::Record;

use crate::directory::Directory;
use crate::fold::Visitor;
use crate::manifest::{Base, Contents, Manifest, Moment, Position, Table};
use crate::plan::{At, Point, needed, point, prune};
use crate::read::Checker;
use crate::state::{State, Versions};
use crate::write::BaseWriter;

/// New bases that are to be made. The database is not read for them.
pub struct Fold {
    manifest: Manifest,
    point: Point,
    /// The last position that is folded.
    position: Position,
    /// The tables, with the numbers of their new bases.
    tables: Vec<(Table, u64)>,
}

/// What became of a table.
pub struct Folded {
    table: u32,
    epoch: u32,
    position: Position,
    /// The new base; `None` if the last one is still as the table is.
    base: Option<(u64, Contents)>,
}

impl Fold {
    /// Returns what is to be made, if it is time: when the segments since the last bases are as large as those are, or an eighth
    /// of the kept time, in microseconds, is over.
    pub fn due(manifest: &mut Manifest, least: u64, keep: Option<i64>) -> Option<Fold> {
        let epoch = manifest.whole_epochs().next_back()?.clone();
        let latest = |table: &Table| {
            let of_table = manifest.bases.iter();
            let of_table = of_table.filter(|base| base.table == table.id && base.epoch == epoch.number);
            of_table.max_by_key(|base| base.position)
        };
        let is_whole = |table: &&Table| !table.has_open_gap() && latest(table).is_some();
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
        let position = since.last()?.last;
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
                before: Some(Position(position.0 + 1)),
                at: None,
            },
            position,
            tables,
            manifest: manifest.clone(),
        })
    }

    /// Makes them.
    pub fn run(self, directory: &Directory) -> Result<Vec<Folded>, String> {
        let checker = Checker::new(directory, &self.manifest);
        let is_damaged = |number| checker.is_damaged(number);
        let mut wanted = Vec::new();
        for (table, _) in &self.tables {
            let needed = needed(&self.manifest, table, &self.point, &is_damaged, false)?;
            wanted.push((table.clone(), needed));
        }
        let mut state = State::gather(directory, &self.manifest, &wanted, &self.point, Versions::Last, false)?;
        let mut tables = self.tables;
        tables.sort_by_key(|(table, _)| table.id);
        let mut all = Vec::new();
        for (table, number) in tables {
            let mut folded = Folded {
                table: table.id,
                epoch: self.point.epoch,
                position: self.position,
                base: None,
            };
            if state.has_changes(table.id)? {
                let writer = BaseWriter::begin(directory, number).map_err(|failure| failure.to_string())?;
                let mut writing = Writing(writer);
                state.visit(table.id, &mut writing)?;
                let contents = writing.0.finish().map_err(|failure| failure.to_string())?;
                folded.base = Some((number, contents));
            }
            all.push(folded);
        }
        Ok(all)
    }
}

struct Writing(BaseWriter);

impl Visitor for Writing {
    fn entity(&mut self, record: Record) -> Result<bool, String> {
        self.0
            .add(&record)
            .map(|()| true)
            .map_err(|failure| failure.to_string())
    }
}

impl Folded {
    /// Puts it into the manifest. Returns whether there is a new base.
    pub fn apply(self, manifest: &mut Manifest) -> bool {
        let Folded {
            table,
            epoch,
            position,
            base,
        } = self;
        let Some((number, contents)) = base else {
            let of_table = manifest.bases.iter_mut();
            let of_table =
                of_table.filter(|base| base.table == table && base.epoch == epoch && base.position <= position);
            if let Some(base) = of_table.max_by_key(|base| base.position) {
                base.through = base.through.max(position);
            }
            return false;
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
        true
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
