//! Rows of a statement, taken one by one as PostgreSQL's executor finds them.

use std::ffi::c_int;

use pgrx::prelude::*;

use super::row::{Row, is_entity};

/// Where the rows of statements go that select the columns of an entity.
#[repr(C)]
pub struct Receiver<'s> {
    /// What the executor knows of it, which comes first.
    callbacks: pg_sys::DestReceiver,
    sink: &'s mut dyn FnMut(&Row<'_>) -> bool,
    /// What the sink allocates through PostgreSQL for a row goes with the row.
    row_context: pg_sys::MemoryContext,
    ended: bool,
}

impl<'s> Receiver<'s> {
    /// `sink` takes a row and says whether it wants more.
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
            // SAFETY: a child of the current context, which takes it along if an error passes through.
            row_context: unsafe {
                pg_sys::AllocSetContextCreateExtended(
                    pg_sys::CurrentMemoryContext,
                    c"table_service row".as_ptr(),
                    pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
                    pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
                    pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
                )
            },
            ended: false,
        }
    }

    /// Whether the sink wants no more rows.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Gives a row to the sink.
    pub fn take(&mut self, row: &Row<'_>) {
        self.take_if(row, |_| true);
    }

    /// Gives a row to the sink if it passes the test.
    pub fn take_if(&mut self, row: &Row<'_>, passes: impl FnOnce(&Row<'_>) -> bool) {
        // SAFETY: set by hand what MemoryContextSwitchTo sets: this runs for every row. The context is this receiver's own.
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
            // SAFETY: nothing is left in it that anybody uses.
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
    // SAFETY: the executor calls with the descriptor of the rows that it is going to send.
    if !unsafe { is_entity(row_type) } {
        ereport!(
            ERROR,
            PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
            "a statement that reads entities does not return their columns"
        );
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn shut_down(_receiver: *mut pg_sys::DestReceiver) {}

#[pg_guard]
unsafe extern "C-unwind" fn receive(slot: *mut pg_sys::TupleTableSlot, receiver: *mut pg_sys::DestReceiver) -> bool {
    // SAFETY: the executor calls with the receiver that it was given, which is the first part of ours, and with a row of the columns
    // that were compared at start-up.
    unsafe {
        let receiver = &mut *receiver.cast::<Receiver<'_>>();
        receiver.take(&Row::of(slot));
        !receiver.ended
    }
}
