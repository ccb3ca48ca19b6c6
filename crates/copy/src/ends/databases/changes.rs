//! The change feeds of a database.

use std::collections::BTreeMap;
use std::pin::pin;

use futures_util::StreamExt;
use serde::Serialize;
use serde_json::value::RawValue;
use table_service_model::change_feed::FeedName;
use table_service_model::{Ticks, table_name};
use tokio::sync::mpsc::Sender;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::failure::Failure;
use crate::records::{CHUNK_BYTES, Key, MOST_TABLES, Record};

use super::connect::{Connection, Database, SqlError, alive, row, rows};
use super::rows::{Bag, Micros};
use super::visit::{Access, Known, Relation};

/// How many changes a page has, if no transaction has more.
pub const PAGE: i64 = 1000;

/// The bags of properties that are read with the changes. Each may be a mebibyte.
#[derive(Debug, Clone, Copy)]
pub enum Images {
    All,
    /// Only the properties after a change, with the definitions of tables and the marks of the feed. The feed does not move by itself.
    New,
    None,
}

impl Images {
    /// Each change as the members of a JSON object. The bags are JSON already.
    fn statement(self, tells_relations: bool) -> String {
        let bags = match self {
            Images::All => "c.properties::pg_catalog.text, c.old_properties::pg_catalog.text",
            Images::New => "c.properties::pg_catalog.text, NULL::pg_catalog.text",
            Images::None => "CASE c.kind WHEN 'gap' THEN c.properties::pg_catalog.text END, NULL::pg_catalog.text",
        };
        let (function, relation) = match tells_relations {
            true => ("query_feed", "c.relation"),
            false => ("query_changes", "NULL::pg_catalog.oid"),
        };
        format!(
            "SELECT c.position, pg_catalog.to_char(c.committed, 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), c.table_name, c.kind, \
             c.partition_key, c.row_key, pg_catalog.to_char(c.timestamp, 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), {bags}, {relation} \
             FROM table_service.{function}($1::pg_catalog.text, $2::pg_catalog.int8) AS c"
        )
    }
}

/// A change, as `query_changes` returns it.
#[derive(Serialize)]
pub struct Change {
    pub position: String,
    pub committed: String,
    #[serde(rename = "table_name")]
    pub table: String,
    pub kind: String,
    pub partition_key: Option<String>,
    pub row_key: Option<String>,
    pub timestamp: Option<String>,
    pub properties: Option<Box<RawValue>>,
    pub old_properties: Option<Box<RawValue>>,
    /// The table's OID, if the feed tells it and was asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relation: Option<u32>,
}

impl Change {
    /// The beginning of every line.
    pub const BEGINNING: &str = "{\"position\":";

    fn read(row: &Row) -> Result<Change, SqlError> {
        let bag = |column| {
            let json: Option<String> = row.try_get(column)?;
            let read = json.map(RawValue::from_string).transpose();
            read.map_err(|error| SqlError::ForEver(error.to_string()))
        };
        Ok(Change {
            position: row.try_get(0)?,
            committed: row.try_get(1)?,
            // A mark is of no table.
            table: row.try_get::<_, Option<String>>(2)?.unwrap_or_default(),
            kind: row.try_get(3)?,
            partition_key: row.try_get(4)?,
            row_key: row.try_get(5)?,
            timestamp: row.try_get(6)?,
            properties: bag(7)?,
            old_properties: bag(8)?,
            relation: row.try_get(9)?,
        })
    }

    /// Returns why changes of the table cannot be read from here on, if this says so in their place.
    pub fn gap(&self) -> Option<String> {
        self.said("gap", "Reason")
    }

    /// Returns the text that a reader of the feed has written, if it is one.
    pub fn mark(&self) -> Option<String> {
        self.said("mark", "Mark")
    }

    /// Returns the name that a table had before it got another one.
    pub fn name_before(&self) -> Option<String> {
        self.said("rename", "Before")
    }

    fn said(&self, kind: &str, property: &str) -> Option<String> {
        let text = |json: &RawValue| {
            let bag: serde_json::Value = serde_json::from_str(json.get()).ok()?;
            Some(bag.get(property)?.as_str()?.to_owned())
        };
        (self.kind == kind).then(|| self.properties.as_deref().and_then(text).unwrap_or_default())
    }

    /// A text that no other transaction's change has, and that stays the same with each version of the extension.
    pub fn identity(&self) -> String {
        let key = (&self.partition_key, &self.row_key, &self.timestamp);
        format!(
            "{} {} {:?} {key:?} {:?}",
            self.committed,
            self.kind,
            self.relation,
            self.mark()
        )
    }

    /// Appends the change as a line of JSON, with the names of `query_changes`.
    pub fn append_line(&self, line: &mut Vec<u8>) {
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(&mut *line, self);
        line.push(b'\n');
    }
}

/// An event in a page of the feed.
pub enum Event {
    Change(Box<Change>),
    /// The database was away, and the page comes again from its beginning.
    Again,
}

/// Where the entities of a table are, and which of them have not expired.
pub struct StoredTable {
    relation: Relation,
    /// The condition of [`alive`].
    alive: String,
}

/// A change feed of a database.
#[derive(Clone)]
pub struct ChangeFeed {
    pub database: Database,
    pub name: String,
}

impl ChangeFeed {
    /// The feed of a name, which need not be there.
    pub fn new(database: Database, name: &str) -> ChangeFeed {
        ChangeFeed {
            database,
            name: name.to_owned(),
        }
    }

    /// Sends the changes that are not confirmed, at least `top` and so many that the last transaction is whole, and returns the position to
    /// confirm; `None` if there are no changes. It ends with an error when nobody takes them: why that is, the taker says.
    pub async fn read(&self, images: Images, top: i64, events: Sender<Event>) -> Result<Option<String>, Failure> {
        let mut backoff = self.database.backoff();
        loop {
            match self.send(images, top, &events).await {
                Ok(last) => return Ok(last),
                Err(error) => self.database.wait(&mut backoff, &error).await?,
            }
            if events.send(Event::Again).await.is_err() {
                return Ok(None);
            }
        }
    }

    async fn send(&self, images: Images, top: i64, events: &Sender<Event>) -> Result<Option<String>, SqlError> {
        let read = async |client: &Connection| {
            let parameters: [&(dyn ToSql + Sync); 2] = [&self.name, &top];
            let stays = matches!(images, Images::New);
            if stays {
                client.batch_execute("BEGIN READ ONLY").await?;
            }
            // An archive and a copy that follows hold their tables by OIDs; for others the feed is as it was.
            let tells_relations = !matches!(images, Images::All) && client.has_functions_of_0_5;
            let mut rows = pin!(client.query_raw(&images.statement(tells_relations), parameters).await?);
            let mut last = None;
            while let Some(row) = rows.next().await {
                let change = Change::read(&row?)?;
                last = Some(change.position.clone());
                if events.send(Event::Change(Box::new(change))).await.is_err() {
                    // The connection has more to send, so it cannot be kept.
                    return Err(SqlError::ForEver("nobody takes the changes".to_owned()));
                }
            }
            if stays {
                client.batch_execute("COMMIT").await?;
            }
            Ok(last)
        };
        self.database.on_kept(read).await
    }

    /// Confirms the changes up to a position.
    pub async fn confirm(&self, position: &str) -> Result<(), Failure> {
        let statement = "SELECT table_service.confirm_changes($1::pg_catalog.text, $2::pg_catalog.text)::text";
        self.database.run(statement, &[&self.name, &position]).await
    }

    /// Makes the feed of these tables, unless it is there. The inner error says why the database cannot have one.
    pub async fn create(&self, tables: &[String]) -> Result<Result<(), String>, Failure> {
        let create = || async {
            match self.try_create(tables).await {
                Err(error) if error.code().is_some() && !error.is_passing() => Ok(Err(error.text())),
                tried => tried.map(Ok),
            }
        };
        self.database.again(create).await
    }

    async fn try_create(&self, tables: &[String]) -> Result<(), SqlError> {
        const CREATE: &str =
            "SELECT table_service.create_change_feed($1::pg_catalog.text, $2::pg_catalog.text[], false, true)";
        let client = self.database.connect().await?;
        if !client.has_functions_of_0_3 {
            return Err(SqlError::ForEver(
                "change feeds come with version 0.3.0 of the extension".to_owned(),
            ));
        }
        if self.is_in(&client, tables).await? {
            return Ok(());
        }
        // Without a table it is a feed of all that there are, which may be none.
        let tables = (!tables.is_empty()).then_some(tables);
        row(&client, CREATE, &[&self.name, &tables]).await.map_err(dropped)?;
        let version = row(&client, "SELECT current_setting('server_version_num')::int4", &[]).await?;
        if version.try_get::<_, i32>(0)? < 180_000 {
            // Transactions that were writing to other tables then could not be read. With the publication there, a new
            // slot has only changes that can be read.
            let statement = "SELECT count(pg_drop_replication_slot(slot_name)) FROM pg_replication_slots AS s, pg_database AS d \
                             WHERE d.datname = current_database() AND s.slot_name = 'table_service_' || d.oid || '_' || $1::text";
            row(&client, statement, &[&self.name]).await.map_err(dropped)?;
            row(&client, CREATE, &[&self.name, &tables]).await.map_err(dropped)?;
        }
        Ok(())
    }

    /// Adds a table to the feed, if it is not in it: the feed has all changes that others have not committed yet. Returns the OID of the table; `None`
    /// if it is not there.
    pub async fn add(&self, table: &str) -> Result<Option<u32>, Failure> {
        let add = async |client: &Connection| {
            let Some(relation) = self.database.relation(client, table).await? else {
                return Ok(None);
            };
            let add = async |name: &str| self.publish(client, name).await;
            let added = self.database.visiting(client, &relation, Access::ReadAlone, add).await;
            match added {
                Ok(()) => Ok(Some(relation.oid)),
                Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Err(SqlError::OfTable(format!(
                    "others write to it for too long: {}",
                    error.text()
                ))),
                // The feed is gone, and the table may be read.
                Err(error) if error.code() == Some(&SqlState::UNDEFINED_OBJECT) => Err(error),
                Err(error) => Err(error.of_table()),
            }
        };
        self.database.again(|| self.database.on_kept(add)).await
    }

    /// Adds a table to the publication of the feed, if it is not in it.
    pub async fn publish(&self, client: &Connection, table: &str) -> Result<(), SqlError> {
        const IS_IN: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_get_publication_tables($1::text) AS t \
                             WHERE t.relid = $2::text::regclass)";
        let publication = self.publication()?;
        let is_in = row(client, IS_IN, &[&publication, &table]).await?;
        if !is_in.try_get::<_, bool>(0)? {
            let statement = format!("ALTER PUBLICATION \"{publication}\" ADD TABLE {table}");
            client.batch_execute(&statement).await?;
        }
        Ok(())
    }

    /// The publication of the feed.
    pub fn publication(&self) -> Result<String, SqlError> {
        let feed = FeedName::parse(&self.name).map_err(|error| SqlError::ForEver(error.report()))?;
        Ok(feed.publication())
    }

    async fn is_in(&self, client: &Connection, tables: &[String]) -> Result<bool, SqlError> {
        if !client.has_functions_of_0_3 {
            return Ok(false);
        }
        let statement = "SELECT EXISTS (SELECT FROM table_service.query_change_feeds() AS f WHERE f.feed_name = $1::text \
                         AND f.table_names @> $2::text[] AND f.wal_status <> 'lost')";
        let found = row(client, statement, &[&self.name, &tables]).await.map_err(dropped)?;
        Ok(found.try_get(0)?)
    }

    /// Returns whether the feed is there and has all changes of these tables. A table that is dropped and created again is no longer
    /// in it.
    pub async fn is_whole(&self, tables: &[String]) -> Result<bool, Failure> {
        let work = async |client: &Connection| self.is_in(client, tables).await;
        self.database.again(|| self.database.on_kept(work)).await
    }

    /// The names and OIDs of all tables.
    pub async fn tables(&self) -> Result<Vec<(String, u32)>, Failure> {
        let statement = "SELECT table_name, relation::pg_catalog.oid FROM table_service.query_tables(NULL::pg_catalog.text, \
                         NULL::pg_catalog.int8, NULL::pg_catalog.text, NULL::table_service.properties)";
        let work = async |client: &Connection| {
            let found = rows(client, statement, &[], MOST_TABLES).await?;
            let table = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
            found.iter().map(table).collect()
        };
        self.database.again(|| self.database.on_kept(work)).await
    }

    /// The OIDs of all tables, by their names in lower case.
    pub async fn relations(&self) -> Result<BTreeMap<String, u32>, Failure> {
        let tables = self.tables().await?.into_iter();
        Ok(tables.map(|(name, oid)| (table_name::fold(&name), oid)).collect())
    }

    /// Drops the feed, or its remains. A database that cannot have one has none.
    pub async fn drop(&self) -> Result<(), Failure> {
        let work = || async {
            let client = self.database.connect().await?;
            if client.has_functions_of_0_3 {
                let statement = "SELECT table_service.drop_change_feed(feed_name, false)::text FROM table_service.query_change_feeds() \
                                 WHERE feed_name = $1::text";
                let done = client.query(statement, &[&self.name]).await;
                done.map_err(|error| dropped(error.into()))?;
            }
            Ok(())
        };
        self.database.again(work).await
    }

    /// Where a table's entities are; `None` if it is not there.
    pub async fn stored_table(&self, table: Known<'_>) -> Result<Option<StoredTable>, Failure> {
        let look = async |client: &Connection, relation: &Relation, _: &str| {
            let (relation, alive) = (relation.clone(), alive(client, &relation.table).await?);
            Ok(StoredTable { relation, alive })
        };
        self.database.at(table, Access::Read, look).await
    }

    /// Sends the entities of a table that have these keys, as they are now, some at a time. After a connection broke they come again
    /// from the first one. It ends early, without an error, when nobody takes them.
    pub async fn entities(
        &self,
        table: &StoredTable,
        keys: &[Key],
        batches: Sender<Vec<Record>>,
    ) -> Result<(), Failure> {
        let (partitions, rows_of): (Vec<&str>, Vec<&str>) = keys
            .iter()
            .map(|key| (key.partition_key.as_str(), key.row_key.as_str()))
            .unzip();
        let parameters: &[&(dyn ToSql + Sync)] = &[&partitions, &rows_of];
        let StoredTable { relation, alive } = table;
        let batches = &batches;
        let work = async |client: &Connection| {
            let read = async |name: &str| {
                let statement = format!(
                    "SELECT e.partition_key, e.row_key, e.\"timestamp\", e.properties FROM unnest($1::text[], $2::text[]) AS k (p, r) \
                     JOIN {name} AS e ON e.partition_key = k.p AND e.row_key = k.r WHERE {alive}"
                );
                let mut rows = pin!(client.query_raw(&statement, parameters.iter().copied()).await?);
                let (mut batch, mut bytes) = (Vec::new(), 0);
                while let Some(row) = rows.next().await {
                    let record = record(&row?)?;
                    bytes += record.weight();
                    batch.push(record);
                    if bytes >= CHUNK_BYTES {
                        bytes = 0;
                        if batches.send(std::mem::take(&mut batch)).await.is_err() {
                            return Ok(());
                        }
                    }
                }
                // Nobody takes them, or there are none.
                let _ = batches.send(batch).await;
                Ok(())
            };
            self.database.visiting(client, relation, Access::Read, read).await
        };
        self.database.again(|| self.database.on_kept(work)).await
    }
}

/// While another session drops a feed, one part of a statement finds it, and the next part does not. Another attempt
/// finds nothing.
fn dropped(error: SqlError) -> SqlError {
    match error.code() {
        Some(&SqlState::UNDEFINED_OBJECT) => SqlError::ForNow(error.text()),
        _ => error,
    }
}

fn record(row: &Row) -> Result<Record, SqlError> {
    let micros: Micros = row.try_get(2)?;
    let bag: Bag = row.try_get(3)?;
    Ok(Record {
        partition_key: row.try_get(0)?,
        row_key: row.try_get(1)?,
        timestamp: Ticks::from_postgres_micros(micros.0),
        properties: bag.0,
    })
}
