//! How a query that property indexes may serve reads its key ranges: its next step, and the reason.
//!
//! PostgreSQL's planner cannot decide this alone. It has no statistics of a new index, it does not know where in the
//! key order the entities are, and a wrong guess costs a scan of the table or a sort of half of it. So a query decides
//! while it runs. [`Strategy`] is its state, without any I/O: [`Strategy::next`] takes the known facts ([`Evidence`])
//! and returns the next [`Step`] with its [`Reason`], or else the [`Look`] that it needs first. The caller looks, adds
//! its finding to the evidence, and asks again. `query_page` and its like take the steps; `explain_query` goes through
//! the same steps, for a query whose first entities do not match.
//!
//! # The costs
//!
//! | | as much as reading so many entities in key order |
//! |---|---|
//! | to read an entity in key order, and to test it | 1 |
//! | to count an entry of an index | 1/5 (`COUNT` in `costs.rs`) |
//! | to find an entity through an index, and to sort it | 3 (`SORT`) |
//! | to plan a statement | 400 (`PLAN`) |
//!
//! The rule: *the looks of a query cost at most a twentieth of its reads so far. A sort costs at most three twentieths
//! of them, or less than reading the rest.* So no query takes more than 1.2 times as long as reading in key order does.
//! A query of few entities costs as much as they do, because the reads in vain double from decision to decision.
//! `tests.rs` simulates tables and holds the rule to it.
//!
//! Before anything is read there is nothing to spend a part of. The amounts with which a query begins are constants of `costs.rs`, each
//! with its reason; the other branches are in [`Strategy::next`]. Two things are beyond the rule:
//!
//! - A query of all entities of the whole table counts up to 4,000 entries and 12,400 entities before it reads. In a table of
//!   4,000 to 13,000 entities that may be more than a fifth.
//! - PostgreSQL's planner may choose a plan by statistics that are old ([`Step::Planned`]).

mod costs;
mod decision;
mod evidence;
mod strategy;

pub use costs::FEW;
pub use decision::{Decision, Reason, Step};
pub use evidence::{Count, Evidence, Finding, Look};
pub use strategy::{Left, PlannedCall, Strategy};

#[cfg(test)]
mod tests;
