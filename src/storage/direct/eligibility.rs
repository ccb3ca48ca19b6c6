//! The conditions under which direct access has the same result as a statement.

use std::ffi::{CStr, c_char};

use memchr::memchr_iter;
use pgrx::prelude::*;
use table_service_model::Properties;

use super::index_entries::WrittenIndexes;
use crate::postgres::privileges::{has_all, has_all_and_usage, has_policies};
use crate::postgres::relation::is_before_row;
use crate::postgres::{
    Bag, OpenTable, OwnObjects, PropertiesArg, Relation, Text, catalog, connect, settings, with_relation,
};
use crate::storage::arguments::EntityKeys;
use crate::storage::row::is_entity;
use crate::storage::statement::Statement;
use crate::storage::table::Table;

/// One kind of direct access: its requirements, and the statement that it replaces.
pub(super) struct Access {
    /// The privileges on the whole table.
    pub rights: u32,
    /// Returns whether nothing in the table changes the effect of the statement.
    pub is_plain: fn(Relation<'_>, &OwnObjects) -> bool,
    pub statement: for<'a> fn(EntityKeys<'a>, PropertiesArg<'a>) -> Statement<'a>,
    /// The top node of a plan of the statement that reads or writes the table itself.
    pub node: pg_sys::NodeTag,
}

impl Access {
    /// Opens the relation that `find` returns and has locked. The caller has locked the table. Returns `None` if only a statement can
    /// do the work.
    pub(super) fn open(&self, table: &Table, find: impl FnOnce() -> Option<pg_sys::Oid>) -> Option<OpenTable> {
        let own = catalog::own_objects();
        // SAFETY: the hook is a global of this process, which has one thread.
        let asks_others = unsafe { pg_sys::ExecutorCheckPerms_hook }.is_some();
        // Without the privileges on the whole table a statement raises an error, or privileges on columns suffice.
        let is_allowed = || !asks_others && has_all_and_usage(table.oid(), self.rights, own.data_schema);
        if !settings::direct_access() || !is_allowed() {
            return None;
        }
        let relation = find()?;
        // A shard has the privileges and the definition of its table, unless somebody has changed one of them.
        let is_as_its_table = || {
            has_all(relation, self.rights)
                && with_relation(table.oid(), |distributed| (self.is_plain)(distributed, &own))
        };
        if relation != table.oid() && !is_as_its_table() {
            return None;
        }
        let relation = OpenTable::open(relation);
        ((self.is_plain)(relation.get(), &own) && self.is_planned_plainly(table)).then_some(relation)
    }

    /// Returns whether the plan of the statement reads or writes this table itself, or lets Citus do so for a
    /// distributed table. A library that replaces the planner may make another plan.
    fn is_planned_plainly(&self, table: &Table) -> bool {
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
        let statement = (self.statement)(keys, bag.arg());
        let node = table.top_node(self.node);
        connect(|spi| spi.is_planned_as(table.name(), &statement, node))
    }
}

/// Says that the caller may read every row of a table ([`reads_every_row`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EveryRow(());

/// Returns whether the caller has the privilege to read the whole table.
pub fn may_read(table: &Table) -> bool {
    has_all(table.oid(), pg_sys::ACL_SELECT)
}

/// Returns whether the caller may read every row of a table: the caller has the privilege to read the whole table, and no
/// policies hide rows from the caller.
pub fn reads_every_row(table: &Table) -> Option<EveryRow> {
    (may_read(table) && !has_policies(table.oid())).then_some(EveryRow(()))
}

/// Returns whether the table is a heap with the columns of an entity, and no others.
pub(super) fn is_heap(relation: Relation<'_>) -> bool {
    let descriptor = relation.descriptor();
    // SAFETY: the descriptor of an open relation is valid.
    let has_our_columns = || unsafe { (*descriptor).natts == 4 && is_entity(descriptor) };
    relation.is(pg_sys::RELKIND_RELATION)
        && relation.class().relam == pg_sys::HEAP_TABLE_AM_OID
        && has_our_columns()
        && has_only_stored_columns(relation)
}

/// Returns whether the table is a heap that has all its entities itself, and no policies or rules.
pub(super) fn is_whole(relation: Relation<'_>) -> bool {
    let class = relation.class();
    is_heap(relation)
        && !class.relispartition
        && !class.relhassubclass
        && !class.relrowsecurity
        && !relation.has_rules()
}

/// Returns whether every row stores all its columns: no column is generated, and none was added with a default that
/// older rows lack.
fn has_only_stored_columns(relation: Relation<'_>) -> bool {
    relation.constraints().is_none_or(|constraints| {
        #[cfg(since_pg18)]
        let is_generated = constraints.has_generated_stored || constraints.has_generated_virtual;
        #[cfg(not(since_pg18))]
        let is_generated = constraints.has_generated_stored;
        !is_generated && constraints.missing.is_null()
    })
}

/// Returns whether the table has no CHECK constraint except the one that `create_table` makes.
pub(super) fn has_only_our_check(relation: Relation<'_>, own: &OwnObjects) -> bool {
    relation.constraints().is_none_or(|constraints| {
        // SAFETY: `check` has `num_check` elements, and it is read only if that is 1.
        constraints.num_check == 0 || constraints.num_check == 1 && unsafe { is_ours(&*constraints.check, own) }
    })
}

/// Returns whether a CHECK constraint only calls the extension's function, with columns.
///
/// # Safety
/// The constraint must belong to an open relation.
unsafe fn is_ours(check: &pg_sys::ConstrCheck, own: &OwnObjects) -> bool {
    // SAFETY: `ccbin` is a C string: the expression as text, which begins with the function that is called.
    let expression = unsafe { CStr::from_ptr(check.ccbin) }.to_bytes();
    let rest = expression.strip_prefix(b"{FUNCEXPR :funcid ").unwrap_or_default();
    let digits = rest.split(|&byte| byte == b' ').next().unwrap_or_default();
    let is_called = std::str::from_utf8(digits).is_ok_and(|oid| oid.parse() == Ok(own.check_function.to_u32()));
    // The call and its four arguments are nodes without others in them. Code of users could be in one.
    is_called && memchr_iter(b'{', expression).count() == 5
}

/// Returns whether no trigger on UPDATE does more than set the Timestamp.
pub(super) fn has_only_our_trigger(relation: Relation<'_>, own: &OwnObjects) -> bool {
    !relation.has_trigger(pg_sys::TRIGGER_TYPE_UPDATE, |trigger| {
        trigger.tgfoid != own.trigger_function || !is_before_row(trigger)
    })
}

/// Returns whether a write to a table may run code of users or of Citus, through a trigger, a constraint, an index, a
/// policy, a rule or a foreign key. The caller has locked the table.
pub fn runs_code_of_users(table: &Table) -> bool {
    const WRITES: u32 = pg_sys::TRIGGER_TYPE_INSERT | pg_sys::TRIGGER_TYPE_UPDATE | pg_sys::TRIGGER_TYPE_DELETE;
    let own = catalog::own_objects();
    let is_foreign = |trigger: &pg_sys::Trigger| {
        trigger.tgfoid != own.trigger_function || !is_before_row(trigger) || !trigger.tgqual.is_null()
    };
    let is_plain = |relation: Relation<'_>| {
        is_whole(relation)
            && has_only_our_check(relation, &own)
            && !relation.has_trigger(WRITES, is_foreign)
            && WrittenIndexes::open(relation).is_some()
    };
    !table.with_relation(is_plain).unwrap_or(false)
}

/// Returns whether a change of an entity after its insert has the same result as an insert of the changed entity: no
/// trigger fires on INSERT, and subscribers of a publication can apply the change.
pub(super) fn is_changeable_after_insert(relation: Relation<'_>) -> bool {
    let has_identity = relation.class().relreplident != pg_sys::REPLICA_IDENTITY_NOTHING as c_char;
    has_identity && !relation.has_triggers(pg_sys::TRIGGER_TYPE_INSERT)
}
