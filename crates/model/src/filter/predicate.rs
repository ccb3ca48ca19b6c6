//! A filter made ready to be tested against many entities.
//!
//! Every comparison becomes one test that knows, for each outcome, whether it holds; `not` is gone. A test names the
//! next one for either result, always one further on, so that evaluation is a loop that ends.

use std::cmp::Ordering;
use std::ops::BitOr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use crate::edm::EdmType;
use crate::entity::Entity;
use crate::error::Error;
use crate::filter::ast::{Column, Expression, Filter, Literal, Operator};
use crate::ticks::Ticks;

/// A set of the outcomes that a comparison can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Outcomes(u8);

impl Outcomes {
    /// Less, or of another type (semantics 6.3 rule 4).
    pub const LESS: Outcomes = Outcomes(1);
    pub const EQUAL: Outcomes = Outcomes(2);
    pub const GREATER: Outcomes = Outcomes(4);
    /// One side is NaN.
    pub const UNORDERED: Outcomes = Outcomes(8);
    pub const ABSENT: Outcomes = Outcomes(16);
    const ALL: Outcomes = Outcomes(31);

    /// Those for which a comparison with this operator holds.
    pub fn of(operator: Operator) -> Outcomes {
        match operator {
            Operator::Eq => Outcomes::EQUAL,
            Operator::Ne => Outcomes::LESS | Outcomes::GREATER | Outcomes::UNORDERED,
            Operator::Lt => Outcomes::LESS,
            Operator::Le => Outcomes::LESS | Outcomes::EQUAL,
            Operator::Gt => Outcomes::GREATER,
            Operator::Ge => Outcomes::GREATER | Outcomes::EQUAL,
        }
    }

    /// These outcomes, or all others.
    pub fn negated_if(self, negated: bool) -> Outcomes {
        if negated {
            Outcomes(self.0 ^ Outcomes::ALL.0)
        } else {
            self
        }
    }

    pub fn contains(self, outcome: Outcomes) -> bool {
        self.0 & outcome.0 != 0
    }
}

impl BitOr for Outcomes {
    type Output = Outcomes;

    fn bitor(self, other: Outcomes) -> Outcomes {
        Outcomes(self.0 | other.0)
    }
}

impl From<Ordering> for Outcomes {
    fn from(order: Ordering) -> Outcomes {
        match order {
            Ordering::Less => Outcomes::LESS,
            Ordering::Equal => Outcomes::EQUAL,
            Ordering::Greater => Outcomes::GREATER,
        }
    }
}

/// A compiled filter. It gives what [`Filter::matches`] gives, without allocating.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicate {
    first: Target,
    tests: Vec<Test>,
}

#[derive(Debug, Clone, PartialEq)]
struct Test {
    column: Column,
    literal: Literal,
    holds_for: Outcomes,
    then: Target,
    otherwise: Target,
    place: Place,
}

/// Where the last bag had the property of a test. It speeds up the search in the next and means nothing else.
#[derive(Debug, Default)]
struct Place(AtomicUsize);

impl Place {
    fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    fn set(&self, place: usize) {
        self.0.store(place, Relaxed);
    }
}

impl Clone for Place {
    fn clone(&self) -> Place {
        Place::default()
    }
}

impl PartialEq for Place {
    fn eq(&self, _: &Place) -> bool {
        true
    }
}

/// What comes after a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
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
    pub fn new(filter: &Filter) -> Predicate {
        // Backwards, so that the targets of a test are there before it.
        let mut compiler = Compiler(Vec::new());
        let first = compiler.compile(filter.expression(), false, Target::Pass, Target::Fail);
        let mut tests = compiler.0;
        let count = u32::try_from(tests.len()).unwrap_or(u32::MAX);
        let turn = |target| match target {
            Target::Test(index) => Target::Test(count - 1 - index),
            end => end,
        };
        tests.reverse();
        for test in &mut tests {
            test.then = turn(test.then);
            test.otherwise = turn(test.otherwise);
        }
        Predicate {
            first: turn(first),
            tests,
        }
    }

    /// Whether an entity passes.
    pub fn matches(&self, entity: &Entity<'_>) -> bool {
        let mut target = self.first;
        loop {
            let test = match target {
                Target::Pass => return true,
                Target::Fail => return false,
                Target::Test(index) => usize::try_from(index).ok().and_then(|index| self.tests.get(index)),
            };
            let Some(test) = test else {
                return false;
            };
            target = if test.holds_for.contains(test.outcome(entity)) {
                test.then
            } else {
                test.otherwise
            };
        }
    }

    pub fn columns(&self) -> Columns {
        let mut columns = Columns::default();
        for test in &self.tests {
            match test.column {
                Column::PartitionKey => columns.partition_key = true,
                Column::RowKey => columns.row_key = true,
                Column::Timestamp => columns.timestamp = true,
                Column::Property(_) => columns.properties = true,
            }
        }
        columns
    }
}

struct Compiler(Vec<Test>);

impl Compiler {
    /// Adds the tests for an expression and gives the one to begin with.
    fn compile(&mut self, expression: &Expression, negated: bool, then: Target, otherwise: Target) -> Target {
        match expression {
            Expression::Not(term) => self.compile(term, !negated, then, otherwise),
            Expression::And(terms) if !negated => terms
                .iter()
                .rev()
                .fold(then, |next, term| self.compile(term, negated, next, otherwise)),
            Expression::Or(terms) if negated => terms
                .iter()
                .rev()
                .fold(then, |next, term| self.compile(term, negated, next, otherwise)),
            Expression::And(terms) | Expression::Or(terms) => terms
                .iter()
                .rev()
                .fold(otherwise, |next, term| self.compile(term, negated, then, next)),
            Expression::Constant(value) => {
                if *value != negated {
                    then
                } else {
                    otherwise
                }
            }
            Expression::Comparison(comparison) => self.test(Test {
                column: comparison.property.column.clone(),
                literal: comparison.literal.clone(),
                holds_for: Outcomes::of(comparison.operator).negated_if(negated),
                then,
                otherwise,
                place: Place::default(),
            }),
            Expression::Property(property) => self.test(Test {
                column: property.column.clone(),
                literal: Literal::Boolean(true),
                holds_for: Outcomes::EQUAL.negated_if(negated),
                then,
                otherwise,
                place: Place::default(),
            }),
        }
    }

    fn test(&mut self, test: Test) -> Target {
        if test.then == test.otherwise {
            return test.then;
        }
        let index = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.push(test);
        Target::Test(index)
    }
}

impl Test {
    fn outcome(&self, entity: &Entity<'_>) -> Outcomes {
        match &self.column {
            Column::PartitionKey => self.outcome_of_key(entity.partition_key),
            Column::RowKey => self.outcome_of_key(entity.row_key),
            Column::Timestamp => match (entity.timestamp, &self.literal) {
                (None, _) => Outcomes::ABSENT,
                (Some(timestamp), Literal::DateTime(literal)) => timestamp.cmp(literal).into(),
                (Some(_), _) => Outcomes::LESS,
            },
            Column::Property(name) => match entity.properties.stored(name.as_bytes(), self.place.get()) {
                None => Outcomes::ABSENT,
                Some((place, edm, bytes)) => {
                    self.place.set(place);
                    compare(edm, bytes, &self.literal).unwrap_or(Outcomes::LESS)
                }
            },
        }
    }

    fn outcome_of_key(&self, key: Option<&str>) -> Outcomes {
        match (key, &self.literal) {
            (None, _) => Outcomes::ABSENT,
            // Keys have the order in which they are stored, which is that of their bytes.
            (Some(key), Literal::String(literal)) => key.as_bytes().cmp(literal.as_bytes()).into(),
            (Some(_), _) => Outcomes::LESS,
        }
    }
}

/// A stored value against a literal; `None` when their types do not compare.
fn compare(edm: EdmType, bytes: &[u8], literal: &Literal) -> Option<Outcomes> {
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

/// The order of two UTF-8 texts by their UTF-16 units.
///
/// It is that of the bytes, but for characters beyond U+FFFF: their UTF-8 begins with F0 to F4 and is greater than all
/// else, their UTF-16 begins with a surrogate, which is less than U+E000 to U+FFFF, whose UTF-8 begins with EE and EF.
fn utf16_order(a: &[u8], b: &[u8]) -> Ordering {
    let rank = |byte: u8| if matches!(byte, 0xEE | 0xEF) { byte | 0xF0 } else { byte };
    match a.iter().zip(b).find(|(a, b)| a != b) {
        Some((&a, &b)) => rank(a).cmp(&rank(b)),
        None => a.len().cmp(&b.len()),
    }
}

/// The first byte of a serialised predicate.
const FORMAT: u8 = 1;
/// Targets that are no test.
const PASS: u32 = u32::MAX;
const FAIL: u32 = u32::MAX - 1;
/// Columns that are no property, in place of the length of a name.
const PARTITION_KEY: u32 = u32::MAX;
const ROW_KEY: u32 = u32::MAX - 1;
const TIMESTAMP: u32 = u32::MAX - 2;

/// ```text
/// u8   format
/// u32  first test
/// per test, to the end:
///   u32  length of the property's name, or a mark for a system property
///   name
///   u8   outcomes for which it holds, as bits
///   u32  next test if it holds
///   u32  next test if not
///   u8   type of the literal, as its place in EdmType::ALL
///   literal: 4, 8, 1 or 16 bytes, or u32 length and bytes
/// ```
///
/// Integers are little-endian.
impl Predicate {
    /// The predicate as bytes, for [`Predicate::from_bytes`] of the same version.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer(vec![FORMAT]);
        out.target(self.first);
        for test in &self.tests {
            match &test.column {
                Column::PartitionKey => out.u32(PARTITION_KEY),
                Column::RowKey => out.u32(ROW_KEY),
                Column::Timestamp => out.u32(TIMESTAMP),
                Column::Property(name) => out.text(name.as_bytes()),
            }
            out.0.push(test.holds_for.0);
            out.target(test.then);
            out.target(test.otherwise);
            out.literal(&test.literal);
        }
        out.0
    }

    /// Reads what [`Predicate::to_bytes`] gave.
    ///
    /// # Errors
    /// `InvalidInput` for any other bytes. Whatever bytes are accepted, they make a predicate that ends and does not
    /// panic.
    pub fn from_bytes(bytes: &[u8]) -> Result<Predicate, Error> {
        Reader(bytes).predicate().ok_or(Error::MalformedBinary {
            reason: "These bytes are no compiled filter of this version",
        })
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u32(&mut self, n: u32) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    fn text(&mut self, bytes: &[u8]) {
        // A filter is much shorter than 4 GiB, and so is everything in it.
        self.u32(u32::try_from(bytes.len()).unwrap_or_default());
        self.0.extend_from_slice(bytes);
    }

    fn target(&mut self, target: Target) {
        self.u32(match target {
            Target::Pass => PASS,
            Target::Fail => FAIL,
            Target::Test(index) => index,
        });
    }

    fn literal(&mut self, literal: &Literal) {
        let edm = literal.edm_type();
        let tag = EdmType::ALL.iter().position(|&e| e == edm).unwrap_or_default();
        self.0.push(u8::try_from(tag).unwrap_or_default());
        match literal {
            Literal::String(text) => self.text(text.as_bytes()),
            Literal::Int32(n) => self.0.extend_from_slice(&n.to_le_bytes()),
            Literal::Int64(n) => self.0.extend_from_slice(&n.to_le_bytes()),
            Literal::Double(n) => self.0.extend_from_slice(&n.to_le_bytes()),
            Literal::Boolean(b) => self.0.push(u8::from(*b)),
            Literal::DateTime(ticks) => self.0.extend_from_slice(&ticks.get().to_le_bytes()),
            Literal::Guid(guid) => self.0.extend_from_slice(guid),
            Literal::Binary(bytes) => self.text(bytes),
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn predicate(mut self) -> Option<Predicate> {
        if self.u8()? != FORMAT {
            return None;
        }
        let first = self.target()?;
        let mut tests = Vec::new();
        while !self.0.is_empty() {
            tests.push(Test {
                column: self.column()?,
                holds_for: Outcomes(self.u8().filter(|&bits| bits <= Outcomes::ALL.0)?),
                then: self.target()?,
                otherwise: self.target()?,
                literal: self.literal()?,
                place: Place::default(),
            });
        }
        let exists = |target, after: usize| match target {
            Target::Test(index) => usize::try_from(index).is_ok_and(|index| after <= index && index < tests.len()),
            Target::Pass | Target::Fail => true,
        };
        let forward = tests
            .iter()
            .enumerate()
            .all(|(index, test)| exists(test.then, index + 1) && exists(test.otherwise, index + 1));
        (forward && exists(first, 0)).then_some(Predicate { first, tests })
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (&array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(array)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn bytes(&mut self, length: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self, length: u32) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(length)?).ok()
    }

    fn target(&mut self) -> Option<Target> {
        Some(match self.u32()? {
            PASS => Target::Pass,
            FAIL => Target::Fail,
            index => Target::Test(index),
        })
    }

    fn column(&mut self) -> Option<Column> {
        Some(match self.u32()? {
            PARTITION_KEY => Column::PartitionKey,
            ROW_KEY => Column::RowKey,
            TIMESTAMP => Column::Timestamp,
            length => Column::Property(self.text(length)?.into()),
        })
    }

    fn literal(&mut self) -> Option<Literal> {
        let tag = usize::from(self.u8()?);
        Some(match EdmType::ALL.get(tag)? {
            EdmType::String => {
                let length = self.u32()?;
                Literal::String(self.text(length)?.into())
            }
            EdmType::Int32 => Literal::Int32(self.array().map(i32::from_le_bytes)?),
            EdmType::Int64 => Literal::Int64(self.array().map(i64::from_le_bytes)?),
            EdmType::Double => Literal::Double(self.array().map(f64::from_le_bytes)?),
            EdmType::Boolean => match self.u8()? {
                0 => Literal::Boolean(false),
                1 => Literal::Boolean(true),
                _ => return None,
            },
            EdmType::DateTime => Literal::DateTime(Ticks::new(self.array().map(i64::from_le_bytes)?)?),
            EdmType::Guid => Literal::Guid(self.array()?),
            EdmType::Binary => {
                let length = self.u32()?;
                Literal::Binary(self.bytes(length)?.into())
            }
        })
    }
}
