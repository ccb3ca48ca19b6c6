//! The work that is measured, on a table of the service and on a hand-written one with the same guarantees: a conditional
//! replace compares versions, and timestamps rise.

use std::fmt::Write;
use std::time::SystemTime;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use crate::Error;
use crate::data::{Data, new_key, properties};
use crate::load::Worker;
use crate::session::{Text, connect};

/// Whose table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Ours,
    HandWritten,
}

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Get,
    Insert,
    Replace,
    Merge,
    Batch,
    BatchJson,
    Page,
    PageJson,
    Scan,
    Points,
}

/// Entities of a batch, and of an OR.
const BATCH: usize = 100;
const POINTS: usize = 50;

impl Work {
    pub const ALL: [Work; 10] = [
        Work::Get,
        Work::Insert,
        Work::Replace,
        Work::Merge,
        Work::Batch,
        Work::BatchJson,
        Work::Page,
        Work::PageJson,
        Work::Scan,
        Work::Points,
    ];

    /// A short name, to choose by.
    pub fn name(self) -> &'static str {
        match self {
            Work::Get => "get",
            Work::Insert => "insert",
            Work::Replace => "replace",
            Work::Merge => "merge",
            Work::Batch => "batch",
            Work::BatchJson => "batch-json",
            Work::Page => "page",
            Work::PageJson => "page-json",
            Work::Scan => "scan",
            Work::Points => "points",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Work::Get => "get one entity",
            Work::Insert => "insert one entity",
            Work::Replace => "conditional replace of one entity",
            Work::Merge => "merge into one entity",
            Work::Batch => "batch of 100 inserts / multi-row INSERT",
            Work::BatchJson => "the same through execute_batch_json",
            Work::Page => "page of 1000 by key range",
            Work::PageJson => "the same as JSON",
            Work::Scan => "filter scan, two comparisons, 2 % match",
            Work::Points => "OR of 50 points / 50 look-ups",
        }
    }

    /// The least ratio of throughputs that is good enough, ours to the hand-written.
    pub fn target(self) -> f64 {
        match self {
            Work::Get | Work::Insert | Work::Replace | Work::Merge => 0.9,
            Work::Batch | Work::BatchJson | Work::Page | Work::PageJson => 1.0,
            Work::Scan => 1.2,
            Work::Points => 1.0 / 1.5,
        }
    }

    /// Whether it is one index look-up, so that many clients can run it at once.
    pub fn is_short(self) -> bool {
        self.target() == 0.9
    }

    fn sql(self, side: Side, table: &str) -> String {
        let sql = match (self, side) {
            (Work::Get, Side::Ours) => "SELECT partition_key, row_key, \"timestamp\", properties::text FROM table_service.get_entity('Bench', $1, $2)".to_owned(),
            (Work::Get, Side::HandWritten) => "SELECT partition_key, row_key, ts, props::text FROM hand WHERE partition_key = $1 AND row_key = $2".to_owned(),

            (Work::Insert, Side::Ours) => "SELECT table_service.insert_entity('Bench', $1, $2, $3)".to_owned(),
            (Work::Insert, Side::HandWritten) => "INSERT INTO hand (partition_key, row_key, props) VALUES ($1, $2, $3) RETURNING ts".to_owned(),

            (Work::Replace, Side::Ours) => "SELECT table_service.replace_entity('Bench', $1, $2, $3, $4)".to_owned(),
            (Work::Replace, Side::HandWritten) =>
                "UPDATE hand SET ts = greatest(clock_timestamp(), ts + interval '1 microsecond'), props = $3 WHERE partition_key = $1 AND row_key = $2 AND ts = $4 RETURNING ts".to_owned(),

            (Work::Merge, Side::Ours) => "SELECT table_service.merge_entity('Bench', $1, $2, $3, '*')".to_owned(),
            (Work::Merge, Side::HandWritten) =>
                "UPDATE hand SET ts = greatest(clock_timestamp(), ts + interval '1 microsecond'), props = props || $3 WHERE partition_key = $1 AND row_key = $2 RETURNING ts".to_owned(),

            (Work::Batch, Side::Ours) => {
                let operations: Vec<String> = (0..BATCH).map(|i| format!("table_service.batch_insert(${}, ${})", 2 * i + 2, 2 * i + 3)).collect();
                format!("SELECT * FROM table_service.execute_batch('Bench', $1, VARIADIC ARRAY[{}])", operations.join(", "))
            }
            (Work::BatchJson, Side::Ours) => "SELECT * FROM table_service.execute_batch_json('Bench', $1, $2)".to_owned(),
            (Work::Batch | Work::BatchJson, Side::HandWritten) => {
                let rows: Vec<String> = (0..BATCH).map(|i| format!("($1, ${}, ${})", 2 * i + 2, 2 * i + 3)).collect();
                format!("INSERT INTO hand (partition_key, row_key, props) VALUES {} RETURNING row_key, ts", rows.join(", "))
            }

            (Work::Page, Side::Ours) => "SELECT partition_key, row_key, \"timestamp\", properties::text, continuation_token FROM table_service.query_page('Bench', $1)".to_owned(),
            (Work::Page, Side::HandWritten) =>
                "SELECT partition_key, row_key, ts, props::text FROM hand WHERE partition_key = $1 AND row_key >= $2 ORDER BY row_key LIMIT 1000".to_owned(),

            (Work::PageJson, Side::Ours) => "SELECT table_service.query_page_json('Bench', $1)::text".to_owned(),
            (Work::PageJson, Side::HandWritten) =>
                "SELECT json_agg(e)::text FROM (SELECT * FROM hand WHERE partition_key = $1 AND row_key >= $2 ORDER BY row_key LIMIT 1000) AS e".to_owned(),

            (Work::Scan, Side::Ours) =>
                "SELECT partition_key, row_key, \"timestamp\", properties::text FROM table_service.query_entities('Bench', 'Age ge 40 and Age lt 42')".to_owned(),
            (Work::Scan, Side::HandWritten) =>
                "SELECT partition_key, row_key, ts, props::text FROM hand WHERE (props ->> 'Age')::int >= 40 AND (props ->> 'Age')::int < 42 ORDER BY partition_key, row_key".to_owned(),

            (Work::Points, Side::Ours) => "SELECT partition_key, row_key, \"timestamp\", properties::text FROM table_service.query_entities('Bench', $1)".to_owned(),
            (Work::Points, Side::HandWritten) =>
                "SELECT h.partition_key, h.row_key, h.ts, h.props::text FROM ROWS FROM (unnest($1::text[]), unnest($2::text[])) AS k (p, r),
                    LATERAL (SELECT * FROM hand WHERE partition_key = k.p AND row_key = k.r OFFSET 0) AS h".to_owned(),
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

/// A client that does one kind of work.
pub struct Task {
    work: Work,
    side: Side,
    data: Data,
    client: Client,
    statement: Statement,
    random: SmallRng,
    /// For conditional writes: entities that only this client writes, with their versions.
    own: Vec<(u64, Tag)>,
}

/// Entities that one client owns.
const OWN: u64 = 1000;

impl Task {
    /// `client` tells this client from others that work at the same time.
    ///
    /// # Errors
    /// What the server says.
    pub async fn new(connection: &str, work: Work, side: Side, data: Data, client: u64) -> Result<Task, Error> {
        let seed = client;
        let client = connect(connection).await?;
        let statement = client.prepare(&work.sql(side, data.table)).await?;
        let mut task = Task {
            work,
            side,
            data,
            client,
            statement,
            random: SmallRng::from_os_rng(),
            own: Vec::new(),
        };
        if work == Work::Replace {
            for i in 0..OWN.min(data.entities / 8) {
                // Spread over the table, and never another client's.
                let number = (i * (data.entities / OWN).max(8) + seed) % data.entities;
                let tag = task.read_tag(number).await?;
                task.own.push((number, tag));
            }
        }
        Ok(task)
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

    async fn rows(
        &self,
        parameters: &[&(dyn ToSql + Sync)],
        expected: std::ops::RangeInclusive<usize>,
    ) -> Result<u64, Error> {
        let rows = self.client.query(&self.statement, parameters).await?;
        if !expected.contains(&rows.len()) {
            return Err(format!("{}: {} rows instead of {expected:?}", self.work.title(), rows.len()).into());
        }
        Ok(rows.len() as u64)
    }

    async fn batch(&mut self) -> Result<u64, Error> {
        let partition_key = new_key(&mut self.random);
        if self.work == Work::BatchJson && self.side == Side::Ours {
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

    async fn replace(&mut self) -> Result<u64, Error> {
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
        Ok(1)
    }

    async fn points(&mut self) -> Result<u64, Error> {
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

    async fn page(&mut self) -> Result<u64, Error> {
        let first = self.data.any_with_rest(&mut self.random, 1000);
        let (partition_key, row_key) = self.data.keys(first);
        // Small tables have small partitions.
        let expected = if self.work == Work::Page { 1..=1000 } else { 1..=1 };
        match self.side {
            Side::Ours => {
                let filter = format!("PartitionKey eq '{partition_key}' and RowKey ge '{row_key}'");
                self.rows(&[&filter], expected).await
            }
            Side::HandWritten => self.rows(&[&partition_key, &row_key], expected).await,
        }
    }
}

impl Worker for Task {
    async fn step(&mut self) -> Result<u64, Error> {
        match self.work {
            Work::Get => {
                let (partition_key, row_key) = self.data.keys(self.data.any(&mut self.random));
                self.rows(&[&partition_key, &row_key], 1..=1).await
            }
            Work::Insert => {
                let (partition_key, row_key) = (
                    format!("new{:02}", self.random.random_range(0..100)),
                    new_key(&mut self.random),
                );
                let bag = Text(properties(&mut self.random));
                self.rows(&[&partition_key, &row_key, &bag], 1..=1).await
            }
            Work::Merge => {
                let (partition_key, row_key) = self.data.keys(self.data.any(&mut self.random));
                let bag = Text(format!(r#"{{"Score": {}}}"#, self.random.random_range(0..1000)));
                self.rows(&[&partition_key, &row_key, &bag], 1..=1).await
            }
            Work::Replace => self.replace().await,
            Work::Batch | Work::BatchJson => self.batch().await,
            Work::Page | Work::PageJson => self.page().await,
            Work::Scan => self.rows(&[], 1..=usize::MAX).await,
            Work::Points => self.points().await,
        }
    }
}
