//! From the messages of a slot to changes of entities.

use std::collections::{HashMap, HashSet};
use std::str;

use super::{NOTE_PREFIX, Notary, Note};
use crate::pgoutput::{Column, Datum, Malformed, Message, Oid, Old, Relation, Tuple};
use crate::{Lsn, PropertiesBuf, PropertiesBuilder, Value};

/// The OIDs of PostgreSQL's types of keys and Timestamps.
const TEXT: Oid = 25;
const TIMESTAMPTZ: Oid = 1184;

/// The kind of change of an entity, of all entities of a table, or of a table's definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind<'m> {
    Insert,
    Update,
    Delete,
    /// The table was truncated.
    Clear,
    /// Changes of the table in this transaction cannot be read. It comes once, in the place of the first of them.
    Gap(Gap),
    /// The relation has become a table of the service.
    Create,
    /// The table had another name, this one.
    Rename(&'m str),
    /// The relation is no table of the service any more.
    Drop,
    /// A text that a reader of the feed has written.
    Mark(&'m str),
}

impl Kind<'_> {
    /// Returns the name that SQL users see.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Insert => "insert",
            Kind::Update => "update",
            Kind::Delete => "delete",
            Kind::Clear => "clear",
            Kind::Gap(_) => "gap",
            Kind::Create => "create",
            Kind::Rename(_) => "rename",
            Kind::Drop => "drop",
            Kind::Mark(_) => "mark",
        }
    }

    /// Returns the gap's reason, the earlier name or the mark, in a bag that has the place of an entity's properties.
    pub fn properties(self) -> Option<PropertiesBuf> {
        let (name, value) = match self {
            Kind::Gap(gap) => ("Reason", gap.reason()),
            Kind::Rename(before) => ("Before", before),
            Kind::Mark(text) => ("Mark", text),
            _ => return None,
        };
        let mut builder = PropertiesBuilder::new();
        // No name is there twice, and no limit is near.
        let _ = builder.push(name.into(), Value::String(value));
        Some(builder.finish().unwrap_or_else(|_| PropertiesBuf::empty()))
    }
}

/// Why changes of a table cannot be read. Its owner can do that at any time, so the changes of other tables go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// The messages lack columns of an entity.
    Columns,
    /// Updates and deletes do not name their entities: the replica identity lacks the keys.
    Keys,
    /// The table is not in the schema of the tables of the service.
    Schema,
}

impl Gap {
    /// Returns the reason of the gap, and the way to mend the table.
    fn reason(self) -> &'static str {
        match self {
            Gap::Columns => {
                "The table had other columns than an entity has, or was published without some of them. Give it these columns (ALTER TABLE), publish it whole (ALTER PUBLICATION), then copy it again."
            }
            Gap::Schema => {
                "The table was in another schema, and so no table of the service. If it comes back, copy it again."
            }
            Gap::Keys => {
                "The table, or a part of it, had a replica identity without the keys, so a change does not say of which entity it is. Call ALTER TABLE ... REPLICA IDENTITY DEFAULT, then copy the table again."
            }
        }
    }
}

/// A change of a table of the service, or a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'m> {
    /// `None` for [`Kind::Mark`].
    pub table: Named<'m>,
    pub kind: Kind<'m>,
    /// The keys are those of entities. They are `None` where a table of the user's own shape has NULL.
    pub partition_key: Option<&'m str>,
    pub row_key: Option<&'m str>,
    /// The Timestamp after the change, in microseconds since 2000-01-01.
    pub timestamp: Option<i64>,
    /// The bag after the change, as it is stored. `None` after a delete, and if an update has left it as it was, stored out
    /// of line.
    pub properties: Option<&'m [u8]>,
    /// The bag before the change, if the table's replica identity is FULL.
    pub old_properties: Option<&'m [u8]>,
}

/// Where a transaction begins or ends in the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundary {
    /// In microseconds since 2000-01-01.
    Begin {
        committed: i64,
    },
    End(Lsn),
}

/// Turns messages into changes. It keeps the tables that the messages describe.
pub struct Decoder {
    schema: &'static str,
    properties_type: Oid,
    /// `None` for relations that are no tables of the service: their changes are left out.
    tables: Tables,
    /// The tables that have a gap in this transaction.
    gaps: HashSet<Oid>,
    notes: Option<Notes>,
}

/// The contents of the notes so far.
struct Notes {
    notary: Notary,
    /// The name of the feed of the marks.
    feed: String,
    transaction: u32,
    /// The names of tables of the service, from the notes of this transaction. `None` for any other relation.
    names: HashMap<Oid, Option<String>>,
}

type Tables = HashMap<Oid, Option<Table>>;

/// A table, and the name that it had then.
pub type Named<'m> = Option<(Oid, &'m str)>;

/// A table of the service.
struct Table {
    oid: Oid,
    name: String,
    /// Why none of its changes can be read.
    lack: Option<Gap>,
    /// Whether its replica identity has the keys. Else an update that changes a key looks like one that does not.
    has_keys: bool,
}

impl Decoder {
    /// Makes a decoder for the tables in this schema with bags of this type.
    pub fn new(schema: &'static str, properties_type: Oid) -> Decoder {
        Decoder {
            schema,
            properties_type,
            tables: HashMap::new(),
            gaps: HashSet::new(),
            notes: None,
        }
    }

    /// Also reads notes: definitions of tables, and the marks of this feed.
    #[must_use]
    pub fn with_notes(mut self, notary: Notary, feed: String) -> Decoder {
        self.notes = Some(Notes {
            notary,
            feed,
            transaction: 0,
            names: HashMap::new(),
        });
        self
    }

    /// Reads the next message. Its values must be in binary form, and its texts must be UTF-8. Its changes go to
    /// `sink`: an update that changes a key becomes a delete and an insert. A table with changes that cannot be read
    /// gives one gap for each transaction.
    ///
    /// # Errors
    /// [`Malformed`] for bytes that are no such message.
    pub fn decode(&mut self, message: &[u8], sink: &mut dyn FnMut(Change<'_>)) -> Result<Option<Boundary>, Malformed> {
        match Message::parse(message)? {
            Message::Begin { committed, transaction } => {
                self.gaps.clear();
                if let Some(notes) = &mut self.notes {
                    notes.transaction = transaction;
                    notes.names.clear();
                }
                return Ok(Some(Boundary::Begin { committed }));
            }
            Message::Commit { end } => return Ok(Some(Boundary::End(end))),
            Message::Relation(relation) => {
                let table = self.described(&relation)?;
                self.tables.insert(relation.oid, table);
            }
            Message::Insert { relation, new } => give(&self.tables, &mut self.gaps, relation, sink, |table, sink| {
                sink(row(table.named(), Kind::Insert, &new, None)?);
                Ok(None)
            })?,
            Message::Update { relation, old, new } => {
                give(&self.tables, &mut self.gaps, relation, sink, |table, sink| {
                    if !table.has_keys || old.as_ref().is_some_and(lacks_keys) {
                        return Ok(Some(Gap::Keys));
                    }
                    update(table.named(), old.as_ref(), &new, sink)?;
                    Ok(None)
                })?;
            }
            Message::Delete { relation, old } => give(&self.tables, &mut self.gaps, relation, sink, |table, sink| {
                if lacks_keys(&old) {
                    return Ok(Some(Gap::Keys));
                }
                sink(deletion(table.named(), &old)?);
                Ok(None)
            })?,
            Message::Truncate { relations } => {
                for relation in relations {
                    give(&self.tables, &mut self.gaps, relation, sink, |table, sink| {
                        sink(change(table.named(), Kind::Clear));
                        Ok(None)
                    })?;
                }
            }
            Message::Emitted { prefix, content } if prefix == NOTE_PREFIX.as_bytes() => {
                if let Some(notes) = &mut self.notes {
                    notes.take(content, sink);
                }
            }
            Message::Emitted { .. } | Message::Other => {}
        }
        Ok(None)
    }

    /// Returns the table of the service that a message describes. It is in the service's schema, and its first four
    /// columns have the types of an entity's columns. A table with only some of these types was retyped, or is
    /// published with a list of columns: without a gap, its changes would be lost silently. A reader of notes knows
    /// tables by OID, so a table in another schema gives a gap as well.
    fn described(&self, relation: &Relation<'_>) -> Result<Option<Table>, Malformed> {
        let is_away = relation.schema != self.schema.as_bytes();
        if is_away && self.notes.is_none() {
            return Ok(None);
        }
        let types = [TEXT, TEXT, TIMESTAMPTZ, self.properties_type];
        let columns = relation.columns.iter().map(|column| column.type_oid);
        let is_whole =
            relation.columns.len() >= types.len() && columns.zip(types).all(|(column, expected)| column == expected);
        let is_of_entity = |column: &Column<'_>| {
            column.type_oid == self.properties_type
                || [&b"partition_key"[..], b"row_key", b"properties"].contains(&column.name)
        };
        if !is_whole && (is_away || !relation.columns.iter().any(is_of_entity)) {
            return Ok(None);
        }
        let lack = match is_away {
            true => Some(Gap::Schema),
            false => (!is_whole).then_some(Gap::Columns),
        };
        let is_key = |column: usize| relation.columns.get(column).is_some_and(|column| column.is_key);
        Ok(Some(Table {
            oid: relation.oid,
            name: utf8(relation.name)?.to_owned(),
            lack,
            has_keys: is_key(0) && is_key(1),
        }))
    }
}

impl Notes {
    /// Reads a message: a definition that changes something, or a mark of the feed.
    fn take(&mut self, message: &[u8], sink: &mut dyn FnMut(Change<'_>)) {
        let mut give = |table, kind| sink(change(table, kind));
        let (relation, before, now) = match self.notary.read(self.transaction, message) {
            Some(Note::Definition { relation, before, now }) => (relation, before, now),
            Some(Note::Mark { feed, text }) if feed == self.feed => return give(None, Kind::Mark(text)),
            Some(Note::Mark { .. }) | None => return,
        };
        let told = self.names.insert(relation, now.map(str::to_owned));
        let before = told.as_ref().map_or(before, Option::as_deref);
        match (before, now) {
            (Some(before), None) => give(Some((relation, before)), Kind::Drop),
            (None, Some(now)) => give(Some((relation, now)), Kind::Create),
            (Some(before), Some(now)) if before != now => {
                give(Some((relation, now)), Kind::Rename(before));
            }
            _ => {}
        }
    }
}

impl Table {
    fn named(&self) -> Named<'_> {
        Some((self.oid, &self.name))
    }
}

/// Gives the changes of a relation that `read` makes. If they cannot be read, gives one gap in this transaction.
fn give<'m>(
    tables: &'m Tables,
    gaps: &mut HashSet<Oid>,
    relation: Oid,
    sink: &mut dyn FnMut(Change<'_>),
    read: impl FnOnce(&'m Table, &mut dyn FnMut(Change<'_>)) -> Result<Option<Gap>, Malformed>,
) -> Result<(), Malformed> {
    let table = match tables.get(&relation) {
        Some(Some(table)) => table,
        Some(None) => return Ok(()),
        None => return Err(malformed("a change of a relation that was not described")),
    };
    let gap = match table.lack {
        None => read(table, sink)?,
        lack => lack,
    };
    if let Some(gap) = gap
        && gaps.insert(relation)
    {
        sink(change(table.named(), Kind::Gap(gap)));
    }
    Ok(())
}

/// Returns whether the key of an old row, by the replica identity, lacks a key of an entity. A part of a table may have
/// another replica identity than the table.
fn lacks_keys(old: &Old<'_>) -> bool {
    let is_missing = |column| !matches!(old.tuple().get(column), Some(Datum::Text(_) | Datum::Binary(_)));
    matches!(old, Old::Key(_)) && (is_missing(0) || is_missing(1))
}

fn malformed(what: &'static str) -> Malformed {
    Malformed { what, at: 0 }
}

fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    str::from_utf8(bytes).map_err(|_| malformed("a text that is not UTF-8"))
}

/// Returns a change that names no entity.
fn change<'m>(table: Named<'m>, kind: Kind<'m>) -> Change<'m> {
    Change {
        table,
        kind,
        partition_key: None,
        row_key: None,
        timestamp: None,
        properties: None,
        old_properties: None,
    }
}

/// Reads the columns of a row, as far as the message has them. A value that is stored out of line, and that an update
/// has left as it was, is taken from the old row if that has it.
fn row<'m>(
    table: Named<'m>,
    kind: Kind<'m>,
    tuple: &Tuple<'m>,
    old: Option<&Old<'m>>,
) -> Result<Change<'m>, Malformed> {
    let datum = |column: usize| -> Option<Datum<'m>> {
        let own = tuple.get(column).copied()?;
        match own {
            Datum::Unchanged => old?.tuple().get(column).copied(),
            other => Some(other),
        }
    };
    let text = |column: usize| match datum(column) {
        Some(Datum::Binary(bytes) | Datum::Text(bytes)) => utf8(bytes).map(Some),
        _ => Ok(None),
    };
    let timestamp = match datum(2) {
        Some(Datum::Binary(bytes)) => {
            let bytes: [u8; 8] = bytes
                .try_into()
                .map_err(|_| malformed("a Timestamp that has not 8 bytes"))?;
            Some(i64::from_be_bytes(bytes))
        }
        Some(Datum::Text(_)) => return Err(malformed("a Timestamp in text form")),
        _ => None,
    };
    let properties = match datum(3) {
        Some(Datum::Binary(bytes)) => Some(bytes),
        Some(Datum::Text(_)) => return Err(malformed("a bag in text form")),
        _ => None,
    };
    Ok(Change {
        partition_key: text(0)?,
        row_key: text(1)?,
        timestamp,
        properties,
        ..change(table, kind)
    })
}

fn deletion<'m>(table: Named<'m>, old: &Old<'m>) -> Result<Change<'m>, Malformed> {
    let before = row(table, Kind::Delete, old.tuple(), None)?;
    Ok(Change {
        timestamp: None,
        properties: None,
        old_properties: before.properties,
        ..before
    })
}

fn update<'m>(
    table: Named<'m>,
    old: Option<&Old<'m>>,
    new: &Tuple<'m>,
    sink: &mut dyn FnMut(Change<'_>),
) -> Result<(), Malformed> {
    let after = row(table, Kind::Update, new, old)?;
    let Some(old) = old else {
        sink(after);
        return Ok(());
    };
    let deletion = deletion(table, old)?;
    let keys = |change: &Change<'m>| change.partition_key.zip(change.row_key);
    let is_moved = keys(&deletion)
        .zip(keys(&after))
        .is_some_and(|(before, after)| before != after);
    if is_moved {
        sink(deletion);
        sink(Change {
            kind: Kind::Insert,
            ..after
        });
    } else {
        sink(Change {
            old_properties: deletion.old_properties,
            ..after
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROPERTIES: Oid = 16_385;

    /// A value of a row in a message.
    enum Sent<'s> {
        Null,
        Unchanged,
        Bytes(&'s [u8]),
    }
    use Sent::{Bytes, Null, Unchanged};

    fn tuple(values: &[Sent<'_>]) -> Vec<u8> {
        let mut bytes = i16::try_from(values.len()).unwrap().to_be_bytes().to_vec();
        for value in values {
            match value {
                Null => bytes.push(b'n'),
                Unchanged => bytes.push(b'u'),
                Bytes(value) => {
                    bytes.push(b'b');
                    bytes.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
                    bytes.extend(*value);
                }
            }
        }
        bytes
    }

    fn message(kind: u8, relation: Oid, rest: &[u8]) -> Vec<u8> {
        [&[kind], &relation.to_be_bytes()[..], rest].concat()
    }

    fn described(relation: Oid, schema: &str, name: &str, types: &[Oid]) -> Vec<u8> {
        described_with_identity(relation, schema, name, types, 2)
    }

    /// Returns the message of a relation with the first `keys` columns as its replica identity.
    fn described_with_identity(relation: Oid, schema: &str, name: &str, types: &[Oid], keys: usize) -> Vec<u8> {
        let mut rest = format!("{schema}\0{name}\0d").into_bytes();
        rest.extend(i16::try_from(types.len()).unwrap().to_be_bytes());
        for (column, type_oid) in types.iter().enumerate() {
            rest.push(u8::from(column < keys));
            rest.extend(b"column\0");
            rest.extend(type_oid.to_be_bytes());
            rest.extend((-1i32).to_be_bytes());
        }
        message(b'R', relation, &rest)
    }

    /// Returns a decoder that knows the table Orders, by the number 1.
    fn decoder() -> Decoder {
        let mut decoder = Decoder::new("table_service_data", PROPERTIES);
        let orders = described(
            1,
            "table_service_data",
            "Orders",
            &[TEXT, TEXT, TIMESTAMPTZ, PROPERTIES],
        );
        assert_eq!(changes(&mut decoder, &orders), [""; 0]);
        decoder
    }

    /// Returns the changes of a message, as a line each.
    fn changes(decoder: &mut Decoder, message: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut sink = |change: Change<'_>| {
            let bag = |bag: Option<&[u8]>| bag.map_or("-".to_owned(), |bag| String::from_utf8_lossy(bag).into_owned());
            lines.push(format!(
                "{} {} {} {} {} {} {}",
                change.table.map_or("-", |(_, name)| name),
                change.kind.as_str(),
                change.partition_key.unwrap_or("-"),
                change.row_key.unwrap_or("-"),
                change.timestamp.map_or("-".to_owned(), |micros| micros.to_string()),
                bag(change.properties),
                bag(change.old_properties)
            ));
        };
        decoder.decode(message, &mut sink).unwrap();
        lines
    }

    fn row<'s>(partition: &'s str, row: &'s str, properties: Sent<'s>) -> Vec<u8> {
        tuple(&[
            Bytes(partition.as_bytes()),
            Bytes(row.as_bytes()),
            Bytes(&[0, 0, 0, 0, 0, 0, 0, 7]),
            properties,
        ])
    }

    fn keys(partition: &str, row: &str) -> Vec<u8> {
        tuple(&[Bytes(partition.as_bytes()), Bytes(row.as_bytes()), Null, Null])
    }

    #[test]
    fn an_insert_an_update_and_a_delete_are_a_change_each() {
        let decoder = &mut decoder();
        let insert = message(b'I', 1, &[b"N", row("p", "r", Bytes(b"bag")).as_slice()].concat());
        assert_eq!(changes(decoder, &insert), ["Orders insert p r 7 bag -"]);
        let update = message(b'U', 1, &[b"N", row("p", "r", Bytes(b"bag")).as_slice()].concat());
        assert_eq!(changes(decoder, &update), ["Orders update p r 7 bag -"]);
        let delete = message(b'D', 1, &[b"K", keys("p", "r").as_slice()].concat());
        assert_eq!(changes(decoder, &delete), ["Orders delete p r - - -"]);
    }

    #[test]
    fn an_unchanged_bag_is_that_of_the_old_row_or_none() {
        let decoder = &mut decoder();
        let update = message(b'U', 1, &[b"N", row("p", "r", Unchanged).as_slice()].concat());
        assert_eq!(changes(decoder, &update), ["Orders update p r 7 - -"]);
        let with_old = [
            b"O",
            row("p", "r", Bytes(b"old")).as_slice(),
            b"N",
            &row("p", "r", Unchanged),
        ]
        .concat();
        assert_eq!(
            changes(decoder, &message(b'U', 1, &with_old)),
            ["Orders update p r 7 old old"]
        );
        // A key that is stored out of line is in the old key.
        let new = tuple(&[Unchanged, Bytes(b"r"), Bytes(&[0; 8]), Bytes(b"bag")]);
        let with_key = [b"K", keys("p", "r").as_slice(), b"N", &new].concat();
        assert_eq!(
            changes(decoder, &message(b'U', 1, &with_key)),
            ["Orders update p r 0 bag -"]
        );
    }

    #[test]
    fn an_update_of_a_key_is_a_delete_and_an_insert() {
        let decoder = &mut decoder();
        let moved = [b"K", keys("p", "r").as_slice(), b"N", &row("p", "s", Bytes(b"bag"))].concat();
        let expected = ["Orders delete p r - - -", "Orders insert p s 7 bag -"];
        assert_eq!(changes(decoder, &message(b'U', 1, &moved)), expected);
        let moved = [
            b"O",
            row("p", "r", Bytes(b"old")).as_slice(),
            b"N",
            &row("q", "r", Unchanged),
        ]
        .concat();
        let expected = ["Orders delete p r - - old", "Orders insert q r 7 old -"];
        assert_eq!(changes(decoder, &message(b'U', 1, &moved)), expected);
    }

    #[test]
    fn what_cannot_be_read_of_a_table_is_one_gap_in_a_transaction() {
        let types = [TEXT, TEXT, TIMESTAMPTZ, PROPERTIES];
        let begin = [b"B", &[0; 8][..], &5i64.to_be_bytes(), &[0; 4]].concat();
        let update = message(b'U', 1, &[b"N", row("p", "r", Bytes(b"bag")).as_slice()].concat());
        let insert = message(b'I', 1, &[b"N", row("p", "r", Bytes(b"bag")).as_slice()].concat());
        let clear = message(b'T', 1, &[b"\0", &1u32.to_be_bytes()[..]].concat());
        let half = tuple(&[Bytes(b"p"), Null, Null, Null]);
        let moved = [b"K", half.as_slice(), b"N", &row("q", "r", Bytes(b"bag"))].concat();
        let moved = message(b'U', 1, &moved);
        let delete = message(b'D', 1, &[b"K", half.as_slice()].concat());
        let gap = ["Orders gap - - - - -"];
        // The replica identity of the table lacks a key.
        let decoder = &mut decoder();
        changes(
            decoder,
            &described_with_identity(1, "table_service_data", "Orders", &types, 1),
        );
        assert_eq!(changes(decoder, &update), gap);
        assert_eq!(changes(decoder, &update), [""; 0]);
        assert_eq!(changes(decoder, &insert), ["Orders insert p r 7 bag -"]);
        assert_eq!(changes(decoder, &begin), [""; 0]);
        assert_eq!(changes(decoder, &update), gap);
        // That of a part of it alone.
        changes(decoder, &described(1, "table_service_data", "Orders", &types));
        for unreadable in [&moved, &delete] {
            changes(decoder, &begin);
            assert_eq!(changes(decoder, unreadable), gap);
            assert_eq!(changes(decoder, unreadable), [""; 0]);
            assert_eq!(changes(decoder, &update), ["Orders update p r 7 bag -"]);
        }
        // Relations with only a part of an entity's columns.
        for other in [&[TEXT, TEXT][..], &[TEXT, PROPERTIES], &[23, 23, 23, PROPERTIES]] {
            changes(decoder, &described(1, "table_service_data", "Orders", other));
            for unreadable in [&insert, &update, &delete, &clear] {
                changes(decoder, &begin);
                let expected = if other.contains(&PROPERTIES) { &gap[..] } else { &[] };
                assert_eq!(changes(decoder, unreadable), expected);
            }
        }
        for name in ["partition_key", "row_key", "properties"] {
            let column = [b"\x01", name.as_bytes(), b"\0", &23u32.to_be_bytes(), &[0; 4]].concat();
            let table = [b"table_service_data\0Orders\0d\0\x01", column.as_slice()].concat();
            changes(decoder, &message(b'R', 1, &table));
            changes(decoder, &begin);
            assert_eq!(changes(decoder, &insert), gap, "{name}");
        }
        // The table is mended.
        changes(decoder, &described(1, "table_service_data", "Orders", &types));
        assert_eq!(changes(decoder, &update), ["Orders update p r 7 bag -"]);
    }

    #[test]
    fn a_truncation_clears_each_table_of_the_service() {
        let decoder = &mut decoder();
        changes(
            decoder,
            &described(2, "public", "other", &[TEXT, TEXT, TIMESTAMPTZ, PROPERTIES]),
        );
        changes(
            decoder,
            &described(
                3,
                "table_service_data",
                "Items",
                &[TEXT, TEXT, TIMESTAMPTZ, PROPERTIES, 23],
            ),
        );
        let relations: Vec<u8> = [2u32, 1, 3].iter().flat_map(|oid| oid.to_be_bytes()).collect();
        let truncate = message(b'T', 3, &[b"\0", relations.as_slice()].concat());
        assert_eq!(
            changes(decoder, &truncate),
            ["Orders clear - - - - -", "Items clear - - - - -"]
        );
    }

    #[test]
    fn notes_are_told_if_they_change_something_or_are_marks_of_the_feed() {
        let notary = Notary::new(&[7; 32]);
        let begin = |transaction: u32| [b"B", &[0; 8][..], &5i64.to_be_bytes(), &transaction.to_be_bytes()].concat();
        let emitted = |prefix: &str, note: Note<'_>| {
            let content = notary.write(735, &note);
            let length = u32::try_from(content.len()).unwrap().to_be_bytes();
            [b"M\x01", &[0; 8][..], prefix.as_bytes(), b"\0", &length, &content].concat()
        };
        let definition = |before, now| {
            let relation = 1;
            emitted(NOTE_PREFIX, Note::Definition { relation, before, now })
        };
        let mark = |prefix, feed| emitted(prefix, Note::Mark { feed, text: "m" });
        let with_notes = &mut decoder().with_notes(notary.clone(), "f".to_owned());
        changes(with_notes, &begin(735));
        for (before, now, told) in [
            (Some("A"), Some("A"), ""),
            (Some("A"), Some("B"), "B rename - - - - -"),
            (Some("A"), Some("B"), ""),
            (Some("A"), Some("A"), "A rename - - - - -"),
            (Some("A"), None, "A drop - - - - -"),
            (Some("A"), None, ""),
            (None, Some("C"), "C create - - - - -"),
        ] {
            let message = definition(before, now);
            assert_eq!(changes(with_notes, &message).concat(), told, "{before:?} {now:?}");
            assert_eq!(changes(&mut decoder(), &message), [""; 0]);
        }
        // The notes of one transaction do not count for another.
        changes(with_notes, &begin(735));
        assert_eq!(
            changes(with_notes, &definition(Some("A"), Some("C"))),
            ["C rename - - - - -"]
        );
        assert_eq!(changes(with_notes, &mark(NOTE_PREFIX, "f")), ["- mark - - - - -"]);
        for message in [mark(NOTE_PREFIX, "g"), mark("other", "f")] {
            assert_eq!(changes(with_notes, &message), [""; 0]);
        }
        changes(with_notes, &begin(736));
        assert_eq!(changes(with_notes, &mark(NOTE_PREFIX, "f")), [""; 0]);
    }

    #[test]
    fn who_reads_notes_is_told_of_changes_in_another_schema() {
        let away = described(1, "away", "Orders", &[TEXT, TEXT, TIMESTAMPTZ, PROPERTIES]);
        let other = described(2, "away", "other", &[TEXT, PROPERTIES]);
        let insert = |relation| {
            message(
                b'I',
                relation,
                &[b"N", row("p", "r", Bytes(b"bag")).as_slice()].concat(),
            )
        };
        let with_notes = decoder().with_notes(Notary::new(&[7; 32]), "f".to_owned());
        for (mut decoder, told) in [(with_notes, "Orders gap - - - - -"), (decoder(), "")] {
            changes(&mut decoder, &away);
            changes(&mut decoder, &other);
            let all = [insert(1), insert(1), insert(2)].map(|insert| changes(&mut decoder, &insert).concat());
            assert_eq!(all.concat(), told);
        }
    }

    #[test]
    fn what_a_kind_says_is_a_property() {
        for (kind, name, value) in [
            (Kind::Rename("A"), "Before", "A"),
            (Kind::Mark("m"), "Mark", "m"),
            (Kind::Gap(Gap::Keys), "Reason", Gap::Keys.reason()),
            (Kind::Gap(Gap::Columns), "Reason", Gap::Columns.reason()),
            (Kind::Gap(Gap::Schema), "Reason", Gap::Schema.reason()),
        ] {
            let bag = kind.properties().unwrap();
            assert_eq!(bag.as_properties().get(name), Some(Value::String(value)));
        }
        assert_eq!(Kind::Create.properties(), None);
    }

    #[test]
    fn changes_of_other_tables_are_none() {
        let decoder = &mut decoder();
        for types in [&[TEXT, TEXT, TIMESTAMPTZ, 17][..], &[TEXT, TEXT, TIMESTAMPTZ], &[]] {
            changes(decoder, &described(2, "table_service_data", "other", types));
            let insert = message(b'I', 2, &[b"N", tuple(&[Bytes(b"\xFF")]).as_slice()].concat());
            assert_eq!(changes(decoder, &insert), [""; 0]);
        }
        // A table that is renamed or gets other columns is described again.
        changes(
            decoder,
            &described(2, "table_service_data", "Items", &[TEXT, TEXT, TIMESTAMPTZ, PROPERTIES]),
        );
        let delete = message(b'D', 2, &[b"K", keys("p", "r").as_slice()].concat());
        assert_eq!(changes(decoder, &delete), ["Items delete p r - - -"]);
    }

    #[test]
    fn a_transaction_has_a_beginning_and_an_end() {
        let decoder = &mut decoder();
        let begin = [b"B", &[0; 8][..], &5i64.to_be_bytes(), &[0; 4]].concat();
        let boundary = decoder.decode(&begin, &mut |_| panic!("no change")).unwrap();
        assert_eq!(boundary, Some(Boundary::Begin { committed: 5 }));
        let commit = [b"C\0", &[0; 8][..], &9u64.to_be_bytes(), &[0; 8]].concat();
        let boundary = decoder.decode(&commit, &mut |_| panic!("no change")).unwrap();
        assert_eq!(boundary, Some(Boundary::End(Lsn(9))));
    }

    #[test]
    fn what_is_no_entity_is_malformed() {
        let cases: [(&[Sent<'_>], &str); 3] = [
            (&[Bytes(b"\xFF"), Bytes(b"r"), Null, Null], "a text that is not UTF-8"),
            (
                &[Bytes(b"p"), Bytes(b"r"), Bytes(b"7"), Null],
                "a Timestamp that has not 8 bytes",
            ),
            (&[Bytes(b"p"), Bytes(b"\xC3"), Null, Null], "a text that is not UTF-8"),
        ];
        for (values, what) in cases {
            let insert = message(b'I', 1, &[b"N", tuple(values).as_slice()].concat());
            let error = decoder().decode(&insert, &mut |_| {}).unwrap_err();
            assert_eq!(error.what, what);
        }
        let unknown = message(b'I', 9, &[b"N", tuple(&[]).as_slice()].concat());
        let error = decoder().decode(&unknown, &mut |_| {}).unwrap_err();
        assert_eq!(error.what, "a change of a relation that was not described");
    }
}
