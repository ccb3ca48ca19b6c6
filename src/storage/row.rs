//! A row with the columns of an entity.

use std::ffi::c_int;
use std::marker::PhantomData;

use pgrx::prelude::*;
use table_service_model::filter::Columns;
use table_service_model::{Entity, Error, Predicate, Properties, Ticks};

use crate::postgres::descriptor::type_of;
use crate::postgres::guarded::without_guards;
use crate::postgres::{TextArg, Tuple, catalog, raise, varlena};

without_guards! {
    // It runs for every row of a scan, and raises no error for columns that the row has.
    fn slot_getsomeattrs_int(slot: *mut pg_sys::TupleTableSlot, count: c_int);
}

/// The PartitionKey and RowKey of a row.
pub type KeyPair = (String, String);

/// A row of a table of the service, read in place.
///
/// Users may change a table's definition and its rows with SQL. So the columns are checked when they are read: none of
/// the four is NULL, keys are UTF-8, and the bag has a known format.
pub struct Row<'s> {
    slot: *mut pg_sys::TupleTableSlot,
    values: &'s [pg_sys::Datum; 4],
    source: PhantomData<&'s ()>,
}

impl<'s> Row<'s> {
    /// Reads the row in a slot.
    ///
    /// Raises `InternalError` if one of its columns is NULL.
    ///
    /// # Safety
    /// The slot must hold a row whose first four columns have the types of an entity's ([`is_entity`]), and keep it as
    /// long as `'s`.
    pub unsafe fn of(slot: *mut pg_sys::TupleTableSlot) -> Row<'s> {
        // SAFETY: the caller makes the same promise.
        let (row, nulls) = unsafe { Row::with_nulls(slot) };
        if nulls.contains(&true) {
            row.raise_null(*nulls);
        }
        row
    }

    /// Reads the row in a slot, unless one of its columns is NULL.
    ///
    /// # Safety
    /// As for [`Row::of`].
    pub unsafe fn without_nulls(slot: *mut pg_sys::TupleTableSlot) -> Option<Row<'s>> {
        // SAFETY: the caller makes the same promise.
        let (row, nulls) = unsafe { Row::with_nulls(slot) };
        (!nulls.contains(&true)).then_some(row)
    }

    /// Reads the row in a slot. Also returns which of its columns are NULL.
    ///
    /// # Safety
    /// As for [`Row::of`].
    unsafe fn with_nulls(slot: *mut pg_sys::TupleTableSlot) -> (Row<'s>, &'s [bool; 4]) {
        // SAFETY: the slot holds a row with at least four columns, so the function raises no error. It fills the first
        // four elements of both arrays, which live as long as the slot keeps the row.
        unsafe {
            if (*slot).tts_nvalid < 4 {
                slot_getsomeattrs_int(slot, 4);
            }
            let row = Row {
                slot,
                values: &*(*slot).tts_values.cast(),
                source: PhantomData,
            };
            (row, &*(*slot).tts_isnull.cast())
        }
    }

    pub(super) fn slot(&self) -> *mut pg_sys::TupleTableSlot {
        self.slot
    }

    /// Copies the row into the current memory context.
    pub fn copy(&self) -> pg_sys::HeapTuple {
        // SAFETY: the slot holds a row as long as `self`.
        unsafe { pg_sys::ExecCopySlotHeapTuple(self.slot) }
    }

    /// Returns the columns as PostgreSQL's datums.
    pub fn values(&self) -> &'s [pg_sys::Datum; 4] {
        self.values
    }

    /// Returns the key in the first or second column.
    fn key(&self, column: usize) -> &'s str {
        // SAFETY: the first two columns are texts and not NULL, and they live as long as the row.
        unsafe { TextArg::from_datum(self.values[column], false) }.map_or("", TextArg::get)
    }

    /// Returns the PartitionKey.
    pub fn partition_key(&self) -> &'s str {
        self.key(0)
    }

    /// Returns the RowKey.
    pub fn row_key(&self) -> &'s str {
        self.key(1)
    }

    /// Copies the keys.
    pub fn keys(&self) -> KeyPair {
        (self.partition_key().to_owned(), self.row_key().to_owned())
    }

    /// Returns the Timestamp, in microseconds since 2000-01-01.
    pub fn timestamp(&self) -> i64 {
        self.values[2].value() as i64
    }

    /// Returns the bag as it is stored.
    ///
    /// Raises `InternalError` for bytes that are not a bag of a known format.
    #[inline]
    pub fn properties(&self) -> Properties<'s> {
        // SAFETY: the column is a bag and not NULL, and it lives as long as the row.
        unsafe { bag(self.values[3], || with_keys(self.partition_key(), self.row_key())) }
    }

    /// Returns the entity.
    pub fn entity(&self) -> Entity<'s> {
        Entity {
            partition_key: Some(self.partition_key()),
            row_key: Some(self.row_key()),
            timestamp: Ticks::from_postgres_micros(self.timestamp()),
            properties: self.properties(),
        }
    }

    /// Returns whether the entity passes a predicate.
    pub fn passes(&self, predicate: &Predicate) -> bool {
        predicate.passes(&self.entity_of(predicate.columns_of_filter()))
            && predicate
                .alive()
                .is_none_or(|alive| alive.includes(self.timestamp(), self.properties()))
    }

    /// Returns the entity, with the columns that a filter looks at.
    fn entity_of(&self, columns: Columns) -> Entity<'s> {
        if columns.partition_key || columns.row_key || columns.timestamp {
            return self.entity();
        }
        let properties = match columns.properties {
            true => self.properties(),
            false => Properties::from_stored(&[]),
        };
        Entity {
            partition_key: None,
            row_key: None,
            timestamp: None,
            properties,
        }
    }

    /// Returns the size of the keys and the bag in bytes, without detoasting them.
    pub fn size(&self) -> usize {
        // SAFETY: the column is a varlena and not NULL.
        self.size_of_keys() + unsafe { varlena::size(self.values[3]) }
    }

    /// Returns the size of the keys in bytes, without detoasting them.
    pub fn size_of_keys(&self) -> usize {
        // SAFETY: these columns are varlenas and not NULL.
        unsafe { varlena::size(self.values[0]) + varlena::size(self.values[1]) }
    }

    fn raise_null(&self, nulls: [bool; 4]) -> ! {
        let key = |column: usize, name: &str| {
            if nulls[column] {
                return format!("{name} NULL");
            }
            format!("{name} '{}'", self.key(column))
        };
        let row = format!("with {} and {}", key(0, "PartitionKey"), key(1, "RowKey"));
        let names: Vec<&str> = ["partition_key", "row_key", "timestamp", "properties"]
            .into_iter()
            .zip(nulls)
            .filter_map(|(name, is_null)| is_null.then_some(name))
            .collect();
        broken(&row, &format!("is NULL in {}", names.join(" and ")))
    }
}

/// Reads the bag in a column of a row.
///
/// Raises `InternalError` for bytes that are not a bag of a known format. `row` says which row it is.
///
/// # Safety
/// As for [`varlena::bytes`].
#[inline]
pub unsafe fn bag<'a>(datum: pg_sys::Datum, row: impl FnOnce() -> String) -> Properties<'a> {
    // SAFETY: the caller makes the same promise.
    let bytes = unsafe { varlena::bytes(datum) };
    Properties::of_known_format(bytes).unwrap_or_else(|| {
        broken(
            &row(),
            "holds bytes in its column properties that are not a property bag of a known format",
        )
    })
}

impl<'c> Tuple<'c> {
    /// Returns a bag. `row` says which row it is, for the error that [`bag`] raises.
    pub fn properties(&self, column: i32, row: impl FnOnce() -> String) -> Option<Properties<'c>> {
        let datum = self.value(column, catalog::properties_type())?;
        // SAFETY: the datum is a bag that is not NULL and lives as long as the connection.
        Some(unsafe { bag(datum, row) })
    }
}

/// Raises the error for a stored row that the service would not have stored.
pub fn broken(row: &str, how: &str) -> ! {
    raise(Error::StoredEntityInvalid {
        reason: format!("The row {row} {how}. Repair or delete it with SQL"),
    })
}

/// Does the same as [`broken`], for a row with known keys.
pub fn broken_entity(partition_key: &str, row_key: &str, how: &str) -> ! {
    broken(&with_keys(partition_key, row_key), how)
}

fn with_keys(partition_key: &str, row_key: &str) -> String {
    format!("with PartitionKey '{partition_key}' and RowKey '{row_key}'")
}

/// Returns whether the first four columns of a row have the types of an entity's.
///
/// # Safety
/// The descriptor must be valid.
pub unsafe fn is_entity(descriptor: pg_sys::TupleDesc) -> bool {
    // SAFETY: the descriptor is valid, and the columns are read only if there are at least four.
    unsafe {
        (*descriptor).natts >= 4
            && catalog::types_of_entity()
                .into_iter()
                .enumerate()
                .all(|(column, type_oid)| type_of(descriptor, column) == type_oid)
    }
}
