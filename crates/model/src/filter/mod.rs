//! Filters, from the text of `$filter` to keys and tests (semantics 6).
//!
//! [`Filter::parse`] reads the text, [`Plan::new`] finds the key ranges that can hold results and the residual filter
//! for the entities in them, [`Predicate::new`] compiles a filter for many evaluations. [`Filter::matches`] is
//! the reference evaluator: all of that must give the same results.
//!
//! ```
//! use table_service_model::entity::Entity;
//! use table_service_model::filter::{Dialect, Filter, Plan, Predicate};
//! use table_service_model::json::parse_properties;
//!
//! let filter = Filter::parse("PartitionKey eq 'Sales' and Age gt 30", None, Dialect::Service)?;
//! let properties = parse_properties(r#"{"Age": 34}"#)?;
//! let entity = Entity {
//!     partition_key: Some("Sales"),
//!     row_key: Some("00010"),
//!     timestamp: None,
//!     properties: properties.as_properties(),
//! };
//! assert!(filter.matches(&entity));
//! assert!(Predicate::new(&filter).matches(&entity));
//!
//! let plan = Plan::new(filter);
//! assert_eq!(plan.ranges.len(), 1);
//! assert_eq!(plan.ranges[0].partition(), Some("Sales"));
//! assert_eq!(plan.residual.unwrap().to_string(), "Age gt 30");
//! # Ok::<(), table_service_model::Error>(())
//! ```

mod ast;
mod dialect;
mod evaluate;
mod key_range;
mod key_set;
mod outcomes;
mod parse;
mod plan;
mod predicate;
mod print;

pub use ast::{Column, Comparison, Expression, Filter, Literal, Operator, TextFunction, TextTest};
pub use dialect::{Dialect, hint_for};
pub use key_range::{AccessClass, Bound, Key, KeyRange};
pub(crate) use outcomes::Outcomes;
pub use plan::Plan;
pub use predicate::{Columns, Predicate};

#[cfg(test)]
mod tests;
