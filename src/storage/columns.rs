//! Where a table has the columns of an entity.
//!
//! Usually they are its first four. But a table may have lost other columns before it became one of the service, and
//! PostgreSQL never uses their numbers again.

use pgrx::prelude::*;

/// The numbers of the columns of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnNumbers {
    pub partition_key: i16,
    pub row_key: i16,
    pub timestamp: i16,
    pub properties: i16,
}

impl ColumnNumbers {
    /// Returns `None` if the relation lacks one of the columns.
    pub fn of(table: pg_sys::Oid) -> Option<ColumnNumbers> {
        let number = |name: &std::ffi::CStr| {
            // SAFETY: a transaction is running. The function takes any OID and a C string. It returns 0 if there is no
            // such column.
            let number = unsafe { pg_sys::get_attnum(table, name.as_ptr()) };
            (number > 0).then_some(number)
        };
        Some(ColumnNumbers {
            partition_key: number(c"partition_key")?,
            row_key: number(c"row_key")?,
            timestamp: number(c"timestamp")?,
            properties: number(c"properties")?,
        })
    }
}
