//! A database as a source: key ranges, read under one exported snapshot.

use std::collections::HashSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use table_service_model::{Ticks, table_name};
use tokio::sync::Mutex;
use tokio::sync::mpsc::Sender;
use tokio_postgres::Client;
use tokio_postgres::binary_copy::BinaryCopyOutStream;
use tokio_postgres::types::{ToSql, Type};

use crate::failure::Failure;
use crate::printable;
use crate::records::{Chunk, Key, MOST_TABLES, Position, Range, Reject};

use super::connect::{ALL_ALIVE, Connection, Database, SqlError, alive, literal, row, rows};
use super::rows as row_format;
use super::visit::{Access, Known, Relation};

/// Tables with fewer rows are read in one range.
const ROWS_OF_A_RANGE: i64 = 20_000;
/// How many keys are looked at to find ranges of about the same size.
const SAMPLE: i64 = 10_000;
const LARGEST_SAMPLE: usize = 100_000;

/// The tables of a database, as of one snapshot.
pub struct SqlSource {
    pub database: Database,
    /// Only entities with this Timestamp or a later one.
    since: Option<Ticks>,
    /// The only table, by its OID, and with entities that have expired and are still stored.
    only: Option<u32>,
    /// The only partition.
    partition: Option<String>,
    snapshot: Mutex<Option<Arc<Snapshot>>>,
    /// Whether there was a snapshot that is gone.
    is_renewed: AtomicBool,
}

/// A transaction that keeps its snapshot for others.
struct Snapshot {
    client: Connection,
    id: String,
}

impl SqlSource {
    /// All tables. With `since`, only entities with this Timestamp or a later one.
    pub fn new(database: Database, since: Option<Ticks>) -> SqlSource {
        SqlSource {
            database,
            since,
            only: None,
            partition: None,
            snapshot: Mutex::new(None),
            is_renewed: AtomicBool::new(false),
        }
    }

    /// Everything that is stored in a table, or in a partition of it, as it is now.
    pub async fn of_everything(database: Database, oid: u32, partition: Option<String>) -> Result<SqlSource, SqlError> {
        let source = SqlSource {
            only: Some(oid),
            partition,
            ..SqlSource::new(database, None)
        };
        source.snapshot().await?;
        Ok(source)
    }

    /// The database, without user and password.
    pub fn name(&self) -> &str {
        &self.database.name
    }

    /// The notes on the reading for the report.
    pub fn note(&self) -> Option<&'static str> {
        let is_renewed = self.is_renewed.load(Ordering::Relaxed);
        is_renewed.then_some("The source was away for a while, so not everything was read as of one moment.")
    }

    /// The transaction that has the snapshot of all reads. If its connection broke, there is a new one, with a later
    /// snapshot.
    async fn snapshot(&self) -> Result<Arc<Snapshot>, SqlError> {
        let mut kept = self.snapshot.lock().await;
        if let Some(snapshot) = kept.as_ref() {
            if !snapshot.client.is_closed() {
                return Ok(snapshot.clone());
            }
            *kept = None;
            self.is_renewed.store(true, Ordering::Relaxed);
        }
        let client = self.database.connect().await?;
        client
            .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            .await?;
        let exported = row(&client, "SELECT pg_catalog.pg_export_snapshot()", &[]).await?;
        let snapshot = Arc::new(Snapshot {
            id: exported.try_get(0)?,
            client,
        });
        *kept = Some(snapshot.clone());
        Ok(snapshot)
    }

    /// Ends the transaction of the snapshot. Until then the database cannot clean up rows that others delete.
    pub async fn release(&self) {
        *self.snapshot.lock().await = None;
    }

    async fn lose(&self, snapshot: &Arc<Snapshot>) {
        let mut kept = self.snapshot.lock().await;
        if kept.take_if(|kept| Arc::ptr_eq(kept, snapshot)).is_some() {
            self.is_renewed.store(true, Ordering::Relaxed);
        }
    }

    /// Does something under the snapshot, again while the database is away.
    async fn under_snapshot<T, F, D>(&self, work: F) -> Result<T, Failure>
    where
        F: Fn(Arc<Snapshot>) -> D,
        D: Future<Output = Result<T, SqlError>>,
    {
        let work = &work;
        self.database
            .again(|| async move {
                let snapshot = self.snapshot().await?;
                let done = work(snapshot.clone()).await;
                if done.as_ref().is_err_and(SqlError::is_passing) {
                    // The error has ended its transaction, and perhaps its connection.
                    self.lose(&snapshot).await;
                }
                done
            })
            .await
    }

    /// The time of the database's clock.
    pub async fn clock(&self) -> Result<Option<Ticks>, Failure> {
        self.under_snapshot(|snapshot| async move {
            let row = row(&snapshot.client, "SELECT pg_catalog.now()", &[]).await?;
            let now: row_format::Micros = row.try_get(0)?;
            Ok(Ticks::from_postgres_micros(now.0))
        })
        .await
    }

    /// The names of all tables.
    pub async fn tables(&self) -> Result<Vec<String>, Failure> {
        let statement = "SELECT table_name FROM table_service.query_tables(NULL::pg_catalog.text, NULL::pg_catalog.int8, \
                         NULL::pg_catalog.text, NULL::table_service.properties)";
        let mut tables: Vec<String> = self
            .under_snapshot(|snapshot| async move {
                let found = rows(&snapshot.client, statement, &[], MOST_TABLES).await?;
                Ok(found.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
            })
            .await?;
        if let Some(table) = tables.iter().find(|table| table_name::check_form(table).is_err()) {
            let table = printable::said(table);
            let problem = format!("the list of tables: '{table}' is no name of a table.");
            return Err(Failure::new(format!("{}: {problem}", self.name())));
        }
        // Of tables that share a name only one is listed: each visit of it is refused.
        let mut known = HashSet::new();
        tables.retain(|table| known.insert(table_name::fold(table)));
        Ok(tables)
    }

    /// Visits a table under the snapshot, without keeping the lock on it.
    async fn visiting<T>(
        &self,
        table: &str,
        work: impl AsyncFn(&Client, &str) -> Result<T, SqlError>,
    ) -> Result<T, Failure> {
        let work = &work;
        let visit = |snapshot: Arc<Snapshot>| async move {
            let client = &snapshot.client;
            let Some(relation) = self.database.relation(client, table).await? else {
                return Ok(None);
            };
            let visit = async {
                let name = self.database.visit(client, &relation, Access::Read).await?;
                work(client, name).await.map(Some)
            };
            in_savepoint(client, visit).await?.map_err(SqlError::of_table)
        };
        self.under_snapshot(visit).await?.ok_or_else(|| self.no_table(table))
    }

    fn no_table(&self, table: &str) -> Failure {
        Failure::of_table(format!("{}: there is no table {table}.", self.name()))
    }

    /// How many entities PostgreSQL believes to be in a table, and the bytes that it takes.
    pub async fn estimate(&self, table: &str) -> Result<(Option<u64>, Option<u64>), Failure> {
        self.visiting(table, async |client, name| estimate(client, name).await)
            .await
    }

    /// Divides a table into ranges of about the same size.
    pub async fn ranges(&self, table: &str, readers: usize) -> Result<Vec<Range>, Failure> {
        self.visiting(table, async |client, name| ranges(client, name, readers).await)
            .await
    }

    /// Reads a range from a position on. If the database goes away, it goes on behind the last chunk.
    pub async fn read(
        &self,
        table: &str,
        range: &Range,
        position: Option<Position>,
        chunks: Sender<Chunk>,
    ) -> Result<(), Failure> {
        let mut position = position;
        let mut backoff = self.database.backoff();
        loop {
            let before = position.clone();
            match self.copy(table, range, &mut position, &chunks).await {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(self.no_table(table)),
                Err(error) => {
                    if position != before {
                        backoff = self.database.backoff();
                    }
                    self.database.wait(&mut backoff, &error).await?;
                }
            }
        }
    }

    /// Reads until the end of a range, and moves the position with each chunk. Returns false if there is no such table.
    async fn copy(
        &self,
        table: &str,
        range: &Range,
        position: &mut Option<Position>,
        chunks: &Sender<Chunk>,
    ) -> Result<bool, SqlError> {
        let snapshot = self.snapshot().await?;
        let known = self.only.map_or(Known::ByName(table), Known::ByOid);
        let Some(relation) = self.database.known_relation(&snapshot.client, known).await? else {
            return Ok(false);
        };
        let client = self.database.connect().await?;
        let begun = client
            .batch_execute(&format!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT {}; \
                 SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off",
                literal(&snapshot.id)
            ))
            .await;
        if let Err(error) = begun {
            // The transaction that has the snapshot may have gone with a server that is back already.
            let error = SqlError::from(error);
            return Err(match snapshot.client.simple_query("").await {
                Ok(_) => error,
                Err(_) => SqlError::ForNow(error.text()),
            });
        }
        let of_table = self.copy_relation(&client, &relation, range, position, chunks).await;
        of_table.map(|()| true).map_err(SqlError::of_table)
    }

    /// Reads the relation of a table, in the transaction of the client.
    async fn copy_relation(
        &self,
        client: &Connection,
        relation: &Relation,
        range: &Range,
        position: &mut Option<Position>,
        chunks: &Sender<Chunk>,
    ) -> Result<(), SqlError> {
        let (table, relation) = (
            &relation.table,
            self.database.visit(client, relation, Access::Read).await?,
        );
        let columns = "partition_key, row_key, \"timestamp\", properties";
        let types: Vec<Type> = client
            .prepare(&format!("SELECT {columns} FROM {relation}"))
            .await?
            .columns()
            .iter()
            .map(|column| column.type_().clone())
            .collect();
        let condition = self.condition(range, position.as_ref());
        let alive = match self.only {
            Some(_) => ALL_ALIVE.to_owned(),
            None => alive(client, table).await?,
        };
        let stream = client
            .copy_out(&format!(
                "COPY (SELECT {columns} FROM {relation} WHERE {condition} AND {alive} ORDER BY partition_key, row_key) \
                 TO STDOUT (FORMAT binary)"
            ))
            .await?;
        let mut rows = pin!(BinaryCopyOutStream::new(stream, &types));
        let mut chunk = Chunk::new(Position::End);
        // The last row that has both keys, whether it is an entity or not. NULLs come last.
        let mut last = match (&*position, range) {
            (Some(Position::After(key)), _) | (None, Range::Keys { after: Some(key), .. }) => key.clone(),
            _ => Key::default(),
        };
        while let Some(row) = rows.next().await {
            let row = row?;
            let key = |index| row.try_get::<Option<&str>>(index).ok().flatten();
            if let (Some(partition_key), Some(row_key)) = (key(0), key(1)) {
                last = Key {
                    partition_key: partition_key.to_owned(),
                    row_key: row_key.to_owned(),
                };
            }
            match row_format::record(&row) {
                Ok(record) => chunk.add(record),
                Err(reason) => {
                    let text = format!("({}, {})", key(0).unwrap_or("NULL"), key(1).unwrap_or("NULL"));
                    let reject = Reject::of_text(table, relation.to_owned(), &text, reason);
                    let bytes = reject.reason.len() + text.len().min(16 << 10);
                    chunk.reject(reject, bytes);
                }
            }
            let Some(full) = chunk.take_full(|| Position::After(last.clone())) else {
                continue;
            };
            let reached = Some(full.position.clone());
            if chunks.send(full).await.is_err() {
                return Ok(());
            }
            *position = reached;
        }
        // Before the last chunk is given away: if the connection breaks here, the chunk is read again.
        client.batch_execute("COMMIT").await?;
        // If nobody takes it, the copy has failed elsewhere.
        let _ = chunks.send(chunk).await;
        Ok(())
    }

    fn condition(&self, range: &Range, position: Option<&Position>) -> String {
        let Range::Keys { after, until } = range else {
            return "true".to_owned();
        };
        let after = match position {
            Some(Position::After(key)) => Some(key),
            _ => after.as_ref(),
        };
        let compare = |operator: &str, key: &Key| {
            format!(
                "(partition_key, row_key) {operator} ({}, {})",
                literal(&key.partition_key),
                literal(&key.row_key)
            )
        };
        let mut conditions = Vec::new();
        conditions.extend(
            self.partition
                .iter()
                .map(|key| format!("partition_key = {}", literal(key))),
        );
        conditions.extend(after.map(|key| compare(">", key)));
        conditions.extend(until.as_ref().map(|key| compare("<=", key)));
        conditions.extend(
            self.since
                .map(|since| format!("\"timestamp\" >= {}::timestamptz", literal(&since.to_string()))),
        );
        if conditions.is_empty() {
            return "true".to_owned();
        }
        conditions.join(" AND ")
    }

    /// The stored access policies of a table: of the one that the snapshot has.
    pub async fn policies(&self, table: &str) -> Result<String, Failure> {
        const GET: &str = "SELECT table_service.get_access_policies($1::pg_catalog.text)::text";
        self.visiting(table, async |client, _| document(client, GET, &[&table]).await)
            .await
    }

    /// The properties of the service as JSON.
    pub async fn service_properties(&self) -> Result<String, Failure> {
        const GET: &str = "SELECT table_service.get_service_properties()::text";
        self.under_snapshot(|snapshot| async move {
            in_savepoint(&snapshot.client, document(&snapshot.client, GET, &[])).await?
        })
        .await
    }
}

async fn document(client: &Client, get: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<String, SqlError> {
    // The extension's own table has policies, which show each role the rows that it may see.
    client.batch_execute("SET LOCAL row_security = on").await?;
    Ok(row(client, get, parameters).await?.try_get(0)?)
}

/// Does something in a savepoint, because an error that does not matter must not end the transaction with the snapshot.
/// The inner error comes from the work: the connection is still there.
async fn in_savepoint<T>(
    client: &Client,
    work: impl Future<Output = Result<T, SqlError>>,
) -> Result<Result<T, SqlError>, SqlError> {
    client.batch_execute("SAVEPOINT visit").await?;
    let done = work.await;
    // One may be within another. They have one name, which is the last one's until that is released.
    client
        .batch_execute("ROLLBACK TO SAVEPOINT visit; RELEASE SAVEPOINT visit")
        .await?;
    Ok(done)
}

async fn estimate(client: &Client, relation: &str) -> Result<(Option<u64>, Option<u64>), SqlError> {
    let statement = "SELECT sum(greatest(c.reltuples, -1))::float8, sum(pg_table_size(c.oid))::int8, bool_or(c.reltuples < 0) \
         FROM pg_class AS c WHERE c.oid = $1::text::regclass AND c.relkind <> 'p' \
         OR c.oid IN (SELECT relid FROM pg_partition_tree($1::text::regclass) WHERE isleaf)";
    // An estimate is not worth an error.
    let Ok(row_of_sums) = in_savepoint(client, row(client, statement, &[&relation])).await? else {
        return Ok((None, None));
    };
    let bytes: Option<i64> = row_of_sums.try_get(1).ok().flatten();
    let unknown: Option<bool> = row_of_sums.try_get(2).ok().flatten();
    let entities: Option<f64> = row_of_sums.try_get(0).ok().flatten();
    let entities = match unknown {
        Some(false) => entities.map(|count| count.max(0.0) as u64),
        // Never analysed: small tables are counted.
        _ if bytes.is_some_and(|bytes| bytes < 64 << 20) => {
            let statement = format!("SELECT count(*) FROM {relation}");
            let count = in_savepoint(client, row(client, &statement, &[])).await?;
            count
                .ok()
                .and_then(|row| row.try_get::<_, i64>(0).ok())
                .and_then(|count| u64::try_from(count).ok())
        }
        _ => None,
    };
    Ok((entities, bytes.and_then(|bytes| u64::try_from(bytes).ok())))
}

async fn ranges(client: &Client, relation: &str, readers: usize) -> Result<Vec<Range>, SqlError> {
    let whole = vec![Range::WHOLE];
    let (entities, bytes) = estimate(client, relation).await?;
    // A table that was never analysed has about a hundred bytes a row at least.
    let entities = entities.or(bytes.map(|bytes| bytes / 200)).unwrap_or(0);
    let entities = i64::try_from(entities).unwrap_or(i64::MAX);
    if readers < 2 || entities < 2 * ROWS_OF_A_RANGE {
        return Ok(whole);
    }
    let percent = (SAMPLE as f64 * 100.0 / entities as f64).min(100.0);
    let statement = format!(
        "SELECT partition_key, row_key FROM {relation} TABLESAMPLE SYSTEM ({percent}) \
         WHERE partition_key IS NOT NULL AND row_key IS NOT NULL ORDER BY partition_key, row_key LIMIT {LARGEST_SAMPLE}"
    );
    // A relation that cannot be sampled, such as a foreign table, is read in one range.
    let sample = in_savepoint(client, rows(client, &statement, &[], LARGEST_SAMPLE)).await?;
    let Ok(sample) = sample else { return Ok(whole) };
    let parts = usize::try_from(entities / ROWS_OF_A_RANGE)
        .unwrap_or(1)
        .min(readers * 8)
        .max(1);
    let mut keys: Vec<Key> = Vec::new();
    for part in 1..parts {
        let Some(row) = sample.get(part * sample.len() / parts) else {
            continue;
        };
        let (Ok(partition_key), Ok(row_key)) = (row.try_get(0), row.try_get(1)) else {
            continue;
        };
        let key = Key { partition_key, row_key };
        if keys.last().is_none_or(|last| *last < key) {
            keys.push(key);
        }
    }
    let mut ranges = Vec::new();
    let mut after = None;
    for key in keys {
        ranges.push(Range::Keys {
            after: after.replace(key.clone()),
            until: Some(key),
        });
    }
    ranges.push(Range::Keys { after, until: None });
    Ok(ranges)
}
