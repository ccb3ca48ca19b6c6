//! The state of a query that reads, and its decisions.

use super::costs::{AT_ONCE, BESIDE_KEYS, FEW, LARGE, READ_FIRST, SMALL, SOME, countable, sortable, to_sort};
use super::decision::{Decision, Reason, Step};
use super::evidence::{Evidence, Look};

/// The part of the ranges that is left to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// How many key ranges.
    pub ranges: usize,
    /// Whether one of them is the whole table.
    pub is_whole_table: bool,
    /// How many of the conditions that hold together ask for one value. They have the numbers from 0.
    pub values: usize,
    /// Whether there is no condition beside one value.
    pub is_only_value: bool,
}

/// How a query reads, as far as it is.
#[derive(Debug, Clone, Copy)]
pub struct Strategy {
    wanted: Option<usize>,
    is_direct: bool,
    /// How many entities were read in vain.
    read: usize,
    /// How many entities of a value were read to find out whether it is a large one.
    read_of_value: usize,
    /// How many entities the last step read in key order, and how many the caller had taken before it.
    last: Option<(usize, usize)>,
}

impl Strategy {
    /// `wanted` is how many entities suffice, about; without it all are read. `is_direct` says whether few entries are read
    /// without a statement.
    pub fn new(wanted: Option<usize>, is_direct: bool) -> Strategy {
        Strategy {
            wanted,
            is_direct,
            read: 0,
            read_of_value: 0,
            last: None,
        }
    }

    /// Returns how many entities were read in vain.
    pub fn read(&self) -> usize {
        self.read
    }

    /// Returns whether entities of a value were read to find out that these are many. The rest is then judged as if
    /// nothing was read.
    pub fn has_tried_value(&self) -> bool {
        self.read_of_value > 0
    }

    /// Goes on after a step. `taken` is how many entities the caller had taken before it.
    pub fn advance(&mut self, step: Step, taken: usize) {
        self.last = None;
        match step {
            Step::InKeyOrder {
                entities: Some(entities),
            } => {
                self.read = self.read.saturating_add(entities);
                self.last = Some((entities, taken));
            }
            Step::OfValue { entities, .. } => {
                let entities = entities.unwrap_or_default();
                match self.wanted {
                    None => self.read_of_value += entities,
                    Some(_) => self.read = self.read.saturating_add(entities),
                }
            }
            // These are the last steps.
            Step::InKeyOrder { entities: None } | Step::Sorted { .. } | Step::Planned => {}
        }
    }

    /// Returns the next step, or the look that is needed first. `taken` is how many entities the caller has taken, and
    /// `ranges_read` how many key ranges were read.
    pub fn next(&self, left: &Left, taken: usize, ranges_read: usize, evidence: &Evidence) -> Result<Decision, Look> {
        if let (Some(wanted), Some((entities, before))) = (self.wanted, self.last)
            // One more shows whether there is a next page.
            && taken.saturating_add(taken.saturating_sub(before)) > wanted
        {
            return Ok(Reason::NearlyFull.in_key_order(entities));
        }
        if left.ranges == 1
            && left.values > 0
            && let Some(decision) = self.of_value(left, evidence)?
        {
            return Ok(decision);
        }
        self.by_entries(left, ranges_read, evidence)
    }

    /// Decides whether the entities of one value are read, which is the one with the fewest. The more entities were read, the
    /// closer this looks.
    fn of_value(&self, left: &Left, evidence: &Evidence) -> Result<Option<Decision>, Look> {
        if left.is_only_value {
            return self.all_of_value(0, evidence);
        }
        let most = match self.wanted {
            Some(_) => FEW.max(self.read),
            None => SOME,
        };
        let (mut value, mut entries) = (0, most);
        for number in 0..left.values {
            let counted = evidence.entries_of_value(number, most)?;
            if counted < entries {
                (value, entries) = (number, counted);
            }
        }
        if entries < most {
            return self.all_of_value(value, evidence);
        }
        // Other conditions may say much more than this one.
        if evidence.entries(most / 4)? < most / 4 {
            return Ok(None);
        }
        if self.wanted.is_some() {
            let entities = Some(READ_FIRST.max(self.read));
            return Ok(Some(Reason::ManyOfValue { most }.of_value(value, entities)));
        }
        self.all_of_value(value, evidence)
    }

    /// If all entities are read, a look at how many have the value comes after the first ones. To read a large part of all
    /// entities in the order of the keys takes longer than to read the whole table in its own order.
    fn all_of_value(&self, value: usize, evidence: &Evidence) -> Result<Option<Decision>, Look> {
        if self.wanted.is_some() {
            return Ok(Some(Reason::OneValue.of_value(value, None)));
        }
        if self.read.max(self.read_of_value) < AT_ONCE {
            return Ok(Some(Reason::OneValue.of_value(value, Some(AT_ONCE))));
        }
        let is_large = evidence.is_large_value(value)?;
        Ok((!is_large).then(|| Reason::OneValue.of_value(value, None)))
    }

    /// Decides between the keys and the indexes by the number of entries.
    fn by_entries(&self, left: &Left, ranges_read: usize, evidence: &Evidence) -> Result<Decision, Look> {
        let (wanted, read) = (self.wanted, self.read);
        if read == 0 && !left.is_whole_table {
            return Ok(Reason::SmallRanges.in_key_order(SMALL));
        }
        if read <= SMALL && wanted.is_some() && evidence.is_large()? {
            return Ok(Reason::LargePart.in_key_order(READ_FIRST));
        }
        // How many entries are counted at most.
        let most = match wanted {
            // If there are no more entries than entities wanted, reading in key order goes to the end of the ranges.
            Some(wanted) => wanted.saturating_add(1),
            None if read == 0 && evidence.entries(FEW)? >= FEW => {
                if evidence.has_fewer_entities(SOME)? {
                    return Ok(Reason::SmallTable.all_in_key_order());
                }
                // Without statistics the planner does not know whether they are few.
                match evidence.has_statistics()? {
                    true => SOME,
                    false => evidence.small_part()?,
                }
            }
            None => SOME,
        };
        let limit = match (wanted, read) {
            (None, 0) => most,
            (Some(_), 0) => most.min(FEW),
            (None, read) => most.min(countable(read)),
            (Some(_), read) => most.min(countable(read)).max(sortable(read)),
        };
        let entries = evidence.entries(limit)?;
        if entries < limit {
            let without_statement = self.is_direct && entries < FEW;
            let may_be_small = !without_statement || entries > AT_ONCE;
            let enough = to_sort(entries, !without_statement);
            if may_be_small && evidence.has_fewer_entities(enough)? {
                return Ok(Reason::FewLeft { enough }.all_in_key_order());
            }
            return Ok(Reason::FewEntries { entries }.sorted(entries));
        }
        // Twice as many altogether.
        let more = Reason::ManyEntries { limit }.in_key_order(if read == 0 { READ_FIRST } else { read });
        let is_all_counted = limit == most;
        if wanted.is_some() || !is_all_counted && read < READ_FIRST {
            return Ok(more);
        }
        let undecided = match is_all_counted {
            true => Reason::TooManyEntries { most }.all_in_key_order(),
            false => more,
        };
        if !evidence.has_statistics()? {
            return Ok(undecided);
        }
        if evidence.is_large()? {
            return Ok(Reason::LargePart.all_in_key_order());
        }
        if left.ranges == 1 {
            return Ok(Reason::Statistics.planned());
        }
        // The planner sees only the first and the last of several ranges. So their entities are counted, but not before those
        // that were read say that they may be enough.
        let Some(expected) = evidence.estimate()? else {
            return Ok(Reason::TooManyEntries { most }.all_in_key_order());
        };
        let enough = to_sort(2 * expected, true);
        if read / (ranges_read + 1) * left.ranges < enough {
            return Ok(more);
        }
        let entries = evidence.entries(2 * expected)?;
        if entries >= 2 * expected {
            // The statistics are old.
            return Ok(undecided);
        }
        if evidence.has_fewer_entities(enough)? {
            return Ok(Reason::FewLeft { enough }.all_in_key_order());
        }
        Ok(Reason::FewEntries { entries }.sorted(entries))
    }
}

/// A call of `matches` that PostgreSQL's planner decides about, and the facts that are known without a look.
#[derive(Debug, Clone, Copy)]
pub struct PlannedCall {
    /// The part of all entities that has entries for the filter, by the statistics, for any keys.
    pub part: Option<f64>,
    /// Whether entries can be counted: the planner may plan before there is a snapshot.
    pub can_count: bool,
    /// How many key ranges the planner also hears of, if it does.
    pub ranges: Option<usize>,
    /// Whether the query may want only the first entities that are found.
    pub ends_early: bool,
}

impl PlannedCall {
    /// Returns whether the planner should hear of the condition on entries, or the look that is needed first. It should not if
    /// that can only do harm.
    pub fn tells_entries(&self, evidence: &Evidence) -> Result<bool, Look> {
        // A plan that reads no index tests the condition on every entity that passes, which takes about as long as the
        // filter itself.
        if self.part.is_some_and(|part| part > LARGE) {
            return Ok(false);
        }
        if !self.can_count || self.ranges.is_none() && evidence.has_statistics()? || evidence.entries(FEW)? < FEW {
            return Ok(true);
        }
        // The first of many are found soon by keys, or in the order of the table.
        if self.ends_early {
            return Ok(false);
        }
        let saved = match (evidence.estimate()?, self.ranges) {
            // The planner takes each page for one that must be read from a disk. So it reads many entries to save few
            // pages, which takes longer than those pages if they are in memory.
            (Some(entries), Some(1)) => (entries / BESIDE_KEYS).min(SOME.max(sortable(entries))),
            (Some(entries), _) => entries,
            // Without statistics the planner takes every condition for one that few entities meet.
            (None, _) => {
                let most = evidence.small_part()?;
                let entries = evidence.entries(most)?;
                if entries >= most {
                    return Ok(false);
                }
                entries
            }
        };
        match self.ranges {
            None => Ok(true),
            Some(_) => Ok(!evidence.has_fewer_entities(saved + 1)?),
        }
    }
}
