//! Which code a database may run with this program's rights.
//!
//! PostgreSQL plans and runs code that the owner of a table keeps with it: expressions of indexes, triggers, policies, CHECKs, foreign keys. So a
//! table is visited only if all of that belongs to roles that gain nothing by it, or that the user has named with `--trust-owners`. Every
//! statement on a table has the name of its relation from [`Database::visit`], which looks, in the same transaction and under a lock.

use table_service_model::table_name;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, Row};

use crate::failure::Failure;

use super::connect::{Connection, Database, LOCK_TIMEOUT, SqlError, row, rows};
use super::owners::of_table;

/// Where the entities of a table are. Only a visit shows the name.
#[derive(Clone)]
pub struct Relation {
    /// Quoted.
    name: String,
    pub oid: u32,
    /// The name of the table.
    pub table: String,
}

/// The name or the OID by which a table is looked up.
#[derive(Debug, Clone, Copy)]
pub enum Known<'t> {
    ByName(&'t str),
    ByOid(u32),
}

/// The access of a visit to a table.
#[derive(Debug, Clone, Copy)]
pub enum Access {
    Read,
    Write,
    /// Nobody else writes meanwhile.
    ReadAlone,
}

impl Database {
    /// The relation of a table; `None` if it is not there.
    pub async fn relation(&self, client: &Client, table: &str) -> Result<Option<Relation>, SqlError> {
        self.known_relation(client, Known::ByName(table)).await
    }

    /// The relation of a table; `None` if it is not there.
    pub async fn known_relation(&self, client: &Client, table: Known<'_>) -> Result<Option<Relation>, SqlError> {
        const FIND: &str = "SELECT relation::pg_catalog.text, relation::pg_catalog.oid, table_name \
                            FROM table_service.query_tables(NULL::pg_catalog.text, \
                            NULL::pg_catalog.int8, NULL::pg_catalog.text, NULL::table_service.properties) \
                            WHERE lower(table_name COLLATE \"C\") = lower($1::pg_catalog.text COLLATE \"C\") \
                            OR relation::pg_catalog.oid = $2::pg_catalog.oid LIMIT 2";
        let (name, oid) = match table {
            Known::ByName(name) if table_name::check_form(name).is_err() => return Ok(None),
            Known::ByName(name) => (Some(name), None),
            Known::ByOid(oid) => (None, Some(oid)),
        };
        let found = rows(client, FIND, &[&name, &oid], 2).await?;
        if found.len() > 1 {
            let names: Result<Vec<String>, _> = found.iter().map(|row| row.try_get(0)).collect();
            let problem = format!(
                "tables share its name: {}. Rename or drop all but one",
                names?.join(", ")
            );
            return Err(SqlError::OfTable(problem));
        }
        let relation = |row: &Row| -> Result<Relation, SqlError> {
            Ok(Relation {
                name: row.try_get(0)?,
                oid: row.try_get(1)?,
                table: row.try_get(2)?,
            })
        };
        let found = found.first().map(relation).transpose()?;
        // A snapshot may have a table that was dropped since. It has no name then, only a number.
        Ok(found.filter(|relation| relation.name.contains('.')))
    }

    /// Locks a table in the transaction of the client, so that its owner stays and nobody adds code to it, and looks whose code it has.
    /// Returns its quoted name, for statements of this transaction.
    pub async fn visit<'a>(
        &self,
        client: &Client,
        relation: &'a Relation,
        access: Access,
    ) -> Result<&'a str, SqlError> {
        const HELD: &str = "SELECT $1::pg_catalog.text::pg_catalog.regclass::pg_catalog.oid";
        let Relation { name, oid, .. } = relation;
        let mode = match access {
            Access::Read => "ACCESS SHARE",
            Access::Write => "ROW EXCLUSIVE",
            Access::ReadAlone => "SHARE",
        };
        let locked = client.batch_execute(&format!("LOCK TABLE {name} IN {mode} MODE")).await;
        // A writer that waits holds nothing, so it tries again for as long as the user says.
        let is_busy = |error: &Error| error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE);
        if matches!(access, Access::Read) && locked.as_ref().is_err_and(is_busy) {
            return Err(SqlError::OfTable(format!(
                "another session has locked {name}, and has not given it back within {LOCK_TIMEOUT} seconds"
            )));
        }
        locked?;
        // Until it was locked, another table could get the name.
        if row(client, HELD, &[name]).await?.try_get::<_, u32>(0)? != *oid {
            return Err(SqlError::OfTable(format!(
                "{name} is another table now than the one that was found"
            )));
        }
        // The client's transaction may have a snapshot in which a table still belongs to somebody else.
        let check = async |now: &Connection| self.check_owners(now, &of_table(), &[name]).await;
        self.on_kept(check).await?;
        Ok(name)
    }

    /// Finds a table and does something with it in a transaction of its own, again while the database is away. Returns
    /// `None` if there is no such table.
    ///
    /// # Errors
    /// As for [`Database::visit`]; errors of the work.
    pub async fn at<T>(
        &self,
        table: Known<'_>,
        access: Access,
        work: impl AsyncFn(&Connection, &Relation, &str) -> Result<T, SqlError>,
    ) -> Result<Option<T>, Failure> {
        let at = async |client: &Connection| {
            let Some(relation) = self.known_relation(client, table).await? else {
                return Ok(None);
            };
            let work = async |name: &str| work(client, &relation, name).await;
            self.visiting(client, &relation, access, work).await.map(Some)
        };
        self.again(|| self.on_kept(&at)).await
    }

    /// Does something with a table in a transaction of its own. After an error the client cannot be used any more.
    ///
    /// # Errors
    /// As for [`Database::visit`]; errors of the work.
    pub async fn visiting<T>(
        &self,
        client: &Client,
        relation: &Relation,
        access: Access,
        work: impl AsyncFnOnce(&str) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        client.batch_execute("BEGIN").await?;
        let done = work(self.visit(client, relation, access).await?).await?;
        client.batch_execute("COMMIT").await?;
        Ok(done)
    }
}
