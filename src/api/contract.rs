//! The contract of the tables, for direct SQL writes too: the function of the CHECK of every table, that of its trigger, and those
//! of our statements. Names and signatures are permanent, because the tables refer to them.

use pgrx::prelude::*;
use table_service_model::{Error, entity, ticks};

use crate::engine::contract::check;
use crate::postgres::error::{OrRaise, raise};
use crate::postgres::types::{PropertiesArg, TextArg, TriggerRow};

/// Raises the error of the API for an entity that the service would not store; otherwise true.
#[pg_extern(immutable, strict, parallel_safe)]
fn entity_is_valid(
    partition_key: TextArg<'_>,
    row_key: TextArg<'_>,
    timestamp: TimestampWithTimeZone,
    properties: PropertiesArg<'_>,
) -> bool {
    check(
        partition_key.get(),
        row_key.get(),
        timestamp.into_inner(),
        properties.get(),
    )
    .map(|()| true)
    .or_raise()
}

/// The Timestamp that follows `old` when the clock shows `clock`: the later of the clock and a microsecond after `old`.
#[pg_extern(immutable, strict, parallel_safe)]
fn next_timestamp(old: TimestampWithTimeZone, clock: TimestampWithTimeZone) -> TimestampWithTimeZone {
    let next = ticks::next_timestamp(old.into_inner(), clock.into_inner());
    let none = || Error::ArgumentInvalid {
        reason: "There is no next timestamp".to_owned(),
    };
    TimestampWithTimeZone::try_from(next).map_err(|_| none()).or_raise()
}

/// Whether merging `new` into the `old` properties of an entity stays within the limits.
#[pg_extern(immutable, strict, parallel_safe)]
fn merge_fits(
    partition_key: TextArg<'_>,
    row_key: TextArg<'_>,
    old: PropertiesArg<'_>,
    new: PropertiesArg<'_>,
) -> bool {
    old.get()
        .merge(new.get())
        .and_then(|merged| entity::check_size(partition_key.get(), row_key.get(), merged.as_properties()))
        .is_ok()
}

/// BEFORE UPDATE FOR EACH ROW: sets the Timestamp, so that no UPDATE can keep, rewind or forge one.
#[pg_extern]
fn rising_timestamp(fcinfo: pg_sys::FunctionCallInfo) -> TriggerRow {
    let misused = |reason: &str| -> ! {
        raise(Error::ArgumentInvalid {
            reason: reason.to_owned(),
        })
    };
    // SAFETY: the context is checked to be that of a trigger of the right kind, which then has both tuples and the
    // relation. Anybody may put the trigger on a table of their own, so the column is checked too.
    unsafe {
        let trigger = (*fcinfo).context.cast::<pg_sys::TriggerData>();
        if trigger.is_null()
            || (*trigger).type_ != pg_sys::NodeTag::T_TriggerData
            || !pgrx::trigger_fired_by_update((*trigger).tg_event)
            || !pgrx::trigger_fired_before((*trigger).tg_event)
            || !pgrx::trigger_fired_for_row((*trigger).tg_event)
        {
            misused("rising_timestamp() is called by a BEFORE UPDATE FOR EACH ROW trigger");
        }
        let descriptor = (*(*trigger).tg_relation).rd_att;
        // By name: the columns of a partition may stand in another order.
        let mut column = pg_sys::SPI_fnumber(descriptor, c"timestamp".as_ptr());
        if column <= 0 || pg_sys::SPI_gettypeid(descriptor, column) != pg_sys::TIMESTAMPTZOID {
            misused("rising_timestamp() needs a column \"timestamp\" of type timestamptz");
        }
        let mut is_null = false;
        let old = pg_sys::heap_getattr((*trigger).tg_trigtuple, column, descriptor, &mut is_null);
        let clock = pg_sys::GetCurrentTimestamp();
        let mut next = pg_sys::Datum::from(if is_null {
            clock
        } else {
            ticks::next_timestamp(old.value() as i64, clock)
        });
        let row = pg_sys::heap_modify_tuple_by_cols(
            (*trigger).tg_newtuple,
            descriptor,
            1,
            &mut column,
            &mut next,
            &mut false,
        );
        TriggerRow::new(row)
    }
}
