//! Connections, and their errors.

use std::error::Error;
use std::future::Future;
use std::io;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures_util::TryStreamExt;
use parking_lot::Mutex;
use table_service_connect::{
    Certificates, DatabaseUrl, Opened, Server, Unreachable, extension_in, is_refused_by_tls, with_sources,
};
use table_service_model::Code;
use table_service_model::error::Retry;
use table_service_model::extension::{self, Extension};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use crate::ends::backoff::Backoff;
use crate::failure::Failure;
use crate::printable;

use super::owners::{self, SCHEMAS};

/// How long one server may take to make a connection ready.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How many seconds a table that others have locked is waited for.
pub const LOCK_TIMEOUT: u32 = 30;
/// The most expiries of a table: it has one, or one for each of its indexes.
const MOST_EXPIRIES: usize = 1000;
/// The most bytes of a list that a statement returns.
const LIST_BYTES: usize = 16 << 20;

/// An error of a database, or of the connection to it.
#[derive(Debug)]
pub enum SqlError {
    Postgres(tokio_postgres::Error),
    /// One that stays at every try.
    ForEver(String),
    /// One that may be gone at the next try.
    ForNow(String),
    /// One table cannot be visited.
    OfTable(String),
}

impl From<tokio_postgres::Error> for SqlError {
    fn from(error: tokio_postgres::Error) -> SqlError {
        SqlError::Postgres(error)
    }
}

impl From<Unreachable> for SqlError {
    fn from(problem: Unreachable) -> SqlError {
        match problem {
            Unreachable::Postgres(error) => SqlError::Postgres(error),
            Unreachable::Network(problem) => SqlError::ForNow(problem),
        }
    }
}

impl SqlError {
    /// The SQLSTATE; `None` if the server has not answered.
    pub fn code(&self) -> Option<&SqlState> {
        match self {
            SqlError::Postgres(error) => error.code(),
            SqlError::ForEver(_) | SqlError::ForNow(_) | SqlError::OfTable(_) => None,
        }
    }

    /// Returns whether others can be visited although one table cannot.
    fn is_of_table(&self) -> bool {
        matches!(self, SqlError::OfTable(_)) || self.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
    }

    /// Returns an error of a statement on one table as an error of this table: any role that may change the table
    /// decides its text. Errors that may pass, and those of the connection, stay as they are.
    #[must_use]
    pub fn of_table(self) -> SqlError {
        match self.code() {
            Some(_) if !self.is_passing() => SqlError::OfTable(self.text()),
            _ => self,
        }
    }

    /// In one line, with the service's message and its hint.
    pub fn text(&self) -> String {
        match self {
            SqlError::Postgres(error) => match error.as_db_error() {
                Some(db) if db.routine() == Some("check_enable_rls") => format!(
                    "{}, so that entities would be left out in silence. --row-security takes the part that the policies show",
                    printable::said(db.message())
                ),
                Some(db) => match db.hint() {
                    Some(hint) => {
                        let (message, hint) = (printable::said(db.message()), printable::said(hint));
                        // PostgreSQL's own messages end without one.
                        let period = if message.ends_with('.') { "" } else { "." };
                        format!("{message}{period} {hint}")
                    }
                    None => printable::said(db.message()),
                },
                None => printable::said(&with_sources(error)),
            },
            SqlError::ForEver(text) | SqlError::ForNow(text) | SqlError::OfTable(text) => printable::said(text),
        }
    }

    /// Returns whether the same may succeed later, as the catalog of errors says: the server is away, starts, is busy,
    /// has cancelled the statement, or the connection broke. After that the old session may still hold things that the
    /// new one needs, for example the slot of a change feed.
    pub fn is_passing(&self) -> bool {
        let error = match self {
            SqlError::Postgres(error) => error,
            SqlError::ForNow(_) => return true,
            SqlError::ForEver(_) | SqlError::OfTable(_) => return false,
        };
        if let Some(code) = error.code() {
            // A server or a role that only reads stays so, unless it is a standby that is promoted. That is not waited for.
            return *code != SqlState::READ_ONLY_SQL_TRANSACTION
                && Code::of_sqlstate(code.code()).retry() == Retry::WithBackOff;
        }
        error.is_closed() || is_broken(error)
    }
}

/// Returns whether a connection broke. A server that is no PostgreSQL, or has a wrong certificate, is not worth another attempt.
fn is_broken(error: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput};
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return !matches!(error.kind(), InvalidData | InvalidInput) && !is_refused_by_tls(error);
        }
        cause = error.source();
    }
    false
}

/// A connection to a database with the extension.
pub struct Connection {
    client: Client,
    /// Whether the database has the functions of version 0.3 of the extension.
    pub has_functions_of_0_3: bool,
    /// Whether it has those of version 0.5.
    pub has_functions_of_0_5: bool,
}

impl Deref for Connection {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// The options of all databases.
#[derive(Debug, Clone, Args)]
pub struct DatabaseOptions {
    /// Visit tables of databases also if these roles own them or code that belongs to them, such as triggers and index expressions: it
    /// runs with the rights of the role that connects. Roles are divided by commas; all are trusted by: all
    #[arg(long, value_name = "ROLE", default_value = "", hide_default_value = true)]
    trust_owners: String,

    /// Read only what row-level security shows of tables of databases, if policies apply to the role that connects. Without it such a table is
    /// left out, and the exit status is 1
    #[arg(long)]
    row_security: bool,

    /// PEM certificates for checking databases with sslmode=require [default: the system's]
    #[arg(long, value_name = "FILE", env = "TABLE_SERVICE_DATABASE_CA")]
    database_ca: Option<PathBuf>,
}

/// A database, how long to wait for it, and the owners of code that may run there with this program's rights.
#[derive(Clone)]
pub struct Database {
    servers: Arc<[Server]>,
    /// The database's name in messages: without user and password.
    pub name: String,
    patience: Duration,
    /// The value of `--trust-owners`.
    trusted: String,
    /// Whether row-level security hides rows. If not, PostgreSQL refuses what would be read without them.
    row_security: bool,
    /// Connections that wait for their next statement.
    kept: Arc<Mutex<Vec<Connection>>>,
}

impl Database {
    /// # Errors
    /// Certificates that cannot be read, or that there are none.
    pub fn new(mut url: DatabaseUrl, patience: Duration, options: &DatabaseOptions) -> Result<Database, Failure> {
        url.default_application_name("table-service-copy");
        let name = format!("postgresql://{}", url.name());
        let certificates = Certificates::read(options.database_ca.as_deref())
            .map_err(|problem| Failure::usage(format!("--database-ca: {problem}.")))?;
        let servers = Server::all(&url, &certificates, CONNECT_TIMEOUT);
        Ok(Database {
            servers: servers
                .map_err(|problem| Failure::new(format!("{name}: {problem}")))?
                .into(),
            name,
            patience,
            trusted: options.trust_owners.clone(),
            row_security: options.row_security,
            kept: Arc::default(),
        })
    }

    /// The error for users, with the name of the database.
    pub fn failure(&self, error: &SqlError) -> Failure {
        let message = format!("{}: {}", self.name, error.text());
        match error.is_of_table() {
            true => Failure::of_table(message),
            false => Failure::new(message),
        }
    }

    /// A target, where policies refuse writes that they do not allow and hide nothing that is read.
    #[must_use]
    pub fn for_writing(self) -> Database {
        Database {
            row_security: true,
            ..self
        }
    }

    /// Checks that all owners of some objects are trusted.
    ///
    /// # Errors
    /// The owner that is not trusted; errors of the database.
    pub async fn check_owners(
        &self,
        client: &Client,
        objects: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<(), SqlError> {
        if self.trusted == "all" {
            return Ok(());
        }
        let names: Vec<&str> = self.trusted.split(',').map(str::trim).collect();
        let parameters = [&[&names as &(dyn ToSql + Sync)], parameters].concat();
        let found = rows(client, &owners::untrusted(objects), &parameters, 1).await?;
        let Some(row) = found.first() else { return Ok(()) };
        Err(SqlError::OfTable(owners::reason(row.try_get(0)?, row.try_get(1)?)))
    }

    /// The pauses between tries.
    pub fn backoff(&self) -> Backoff {
        Backoff::new(self.patience)
    }

    /// Waits before another attempt.
    ///
    /// # Errors
    /// The error, if it does not pass, or has not passed for too long.
    pub async fn wait(&self, backoff: &mut Backoff, error: &SqlError) -> Result<(), Failure> {
        let failure = self.failure(error);
        if error.is_passing() && backoff.wait(None, &failure.to_string()).await {
            return Ok(());
        }
        Err(failure)
    }

    /// Does something again until it succeeds, fails for good, or has failed for too long. It must be harmless to do twice.
    pub async fn again<T, F, D>(&self, work: F) -> Result<T, Failure>
    where
        F: Fn() -> D,
        D: Future<Output = Result<T, SqlError>>,
    {
        let mut backoff = self.backoff();
        loop {
            match work().await {
                Ok(done) => return Ok(done),
                Err(error) => self.wait(&mut backoff, &error).await?,
            }
        }
    }

    /// An identity of the database, the same for each URL; `None` if the server does not tell. A restored copy of a
    /// server has the same number as that server, but has not started in the same microsecond.
    pub async fn identity(&self) -> Result<Option<String>, Failure> {
        const IDENTITY: &str = "SELECT pg_catalog.concat_ws(' ', s.system_identifier, d.oid, pg_catalog.pg_postmaster_start_time()) \
                                FROM pg_catalog.pg_control_system() AS s, pg_catalog.pg_database AS d \
                                WHERE d.datname = pg_catalog.current_database()";
        let ask = async || {
            let client = self.connect().await?;
            Ok(row(&client, IDENTITY, &[]).await?.try_get(0)?)
        };
        let ask_or_not = || async {
            match ask().await {
                // The next statement fails for the same reason, and says so; or the role may not ask.
                Err(error) if !SqlError::is_passing(&error) => Ok(None),
                asked => asked.map(Some),
            }
        };
        self.again(ask_or_not).await
    }

    /// Does something on a connection that was kept, or on a new one, and keeps it if that succeeds. Works at the same time have
    /// connections of their own.
    ///
    /// # Errors
    /// There is no connection, or the work fails.
    pub async fn on_kept<T>(&self, work: impl AsyncFnOnce(&Connection) -> Result<T, SqlError>) -> Result<T, SqlError> {
        let kept = || self.kept.lock();
        let free = std::iter::from_fn(|| kept().pop()).find(|client| !client.is_closed());
        let client = match free {
            Some(client) => client,
            None => self.connect().await?,
        };
        let done = work(&client).await?;
        kept().push(client);
        Ok(done)
    }

    /// Runs a statement, as often as [`Database::again`] does.
    pub async fn run(&self, statement: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<(), Failure> {
        let run = async |client: &Connection| client.query(statement, parameters).await.map_err(SqlError::from);
        self.again(|| self.on_kept(run)).await.map(drop)
    }

    /// A connection with settings that do not depend on the role or the database, to a database where the schema
    /// `table_service` is the extension's, and stays so.
    ///
    /// # Errors
    /// The reason why there is none; the reason of the last server, if the URL names several.
    pub async fn connect(&self) -> Result<Connection, SqlError> {
        let mut last = SqlError::ForEver("the URL names no host".to_owned());
        for server in self.servers.iter() {
            let database = self.clone();
            let make_ready = move |opened| async move { database.make_ready(opened).await };
            match server.connect(make_ready, |_| true).await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn make_ready(&self, Opened { client, wire, .. }: Opened) -> Result<Connection, SqlError> {
        tokio::spawn(wire);
        let row_security = if self.row_security { "on" } else { "off" };
        client
            .batch_execute(&format!(
                "SET search_path = pg_catalog; SET statement_timeout = 0; SET lock_timeout = '{LOCK_TIMEOUT}s'; SET jit = off; \
                 SET idle_in_transaction_session_timeout = 0; SET client_encoding = 'UTF8'; \
                 SET standard_conforming_strings = on; SET datestyle = 'ISO'; SET timezone = 'UTC'; \
                 SET row_security = {row_security}"
            ))
            .await?;
        let found = extension_in(rows(&client, extension::LOOK, &[], 1).await?.first())?;
        let version = Extension::usable(found, "table-service-copy").map_err(SqlError::ForEver)?;
        self.check_owners(&client, SCHEMAS, &[]).await?;
        Ok(Connection {
            client,
            has_functions_of_0_3: extension::has_functions_of(&version, 3),
            has_functions_of_0_5: extension::has_functions_of(&version, 5),
        })
    }
}

/// The rows of a statement, which has a known number of them at most.
///
/// # Errors
/// An error of the database; more rows, or larger ones.
pub async fn rows(
    client: &Client,
    statement: &str,
    parameters: &[&(dyn ToSql + Sync)],
    most: usize,
) -> Result<Vec<Row>, SqlError> {
    let stream = client.query_raw(statement, parameters.iter().copied()).await?;
    let mut stream = std::pin::pin!(stream);
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = stream.try_next().await? {
        bytes += row.raw_size_bytes();
        if rows.len() == most || bytes > LIST_BYTES {
            return Err(SqlError::ForEver(format!(
                "the server sends a list of more than {most} rows or {} MiB",
                LIST_BYTES >> 20
            )));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// The only row of a statement.
///
/// # Errors
/// An error of the database; no row, or several.
pub async fn row(client: &Client, statement: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Row, SqlError> {
    let found = rows(client, statement, parameters, 1).await?.pop();
    found.ok_or_else(|| SqlError::ForEver("the server sends no row where there must be one".to_owned()))
}

/// A text as a literal.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The condition of [`alive`] for a table without an expiry.
pub const ALL_ALIVE: &str = "true";

/// The condition that an entity has not expired, on the columns of a table that is being visited: an expired entity is
/// gone, stored or not. Databases before 0.3.0 have no expiry.
pub async fn alive(client: &Connection, table: &str) -> Result<String, SqlError> {
    if !client.has_functions_of_0_3 {
        return Ok(ALL_ALIVE.to_owned());
    }
    let statement = "SELECT pg_catalog.quote_nullable(property), coalesce(extract(epoch FROM time_to_live)::pg_catalog.int8::text, 'NULL') \
                     FROM table_service.query_expiry($1::pg_catalog.text) WHERE is_valid";
    let mut condition = ALL_ALIVE.to_owned();
    for expiry in rows(client, statement, &[&table], MOST_EXPIRIES).await? {
        let (property, seconds): (&str, &str) = (expiry.try_get(0)?, expiry.try_get(1)?);
        condition.push_str(&format!(
            " AND coalesce(table_service.expires_at(\"timestamp\", properties, {property}::pg_catalog.text, {seconds}::pg_catalog.int8) > now(), true)"
        ));
    }
    Ok(condition)
}
