//! The conditions under which direct access has the same result as a statement.

use std::ffi::{CStr, c_char, c_int};

use pgrx::prelude::*;
use table_service_model::Properties;

use crate::postgres::catalog::OwnObjects;
use crate::postgres::guarded::{guarded, without_guards};
use crate::postgres::relation::indexes;
use crate::postgres::spi;
use crate::postgres::types::value::{Bag, Text};
use crate::storage::arguments::EntityKeys;
use crate::storage::row::is_entity;
use crate::storage::statement::{Statement, UpdateMode};
use crate::storage::table::Table;

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
    #[cfg(since_pg16)]
    fn object_aclcheck(
        class: pg_sys::Oid,
        schema: pg_sys::Oid,
        user: pg_sys::Oid,
        rights: pg_sys::AclMode
    ) -> pg_sys::AclResult::Type;
}

/// The purpose of direct access to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Read entities by their keys, or through property indexes.
    Get,
    /// Read entities through property indexes alone.
    Find(EveryRow),
    Insert,
    Update,
    /// Correct the Timestamp of an entity that this transaction has just inserted ([`settle`](super::settle)). The
    /// insert was allowed, so this needs no privilege.
    Stamp,
}

/// Says that the caller may read every row of a table ([`reads_every_row`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EveryRow(());

/// Returns whether the caller has the privileges on the whole table and may use its schema, and no library checks
/// privileges in a hook. If not, the caller uses a statement: that raises, or finds that privileges on columns suffice.
pub(super) fn is_allowed(table: pg_sys::Oid, schema: pg_sys::Oid, purpose: Purpose) -> bool {
    let rights = match purpose {
        Purpose::Get => pg_sys::ACL_SELECT,
        // `reads_every_row` has checked the caller's privileges.
        Purpose::Find(EveryRow(())) => 0,
        Purpose::Insert => pg_sys::ACL_INSERT,
        Purpose::Update => pg_sys::ACL_SELECT | pg_sys::ACL_UPDATE,
        Purpose::Stamp => return true,
    } as pg_sys::AclMode;
    // SAFETY: the functions look up catalogs, which needs a transaction, and SQL functions run in one. The hook is a
    // global of this process, which has one thread.
    unsafe {
        let user = GetUserId();
        let may_access = || rights == 0 || has_rights(table, user, rights);
        { pg_sys::ExecutorCheckPerms_hook }.is_none() && guarded(|| may_access() && may_use(schema, user))
    }
}

/// Returns whether the caller has the privilege to read the whole table.
pub fn may_read(table: &Table) -> bool {
    let table = table.oid();
    // SAFETY: the functions look up catalogs, which needs a transaction, and SQL functions run in one.
    unsafe { guarded(|| has_rights(table, GetUserId(), READ)) }
}

/// Returns whether the caller may read every row of a table: the caller has the privilege to read the whole table, and no
/// policies hide rows from the caller.
pub fn reads_every_row(table: &Table) -> Option<EveryRow> {
    let table = table.oid();
    // SAFETY: as in `may_read`.
    let has_policies = || unsafe { check_enable_rls(table, pg_sys::InvalidOid, true) as u32 } == ENABLED;
    // SAFETY: as in `may_read`.
    let reads_every_row = unsafe { guarded(|| has_rights(table, GetUserId(), READ) && !has_policies()) };
    reads_every_row.then_some(EveryRow(()))
}

const READ: pg_sys::AclMode = pg_sys::ACL_SELECT as pg_sys::AclMode;
const ENABLED: u32 = pg_sys::CheckEnableRlsResult::RLS_ENABLED;

/// Returns whether a user has all of these privileges on a whole table.
///
/// # Safety
/// Call it in [`guarded`], in a transaction.
unsafe fn has_rights(table: pg_sys::Oid, user: pg_sys::Oid, rights: pg_sys::AclMode) -> bool {
    // SAFETY: the caller's promise.
    unsafe { pg_class_aclmask(table, user, rights, pg_sys::AclMaskHow::ACLMASK_ALL) == rights }
}

/// Returns whether a user has USAGE on a schema.
///
/// # Safety
/// Call it in [`guarded`], in a transaction.
unsafe fn may_use(schema: pg_sys::Oid, user: pg_sys::Oid) -> bool {
    let usage = pg_sys::ACL_USAGE as pg_sys::AclMode;
    // SAFETY: the caller's promise.
    let result = unsafe {
        #[cfg(not(since_pg16))]
        {
            pg_namespace_aclcheck(schema, user, usage)
        }
        #[cfg(since_pg16)]
        {
            object_aclcheck(pg_sys::NamespaceRelationId, schema, user, usage)
        }
    };
    result == pg_sys::AclResult::ACLCHECK_OK
}

/// Returns whether the table is a heap with nothing added to what `create_table` makes.
///
/// # Safety
/// The relation must be open.
pub(super) unsafe fn is_plain(relation: pg_sys::Relation, own: &OwnObjects, purpose: Purpose) -> bool {
    // SAFETY: an open relation points to a valid entry of the relation cache. Its optional parts are valid or NULL.
    unsafe {
        let class = &*(*relation).rd_rel;
        let is_heap = class.relkind == pg_sys::RELKIND_RELATION as c_char
            && class.relam == pg_sys::HEAP_TABLE_AM_OID
            && (*(*relation).rd_att).natts == 4
            && is_entity((*relation).rd_att)
            && has_only_stored_columns((*relation).rd_att);
        let is_all = || {
            !class.relispartition && !class.relhassubclass && !class.relrowsecurity && (*relation).rd_rules.is_null()
        };
        is_heap
            && match purpose {
                Purpose::Stamp => true,
                Purpose::Get | Purpose::Find(_) => is_all(),
                Purpose::Insert => {
                    is_all() && has_only_our_check(relation, own) && is_changeable_after_insert(relation)
                }
                Purpose::Update => is_all() && has_only_our_check(relation, own) && has_only_our_trigger(relation, own),
            }
    }
}

/// Returns whether every row stores all its columns: no column is generated, and none was added with a default that
/// older rows lack.
///
/// # Safety
/// The descriptor must be that of an open relation.
unsafe fn has_only_stored_columns(descriptor: pg_sys::TupleDesc) -> bool {
    // SAFETY: the descriptor of an open relation is valid. Its constraints are valid or NULL.
    unsafe {
        (*descriptor).constr.as_ref().is_none_or(|constraints| {
            #[cfg(since_pg18)]
            let is_generated = constraints.has_generated_stored || constraints.has_generated_virtual;
            #[cfg(not(since_pg18))]
            let is_generated = constraints.has_generated_stored;
            !is_generated && constraints.missing.is_null()
        })
    }
}

/// Returns whether no row of the table has NULL in a column.
///
/// # Safety
/// The descriptor must be that of an open relation with the columns of an entity.
pub(super) unsafe fn has_no_nulls(descriptor: pg_sys::TupleDesc) -> bool {
    (0..4).all(|column| {
        // SAFETY: the caller's promise.
        unsafe {
            // Rows that are older than a constraint may not meet it before it is validated.
            #[cfg(since_pg18)]
            let has_no_null = {
                let attribute = &*(*descriptor).compact_attrs.as_ptr().add(column);
                attribute.attnullability as u8 == pg_sys::ATTNULLABLE_VALID
            };
            #[cfg(not(since_pg18))]
            let has_no_null = (*(*descriptor).attrs.as_ptr().add(column)).attnotnull;
            has_no_null
        }
    })
}

/// Returns whether the table has no CHECK constraint but that of `create_table`.
///
/// # Safety
/// The relation must be open.
unsafe fn has_only_our_check(relation: pg_sys::Relation, own: &OwnObjects) -> bool {
    // SAFETY: as in `is_plain`. `check` has `num_check` elements, and it is read only if that is 1.
    unsafe {
        let Some(constraints) = (*(*relation).rd_att).constr.as_ref() else {
            return true;
        };
        constraints.num_check == 0 || constraints.num_check == 1 && is_ours(&*constraints.check, own)
    }
}

/// Returns whether a CHECK constraint calls the extension's function.
///
/// # Safety
/// It must be one of an open relation.
unsafe fn is_ours(check: &pg_sys::ConstrCheck, own: &OwnObjects) -> bool {
    // SAFETY: `ccbin` is a C string: the expression as text, which begins with the function that is called.
    let expression = unsafe { CStr::from_ptr(check.ccbin) }.to_bytes();
    let rest = expression.strip_prefix(b"{FUNCEXPR :funcid ").unwrap_or_default();
    let digits = rest.split(|&byte| byte == b' ').next().unwrap_or_default();
    std::str::from_utf8(digits).is_ok_and(|oid| oid.parse() == Ok(own.check_function.to_u32()))
}

/// Returns whether no trigger fires on UPDATE that does more than set the Timestamp.
///
/// # Safety
/// The relation must be open.
unsafe fn has_only_our_trigger(relation: pg_sys::Relation, own: &OwnObjects) -> bool {
    // SAFETY: as in `is_plain`. `triggers` has `numtriggers` elements.
    unsafe {
        let Some(all) = (*relation).trigdesc.as_ref() else {
            return true;
        };
        let others = all.trig_update_after_row
            || all.trig_update_before_statement
            || all.trig_update_after_statement
            || all.trig_update_old_table
            || all.trig_update_new_table;
        let triggers = std::slice::from_raw_parts(all.triggers, usize::try_from(all.numtriggers).unwrap_or_default());
        let foreign = |trigger: &pg_sys::Trigger| {
            trigger.tgtype as u32 & pg_sys::TRIGGER_TYPE_UPDATE != 0 && trigger.tgfoid != own.trigger_function
        };
        !others && !triggers.iter().any(foreign)
    }
}

/// Returns whether an entity can be changed after its insert as if it had been inserted so: no trigger fires on INSERT, and
/// subscribers of a publication can apply the change.
///
/// # Safety
/// The relation must be open.
pub(super) unsafe fn is_changeable_after_insert(relation: pg_sys::Relation) -> bool {
    // SAFETY: as in `is_plain`.
    let (class, triggers) = unsafe { (&*(*relation).rd_rel, (*relation).trigdesc.as_ref()) };
    let has_identity = class.relreplident != pg_sys::REPLICA_IDENTITY_NOTHING as c_char;
    has_identity
        && !triggers.is_some_and(|all| {
            all.trig_insert_before_row
                || all.trig_insert_after_row
                || all.trig_insert_before_statement
                || all.trig_insert_after_statement
                || all.trig_insert_new_table
        })
}

/// Returns whether a plan of the statement would read or write this table itself. A library that replaces the planner
/// may plan otherwise, such as Citus for a distributed table.
pub(super) fn is_planned_plainly(table: &Table, purpose: Purpose) -> bool {
    // SAFETY: the hook is a global of this process, which has one thread.
    if unsafe { pg_sys::planner_hook }.is_none() {
        return true;
    }
    // The plan does not depend on the values, so any values will do.
    let (key, bag) = (Text::new(""), Bag::new(Properties::from_stored(&[])));
    let keys = EntityKeys {
        partition_key: key.arg(),
        row_key: key.arg(),
    };
    let (statement, node) = match purpose {
        Purpose::Get | Purpose::Find(_) => (Statement::get(keys), pg_sys::NodeTag::T_IndexScan),
        Purpose::Insert => (Statement::insert(keys, 0, bag.arg()), pg_sys::NodeTag::T_ModifyTable),
        Purpose::Update => (
            Statement::update(UpdateMode::Replace, keys, 0, bag.arg(), None),
            pg_sys::NodeTag::T_ModifyTable,
        ),
        Purpose::Stamp => return true,
    };
    spi::connect(|spi| spi.is_planned_as(table.name(), &statement, node))
}

/// Returns the primary key's index.
///
/// # Safety
/// The relation must be open.
pub(super) unsafe fn primary_key(relation: pg_sys::Relation) -> Option<pg_sys::Oid> {
    // SAFETY: as in `is_plain`. Listing the indexes also makes the entry's `rd_pkindex`.
    unsafe {
        let _ = indexes(relation);
        let primary_key = (*relation).rd_pkindex;
        (primary_key != pg_sys::InvalidOid).then_some(primary_key)
    }
}
