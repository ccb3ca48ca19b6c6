//! Receives the rows of a statement one by one, as PostgreSQL's executor finds them.

use std::ffi::c_int;

use pgrx::prelude::*;
use table_service_model::filter::KeyRange;

use super::guarded::without_guards;
use super::memory::new_context;
use super::row::{Row, is_entity};

without_guards! {
    // It raises no error.
    fn MemoryContextDelete(context: pg_sys::MemoryContext);
}

/// The PartitionKey and RowKey of a row.
pub type Keys = (String, String);

/// Where a receiver stops before its sink has enough. `None` stands for no limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// How many more rows statements may return.
    pub rows: Option<u64>,
    /// How many bytes the keys of a row may have together.
    pub keys: Option<usize>,
}

/// Takes the keys of the row that is beyond the limit of rows. Returns how many more rows, from this one on, are taken.
pub type More<'m> = Box<dyn FnMut(Keys) -> u64 + 'm>;

/// The destination of the rows of statements that select the columns of an entity.
#[repr(C)]
pub struct Receiver<'s> {
    /// The part that the executor knows. It must come first.
    callbacks: pg_sys::DestReceiver,
    sink: &'s mut dyn FnMut(&Row<'_>) -> bool,
    /// Memory that the sink allocates through PostgreSQL for a row. It is freed after the row.
    row_context: pg_sys::MemoryContext,
    ended: bool,
    /// The keys of the rows to give to the sink: ranges in order. `None` stands for all.
    ranges: Option<Vec<KeyRange>>,
    limits: Limits,
    /// Asked when the limit of rows is reached.
    more: Option<More<'s>>,
    /// The keys of the row that was beyond a limit.
    stopped_at: Option<Keys>,
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
            ranges: None,
            limits: Limits::default(),
            more: None,
            stopped_at: None,
        }
    }

    /// Gives the sink only the rows of key ranges, which are in order, while `f` runs.
    pub fn within<R>(&mut self, ranges: &[KeyRange], f: impl FnOnce(&mut Self) -> R) -> R {
        self.ranges = (!ranges.iter().any(KeyRange::is_all)).then(|| ranges.to_vec());
        let result = f(self);
        self.ranges = None;
        result
    }

    /// Takes rows while `f` runs, up to the limits, and counts them. Returns the keys of the row that was beyond a limit.
    pub fn limited<R>(&mut self, limits: &mut Limits, f: impl FnOnce(&mut Self) -> R) -> (R, Option<Keys>) {
        self.limits = *limits;
        let result = f(self);
        *limits = std::mem::take(&mut self.limits);
        (result, self.stopped_at.take())
    }

    /// Like [`limited`](Self::limited), but asks `more` when the limit of rows is reached.
    pub fn limited_until<R>(
        &mut self,
        limits: &mut Limits,
        more: More<'s>,
        f: impl FnOnce(&mut Self) -> R,
    ) -> (R, Option<Keys>) {
        self.more = Some(more);
        let result = self.limited(limits, f);
        self.more = None;
        result
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
        // `MemoryContextSwitchTo` does, without a call, because it runs for every row. What is
        // detoasted for the row has the row's lifetime, so the sink cannot keep it.
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

    /// Gives a row to the sink if it passes the test and is within the limits. Returns whether there may be more.
    pub fn offer(&mut self, row: &Row<'_>, passes: impl FnOnce(&Row<'_>) -> bool) -> bool {
        let limits = self.limits;
        if limits.keys.is_some_and(|longest| row.size_of_keys() > longest)
            || limits.rows == Some(0) && !self.extend(row)
        {
            self.stopped_at = Some(keys(row));
            return false;
        }
        if let Some(rows) = &mut self.limits.rows {
            *rows -= 1;
        }
        let is_inside = |ranges: &Vec<KeyRange>| contain(ranges, row.partition_key(), row.row_key());
        if self.ranges.as_ref().is_none_or(is_inside) {
            self.take_if(row, passes);
        }
        !self.ended
    }

    /// Asks how many more rows are taken, from this one on. Returns whether there are any.
    fn extend(&mut self, row: &Row<'_>) -> bool {
        let Some(mut more) = self.more.take() else {
            return false;
        };
        let rows = self.in_row_context(|_| more(keys(row)));
        self.more = Some(more);
        self.limits.rows = Some(rows);
        rows > 0
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
            unsafe { MemoryContextDelete(self.row_context) };
        }
    }
}

fn keys(row: &Row<'_>) -> Keys {
    (row.partition_key().to_owned(), row.row_key().to_owned())
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
