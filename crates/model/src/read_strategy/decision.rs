//! The next step of a query, and its reason in words that `explain_query` shows.

use std::fmt::{self, Display, Formatter};

/// The next step of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Reads so many entities in key order and tests each; all of them without a number. Then it decides again.
    InKeyOrder { entities: Option<usize> },
    /// Reads the entities of the value with this number, in key order from the index: so many, and then it decides
    /// again, or all of them.
    OfValue { value: usize, entities: Option<usize> },
    /// Reads the entities of so many entries through the indexes, and sorts them.
    Sorted { entries: usize },
    /// Lets PostgreSQL's planner choose between the keys and the indexes.
    Planned,
}

/// A step and its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    pub step: Step,
    pub reason: Reason,
}

/// Why a query takes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The page is full soon if it goes on like this.
    NearlyFull,
    /// The entities of one value are in key order in the index.
    OneValue,
    /// The value with the fewest entries has `most` or more, and the other conditions exclude few of them.
    ManyOfValue { most: usize },
    /// A small key range needs no index.
    SmallRanges,
    /// The statistics say that more than `LARGE` of all entities have entries for the filter.
    LargePart,
    /// To read the whole table costs less than to count more entries.
    SmallTable,
    /// To read the entities that are left costs less than to sort those that the indexes find.
    FewLeft { enough: usize },
    /// The sort costs less than reading the rest, or little compared with the entities that were read.
    FewEntries { entries: usize },
    /// There are `limit` entries or more, and too few entities were read to count further.
    ManyEntries { limit: usize },
    /// There are `most` entries or more, and no statistics that tell how many.
    TooManyEntries { most: usize },
    /// The planner has statistics.
    Statistics,
}

impl Reason {
    pub(super) fn in_key_order(self, entities: usize) -> Decision {
        self.decides(Step::InKeyOrder {
            entities: Some(entities),
        })
    }

    pub(super) fn all_in_key_order(self) -> Decision {
        self.decides(Step::InKeyOrder { entities: None })
    }

    pub(super) fn of_value(self, value: usize, entities: Option<usize>) -> Decision {
        self.decides(Step::OfValue { value, entities })
    }

    pub(super) fn sorted(self, entries: usize) -> Decision {
        self.decides(Step::Sorted { entries })
    }

    pub(super) fn planned(self) -> Decision {
        self.decides(Step::Planned)
    }

    fn decides(self, step: Step) -> Decision {
        Decision { step, reason: self }
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NearlyFull => f.write_str("the page is nearly full"),
            Reason::OneValue => f.write_str("the entities of one value stand in key order in its index"),
            Reason::ManyOfValue { most } => write!(f, "the rarest value has {most} entries or more"),
            Reason::SmallRanges => f.write_str("the key ranges may be small"),
            Reason::LargePart => f.write_str("a large part of all entities has entries for the filter"),
            Reason::SmallTable => f.write_str("the table is small"),
            Reason::FewLeft { enough } => {
                write!(f, "fewer than {enough} entities, which take less time than a sort")
            }
            Reason::FewEntries { entries: 1 } => f.write_str("1 entry"),
            Reason::FewEntries { entries } => write!(f, "{entries} entries"),
            Reason::ManyEntries { limit } => write!(f, "{limit} entries or more"),
            Reason::TooManyEntries { most } => write!(f, "{most} entries or more, and no statistics that help"),
            Reason::Statistics => f.write_str("the planner decides by its statistics"),
        }
    }
}
