//! How an archive takes in the news of a feed, a catalog and the reading of tables. Nothing here reads or writes.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

use crate::manifest::{Base, Ended, Epoch, Gap, Manifest, Moment, Name, Seen, Table, Until, WhyEnded, is_selected};
use crate::read::hex;
use table_service_model::Lsn;

/// The name and the OID of a table, as the catalog lists it.
pub type Listed = (String, u32);

/// Why something of a table is unknown.
const UNTOLD: &str =
    "it was made, dropped or renamed where the extension's event trigger did not run, so nobody knows when";

/// How many names of a table are kept. Otherwise the owner of one table could use up the manifest.
const MOST_NAMES: usize = if cfg!(test) { 6 } else { 1000 };
const RENAMED: &str = "it was renamed so often that the archive has only its last names";

/// The content that the feed must give before any of it counts.
#[derive(Debug, Clone)]
pub enum Expected {
    Mark(String),
    /// The transaction that was seen last. No other history has one that ends at the same position, with the same moment and the same keys.
    Seen(Seen),
}

/// How many rows of a transaction its digest has. Behind one with more, an archive reads up to a mark.
const DIGESTED: u64 = 1000;

/// Follows the transactions that a feed gives.
pub struct Follower {
    expected: Expected,
    /// The transaction of the rows that come.
    current: Option<Current>,
    /// The end of the one before it.
    before: Lsn,
    /// The expected one.
    found: Option<Seen>,
    /// The one that was read last, with its digest and its rows.
    last: Option<(Lsn, [u8; 32], Lsn, u64)>,
}

struct Current {
    position: Lsn,
    digest: Sha256,
    has_mark: bool,
    rows: u64,
}

/// The transactions behind the expected one in a log that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    pub expected: Seen,
    pub last: Seen,
    /// How many rows the last one has.
    pub rows: u64,
}

impl Follower {
    /// `confirmed` is where the feed begins.
    pub fn new(expected: Expected, confirmed: Lsn) -> Follower {
        Follower {
            expected,
            current: None,
            before: confirmed,
            found: None,
            last: None,
        }
    }

    /// Takes a row of the feed: its text, and the mark that it may be. Returns whether it is of a transaction behind
    /// the expected one.
    pub fn take(&mut self, position: Lsn, row: impl FnOnce() -> String, mark: Option<&str>) -> bool {
        if self.current.as_ref().is_none_or(|current| current.position != position) {
            self.end_transaction();
        }
        let current = self.current.get_or_insert_with(|| Current {
            position,
            digest: Sha256::new(),
            has_mark: false,
            rows: 0,
        });
        current.rows += 1;
        if current.rows <= DIGESTED {
            let row = row();
            current.digest.update((row.len() as u64).to_le_bytes());
            current.digest.update(row);
        }
        current.has_mark |= matches!(&self.expected, Expected::Mark(text) if Some(text.as_str()) == mark);
        self.found.is_some()
    }

    fn end_transaction(&mut self) {
        let Some(Current {
            position,
            mut digest,
            has_mark,
            rows,
        }) = self.current.take()
        else {
            return;
        };
        if rows > DIGESTED {
            digest.update(rows.to_le_bytes());
        }
        let (digest, confirmed) = (digest.finalize().into(), std::mem::replace(&mut self.before, position));
        self.last = Some((position, digest, confirmed, rows));
        let is_expected = match &self.expected {
            Expected::Mark(_) => has_mark,
            Expected::Seen(seen) => seen.position == position && seen.digest == hex(&digest),
        };
        if is_expected && self.found.is_none() {
            self.found = Some(seen(position, &digest, confirmed));
        }
    }

    /// Returns `None` if the expected transaction did not come: the log is not the one that was read before, or not yet read so far.
    pub fn finish(mut self) -> Option<Followed> {
        self.end_transaction();
        let (position, digest, confirmed, rows) = self.last?;
        Some(Followed {
            expected: self.found?,
            last: seen(position, &digest, confirmed),
            rows,
        })
    }
}

fn seen(position: Lsn, digest: &[u8], confirmed: Lsn) -> Seen {
    Seen {
        position,
        digest: hex(digest),
        confirmed,
    }
}

fn by_oid(listed: &[Listed]) -> HashMap<u32, &str> {
    listed.iter().map(|(name, oid)| (*oid, name.as_str())).collect()
}

impl Table {
    fn rename(&mut self, name: &str, from: Until) {
        if self.name() == name {
            return;
        }
        // Of the names of one transaction the last one counts.
        self.names.retain(|known| known.from.place() != from.place());
        if self.names.len() >= MOST_NAMES {
            // Nobody knows its names of that time, so no moment of it is restored. It is read again.
            self.names.clear();
            self.gaps.clear();
            self.lose(self.since, RENAMED);
        }
        if self.names.is_empty() || self.name() != name {
            self.names.push(Name {
                name: name.to_owned(),
                from,
            });
        }
    }

    fn end(&mut self, why: WhyEnded, at: Until) {
        self.ended = Some(Ended { why, at });
    }

    fn lose(&mut self, from: Until, reason: &str) {
        let lost = Gap {
            from,
            until: None,
            reason: reason.to_owned(),
        };
        let is_earlier = |gap: &Gap| from.place() < gap.from.place();
        match self.gaps.last_mut().filter(|gap| gap.until.is_none()) {
            None => self.gaps.push(lost),
            Some(open) if is_earlier(open) => *open = lost,
            Some(_) => {}
        }
    }
}

impl Manifest {
    /// Up to where everything is known.
    pub fn reached(&self) -> Until {
        let epoch = self.epoch();
        epoch.map_or(self.floor, |epoch| {
            Until::new(epoch.number, epoch.through, epoch.reached)
        })
    }

    /// Follows the tables that these names select from now on.
    pub fn select(&mut self, names: &[String]) {
        names.clone_into(&mut self.selected);
        let at = self.reached();
        let is_selected = |table: &&mut Table| !is_selected(names, table.name());
        for table in self.living_mut().filter(is_selected) {
            table.end(WhyEnded::Deselected, at);
        }
    }

    fn add_table(&mut self, oid: u32, name: &str, since: Until) {
        self.tables.push(Table::new(self.next_table, oid, name, since));
        self.next_table += 1;
    }

    /// Begins a time in which the feed loses nothing, with the tables that are listed. The list is later than where the epoch begins in the log, and
    /// earlier than the moment. Those of another source are other tables.
    pub fn begin_epoch(&mut self, mut epoch: Epoch, is_same_source: bool, listed: &[Listed]) {
        epoch.number = self.epoch().map_or(1, |epoch| epoch.number + 1);
        let at = Until::new(epoch.number, Lsn(0), epoch.begins);
        let names = by_oid(listed);
        let selected = self.selected.clone();
        for table in self.living_mut() {
            let now = names.get(&table.oid);
            match now.filter(|name| is_same_source && is_selected(&selected, name)) {
                Some(name) => table.rename(name, at),
                None => table.end(WhyEnded::Dropped, at),
            }
        }
        let living: HashSet<u32> = self.living().map(|table| table.oid).collect();
        for (name, oid) in listed.iter().filter(|(_, oid)| !living.contains(oid)) {
            if is_selected(&self.selected, name) {
                self.add_table(*oid, name, at);
            }
        }
        if self.epochs.is_empty() {
            self.floor = Until::new(epoch.number, epoch.from, epoch.begins);
        }
        self.epochs.push(epoch);
    }

    /// Notes the name that a relation has as a table of the service from a position on, and the one that it had; `None`
    /// if it is none. If the archive does not know the one before, a definition was not told.
    pub fn define(&mut self, oid: u32, before: Option<&str>, now: Option<&str>, at: Until) {
        let (selected, reached, is_new) = (&self.selected, self.reached(), before.is_none());
        let is_selected = |name: &&str| is_selected(selected, name);
        let (before, why) = (
            before.filter(is_selected),
            now.map_or(WhyEnded::Dropped, |_| WhyEnded::Renamed),
        );
        let now = now.filter(is_selected);

        // Of the names that it gets in one transaction the last one counts.
        let is_of =
            |table: &&mut Table| table.oid == oid && table.ended.is_none_or(|ended| ended.at.place() == at.place());
        let living = self.tables.iter_mut().rev().find(is_of);
        match (living, before, now) {
            (Some(table), ..) if table.ended.is_some() => {
                if let Some(name) = now {
                    table.ended = None;
                    table.rename(name, at);
                }
            }
            (Some(table), ..) => {
                if before.is_some_and(|before| before != table.name()) {
                    table.lose(reached, UNTOLD);
                }
                match now {
                    Some(name) => table.rename(name, at),
                    None => table.end(why, at),
                }
            }
            (None, Some(before), _) => {
                self.add_table(oid, before, reached);
                self.define(oid, None, now, at);
            }
            (None, None, Some(name)) => {
                self.add_table(oid, name, at);
                if let Some(table) = self.tables.last_mut() {
                    table.created = is_new;
                }
            }
            (None, None, None) => {}
        }
    }

    /// Notes that changes of a table cannot be known from a position on. Returns whether that is news.
    pub fn note_gap(&mut self, id: u32, from: Until, reason: &str) -> bool {
        let is_covered = |base: &Base| base.table == id && base.epoch == from.epoch && base.position >= from.position;
        let is_covered = self.bases.iter().any(is_covered);
        // One that has left in this transaction may come back in it.
        let is_over = |ended: Ended| (ended.at.epoch, ended.at.position) != (from.epoch, from.position);
        let is_lost = |table: &&mut Table| table.id == id && !is_covered && !table.ended.is_some_and(is_over);
        let table = self.tables.iter_mut().find(is_lost);
        let Some(table) = table.filter(|table| !table.has_open_gap()) else {
            return false;
        };
        table.lose(from, reason);
        true
    }

    /// Notes the last transaction that was read of the feed.
    pub fn see(&mut self, last: Seen) {
        if let Some(epoch) = self.epochs.last_mut() {
            epoch.seen = Some(last);
        }
    }

    /// Returns whether the catalog lists the tables that are followed, and no others.
    pub fn matches(&self, listed: &[Listed]) -> bool {
        let living: HashSet<(&str, u32)> = self.living().map(|table| (table.name(), table.oid)).collect();
        let listed = listed.iter().filter(|(name, _)| is_selected(&self.selected, name));
        living == listed.map(|(name, oid)| (name.as_str(), *oid)).collect()
    }

    /// The epoch, and the end of the part of it that was read.
    pub fn known(&self) -> (u32, Lsn) {
        let read = |epoch: &Epoch| epoch.seen.as_ref().map_or(epoch.through, |seen| seen.position);
        self.epoch().map_or((0, Lsn(0)), |epoch| (epoch.number, read(epoch)))
    }

    /// Notes that everything is known up to a position: the feed was read to its end after the clock showed this
    /// moment, and the tables were [compared](Manifest::compare) with a later list, or match it.
    pub fn reach(&mut self, (number, through): (u32, Lsn), clock: Moment) {
        if let Some(epoch) = self.epochs.last_mut().filter(|epoch| epoch.number == number) {
            (epoch.through, epoch.reached) = (through, clock);
        }
    }

    /// Compares the tables with a list of the catalog that is later than the position known then, when everything was
    /// read that was committed before the list, which is before the clock showed this moment. A definition that the
    /// feed does not tell was made without the extension's event trigger, at an unknown time.
    pub fn compare(&mut self, listed: &[Listed], known: (u32, Lsn), clock: Moment) {
        let (before, now) = (self.reached(), self.known());
        let now = Until::new(now.0, now.1, clock);
        let is_known = |until: Until| until.place() <= known;
        let names = by_oid(listed);
        for table in self.living_mut().filter(|table| is_known(table.since)) {
            let is_later = table.since.place() > before.place();
            let from = if is_later { table.since } else { before };
            let Some(name) = names.get(&table.oid) else {
                table.lose(from, UNTOLD);
                table.end(WhyEnded::Dropped, now);
                continue;
            };
            // Its name then, or one that it has had since then.
            let first = table.names.iter().rposition(|name| is_known(name.from)).unwrap_or(0);
            if !table.names.iter().skip(first).any(|known| known.name == **name) {
                table.lose(from, UNTOLD);
                table.rename(name, now);
            }
        }
        let was_gone = |table: &&Table| table.ended.is_some_and(|ended| is_known(ended.at));
        let there = self.tables.iter().filter(|table| !was_gone(table));
        let there: HashSet<u32> = there.map(|table| table.oid).collect();
        for (name, oid) in listed.iter().filter(|(_, oid)| !there.contains(oid)) {
            if is_selected(&self.selected, name) {
                self.add_table(*oid, name, before);
            }
        }
    }

    /// The tables that are followed and have no base, or a gap that is open.
    pub fn lacking(&self) -> Vec<Table> {
        let number = self.epoch().map_or(0, |epoch| epoch.number);
        let bases = self.bases.iter().filter(|base| base.epoch == number);
        let with_base: HashSet<u32> = bases.map(|base| base.table).collect();
        let is_lacking = |table: &&Table| table.has_open_gap() || !with_base.contains(&table.id);
        let lacking = self.living().filter(is_lacking);
        lacking.cloned().collect()
    }

    /// Notes that a table was read, when the feed has given the mark that was written then: the base is of the log that is read.
    pub fn add_base(&mut self, base: Base) {
        let at = Until::new(base.epoch, base.position, base.moment);
        let table = self.tables.iter_mut().find(|table| table.id == base.table);
        if let Some(gap) = table
            .and_then(|table| table.gaps.last_mut())
            .filter(|gap| gap.until.is_none())
        {
            gap.until = Some(at);
        }
        self.bases.push(base);
    }

    /// Notes that the tables with which the last epoch has begun are read.
    pub fn end_beginning(&mut self) {
        let Some(epoch) = self.epochs.last_mut() else { return };
        let bases = self.bases.iter().filter(|base| base.epoch == epoch.number);
        epoch.begins = bases.map(|base| base.moment).fold(epoch.begins, Moment::max);
        if (epoch.number, epoch.from) == (self.floor.epoch, self.floor.position) {
            self.floor.moment = epoch.begins;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last transaction of a log in which each one has so many rows.
    fn last(expected: Expected, rows: &[usize]) -> Option<Seen> {
        let mut follower = Follower::new(expected, Lsn(0));
        for (number, rows) in rows.iter().enumerate() {
            for row in 0..*rows {
                let mark = (number == 0).then_some("mark");
                follower.take(Lsn(number as u64 + 1), || format!("{number} {row}"), mark);
            }
        }
        follower.finish().map(|followed| followed.last)
    }

    #[test]
    fn a_transaction_is_known_by_its_rows_and_their_number() {
        for rows in [1, 999, 1000, 1001, 5000] {
            let seen = last(Expected::Mark("mark".to_owned()), &[1, rows]).unwrap();
            assert_eq!(seen.confirmed, Lsn(1));
            let again = |rows: &[usize]| last(Expected::Seen(seen.clone()), rows);
            assert_eq!(again(&[1, rows]).as_ref(), Some(&seen));
            assert_eq!(again(&[1, rows, 7]).unwrap().confirmed, Lsn(2));
            for other in [rows - 1, rows + 1] {
                assert_eq!(again(&[1, other]), None, "{rows} {other}");
            }
        }
        assert_eq!(last(Expected::Mark("other".to_owned()), &[1, 1]), None);
    }
}
