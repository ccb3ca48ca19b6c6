//! Nodes and lists: the parts of PostgreSQL's plans and expressions.

use pgrx::prelude::*;

/// Returns a node as the type of its tag.
///
/// # Safety
/// The node must be NULL or valid, and `T` must be the type for `tag`.
pub unsafe fn of_type<'n, T>(node: *mut pg_sys::Node, tag: pg_sys::NodeTag) -> Option<&'n T> {
    // SAFETY: the caller promises a valid node, and that the type fits the tag.
    unsafe {
        node.as_ref()
            .filter(|node| node.type_ == tag)
            .map(|_| &*node.cast::<T>())
    }
}

/// Returns the elements of a list of pointers.
///
/// # Safety
/// The list must be NULL or a list of pointers to this type.
pub unsafe fn elements<T>(list: *mut pg_sys::List) -> Vec<*mut T> {
    // SAFETY: the caller's promise. The length is that of the list.
    unsafe {
        let Some(list) = list.as_ref() else {
            return Vec::new();
        };
        let cells = std::slice::from_raw_parts(list.elements, usize::try_from(list.length).unwrap_or_default());
        cells.iter().map(|cell| cell.ptr_value.cast()).collect()
    }
}
