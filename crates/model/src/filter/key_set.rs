//! Sets of keys, as far as the literals of a filter tell keys apart.
//!
//! The literals that a filter compares a key with cut its axis into pieces: each literal, and the keys between two of
//! them. A cut is a number: `2 i` just before the literal `i`, `2 i + 1` just after it. A set is a list of rectangles
//! over the two axes, so that everything here is a comparison of small integers, and unions and intersections are
//! merges of sorted lists.

/// The literals of one key, in byte order, without repetition. The first is the empty text, so cut 0 is the start.
pub(super) struct Axis<'f>(Vec<&'f str>);

impl<'f> Axis<'f> {
    /// Makes the axis of these literals.
    pub fn new(mut literals: Vec<&'f str>) -> Axis<'f> {
        literals.push("");
        literals.sort_unstable();
        literals.dedup();
        Axis(literals)
    }

    /// Returns the length of the longest literal, in bytes.
    pub fn longest(&self) -> usize {
        self.0.iter().map(|literal| literal.len()).max().unwrap_or_default()
    }

    /// Returns the cut after everything.
    pub fn end(&self) -> u32 {
        cut(self.0.len())
    }

    /// Returns the literal as a piece of the axis.
    pub fn piece(&self, literal: &str) -> AxisSpan {
        let index = self.0.binary_search(&literal).unwrap_or_else(|index| index);
        AxisSpan {
            start: cut(index),
            end: cut(index) + 1,
        }
    }

    /// Returns the literal at a cut, and whether the cut is after it; `None` for the end.
    pub fn at(&self, cut: u32) -> Option<(&'f str, bool)> {
        let index = usize::try_from(cut / 2).ok()?;
        self.0.get(index).map(|literal| (*literal, cut % 2 == 1))
    }
}

/// Returns the cut before literal `index`.
fn cut(index: usize) -> u32 {
    // Filters are much shorter than 2 GiB.
    u32::try_from(index * 2).unwrap_or(u32::MAX)
}

/// The part of an axis between two cuts. It is not empty: `start < end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AxisSpan {
    pub start: u32,
    pub end: u32,
}

impl AxisSpan {
    /// Returns the part between two cuts; `None` if it is empty.
    pub fn new(start: u32, end: u32) -> Option<AxisSpan> {
        (start < end).then_some(AxisSpan { start, end })
    }

    fn overlap(self, other: AxisSpan) -> Option<AxisSpan> {
        AxisSpan::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// Returns whether it is one literal and nothing else.
    pub fn is_literal(self) -> bool {
        self.start.is_multiple_of(2) && self.end == self.start + 1
    }
}

/// All rows of `rows` in all partitions of `partitions`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell {
    pub partitions: AxisSpan,
    pub rows: AxisSpan,
}

/// A set of keys.
///
/// Cells with equal partitions form a group. Groups are in order and apart; the rows within a group are in order and
/// do not touch; touching groups differ in their rows. So equal sets are equal lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct KeySet {
    cells: Vec<Cell>,
    /// Where the last group begins.
    last_group: usize,
}

impl KeySet {
    /// The set without keys.
    pub const EMPTY: KeySet = KeySet {
        cells: Vec::new(),
        last_group: 0,
    };

    /// Returns all `rows` in all `partitions`; both are in order and do not touch.
    pub fn product(partitions: &[AxisSpan], rows: &[AxisSpan]) -> KeySet {
        let mut set = KeySet::EMPTY;
        for &partitions in partitions {
            set.add_group(partitions, |cells| {
                cells.extend(rows.iter().map(|&rows| Cell { partitions, rows }));
            });
        }
        set
    }

    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns the groups in order.
    pub fn groups(&self) -> Groups<'_> {
        Groups(&self.cells)
    }

    /// Adds a group after the others, with the rows that `fill` appends. They may be none.
    fn add_group(&mut self, partitions: AxisSpan, fill: impl FnOnce(&mut Vec<Cell>)) {
        let start = self.cells.len();
        fill(&mut self.cells);
        let Some((before, added)) = self.cells.split_at_mut_checked(start) else {
            return;
        };
        if added.is_empty() {
            return;
        }
        for cell in &mut *added {
            cell.partitions = partitions;
        }
        let previous = before.get_mut(self.last_group..).unwrap_or_default();
        let touches = previous
            .first()
            .is_some_and(|cell| cell.partitions.end == partitions.start);
        if touches
            && previous
                .iter()
                .map(|cell| cell.rows)
                .eq(added.iter().map(|cell| cell.rows))
        {
            for cell in previous {
                cell.partitions.end = partitions.end;
            }
            self.cells.truncate(start);
        } else {
            self.last_group = start;
        }
    }

    /// Returns whether a key may be in both sets. It looks at `work` cells at most and takes them from there; when they
    /// do not suffice, the answer is yes.
    pub fn may_intersect(&self, other: &KeySet, work: &mut usize) -> bool {
        let mut found = false;
        overlaps(self, other, |_, a, b| {
            *work = work.saturating_sub(a.len().min(b.len()));
            for_each_common_row(a, b, |_| {
                found = true;
                false
            });
            found |= *work == 0;
            !found
        });
        found
    }

    /// Returns whether all keys of this set are in `other`, as far as `work` cells can tell; no when they do not
    /// suffice.
    pub fn is_surely_within(&self, other: &KeySet, space: Space, work: &mut usize) -> bool {
        *work = work.saturating_sub(other.len());
        *work > 0 && !self.may_intersect(&space.complement(other), work)
    }

    /// Returns the keys that both sets have; `None` if these take more than `cells` cells.
    pub fn intersection(&self, other: &KeySet, cells: usize) -> Option<KeySet> {
        let mut set = KeySet::EMPTY;
        overlaps(self, other, |partitions, a, b| {
            set.add_group(partitions, |rows| {
                for_each_common_row(a, b, |cell| {
                    rows.push(cell);
                    true
                });
            });
            set.len() <= cells
        });
        (set.len() <= cells).then_some(set)
    }

    /// Returns the keys that one of the sets has, or both; `None` if these take more than `cells` cells.
    pub fn union(&self, other: &KeySet, cells: usize) -> Option<KeySet> {
        let mut set = KeySet::EMPTY;
        let (mut left, mut right) = (self.groups().peekable(), other.groups().peekable());
        let mut at = 0;
        loop {
            // The rest of the two next groups from `at` on.
            while left.next_if(|group| end(group) <= at).is_some() {}
            while right.next_if(|group| end(group) <= at).is_some() {}
            let (a, b) = (left.peek().copied(), right.peek().copied());
            let start_of = |group: Option<&[Cell]>| group.map(|group| start(group).max(at));
            let Some(from) = start_of(a).into_iter().chain(start_of(b)).min() else {
                break;
            };
            // The piece ends where one of the groups begins or ends.
            let to = [a, b]
                .into_iter()
                .flatten()
                .map(|group| if start(group) > from { start(group) } else { end(group) })
                .min()
                .unwrap_or(from);
            let reaches = |group: &&[Cell]| start(group) <= from;
            let (a, b) = (
                a.filter(reaches).unwrap_or_default(),
                b.filter(reaches).unwrap_or_default(),
            );
            set.add_group(AxisSpan { start: from, end: to }, |rows| all_rows(a, b, rows));
            if set.len() > cells {
                return None;
            }
            at = to;
        }
        Some(set)
    }

    /// Returns a larger set with at most one cell for each group.
    pub fn hull_of_rows(&self) -> KeySet {
        let mut set = KeySet::EMPTY;
        for group in self.groups() {
            if let [first, .., last] | [first @ last] = group {
                set.add_group(first.partitions, |rows| {
                    rows.push(Cell {
                        partitions: first.partitions,
                        rows: AxisSpan {
                            start: first.rows.start,
                            end: last.rows.end,
                        },
                    });
                });
            }
        }
        set
    }
}

fn start(group: &[Cell]) -> u32 {
    group.first().map_or(0, |cell| cell.partitions.start)
}

fn end(group: &[Cell]) -> u32 {
    group.first().map_or(0, |cell| cell.partitions.end)
}

/// The groups in a list of cells.
pub(super) struct Groups<'s>(&'s [Cell]);

impl<'s> Iterator for Groups<'s> {
    type Item = &'s [Cell];

    fn next(&mut self) -> Option<&'s [Cell]> {
        let first = self.0.first()?;
        let same = |cell: &Cell| cell.partitions == first.partitions;
        // Most groups have one cell; the end of a large one is searched.
        let length = if self.0.get(1).is_some_and(same) {
            self.0.partition_point(same)
        } else {
            1
        };
        let (group, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(group)
    }
}

/// Visits the partitions that both sets have, in order, with their rows in either set, until `visit` gives false.
///
/// It walks through the smaller set and searches the larger, so that a small set against a large one is cheap.
fn overlaps(a: &KeySet, b: &KeySet, mut visit: impl FnMut(AxisSpan, &[Cell], &[Cell]) -> bool) {
    let (small, large) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    for group in small.groups() {
        let Some(first) = group.first() else { continue };
        let from = large
            .cells
            .partition_point(|cell| cell.partitions.end <= first.partitions.start);
        for other in Groups(large.cells.get(from..).unwrap_or_default()) {
            let common = other.first().and_then(|cell| cell.partitions.overlap(first.partitions));
            let Some(common) = common else { break };
            if !visit(common, group, other) {
                return;
            }
        }
    }
}

/// Visits the rows that both groups have, in order, until `visit` gives false.
fn for_each_common_row(a: &[Cell], b: &[Cell], mut visit: impl FnMut(Cell) -> bool) {
    let (small, large) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    for cell in small {
        let from = large.partition_point(|other| other.rows.end <= cell.rows.start);
        for other in large.get(from..).unwrap_or_default() {
            let Some(rows) = other.rows.overlap(cell.rows) else {
                break;
            };
            if !visit(Cell { rows, ..*cell }) {
                return;
            }
        }
    }
}

/// Appends the rows that either group has.
fn all_rows(a: &[Cell], b: &[Cell], rows: &mut Vec<Cell>) {
    let begin = rows.len();
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some(left), Some(right)) if right.rows.start < left.rows.start => b.next(),
            (Some(_), _) => a.next(),
            (None, _) => b.next(),
        };
        let Some(cell) = next else { break };
        match rows.get_mut(begin..).and_then(<[Cell]>::last_mut) {
            Some(last) if cell.rows.start <= last.rows.end => last.rows.end = last.rows.end.max(cell.rows.end),
            _ => rows.push(*cell),
        }
    }
}

/// How far the axes go.
#[derive(Clone, Copy)]
pub(super) struct Space {
    pub partitions: AxisSpan,
    pub rows: AxisSpan,
}

impl Space {
    /// Returns all keys.
    pub fn all(self) -> KeySet {
        KeySet::product(&[self.partitions], &[self.rows])
    }

    fn complement(self, set: &KeySet) -> KeySet {
        let mut outside = KeySet::EMPTY;
        let mut at = self.partitions.start;
        for group in set.groups() {
            self.add_all_rows(&mut outside, at, start(group));
            outside.add_group(
                AxisSpan {
                    start: start(group),
                    end: end(group),
                },
                |rows| {
                    let ends = [self.rows.start]
                        .into_iter()
                        .chain(group.iter().map(|cell| cell.rows.end));
                    let starts = group.iter().map(|cell| cell.rows.start).chain([self.rows.end]);
                    let gaps = ends.zip(starts).filter_map(|(start, end)| AxisSpan::new(start, end));
                    rows.extend(gaps.map(|gap| Cell {
                        partitions: self.partitions,
                        rows: gap,
                    }));
                },
            );
            at = end(group);
        }
        self.add_all_rows(&mut outside, at, self.partitions.end);
        outside
    }

    fn add_all_rows(self, set: &mut KeySet, from: u32, to: u32) {
        if let Some(partitions) = AxisSpan::new(from, to) {
            set.add_group(partitions, |rows| {
                rows.push(Cell {
                    partitions,
                    rows: self.rows,
                });
            });
        }
    }

    /// Returns the set, with all rows of every span of several partitions: a range in key order cannot skip rows
    /// between the first partition and the last.
    pub fn widened(self, set: &KeySet) -> KeySet {
        let mut wide = KeySet::EMPTY;
        for group in set.groups() {
            let Some(first) = group.first() else { continue };
            wide.add_group(first.partitions, |rows| {
                if first.partitions.is_literal() {
                    rows.extend_from_slice(group);
                } else {
                    rows.push(Cell {
                        rows: self.rows,
                        ..*first
                    });
                }
            });
        }
        wide
    }
}
