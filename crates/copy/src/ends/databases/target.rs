//! A database as a target: binary COPY, straight into the table while no entity conflicts, else into a staging table
//! from which one INSERT … ON CONFLICT writes.

use std::collections::{HashMap, HashSet};
use std::pin::pin;

use table_service_model::entity;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::failure::Failure;
use crate::records::{Key, OnConflict, Outcome, Record, Reject, WriteMode, reason};

use super::connect::{ALL_ALIVE, Connection, Database, SqlError, alive, row, rows};
use super::rows::{BagBytes, Micros};
use super::visit::{Access, Known, Relation};

const COLUMNS: &str = "partition_key, row_key, \"timestamp\", properties";
/// How many writes use the staging table after a conflict, before COPY tries the table itself again.
const STAGED_WRITES: u32 = 64;

impl Database {
    /// Makes a table if it is not there. A name that it cannot have is a matter of this table.
    pub async fn create(&self, table: &str) -> Result<(), Failure> {
        const CREATE: &str = "SELECT table_service.create_table($1::pg_catalog.text, true)";
        let create = async |client: &Connection| {
            let created = client.query(CREATE, &[&table]).await;
            created.map(drop).map_err(|error| SqlError::from(error).of_table())
        };
        self.again(|| self.on_kept(create)).await
    }

    /// Returns whether a table is there.
    pub async fn has(&self, table: &str) -> Result<bool, Failure> {
        let work = async |client: &Connection| Ok(self.relation(client, table).await?.is_some());
        self.again(|| self.on_kept(work)).await
    }

    /// Deletes the entities that have these keys. Returns how many were there.
    pub async fn delete(&self, table: &str, keys: &[Key]) -> Result<u64, Failure> {
        let keys = keys
            .iter()
            .map(|key| (key.partition_key.as_str(), key.row_key.as_str()));
        let (partitions, rows_of): (Vec<&str>, Vec<&str>) = keys.unzip();
        let (partitions, rows_of) = (&partitions, &rows_of);
        let delete = async |client: &Connection, _: &Relation, name: &str| {
            let statement = format!(
                "DELETE FROM {name} AS e USING unnest($1::text[], $2::text[]) AS k (p, r) \
                 WHERE e.partition_key = k.p AND e.row_key = k.r"
            );
            Ok(client.execute(&statement, &[partitions, rows_of]).await?)
        };
        let deleted = self.at(Known::ByName(table), Access::Write, delete).await?;
        Ok(deleted.unwrap_or_default())
    }

    /// A writer into a table. Each has its own connection.
    pub fn writer(&self, table: &str, mode: WriteMode) -> SqlWriter {
        SqlWriter {
            database: self.clone(),
            table: table.to_owned(),
            mode,
            session: None,
            staged: 0,
        }
    }

    /// Stores the access policies of a table.
    pub async fn set_policies(&self, table: &str, json: &str) -> Result<(), Failure> {
        let statement =
            "SELECT table_service.set_access_policies($1::pg_catalog.text, $2::pg_catalog.text::pg_catalog.json)";
        let set = async |client: &Connection, _: &Relation, _: &str| {
            let set = client.query(statement, &[&table, &json]).await;
            set.map(drop).map_err(|error| SqlError::from(error).of_table())
        };
        let set = self.at(Known::ByName(table), Access::Read, set).await?;
        set.ok_or_else(|| Failure::of_table(format!("{}: there is no table {table}.", self.name)))
    }

    /// Stores the properties of the service.
    pub async fn set_service_properties(&self, json: &str) -> Result<(), Failure> {
        let statement = "SELECT table_service.set_service_properties($1::pg_catalog.text::pg_catalog.json)";
        self.run(statement, &[&json]).await
    }
}

/// Writes entities into one table, over one connection.
pub struct SqlWriter {
    database: Database,
    table: String,
    mode: WriteMode,
    session: Option<Session>,
    /// How many of the next writes go through the staging table.
    staged: u32,
}

struct Session {
    database: Database,
    client: Connection,
    relation: Relation,
    types: Vec<Type>,
    /// The condition that an entity has not expired, if the table has an expiry.
    alive: Option<String>,
    has_staging: bool,
    /// The server has refused to begin a COPY. The driver ends it nevertheless, so it takes answers for those of the next statement.
    is_out_of_step: bool,
}

impl SqlWriter {
    /// Writes entities with different keys, and commits.
    ///
    /// # Errors
    /// A database that stays away, or refuses everything.
    pub async fn write(&mut self, records: Vec<Record>) -> Result<Outcome, Failure> {
        let mut outcome = Outcome::default();
        let mut valid = Vec::with_capacity(records.len());
        for record in records {
            match check(&record) {
                Ok(()) => valid.push(record),
                Err(error) => outcome.rejects.push(Reject::of_record(&self.table, &record, error)),
            }
        }
        // A batch that is refused as a whole is divided, down to single entities.
        let mut parts = vec![valid];
        while let Some(mut part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            match self.write_all(&part).await? {
                Ok(written) => outcome += written,
                Err(refusal) if part.len() == 1 => {
                    outcome.rejects.extend(
                        part.iter()
                            .map(|record| Reject::of_record(&self.table, record, refusal.clone())),
                    );
                }
                Err(_) => {
                    let rest = part.split_off(part.len() / 2);
                    parts.push(rest);
                    parts.push(part);
                }
            }
        }
        Ok(outcome)
    }

    /// Writes all of them or none. The inner error says why the database refuses them.
    async fn write_all(&mut self, records: &[Record]) -> Result<Result<Outcome, String>, Failure> {
        let mut backoff = self.database.backoff();
        // Whether an earlier try may have been committed although its answer did not come.
        let mut ambiguous = false;
        loop {
            let error = match self.try_write(records, ambiguous).await {
                Ok(outcome) => return Ok(Ok(outcome)),
                Err(error) => error,
            };
            let is_answered = error.code().is_some();
            if !is_answered || error.is_passing() {
                self.session = None;
                ambiguous |= !is_answered;
                self.database.wait(&mut backoff, &error).await?;
                continue;
            }
            const OF_ALL: [SqlState; 3] = [
                SqlState::INSUFFICIENT_PRIVILEGE,
                SqlState::UNDEFINED_TABLE,
                SqlState::READ_ONLY_SQL_TRANSACTION,
            ];
            if error.code().is_some_and(|code| OF_ALL.contains(code)) {
                return Err(self.database.failure(&error));
            }
            return Ok(Err(error.text()));
        }
    }

    async fn try_write(&mut self, records: &[Record], ambiguous: bool) -> Result<Outcome, SqlError> {
        let session = match &mut self.session {
            Some(session) => session,
            empty => empty.insert(Session::open(&self.database, &self.table).await?),
        };
        let now = if records.iter().all(|record| record.timestamp.is_some()) {
            0
        } else {
            session.now().await?
        };
        if self.staged == 0 {
            match session.straight(records, now).await {
                Ok(()) => {
                    return Ok(Outcome::of(|outcome| outcome.written = records.len() as u64));
                }
                Err(error) if error.code().is_none() || error.is_passing() => return Err(error),
                // Entities are there already, or the table cannot be the target of COPY (row-level security, a view).
                Err(_) => {
                    self.staged = STAGED_WRITES;
                    if session.is_out_of_step {
                        *session = Session::open(&self.database, &self.table).await?;
                    }
                }
            }
        } else {
            self.staged -= 1;
        }
        session.stage(&self.table, &self.mode, records, now, ambiguous).await
    }
}

/// Checks an entity as the table's own constraint does, so that one bad entity does not refuse the others.
pub fn check(record: &Record) -> Result<(), String> {
    let timestamp = match record.timestamp {
        Some(timestamp) => Some(timestamp),
        None => table_service_model::Ticks::from_postgres_micros(0),
    };
    entity::check(
        &record.partition_key,
        &record.row_key,
        timestamp,
        record.properties.as_properties(),
    )
    .map_err(|error| reason(&error))
}

impl Session {
    async fn open(database: &Database, table: &str) -> Result<Session, SqlError> {
        const REPORT: &str = "SELECT count(*) FROM table_service.query_entities($1::pg_catalog.text, NULL::pg_catalog.text, \
                              NULL::pg_catalog.text, 0::pg_catalog.int8, NULL::table_service.properties)";
        let client = database.connect().await?;
        let Some(relation) = database.relation(&client, table).await? else {
            // The statement reports that the table is gone, in the words of the service.
            row(&client, REPORT, &[&table]).await?;
            return Err(SqlError::ForNow(format!("the table {table} came and went")));
        };
        let check = async |name: &str| {
            let statement = client.prepare(&format!("SELECT {COLUMNS} FROM {name}")).await?;
            let types = statement
                .columns()
                .iter()
                .map(|column| column.type_().clone())
                .collect();
            Ok((types, alive(&client, table).await?))
        };
        let (types, alive) = database.visiting(&client, &relation, Access::Write, check).await?;
        Ok(Session {
            alive: Some(alive).filter(|condition| condition != ALL_ALIVE),
            database: database.clone(),
            client,
            relation,
            types,
            has_staging: false,
            is_out_of_step: false,
        })
    }

    /// Begins a transaction with a visit of the table, and returns the name of its relation.
    async fn begin(&self) -> Result<String, SqlError> {
        self.client.batch_execute("BEGIN").await?;
        let visit = self.database.visit(&self.client, &self.relation, Access::Write).await;
        Ok(visit?.to_owned())
    }

    /// Ends a transaction as its work has ended.
    async fn end<T>(&self, done: Result<T, SqlError>) -> Result<T, SqlError> {
        match &done {
            Ok(_) => self.client.batch_execute("COMMIT").await?,
            // If this fails as well, the connection is gone, and the next try makes another.
            Err(_) if !self.is_out_of_step => self.client.batch_execute("ROLLBACK").await.unwrap_or_default(),
            Err(_) => {}
        }
        done
    }

    /// The server's clock.
    async fn now(&self) -> Result<i64, SqlError> {
        let row = row(&self.client, "SELECT pg_catalog.clock_timestamp()", &[]).await?;
        Ok(row.try_get::<_, Micros>(0)?.0)
    }

    async fn copy_in(&mut self, relation: &str, records: &[Record], now: i64) -> Result<(), SqlError> {
        let statement = format!("COPY {relation} ({COLUMNS}) FROM STDIN (FORMAT binary)");
        self.is_out_of_step = true;
        let sink = self.client.copy_in(&statement).await?;
        self.is_out_of_step = false;
        let mut writer = pin!(BinaryCopyInWriter::new(sink, &self.types));
        for record in records {
            let micros = Micros(record.timestamp.map_or(now, |timestamp| timestamp.to_postgres_micros()));
            writer
                .as_mut()
                .write(&[
                    &record.partition_key,
                    &record.row_key,
                    &micros,
                    &BagBytes(record.properties.as_bytes()),
                ])
                .await?;
        }
        writer.finish().await?;
        Ok(())
    }

    /// Writes into the table itself.
    async fn straight(&mut self, records: &[Record], now: i64) -> Result<(), SqlError> {
        let copied = match self.begin().await {
            Ok(name) => self.copy_in(&name, records, now).await,
            Err(error) => Err(error),
        };
        self.end(copied).await
    }

    /// Writes through the staging table.
    async fn stage(
        &mut self,
        table: &str,
        mode: &WriteMode,
        records: &[Record],
        now: i64,
        ambiguous: bool,
    ) -> Result<Outcome, SqlError> {
        if !self.has_staging {
            self.client
                .batch_execute(
                    "CREATE TEMPORARY TABLE IF NOT EXISTS staging (partition_key text COLLATE \"C\", \
                     row_key text COLLATE \"C\", \"timestamp\" timestamptz, properties table_service.properties)",
                )
                .await?;
            self.has_staging = true;
        }
        let staged = match self.begin().await {
            Ok(name) => self.staged(&name, table, mode, records, now, ambiguous).await,
            Err(error) => Err(error),
        };
        self.end(staged).await
    }

    async fn staged(
        &mut self,
        name: &str,
        table: &str,
        mode: &WriteMode,
        records: &[Record],
        now: i64,
        ambiguous: bool,
    ) -> Result<Outcome, SqlError> {
        // An empty table needs no TRUNCATE: a copy that failed was rolled back.
        self.client.batch_execute("TRUNCATE pg_temp.staging").await?;
        self.copy_in("pg_temp.staging", records, now).await?;
        self.remove_expired(name).await?;
        let rows = rows(&self.client, &statement(name, mode.on_conflict), &[], records.len()).await?;
        let mut written = HashMap::with_capacity(rows.len());
        for row in &rows {
            let key: (String, String) = (row.try_get(0)?, row.try_get(1)?);
            written.insert(key, row.try_get::<_, Micros>(2)?.0);
        }
        let mut outcome = Outcome::default();
        let mut in_the_way = Vec::new();
        for record in records {
            let key = (record.partition_key.clone(), record.row_key.clone());
            match written.get(&key) {
                Some(&micros) => {
                    outcome.written += 1;
                    let is_new = record
                        .timestamp
                        .is_some_and(|given| given.to_postgres_micros() != micros);
                    outcome.new_timestamps += u64::from(is_new);
                }
                None if mode.on_conflict == OnConflict::Fail => in_the_way.push(record),
                None => outcome.skipped += 1,
            }
        }
        if in_the_way.is_empty() {
            return Ok(outcome);
        }
        let same = if mode.resumed || ambiguous {
            self.same_as_staged(name, records.len()).await?
        } else {
            HashSet::new()
        };
        for record in in_the_way {
            if same.contains(&(record.partition_key.clone(), record.row_key.clone())) {
                outcome.written += 1;
            } else {
                outcome.rejects.push(Reject::of_record(
                    table,
                    record,
                    "EntityAlreadyExists: The specified entity already exists.",
                ));
            }
        }
        Ok(outcome)
    }

    /// Removes the expired entities among those that are staged: no entity conflicts with them. Only if there is any, it takes
    /// the privilege DELETE.
    async fn remove_expired(&self, name: &str) -> Result<(), SqlError> {
        let Some(alive) = &self.alive else { return Ok(()) };
        let expired = format!(
            "FROM {name} AS e WHERE (e.partition_key, e.row_key) IN (SELECT s.partition_key, s.row_key FROM pg_temp.staging AS s) \
             AND NOT ({alive})"
        );
        let is_any = row(&self.client, &format!("SELECT EXISTS (SELECT {expired})"), &[]).await?;
        if is_any.try_get(0)? {
            self.client.batch_execute(&format!("DELETE {expired}")).await?;
        }
        Ok(())
    }

    /// The keys of staged entities that the table has with the same properties: an earlier run has written them.
    async fn same_as_staged(&self, name: &str, most: usize) -> Result<HashSet<(String, String)>, SqlError> {
        let statement = format!(
            "SELECT s.partition_key, s.row_key FROM pg_temp.staging AS s JOIN {name} AS e \
             ON e.partition_key = s.partition_key AND e.row_key = s.row_key \
             WHERE table_service.properties_send(e.properties) = table_service.properties_send(s.properties)"
        );
        let rows = rows(&self.client, &statement, &[], most).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }
}

/// Writes the staged entities in the order of their keys, so that two writers cannot block each other, and returns
/// those that were written.
fn statement(name: &str, on_conflict: OnConflict) -> String {
    let action = match on_conflict {
        OnConflict::Fail | OnConflict::Skip => "DO NOTHING".to_owned(),
        OnConflict::Replace => update("EXCLUDED.properties"),
        OnConflict::Merge => update("table_service.merge_properties(e.properties, EXCLUDED.properties)"),
        OnConflict::Newer => format!(
            "{} WHERE e.\"timestamp\" < EXCLUDED.\"timestamp\"",
            update("EXCLUDED.properties")
        ),
    };
    let target = match on_conflict {
        OnConflict::Fail | OnConflict::Skip => "",
        _ => "(partition_key, row_key) ",
    };
    format!(
        "INSERT INTO {name} AS e ({COLUMNS}) SELECT {COLUMNS} FROM pg_temp.staging ORDER BY partition_key, row_key \
         ON CONFLICT {target}{action} RETURNING partition_key, row_key, \"timestamp\""
    )
}

/// The trigger of a table sets a new Timestamp. A distributed table has no trigger, so the statement also sets one.
fn update(properties: &str) -> String {
    format!(
        "DO UPDATE SET \"timestamp\" = table_service.next_timestamp(e.\"timestamp\", \
         greatest(EXCLUDED.\"timestamp\", e.\"timestamp\")), properties = {properties}"
    )
}
