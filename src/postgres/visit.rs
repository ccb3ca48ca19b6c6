//! The one entry to code that others have stored: with tables that the caller has not named, and with the tables of the extension, which
//! the owner of the database owns.
//!
//! Their owners can store code there: triggers, policies, expressions. It never runs with more rights than its owner has, and it runs
//! restricted, as in PostgreSQL's own commands of maintenance. Nothing else in the extension changes the user (`tests/architecture`).

use std::ffi::CStr;

use pgrx::prelude::*;
use pgrx::spi::quote_literal;
use table_service_model::code_of_tables;

use super::descriptor::type_of;
use super::guc::with_settings_of_maintenance;
use super::privileges::{self, current_role};
use super::relation::{Relation, with_relation};
use super::spi::{Connection, Tuple, connect};
use super::types::value::{Text, Value};
use super::{catalog, citus};

/// Why a table is not visited, in words for an operator.
pub struct Refused(pub String);

/// Runs `f`, which writes a table with code of its owner. The caller has locked the table and its parts.
///
/// If the owner has all rights of the caller anyway, `f` runs as the caller. If the caller has all rights of the owner,
/// it runs as the owner. The tables that foreign keys join to the table are locked as a delete locks them, so that
/// nobody creates a trigger meanwhile. `f` gets the table and those under it: its statements must use these alone.
///
/// # Errors
/// If others have put code there, if neither role has the rights of the other, if the code could read cursors of the session, or if another
/// session has locked one of these tables.
pub fn visit<R>(table: pg_sys::Oid, f: impl FnOnce(&[pg_sys::Oid]) -> Result<R, Refused>) -> Result<R, Refused> {
    let lock = pg_sys::RowExclusiveLock as pg_sys::LOCKMODE;
    let role = role_for_code_of(owner(table))?;
    let joined = joined(table);
    for &(oid, _) in &joined {
        // SAFETY: the function locks any OID.
        if !unsafe { pg_sys::ConditionalLockRelationOid(oid, lock) } {
            return Err(Refused(
                "another session has locked a partition, or a table that a foreign key joins to it".to_owned(),
            ));
        }
    }
    let own: Vec<_> = joined
        .iter()
        .filter(|(_, is_own)| *is_own)
        .map(|(oid, _)| *oid)
        .collect();
    restricted(role, || {
        refuse_foreign_code(table)?;
        f(&own)
    })
    .and_then(|done| leaves_no_cursors(role, done))
}

/// Refuses work as another role, if that role's code left a cursor open: it would keep the caller from the next table.
///
/// # Errors
/// If there is one. The caller rolls the work back, and the cursor is gone.
fn leaves_no_cursors<R>(role: pg_sys::Oid, done: R) -> Result<R, Refused> {
    match role != current_role() && has_open_cursors() {
        true => Err(Refused("code of the table has left a cursor open".to_owned())),
        false => Ok(done),
    }
}

/// Returns the role that runs an owner's code: the caller, if the owner has all rights of the caller, else the owner.
///
/// A role can prepare its session for the code of others: `pg_temp` is in every `search_path`, and a function that has run before keeps the
/// types that it found then. So the caller has to have all rights of the owner. And the code can read cursors of the session, and move them.
///
/// # Errors
/// If neither role has the rights of the other, or cursors are open.
fn role_for_code_of(owner: pg_sys::Oid) -> Result<pg_sys::Oid, Refused> {
    // SAFETY: the functions look up catalogs, which needs a transaction, and SQL functions run in one.
    unsafe {
        let caller = current_role();
        if pg_sys::has_privs_of_role(owner, caller) {
            return Ok(caller);
        }
        if !pg_sys::has_privs_of_role(caller, owner) {
            return Err(Refused(
                "triggers, rules, foreign keys or policies of the table would run, and this role lacks the rights of the table's owner: \
                 let the owner do it, or grant this role that of the owner"
                    .to_owned(),
            ));
        }
    }
    if has_open_cursors() {
        return Err(Refused(
            "triggers, rules, foreign keys or policies of the table would run, and could read the cursors that are open in the session"
                .to_owned(),
        ));
    }
    Ok(owner)
}

/// Returns the tables that a delete from a table may write: itself and the tables under it, which `true` marks, and
/// those that refer to a table of the list by a foreign key, with the tables under them.
fn joined(table: pg_sys::Oid) -> Vec<(pg_sys::Oid, bool)> {
    const JOINED: &str = "\
        WITH RECURSIVE written (oid, is_own) AS ( \
            SELECT $1, true UNION \
            SELECT next.oid, w.is_own AND next.is_under FROM written AS w CROSS JOIN LATERAL ( \
                SELECT i.inhrelid, true FROM pg_catalog.pg_inherits AS i WHERE i.inhparent OPERATOR(pg_catalog.=) w.oid \
                UNION ALL \
                SELECT c.conrelid, false FROM pg_catalog.pg_constraint AS c \
                WHERE c.confrelid OPERATOR(pg_catalog.=) w.oid AND c.contype OPERATOR(pg_catalog.=) 'f' \
            ) AS next (oid, is_under) \
        ) SELECT w.oid::pg_catalog.regclass, w.is_own FROM written AS w";
    connect(|spi| {
        let rows = spi.read_catalogs(JOINED, &[Value::oid(table)]);
        let joined = |row: Tuple<'_>| row.relation(1).zip(row.boolean(2));
        rows.iter().filter_map(joined).collect()
    })
}

/// The use of a table of the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    Read,
    Write,
}

/// Visits a table of the extension: runs `f` with a connection as its owner. The table is locked before it is looked at, so that nobody
/// creates a trigger meanwhile.
///
/// Raises PostgreSQL's own error (42501) if the caller lacks one of these privileges on it. Without privileges, the
/// calling function has checked the caller. The same SQLSTATE says that code in the table may not run.
pub fn visit_own<R>(relation: &CStr, how: Use, needed: u32, f: impl FnOnce(&Connection) -> R) -> R {
    let oid = catalog::own_table(relation);
    let lock = match how {
        Use::Read => pg_sys::AccessShareLock,
        Use::Write => pg_sys::RowExclusiveLock,
    } as pg_sys::LOCKMODE;
    privileges::require(oid, needed);
    // SAFETY: the function locks any OID.
    unsafe { pg_sys::LockRelationOid(oid, lock) };
    let all = with_shards(oid, lock);
    let owner = owner(oid);
    // SAFETY: as above.
    let is_above_database = unsafe { !pg_sys::has_privs_of_role(catalog::database_owner(), owner) };
    let is_as_created = all.iter().all(|&oid| is_as_created(oid, lock));
    let role = match is_above_database {
        // The owner of the database can replace the extension's schema, and so put other code under the table's name.
        true => Err(Refused(format!(
            "the owner of the table {} has rights that the owner of the database lacks: make the owner of the database its owner",
            relation.to_string_lossy()
        ))),
        false if is_as_created => Ok(owner),
        false => role_for_code_of(owner),
    };
    let result = role.and_then(|role| {
        restricted(role, || {
            if !is_as_created {
                all.iter().try_for_each(|&oid| refuse_foreign_code(oid))?;
            }
            Ok(connect(f))
        })
        .and_then(|done| match is_as_created {
            true => Ok(done),
            false => leaves_no_cursors(role, done),
        })
    });
    result.unwrap_or_else(|Refused(reason)| {
        ereport!(ERROR, PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE, reason);
    })
}

/// Returns a table of the extension with its shards on this server, which it locks: this session writes them.
fn with_shards(table: pg_sys::Oid, lock: pg_sys::LOCKMODE) -> Vec<pg_sys::Oid> {
    let mut all = vec![table];
    if citus::is_distributed(table) {
        connect(|spi| {
            let rows = spi.read_catalogs(&citus::relations_of_shards("$1"), &[Value::oid(table)]);
            all.extend(rows.iter().filter_map(|row| row.relation(1)));
        });
    }
    for &shard in all.iter().skip(1) {
        // SAFETY: the function locks any OID.
        unsafe { pg_sys::LockRelationOid(shard, lock) };
    }
    all
}

/// Returns whether a statement on a table of the extension runs no stored code of its owner: no trigger, rule, policy
/// or expression was added, and the columns have their original types. The caller has locked it.
fn is_as_created(table: pg_sys::Oid, lock: pg_sys::LOCKMODE) -> bool {
    const OWN_TYPES: [[pg_sys::Oid; 2]; 2] = [
        [pg_sys::REGCLASSOID, pg_sys::JSONBOID],
        [pg_sys::BOOLOID, pg_sys::JSONBOID],
    ];
    // Citus puts a trigger for TRUNCATE on each of its tables, and nothing here truncates one.
    const EVENTS: u32 = pg_sys::TRIGGER_TYPE_INSERT | pg_sys::TRIGGER_TYPE_UPDATE | pg_sys::TRIGGER_TYPE_DELETE;
    let no_lock = pg_sys::NoLock as pg_sys::LOCKMODE;
    let as_created = |relation: Relation<'_>| {
        let (class, descriptor) = (relation.class(), relation.descriptor());
        // SAFETY: the descriptor of an open relation is valid. Defaults and constraints are C strings: expressions as text, which begins
        // with the kind of their first node.
        let (has_own_types, has_expressions) = unsafe {
            let types = || [0, 1].map(|column| type_of(descriptor, column));
            let has_expressions = relation.constraints().is_some_and(|constraints| {
                let defaults =
                    (0..usize::from(constraints.num_defval)).map(|number| (*constraints.defval.add(number)).adbin);
                let checks =
                    (0..usize::from(constraints.num_check)).map(|number| (*constraints.check.add(number)).ccbin);
                defaults.chain(checks).any(|expression| {
                    let text = CStr::from_ptr(expression).to_bytes();
                    !text.starts_with(b"{CONST ") && !text.starts_with(b"{VAR ")
                })
            });
            (
                (*descriptor).natts == 2 && OWN_TYPES.contains(&types()),
                has_expressions,
            )
        };
        // SAFETY: the table is open and locked, and so its indexes exist.
        relation.is(pg_sys::RELKIND_RELATION)
            && has_own_types
            && !has_expressions
            && !class.relhassubclass
            && !class.relispartition
            && !class.relforcerowsecurity
            && !relation.has_rules()
            && !relation.has_triggers(EVENTS)
            && unsafe { pg_sys::RelationGetStatExtList(relation.as_ptr()) }.is_null()
            && relation.indexes().into_iter().all(|index| unsafe {
                let index = pg_sys::index_open(index, lock);
                let is_set =
                    |column: u32| !pg_sys::heap_attisnull((*index).rd_indextuple, column as i32, std::ptr::null_mut());
                let has_code = is_set(pg_sys::Anum_pg_index_indexprs) || is_set(pg_sys::Anum_pg_index_indpred);
                pg_sys::index_close(index, no_lock);
                !has_code
            })
    };
    with_relation(table, as_created)
}

/// Runs `f` as a role. Code that it runs can do no more in the session than an expression of an index during ANALYZE or
/// REINDEX: no deferred triggers, which would run later as the caller, no temporary tables, no settings that stay.
///
/// After an error PostgreSQL gives the caller's rights back when it aborts the (sub)transaction.
fn restricted<R>(role: pg_sys::Oid, f: impl FnOnce() -> R) -> R {
    let (mut user, mut context) = (pg_sys::InvalidOid, 0);
    // SAFETY: the functions read and write globals of this process, which has one thread. The role is one that owns a table.
    unsafe {
        pg_sys::GetUserIdAndSecContext(&mut user, &mut context);
        pg_sys::SetUserIdAndSecContext(role, context | pg_sys::SECURITY_RESTRICTED_OPERATION as i32);
    }
    let result = with_settings_of_maintenance(f);
    // SAFETY: as above.
    unsafe { pg_sys::SetUserIdAndSecContext(user, context) };
    result
}

/// Returns the owner of a table that the caller has locked.
fn owner(table: pg_sys::Oid) -> pg_sys::Oid {
    with_relation(table, |relation| relation.class().relowner)
}

/// Refuses a table if a statement on it could run code of a role that lacks rights of the current user
/// ([`code_of_tables`]). A SECURITY DEFINER function also counts: it can change settings, for example `search_path`.
///
/// # Errors
/// The object and its owner.
pub fn refuse_foreign_code(table: pg_sys::Oid) -> Result<(), Refused> {
    let sql = foreign_code("$1", "$1");
    connect(|spi| {
        let rows = spi.read_catalogs(&sql, &[Value::oid(table)]);
        match rows.first().and_then(|row| row.text(1)).map_or("", |text| text.get()) {
            "" => Ok(()),
            found => Err(Refused(found.to_owned())),
        }
    })
}

/// Does the same for the shards of a distributed table, on all servers of the cluster: a shard is a table with triggers
/// of its own. The owner of a shard also counts, because somebody may have replaced the shard.
///
/// # Errors
/// The object and its owner, or why a server does not tell.
pub fn refuse_foreign_code_of_shards(table: &str) -> Result<(), Refused> {
    let name = format!("{}::pg_catalog.regclass", quote_literal(table));
    let shards = format!(
        "pg_catalog.unnest(ARRAY({})::pg_catalog.oid[])",
        citus::relations_of_shards(&name)
    );
    citus::run_by("run_command_on_all_nodes", &foreign_code(&shards, "0"), "").map_err(Refused)
}

/// Returns a query of one text: an object that a statement on these tables could run, and which belongs to a role without all rights of the
/// current one. It is empty if there is none. `tables` and `but`, an object that does not count, are OIDs in SQL.
fn foreign_code(tables: &str, but: &str) -> String {
    format!(
        "WITH RECURSIVE {}
        SELECT coalesce((
            SELECT pg_catalog.format('%s belongs to the role %s, and would run with the rights of %s',
                pg_catalog.pg_describe_object(o.class, o.oid, 0), coalesce(pg_catalog.pg_get_userbyid(o.owner)::pg_catalog.text, '?'), current_user)
            FROM owned AS o
            WHERE o.oid OPERATOR(pg_catalog.<>) {but} AND pg_catalog.pg_has_role(o.owner, current_user, 'USAGE') IS NOT TRUE
            -- The types of rows say least.
            ORDER BY o.class OPERATOR(pg_catalog.=) 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid, o.class, o.oid LIMIT 1
        ), '')",
        code_of_tables::expressions(tables)
    )
}

/// Refuses a table of the extension if a statement on it could run code of others. As created it has none, though its
/// parts belong to pg_database_owner, which has nobody's rights. Until the transaction ends nobody adds any.
pub fn refuse_foreign_code_of_own(table: pg_sys::Oid) -> Result<(), Refused> {
    let lock = pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE;
    // SAFETY: the function locks any OID.
    unsafe { pg_sys::LockRelationOid(table, lock) };
    match is_as_created(table, lock) {
        true => Ok(()),
        false => refuse_foreign_code(table),
    }
}

/// Returns whether the session has cursors beside the statement that is running.
fn has_open_cursors() -> bool {
    const OTHERS: &str = "\
        SELECT FROM pg_catalog.pg_cursors AS c \
        WHERE c.name OPERATOR(pg_catalog.<>) $1 LIMIT 1";
    // SAFETY: the global is NULL or the portal that is running, and its name is a C string that lives as long.
    let running = unsafe { pg_sys::ActivePortal.as_ref().map(|portal| CStr::from_ptr(portal.name)) };
    let running = running.unwrap_or_default().to_string_lossy();
    connect(|spi| spi.read(OTHERS, &[Text::new(&running).value()]).first().is_some())
}
