//! Rounds of a copy: all tables once, and once more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use table_service_model::Ticks;

use crate::cli::CopyArguments;
use crate::failure::Failure;
use crate::interrupt::overdue;
use crate::peer::Target;
use crate::pipeline::{CopyContext, Pace, copy_table};
use crate::progress::{Counters, Progress, Style};
use crate::report::Report;
use crate::resume::{Job, Journal};

/// Copies all tables once. Returns whether it was interrupted.
pub async fn round(
    copy: &Arc<CopyContext>,
    tables: &[String],
    report: &mut Report,
    style: Style,
) -> Result<bool, Failure> {
    tokio::select! {
        interrupted = copy_tables(copy, tables, report, style) => interrupted,
        () = overdue(&copy.stop) => {
            copy.journal.save()?;
            Ok(true)
        }
    }
}

/// Copies one table after the other. Returns whether it was interrupted.
async fn copy_tables(
    copy: &Arc<CopyContext>,
    tables: &[String],
    report: &mut Report,
    style: Style,
) -> Result<bool, Failure> {
    let _progress = Progress::start(style, copy.counters.clone());
    for table in tables {
        if let Ok((Some(entities), _)) = copy.source.estimate(table).await {
            Counters::add(&copy.counters.expected, entities);
        }
    }
    for table in tables {
        if copy.journal.is_done(table) {
            continue;
        }
        let done = copy_table(copy, table).await;
        if done.is_err() && !matches!(copy.target, Target::Files(_)) {
            // What is written stays written; a file goes on at its last checkpoint.
            copy.journal.save()?;
        }
        report.add(done?);
        if copy.stop.load(Ordering::Relaxed) {
            return Ok(true);
        }
        copy.journal.save()?;
    }
    Ok(false)
}

/// Another round of a copy: all entities, or those that have changed since a moment.
pub fn again(
    arguments: &CopyArguments,
    before: &Arc<CopyContext>,
    since: Option<Ticks>,
) -> Result<Arc<CopyContext>, Failure> {
    let places = &arguments.places;
    let source = places.options.source(places.from()?, since)?;
    let job = Job::Copy {
        from: source.name(),
        to: before.target.name(),
        on_conflict: arguments.on_conflict,
        since: since.map(|since| since.to_string()),
    };
    Ok(Arc::new(CopyContext {
        source,
        target: places.options.work.target(places.to()?)?,
        mode: before.mode,
        readers: before.readers,
        since,
        pace: Pace::new(arguments.rate),
        counters: before.counters.clone(),
        room: before.room.clone(),
        rejects: arguments.rejects.open()?,
        journal: Journal::open(None, job)?,
        stop: before.stop.clone(),
    }))
}
