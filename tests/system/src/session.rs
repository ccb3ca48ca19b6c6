//! Sessions: connections that run one statement at a time.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_postgres::types::{Format, FromSql, IsNull, ToSql, Type};
use tokio_postgres::{Client, NoTls, Row, SimpleQueryMessage};

use crate::failure::Failure;
use crate::wait_until;

/// The rows of a statement: their values as text, NULL as None.
pub type Texts = Vec<Vec<Option<String>>>;

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().unwrap()
    })
}

/// Waits for a server's answer; a server that hangs must not hang the tests.
fn block_on<F: Future>(future: F) -> F::Output {
    let limit = Duration::from_secs(600);
    match runtime().block_on(async { tokio::time::timeout(limit, future).await }) {
        Ok(output) => output,
        Err(_) => panic!("the server does not answer"),
    }
}

/// A connection to a server.
pub struct Session {
    name: String,
    client: Arc<Client>,
    connection: JoinHandle<()>,
    settings: tokio_postgres::Config,
    pid: i32,
}

/// Connects to a database as a role.
pub(crate) fn connect(host: &str, port: u16, database: &str, role: &str, name: &str) -> Result<Session, Failure> {
    let mut settings = tokio_postgres::Config::new();
    settings.host_path(host).port(port).dbname(database).user(role);
    open(settings, name)
}

fn open(mut settings: tokio_postgres::Config, name: &str) -> Result<Session, Failure> {
    settings.application_name(name);
    let (client, connection) = block_on(settings.connect(NoTls))?;
    let connection = runtime().spawn(async {
        // How it ends is seen by the statements that need it.
        let _ = connection.await;
    });
    let mut session = Session {
        name: name.to_owned(),
        client: Arc::new(client),
        connection,
        settings,
        pid: 0,
    };
    session.pid = session.query("SELECT pg_backend_pid()", &[])?[0].get(0);
    Ok(session)
}

impl Session {
    /// The process of the server that serves this session.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Runs statements without parameters and returns the rows of all of them.
    pub fn sql(&self, sql: &str) -> Result<Texts, Failure> {
        Ok(texts(block_on(self.client.simple_query(sql))?))
    }

    /// Runs statements that succeed.
    #[track_caller]
    pub fn run(&self, sql: &str) -> Texts {
        match self.sql(sql) {
            Ok(rows) => rows,
            Err(failure) => panic!("{}: {sql}: {failure:?}", self.name),
        }
    }

    /// The one value of a statement that succeeds, as text.
    #[track_caller]
    pub fn text(&self, sql: &str) -> String {
        match self.run(sql).as_slice() {
            [row] => match row.as_slice() {
                [Some(text)] => text.clone(),
                other => panic!("{}: {sql}: {other:?} is not one value", self.name),
            },
            other => panic!("{}: {sql}: {other:?} is not one row", self.name),
        }
    }

    /// Runs a statement with parameters, through the extended protocol and in binary.
    pub fn query(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Failure> {
        Ok(block_on(self.client.query(sql, parameters))?)
    }

    /// The one value of a statement that succeeds.
    #[track_caller]
    pub fn value<T: for<'a> FromSql<'a>>(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> T {
        match self.query(sql, parameters) {
            Ok(rows) if rows.len() == 1 => rows[0].get(0),
            Ok(rows) => panic!("{}: {sql}: {} rows", self.name, rows.len()),
            Err(failure) => panic!("{}: {sql}: {failure:?}", self.name),
        }
    }

    /// The data that COPY … TO STDOUT sends.
    pub fn copy_out(&self, sql: &str) -> Result<Vec<u8>, Failure> {
        block_on(async {
            let mut data = Vec::new();
            let mut stream = std::pin::pin!(self.client.copy_out(sql).await?);
            while let Some(part) = stream.next().await {
                data.extend_from_slice(&part?);
            }
            Ok(data)
        })
    }

    /// Sends `data` to COPY … FROM STDIN.
    pub fn copy_in(&self, sql: &str, data: Vec<u8>) -> Result<u64, Failure> {
        block_on(async {
            let mut sink = std::pin::pin!(self.client.copy_in::<_, Bytes>(sql).await?);
            sink.send(Bytes::from(data)).await?;
            Ok(sink.finish().await?)
        })
    }

    /// Starts statements without waiting for them.
    pub fn start(&self, sql: &str) -> Pending<'_> {
        let (client, text) = (self.client.clone(), sql.to_owned());
        Pending {
            session: self,
            sql: sql.to_owned(),
            running: runtime().spawn(async move { Ok(texts(client.simple_query(&text).await?)) }),
        }
    }

    /// Cancels the statement that this session runs. (A cancel request of the protocol sends two signals to the
    /// server's process. The second can hit the next statement.)
    pub fn cancel(&self) {
        assert!(
            self.watcher()
                .value::<bool>("SELECT pg_catalog.pg_cancel_backend($1)", &[&self.pid])
        );
    }

    /// Another session, which can look after this one.
    fn watcher(&self) -> Session {
        let mut settings = self.settings.clone();
        settings.user("postgres").dbname("postgres");
        open(settings, "watcher").unwrap()
    }

    /// Ends the connection without telling the server, as a broken network or a killed client would.
    pub fn lose(self) {
        self.connection.abort();
        let _ = block_on(self.connection);
    }
}

fn texts(messages: Vec<SimpleQueryMessage>) -> Texts {
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| (0..row.len()).map(|i| row.get(i).map(str::to_owned)).collect())
        .collect()
}

/// Statements that run in a session.
pub struct Pending<'s> {
    session: &'s Session,
    sql: String,
    running: JoinHandle<Result<Texts, Failure>>,
}

impl Pending<'_> {
    /// Returns when they wait for a lock that another session has.
    ///
    /// # Panics
    /// If they end instead.
    #[track_caller]
    pub fn waits(self) -> Self {
        let watcher = self.session.watcher();
        let pid = self.session.pid;
        let pending = self.until("it waits", || {
            watcher.value(
                "SELECT pg_catalog.cardinality(pg_catalog.pg_blocking_pids($1)) > 0",
                &[&pid],
            )
        });
        if pending.running.is_finished() {
            let (name, sql) = (pending.session.name.clone(), pending.sql.clone());
            panic!("{name}: {sql} does not wait, but ends: {:?}", pending.finish());
        }
        pending
    }

    /// Returns when a condition holds, or when they have ended.
    pub fn until(self, what: &str, mut condition: impl FnMut() -> bool) -> Self {
        wait_until(&format!("{}: {}: {what}", self.session.name, self.sql), || {
            self.running.is_finished() || condition()
        });
        self
    }

    /// How they end.
    pub fn finish(self) -> Result<Texts, Failure> {
        block_on(self.running).unwrap()
    }

    /// The one value of statements that succeed, as text.
    #[track_caller]
    pub fn text(self) -> String {
        let (name, sql) = (self.session.name.clone(), self.sql.clone());
        match self.finish() {
            Ok(rows) => match rows.as_slice() {
                [row] if row.len() == 1 => row[0].clone().unwrap(),
                other => panic!("{name}: {sql}: {other:?} is not one value"),
            },
            Err(failure) => panic!("{name}: {sql}: {failure:?}"),
        }
    }
}

/// A value of any type as the bytes of the protocol: a result in binary, a parameter in binary or as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Raw {
    Binary(Vec<u8>),
    Text(String),
}

impl Raw {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Raw::Binary(bytes) => bytes,
            Raw::Text(text) => text.as_bytes(),
        }
    }
}

impl ToSql for Raw {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(self.bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        match self {
            Raw::Binary(_) => Format::Binary,
            Raw::Text(_) => Format::Text,
        }
    }

    tokio_postgres::types::to_sql_checked!();
}

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw::Binary(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
