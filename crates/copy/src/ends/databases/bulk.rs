//! Entities of a database that a filter selects: counted, or deleted in steps that commit for themselves.
//!
//! A database of 0.3.0 has functions for both. In an older one a page of keys is read, and one statement deletes those that
//! still pass the filter, which it tests under their locks.

use crate::failure::Failure;
use crate::records::Position;

use super::connect::{Connection, Database, SqlError, row, rows};
use super::visit::{Access, Known, Relation};

/// How many entities a step deletes at most.
pub const LARGEST_STEP: usize = 1000;

/// The condition of a filter in SQL, on a table with the alias `e`.
async fn condition(client: &Connection, filter: Option<&str>) -> Result<String, SqlError> {
    const STATEMENT: &str =
        "SELECT table_service.filter_to_sql($1::pg_catalog.text, 'e'::pg_catalog.text, NULL::table_service.properties)";
    let condition = row(client, STATEMENT, &[&filter.unwrap_or("true")]).await?;
    Ok(condition.try_get(0)?)
}

fn no_table(database: &Database, table: &str) -> Failure {
    Failure::of_table(format!("{}: there is no table {table}.", database.name))
}

/// How many entities of a table pass a filter.
pub async fn count(database: &Database, table: &str, filter: Option<&str>) -> Result<usize, Failure> {
    const COUNT: &str =
        "SELECT table_service.count_entities($1::pg_catalog.text, $2::pg_catalog.text, NULL::table_service.properties)";
    let count = async |client: &Connection, _: &Relation, name: &str| {
        let counted = if client.has_functions_of_0_3 {
            row(client, COUNT, &[&table, &filter]).await?
        } else {
            let condition = condition(client, filter).await?;
            let statement = format!("SELECT pg_catalog.count(*) FROM {name} AS e WHERE {condition}");
            row(client, &statement, &[]).await?
        };
        Ok(usize::try_from(counted.try_get::<_, i64>(0)?).unwrap_or_default())
    };
    let counted = database.at(Known::ByName(table), Access::Read, count).await?;
    counted.ok_or_else(|| no_table(database, table))
}

/// Deletes the entities of a table that pass a filter.
pub struct SqlDeleter<'a> {
    database: &'a Database,
    table: &'a str,
    filter: Option<&'a str>,
    /// How many entities a step deletes.
    most: usize,
    session: Option<Session>,
    position: Option<Position>,
    /// Whether an answer did not come, so that more may be deleted than was counted.
    pub is_uncertain: bool,
}

struct Session {
    client: Connection,
    relation: Relation,
    /// The condition of the filter, in a database that has no steps.
    condition: Option<String>,
}

/// The outcome of a step.
pub struct Step {
    /// Those that were found.
    pub read: u64,
    pub deleted: u64,
    pub position: Position,
}

impl<'a> SqlDeleter<'a> {
    /// Deletes from a position on, at most so many entities in a step.
    pub fn new(
        database: &'a Database,
        table: &'a str,
        filter: Option<&'a str>,
        most: usize,
        position: Option<Position>,
    ) -> SqlDeleter<'a> {
        SqlDeleter {
            database,
            table,
            filter,
            most,
            session: None,
            position,
            is_uncertain: false,
        }
    }

    /// The next step, which may have found nothing; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Step>, Failure> {
        if self.position == Some(Position::End) {
            return Ok(None);
        }
        let mut backoff = self.database.backoff();
        loop {
            match self.try_step().await {
                Ok(Some(step)) => {
                    self.position = Some(step.position.clone());
                    return Ok(Some(step));
                }
                Ok(None) => return Err(no_table(self.database, self.table)),
                Err(error) => self.database.wait(&mut backoff, &error).await?,
            }
        }
    }

    /// Repeating it is harmless: a deleted entity is not found again. A session in which it fails is not used again.
    async fn try_step(&mut self) -> Result<Option<Step>, SqlError> {
        let session = match self.session.take() {
            Some(session) => session,
            None => match self.open().await? {
                Some(session) => session,
                None => return Ok(None),
            },
        };
        let Session {
            client,
            relation,
            condition,
        } = &session;
        let work = async |name: &str| match condition {
            None => self.call(client).await,
            Some(condition) => self.page(client, name, condition).await,
        };
        let done = self.database.visiting(client, relation, Access::Write, work).await;
        match &done {
            Ok(_) => self.session = Some(session),
            Err(error) => self.is_uncertain |= error.code().is_none(),
        }
        done.map(Some)
    }

    async fn open(&self) -> Result<Option<Session>, SqlError> {
        let client = self.database.connect().await?;
        let Some(relation) = self.database.relation(&client, self.table).await? else {
            return Ok(None);
        };
        let condition = if client.has_functions_of_0_3 {
            None
        } else {
            client
                .batch_execute("SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off")
                .await?;
            Some(condition(&client, self.filter).await?)
        };
        Ok(Some(Session {
            client,
            relation,
            condition,
        }))
    }

    /// Deletes by a function of the extension. A position of the other kind, which a resume file has kept, is the beginning.
    async fn call(&self, client: &Connection) -> Result<Step, SqlError> {
        const STEP: &str = "SELECT deleted, continuation_token FROM table_service.delete_entities_step(\
                            $1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.int8, $4::pg_catalog.text, \
                            NULL::table_service.properties)";
        let token = match &self.position {
            Some(Position::Step(token)) => Some(token),
            _ => None,
        };
        let (filter, top) = (self.filter.unwrap_or("true"), self.top());
        let row = row(client, STEP, &[&self.table, &filter, &top, &token]).await?;
        let deleted = u64::try_from(row.try_get::<_, i64>(0)?).unwrap_or_default();
        let next: Option<String> = row.try_get(1)?;
        Ok(Step {
            read: deleted,
            deleted,
            position: next.map_or(Position::End, Position::Step),
        })
    }

    /// Deletes the entities of a page in a relation.
    async fn page(&self, client: &Connection, name: &str, condition: &str) -> Result<Step, SqlError> {
        const PAGE: &str = "SELECT partition_key, row_key, continuation_token FROM table_service.query_page(\
                            $1::pg_catalog.text, $2::pg_catalog.text, 'PartitionKey,RowKey'::pg_catalog.text, \
                            $3::pg_catalog.int8, $4::pg_catalog.text, NULL::table_service.properties)";
        let token = match &self.position {
            Some(Position::Page(token)) => Some(token),
            _ => None,
        };
        let (mut partition_keys, mut row_keys, mut next) = (Vec::new(), Vec::new(), None);
        let top = self.top();
        for row in rows(client, PAGE, &[&self.table, &self.filter, &top, &token], self.most).await? {
            let keys: (Option<String>, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
            if let (Some(partition_key), Some(row_key)) = keys {
                partition_keys.push(partition_key);
                row_keys.push(row_key);
            }
            next = row.try_get::<_, Option<String>>(2)?.or(next);
        }
        let statement = format!(
            "DELETE FROM {name} AS e \
             USING ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) AS k(partition_key, row_key) \
             WHERE e.partition_key = k.partition_key COLLATE \"C\" AND e.row_key = k.row_key COLLATE \"C\" AND {condition}"
        );
        let deleted = if partition_keys.is_empty() {
            0
        } else {
            client.execute(&statement, &[&partition_keys, &row_keys]).await?
        };
        Ok(Step {
            read: partition_keys.len() as u64,
            deleted,
            position: next.map_or(Position::End, Position::Page),
        })
    }

    fn top(&self) -> i64 {
        i64::try_from(self.most).unwrap_or(i64::MAX)
    }
}
