//! Rows of the binary format of COPY.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use table_service_model::{Properties, PropertiesBuf, Ticks};
use tokio_postgres::binary_copy::BinaryCopyOutRow;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::records::Record;

/// A property bag as the database sends it.
pub struct Bag(pub PropertiesBuf);

impl<'a> FromSql<'a> for Bag {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Bag, Box<dyn Error + Sync + Send>> {
        let bag = Properties::validate(raw).map_err(|error| error.report())?;
        Ok(Bag(bag.without(&[])))
    }

    fn accepts(ty: &Type) -> bool {
        ty.name() == "properties"
    }
}

/// A property bag to send.
#[derive(Debug)]
pub struct BagBytes<'a>(pub &'a [u8]);

impl ToSql for BagBytes<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        ty.name() == "properties"
    }

    to_sql_checked!();
}

/// A `timestamptz` in microseconds after 2000-01-01.
#[derive(Debug, Clone, Copy)]
pub struct Micros(pub i64);

impl<'a> FromSql<'a> for Micros {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Micros, Box<dyn Error + Sync + Send>> {
        Ok(Micros(i64::from_be_bytes(raw.try_into()?)))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }
}

impl ToSql for Micros {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i64(self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}

/// The entity of a row: keys, Timestamp, properties.
///
/// # Errors
/// A NULL, which users can bring into their tables, or a broken bag.
pub fn record(row: &BinaryCopyOutRow) -> Result<Record, String> {
    let text = |index: usize, name: &str| {
        row.try_get::<Option<&str>>(index)
            .map_err(|error| error.to_string())?
            .map(str::to_owned)
            .ok_or_else(|| format!("The row has NULL in {name}"))
    };
    let micros: Option<Micros> = row.try_get(2).map_err(|error| error.to_string())?;
    let bag: Option<Bag> = row
        .try_get(3)
        .map_err(|error| table_service_connect::with_sources(&error))?;
    Ok(Record {
        partition_key: text(0, "partition_key")?,
        row_key: text(1, "row_key")?,
        timestamp: micros.and_then(|micros| Ticks::from_postgres_micros(micros.0)),
        properties: bag.ok_or("The row has NULL in properties")?.0,
    })
}
