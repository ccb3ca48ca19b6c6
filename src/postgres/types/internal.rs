//! The type `internal`, which PostgreSQL passes only to functions that it calls itself.

use std::marker::PhantomData;

use pgrx::prelude::*;

use super::{argument, sql_type};

/// A binary message, the argument of a receive function.
pub struct MessageArg<'a> {
    message: pg_sys::StringInfo,
    source: PhantomData<&'a ()>,
}

sql_type!(MessageArg<'_>, "internal", External);
argument!(MessageArg, datum => {
    let message: pg_sys::StringInfo = datum.cast_mut_ptr();
    if message.is_null() {
        return None;
    }
    let source = PhantomData;
    MessageArg { message, source }
});

impl<'a> MessageArg<'a> {
    /// Returns the rest of the message.
    pub fn rest(self) -> &'a [u8] {
        // SAFETY: PostgreSQL calls a receive function with a StringInfo, which outlives the call. `pq_getmsgbytes` checks
        // that the message has `length` more bytes.
        unsafe {
            let length = (*self.message).len - (*self.message).cursor;
            let data = pg_sys::pq_getmsgbytes(self.message, length);
            std::slice::from_raw_parts(data.cast::<u8>(), usize::try_from(length).unwrap_or_default())
        }
    }
}

/// A request of the planner, the argument of a support function.
pub struct PlannerRequestArg<'a> {
    /// The request. It is valid during the call.
    pub node: *mut pg_sys::Node,
    source: PhantomData<&'a ()>,
}

sql_type!(PlannerRequestArg<'_>, "internal", External);
argument!(PlannerRequestArg, datum => PlannerRequestArg { node: datum.cast_mut_ptr(), source: PhantomData });
