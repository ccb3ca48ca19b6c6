//! The messages of PostgreSQL's output plugin `pgoutput`, version 1 of its protocol, as logical decoding gives them.
//!
//! A message is read in place. Relations have messages of their own, which come before the first change of a relation:
//! [`crate::change_feed::Decoder`] keeps them.
//!
//! ```
//! use table_service_model::pgoutput::Message;
//!
//! let message = Message::parse(b"T\0\0\0\x01\0\0\0\x40\x10")?;
//! assert_eq!(message, Message::Truncate { relations: vec![16_400] });
//! # Ok::<(), table_service_model::pgoutput::Malformed>(())
//! ```

use crate::Lsn;

/// Bytes that are not a message of this protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}, at byte {at} of a message of pgoutput")]
pub struct Malformed {
    pub what: &'static str,
    pub at: usize,
}

/// The OID of a relation, a type or another object.
pub type Oid = u32;

/// A message. Names are bytes in the encoding in which they were sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'m> {
    Begin {
        /// When the transaction committed, in microseconds since 2000-01-01.
        committed: i64,
        transaction: u32,
    },
    Commit {
        /// Where the commit ends.
        end: Lsn,
    },
    Relation(Relation<'m>),
    Insert {
        relation: Oid,
        new: Tuple<'m>,
    },
    Update {
        relation: Oid,
        old: Option<Old<'m>>,
        new: Tuple<'m>,
    },
    Delete {
        relation: Oid,
        old: Old<'m>,
    },
    Truncate {
        relations: Vec<Oid>,
    },
    /// The text that `pg_logical_emit_message` has written.
    Emitted {
        prefix: &'m [u8],
        content: &'m [u8],
    },
    /// The server that the transaction comes from, or the name of a type.
    Other,
}

/// A table: its name and its columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation<'m> {
    pub oid: Oid,
    /// Empty for `pg_catalog`.
    pub schema: &'m [u8],
    pub name: &'m [u8],
    pub columns: Vec<Column<'m>>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column<'m> {
    /// Whether old rows have it by the replica identity.
    pub is_key: bool,
    pub name: &'m [u8],
    pub type_oid: Oid,
}

/// The row that an update or a delete has replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Old<'m> {
    /// Its key; the other columns are NULL.
    Key(Tuple<'m>),
    /// All of it.
    Row(Tuple<'m>),
}

impl<'m> Old<'m> {
    /// Returns the columns that the message has.
    pub fn tuple(&self) -> &Tuple<'m> {
        match self {
            Old::Key(tuple) | Old::Row(tuple) => tuple,
        }
    }
}

/// The columns of a row, in their order.
pub type Tuple<'m> = Vec<Datum<'m>>;

/// The value of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datum<'m> {
    Null,
    /// The value is stored out of line, and the update has not changed it.
    Unchanged,
    /// The result of the type's output function.
    Text(&'m [u8]),
    /// The result of the type's send function.
    Binary(&'m [u8]),
}

impl<'m> Message<'m> {
    /// Reads a message. Bytes behind it are an error.
    ///
    /// # Errors
    /// [`Malformed`] for any bytes that are not one message.
    pub fn parse(bytes: &'m [u8]) -> Result<Message<'m>, Malformed> {
        let mut input = Input { bytes, at: 0 };
        let message = match input.byte()? {
            b'B' => {
                input.lsn()?; // where the commit begins
                let committed = input.int64()?;
                let transaction = input.oid()?;
                Message::Begin { committed, transaction }
            }
            b'C' => {
                input.byte()?; // flags
                input.lsn()?; // where the commit begins
                let end = input.lsn()?;
                input.int64()?; // when it committed
                Message::Commit { end }
            }
            b'O' => {
                input.lsn()?; // where the commit began on the other server
                input.text()?; // its name
                Message::Other
            }
            b'R' => Message::Relation(input.relation()?),
            b'Y' => {
                input.oid()?;
                input.text()?; // the schema
                input.text()?; // the name
                Message::Other
            }
            b'I' => {
                let relation = input.oid()?;
                input.expect(b'N', "an insert without its row")?;
                let new = input.tuple()?;
                Message::Insert { relation, new }
            }
            b'U' => {
                let relation = input.oid()?;
                let old = match input.peek() {
                    Some(b'K' | b'O') => Some(input.old()?),
                    _ => None,
                };
                input.expect(b'N', "an update without its row")?;
                let new = input.tuple()?;
                Message::Update { relation, old, new }
            }
            b'D' => Message::Delete {
                relation: input.oid()?,
                old: input.old()?,
            },
            b'T' => {
                let count = input.oid()?;
                input.byte()?; // CASCADE, RESTART IDENTITY
                // Only as many as there are bytes are made room for.
                let relations = (0..count).map(|_| input.oid()).collect::<Result<_, _>>()?;
                Message::Truncate { relations }
            }
            b'M' => {
                input.byte()?; // whether it belongs to a transaction
                input.lsn()?; // where the message is
                let prefix = input.text()?;
                let content = input.counted()?;
                Message::Emitted { prefix, content }
            }
            _ => {
                return Err(Malformed {
                    what: "an unknown kind of message",
                    at: 0,
                });
            }
        };
        if input.peek().is_some() {
            return Err(input.malformed("more bytes than the message has"));
        }
        Ok(message)
    }
}

/// The bytes of a message, and how far they are read.
struct Input<'m> {
    bytes: &'m [u8],
    at: usize,
}

impl<'m> Input<'m> {
    fn malformed(&self, what: &'static str) -> Malformed {
        Malformed { what, at: self.at }
    }

    fn rest(&self) -> &'m [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    fn take(&mut self, count: usize) -> Result<&'m [u8], Malformed> {
        let Some((taken, _)) = self.rest().split_at_checked(count) else {
            return Err(self.malformed("an end before the end"));
        };
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let Some((&taken, _)) = self.rest().split_first_chunk::<N>() else {
            return Err(self.malformed("an end before the end"));
        };
        self.at += N;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    fn int16(&mut self) -> Result<i16, Malformed> {
        self.array().map(i16::from_be_bytes)
    }

    fn int32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    fn int64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    fn oid(&mut self) -> Result<Oid, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    fn lsn(&mut self) -> Result<Lsn, Malformed> {
        self.array().map(|bytes| Lsn(u64::from_be_bytes(bytes)))
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Malformed> {
        if self.peek() != Some(byte) {
            return Err(self.malformed(what));
        }
        self.at += 1;
        Ok(())
    }

    /// Bytes up to a NUL.
    fn text(&mut self) -> Result<&'m [u8], Malformed> {
        let Some(length) = self.rest().iter().position(|&byte| byte == 0) else {
            return Err(self.malformed("a name without an end"));
        };
        let text = self.take(length)?;
        self.at += 1;
        Ok(text)
    }

    /// Bytes behind their number.
    fn counted(&mut self) -> Result<&'m [u8], Malformed> {
        let count = self.int32()?;
        let Ok(count) = usize::try_from(count) else {
            return Err(self.malformed("a negative length"));
        };
        self.take(count)
    }

    /// Returns a number of columns.
    fn columns(&mut self) -> Result<usize, Malformed> {
        let count = self.int16()?;
        usize::try_from(count).map_err(|_| self.malformed("a negative number of columns"))
    }

    fn relation(&mut self) -> Result<Relation<'m>, Malformed> {
        let oid = self.oid()?;
        let schema = self.text()?;
        let name = self.text()?;
        self.byte()?; // the replica identity
        let count = self.columns()?;
        let column = |_| {
            let is_key = self.byte()? & 1 == 1;
            let name = self.text()?;
            let type_oid = self.oid()?;
            self.int32()?; // the type's modifier
            Ok(Column { is_key, name, type_oid })
        };
        let columns = (0..count).map(column).collect::<Result<_, _>>()?;
        Ok(Relation {
            oid,
            schema,
            name,
            columns,
        })
    }

    fn tuple(&mut self) -> Result<Tuple<'m>, Malformed> {
        let count = self.columns()?;
        (0..count)
            .map(|_| {
                Ok(match self.byte()? {
                    b'n' => Datum::Null,
                    b'u' => Datum::Unchanged,
                    b't' => Datum::Text(self.counted()?),
                    b'b' => Datum::Binary(self.counted()?),
                    _ => return Err(self.malformed("an unknown kind of value")),
                })
            })
            .collect()
    }

    fn old(&mut self) -> Result<Old<'m>, Malformed> {
        match self.byte()? {
            b'K' => self.tuple().map(Old::Key),
            b'O' => self.tuple().map(Old::Row),
            _ => Err(self.malformed("an unknown kind of old row")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a message: numbers in their size and names with their end.
    macro_rules! bytes {
        ($($part:expr),* $(,)?) => {{
            let mut bytes: Vec<u8> = Vec::new();
            $(bytes.extend_from_slice(&$part[..]);)*
            bytes
        }};
    }

    fn begin() -> Vec<u8> {
        bytes!(
            b"B",
            0x16B_3700u64.to_be_bytes(),
            817_000_000_000_000i64.to_be_bytes(),
            735u32.to_be_bytes()
        )
    }

    fn relation() -> Vec<u8> {
        bytes!(
            b"R",
            16_400u32.to_be_bytes(),
            b"table_service_data\0Orders\0d",
            2i16.to_be_bytes(),
            b"\x01partition_key\0",
            25u32.to_be_bytes(),
            (-1i32).to_be_bytes(),
            b"\x00properties\0",
            16_385u32.to_be_bytes(),
            (-1i32).to_be_bytes(),
        )
    }

    fn update() -> Vec<u8> {
        bytes!(
            b"U",
            16_400u32.to_be_bytes(),
            b"K",
            2i16.to_be_bytes(),
            b"b",
            1i32.to_be_bytes(),
            b"p",
            b"n",
            b"N",
            2i16.to_be_bytes(),
            b"t",
            1i32.to_be_bytes(),
            b"q",
            b"u",
        )
    }

    fn messages() -> Vec<Vec<u8>> {
        vec![
            begin(),
            bytes!(
                b"C\0",
                0x16B_3700u64.to_be_bytes(),
                0x16B_3748u64.to_be_bytes(),
                0i64.to_be_bytes()
            ),
            bytes!(b"O", 7u64.to_be_bytes(), b"elsewhere\0"),
            relation(),
            bytes!(b"Y", 16_385u32.to_be_bytes(), b"table_service\0properties\0"),
            bytes!(
                b"I",
                16_400u32.to_be_bytes(),
                b"N",
                1i16.to_be_bytes(),
                b"b",
                0i32.to_be_bytes()
            ),
            update(),
            bytes!(b"U", 16_400u32.to_be_bytes(), b"N", 0i16.to_be_bytes()),
            bytes!(b"D", 16_400u32.to_be_bytes(), b"O", 1i16.to_be_bytes(), b"n"),
            bytes!(
                b"T",
                2u32.to_be_bytes(),
                b"\x02",
                16_400u32.to_be_bytes(),
                16_500u32.to_be_bytes()
            ),
            bytes!(b"M\x01", 9u64.to_be_bytes(), b"app\0", 3i32.to_be_bytes(), b"abc"),
        ]
    }

    #[test]
    fn each_kind_of_message_is_read() {
        let read: Vec<Vec<u8>> = messages();
        let read: Vec<Message<'_>> = read.iter().map(|bytes| Message::parse(bytes).unwrap()).collect();
        assert_eq!(
            read,
            [
                Message::Begin {
                    committed: 817_000_000_000_000,
                    transaction: 735,
                },
                Message::Commit { end: Lsn(0x16B_3748) },
                Message::Other,
                Message::Relation(Relation {
                    oid: 16_400,
                    schema: b"table_service_data",
                    name: b"Orders",
                    columns: vec![
                        Column {
                            is_key: true,
                            name: b"partition_key",
                            type_oid: 25
                        },
                        Column {
                            is_key: false,
                            name: b"properties",
                            type_oid: 16_385
                        },
                    ],
                }),
                Message::Other,
                Message::Insert {
                    relation: 16_400,
                    new: vec![Datum::Binary(b"")]
                },
                Message::Update {
                    relation: 16_400,
                    old: Some(Old::Key(vec![Datum::Binary(b"p"), Datum::Null])),
                    new: vec![Datum::Text(b"q"), Datum::Unchanged],
                },
                Message::Update {
                    relation: 16_400,
                    old: None,
                    new: vec![]
                },
                Message::Delete {
                    relation: 16_400,
                    old: Old::Row(vec![Datum::Null])
                },
                Message::Truncate {
                    relations: vec![16_400, 16_500]
                },
                Message::Emitted {
                    prefix: b"app",
                    content: b"abc"
                },
            ]
        );
    }

    #[test]
    fn a_message_that_is_cut_or_longer_is_malformed() {
        for message in messages() {
            for end in 0..message.len() {
                assert!(Message::parse(&message[..end]).is_err(), "{message:?} up to {end}");
            }
            let longer = [message.as_slice(), b"x"].concat();
            assert!(Message::parse(&longer).is_err(), "{longer:?}");
        }
    }

    #[test]
    fn hostile_counts_are_malformed() {
        let columns = bytes!(b"I", 1u32.to_be_bytes(), b"N", (-1i16).to_be_bytes());
        assert_eq!(
            Message::parse(&columns).unwrap_err().what,
            "a negative number of columns"
        );
        let length = bytes!(
            b"I",
            1u32.to_be_bytes(),
            b"N",
            1i16.to_be_bytes(),
            b"b",
            (-1i32).to_be_bytes()
        );
        assert_eq!(Message::parse(&length).unwrap_err().what, "a negative length");
        let relations = bytes!(b"T", u32::MAX.to_be_bytes(), b"\0", 1u32.to_be_bytes());
        assert_eq!(Message::parse(&relations).unwrap_err().what, "an end before the end");
        let kind = bytes!(b"I", 1u32.to_be_bytes(), b"N", 1i16.to_be_bytes(), b"x");
        assert_eq!(Message::parse(&kind).unwrap_err().what, "an unknown kind of value");
        assert_eq!(
            Message::parse(b"z").unwrap_err().to_string(),
            "an unknown kind of message, at byte 0 of a message of pgoutput"
        );
    }
}
