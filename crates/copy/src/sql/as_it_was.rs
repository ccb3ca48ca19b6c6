//! A table that is made as it was: an entity is written or deleted only while it is the one that was compared.

use std::collections::BTreeSet;

use table_service_model::Ticks;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::failure::Failure;
use crate::record::{Key, Record, Reject};

use super::connect::{Connection, Database, SqlError, rows};
use super::rows::{BagBytes, Micros};
use super::target::check;
use super::visit::{Access, Relation};

/// What is done with the entity of a key.
pub enum Step {
    /// There is none, and there was one.
    Insert(Record),
    /// There is another one, with this Timestamp.
    Replace(Record, Option<Ticks>),
    /// There was none.
    Delete(Record),
}

impl Step {
    /// The entity that has the key.
    pub fn record(&self) -> &Record {
        match self {
            Step::Insert(record) | Step::Replace(record, _) | Step::Delete(record) => record,
        }
    }

    fn key(&self) -> Key {
        Key {
            partition_key: self.record().partition_key.clone(),
            row_key: self.record().row_key.clone(),
        }
    }

    fn seen(&self) -> Option<Ticks> {
        match self {
            Step::Insert(_) => None,
            Step::Replace(_, seen) => *seen,
            Step::Delete(record) => record.timestamp,
        }
    }

    /// The entity that is to be there in the end.
    fn then(&self) -> Option<&Record> {
        match self {
            Step::Insert(record) | Step::Replace(record, _) => Some(record),
            Step::Delete(_) => None,
        }
    }
}

/// What has become of steps.
#[derive(Default)]
pub struct Levelled {
    pub written: u64,
    pub deleted: u64,
    /// The keys of entities that others have written or deleted since they were compared. They stay as they are.
    pub changed: Vec<Key>,
    pub rejects: Vec<Reject>,
}

/// A table of which entities are written and deleted.
pub struct Leveller {
    database: Database,
    relation: Relation,
}

/// The keys, the Timestamps that were seen, and the entities that are to be there.
const STEPS: &str = "ROWS FROM (unnest($1::text[]), unnest($2::text[]), unnest($3::timestamptz[]), unnest($4::timestamptz[]), \
                     unnest($5::table_service.properties[])) AS k (partition_key, row_key, seen, \"timestamp\", properties)";
const IS_SEEN: &str = "e.partition_key = k.partition_key COLLATE \"C\" AND e.row_key = k.row_key COLLATE \"C\" \
                       AND e.\"timestamp\" IS NOT DISTINCT FROM k.seen";

impl Leveller {
    /// Finds the table; `None` if it is not there.
    pub async fn open(database: &Database, table: &str) -> Result<Option<Leveller>, Failure> {
        let find = async |client: &Connection| database.relation(client, table).await;
        let relation = database.again(|| database.on_kept(find)).await?;
        Ok(relation.map(|relation| Leveller {
            database: database.clone(),
            relation,
        }))
    }

    pub fn oid(&self) -> u32 {
        self.relation.oid
    }

    /// Does steps of different keys. What the database refuses is divided, down to single entities.
    pub async fn level(&self, steps: Vec<Step>) -> Result<Levelled, Failure> {
        let mut levelled = Levelled::default();
        let reject = |step: &Step, reason| Reject::of_record(&self.relation.table, step.record(), reason);
        let (mut valid, mut parts) = (Vec::new(), Vec::new());
        for step in steps {
            match step.then().map_or(Ok(()), check) {
                Ok(()) => valid.push(step),
                Err(reason) => levelled.rejects.push(reject(&step, reason)),
            }
        }
        parts.push(valid);
        while let Some(mut part) = parts.pop() {
            let reason = match self.level_all(&part).await? {
                Ok(left) => {
                    for step in &part {
                        match step.then() {
                            _ if left.contains(&step.key()) => {}
                            Some(_) => levelled.written += 1,
                            None => levelled.deleted += 1,
                        }
                    }
                    levelled.changed.extend(left);
                    continue;
                }
                Err(reason) => reason,
            };
            match part.as_slice() {
                [only] => levelled.rejects.push(reject(only, reason)),
                _ => {
                    let rest = part.split_off(part.len() / 2);
                    parts.extend([rest, part]);
                }
            }
        }
        Ok(levelled)
    }

    /// Does all of them or none. Returns the keys that others have changed; the inner error is the database's refusal.
    async fn level_all(&self, steps: &[Step]) -> Result<Result<BTreeSet<Key>, String>, Failure> {
        if steps.is_empty() {
            return Ok(Ok(BTreeSet::new()));
        }
        let mut backoff = self.database.backoff();
        loop {
            let work = async |client: &Connection| {
                let work = async |name: &str| self.try_level(client, name, steps).await;
                self.database
                    .visiting(client, &self.relation, Access::Write, work)
                    .await
            };
            let error = match self.database.on_kept(work).await {
                Ok(left) => return Ok(Ok(left)),
                Err(error) => error,
            };
            const OF_ALL: [SqlState; 2] = [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::READ_ONLY_SQL_TRANSACTION];
            match error.code() {
                Some(code) if !error.is_passing() && !OF_ALL.contains(code) => return Ok(Err(error.text())),
                _ => self.database.wait(&mut backoff, &error).await?,
            }
        }
    }

    async fn try_level(&self, client: &Connection, name: &str, steps: &[Step]) -> Result<BTreeSet<Key>, SqlError> {
        // Few keys of a table that may be large.
        client
            .batch_execute(
                "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off",
            )
            .await?;
        let insert = format!(
            "INSERT INTO {name} AS e (partition_key, row_key, \"timestamp\", properties) \
             SELECT k.partition_key, k.row_key, coalesce(k.\"timestamp\", now()), k.properties FROM {STEPS} \
             ORDER BY k.partition_key COLLATE \"C\", k.row_key COLLATE \"C\" ON CONFLICT DO NOTHING RETURNING partition_key, row_key"
        );
        // As the trigger of a table does, which a distributed one does not have.
        let replace = format!(
            "UPDATE {name} AS e SET \"timestamp\" = table_service.next_timestamp(e.\"timestamp\", greatest(k.\"timestamp\", e.\"timestamp\")), \
             properties = k.properties FROM {STEPS} WHERE {IS_SEEN} RETURNING e.partition_key, e.row_key"
        );
        let delete =
            format!("DELETE FROM {name} AS e USING {STEPS} WHERE {IS_SEEN} RETURNING e.partition_key, e.row_key");
        // Somebody else, or this program before its connection broke, may have made it as it is to be.
        let look = format!(
            "SELECT k.partition_key, k.row_key FROM {STEPS} LEFT JOIN {name} AS e ON e.partition_key = k.partition_key COLLATE \"C\" \
             AND e.row_key = k.row_key COLLATE \"C\" WHERE table_service.properties_send(e.properties) \
             IS NOT DISTINCT FROM table_service.properties_send(k.properties)"
        );
        let mut left: BTreeSet<Key> = BTreeSet::new();
        let is_kind: [fn(&Step) -> bool; 3] = [
            |step| matches!(step, Step::Delete(_)),
            |step| matches!(step, Step::Replace(..)),
            |step| matches!(step, Step::Insert(_)),
        ];
        for (statement, is_kind) in [delete, replace, insert].iter().zip(is_kind) {
            let steps: Vec<&Step> = steps.iter().filter(|step| is_kind(step)).collect();
            left.extend(steps.iter().map(|step| step.key()));
            for key in keys_of(client, statement, &steps).await? {
                left.remove(&key);
            }
        }
        let steps: Vec<&Step> = steps.iter().filter(|step| left.contains(&step.key())).collect();
        for key in keys_of(client, &look, &steps).await? {
            left.remove(&key);
        }
        Ok(left)
    }
}

/// Runs a statement on steps, and returns the keys that it gives.
async fn keys_of(client: &Connection, statement: &str, steps: &[&Step]) -> Result<Vec<Key>, SqlError> {
    if steps.is_empty() {
        return Ok(Vec::new());
    }
    let micros = |ticks: Option<Ticks>| ticks.map(|ticks| Micros(ticks.to_postgres_micros()));
    let keys = steps.iter().map(|step| step.record());
    let (partitions, rows_of): (Vec<&str>, Vec<&str>) = keys
        .map(|record| (record.partition_key.as_str(), record.row_key.as_str()))
        .unzip();
    let seen: Vec<Option<Micros>> = steps.iter().map(|step| micros(step.seen())).collect();
    let then = || steps.iter().map(|step| step.then());
    let timestamps: Vec<Option<Micros>> = then().map(|then| micros(then?.timestamp)).collect();
    let bags: Vec<Option<BagBytes<'_>>> = then().map(|then| Some(BagBytes(then?.properties.as_bytes()))).collect();
    let parameters: [&(dyn ToSql + Sync); 5] = [&partitions, &rows_of, &seen, &timestamps, &bags];
    let found = rows(client, statement, &parameters, steps.len()).await?;
    let key = |row: &Row| {
        Ok(Key {
            partition_key: row.try_get(0)?,
            row_key: row.try_get(1)?,
        })
    };
    found.iter().map(key).collect()
}
