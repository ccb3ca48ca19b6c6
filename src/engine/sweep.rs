//! Removes entities that have expired. Nobody sees them any more; this gives their room back.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;

use pgrx::pg_sys;
use pgrx::pg_sys::panic::CaughtError;
use table_service_model::Error;

use super::direct::reads_every_row;
use super::expiry::Expiries;
use super::table::{Table, TableLock};
use crate::postgres::clock::now;
use crate::postgres::indexes::{of_table, oldest};
use crate::postgres::raised::{is_cancel, message};
use crate::postgres::spi::{connect, with_new_snapshot};
use crate::postgres::statement::IndexScan;
use crate::postgres::subtransaction::in_subtransaction;
use crate::postgres::visit::{Refused, owner_has_rights_of_caller, visit};

/// What a sweep of a table has done.
pub struct Swept {
    pub deleted: u64,
    /// Whether there was more than the sweep might delete.
    pub more: bool,
    /// Entities that expired before this moment are gone, but those that others had locked, and those that a trigger or a policy
    /// keeps. In microseconds since 2000-01-01; `None` if that is not known.
    pub oldest: Option<i64>,
    /// Why nothing was deleted, if the sweep was refused or failed.
    pub reason: Option<String>,
}

/// `-infinity`.
pub const BEGINNING: i64 = i64::MIN;

/// Sweeps the table that the caller has named, as the caller. Returns `None` if it has no expiry any more.
///
/// # Errors
/// As of [`Table::open`].
pub fn sweep_named(table: &Table, top: u64, since: i64) -> Result<Option<Swept>, Error> {
    let table = Table::open(table.name().name(), TableLock::Write)?;
    if Expiries::of(&table).is_empty() {
        return Ok(None);
    }
    Ok(sweep(&table, top, since, None).ok())
}

/// Sweeps a table as its owner, or returns `None` if there is nothing to do: the caller may not, somebody has locked the table, it is
/// gone, or its entities do not expire.
///
/// The caller may not have chosen the table, so neither its code nor its errors reach the caller ([`visit`]). Policies would have to run
/// with the caller's rights, so a table whose policies apply to the caller is refused, unless its owner has these rights.
pub fn sweep_as_owner(table: &Table, top: u64, since: i64) -> Option<Swept> {
    if !table.may_be_swept() || table.is_distributed() {
        return None;
    }
    // Whoever has the locks on entities of some tables waits for no other table.
    let table = &table.try_lock(TableLock::Write)?;
    if Expiries::of(table).is_empty() {
        return None;
    }
    let left = |oldest, reason| Swept {
        deleted: 0,
        more: true,
        oldest,
        reason: Some(reason),
    };
    let reads_every_row = reads_every_row(table).is_some();
    if !reads_every_row && !owner_has_rights_of_caller(table.oid()) {
        let reason =
            "policies of the table apply to the role that sweeps, so its owner has to sweep it by its name".to_owned();
        return Some(left(None, reason));
    }
    let until = now();
    let first = with_new_snapshot(|| reads_every_row.then(|| oldest_of_all(table)).flatten());
    if first.is_some_and(|first| first.is_none_or(|first| first > until)) {
        return Some(Swept {
            deleted: 0,
            more: false,
            oldest: Some(until),
            reason: None,
        });
    }
    let reason = match apart(|| visit(table.oid(), |relations| sweep(table, top, since, Some(relations)))) {
        Ok(Ok(swept)) => return Some(swept),
        Ok(Err(refused)) => refused.0,
        Err(error) => message(&error).to_owned(),
    };
    Some(left(first.flatten(), reason))
}

/// Returns when the entity of a table that expires first does or did so, in microseconds since 2000-01-01. The inner `None` says that
/// none expires; `None` if that cannot be told now.
fn oldest_of_all(table: &Table) -> Option<Option<i64>> {
    let mut first = None;
    for index in of_table(table.oid()).expiries.iter().filter(|index| index.is_valid) {
        first = first.into_iter().chain(oldest(table.oid(), index)?).min();
    }
    Some(first)
}

/// Runs work whose error undoes nothing else. A cancel is none.
fn apart<R>(work: impl Fn() -> R) -> Result<R, Box<CaughtError>> {
    let outcome = in_subtransaction(AssertUnwindSafe(|| Ok::<R, Infallible>(work())));
    match outcome {
        Ok(Ok(done)) => Ok(done),
        Err(error) if is_cancel(&error) => error.rethrow(),
        Err(error) => Err(error),
    }
}

/// Removes at most `top` of the entities of a table that have expired since a moment, those first that expired first. It leaves
/// those that others have locked, so that it waits for nobody.
///
/// # Errors
/// If the table's name leads to another relation than `only_on`, if that is given.
fn sweep(table: &Table, top: u64, since: i64, only_on: Option<&[pg_sys::Oid]>) -> Result<Swept, Refused> {
    let until = now();
    let mut oldest = until;
    let mut swept = Swept {
        deleted: 0,
        more: false,
        oldest: None,
        reason: None,
    };
    for expiry in Expiries::of(table).iter() {
        let left = top.saturating_sub(swept.deleted);
        let scan = IndexScan::sweep(table.name(), expiry, (since, until), left);
        let (deleted, found, last) = connect(|spi| {
            let rows = match only_on {
                None => spi.run_by_index(table.name(), &scan),
                Some(relations) => spi.run_on(&scan, relations).ok_or_else(|| {
                    Refused("the name of the table leads to another one: its schema has been exchanged".to_owned())
                })?,
            };
            let row = rows.first();
            let count = |column| row.as_ref().and_then(|row| row.int8(column)).unwrap_or_default();
            let last = row.as_ref().and_then(|row| row.timestamptz(3));
            Ok((count(1), count(2), last))
        })?;
        swept.deleted += u64::try_from(deleted).unwrap_or_default();
        if u64::try_from(found).is_ok_and(|found| found >= left) {
            swept.more = true;
            let last = last.unwrap_or(since);
            // If it could delete none of them, the next sweep goes on behind them. Else no sweep would come further.
            let next = if deleted == 0 && left > 0 {
                last.saturating_add(1)
            } else {
                last
            };
            oldest = oldest.min(next);
        }
    }
    swept.oldest = Some(oldest);
    Ok(swept)
}

/// Removes all entities of a table that have expired by now. Returns false if some are still there: a trigger or a rule keeps them.
pub fn sweep_all(table: &Table) -> bool {
    let until = now();
    let expiries = Expiries::of(table);
    for expiry in expiries.iter() {
        let scan = IndexScan::sweep_all(table.name(), expiry, until);
        connect(|spi| spi.run_by_index(table.name(), &scan).processed());
    }
    expiries.iter().all(|expiry| {
        let scan = IndexScan::expired(table.name(), expiry, until);
        connect(|spi| spi.run_by_index(table.name(), &scan).first().is_none())
    })
}
