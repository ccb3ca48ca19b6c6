//! What an archive has, and what of it is damaged.

use serde::Serialize;

use table_service_command_line::failure::Failure;

use crate::directory::{Directory, Found};
use crate::law::{restorable, unknown};
use crate::manifest::Manifest;
use crate::read::Checker;

/// A file that is not as it was written.
#[derive(Debug, Serialize)]
pub struct Damage {
    pub file: String,
    pub problem: String,
}

/// What can be restored of a table.
#[derive(Debug, Serialize)]
pub struct Listed {
    pub table: String,
    /// What it was called, from when and until when.
    pub names: Vec<(String, String, Option<String>)>,
    /// The first and the last moment of each time without a gap.
    pub restorable: Vec<(String, String)>,
    /// The first and the last moment of each time of which nothing is known, and why.
    pub unknown: Vec<(String, String, String)>,
    pub gaps: Vec<String>,
    /// Why it is not followed any more.
    pub ended: Option<String>,
    pub bytes: u64,
}

/// Everything that can be restored.
#[derive(Debug, Serialize)]
pub struct Listing {
    pub archive: String,
    pub first: String,
    pub last: String,
    pub tables: Vec<Listed>,
    pub gaps: Vec<String>,
    pub bytes: u64,
}

/// Lists what can be restored, if these files are damaged.
fn listing(directory: &Directory, manifest: &Manifest, is_damaged: &dyn Fn(u64) -> bool) -> Listing {
    let tables = manifest.tables.iter().map(|table| {
        let bases = manifest.bases.iter().filter(|base| base.table == table.id);
        let restorable = restorable(manifest, table, is_damaged);
        let unknown = unknown(manifest, table, &restorable);
        let ends = table.names.iter().skip(1).map(|next| next.from).map(Some);
        let ends = ends.chain([table.ended.map(|ended| ended.at)]);
        let names = table.names.iter().zip(ends).map(|(name, until)| {
            let until = until.map(|until| until.moment.to_string());
            (name.name.clone(), name.from.moment.to_string(), until)
        });
        Listed {
            table: table.name().to_owned(),
            names: names.collect(),
            restorable: restorable
                .iter()
                .map(|(from, to)| (from.to_string(), to.to_string()))
                .collect(),
            unknown: unknown
                .into_iter()
                .map(|(from, to, reason)| (from.to_string(), to.to_string(), reason))
                .collect(),
            gaps: table
                .gaps
                .iter()
                .map(|gap| {
                    let until = gap.until.map_or("now".to_owned(), |until| until.moment.to_string());
                    format!("{} to {until}: {}", gap.from.moment, gap.reason)
                })
                .collect(),
            ended: table.says_end(),
            bytes: bases.map(|base| base.contents.bytes).sum(),
        }
    });
    let gaps = manifest.epochs.windows(2).filter_map(|pair| {
        let [before, after] = pair else { return None };
        let reason = after.reason.as_deref().unwrap_or("the feed was lost");
        Some(format!("{} to {}: {reason}", manifest.end_of(before), after.begins))
    });
    Listing {
        archive: directory.name(),
        first: manifest.floor.moment.to_string(),
        last: manifest.last().to_string(),
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
            let times: Vec<String> = table
                .restorable
                .iter()
                .map(|(from, to)| format!("{from} to {to}"))
                .collect();
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

/// Reads all files, also while a run writes to them. Returns what is damaged, what is there and does no harm, and what can still be restored.
pub fn check(directory: &Directory) -> Result<(Vec<Damage>, Vec<String>, Listing), Failure> {
    let _reading = directory.read_lock();
    let Found { manifest, damage, .. } = directory.found()?;
    let checker = Checker::new(directory, &manifest);
    let mut damages: Vec<Damage> = damage
        .into_iter()
        .filter_map(|text| {
            let (file, problem) = text.split_once(": ")?;
            Some(Damage {
                file: file.to_owned(),
                problem: problem.to_owned(),
            })
        })
        .collect();
    let segments = manifest
        .segments
        .iter()
        .map(|segment| (crate::directory::Kind::Segment, segment.number));
    let bases = manifest
        .bases
        .iter()
        .map(|base| (crate::directory::Kind::Base, base.number));
    let (mut known, mut damaged) = (std::collections::HashSet::new(), Vec::new());
    for (kind, number) in segments.chain(bases) {
        let path = directory.file(kind, number);
        let file = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        if let Some(problem) = checker.damage(number) {
            damaged.push((
                number,
                Damage {
                    file: file.clone(),
                    problem,
                },
            ));
        }
        known.insert(file);
    }
    if !damaged.is_empty() {
        // Where nobody can lock the directory, a run may have deleted what nothing needs any more.
        let still = directory.found()?.manifest.numbers();
        damages.extend(
            damaged
                .into_iter()
                .filter(|(number, _)| still.contains(number))
                .map(|(_, damage)| damage),
        );
    }
    let mut notes = Vec::new();
    for entry in directory.entries()? {
        if entry.is_own || known.contains(&entry.name) {
            continue;
        }
        match entry.number {
            Some(1..) => notes.push(format!(
                "{}: the manifest does not name it; a run is writing it, or was killed",
                entry.name
            )),
            _ => damages.push(Damage {
                file: entry.name,
                problem: "it is no file of this archive".to_owned(),
            }),
        }
    }
    let listing = listing(directory, &manifest, &|number| checker.is_damaged(number));
    Ok((damages, notes, listing))
}

/// Lists what can be restored if nothing is damaged.
pub fn list(directory: &Directory) -> Result<Listing, Failure> {
    let found = directory.found()?;
    Ok(listing(directory, &found.manifest, &|_| false))
}
