//! Descriptors of rows.

use pgrx::pg_sys;

/// Returns the type of a column, counted from zero.
///
/// # Safety
/// The descriptor must be valid and have this column.
pub unsafe fn type_of(descriptor: pg_sys::TupleDesc, column: usize) -> pg_sys::Oid {
    // SAFETY: the caller promises that the descriptor has this column. `attrs` is an array with an element for each
    // column. PostgreSQL 18 stores a shorter form of each column first, and the array after them.
    unsafe {
        #[cfg(since_pg18)]
        let columns = (&raw const (*descriptor).compact_attrs)
            .cast::<pg_sys::CompactAttribute>()
            .add((*descriptor).natts as usize);
        #[cfg(not(since_pg18))]
        let columns = &raw const (*descriptor).attrs;
        (*columns.cast::<pg_sys::FormData_pg_attribute>().add(column)).atttypid
    }
}

/// Returns the types of all columns.
///
/// # Safety
/// The descriptor must be valid.
pub unsafe fn types_of(descriptor: pg_sys::TupleDesc) -> Vec<pg_sys::Oid> {
    // SAFETY: the caller promises a valid descriptor. `natts` is the number of its columns.
    unsafe {
        let count = usize::try_from((*descriptor).natts).unwrap_or_default();
        (0..count).map(|column| type_of(descriptor, column)).collect()
    }
}
