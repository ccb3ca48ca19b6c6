//! Triggers that change the row that is written.

use std::ffi::CStr;

use pgrx::prelude::*;

use super::call::Call;
use super::types::TriggerRow;

/// A BEFORE UPDATE FOR EACH ROW trigger that fires.
pub struct RowUpdate<'f>(&'f pg_sys::TriggerData);

impl<'f> RowUpdate<'f> {
    /// Returns the trigger of the running call. Returns `None` for any other call.
    pub fn of(call: &'f Call<'_>) -> Option<RowUpdate<'f>> {
        // SAFETY: the context is NULL or a node, and a node has the type of its tag. It is valid during the call.
        let trigger = unsafe {
            let context = (*call.info()).context;
            context
                .as_ref()
                .filter(|node| node.type_ == pg_sys::NodeTag::T_TriggerData)?;
            &*context.cast::<pg_sys::TriggerData>()
        };
        let is_meant = pgrx::trigger_fired_by_update(trigger.tg_event)
            && pgrx::trigger_fired_before(trigger.tg_event)
            && pgrx::trigger_fired_for_row(trigger.tg_event);
        is_meant.then_some(RowUpdate(trigger))
    }

    /// Returns the row after the update with another value in a column of type `timestamptz`. `value` makes it of the
    /// value before the update, both in microseconds since 2000-01-01; `None` is NULL. Returns `None` if the table has
    /// no such column.
    pub fn with_timestamptz(&self, name: &CStr, value: impl FnOnce(Option<i64>) -> i64) -> Option<TriggerRow> {
        // SAFETY: a trigger that fires for an updated row has its relation, which is open, the old row and the new one.
        // The descriptor has the column if its number is above 0, and the value is of its type.
        // `heap_modify_tuple_by_cols` only reads its arguments, whatever it declares before PostgreSQL 19.
        unsafe {
            let descriptor = (*self.0.tg_relation).rd_att;
            let number = pg_sys::SPI_fnumber(descriptor, name.as_ptr());
            if number <= 0 || pg_sys::SPI_gettypeid(descriptor, number) != pg_sys::TIMESTAMPTZOID {
                return None;
            }
            let mut is_null = false;
            let old = pg_sys::heap_getattr(self.0.tg_trigtuple, number, descriptor, &mut is_null);
            let new = pg_sys::Datum::from(value((!is_null).then(|| old.value() as i64)));
            is_null = false;
            let row = pg_sys::heap_modify_tuple_by_cols(
                self.0.tg_newtuple,
                descriptor,
                1,
                (&raw const number).cast_mut(),
                (&raw const new).cast_mut(),
                (&raw const is_null).cast_mut(),
            );
            Some(TriggerRow(pg_sys::Datum::from(row)))
        }
    }
}
