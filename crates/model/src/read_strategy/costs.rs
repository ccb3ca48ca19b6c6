//! What the steps and the looks of a query cost, and the amounts with which it begins.

/// The costs, in fifths of what it takes to read an entity in key order.
pub(super) const READ: usize = 5;
/// To count an entry of an index.
pub(super) const COUNT: usize = 1;
/// To find an entity through an index, and to sort it.
pub(super) const SORT: usize = 15;
/// To plan a statement.
pub(super) const PLAN: usize = 2000;

/// The parts of what was read are twentieths: what counting may cost, and what a sort may cost that is perhaps in vain. The
/// latter also keeps the time limit of a page, because a sort cannot be interrupted.
pub(super) const PARTS: usize = 20;
pub(super) const LOOKING: usize = 1;
pub(super) const SORTING: usize = 3;

/// Up to how many entries are counted before anything is read, which costs as much as 50 entities in key order. So many are
/// read without a statement, too.
pub const FEW: usize = 250;
/// How many entities of a value are read without a look at how many there are.
pub(super) const AT_ONCE: usize = 16;
/// How many entities of a part of the table are read in key order before a decision, because it may be small. To count a few
/// entries, or to look at the statistics, takes as long as to read some 30.
pub(super) const SMALL: usize = 200;
/// How many entities are read in key order before a decision, if a page may be full soon.
pub(super) const READ_FIRST: usize = 2000;
/// Up to how many entries are counted before anything is read, if all entities are read and there are more than as many. It
/// costs a fifth of reading these. So many are also sorted in any case.
pub(super) const SOME: usize = 4000;
/// To find a larger part of all entities through an index and to sort them takes longer than to read them all: [`SORT`] times as
/// long for each of them.
pub(super) const LARGE: f64 = 0.3;
/// To read an entity that was found by its keys takes about as long as to read so many entries of an index beside them.
pub(super) const BESIDE_KEYS: usize = 4;

/// Returns how many entries may be counted when so many entities were read: a quarter.
pub(super) const fn countable(read: usize) -> usize {
    read.saturating_mul(READ * LOOKING) / (PARTS * COUNT)
}

/// Returns how many entities may be sorted, perhaps in vain, when so many were read: a twentieth.
pub(super) const fn sortable(read: usize) -> usize {
    read.saturating_mul(READ * SORTING) / (PARTS * SORT)
}

/// As how many entities in key order it takes to sort so many, and to plan the statement.
pub(super) const fn to_sort(entities: usize, is_planned: bool) -> usize {
    let plan = if is_planned { PLAN } else { 0 };
    entities.saturating_mul(SORT / READ).saturating_add(plan / READ)
}
