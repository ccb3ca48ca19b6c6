//! The copy.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use table_service_model::Ticks;

use crate::ends::databases::ChangeFeed;
use crate::ends::{Source, Target};
use crate::failure::{Failure, exit};
use crate::printable::tell;
use crate::records::{Journal, OnConflict, Report};
use crate::work::{CopyContext, Pace};

use super::arguments::CopyArguments;
use super::common::print;
use super::interrupt::{overdue, pause, stopped_by_signals};
use super::rounds::{again, each_table, round, told};
use super::verify::compare;
use super::{follow, policies};

/// How long a source may take to drop the feed of a copy that has failed.
const DROP_TIMEOUT: Duration = Duration::from_secs(10);
/// The least time between the beginnings of two rounds that look for changes by Timestamps.
const ROUND: Duration = Duration::from_secs(1);

/// Copies tables, and returns the exit status.
pub async fn copy(arguments: &CopyArguments) -> Result<u8, Failure> {
    let mut feed = None;
    let done = copy_by(arguments, &mut feed).await;
    if let (Err(_), None, Some(feed)) = (&done, &arguments.resume, &feed) {
        // Nobody goes on with it. If it stays, the next run drops it.
        let _ = tokio::time::timeout(DROP_TIMEOUT, feed.drop()).await;
    }
    done
}

/// Copies, and follows by a feed if the source can have one.
async fn copy_by(arguments: &CopyArguments, feed: &mut Option<ChangeFeed>) -> Result<u8, Failure> {
    let ends = &arguments.ends;
    let (from, to) = (ends.from()?, ends.to()?);
    let mut source = ends.options.source(from, arguments.since)?;
    let target = ends.options.work.target(to)?;
    if let (Target::Files(files), true) = (&target, ends.options.work.json)
        && files.is_stream()
    {
        return Err(Failure::usage("--json and --to - both need standard output."));
    }
    check(arguments, &source, &target)?;
    check_two_ends(&source, &target).await?;
    let mut tables = ends.options.chosen(&source).await?;
    target.check_room(tables.len())?;
    if arguments.dry_run {
        return dry_run(arguments, &source, &target, &tables).await;
    }
    let job = json!({
        "from": source.name(),
        "to": target.name(),
        "on_conflict": arguments.on_conflict,
        "since": arguments.since.map(|since| since.to_string()),
    });
    let journal = Journal::open(arguments.resume.clone(), job)?;
    let mut report = Report {
        from: source.name(),
        to: target.name(),
        ..Report::default()
    };
    let begin = Instant::now();
    *feed = follow::begin(arguments, &target, &tables, &journal, &mut report).await?;
    if feed.is_some() {
        // The tables are copied as of the beginning of the feed, so in a later snapshot than the one of the list.
        source = ends.options.source(from, arguments.since)?;
    }
    if journal.started().is_none()
        && let Some(clock) = source.clock().await?
    {
        journal.set_started(clock);
    }
    let copy = Arc::new(CopyContext {
        readers: ends.options.work.concurrency,
        since: arguments.since,
        stop: stopped_by_signals(),
        pace: Pace::new(arguments.rate),
        ..CopyContext::new(
            source,
            target,
            arguments.on_conflict,
            arguments.rejects.open()?,
            journal,
        )
    });
    let interrupted = round(&copy, &tables, &mut report, ends.options.work.style()).await?;
    if arguments.follow.is_some() {
        report.require_all()?;
        copy.source.release().await;
    }
    let started = copy.journal.started();
    let first = copy;
    let mut last = first.clone();
    if let (false, Some(limit)) = (interrupted, arguments.follow) {
        let followed = async {
            match &*feed {
                Some(feed) => follow::follow(arguments, &first, feed, &mut tables, limit, &mut report).await,
                None => follow(arguments, &mut last, limit, &mut report).await,
            }
        };
        tokio::select! {
            followed = followed => followed?,
            // The copy waits for an end that is away.
            () = overdue(&first.stop) => {}
        }
    }
    let copy = last;
    report.seconds = begin.elapsed().as_secs_f64();
    report.notes.extend(copy.source.note().map(str::to_owned));
    let started = first.journal.started().or(started);
    report.started = started.map(|started| started.to_string());
    let interrupted = first.stop.is_cancelled();
    if let Some(feed) = feed
        && !(interrupted && first.journal.is_kept())
    {
        // Nobody reads it any more.
        drop_feed(feed, interrupted, &mut report).await?;
    }
    if interrupted {
        report.note(if first.journal.is_kept() {
            "Interrupted. The same command goes on where it was."
        } else {
            "Interrupted."
        });
        print(ends.options.work.json, "report", &report, &report.text());
        return Ok(exit::INTERRUPTED);
    }
    tables.retain(|table| report.left_out.iter().all(|left_out| left_out.table != *table));
    if arguments.with_policies {
        policies::copy(&copy.source, &copy.target, &tables, &mut report).await?;
    }
    if report.left_out.is_empty() {
        first.journal.remove();
    }
    print(ends.options.work.json, "report", &report, &report.text());
    if arguments.verify {
        let code = compare(ends, Some(tables), false, 100).await?;
        if code != exit::DONE {
            return Ok(code);
        }
    }
    Ok(match (report.left_out.is_empty(), report.sum().rejected) {
        (false, _) => exit::FAILED,
        (true, 0) => exit::DONE,
        (true, _) => exit::REJECTED,
    })
}

fn check(arguments: &CopyArguments, source: &Source, target: &Target) -> Result<(), Failure> {
    if arguments.follow.is_some() {
        if !matches!(
            arguments.on_conflict,
            OnConflict::Replace | OnConflict::Newer | OnConflict::Merge
        ) {
            return Err(Failure::usage(
                "--follow writes entities again that have changed, so it needs --on-conflict replace.",
            ));
        }
        if matches!(source, Source::Files(_)) || matches!(target, Target::Files(_)) {
            return Err(Failure::usage("--follow is for a service or a database on both sides."));
        }
        let may_have_feed = matches!(source, Source::Database(_)) && arguments.since.is_none();
        if arguments.on_conflict == OnConflict::Newer && !may_have_feed {
            return Err(Failure::usage(follow::NEWER_NEEDS_A_FEED));
        }
    }
    target.check_conflicts(arguments.on_conflict)?;
    match target {
        Target::Files(files) if files.is_stream() && arguments.resume.is_some() => {
            Err(Failure::usage("A copy to standard output cannot be resumed."))
        }
        _ => Ok(()),
    }
}

/// A service or a database that is copied to itself gains nothing, and a copy that follows it would read its own writes
/// for ever, or empty its source. In a directory there may be files of another format.
async fn check_two_ends(source: &Source, target: &Target) -> Result<(), Failure> {
    if matches!(source, Source::Files(_)) || matches!(target, Target::Files(_)) {
        return Ok(());
    }
    let (from, to) = (source.name(), target.name());
    if from == to {
        return Err(Failure::usage(format!("--from and --to are the same: {from}.")));
    }
    if let (Source::Database(source), Target::Database(target)) = (source, target)
        && let Some(identity) = source.database.identity().await?
        && target.identity().await?.as_ref() == Some(&identity)
    {
        return Err(Failure::usage(format!(
            "--from and --to are the same database: {from} and {to}."
        )));
    }
    Ok(())
}

/// Drops the feed of a copy that has ended. If it was told to stop, it does not wait for a source that is away.
async fn drop_feed(feed: &ChangeFeed, interrupted: bool, report: &mut Report) -> Result<(), Failure> {
    if !interrupted {
        return feed.drop().await;
    }
    match tokio::time::timeout(DROP_TIMEOUT, feed.drop()).await {
        Ok(dropped) => dropped,
        Err(_) => {
            report.note(format!(
                "The source is away, so the change feed {} is still there: drop it, or the source keeps its log.",
                feed.name
            ));
            Ok(())
        }
    }
}

/// Copies changes, round after round, until one takes less than `limit` seconds, or until it is told to stop. `last`
/// becomes the last round, and the journal of the first one knows when it began.
async fn follow(
    arguments: &CopyArguments,
    last: &mut Arc<CopyContext>,
    limit: f64,
    report: &mut Report,
) -> Result<(), Failure> {
    let first = last.clone();
    while !first.stop.is_cancelled() {
        let begin = Instant::now();
        let (next, started) = follow_once(arguments, last, first.journal.started(), report).await?;
        *last = next;
        if let Some(started) = started {
            first.journal.set_started(started);
            first.journal.save()?;
        }
        let took = begin.elapsed();
        if took.as_secs_f64() < limit {
            break;
        }
        // Each round looks through all entities again.
        pause(ROUND.saturating_sub(took).as_secs_f64(), &first.stop).await;
    }
    Ok(())
}

/// Copies the changes since an earlier round began. Returns the round, and when it began unless it was stopped.
async fn follow_once(
    arguments: &CopyArguments,
    before: &Arc<CopyContext>,
    started: Option<Ticks>,
    report: &mut Report,
) -> Result<(Arc<CopyContext>, Option<Ticks>), Failure> {
    let ends = &arguments.ends;
    let overlap = i64::from(arguments.overlap) * 10_000_000;
    let since = started
        .and_then(|started| Ticks::new(started.get() - overlap))
        .filter(|since| since.is_datetime())
        .ok_or_else(|| Failure::new("The source does not show its clock, so it cannot be followed."))?;
    let copy = again(arguments, before, Some(since))?;
    // The clock of the source: changes from now on are for the next round.
    let clock = copy.source.clock().await?;
    let tables = ends.options.chosen(&copy.source).await?;
    let stopped = round(&copy, &tables, report, ends.options.work.style()).await?;
    report.require_all()?;
    copy.source.release().await;
    Ok((copy, clock.filter(|_| !stopped)))
}

async fn dry_run(
    arguments: &CopyArguments,
    source: &Source,
    target: &Target,
    tables: &[String],
) -> Result<u8, Failure> {
    let json = arguments.ends.options.work.json;
    let header = format!("From {} to {}: {} tables.", source.name(), target.name(), tables.len());
    if !json {
        tell(&header);
    }
    let left_out = each_table(tables, async |table| {
        let (entities, bytes) = source.estimate(table).await?;
        let there = target.has(table).await?;
        let plan = serde_json::json!({
            "table": table, "entities": entities, "bytes": bytes, "target_has_table": there,
            "ranges": source.ranges(table, arguments.ends.options.work.concurrency).await?.len(),
        });
        let count = |count: Option<u64>, unit: &str| match count {
            Some(count) => format!("about {count} {unit}"),
            None => format!("an unknown number of {unit}"),
        };
        let action = match there {
            Some(true) => "the target has it",
            Some(false) => "the target gets a new one",
            None => "written to standard output",
        };
        let text = format!(
            "{table}: {}, {}; {action}",
            count(entities, "entities"),
            count(bytes, "bytes")
        );
        print(json, "plan", &plan, &text);
        Ok(())
    });
    Ok(told(json, &left_out.await?, exit::DONE))
}
