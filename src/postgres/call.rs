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
    /// It must be the call that PostgreSQL has passed to the running function, and be valid as long as `'f`.
    pub unsafe fn new(info: pg_sys::FunctionCallInfo) -> Call<'f> {
        Call {
            info,
            call: PhantomData,
        }
    }

    /// Returns the call as PostgreSQL has passed it to the function. It is valid as long as this is.
    pub fn info(&self) -> pg_sys::FunctionCallInfo {
        self.info
    }
}

/// Raises an error for a function whose declaration in this database does not match this version of the library.
pub fn does_not_fit() -> ! {
    refuse("the columns of the result do not match this version of the library of table_service")
}

/// Raises an error for a call that its place in the statement does not allow.
pub fn refuse(message: &'static str) -> ! {
    ereport!(ERROR, PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, message);
}

/// Makes a type with one lifetime an argument for the running call, made from a [`Call`]. The SQL function has no
/// argument for it.
macro_rules! call_argument {
    ($rust:ident, $make:expr) => {
        // SAFETY: the value is made of the call, and of none of its arguments.
        unsafe impl<'fcx> ::pgrx::callconv::ArgAbi<'fcx> for $rust<'fcx> {
            unsafe fn unbox_arg_unchecked(arg: ::pgrx::callconv::Arg<'_, 'fcx>) -> Self {
                // SAFETY: this reads no argument either, but the call.
                $make(unsafe { $crate::postgres::call::Call::new(arg.unbox_unchecked()) })
            }

            fn is_virtual_arg() -> bool {
                true
            }
        }
        $crate::postgres::types::declaration!($rust<'_>, External, Ok(SqlMappingRef::Skip), SqlMappingRef::Skip);
    };
}

call_argument!(Call, std::convert::identity);

pub(crate) use call_argument;
