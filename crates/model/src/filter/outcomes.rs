//! The outcomes of a comparison of a value with a literal (semantics 6.3).

use std::cmp::Ordering;
use std::ops::BitOr;

use crate::filter::ast::Operator;

/// A set of the outcomes that a comparison can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outcomes(pub(super) u8);

impl Outcomes {
    /// Less, or of another type (semantics 6.3 rule 4).
    pub const LESS: Outcomes = Outcomes(1);
    /// The value equals the literal.
    pub const EQUAL: Outcomes = Outcomes(2);
    /// The value is greater.
    pub const GREATER: Outcomes = Outcomes(4);
    /// One side is NaN.
    pub const UNORDERED: Outcomes = Outcomes(8);
    /// The entity lacks the property.
    pub const ABSENT: Outcomes = Outcomes(16);
    /// Every outcome.
    pub const ALL: Outcomes = Outcomes(31);

    /// Returns those for which a comparison with this operator holds.
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

    /// Returns these outcomes, or all others.
    pub fn negated_if(self, negated: bool) -> Outcomes {
        if negated {
            Outcomes(self.0 ^ Outcomes::ALL.0)
        } else {
            self
        }
    }

    /// Returns whether an outcome is among these.
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
