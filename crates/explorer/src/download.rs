//! Exports: a call gives a path that works once and not for long, and the browser downloads from it without the token.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::stream::poll_fn;
use http::header::{CONTENT_DISPOSITION, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use parking_lot::Mutex;
use serde::Deserialize;
use table_service_files::{Names, ParsedEntity, formula, writer};
use table_service_model::json::parse_entity;
use table_service_model::key::{PARTITION_KEY, ROW_KEY};
use table_service_model::{Code, Value};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_postgres::Row;

use crate::answer::{Body, Problem, with};
use crate::calls::EXPORTED;
use crate::databases::{Databases, column};
use crate::token::Token;

const VALID: Duration = Duration::from_secs(30);
/// The most paths that wait for their download.
const WAITING: usize = 100;
/// The most entities that are read at once.
const TOP: &str = "1000";
/// The length of a part of the download, in bytes. A part ends with an entity, so it may be longer.
const PART: usize = 64 * 1024;
/// The memory for a row of CSV while it is written.
const ROW: usize = 8 * 1024;
/// The most properties with different names in CSV, each of which takes two columns. The programs that open such files have 16,384
/// columns, and each line has a separator for each of them.
const MOST_PROPERTIES: usize = 8000;

/// The parameters of an export.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportRequest {
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
    columns: Option<Names>,
    until: Instant,
}

/// The exports that wait for their download, by the last part of their paths.
#[derive(Default)]
pub struct Downloads(Mutex<HashMap<String, Ticket>>);

impl Downloads {
    /// Returns the last part of the path of a new download. The export is checked here, because a browser shows no error of a
    /// download. For CSV the check reads all entities.
    ///
    /// # Errors
    /// 503 if too many wait, and those of the database.
    pub async fn prepare(
        &self,
        account: &str,
        request: ExportRequest,
        databases: &Arc<dyn Databases>,
    ) -> Result<String, Problem> {
        let mut export = Export {
            databases: databases.clone(),
            account: account.to_owned(),
            request,
            token: None,
            is_over: false,
        };
        let columns = export.columns().await?;
        let busy = |message: String| Problem::new(Code::ServerBusy, message, None);
        let name = Token::new().map_err(busy)?.expose().to_owned();
        let mut tickets = self.0.lock();
        let now = Instant::now();
        tickets.retain(|_, ticket| ticket.until > now);
        if tickets.len() >= WAITING {
            return Err(busy("Too many exports wait for their download.".to_owned()));
        }
        let ticket = Ticket {
            export,
            columns,
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
        let ticket = self.0.lock().remove(name);
        let ticket = ticket.filter(|ticket| ticket.until > Instant::now()).ok_or_else(|| {
            let hint = "A path of a download works once, for 30 seconds. Export again.".to_owned();
            Problem::new(Code::ResourceNotFound, "There is no such download.", Some(hint))
        })?;
        let Ticket {
            mut export, columns, ..
        } = ticket;
        let (ending, content_type) = match export.request.format {
            Format::Jsonl => ("jsonl", "application/x-ndjson"),
            Format::Csv => ("csv", "text/csv; charset=utf-8"),
        };
        // The name is not checked yet, and becomes the name of a file.
        let table: String = export
            .request
            .table
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        // An error of the first page is an answer. One of a later page cuts the download.
        let first = export.rows(TOP).await?;
        let (sender, mut receiver) = mpsc::channel::<io::Result<Bytes>>(1);
        tokio::spawn(export.send(columns, first, sender));
        let parts = poll_fn(move |context| receiver.poll_recv(context));
        let body = StreamBody::new(parts.map_ok(Frame::data)).boxed_unsync();
        let mut response = with(StatusCode::OK, content_type, body);
        if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{table}.{ending}\"")) {
            response.headers_mut().insert(CONTENT_DISPOSITION, value);
        }
        Ok(response)
    }
}

struct Export {
    databases: Arc<dyn Databases>,
    account: String,
    request: ExportRequest,
    token: Option<String>,
    is_over: bool,
}

impl Export {
    /// Returns the rows of the next page.
    async fn rows(&mut self, top: &str) -> Result<Vec<Row>, Problem> {
        let ExportRequest { table, filter, .. } = &self.request;
        let parameters = vec![
            Some(table.clone()),
            filter.clone(),
            Some(top.to_owned()),
            self.token.clone(),
        ];
        let rows = self.databases.rows(&self.account, EXPORTED, parameters).await?;
        self.token = rows.last().map(|row| column(row, 2)).transpose()?.flatten();
        self.is_over = self.token.is_none();
        Ok(rows)
    }

    /// Returns the columns of CSV; none for lines of JSON. The export is at its beginning afterwards.
    async fn columns(&mut self) -> Result<Option<Names>, Problem> {
        let columns = match self.request.format {
            Format::Jsonl => self.rows("1").await.map(|_| None)?,
            Format::Csv => Some(self.names().await?),
        };
        self.token = None;
        self.is_over = false;
        Ok(columns)
    }

    /// Returns the names of the properties of all entities.
    async fn names(&mut self) -> Result<Names, Problem> {
        let mut names = Names::default();
        loop {
            for row in self.rows(TOP).await? {
                let Some(json) = json(&row)? else { continue };
                let entity = parse_entity(json).map_err(|error| failed(error.report()))?;
                refuse_formulas(&entity)?;
                if names.add(&entity.as_entity()) > MOST_PROPERTIES {
                    return Err(Problem::input(format!(
                        "The entities have more than {MOST_PROPERTIES} properties with different names, which are too many columns for CSV. Export JSON lines, or fewer entities by a filter."
                    )));
                }
            }
            if self.is_over {
                return Ok(names);
            }
        }
    }

    /// Sends the rows of the first page, and then the other pages. A page is read when the one before is on its way.
    async fn send(mut self, columns: Option<Names>, first: Vec<Row>, sender: mpsc::Sender<io::Result<Bytes>>) {
        if let Err(problem) = self.send_pages(columns.as_ref(), first, &sender).await {
            tracing::warn!(?problem, "an export of the explorer was cut");
            let cut = io::Error::other("the export was cut");
            // The client may have gone.
            let _ = sender.send(Err(cut)).await;
        }
    }

    async fn send_pages(
        &mut self,
        columns: Option<&Names>,
        mut page: Vec<Row>,
        sender: &mpsc::Sender<io::Result<Bytes>>,
    ) -> Result<(), Problem> {
        let mut text = Vec::new();
        if let Some(names) = columns {
            names.write_header(&mut writer(&mut text, b',', ROW)).map_err(failed)?;
        }
        loop {
            for row in page {
                line(&mut text, columns, &row)?;
                if text.len() >= PART && sender.send(Ok(std::mem::take(&mut text).into())).await.is_err() {
                    return Ok(());
                }
            }
            if self.is_over {
                // The client may have gone.
                let _ = sender.send(Ok(text.into())).await;
                return Ok(());
            }
            page = self.rows(TOP).await?;
        }
    }
}

/// Appends the line of a row that has an entity: JSON, or CSV with these columns.
fn line(text: &mut Vec<u8>, columns: Option<&Names>, row: &Row) -> Result<(), Problem> {
    let Some(json) = json(row)? else { return Ok(()) };
    let Some(names) = columns else {
        text.extend_from_slice(json.as_bytes());
        text.push(b'\n');
        return Ok(());
    };
    let parsed = parse_entity(json).map_err(|error| failed(error.report()))?;
    refuse_formulas(&parsed)?;
    let entity = parsed.as_entity();
    if !names.have(&entity) {
        return Err(Problem::input("An entity was changed while the table was exported."));
    }
    names.write(&mut writer(text, b',', ROW), &entity).map_err(failed)
}

/// Returns the entity of a row as JSON, or `None` for a row that has only a token.
fn json(row: &Row) -> Result<Option<&str>, Problem> {
    let is_entity = column::<Option<&str>>(row, 1)?.is_some();
    is_entity.then(|| column(row, 0)).transpose()
}

/// Refuses an entity with a text that a spreadsheet would execute.
///
/// # Errors
/// A key or a String is a formula.
fn refuse_formulas(entity: &ParsedEntity) -> Result<(), Problem> {
    let keys = [(PARTITION_KEY, &*entity.partition_key), (ROW_KEY, &*entity.row_key)];
    let strings = entity.properties.as_properties().iter();
    let strings = strings.filter_map(|(name, value)| match value {
        Value::String(text) => Some((name, text)),
        _ => None,
    });
    match keys
        .into_iter()
        .chain(strings)
        .find(|(name, text)| formula::is_formula(text, *name == PARTITION_KEY))
    {
        None => Ok(()),
        Some((name, _)) => Err(Problem::new(
            Code::InvalidInput,
            format!(
                "A spreadsheet would execute {name} of the entity ({:?}, {:?}) as a formula.",
                entity.partition_key, entity.row_key
            ),
            Some(
                "Export JSON lines. For programs that execute nothing, table-service-copy writes CSV of all texts."
                    .to_owned(),
            ),
        )),
    }
}

fn failed(error: impl std::fmt::Display) -> Problem {
    Problem::internal(error.to_string())
}
