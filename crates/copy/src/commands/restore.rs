//! The command `restore`: a copy from an archive, as of a moment.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use table_service_archive::{Archive, Wanted, is_selected};
use table_service_model::table_name;
use tokio::task::block_in_place;

use crate::ends::{ArchiveSource, Source, Target};
use crate::failure::{Failure, exit};
use crate::printable::tell;
use crate::records::{Journal, LeftOut, OnConflict, Report, Selection};
use crate::work::CopyContext;

use super::arguments::RestoreArguments;
use super::as_it_was::Level;
use super::common::print;
use super::definitions;
use super::interrupt::stopped_by_signals;
use super::rounds::round;

/// Restores tables, and returns the exit status.
pub async fn restore(arguments: &RestoreArguments) -> Result<u8, Failure> {
    let Some(to) = &arguments.to else {
        return Err(Failure::usage("--to TARGET is missing; --help explains it."));
    };
    let target = arguments.work.target(to)?;
    if arguments.on_conflict == OnConflict::Merge {
        return Err(Failure::usage(
            "An entity is restored as it was: give --on-conflict fail, skip, replace or newer.",
        ));
    }
    target.check_conflicts(arguments.on_conflict)?;
    if let Some(name) = &arguments.named {
        table_name::check_form(name).map_err(|error| Failure::usage(format!("--as {name:?}: {}", error.report())))?;
    }
    let begin = Instant::now();
    let wanted = Wanted {
        at: arguments.at,
        table: arguments.table.as_deref(),
        named: arguments.named.as_deref(),
        allow_gaps: arguments.allow_gaps,
    };
    // Everything that is needed is read and checked before anything is written.
    let mut selection = Selection::read(arguments.filter.as_deref())?;
    let mut level = None;
    if arguments.as_it_was {
        // Entities that pass now need not have passed then.
        let all = Selection::read(None)?;
        level = Some(Level::open(
            &arguments.work,
            to,
            std::mem::replace(&mut selection, all),
        )?);
    }
    let (restored, notes) = block_in_place(|| Archive::open(&arguments.from)?.restored(&wanted))?;
    let (lacking, selected, definitions) = (
        restored.lacking.clone(),
        restored.selected.clone(),
        restored.definitions.clone(),
    );
    let source = ArchiveSource::new(restored, selection);
    for note in &notes {
        tell(&format!("table-service-copy: {note}"));
    }
    let tables = source.tables();
    target.check_room(tables.len())?;
    let mut report = Report {
        from: source.name(),
        to: target.name(),
        notes,
        ..Report::default()
    };
    let (source, rejects, journal) = (
        Source::Archive(Box::new(source)),
        arguments.rejects.open()?,
        Journal::open(None, Value::Null)?,
    );
    let copy = Arc::new(CopyContext {
        readers: arguments.work.concurrency,
        stop: stopped_by_signals(),
        ..CopyContext::new(source, target, arguments.on_conflict, rejects, journal)
    });
    let lacks = definitions::restore(&copy.target, &tables, &definitions, &mut report).await?;
    match &level {
        None => round(&copy, &tables, &mut report, arguments.work.style())
            .await
            .map(drop)?,
        Some(level) => {
            level
                .tables(&copy, &tables, &mut report, arguments.work.style())
                .await?;
            if arguments.table.is_none() {
                let known: Vec<&String> = tables.iter().chain(lacking.iter().map(|(name, _)| name)).collect();
                let is_known = |table: &String| known.iter().any(|known| known.eq_ignore_ascii_case(table));
                let others = level
                    .there()
                    .await?
                    .into_iter()
                    .filter(|table| is_selected(&selected, table));
                for table in others.filter(|table| !is_known(table)) {
                    report.note(format!(
                        "The table {table} was not there at that moment, or not in the archive. It stays as it is."
                    ));
                }
            }
        }
    }
    report.left_out.extend(lacking.iter().map(|(table, failure)| LeftOut {
        table: table.clone(),
        reason: failure.to_string(),
    }));
    if matches!(copy.target, Target::Database(_)) && report.sum().new_timestamps > 0 {
        report.note("--as-it-was leaves entities that are equal as they are, with their Timestamps.");
    }
    report.seconds = begin.elapsed().as_secs_f64();
    let interrupted = copy.stop.is_cancelled();
    if interrupted {
        report.note("Interrupted.");
    }
    print(arguments.work.json, "report", &report, &report.text());
    // Damage is the most that there is to say.
    let left_out = lacking.iter().map(|(_, failure)| failure.code).max();
    let left_out = left_out.or((!report.left_out.is_empty()).then_some(exit::FAILED));
    let undone = u64::from(lacks) + report.sum().rejected + report.sum().changed;
    Ok(match (interrupted, left_out, undone) {
        (true, ..) => exit::INTERRUPTED,
        (false, Some(code), _) => code,
        (false, None, 0) => exit::DONE,
        (false, None, _) => exit::REJECTED,
    })
}
