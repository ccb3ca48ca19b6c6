//! Inlines calls of functions in FROM: a query that has the same result replaces the call, and becomes a part of the
//! statement. PostgreSQL 19 and later ask for it.
//!
//! - A call is not inlined if the query would differ in anything except speed. So the table must permit direct access,
//!   with columns that are not NULL and entities that do not expire. A call with an invalid argument stays.
//! - The call has to name the table in its stored spelling. Then only a change of this table gives the name another
//!   meaning, and PostgreSQL discards a plan when its table changes.
//! - The call's checks are made when the statement is planned. PostgreSQL plans it again for another role, and after
//!   changes of the table's rights, definition, indexes and policies. A change of the dialect discards all plans.
//! - As in any statement on a table, nobody can truncate the table or change its definition in the middle of the statement.

use pgrx::pg_sys;
use table_service_model::filter::Plan;
use table_service_model::{Dialect, Filter, KeyRange};

use super::matches::{RANGES, conditions};
use crate::storage::direct::{Lookup, Reader};
use crate::storage::expiry::Expiries;
use crate::storage::inlining::{CallInFrom, Selection};
use crate::storage::table::{Table, TableLock};

/// Returns whether a statement may be faster with a query instead of a call. It is not if it takes the rows of the call
/// unchanged: the call needs no plan.
pub fn may_gain(call: &CallInFrom<'_>) -> bool {
    call.is_joined() || call.is_narrowed() || call.is_changed()
}

/// Returns the query that selects the entities of a plan, at most `top` of them, for a call that [`may_gain`].
pub fn query_entities(call: &CallInFrom<'_>, table_name: &str, plan: &Plan, top: Option<i64>) -> Option<pg_sys::Datum> {
    let (is_one, is_partition) = match plan.ranges.as_slice() {
        [range] => (range.point().is_some(), range.partition().is_some()),
        _ => (false, false),
    };
    // By itself the call is faster with one entity, and if it tests all rows in any case.
    let gains = call.is_joined() || !is_one && (plan.residual.is_none() || call.is_narrowed());
    // Without a range there is nothing to read. For many, and with `top` for a filter that tests rows, the function
    // finds the better way: it knows the rows that it has read.
    let is_simple = (1..=RANGES).contains(&plan.ranges.len())
        && plan.ranges.iter().all(KeyRange::is_of_comparisons)
        && (top.is_none() || plan.residual.is_none());
    if !gains || !is_simple {
        return None;
    }
    on_table(call, table_name, |table| {
        let row = call.row(table.oid())?;
        let (mut conditions, implied) = conditions(&row, table, plan, call.ends_early());
        if let Some(residual) = &plan.residual {
            let text = residual.to_string();
            // With the values of parameters in it, it may be too long.
            (Filter::parse(&text, None, Dialect::Extended).ok()? == *residual).then_some(())?;
            conditions.push(call.passes(&row, &text, implied)?);
        }
        let selection = Selection {
            conditions,
            is_ordered: !is_one && (top.is_some() || call.order_shows(is_partition)),
            top,
        };
        call.answer(table.oid(), &selection)
    })
}

/// Calls `f` with a locked table, if a query may read it instead of a call.
fn on_table(
    call: &CallInFrom<'_>,
    name: &str,
    f: impl FnOnce(&Table) -> Option<pg_sys::Datum>,
) -> Option<pg_sys::Datum> {
    Table::find(name).ok()??;
    let table = Table::open(name, TableLock::Read).ok()?;
    let is_plain = table.name().name() == name
        && Expiries::of(&table).is_empty()
        && Reader::open(&table, Lookup::Keys(None)).is_some_and(|table| table.has_no_nulls());
    let query = is_plain.then(|| f(&table)).flatten();
    if query.is_none() {
        call.stays_while(table.oid());
        table.unlock(TableLock::Read);
    }
    query
}
