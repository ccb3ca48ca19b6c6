//! Work on tables of owners whom the caller has no reason to trust: it may run their triggers, rules and policies.

use pgrx::prelude::*;

use super::guarded::guarded;
use super::guc::with_settings_of_maintenance;
use super::spi::connect;
use super::types::value::Value;

unsafe extern "C-unwind" {
    fn find_all_inheritors(
        parent: pg_sys::Oid,
        lock: pg_sys::LOCKMODE,
        parents: *mut *mut pg_sys::List,
    ) -> *mut pg_sys::List;
}

/// Returns the owner of a table that the caller has locked.
pub fn owner(table: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: the caller holds a lock on the table, so it can be opened without one. `rd_rel` is valid while it is open.
    unsafe {
        let relation = pg_sys::table_open(table, pg_sys::NoLock as pg_sys::LOCKMODE);
        let owner = (*(*relation).rd_rel).relowner;
        pg_sys::table_close(relation, pg_sys::NoLock as pg_sys::LOCKMODE);
        owner
    }
}

/// Returns the role whose rights the running function has.
pub fn caller() -> pg_sys::Oid {
    // SAFETY: the function reads a global of this process.
    unsafe { pg_sys::GetUserId() }
}

/// Returns whether a role has all rights of the caller anyway. Then code of that role gains nothing by running with them.
pub fn has_rights_of_caller(role: pg_sys::Oid) -> bool {
    // SAFETY: the function looks up catalogs, which needs a transaction, and SQL functions run in one.
    unsafe { pg_sys::has_privs_of_role(role, caller()) }
}

/// Returns whether all code that a delete from a table would run, with the rights of a role, belongs to roles that have these rights
/// anyway. The tables under it may have other owners, and a role that may create triggers needs not own the table. A function that is
/// SECURITY DEFINER counts too: it can change settings of the session, such as `search_path`.
///
/// It locks the tables under it as a delete does, so that nobody creates a trigger afterwards.
pub fn runs_only_code_of(role: pg_sys::Oid, table: pg_sys::Oid) -> bool {
    const SQL: &str = "WITH RECURSIVE tree (part) AS (
            SELECT $1 UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i JOIN tree AS t ON i.inhparent OPERATOR(pg_catalog.=) t.part
        ), code (owner) AS (
            SELECT c.relowner FROM tree AS t JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) t.part
            UNION
            SELECT p.proowner FROM tree AS t JOIN pg_catalog.pg_trigger AS g ON g.tgrelid OPERATOR(pg_catalog.=) t.part
                JOIN pg_catalog.pg_proc AS p ON p.oid OPERATOR(pg_catalog.=) g.tgfoid
            WHERE NOT g.tgisinternal
        )
        SELECT pg_catalog.bool_and(pg_catalog.pg_has_role(c.owner, $2, 'USAGE')) FROM code AS c";
    let lock = pg_sys::RowExclusiveLock as pg_sys::LOCKMODE;
    // SAFETY: the function has this declaration in all versions. It locks tables, and its list belongs to the memory of the call.
    unsafe { guarded(|| find_all_inheritors(table, lock, std::ptr::null_mut())) };
    connect(|spi| {
        let rows = spi.read_catalogs(SQL, &[Value::oid(table), Value::oid(role)]);
        rows.first().and_then(|row| row.boolean(1)) == Some(true)
    })
}

/// Runs `f` with the rights of a role and not with those of the caller. Code of the role can do in the session what it can do in an
/// expression of an index during ANALYZE or REINDEX, and no more: no deferred triggers, which would run later with the caller's rights,
/// no temporary tables, no settings that stay.
///
/// After an error PostgreSQL gives the rights back when it aborts the (sub)transaction.
pub fn with_rights_of<R>(role: pg_sys::Oid, f: impl FnOnce() -> R) -> R {
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
