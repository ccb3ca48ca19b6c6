//! Casts between bags and json, jsonb or text, and the conversion of rows into bags.

use pgrx::prelude::*;
use table_service_model::edm::parse_double;
use table_service_model::{Error, PropertiesBuilder, Value, json, key};

use crate::postgres::{
    Column, ColumnValue, JsonArg, JsonOut, JsonbArg, JsonbOut, OrRaise, PropertiesArg, PropertiesOut, RecordArg,
    TextOut, ticks_of,
};

/// Casts a jsonb object in payload form to a bag.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_from_jsonb(jsonb: JsonbArg<'_>) -> PropertiesOut {
    json::parse_properties(jsonb.text()).map(PropertiesOut).or_raise()
}

/// Casts a bag to jsonb in payload form. The result casts back to the same bag.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_to_jsonb(properties: PropertiesArg<'_>) -> JsonbOut {
    JsonbOut(json::jsonb_text(properties.get()))
}

/// Casts a json object in payload form to a bag. The text is read as it is: jsonb would change its numbers and drop members.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_from_json(payload: JsonArg<'_>) -> PropertiesOut {
    json::parse_properties(payload.0).map(PropertiesOut).or_raise()
}

/// Casts a bag to json: the text that the output function writes. PostgreSQL's JSON functions, such as `to_json` and
/// `jsonb_agg`, call it.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_to_json(properties: PropertiesArg<'_>) -> JsonOut {
    JsonOut(json::properties_to_json(properties.get()))
}

/// Casts a bag to text: the same text that the output function writes. Without this cast PostgreSQL would call the
/// output function and copy the text twice.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_to_text(properties: PropertiesArg<'_>) -> TextOut {
    TextOut(json::properties_to_json(properties.get()))
}

/// Returns the columns of a row as a bag.
///
/// int2 and int4 become Int32, int8 Int64, float4, float8 and numeric Double, bool Boolean, timestamptz DateTime, uuid
/// Guid, and bytea Binary. Every other type becomes String, in its text form. NULLs and columns with the name of a
/// system property are left out.
///
/// Raises the errors of the limits, and `OutOfRangeInput` for a timestamp outside the range of Edm.DateTime.
#[pg_extern(stable, strict, parallel_safe)]
fn to_properties(record: RecordArg<'_>) -> PropertiesOut {
    let mut builder = PropertiesBuilder::new();
    for column in record.columns() {
        push(&mut builder, column).or_raise();
    }
    builder.finish().map(PropertiesOut).or_raise()
}

fn push<'a>(builder: &mut PropertiesBuilder<'a>, column: Column<'a>) -> Result<(), Error> {
    // The output function of a type that is left out does not run.
    if key::is_system_property(&column.name) {
        return Ok(());
    }
    let Some(value) = column.value() else {
        return Ok(());
    };
    let name = column.name;
    let value = match value {
        ColumnValue::Int2(n) => Value::Int32(n.into()),
        ColumnValue::Int4(n) => Value::Int32(n),
        ColumnValue::Int8(n) => Value::Int64(n),
        ColumnValue::Boolean(b) => Value::Boolean(b),
        ColumnValue::Float4(n) => Value::Double(double_of(n)),
        ColumnValue::Float8(n) => Value::Double(n),
        ColumnValue::Numeric(text) => {
            Value::Double(parse_double(text).ok_or_else(|| Error::out_of_range(&name, text))?)
        }
        ColumnValue::Timestamptz(micros) => Value::DateTime(ticks_of(&name, micros)?),
        ColumnValue::Uuid(guid) => Value::Guid(guid),
        ColumnValue::Bytea(bytes) => Value::Binary(bytes),
        ColumnValue::Other(text) => Value::String(text),
    };
    builder.push(name.into(), value)
}

/// Returns the double that prints like the float4: 0.1 stays 0.1.
fn double_of(n: f32) -> f64 {
    n.to_string().parse().unwrap_or_else(|_| f64::from(n))
}
