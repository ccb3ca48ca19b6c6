//! Tests the residual filter of a query on a row, in one function call per row. The parsed filter is kept with the call
//! site.

use pgrx::prelude::*;
use pgrx::{FromDatum, PgMemoryContexts};
use table_service_model::entity::Entity;
use table_service_model::filter::{Columns, Filter, Predicate};
use table_service_model::{Error, Properties, Ticks};

use crate::postgres::error::OrRaise;
use crate::postgres::row::{bag, broken};
use crate::postgres::types::TextArg;
use crate::postgres::varlena;

/// Tests the residual filter of a scan that looks only at properties.
///
/// It reads the arguments itself, which is faster: it runs for every row of a scan.
#[pg_extern(sql = "
CREATE FUNCTION table_service.scan_passes(properties table_service.properties, predicate bytea) RETURNS boolean
VOLATILE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
")]
fn scan_passes_properties(fcinfo: pg_sys::FunctionCallInfo) -> bool {
    // SAFETY: `fcinfo` is that of the running function, whose declaration has these arguments.
    unsafe {
        let entity = Entity {
            partition_key: None,
            row_key: None,
            timestamp: None,
            properties: bag(argument(fcinfo, 0), || TESTED.to_owned()),
        };
        compiled(fcinfo, varlena::bytes(argument(fcinfo, 1)))
            .predicate
            .matches(&entity)
    }
}

/// Tests the residual filter of a scan that also looks at keys or the Timestamp.
#[pg_extern(sql = "
CREATE FUNCTION table_service.scan_passes(
    partition_key text, row_key text, \"timestamp\" timestamptz, properties table_service.properties, predicate bytea)
RETURNS boolean
VOLATILE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
")]
fn scan_passes_entity(fcinfo: pg_sys::FunctionCallInfo) -> bool {
    // SAFETY: `fcinfo` is that of the running function, whose declaration has these arguments.
    unsafe {
        let kept = compiled(fcinfo, varlena::bytes(argument(fcinfo, 4)));
        let key = |number: usize| {
            let key = argument(fcinfo, number);
            (kept.columns.partition_key || kept.columns.row_key)
                .then(|| TextArg::from_datum(key, false).map(TextArg::get))
                .flatten()
        };
        let timestamp = argument(fcinfo, 2).value() as i64;
        let properties = bag(argument(fcinfo, 3), || TESTED.to_owned());
        let entity = Entity {
            partition_key: key(0),
            row_key: key(1),
            timestamp: kept
                .columns
                .timestamp
                .then(|| Ticks::from_postgres_micros(timestamp))
                .flatten(),
            properties,
        };
        let predicate = &kept.predicate;
        predicate.passes(&entity)
            && predicate
                .alive()
                .is_none_or(|alive| alive.includes(timestamp, properties))
    }
}

/// The row in error messages. Its keys may not be among the arguments.
const TESTED: &str = "that a filter is tested on";

/// Returns an argument: a column of a row, or the predicate of the scan. Raises if it is NULL.
///
/// # Safety
/// The function must have an argument of this number, counted from zero.
unsafe fn argument(fcinfo: pg_sys::FunctionCallInfo, number: usize) -> pg_sys::Datum {
    // SAFETY: the caller promises that the argument exists.
    let argument = unsafe { &*(*fcinfo).args.as_ptr().add(number) };
    if argument.isnull {
        broken(TESTED, "is NULL in a column of the entity");
    }
    argument.value
}

/// The predicate that a call site keeps, and what it was made from.
struct Kept {
    source: Box<[u8]>,
    parameters: Option<Box<[u8]>>,
    predicate: Predicate,
    /// The columns that its filter looks at.
    columns: Columns,
}

/// Returns the predicate of a filter. It is parsed once per call site, as long as the filter stays the same.
///
/// # Safety
/// `fcinfo` must be that of the running function. The predicate is valid until this call site calls again.
pub unsafe fn parsed<'a>(
    fcinfo: pg_sys::FunctionCallInfo,
    filter: &str,
    parameters: Option<Properties<'_>>,
) -> &'a Predicate {
    let bytes = parameters.map(|parameters| parameters.as_bytes());
    let make = || Filter::parse(filter, parameters).map(|filter| Predicate::new(&filter));
    // SAFETY: the caller makes the same promise.
    unsafe { &kept(fcinfo, filter.as_bytes(), bytes, make).predicate }
}

/// Returns the predicate in the bytes that a scan passes.
///
/// # Safety
/// As for [`parsed`].
unsafe fn compiled<'a>(fcinfo: pg_sys::FunctionCallInfo, bytes: &[u8]) -> &'a Kept {
    // SAFETY: the caller makes the same promise.
    unsafe { kept(fcinfo, bytes, None, || Predicate::from_bytes(bytes)) }
}

/// Returns the predicate that the call site keeps, and makes a new one if its source has changed.
///
/// # Safety
/// As for [`parsed`].
unsafe fn kept<'a>(
    fcinfo: pg_sys::FunctionCallInfo,
    source: &[u8],
    parameters: Option<&[u8]>,
    make: impl Fn() -> Result<Predicate, Error>,
) -> &'a Kept {
    let new = || {
        let predicate = make().or_raise();
        Kept {
            source: source.into(),
            parameters: parameters.map(Box::from),
            columns: predicate.columns_of_filter(),
            predicate,
        }
    };
    // SAFETY: `flinfo` is that of the running function. Its `fn_extra` belongs to this function, so it is NULL or
    // points to a `Kept`. The `Kept` lives in `fn_mcxt`, as long as the call site, and only this function replaces it.
    unsafe {
        let site = (*fcinfo).flinfo;
        let mut kept = (*site).fn_extra.cast::<Kept>();
        if kept.is_null() {
            kept = PgMemoryContexts::For((*site).fn_mcxt).leak_and_drop_on_delete(new());
            (*site).fn_extra = kept.cast();
        } else if *(*kept).source != *source || (*kept).parameters.as_deref() != parameters {
            *kept = new();
        }
        &*kept
    }
}
