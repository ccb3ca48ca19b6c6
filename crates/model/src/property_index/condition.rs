//! The condition that a filter sets on the entries of property indexes.

use std::collections::BTreeMap;

use crate::filter::{Column, Expression, Literal, Operator, Outcomes};
use crate::property_index::span::Span;
use crate::property_index::values::{self, Values};
use crate::{Filter, KeyRange, limits};

/// The condition that the index entries of an entity meet if it passes a filter. Entries of other entities may also
/// meet it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The entry of a property is in one of the spans, which are in order and apart. `property` is the place of its
    /// name in the list that [`condition`] was given. There are [`limits::INDEX_SPANS`] spans at most.
    Spans { property: usize, spans: Vec<Span> },
    /// All of these hold. They are at least two.
    All(Vec<Condition>),
    /// One of these holds at least. If there are none, no entity passes.
    Any(Vec<Condition>),
}

impl Condition {
    /// Returns the condition for the entities in a range of keys: spans of one value shrink to these keys.
    pub fn within(&self, range: &KeyRange) -> Condition {
        match self {
            Condition::Spans { property, spans } => Condition::Spans {
                property: *property,
                spans: spans.iter().filter_map(|span| span.within(range)).collect(),
            },
            Condition::All(terms) => Condition::All(terms.iter().map(|term| term.within(range)).collect()),
            Condition::Any(terms) => Condition::Any(terms.iter().map(|term| term.within(range)).collect()),
        }
    }

    /// Returns whether no entry can meet the condition, so that no entity passes the filter.
    pub fn finds_nothing(&self) -> bool {
        match self {
            Condition::Spans { spans, .. } => spans.is_empty(),
            Condition::All(terms) => terms.iter().any(Condition::finds_nothing),
            Condition::Any(terms) => terms.iter().all(Condition::finds_nothing),
        }
    }

    fn spans(&self) -> usize {
        match self {
            Condition::Spans { spans, .. } => spans.len(),
            Condition::All(terms) | Condition::Any(terms) => terms.iter().map(Condition::spans).sum(),
        }
    }
}

/// Returns the condition that every entity that passes the filter meets, as far as entries of the indexed properties
/// say it; `None` if they say nothing.
pub fn condition<N: AsRef<str>>(filter: &Filter, indexed: &[N]) -> Option<Condition> {
    let mut reader = Reader { indexed, work: WORK };
    if let Expression::Comparison(comparison) = filter.expression()
        && comparison.operator == Operator::Eq
    {
        // The usual filter. The code below would give the same result, with more work.
        let property = reader.property(&comparison.property)?;
        let span = values::equal(&comparison.literal);
        return Some(span.map_or(Condition::Any(Vec::new()), |span| Condition::Spans {
            property,
            spans: vec![span],
        }));
    }
    match reader.read(filter.expression(), false) {
        Implication::Impossible => Some(Condition::Any(Vec::new())),
        Implication::Values(known) => known.condition(),
    }
}

/// How many intervals may be looked at for one filter. Beyond that, the condition gets weaker.
const WORK: usize = 50_000;

/// How many disjunctions over several properties a conjunction keeps.
const DISJUNCTIONS: usize = 4;

/// The values of an entity that passes a part of a filter.
enum Implication {
    /// No entity passes.
    Impossible,
    Values(KnownValues),
}

#[derive(Default)]
struct KnownValues {
    /// By the property's place in the list.
    values: BTreeMap<usize, Values>,
    /// Each of them holds.
    others: Vec<Condition>,
}

impl KnownValues {
    fn condition(self) -> Option<Condition> {
        let spans = self.values.into_iter().filter_map(|(property, values)| {
            let spans = values.spans()?;
            Some(Condition::Spans { property, spans })
        });
        let mut terms: Vec<_> = spans.chain(self.others).collect();
        if terms.len() > 1 {
            return Some(Condition::All(terms));
        }
        terms.pop()
    }

    /// Returns the properties that the entities surely have.
    fn present(&self) -> impl Iterator<Item = usize> {
        self.values
            .iter()
            .filter(|(_, values)| !values.may_be_absent())
            .map(|(&property, _)| property)
    }
}

struct Reader<'i, N> {
    indexed: &'i [N],
    /// How many intervals may still be looked at.
    work: usize,
}

impl<N: AsRef<str>> Reader<'_, N> {
    fn read(&mut self, expression: &Expression, negated: bool) -> Implication {
        match expression {
            Expression::Not(term) => self.read(term, !negated),
            Expression::And(terms) if !negated => self.all_of(terms, negated),
            Expression::Or(terms) if negated => self.all_of(terms, negated),
            Expression::And(terms) | Expression::Or(terms) => self.any_of(terms, negated),
            Expression::Constant(value) if *value == negated => Implication::Impossible,
            Expression::Constant(_) => Implication::Values(KnownValues::default()),
            Expression::Comparison(comparison) => {
                let outcomes = Outcomes::of(comparison.operator).negated_if(negated);
                self.leaf(&comparison.property, &comparison.literal, outcomes)
            }
            // Entries have the start of a text, so they only tell that there is one: nothing else is `ge ''`.
            Expression::Text(_) if negated => Implication::Values(KnownValues::default()),
            Expression::Text(test) => {
                self.leaf(&test.property, &Literal::String("".into()), Outcomes::of(Operator::Ge))
            }
            Expression::Property(property) => {
                self.leaf(property, &Literal::Boolean(true), Outcomes::EQUAL.negated_if(negated))
            }
        }
    }

    fn leaf(&mut self, column: &Column, literal: &Literal, outcomes: Outcomes) -> Implication {
        let mut known = KnownValues::default();
        if self.work > 0
            && let Some(property) = self.property(column)
        {
            let values = Values::compared(literal, outcomes);
            if values.is_empty() {
                return Implication::Impossible;
            }
            if self.spend(values.intervals()) {
                known.values.insert(property, values);
            }
        }
        Implication::Values(known)
    }

    /// Returns the place of a property that has an index.
    fn property(&self, column: &Column) -> Option<usize> {
        match column {
            Column::Property(name) => self.indexed.iter().position(|indexed| *indexed.as_ref() == **name),
            Column::PartitionKey | Column::RowKey | Column::Timestamp => None,
        }
    }

    fn all_of(&mut self, terms: &[Expression], negated: bool) -> Implication {
        let mut all = KnownValues::default();
        for term in terms {
            let Implication::Values(known) = self.read(term, negated) else {
                return Implication::Impossible;
            };
            for (property, values) in known.values {
                let Some(others) = all.values.get_mut(&property) else {
                    all.values.insert(property, values);
                    continue;
                };
                if !self.spend(values.intervals() + others.intervals()) {
                    continue;
                }
                *others = others.intersection(&values);
                if others.is_empty() {
                    return Implication::Impossible;
                }
            }
            all.others.extend(known.others);
            all.others.truncate(DISJUNCTIONS);
        }
        Implication::Values(all)
    }

    fn any_of(&mut self, terms: &[Expression], negated: bool) -> Implication {
        let mut parts = Vec::new();
        for term in terms {
            if let Implication::Values(known) = self.read(term, negated) {
                if known.values.is_empty() && known.others.is_empty() {
                    return Implication::Values(known);
                }
                parts.push(known);
            }
        }
        let Some((first, rest)) = parts.split_first() else {
            return Implication::Impossible;
        };
        if rest.is_empty() {
            return parts.pop().map_or(Implication::Impossible, Implication::Values);
        }
        // The values of a property that all parts know hold for all of them.
        let mut any = KnownValues::default();
        for property in first.values.keys() {
            let sets = || parts.iter().filter_map(|part| part.values.get(property));
            if sets().count() == parts.len() && self.spend(sets().map(Values::intervals).sum()) {
                any.values.insert(*property, Values::union(sets()));
            }
        }
        // Different properties need the parts themselves.
        let same = rest.iter().all(|part| part.present().eq(first.present()));
        if !same || rest.iter().chain([first]).any(|part| !part.others.is_empty()) {
            let conditions: Option<Vec<_>> = parts.into_iter().map(KnownValues::condition).collect();
            if let Some(conditions) = conditions
                && self.spend(conditions.iter().map(Condition::spans).sum())
            {
                let disjunction = Condition::Any(conditions);
                if disjunction.spans() <= limits::INDEX_SPANS {
                    // Entities that may lack the property say nothing that the parts do not.
                    any.values.retain(|_, values| values.may_be_absent());
                    any.others.push(disjunction);
                }
            }
        }
        Implication::Values(any)
    }

    /// Returns whether there is work left for this many intervals.
    fn spend(&mut self, intervals: usize) -> bool {
        let enough = intervals <= self.work;
        self.work = self.work.saturating_sub(intervals);
        enough
    }
}
