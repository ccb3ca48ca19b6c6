//! The extension's types in PostgreSQL's binary protocol.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::BytesMut;
use postgres_types::{Format, FromSql, IsNull, ToSql, Type, to_sql_checked};
use table_service_model::{Properties, PropertiesBuf, Ticks};

type Failure = Box<dyn Error + Sync + Send>;

/// The parameters of a statement.
pub type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A parameter that counts its bytes in the message.
#[derive(Debug)]
pub struct Measured<'a> {
    pub value: &'a (dyn ToSql + Sync),
    pub bytes: &'a AtomicUsize,
}

impl ToSql for Measured<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        self.to_sql_checked(ty, out)
    }

    fn to_sql_checked(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        let before = out.len();
        let is_null = self.value.to_sql_checked(ty, out)?;
        self.bytes
            .fetch_add(out.len().saturating_sub(before), Ordering::Relaxed);
        Ok(is_null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, ty: &Type) -> Format {
        self.value.encode_format(ty)
    }
}

/// A bag as a parameter. Its binary form is its own bytes.
#[derive(Debug)]
pub struct BagParameter<'a>(pub &'a PropertiesBuf);

impl ToSql for BagParameter<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        ty.name() == "properties"
    }

    to_sql_checked!();
}

/// A bag in a row.
pub struct Bag<'a>(pub Properties<'a>);

impl<'a> FromSql<'a> for Bag<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        // The database validated it when it was stored.
        Ok(Bag(Properties::from_stored(raw)))
    }

    fn accepts(ty: &Type) -> bool {
        ty.name() == "properties"
    }
}

/// The Timestamp of an entity.
pub struct Timestamp(pub Option<Ticks>);

impl<'a> FromSql<'a> for Timestamp {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Timestamp(Ticks::from_postgres_micros(micros)))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }
}

/// One operation of an entity group transaction, as `table_service.batch_operation`.
#[derive(Debug, ToSql)]
#[postgres(name = "batch_operation")]
pub struct BatchOperation<'a> {
    pub operation: &'static str,
    pub row_key: &'a str,
    pub properties: Option<BagParameter<'a>>,
    pub if_match: Option<&'a str>,
}

/// A server of a cluster, by the name and the port that Citus knows.
pub type ServerName = (String, i32);

/// A row of `shard_map`.
pub struct Shard {
    pub from_hash: i32,
    pub to_hash: i32,
    pub server: ServerName,
    pub is_local: bool,
}
