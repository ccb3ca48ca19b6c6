//! Explains how a query reads its key ranges, for users.

use table_service_model::KeyRange;
use table_service_model::filter::{AccessClass, Plan};
use table_service_model::limits::PAGE_ENTITIES;
use table_service_model::property_index::Condition;
use table_service_model::read_strategy::Step;

use super::fan_out;
use super::property_index::{FilterIndexes, value_in};
use super::scan::{are_read_together, bounds, lookup, strategy};
use crate::postgres::Connection;
use crate::storage::direct::Reader;
use crate::storage::execution::ScanPlanning;
use crate::storage::statement::{IndexScan, Tested, scan_to_sql};
use crate::storage::table::Table;

/// How the entities of key ranges are read, for users.
pub struct Explained {
    pub access: AccessClass,
    pub sql: String,
    pub planning: ScanPlanning,
    /// Why it is read so, if a property index may serve it.
    pub reason: Option<String>,
}

/// The most entities without a match that an explanation assumes.
const EXPLAINED: usize = 1_000_000;

/// About how many bytes of statements an explanation shows. Each has the whole filter, and there may be very many.
const SHOWN: usize = 1024 * 1024;

/// Explains how the first page of a plan is read: the class of its worst key range, and the first statements.
pub fn explain(spi: &Connection, table: &Table, plan: &Plan) -> (AccessClass, Vec<Explained>) {
    let knowledge = FilterIndexes::new(table, plan.residual.as_ref());
    if knowledge
        .as_ref()
        .is_some_and(|knowledge| knowledge.condition().finds_nothing())
    {
        return (AccessClass::Nothing, Vec::new());
    }
    if table.is_distributed() {
        return explain_each(&plan.ranges, |range| {
            explain_distributed(spi, table, plan, range, knowledge.as_ref())
        });
    }
    let through_indexes = |ranges: &[KeyRange], knowledge| explain_indexes(spi, table, ranges, knowledge);
    let by_keys = |range: &KeyRange, reason| Explained {
        access: range.access(),
        sql: scan_to_sql(range, table.name(), plan.residual.as_ref()),
        planning: ScanPlanning::ForKeys,
        reason,
    };
    let Some(knowledge) = &knowledge else {
        return explain_each(&plan.ranges, |range| by_keys(range, None));
    };
    if are_read_together(&plan.ranges, knowledge) {
        return match through_indexes(&plan.ranges, knowledge) {
            Ok(explained) => (explained.access, vec![explained]),
            Err(reason) => explain_each(&plan.ranges, |range| by_keys(range, Some(reason.clone()))),
        };
    }
    explain_each(&plan.ranges, |range| match range.point() {
        Some(_) => by_keys(range, None),
        None => through_indexes(std::slice::from_ref(range), knowledge)
            .unwrap_or_else(|reason| by_keys(range, Some(reason))),
    })
}

/// Explains key ranges one by one, as far as they are shown.
fn explain_each(ranges: &[KeyRange], explain: impl Fn(&KeyRange) -> Explained) -> (AccessClass, Vec<Explained>) {
    let (mut access, mut shown, mut bytes) = (AccessClass::Nothing, Vec::new(), 0);
    for range in ranges {
        pgrx::check_for_interrupts!();
        if bytes > SHOWN {
            access = access.max(range.access());
            continue;
        }
        let explained = explain(range);
        access = access.max(explained.access);
        bytes += explained.sql.len();
        shown.push(explained);
    }
    (access, shown)
}

/// Explains a key range of a distributed table. The other servers choose whether they read property indexes: their
/// plans show it.
fn explain_distributed(
    spi: &Connection,
    table: &Table,
    plan: &Plan,
    range: &KeyRange,
    knowledge: Option<&FilterIndexes<'_>>,
) -> Explained {
    let planning = ScanPlanning::Free;
    let scan = knowledge
        .and_then(|knowledge| fan_out::index_scan(table, range, knowledge, Tested::Shown(knowledge.filter), None))
        .map(|scan| scan.to_sql());
    let reads_index = |sql: &String| {
        let is_condition = |line: &str| line.contains("Index Cond:") && line.contains("property_index_key(");
        spi.explain(sql, planning).lines().any(is_condition)
    };
    let access = match scan.as_ref().is_some_and(reads_index) {
        true => range.access().min(AccessClass::PropertyIndexScan),
        false => range.access(),
    };
    let sql = scan.unwrap_or_else(|| scan_to_sql(range, table.name(), plan.residual.as_ref()));
    Explained {
        access,
        sql,
        planning,
        reason: None,
    }
}

/// Explains key ranges that property indexes may serve: the steps of a page without a match among the first entities in
/// key order. Returns the reason if they are read in key order.
fn explain_indexes(
    spi: &Connection,
    table: &Table,
    ranges: &[KeyRange],
    knowledge: &FilterIndexes<'_>,
) -> Result<Explained, String> {
    let condition = knowledge.within(ranges);
    let lookup = lookup(ranges, Some(knowledge));
    let is_direct = lookup.is_some_and(|lookup| Reader::open(table, lookup).is_some());
    let mut strategy = strategy(Some(PAGE_ENTITIES), is_direct);
    let decision = loop {
        let decision = knowledge.decide(&strategy, (ranges, ranges), &condition, 0);
        match decision.step {
            Step::InKeyOrder { entities: Some(_) } if strategy.read() < EXPLAINED => strategy.advance(decision.step, 0),
            _ => break decision,
        }
    };
    let shown = Tested::Shown(knowledge.filter);
    let sorted = |condition: &Condition, planning: ScanPlanning| {
        let condition = (condition, &*knowledge.indexes);
        let scan = IndexScan::sorted(table.name(), ranges, condition, shown, None, bounds(planning));
        Some((scan, planning))
    };
    let scan = match decision.step {
        Step::InKeyOrder { .. } => None,
        Step::OfValue { value, .. } => value_in(&condition, value).and_then(|(property, span)| {
            let property = &knowledge.indexes.get(property)?.property;
            let scan = IndexScan::ordered(table.name(), property, span, shown, false);
            Some((scan, ScanPlanning::ForKeys))
        }),
        Step::Planned => sorted(&condition, ScanPlanning::Free),
        Step::Sorted { entries } => sorted(&knowledge.narrow(&condition, entries + 1), ScanPlanning::ForFewRows),
    };
    let after = match strategy.read() {
        0 => String::new(),
        read => format!(", after {read} entities in key order without a match"),
    };
    let access = ranges
        .iter()
        .map(KeyRange::access)
        .max()
        .unwrap_or(AccessClass::Nothing);
    let Some((scan, planning)) = scan else {
        return Err(decision.reason.to_string());
    };
    let sql = scan.to_sql();
    if !spi.would_read(&sql, planning, &knowledge.oids()) {
        return Err("the planner reads no property index".to_owned());
    }
    Ok(Explained {
        access: access.min(AccessClass::PropertyIndexScan),
        sql,
        planning,
        reason: Some(format!("{}{after}", decision.reason)),
    })
}
