//! The values of `--from` and `--to`.

use std::path::PathBuf;

use table_service_connect::DatabaseUrl;
use table_service_model::Secret;

use crate::ends::services::Endpoint;
use crate::failure::Failure;

use super::path::is_path;
use super::secret;

/// A source or a target.
pub enum End {
    Service(Endpoint),
    Database(Box<DatabaseUrl>),
    /// A file or a directory.
    Path(PathBuf),
    /// Standard input or output.
    Stream,
}

impl End {
    /// Reads an argument, or the variable or the file that it names.
    ///
    /// # Errors
    /// The fault of the argument. It may have a secret in any form, so it is not repeated.
    pub fn read(argument: &Secret) -> Result<End, Failure> {
        let secret = secret::read(argument)?;
        let text = secret.expose();
        if text.is_empty() {
            return Err(Failure::usage("A source or a target is empty."));
        }
        if text == "-" {
            return Ok(End::Stream);
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return match DatabaseUrl::read(&secret) {
                Ok(url) => Ok(End::Database(Box::new(url))),
                Err(problem) => Err(Failure::usage(format!("A source or a target {problem}."))),
            };
        }
        if text.starts_with("http://") || text.starts_with("https://") {
            return Endpoint::from_url(text).map(End::Service);
        }
        if Endpoint::is_connection_string(text) {
            return Endpoint::from_connection_string(text).map(End::Service);
        }
        if is_path(text) {
            return Ok(End::Path(PathBuf::from(text)));
        }
        Err(Failure::usage(format!(
            "A source or a target is not recognised: {secret:?}. It is one of\n  \
             a connection string, such as DefaultEndpointsProtocol=https;AccountName=…;AccountKey=…\n  \
             a table endpoint with a signature, such as https://account.table.core.windows.net/?sv=…&sig=…\n  \
             a database, such as postgresql://user@host/database\n  \
             a file or a directory, such as ./backup or /srv/Orders.jsonl\n  \
             - for standard input or output\n\
             without quotes around it and without a name before it."
        )))
    }
}
