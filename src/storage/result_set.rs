//! Set-returning functions in materialize mode: rows are written into a tuplestore.

use std::cell::OnceCell;
use std::marker::PhantomData;

use pgrx::prelude::*;
use table_service_model::projection::Projection;

use super::row::{Row, is_entity};
use crate::postgres::call::{Call, does_not_fit, refuse};
use crate::postgres::descriptor::types_of;
use crate::postgres::guarded::{guarded, without_guards};
use crate::postgres::types::value::{Bag, Text, Value};

without_guards! {
    fn tuplestore_puttuple(store: *mut pg_sys::Tuplestorestate, row: pg_sys::HeapTuple);
    fn heap_freetuple(row: pg_sys::HeapTuple);
}

/// The rows that a function has returned so far.
pub struct ResultSet<'f> {
    store: *mut pg_sys::Tuplestorestate,
    descriptor: pg_sys::TupleDesc,
    /// The types of the columns, after the first look-up.
    types: OnceCell<Vec<pg_sys::Oid>>,
    /// Whether the columns are those of an entity and at most one more.
    takes_entities: OnceCell<bool>,
    /// The memory of values that live until the query has ended.
    context: pg_sys::MemoryContext,
    /// The row of [`ResultSet::keep`]. NULL if there is none.
    kept: pg_sys::HeapTuple,
    /// For kept rows that need changes. NULL until it is used.
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
            // Not so for a function with these columns.
            if (*info).expectedDesc.is_null() {
                does_not_fit();
            }
            let random_access = modes & pg_sys::SetFunctionReturnMode::SFRM_Materialize_Random != 0;
            let context = (*(*info).econtext).ecxt_per_query_memory;
            let caller = pg_sys::MemoryContextSwitchTo(context);
            let store = pg_sys::tuplestore_begin_heap(random_access, false, pg_sys::work_mem);
            pg_sys::MemoryContextSwitchTo(caller);
            (*info).returnMode = pg_sys::SetFunctionReturnMode::SFRM_Materialize;
            (*info).setResult = store;
            // The descriptor is the one that the caller expects, from the function's declaration. No other descriptor
            // is set, so PostgreSQL has none to compare it with.
            ResultSet {
                store,
                descriptor: (*info).expectedDesc,
                types: OnceCell::new(),
                takes_entities: OnceCell::new(),
                context,
                kept: std::ptr::null_mut(),
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
    pub fn push_entity(&mut self, row: &Row<'_>, projection: &Projection, last: Option<&Text>) {
        self.check_columns();
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
        let token = last.map_or(pg_sys::Datum::null(), |text| text.value().datum());
        let mut values = [partition_key, row_key, timestamp, properties, token];
        let mut nulls = [false, false, false, false, last.is_none()];
        // SAFETY: the descriptor has the columns of an entity and at most one more, which is a text if the caller has one
        // for it. Both arrays have five elements of these types, and the tuplestore copies the values.
        unsafe {
            pg_sys::tuplestore_putvalues(self.store, self.descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
        }
    }

    /// Keeps a copy of an entity until [`ResultSet::push_kept`]. PostgreSQL frees the row itself when the next one arrives.
    pub fn keep(&mut self, row: &Row<'_>) {
        // SAFETY: the context outlives the call.
        unsafe {
            let caller = pg_sys::MemoryContextSwitchTo(self.context);
            self.kept = row.copy();
            pg_sys::MemoryContextSwitchTo(caller);
        }
    }

    /// Adds the entity that was kept, as [`ResultSet::push_entity`] does. Returns false if there is none.
    pub fn push_kept(&mut self, projection: &Projection, last: Option<&Text>) -> bool {
        let kept = std::mem::replace(&mut self.kept, std::ptr::null_mut());
        if kept.is_null() {
            return false;
        }
        if matches!(projection, Projection::All) && last.is_none() {
            self.check_columns();
            let store = self.store;
            // SAFETY: the tuplestore copies the row that `keep` has made, whose columns are those of the result.
            unsafe {
                guarded(|| {
                    tuplestore_puttuple(store, kept);
                    heap_freetuple(kept);
                });
            }
            return true;
        }
        // SAFETY: the context and the descriptor outlive the call. The row has the columns of an entity, which are the first
        // ones of the result. The slot frees it.
        unsafe {
            if self.slot.is_null() {
                let caller = pg_sys::MemoryContextSwitchTo(self.context);
                // The slot would hold a descriptor that is counted longer than the caller lets it.
                let descriptor = match (*self.descriptor).tdrefcount {
                    ..0 => self.descriptor,
                    _ => pg_sys::CreateTupleDescCopy(self.descriptor),
                };
                self.slot = pg_sys::MakeSingleTupleTableSlot(descriptor, &raw const pg_sys::TTSOpsHeapTuple);
                pg_sys::MemoryContextSwitchTo(caller);
            }
            pg_sys::ExecStoreHeapTuple(kept, self.slot, true);
            self.push_entity(&Row::of(self.slot), projection, last);
            pg_sys::ExecClearTuple(self.slot);
        }
        true
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

/// Defines the Rust type for `RETURNS SETOF` or `RETURNS TABLE`. The rows are in the tuplestore already.
macro_rules! set_of {
    ($(#[$doc:meta])* $name:ident, $sql_type:ident, $sql:literal) => {
        $(#[$doc])*
        pub struct $name;
        $crate::postgres::types::$sql_type!($name, $sql);
        // SAFETY: in materialize mode PostgreSQL ignores the returned datum.
        unsafe impl ::pgrx::callconv::BoxRet for $name {
            unsafe fn box_into<'fcx>(self, fcinfo: &mut ::pgrx::callconv::FcInfo<'fcx>) -> ::pgrx::datum::Datum<'fcx> {
                fcinfo.return_null()
            }
        }
    };
}

pub(crate) use set_of;
