//! Removes entities that have expired. Nobody sees them any more; this gives their room back.

use std::cell::Cell;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use table_service_model::Error;
use table_service_model::expiry::Expiry;

use super::direct::reads_every_row;
use super::expiry::Expiries;
use super::table::{Table, TableLock};
use crate::postgres::clock::now;
use crate::postgres::owner::{caller, has_rights_of_caller, owner, runs_only_code_of, with_rights_of};
use crate::postgres::raised::{is_cancel, warn};
use crate::postgres::spi::connect;
use crate::postgres::statement::{IndexScan, expiry_expression};
use crate::postgres::subtransaction::in_subtransaction;

/// What a sweep of a table has done.
pub struct Swept {
    pub deleted: u64,
    /// Whether there was more than the sweep might delete.
    pub more: bool,
    /// Entities that expired before this moment are gone, but those that others had locked, and those that a trigger or a policy
    /// keeps. In microseconds since 2000-01-01; `None` if that is not known.
    pub oldest: Option<i64>,
}

/// `-infinity`.
pub const BEGINNING: i64 = i64::MIN;

/// Sweeps the table that the caller has named, as the caller. Returns `None` if it has no expiry any more.
///
/// # Errors
/// As of [`Table::open`].
pub fn sweep_named(table: &Table, top: u64, since: i64) -> Result<Option<Swept>, Error> {
    let table = Table::open(table.name().name(), TableLock::Write)?;
    Ok((!Expiries::of(&table).is_empty()).then(|| sweep(&table, top, since)))
}

/// Sweeps one of all tables, or returns `None` if it is not to be swept: the caller may not, somebody has locked it, or it is gone.
///
/// The caller has not chosen the table, so neither its code nor its errors reach the caller. Code runs with the rights of the table's
/// owner, unless that role has the caller's rights anyway; if others have put code there, nothing is deleted. Policies would have to
/// run with the caller's rights, so then the table is left out. An error is a warning, and the next tables are swept.
pub fn sweep_one_of_all(table: &Table, top: u64, since: i64) -> Option<Swept> {
    if !table.may_be_swept() || table.is_distributed() {
        return None;
    }
    // Whoever has the locks on entities of some tables waits for no other table.
    let table = &table.try_lock(TableLock::Write)?;
    let expiries = Expiries::of(table);
    if expiries.is_empty() || !runs_no_foreign_policy(table) {
        return None;
    }
    let owner = owner(table.oid());
    let (as_owner, user) = match has_rights_of_caller(owner) {
        true => (false, caller()),
        false => (true, owner),
    };
    let with_its_rights = |work: &dyn Fn() -> Swept| match as_owner {
        true => with_rights_of(owner, work),
        false => work(),
    };
    let has_foreign_code = Cell::new(false);
    let attempt = || {
        if !runs_only_code_of(user, table.oid()) {
            has_foreign_code.set(true);
            foreign_code();
        }
        with_its_rights(&|| sweep(table, top, since))
    };
    let error = match apart(attempt) {
        Ok(swept) => return Some(swept),
        Err(error) => error,
    };
    let name = table.name().name();
    let lead = format!("Entities of the table \"{name}\" that have expired are still stored");
    let call = format!("table_service.expire_entities('{name}')");
    let hint = if as_owner {
        format!("A sweep of all tables has the rights of the table's owner. As the owner, call {call}.")
    } else if has_foreign_code.get() {
        format!("If you trust those who own it, its partitions and its triggers, call {call}.")
    } else {
        format!("Nobody sees them. They stay until this error has gone; {call} raises it with its details.")
    };
    warn(&error, &lead, &hint);
    let left = |oldest| Swept {
        deleted: 0,
        more: true,
        oldest,
    };
    // What prevents the sweep may prevent this too.
    let look = || left(expiries.iter().filter_map(|expiry| oldest(table, expiry)).min());
    Some(apart(|| with_its_rights(&look)).unwrap_or_else(|_| left(None)))
}

/// Raises the error for a table that runs code of somebody who has fewer rights than the sweep.
fn foreign_code() -> ! {
    ereport!(
        ERROR,
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        "a partition or a trigger of the table belongs to a role that has fewer rights than the sweep"
    );
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

/// Returns whether a read of the table runs no policy of somebody who has fewer rights than the caller.
pub fn runs_no_foreign_policy(table: &Table) -> bool {
    reads_every_row(table).is_some() || has_rights_of_caller(owner(table.oid()))
}

/// Removes at most `top` of the entities of a table that have expired since a moment, those first that expired first. It leaves
/// those that others have locked, so that it waits for nobody.
fn sweep(table: &Table, top: u64, since: i64) -> Swept {
    let until = now();
    let mut oldest = until;
    let mut swept = Swept {
        deleted: 0,
        more: false,
        oldest: None,
    };
    for expiry in Expiries::of(table).iter() {
        let left = top.saturating_sub(swept.deleted);
        let scan = IndexScan::sweep(table.name(), expiry, (since, until), left);
        let (deleted, found, last) = connect(|spi| {
            let rows = spi.run_by_index(table.name(), &scan);
            let row = rows.first();
            let count = |column| row.as_ref().and_then(|row| row.int8(column)).unwrap_or_default();
            let last = row.as_ref().and_then(|row| row.timestamptz(3));
            (count(1), count(2), last)
        });
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
    swept
}

/// Returns when the entity of a table that expires first does or did so, of those that the caller sees. In microseconds since
/// 2000-01-01.
pub fn oldest(table: &Table, expiry: &Expiry) -> Option<i64> {
    let moment = expiry_expression("t.", expiry);
    let sql = format!(
        "SELECT {moment} FROM {} AS t WHERE {moment} IS NOT NULL ORDER BY {moment} LIMIT 1",
        table.name()
    );
    connect(|spi| spi.read(&sql, &[]).first().and_then(|row| row.timestamptz(1)))
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
