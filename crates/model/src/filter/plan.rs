//! From a filter to the ranges of keys to read, and to the conditions that are left to test on each entity.
//!
//! Keys are in the order of the clustered index: by their bytes, PartitionKey first. Semantics 6.3 orders strings by
//! UTF-16 units, which differs for characters beyond U+FFFF against U+E000 to U+FFFF; where a *key* is compared, the
//! order of the index decides, here and in every evaluator, so that ranges and residual agree. Property strings are
//! compared by UTF-16 units.

use std::borrow::Cow;

use crate::filter::ast::{Column, Expression, Filter, Literal};
use crate::filter::key_range::{AccessClass, Bound, KeyRange};
use crate::filter::key_set::{Axis, AxisSpan, KeySet, Space};
use crate::filter::outcomes::Outcomes;
use crate::limits;

/// How to find the entities that a filter lets pass: exactly those in one of `ranges` that pass `residual`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// In key order, without overlap, none empty. No range at all where no entity can pass.
    pub ranges: Vec<KeyRange>,
    /// The filter that is left to test on each entity in the ranges; `None` if there is none.
    pub residual: Option<Filter>,
}

impl Plan {
    /// Plans a filter.
    pub fn new(filter: Filter) -> Plan {
        if let Expression::Comparison(comparison) = filter.expression()
            && let Column::Property(_) = comparison.property
        {
            // A comparison of a property says nothing of the keys, and needs no work. It is the usual filter with a
            // property index.
            return Plan {
                ranges: vec![KeyRange::ALL],
                residual: Some(filter),
            };
        }
        Plan::within(&filter, WORK, limits::FILTER_RANGES)
    }

    /// Returns a plan that takes about `work` steps at most and has at most about `cells` ranges. It is correct in any
    /// case; with fewer steps or ranges it reads more entities, or tests more on each.
    pub(super) fn within(filter: &Filter, work: usize, cells: usize) -> Plan {
        let mut literals = Literals::default();
        literals.collect(filter.expression());
        let partitions = Axis::new(literals.partition_keys);
        let rows = Axis::new(literals.row_keys);
        let whole = |axis: &Axis<'_>| AxisSpan {
            start: 0,
            end: axis.end(),
        };
        // A cell can become a range with two bounds of two keys each.
        let range_bytes = 2 * (partitions.longest() + rows.longest());
        let cells = cells.min(limits::RANGE_BYTES / range_bytes.max(1)).max(1);
        let space = Space {
            partitions: whole(&partitions),
            rows: whole(&rows),
        };
        let mut planner = Planner {
            partitions,
            rows,
            space,
            work,
            cells,
        };
        let node = planner.node(filter.expression(), false);
        let within = space.widened(&node.cover);
        let residual = match planner.simplify(&node, &within) {
            Simplified::Constant(true) => None,
            Simplified::Constant(false) => {
                return Plan {
                    ranges: Vec::new(),
                    residual: None,
                };
            }
            Simplified::Expression(expression) => Some(Filter(expression)),
        };
        Plan {
            ranges: planner.ranges(&within),
            residual,
        }
    }

    /// Returns the worst class among the ranges.
    pub fn access(&self) -> AccessClass {
        self.ranges
            .iter()
            .map(KeyRange::access)
            .max()
            .unwrap_or(AccessClass::Nothing)
    }

    /// Returns the one partition that has all the ranges, if there is one.
    pub fn partition(&self) -> Option<&str> {
        let (first, rest) = self.ranges.split_first()?;
        let partition = first.partition()?;
        let is_same = |range: &KeyRange| range.partition() == Some(partition);
        rest.iter().all(is_same).then_some(partition)
    }

    /// Returns the part of the ranges from this key on, the key included: the rest of the ranges for a page that begins
    /// there.
    pub fn ranges_from(&self, partition_key: &str, row_key: &str) -> Vec<KeyRange> {
        let from = Bound {
            partition_key: partition_key.to_owned(),
            row_key: Some(row_key.to_owned()),
            inclusive: true,
        };
        // Ranges are in order, so only the first that remains can be cut.
        let ended = self.ranges.partition_point(|range| {
            range
                .upper
                .as_ref()
                .is_some_and(|upper| upper.as_upper() <= from.as_lower())
        });
        let mut ranges = self.ranges.get(ended..).unwrap_or_default().to_vec();
        if let Some(first) = ranges.first_mut()
            && first
                .lower
                .as_ref()
                .is_none_or(|lower| lower.as_lower() < from.as_lower())
        {
            first.lower = Some(from);
        }
        ranges
    }
}

/// How many cells of key sets one plan may visit. Beyond that it stays correct and gets coarser. An `or` of 40,000
/// points visits less than a million.
const WORK: usize = 8_000_000;

/// The literals that a filter compares the keys with.
#[derive(Default)]
struct Literals<'f> {
    partition_keys: Vec<&'f str>,
    row_keys: Vec<&'f str>,
}

impl<'f> Literals<'f> {
    fn collect(&mut self, expression: &'f Expression) {
        match expression {
            Expression::And(terms) | Expression::Or(terms) => {
                for term in terms {
                    self.collect(term);
                }
            }
            Expression::Not(term) => self.collect(term),
            Expression::Comparison(comparison) => {
                if let Literal::String(literal) = &comparison.literal {
                    match comparison.property {
                        Column::PartitionKey => self.partition_keys.push(literal),
                        Column::RowKey => self.row_keys.push(literal),
                        Column::Timestamp | Column::Property(_) => {}
                    }
                }
            }
            Expression::Text(_) | Expression::Property(_) | Expression::Constant(_) => {}
        }
    }
}

/// A part of the filter, with `not` pushed down to the leaves, and the keys for which it can hold or surely holds.
struct Node<'f> {
    shape: Shape<'f>,
    /// Where it can hold.
    cover: KeySet,
    /// Where it holds whatever the properties are; `None` for the cover.
    core: Option<KeySet>,
}

enum Shape<'f> {
    All(Vec<Node<'f>>),
    Any(Vec<Node<'f>>),
    Leaf { expression: &'f Expression, negated: bool },
}

impl Node<'_> {
    fn core(&self) -> &KeySet {
        self.core.as_ref().unwrap_or(&self.cover)
    }
}

/// A part of the filter within a set of keys.
enum Simplified {
    Constant(bool),
    Expression(Expression),
}

/// The replacement of a set that has become too large.
#[derive(Clone, Copy, PartialEq)]
enum Rounding {
    /// A larger set will do.
    Up,
    /// A smaller set will do.
    Down,
}

struct Planner<'f> {
    partitions: Axis<'f>,
    rows: Axis<'f>,
    space: Space,
    /// How many cells may still be visited.
    work: usize,
    /// How many cells a set may have.
    cells: usize,
}

impl<'f> Planner<'f> {
    fn node(&mut self, expression: &'f Expression, negated: bool) -> Node<'f> {
        match expression {
            Expression::Not(term) => self.node(term, !negated),
            Expression::And(terms) | Expression::Or(terms) => {
                let terms: Vec<_> = terms.iter().map(|term| self.node(term, negated)).collect();
                let all = matches!(expression, Expression::And(_)) != negated;
                let combine = if all { Planner::intersection } else { Planner::union };
                let covers: Vec<_> = terms.iter().map(|term| &term.cover).collect();
                let (cover, exact) = self.combine(&covers, combine, Rounding::Up);
                let core = if exact && terms.iter().all(|term| term.core.is_none()) {
                    None
                } else {
                    let cores: Vec<_> = terms.iter().map(Node::core).collect();
                    Some(self.combine(&cores, combine, Rounding::Down).0)
                };
                Node {
                    shape: if all { Shape::All(terms) } else { Shape::Any(terms) },
                    cover,
                    core,
                }
            }
            _ => {
                let keys = self.leaf(expression, negated);
                Node {
                    shape: Shape::Leaf { expression, negated },
                    core: keys.is_none().then_some(KeySet::EMPTY),
                    cover: keys.unwrap_or_else(|| self.space.all()),
                }
            }
        }
    }

    /// Returns the keys for which a leaf holds; `None` if that depends on properties, the Timestamp or a part of a key's text.
    fn leaf(&self, expression: &Expression, negated: bool) -> Option<KeySet> {
        let known = |holds: bool| Some(if holds { self.space.all() } else { KeySet::EMPTY });
        match expression {
            Expression::Constant(value) => known(*value != negated),
            Expression::Comparison(comparison) => {
                let outcomes = Outcomes::of(comparison.operator).negated_if(negated);
                match (&comparison.property, &comparison.literal) {
                    (Column::Property(_), _) | (Column::Timestamp, Literal::DateTime(_)) => None,
                    (Column::PartitionKey, Literal::String(literal)) => {
                        let partitions = spans(self.partitions.piece(literal), self.space.partitions, outcomes);
                        Some(KeySet::product(&partitions, &[self.space.rows]))
                    }
                    (Column::RowKey, Literal::String(literal)) => {
                        let rows = spans(self.rows.piece(literal), self.space.rows, outcomes);
                        Some(KeySet::product(&[self.space.partitions], &rows))
                    }
                    // Never absent, and of another type than the literal.
                    (Column::PartitionKey | Column::RowKey | Column::Timestamp, _) => {
                        known(outcomes.contains(Outcomes::LESS))
                    }
                }
            }
            Expression::Text(test) => match test.property {
                Column::Property(_) | Column::PartitionKey | Column::RowKey => None,
                Column::Timestamp => known(negated),
            },
            // No system property is a Boolean.
            Expression::Property(property) => match property {
                Column::Property(_) => None,
                Column::PartitionKey | Column::RowKey | Column::Timestamp => known(negated),
            },
            Expression::And(_) | Expression::Or(_) | Expression::Not(_) => None,
        }
    }

    /// Combines neighbours first, so that long lists take n log n steps. Also says whether nothing was rounded.
    fn combine(
        &mut self,
        sets: &[&KeySet],
        pair: fn(&mut Self, &KeySet, &KeySet, Rounding) -> (KeySet, bool),
        rounding: Rounding,
    ) -> (KeySet, bool) {
        match sets {
            [] => (KeySet::EMPTY, true),
            [only] => ((*only).clone(), true),
            _ => {
                let (left, right) = sets.split_at_checked(sets.len() / 2).unwrap_or((sets, &[]));
                let (left, left_exact) = self.combine(left, pair, rounding);
                let (right, right_exact) = self.combine(right, pair, rounding);
                let (set, exact) = pair(self, &left, &right, rounding);
                (set, exact && left_exact && right_exact)
            }
        }
    }

    fn intersection(&mut self, a: &KeySet, b: &KeySet, rounding: Rounding) -> (KeySet, bool) {
        if !self.spend(a.len().min(b.len())) {
            return (self.coarsest(rounding), false);
        }
        if let Some(set) = a.intersection(b, self.cells) {
            self.spend(set.len());
            return (set, true);
        }
        self.spend(self.cells);
        let rounded = match rounding {
            Rounding::Up => a.hull_of_rows().intersection(&b.hull_of_rows(), self.cells),
            Rounding::Down => None,
        };
        (rounded.unwrap_or_else(|| self.coarsest(rounding)), false)
    }

    fn union(&mut self, a: &KeySet, b: &KeySet, rounding: Rounding) -> (KeySet, bool) {
        if !self.spend(a.len() + b.len()) {
            return (self.coarsest(rounding), false);
        }
        if let Some(set) = a.union(b, self.cells) {
            return (set, true);
        }
        let rounded = match rounding {
            Rounding::Up => a.hull_of_rows().union(&b.hull_of_rows(), self.cells),
            Rounding::Down => None,
        };
        (rounded.unwrap_or_else(|| self.coarsest(rounding)), false)
    }

    fn coarsest(&self, rounding: Rounding) -> KeySet {
        match rounding {
            Rounding::Up => self.space.all(),
            Rounding::Down => KeySet::EMPTY,
        }
    }

    /// Returns whether there is work left for this many cells.
    fn spend(&mut self, cells: usize) -> bool {
        let enough = cells <= self.work;
        self.work = self.work.saturating_sub(cells);
        enough
    }

    /// Returns the part of a node that is left to test for keys within a set.
    fn simplify(&mut self, node: &Node<'_>, within: &KeySet) -> Simplified {
        if !within.may_intersect(&node.cover, &mut self.work) {
            return Simplified::Constant(false);
        }
        if within.is_surely_within(node.core(), self.space, &mut self.work) {
            return Simplified::Constant(true);
        }
        let mut kept = Vec::new();
        match &node.shape {
            Shape::Leaf { expression, negated } => {
                let expression = (*expression).clone();
                Simplified::Expression(if *negated { expression.negated() } else { expression })
            }
            Shape::All(terms) => {
                let mut within = Cow::Borrowed(within);
                for term in terms {
                    match self.simplify(term, &within) {
                        Simplified::Constant(true) => {}
                        Simplified::Constant(false) => return Simplified::Constant(false),
                        Simplified::Expression(expression) => {
                            kept.push(expression);
                            // The terms after this one count only where this one holds.
                            if let Some(narrow) = self.narrowed(&within, &term.cover) {
                                within = Cow::Owned(narrow);
                            }
                        }
                    }
                }
                if kept.is_empty() {
                    return Simplified::Constant(true);
                }
                Simplified::Expression(Expression::all_of(kept))
            }
            Shape::Any(terms) => {
                for term in terms {
                    match self.simplify(term, within) {
                        Simplified::Constant(true) => return Simplified::Constant(true),
                        Simplified::Constant(false) => {}
                        Simplified::Expression(expression) => kept.push(expression),
                    }
                }
                if kept.is_empty() {
                    return Simplified::Constant(false);
                }
                Simplified::Expression(Expression::any_of(kept))
            }
        }
    }

    /// Returns the part of `within` in `cover`, if that is a part and worth its work.
    fn narrowed(&mut self, within: &KeySet, cover: &KeySet) -> Option<KeySet> {
        if *cover == self.space.all() || self.work == 0 {
            return None;
        }
        let narrow = within.intersection(cover, self.cells)?;
        self.spend(cover.len().min(within.len()) + narrow.len());
        Some(narrow)
    }

    /// Returns the ranges of a widened set.
    fn ranges(&self, set: &KeySet) -> Vec<KeyRange> {
        let mut cuts: Vec<(Cut, Cut)> = Vec::with_capacity(set.len());
        for cell in set.groups().flatten() {
            let (lower, upper) = if cell.partitions.is_literal() {
                (
                    self.cut(cell.partitions.start, cell.rows.start),
                    self.cut(cell.partitions.start, cell.rows.end),
                )
            } else {
                (self.cut(cell.partitions.start, 0), self.cut(cell.partitions.end, 0))
            };
            match cuts.last_mut() {
                Some(last) if last.1 == lower => last.1 = upper,
                _ => cuts.push((lower, upper)),
            }
        }
        cuts.into_iter()
            .map(|(lower, upper)| self.range(lower, upper))
            .collect()
    }

    /// The end of a partition's rows is the cut after the partition.
    fn cut(&self, partition: u32, row: u32) -> Cut {
        if row == self.space.rows.end {
            (partition + 1, 0)
        } else {
            (partition, row)
        }
    }

    fn range(&self, lower: Cut, upper: Cut) -> KeyRange {
        // The first row of a partition needs a name only if the range ends with it.
        let lower_row = if upper == (lower.0, 1) { Some("") } else { None };
        let one_partition = upper.0 == lower.0 || upper == (lower.0 + 1, 0) && lower.0.is_multiple_of(2);
        KeyRange {
            lower: self
                .bound(lower, |after| !after, lower_row)
                .filter(|_| lower != (0, 0) || one_partition),
            upper: self.bound(upper, |after| after, None),
        }
    }

    /// `None` at the end of the axis.
    fn bound(&self, (partition, row): Cut, inclusive: fn(bool) -> bool, first_row: Option<&str>) -> Option<Bound> {
        let (partition_key, after_partition) = self.partitions.at(partition)?;
        let (row_key, after) = match row {
            0 => (first_row, after_partition),
            _ => self
                .rows
                .at(row)
                .map_or((None, after_partition), |(row_key, after)| (Some(row_key), after)),
        };
        Some(Bound {
            partition_key: partition_key.to_owned(),
            row_key: row_key.map(str::to_owned),
            inclusive: inclusive(after),
        })
    }
}

/// A place between keys: a cut between partitions, and behind one that is before a literal, a cut between its rows.
type Cut = (u32, u32);

/// Returns the parts of an axis where a comparison with a literal, which is `piece`, has one of these outcomes.
fn spans(piece: AxisSpan, axis: AxisSpan, outcomes: Outcomes) -> Vec<AxisSpan> {
    let parts = [
        (Outcomes::LESS, axis.start, piece.start),
        (Outcomes::EQUAL, piece.start, piece.end),
        (Outcomes::GREATER, piece.end, axis.end),
    ];
    let mut spans: Vec<AxisSpan> = Vec::with_capacity(2);
    for (outcome, start, end) in parts {
        match (outcomes.contains(outcome), spans.last_mut()) {
            (true, Some(last)) if last.end == start => last.end = end,
            (true, _) => spans.extend(AxisSpan::new(start, end)),
            (false, _) => {}
        }
    }
    spans
}
