//! Triggers that change the row that is written.

use std::ffi::CStr;

use pgrx::prelude::*;

use super::call::Call;
use super::types::TriggerRow;

/// A BEFORE UPDATE FOR EACH ROW trigger that fires.
pub struct RowUpdate<'f>(&'f pg_sys::TriggerData);

/// A column of its table, of type `timestamptz`.
pub struct TimestamptzColumn<'u> {
    update: &'u RowUpdate<'u>,
    number: i32,
}

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

    /// Returns the column of this name. `None` if the table has none of this type.
    pub fn timestamptz(&self, name: &CStr) -> Option<TimestamptzColumn<'_>> {
        let descriptor = self.descriptor();
        // SAFETY: the descriptor is valid, and has the column if its number is above 0.
        let number = unsafe {
            let number = pg_sys::SPI_fnumber(descriptor, name.as_ptr());
            (number > 0 && pg_sys::SPI_gettypeid(descriptor, number) == pg_sys::TIMESTAMPTZOID).then_some(number)?
        };
        Some(TimestamptzColumn { update: self, number })
    }

    fn descriptor(&self) -> pg_sys::TupleDesc {
        // SAFETY: a trigger that fires for a row has its relation, which is open.
        unsafe { (*self.0.tg_relation).rd_att }
    }
}

impl TimestamptzColumn<'_> {
    /// Returns the value in the row before the update, in microseconds since 2000-01-01. `None` means NULL.
    pub fn old(&self) -> Option<i64> {
        let mut is_null = false;
        // SAFETY: a trigger that fires for an updated row has the old one, and the table has the column.
        let old = unsafe {
            pg_sys::heap_getattr(
                self.update.0.tg_trigtuple,
                self.number,
                self.update.descriptor(),
                &mut is_null,
            )
        };
        (!is_null).then(|| old.value() as i64)
    }

    /// Returns the row after the update with another value in the column.
    pub fn set(self, value: i64) -> TriggerRow {
        let (value, is_null) = (pg_sys::Datum::from(value), false);
        // SAFETY: a trigger that fires for an updated row has the new one, and the value is of the column's type. The
        // function only reads its arguments, whatever it declares before PostgreSQL 19.
        unsafe {
            TriggerRow::new(pg_sys::heap_modify_tuple_by_cols(
                self.update.0.tg_newtuple,
                self.update.descriptor(),
                1,
                (&raw const self.number).cast_mut(),
                (&raw const value).cast_mut(),
                (&raw const is_null).cast_mut(),
            ))
        }
    }
}
