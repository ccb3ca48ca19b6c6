//! Connections to the server that is measured.

use std::time::Instant;

use bytes::BytesMut;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, NoTls};

use crate::Error;
use crate::report::Spread;

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

/// A statement that is measured, and those that run before it.
pub struct Side {
    pub before: Vec<String>,
    pub sql: String,
}

impl Side {
    /// The name of the table replaces TABLE in the statement.
    pub fn of(table: &str, sql: &str) -> Side {
        Side {
            before: Vec::new(),
            sql: sql.replace("TABLE", table),
        }
    }
}

/// Runs statements in turn: a number that makes keys new replaces ROUND in them. Returns how many times as long the
/// first one takes as each of the others, one text for each.
pub async fn ratios(client: &Client, rounds: usize, sides: &[Side], target: Option<f64>) -> Result<Vec<String>, Error> {
    let mut ratios = vec![Vec::new(); sides.len()];
    for round in 0..rounds {
        let mut first = None;
        for (Side { before, sql }, ratios) in sides.iter().zip(&mut ratios) {
            for statement in before {
                client.batch_execute(statement).await?;
            }
            let began = Instant::now();
            client.simple_query(&sql.replace("ROUND", &round.to_string())).await?;
            let seconds = began.elapsed().as_secs_f64();
            ratios.push(*first.get_or_insert(seconds) / seconds);
        }
    }
    let others = ratios.into_iter().skip(1);
    Ok(others.map(|ratios| Spread::of(ratios).text(2, target)).collect())
}
