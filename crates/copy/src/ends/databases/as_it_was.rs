//! A table that is made as it was: an entity is written or deleted only while it is the one that was compared.

use std::collections::BTreeSet;

use table_service_model::Ticks;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::failure::Failure;
use crate::records::{Key, Outcome, Record, Reject};

use super::connect::{Connection, Database, SqlError, rows};
use super::rows::{BagBytes, Micros};
use super::target::check;
use super::visit::{Access, Relation};

/// The state of a key now and in the end. They differ.
pub struct Step {
    pub now: Option<Record>,
    pub then: Option<Record>,
}

impl Step {
    /// The entity that has the key.
    fn record(&self) -> Option<&Record> {
        self.then.as_ref().or(self.now.as_ref())
    }

    fn key(&self) -> Key {
        self.record().map(Record::key).unwrap_or_default()
    }

    /// The bytes that it takes in memory, roughly.
    pub fn weight(&self) -> usize {
        self.record().map_or(0, Record::weight)
    }
}

/// Writes and deletes entities of a table.
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

    /// The OID of the table.
    pub fn oid(&self) -> u32 {
        self.relation.oid
    }

    /// Does steps of different keys. A batch that the database refuses is divided, down to single entities. Returns the
    /// outcome, and the keys of the entities that others have written or deleted since they were compared: those stay
    /// as they are.
    pub async fn level(&self, mut steps: Vec<Step>) -> Result<(Outcome, Vec<Key>), Failure> {
        let (mut done, mut changed) = (Outcome::default(), Vec::new());
        let reject = |step: &Step, reason| Some(Reject::of_record(&self.relation.table, step.record()?, reason));
        steps.retain(|step| match step.then.as_ref().map_or(Ok(()), check) {
            Ok(()) => true,
            Err(reason) => {
                done.rejects.extend(reject(step, reason));
                false
            }
        });
        let mut parts = vec![steps];
        while let Some(mut part) = parts.pop() {
            match (self.level_all(&part).await?, part.as_slice()) {
                (Ok(left), _) => {
                    for step in part.iter().filter(|step| !left.contains(&step.key())) {
                        done.written += u64::from(step.then.is_some());
                        done.deleted += u64::from(step.then.is_none());
                    }
                    done.changed += left.len() as u64;
                    changed.extend(left);
                }
                (Err(reason), [only]) => done.rejects.extend(reject(only, reason)),
                (Err(_), _) => {
                    let rest = part.split_off(part.len() / 2);
                    parts.extend([rest, part]);
                }
            }
        }
        Ok((done, changed))
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
        // Those of entities that are there and go, are there and stay, and are not there.
        let kinds = [(&delete, true, false), (&replace, true, true), (&insert, false, true)];
        for (statement, is_now, is_then) in kinds {
            let is_kind = |step: &&Step| (step.now.is_some(), step.then.is_some()) == (is_now, is_then);
            let steps: Vec<&Step> = steps.iter().filter(is_kind).collect();
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
    let keys = steps.iter().filter_map(|step| step.record());
    let (partitions, rows_of): (Vec<&str>, Vec<&str>) = keys.map(Record::keys).unzip();
    let seen: Vec<Option<Micros>> = steps.iter().map(|step| micros(step.now.as_ref()?.timestamp)).collect();
    let then = || steps.iter().map(|step| step.then.as_ref());
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
