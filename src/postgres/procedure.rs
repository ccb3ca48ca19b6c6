//! Procedures that work in steps. Each step is a transaction of its own.

use std::time::{Duration, Instant};

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use table_service_model::Error;

use super::call::{Call, does_not_fit};
use super::descriptor::types_of;
use super::error::raise_with;
use super::memory::new_context;
use super::raised::{caught, has_sqlstate, rethrow_with};
use super::subtransaction::in_subtransaction;
use super::types::value::{Text, Value};
use super::types::{result, sql_type};
use super::waiting::wait;

/// How often a step is repeated after PostgreSQL has rolled it back because of a concurrent transaction.
const ATTEMPTS: u32 = 20;

/// The shortest time between two notices.
const NOTICES: Duration = Duration::from_secs(5);

/// A procedure that was called where it may end transactions.
pub struct Procedure<'f> {
    call: Call<'f>,
    name: &'static str,
    /// The verb for its work on entities, in the past tense.
    verb: &'static str,
}

/// The result of a step.
pub struct Done {
    pub count: u64,
    /// The token of the next step. `None` says that there is none.
    pub next: Option<String>,
}

/// The progress of a procedure.
struct Progress {
    count: u64,
    token: Option<String>,
}

impl<'f> Procedure<'f> {
    /// Returns the procedure that is running. `verb` is the verb for its work on entities, in the past tense.
    ///
    /// # Errors
    /// Invalid transaction termination (2D000), if CALL runs in a transaction block or in a function.
    pub fn new(call: Call<'f>, name: &'static str, verb: &'static str) -> Result<Procedure<'f>, Error> {
        // SAFETY: the context of a call is NULL or a node, and a node has the type of its tag.
        let may_commit = unsafe {
            let context = (*call.info()).context;
            !context.is_null()
                && (*context).type_ == pg_sys::NodeTag::T_CallContext
                && !(*context.cast::<pg_sys::CallContext>()).atomic
        };
        if !may_commit {
            return Err(Error::CalledInTransaction { procedure: name });
        }
        Ok(Procedure { call, name, verb })
    }

    /// Runs steps until one says that there is no next one. Each gets the token of the one before. Returns the row of
    /// the procedure: `count` plus the counts of the steps, and no token.
    ///
    /// The hint of every error that leaves this has the token with which the procedure can be called again.
    pub fn run(
        self,
        count: u64,
        token: Option<String>,
        pause: Duration,
        mut step: impl FnMut(Option<&str>) -> Result<Done, Error>,
    ) -> StepsOut {
        let mut progress = Progress { count, token };
        // The caller's own writes are in the transaction of the first step. To repeat that step would undo them without a word.
        // SAFETY: a transaction is running.
        let mut may_repeat = unsafe { pg_sys::GetTopTransactionIdIfAny() } == pg_sys::InvalidTransactionId;
        // SAFETY: the connection is closed below. After an error PostgreSQL closes it.
        unsafe { pg_sys::SPI_connect_ext(pg_sys::SPI_OPT_NONATOMIC as i32) };
        let mut noticed = Instant::now();
        let mut attempts = 0;
        loop {
            let context = new_context(c"table_service step");
            let attempt = || {
                // SAFETY: a transaction is running. The snapshot is taken off the stack again; after an error PostgreSQL does
                // that, and restores the memory context.
                unsafe {
                    let caller = pg_sys::MemoryContextSwitchTo(context);
                    pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
                    let outcome = step(progress.token.as_deref());
                    pg_sys::PopActiveSnapshot();
                    pg_sys::MemoryContextSwitchTo(caller);
                    outcome
                }
            };
            let outcome = in_subtransaction(attempt);
            // SAFETY: nothing refers to the memory of a step after it.
            unsafe { pg_sys::MemoryContextDelete(context) };
            // A transaction that the commit refuses is as if its step had failed.
            let outcome = match outcome {
                Ok(Ok(done)) => commit().map(|()| Ok(done)),
                refused => refused,
            };
            match outcome {
                Ok(Ok(done)) => {
                    attempts = 0;
                    may_repeat = true;
                    progress.count += done.count;
                    progress.token = done.next;
                    if progress.token.is_none() {
                        break;
                    }
                    self.with_hint(&progress, || {
                        if noticed.elapsed() >= NOTICES {
                            noticed = Instant::now();
                            pgrx::notice!("{}", self.so_far(&progress));
                        }
                        wait(pause);
                    });
                }
                Ok(Err(error)) => raise_with(error, &self.so_far(&progress)),
                Err(error) if may_repeat && is_of_concurrent_writes(&error) && attempts < ATTEMPTS => {
                    attempts += 1;
                    self.with_hint(&progress, || {
                        // SAFETY: the connection may end transactions, and no other is open.
                        unsafe { pg_sys::SPI_rollback() }
                        pgrx::check_for_interrupts!();
                    });
                }
                Err(error) => rethrow_with(error, &self.so_far(&progress)),
            }
        }
        // SAFETY: the connection was opened above.
        unsafe { pg_sys::SPI_finish() };
        StepsOut(self.row(&progress))
    }

    /// Does the work before the first step of a procedure that goes on. Its errors also have the token in their hints.
    pub fn before<R>(&self, count: u64, token: &str, work: impl FnOnce() -> Result<R, Error>) -> R {
        let progress = Progress {
            count,
            token: Some(token.to_owned()),
        };
        match self.with_hint(&progress, work) {
            Ok(done) => done,
            Err(error) => raise_with(error, &self.so_far(&progress)),
        }
    }

    /// Runs `f`. The hints of its errors say how far the procedure has come.
    fn with_hint<R>(&self, progress: &Progress, f: impl FnOnce() -> R) -> R {
        caught(f).unwrap_or_else(|error| rethrow_with(error, &self.so_far(progress)))
    }

    fn so_far(&self, progress: &Progress) -> String {
        let Procedure { name, verb, .. } = self;
        match progress {
            Progress {
                count,
                token: Some(token),
            } => {
                format!("{name}: {count} {verb} so far. To go on: continuation_token => '{token}'.")
            }
            Progress { .. } => format!("{name}: no step was completed."),
        }
    }

    /// Makes the row of the arguments INOUT.
    fn row(&self, progress: &Progress) -> pg_sys::Datum {
        let token = progress.token.as_deref().map(Text::new);
        let mut values = [
            Value::int8(i64::try_from(progress.count).unwrap_or(i64::MAX)).datum(),
            token
                .as_ref()
                .map_or(pg_sys::Datum::null(), |token| token.value().datum()),
        ];
        let mut nulls = [false, token.is_none()];
        // SAFETY: the row is made if the procedure returns a bigint and a text.
        unsafe {
            let mut descriptor = std::ptr::null_mut();
            pg_sys::get_call_result_type(self.call.info(), std::ptr::null_mut(), &mut descriptor);
            let columns: &[pg_sys::Oid] = &[pg_sys::INT8OID, pg_sys::TEXTOID];
            if descriptor.is_null() || types_of(descriptor) != columns {
                does_not_fit();
            }
            let descriptor = pg_sys::BlessTupleDesc(descriptor);
            let tuple = pg_sys::heap_form_tuple(descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
            pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data)
        }
    }
}

/// Commits, and begins the next transaction. After an error PostgreSQL has also begun it.
fn commit() -> Result<(), Box<CaughtError>> {
    // SAFETY: the connection may end transactions, and no other is open.
    caught(|| unsafe { pg_sys::SPI_commit() })
}

/// Returns whether PostgreSQL rolled back because of a concurrent transaction.
fn is_of_concurrent_writes(error: &CaughtError) -> bool {
    has_sqlstate(
        error,
        &[
            PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
            PgSqlErrorCode::ERRCODE_T_R_DEADLOCK_DETECTED,
        ],
    )
}

/// The row of a procedure in steps.
pub struct StepsOut(pg_sys::Datum);

sql_type!(StepsOut, "record", External);
result!(StepsOut, this => this.0);
