//! The running call of an SQL function, as an argument of the Rust function.

use std::marker::PhantomData;

use pgrx::prelude::*;

/// The call that runs. Only PostgreSQL's call of the Rust function makes one. The SQL function has no argument for it.
pub struct Call<'f> {
    info: pg_sys::FunctionCallInfo,
    call: PhantomData<&'f ()>,
}

impl<'f> Call<'f> {
    /// # Safety
    /// It must be what PostgreSQL has passed to the running function, and be valid as long as `'f`.
    pub unsafe fn new(info: pg_sys::FunctionCallInfo) -> Call<'f> {
        Call {
            info,
            call: PhantomData,
        }
    }

    /// Returns what PostgreSQL has passed to the function. It is valid as long as this is.
    pub fn info(&self) -> pg_sys::FunctionCallInfo {
        self.info
    }
}

/// Raises an error for a function whose declaration in this database does not match this version of the library.
pub fn does_not_fit() -> ! {
    refuse("the columns of the result do not match this version of the library of table_service")
}

/// Raises an error for a call that cannot be answered where it stands.
pub fn refuse(message: &'static str) -> ! {
    ereport!(ERROR, PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, message);
}

/// Makes a type with one lifetime an argument that stands for the running call, and makes it of a [`Call`]. The SQL function
/// has no argument for it.
macro_rules! call_argument {
    ($rust:ident, $make:expr) => {
        // SAFETY: the value is made of the call, and of none of its arguments.
        unsafe impl<'fcx> ::pgrx::callconv::ArgAbi<'fcx> for $rust<'fcx> {
            unsafe fn unbox_arg_unchecked(arg: ::pgrx::callconv::Arg<'_, 'fcx>) -> Self {
                // SAFETY: what is read is no argument either, but the call.
                $make(unsafe { $crate::postgres::call::Call::new(arg.unbox_unchecked()) })
            }

            fn is_virtual_arg() -> bool {
                true
            }
        }
        // SAFETY: the type is left out of the declaration of the function.
        unsafe impl ::pgrx::pgrx_sql_entity_graph::metadata::SqlTranslatable for $rust<'_> {
            const TYPE_IDENT: &'static str = ::pgrx::pgrx_resolved_type!($rust<'_>);
            const TYPE_ORIGIN: ::pgrx::pgrx_sql_entity_graph::metadata::TypeOrigin =
                ::pgrx::pgrx_sql_entity_graph::metadata::TypeOrigin::External;
            const ARGUMENT_SQL: Result<
                ::pgrx::pgrx_sql_entity_graph::metadata::SqlMappingRef,
                ::pgrx::pgrx_sql_entity_graph::metadata::ArgumentError,
            > = Ok(::pgrx::pgrx_sql_entity_graph::metadata::SqlMappingRef::Skip);
            const RETURN_SQL: Result<
                ::pgrx::pgrx_sql_entity_graph::metadata::ReturnsRef,
                ::pgrx::pgrx_sql_entity_graph::metadata::ReturnsError,
            > = Ok(::pgrx::pgrx_sql_entity_graph::metadata::ReturnsRef::One(
                ::pgrx::pgrx_sql_entity_graph::metadata::SqlMappingRef::Skip,
            ));
        }
    };
}

call_argument!(Call, std::convert::identity);

pub(crate) use call_argument;
