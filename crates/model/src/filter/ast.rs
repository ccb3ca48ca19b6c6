//! A filter as a tree.

use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::key::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use crate::{EdmType, Ticks, Value};

/// A predicate over entities, as `$filter` states it.
///
/// Its text ([`std::fmt::Display`]) is one canonical spelling: parsed again, it is an equal filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter(pub(super) Expression);

impl Filter {
    /// The filter that every entity passes.
    pub const EVERYTHING: Filter = Filter(Expression::Constant(true));

    /// Returns the filter of an expression that has the form of a parsed one.
    #[cfg(test)]
    pub(crate) fn new(expression: Expression) -> Filter {
        Filter(expression)
    }

    /// Returns the expression.
    pub fn expression(&self) -> &Expression {
        &self.0
    }
}

/// A part of a filter.
///
/// In a parsed filter, `And` has at least two terms and none of them is an `And`; so for `Or`; the term of a `Not` is
/// neither a `Not` nor a `Constant`; and no path is longer than [`crate::limits::FILTER_DEPTH`], which makes it safe
/// to recurse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expression {
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Not(Box<Expression>),
    Comparison(Comparison),
    Text(TextTest),
    /// A bare property: whether its value is Boolean true.
    Property(Column),
    Constant(bool),
}

impl Expression {
    pub(crate) fn negated(self) -> Expression {
        match self {
            Expression::Not(term) => *term,
            Expression::Constant(value) => Expression::Constant(!value),
            term => Expression::Not(Box::new(term)),
        }
    }

    /// Returns all of the terms, which are at least one.
    pub(crate) fn all_of(terms: Vec<Expression>) -> Expression {
        flatten(terms, Expression::And, |term| match term {
            Expression::And(inner) => Ok(inner),
            other => Err(other),
        })
    }

    /// Any of the terms, which are at least one.
    pub(crate) fn any_of(terms: Vec<Expression>) -> Expression {
        flatten(terms, Expression::Or, |term| match term {
            Expression::Or(inner) => Ok(inner),
            other => Err(other),
        })
    }
}

fn flatten(
    terms: Vec<Expression>,
    wrap: fn(Vec<Expression>) -> Expression,
    unwrap: fn(Expression) -> Result<Vec<Expression>, Expression>,
) -> Expression {
    let mut flat = Vec::with_capacity(terms.len());
    for term in terms {
        match unwrap(term) {
            Ok(inner) => flat.extend(inner),
            Err(term) => flat.push(term),
        }
    }
    match flat.pop() {
        Some(only) if flat.is_empty() => only,
        last => {
            flat.extend(last);
            wrap(flat)
        }
    }
}

/// A property against a literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    pub property: Column,
    pub operator: Operator,
    pub literal: Literal,
}

/// A property against a part of its text. It holds for Strings alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextTest {
    pub property: Column,
    pub function: TextFunction,
    pub text: Box<str>,
}

/// The function of a [`TextTest`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum TextFunction {
    Contains,
    EndsWith,
}

impl TextFunction {
    pub(crate) const ALL: &[TextFunction] = TextFunction::VARIANTS;

    /// Returns the name in a filter, e.g. `contains`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns whether it holds for a value. Parts of texts are parts of their UTF-8 and of their UTF-16 alike.
    pub(super) fn holds(self, value: &str, text: &str) -> bool {
        match self {
            TextFunction::Contains => value.contains(text),
            TextFunction::EndsWith => value.ends_with(text),
        }
    }
}

/// Where a value of an entity is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    PartitionKey,
    RowKey,
    Timestamp,
    /// A property of the bag, by its name.
    Property(Box<str>),
}

impl Column {
    /// Returns the column of this name.
    pub fn of_name(name: &str) -> Column {
        match name {
            PARTITION_KEY => Column::PartitionKey,
            ROW_KEY => Column::RowKey,
            TIMESTAMP => Column::Timestamp,
            _ => Column::Property(name.into()),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        match self {
            Column::PartitionKey => PARTITION_KEY,
            Column::RowKey => ROW_KEY,
            Column::Timestamp => TIMESTAMP,
            Column::Property(name) => name,
        }
    }
}

/// A comparison operator; its keyword is its name in small letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Operator {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Operator {
    /// Every operator.
    pub const ALL: &[Operator] = Operator::VARIANTS;

    /// Returns the keyword, e.g. `eq`.
    pub fn keyword(self) -> &'static str {
        self.into()
    }

    pub(super) fn of_keyword(keyword: &str) -> Option<Operator> {
        keyword.parse().ok()
    }

    /// Returns the operator with its sides swapped.
    pub(super) fn mirrored(self) -> Operator {
        match self {
            Operator::Eq | Operator::Ne => self,
            Operator::Lt => Operator::Gt,
            Operator::Le => Operator::Ge,
            Operator::Gt => Operator::Lt,
            Operator::Ge => Operator::Le,
        }
    }
}

/// A constant in a filter.
#[derive(Debug, Clone)]
pub enum Literal {
    String(Box<str>),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Boolean(bool),
    /// Unlike a stored value, also before 1601.
    DateTime(Ticks),
    /// The 16 bytes in the order of the text form.
    Guid([u8; 16]),
    Binary(Box<[u8]>),
}

impl Literal {
    /// Returns the value.
    pub fn value(&self) -> Value<'_> {
        match self {
            Literal::String(text) => Value::String(text),
            Literal::Int32(n) => Value::Int32(*n),
            Literal::Int64(n) => Value::Int64(*n),
            Literal::Double(n) => Value::Double(*n),
            Literal::Boolean(b) => Value::Boolean(*b),
            Literal::DateTime(ticks) => Value::DateTime(*ticks),
            Literal::Guid(guid) => Value::Guid(*guid),
            Literal::Binary(bytes) => Value::Binary(bytes),
        }
    }

    /// Returns the Edm type.
    pub fn edm_type(&self) -> EdmType {
        self.value().edm_type()
    }
}

impl From<Value<'_>> for Literal {
    fn from(value: Value<'_>) -> Literal {
        match value {
            Value::String(text) => Literal::String(text.into()),
            Value::Int32(n) => Literal::Int32(n),
            Value::Int64(n) => Literal::Int64(n),
            Value::Double(n) => Literal::Double(n),
            Value::Boolean(b) => Literal::Boolean(b),
            Value::DateTime(ticks) => Literal::DateTime(ticks),
            Value::Guid(guid) => Literal::Guid(guid),
            Value::Binary(bytes) => Literal::Binary(bytes.into()),
        }
    }
}

/// Whether both are the same constant. A comparison in a filter differs: there NaN equals nothing, and 0.0 equals -0.0.
impl PartialEq for Literal {
    fn eq(&self, other: &Literal) -> bool {
        match (self, other) {
            (Literal::Double(a), Literal::Double(b)) => a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
            _ => self.value() == other.value(),
        }
    }
}

impl Eq for Literal {}
