//! Tables on a Citus cluster: distributed by PartitionKey, so that all entities of a partition are on one server.

use std::time::{Duration, Instant};

use pgrx::pg_sys::panic::CaughtError;
use pgrx::spi::quote_literal;
use pgrx::{PgSqlErrorCode, pg_sys};
use table_service_model::Error;

use super::policies;
use crate::postgres::guc::distributing;
use crate::postgres::visit::{refuse_foreign_code, refuse_foreign_code_of_own};
use crate::postgres::waiting::{patience, wait};
use crate::postgres::{
    ColocationLock, Connection, Refused, TextArg, Value, catalog, citus, connect, has_sqlstate, message,
};
use crate::storage::name::QualifiedName;
use crate::storage::names::relation_in_data_schema;
use crate::storage::table::{SHARDED_NAME_BYTES, Table, TableLock};

/// The longest time that a definition waits for shards that move.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// The largest number of shards that Citus makes of a table.
const SHARDS: i32 = 64_000;

/// Checks that this server is not a worker of a cluster. `what` says which work is done only elsewhere.
///
/// # Errors
/// `NotImplemented`.
pub fn require_coordinator(what: &str) -> Result<(), Error> {
    if citus::is_worker() {
        return Err(Error::NotImplemented {
            reason: format!("{what} on the coordinator of the Citus cluster. This server is one of its workers"),
        });
    }
    Ok(())
}

/// Checks that Citus is in this database, that it is new enough, and that this server is not a worker.
fn require_citus(function: &str) -> Result<(), Error> {
    let reason = match citus::major_version() {
        None => {
            "Citus is not in this database. Install it on every server of the cluster, then: CREATE EXTENSION citus"
                .to_owned()
        }
        Some(major) if major < citus::MINIMUM_MAJOR => format!(
            "Tables of the service need Citus {} or later, and this database has Citus {major}",
            citus::MINIMUM_MAJOR
        ),
        Some(_) => return require_coordinator(&format!("{function} is called")),
    };
    Err(Error::NotImplemented { reason })
}

/// Returns whether Citus can create the shards of the table in parallel. For long names it would wait for itself.
fn is_parallel(name: &str) -> bool {
    name.len() <= SHARDED_NAME_BYTES
}

/// Runs a definition that creates a table, and distributes the table if new tables are distributed.
///
/// # Errors
/// `ServerBusy` if a shard moves for longer than the call may wait.
pub fn define(name: &str, definition: &str) -> Result<(), Error> {
    let Some(anchor) = citus::anchor() else {
        connect(|spi| spi.run_definition(definition));
        return Ok(());
    };
    wait_for_moves(anchor)?;
    distributing(!is_parallel(name), || {
        connect(|spi| {
            spi.run_definition(definition);
            distribute(spi, &QualifiedName::new(name.into()));
        });
    });
    Ok(())
}

/// Waits until no shard of the service's tables moves or is split, and keeps them so until the transaction ends. Citus
/// does not wait. The lock is only tried: moves that begin meanwhile would fail if a session waited for it.
fn wait_for_moves(anchor: pg_sys::Oid) -> Result<(), Error> {
    let Some(lock) = connect(|spi| ColocationLock::of(spi, anchor)) else {
        return Ok(());
    };
    let (begun, patience) = (Instant::now(), patience(LONGEST_WAIT));
    while !lock.try_take() {
        if begun.elapsed() >= patience {
            return Err(Error::ShardsMove);
        }
        wait(BETWEEN_TRIES);
    }
    Ok(())
}

/// Returns whether an error of [`define`] is Citus' error for a long name in a transaction that has run statements in
/// parallel. Citus has no SQLSTATE for it.
pub fn needs_own_transaction(name: &str, error: &CaughtError) -> bool {
    !is_parallel(name)
        && citus::is_enabled()
        && has_sqlstate(error, &[PgSqlErrorCode::ERRCODE_INTERNAL_ERROR])
        && message(error).contains("in sequential mode")
}

/// Distributes a table, with its entities.
fn distribute(spi: &Connection, table: &QualifiedName) {
    spi.run_definition(&format!(
        "SELECT pg_catalog.create_distributed_table(\
            {}::pg_catalog.regclass, 'partition_key', colocate_with => 'table_service.citus_anchor')",
        quote_literal(table.to_string())
    ));
}

/// Distributes all tables of the service, and from now on all new tables.
///
/// # Errors
/// `NotImplemented` without Citus, and `InvalidInput` for a number of shards that Citus does not make.
pub fn enable(shard_count: i32) -> Result<(), Error> {
    require_citus("enable_citus")?;
    if !(1..=SHARDS).contains(&shard_count) {
        return Err(Error::argument(format!("shard_count is 1 to {SHARDS}")));
    }
    if let Some(properties) = local_properties() {
        let allowed = refuse_foreign_code_of_own(properties);
        allowed.map_err(|refused| not_as_caller("table_service.service_properties", refused))?;
    }
    // Before the tables are locked: their writers do not wait for the moves.
    if let Some(anchor) = citus::anchor() {
        wait_for_moves(anchor)?;
    }
    let moved = connect(|spi| to_move(spi, |table| !table.is_distributed()))?;
    // In sequence for all names: Citus does not turn from parallel to sequential in a transaction.
    distributing(true, || {
        connect(|spi| {
            if !citus::is_enabled() {
                make_anchor(spi, shard_count);
            }
            for table in moved {
                distribute(spi, table.name());
                spi.run_definition(&format!(
                    "SELECT pg_catalog.truncate_local_data_after_distributing_table({}::pg_catalog.regclass)",
                    quote_literal(table.name().to_string())
                ));
            }
        });
    });
    Ok(())
}

/// Makes the table that says how many shards the tables of the service have, and where they are. It has no rows.
fn make_anchor(spi: &Connection, shard_count: i32) {
    spi.run_definition(
        "CREATE TABLE table_service.citus_anchor (partition_key pg_catalog.text COLLATE pg_catalog.\"C\" PRIMARY KEY); \
        COMMENT ON TABLE table_service.citus_anchor IS 'The tables of the service are distributed as this one'",
    );
    spi.run_definition(&format!(
        "SELECT pg_catalog.create_distributed_table(\
            'table_service.citus_anchor', 'partition_key', colocate_with => 'none', shard_count => {shard_count})"
    ));
    if local_properties().is_some() {
        // Citus logs in as the owner of a table when it moves it, and no one can log in as pg_database_owner. The table
        // gets no owner above the owner of the database, who can replace the table.
        let owner = spi.read(
            "SELECT $1::pg_catalog.regrole::pg_catalog.text",
            &[Value::oid(catalog::database_owner())],
        );
        let owner = owner
            .first()
            .and_then(|row| row.text(1))
            .map_or("CURRENT_USER", TextArg::get);
        spi.run_definition(&format!(
            "ALTER TABLE table_service.service_properties OWNER TO {owner}; \
            GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE table_service.service_properties TO pg_database_owner"
        ));
        spi.run_definition("SELECT pg_catalog.create_reference_table('table_service.service_properties')");
    }
}

/// Makes all tables of the service tables of this server again, with their entities.
///
/// # Errors
/// `NotImplemented` without Citus.
pub fn disable() -> Result<(), Error> {
    require_citus("disable_citus")?;
    let moved = connect(|spi| to_move(spi, Table::is_distributed))?;
    distributing(true, || {
        connect(|spi| {
            for table in &moved {
                // Citus locks it on this server alone, and would lose writes on others. It passes this statement on.
                spi.run_definition(&format!("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE", table.name()));
            }
            for table in &moved {
                undistribute(spi, table);
            }
            if citus::is_enabled() {
                spi.run_definition("DROP TABLE table_service.citus_anchor");
            }
        });
    });
    Ok(())
}

/// Citus makes a new table, which is not OF a type and has another OID.
fn undistribute(spi: &Connection, table: &Table) {
    let name = table.name();
    spi.run_definition(&format!(
        "SELECT pg_catalog.undistribute_table({}::pg_catalog.regclass)",
        quote_literal(name.to_string())
    ));
    spi.run_definition(&format!("ALTER TABLE {name} OF table_service.entity"));
    if let Some(oid) = relation_in_data_schema(name.name()) {
        policies::carry_over(table.oid(), oid);
    }
}

/// Locks the tables of the service for which a test holds, and returns them. Citus moves their entities as the caller.
///
/// # Errors
/// `AuthorizationFailure` if others have put code into one of them.
fn to_move(spi: &Connection, is_moved: impl Fn(&Table) -> bool) -> Result<Vec<Table>, Error> {
    let all = tables(spi).into_iter().filter(is_moved);
    let own = |table: Table| {
        let table = table.lock(TableLock::Define)?;
        refuse_foreign_code(table.oid()).map_err(|refused| not_as_caller(&table.name().to_string(), refused))?;
        Ok(table)
    };
    all.map(own).collect()
}

/// Returns the table with the properties of the service, if Citus does not have it yet.
fn local_properties() -> Option<pg_sys::Oid> {
    catalog::own_relation(c"service_properties").filter(|properties| !citus::is_distributed(*properties))
}

fn not_as_caller(name: &str, refused: Refused) -> Error {
    Error::NotAuthorized {
        reason: format!("Citus would run code of the table {name} as the caller: {}", refused.0),
    }
}

/// Returns the tables of the service, without the parts of partitioned ones.
fn tables(spi: &Connection) -> Vec<Table> {
    const TABLES: &str = "\
        SELECT c.oid::pg_catalog.regclass \
        FROM pg_catalog.pg_class AS c \
        WHERE c.relnamespace OPERATOR(pg_catalog.=) $1 \
        AND c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p}') \
        AND NOT c.relispartition \
        ORDER BY c.oid";
    Table::all_in_catalog(&spi.read_catalogs(TABLES, &[Value::oid(catalog::data_schema())]))
}
