//! Sets of values, as far as their index entries tell them apart.

use std::rc::Rc;

use crate::filter::{Literal, Outcomes};
use crate::property_index::encode::{class, is_exact, value_bytes};
use crate::property_index::span::{Span, successor};
use crate::{EdmType, Value, limits};

/// A place between the entries of two values: before or after all that begin with these bytes, which are those of a
/// value or a class.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Boundary {
    bytes: Rc<[u8]>,
    after: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Interval {
    start: Boundary,
    end: Boundary,
}

/// The intervals of the values of one type, in order and apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Intervals(Vec<Interval>);

/// The values that a property can have. Types are apart even if they share a class: a Double literal compares with
/// Doubles, and all Int32 are less.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Values {
    /// In the order of [`EdmType::ALL`].
    by_type: Vec<Intervals>,
    /// Whether the property can be absent.
    absent: bool,
}

impl Values {
    /// Returns the values for which a comparison with the literal has one of the outcomes, and perhaps others.
    pub fn compared(literal: &Literal, outcomes: Outcomes) -> Values {
        Values {
            by_type: EdmType::ALL
                .iter()
                .map(|&edm| Intervals::compared(edm, literal, outcomes))
                .collect(),
            absent: outcomes.contains(Outcomes::ABSENT),
        }
    }

    /// Returns whether no value is among them.
    pub fn is_empty(&self) -> bool {
        !self.absent && self.intervals() == 0
    }

    /// Returns whether an entity without the property is among them.
    pub fn may_be_absent(&self) -> bool {
        self.absent
    }

    /// Returns how many intervals there are.
    pub fn intervals(&self) -> usize {
        self.by_type.iter().map(|intervals| intervals.0.len()).sum()
    }

    /// Returns the values that are in both.
    pub fn intersection(&self, other: &Values) -> Values {
        Values {
            by_type: self
                .by_type
                .iter()
                .zip(&other.by_type)
                .map(|(a, b)| a.intersection(b))
                .collect(),
            absent: self.absent && other.absent,
        }
    }

    /// Returns the values that any of the sets has, which are at least one.
    pub fn union<'v>(sets: impl Iterator<Item = &'v Values> + Clone) -> Values {
        Values {
            by_type: (0..EdmType::ALL.len())
                .map(|edm| {
                    let all = sets.clone().filter_map(|set| set.by_type.get(edm));
                    Intervals::union(all.flat_map(|intervals| intervals.0.iter().cloned()))
                })
                .collect(),
            absent: sets.clone().any(|set| set.absent),
        }
    }

    /// Returns the spans of their entries, in order and apart; `None` if entities without an entry belong to the set.
    pub fn spans(&self) -> Option<Vec<Span>> {
        if self.absent {
            return None;
        }
        let all = self.by_type.iter().flat_map(|intervals| intervals.0.iter().cloned());
        let spans = Intervals::union(all).0.into_iter().map(Interval::span);
        // No entry is behind a value of bytes FF and before the next class.
        Some(spans.filter(|span| span.lower < span.upper).collect())
    }
}

impl Boundary {
    fn of_class(edm: EdmType, after: bool) -> Boundary {
        // Classes are neighbours: the end of one is the start of the next.
        Boundary {
            bytes: [class(edm) + u8::from(after)].into(),
            after: false,
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        let bytes = self.bytes.to_vec();
        if self.after { successor(bytes) } else { bytes }
    }
}

impl Interval {
    fn span(self) -> Span {
        if self.start.bytes == self.end.bytes {
            // Not empty, so from before a value to after it.
            Span::of_value(self.start.bytes.to_vec())
        } else {
            Span::new(self.start.into_bytes(), self.end.into_bytes())
        }
    }
}

impl Intervals {
    fn compared(edm: EdmType, literal: &Literal, outcomes: Outcomes) -> Intervals {
        let compares = compares(edm, literal.edm_type());
        if !compares && !outcomes.contains(Outcomes::LESS) {
            return Intervals::default();
        }
        let start = Boundary::of_class(edm, false);
        let first_nan = || Boundary {
            bytes: value_bytes(Value::Double(f64::NAN)).into(),
            after: false,
        };
        // Integers share a class with Doubles, but none of them is NaN.
        let end = match edm {
            EdmType::Int32 | EdmType::Int64 => first_nan(),
            _ => Boundary::of_class(edm, true),
        };
        if !compares {
            // The property counts as less.
            return Intervals(vec![Interval { start, end }]);
        }
        let mut parts = Vec::new();
        // Where the ordered values end.
        let ordered = if edm == EdmType::Double {
            first_nan()
        } else {
            end.clone()
        };
        let literal_is_nan = matches!(literal, Literal::Double(n) if n.is_nan());
        if outcomes.contains(Outcomes::UNORDERED) {
            if literal_is_nan {
                parts.push((start.clone(), end.clone()));
            } else if edm == EdmType::Double {
                parts.push((first_nan(), end));
            }
        }
        if !literal_is_nan {
            let bytes: Rc<[u8]> = value_bytes(literal.value()).into();
            let exact = is_exact(literal.value(), edm);
            let place = |after| Boundary {
                bytes: bytes.clone(),
                after,
            };
            // If other values have the same bytes, these entries can also be of a lesser or a greater value.
            if outcomes.contains(Outcomes::LESS) {
                parts.push((start, place(!exact)));
            }
            if outcomes.contains(Outcomes::EQUAL) {
                parts.push((place(false), place(true)));
            }
            if outcomes.contains(Outcomes::GREATER) {
                parts.push((place(exact), ordered));
            }
        }
        Intervals::union(parts.into_iter().filter_map(interval))
    }

    fn intersection(&self, other: &Intervals) -> Intervals {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut common = Vec::new();
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            let places = ((&a.start).max(&b.start), (&a.end).min(&b.end));
            common.extend(interval((places.0.clone(), places.1.clone())));
            if a.end <= b.end {
                left.next();
            } else {
                right.next();
            }
        }
        Intervals(common)
    }

    /// Returns all of them in order, those that touch as one. Beyond [`limits::INDEX_SPANS`] neighbours become one, with the
    /// values between them.
    fn union(intervals: impl Iterator<Item = Interval>) -> Intervals {
        let mut sorted: Vec<_> = intervals.collect();
        sorted.sort_unstable();
        let mut union: Vec<Interval> = Vec::with_capacity(sorted.len().min(limits::INDEX_SPANS));
        for next in sorted {
            match union.last_mut() {
                Some(last) if next.start <= last.end => last.end = next.end.max(last.end.clone()),
                _ => union.push(next),
            }
        }
        while union.len() > limits::INDEX_SPANS {
            union = union
                .chunks(2)
                .filter_map(|pair| Some((pair.first()?.start.clone(), pair.last()?.end.clone())))
                .filter_map(interval)
                .collect();
        }
        Intervals(union)
    }
}

/// Returns the entries of the values that are equal to a literal, and perhaps of others; `None` if there are none. All
/// types that compare with it have the same bytes for such a value.
pub(super) fn equal(literal: &Literal) -> Option<Span> {
    match literal {
        Literal::Double(n) if n.is_nan() => None,
        _ => Some(Span::of_value(value_bytes(literal.value()))),
    }
}

/// Returns the interval between two places; `None` if it is empty.
fn interval((start, end): (Boundary, Boundary)) -> Option<Interval> {
    (start < end).then_some(Interval { start, end })
}

/// Returns whether a value of this type compares with such a literal (semantics 6.3 rules 2 and 3).
fn compares(value: EdmType, literal: EdmType) -> bool {
    match (value, literal) {
        (EdmType::Int64, EdmType::Int32) | (EdmType::Double, EdmType::Int32 | EdmType::Int64) => true,
        _ => value == literal,
    }
}
