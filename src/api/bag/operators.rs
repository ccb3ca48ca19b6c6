//! The functions of the operators on bags. `sql/operators.sql` defines the operators.

use std::cmp::Ordering;

use pgrx::prelude::*;
use table_service_model::{Error, json};

use crate::postgres::hash::{hash, hash_with_seed};
use crate::postgres::{JsonbOut, OrRaise, PropertiesArg, PropertiesOut, TextArg, TextArrayArg, TextOut};

/// `->`: returns a property's value as jsonb in payload form, or NULL if the property is absent.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_get(properties: PropertiesArg<'_>, name: TextArg<'_>) -> Option<JsonbOut> {
    let value = properties.get().get(name.get())?;
    Some(JsonbOut(json::value_to_json(value)))
}

/// `->>`: returns a property's value as text in payload form, or NULL if the property is absent.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_get_text(properties: PropertiesArg<'_>, name: TextArg<'_>) -> Option<String> {
    properties.get().get(name.get()).map(|value| value.text())
}

/// `#>`: returns what a path leads to as jsonb in payload form: a property's value, or for the empty path the whole bag.
///
/// Raises `InvalidInput` for a path of several names.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_get_path(properties: PropertiesArg<'_>, path: TextArrayArg<'_>) -> Option<JsonbOut> {
    let bag = properties.get();
    Some(JsonbOut(match target(&path).or_raise() {
        Target::Bag => json::jsonb_text(bag),
        Target::Property(name) => json::value_to_json(bag.get(name?.get())?),
    }))
}

/// `#>>`: returns what a path leads to as text in payload form: a property's value, or for the empty path the whole bag.
///
/// Raises `InvalidInput` for a path of several names.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_get_path_text(properties: PropertiesArg<'_>, path: TextArrayArg<'_>) -> Option<TextOut> {
    let bag = properties.get();
    Some(TextOut(match target(&path).or_raise() {
        Target::Bag => json::properties_to_json(bag),
        Target::Property(name) => bag.get(name?.get())?.text().into_bytes(),
    }))
}

/// The target of a path.
enum Target<'a> {
    Bag,
    /// The property of this name; none has the name NULL.
    Property(Option<TextArg<'a>>),
}

fn target<'a>(path: &TextArrayArg<'a>) -> Result<Target<'a>, Error> {
    let mut names = path.iter();
    match (names.next(), names.next()) {
        (None, _) => Ok(Target::Bag),
        (Some(name), None) => Ok(Target::Property(name)),
        (Some(_), Some(_)) => Err(Error::argument(
            "A path has one name, because properties hold no objects and arrays. Read JSON that is stored as a String with (properties ->> 'Address')::jsonb #>> '{City}'",
        )),
    }
}

/// `?`: returns whether the bag has a property of this name. Users may also call the function by its name.
#[pg_extern(immutable, strict, parallel_safe)]
fn has_property(properties: PropertiesArg<'_>, name: TextArg<'_>) -> bool {
    properties.get().contains(name.get())
}

/// `?|`: returns whether the bag has a property of any of these names. NULLs among them are ignored.
#[pg_extern(immutable, strict, parallel_safe)]
fn has_any_property(properties: PropertiesArg<'_>, names: TextArrayArg<'_>) -> bool {
    names.iter().flatten().any(|name| properties.get().contains(name.get()))
}

/// `?&`: returns whether the bag has properties of all these names. NULLs among them are ignored.
#[pg_extern(immutable, strict, parallel_safe)]
fn has_all_properties(properties: PropertiesArg<'_>, names: TextArrayArg<'_>) -> bool {
    names.iter().flatten().all(|name| properties.get().contains(name.get()))
}

/// `@>`: returns whether the left bag has every property of the right one, with the same type and value.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_contains(left: PropertiesArg<'_>, right: PropertiesArg<'_>) -> bool {
    left.get().includes(right.get())
}

/// `<@`: returns whether the right bag has every property of the left one, with the same type and value.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_contained(left: PropertiesArg<'_>, right: PropertiesArg<'_>) -> bool {
    right.get().includes(left.get())
}

/// `||`: returns a bag with the properties of both. The right bag's value wins if both have a property.
///
/// Raises `TooManyProperties` or `EntityTooLarge` if the result exceeds the limits.
#[pg_extern(immutable, strict, parallel_safe)]
fn merge_properties(left: PropertiesArg<'_>, right: PropertiesArg<'_>) -> PropertiesOut {
    left.get().merge(right.get()).map(PropertiesOut).or_raise()
}

/// `-`: returns the bag without a property.
#[pg_extern(immutable, strict, parallel_safe)]
fn remove_property(properties: PropertiesArg<'_>, name: TextArg<'_>) -> PropertiesOut {
    PropertiesOut(properties.get().without(&[name.get()]))
}

/// `-`: returns the bag without the properties of these names.
#[pg_extern(immutable, strict, parallel_safe)]
fn remove_properties(properties: PropertiesArg<'_>, names: TextArrayArg<'_>) -> PropertiesOut {
    let mut given = Vec::with_capacity(names.len());
    given.extend(names.iter().flatten().map(TextArg::get));
    PropertiesOut(properties.get().without(&given))
}

/// Compares the stored bytes of two bags. The order is total and stable, but has no meaning.
fn compare(left: PropertiesArg<'_>, right: PropertiesArg<'_>) -> Ordering {
    left.get().as_bytes().cmp(right.get().as_bytes())
}

/// Makes the functions of the comparisons.
macro_rules! comparisons {
    ($($name:ident $holds:ident),*) => {$(
        #[pg_extern(immutable, strict, parallel_safe)]
        fn $name(left: PropertiesArg<'_>, right: PropertiesArg<'_>) -> bool {
            compare(left, right).$holds()
        }
    )*};
}

comparisons! {
    properties_eq is_eq, properties_ne is_ne, properties_lt is_lt, properties_le is_le, properties_gt is_gt, properties_ge is_ge
}

#[pg_extern(immutable, strict, parallel_safe)]
fn properties_cmp(left: PropertiesArg<'_>, right: PropertiesArg<'_>) -> i32 {
    compare(left, right) as i32
}

/// Returns PostgreSQL's hash of the stored form, for hash joins and hash indexes.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_hash(properties: PropertiesArg<'_>) -> i32 {
    hash(properties.get().as_bytes()) as i32
}

/// Returns the hash of the stored form with a seed, for hash partitioning.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_hash_extended(properties: PropertiesArg<'_>, seed: i64) -> i64 {
    hash_with_seed(properties.get().as_bytes(), seed as u64) as i64
}
