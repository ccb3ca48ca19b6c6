//! The commands `delete` and `count`.

use std::io::{BufRead, IsTerminal};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::json;

use crate::ends::Source;
use crate::failure::{Failure, exit};
use crate::printable::tell;
use crate::records::{Counters, Journal, Progress, Selection};
use crate::work::{Bulk, Delete, DeleteReport, Pace};

use super::arguments::{CountArguments, DeleteArguments, OneEnd};
use super::common::{answer, from_of, print};
use super::interrupt::{overdue, stopped_by_signals};
use super::rounds::{each_table, told};

/// A number that somebody types.
const LONGEST_ANSWER: u64 = 100;

impl OneEnd {
    /// Returns the work here, and the chosen tables.
    async fn bulk(&self, filter: Option<&str>) -> Result<(Arc<Bulk>, Vec<String>), Failure> {
        let selection = Selection::read(filter)?;
        let from = from_of(self.from.as_ref())?;
        // The snapshot in which a database lists its tables ends with this.
        let tables = self.options.chosen(&self.options.source(from, None)?).await?;
        let bulk = Arc::new(Bulk {
            source: self.options.source(from, None)?,
            selection,
            readers: self.options.work.concurrency,
            counters: Arc::default(),
        });
        Ok((bulk, tables))
    }

    async fn count(&self, bulk: &Arc<Bulk>, table: &str) -> Result<u64, Failure> {
        let _progress = Progress::start(self.options.work.style(), bulk.counters.clone());
        bulk.count(table).await
    }
}

/// Counts entities, and returns the exit status.
pub async fn count(arguments: &CountArguments) -> Result<u8, Failure> {
    let end = &arguments.end;
    let (bulk, tables) = end.bulk(arguments.filter.as_deref()).await?;
    let left_out = each_table(&tables, async |table| {
        let entities = end.count(&bulk, table).await?;
        let counted = serde_json::json!({ "table": table, "entities": entities });
        answer(
            end.options.work.json,
            "count",
            &counted,
            &format!("{table}: {entities} entities"),
        );
        Ok(())
    });
    Ok(told(end.options.work.json, &left_out.await?, exit::DONE))
}

/// Deletes entities, and returns the exit status.
pub async fn delete(arguments: &DeleteArguments) -> Result<u8, Failure> {
    let options = &arguments.end.options;
    if arguments.filter.trim().is_empty() {
        return Err(Failure::usage("--filter is empty. All entities pass the filter true."));
    }
    if options.tables.len() != 1 {
        return Err(Failure::usage("Name the one table to delete from with --table."));
    }
    let may_ask = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !arguments.yes && !arguments.dry_run && !may_ask {
        return Err(Failure::usage(
            "There is no terminal to ask for the number of entities. --yes deletes without a question, --dry-run only counts.",
        ));
    }
    let (bulk, tables) = arguments.end.bulk(Some(&arguments.filter)).await?;
    if let Source::Files(_) = bulk.source {
        return Err(Failure::usage(
            "delete is for a service or a database, and this is a file. A copy of what is to stay makes a new one.",
        ));
    }
    let Some(table) = tables.into_iter().next() else {
        return Err(Failure::usage("Name the one table to delete from with --table."));
    };
    if arguments.dry_run {
        let entities = arguments.end.count(&bulk, &table).await?;
        let plan = serde_json::json!({ "table": table, "entities": entities });
        print(
            options.work.json,
            "plan",
            &plan,
            &format!("{table}: {entities} entities would be deleted"),
        );
        return Ok(exit::DONE);
    }
    if !arguments.yes {
        let entities = arguments.end.count(&bulk, &table).await?;
        confirm(&bulk.source.name(), &table, entities).await?;
        bulk.counters.restart(entities);
    }
    run(arguments, bulk, table).await
}

/// Asks for the number of entities.
async fn confirm(from: &str, table: &str, entities: u64) -> Result<(), Failure> {
    tell(&format!(
        "{from}: the filter selects {entities} entities of {table}. Type this number to delete them:"
    ));
    let typed = tokio::task::spawn_blocking(|| {
        let mut typed = String::new();
        let stdin = std::io::stdin().lock();
        std::io::Read::take(stdin, LONGEST_ANSWER)
            .read_line(&mut typed)
            .map(|_| typed)
    });
    let typed = typed.await.map_err(|error| Failure::new(error.to_string()))?;
    if typed.is_ok_and(|typed| typed.trim() == entities.to_string()) {
        return Ok(());
    }
    Err(Failure::new("This is not the number. Nothing was deleted."))
}

async fn run(arguments: &DeleteArguments, bulk: Arc<Bulk>, table: String) -> Result<u8, Failure> {
    let options = &arguments.end.options;
    let job = json!({ "delete_from": bulk.source.name(), "table": table, "filter": arguments.filter });
    let (begin, counters): (Instant, Arc<Counters>) = (Instant::now(), bulk.counters.clone());
    let delete = Arc::new(Delete {
        report: Mutex::new(DeleteReport {
            from: bulk.source.name(),
            table: table.clone(),
            ..DeleteReport::default()
        }),
        bulk,
        pace: Pace::new(arguments.rate),
        rejects: arguments.rejects.open()?,
        journal: Journal::open(arguments.resume.clone(), job)?,
        stop: stopped_by_signals(),
    });
    let progress = Progress::start(options.work.style(), counters);
    let done = tokio::select! {
        done = delete.table(&table) => done,
        () = overdue(&delete.stop) => delete.journal.save(),
    };
    drop(progress);
    let mut report = delete.report.lock().clone();
    report.seconds = begin.elapsed().as_secs_f64();
    let interrupted = delete.stop.is_cancelled();
    if interrupted {
        report.notes.push(if delete.journal.is_kept() {
            "Interrupted. The same command goes on where it was.".to_owned()
        } else {
            "Interrupted. The same command deletes what is left.".to_owned()
        });
    }
    // Deleted entities stay deleted, also if an error ended the work.
    if done.is_ok() || report.outcome.read > 0 {
        print(options.work.json, "report", &report, &report.text());
    }
    done?;
    if interrupted {
        return Ok(exit::INTERRUPTED);
    }
    delete.journal.remove();
    Ok(if report.outcome.rejected > 0 {
        exit::REJECTED
    } else {
        exit::DONE
    })
}
