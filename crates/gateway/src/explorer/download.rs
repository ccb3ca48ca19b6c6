//! Exports: a call gives a path that works once and not for long, and the browser downloads from it without the token.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_DISPOSITION, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Frame;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_postgres::Row;

use super::answer::{Body, Problem, with};
use super::csv::{Columns, Entity, MOST_PROPERTIES};
use super::database::Databases;
use super::token::Token;
use crate::database::column;

const VALID: Duration = Duration::from_secs(30);
/// The most paths that wait for their download.
const WAITING: usize = 100;
/// The most entities that are read at once.
const TOP: &str = "1000";
/// How long a text becomes before it is sent, in bytes: a part of the download. An entity is never divided.
const PART: usize = 64 * 1024;

/// A page of entities, each as a line of JSON, then with its properties in arrays. `$4` is the token of the page before.
pub const EXPORTS: [&str; 2] = [
    "SELECT table_service.entity_to_json(
              ROW(p.partition_key, p.row_key, p.\"timestamp\", p.properties)::table_service.entity, 'minimal'::pg_catalog.text)::pg_catalog.text,
            p.partition_key, p.continuation_token
     FROM table_service.query_page($1::pg_catalog.text, $2::pg_catalog.text, NULL::pg_catalog.text,
       $3::pg_catalog.text::pg_catalog.int8, $4::pg_catalog.text, NULL::table_service.properties) AS p",
    "SELECT v.names, v.types, v.\"values\", p.partition_key, p.row_key,
            pg_catalog.to_char(p.\"timestamp\" AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), p.continuation_token
     FROM table_service.query_page($1::pg_catalog.text, $2::pg_catalog.text, NULL::pg_catalog.text,
       $3::pg_catalog.text::pg_catalog.int8, $4::pg_catalog.text, NULL::table_service.properties) AS p,
       LATERAL (SELECT pg_catalog.array_agg(e.name) AS names, pg_catalog.array_agg(e.type) AS types,
                  pg_catalog.array_agg(e.value) AS \"values\"
                FROM table_service.each_property(p.properties) AS e) AS v",
];

/// What is exported.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    table: String,
    filter: Option<String>,
    format: Format,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    Jsonl,
    Csv,
}

struct Ticket {
    export: Export,
    form: Form,
    until: Instant,
}

/// The exports that nobody has downloaded yet, by the last part of their paths.
#[derive(Default)]
pub struct Downloads(Mutex<HashMap<String, Ticket>>);

impl Downloads {
    /// The last part of the path of a new download. What can be refused is refused here: a browser shows nothing of a download that
    /// fails. For CSV that takes as long as it takes to read all entities.
    ///
    /// # Errors
    /// 503 if too many wait, and those of the database.
    pub async fn prepare(&self, account: &str, wanted: Wanted, databases: &Arc<Databases>) -> Result<String, Problem> {
        let mut export = Export {
            databases: databases.clone(),
            account: account.to_owned(),
            wanted,
            token: None,
            is_over: false,
        };
        let form = export.form().await?;
        let busy = |message: String| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "ServerBusy", message, None);
        let name = Token::new().map_err(busy)?.expose().to_owned();
        let mut tickets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        tickets.retain(|_, ticket| ticket.until > now);
        if tickets.len() >= WAITING {
            return Err(busy("Too many exports wait for their download.".to_owned()));
        }
        let ticket = Ticket {
            export,
            form,
            until: now + VALID,
        };
        tickets.insert(name.clone(), ticket);
        Ok(name)
    }

    /// Begins a download. Its path works no more.
    ///
    /// # Errors
    /// 404 for a path that was used or is too old, and those of the database for the first page.
    pub async fn begin(&self, name: &str) -> Result<Response<Body>, Problem> {
        let ticket = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        let ticket = ticket.filter(|ticket| ticket.until > Instant::now()).ok_or_else(|| {
            let hint = Some("A path of a download works once, for 30 seconds. Export again.");
            Problem::new(
                StatusCode::NOT_FOUND,
                "ResourceNotFound",
                "There is no such download.",
                hint,
            )
        })?;
        let Ticket { mut export, form, .. } = ticket;
        let (ending, content_type) = match export.wanted.format {
            Format::Jsonl => ("jsonl", "application/x-ndjson"),
            Format::Csv => ("csv", "text/csv; charset=utf-8"),
        };
        // What no table can have in its name cannot be in a file's name.
        let table: String = export
            .wanted
            .table
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        // An error of the first page is an answer. One of a later page cuts the download.
        let first = export.rows(TOP).await?;
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(export.send(form, first, sender));
        let mut response = with(StatusCode::OK, content_type, Stream(receiver).boxed_unsync());
        if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{table}.{ending}\"")) {
            response.headers_mut().insert(CONTENT_DISPOSITION, value);
        }
        Ok(response)
    }
}

struct Export {
    databases: Arc<Databases>,
    account: String,
    wanted: Wanted,
    token: Option<String>,
    is_over: bool,
}

/// How entities are written.
enum Form {
    /// Each as a line of JSON.
    Lines,
    Csv(Columns),
}

impl Export {
    /// The rows of the next page.
    async fn rows(&mut self, top: &str) -> Result<Vec<Row>, Problem> {
        let Wanted { table, filter, format } = &self.wanted;
        let [lines, arrays] = EXPORTS;
        let (sql, token_column) = match format {
            Format::Jsonl => (lines, 2),
            Format::Csv => (arrays, 6),
        };
        let parameters = [
            Some(table.clone()),
            filter.clone(),
            Some(top.to_owned()),
            self.token.clone(),
        ];
        let rows = self.databases.rows(&self.account, sql, &parameters).await?;
        self.token = rows.last().map(|row| value(row, token_column)).transpose()?.flatten();
        self.is_over = self.token.is_none();
        Ok(rows)
    }

    /// How the entities are written. Afterwards the export is at its beginning.
    async fn form(&mut self) -> Result<Form, Problem> {
        let form = match self.wanted.format {
            Format::Jsonl => {
                self.rows("1").await?;
                Form::Lines
            }
            Format::Csv => Form::Csv(self.columns().await?),
        };
        self.token = None;
        self.is_over = false;
        Ok(form)
    }

    /// The columns of all entities.
    async fn columns(&mut self) -> Result<Columns, Problem> {
        let mut columns = Columns::default();
        loop {
            for row in self.rows(TOP).await? {
                if let Some(entity) = entity(&row)? {
                    columns.add(entity).ok_or_else(|| {
                        Problem::input(format!(
                            "The entities have more than {MOST_PROPERTIES} properties with different names, which are too many columns for CSV. Export JSON lines, or fewer entities by a filter."
                        ))
                    })?;
                }
            }
            if self.is_over {
                return Ok(columns);
            }
        }
    }

    /// Sends the rows of the first page, and page by page what follows. A page is read when the one before is on its way.
    async fn send(mut self, form: Form, first: Vec<Row>, sender: mpsc::Sender<io::Result<Bytes>>) {
        if let Err(problem) = self.send_pages(&form, first, &sender).await {
            tracing::warn!(?problem, "an export of the explorer was cut");
            let cut = io::Error::other("the export was cut");
            // If nobody reads any more, nobody has to know.
            let _ = sender.send(Err(cut)).await;
        }
    }

    async fn send_pages(
        &mut self,
        form: &Form,
        mut page: Vec<Row>,
        sender: &mpsc::Sender<io::Result<Bytes>>,
    ) -> Result<(), Problem> {
        let mut text = match form {
            Form::Lines => String::new(),
            Form::Csv(columns) => columns.head(),
        };
        loop {
            for row in page {
                form.line(&mut text, &row)?;
                if text.len() >= PART && sender.send(Ok(std::mem::take(&mut text).into())).await.is_err() {
                    return Ok(());
                }
            }
            if self.is_over {
                // If nobody reads any more, nobody has to know.
                let _ = sender.send(Ok(text.into())).await;
                return Ok(());
            }
            page = self.rows(TOP).await?;
        }
    }
}

impl Form {
    /// Appends the line of a row that has an entity.
    fn line(&self, text: &mut String, row: &Row) -> Result<(), Problem> {
        match self {
            Form::Lines => {
                if value::<Option<&str>>(row, 1)?.is_some() {
                    text.push_str(value(row, 0)?);
                    text.push('\n');
                }
                Ok(())
            }
            Form::Csv(columns) => {
                let Some(entity) = entity(row)? else { return Ok(()) };
                columns
                    .line(text, &entity)
                    .ok_or_else(|| Problem::input("An entity was changed while the table was exported."))
            }
        }
    }
}

/// The entity of a row with its properties in arrays. `None` for the row that has only a token.
fn entity(row: &Row) -> Result<Option<Entity>, Problem> {
    let Some(partition_key) = value(row, 3)? else {
        return Ok(None);
    };
    let list = |index| value::<Option<Vec<String>>>(row, index).map(Option::unwrap_or_default);
    let properties = list(0)?.into_iter().zip(list(1)?).zip(list(2)?);
    Ok(Some(Entity {
        keys: [partition_key, value(row, 4)?],
        timestamp: value(row, 5)?,
        properties: properties.map(|((name, edm), text)| [name, edm, text]).collect(),
    }))
}

fn value<'r, T: postgres_types::FromSql<'r>>(row: &'r Row, index: usize) -> Result<T, Problem> {
    column(row, index).map_err(|failure| {
        Problem::new(
            failure.status(),
            failure.code.as_str(),
            failure.message,
            failure.hint.as_deref(),
        )
    })
}

/// A body whose parts come one by one.
struct Stream(mpsc::Receiver<io::Result<Bytes>>);

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0
            .poll_recv(context)
            .map(|part| part.map(|part| part.map(Frame::data)))
    }
}
