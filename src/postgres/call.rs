//! The running call of an SQL function, as an argument of the Rust function.

use std::marker::PhantomData;

use pgrx::callconv::{Arg, ArgAbi};
use pgrx::prelude::*;

use super::types::declaration;

/// The call that runs. Only PostgreSQL's call of the Rust function makes one. The SQL function has no argument for it.
pub struct Call<'f> {
    info: pg_sys::FunctionCallInfo,
    call: PhantomData<&'f ()>,
}

impl Call<'_> {
    /// Returns the call as PostgreSQL has passed it to the function. It is valid as long as this is.
    pub fn info(&self) -> pg_sys::FunctionCallInfo {
        self.info
    }
}

// SAFETY: the value is made of the call, and of none of its arguments.
unsafe impl<'fcx> ArgAbi<'fcx> for Call<'fcx> {
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> Self {
        Call {
            // SAFETY: this reads no argument either, but the call, which is valid as long as `'fcx`.
            info: unsafe { arg.unbox_unchecked() },
            call: PhantomData,
        }
    }

    fn is_virtual_arg() -> bool {
        true
    }
}

declaration!(Call<'_>, External, Ok(SqlMappingRef::Skip), SqlMappingRef::Skip);

/// Raises an error for a function whose declaration in this database does not match this version of the library.
pub fn does_not_fit() -> ! {
    refuse("the columns of the result do not match this version of the library of table_service")
}

/// Raises an error for a call that its place in the statement does not allow.
pub fn refuse(message: &'static str) -> ! {
    ereport!(ERROR, PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, message);
}
