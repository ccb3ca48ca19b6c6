//! A filter that is compiled for many entities.
//!
//! Every comparison becomes one test that knows, for each outcome, whether it holds; `not` is gone. A test names the
//! next one for either result, always one further on, so that evaluation is a loop that ends.

mod bytes;

use std::cmp::Ordering;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crate::expiry::Alive;
use crate::filter::ast::{Column, Expression, Filter, Literal, TextFunction};
use crate::filter::outcomes::Outcomes;
use crate::{EdmType, Entity, Ticks};

/// A compiled filter. It has the result of [`Filter::matches`], and does not allocate.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicate {
    first: Jump,
    tests: Vec<Test>,
    /// The columns that the tests look at.
    columns: Columns,
    /// The second test: entities that have not expired pass. `None` if none expire.
    alive: Option<Alive>,
}

#[derive(Debug, Clone, PartialEq)]
struct Test {
    column: Column,
    operand: Operand,
    holds_for: Outcomes,
    then: Jump,
    otherwise: Jump,
    last_index: LastIndex,
}

/// The operand of a test of a value.
#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Literal(Literal),
    /// The outcome is `EQUAL` if the function holds, else `LESS`.
    Text(TextFunction, Box<str>),
}

/// The index of a test's property in the last bag. It only speeds up the search in the next one.
#[derive(Debug, Default)]
struct LastIndex(AtomicUsize);

impl LastIndex {
    fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    fn set(&self, index: usize) {
        self.0.store(index, Relaxed);
    }
}

impl Clone for LastIndex {
    fn clone(&self) -> LastIndex {
        LastIndex::default()
    }
}

impl PartialEq for LastIndex {
    fn eq(&self, _: &LastIndex) -> bool {
        true
    }
}

/// The step after a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Jump {
    Pass,
    Fail,
    Test(u32),
}

/// The columns of an entity that a [`Predicate`] looks at. The others may be left out of the [`Entity`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Columns {
    pub partition_key: bool,
    pub row_key: bool,
    pub timestamp: bool,
    pub properties: bool,
}

impl Predicate {
    /// Returns the predicate of a query: entities pass that pass its filter and have not expired. `None` if all pass.
    pub fn of_query(filter: Option<&Filter>, alive: Option<Alive>) -> Option<Predicate> {
        let everything = || Predicate::of_tests(Jump::Pass, Vec::new());
        if filter.is_none() && alive.is_none() {
            return None;
        }
        let predicate = filter.map_or_else(everything, Predicate::new);
        Some(Predicate { alive, ..predicate })
    }

    fn of_tests(first: Jump, tests: Vec<Test>) -> Predicate {
        let mut columns = Columns::default();
        for test in &tests {
            match test.column {
                Column::PartitionKey => columns.partition_key = true,
                Column::RowKey => columns.row_key = true,
                Column::Timestamp => columns.timestamp = true,
                Column::Property(_) => columns.properties = true,
            }
        }
        Predicate {
            first,
            tests,
            columns,
            alive: None,
        }
    }

    /// Compiles a filter. No entity expires.
    pub fn new(filter: &Filter) -> Predicate {
        // Backwards, so that the targets of a test are there before it.
        let mut compiler = Compiler(Vec::new());
        let first = compiler.compile(filter.expression(), false, Jump::Pass, Jump::Fail);
        let mut tests = compiler.0;
        let count = u32::try_from(tests.len()).unwrap_or(u32::MAX);
        let turn = |target| match target {
            Jump::Test(index) => Jump::Test(count - 1 - index),
            end => end,
        };
        tests.reverse();
        for test in &mut tests {
            test.then = turn(test.then);
            test.otherwise = turn(test.otherwise);
        }
        Predicate::of_tests(turn(first), tests)
    }

    /// Returns whether an entity passes, and has not expired.
    pub fn matches(&self, entity: &Entity<'_>) -> bool {
        self.passes(entity) && self.alive.as_ref().is_none_or(|alive| is_alive(alive, entity))
    }

    /// Returns the second test, for entities that have not expired; `None` if no entity expires.
    pub fn alive(&self) -> Option<&Alive> {
        self.alive.as_ref()
    }

    /// Returns whether an entity passes the filter, whether it has expired or not.
    pub fn passes(&self, entity: &Entity<'_>) -> bool {
        self.follow(entity, |_, _| {})
    }

    /// Returns the property whose absence is the reason that an entity does not pass the filter. `None` if it passes,
    /// or if there is another reason.
    pub fn lacking(&self, entity: &Entity<'_>) -> Option<&str> {
        let mut last = None;
        let passes = self.follow(entity, |test, outcome| last = Some((&test.column, outcome)));
        match last {
            Some((Column::Property(name), Outcomes::ABSENT)) if !passes => Some(name),
            _ => None,
        }
    }

    /// Does the tests that decide whether an entity passes, and returns whether it does.
    fn follow<'p>(&'p self, entity: &Entity<'_>, mut tested: impl FnMut(&'p Test, Outcomes)) -> bool {
        let mut target = self.first;
        loop {
            let test = match target {
                Jump::Pass => return true,
                Jump::Fail => return false,
                Jump::Test(index) => usize::try_from(index).ok().and_then(|index| self.tests.get(index)),
            };
            let Some(test) = test else {
                return false;
            };
            let outcome = test.outcome(entity);
            tested(test, outcome);
            target = if test.holds_for.contains(outcome) {
                test.then
            } else {
                test.otherwise
            };
        }
    }

    /// Returns the columns that [`Predicate::matches`] looks at.
    pub fn columns(&self) -> Columns {
        Columns {
            timestamp: self.columns.timestamp || self.alive.is_some(),
            properties: self.columns.properties || self.alive.is_some(),
            ..self.columns
        }
    }

    /// Returns the columns that [`Predicate::passes`] looks at.
    pub fn columns_of_filter(&self) -> Columns {
        self.columns
    }
}

/// An entity without a Timestamp is not stored, so it does not expire.
fn is_alive(alive: &Alive, entity: &Entity<'_>) -> bool {
    let includes = |timestamp: Ticks| alive.includes(timestamp.to_postgres_micros(), entity.properties);
    entity.timestamp.is_none_or(includes)
}

struct Compiler(Vec<Test>);

impl Compiler {
    /// Adds the tests for an expression and gives the one to begin with.
    fn compile(&mut self, expression: &Expression, negated: bool, then: Jump, otherwise: Jump) -> Jump {
        match expression {
            Expression::Not(term) => self.compile(term, !negated, then, otherwise),
            Expression::And(terms) | Expression::Or(terms) => {
                let all_must_hold = matches!(expression, Expression::And(_)) != negated;
                let end = if all_must_hold { then } else { otherwise };
                terms.iter().rev().fold(end, |next, term| match all_must_hold {
                    true => self.compile(term, negated, next, otherwise),
                    false => self.compile(term, negated, then, next),
                })
            }
            Expression::Constant(value) => {
                if *value != negated {
                    then
                } else {
                    otherwise
                }
            }
            Expression::Comparison(comparison) => self.test(Test {
                column: comparison.property.clone(),
                operand: Operand::Literal(comparison.literal.clone()),
                holds_for: Outcomes::of(comparison.operator).negated_if(negated),
                then,
                otherwise,
                last_index: LastIndex::default(),
            }),
            Expression::Text(test) => self.test(Test {
                column: test.property.clone(),
                operand: Operand::Text(test.function, test.text.clone()),
                holds_for: Outcomes::EQUAL.negated_if(negated),
                then,
                otherwise,
                last_index: LastIndex::default(),
            }),
            Expression::Property(property) => self.test(Test {
                column: property.clone(),
                operand: Operand::Literal(Literal::Boolean(true)),
                holds_for: Outcomes::EQUAL.negated_if(negated),
                then,
                otherwise,
                last_index: LastIndex::default(),
            }),
        }
    }

    fn test(&mut self, test: Test) -> Jump {
        if test.then == test.otherwise {
            return test.then;
        }
        let index = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.push(test);
        Jump::Test(index)
    }
}

impl Test {
    fn outcome(&self, entity: &Entity<'_>) -> Outcomes {
        match &self.column {
            Column::PartitionKey => self.outcome_of_key(entity.partition_key),
            Column::RowKey => self.outcome_of_key(entity.row_key),
            Column::Timestamp => match (entity.timestamp, &self.operand) {
                (None, _) => Outcomes::ABSENT,
                (Some(timestamp), Operand::Literal(Literal::DateTime(literal))) => timestamp.cmp(literal).into(),
                (Some(_), _) => Outcomes::LESS,
            },
            Column::Property(name) => match entity.properties.stored(name.as_bytes(), self.last_index.get()) {
                None => Outcomes::ABSENT,
                Some((index, edm, bytes)) => {
                    self.last_index.set(index);
                    compare(edm, bytes, &self.operand).unwrap_or(Outcomes::LESS)
                }
            },
        }
    }

    fn outcome_of_key(&self, key: Option<&str>) -> Outcomes {
        match (key, &self.operand) {
            (None, _) => Outcomes::ABSENT,
            // Keys have the order in which they are stored, which is that of their bytes.
            (Some(key), Operand::Literal(Literal::String(literal))) => key.as_bytes().cmp(literal.as_bytes()).into(),
            (Some(key), Operand::Text(function, text)) => text_outcome(*function, key, text),
            (Some(_), _) => Outcomes::LESS,
        }
    }
}

fn text_outcome(function: TextFunction, value: &str, text: &str) -> Outcomes {
    if function.holds(value, text) {
        Outcomes::EQUAL
    } else {
        Outcomes::LESS
    }
}

/// Returns a stored value against an operand; `None` when their types do not compare.
fn compare(edm: EdmType, bytes: &[u8], operand: &Operand) -> Option<Outcomes> {
    let literal = match operand {
        Operand::Literal(literal) => literal,
        Operand::Text(function, text) if edm == EdmType::String => {
            return Some(text_outcome(*function, std::str::from_utf8(bytes).ok()?, text));
        }
        Operand::Text(..) => return None,
    };
    let int32 = || bytes.try_into().ok().map(i32::from_le_bytes);
    let int64 = || bytes.try_into().ok().map(i64::from_le_bytes);
    let double = || bytes.try_into().ok().map(f64::from_le_bytes);
    Some(match (edm, literal) {
        (EdmType::String, Literal::String(literal)) => utf16_order(bytes, literal.as_bytes()).into(),
        (EdmType::Int32, Literal::Int32(literal)) => int32()?.cmp(literal).into(),
        (EdmType::Int64, Literal::Int32(literal)) => int64()?.cmp(&i64::from(*literal)).into(),
        (EdmType::Int64, Literal::Int64(literal)) => int64()?.cmp(literal).into(),
        (EdmType::Double, Literal::Int32(literal)) => doubles(double()?, f64::from(*literal)),
        // The literal is widened as C# widens it, to the nearest double.
        (EdmType::Double, Literal::Int64(literal)) => doubles(double()?, *literal as f64),
        (EdmType::Double, Literal::Double(literal)) => doubles(double()?, *literal),
        (EdmType::Boolean, Literal::Boolean(literal)) => bytes.cmp(&[u8::from(*literal)]).into(),
        (EdmType::DateTime, Literal::DateTime(literal)) => int64()?.cmp(&literal.get()).into(),
        (EdmType::Guid, Literal::Guid(literal)) => bytes.cmp(literal.as_slice()).into(),
        (EdmType::Binary, Literal::Binary(literal)) => bytes.cmp(literal).into(),
        _ => return None,
    })
}

fn doubles(value: f64, literal: f64) -> Outcomes {
    value.partial_cmp(&literal).map_or(Outcomes::UNORDERED, Outcomes::from)
}

/// Returns the order of two UTF-8 texts by their UTF-16 units.
///
/// The bytes have the same order, except for characters beyond U+FFFF: their UTF-8 begins with F0 to F4 and is the
/// greatest, their UTF-16 begins with a surrogate and is before U+E000 to U+FFFF, whose UTF-8 begins with EE and EF.
fn utf16_order(a: &[u8], b: &[u8]) -> Ordering {
    let rank = |byte: u8| if matches!(byte, 0xEE | 0xEF) { byte | 0xF0 } else { byte };
    match a.iter().zip(b).find(|(a, b)| a != b) {
        Some((&a, &b)) => rank(a).cmp(&rank(b)),
        None => a.len().cmp(&b.len()),
    }
}
