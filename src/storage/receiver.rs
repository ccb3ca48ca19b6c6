//! Receives the rows of a statement one by one, as PostgreSQL's executor finds them.

use std::ffi::c_int;

use pgrx::prelude::*;
use table_service_model::filter::KeyRange;

use super::row::{Row, is_entity};
use crate::postgres::guarded::without_guards;
use crate::postgres::memory::new_context;

without_guards! {
    // It raises no error.
    fn MemoryContextDelete(context: pg_sys::MemoryContext);
}

/// The PartitionKey and RowKey of a row.
pub type KeyPair = (String, String);

/// Which rows of statements a receiver gives to its sink, and where it stops before the sink has enough.
#[derive(Default)]
pub struct Selection<'t> {
    /// The keys of the rows to give to the sink: ranges in order. `None` stands for all.
    pub ranges: Option<&'t [KeyRange]>,
    /// The test that rows must pass.
    pub test: Option<&'t dyn Fn(&Row<'_>) -> bool>,
    /// How many rows statements may return, those that do not pass included. `None` stands for no limit.
    pub rows: Option<u64>,
    /// How many bytes the keys of a row may have together. `None` stands for no limit.
    pub keys: Option<usize>,
    /// Takes the keys of the row that is beyond the limit of rows. Returns how many more rows, from this one on, are taken.
    pub more: Option<&'t mut dyn FnMut(KeyPair) -> u64>,
}

impl<'t> Selection<'t> {
    /// Returns the rows whose keys are in ranges, which are in order.
    pub fn within(ranges: &'t [KeyRange]) -> Selection<'t> {
        Selection {
            ranges: (!ranges.iter().any(KeyRange::is_all)).then_some(ranges),
            ..Selection::default()
        }
    }
}

/// Where a receiver stopped.
pub struct Stopped {
    /// How many more rows statements might have returned.
    pub rows: Option<u64>,
    /// The keys of the row that was beyond a limit.
    pub at: Option<KeyPair>,
}

/// The destination of the rows of statements that select the columns of an entity.
#[repr(C)]
pub struct Receiver<'s> {
    /// The part that the executor knows. It must come first.
    callbacks: pg_sys::DestReceiver,
    sink: &'s mut dyn FnMut(&Row<'_>) -> bool,
    /// Memory that the sink allocates through PostgreSQL for a row. It is freed after the row.
    row_context: pg_sys::MemoryContext,
    /// Whether the memory is that of another receiver.
    is_part: bool,
    ended: bool,
    selection: Selection<'s>,
    stopped_at: Option<KeyPair>,
}

impl<'s> Receiver<'s> {
    /// `sink` takes a row and returns whether it wants more.
    pub fn new(sink: &'s mut dyn FnMut(&Row<'_>) -> bool) -> Receiver<'s> {
        Receiver {
            callbacks: CALLBACKS,
            sink,
            row_context: new_context(c"table_service row"),
            is_part: false,
            ended: false,
            selection: Selection::default(),
            stopped_at: None,
        }
    }

    /// Gives the sink only a selection of the rows that statements return while `f` runs.
    pub fn select<'t, R>(
        &'t mut self,
        selection: Selection<'t>,
        f: impl FnOnce(&mut Receiver<'t>) -> R,
    ) -> (R, Stopped) {
        let mut part = Receiver {
            callbacks: CALLBACKS,
            sink: &mut *self.sink,
            row_context: self.row_context,
            is_part: true,
            ended: self.ended,
            selection,
            stopped_at: None,
        };
        let result = f(&mut part);
        let stopped = Stopped {
            rows: part.selection.rows,
            at: part.stopped_at.take(),
        };
        self.ended = part.ended;
        (result, stopped)
    }

    /// Returns whether the sink wants no more rows.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Gives a row to the sink if it passes the test.
    pub fn take_if(&mut self, row: &Row<'_>, passes: impl FnOnce(&Row<'_>) -> bool) {
        self.ended = self.in_row_context(|receiver| passes(row) && !(receiver.sink)(row));
    }

    /// Runs `f` with memory of PostgreSQL that is freed afterwards.
    fn in_row_context<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        // SAFETY: `row_context` is valid as long as `self`. The code sets the current context as
        // `MemoryContextSwitchTo` does, without a call, because it runs for every row. A value that is detoasted for
        // the row has the row's lifetime, so the sink cannot keep it.
        unsafe {
            let caller = pg_sys::CurrentMemoryContext;
            pg_sys::CurrentMemoryContext = self.row_context;
            let result = f(self);
            pg_sys::CurrentMemoryContext = caller;
            if !(*self.row_context).isReset {
                pg_sys::MemoryContextReset(self.row_context);
            }
            result
        }
    }

    /// Gives a row to the sink if it is selected and passes this test too. Returns whether there may be more.
    pub fn offer(&mut self, row: &Row<'_>, passes: impl FnOnce(&Row<'_>) -> bool) -> bool {
        let Selection {
            ranges,
            test,
            rows,
            keys,
            ..
        } = self.selection;
        if keys.is_some_and(|longest| row.size_of_keys() > longest) || rows == Some(0) && !self.extend(row) {
            self.stopped_at = Some(keys_of(row));
            return false;
        }
        if let Some(rows) = &mut self.selection.rows {
            *rows -= 1;
        }
        if ranges.is_none_or(|ranges| contain(ranges, row.partition_key(), row.row_key())) {
            self.take_if(row, |row| test.is_none_or(|test| test(row)) && passes(row));
        }
        !self.ended
    }

    /// Asks how many more rows are taken, from this one on. Returns whether there are any.
    fn extend(&mut self, row: &Row<'_>) -> bool {
        let Some(more) = self.selection.more.take() else {
            return false;
        };
        let rows = self.in_row_context(|_| more(keys_of(row)));
        self.selection.more = Some(more);
        self.selection.rows = Some(rows);
        rows > 0
    }

    pub(super) fn as_ptr(&mut self) -> *mut pg_sys::DestReceiver {
        (&raw mut *self).cast()
    }
}

impl Drop for Receiver<'_> {
    fn drop(&mut self) {
        if !self.is_part && !std::thread::panicking() {
            // SAFETY: the context still exists, because no error has passed through. Nothing refers to its memory any
            // more.
            unsafe { MemoryContextDelete(self.row_context) };
        }
    }
}

fn keys_of(row: &Row<'_>) -> KeyPair {
    (row.partition_key().to_owned(), row.row_key().to_owned())
}

/// The functions that the executor calls.
const CALLBACKS: pg_sys::DestReceiver = pg_sys::DestReceiver {
    receiveSlot: Some(receive),
    rStartup: Some(start_up),
    rShutdown: Some(shut_down),
    rDestroy: Some(shut_down),
    mydest: pg_sys::CommandDest::DestTuplestore,
};

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
        receiver.offer(&row, |_| true)
    }
}

/// Returns whether one of the ranges, which are in order, has these keys.
pub fn contain(ranges: &[KeyRange], partition_key: &str, row_key: &str) -> bool {
    let candidate = match ranges {
        [only] => Some(only),
        _ => ranges.get(ranges.partition_point(|range| range.is_before(partition_key, row_key))),
    };
    candidate.is_some_and(|range| range.contains(partition_key, row_key))
}
