//! The explorer's connections: a few to each account's database, beside those of clients. With `--explorer read` the connections
//! themselves refuse to write.

use std::sync::Arc;
use std::time::Duration;

use table_service_connect::Certificates;
use table_service_explorer::{Account, Databases, Memory, Problem, Rows, Taken};
use table_service_model::Code;
use table_service_model::access::DEVELOPMENT_KEY;
use table_service_model::error::Report;
use tokio::time::Instant;
use tokio_postgres::error::SqlState;

use crate::config::{Config, ExplorerMode};
use crate::database::{Diagnosis, Membership, Node, Parameters, PoolSettings, query_text};
use crate::failure::Failure;
use crate::limits::shares::Shares;

const CONNECTIONS: usize = 2;
/// The time limit of a statement, and of the wait for a connection.
const TIME: Duration = Duration::from_secs(5);
/// Pages end earlier than statements. The search_path stays that of the role, because triggers of tables may need it.
const SETTINGS: &str = "-c table_service.page_time_limit=2000";
const READ_ONLY: &str = "-c default_transaction_read_only=on";

/// The databases of all accounts, for the explorer.
pub struct ExplorerDatabases {
    mode: ExplorerMode,
    /// That of the requests of clients.
    memory: Arc<Shares>,
    /// The time limit of the wait for it.
    patience: Duration,
    /// In the order of the configuration, as the nodes.
    accounts: Vec<Account>,
    nodes: Vec<Arc<Node>>,
}

impl ExplorerDatabases {
    /// This does not connect.
    ///
    /// # Errors
    /// For a database URL that needs TLS without certificates.
    pub fn new(config: &Config, memory: Arc<Shares>, certificates: &Certificates) -> Result<ExplorerDatabases, String> {
        let (mut accounts, mut nodes) = (Vec::new(), Vec::new());
        for account in &config.accounts {
            let settings = PoolSettings {
                size: CONNECTIONS,
                timeout: TIME,
                statement_timeout: TIME,
                filter_dialect: account.filter_dialect,
                write_groups: false,
            };
            let mut database = account.database.clone();
            database.add_options(SETTINGS);
            if config.explorer == ExplorerMode::Read {
                database.add_options(READ_ONLY);
            }
            database.set_application_name("table-service-explorer");
            let name = account.account.name().to_owned();
            let node = Node::new(database, settings, certificates, None, Membership::First)
                .map_err(|problem| format!("the database of the account {name}: {problem}"))?;
            nodes.push(node);
            let public_key = account.has_public_key.then_some(DEVELOPMENT_KEY);
            accounts.push(Account { name, public_key });
        }
        Ok(ExplorerDatabases {
            mode: config.explorer,
            memory,
            patience: config.pool_timeout,
            accounts,
            nodes,
        })
    }

    /// Begins to watch the hosts of databases that have several.
    pub fn start(&self) {
        self.nodes.iter().for_each(Node::start);
    }

    /// Returns the number of an account.
    fn number(&self, account: &str) -> Result<usize, Problem> {
        let number = self.accounts.iter().position(|known| known.name == account);
        number.ok_or_else(no_account)
    }

    fn problem(&self, error: &tokio_postgres::Error) -> Problem {
        let Some(error) = error.as_db_error() else {
            return of_failure(Diagnosis::of(error).failure);
        };
        let (sqlstate, message, hint) = (error.code(), error.message(), error.hint().map(str::to_owned));
        if let Some(report) = Report::parse(sqlstate.code(), message) {
            return of_failure(Failure::of_report(report, hint));
        }
        if *sqlstate == SqlState::READ_ONLY_SQL_TRANSACTION && !self.can_write() {
            let hint = "Start the program with --explorer write to change tables here.".to_owned();
            return Problem::new(Code::AuthorizationFailure, "This explorer only reads.", Some(hint));
        }
        let code = match Code::of_sqlstate(sqlstate.code()) {
            // PostgreSQL refuses the arguments, and says why.
            Code::InternalError if !matches!(sqlstate.code().get(..2), Some("XX" | "58")) => Code::InvalidInput,
            code => code,
        };
        let hint = match code {
            Code::OperationTimedOut => Some(
                "A statement of the explorer may take 5 seconds. Ask for less, or use SQL or table-service-copy, which may take longer."
                    .to_owned(),
            ),
            _ => hint,
        };
        Problem::new(code, format!("{message} ({})", sqlstate.code()), hint)
    }
}

impl Databases for ExplorerDatabases {
    fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    fn can_write(&self) -> bool {
        self.mode == ExplorerMode::Write
    }

    fn memory(&self, account: &str, bytes: usize) -> Memory<'_> {
        let number = self.number(account);
        Box::pin(async move {
            let number = number?;
            let share = self.memory.take(number, bytes, bytes, self.patience).await;
            share.map(|share| Box::new(share) as Taken).ok_or_else(|| {
                let message = format!(
                    "This call needs {} MiB of the gateway's memory (max_memory), and so much is not free.",
                    bytes.div_ceil(1024 * 1024)
                );
                Problem::new(Code::ServerBusy, message, None)
            })
        })
    }

    fn rows(&self, account: &str, sql: &'static str, parameters: Vec<Option<String>>) -> Rows<'_> {
        let node = self.number(account).map(|number| self.nodes.get(number).cloned());
        let is_read_only = !self.can_write();
        Box::pin(async move {
            let node = node?.ok_or_else(no_account)?;
            // A task of its own: a page that goes away leaves no transaction open.
            let statement = tokio::spawn(async move {
                let parameters: Vec<_> = parameters.iter().map(|text| text as _).collect();
                let parameters: Parameters<'_> = &parameters;
                query_text(&node, sql, parameters, is_read_only, Instant::now() + 2 * TIME).await
            });
            let ended = statement
                .await
                .map_err(|error| Problem::internal(format!("The statement was not finished: {error}")))?;
            ended.map_err(of_failure)?.map_err(|error| self.problem(&error))
        })
    }
}

fn no_account() -> Problem {
    Problem::not_found("There is no such account.")
}

fn of_failure(failure: Failure) -> Problem {
    Problem::new(failure.code, failure.message, failure.hint)
}
