//! Rounds of a copy: all tables once, and once more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::Value;
use table_service_model::Ticks;

use crate::ends::Target;
use crate::failure::{Failure, exit};
use crate::records::{Journal, LeftOut, Progress, Report, Style};
use crate::work::{CopyContext, Pace, copy_table};

use super::arguments::CopyArguments;
use super::common::print;
use super::interrupt::overdue;

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

/// Does something with one table after the other. A failure that is a matter of one table does not stop the others.
/// Returns the tables that were left out.
///
/// # Errors
/// A failure that is no matter of one table.
pub async fn each_table(
    tables: &[String],
    mut work: impl AsyncFnMut(&str) -> Result<(), Failure>,
) -> Result<Vec<LeftOut>, Failure> {
    let mut left_out = Vec::new();
    for table in tables {
        match work(table).await {
            Err(failure) if failure.is_of_table => left_out.push(LeftOut {
                table: table.clone(),
                reason: failure.to_string(),
            }),
            done => done?,
        }
    }
    Ok(left_out)
}

/// Prints which tables were left out. Returns the exit status, which is another one without any.
pub fn told(json: bool, left_out: &[LeftOut], otherwise: u8) -> u8 {
    for left_out in left_out {
        print(json, "left_out", left_out, &left_out.text());
    }
    if left_out.is_empty() { otherwise } else { exit::FAILED }
}

/// Copies one table after the other. Returns whether it was interrupted.
async fn copy_tables(
    copy: &Arc<CopyContext>,
    tables: &[String],
    report: &mut Report,
    style: Style,
) -> Result<bool, Failure> {
    let _progress = Progress::start(style, copy.counters.clone());
    let mut served = Vec::new();
    let left_out = each_table(tables, async |table| {
        if copy.journal.is_done(table) {
            return Ok(());
        }
        if let (Some(entities), _) = copy.source.estimate(table).await? {
            copy.counters.expected.fetch_add(entities, Ordering::Relaxed);
        }
        served.push(table.to_owned());
        Ok(())
    });
    report.left_out = left_out.await?;
    let left_out = each_table(&served, async |table| {
        if copy.stop.is_cancelled() {
            return Ok(());
        }
        let done = copy_table(copy, table).await;
        if done.is_err() && !matches!(copy.target, Target::Files(_)) {
            // Written entities stay written; a file goes on at its last checkpoint.
            copy.journal.save()?;
        }
        report.add(done?);
        match copy.stop.is_cancelled() {
            true => Ok(()),
            false => copy.journal.save(),
        }
    });
    let left_out = left_out.await?;
    report.left_out.extend(left_out);
    Ok(copy.stop.is_cancelled())
}

/// Another round of a copy: all entities, or those that have changed since a moment.
pub fn again(
    arguments: &CopyArguments,
    before: &Arc<CopyContext>,
    since: Option<Ticks>,
) -> Result<Arc<CopyContext>, Failure> {
    let ends = &arguments.ends;
    let source = ends.options.source(ends.from()?, since)?;
    let (rejects, journal) = (arguments.rejects.open()?, Journal::open(None, Value::Null)?);
    let target = ends.options.work.target(ends.to()?)?;
    Ok(Arc::new(CopyContext {
        mode: before.mode,
        readers: before.readers,
        since,
        pace: Pace::new(arguments.rate),
        counters: before.counters.clone(),
        room: before.room.clone(),
        stop: before.stop.clone(),
        ..CopyContext::new(source, target, arguments.on_conflict, rejects, journal)
    }))
}
