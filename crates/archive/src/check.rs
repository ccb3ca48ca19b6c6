//! The contents of an archive, and the damage that is found in it.

use std::collections::HashMap;

use serde::Serialize;

use table_service_command_line::failure::Failure;

use crate::directory::{Directory, Found};
use crate::law::{restorable, unknown};
use crate::manifest::{Manifest, Moment};
use crate::read::Checker;

/// A file that is not as it was written.
#[derive(Debug, Serialize)]
pub struct Damage {
    pub file: String,
    pub problem: String,
}

/// The moments to which a table can be restored.
#[derive(Debug, Serialize)]
pub struct Listed {
    pub table: String,
    /// The names of the table, from when and until when.
    pub names: Vec<(String, Moment, Option<Moment>)>,
    /// The first and the last moment of each time without a gap.
    pub restorable: Vec<(Moment, Moment)>,
    /// The first and the last moment of each unknown time, and the reason.
    pub unknown: Vec<(Moment, Moment, String)>,
    pub gaps: Vec<String>,
    /// Why it is not followed any more.
    pub ended: Option<String>,
    pub bytes: u64,
}

/// Everything that can be restored.
#[derive(Debug, Serialize)]
pub struct Listing {
    pub archive: String,
    pub first: Moment,
    pub last: Moment,
    pub tables: Vec<Listed>,
    pub gaps: Vec<String>,
    pub bytes: u64,
}

/// Lists the moments that can be restored, if these files are damaged.
fn listing(directory: &Directory, manifest: &Manifest, is_damaged: &dyn Fn(u64) -> bool) -> Listing {
    let tables = manifest.tables.iter().map(|table| {
        let bases = manifest.bases.iter().filter(|base| base.table == table.id);
        let restorable = restorable(manifest, table, is_damaged);
        let names = table.times().into_iter();
        let gaps = table.gaps.iter().map(|gap| {
            let until = gap.until.map_or("now".to_owned(), |until| until.moment.to_string());
            format!("{} to {until}: {}", gap.from.moment, gap.reason)
        });
        Listed {
            table: table.name().to_owned(),
            names: names
                .map(|time| (time.name, time.from.moment, time.until.map(|until| until.moment)))
                .collect(),
            unknown: unknown(manifest, table, &restorable),
            restorable,
            gaps: gaps.collect(),
            ended: table.says_end(),
            bytes: bases.map(|base| base.contents.bytes).sum(),
        }
    });
    let gaps = manifest.epochs.windows(2).filter_map(|pair| {
        let [before, after] = pair else { return None };
        Some(format!(
            "{} to {}: {}",
            manifest.end_of(before),
            after.begins,
            after.reason()
        ))
    });
    Listing {
        archive: directory.name(),
        first: manifest.floor.moment,
        last: manifest.last(),
        tables: tables.collect(),
        gaps: gaps.collect(),
        bytes: manifest.bytes(),
    }
}

impl Listing {
    /// The listing for people.
    pub fn text(&self) -> String {
        let mut lines = vec![format!(
            "{}: {} to {}, {} bytes",
            self.archive, self.first, self.last, self.bytes
        )];
        lines.extend(self.gaps.iter().map(|gap| format!("gap: {gap}")));
        for table in &self.tables {
            let times = table.restorable.iter();
            let times: Vec<String> = times.map(|(from, to)| format!("{from} to {to}")).collect();
            let times = match times.is_empty() {
                true => "no moment can be restored".to_owned(),
                false => times.join(", "),
            };
            lines.push(format!("{}: {times}, {} bytes in bases", table.table, table.bytes));
            let names = table.names.iter().filter(|_| table.names.len() > 1);
            lines.extend(names.map(|(name, from, until)| match until {
                Some(until) => format!("  called {name} from {from} to {until}"),
                None => format!("  called {name} since {from}"),
            }));
            let unknown = table.unknown.iter();
            lines.extend(unknown.map(|(from, to, reason)| format!("  unknown from {from} to {to}: {reason}")));
            lines.extend(table.ended.iter().map(|ended| format!("  {ended}")));
        }
        lines.join("\n")
    }
}

fn damaged((file, problem): (&str, &str)) -> Damage {
    let (file, problem) = (file.to_owned(), problem.to_owned());
    Damage { file, problem }
}

/// The manifest, and the damage of its files.
fn manifest(directory: &Directory) -> Result<(Manifest, Vec<Damage>), Failure> {
    let Found { manifest, damage, .. } = directory.found()?;
    let damage = damage.iter().filter_map(|text| text.split_once(": "));
    Ok((manifest, damage.map(damaged).collect()))
}

/// Reads all files, also while a run writes to them. Returns the damage, notes on harmless files, and the moments that can still be restored.
pub fn check(directory: &Directory) -> Result<(Vec<Damage>, Vec<String>, Listing), Failure> {
    let _reading = directory.read_lock();
    let ((manifest, mut damages), mut notes) = (manifest(directory)?, Vec::new());
    let checker = Checker::new(directory, &manifest);
    let files: HashMap<String, u64> = manifest
        .files()
        .map(|(number, kind, _)| (kind.file_name(number), number))
        .collect();
    let problems = files
        .iter()
        .filter_map(|(file, number)| Some((file, number, checker.damage(*number)?)));
    let mut problems: Vec<_> = problems.collect();
    if !problems.is_empty() {
        // Where nobody can lock the directory, a run may have deleted files that no moment needs any more.
        let still = directory.found()?.manifest.numbers();
        problems.retain(|(_, number, _)| still.contains(number));
        problems.sort();
    }
    damages.extend(problems.iter().map(|(file, _, problem)| damaged((file, problem))));
    for entry in directory.entries()? {
        match entry.number {
            _ if entry.is_own || files.contains_key(&entry.name) => {}
            Some(1..) => notes.push(format!(
                "{}: the manifest does not name it; a run is writing it, or was killed",
                entry.name
            )),
            _ => damages.push(damaged((&entry.name, "it is no file of this archive"))),
        }
    }
    let listing = listing(directory, &manifest, &|number| checker.is_damaged(number));
    Ok((damages, notes, listing))
}

/// The same, if no other file than a manifest is damaged: only those are read.
pub fn list(directory: &Directory) -> Result<(Vec<Damage>, Vec<String>, Listing), Failure> {
    let (manifest, damages) = manifest(directory)?;
    Ok((damages, Vec::new(), listing(directory, &manifest, &|_| false)))
}
