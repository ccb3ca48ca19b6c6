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
use super::indexes::indexes;
use super::spi::{Connection, connect};
use super::types::value::{Text, Value};

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
/// If others have put code there, if the caller's session could mislead the owner's code, or if another session has locked one of these
/// tables.
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
    if owner_has_rights_of_caller(table) {
        refuse_foreign_code(table)?;
        return f(&relations);
    }
    let caller = caller();
    as_owner(owner(table), || {
        refuse_code_in_session_of(caller, table)?;
        f(&relations)
    })
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
    unsafe { pg_sys::has_privs_of_role(owner(table), caller()) }
}

fn caller() -> pg_sys::Oid {
    // SAFETY: the function reads a global of this process.
    unsafe { pg_sys::GetUserId() }
}

/// Reads a table of the extension: runs `f` with a connection as its owner. Raises what [`write_own`] raises.
pub fn read_own<R>(relation: &CStr, privileges: u32, f: impl FnOnce(&Connection) -> R) -> R {
    visit_own(relation, privileges, is_read_as_it_lies, f)
}

/// Writes a table of the extension: runs `f` with a connection as its owner.
///
/// Raises PostgreSQL's own error (42501) if the caller lacks one of these privileges on it. Without privileges, the caller of this function
/// has checked what the caller of the SQL function may do. The same SQLSTATE says that code stands there which nobody may run for the owner.
pub fn write_own<R>(relation: &CStr, privileges: u32, f: impl FnOnce(&Connection) -> R) -> R {
    visit_own(relation, privileges, |_| false, f)
}

fn visit_own<R>(
    relation: &CStr,
    privileges: u32,
    runs_nothing: impl FnOnce(pg_sys::Oid) -> bool,
    f: impl FnOnce(&Connection) -> R,
) -> R {
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
    let caller = caller();
    as_owner(owner, || {
        let checked = match runs_nothing(oid) {
            true => Ok(()),
            false => refuse_code_in_session_of(caller, oid),
        };
        if let Err(Refused(reason)) = checked.and_then(|()| refuse_owner_above_database(owner)) {
            ereport!(ERROR, PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE, reason);
        }
        connect(f)
    })
}

/// Refuses a superuser as the owner of a table of the extension in a database of another role. The owner of the database could put another
/// schema in the place of the extension's at any moment, and so other code under the table's name.
///
/// # Errors
/// The owner of the table, and what to do.
fn refuse_owner_above_database(owner: pg_sys::Oid) -> Result<(), Refused> {
    // SAFETY: the functions look up catalogs, which needs a transaction, and SQL functions run in one.
    let is_above = unsafe { pg_sys::superuser_arg(owner) && !pg_sys::superuser_arg(catalog::database_owner()) };
    if is_above {
        return Err(Refused(
            "a superuser owns a table of the extension, and another role the database: make the owner of the database the owner of the table"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Returns whether a SELECT on a table runs nothing that its owner has stored: there are no rules, no policies that the owner set up for
/// himself, no tables under it, and no index but those on columns.
fn is_read_as_it_lies(table: pg_sys::Oid) -> bool {
    let (no_lock, lock) = (
        pg_sys::NoLock as pg_sys::LOCKMODE,
        pg_sys::AccessShareLock as pg_sys::LOCKMODE,
    );
    // SAFETY: the table is open, and so are its indexes, while their entries of the relation cache are read.
    unsafe {
        let relation = pg_sys::table_open(table, lock);
        let class = &*(*relation).rd_rel;
        let mut is_plain = class.relkind as u8 == pg_sys::RELKIND_RELATION
            && !class.relhassubclass
            && !class.relhasrules
            && !class.relforcerowsecurity
            && pg_sys::RelationGetStatExtList(relation).is_null();
        for index in indexes(relation).collect::<Vec<_>>() {
            let index = pg_sys::index_open(index, lock);
            let columns = (*index).rd_indextuple;
            is_plain &= pg_sys::heap_attisnull(columns, pg_sys::Anum_pg_index_indexprs as i32, std::ptr::null_mut())
                && pg_sys::heap_attisnull(columns, pg_sys::Anum_pg_index_indpred as i32, std::ptr::null_mut());
            pg_sys::index_close(index, no_lock);
        }
        pg_sys::table_close(relation, no_lock);
        is_plain
    }
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
    code(table).map(drop)
}

/// Returns a function of a user that a statement on a table can run.
///
/// # Errors
/// As of [`refuse_foreign_code`].
fn code(table: pg_sys::Oid) -> Result<Option<String>, Refused> {
    let sql = format!(
        "WITH RECURSIVE {}, said (class, oid, owner, is_foreign, is_function) AS (
            SELECT o.class, o.oid, o.owner, pg_catalog.pg_has_role(o.owner, current_user, 'USAGE') IS NOT TRUE,
                EXISTS (
                    SELECT FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_language AS l ON l.oid OPERATOR(pg_catalog.=) p.prolang
                    WHERE o.class OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid
                    AND p.oid OPERATOR(pg_catalog.=) o.oid AND l.lanname OPERATOR(pg_catalog.<>) ALL ('{{internal,c}}'))
            FROM owned AS o WHERE o.oid OPERATOR(pg_catalog.<>) $1
        )
        SELECT pg_catalog.pg_describe_object(s.class, s.oid, 0), pg_catalog.pg_get_userbyid(s.owner)::pg_catalog.text, current_user::pg_catalog.text,
            s.is_foreign
        FROM said AS s WHERE s.is_foreign OR s.is_function
        -- The types of rows say least.
        ORDER BY NOT s.is_foreign, s.class OPERATOR(pg_catalog.=) 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid, s.class, s.oid LIMIT 1",
        code_of_tables::expressions("$1")
    );
    connect(|spi| {
        let rows = spi.read_catalogs(&sql, &[Value::oid(table)]);
        let Some(row) = rows.first() else { return Ok(None) };
        let text = |column| row.text(column).map_or("?", |text| text.get());
        let (object, owner, user) = (text(1), text(2), text(3));
        if row.boolean(4) == Some(false) {
            return Ok(Some(object.to_owned()));
        }
        Err(Refused(format!(
            "{object} belongs to the role {owner}, and would run with the rights of {user}"
        )))
    })
}

/// Refuses a table if code of its owner, who is the current user, could be misled in the session of a role, or could harm it. A role can
/// prepare its session for the code of others: `pg_temp` is in every `search_path`, and a function that has run before keeps the types that
/// it found then. And the code can read cursors of the session, and move them.
///
/// # Errors
/// As of [`refuse_foreign_code`]; the function.
fn refuse_code_in_session_of(caller: pg_sys::Oid, table: pg_sys::Oid) -> Result<(), Refused> {
    let Some(function) = code(table)? else { return Ok(()) };
    // SAFETY: the function looks up catalogs, which needs a transaction, and SQL functions run in one.
    if !unsafe { pg_sys::has_privs_of_role(caller, self::caller()) } {
        return Err(Refused(format!(
            "{function} would run in a session of a role without the rights of the table's owner, which could mislead it"
        )));
    }
    if has_open_cursors() {
        return Err(Refused(format!(
            "{function} could read the cursors that are open in the session"
        )));
    }
    Ok(())
}

/// Returns whether the session has cursors beside the statement that is running.
fn has_open_cursors() -> bool {
    const OTHERS: &str = "\
        SELECT FROM pg_catalog.pg_cursors AS c \
        WHERE c.name OPERATOR(pg_catalog.<>) ALL (ARRAY['', $1]) LIMIT 1";
    // SAFETY: the global is NULL or the portal that is running, and its name is a C string that lives as long.
    let running = unsafe { pg_sys::ActivePortal.as_ref().map(|portal| CStr::from_ptr(portal.name)) };
    let running = running.unwrap_or_default().to_string_lossy();
    connect(|spi| spi.read(OTHERS, &[Text::new(&running).value()]).first().is_some())
}
