//! What holds for stored entities whoever writes them: the CHECK of every table and the timestamp trigger. Names and
//! signatures are permanent, because the tables refer to them.

use pgrx::callconv::{BoxRet, FcInfo};
use pgrx::datum::Datum;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};
use pgrx::prelude::*;
use table_service_model::{Error, Properties, entity, key, ticks};

use crate::error::{OrRaise, raise};
use crate::keys::ticks_of;
use crate::types::PropertiesArg;

/// Raises the error of the API for an entity that the service would not store; otherwise true.
#[pg_extern(immutable, strict, parallel_safe)]
fn entity_is_valid(
    partition_key: &str,
    row_key: &str,
    timestamp: TimestampWithTimeZone,
    properties: PropertiesArg<'_>,
) -> bool {
    check(partition_key, row_key, timestamp.into_inner(), properties.get())
        .map(|()| true)
        .or_raise()
}

/// What the CHECK checks. `timestamp` is in microseconds since 2000-01-01.
///
/// # Errors
/// Those of the limits of an entity.
pub fn check(partition_key: &str, row_key: &str, timestamp: i64, properties: Properties<'_>) -> Result<(), Error> {
    match ticks_of(key::TIMESTAMP, timestamp) {
        Ok(timestamp) => entity::check(partition_key, row_key, Some(timestamp), properties),
        Err(out_of_range) => key::check_characters_of_both(partition_key, row_key).and(Err(out_of_range)),
    }
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
fn merge_fits(partition_key: &str, row_key: &str, old: PropertiesArg<'_>, new: PropertiesArg<'_>) -> bool {
    old.get()
        .merge(new.get())
        .and_then(|merged| entity::check_size(partition_key, row_key, merged.as_properties()))
        .is_ok()
}

/// The result of a trigger function: the row to write.
struct TriggerRow(pg_sys::Datum);

// SAFETY: PostgreSQL's pseudo-type for functions that only triggers call.
unsafe impl SqlTranslatable for TriggerRow {
    const TYPE_IDENT: &'static str = pgrx::pgrx_resolved_type!(TriggerRow);
    const TYPE_ORIGIN: TypeOrigin = TypeOrigin::External;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = Err(ArgumentError::Datum);
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One(SqlMappingRef::literal("trigger")));
}

// SAFETY: the datum is the tuple that the trigger manager expects.
unsafe impl BoxRet for TriggerRow {
    unsafe fn box_into<'fcx>(self, fcinfo: &mut FcInfo<'fcx>) -> Datum<'fcx> {
        // SAFETY: see above.
        unsafe { fcinfo.return_raw_datum(self.0) }
    }
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
        TriggerRow(pg_sys::Datum::from(row))
    }
}
