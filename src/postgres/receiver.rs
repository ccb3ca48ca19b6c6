//! Receives the rows of a statement one by one, as PostgreSQL's executor finds them.

use std::ffi::c_int;

use pgrx::prelude::*;
use table_service_model::filter::KeyRange;

use super::memory::new_context;
use super::row::{Row, is_entity};

/// The destination of the rows of statements that select the columns of an entity.
#[repr(C)]
pub struct Receiver<'s> {
    /// The part that the executor knows. It must come first.
    callbacks: pg_sys::DestReceiver,
    sink: &'s mut dyn FnMut(&Row<'_>) -> bool,
    /// Memory that the sink allocates through PostgreSQL for a row. It is freed after the row.
    row_context: pg_sys::MemoryContext,
    ended: bool,
    /// The keys of the rows to give to the sink. `None` stands for all.
    range: Option<KeyRange>,
    /// How many more rows a statement may return. `None` stands for any number.
    budget: Option<u64>,
    /// The keys of the row at which the budget was used up.
    stopped_at: Option<(String, String)>,
}

impl<'s> Receiver<'s> {
    /// `sink` takes a row and returns whether it wants more.
    pub fn new(sink: &'s mut dyn FnMut(&Row<'_>) -> bool) -> Receiver<'s> {
        Receiver {
            callbacks: pg_sys::DestReceiver {
                receiveSlot: Some(receive),
                rStartup: Some(start_up),
                rShutdown: Some(shut_down),
                rDestroy: Some(shut_down),
                mydest: pg_sys::CommandDest::DestTuplestore,
            },
            sink,
            row_context: new_context(c"table_service row"),
            ended: false,
            range: None,
            budget: None,
            stopped_at: None,
        }
    }

    /// Gives the sink only the rows of a key range, while `f` runs.
    pub fn within<R>(&mut self, range: &KeyRange, f: impl FnOnce(&mut Self) -> R) -> R {
        self.range = Some(range.clone());
        let result = f(self);
        self.range = None;
        result
    }

    /// Takes at most `rows` rows while `f` runs. Returns the keys of the next row, if there is one.
    pub fn at_most(&mut self, rows: u64, f: impl FnOnce(&mut Self)) -> Option<(String, String)> {
        self.budget = Some(rows);
        f(self);
        self.budget = None;
        self.stopped_at.take()
    }

    /// Returns whether the sink wants no more rows.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Gives a row to the sink.
    pub fn take(&mut self, row: &Row<'_>) {
        self.take_if(row, |_| true);
    }

    /// Gives a row to the sink if it passes the test.
    pub fn take_if(&mut self, row: &Row<'_>, passes: impl FnOnce(&Row<'_>) -> bool) {
        // SAFETY: `row_context` is valid as long as `self`. The code sets the current context as
        // `MemoryContextSwitchTo` does, without a call, because it runs for every row. What is
        // detoasted for the row has the row's lifetime, so the sink cannot keep it.
        unsafe {
            let caller = pg_sys::CurrentMemoryContext;
            pg_sys::CurrentMemoryContext = self.row_context;
            self.ended = passes(row) && !(self.sink)(row);
            pg_sys::CurrentMemoryContext = caller;
            if !(*self.row_context).isReset {
                pg_sys::MemoryContextReset(self.row_context);
            }
        }
    }

    pub(super) fn as_ptr(&mut self) -> *mut pg_sys::DestReceiver {
        (&raw mut *self).cast()
    }
}

impl Drop for Receiver<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: the context still exists, because no error has passed through. Nothing refers to its memory any
            // more.
            unsafe { pg_sys::MemoryContextDelete(self.row_context) };
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn start_up(
    _receiver: *mut pg_sys::DestReceiver,
    _operation: c_int,
    row_type: pg_sys::TupleDesc,
) {
    // SAFETY: the executor calls this with the valid descriptor of the rows that it will send.
    if !unsafe { is_entity(row_type) } {
        ereport!(
            ERROR,
            PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
            "a statement that reads entities must return their columns"
        );
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn shut_down(_receiver: *mut pg_sys::DestReceiver) {}

#[pg_guard]
unsafe extern "C-unwind" fn receive(slot: *mut pg_sys::TupleTableSlot, receiver: *mut pg_sys::DestReceiver) -> bool {
    // SAFETY: the executor calls this with the receiver that it was given, whose `Receiver` begins with it. The slot
    // holds a row, and `start_up` checked the types of its columns.
    unsafe {
        let receiver = &mut *receiver.cast::<Receiver<'_>>();
        let row = Row::of(slot);
        if let Some(budget) = &mut receiver.budget {
            if *budget == 0 {
                receiver.stopped_at = Some((row.partition_key().to_owned(), row.row_key().to_owned()));
                return false;
            }
            *budget -= 1;
        }
        let is_inside = |range: &KeyRange| range.contains(row.partition_key(), row.row_key());
        if receiver.range.as_ref().is_none_or(is_inside) {
            receiver.take(&row);
        }
        !receiver.ended
    }
}
