//! The error catalog: one row an error, with its Azure code, SQLSTATE, stage, message and hint ([`Error`] and
//! [`RequestError`]), and one row a code, with its HTTP status and retry ([`Code`]).
//!
//! The extension raises an [`Error`] as `<Code>: <message>` under its SQLSTATE. The gateway reads it back with
//! [`Report::parse`], and gives the errors that PostgreSQL raises itself a code with [`Code::of_sqlstate`].

mod catalog;
mod code;
mod report;
mod request;
mod row;

pub use catalog::Error;
pub use code::{Code, Retry};
pub use report::Report;
pub use request::RequestError;
pub use row::Stage;
