//! Filters, from the text of `$filter` to keys and tests (semantics 6).
//!
//! [`Filter::parse`] reads the text, [`Plan::new`] finds the key ranges that can hold results and the residual filter
//! for the entities in them, [`Predicate::new`] compiles a filter for many evaluations. [`Filter::matches`] is
//! the reference evaluator: all of that must give the same results.

mod ast;
mod evaluate;
mod key_range;
mod key_set;
mod lexer;
mod outcomes;
mod parse;
mod plan;
mod predicate;
mod print;

pub use ast::{Column, Comparison, Expression, Filter, Literal, Operator, Position, Property};
pub use key_range::{AccessClass, Bound, KeyRange};
pub(crate) use outcomes::Outcomes;
pub use plan::Plan;
pub use predicate::{Columns, Predicate};

#[cfg(test)]
mod tests;
