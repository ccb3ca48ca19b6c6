//! The needs of the explorer from the program that serves it.

use std::pin::Pin;

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::answer::Problem;

/// The databases of the accounts.
pub trait Databases: Send + Sync {
    /// Returns the accounts, in the order in which the page lists them.
    fn accounts(&self) -> &[Account];

    /// Returns whether statements may write.
    fn can_write(&self) -> bool;

    /// Takes so many bytes of the program's memory for a call of an account, until the guard is dropped.
    fn memory(&self, account: &str, bytes: usize) -> Memory<'_>;

    /// Runs a statement in the database of an account, as a transaction of its own. It ends even if the caller has gone.
    fn rows(&self, account: &str, sql: &'static str, parameters: Vec<Option<String>>) -> Rows<'_>;
}

/// An account, as the page lists it.
pub struct Account {
    pub name: String,
    /// Its key if that is the public one of development, which is no secret.
    pub public_key: Option<&'static str>,
}

/// The rows of a statement, or why there are none.
pub type Rows<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Problem>> + Send + 'a>>;

/// The guard of memory that a call has taken, or why there is none.
pub type Memory<'a> = Pin<Box<dyn Future<Output = Result<Taken, Problem>> + Send + 'a>>;

/// Memory that a call has taken. It is given back when this is dropped.
pub type Taken = Box<dyn Send>;

/// Returns a value of a row.
///
/// # Errors
/// `InternalError` for a value of another type.
pub fn column<'r, T: FromSql<'r>>(row: &'r Row, index: usize) -> Result<T, Problem> {
    row.try_get(index).map_err(|error| Problem::internal(error.to_string()))
}
