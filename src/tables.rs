//! The tables of the service: the relations in `table_service_data` that are `OF table_service.entity`. There is no
//! second catalog.

use std::ffi::{CStr, CString};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use md5::{Digest, Md5};
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use pgrx::spi::quote_identifier;
use table_service_model::table_filter::TableFilter;
use table_service_model::token::ContinuationToken;
use table_service_model::{Error, table_name};

use crate::access::forget_policies;
use crate::arguments::{prevent_if_read_only, required};
use crate::catalog;
use crate::error::OrRaise;
use crate::queries::top_out_of_range;
use crate::result_set::{ResultSet, Tables};
use crate::spi::{self, connect, with_row_security};
use crate::types::{PropertiesArg, RegClass, varlena};

const DATA_SCHEMA: &str = "table_service_data";

/// Updates find room for the new version on the same page (HOT) if a page is not packed full.
const FILLFACTOR: u32 = 90;

/// How often a name is tried that is neither free nor a table's: it is something else's if it stays so.
const CREATIONS: u32 = 5;

/// How many tables that hold each other's primary key names are set right at once.
const RENAMES: u32 = 100;

/// A table of the service as it is stored.
pub struct Table {
    oid: pg_sys::Oid,
    name: Rc<str>,
}

impl Table {
    pub fn oid(&self) -> pg_sys::Oid {
        self.oid
    }

    /// The name as it was first spelled.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Schema and name, quoted.
    pub fn qualified_name(&self) -> String {
        qualified(&self.name)
    }

    /// Whether a trigger may keep an entity from being inserted. The table is locked.
    pub fn has_insert_trigger(&self) -> bool {
        // SAFETY: the table is locked, and closed again; the part of its entry in the relation cache is there or NULL.
        unsafe {
            let relation = pg_sys::table_open(self.oid, pg_sys::NoLock as pg_sys::LOCKMODE);
            let has_trigger = (*relation)
                .trigdesc
                .as_ref()
                .is_some_and(|triggers| triggers.trig_insert_before_row);
            pg_sys::table_close(relation, pg_sys::NoLock as pg_sys::LOCKMODE);
            has_trigger
        }
    }

    /// Finds the table of this name in any case, and locks it as a statement that reads or writes it would, so that it
    /// is still there when the statement runs.
    ///
    /// # Errors
    /// `TableNotFound`.
    pub fn open(name: &str, access: Access) -> Result<Table, Error> {
        let lock = match access {
            Access::Read => pg_sys::AccessShareLock,
            Access::Write => pg_sys::RowExclusiveLock,
        } as pg_sys::LOCKMODE;
        loop {
            let table = Table::find(name).ok_or(Error::TableNotFound)?;
            // SAFETY: PostgreSQL's own way to open by name: if the catalogs changed while we waited for the lock, look
            // again.
            unsafe {
                let before = pg_sys::SharedInvalidMessageCounter;
                pg_sys::LockRelationOid(table.oid, lock);
                if before == pg_sys::SharedInvalidMessageCounter {
                    return Ok(table);
                }
                // It may be spelled differently now.
                if let Some(again) = Table::find(name).filter(|again| again.oid == table.oid) {
                    return Ok(again);
                }
                pg_sys::UnlockRelationOid(table.oid, lock);
            }
        }
    }

    /// Finds the table of this name in any case.
    fn find(name: &str) -> Option<Table> {
        let probe = || by_spelling(name).or_else(|| by_index(name));
        probe()
            .or_else(|| {
                // Another session may have committed it since this one last looked at what has changed.
                // SAFETY: a catalog look-up in a transaction may do so at any time; the counter is this process's own.
                let changed = unsafe {
                    let before = pg_sys::SharedInvalidMessageCounter;
                    pg_sys::AcceptInvalidationMessages();
                    before != pg_sys::SharedInvalidMessageCounter
                };
                if changed { probe() } else { None }
            })
            .or_else(|| by_scan(name))
    }
}

/// What a function does with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// The usual case: the name as it is stored.
fn by_spelling(name: &str) -> Option<Table> {
    let (name, oid) = catalog::table(name, || relation_in_data_schema(name).filter(|&oid| is_table(oid)))?;
    Some(Table { oid, name })
}

/// Another spelling: the primary key's name is made of the folded name.
fn by_index(name: &str) -> Option<Table> {
    let index = relation_in_data_schema(&primary_key_name(name))?;
    // SAFETY: the OID is that of a relation; for anything but an index the result is InvalidOid.
    let oid = unsafe { pg_sys::IndexGetRelation(index, true) };
    table_by_oid(oid).filter(|table| same_name(&table.name, name))
}

/// After a user's RENAME the primary key still has the old name. Also the way to say that there is no such table.
fn by_scan(name: &str) -> Option<Table> {
    let (entity, schema) = (catalog::entity_type(), catalog::data_schema());
    if entity == pg_sys::InvalidOid {
        return None;
    }
    // SAFETY: a scan of pg_class as it is now, whatever the snapshot of the transaction is. The tuples are its rows,
    // and what is opened is closed; an error closes it too.
    unsafe {
        let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        let relation = pg_sys::table_open(pg_sys::RelationRelationId, lock);
        let mut key = pg_sys::ScanKeyData::default();
        pg_sys::ScanKeyInit(
            &mut key,
            pg_sys::Anum_pg_class_reloftype as pg_sys::AttrNumber,
            pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
            pg_sys::RegProcedure::from(pg_sys::F_OIDEQ),
            entity.into(),
        );
        let scan = pg_sys::systable_beginscan(relation, pg_sys::InvalidOid, false, std::ptr::null_mut(), 1, &mut key);
        let mut found = None;
        while found.is_none() {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let class = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>();
            let stored = pgrx::name_data_to_str(&(*class).relname);
            if (*class).relnamespace == schema && same_name(stored, name) {
                found = Some(Table {
                    oid: (*class).oid,
                    name: stored.into(),
                });
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(relation, lock);
        found
    }
}

fn table_by_oid(oid: pg_sys::Oid) -> Option<Table> {
    // SAFETY: a syscache look-up; the name is a palloc'ed copy or NULL.
    let name = unsafe {
        let name = pg_sys::get_rel_name(oid);
        if name.is_null() {
            return None;
        }
        CStr::from_ptr(name).to_str().ok()?.into()
    };
    is_table(oid).then_some(Table { oid, name })
}

fn relation_in_data_schema(name: &str) -> Option<pg_sys::Oid> {
    if name.len() >= pg_sys::NAMEDATALEN as usize {
        return None;
    }
    let name = CString::new(name).ok()?;
    // SAFETY: a syscache look-up with a valid name.
    let oid = unsafe { pg_sys::get_relname_relid(name.as_ptr(), catalog::data_schema()) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// Whether the relation is `OF table_service.entity`.
fn is_table(oid: pg_sys::Oid) -> bool {
    // SAFETY: a syscache look-up; the tuple is released before the function returns.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::RELOID as i32, pg_sys::Datum::from(oid));
        if tuple.is_null() {
            return false;
        }
        let class = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>();
        let of_type = (*class).reloftype;
        pg_sys::ReleaseSysCache(tuple);
        of_type != pg_sys::InvalidOid && of_type == catalog::entity_type()
    }
}

fn same_name(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// One name for all spellings, so that two of them collide in `pg_class` whoever commits first.
fn primary_key_name(table: &str) -> String {
    format!("pk_{:x}", Md5::digest(table_name::fold(table)))
}

fn qualified(name: &str) -> String {
    format!("{DATA_SCHEMA}.{}", quote_identifier(name))
}

/// Creates a table of the service.
///
/// Raises `TableAlreadyExists` for a name that exists in any case, unless `if_not_exists`, and for one that something else
/// in `table_service_data` has; `OutOfRangeInput`, `InvalidResourceName` and `InvalidInput` for names that no table can
/// have.
#[pg_extern]
fn create_table(table_name: Option<&str>, if_not_exists: default!(Option<bool>, "false")) -> RegClass {
    create(table_name, if_not_exists).or_raise()
}

fn create(table_name: Option<&str>, if_not_exists: Option<bool>) -> Result<RegClass, Error> {
    let name = required("table_name", table_name)?;
    let if_not_exists = required("if_not_exists", if_not_exists)?;
    table_name::check(name)?;
    let exists = |table: Table| {
        if if_not_exists {
            Ok(RegClass(table.oid))
        } else {
            Err(Error::TableAlreadyExists)
        }
    };
    let definition = definition(name);
    let mut in_the_way = String::new();
    for _ in 0..CREATIONS {
        if let Some(table) = Table::find(name) {
            return exists(table);
        }
        let create = || {
            free_primary_key_name(name, RENAMES);
            connect(|spi| spi.run_definition(&definition));
            Ok::<_, Error>(())
        };
        match spi::in_subtransaction(AssertUnwindSafe(create)) {
            Ok(done) => {
                done?;
                let table = Table::find(name).ok_or(Error::TableNotFound)?;
                // OIDs come round again, and a plain DROP TABLE leaves the policies of the old one's table behind.
                with_row_security(|spi| forget_policies(spi, table.oid()));
                return Ok(RegClass(table.oid));
            }
            // Somebody else was faster, and may have deleted it again.
            Err(error) if is_name_collision(&error) => {
                in_the_way = spi::message(&error).to_owned();
            }
            Err(error) => error.rethrow(),
        }
        pgrx::check_for_interrupts!();
    }
    match Table::find(name) {
        Some(table) => exists(table),
        None => Err(Error::TableNameTaken { reason: in_the_way }),
    }
}

/// The statements that make a table.
fn definition(name: &str) -> String {
    let table = qualified(name);
    let primary_key = quote_identifier(primary_key_name(name));
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

/// A table that a user renamed keeps its primary key's name, which a new table of the old name needs. It gets the one of
/// its new name, which another renamed table may keep in turn.
fn free_primary_key_name(name: &str, renames_left: u32) {
    let primary_key = primary_key_name(name);
    let Some(index) = relation_in_data_schema(&primary_key) else {
        return;
    };
    // SAFETY: as in `by_index`.
    let owner = table_by_oid(unsafe { pg_sys::IndexGetRelation(index, true) });
    let Some(table) = owner.filter(|table| !same_name(&table.name, name)) else {
        return;
    };
    if renames_left > 0 {
        free_primary_key_name(&table.name, renames_left - 1);
    }
    let mut free = primary_key_name(&table.name);
    if relation_in_data_schema(&free).is_some() {
        // A user gave one name in two spellings to two tables. This one is found by its name alone.
        free = format!("pk_of_{}", table.oid.to_u32());
    }
    connect(|spi| {
        spi.run_definition(&format!(
            "ALTER INDEX {} RENAME TO {}",
            qualified(&primary_key),
            quote_identifier(free)
        ));
    });
}

/// The errors of two sessions that create one table, in one spelling or two.
fn is_name_collision(error: &CaughtError) -> bool {
    matches!(
        spi::sqlerrcode(error),
        PgSqlErrorCode::ERRCODE_DUPLICATE_TABLE
            | PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION
            | PgSqlErrorCode::ERRCODE_DUPLICATE_OBJECT
    )
}

/// Drops a table of the service, with all its entities; true when there was one.
///
/// Raises `ResourceNotFound` for a name that is no table's, unless `if_exists`.
#[pg_extern]
fn delete_table(table_name: Option<&str>, if_exists: default!(Option<bool>, "false")) -> bool {
    delete(table_name, if_exists).or_raise()
}

fn delete(table_name: Option<&str>, if_exists: Option<bool>) -> Result<bool, Error> {
    let name = required("table_name", table_name)?;
    let if_exists = required("if_exists", if_exists)?;
    let absent = || {
        if if_exists {
            Ok(false)
        } else {
            Err(Error::TableToDeleteNotFound)
        }
    };
    let Some(table) = Table::find(name) else {
        return absent();
    };
    let statement = format!("DROP TABLE {}", table.qualified_name());
    let dropped = spi::in_subtransaction(move || {
        prevent_if_read_only(c"DROP TABLE");
        with_row_security(|spi| forget_policies(spi, table.oid()));
        connect(|spi| spi.run_definition(&statement));
        Ok(true)
    });
    match dropped {
        Ok(done) => done,
        // Somebody else was faster.
        Err(error) if spi::sqlerrcode(&error) == PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE => absent(),
        Err(error) => error.rethrow(),
    }
}

/// The tables of the service whose names pass a filter over `TableName`, in the order of their lower-case names. With
/// `top`, at most so many, and the last row has the continuation token when there are more. `parameters` gives values to
/// `@name` in the filter.
///
/// Raises `InvalidInput` for a negative `top` and a token that `query_tables` did not give, and the errors of filters.
#[pg_extern(stable, parallel_restricted)]
fn query_tables(
    filter: default!(Option<&str>, "NULL"),
    top: default!(Option<i64>, "NULL"),
    continuation_token: default!(Option<&str>, "NULL"),
    parameters: default!(Option<PropertiesArg<'_>>, "NULL"),
    fcinfo: pg_sys::FunctionCallInfo,
) -> Tables {
    query(filter, top, continuation_token, parameters, fcinfo).or_raise()
}

fn query(
    filter: Option<&str>,
    top: Option<i64>,
    continuation_token: Option<&str>,
    parameters: Option<PropertiesArg<'_>>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Result<Tables, Error> {
    const SQL: &str = "SELECT c.relname::pg_catalog.text, c.oid::pg_catalog.regclass FROM pg_catalog.pg_class AS c WHERE c.relnamespace OPERATOR(pg_catalog.=) $1 AND c.reloftype OPERATOR(pg_catalog.=) $2 AND pg_catalog.lower(c.relname::pg_catalog.text COLLATE pg_catalog.\"C\") OPERATOR(pg_catalog.>=) $3 ORDER BY pg_catalog.lower(c.relname::pg_catalog.text COLLATE pg_catalog.\"C\"), c.relname";
    let filter = TableFilter::parse(
        filter.unwrap_or_default(),
        parameters.map(|parameters| parameters.get()),
    )?;
    let top = top
        .map(|top| usize::try_from(top).map_err(|_| top_out_of_range()))
        .transpose()?;
    let from = continuation_token
        .map(ContinuationToken::parse_table)
        .transpose()?
        .unwrap_or_default();
    connect(|spi| {
        let rows = spi.read(
            SQL,
            [pg_sys::OIDOID, pg_sys::OIDOID, pg_sys::TEXTOID],
            [
                catalog::data_schema().into(),
                catalog::entity_type().into(),
                varlena(from.as_bytes()),
            ],
        );
        let (mut page, mut next) = (Vec::<(&str, _, _)>::new(), None);
        for &tuple in rows.tuples() {
            let (name, relation) = (rows.value(tuple, 1), rows.value(tuple, 2));
            // SAFETY: the first column is text.
            let text = name.and_then(|name| unsafe { <&str>::from_datum(name, false) });
            let text = text.unwrap_or_default();
            if !filter.matches(text)? {
                continue;
            }
            // Two spellings of one name, which only a user's own statement can make, stay together: a token means both.
            let is_another = page.last().is_none_or(|&(last, ..)| !same_name(last, text));
            if is_another && top.is_some_and(|top| page.len() >= top) {
                next = Some(text);
                break;
            }
            page.push((text, name, relation));
        }
        let token = next.filter(|_| !page.is_empty()).map(|next| {
            let name = table_name::fold(next);
            varlena(ContinuationToken::Table { name }.encode().as_bytes())
        });
        // SAFETY: the function returns TABLE (table_name text, relation regclass, continuation_token text).
        unsafe {
            let mut result = ResultSet::open(fcinfo);
            for (index, &(_, name, relation)) in page.iter().enumerate() {
                result.push([name, relation, token.filter(|_| index + 1 == page.len())]);
            }
        }
        Ok(Tables)
    })
}
