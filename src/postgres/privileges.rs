//! The rights of the caller, which is the current role. Like all checks of rights, these read the catalogs as they are
//! now, and not as the statement's snapshot sees them: a table may be younger.

use std::ffi::{CStr, c_int};

use pgrx::prelude::*;

use super::guarded::{guarded, without_guards};

without_guards! {
    // It raises no error.
    fn GetUserId() -> pg_sys::Oid;
    fn pg_class_aclmask(
        table: pg_sys::Oid,
        user: pg_sys::Oid,
        rights: pg_sys::AclMode,
        how: pg_sys::AclMaskHow::Type
    ) -> pg_sys::AclMode;
    fn check_enable_rls(table: pg_sys::Oid, user: pg_sys::Oid, no_error: bool) -> c_int;
    #[cfg(not(since_pg16))]
    fn pg_namespace_aclcheck(
        schema: pg_sys::Oid,
        user: pg_sys::Oid,
        rights: pg_sys::AclMode
    ) -> pg_sys::AclResult::Type;
    #[cfg(not(since_pg16))]
    fn pg_proc_aclcheck(
        function: pg_sys::Oid,
        user: pg_sys::Oid,
        rights: pg_sys::AclMode
    ) -> pg_sys::AclResult::Type;
    #[cfg(since_pg16)]
    fn object_aclcheck(
        class: pg_sys::Oid,
        object: pg_sys::Oid,
        user: pg_sys::Oid,
        rights: pg_sys::AclMode
    ) -> pg_sys::AclResult::Type;
}

/// Returns the current role. Its rights count.
pub fn current_role() -> pg_sys::Oid {
    // SAFETY: the function reads a global of this process.
    unsafe { GetUserId() }
}

/// Returns the name of that role.
pub fn current_role_name() -> String {
    // SAFETY: a transaction is running. The name is a palloc'ed C string; a role that is gone raises an error.
    unsafe { CStr::from_ptr(pg_sys::GetUserNameFromId(current_role(), false)) }
        .to_string_lossy()
        .into_owned()
}

/// Returns whether the caller has all of these privileges on a whole table.
pub fn has_all(table: pg_sys::Oid, privileges: u32) -> bool {
    // SAFETY: the function looks up catalogs, which needs a transaction, and SQL functions run in one.
    unsafe { guarded(|| held(table, privileges) == privileges as pg_sys::AclMode) }
}

/// Returns whether the caller has one of these privileges on a whole table.
pub fn has_any(table: pg_sys::Oid, privileges: u32) -> bool {
    // SAFETY: as in `has_all`.
    unsafe { guarded(|| held(table, privileges) != 0) }
}

/// Returns whether the caller has all of these privileges on a whole table, and may use its schema.
pub fn has_all_and_usage(table: pg_sys::Oid, privileges: u32, schema: pg_sys::Oid) -> bool {
    // SAFETY: as in `has_all`.
    unsafe {
        guarded(|| {
            held(table, privileges) == privileges as pg_sys::AclMode
                && is_granted(pg_sys::NamespaceRelationId, schema, pg_sys::ACL_USAGE)
        })
    }
}

/// Returns whether policies hide rows of a table from the caller, or may do so.
pub fn has_policies(table: pg_sys::Oid) -> bool {
    const ENABLED: c_int = pg_sys::CheckEnableRlsResult::RLS_ENABLED as c_int;
    // SAFETY: as in `has_all`.
    unsafe { guarded(|| check_enable_rls(table, pg_sys::InvalidOid, true) == ENABLED) }
}

/// Returns whether the caller may create something in a schema.
pub fn may_create_in(schema: pg_sys::Oid) -> bool {
    // SAFETY: as in `has_all`.
    unsafe { guarded(|| is_granted(pg_sys::NamespaceRelationId, schema, pg_sys::ACL_CREATE)) }
}

/// Returns whether the caller may call a function.
pub fn may_call(function: pg_sys::Oid) -> bool {
    // SAFETY: as in `has_all`.
    unsafe { guarded(|| is_granted(pg_sys::ProcedureRelationId, function, pg_sys::ACL_EXECUTE)) }
}

/// Returns whether the caller has the rights of a table's owner.
pub fn owns(table: pg_sys::Oid) -> bool {
    // SAFETY: as in `has_all`.
    unsafe {
        #[cfg(not(since_pg16))]
        let is_owner = pg_sys::pg_class_ownercheck(table, current_role());
        #[cfg(since_pg16)]
        let is_owner = pg_sys::object_ownercheck(pg_sys::RelationRelationId, table, current_role());
        is_owner
    }
}

/// Returns whether the caller has the rights of a schema's owner, who may drop its objects.
pub fn owns_schema(schema: pg_sys::Oid) -> bool {
    // SAFETY: as in `has_all`.
    unsafe {
        #[cfg(not(since_pg16))]
        let is_owner = pg_sys::pg_namespace_ownercheck(schema, current_role());
        #[cfg(since_pg16)]
        let is_owner = pg_sys::object_ownercheck(pg_sys::NamespaceRelationId, schema, current_role());
        is_owner
    }
}

/// Raises PostgreSQL's own error (42501) if the caller lacks one of these privileges on a whole table.
pub fn require(table: pg_sys::Oid, privileges: u32) {
    if !has_all(table, privileges) {
        refuse(table, pg_sys::AclResult::ACLCHECK_NO_PRIV);
    }
}

/// Raises PostgreSQL's own error (42501) if the caller does not own a table.
pub fn require_owner(table: pg_sys::Oid) {
    if !owns(table) {
        refuse(table, pg_sys::AclResult::ACLCHECK_NOT_OWNER);
    }
}

fn refuse(table: pg_sys::Oid, why: pg_sys::AclResult::Type) {
    // SAFETY: as in `has_all`. The name is a palloc'ed C string.
    unsafe {
        let kind = pg_sys::get_relkind_objtype(pg_sys::get_rel_relkind(table));
        pg_sys::aclcheck_error(why, kind, pg_sys::get_rel_name(table));
    }
}

/// Returns which of these privileges on a whole table the caller has.
///
/// # Safety
/// Call it in [`guarded`], in a transaction.
unsafe fn held(table: pg_sys::Oid, privileges: u32) -> pg_sys::AclMode {
    match privileges {
        0 => 0,
        // SAFETY: the caller's promise.
        _ => unsafe {
            pg_class_aclmask(
                table,
                GetUserId(),
                privileges as pg_sys::AclMode,
                pg_sys::AclMaskHow::ACLMASK_ALL,
            )
        },
    }
}

/// Returns whether the caller has a privilege on a schema or a function.
///
/// # Safety
/// Call it in [`guarded`], in a transaction.
unsafe fn is_granted(class: pg_sys::Oid, object: pg_sys::Oid, privilege: u32) -> bool {
    let privilege = privilege as pg_sys::AclMode;
    // SAFETY: the caller's promise.
    let result = unsafe {
        #[cfg(not(since_pg16))]
        let result = match class == pg_sys::NamespaceRelationId {
            true => pg_namespace_aclcheck(object, GetUserId(), privilege),
            false => pg_proc_aclcheck(object, GetUserId(), privilege),
        };
        #[cfg(since_pg16)]
        let result = object_aclcheck(class, object, GetUserId(), privilege);
        result
    };
    result == pg_sys::AclResult::ACLCHECK_OK
}
