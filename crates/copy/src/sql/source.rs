//! A database as a source: key ranges, read under one exported snapshot.

use std::pin::pin;

use futures_util::StreamExt;
use tokio::sync::OnceCell;
use tokio::sync::mpsc::Sender;
use tokio_postgres::binary_copy::BinaryCopyOutStream;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config};

use table_service_model::Ticks;

use crate::failure::Failure;
use crate::record::{CHUNK_BYTES, CHUNK_RECORDS, Chunk, Key, Position, Range, Reject};

use super::connect::{connect, failure, literal, name};
use super::rows;

/// Tables with fewer rows are read in one range.
const ROWS_OF_A_RANGE: i64 = 20_000;
/// How many keys are looked at to find ranges of about the same size.
const SAMPLE: i64 = 10_000;

pub struct SqlSource {
    config: Config,
    name: String,
    /// Only entities with this Timestamp or a later one.
    since: Option<Ticks>,
    snapshot: OnceCell<Snapshot>,
}

/// A transaction that keeps its snapshot for others.
struct Snapshot {
    client: Client,
    id: String,
}

impl SqlSource {
    pub fn new(config: Config, since: Option<Ticks>) -> SqlSource {
        SqlSource {
            name: name(&config),
            config,
            since,
            snapshot: OnceCell::new(),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    fn failure(&self, error: &tokio_postgres::Error) -> Failure {
        failure(&self.name, error)
    }

    /// The transaction under whose snapshot everything is read.
    async fn snapshot(&self) -> Result<&Snapshot, Failure> {
        self.snapshot
            .get_or_try_init(|| async {
                let client = connect(&self.config).await?;
                client
                    .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                    .await?;
                let row = client.query_one("SELECT pg_catalog.pg_export_snapshot()", &[]).await?;
                Ok(Snapshot {
                    id: row.try_get(0)?,
                    client,
                })
            })
            .await
            .map_err(|error: tokio_postgres::Error| self.failure(&error))
    }

    /// What the database's clock shows.
    ///
    /// # Errors
    /// What the database says.
    pub async fn clock(&self) -> Result<Option<Ticks>, Failure> {
        let client = &self.snapshot().await?.client;
        let row = client.query_one("SELECT pg_catalog.now()", &[]).await;
        row.and_then(|row| row.try_get::<_, rows::Micros>(0))
            .map(|micros| Ticks::from_postgres_micros(micros.0))
            .map_err(|error| self.failure(&error))
    }

    /// # Errors
    /// What the database says.
    pub async fn tables(&self) -> Result<Vec<String>, Failure> {
        let rows = self
            .snapshot()
            .await?
            .client
            .query("SELECT table_name FROM table_service.query_tables()", &[])
            .await
            .map_err(|error| self.failure(&error))?;
        rows.iter()
            .map(|row| row.try_get(0).map_err(|error| self.failure(&error)))
            .collect()
    }

    /// The quoted name of a table's relation.
    async fn relation(&self, table: &str) -> Result<String, Failure> {
        let row = self
            .snapshot()
            .await?
            .client
            .query_opt(
                "SELECT relation::text FROM table_service.query_tables() \
                 WHERE lower(table_name COLLATE \"C\") = lower($1::text COLLATE \"C\")",
                &[&table],
            )
            .await
            .map_err(|error| self.failure(&error))?;
        let row = row.ok_or_else(|| Failure::new(format!("{}: there is no table {table}.", self.name)))?;
        row.try_get(0).map_err(|error| self.failure(&error))
    }

    /// How many entities PostgreSQL believes to be in a table, and the bytes that it takes.
    ///
    /// # Errors
    /// What the database says.
    pub async fn estimate(&self, table: &str) -> Result<(Option<u64>, Option<u64>), Failure> {
        let relation = self.relation(table).await?;
        let row = self
            .snapshot()
            .await?
            .client
            .query_one(
                "SELECT sum(greatest(c.reltuples, -1))::float8, sum(pg_table_size(c.oid))::int8, bool_or(c.reltuples < 0) \
                 FROM pg_class AS c WHERE c.oid = $1::text::regclass AND c.relkind <> 'p' \
                 OR c.oid IN (SELECT relid FROM pg_partition_tree($1::text::regclass) WHERE isleaf)",
                &[&relation],
            )
            .await;
        // An estimate is not worth an error.
        let Ok(row) = row else { return Ok((None, None)) };
        let bytes: Option<i64> = row.try_get(1).ok().flatten();
        let unknown: Option<bool> = row.try_get(2).ok().flatten();
        let entities: Option<f64> = row.try_get(0).ok().flatten();
        let entities = match unknown {
            Some(false) => entities.map(|count| count.max(0.0) as u64),
            // Never analysed: small tables are counted.
            _ if bytes.is_some_and(|bytes| bytes < 64 << 20) => {
                let count = self
                    .snapshot()
                    .await?
                    .client
                    .query_one(&format!("SELECT count(*) FROM {relation}"), &[])
                    .await;
                count
                    .ok()
                    .and_then(|row| row.try_get::<_, i64>(0).ok())
                    .and_then(|count| u64::try_from(count).ok())
            }
            _ => None,
        };
        Ok((entities, bytes.and_then(|bytes| u64::try_from(bytes).ok())))
    }

    /// Divides a table into ranges of about the same size.
    ///
    /// # Errors
    /// What the database says.
    pub async fn ranges(&self, table: &str, readers: usize) -> Result<Vec<Range>, Failure> {
        let whole = vec![Range::Keys {
            after: None,
            until: None,
        }];
        let (entities, bytes) = self.estimate(table).await?;
        // A table that was never analysed has about a hundred bytes a row at least.
        let entities = entities.or(bytes.map(|bytes| bytes / 200)).unwrap_or(0);
        let entities = i64::try_from(entities).unwrap_or(i64::MAX);
        if readers < 2 || entities < 2 * ROWS_OF_A_RANGE {
            return Ok(whole);
        }
        let relation = self.relation(table).await?;
        let percent = (SAMPLE as f64 * 100.0 / entities as f64).min(100.0);
        let statement = format!(
            "SELECT partition_key, row_key FROM {relation} TABLESAMPLE SYSTEM ({percent}) \
             WHERE partition_key IS NOT NULL AND row_key IS NOT NULL ORDER BY partition_key, row_key LIMIT 100000"
        );
        // In a savepoint: a relation that cannot be sampled, such as a foreign table, is read in one range.
        let client = &self.snapshot().await?.client;
        client
            .batch_execute("SAVEPOINT sampling")
            .await
            .map_err(|error| self.failure(&error))?;
        let sample = client.query(&statement, &[]).await;
        client
            .batch_execute("ROLLBACK TO SAVEPOINT sampling")
            .await
            .map_err(|error| self.failure(&error))?;
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

    /// Reads a range from a position on.
    ///
    /// # Errors
    /// What the database says.
    pub async fn read(
        &self,
        table: &str,
        range: &Range,
        position: Option<Position>,
        chunks: Sender<Chunk>,
    ) -> Result<(), Failure> {
        let relation = self.relation(table).await?;
        let snapshot = &self.snapshot().await?.id;
        let client = connect(&self.config).await.map_err(|error| self.failure(&error))?;
        let result = self.copy(&client, snapshot, &relation, table, range, position, &chunks);
        result.await.map_err(|error| self.failure(&error))
    }

    #[allow(clippy::too_many_arguments, reason = "all of them are one range")]
    async fn copy(
        &self,
        client: &Client,
        snapshot: &str,
        relation: &str,
        table: &str,
        range: &Range,
        position: Option<Position>,
        chunks: &Sender<Chunk>,
    ) -> Result<(), tokio_postgres::Error> {
        client
            .batch_execute(&format!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT {}; \
                 SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off",
                literal(snapshot)
            ))
            .await?;
        let columns = "partition_key, row_key, \"timestamp\", properties";
        let types: Vec<Type> = client
            .prepare(&format!("SELECT {columns} FROM {relation}"))
            .await?
            .columns()
            .iter()
            .map(|column| column.type_().clone())
            .collect();
        let condition = self.condition(range, position.as_ref());
        let stream = client
            .copy_out(&format!(
                "COPY (SELECT {columns} FROM {relation} WHERE {condition} ORDER BY partition_key, row_key) \
                 TO STDOUT (FORMAT binary)"
            ))
            .await?;
        let mut rows = pin!(BinaryCopyOutStream::new(stream, &types));
        let mut chunk = Chunk::new(Position::End);
        let mut bytes = 0;
        while let Some(row) = rows.next().await {
            let row = row?;
            match rows::record(&row) {
                Ok(record) => {
                    bytes += record.weight();
                    chunk.records.push(record);
                }
                Err(reason) => {
                    let key = |index| row.try_get::<Option<&str>>(index).ok().flatten().unwrap_or("NULL");
                    let text = format!("({}, {})", key(0), key(1));
                    chunk
                        .rejects
                        .push(Reject::of_text(table, relation.to_owned(), &text, reason));
                }
            }
            if chunk.records.len() < CHUNK_RECORDS && bytes < CHUNK_BYTES {
                continue;
            }
            let Some(last) = chunk.records.last() else { continue };
            let position = Position::After(Key {
                partition_key: last.partition_key.clone(),
                row_key: last.row_key.clone(),
            });
            let mut full = std::mem::replace(&mut chunk, Chunk::new(Position::End));
            full.position = position;
            bytes = 0;
            if chunks.send(full).await.is_err() {
                return Ok(());
            }
        }
        // If nobody takes it, the copy has failed elsewhere.
        let _ = chunks.send(chunk).await;
        client.batch_execute("COMMIT").await
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

    /// The stored access policies of a table.
    ///
    /// # Errors
    /// What the database says.
    pub async fn policies(&self, table: &str) -> Result<String, Failure> {
        self.document("SELECT table_service.get_access_policies($1)::text", &[&table])
            .await
    }

    /// # Errors
    /// What the database says.
    pub async fn service_properties(&self) -> Result<String, Failure> {
        self.document("SELECT table_service.get_service_properties()::text", &[])
            .await
    }

    async fn document(
        &self,
        statement: &str,
        parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<String, Failure> {
        let row = self.snapshot().await?.client.query_one(statement, parameters).await;
        row.and_then(|row| row.try_get(0)).map_err(|error| self.failure(&error))
    }
}
