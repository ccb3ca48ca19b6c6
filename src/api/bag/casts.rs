//! To and from bags: jsonb and rows.

use std::ffi::CStr;

use pgrx::prelude::*;
use table_service_model::edm::parse_double;
use table_service_model::{Error, PropertiesBuilder, Value, json, key};

use crate::postgres::clock::ticks_of;
use crate::postgres::error::OrRaise;
use crate::postgres::types::{Column, JsonbArg, JsonbOut, PropertiesArg, PropertiesOut, RecordArg, TextOut, utf8};
use crate::postgres::varlena;

/// The cast from jsonb: a JSON object in payload form.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_from_jsonb(jsonb: JsonbArg<'_>) -> PropertiesOut {
    json::parse_properties(&jsonb.text()).map(PropertiesOut).or_raise()
}

/// The cast to jsonb: payload form, which casts back to the same bag.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_to_jsonb(properties: PropertiesArg<'_>) -> JsonbOut {
    JsonbOut(json::jsonb_text(properties.get()))
}

/// The cast to text: what the output function writes. Without it PostgreSQL would go by way of that and copy the text twice.
#[pg_extern(immutable, strict, parallel_safe)]
fn properties_to_text(properties: PropertiesArg<'_>) -> TextOut {
    TextOut(json::properties_to_json(properties.get()))
}

/// The columns of a row as properties: int2 and int4 become Int32, int8 Int64, float4, float8 and numeric Double, bool
/// Boolean, timestamptz DateTime, uuid Guid, bytea Binary, everything else String in its text form. NULLs are left out,
/// and so are columns named like a system property.
///
/// Raises the errors of the limits, and `OutOfRangeInput` for a timestamp that Edm.DateTime does not have.
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
    // SAFETY: the datum is of the column's type; domains have the representation of their base type.
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
                let value = parse_double(&text).ok_or_else(|| Error::out_of_range(&name, &text))?;
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
                builder.push(name, Value::String(&text))
            }
        }
    }
}

/// The double that prints as the float4 does: 0.1 stays 0.1.
fn double_of(n: f32) -> f64 {
    n.to_string().parse().unwrap_or_else(|_| f64::from(n))
}

/// The text form of a value.
///
/// # Safety
/// `datum` is of the type.
unsafe fn output(type_oid: pg_sys::Oid, datum: pg_sys::Datum) -> String {
    // SAFETY: as promised; the text is palloc'ed and copied.
    unsafe {
        let mut function = pg_sys::InvalidOid;
        let mut is_varlena = false;
        pg_sys::getTypeOutputInfo(type_oid, &mut function, &mut is_varlena);
        let text = pg_sys::OidOutputFunctionCall(function, datum);
        utf8(CStr::from_ptr(text).to_bytes()).to_owned()
    }
}
