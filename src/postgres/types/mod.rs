//! The SQL types of the functions' arguments and results, one file for each type.

pub mod array;
pub mod composite;
mod internal;
mod json;
mod properties;
mod record;
mod regclass;
mod text;
mod trigger;
pub mod value;

use pgrx::pg_sys;
use table_service_model::Error;
use table_service_model::limits::ARGUMENT_BYTES;

use super::error::raise;
use super::varlena;

pub use internal::{MessageArg, PlannerRequestArg};
pub use json::{JsonArg, JsonOut, JsonbArg, JsonbOut};
pub use properties::{PropertiesArg, PropertiesOut, ShellIn, ShellOut};
pub use record::{Column, RecordArg};
pub use regclass::RegClass;
pub use text::{CStringOut, TextArg, TextArrayArg, TextOut, name_bytes, name_of};
pub use trigger::TriggerRow;

/// Returns an argument of variable length, which is not unpacked yet. Raises an error if it is longer than any argument
/// needs to be: its readers do not check for interrupts.
///
/// # Safety
/// `datum` must be a varlena that is not NULL.
unsafe fn within_limit(datum: pg_sys::Datum) -> pg_sys::Datum {
    // SAFETY: the caller's promise.
    if unsafe { varlena::size(datum) } > ARGUMENT_BYTES {
        raise(Error::argument(format!(
            "An argument has at most {ARGUMENT_BYTES} bytes"
        )));
    }
    datum
}

/// Says how the declaration of a function names a Rust type as an argument and as a result.
macro_rules! declaration {
    ($rust:ty, $origin:ident, $argument:expr, $result:expr) => {
        const _: () = {
            use ::pgrx::pgrx_sql_entity_graph::metadata::*;

            // SAFETY: the conversions of the Rust type read and make values of exactly this SQL type. One that the declaration
            // leaves out is none.
            unsafe impl SqlTranslatable for $rust {
                const TYPE_IDENT: &'static str = ::pgrx::pgrx_resolved_type!($rust);
                const TYPE_ORIGIN: TypeOrigin = TypeOrigin::$origin;
                const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> = $argument;
                const RETURN_SQL: Result<ReturnsRef, ReturnsError> = Ok(ReturnsRef::One($result));
            }
        };
    };
}

/// Declares the SQL type of a Rust type: `External` if it exists before the extension, so that pgrx orders nothing by
/// it, or else `ThisExtension`.
macro_rules! sql_type {
    ($rust:ty, $sql:literal, $origin:ident) => {
        $crate::postgres::types::declaration!(
            $rust,
            $origin,
            Ok(SqlMappingRef::literal($sql)),
            SqlMappingRef::literal($sql)
        );
    };
}

/// Makes a Rust type an argument type. `value` makes it of a datum that is not NULL, is of the SQL type that is declared for the Rust
/// type, and lives as long as the argument.
macro_rules! argument {
    ($rust:ident, $datum:ident => $value:expr) => {
        impl ::pgrx::datum::FromDatum for $rust<'_> {
            unsafe fn from_polymorphic_datum(
                $datum: ::pgrx::pg_sys::Datum,
                is_null: bool,
                _: ::pgrx::pg_sys::Oid,
            ) -> Option<Self> {
                if is_null {
                    return None;
                }
                Some($value)
            }
        }

        // SAFETY: PostgreSQL passes a datum of the SQL type that `sql_type` declares for this Rust type.
        unsafe impl<'fcx> ::pgrx::callconv::ArgAbi<'fcx> for $rust<'fcx> {
            unsafe fn unbox_arg_unchecked(arg: ::pgrx::callconv::Arg<'_, 'fcx>) -> Self {
                // SAFETY: the caller promises that the argument is of this type. PostgreSQL passes NULL only where the
                // argument is an `Option`.
                match unsafe { arg.unbox_arg_using_from_datum() } {
                    Some(value) => value,
                    None => $crate::postgres::error::raise(::table_service_model::Error::null_argument("the argument")),
                }
            }
        }
    };
}

/// Makes a Rust type a result type. The result is a datum that is not NULL.
macro_rules! result {
    ($rust:ty, $this:ident => $datum:expr) => {
        // SAFETY: the expression makes a datum of the SQL type that is declared for this Rust type, in the caller's
        // memory context.
        unsafe impl ::pgrx::callconv::BoxRet for $rust {
            unsafe fn box_into<'fcx>(self, fcinfo: &mut ::pgrx::callconv::FcInfo<'fcx>) -> ::pgrx::datum::Datum<'fcx> {
                let $this = self;
                // SAFETY: see above.
                unsafe { fcinfo.return_raw_datum($datum) }
            }
        }
    };
}

pub(crate) use {argument, declaration, result, sql_type};
