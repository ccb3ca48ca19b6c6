//! Casts between bags and json, jsonb or text, and the conversion of rows into bags.

use pgrx::prelude::*;
use table_service_model::{Error, PropertiesBuilder, json, key};

use crate::postgres::{
    Column, JsonArg, JsonOut, JsonbArg, JsonbOut, OrRaise, PropertiesArg, PropertiesOut, RecordArg, TextOut,
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
    match column.value()? {
        None => Ok(()),
        Some(value) => builder.push(column.name.into(), value),
    }
}
