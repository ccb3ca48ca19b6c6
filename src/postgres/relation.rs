//! The facts about an open relation in PostgreSQL's relation cache: its kind, its triggers and rules, its indexes.

use std::ffi::c_char;
use std::marker::PhantomData;

use pgrx::prelude::*;

const NO_LOCK: pg_sys::LOCKMODE = pg_sys::NoLock as pg_sys::LOCKMODE;

/// An open relation.
#[derive(Clone, Copy)]
pub struct Relation<'r> {
    relation: pg_sys::Relation,
    open: PhantomData<&'r ()>,
}

/// A table that is open as long as this lives. If an error passes through, PostgreSQL closes it at the end of the (sub)transaction.
pub struct OpenTable(pg_sys::Relation);

impl OpenTable {
    /// Opens a table that the caller has locked.
    pub fn open(oid: pg_sys::Oid) -> OpenTable {
        // SAFETY: the caller holds a lock on the relation, so it can be opened without one.
        OpenTable(unsafe { pg_sys::table_open(oid, NO_LOCK) })
    }

    /// Returns the relation.
    pub fn get(&self) -> Relation<'_> {
        Relation {
            relation: self.0,
            open: PhantomData,
        }
    }
}

impl Drop for OpenTable {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: `open` opened it.
            unsafe { pg_sys::table_close(self.0, NO_LOCK) };
        }
    }
}

/// Runs `f` with a relation that the caller has locked.
pub fn with_relation<R>(oid: pg_sys::Oid, f: impl FnOnce(Relation<'_>) -> R) -> R {
    f(OpenTable::open(oid).get())
}

/// A slot for rows, as long as this lives.
pub struct Slot(*mut pg_sys::TupleTableSlot);

impl Slot {
    /// Makes a slot for the rows of a table.
    pub fn of(table: Relation<'_>) -> Slot {
        // SAFETY: the relation is open.
        Slot(unsafe { pg_sys::table_slot_create(table.relation, std::ptr::null_mut()) })
    }

    /// Makes a slot for copies of the rows of a table.
    pub fn of_copies(table: Relation<'_>) -> Slot {
        // SAFETY: the descriptor of an open relation is valid.
        Slot(unsafe { pg_sys::MakeSingleTupleTableSlot(table.descriptor(), &raw const pg_sys::TTSOpsHeapTuple) })
    }

    /// Returns PostgreSQL's own slot.
    pub fn as_ptr(&self) -> *mut pg_sys::TupleTableSlot {
        self.0
    }

    /// Returns PostgreSQL's own slot, which has a row.
    ///
    /// Raises an internal error if it has none.
    pub fn with_row(&self) -> *mut pg_sys::TupleTableSlot {
        // SAFETY: the slot is valid as long as this lives.
        if unsafe { is_empty(self.0) } {
            ereport!(
                ERROR,
                PgSqlErrorCode::ERRCODE_INTERNAL_ERROR,
                "there is no row where one is read"
            );
        }
        self.0
    }
}

/// Returns whether a slot has no row.
///
/// # Safety
/// It must be valid.
pub unsafe fn is_empty(slot: *const pg_sys::TupleTableSlot) -> bool {
    // SAFETY: the caller's promise.
    unsafe { (*slot).tts_flags & pg_sys::TTS_FLAG_EMPTY as u16 != 0 }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: it was made by this type.
            unsafe { pg_sys::ExecDropSingleTupleTableSlot(self.0) };
        }
    }
}

/// Returns whether this transaction holds the lock of a write on a relation.
pub fn is_locked_to_write(relation: Relation<'_>) -> bool {
    // SAFETY: the relation is open.
    unsafe { pg_sys::CheckRelationLockedByMe(relation.relation, pg_sys::RowExclusiveLock as pg_sys::LOCKMODE, true) }
}

impl<'r> Relation<'r> {
    /// Returns PostgreSQL's own relation. It is open as long as `'r`.
    pub fn as_ptr(self) -> pg_sys::Relation {
        self.relation
    }

    /// Returns its OID.
    pub fn oid(self) -> pg_sys::Oid {
        // SAFETY: an open relation points to a valid entry of the relation cache.
        unsafe { (*self.relation).rd_id }
    }

    /// Returns the row of `pg_class`.
    pub fn class(self) -> &'r pg_sys::FormData_pg_class {
        // SAFETY: as above. An entry has a row of `pg_class`, which stays where it is while the relation is open.
        unsafe { &*(*self.relation).rd_rel }
    }

    /// Returns whether this is a relation of a kind, such as `RELKIND_RELATION`.
    pub fn is(self, kind: u8) -> bool {
        self.class().relkind == kind as c_char
    }

    /// Returns the descriptor of its rows, which is valid as long as `'r`.
    pub fn descriptor(self) -> pg_sys::TupleDesc {
        // SAFETY: as above.
        unsafe { (*self.relation).rd_att }
    }

    /// Returns the defaults and the CHECK constraints.
    pub fn constraints(self) -> Option<&'r pg_sys::TupleConstr> {
        // SAFETY: the descriptor of an open relation is valid. Its constraints are valid or NULL.
        unsafe { (*self.descriptor()).constr.as_ref() }
    }

    /// Returns whether it has rules.
    pub fn has_rules(self) -> bool {
        // SAFETY: as above.
        unsafe { !(*self.relation).rd_rules.is_null() }
    }

    /// Returns whether a trigger fires on one of these events, such as `TRIGGER_TYPE_INSERT`. Triggers of foreign keys
    /// and disabled triggers also count.
    pub fn has_triggers(self, events: u32) -> bool {
        self.has_trigger(events, |_| true)
    }

    /// Returns whether a trigger that meets a test fires on one of these events. The test reads nothing else.
    pub fn has_trigger(self, events: u32, test: impl Fn(&pg_sys::Trigger) -> bool) -> bool {
        // SAFETY: as above. The `numtriggers` triggers are valid or NULL, until the next look-up in a catalog.
        let all = unsafe {
            (*self.relation).trigdesc.as_ref().map_or(&[][..], |all| {
                std::slice::from_raw_parts(all.triggers, usize::try_from(all.numtriggers).unwrap_or_default())
            })
        };
        all.iter()
            .any(|trigger| type_of(trigger) & events != 0 && test(trigger))
    }

    /// Returns the indexes.
    pub fn indexes(self) -> Vec<pg_sys::Oid> {
        // SAFETY: the list is copied. It is a list of OIDs.
        unsafe { self.index_list().iter().map(|cell| cell.oid_value).collect() }
    }

    /// Returns how many indexes there are.
    pub fn count_indexes(self) -> usize {
        // SAFETY: only the length is read.
        unsafe { self.index_list() }.len()
    }

    /// Returns the index of the primary key.
    pub fn primary_key(self) -> Option<pg_sys::Oid> {
        // SAFETY: as above. The entry knows the index of the primary key when it has its list.
        let primary_key = unsafe {
            self.index_list();
            (*self.relation).rd_pkindex
        };
        (primary_key != pg_sys::InvalidOid).then_some(primary_key)
    }

    /// Returns the entry's own list of indexes, after PostgreSQL has made it.
    ///
    /// # Safety
    /// It must not be used after the next look-up in a catalog.
    unsafe fn index_list(self) -> &'r [pg_sys::ListCell] {
        // SAFETY: as above. `RelationGetIndexList` makes the list and returns a copy, which is freed. From then on the entry's list is
        // valid, or NULL if it is empty.
        unsafe {
            if !(*self.relation).rd_indexvalid {
                pg_sys::list_free(pg_sys::RelationGetIndexList(self.relation));
            }
            (*self.relation).rd_indexlist.as_ref().map_or(&[][..], |list| {
                std::slice::from_raw_parts(list.elements, usize::try_from(list.length).unwrap_or_default())
            })
        }
    }
}

/// Returns whether a trigger fires before a row is written.
pub fn is_before_row(trigger: &pg_sys::Trigger) -> bool {
    const ROW: u32 = pg_sys::TRIGGER_TYPE_ROW;
    const TIMES: u32 = pg_sys::TRIGGER_TYPE_BEFORE | pg_sys::TRIGGER_TYPE_INSTEAD;
    type_of(trigger) & (ROW | TIMES) == ROW | pg_sys::TRIGGER_TYPE_BEFORE
}

fn type_of(trigger: &pg_sys::Trigger) -> u32 {
    u32::from(trigger.tgtype.cast_unsigned())
}
