//! Filters evaluated on rows, in one call per row. A scan of ours lends its predicate; elsewhere what a filter was parsed
//! to is kept with the call site.

use std::cell::RefCell;

use pgrx::prelude::*;
use pgrx::{FromDatum, PgMemoryContexts};
use table_service_model::entity::Entity;
use table_service_model::filter::{Filter, Predicate};
use table_service_model::{Error, Properties, Ticks};

use crate::deadline;
use crate::error::OrRaise;
use crate::scan::Row;
use crate::types::{EntityArg, PropertiesArg, varlena_bytes};

/// Whether an entity passes a filter. `parameters` gives values to `@name` in it.
#[pg_extern(immutable, parallel_safe)]
fn matches(
    entity: Option<EntityArg<'_>>,
    filter: Option<&str>,
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    fcinfo: pg_sys::FunctionCallInfo,
) -> bool {
    let (Some(entity), Some(filter)) = (&entity, filter) else {
        let missing = if entity.is_none() { "entity" } else { "filter" };
        return Err(Error::null_argument(missing)).or_raise();
    };
    let parameters = parameters.map(|parameters| parameters.get());
    // SAFETY: the running function's own fcinfo.
    unsafe { parsed(fcinfo, filter, parameters) }.matches(&entity.get())
}

/// `matches` for the columns of an entity: what `filter_to_sql` writes.
#[pg_extern(immutable, strict, parallel_safe)]
fn entity_passes(
    partition_key: &str,
    row_key: &str,
    timestamp: TimestampWithTimeZone,
    properties: PropertiesArg<'_>,
    filter: &str,
    fcinfo: pg_sys::FunctionCallInfo,
) -> bool {
    let entity = Entity {
        partition_key: Some(partition_key),
        row_key: Some(row_key),
        timestamp: Ticks::from_postgres_micros(timestamp.into_inner()),
        properties: properties.get(),
    };
    // SAFETY: the running function's own fcinfo.
    unsafe { parsed(fcinfo, filter, None) }.matches(&entity)
}

/// The predicate of the scan that runs, and the datum that its statements have it in.
struct Lent {
    datum: usize,
    predicate: Predicate,
}

thread_local! {
    static LENT: RefCell<Option<Lent>> = const { RefCell::new(None) };
}

/// Takes back what it lent when it is dropped, also by an error.
pub struct Guard(Option<Lent>);

impl Drop for Guard {
    fn drop(&mut self) {
        LENT.set(self.0.take());
    }
}

/// Lends a predicate to the statements that have its bytes in this datum, so that a query of many ranges does not read
/// them for each of its ranges. The datum must live until the guard is dropped.
pub fn lend(datum: pg_sys::Datum, predicate: Predicate) -> Guard {
    let lent = Lent {
        datum: datum.value(),
        predicate,
    };
    Guard(LENT.replace(Some(lent)))
}

/// Whether a row passes the predicate that is lent. At the deadline of a page it passes untested.
pub fn passes(row: &Row) -> bool {
    if deadline::cuts_here() {
        return true;
    }
    LENT.with_borrow(|lent| lent.as_ref().is_none_or(|lent| lent.predicate.matches(&row.entity())))
}

/// Whether an entity passes the predicate in a datum.
///
/// # Safety
/// `fcinfo` is that of the running function, and `datum` a bytea that is not NULL.
unsafe fn scan_passes(fcinfo: pg_sys::FunctionCallInfo, datum: pg_sys::Datum, entity: &Entity<'_>) -> bool {
    let lent = LENT.with_borrow(|lent| match lent {
        Some(lent) if lent.datum == datum.value() => Some(lent.predicate.matches(entity)),
        _ => None,
    });
    // SAFETY: as promised.
    lent.unwrap_or_else(|| unsafe { compiled(fcinfo, varlena_bytes(datum).1) }.matches(entity))
}

/// The residual of our own scans, for filters on properties alone. At the deadline of a page it lets one row pass; scans for
/// pages do not run in parallel.
///
/// The arguments are read by hand: this runs once for every row of a scan.
#[pg_extern(sql = "
CREATE FUNCTION table_service.scan_passes(properties table_service.properties, predicate bytea) RETURNS boolean
VOLATILE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
")]
fn scan_passes_properties(fcinfo: pg_sys::FunctionCallInfo) -> bool {
    if deadline::cuts_here() {
        return true;
    }
    // SAFETY: a STRICT function of these arguments.
    unsafe {
        let (_, bag) = varlena_bytes(argument(fcinfo, 0));
        let entity = Entity {
            partition_key: None,
            row_key: None,
            timestamp: None,
            properties: Properties::from_stored(bag),
        };
        scan_passes(fcinfo, argument(fcinfo, 1), &entity)
    }
}

/// The residual of our own scans, for filters that also look at keys or the Timestamp.
#[pg_extern(sql = "
CREATE FUNCTION table_service.scan_passes(
    partition_key text, row_key text, \"timestamp\" timestamptz, properties table_service.properties, predicate bytea)
RETURNS boolean
VOLATILE STRICT PARALLEL SAFE LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
")]
fn scan_passes_entity(fcinfo: pg_sys::FunctionCallInfo) -> bool {
    if deadline::cuts_here() {
        return true;
    }
    // SAFETY: a STRICT function of these arguments.
    unsafe {
        let (_, bag) = varlena_bytes(argument(fcinfo, 3));
        let entity = Entity {
            partition_key: <&str>::from_datum(argument(fcinfo, 0), false),
            row_key: <&str>::from_datum(argument(fcinfo, 1), false),
            timestamp: Ticks::from_postgres_micros(argument(fcinfo, 2).value() as i64),
            properties: Properties::from_stored(bag),
        };
        scan_passes(fcinfo, argument(fcinfo, 4), &entity)
    }
}

/// # Safety
/// The function has an argument of this number, from zero.
unsafe fn argument(fcinfo: pg_sys::FunctionCallInfo, number: usize) -> pg_sys::Datum {
    // SAFETY: as promised.
    unsafe { (*(*fcinfo).args.as_ptr().add(number)).value }
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
unsafe fn parsed<'a>(
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
