//! The contents of an archive: its manifest.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use table_service_model::change_feed::FeedName;
use table_service_model::{Lsn, Ticks, table_name};

use table_service_files::{Input, MOST_TABLES, lines};

use crate::definition::Definition;

/// The version of the format. In 0.4.0 it was 1: a change had the name of its table alone.
const FORMAT: u32 = 2;
/// How many files an archive may have.
const MOST_FILES: usize = 1_000_000;
/// How many epochs an archive may have, and how many gaps and names its tables.
const MOST_GAPS: usize = 100_000;
/// How many names and patterns select tables.
const MOST_SELECTED: usize = 10_000;
/// How long a line of a manifest may be.
const LONGEST_LINE: usize = 2 << 20;
/// How long all lines but those of files may be together.
const LONGEST_TEXT: usize = 64 << 20;
/// How long a manifest may be when it is not compressed.
const LONGEST_MANIFEST: usize = 256 << 20;

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

    /// Reads a time as RFC 3339 has it. Digits beyond microseconds are cut off, which changes no comparison with the
    /// moment of a commit.
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

impl TryFrom<String> for Moment {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Moment, &'static str> {
        Moment::parse(&text).ok_or("it is no time")
    }
}

impl From<Moment> for String {
    fn from(moment: Moment) -> String {
        moment.to_string()
    }
}

/// The transaction that the feed has given last. A reader that gets it again reads the log that was read before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub position: Lsn,
    /// Of its rows in the feed.
    pub digest: String,
    /// Up to here the feed may be confirmed: the transaction comes again.
    pub confirmed: Lsn,
}

/// A time in which the feed lost nothing: up to the last transaction that was read, all changes are known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    pub number: u32,
    /// The identity of its database and server; empty if the server does not tell.
    pub server: String,
    /// Where it begins in the log.
    pub from: Lsn,
    /// The first moment at which all tables can be restored.
    pub begins: Moment,
    /// Everything up to here is known: it is the end of a transaction that was seen. Changes behind it do not count yet.
    pub through: Lsn,
    /// The server's clock before the last read that found everything.
    pub reached: Moment,
    /// `None` in an archive of 0.4.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
    /// Why the epoch before it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Epoch {
    /// Why the epoch before it ended.
    pub fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or("the feed was lost")
    }
}

/// Why a table is not followed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyEnded {
    /// Or moved to another schema.
    Dropped,
    /// It got a name that the archive does not select.
    Renamed,
    /// The archive's selection is another one now.
    Deselected,
}

/// A position and the moment that belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Until {
    pub epoch: u32,
    pub position: Lsn,
    pub moment: Moment,
}

impl Until {
    /// A point of the log of an epoch, and when it was.
    pub fn new(epoch: u32, position: Lsn, moment: Moment) -> Until {
        Until {
            epoch,
            position,
            moment,
        }
    }

    /// Where it is in the order of all that an archive has read.
    pub fn place(self) -> (u32, Lsn) {
        (self.epoch, self.position)
    }

    /// Returns whether it is the beginning of an epoch, and so of none of its transactions.
    pub fn begins_epoch(self) -> bool {
        self.position == Lsn(0)
    }
}

/// The end of a table.
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

/// A definition, from when it was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defined {
    pub from: Until,
    #[serde(flatten)]
    pub definition: Definition,
}

/// A name of a table, from a position on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    pub name: String,
    pub from: Until,
}

/// A relation, as long as it is a table of the service. Restores call it by its names; its changes are found by its OID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    pub id: u32,
    pub oid: u32,
    /// One after the other.
    #[serde(default)]
    pub names: Vec<Name>,
    /// The name in an archive of 0.4.0, in place of `names`.
    #[serde(default, skip_serializing)]
    name: String,
    /// From here on it may have been there.
    pub since: Until,
    /// It was created then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub created: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    /// Its definitions, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<Defined>,
}

impl Table {
    /// A table with one name.
    pub fn new(id: u32, oid: u32, name: &str, since: Until) -> Table {
        let name = Name {
            name: name.to_owned(),
            from: since,
        };
        Table {
            id,
            oid,
            names: vec![name],
            name: String::new(),
            since,
            created: false,
            ended: None,
            gaps: Vec::new(),
            definitions: Vec::new(),
        }
    }

    /// Takes the only name that an archive of 0.4.0 has.
    fn of_now(mut self) -> Table {
        let name = std::mem::take(&mut self.name);
        if self.names.is_empty() {
            self.names = vec![Name { name, from: self.since }];
        }
        self
    }

    /// The last name.
    pub fn name(&self) -> &str {
        self.names.last().map_or("", |last| &last.name)
    }

    /// Returns whether it ever had a name.
    pub fn was(&self, name: &str) -> bool {
        self.names.iter().any(|known| known.name.eq_ignore_ascii_case(name))
    }

    /// Returns whether a change of this relation at a position is one of this table.
    pub fn has_change(&self, epoch: u32, position: Lsn) -> bool {
        let place = (epoch, position);
        place > self.since.place() && self.ended.is_none_or(|ended| place <= ended.at.place())
    }

    /// Returns whether changes are missing and no base was made since then.
    pub fn has_open_gap(&self) -> bool {
        self.gaps.last().is_some_and(|gap| gap.until.is_none())
    }
}

/// The kind of a file in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Segment,
    Base,
}

impl Kind {
    /// The name of a file.
    pub fn file_name(self, number: u64) -> String {
        let kind = match self {
            Kind::Segment => "segment",
            Kind::Base => "base",
        };
        format!("v1-{kind}-{number:012}.jsonl.zst")
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
    pub first: Lsn,
    pub last: Lsn,
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
    pub position: Lsn,
    /// The first moment that can be restored from it.
    pub moment: Moment,
    /// The table has no change between its position and this one.
    pub through: Lsn,
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

/// The contents of an archive. The first document of its file has all that is not a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    format: u32,
    /// A number that no other archive has.
    pub archive: String,
    pub feed: String,
    /// The number of the next file.
    pub next: u64,
    pub next_table: u32,
    /// The names that are followed; `*` matches any characters. Without one, all tables are.
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
            floor: Until::new(1, Lsn(0), Moment(0)),
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

    /// The epochs that are known, at least in part.
    pub fn whole_epochs(&self) -> impl DoubleEndedIterator<Item = &Epoch> {
        self.epochs.iter().filter(|epoch| epoch.through >= epoch.from)
    }

    /// All files, by their numbers.
    pub fn files(&self) -> impl Iterator<Item = (u64, Kind, &Contents)> {
        let segments = self.segments.iter();
        let segments = segments.map(|segment| (segment.number, Kind::Segment, &segment.contents));
        let bases = self.bases.iter();
        segments.chain(bases.map(|base| (base.number, Kind::Base, &base.contents)))
    }

    /// The numbers of all files.
    pub fn numbers(&self) -> HashSet<u64> {
        self.files().map(|(number, _, _)| number).collect()
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

    /// The same, to be changed.
    pub fn living_mut(&mut self) -> impl Iterator<Item = &mut Table> {
        self.tables.iter_mut().filter(|table| table.ended.is_none())
    }

    /// The table of a number.
    pub fn table(&self, id: u32) -> Option<&Table> {
        self.tables.iter().find(|table| table.id == id)
    }

    /// The segments of an epoch, in the order of commits.
    pub fn segments_of(&self, epoch: u32) -> impl DoubleEndedIterator<Item = &Segment> {
        self.segments.iter().filter(move |segment| segment.epoch == epoch)
    }

    /// The last moment that can be restored in an epoch.
    pub fn end_of(&self, epoch: &Epoch) -> Moment {
        let whole = self
            .segments_of(epoch.number)
            .filter(|segment| segment.last <= epoch.through);
        let latest = whole.map(|segment| segment.latest).max();
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
        self.files().map(|(_, _, contents)| contents.bytes).sum()
    }

    /// The documents of the manifest's file, one a line.
    ///
    /// # Errors
    /// A manifest that no reader would accept.
    pub fn to_lines(&self) -> Result<Vec<u8>, String> {
        self.check()?;
        let lines = std::iter::once(Line::Archive(Cow::Borrowed(self)))
            .chain(self.epochs.iter().map(Cow::Borrowed).map(Line::Epoch))
            .chain(self.tables.iter().map(Cow::Borrowed).map(Line::Table))
            .chain(self.segments.iter().map(Cow::Borrowed).map(Line::Segment))
            .chain(self.bases.iter().map(Cow::Borrowed).map(Line::Base));
        let documents = 1 + self.epochs.len() + self.tables.len() + self.segments.len() + self.bases.len();
        let (mut out, mut room) = (Vec::new(), Room::default());
        for line in lines.chain([Line::End { documents }]) {
            let begin = out.len();
            serde_json::to_writer(&mut out, &line).map_err(|error| error.to_string())?;
            room.take(&line, out.len() - begin)?;
            out.push(b'\n');
        }
        Ok(out)
    }

    /// Reads the documents of a manifest's file.
    pub fn read(text: impl std::io::Read) -> Result<Manifest, String> {
        let mut input = Input::new(text.take(LONGEST_MANIFEST as u64 + 1)).map_err(|error| error.to_string())?;
        let (mut line, mut room, mut documents, mut ended) = (Vec::new(), Room::default(), 0, false);
        let mut manifest: Option<Manifest> = None;
        while lines::next(&mut input, &mut line)
            .map_err(|error| error.to_string())?
            .is_some()
        {
            if ended {
                return Err("it goes on behind its end".to_owned());
            }
            if line.len() > LONGEST_LINE {
                return Err(TOO_MUCH.to_owned());
            }
            let read: Line<'_> = serde_json::from_slice(&line).map_err(|error| error.to_string())?;
            room.take(&read, line.len())?;
            match (read, &mut manifest) {
                (Line::Archive(archive), none @ None) if (1..=FORMAT).contains(&archive.format) => {
                    *none = Some(archive.into_owned());
                }
                (Line::Archive(archive), None) => {
                    return Err(format!(
                        "it has the format {}, and this program knows {FORMAT}",
                        archive.format
                    ));
                }
                (Line::Archive(_), Some(_)) => return Err("it begins twice".to_owned()),
                (_, None) => return Err("it does not begin as a manifest".to_owned()),
                (Line::Epoch(epoch), Some(manifest)) => manifest.epochs.push(epoch.into_owned()),
                (Line::Table(table), Some(manifest)) => manifest.tables.push(table.into_owned().of_now()),
                (Line::Segment(segment), Some(manifest)) => manifest.segments.push(segment.into_owned()),
                (Line::Base(base), Some(manifest)) => manifest.bases.push(base.into_owned()),
                (Line::End { documents: told }, Some(_)) => {
                    ended = true;
                    if told != documents {
                        return Err("it has not as many documents as it says".to_owned());
                    }
                }
            }
            documents += 1;
        }
        match manifest.filter(|_| ended) {
            Some(manifest) => manifest.check().map(|()| Manifest {
                format: FORMAT,
                ..manifest
            }),
            None => Err("it is cut off".to_owned()),
        }
    }

    /// Checks everything that the rest of the program relies on: a stranger may have written it.
    fn check(&self) -> Result<(), String> {
        if FeedName::parse(&self.feed).is_err() {
            return Err("its feed has a name that no feed has".to_owned());
        }
        if self.selected.len() > MOST_SELECTED || !self.selected.iter().all(|name| is_selection(name)) {
            return Err("it selects tables by names that none has, or by too many".to_owned());
        }
        let numbers: Vec<u32> = self.epochs.iter().map(|epoch| epoch.number).collect();
        if !numbers.is_sorted_by(|a, b| a < b) {
            return Err("its epochs are not in order".to_owned());
        }
        let known = |epoch: u32| numbers.binary_search(&epoch).is_ok();
        let mut ids = HashSet::new();
        for table in &self.tables {
            let is_named = |name: &Name| table_name::check_form(&name.name).is_ok();
            let is_right = !table.names.is_empty() && table.names.iter().all(is_named);
            if !table.definitions.iter().all(|defined| defined.definition.is_small()) {
                return Err(format!("{:?} has too many indexes", table.name()));
            }
            if !is_right || !ids.insert(table.id) || table.id >= self.next_table {
                return Err(format!("{:?} is no name of a table, or comes twice", table.name()));
            }
        }
        let mut numbers = HashSet::new();
        let mut before: HashMap<u32, Lsn> = HashMap::new();
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
        for (number, _, contents) in self.files() {
            if !numbers.insert(number) || number >= self.next || !is_digest(&contents.sha256) {
                return Err(format!("the file {number} comes twice, or has no digest"));
            }
        }
        Ok(())
    }
}

/// The message about a manifest that is larger than any real one.
const TOO_MUCH: &str = "it has too many tables, files or gaps, or what is longer than anything that an archive has";

/// How much of everything there is so far, so that a small file does not take much memory.
#[derive(Default)]
struct Room {
    files: usize,
    tables: usize,
    /// Gaps, names, definitions and epochs.
    others: usize,
    /// The bytes of all lines but those of files.
    text: usize,
    all: usize,
}

impl Room {
    fn take(&mut self, line: &Line<'_>, bytes: usize) -> Result<(), String> {
        let digest = match line {
            Line::Segment(segment) => &segment.contents.sha256,
            Line::Base(base) => &base.contents.sha256,
            _ => "",
        };
        match line {
            Line::Segment(_) | Line::Base(_) => self.files += 1,
            Line::Table(table) => {
                self.tables += 1;
                let more = [table.names.len(), table.definitions.len()].map(|count| count.saturating_sub(1));
                self.others += table.gaps.len() + more.iter().sum::<usize>();
            }
            _ => self.others += 1,
        }
        self.all += bytes + 1;
        self.text += if digest.is_empty() { bytes } else { 0 };
        let is_little = self.files <= MOST_FILES && self.tables <= MOST_TABLES && self.others <= MOST_GAPS;
        let is_short = bytes <= LONGEST_LINE && self.text <= LONGEST_TEXT && self.all <= LONGEST_MANIFEST;
        let is_right = is_little && is_short && digest.len() <= 64;
        is_right.then_some(()).ok_or_else(|| TOO_MUCH.to_owned())
    }
}

/// Returns whether names select a table. Case does not matter, `*` matches any characters, and no name selects all, but
/// never a relation whose name no table of the service can have.
pub fn is_selected(names: &[String], table: &str) -> bool {
    let folded = table_name::fold(table);
    let matches = |name: &String| matches(&table_name::fold(name), &folded);
    table_name::check_form(table).is_ok() && (names.is_empty() || names.iter().any(matches))
}

/// Returns whether a text can select tables by their names.
pub fn is_selection(name: &str) -> bool {
    let letters = name.replace('*', "");
    let is_plain = letters.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_plain && name.len() <= 255 && (name.contains('*') || table_name::check_form(name).is_ok())
}

fn matches(pattern: &str, text: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let between = text.strip_prefix(begin).and_then(|text| text.strip_suffix(end));
    // Each part is taken where it comes first, which leaves the most for those behind it.
    let mut parts = middle.split('*');
    between
        .and_then(|text| parts.try_fold(text, |text, part| Some(text.split_once(part)?.1)))
        .is_some()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn until(position: u64, moment: i64) -> Until {
        Until {
            epoch: 1,
            position: Lsn(position),
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
            first: Lsn(first),
            last: Lsn(last),
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
            position: Lsn(position),
            moment: Moment(moment),
            through: Lsn(position),
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
                from: Lsn(100),
                begins: Moment(1000),
                through: Lsn(400),
                reached: Moment(4500),
                seen: None,
                reason: None,
            }],
            tables: vec![Table::new(1, 7, "Orders", until(100, 1000))],
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
        let lines = manifest.to_lines().unwrap();
        assert_eq!(Manifest::read(lines.as_slice()).unwrap(), manifest);
        for end in 0..lines.len() - 1 {
            assert!(Manifest::read(lines.get(..end).unwrap()).is_err(), "{end}");
        }
        // The manifest of 0.4.0.
        let text = String::from_utf8(lines).unwrap();
        let names =
            r#""names":[{"name":"Orders","from":{"epoch":1,"position":"0/64","moment":"2000-01-01T00:00:00.001Z"}}]"#;
        assert!(text.contains(names), "{text}");
        let earlier = text
            .replace(names, r#""name":"Orders""#)
            .replace(r#""format":2"#, r#""format":1"#);
        assert_eq!(Manifest::read(earlier.as_bytes()).unwrap(), manifest);
    }

    #[test]
    fn a_strangers_manifest_is_checked() {
        // The writer keeps every limit of the reader.
        let refused = |change: &dyn Fn(&mut Manifest)| {
            let mut manifest = manifest();
            change(&mut manifest);
            manifest.to_lines().unwrap_err()
        };
        refused(&|manifest| manifest.tables[0].names[0].name = "../../etc".to_owned());
        refused(&|manifest| manifest.tables.push(manifest.tables[0].clone()));
        refused(&|manifest| manifest.segments.swap(0, 1));
        refused(&|manifest| manifest.segments[1].number = 2);
        refused(&|manifest| manifest.segments[1].number = 1000);
        refused(&|manifest| manifest.bases[0].table = 9);
        refused(&|manifest| manifest.bases[0].contents.sha256 = "x".to_owned());
        refused(&|manifest| manifest.epochs.clear());
        refused(&|manifest| manifest.feed = "a b".to_owned());
        refused(&|manifest| manifest.selected = vec!["../*".to_owned()]);
        refused(&|manifest| manifest.selected = vec!["A".to_owned(); MOST_SELECTED + 1]);
        refused(&|manifest| manifest.tables[0].names.clear());
        refused(&|manifest| manifest.epochs[0].server = "x".repeat(LONGEST_LINE));
        let many = |manifest: &mut Manifest, number: u32| {
            let table = manifest.tables[0].clone();
            manifest.tables = (0..number).map(|id| Table { id, ..table.clone() }).collect();
            manifest.next_table = number;
        };
        let most = u32::try_from(MOST_TABLES).unwrap();
        assert!(refused(&|manifest| many(manifest, most + 1)).contains("too many"));
        let mut manifest = manifest();
        many(&mut manifest, most);
        assert_eq!(
            Manifest::read(manifest.to_lines().unwrap().as_slice()).unwrap(),
            manifest
        );
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
        assert!(is(&["*d*s"], "Orders") && is(&["*"], "Abc") && is(&["Orders*"], "Orders"));
        assert!(is(&["ab*b*ab"], "abcbdab") && is(&["a**e*rs"], "Abers") && is(&["*a*a*"], "Xaba"));
        assert!(!is(&["aba*ba"], "Abaa") && !is(&["ab*b*b"], "Abcb") && !is(&["*a*a*a*"], "Xaba"));
        assert!(!is(&[], "a_b") && !is(&["*"], "Orders_old") && !is(&["*"], "Ab"));
        assert!(!is(&["Order"], "Orders") && !is(&["Ord*x"], "Orders"));
        assert!(is_selection("Orders") && is_selection("Ord*") && !is_selection("a/b") && !is_selection("*/"));
    }
}
