//! Removes entities that have expired. No function returns them any more; the sweep frees their space.

use std::collections::BTreeMap;
use std::convert::Infallible;

use pgrx::pg_sys;
use table_service_model::Error;

use crate::postgres::privileges::has_all;
use crate::postgres::raised::is_cancel;
use crate::postgres::spi::run_on;
use crate::postgres::visit::{refuse_foreign_code_of_shards, visit};
use crate::postgres::{
    Array, Refused, Text, Value, connect, in_subtransaction, message, now, rethrow, with_new_snapshot,
};
use crate::storage::direct::reads_every_row;
use crate::storage::expired::{Removal, Removed, deletes_run_nothing, oldest, parts, remove};
use crate::storage::expiry::Expiries;
use crate::storage::indexes::of_table;
use crate::storage::known::ExpiryIndex;
use crate::storage::property_index::Part;
use crate::storage::statement::{IndexScan, Statement};
use crate::storage::table::{Table, TableLock};

/// The result of a sweep of a table.
pub struct Swept {
    pub deleted: u64,
    /// Whether there were more entities than the sweep might delete.
    pub more: bool,
    /// Entities that expired before this moment are gone, except those that others had locked, and those that a trigger
    /// or a policy keeps. In microseconds since 2000-01-01; `None` if that is not known.
    pub oldest: Option<i64>,
    /// Why nothing was deleted, if the sweep was refused or failed.
    pub reason: Option<String>,
}

impl Swept {
    /// Makes the result of a sweep after which all entities are gone that had expired at a moment.
    fn new(until: i64) -> Swept {
        Swept {
            deleted: 0,
            more: false,
            oldest: Some(until),
            reason: None,
        }
    }

    /// Adds the numbers of entities that were found and deleted. If there are more, `last` is the moment of expiry of
    /// the last one that was found.
    fn add(&mut self, deleted: u64, found: u64, last: Option<i64>) {
        self.deleted += deleted;
        if let Some(last) = last {
            self.more = true;
            // If it could delete none of them, the next sweep goes on behind them. Else no sweep would come further.
            let are_kept = deleted == 0 && found > 0;
            self.oldest = self.oldest.min(Some(last.saturating_add(are_kept.into())));
        }
    }
}

/// `-infinity`.
pub const BEGINNING: i64 = i64::MIN;

/// Sweeps the table that the caller has named, as the caller. Returns `None` if it has no expiry any more.
///
/// # Errors
/// Those of [`Table::lock`].
pub fn sweep_named(table: &Table, top: u64, since: i64) -> Result<Option<Swept>, Error> {
    let table = table.lock(TableLock::Write)?;
    if Expiries::of(&table).is_empty() {
        return Ok(None);
    }
    Ok(Some(sweep(&table, top, since)))
}

/// Sweeps a table that the caller may not have chosen, or returns `None` if there is nothing to do: the caller lacks
/// privileges, somebody has locked the table, it is gone, or its entities do not expire.
///
/// Neither code that is stored with the table nor its errors reach the caller. If a delete runs none, no statement is
/// needed. Otherwise it runs with its owner's rights ([`visit`]). Policies that apply to the caller would run with the
/// caller's rights, so they count as such code. The entities of a distributed table are deleted by statements alone.
pub fn sweep_unnamed(table: &Table, top: u64, since: i64) -> Option<Swept> {
    // A look under a lock needs the right to change the rows that it finds.
    const RIGHTS: u32 = pg_sys::ACL_SELECT | pg_sys::ACL_UPDATE | pg_sys::ACL_DELETE;
    if !has_all(table.oid(), RIGHTS) {
        return None;
    }
    // A session that holds locks on entities of some tables waits for no other table.
    let table = &table.try_lock(TableLock::Write)?;
    if Expiries::of(table).is_empty() {
        return None;
    }
    let until = now();
    let reads_every_row = reads_every_row(table).is_some();
    let first = look(|| with_new_snapshot(|| reads_every_row.then(|| oldest_of_all(table)).flatten()));
    if first.is_some_and(|first| first.is_none_or(|first| first > until)) {
        return Some(Swept::new(until));
    }
    let window = (since, until);
    let runs_nothing = reads_every_row && deletes_run_nothing(table.oid());
    let work = || {
        if table.is_distributed() {
            return visit(table.oid(), |relations| {
                sweep_shards(table, window, top, Some(relations))
            });
        }
        // A part that is attached from now on has not been checked, and is left to the next sweep.
        let parts = parts_of_all(table)?;
        let mut all = parts.iter().flat_map(|(_, parts)| parts);
        match runs_nothing && all.all(|part| deletes_run_nothing(part.table)) {
            true => remove_all(table, &parts, window, top, None),
            false => visit(table.oid(), |relations| {
                remove_all(table, &parts, window, top, Some(relations))
            }),
        }
    };
    let reason = match in_subtransaction(work) {
        Ok(Ok(swept)) => return Some(swept),
        Ok(Err(refused)) => refused.0,
        Err(error) if is_cancel(&error) => rethrow(error),
        Err(error) => message(&error).to_owned(),
    };
    Some(Swept {
        deleted: 0,
        more: true,
        oldest: first.flatten(),
        reason: Some(reason),
    })
}

/// Returns the first moment of expiry in a table, in microseconds since 2000-01-01. The inner `None` says that no
/// entity expires; `None` if that cannot be told now.
fn oldest_of_all(table: &Table) -> Option<Option<i64>> {
    let mut first = None;
    for index in of_table(table.oid()).of_each_expiry() {
        first = first.into_iter().chain(oldest(table, &index)?).min();
    }
    Some(first)
}

/// Returns the first moment of expiry in a table, by an index that is in force, in microseconds since 2000-01-01.
/// `None` if none expires, or that cannot be told now. A statement asks the shards, if the caller has named the table.
pub fn first_expiry(table: &Table, index: &ExpiryIndex, is_named: bool) -> Option<i64> {
    match is_named && table.is_distributed() {
        true => {
            let scan = IndexScan::first_expiry(table.name(), &index.expiry);
            connect(|spi| spi.run_once(&scan).first()?.timestamptz(1))
        }
        false => oldest(table, index).flatten(),
    }
}

/// Locks the parts of a table that have entities, and returns them with each index that says when they expire.
///
/// # Errors
/// If another session has locked one.
fn parts_of_all(table: &Table) -> Result<Vec<(ExpiryIndex, Vec<Part>)>, Refused> {
    let parts_of = |index: ExpiryIndex| match parts(table, &index) {
        Some(parts) => Ok((index, parts)),
        None => Err(Refused(
            "another session has locked a partition, or a partition is no table of this server".to_owned(),
        )),
    };
    let indexes = of_table(table.oid()).of_each_expiry();
    indexes.into_iter().map(parts_of).collect()
}

/// Runs `f`, which only reads, and releases its locks. If it fails, it has read nothing. Only a cancel is raised again.
pub fn look<R: Default>(f: impl Fn() -> R) -> R {
    let outcome = in_subtransaction(|| Err::<Infallible, R>(f()));
    match outcome {
        Ok(Err(read)) => read,
        Err(error) if is_cancel(&error) => rethrow(error),
        Ok(Ok(_)) | Err(_) => R::default(),
    }
}

/// Removes at most `top` of the entities of a table that have expired in a window of time, in each part in the order of
/// their expiry. It skips entities that others have locked, so that it never waits.
///
/// With `code_of` a delete runs code: a statement deletes the locked entities, and names only these relations.
///
/// # Errors
/// If another session has locked an index, an index is younger than the snapshot, or the table's name leads elsewhere.
fn remove_all(
    table: &Table,
    indexes: &[(ExpiryIndex, Vec<Part>)],
    (since, until): (i64, i64),
    top: u64,
    code_of: Option<&[pg_sys::Oid]>,
) -> Result<Swept, Refused> {
    let removal = match code_of {
        None => Removal::Delete,
        Some(_) => Removal::Lock,
    };
    let (mut swept, mut left) = (Swept::new(until), top);
    for (index, parts) in indexes {
        for (number, part) in (0..).zip(parts) {
            // Every part gets its share, else one with many expired entities would keep the others from being swept.
            let share = left.div_ceil(parts.len() as u64 - number);
            let removed = with_new_snapshot(|| remove(*part, &index.expiry, (since, until), share, removal));
            let Some(removed) = removed else {
                return Err(Refused(
                    "another session has locked the index of its expiry, or this transaction is older than the index"
                        .to_owned(),
                ));
            };
            let deleted = match code_of {
                None => removed.count,
                Some(relations) => delete_positions(table, part, &removed, relations)?,
            };
            left -= removed.count;
            swept.add(
                deleted,
                removed.count,
                removed.more.then(|| removed.last.unwrap_or(since)),
            );
        }
    }
    Ok(swept)
}

/// Deletes the entities of a part that this transaction has locked, and returns how many are gone: a trigger or a policy can keep some.
///
/// # Errors
/// If the table's name leads to another relation.
fn delete_positions(table: &Table, part: &Part, removed: &Removed, relations: &[pg_sys::Oid]) -> Result<u64, Refused> {
    if removed.positions.is_empty() {
        return Ok(0);
    }
    let sql = format!(
        "DELETE FROM {} AS t WHERE t.ctid OPERATOR(pg_catalog.=) ANY ($1) AND t.tableoid OPERATOR(pg_catalog.=) $2 RETURNING 1",
        table.name()
    );
    let positions = Array::of_positions(&removed.positions);
    run_on(&sql, &[positions.value(), Value::oid(part.table)], relations).ok_or_else(leads_elsewhere)
}

/// How many entities of a distributed table are found at once. Their keys are in memory.
const FOUND_AT_ONCE: u64 = 100_000;

/// Removes at most `top` of the entities of a distributed table that have expired in a window of time, in the order of
/// their expiry: one statement finds them in all shards, and one for each partition deletes those that have not changed
/// since. It waits for sessions that write one of them.
///
/// If `relations` are given, names must lead to these alone, and no code of others may be in the shards.
///
/// # Errors
/// If names lead elsewhere, or there is such code.
fn sweep_shards(
    table: &Table,
    window: (i64, i64),
    top: u64,
    relations: Option<&[pg_sys::Oid]>,
) -> Result<Swept, Refused> {
    let (mut swept, top) = (Swept::new(window.1), top.min(FOUND_AT_ONCE));
    for expiry in Expiries::of(table).iter() {
        let left = top.saturating_sub(swept.deleted);
        let scan = IndexScan::find_expired(table.name(), expiry, window, left);
        connect(|spi| {
            let rows = spi.read_once_on(&scan, relations).ok_or_else(leads_elsewhere)?;
            if relations.is_some() && rows.first().is_some() {
                refuse_foreign_code_of_shards(&table.name().to_string())?;
            }
            let mut partitions: BTreeMap<&str, Vec<(&str, i64)>> = BTreeMap::new();
            let (mut found, mut deleted, mut last) = (0, 0, None);
            for row in rows.iter() {
                if let (Some(partition_key), Some(row_key), Some(timestamp)) =
                    (row.text(1), row.text(2), row.timestamptz(3))
                {
                    let entities = partitions.entry(partition_key.get()).or_default();
                    entities.push((row_key.get(), timestamp));
                }
                (found, last) = (found + 1, row.timestamptz(4));
            }
            for (partition_key, mut entities) in partitions {
                entities.sort_unstable();
                let partition_key = Text::new(partition_key);
                let keys = Array::of_texts(entities.iter().map(|&(row_key, _)| row_key));
                let versions = Array::of_timestamps(entities.iter().map(|&(_, timestamp)| timestamp));
                let delete = Statement::delete_many(partition_key.value(), &keys, Some(&versions));
                deleted += spi
                    .run_on(table.name(), &delete, relations)
                    .ok_or_else(leads_elsewhere)?;
            }
            swept.add(deleted, found, (found >= left).then(|| last.unwrap_or(window.0)));
            Ok(())
        })?;
    }
    Ok(swept)
}

fn leads_elsewhere() -> Refused {
    Refused("the name of the table leads to another one, because its schema has been exchanged, or a rule or a policy changes what a delete does".to_owned())
}

/// Removes at most `top` of the entities of a table that have expired since a moment, in the order of their expiry, by
/// statements. It skips entities that others have locked, so that it never waits.
fn sweep(table: &Table, top: u64, since: i64) -> Swept {
    let until = now();
    if table.is_distributed()
        && let Ok(swept) = sweep_shards(table, (since, until), top, None)
    {
        return swept;
    }
    let mut swept = Swept::new(until);
    for expiry in Expiries::of(table).iter() {
        let left = top.saturating_sub(swept.deleted);
        let scan = IndexScan::sweep(table.name(), expiry, (since, until), left);
        let (deleted, found, last) = connect(|spi| {
            let rows = spi.run_by_index(table.name(), &scan);
            let row = rows.first();
            let count = |column| {
                row.as_ref()
                    .and_then(|row| row.int8(column))
                    .unwrap_or_default()
                    .unsigned_abs()
            };
            let last = row.as_ref().and_then(|row| row.timestamptz(3));
            (count(1), count(2), last)
        });
        swept.add(deleted, found, (found >= left).then(|| last.unwrap_or(since)));
    }
    swept
}

/// Removes all entities of a table that have expired by now. Returns false if some are still there: a trigger or a rule keeps them.
pub fn sweep_all(table: &Table) -> bool {
    let until = now();
    let expiries = Expiries::of(table);
    for expiry in expiries.iter() {
        let scan = IndexScan::sweep_all(table.name(), expiry, until);
        connect(|spi| spi.run_once(&scan).processed());
    }
    expiries.iter().all(|expiry| {
        let scan = IndexScan::expired(table.name(), expiry, until);
        connect(|spi| spi.run_once(&scan).first().is_none())
    })
}
