//! Work on tables of owners whom the caller has no reason to trust: it may run their triggers, rules and policies.

use pgrx::prelude::*;

use super::guc::with_settings_of_maintenance;

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

/// Returns whether a role has all rights of the caller anyway. Then code of that role gains nothing by running with them.
pub fn has_rights_of_caller(role: pg_sys::Oid) -> bool {
    // SAFETY: the functions look up catalogs, which needs a transaction, and SQL functions run in one.
    unsafe { pg_sys::has_privs_of_role(role, pg_sys::GetUserId()) }
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
