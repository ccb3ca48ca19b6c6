//! Compiled filters as bytes.

use super::{Jump, LastIndex, Operand, Predicate, Test};
use crate::expiry::Alive;
use crate::filter::ast::{Column, TextFunction};
use crate::filter::outcomes::Outcomes;
use crate::properties::{decode_checked, encode, tag};
use crate::{Error, Expiry, Value};

/// The first byte of a serialised predicate.
const FORMAT: u8 = 3;
/// The first byte of a predicate that also has the second test, for expiry.
const FORMAT_ALIVE: u8 = 4;
/// In place of the length of the property's name in an expiry without one.
const NO_PROPERTY: u32 = u32::MAX;
/// In place of the time to live in an expiry without one.
const NO_TIME_TO_LIVE: i64 = 0;
/// Targets other than tests.
const PASS: u32 = u32::MAX;
const FAIL: u32 = u32::MAX - 1;
/// Columns other than properties, in place of the length of a name.
const PARTITION_KEY: u32 = u32::MAX;
const ROW_KEY: u32 = u32::MAX - 1;
const TIMESTAMP: u32 = u32::MAX - 2;
/// The bit of a function, in place of a literal's type.
const TEXT: u8 = 0x80;

/// ```text
/// u8   format
/// if the format says who is alive:
///   i64  moment
///   u32  number of expiries
///   per expiry:
///     u32  length of the property's name, or a mark for none
///     name
///     i64  time to live in seconds, or 0 for none
/// u32  first test
/// per test, to the end:
///   u32  length of the property's name, or a mark for a system property
///   name
///   u8   outcomes for which it holds, as bits
///   u32  next test if it holds
///   u32  next test if not
///   u8   type of the literal, as in a bag; or a mark and the place of a function in TextFunction::ALL
///   u32  length of the literal
///   literal, as in a bag
/// ```
///
/// Integers are little-endian.
impl Predicate {
    /// Returns the predicate as bytes, for [`Predicate::from_bytes`] of the same version.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer(vec![if self.alive.is_some() { FORMAT_ALIVE } else { FORMAT }]);
        if let Some(alive) = &self.alive {
            out.alive(alive);
        }
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
            match &test.operand {
                Operand::Literal(literal) => out.literal(literal.value()),
                Operand::Text(function, text) => {
                    out.0.push(TEXT | *function as u8);
                    out.text(text.as_bytes());
                }
            }
        }
        out.0
    }

    /// Reads the bytes of [`Predicate::to_bytes`].
    ///
    /// # Errors
    /// `InvalidInput` for any other bytes. All bytes that are accepted make a predicate that ends and does not panic.
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

    fn i64(&mut self, n: i64) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    fn alive(&mut self, alive: &Alive) {
        self.i64(alive.at());
        self.u32(u32::try_from(alive.expiries().len()).unwrap_or_default());
        for expiry in alive.expiries() {
            match expiry.property() {
                Some(property) => self.text(property.as_bytes()),
                None => self.u32(NO_PROPERTY),
            }
            self.i64(expiry.time_to_live().unwrap_or(NO_TIME_TO_LIVE));
        }
    }

    fn target(&mut self, target: Jump) {
        self.u32(match target {
            Jump::Pass => PASS,
            Jump::Fail => FAIL,
            Jump::Test(index) => index,
        });
    }

    fn literal(&mut self, value: Value<'_>) {
        self.0.push(tag(value.edm_type()));
        let mut bytes = Vec::new();
        encode(&mut bytes, value);
        self.text(&bytes);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn predicate(mut self) -> Option<Predicate> {
        let alive = match self.u8()? {
            FORMAT => None,
            FORMAT_ALIVE => Some(self.alive()?),
            _ => return None,
        };
        let first = self.target()?;
        let mut tests = Vec::new();
        while !self.0.is_empty() {
            tests.push(Test {
                column: self.column()?,
                holds_for: Outcomes(self.u8().filter(|&bits| bits <= Outcomes::ALL.0)?),
                then: self.target()?,
                otherwise: self.target()?,
                operand: self.operand()?,
                last_index: LastIndex::default(),
            });
        }
        let exists = |target, after: usize| match target {
            Jump::Test(index) => usize::try_from(index).is_ok_and(|index| after <= index && index < tests.len()),
            Jump::Pass | Jump::Fail => true,
        };
        let forward = tests
            .iter()
            .enumerate()
            .all(|(index, test)| exists(test.then, index + 1) && exists(test.otherwise, index + 1));
        let is_valid = forward && exists(first, 0);
        let predicate = Predicate::of_tests(first, tests);
        is_valid.then_some(Predicate { alive, ..predicate })
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

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn alive(&mut self) -> Option<Alive> {
        let (at, count) = (self.i64()?, self.u32()?);
        let mut expiries = Vec::new();
        for _ in 0..count {
            let property = match self.u32()? {
                NO_PROPERTY => None,
                length => Some(self.text(length)?),
            };
            let time_to_live = Some(self.i64()?).filter(|&seconds| seconds != NO_TIME_TO_LIVE);
            expiries.push(Expiry::new(property, time_to_live).ok()?);
        }
        Some(Alive::new(expiries.into(), at))
    }

    fn bytes(&mut self, length: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self, length: u32) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(length)?).ok()
    }

    fn target(&mut self) -> Option<Jump> {
        Some(match self.u32()? {
            PASS => Jump::Pass,
            FAIL => Jump::Fail,
            index => Jump::Test(index),
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

    fn operand(&mut self) -> Option<Operand> {
        let tag = self.u8()?;
        let length = self.u32()?;
        if tag & TEXT == 0 {
            let value = decode_checked(tag, self.bytes(length)?)?;
            return Some(Operand::Literal(value.into()));
        }
        let function = *TextFunction::ALL.get(usize::from(tag & !TEXT))?;
        Some(Operand::Text(function, self.text(length)?.into()))
    }
}
