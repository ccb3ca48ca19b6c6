//! The SQL types of the API as arguments and results of Rust functions, one file a type.

mod batch_operation;
mod composite;
mod entity;
mod json;
mod properties;
mod record;
mod regclass;
mod text;
mod trigger;
pub mod value;

pub use batch_operation::{BatchOperationOut, BatchOperationsArg};
pub use entity::{EntityArg, EntityOut};
pub use json::{JsonArg, JsonOut, JsonbArg, JsonbOut};
pub use properties::{PropertiesArg, PropertiesOut, ShellIn, ShellOut};
pub use record::{Column, RecordArg};
pub use regclass::RegClass;
pub use text::{CStringOut, TextArg, TextArrayArg, TextOut, name_bytes, utf8};
pub use trigger::TriggerRow;

/// Says which SQL type a Rust type stands for.
macro_rules! sql_type {
    ($rust:ty, $sql:literal) => {
        $crate::postgres::types::sql_type!($rust, $sql, ThisExtension);
    };
    ($rust:ty, $sql:literal, $origin:ident) => {
        // SAFETY: the conversions of the type are between exactly these two types.
        unsafe impl ::pgrx::pgrx_sql_entity_graph::metadata::SqlTranslatable for $rust {
            const TYPE_IDENT: &'static str = ::pgrx::pgrx_resolved_type!($rust);
            const TYPE_ORIGIN: ::pgrx::pgrx_sql_entity_graph::metadata::TypeOrigin =
                ::pgrx::pgrx_sql_entity_graph::metadata::TypeOrigin::$origin;
            const ARGUMENT_SQL: Result<
                ::pgrx::pgrx_sql_entity_graph::metadata::SqlMappingRef,
                ::pgrx::pgrx_sql_entity_graph::metadata::ArgumentError,
            > = Ok(::pgrx::pgrx_sql_entity_graph::metadata::SqlMappingRef::literal(
                $sql,
            ));
            const RETURN_SQL: Result<
                ::pgrx::pgrx_sql_entity_graph::metadata::ReturnsRef,
                ::pgrx::pgrx_sql_entity_graph::metadata::ReturnsError,
            > = Ok(::pgrx::pgrx_sql_entity_graph::metadata::ReturnsRef::One(
                ::pgrx::pgrx_sql_entity_graph::metadata::SqlMappingRef::literal($sql),
            ));
        }
    };
}

/// A type that exists before the extension, so that nothing has to be created first.
macro_rules! external_sql_type {
    ($rust:ty, $sql:literal) => {
        $crate::postgres::types::sql_type!($rust, $sql, External);
    };
}

/// An argument type whose datum is converted by `FromDatum`.
macro_rules! argument {
    ($rust:ident) => {
        // SAFETY: the datum is of the SQL type that the type stands for.
        unsafe impl<'fcx> ::pgrx::callconv::ArgAbi<'fcx> for $rust<'fcx> {
            unsafe fn unbox_arg_unchecked(arg: ::pgrx::callconv::Arg<'_, 'fcx>) -> Self {
                // SAFETY: as promised by the caller. PostgreSQL calls with NULL only where the argument is an Option.
                match unsafe { arg.unbox_arg_using_from_datum() } {
                    Some(value) => value,
                    None => $crate::postgres::error::raise(::table_service_model::Error::null_argument("the argument")),
                }
            }
        }
    };
}

/// A result that is a datum and not NULL.
macro_rules! result {
    ($rust:ty, $this:ident => $datum:expr) => {
        // SAFETY: the datum is of the SQL type that the type stands for and was allocated in the caller's context.
        unsafe impl ::pgrx::callconv::BoxRet for $rust {
            unsafe fn box_into<'fcx>(self, fcinfo: &mut ::pgrx::callconv::FcInfo<'fcx>) -> ::pgrx::datum::Datum<'fcx> {
                let $this = self;
                // SAFETY: see above.
                unsafe { fcinfo.return_raw_datum($datum) }
            }
        }
    };
}

pub(crate) use {argument, external_sql_type, result, sql_type};
