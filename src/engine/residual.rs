//! The residual of a filter, evaluated on rows in one call per row. What a filter was parsed to is kept with the call site.

use pgrx::prelude::*;
use pgrx::{FromDatum, PgMemoryContexts};
use table_service_model::entity::Entity;
use table_service_model::filter::{Filter, Predicate};
use table_service_model::{Error, Properties, Ticks};

use crate::postgres::error::OrRaise;
use crate::postgres::row::broken;
use crate::postgres::types::TextArg;
use crate::postgres::varlena;

/// The residual of our own scans, for filters on properties alone.
///
/// The arguments are read by hand: this runs once for every row of a scan.
#[pg_extern(sql = "
CREATE FUNCTION table_service.scan_passes(properties table_service.properties, predicate bytea) RETURNS boolean
VOLATILE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
")]
fn scan_passes_properties(fcinfo: pg_sys::FunctionCallInfo) -> bool {
    // SAFETY: a function of these arguments.
    unsafe {
        let entity = Entity {
            partition_key: None,
            row_key: None,
            timestamp: None,
            properties: bag(argument(fcinfo, 0)),
        };
        compiled(fcinfo, varlena::bytes(argument(fcinfo, 1))).matches(&entity)
    }
}

/// The residual of our own scans, for filters that also look at keys or the Timestamp.
#[pg_extern(sql = "
CREATE FUNCTION table_service.scan_passes(
    partition_key text, row_key text, \"timestamp\" timestamptz, properties table_service.properties, predicate bytea)
RETURNS boolean
VOLATILE PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
")]
fn scan_passes_entity(fcinfo: pg_sys::FunctionCallInfo) -> bool {
    // SAFETY: a function of these arguments.
    unsafe {
        let entity = Entity {
            partition_key: TextArg::from_datum(argument(fcinfo, 0), false).map(TextArg::get),
            row_key: TextArg::from_datum(argument(fcinfo, 1), false).map(TextArg::get),
            timestamp: Ticks::from_postgres_micros(argument(fcinfo, 2).value() as i64),
            properties: bag(argument(fcinfo, 3)),
        };
        compiled(fcinfo, varlena::bytes(argument(fcinfo, 4))).matches(&entity)
    }
}

/// An argument that is not NULL. It is a column of a row, or the predicate that the scan gives.
///
/// # Safety
/// The function has an argument of this number, from zero.
unsafe fn argument(fcinfo: pg_sys::FunctionCallInfo, number: usize) -> pg_sys::Datum {
    // SAFETY: as promised.
    let argument = unsafe { &*(*fcinfo).args.as_ptr().add(number) };
    if argument.isnull {
        broken("that a filter is tested on", "is NULL in a column of the entity");
    }
    argument.value
}

/// The bag in a column of a row.
///
/// # Safety
/// A datum of the type `properties` that lives long enough.
unsafe fn bag<'a>(datum: pg_sys::Datum) -> Properties<'a> {
    // SAFETY: as promised.
    let bytes = unsafe { varlena::bytes(datum) };
    Properties::of_known_format(bytes).unwrap_or_else(|| {
        broken(
            "that a filter is tested on",
            "holds bytes that are no property bag of a known format",
        )
    })
}

/// What a call site keeps: the predicate, and what it was made from.
struct Kept {
    source: Box<[u8]>,
    parameters: Option<Box<[u8]>>,
    predicate: Predicate,
}

/// The predicate of a filter, parsed once per call site as long as the filter stays the same.
///
/// # Safety
/// `fcinfo` is that of the running function.
pub unsafe fn parsed<'a>(
    fcinfo: pg_sys::FunctionCallInfo,
    filter: &str,
    parameters: Option<Properties<'_>>,
) -> &'a Predicate {
    let bytes = parameters.map(|parameters| parameters.as_bytes());
    let make = || Filter::parse(filter, parameters).map(|filter| Predicate::new(&filter));
    // SAFETY: as promised.
    unsafe { kept(fcinfo, filter.as_bytes(), bytes, make) }
}

/// The predicate in the bytes that a scan of ours carries.
///
/// # Safety
/// `fcinfo` is that of the running function.
unsafe fn compiled<'a>(fcinfo: pg_sys::FunctionCallInfo, bytes: &[u8]) -> &'a Predicate {
    // SAFETY: as promised.
    unsafe { kept(fcinfo, bytes, None, || Predicate::from_bytes(bytes)) }
}

/// # Safety
/// `fcinfo` is that of the running function.
unsafe fn kept<'a>(
    fcinfo: pg_sys::FunctionCallInfo,
    source: &[u8],
    parameters: Option<&[u8]>,
    make: impl Fn() -> Result<Predicate, Error>,
) -> &'a Predicate {
    let new = || Kept {
        source: source.into(),
        parameters: parameters.map(Box::from),
        predicate: make().or_raise(),
    };
    // SAFETY: fn_extra belongs to this function, which keeps nothing else there; what is kept lives as long as the call
    // site, and only this function replaces it.
    unsafe {
        let site = (*fcinfo).flinfo;
        let mut kept = (*site).fn_extra.cast::<Kept>();
        if kept.is_null() {
            kept = PgMemoryContexts::For((*site).fn_mcxt).leak_and_drop_on_delete(new());
            (*site).fn_extra = kept.cast();
        } else if *(*kept).source != *source || (*kept).parameters.as_deref() != parameters {
            *kept = new();
        }
        &(*kept).predicate
    }
}
