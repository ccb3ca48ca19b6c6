//! What an archive has: the contents of its manifest.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use table_service_model::change_feed::{FeedName, Position as FeedPosition};
use table_service_model::{Ticks, table_name};

use table_service_files::MOST_TABLES;

/// The version of the format of all files. Their names begin with it.
pub const FORMAT: u32 = 1;
/// How many files an archive may have.
const MOST_FILES: usize = 1_000_000;
/// How many gaps and epochs a table or an archive may have.
const MOST_GAPS: usize = 100_000;

/// A type that serde reads and writes as its text.
macro_rules! as_text {
    ($type:ident, $otherwise:literal) => {
        impl TryFrom<String> for $type {
            type Error = &'static str;

            fn try_from(text: String) -> Result<$type, &'static str> {
                $type::parse(&text).ok_or($otherwise)
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }
    };
}

/// A position of the feed: the end of a transaction in the server's log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Position(pub u64);

impl Position {
    /// Reads PostgreSQL's form of a position.
    pub fn parse(text: &str) -> Option<Position> {
        FeedPosition::parse(text).ok().map(|position| Position(position.0))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        FeedPosition(self.0).fmt(f)
    }
}

as_text!(Position, "it is no position of a change feed");

/// A moment of the server's clock, in microseconds since 2000-01-01, as PostgreSQL has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Moment(pub i64);

impl Moment {
    /// A time of this machine's clock; `None` before 1970.
    pub fn of(time: SystemTime) -> Option<Moment> {
        const IN_2000: Duration = Duration::from_secs(946_684_800);
        let micros = |time: Duration| i64::try_from(time.as_micros()).ok();
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Moment(micros(since)?.checked_sub(micros(IN_2000)?)?))
    }

    /// Reads a time as RFC 3339 has it. What it has beyond microseconds is cut off, which changes no comparison with the moment of a
    /// commit.
    pub fn parse(text: &str) -> Option<Moment> {
        let mut text = text.to_ascii_uppercase();
        if text.as_bytes().get(10) == Some(&b' ') {
            text.replace_range(10..11, "T");
        }
        // The zone and the seconds are not optional.
        let has_zone = text.ends_with('Z') || text.as_bytes().iter().rev().nth(5).is_some_and(|c| b"+-".contains(c));
        let has_seconds = text.as_bytes().get(16) == Some(&b':') && text.as_bytes().get(10) == Some(&b'T');
        let ticks = Ticks::parse(&text).filter(|_| has_zone && has_seconds)?;
        Some(Moment(ticks.to_postgres_micros()))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Ticks::from_postgres_micros(self.0) {
            Some(ticks) => ticks.fmt(f),
            None => f.write_str("a time that no calendar has"),
        }
    }
}

as_text!(Moment, "it is no time");

/// A time in which the feed lost nothing: between its beginning and what was read last, all changes are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    pub number: u32,
    /// Which database of which server it is of; empty if the server does not tell.
    pub server: String,
    /// All bases with which it began are as of this position or an earlier one.
    pub from: Position,
    pub begins: Moment,
    /// Everything up to here is in the archive.
    pub through: Position,
    /// What the server's clock showed before the last read that found everything.
    pub reached: Moment,
    /// Why the epoch before it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Why a table is not followed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyEnded {
    Dropped,
    /// It has another name, or is in another schema.
    Renamed,
    /// The archive's selection is another one now.
    Deselected,
}

/// A position and the moment that belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Until {
    pub epoch: u32,
    pub position: Position,
    pub moment: Moment,
}

impl Until {
    pub fn new(epoch: u32, position: Position, moment: Moment) -> Until {
        Until {
            epoch,
            position,
            moment,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub why: WhyEnded,
    pub at: Until,
}

/// Changes of a table that nobody can know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    pub from: Until,
    /// The base that ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    pub reason: String,
}

/// A table, from the first base to the probe that did not find it any more. A table that is dropped and created again is another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    pub id: u32,
    pub name: String,
    pub oid: u32,
    pub since: Until,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
}

impl Table {
    /// Returns whether a change of this table's name at a position is one of this table.
    pub fn has_change(&self, epoch: u32, position: Position) -> bool {
        let is_before_end = self
            .ended
            .is_none_or(|ended| (epoch, position) <= (ended.at.epoch, ended.at.position));
        (epoch, position) > (self.since.epoch, self.since.position) && is_before_end
    }

    /// Returns whether it is the table of the server with this name and number.
    pub fn is(&self, name: &str, oid: u32) -> bool {
        self.oid == oid && self.name.eq_ignore_ascii_case(name)
    }

    /// Returns whether changes are missing and no base was made since then.
    pub fn has_open_gap(&self) -> bool {
        self.gaps.last().is_some_and(|gap| gap.until.is_none())
    }
}

/// A file of the archive, as far as it counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    pub bytes: u64,
    /// The bytes that it has when it is not compressed.
    pub raw: u64,
    /// One document each.
    pub lines: u64,
    pub sha256: String,
}

/// Changes in the order of commits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    pub number: u64,
    pub epoch: u32,
    pub first: Position,
    pub last: Position,
    /// The first and the last moment of its commits. The clock may have been set back between them.
    pub earliest: Moment,
    pub latest: Moment,
    #[serde(flatten)]
    pub contents: Contents,
}

/// All entities of a table at a position, in the order of keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    pub number: u64,
    pub table: u32,
    pub epoch: u32,
    pub position: Position,
    /// The first moment that can be restored from it.
    pub moment: Moment,
    /// The table has no change between its position and this one.
    pub through: Position,
    #[serde(flatten)]
    pub contents: Contents,
}

/// A document of the manifest's file.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line<'a> {
    Archive(Cow<'a, Manifest>),
    Epoch(Cow<'a, Epoch>),
    Table(Cow<'a, Table>),
    Segment(Cow<'a, Segment>),
    Base(Cow<'a, Base>),
    /// The last one.
    End {
        documents: usize,
    },
}

/// What an archive has. The first document of its file has what is not a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    format: u32,
    /// What no other archive has.
    pub archive: String,
    pub feed: String,
    /// The number of the next file.
    pub next: u64,
    pub next_table: u32,
    /// The names that are followed; `*` stands for any characters. Without one, all tables are.
    pub selected: Vec<String>,
    /// The first moment that can be restored.
    pub floor: Until,
    #[serde(skip)]
    pub epochs: Vec<Epoch>,
    #[serde(skip)]
    pub tables: Vec<Table>,
    /// In the order of commits.
    #[serde(skip)]
    pub segments: Vec<Segment>,
    #[serde(skip)]
    pub bases: Vec<Base>,
}

impl Manifest {
    /// An archive with nothing in it. Its feed has a name that no other archive's has.
    pub fn new(archive: String, feed: Option<&str>) -> Manifest {
        let letters = archive.chars().filter(char::is_ascii_alphanumeric).take(12);
        let feed = feed.map_or_else(|| format!("archive_{}", letters.collect::<String>()), str::to_owned);
        Manifest {
            format: FORMAT,
            archive,
            feed,
            next: 1,
            next_table: 1,
            selected: Vec::new(),
            floor: Until::new(1, Position(0), Moment(0)),
            epochs: Vec::new(),
            tables: Vec::new(),
            segments: Vec::new(),
            bases: Vec::new(),
        }
    }

    /// The last epoch, which is the one that is written to.
    pub fn epoch(&self) -> Option<&Epoch> {
        self.epochs.last()
    }

    /// The epochs from which something can be restored: all changes that were made while their bases were read are known.
    pub fn whole_epochs(&self) -> impl DoubleEndedIterator<Item = &Epoch> {
        self.epochs.iter().filter(|epoch| epoch.through >= epoch.from)
    }

    /// The numbers of all files.
    pub fn numbers(&self) -> HashSet<u64> {
        let segments = self.segments.iter().map(|segment| segment.number);
        segments.chain(self.bases.iter().map(|base| base.number)).collect()
    }

    /// Notes how far a segment goes now. Returns whether that is news.
    pub fn set_segment(&mut self, segment: &Segment) -> bool {
        match self.segments.last_mut().filter(|last| last.number == segment.number) {
            Some(last) if last == segment => false,
            Some(last) => {
                last.clone_from(segment);
                true
            }
            None => {
                self.segments.push(segment.clone());
                true
            }
        }
    }

    /// The tables that are followed.
    pub fn living(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter().filter(|table| table.ended.is_none())
    }

    pub fn has_living(&self, name: &str) -> bool {
        self.living().any(|table| table.name.eq_ignore_ascii_case(name))
    }

    pub fn living_mut(&mut self) -> impl Iterator<Item = &mut Table> {
        self.tables.iter_mut().filter(|table| table.ended.is_none())
    }

    pub fn table(&self, id: u32) -> Option<&Table> {
        self.tables.iter().find(|table| table.id == id)
    }

    /// The segments of an epoch, in the order of commits.
    pub fn segments_of(&self, epoch: u32) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.iter().filter(move |segment| segment.epoch == epoch)
    }

    /// The last moment that can be restored in an epoch.
    pub fn end_of(&self, epoch: &Epoch) -> Moment {
        let latest = self.segments_of(epoch.number).map(|segment| segment.latest).max();
        latest.map_or(epoch.reached, |latest| latest.max(epoch.reached))
    }

    /// The last moment that can be restored.
    pub fn last(&self) -> Moment {
        let last = self.whole_epochs().next_back();
        last.map_or(self.floor.moment, |epoch| self.end_of(epoch))
    }

    /// Takes the number of a new file.
    pub fn take_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// The bytes of all files.
    pub fn bytes(&self) -> u64 {
        let segments = self.segments.iter().map(|segment| segment.contents.bytes);
        segments.chain(self.bases.iter().map(|base| base.contents.bytes)).sum()
    }

    /// The documents of the manifest's file, one a line.
    pub fn to_lines(&self) -> Vec<u8> {
        let lines = std::iter::once(Line::Archive(Cow::Borrowed(self)))
            .chain(self.epochs.iter().map(Cow::Borrowed).map(Line::Epoch))
            .chain(self.tables.iter().map(Cow::Borrowed).map(Line::Table))
            .chain(self.segments.iter().map(Cow::Borrowed).map(Line::Segment))
            .chain(self.bases.iter().map(Cow::Borrowed).map(Line::Base));
        let (mut out, mut documents) = (Vec::new(), 0);
        let mut push = |line: &Line| {
            // Nothing in it has a form that JSON lacks.
            out.extend_from_slice(&serde_json::to_vec(line).unwrap_or_default());
            out.push(b'\n');
        };
        for line in lines {
            documents += 1;
            push(&line);
        }
        push(&Line::End { documents });
        out
    }

    /// Reads the documents of a manifest's file.
    pub fn from_lines(text: &[u8]) -> Result<Manifest, String> {
        let mut lines = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let read = |line: &[u8]| serde_json::from_slice::<Line<'_>>(line).map_err(|error| error.to_string());
        let first = lines.next().ok_or("it is empty")?;
        let Line::Archive(manifest) = read(first)? else {
            return Err("it does not begin as a manifest".to_owned());
        };
        let mut manifest = manifest.into_owned();
        if manifest.format != FORMAT {
            return Err(format!(
                "it has the format {}, and this program knows {FORMAT}",
                manifest.format
            ));
        }
        let (mut documents, mut ended) = (1, false);
        for line in lines {
            if ended {
                return Err("it goes on behind its end".to_owned());
            }
            match read(line)? {
                Line::Archive(_) => return Err("it begins twice".to_owned()),
                Line::Epoch(epoch) => manifest.epochs.push(epoch.into_owned()),
                Line::Table(table) => manifest.tables.push(table.into_owned()),
                Line::Segment(segment) => manifest.segments.push(segment.into_owned()),
                Line::Base(base) => manifest.bases.push(base.into_owned()),
                Line::End { documents: told } => {
                    ended = true;
                    if told != documents {
                        return Err("it has not as many documents as it says".to_owned());
                    }
                }
            }
            documents += 1;
        }
        if !ended {
            return Err("it is cut off".to_owned());
        }
        manifest.check()?;
        Ok(manifest)
    }

    /// Checks what the rest of the program relies on: a stranger may have written it.
    fn check(&self) -> Result<(), String> {
        if self.tables.len() > MOST_TABLES || self.segments.len() + self.bases.len() > MOST_FILES {
            return Err("it has too many tables or files".to_owned());
        }
        let gaps: usize = self.tables.iter().map(|table| table.gaps.len()).sum();
        if self.epochs.len() > MOST_GAPS || gaps > MOST_GAPS {
            return Err("it has too many gaps".to_owned());
        }
        if FeedName::parse(&self.feed).is_err() {
            return Err("its feed has a name that no feed has".to_owned());
        }
        let numbers: Vec<u32> = self.epochs.iter().map(|epoch| epoch.number).collect();
        if numbers.is_empty() || !numbers.is_sorted_by(|a, b| a < b) {
            return Err("its epochs are not in order".to_owned());
        }
        let known = |epoch: u32| numbers.binary_search(&epoch).is_ok();
        let mut ids = HashSet::new();
        for table in &self.tables {
            if table_name::check_form(&table.name).is_err() || !ids.insert(table.id) || table.id >= self.next_table {
                return Err(format!("{:?} is no name of a table, or comes twice", table.name));
            }
        }
        let mut numbers = HashSet::new();
        let mut before: HashMap<u32, Position> = HashMap::new();
        let is_digest = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        for segment in &self.segments {
            let is_in_order = before
                .insert(segment.epoch, segment.last)
                .is_none_or(|before| before < segment.first);
            if !is_in_order || segment.first > segment.last || !known(segment.epoch) {
                return Err(format!("the segment {} is not in the order of commits", segment.number));
            }
        }
        if !self.segments.is_sorted_by_key(|segment| segment.epoch) {
            return Err("its segments are not in the order of commits".to_owned());
        }
        for base in &self.bases {
            if !ids.contains(&base.table) || base.position > base.through || !known(base.epoch) {
                return Err(format!("the base {} is of no table", base.number));
            }
        }
        let segments = self.segments.iter().map(|segment| (segment.number, &segment.contents));
        for (number, contents) in segments.chain(self.bases.iter().map(|base| (base.number, &base.contents))) {
            if !numbers.insert(number) || number >= self.next || !is_digest(&contents.sha256) {
                return Err(format!("the file {number} comes twice, or has no digest"));
            }
        }
        Ok(())
    }
}

/// Returns whether names select a table. Case does not matter, `*` stands for any characters, and no name selects all.
pub fn is_selected(names: &[String], table: &str) -> bool {
    let table = table_name::fold(table);
    names.is_empty()
        || names
            .iter()
            .any(|name| matches(table_name::fold(name).as_bytes(), table.as_bytes()))
}

/// Returns whether a text can select tables by their names.
pub fn is_selection(name: &str) -> bool {
    let letters = name.replace('*', "");
    let is_plain = letters.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_plain && name.len() <= 255 && (name.contains('*') || table_name::check_form(name).is_ok())
}

fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(byte) if text.get(from) == Some(byte) => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((pattern_at, text_at)) = star else {
                    return false;
                };
                star = Some((pattern_at, text_at + 1));
                at = pattern_at + 1;
                from = text_at + 1;
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn until(position: u64, moment: i64) -> Until {
        Until {
            epoch: 1,
            position: Position(position),
            moment: Moment(moment),
        }
    }

    pub fn contents() -> Contents {
        Contents {
            bytes: 10,
            raw: 20,
            lines: 1,
            sha256: "0".repeat(64),
        }
    }

    pub fn segment(number: u64, first: u64, last: u64, moments: (i64, i64)) -> Segment {
        Segment {
            number,
            epoch: 1,
            first: Position(first),
            last: Position(last),
            earliest: Moment(moments.0),
            latest: Moment(moments.1),
            contents: contents(),
        }
    }

    pub fn base(number: u64, table: u32, position: u64, moment: i64) -> Base {
        Base {
            number,
            table,
            epoch: 1,
            position: Position(position),
            moment: Moment(moment),
            through: Position(position),
            contents: contents(),
        }
    }

    /// One table with a base at 100 (moment 1000), and segments up to 400 (moment 4000).
    pub fn manifest() -> Manifest {
        Manifest {
            format: FORMAT,
            archive: "a".to_owned(),
            feed: "f".to_owned(),
            next: 50,
            next_table: 10,
            selected: vec![],
            floor: until(100, 1000),
            epochs: vec![Epoch {
                number: 1,
                server: String::new(),
                from: Position(100),
                begins: Moment(1000),
                through: Position(400),
                reached: Moment(4500),
                reason: None,
            }],
            tables: vec![Table {
                id: 1,
                name: "Orders".to_owned(),
                oid: 7,
                since: until(100, 1000),
                ended: None,
                gaps: vec![],
            }],
            segments: vec![
                segment(2, 110, 200, (1100, 2000)),
                segment(3, 210, 300, (2100, 3000)),
                segment(4, 310, 400, (3100, 4000)),
            ],
            bases: vec![base(1, 1, 100, 1000)],
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let manifest = manifest();
        let lines = manifest.to_lines();
        assert_eq!(Manifest::from_lines(&lines).unwrap(), manifest);
        for end in 0..lines.len() - 1 {
            assert!(Manifest::from_lines(lines.get(..end).unwrap()).is_err(), "{end}");
        }
    }

    #[test]
    fn a_strangers_manifest_is_checked() {
        let refused = |change: &dyn Fn(&mut Manifest)| {
            let mut manifest = manifest();
            change(&mut manifest);
            Manifest::from_lines(&manifest.to_lines()).unwrap_err()
        };
        refused(&|manifest| manifest.tables[0].name = "../../etc".to_owned());
        refused(&|manifest| manifest.tables.push(manifest.tables[0].clone()));
        refused(&|manifest| manifest.segments.swap(0, 1));
        refused(&|manifest| manifest.segments[1].number = 2);
        refused(&|manifest| manifest.segments[1].number = 1000);
        refused(&|manifest| manifest.bases[0].table = 9);
        refused(&|manifest| manifest.bases[0].contents.sha256 = "x".to_owned());
        refused(&|manifest| manifest.epochs.clear());
        refused(&|manifest| manifest.feed = "a b".to_owned());
    }

    #[test]
    fn moments_are_of_rfc_3339() {
        let moment = |text: &str| Moment::parse(text).map(|moment| moment.to_string());
        let same = Some("2026-11-27T14:03:00.5Z".to_owned());
        for text in [
            "2026-11-27T14:03:00.5Z",
            "2026-11-27t14:03:00.500000000000z",
            "2026-11-27 15:03:00.50+01:00",
        ] {
            assert_eq!(moment(text), same, "{text}");
        }
        assert_eq!(
            moment("2026-11-27T14:03:00.1234569Z").unwrap(),
            "2026-11-27T14:03:00.123456Z"
        );
        for text in [
            "",
            "now",
            "2026-11-27",
            "2026-11-27T14:03:00",
            "2026-11-27T14:03Z",
            "2026-13-01T00:00:00Z",
            "é",
        ] {
            assert_eq!(moment(text), None, "{text}");
        }
    }

    #[test]
    fn names_select_tables() {
        let is = |names: &[&str], table: &str| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            is_selected(&names, table)
        };
        assert!(is(&[], "Orders") && is(&["orders"], "Orders") && is(&["x", "Ord*"], "Orders"));
        assert!(is(&["*d*s"], "Orders") && is(&["*"], "A") && is(&["Orders*"], "Orders"));
        assert!(!is(&["Order"], "Orders") && !is(&["Ord*x"], "Orders"));
        assert!(is_selection("Orders") && is_selection("Ord*") && !is_selection("a/b") && !is_selection("*/"));
    }
}
