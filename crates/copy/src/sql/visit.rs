//! Whose code a database may run with this program's rights.
//!
//! PostgreSQL plans and runs code that the owner of a table keeps with it: expressions of indexes, triggers, policies, CHECKs, foreign keys. So a
//! table is visited only if all of that belongs to roles that gain nothing by it, or that the user has named with `--trust-owners`. Every
//! statement on a table has the name of its relation from [`Database::visit`], which looks, in the same transaction and under a lock.

use table_service_model::table_name;
use tokio_postgres::{Client, Row};

use super::connect::{Connection, Database, SqlError, rows};
use super::owners::of_table;

/// Where the entities of a table are. Only a visit shows the name.
pub struct Relation {
    /// Quoted.
    name: String,
}

/// What a visit does with a table.
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
        const FIND: &str = "SELECT relation::pg_catalog.text FROM table_service.query_tables(NULL::pg_catalog.text, \
                            NULL::pg_catalog.int8, NULL::pg_catalog.text, NULL::table_service.properties) \
                            WHERE lower(table_name COLLATE \"C\") = lower($1::pg_catalog.text COLLATE \"C\")";
        if table_name::check_form(table).is_err() {
            return Ok(None);
        }
        let found = rows(client, FIND, &[&table], 1).await?;
        let relation = |row: &Row| Ok(Relation { name: row.try_get(0)? });
        found.first().map(relation).transpose()
    }

    /// Locks a table in the transaction of the client, so that its owner stays and nobody adds code to it, and looks whose code it has.
    /// Returns its quoted name, for statements of this transaction.
    pub async fn visit<'a>(
        &self,
        client: &Client,
        relation: &'a Relation,
        access: Access,
    ) -> Result<&'a str, SqlError> {
        let Relation { name } = relation;
        let mode = match access {
            Access::Read => "ACCESS SHARE",
            Access::Write => "ROW EXCLUSIVE",
            Access::ReadAlone => "SHARE",
        };
        client
            .batch_execute(&format!("LOCK TABLE {name} IN {mode} MODE"))
            .await?;
        // The client's transaction may have a snapshot in which a table still belongs to somebody else.
        let check = async |now: &Connection| self.check_owners(now, &of_table(), &[name]).await;
        self.on_kept(check).await?;
        Ok(name)
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
