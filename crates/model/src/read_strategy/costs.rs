//! The costs of the steps and the looks of a query, and the amounts with which it begins.

/// The costs, in fifths of the cost of reading an entity in key order.
pub(super) const READ: usize = 5;
/// To count an entry of an index.
pub(super) const COUNT: usize = 1;
/// To find an entity through an index, and to sort it.
pub(super) const SORT: usize = 15;
/// To plan a statement.
pub(super) const PLAN: usize = 2000;

/// The limits of costs, in twentieths of the cost of the entities that were read: the limit of counts, and the limit of a
/// sort that is perhaps in vain. The latter also keeps the time limit of a page, because a sort cannot be interrupted.
pub(super) const PARTS: usize = 20;
pub(super) const LOOKING: usize = 1;
pub(super) const SORTING: usize = 3;

/// The most entries that are counted before anything is read: they cost as much as 50 entities in key order. As many are
/// read without a statement.
pub const FEW: usize = 250;
/// The number of entities of a value that are read before a look at how many there are.
pub(super) const AT_ONCE: usize = 16;
/// The number of entities of a part of the table that are read in key order before a decision: the part may be small. A
/// count of a few entries, or a look at the statistics, takes as long as reading some 30.
pub(super) const SMALL: usize = 200;
/// The number of entities that are read in key order before a decision, if a page may be full soon.
pub(super) const READ_FIRST: usize = 2000;
/// The most entries that are counted before anything is read, if a query reads all entities and there are at least as many
/// of these. The count costs a fifth of reading as many. As many entries are also sorted in any case.
pub(super) const SOME: usize = 4000;
/// A larger part of all entities takes longer to find through an index and to sort than all of them take to read: each costs
/// [`SORT`] in place of [`READ`].
pub(super) const LARGE: f64 = 0.3;
/// Reading an entity that was found by its keys takes about as long as reading this many entries of an index besides.
pub(super) const BESIDE_KEYS: usize = 4;

/// Returns how many entries may be counted after `read` entities: a quarter as many.
pub(super) const fn countable(read: usize) -> usize {
    read.saturating_mul(READ * LOOKING) / (PARTS * COUNT)
}

/// Returns how many entities may be sorted, perhaps in vain, after `read` entities: a twentieth as many.
pub(super) const fn sortable(read: usize) -> usize {
    read.saturating_mul(READ * SORTING) / (PARTS * SORT)
}

/// Returns how many entities in key order take as long to read as `entities` take to sort, with the plan of the
/// statement if there is one.
pub(super) const fn to_sort(entities: usize, is_planned: bool) -> usize {
    let plan = if is_planned { PLAN } else { 0 };
    entities.saturating_mul(SORT / READ).saturating_add(plan / READ)
}
