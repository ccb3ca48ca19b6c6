//! Casts between bags and jsonb or text, and the conversion of rows into bags.

use std::ffi::CStr;

use pgrx::prelude::*;
use table_service_model::edm::parse_double;
use table_service_model::{Error, PropertiesBuilder, Value, json, key};

use crate::postgres::clock::ticks_of;
use crate::postgres::error::OrRaise;
use crate::postgres::types::{Column, JsonbArg, JsonbOut, PropertiesArg, PropertiesOut, RecordArg, TextOut, utf8};
use crate::postgres::varlena;

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

fn push(builder: &mut PropertiesBuilder<'_>, column: Column<'_>) -> Result<(), Error> {
    let Some(datum) = column.value else {
        return Ok(());
    };
    if key::is_system_property(&column.name) {
        return Ok(());
    }
    let name = column.name.into();
    // SAFETY: the datum is not NULL and of the column's type. A domain's values are represented like those of its base
    // type. So each arm reads the representation that the type has.
    unsafe {
        let base_type = pg_sys::getBaseType(column.type_oid);
        match base_type {
            pg_sys::INT2OID => builder.push(name, Value::Int32(i32::from(datum.value() as i16))),
            pg_sys::INT4OID => builder.push(name, Value::Int32(datum.value() as i32)),
            pg_sys::INT8OID => builder.push(name, Value::Int64(datum.value() as i64)),
            pg_sys::BOOLOID => builder.push(name, Value::Boolean(datum.value() & 0xFF != 0)),
            pg_sys::FLOAT8OID => builder.push(name, Value::Double(f64::from_bits(datum.value() as u64))),
            pg_sys::FLOAT4OID => builder.push(name, Value::Double(double_of(f32::from_bits(datum.value() as u32)))),
            pg_sys::NUMERICOID => {
                let text = output(base_type, datum);
                let value = parse_double(text).ok_or_else(|| Error::out_of_range(&name, text))?;
                builder.push(name, Value::Double(value))
            }
            pg_sys::TIMESTAMPTZOID => {
                let ticks = ticks_of(&name, datum.value() as i64)?;
                builder.push(name, Value::DateTime(ticks))
            }
            pg_sys::UUIDOID => {
                let guid = *datum.cast_mut_ptr::<[u8; 16]>();
                builder.push(name, Value::Guid(guid))
            }
            pg_sys::BYTEAOID => builder.push(name, Value::Binary(varlena::bytes(datum))),
            _ => {
                let text = output(column.type_oid, datum);
                builder.push(name, Value::String(text))
            }
        }
    }
}

/// Returns the double that prints like the float4: 0.1 stays 0.1.
fn double_of(n: f32) -> f64 {
    n.to_string().parse().unwrap_or_else(|_| f64::from(n))
}

/// Returns the text form of a value.
///
/// # Safety
/// `datum` must be a value of the type. The text must not be used after the running call.
unsafe fn output<'a>(type_oid: pg_sys::Oid, datum: pg_sys::Datum) -> &'a str {
    // SAFETY: the caller promises that the output function of the type takes the datum. The function returns a
    // palloc'ed C string, which lives as long as the running call.
    unsafe {
        let mut function = pg_sys::InvalidOid;
        let mut is_varlena = false;
        pg_sys::getTypeOutputInfo(type_oid, &mut function, &mut is_varlena);
        let text = pg_sys::OidOutputFunctionCall(function, datum);
        utf8(CStr::from_ptr(text).to_bytes())
    }
}
