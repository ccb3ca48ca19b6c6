//! Create, delete, hold and list tables.

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use pgrx::spi::quote_identifier;
use table_service_model::table_filter::TableFilter;
use table_service_model::{Code, ContinuationToken, Error, table_name};

use super::results::Tables;
use crate::engine::{distribution, policies};
use crate::postgres::citus::is_table;
use crate::postgres::privileges::{current_role_name, may_create_in};
use crate::postgres::raised::rethrow_with;
use crate::postgres::{
    Call, DATA_SCHEMA, PropertiesArg, RegClass, Text, TextArg, Value, catalog, connect, has_sqlstate, hold_names,
    in_subtransaction, message, raising, rethrow, run_on_new_rows, settings,
};
use crate::storage::arguments::{prevent_if_read_only, required, top as checked_top};
use crate::storage::name::QualifiedName;
use crate::storage::names;
use crate::storage::result_set::ResultSet;
use crate::storage::table::{Table, TableLock, free_primary_key_name, not_found, same_name};

/// The fill factor of the tables. It leaves room on each page, so that an update can put the new version there (HOT).
const FILLFACTOR: u32 = 90;

/// How often `create_table` tries to create a table. If the name still collides then, an object that is no relation has it.
const CREATIONS: u32 = 5;

/// Creates a table of the service.
///
/// Raises `TableAlreadyExists` if the name exists in any case, unless `if_not_exists`, or if another object in
/// `table_service_data` has it. Raises `OutOfRangeInput`, `InvalidResourceName` or `InvalidInput` for an invalid name.
#[pg_extern]
fn create_table(table_name: Option<TextArg<'_>>, if_not_exists: default!(Option<bool>, "false")) -> RegClass {
    raising(|| {
        create(
            required("table_name", table_name)?.get(),
            required("if_not_exists", if_not_exists)?,
        )
    })
}

fn create(name: &str, if_not_exists: bool) -> Result<RegClass, Error> {
    table_name::check(name)?;
    distribution::require_coordinator("Tables are created")?;
    let exists = |table: Table| {
        if if_not_exists {
            Ok(RegClass(table.oid()))
        } else {
            Err(Error::TableAlreadyExists.of_table(table.name().name()))
        }
    };
    let mut in_the_way = String::new();
    for _ in 0..CREATIONS {
        if let Some(table) = Table::find(name)? {
            return exists(table);
        }
        let create = || {
            prevent_if_read_only(c"CREATE TABLE");
            hold_names();
            // Other sessions that create it, in any spelling, wait until this transaction has ended.
            names::wait_for(name);
            if let Some((relation, stored)) = names::spellings_of(name).into_iter().next() {
                return if is_table(relation) {
                    Ok(None)
                } else {
                    Err(names::is_taken_by(&stored))
                };
            }
            distribution::define(name, &definition(name, &free_primary_key_name(name)))?;
            Ok(names::relation_in_data_schema(name).and_then(Table::of))
        };
        match in_subtransaction(create) {
            Ok(Ok(Some(table))) => {
                policies::forget(&table);
                return Ok(RegClass(table.oid()));
            }
            Ok(done) => drop(done?),
            // A statement of another session created the table first, and may already have dropped it again: retry.
            Err(error) if is_name_collision(&error) => {
                in_the_way = message(&error).to_owned();
            }
            Err(error) if distribution::needs_own_transaction(name, &error) => {
                return Err(Error::NotImplemented {
                    reason: "On a Citus cluster, a table with so long a name is created in a transaction of its own, or before other statements in it".to_owned(),
                });
            }
            Err(error) if !may_create_in(catalog::data_schema()) => rethrow_with(error, &what_to_grant()),
            Err(error) => rethrow(error),
        }
        pgrx::check_for_interrupts!();
    }
    match Table::find(name)? {
        Some(table) => exists(table),
        None => Err(Error::TableNameTaken { reason: in_the_way }),
    }
}

/// Returns the hint for a role that may not create tables.
fn what_to_grant() -> String {
    format!(
        "The role may not create tables. The owner of the database can change that: GRANT CREATE ON SCHEMA {DATA_SCHEMA} TO {}.",
        quote_identifier(current_role_name())
    )
}

/// Returns the statements that create a table.
fn definition(name: &str, primary_key: &str) -> String {
    let table = QualifiedName::new(name.into());
    let primary_key = quote_identifier(primary_key);
    format!(
        "CREATE TABLE {table} OF table_service.entity (\
            partition_key WITH OPTIONS NOT NULL, \
            row_key WITH OPTIONS NOT NULL, \
            \"timestamp\" WITH OPTIONS NOT NULL DEFAULT pg_catalog.clock_timestamp(), \
            properties WITH OPTIONS NOT NULL, \
            CONSTRAINT {primary_key} PRIMARY KEY (partition_key, row_key), \
            CHECK (table_service.entity_is_valid(partition_key, row_key, \"timestamp\", properties))\
        ) WITH (fillfactor = {FILLFACTOR}); \
        ALTER TABLE {table} CLUSTER ON {primary_key}; \
        CREATE TRIGGER rising_timestamp BEFORE UPDATE ON {table} \
            FOR EACH ROW EXECUTE FUNCTION table_service.rising_timestamp()"
    )
}

/// Returns whether an error is one of those that concurrent creations of a table raise, in one spelling or in two.
fn is_name_collision(error: &CaughtError) -> bool {
    has_sqlstate(
        error,
        &[
            PgSqlErrorCode::ERRCODE_DUPLICATE_TABLE,
            PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION,
            PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT,
        ],
    )
}

/// Deletes a table of the service with all its entities, and returns whether it existed.
///
/// Raises `ResourceNotFound` if there is no such table, unless `if_exists`. Raises `OutOfRangeInput` or
/// `InvalidResourceName` for an invalid name.
#[pg_extern]
fn delete_table(table_name: Option<TextArg<'_>>, if_exists: default!(Option<bool>, "false")) -> bool {
    raising(|| {
        delete(
            required("table_name", table_name)?.get(),
            required("if_exists", if_exists)?,
        )
    })
}

fn delete(name: &str, if_exists: bool) -> Result<bool, Error> {
    table_name::check_form(name)?;
    distribution::require_coordinator("Tables are deleted")?;
    let absent = || {
        if if_exists {
            Ok(false)
        } else {
            Err(not_found(Error::TableToDeleteNotFound, name))
        }
    };
    if Table::find(name)?.is_none() {
        return absent();
    }
    prevent_if_read_only(c"DROP TABLE");
    let table = match Table::open_to_drop(name) {
        Ok(table) => table,
        // Another session dropped the table first.
        Err(error) if error.code() == Code::TableNotFound => return absent(),
        Err(error) => return Err(error),
    };
    match run_on_new_rows(&format!("DROP TABLE {}", table.name())) {
        Ok(()) => {
            policies::forget(&table);
            Ok(true)
        }
        Err(error) => rethrow(error),
    }
}

/// Returns the OID of a table. Until the transaction ends, its name leads to this table. With `relation` it must be that one.
///
/// Raises `TableNotFound`; `AuthorizationFailure` if the name leads to another table than `relation`, or if the caller has no
/// privilege on the table's entities.
#[pg_extern]
fn hold_table(table_name: Option<TextArg<'_>>, relation: default!(Option<pg_sys::Oid>, "NULL")) -> pg_sys::Oid {
    raising(|| {
        let table = Table::open(required("table_name", table_name)?.get(), TableLock::Read)?;
        let reason = if !table.has_any_right_to_entities() {
            "Holding a table needs a right to its entities".to_owned()
        } else if relation.is_some_and(|relation| relation != table.oid()) {
            format!(
                "The name \"{}\" leads to another table than before",
                table.name().name()
            )
        } else {
            return Ok(table.oid());
        };
        Err(Error::NotAuthorized { reason })
    })
}

/// Returns the tables of the service whose names pass a filter on `TableName`, ordered by their lower-case names.
///
/// With `top` it returns at most that many. If there are more, the last row has the continuation token. `parameters`
/// has the values of `@name` in the filter.
///
/// Raises `InvalidInput` for a negative `top` or a token that is not from `query_tables`, and the errors of filters.
#[pg_extern(stable, parallel_restricted)]
fn query_tables(
    filter: default!(Option<TextArg<'_>>, "NULL"),
    top: default!(Option<i64>, "NULL"),
    continuation_token: default!(Option<TextArg<'_>>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    call: Call<'_>,
) -> Tables {
    const SQL: &str = "\
        SELECT c.relname::pg_catalog.text, c.oid::pg_catalog.regclass, c.reloftype OPERATOR(pg_catalog.=) $2 \
        FROM pg_catalog.pg_class AS c \
        WHERE c.relnamespace OPERATOR(pg_catalog.=) $1 \
        AND (c.reloftype OPERATOR(pg_catalog.=) $2 OR c.reloftype OPERATOR(pg_catalog.=) 0 \
            AND c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p}')) \
        AND pg_catalog.lower(c.relname::pg_catalog.text COLLATE pg_catalog.\"C\") OPERATOR(pg_catalog.>=) $3 \
        ORDER BY pg_catalog.lower(c.relname::pg_catalog.text COLLATE pg_catalog.\"C\"), c.relname";
    raising(|| {
        let filter = TableFilter::parse(
            filter.map_or("", TextArg::get),
            parameters.map(|parameters| parameters.get()),
            settings::filter_dialect(),
        )?;
        let top = checked_top::<usize>(top)?;
        let from = continuation_token
            .map(|token| ContinuationToken::parse_table(token.get()))
            .transpose()?
            .unwrap_or_default();
        let from = Text::new(&from);
        connect(|spi| {
            let rows = spi.read(
                SQL,
                &[
                    Value::oid(catalog::data_schema()),
                    Value::oid(catalog::entity_type()),
                    from.value(),
                ],
            );
            let (mut page, mut next) = (Vec::<(TextArg<'_>, _)>::new(), None);
            for row in rows.iter() {
                // A user may have renamed a table to a name that the functions reject.
                let is_name =
                    |name: &[u8]| std::str::from_utf8(name).is_ok_and(|name| table_name::check_form(name).is_ok());
                if !row.text_bytes(1).is_some_and(is_name) {
                    continue;
                }
                let (Some(name), Some(relation)) = (row.text(1), row.relation(2)) else {
                    continue;
                };
                // A distributed table may be one of the service although it is not OF a type.
                if row.boolean(3) != Some(true) && !is_table(relation) {
                    continue;
                }
                if !filter.matches(name.get())? {
                    continue;
                }
                // Only a user's own DDL can make two spellings of one name. They stay on one page, because a token
                // represents both.
                let is_another = page.last().is_none_or(|(last, _)| !same_name(last.get(), name.get()));
                if is_another && top.is_some_and(|top| page.len() >= top) {
                    next = Some(name);
                    break;
                }
                page.push((name, relation));
            }
            let token = next.filter(|_| !page.is_empty()).map(|next| {
                let name = table_name::fold(next.get());
                Text::new(&ContinuationToken::Table { name }.encode())
            });
            let mut result = ResultSet::open(call);
            for (index, &(name, relation)) in page.iter().enumerate() {
                let token = token.as_ref().filter(|_| index + 1 == page.len());
                result.push([
                    Some(Value::text(name)),
                    Some(Value::regclass(relation)),
                    token.map(Text::value),
                ]);
            }
            Ok(Tables)
        })
    })
}
