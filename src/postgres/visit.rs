//! The one entry to tables that the caller has not named, and to the tables of the extension, which the owner of the database owns.
//!
//! Their owners can store code there: triggers, policies, expressions. It runs with the rights of the owner, restricted as in
//! PostgreSQL's own commands of maintenance, and never with the caller's. Nothing else in the extension changes the user
//! (`tests/architecture`).

use std::ffi::CStr;

use pgrx::prelude::*;
use table_service_model::code_of_tables;

use super::catalog;
use super::guarded::guarded;
use super::guc::with_settings_of_maintenance;
use super::spi::{Connection, connect};
use super::types::value::Value;

unsafe extern "C-unwind" {
    fn find_all_inheritors(
        parent: pg_sys::Oid,
        lock: pg_sys::LOCKMODE,
        parents: *mut *mut pg_sys::List,
    ) -> *mut pg_sys::List;
}

/// Why a table is not visited, in words for an operator.
pub struct Refused(pub String);

/// Visits a table that the caller has locked: runs `f` as the table's owner. If that role has all rights of the caller anyway, `f` runs
/// as the caller. The tables under it, and those that foreign keys join to it, are locked as a delete locks them, so that nobody creates a
/// trigger meanwhile. `f` gets the table and those under it: its statements find them by names, and must be on these alone.
///
/// # Errors
/// If others have put code there, or another session has locked one of these tables.
pub fn visit<R>(table: pg_sys::Oid, f: impl FnOnce(&[pg_sys::Oid]) -> Result<R, Refused>) -> Result<R, Refused> {
    let lock = pg_sys::RowExclusiveLock as pg_sys::LOCKMODE;
    let no_lock = pg_sys::NoLock as pg_sys::LOCKMODE;
    // SAFETY: the function has this declaration in all versions. Its list of OIDs belongs to the memory of the call.
    let relations: Vec<pg_sys::Oid> = unsafe {
        let list = guarded(|| find_all_inheritors(table, no_lock, std::ptr::null_mut()));
        let length = usize::try_from((*list).length).unwrap_or_default();
        let cells = std::slice::from_raw_parts((*list).elements, length);
        cells.iter().map(|cell| cell.oid_value).collect()
    };
    for oid in joined(table) {
        // SAFETY: the function locks any OID.
        if !unsafe { pg_sys::ConditionalLockRelationOid(oid, lock) } {
            return Err(Refused(
                "another session has locked a partition, or a table that a foreign key joins to it".to_owned(),
            ));
        }
    }
    let work = || refuse_foreign_code(table).and_then(|()| f(&relations));
    match owner_has_rights_of_caller(table) {
        true => work(),
        false => as_owner(owner(table), work),
    }
}

/// Returns the tables that a statement on a table may write: itself, its partitions, and those of foreign keys.
fn joined(table: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    let sql = format!(
        "WITH RECURSIVE {}
        SELECT c.oid::pg_catalog.regclass FROM run AS r JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) r.oid
        WHERE r.class OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid
        AND c.relkind OPERATOR(pg_catalog.=) ANY ('{{r,p,f}}')",
        code_of_tables::expressions("$1")
    );
    connect(|spi| {
        let rows = spi.read_catalogs(&sql, &[Value::oid(table)]);
        rows.iter().filter_map(|row| row.relation(1)).collect()
    })
}

/// Returns whether the owner of a table that the caller has locked has all rights of the caller anyway. Then code of that role gains
/// nothing by running as the caller.
pub fn owner_has_rights_of_caller(table: pg_sys::Oid) -> bool {
    // SAFETY: the function looks up catalogs, which needs a transaction, and SQL functions run in one.
    unsafe { pg_sys::has_privs_of_role(owner(table), pg_sys::GetUserId()) }
}

/// Visits a table of the extension: runs `f` with a connection as its owner.
///
/// Raises PostgreSQL's own error (42501) if the caller lacks one of these privileges on it. Without privileges, the caller of this function
/// has checked what the caller of the SQL function may do.
///
/// On a Citus cluster a superuser owns it, and the owner of the database may have put code there: that is refused with the same SQLSTATE.
pub fn visit_own<R>(relation: &CStr, privileges: u32, f: impl FnOnce(&Connection) -> R) -> R {
    let (oid, owner) = catalog::own_table(relation);
    // SAFETY: the functions look up catalogs, which needs a transaction, and SQL functions run in one. The name is a C string.
    unsafe {
        let missing = privileges as pg_sys::AclMode
            & !pg_sys::pg_class_aclmask(
                oid,
                pg_sys::GetUserId(),
                privileges as pg_sys::AclMode,
                pg_sys::AclMaskHow::ACLMASK_ALL,
            );
        if missing != 0 {
            let (denied, kind) = (pg_sys::AclResult::ACLCHECK_NO_PRIV, pg_sys::ObjectType::OBJECT_TABLE);
            pg_sys::aclcheck_error(denied, kind, relation.as_ptr());
        }
    }
    as_owner(owner, || {
        // SAFETY: as above.
        if unsafe { pg_sys::superuser_arg(owner) }
            && let Err(Refused(reason)) = refuse_foreign_code(oid)
        {
            ereport!(ERROR, PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE, reason);
        }
        connect(f)
    })
}

/// Runs `f` as a role. Code of the role can do in the session what it can do in an expression of an index during ANALYZE or REINDEX,
/// and no more: no deferred triggers, which would run later as the caller, no temporary tables, no settings that stay.
///
/// After an error PostgreSQL gives the caller's rights back when it aborts the (sub)transaction.
fn as_owner<R>(role: pg_sys::Oid, f: impl FnOnce() -> R) -> R {
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
    // SAFETY: the caller holds a lock on the table, so it can be opened without one. `rd_rel` is valid while it is open.
    unsafe {
        let relation = pg_sys::table_open(table, pg_sys::NoLock as pg_sys::LOCKMODE);
        let owner = (*(*relation).rd_rel).relowner;
        pg_sys::table_close(relation, pg_sys::NoLock as pg_sys::LOCKMODE);
        owner
    }
}

/// Refuses a table if a statement on it could run code of a role that lacks rights of the current user ([`code_of_tables`]). A function that is
/// SECURITY DEFINER counts too: it can change settings of the session, such as `search_path`.
///
/// # Errors
/// The object and its owner.
pub fn refuse_foreign_code(table: pg_sys::Oid) -> Result<(), Refused> {
    let sql = format!(
        "WITH RECURSIVE {}
        SELECT pg_catalog.pg_describe_object(o.class, o.oid, 0), pg_catalog.pg_get_userbyid(o.owner)::pg_catalog.text, current_user::pg_catalog.text
        FROM owned AS o
        WHERE o.oid OPERATOR(pg_catalog.<>) $1 AND pg_catalog.pg_has_role(o.owner, current_user, 'USAGE') IS NOT TRUE
        -- The types of rows say least.
        ORDER BY o.class OPERATOR(pg_catalog.=) 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid, o.class, o.oid LIMIT 1",
        code_of_tables::expressions("$1")
    );
    connect(|spi| {
        let rows = spi.read_catalogs(&sql, &[Value::oid(table)]);
        let Some(row) = rows.first() else { return Ok(()) };
        let text = |column| row.text(column).map_or("?", |text| text.get());
        let (object, owner, user) = (text(1), text(2), text(3));
        Err(Refused(format!(
            "{object} belongs to the role {owner}, and would run with the rights of {user}"
        )))
    })
}
