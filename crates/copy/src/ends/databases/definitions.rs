//! Definitions of tables: access policies, property indexes, an expiry.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::Value;
use table_service_archive::{Definition, Expiry};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::failure::Failure;
use crate::records::MOST_TABLES;

use super::connect::{Connection, Database, SqlError, rows};
use super::visit::{Access, Known};

/// Policies show each role which access policies it may see. Nobody is waited for for long.
const BEGIN: &str = "BEGIN READ ONLY; SET LOCAL row_security = on; SET LOCAL lock_timeout = '2s'";
/// The definitions of all tables, or of one.
const LOOK: &str = "SELECT t.relation::oid, CASE WHEN has_table_privilege(t.relation, 'SELECT, INSERT, UPDATE, DELETE') \
                    THEN coalesce(p.policies::text, '[]') END, i.properties, e.properties, e.seconds \
                    FROM table_service.query_tables(NULL::text, NULL::int8, NULL::text, NULL::table_service.properties) AS t \
                    LEFT JOIN table_service.access_policies AS p ON p.relation = t.relation \
                    LEFT JOIN (SELECT table_name, array_agg(property ORDER BY property COLLATE \"C\") AS properties \
                    FROM table_service.query_property_indexes($2::text) WHERE is_valid GROUP BY table_name) AS i \
                    ON i.table_name = t.table_name \
                    LEFT JOIN (SELECT table_name, array_agg(property ORDER BY property COLLATE \"C\") AS properties, \
                    array_agg(extract(epoch FROM time_to_live)::int8 ORDER BY property COLLATE \"C\") AS seconds \
                    FROM table_service.query_expiry($2::text) WHERE is_valid GROUP BY table_name) AS e ON e.table_name = t.table_name \
                    WHERE $1::oid IS NULL OR t.relation::oid = $1::oid";

fn definition(row: &Row) -> Result<(u32, Definition), SqlError> {
    let policies: Option<&str> = row.try_get(1)?;
    let indexes: Option<Vec<String>> = row.try_get(2)?;
    let properties: Option<Vec<Option<String>>> = row.try_get(3)?;
    let seconds: Option<Vec<Option<i64>>> = row.try_get(4)?;
    let expiry = properties
        .unwrap_or_default()
        .into_iter()
        .zip(seconds.unwrap_or_default());
    let definition = Definition {
        policies: policies.and_then(|json| serde_json::from_str(json).ok()),
        indexes: indexes.unwrap_or_default(),
        expiry: expiry.map(|(property, seconds)| Expiry { property, seconds }).collect(),
    };
    Ok((row.try_get(0)?, definition))
}

/// Returns `None` for an error that is a matter of one table: it does not stop the others.
fn unless_of_table<T>(looked: Result<T, SqlError>) -> Result<Option<T>, SqlError> {
    match looked {
        Err(error) if !error.is_passing() || error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(None),
        looked => looked.map(Some),
    }
}

impl Database {
    /// Definitions that differ from the known ones, by OID; without tables that are locked or cannot be visited.
    pub async fn other_definitions(
        &self,
        known: &HashMap<u32, Option<Definition>>,
    ) -> Result<Vec<(u32, Definition)>, Failure> {
        let look = async |client: &Connection| {
            client.batch_execute(BEGIN).await?;
            let found = rows(client, LOOK, &[&None::<u32>, &None::<&str>], MOST_TABLES).await?;
            client.batch_execute("COMMIT").await?;
            found.iter().map(definition).collect::<Result<Vec<_>, _>>()
        };
        let look_or_not = || async { unless_of_table(self.on_kept(look).await) };
        let is_other = |(oid, definition): &(u32, Definition)| {
            known.get(oid).is_some_and(|known| known.as_ref() != Some(definition))
        };
        let mut others: Vec<u32> = match self.again(look_or_not).await? {
            Some(found) => found.into_iter().filter(is_other).map(|(oid, _)| oid).collect(),
            // Each is asked for itself.
            None => known.keys().copied().collect(),
        };
        others.sort_unstable();
        let mut found = Vec::new();
        for oid in others {
            // Names belong to tables while these are locked.
            let look = async |client: &Connection| {
                let Some(relation) = self.known_relation(client, Known::ByOid(oid)).await? else {
                    return Ok(None);
                };
                client.batch_execute(BEGIN).await?;
                self.visit(client, &relation, Access::Read).await?;
                let parameters: [&(dyn ToSql + Sync); 2] = [&Some(oid), &Some(&relation.table)];
                let found = rows(client, LOOK, &parameters, 1).await?;
                client.batch_execute("COMMIT").await?;
                found.first().map(definition).transpose()
            };
            let look_or_not = || async { unless_of_table(self.on_kept(look).await) };
            found.extend(self.again(look_or_not).await?.flatten().filter(is_other));
        }
        Ok(found)
    }

    /// Makes a table with its access policies, property indexes and expiry, in one transaction: nobody else sees the
    /// table before it has them, so no other table has its name meanwhile. Returns the parts that it could not get, and
    /// why; `None` if the table was there.
    pub async fn create_defined(&self, table: &str, definition: &Definition) -> Result<Option<Vec<String>>, Failure> {
        const CREATE: &str = "SELECT table_service.create_table($1::pg_catalog.text, false)";
        const POLICIES: &str =
            "SELECT table_service.set_access_policies($1::pg_catalog.text, $2::pg_catalog.text::pg_catalog.json)";
        const INDEX: &str =
            "SELECT table_service.create_property_index($1::pg_catalog.text, $2::pg_catalog.text, false)";
        const EXPIRY: &str = "SELECT table_service.set_expiry($1::pg_catalog.text, $2::pg_catalog.text, \
                              $3::pg_catalog.int8 * pg_catalog.interval '1 second', false)";
        // After a commit without an answer the table is there.
        let made = Mutex::new(None);
        let make = async |client: &Connection| {
            if self.relation(client, table).await?.is_some() {
                return Ok(());
            }
            client.batch_execute("BEGIN").await?;
            match client.query(CREATE, &[&table]).await.map_err(SqlError::from) {
                Err(error) if error.code() == Some(&SqlState::DUPLICATE_TABLE) => {
                    return Ok(client.batch_execute("ROLLBACK").await?);
                }
                created => drop(created?),
            }
            let policies = definition.some_policies().map(Value::to_string);
            let mut undone = Vec::new();
            let mut parts: Vec<(String, &str, Vec<&(dyn ToSql + Sync)>)> = Vec::new();
            parts.extend(
                policies
                    .iter()
                    .map(|json| ("its access policies".to_owned(), POLICIES, vec![json as _])),
            );
            let indexes = definition.indexes.iter();
            parts.extend(indexes.map(|name| (format!("the property index on {name:?}"), INDEX, vec![name as _])));
            for Expiry { property, seconds } in &definition.expiry {
                parts.push(("the expiry".to_owned(), EXPIRY, vec![property, seconds]));
            }
            for (part, statement, parameters) in parts {
                let parameters = [&[&table as _], parameters.as_slice()].concat();
                client.batch_execute("SAVEPOINT part").await?;
                match client.query(statement, &parameters).await.map_err(SqlError::from) {
                    Err(error) if !error.is_passing() && error.code().is_some() => {
                        client.batch_execute("ROLLBACK TO SAVEPOINT part").await?;
                        undone.push(format!("{part}: {}", self.failure(&error)));
                    }
                    done => drop(done?),
                }
            }
            *made.lock() = Some(undone);
            client.batch_execute("COMMIT").await?;
            Ok(())
        };
        self.again(|| self.on_kept(make)).await?;
        Ok(made.into_inner())
    }
}
