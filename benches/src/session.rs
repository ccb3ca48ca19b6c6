//! Connections to the server that is measured.

use bytes::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, NoTls};

use crate::Error;

/// A value in PostgreSQL's text form, for a parameter of any type: `properties` and `jsonb` take JSON so, from any driver.
#[derive(Debug)]
pub struct Text<T>(pub T);

impl<T: AsRef<str> + std::fmt::Debug> ToSql for Text<T> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Error> {
        out.extend_from_slice(self.0.as_ref().as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// Connects as a connection string says (`host=… dbname=…` or a URL). The connection runs in the background of the calling
/// runtime.
pub async fn connect(connection: &str) -> Result<Client, Error> {
    let (client, background) = tokio_postgres::connect(connection, NoTls).await?;
    tokio::spawn(async {
        // How it ends is seen by the statements that need it.
        let _ = background.await;
    });
    Ok(client)
}
