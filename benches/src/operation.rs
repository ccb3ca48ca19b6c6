//! The operations that are measured, on a table of the service and on a hand-written one with the same guarantees: a conditional
//! replace compares versions, and timestamps rise.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use clap::ValueEnum;
use md5::{Digest, Md5};
use rand::Rng;
use rand::rngs::SmallRng;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use crate::Error;
use crate::data::{Data, new_key, properties};
use crate::instructions::Instructions;
use crate::session::{Text, connect};

/// The table: ours or the hand-written one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Ours,
    HandWritten,
}

/// One operation. Its name on the command line is the name of the variant, in lower case with hyphens. Those from
/// `Find` on need the tables with property indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, ValueEnum)]
pub enum Operation {
    Get,
    Insert,
    Replace,
    Merge,
    Patch,
    PatchMerge,
    Batch,
    BatchJson,
    Page,
    PageJson,
    Scan,
    Points,
    Find,
    FindMany,
    FindRange,
    FindDeep,
    FindInPartition,
    InsertIndexed,
    MergeIndexed,
}

/// Entities of a batch, and of an OR.
const BATCH: usize = 100;
const POINTS: usize = 50;
/// Entities of a range of names, on average.
const RANGE: u64 = 100;
/// Every so many entities have the same age.
const AGES: u64 = 100;

impl Operation {
    pub fn title(self) -> &'static str {
        match self {
            Operation::Get => "get one entity",
            Operation::Insert => "insert one entity",
            Operation::Replace => "conditional replace of one entity",
            Operation::Merge => "merge into one entity",
            Operation::Patch => "increment in one entity, under a condition",
            Operation::PatchMerge => "patch that merges / merge_entity",
            Operation::Batch => "batch of 100 inserts / multi-row INSERT",
            Operation::BatchJson => "the same through execute_batch_json",
            Operation::Page => "page of 1000 by key range",
            Operation::PageJson => "the same as JSON",
            Operation::Scan => "filter scan, two comparisons, 2 % match",
            Operation::Points => "OR of 50 points / 50 look-ups",
            Operation::Find => "indexed property, equality, 1 match",
            Operation::FindMany => "indexed property, equality, page of 1000",
            Operation::FindRange => "indexed property, range of about 100",
            Operation::FindDeep => "indexed property, equality, last page",
            Operation::FindInPartition => "PartitionKey and indexed property",
            Operation::InsertIndexed => "insert one entity, 2 property indexes",
            Operation::MergeIndexed => "merge into one entity, 2 property indexes",
        }
    }

    /// The least ratio of throughputs that is good enough, ours to the hand-written.
    pub fn target(self) -> f64 {
        match self {
            Operation::Get
            | Operation::Insert
            | Operation::Replace
            | Operation::Merge
            | Operation::Patch
            | Operation::PatchMerge => 0.9,
            operation if operation.is_indexed() => 0.9,
            Operation::Batch | Operation::BatchJson | Operation::Page | Operation::PageJson => 1.0,
            Operation::Scan => 1.2,
            _ => 1.0 / 1.5,
        }
    }

    /// Whether it is one index look-up, so that many clients can run it at once.
    pub fn is_short(self) -> bool {
        matches!(
            self,
            Operation::Get
                | Operation::Insert
                | Operation::Replace
                | Operation::Merge
                | Operation::Patch
                | Operation::PatchMerge
                | Operation::Find
                | Operation::InsertIndexed
                | Operation::MergeIndexed
        )
    }

    /// Whether it needs the tables with property indexes.
    pub fn is_indexed(self) -> bool {
        self >= Operation::Find
    }

    fn sql(self, side: Side, table: &str) -> String {
        let sql = match (self, side) {
            (Operation::Get, Side::Ours) => "SELECT partition_key, row_key, \"timestamp\", properties::text FROM table_service.get_entity('Bench', $1, $2)".to_owned(),
            (Operation::Get, Side::HandWritten) => "SELECT partition_key, row_key, ts, props::text FROM hand WHERE partition_key = $1 AND row_key = $2".to_owned(),

            (Operation::Insert | Operation::InsertIndexed, Side::Ours) => "SELECT table_service.insert_entity('Bench', $1, $2, $3)".to_owned(),
            (Operation::InsertIndexed, Side::HandWritten) => "INSERT INTO hand_indexed (partition_key, row_key, props) VALUES ($1, $2, $3) RETURNING ts".to_owned(),
            (Operation::Insert, Side::HandWritten) => "INSERT INTO hand (partition_key, row_key, props) VALUES ($1, $2, $3) RETURNING ts".to_owned(),

            (Operation::Replace, Side::Ours) => "SELECT table_service.replace_entity('Bench', $1, $2, $3, $4)".to_owned(),
            (Operation::Replace, Side::HandWritten) =>
                "UPDATE hand SET ts = greatest(clock_timestamp(), ts + interval '1 microsecond'), props = $3 WHERE partition_key = $1 AND row_key = $2 AND ts = $4 RETURNING ts".to_owned(),

            (Operation::Merge | Operation::MergeIndexed, Side::Ours) => "SELECT table_service.merge_entity('Bench', $1, $2, $3, '*')".to_owned(),
            (Operation::MergeIndexed, Side::HandWritten) =>
                "UPDATE hand_indexed SET ts = greatest(clock_timestamp(), ts + interval '1 microsecond'), props = props || $3 WHERE partition_key = $1 AND row_key = $2 RETURNING ts".to_owned(),
            (Operation::Merge, Side::HandWritten) =>
                "UPDATE hand SET ts = greatest(clock_timestamp(), ts + interval '1 microsecond'), props = props || $3 WHERE partition_key = $1 AND row_key = $2 RETURNING ts".to_owned(),

            (Operation::Patch, Side::Ours) =>
                "SELECT \"timestamp\", properties::text FROM table_service.patch_entity('Bench', $1, $2, increment => '{\"Age\": 1}', condition => 'Age ge 0')".to_owned(),
            (Operation::Patch, Side::HandWritten) =>
                "UPDATE hand SET ts = greatest(clock_timestamp(), ts + interval '1 microsecond'), props = jsonb_set(props, '{Age}', to_jsonb((props ->> 'Age')::int + 1))
                    WHERE partition_key = $1 AND row_key = $2 AND (props ->> 'Age')::int >= 0 RETURNING ts, props::text".to_owned(),

            // Both sides are ours.
            (Operation::PatchMerge, Side::Ours) => "SELECT \"timestamp\" FROM table_service.patch_entity('Bench', $1, $2, $3)".to_owned(),
            (Operation::PatchMerge, Side::HandWritten) => "SELECT table_service.merge_entity('Bench', $1, $2, $3, '*')".to_owned(),

            (Operation::Batch, Side::Ours) => {
                let operations: Vec<String> = (0..BATCH).map(|i| format!("table_service.batch_insert(${}, ${})", 2 * i + 2, 2 * i + 3)).collect();
                format!("SELECT * FROM table_service.execute_batch('Bench', $1, VARIADIC ARRAY[{}])", operations.join(", "))
            }
            (Operation::BatchJson, Side::Ours) => "SELECT * FROM table_service.execute_batch_json('Bench', $1, $2)".to_owned(),
            (Operation::Batch | Operation::BatchJson, Side::HandWritten) => {
                let rows: Vec<String> = (0..BATCH).map(|i| format!("($1, ${}, ${})", 2 * i + 2, 2 * i + 3)).collect();
                format!("INSERT INTO hand (partition_key, row_key, props) VALUES {} RETURNING row_key, ts", rows.join(", "))
            }

            (Operation::Page, Side::Ours) => "SELECT partition_key, row_key, \"timestamp\", properties::text, continuation_token FROM table_service.query_page('Bench', $1)".to_owned(),
            (Operation::Page, Side::HandWritten) =>
                "SELECT partition_key, row_key, ts, props::text FROM hand WHERE partition_key = $1 AND row_key >= $2 ORDER BY row_key LIMIT 1000".to_owned(),

            (Operation::PageJson, Side::Ours) => "SELECT table_service.query_page_json('Bench', $1)::text".to_owned(),
            (Operation::PageJson, Side::HandWritten) =>
                "SELECT json_agg(e)::text FROM (SELECT * FROM hand WHERE partition_key = $1 AND row_key >= $2 ORDER BY row_key LIMIT 1000) AS e".to_owned(),

            (Operation::Scan, Side::Ours) =>
                "SELECT partition_key, row_key, \"timestamp\", properties::text FROM table_service.query_entities('Bench', 'Age ge 40 and Age lt 42')".to_owned(),
            (Operation::Scan, Side::HandWritten) =>
                "SELECT partition_key, row_key, ts, props::text FROM hand WHERE (props ->> 'Age')::int >= 40 AND (props ->> 'Age')::int < 42 ORDER BY partition_key, row_key".to_owned(),

            (Operation::Points, Side::Ours) => "SELECT partition_key, row_key, \"timestamp\", properties::text FROM table_service.query_entities('Bench', $1)".to_owned(),
            (Operation::Points, Side::HandWritten) =>
                "SELECT h.partition_key, h.row_key, h.ts, h.props::text FROM ROWS FROM (unnest($1::text[]), unnest($2::text[])) AS k (p, r),
                    LATERAL (SELECT * FROM hand WHERE partition_key = k.p AND row_key = k.r OFFSET 0) AS h".to_owned(),

            (Operation::FindDeep, Side::Ours) =>
                "SELECT partition_key, row_key, \"timestamp\", properties::text, continuation_token FROM table_service.query_page('Bench', $1, continuation_token => $2)".to_owned(),
            (Operation::Find | Operation::FindMany | Operation::FindRange | Operation::FindInPartition, Side::Ours) =>
                "SELECT partition_key, row_key, \"timestamp\", properties::text, continuation_token FROM table_service.query_page('Bench', $1)".to_owned(),
            (Operation::Find, Side::HandWritten) =>
                "SELECT partition_key, row_key, ts, props::text FROM hand_indexed WHERE props ->> 'Name' = $1 ORDER BY partition_key, row_key LIMIT 1000".to_owned(),
            // OFFSET 0 keeps the planner from reading the table in key order until a thousand rows are found, which a plan for all
            // values would do.
            (Operation::FindRange, Side::HandWritten) =>
                "SELECT partition_key, row_key, ts, props::text FROM (SELECT * FROM hand_indexed WHERE props ->> 'Name' >= $1 AND props ->> 'Name' < $2 OFFSET 0) AS h ORDER BY partition_key, row_key LIMIT 1000".to_owned(),
            (Operation::FindMany, Side::HandWritten) =>
                "SELECT partition_key, row_key, ts, props::text FROM hand_indexed WHERE (props ->> 'Age')::int = $1 ORDER BY partition_key, row_key LIMIT 1000".to_owned(),
            (Operation::FindDeep, Side::HandWritten) =>
                "SELECT partition_key, row_key, ts, props::text FROM hand_indexed WHERE (props ->> 'Age')::int = $1 AND (partition_key, row_key) >= ($2, $3) ORDER BY partition_key, row_key LIMIT 1000".to_owned(),
            (Operation::FindInPartition, Side::HandWritten) =>
                "SELECT partition_key, row_key, ts, props::text FROM hand_indexed WHERE (props ->> 'Age')::int = $1 AND partition_key = $2 ORDER BY partition_key, row_key LIMIT 1000".to_owned(),
        };
        sql.replace("Bench", table)
    }
}

/// A version of an entity, as the client that has read it keeps it.
#[derive(Debug)]
enum Tag {
    ETag(String),
    Time(SystemTime),
}

/// A client that does one operation again and again.
pub struct OperationWorker {
    operation: Operation,
    side: Side,
    data: Data,
    client: Client,
    statement: Statement,
    random: SmallRng,
    /// For conditional writes: entities that only this client writes, with their versions.
    own: Vec<(u64, Tag)>,
    /// For deep pages: where the last one begins.
    deep: Option<Deep>,
}

/// The age for which a deep page is read, and where the page begins.
#[derive(Debug)]
struct Deep {
    age: i32,
    token: Option<String>,
    keys: (String, String),
}

/// Entities that one client owns.
const OWN: u64 = 1000;

impl OperationWorker {
    /// `client` tells this client from others that work at the same time.
    pub async fn new(
        connection: &str,
        operation: Operation,
        side: Side,
        data: Data,
        client: u64,
        random: SmallRng,
    ) -> Result<OperationWorker, Error> {
        let seed = client;
        let client = connect(connection).await?;
        let statement = client.prepare(&operation.sql(side, data.table)).await?;
        let mut worker = OperationWorker {
            operation,
            side,
            data,
            client,
            statement,
            random,
            own: Vec::new(),
            deep: None,
        };
        if operation == Operation::FindDeep {
            worker.deep = Some(worker.last_page().await?);
        }
        if operation == Operation::Replace {
            for i in 0..OWN.min(data.entities / 8) {
                // Spread over the table, and never another client's.
                let number = (i * (data.entities / OWN).max(8) + seed) % data.entities;
                let tag = worker.read_tag(number).await?;
                worker.own.push((number, tag));
            }
        }
        Ok(worker)
    }

    /// Counts the instructions of the server process that does the work.
    pub async fn instructions(&self, directory: PathBuf) -> Result<Instructions, Error> {
        Instructions::of(&self.client, directory).await
    }

    async fn read_tag(&self, number: u64) -> Result<Tag, Error> {
        let (partition_key, row_key) = self.data.keys(number);
        let sql = match self.side {
            Side::Ours => format!(
                "SELECT table_service.etag(e) FROM table_service.get_entity('{}', $1, $2) AS e",
                self.data.table
            ),
            Side::HandWritten => "SELECT ts FROM hand WHERE partition_key = $1 AND row_key = $2".to_owned(),
        };
        let row = self.client.query_one(&sql, &[&partition_key, &row_key]).await?;
        Ok(match self.side {
            Side::Ours => Tag::ETag(row.try_get(0)?),
            Side::HandWritten => Tag::Time(row.try_get(0)?),
        })
    }

    /// Where the last full page of an age begins.
    async fn last_page(&mut self) -> Result<Deep, Error> {
        let age = self.random.random_range(0..AGES as i32);
        let mut deep = Deep {
            age,
            token: None,
            keys: (String::new(), String::new()),
        };
        let pages = (self.data.entities / AGES / 1000).saturating_sub(1);
        if self.side == Side::HandWritten {
            let sql = format!(
                "SELECT partition_key, row_key FROM hand_indexed WHERE (props ->> 'Age')::int = $1 ORDER BY 1, 2 OFFSET {} LIMIT 1",
                pages * 1000
            );
            if let Some(row) = self.client.query_opt(&sql, &[&age]).await? {
                deep.keys = (row.try_get(0)?, row.try_get(1)?);
            }
            return Ok(deep);
        }
        for _ in 0..pages {
            let parameters: [&(dyn ToSql + Sync); 2] = [&format!("Age eq {age}"), &deep.token];
            let rows = self.client.query(&self.statement, &parameters).await?;
            deep.token = rows.last().map(|row| row.try_get(4)).transpose()?.flatten();
        }
        Ok(deep)
    }

    async fn find(&mut self) -> Result<(), Error> {
        let number = self.data.any(&mut self.random);
        let age = i32::try_from(number * 7919 % AGES)?;
        let hand_written = self.side == Side::HandWritten;
        match self.operation {
            Operation::Find => {
                let name = format!("{:x}", Md5::digest(number.to_string()));
                let filter = if hand_written {
                    name
                } else {
                    format!("Name eq '{name}'")
                };
                self.rows(&[&filter], 1..=1).await
            }
            Operation::FindRange => {
                let width = u64::MAX / self.data.entities * RANGE;
                let from = self.random.random_range(0..u64::MAX - width);
                let (from, to) = (format!("{from:016x}"), format!("{:016x}", from + width));
                if hand_written {
                    self.rows(&[&from, &to], 1..=1000).await
                } else {
                    self.rows(&[&format!("Name ge '{from}' and Name lt '{to}'")], 1..=1000)
                        .await
                }
            }
            Operation::FindInPartition => {
                let (partition_key, _) = self.data.keys(number);
                if hand_written {
                    self.rows(&[&age, &partition_key], 1..=1000).await
                } else {
                    let filter = format!("PartitionKey eq '{partition_key}' and Age eq {age}");
                    self.rows(&[&filter], 1..=1000).await
                }
            }
            Operation::FindDeep => {
                let Some(deep) = &self.deep else {
                    return Err("no deep page".into());
                };
                if hand_written {
                    self.rows(&[&deep.age, &deep.keys.0, &deep.keys.1], 1..=1000).await
                } else {
                    self.rows(&[&format!("Age eq {}", deep.age), &deep.token], 1..=1000)
                        .await
                }
            }
            _ if hand_written => self.rows(&[&age], 1..=1000).await,
            _ => self.rows(&[&format!("Age eq {age}")], 1..=1000).await,
        }
    }

    async fn rows(
        &self,
        parameters: &[&(dyn ToSql + Sync)],
        expected: std::ops::RangeInclusive<usize>,
    ) -> Result<(), Error> {
        let rows = self.client.query(&self.statement, parameters).await?;
        if !expected.contains(&rows.len()) {
            return Err(format!(
                "{}: {} rows instead of {expected:?}",
                self.operation.title(),
                rows.len()
            )
            .into());
        }
        Ok(())
    }

    async fn batch(&mut self) -> Result<(), Error> {
        let partition_key = new_key(&mut self.random);
        if self.operation == Operation::BatchJson && self.side == Side::Ours {
            let mut operations = String::from("[");
            for i in 0..BATCH {
                let bag = properties(&mut self.random);
                let separator = if i == 0 { "" } else { "," };
                // The entity's members begin with its key.
                write!(
                    operations,
                    r#"{separator}{{"insert":{{"RowKey":"{i:03}",{}}}"#,
                    bag.trim_start_matches('{')
                )?;
            }
            operations.push(']');
            return self.rows(&[&partition_key, &operations], BATCH..=BATCH).await;
        }
        let rows: Vec<(String, Text<String>)> = (0..BATCH)
            .map(|i| (format!("{i:03}"), Text(properties(&mut self.random))))
            .collect();
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&partition_key];
        for (row_key, bag) in &rows {
            parameters.push(row_key);
            parameters.push(bag);
        }
        self.rows(&parameters, BATCH..=BATCH).await
    }

    async fn replace(&mut self) -> Result<(), Error> {
        let index = self.random.random_range(0..self.own.len());
        let bag = Text(properties(&mut self.random));
        let Some((number, tag)) = self.own.get_mut(index) else {
            return Err("no entities".into());
        };
        let (partition_key, row_key) = self.data.keys(*number);
        let version: &(dyn ToSql + Sync) = match tag {
            Tag::ETag(tag) => tag,
            Tag::Time(time) => time,
        };
        let row = self
            .client
            .query_one(&self.statement, &[&partition_key, &row_key, &bag, version])
            .await?;
        *tag = match self.side {
            Side::Ours => Tag::ETag(row.try_get(0)?),
            Side::HandWritten => Tag::Time(row.try_get(0)?),
        };
        Ok(())
    }

    async fn points(&mut self) -> Result<(), Error> {
        // Two of them may be equal.
        let keys: Vec<(String, String)> = (0..POINTS)
            .map(|_| self.data.keys(self.data.any(&mut self.random)))
            .collect();
        match self.side {
            Side::Ours => {
                let points: Vec<String> = keys
                    .iter()
                    .map(|(p, r)| format!("(PartitionKey eq '{p}' and RowKey eq '{r}')"))
                    .collect();
                self.rows(&[&points.join(" or ")], 1..=POINTS).await
            }
            Side::HandWritten => {
                let (partition_keys, row_keys): (Vec<String>, Vec<String>) = keys.into_iter().unzip();
                self.rows(&[&partition_keys, &row_keys], 1..=POINTS).await
            }
        }
    }

    async fn page(&mut self) -> Result<(), Error> {
        let first = self.data.any_with_rest(&mut self.random, 1000);
        let (partition_key, row_key) = self.data.keys(first);
        // Small tables have small partitions.
        let expected = if self.operation == Operation::Page {
            1..=1000
        } else {
            1..=1
        };
        match self.side {
            Side::Ours => {
                let filter = format!("PartitionKey eq '{partition_key}' and RowKey ge '{row_key}'");
                self.rows(&[&filter], expected).await
            }
            Side::HandWritten => self.rows(&[&partition_key, &row_key], expected).await,
        }
    }

    /// Does it once.
    ///
    /// # Errors
    /// An error of the server. It ends the measurement.
    pub async fn step(&mut self) -> Result<(), Error> {
        match self.operation {
            Operation::Get => {
                let (partition_key, row_key) = self.data.keys(self.data.any(&mut self.random));
                self.rows(&[&partition_key, &row_key], 1..=1).await
            }
            Operation::Insert | Operation::InsertIndexed => {
                let (partition_key, row_key) = (
                    format!("new{:02}", self.random.random_range(0..100)),
                    new_key(&mut self.random),
                );
                let bag = Text(properties(&mut self.random));
                self.rows(&[&partition_key, &row_key, &bag], 1..=1).await
            }
            Operation::Merge | Operation::MergeIndexed | Operation::PatchMerge => {
                let (partition_key, row_key) = self.data.keys(self.data.any(&mut self.random));
                let bag = Text(format!(r#"{{"Score": {}}}"#, self.random.random_range(0..1000)));
                self.rows(&[&partition_key, &row_key, &bag], 1..=1).await
            }
            Operation::Patch => {
                let (partition_key, row_key) = self.data.keys(self.data.any(&mut self.random));
                self.rows(&[&partition_key, &row_key], 1..=1).await
            }
            Operation::Replace => self.replace().await,
            Operation::Batch | Operation::BatchJson => self.batch().await,
            Operation::Page | Operation::PageJson => self.page().await,
            Operation::Scan => self.rows(&[], 1..=usize::MAX).await,
            Operation::Points => self.points().await,
            Operation::Find
            | Operation::FindMany
            | Operation::FindRange
            | Operation::FindDeep
            | Operation::FindInPartition => self.find().await,
        }
    }
}
