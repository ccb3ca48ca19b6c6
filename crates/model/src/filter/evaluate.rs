//! The reference evaluator: the meaning of a filter, as semantics 6.3 gives it. It is written to be clear;
//! [`super::Predicate`] is the fast one.

use std::cmp::Ordering;

use crate::filter::ast::{Column, Comparison, Expression, Filter, Literal, Operator};
use crate::{Entity, Value};

impl Filter {
    /// Returns whether an entity passes, as semantics 6.3 says it.
    ///
    /// This is the reference for everything that is faster: [`super::Predicate`], [`super::Plan`] and SQL.
    pub fn matches(&self, entity: &Entity<'_>) -> bool {
        matches(&self.0, entity)
    }
}

fn matches(expression: &Expression, entity: &Entity<'_>) -> bool {
    match expression {
        Expression::And(terms) => terms.iter().all(|term| matches(term, entity)),
        Expression::Or(terms) => terms.iter().any(|term| matches(term, entity)),
        Expression::Not(term) => !matches(term, entity),
        Expression::Comparison(comparison) => holds(comparison, entity),
        Expression::Text(test) => {
            let value = value_of(&test.property, entity);
            matches!(value, Some(Value::String(value)) if test.function.holds(value, &test.text))
        }
        Expression::Property(property) => value_of(property, entity) == Some(Value::Boolean(true)),
        Expression::Constant(value) => *value,
    }
}

fn value_of<'e>(column: &Column, entity: &Entity<'e>) -> Option<Value<'e>> {
    match column {
        Column::PartitionKey => entity.partition_key.map(Value::String),
        Column::RowKey => entity.row_key.map(Value::String),
        Column::Timestamp => entity.timestamp.map(Value::DateTime),
        Column::Property(name) => entity.properties.get(name),
    }
}

fn holds(comparison: &Comparison, entity: &Entity<'_>) -> bool {
    let Some(value) = value_of(&comparison.property, entity) else {
        // Rule 1: absent, so false, `ne` included.
        return false;
    };
    let order = match (&comparison.property, value, &comparison.literal) {
        // Keys have the order in which they are stored, which is that of their bytes.
        (Column::PartitionKey | Column::RowKey, Value::String(key), Literal::String(literal)) => {
            Some(key.as_bytes().cmp(literal.as_bytes()))
        }
        (_, value, literal) => compare(value, literal),
    };
    match comparison.operator {
        Operator::Eq => order == Some(Ordering::Equal),
        Operator::Ne => order != Some(Ordering::Equal),
        Operator::Lt => order == Some(Ordering::Less),
        Operator::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Operator::Gt => order == Some(Ordering::Greater),
        Operator::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    }
}

/// Rules 2 to 4; `None` for a comparison with NaN.
fn compare(value: Value<'_>, literal: &Literal) -> Option<Ordering> {
    match (value, literal) {
        (Value::String(a), Literal::String(b)) => Some(a.encode_utf16().cmp(b.encode_utf16())),
        (Value::Boolean(a), Literal::Boolean(b)) => Some(a.cmp(b)),
        (Value::DateTime(a), Literal::DateTime(b)) => Some(a.cmp(b)),
        (Value::Guid(a), Literal::Guid(b)) => Some(a.cmp(b)),
        (Value::Binary(a), Literal::Binary(b)) => Some(a.cmp(b)),
        (Value::Int32(a), Literal::Int32(b)) => Some(a.cmp(b)),
        (Value::Int64(a), Literal::Int32(b)) => Some(a.cmp(&i64::from(*b))),
        (Value::Int64(a), Literal::Int64(b)) => Some(a.cmp(b)),
        (Value::Double(a), Literal::Int32(b)) => a.partial_cmp(&f64::from(*b)),
        // The literal is widened as C# widens it, to the nearest double.
        (Value::Double(a), Literal::Int64(b)) => a.partial_cmp(&(*b as f64)),
        (Value::Double(a), Literal::Double(b)) => a.partial_cmp(b),
        // Rule 4: of another type, so less.
        _ => Some(Ordering::Less),
    }
}
