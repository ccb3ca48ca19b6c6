//! Tests the residual filter of a query on a row, in one function call per row. The parsed filter is kept with the call
//! site.

use pgrx::prelude::*;
use pgrx::{FromDatum, PgMemoryContexts};
use table_service_model::{Dialect, Entity, Error, Filter, Predicate, Properties, Ticks};

use crate::postgres::{Call, OrRaise, TextArg, raise, varlena};
use crate::storage::row::{bag, broken};

/// Returns whether properties pass a predicate, which looks at nothing else. The call is of a function with the
/// arguments `properties table_service.properties, predicate bytea`. They are read here, which is faster: the function
/// runs for every row of a scan.
pub fn scanned_properties_pass(mut call: Call<'_>) -> bool {
    // SAFETY: the function has these arguments.
    let (properties, predicate) = unsafe {
        let properties = bag(argument(&call, 0), || TESTED.to_owned());
        (properties, varlena::bytes(argument(&call, 1)))
    };
    let entity = Entity {
        partition_key: None,
        row_key: None,
        timestamp: None,
        properties,
    };
    compiled(&mut call, predicate).matches(&entity)
}

/// Returns whether an entity passes a predicate. The call is of a function with the arguments `partition_key text,
/// row_key text, "timestamp" timestamptz, properties table_service.properties, predicate bytea`.
pub fn scanned_entity_passes(mut call: Call<'_>) -> bool {
    // SAFETY: the function has these arguments.
    let (columns, predicate) = unsafe {
        let columns = [0, 1, 2, 3].map(|number| argument(&call, number));
        (columns, varlena::bytes(argument(&call, 4)))
    };
    passes(columns, compiled(&mut call, predicate))
}

/// Returns whether an entity passes a filter, which is in this dialect. The call is of a function with the arguments
/// `partition_key text, row_key text, "timestamp" timestamptz, properties table_service.properties, filter text`.
pub fn tested_entity_passes(mut call: Call<'_>, dialect: Dialect) -> bool {
    // SAFETY: the function has these arguments.
    let (columns, filter) = unsafe {
        let columns = [0, 1, 2, 3].map(|number| argument(&call, number));
        (columns, TextArg::from_datum(argument(&call, 4), false))
    };
    let filter = filter.map_or("", TextArg::get);
    passes(columns, parsed(&mut call, filter, None, dialect))
}

/// Returns whether an entity with these columns passes a predicate.
fn passes([partition_key, row_key, timestamp, properties]: [pg_sys::Datum; 4], predicate: &Predicate) -> bool {
    let columns = predicate.columns_of_filter();
    let key = |key: pg_sys::Datum| {
        (columns.partition_key || columns.row_key)
            // SAFETY: the column is a text.
            .then(|| unsafe { TextArg::from_datum(key, false) }.map(TextArg::get))
            .flatten()
    };
    let timestamp = timestamp.value() as i64;
    // SAFETY: the column is a bag.
    let properties = unsafe { bag(properties, || TESTED.to_owned()) };
    let entity = Entity {
        partition_key: key(partition_key),
        row_key: key(row_key),
        timestamp: columns
            .timestamp
            .then(|| Ticks::from_postgres_micros(timestamp))
            .flatten(),
        properties,
    };
    predicate.passes(&entity)
        && predicate
            .alive()
            .is_none_or(|alive| alive.includes(timestamp, properties))
}

/// The row in error messages. Its keys may not be among the arguments.
const TESTED: &str = "that a filter is tested on";

/// Returns an argument: a column of a row, or the predicate of the scan. Raises an error if it is NULL: about a broken
/// row in a scan, and about the argument in any other call.
///
/// # Safety
/// The function must have an argument of this number, counted from zero.
unsafe fn argument(call: &Call<'_>, number: usize) -> pg_sys::Datum {
    // SAFETY: the caller promises that the argument exists.
    let argument = unsafe { &*(*call.info()).args.as_ptr().add(number) };
    if argument.isnull {
        if is_column(call, number) {
            broken(TESTED, "is NULL in a column of the entity");
        }
        raise(Error::null_argument("the argument"));
    }
    argument.value
}

/// Returns whether the expression of an argument is a column.
fn is_column(call: &Call<'_>, number: usize) -> bool {
    // SAFETY: a call has the data of its function, and perhaps its expression. A node has the type of its tag.
    unsafe {
        let arguments = match (*(*call.info()).flinfo).fn_expr.cast::<pg_sys::FuncExpr>().as_ref() {
            Some(expression) if expression.xpr.type_ == pg_sys::NodeTag::T_FuncExpr => expression.args,
            _ => return false,
        };
        i32::try_from(number).is_ok_and(|number| {
            let argument = pg_sys::list_nth(arguments, number).cast::<pg_sys::Node>();
            (*argument).type_ == pg_sys::NodeTag::T_Var
        })
    }
}

/// The predicate that a call site keeps, and its source.
struct Kept {
    source: Box<[u8]>,
    parameters: Option<Box<[u8]>>,
    dialect: Dialect,
    predicate: Predicate,
}

/// Returns the predicate of a filter. It is parsed once per call site, as long as the filter and its dialect stay the same.
pub fn parsed<'c>(
    call: &'c mut Call<'_>,
    filter: &str,
    parameters: Option<Properties<'_>>,
    dialect: Dialect,
) -> &'c Predicate {
    let bytes = parameters.map(|parameters| parameters.as_bytes());
    let make = || Filter::parse(filter, parameters, dialect).map(|filter| Predicate::new(&filter));
    kept(call, filter.as_bytes(), bytes, dialect, make)
}

/// Returns the predicate in the bytes that a scan passes.
fn compiled<'c>(call: &'c mut Call<'_>, bytes: &[u8]) -> &'c Predicate {
    // A compiled filter has no dialect any more.
    kept(call, bytes, None, Dialect::default(), || Predicate::from_bytes(bytes))
}

/// Returns the predicate that the call site keeps, and makes a new one if its source has changed.
fn kept<'c>(
    call: &'c mut Call<'_>,
    source: &[u8],
    parameters: Option<&[u8]>,
    dialect: Dialect,
    make: impl Fn() -> Result<Predicate, Error>,
) -> &'c Predicate {
    let new = || Kept {
        source: source.into(),
        parameters: parameters.map(Box::from),
        dialect,
        predicate: make().or_raise(),
    };
    // SAFETY: `flinfo` is that of the running function. Its `fn_extra` belongs to this module, so it is NULL or points
    // to a `Kept`. The `Kept` lives in `fn_mcxt`, as long as the call site, and only this function replaces it. It does
    // not do so while somebody has it: `call` is the only value for the call.
    unsafe {
        let site = (*call.info()).flinfo;
        let mut kept = (*site).fn_extra.cast::<Kept>();
        if kept.is_null() {
            kept = PgMemoryContexts::For((*site).fn_mcxt).leak_and_drop_on_delete(new());
            (*site).fn_extra = kept.cast();
        } else if *(*kept).source != *source
            || (*kept).parameters.as_deref() != parameters
            || (*kept).dialect != dialect
        {
            *kept = new();
        }
        &(*kept).predicate
    }
}
