//! Typed access to the properties of a bag.
//!
//! A function returns NULL if the property is absent or has another type. All are immutable, so that they can be
//! indexed.

use pgrx::datum::Uuid;
use pgrx::prelude::*;
use table_service_model::{Ticks, Value as Edm};

use super::super::results::EachProperty;
use crate::postgres::{Call, PropertiesArg, Text, TextArg};
use crate::storage::result_set::ResultSet;

/// Returns the Edm type of a property, such as `Edm.Int32`.
#[pg_extern(immutable, strict, parallel_safe)]
fn property_type(properties: PropertiesArg<'_>, name: TextArg<'_>) -> Option<&'static str> {
    properties.get().type_of(name.get()).map(|edm| edm.name())
}

/// Returns the properties in the order of their names, each with its Edm type and its value in payload form.
#[pg_extern(immutable, strict, parallel_safe)]
fn each_property(properties: PropertiesArg<'_>, call: Call<'_>) -> EachProperty {
    let mut result = ResultSet::open(call);
    for (name, value) in properties.get().iter() {
        let row = [name, value.edm_type().name(), &value.text()].map(Text::new);
        result.push(row.each_ref().map(|text| Some(Text::value(text))));
    }
    EachProperty
}

/// Returns a property of type Edm.String.
#[pg_extern(immutable, strict, parallel_safe)]
fn get_string<'a>(properties: PropertiesArg<'a>, name: TextArg<'_>) -> Option<&'a str> {
    properties.get().get(name.get())?.try_as_string()
}

/// Returns a property of type Edm.Int32.
#[pg_extern(immutable, strict, parallel_safe)]
fn get_int32(properties: PropertiesArg<'_>, name: TextArg<'_>) -> Option<i32> {
    properties.get().get(name.get())?.try_as_int_32()
}

/// Returns a property of type Edm.Int64 or Edm.Int32.
#[pg_extern(immutable, strict, parallel_safe)]
fn get_int64(properties: PropertiesArg<'_>, name: TextArg<'_>) -> Option<i64> {
    match properties.get().get(name.get())? {
        Edm::Int64(n) => Some(n),
        Edm::Int32(n) => Some(n.into()),
        _ => None,
    }
}

/// Returns a property of type Edm.Double or Edm.Int32. A double cannot represent every Edm.Int64, so those give NULL.
#[pg_extern(immutable, strict, parallel_safe)]
fn get_double(properties: PropertiesArg<'_>, name: TextArg<'_>) -> Option<f64> {
    match properties.get().get(name.get())? {
        Edm::Double(n) => Some(n),
        Edm::Int32(n) => Some(n.into()),
        _ => None,
    }
}

/// Returns a property of type Edm.Boolean.
#[pg_extern(immutable, strict, parallel_safe)]
fn get_boolean(properties: PropertiesArg<'_>, name: TextArg<'_>) -> Option<bool> {
    properties.get().get(name.get())?.try_as_boolean()
}

/// Returns a property of type Edm.DateTime, truncated to microseconds.
#[pg_extern(immutable, strict, parallel_safe)]
fn get_datetime(properties: PropertiesArg<'_>, name: TextArg<'_>) -> Option<TimestampWithTimeZone> {
    let ticks = properties.get().get(name.get())?.try_as_date_time()?;
    TimestampWithTimeZone::try_from(ticks.to_postgres_micros()).ok()
}

/// Returns a property of type Edm.DateTime as ticks of 100 ns since 0001-01-01.
#[pg_extern(immutable, strict, parallel_safe)]
fn get_ticks(properties: PropertiesArg<'_>, name: TextArg<'_>) -> Option<i64> {
    properties.get().get(name.get())?.try_as_date_time().map(Ticks::get)
}

/// Returns a property of type Edm.Guid.
#[pg_extern(immutable, strict, parallel_safe)]
fn get_guid(properties: PropertiesArg<'_>, name: TextArg<'_>) -> Option<Uuid> {
    properties.get().get(name.get())?.try_as_guid().map(Uuid::from_bytes)
}

/// Returns a property of type Edm.Binary.
#[pg_extern(immutable, strict, parallel_safe)]
fn get_binary<'a>(properties: PropertiesArg<'a>, name: TextArg<'_>) -> Option<&'a [u8]> {
    properties.get().get(name.get())?.try_as_binary()
}
