//! Set-returning functions in materialize mode: rows are written into a tuplestore.

use std::cell::OnceCell;
use std::marker::PhantomData;

use pgrx::prelude::*;
use table_service_model::Projection;

use super::row::{Row, is_entity};
use crate::postgres::call::{does_not_fit, refuse};
use crate::postgres::descriptor::types_of;
use crate::postgres::{Bag, Call, Value};

/// The rows that a function has returned so far.
pub struct ResultSet<'f> {
    /// PostgreSQL's part of the call. It has the tuplestore.
    info: *mut pg_sys::ReturnSetInfo,
    store: *mut pg_sys::Tuplestorestate,
    descriptor: pg_sys::TupleDesc,
    /// The types of the columns, after the first look-up.
    types: OnceCell<Vec<pg_sys::Oid>>,
    /// Whether the columns are those of an entity and at most one more.
    takes_entities: OnceCell<bool>,
    /// The memory of values that live until the query has ended.
    context: pg_sys::MemoryContext,
    /// The row of [`ResultSet::keep`], if there is one. NULL until it is used.
    slot: *mut pg_sys::TupleTableSlot,
    call: PhantomData<&'f ()>,
}

impl<'f> ResultSet<'f> {
    /// Opens the result of the running function.
    ///
    /// Raises PostgreSQL's error (0A000) if the function is called where it cannot return a set of rows.
    pub fn open(call: Call<'f>) -> ResultSet<'f> {
        // SAFETY: `resultinfo` is used only if it is a ReturnSetInfo. Then PostgreSQL has set its expression context, and its
        // expected descriptor or NULL, which are valid during the call.
        unsafe {
            let info = (*call.info()).resultinfo.cast::<pg_sys::ReturnSetInfo>();
            if info.is_null() || (*info).type_ != pg_sys::NodeTag::T_ReturnSetInfo {
                refuse("set-valued function called in context that cannot accept a set");
            }
            let modes = (*info).allowedModes as u32;
            if modes & pg_sys::SetFunctionReturnMode::SFRM_Materialize == 0 {
                refuse("materialize mode required, but it is not allowed in this context");
            }
            // It is not NULL for a function with these columns.
            if (*info).expectedDesc.is_null() {
                does_not_fit();
            }
            let context = (*(*info).econtext).ecxt_per_query_memory;
            let caller = pg_sys::MemoryContextSwitchTo(context);
            let store = new_store(info);
            pg_sys::MemoryContextSwitchTo(caller);
            (*info).returnMode = pg_sys::SetFunctionReturnMode::SFRM_Materialize;
            // The descriptor is the one that the caller expects, from the function's declaration. No other descriptor
            // is set, so PostgreSQL has none to compare it with.
            ResultSet {
                info,
                store,
                descriptor: (*info).expectedDesc,
                types: OnceCell::new(),
                takes_entities: OnceCell::new(),
                context,
                slot: std::ptr::null_mut(),
                call: PhantomData,
            }
        }
    }

    /// Returns the types of the columns.
    fn types(&self) -> &[pg_sys::Oid] {
        self.types.get_or_init(|| {
            // SAFETY: the descriptor is valid during the call.
            unsafe { types_of(self.descriptor) }
        })
    }

    /// Raises an error if the columns are not those of an entity and at most one more.
    fn check_columns(&self) {
        let takes_entities = self.takes_entities.get_or_init(|| {
            // SAFETY: the descriptor is valid during the call.
            unsafe { matches!((*self.descriptor).natts, 4 | 5) && is_entity(self.descriptor) }
        });
        if !takes_entities {
            does_not_fit();
        }
    }

    /// Adds an entity with the properties that the projection selects. The result's columns are those of an entity and
    /// at most one more, which is `last`.
    pub fn push_entity(&mut self, row: &Row<'_>, projection: &Projection, last: Option<Value<'_>>) {
        self.check_columns();
        if last.is_some_and(|last| self.types().get(4) != Some(&last.type_oid())) {
            does_not_fit();
        }
        let projected = match projection {
            Projection::All if last.is_none() => {
                // SAFETY: the slot holds the row, which the tuplestore copies. The types of its columns are those of the
                // result. If the result has one column more, PostgreSQL reads it as NULL, like a column that was added
                // after the row was written.
                unsafe { pg_sys::tuplestore_puttupleslot(self.store, row.slot()) };
                return;
            }
            Projection::All => None,
            projection => Some(Bag::new(projection.apply(row.properties()).as_properties())),
        };
        let [partition_key, row_key, timestamp, stored] = *row.values();
        let properties = projected.as_ref().map_or(stored, |bag| bag.value().datum());
        let fifth = last.map_or(pg_sys::Datum::null(), Value::datum);
        let mut values = [partition_key, row_key, timestamp, properties, fifth];
        let mut nulls = [false, false, false, false, last.is_none()];
        // SAFETY: the descriptor has the columns of an entity and at most one more, of the type of `last`. Both
        // arrays have five elements of these types, and the tuplestore copies the values.
        unsafe {
            pg_sys::tuplestore_putvalues(self.store, self.descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
        }
    }

    /// Keeps a copy of an entity until [`ResultSet::push_kept`]. PostgreSQL frees the row itself when the next one arrives.
    pub fn keep(&mut self, row: &Row<'_>) {
        let slot = self.slot();
        // SAFETY: the context outlives the call. The row has the columns of an entity, which are the first ones of the result.
        // The slot frees the copy.
        unsafe {
            let caller = pg_sys::MemoryContextSwitchTo(self.context);
            pg_sys::ExecStoreMinimalTuple(pg_sys::ExecCopySlotMinimalTuple(row.slot()), slot, true);
            pg_sys::MemoryContextSwitchTo(caller);
        }
    }

    /// Takes the last entity out of the result again, and keeps it as [`ResultSet::keep`] does. Returns false if there is none. It
    /// moves all rows, so the result must be small.
    pub fn keep_last(&mut self) -> bool {
        let slot = self.slot();
        // SAFETY: the context and both tuplestores outlive the call, and the slot has the columns of the result.
        // PostgreSQL gets the new tuplestore instead of the old one.
        unsafe {
            let all = self.store;
            let count = pg_sys::tuplestore_tuple_count(all);
            if count == 0 {
                return false;
            }
            let caller = pg_sys::MemoryContextSwitchTo(self.context);
            self.store = new_store(self.info);
            for left in (0..count).rev() {
                pg_sys::tuplestore_gettupleslot(all, true, left == 0, slot);
                if left > 0 {
                    pg_sys::tuplestore_puttupleslot(self.store, slot);
                }
            }
            pg_sys::tuplestore_end(all);
            pg_sys::MemoryContextSwitchTo(caller);
        }
        true
    }

    /// Adds the entity that was kept, as [`ResultSet::push_entity`] does. Returns false if there is none.
    pub fn push_kept(&mut self, projection: &Projection, last: Option<Value<'_>>) -> bool {
        let slot = self.slot;
        // SAFETY: the slot lives as long as the query. A row in it has the columns of an entity.
        unsafe {
            if slot.is_null() || (*slot).tts_flags & pg_sys::TTS_FLAG_EMPTY as u16 != 0 {
                return false;
            }
            self.push_entity(&Row::of(slot), projection, last);
            pg_sys::ExecClearTuple(slot);
        }
        true
    }

    /// Returns the slot for the entity that is kept.
    fn slot(&mut self) -> *mut pg_sys::TupleTableSlot {
        if self.slot.is_null() {
            // SAFETY: the context and the descriptor outlive the call.
            unsafe {
                let caller = pg_sys::MemoryContextSwitchTo(self.context);
                // The slot would hold a counted descriptor longer than the caller allows.
                let descriptor = match (*self.descriptor).tdrefcount {
                    ..0 => self.descriptor,
                    _ => pg_sys::CreateTupleDescCopy(self.descriptor),
                };
                self.slot = pg_sys::MakeSingleTupleTableSlot(descriptor, &raw const pg_sys::TTSOpsMinimalTuple);
                pg_sys::MemoryContextSwitchTo(caller);
            }
        }
        self.slot
    }

    /// Adds a row of values, with `None` for NULL.
    pub fn push<const N: usize>(&mut self, values: [Option<Value<'_>>; N]) {
        let types = self.types();
        let fits = |(value, type_oid): (&Option<Value<'_>>, &pg_sys::Oid)| {
            value.as_ref().is_none_or(|value| value.type_oid() == *type_oid)
        };
        if types.len() != N || !values.iter().zip(types).all(fits) {
            does_not_fit();
        }
        let mut datums = values.map(|value| value.map_or(pg_sys::Datum::null(), Value::datum));
        let mut nulls = values.map(|value| value.is_none());
        // SAFETY: the number and types of the values are those of the descriptor, and the tuplestore copies the values.
        unsafe {
            pg_sys::tuplestore_putvalues(self.store, self.descriptor, datums.as_mut_ptr(), nulls.as_mut_ptr());
        }
    }
}

/// Makes an empty tuplestore in the current memory context. PostgreSQL reads it when the function has returned.
///
/// # Safety
/// `info` must belong to a call that may return a tuplestore.
unsafe fn new_store(info: *mut pg_sys::ReturnSetInfo) -> *mut pg_sys::Tuplestorestate {
    // SAFETY: the caller's promise.
    unsafe {
        let random_access = (*info).allowedModes as u32 & pg_sys::SetFunctionReturnMode::SFRM_Materialize_Random != 0;
        (*info).setResult = pg_sys::tuplestore_begin_heap(random_access, false, pg_sys::work_mem);
        (*info).setResult
    }
}

/// Defines the Rust types for `RETURNS SETOF` or `RETURNS TABLE`. The rows are in the tuplestore already.
macro_rules! sets_of {
    ($($(#[$doc:meta])* $name:ident = $origin:ident $sql:literal;)*) => {$(
        $(#[$doc])*
        pub struct $name;
        $crate::postgres::types::sql_type!($name, $sql, $origin);
        // SAFETY: in materialize mode PostgreSQL ignores the returned datum.
        unsafe impl ::pgrx::callconv::BoxRet for $name {
            unsafe fn box_into<'fcx>(self, fcinfo: &mut ::pgrx::callconv::FcInfo<'fcx>) -> ::pgrx::datum::Datum<'fcx> {
                fcinfo.return_null()
            }
        }
    )*};
}

pub(crate) use sets_of;
