//! What PostgreSQL's relation cache says of an open relation.

use pgrx::prelude::*;

/// Returns the indexes of a table.
///
/// # Safety
/// The relation must be open. The iterator must not outlive the next look-up in a catalog.
pub unsafe fn indexes(relation: pg_sys::Relation) -> impl ExactSizeIterator<Item = pg_sys::Oid> {
    // SAFETY: an open relation points to a valid entry of the relation cache. `RelationGetIndexList` makes the entry's
    // list and returns a copy, which is freed. From then on the entry's own list is valid, or NULL if it is empty. It is
    // a list of OIDs, with `length` elements.
    let list = unsafe {
        if !(*relation).rd_indexvalid {
            pg_sys::list_free(pg_sys::RelationGetIndexList(relation));
        }
        (*relation).rd_indexlist.as_ref().map_or(&[][..], |list| {
            std::slice::from_raw_parts(list.elements, usize::try_from(list.length).unwrap_or_default())
        })
    };
    // SAFETY: as above.
    list.iter().map(|cell| unsafe { cell.oid_value })
}
