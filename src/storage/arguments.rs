//! Arguments of the SQL functions on tables and entities. These functions are not STRICT: a NULL that is not allowed
//! raises an error.

use std::ffi::CStr;

use pgrx::pg_sys;
use table_service_model::key::{self, PARTITION_KEY, ROW_KEY};
use table_service_model::{Error, IfMatch, Ticks};

use crate::postgres::{PropertiesArg, Text, TextArg, TextArrayArg, Value};

/// Returns the value of an argument that must not be NULL.
///
/// # Errors
/// `InvalidInput`, which names the argument. For NULL as a key, see [`EntityKeys::new`].
pub fn required<T>(name: &str, value: Option<T>) -> Result<T, Error> {
    value.ok_or_else(|| Error::null_argument(name))
}

/// The keys of one entity.
#[derive(Clone, Copy)]
pub struct EntityKeys<'a> {
    pub partition_key: TextArg<'a>,
    pub row_key: TextArg<'a>,
}

impl<'a> EntityKeys<'a> {
    /// Makes keys that contain only valid characters. They may still be too long.
    ///
    /// # Errors
    /// `PropertiesNeedValue` for NULL, and the errors of invalid characters.
    pub fn new(partition_key: Option<TextArg<'a>>, row_key: Option<TextArg<'a>>) -> Result<EntityKeys<'a>, Error> {
        let partition_key = partition_key.ok_or(Error::KeyMissing { key: PARTITION_KEY })?;
        let row_key = row_key.ok_or(Error::KeyMissing { key: ROW_KEY })?;
        key::check_characters_of_both(partition_key.get(), row_key.get())?;
        Ok(EntityKeys { partition_key, row_key })
    }

    /// Returns whether both keys are within the length limits.
    pub fn within_limits(self) -> bool {
        key::within_limits(self.partition_key.get(), self.row_key.get())
    }

    /// Returns whether both are the keys of one entity.
    pub fn is_of_same_entity(self, other: EntityKeys<'_>) -> bool {
        self.row_key.get() == other.row_key.get() && self.partition_key.get() == other.partition_key.get()
    }

    /// Returns the keys as parameters of a statement.
    pub fn values(self) -> [Value<'a>; 2] {
        [self.partition_key, self.row_key].map(Value::text)
    }
}

/// Keys that do not come from SQL arguments, as varlenas.
pub struct KeyTexts([Text; 2]);

impl KeyTexts {
    /// Copies keys.
    pub fn new(partition_key: &str, row_key: &str) -> KeyTexts {
        KeyTexts([partition_key, row_key].map(Text::new))
    }

    /// Returns the keys.
    pub fn keys(&self) -> EntityKeys<'_> {
        let KeyTexts([partition_key, row_key]) = self;
        EntityKeys {
            partition_key: partition_key.arg(),
            row_key: row_key.arg(),
        }
    }
}

/// Returns the value of the argument `properties`.
///
/// # Errors
/// `InvalidInput` for NULL.
pub fn properties<'a>(properties: Option<PropertiesArg<'a>>) -> Result<PropertiesArg<'a>, Error> {
    required("properties", properties)
}

/// Returns the names in the argument `remove`, with `None` for NULL.
pub fn names<'a>(names: Option<&TextArrayArg<'a>>) -> Option<Vec<Option<&'a str>>> {
    names.map(|names| names.iter().map(|name| name.map(TextArg::get)).collect())
}

/// Returns the condition in the argument `if_match`.
///
/// # Errors
/// `InvalidInput` for NULL or an invalid ETag.
pub fn if_match(tag: Option<TextArg<'_>>) -> Result<IfMatch, Error> {
    Ok(exact(IfMatch::parse(required("if_match", tag)?.get())?))
}

/// Returns the condition for entities as they are stored: a Timestamp has six fraction digits, so an ETag with a
/// seventh digit other than zero matches no entity.
pub fn exact(if_match: IfMatch) -> IfMatch {
    match if_match {
        IfMatch::Version(ticks) if Ticks::from_postgres_micros(ticks.to_postgres_micros()) != Some(ticks) => {
            IfMatch::Never
        }
        if_match => if_match,
    }
}

/// Returns the argument `top`, which must not be negative.
///
/// # Errors
/// `InvalidInput`.
pub fn top<T: TryFrom<i64>>(top: Option<i64>) -> Result<Option<T>, Error> {
    let number = |top| T::try_from(top).map_err(|_| Error::argument("top must not be negative"));
    top.map(number).transpose()
}

/// Raises an error with the function's name in a READ ONLY transaction and on a hot standby.
pub fn prevent_if_read_only(function: &CStr) {
    // SAFETY: the name is a C string.
    unsafe { pg_sys::PreventCommandIfReadOnly(function.as_ptr()) };
}
