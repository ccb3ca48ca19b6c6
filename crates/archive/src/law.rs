//! The law: the tables of a moment, or the unknown parts of them, and the files that no moment needs. It knows the
//! manifest, and which files are damaged; it reads nothing.

use std::cmp::Reverse;
use std::collections::HashSet;

use crate::manifest::{Base, Epoch, Gap, Manifest, Moment, Segment, Table, Until, WhyEnded};
use table_service_model::Lsn;

/// The value of `--at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Everything that the archive has.
    Latest,
    Moment(Moment),
}

/// A point in the order of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    pub epoch: u32,
    /// All data is before this position.
    pub before: Lsn,
    /// The moment; `None` for the latest.
    pub at: Option<Moment>,
}

impl Point {
    /// The point behind all that is known of an epoch. A base that was read later than the feed may have more: other tables lack it.
    pub fn end_of(epoch: &Epoch) -> Point {
        Point {
            epoch: epoch.number,
            before: Lsn(epoch.through.0.saturating_add(1)),
            at: None,
        }
    }

    /// Returns whether a transaction of the point's epoch is before it.
    pub fn includes(&self, position: Lsn) -> bool {
        position < self.before
    }

    /// Returns whether an event at a position and a moment has happened at this point.
    pub fn is_after(&self, until: Until) -> bool {
        if until.epoch != self.epoch {
            return until.epoch < self.epoch;
        }
        self.includes(until.position) && self.at.is_none_or(|at| until.moment <= at)
    }
}

impl Table {
    /// Returns whether the table was there at a point.
    pub fn is_at(&self, point: &Point) -> bool {
        point.is_after(self.since) && !self.ended.is_some_and(|ended| point.is_after(ended.at))
    }

    /// The name that it had at a point.
    pub fn name_at(&self, point: &Point) -> &str {
        let name = self.names.iter().rfind(|name| point.is_after(name.from));
        name.or(self.names.first()).map_or("", |name| &name.name)
    }

    /// Says since when a table is not there any more.
    pub fn says_end(&self) -> Option<String> {
        let ended = self.ended?;
        let what = match ended.why {
            // An epoch began without it: it went in the gap, or the source is another one.
            WhyEnded::Dropped if ended.at.begins_epoch() => "the archive did not find it any more at",
            WhyEnded::Dropped => "it was dropped at",
            WhyEnded::Renamed => "it got a name that the archive does not select at",
            WhyEnded::Deselected => "it was no longer selected after",
        };
        Some(format!("{what} {}", ended.at.moment))
    }
}

/// The message about an archive that has only the name of its feed.
pub const NOTHING_YET: &str = "nothing can be restored from it yet: no table was read";

/// Finds the first transaction in a segment, behind a position, with a commit later than a moment.
pub type FirstLater<'f> = dyn FnMut(&Segment, Moment, Lsn) -> Result<Option<Lsn>, String> + 'f;

/// Finds the point of a moment: before the first transaction with a later commit.
///
/// # Errors
/// A moment that the archive does not have; an error of `first_later`.
pub fn point(manifest: &Manifest, at: At, allow_gaps: bool, first_later: &mut FirstLater<'_>) -> Result<Point, String> {
    let last = manifest.whole_epochs().next_back().ok_or(NOTHING_YET)?;
    let At::Moment(moment) = at else {
        return Ok(Point::end_of(last));
    };
    let outside = || {
        let last = manifest.last();
        let hint = match moment > last {
            true => ". Run archive first: it adds what has been done since then",
            false => "",
        };
        format!(
            "{moment} is outside of what the archive has: the first moment that can be restored is {}, and the last one {last}{hint}",
            manifest.floor.moment
        )
    };
    if moment < manifest.floor.moment {
        return Err(outside());
    }
    let at_point = |epoch: &Epoch, before: Option<Lsn>| {
        let end = Point::end_of(epoch);
        Point {
            before: before.unwrap_or(end.before).min(end.before),
            at: Some(moment),
            ..end
        }
    };
    let mut earlier: Option<(&Epoch, Moment)> = None;
    for epoch in manifest
        .whole_epochs()
        .filter(|epoch| epoch.number >= manifest.floor.epoch)
    {
        if moment < epoch.begins {
            let Some((before, end)) = earlier else { break };
            return match allow_gaps {
                true => Ok(at_point(before, None)),
                false => Err(format!(
                    "the archive has a gap from {end} to {}: {}. {moment} is in it; with --allow-gaps the state of {end} is restored",
                    epoch.begins,
                    epoch.reason()
                )),
            };
        }
        if moment > manifest.end_of(epoch) {
            earlier = Some((epoch, manifest.end_of(epoch)));
            continue;
        }
        let after = match epoch.number == manifest.floor.epoch {
            true => epoch.from.max(manifest.floor.position),
            false => epoch.from,
        };
        for segment in manifest
            .segments_of(epoch.number)
            .filter(|segment| segment.latest > moment)
        {
            if segment.earliest > moment && segment.first > after {
                return Ok(at_point(epoch, Some(segment.first)));
            }
            if let Some(later) = first_later(segment, moment, after)? {
                return Ok(at_point(epoch, Some(later)));
            }
        }
        return Ok(at_point(epoch, None));
    }
    Err(outside())
}

/// The files that give a table as it was at a point.
#[derive(Debug)]
pub struct Needed<'m> {
    pub base: &'m Base,
    /// In the order of commits.
    pub segments: Vec<&'m Segment>,
    /// The parts that are missing, if that was allowed.
    pub missing: Vec<String>,
}

/// The segments with changes behind a base and before a point.
fn segments_since<'m>(manifest: &'m Manifest, base: &Base, point: &Point) -> Vec<&'m Segment> {
    let through = base.through;
    let since = manifest
        .segments_of(base.epoch)
        .filter(|segment| segment.last > through);
    since.filter(|segment| point.includes(segment.first)).collect()
}

/// The bases of a table at or before a point, the last one first.
fn bases_of<'m>(manifest: &'m Manifest, table: &Table, point: &Point) -> Vec<&'m Base> {
    // No segment has the changes before a table was read.
    let is_before = |base: &Base| point.includes(base.position) && point.at.is_none_or(|at| base.moment <= at);
    let is_of = |base: &&Base| base.table == table.id && base.epoch == point.epoch && is_before(base);
    // Nor is a base that was read in a gap of any use: the table may have been another one.
    let is_in = |gap: &Gap, base: &Base| {
        let is_behind = |until: Until| (base.epoch, base.position) >= until.place();
        is_behind(gap.from) && !gap.until.is_some_and(is_behind)
    };
    let is_sound = |base: &&Base| !table.gaps.iter().any(|gap| is_in(gap, base));
    let mut bases: Vec<&Base> = manifest.bases.iter().filter(is_of).filter(is_sound).collect();
    bases.sort_by_key(|base| Reverse(base.position));
    bases
}

/// Why a table is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    pub what: String,
    /// A file is missing, or not as it was written.
    pub is_damage: bool,
}

impl Lacking {
    /// A table is unknown because of damage.
    pub fn damaged(what: String) -> Lacking {
        Lacking { what, is_damage: true }
    }

    fn other(what: String) -> Lacking {
        Lacking { what, is_damage: false }
    }
}

impl From<String> for Lacking {
    fn from(what: String) -> Lacking {
        Lacking::other(what)
    }
}

impl From<Lacking> for String {
    fn from(lacking: Lacking) -> String {
        lacking.what
    }
}

/// Chooses the files that give a table as it was at a point.
///
/// # Errors
/// The missing parts, and the last moment to which the table can be restored.
pub fn needed<'m>(
    manifest: &'m Manifest,
    table: &Table,
    point: &Point,
    is_damaged: &dyn Fn(u64) -> bool,
    allow_gaps: bool,
) -> Result<Needed<'m>, Lacking> {
    let bases = bases_of(manifest, table, point);
    let says = |Lacking { what, is_damage }, hint| {
        let kept = restorable(manifest, table, is_damaged);
        let kept: Vec<String> = kept.iter().map(|(from, to)| format!("{from} to {to}")).collect();
        let kept = match kept.is_empty() {
            true => "No moment of this table can be restored".to_owned(),
            false => format!("This table can be restored at moments from {}", kept.join(", ")),
        };
        Lacking {
            what: format!("the table {}: {what}. {kept}{hint}", table.name_at(point)),
            is_damage,
        }
    };
    // An earlier base gives the same as a damaged one, if all changes since then are there.
    let Some(base) = bases.iter().find(|base| !is_damaged(base.number)) else {
        let lacking = match bases.last() {
            Some(base) => Lacking::damaged(format!("its base {} is missing or damaged", base.number)),
            None => Lacking::other("it may have been there, and was not in the archive yet".to_owned()),
        };
        return Err(says(lacking, ""));
    };
    let mut missing = Vec::new();
    let gap = table.gaps.iter().find(|gap| {
        gap.from.epoch == point.epoch && gap.from.position > base.position && point.includes(gap.from.position)
    });
    missing.extend(
        gap.map(|gap| Lacking::other(format!("changes since {} are missing: {}", gap.from.moment, gap.reason))),
    );
    let mut segments = segments_since(manifest, base, point);
    let damaged = segments.iter().filter(|segment| is_damaged(segment.number));
    missing.extend(damaged.map(|segment| Lacking::damaged(segment.says_damage())));
    if let (Some(what), false) = (missing.first(), allow_gaps) {
        let hint = ". With --allow-gaps it is restored without those changes";
        return Err(says(what.clone(), hint));
    }
    segments.retain(|segment| !is_damaged(segment.number));
    Ok(Needed {
        base,
        segments,
        missing: missing.into_iter().map(String::from).collect(),
    })
}

impl Segment {
    fn says_damage(&self) -> String {
        format!(
            "the segment {}, with changes from {} to {}, is missing or damaged",
            self.number, self.earliest, self.latest
        )
    }
}

/// Versions of a table that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Their place in the log.
    pub position: Lsn,
    pub from: Moment,
    /// `None` for all that the archive has.
    pub until: Option<Moment>,
    pub reason: String,
}

impl Unknown {
    /// Everything from a moment on.
    pub fn from(position: Lsn, from: Moment, reason: impl Into<String>) -> Unknown {
        Unknown {
            position,
            from,
            until: None,
            reason: reason.into(),
        }
    }

    /// Returns whether any of them can be between two moments.
    pub fn is_between(&self, since: Option<Moment>, until: Option<Moment>) -> bool {
        until.is_none_or(|until| self.from <= until)
            && since.is_none_or(|since| self.until.is_none_or(|end| since < end))
    }

    /// The sentence for people.
    pub fn text(&self) -> String {
        let until = self.until.map_or("the end".to_owned(), |until| until.to_string());
        format!(
            "what was changed from {} to {until} is not known: {}",
            self.from, self.reason
        )
    }
}

/// A base and changes behind it, without a gap.
#[derive(Debug)]
pub struct Stretch<'m> {
    pub needed: Needed<'m>,
    pub end: Point,
}

/// Divides a table's changes in an epoch, from the last base before a moment on, into those that are there and unknown ones.
pub fn stretches<'m>(
    manifest: &'m Manifest,
    table: &Table,
    epoch: &Epoch,
    since: Option<Moment>,
    is_damaged: &dyn Fn(u64) -> bool,
) -> (Vec<Stretch<'m>>, Vec<Unknown>) {
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    let begin = (epoch.number, Lsn(0));
    let end = table.ended.map(|ended| ended.at.place());
    if table.since.epoch > epoch.number || end.is_some_and(|end| end <= begin) {
        return (known, unknown);
    }
    let whole = Point::end_of(epoch);
    let mut bases = bases_of(manifest, table, &whole);
    bases.reverse();
    // Since when nothing is known, and why.
    let mut lost: Option<Unknown> = None;
    let floor = Some(manifest.floor).filter(|floor| floor.epoch == epoch.number);
    let begin = floor.map_or(epoch.begins, |floor| floor.moment.max(epoch.begins));
    let since_then = Some(table.since).filter(|since| since.epoch == epoch.number);
    let from = since_then.map_or(begin, |since| since.moment.max(begin));
    if bases.first().is_none_or(|base| base.moment > from) {
        let position = since_then.map_or(0, |since| since.position.0.saturating_add(1));
        lost = Some(Unknown::from(Lsn(position), from, "the table was not read yet"));
    }
    // A base divides nothing: the changes before it and after it are in the segments. So the first one that is early enough will do.
    let is_early = |base: &&Base| since.is_some_and(|since| base.moment <= since) && !is_damaged(base.number);
    let early = bases.iter().rposition(is_early).unwrap_or(0);
    // The position from which the next base must go on.
    let mut past = Lsn(0);
    for base in bases.into_iter().skip(early) {
        if base.through < past {
            continue;
        }
        if is_damaged(base.number) {
            let reason = format!("the base {} is missing or damaged", base.number);
            lost.get_or_insert(Unknown::from(base.position, base.moment, reason));
            continue;
        }
        unknown.extend(lost.take().map(|lost| Unknown {
            until: Some(base.moment),
            ..lost
        }));
        let is_of_table = |segment: &&&Segment| end.is_none_or(|end| (epoch.number, segment.first) <= end);
        let segments = segments_since(manifest, base, &whole);
        let damaged = segments
            .iter()
            .filter(is_of_table)
            .find(|segment| is_damaged(segment.number));
        let gaps = table
            .gaps
            .iter()
            .filter(|gap| gap.from.epoch == epoch.number && gap.from.position > base.position);
        let gap = gaps.min_by_key(|gap| gap.from.position);
        let (cut, reached) = match (damaged, gap) {
            (Some(segment), gap) if gap.is_none_or(|gap| gap.from.position > segment.first) => {
                let lost = Unknown::from(segment.first, segment.earliest, segment.says_damage());
                (Some(lost), segment.last)
            }
            (_, Some(Gap { from, reason, .. })) => (
                Some(Unknown::from(from.position, from.moment, reason.as_str())),
                from.position,
            ),
            _ => (None, past),
        };
        let end = Point {
            before: cut.as_ref().map_or(whole.before, |cut| cut.position),
            ..whole
        };
        let segments = segments
            .into_iter()
            .filter(|segment| end.includes(segment.first) && is_of_table(&segment));
        known.push(Stretch {
            needed: Needed {
                base,
                segments: segments.collect(),
                missing: Vec::new(),
            },
            end,
        });
        (lost, past) = (cut, reached);
        if lost.is_none() {
            break;
        }
    }
    let ended = table.ended.filter(|ended| ended.at.epoch == epoch.number);
    unknown.extend(lost.map(|lost| Unknown {
        until: ended.map(|ended| ended.at.moment),
        ..lost
    }));
    let deselected = ended.filter(|ended| ended.why == WhyEnded::Deselected);
    unknown.extend(deselected.map(|ended| {
        let again = |later: &&Table| later.oid == table.oid && later.id > table.id;
        let again = manifest.tables.iter().filter(again).map(|later| later.since.moment);
        let position = Lsn(ended.at.position.0.saturating_add(1));
        Unknown {
            until: again.min(),
            ..Unknown::from(position, ended.at.moment, "the archive did not select the table")
        }
    }));
    (known, unknown)
}

/// The times of a table that can be restored, in order.
pub fn restorable(manifest: &Manifest, table: &Table, is_damaged: &dyn Fn(u64) -> bool) -> Vec<(Moment, Moment)> {
    let just_before = |moment: Moment| Moment(moment.0.saturating_sub(1));
    let mut times: Vec<(Moment, Moment)> = Vec::new();
    for epoch in manifest.whole_epochs() {
        let whole = Point::end_of(epoch);
        let bases = bases_of(manifest, table, &whole).into_iter();
        for base in bases.filter(|base| !is_damaged(base.number)) {
            let begin = base.moment.max(table.since.moment).max(manifest.floor.moment);
            let mut end = manifest.end_of(epoch);
            let since = segments_since(manifest, base, &whole);
            if let Some(damaged) = since.iter().find(|segment| is_damaged(segment.number)) {
                end = end.min(just_before(damaged.earliest));
            }
            let is_behind = |until: Until| until.epoch == epoch.number && until.position > base.position;
            for gap in table.gaps.iter().filter(|gap| is_behind(gap.from)) {
                end = end.min(just_before(gap.from.moment));
            }
            if let Some(ended) = table.ended.filter(|ended| ended.at.epoch == epoch.number) {
                end = end.min(just_before(ended.at.moment));
            }
            if begin <= end {
                times.push((begin, end));
            }
        }
    }
    times.sort_unstable();
    let mut merged: Vec<(Moment, Moment)> = Vec::new();
    for (begin, end) in times {
        match merged.last_mut() {
            Some(last) if begin.0 <= last.1.0.saturating_add(1) => last.1 = last.1.max(end),
            _ => merged.push((begin, end)),
        }
    }
    merged
}

/// The times at which a table may have been there, and cannot be restored, with the known reasons.
pub fn unknown(manifest: &Manifest, table: &Table, restorable: &[(Moment, Moment)]) -> Vec<(Moment, Moment, String)> {
    let end = table
        .ended
        .map_or(manifest.last(), |ended| Moment(ended.at.moment.0.saturating_sub(1)));
    let behind = Moment(end.0.saturating_add(1));
    let mut from = table.since.moment.max(manifest.floor.moment);
    let mut found = Vec::new();
    for &(begin, last) in restorable.iter().chain([&(behind, end)]) {
        if from < begin {
            let is_in = |gap: &&Gap| gap.from.moment <= begin && gap.until.is_none_or(|until| until.moment > from);
            let gap = table.gaps.iter().find(is_in);
            let is_between = |moment: Moment| moment >= from && moment <= begin;
            let epoch = manifest.epochs.iter().find(|epoch| is_between(epoch.begins));
            let reason = gap
                .map(|gap| &gap.reason)
                .or(epoch.and_then(|epoch| epoch.reason.as_ref()));
            let reason = reason.map_or("it was not read yet, or files are damaged", String::as_str);
            found.push((from, Moment(begin.0.saturating_sub(1)), reason.to_owned()));
        }
        from = from.max(Moment(last.0.saturating_add(1)));
    }
    found
}

/// Returns the manifest without all that is needed only for moments before a point, and the numbers of the files that
/// go; `None` if nothing goes.
pub fn prune(manifest: &Manifest, point: &Point) -> Option<(Manifest, HashSet<u64>)> {
    let moment = point.at?;
    let mut kept = manifest.clone();
    let mut oldest = Lsn(point.before.0.saturating_sub(1));
    kept.floor = Until::new(point.epoch, oldest, moment);
    let is_gone = |table: &Table| table.ended.is_some_and(|ended| point.is_after(ended.at));
    kept.tables.retain(|table| !is_gone(table));
    for table in &mut kept.tables {
        let last = table.names.iter().rposition(|name| point.is_after(name.from));
        table.names.drain(..last.unwrap_or(0));
        table
            .gaps
            .retain(|gap| !gap.until.is_some_and(|until| point.is_after(until)));
        // In a gap no moment is restored, and with --allow-gaps the base alone: it needs no segments.
        let base = bases_of(manifest, table, point).first().copied();
        let gap = table.gaps.iter_mut().find(|gap| point.is_after(gap.from));
        if let Some((gap, base)) = gap.zip(base).filter(|(gap, base)| base.through < gap.from.position) {
            gap.from = Until::new(base.epoch, Lsn(base.through.0 + 1), base.moment);
        }
    }
    kept.epochs.retain(|epoch| epoch.number >= point.epoch);
    kept.bases.retain(|base| {
        let Some(table) = kept.tables.iter().find(|table| table.id == base.table) else {
            return false;
        };
        if base.epoch != point.epoch {
            return base.epoch > point.epoch;
        }
        // Without damage, so that nothing goes because of it.
        match bases_of(manifest, table, point).first() {
            Some(needed) => {
                if table.is_at(point) && !table.gaps.iter().any(|gap| point.is_after(gap.from)) {
                    oldest = oldest.min(needed.through);
                }
                base.position >= needed.position
            }
            None => true,
        }
    });
    kept.segments
        .retain(|segment| segment.epoch > point.epoch || segment.epoch == point.epoch && segment.last > oldest);
    let gone: HashSet<u64> = manifest.numbers().difference(&kept.numbers()).copied().collect();
    let is_less = kept.tables.len() < manifest.tables.len() || !gone.is_empty();
    is_less.then_some((kept, gone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::{base, manifest, segment, until};
    use crate::manifest::{Ended, Epoch, Gap};

    fn none(_: u64) -> bool {
        false
    }

    /// The transactions of the segments, as (position, moment).
    const COMMITS: [(u64, i64); 6] = [
        (110, 1100),
        (200, 2000),
        (210, 2100),
        (300, 3000),
        (310, 3100),
        (400, 4000),
    ];

    fn at(manifest: &Manifest, commits: &[(u64, i64)], moment: i64) -> Result<Point, String> {
        point(
            manifest,
            At::Moment(Moment(moment)),
            false,
            &mut |segment, moment, after| {
                let in_segment = |&&(position, committed): &&(u64, i64)| {
                    Lsn(position) >= segment.first
                        && Lsn(position) <= segment.last
                        && Lsn(position) > after
                        && Moment(committed) > moment
                };
                Ok(commits.iter().find(in_segment).map(|&(position, _)| Lsn(position)))
            },
        )
    }

    #[test]
    fn a_moment_is_before_the_first_later_commit() {
        let manifest = manifest();
        let before = |moment| at(&manifest, &COMMITS, moment).unwrap().before.0;
        assert_eq!(before(1000), 110);
        assert_eq!(before(1100), 200);
        assert_eq!(before(1999), 200);
        assert_eq!(before(2000), 210);
        assert_eq!(before(3999), 400);
        assert_eq!(before(4000), 401);
        assert_eq!(before(4500), 401);
        for outside in [999, 4501] {
            let said = at(&manifest, &COMMITS, outside).unwrap_err();
            assert!(said.contains("first moment") && said.contains("last one"), "{said}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_splits_nothing() {
        let mut manifest = manifest();
        // 110 at 5000, then the clock goes back.
        manifest.segments[0] = segment(2, 110, 200, (2000, 5000));
        let commits = [
            (110, 5000),
            (200, 2000),
            (210, 2100),
            (300, 3000),
            (310, 3100),
            (400, 4000),
        ];
        assert_eq!(at(&manifest, &commits, 4000).unwrap().before, Lsn(110));
        assert_eq!(at(&manifest, &commits, 5000).unwrap().before, Lsn(401));
    }

    #[test]
    fn the_last_base_before_a_moment_is_used() {
        let mut manifest = manifest();
        manifest.bases.push(base(5, 1, 300, 3000));
        let numbers = |moment| {
            let point = at(&manifest, &COMMITS, moment).unwrap();
            let needed = needed(&manifest, &manifest.tables[0], &point, &none, false).unwrap();
            let segments: Vec<u64> = needed.segments.iter().map(|segment| segment.number).collect();
            (needed.base.number, segments)
        };
        assert_eq!(numbers(1000), (1, vec![]));
        assert_eq!(numbers(1500), (1, vec![2]));
        assert_eq!(numbers(2999), (1, vec![2, 3]));
        assert_eq!(numbers(3000), (5, vec![]));
        assert_eq!(numbers(3500), (5, vec![4]));
    }

    #[test]
    fn nothing_is_restored_past_damage() {
        let mut manifest = manifest();
        manifest.bases.push(base(5, 1, 300, 3000));
        let table = manifest.tables[0].clone();
        let try_at = |moment, damaged: &'static [u64], allow| {
            let point = at(&manifest, &COMMITS, moment).unwrap();
            let is_damaged = |number: u64| damaged.contains(&number);
            needed(&manifest, &table, &point, &is_damaged, allow)
                .map(|needed| (needed.base.number, needed.missing.len()))
        };
        assert_eq!(try_at(3500, &[5], false), Ok((1, 0)), "an earlier base gives the same");
        assert_eq!(try_at(3500, &[3], false), Ok((5, 0)));
        let said = try_at(2500, &[3], false).unwrap_err();
        assert!(said.is_damage && said.what.contains("segment 3") && said.what.contains("--allow-gaps"));
        assert_eq!(try_at(2500, &[3], true), Ok((1, 1)));
        let said = try_at(2500, &[1], true).unwrap_err();
        assert!(said.is_damage && said.what.contains("base 1"));
        let times = |damaged: &'static [u64]| {
            restorable(&manifest, &table, &|number| damaged.contains(&number))
                .into_iter()
                .map(|(from, to)| (from.0, to.0))
                .collect::<Vec<_>>()
        };
        assert_eq!(times(&[]), [(1000, 4500)]);
        assert_eq!(times(&[3]), [(1000, 2099), (3000, 4500)]);
        assert_eq!(times(&[4]), [(1000, 3099)]);
        assert_eq!(times(&[1]), [(3000, 4500)]);
        assert_eq!(times(&[1, 5]), []);
    }

    #[test]
    fn versions_are_known_or_named() {
        let mut manifest = manifest();
        manifest.bases.push(base(5, 1, 300, 3000));
        let look = |manifest: &Manifest, since: Option<i64>, damaged: &'static [u64]| {
            let (known, unknown) = stretches(
                manifest,
                &manifest.tables[0],
                &manifest.epochs[0],
                since.map(Moment),
                &|number| damaged.contains(&number),
            );
            let known: Vec<(u64, Vec<u64>)> = known
                .iter()
                .map(|stretch| {
                    let segments = stretch.needed.segments.iter().map(|segment| segment.number);
                    (stretch.needed.base.number, segments.collect())
                })
                .collect();
            let unknown: Vec<(i64, Option<i64>)> = unknown
                .iter()
                .map(|unknown| (unknown.from.0, unknown.until.map(|until| until.0)))
                .collect();
            (known, unknown)
        };
        assert_eq!(look(&manifest, None, &[]), (vec![(1, vec![2, 3, 4])], vec![]));
        assert_eq!(look(&manifest, Some(3000), &[1, 2, 3]), (vec![(5, vec![4])], vec![]));
        assert_eq!(look(&manifest, None, &[5]), (vec![(1, vec![2, 3, 4])], vec![]));
        assert_eq!(
            look(&manifest, None, &[3]),
            (vec![(1, vec![2]), (5, vec![4])], vec![(2100, Some(3000))])
        );
        assert_eq!(
            look(&manifest, None, &[1]),
            (vec![(5, vec![4])], vec![(1000, Some(3000))])
        );
        assert_eq!(look(&manifest, None, &[1, 5]), (vec![], vec![(1000, None)]));
        assert_eq!(
            look(&manifest, None, &[2, 4]),
            (vec![(1, vec![]), (5, vec![])], vec![(1100, Some(3000)), (3100, None)])
        );
        manifest.tables[0].gaps.push(Gap {
            from: until(210, 2100),
            until: Some(until(300, 3000)),
            reason: "a column".to_owned(),
        });
        assert_eq!(
            look(&manifest, None, &[]),
            (vec![(1, vec![2]), (5, vec![4])], vec![(2100, Some(3000))])
        );
        let unknown = Unknown {
            position: Lsn(1),
            from: Moment(2100),
            until: Some(Moment(3000)),
            reason: String::new(),
        };
        let between = |since: Option<i64>, until: Option<i64>| unknown.is_between(since.map(Moment), until.map(Moment));
        assert!(between(None, None) && between(Some(2999), None) && between(None, Some(2100)));
        assert!(!between(Some(3000), None) && !between(None, Some(2099)));
    }

    #[test]
    fn gaps_of_a_table_and_of_the_archive_are_not_passed() {
        let mut manifest = manifest();
        manifest.tables[0].gaps.push(Gap {
            from: until(210, 2100),
            until: None,
            reason: "a column".to_owned(),
        });
        let try_at = |manifest: &Manifest, moment| -> Result<u64, String> {
            let point = at(manifest, &COMMITS, moment)?;
            let needed = needed(manifest, &manifest.tables[0], &point, &none, false)?;
            Ok(needed.base.number)
        };
        assert_eq!(try_at(&manifest, 2099), Ok(1));
        assert!(try_at(&manifest, 2100).unwrap_err().contains("a column"));
        // A base that was read in the gap is of no use before the gap ends.
        manifest.bases.push(base(5, 1, 300, 3000));
        assert!(try_at(&manifest, 3000).is_err());
        manifest.tables[0].gaps[0].until = Some(until(300, 3000));
        assert_eq!(try_at(&manifest, 3000), Ok(5));
        // Another epoch.
        manifest.epochs.push(Epoch {
            number: 2,
            server: String::new(),
            from: Lsn(600),
            begins: Moment(6000),
            through: Lsn(700),
            reached: Moment(7000),
            seen: None,
            reason: Some("the slot was lost".to_owned()),
        });
        manifest.bases.push(Base {
            epoch: 2,
            ..base(6, 1, 600, 6000)
        });
        assert!(try_at(&manifest, 5000).unwrap_err().contains("the slot was lost"));
        assert_eq!(try_at(&manifest, 6000), Ok(6));
        assert_eq!(try_at(&manifest, 4500), Ok(5));
    }

    #[test]
    fn a_dropped_table_is_there_before() {
        let mut manifest = manifest();
        manifest.tables[0].ended = Some(Ended {
            why: WhyEnded::Dropped,
            at: until(350, 3500),
        });
        let is_at = |moment| manifest.tables[0].is_at(&at(&manifest, &COMMITS, moment).unwrap());
        assert!(is_at(1000) && is_at(3499) && !is_at(3500) && !is_at(4500));
        assert!(manifest.tables[0].has_change(1, Lsn(350)) && !manifest.tables[0].has_change(1, Lsn(351)));
        assert!(!manifest.tables[0].has_change(1, Lsn(100)));
    }

    #[test]
    fn what_a_kept_moment_needs_stays() {
        let mut manifest = manifest();
        manifest.bases.push(base(5, 1, 300, 3000));
        let pruned = |moment| {
            let point = at(&manifest, &COMMITS, moment).unwrap();
            prune(&manifest, &point).map(|(_, gone)| {
                let mut gone: Vec<u64> = gone.into_iter().collect();
                gone.sort_unstable();
                gone
            })
        };
        assert_eq!(pruned(1500), None);
        assert_eq!(pruned(2999), None);
        assert_eq!(pruned(3000), Some(vec![1, 2, 3]));
        assert_eq!(pruned(4200), Some(vec![1, 2, 3]));
        for from in [3000, 3050, 3100, 4000, 4400] {
            let point = at(&manifest, &COMMITS, from).unwrap();
            let (kept, _) = prune(&manifest, &point).unwrap();
            assert_eq!(Manifest::read(kept.to_lines().unwrap().as_slice()).unwrap(), kept);
            for moment in from..=4500 {
                let of = |manifest: &Manifest| {
                    let point = at(manifest, &COMMITS, moment).unwrap();
                    let needed = needed(manifest, &manifest.tables[0], &point, &none, false).unwrap();
                    (point, needed.base.number, needed.segments.len())
                };
                assert_eq!(of(&kept), of(&manifest), "{from} {moment}");
            }
            assert!(at(&kept, &COMMITS, from - 1).is_err());
        }
    }

    #[test]
    fn a_table_in_a_gap_keeps_only_its_base() {
        let mut manifest = manifest();
        manifest.tables.push(Table::new(2, 8, "Others", until(100, 1000)));
        manifest.bases.extend([base(5, 2, 100, 1000), base(6, 1, 300, 3000)]);
        manifest.tables[1].gaps.push(Gap {
            from: until(210, 2100),
            until: None,
            reason: "a column".to_owned(),
        });
        let point = at(&manifest, &COMMITS, 3500).unwrap();
        let (kept, gone) = prune(&manifest, &point).unwrap();
        assert_eq!(gone, HashSet::from([1, 2, 3]));
        let of = |allow_gaps| needed(&kept, &kept.tables[1], &point, &none, allow_gaps);
        assert!(of(false).is_err());
        let says = "changes since 2000-01-01T00:00:00.001Z are missing: a column";
        assert_eq!(
            (of(true).unwrap().base.number, of(true).unwrap().missing),
            (5, vec![says.to_owned()])
        );
        assert_eq!(prune(&kept, &point), None);
    }
}
