//! The functions behind the operators on bags, which `sql/operators.sql` defines.

use std::cmp::Ordering;

use pgrx::prelude::*;
use table_service_model::json;

use crate::postgres::error::OrRaise;
use crate::postgres::types::{JsonbOut, PropertiesArg, PropertiesOut, TextArg, TextArrayArg};

/// `->`: the value of a property as jsonb, in payload form; NULL when absent.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_get(properties: PropertiesArg<'_>, name: TextArg<'_>) -> Option<JsonbOut> {
    let value = properties.get().get(name.get())?;
    Some(JsonbOut(json::value_to_json(value)))
}

/// `->>`: the value of a property as text, in payload form; NULL when absent.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_get_text(properties: PropertiesArg<'_>, name: TextArg<'_>) -> Option<String> {
    properties.get().get(name.get()).map(|value| value.text())
}

/// `?`, and by name: whether there is a property of this name.
#[pg_extern(immutable, strict, parallel_safe)]
fn has_property(properties: PropertiesArg<'_>, name: TextArg<'_>) -> bool {
    properties.get().contains(name.get())
}

/// `||`: both bags in one; where both have a property, the right one stays.
///
/// Raises `TooManyProperties` and `EntityTooLarge` for a bag beyond the limits.
#[pg_extern(immutable, strict, parallel_safe)]
fn merge_properties(left: PropertiesArg<'_>, right: PropertiesArg<'_>) -> PropertiesOut {
    left.get().merge(right.get()).map(PropertiesOut).or_raise()
}

/// `-`: the bag without one property.
#[pg_extern(immutable, strict, parallel_safe)]
fn remove_property(properties: PropertiesArg<'_>, name: TextArg<'_>) -> PropertiesOut {
    PropertiesOut(properties.get().without(&[name.get()]))
}

/// `-`: the bag without some properties.
#[pg_extern(immutable, strict, parallel_safe)]
fn remove_properties(properties: PropertiesArg<'_>, names: TextArrayArg<'_>) -> PropertiesOut {
    let names: Vec<&str> = names.iter().flatten().map(TextArg::get).collect();
    PropertiesOut(properties.get().without(&names))
}

/// The order behind `=`, `<` and the operator classes: total, stable, and without meaning.
fn compare(left: PropertiesArg<'_>, right: PropertiesArg<'_>) -> Ordering {
    left.get().as_bytes().cmp(right.get().as_bytes())
}

#[pg_extern(immutable, strict, parallel_safe)]
fn properties_eq(left: PropertiesArg<'_>, right: PropertiesArg<'_>) -> bool {
    compare(left, right).is_eq()
}

#[pg_extern(immutable, strict, parallel_safe)]
fn properties_ne(left: PropertiesArg<'_>, right: PropertiesArg<'_>) -> bool {
    compare(left, right).is_ne()
}

#[pg_extern(immutable, strict, parallel_safe)]
fn properties_lt(left: PropertiesArg<'_>, right: PropertiesArg<'_>) -> bool {
    compare(left, right).is_lt()
}

#[pg_extern(immutable, strict, parallel_safe)]
fn properties_le(left: PropertiesArg<'_>, right: PropertiesArg<'_>) -> bool {
    compare(left, right).is_le()
}

#[pg_extern(immutable, strict, parallel_safe)]
fn properties_gt(left: PropertiesArg<'_>, right: PropertiesArg<'_>) -> bool {
    compare(left, right).is_gt()
}

#[pg_extern(immutable, strict, parallel_safe)]
fn properties_ge(left: PropertiesArg<'_>, right: PropertiesArg<'_>) -> bool {
    compare(left, right).is_ge()
}

#[pg_extern(immutable, strict, parallel_safe)]
fn properties_cmp(left: PropertiesArg<'_>, right: PropertiesArg<'_>) -> i32 {
    compare(left, right) as i32
}

unsafe extern "C-unwind" {
    fn hash_bytes(bytes: *const u8, length: i32) -> u32;
    fn hash_bytes_extended(bytes: *const u8, length: i32, seed: u64) -> u64;
}

/// For hash joins and hash indexes; PostgreSQL's own hash of the stored form.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_hash(properties: PropertiesArg<'_>) -> i32 {
    let bytes = properties.get().as_bytes();
    // SAFETY: PostgreSQL's hash of a byte string; a bag is far shorter than 2 GiB.
    unsafe { hash_bytes(bytes.as_ptr(), bytes.len() as i32) as i32 }
}

/// As `properties_hash`, with a seed, for hash partitioning.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_hash_extended(properties: PropertiesArg<'_>, seed: i64) -> i64 {
    let bytes = properties.get().as_bytes();
    // SAFETY: as above.
    unsafe { hash_bytes_extended(bytes.as_ptr(), bytes.len() as i32, seed as u64) as i64 }
}
