//! The explorer's connections: a few to each account's database, beside those of clients.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use table_service_connect::Certificates;
use table_service_model::Code;
use table_service_model::error::Report;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::answer::Problem;
use crate::config::{Config, ExplorerMode};
use crate::database::{Node, Parameters, PoolSettings, QueryError, query_text};
use crate::failure::Failure;

const CONNECTIONS: usize = 2;
/// How long a statement may run, and how long it waits for a connection.
const TIME: Duration = Duration::from_secs(5);
/// Pages end earlier than statements. The search_path stays that of the role, because triggers of tables may need it.
const SETTINGS: &str = "-c table_service.page_time_limit=2000";
const READ_ONLY: &str = "-c default_transaction_read_only=on";

/// The databases of all accounts.
pub struct Databases {
    mode: ExplorerMode,
    nodes: HashMap<String, Arc<Node>>,
    /// In the order of the configuration.
    names: Vec<String>,
}

impl Databases {
    /// This does not connect.
    ///
    /// # Errors
    /// For a database URL that needs TLS without certificates.
    pub fn new(config: &Config, certificates: &Certificates) -> Result<Databases, String> {
        let mut nodes = HashMap::new();
        let mut names = Vec::new();
        for account in &config.accounts {
            let settings = PoolSettings {
                size: CONNECTIONS,
                timeout: TIME,
                statement_timeout: TIME,
                filter_dialect: account.filter_dialect,
            };
            let mut database = account.database.clone();
            database.add_options(SETTINGS);
            if config.explorer == ExplorerMode::Read {
                database.add_options(READ_ONLY);
            }
            database.set_application_name("table-service-explorer");
            let name = account.account.name().to_owned();
            let node = Node::new(database, settings, certificates, None)
                .map_err(|problem| format!("the database of the account {name}: {problem}"))?;
            nodes.insert(name.clone(), node);
            names.push(name);
        }
        Ok(Databases {
            mode: config.explorer,
            nodes,
            names,
        })
    }

    /// Begins to look for the primaries of those that have several hosts.
    pub fn start(&self) {
        self.nodes.values().for_each(Node::start);
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    pub fn mode(&self) -> ExplorerMode {
        self.mode
    }

    /// The rows of a statement in the database of an account. `parameters` are texts.
    ///
    /// # Errors
    /// 404 for an account that does not exist, and those of the database.
    pub async fn rows(
        &self,
        account: &str,
        sql: &'static str,
        parameters: &[Option<String>],
    ) -> Result<Vec<Row>, Problem> {
        let node = self.nodes.get(account).ok_or_else(|| {
            let message = "There is no such account.";
            Problem::new(StatusCode::NOT_FOUND, Code::ResourceNotFound.as_str(), message, None)
        })?;
        let (node, parameters) = (node.clone(), parameters.to_vec());
        let is_read_only = self.mode == ExplorerMode::Read;
        // A task of its own: a page that goes away leaves no transaction open.
        let statement = tokio::spawn(async move {
            let parameters: Vec<_> = parameters.iter().map(|text| text as _).collect();
            let parameters: Parameters<'_> = &parameters;
            query_text(&node, sql, parameters, is_read_only, Instant::now() + 2 * TIME).await
        });
        let ended = statement.await.map_err(|error| {
            let message = format!("The statement was not finished: {error}");
            Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                Code::InternalError.as_str(),
                message,
                None,
            )
        })?;
        ended.map_err(|error| self.problem(error))
    }

    fn problem(&self, error: QueryError) -> Problem {
        let error = match error {
            QueryError::Failure(failure) => return of_failure(failure),
            QueryError::Postgres(error) => error,
        };
        let Some(error) = error.as_db_error() else {
            return of_failure(crate::database::failure(&error));
        };
        let (sqlstate, message, hint) = (error.code(), error.message(), error.hint());
        if let Some(report) = Report::parse(sqlstate.code(), message) {
            return of_failure(Failure::of_report(report, hint.map(str::to_owned)));
        }
        if *sqlstate == SqlState::READ_ONLY_SQL_TRANSACTION && self.mode == ExplorerMode::Read {
            return Problem::new(
                StatusCode::FORBIDDEN,
                Code::AuthorizationFailure.as_str(),
                "This explorer only reads.",
                Some("Start the program with --explorer write to change tables here."),
            );
        }
        let code = match Code::of_sqlstate(sqlstate.code()) {
            // PostgreSQL refuses what was asked for, and says why.
            Code::InternalError if !matches!(sqlstate.code().get(..2), Some("XX" | "58")) => Code::InvalidInput,
            code => code,
        };
        let hint = match code {
            Code::OperationTimedOut => Some(
                "A statement of the explorer may take 5 seconds. Ask for less, or use SQL or table-service-copy, which may take longer.",
            ),
            _ => hint,
        };
        let status = StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Problem::new(status, code.as_str(), format!("{message} ({})", sqlstate.code()), hint)
    }
}

fn of_failure(failure: Failure) -> Problem {
    let status = failure.status();
    Problem::new(status, failure.code.as_str(), failure.message, failure.hint.as_deref())
}
