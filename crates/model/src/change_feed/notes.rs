//! Notes: messages in PostgreSQL's log that the extension writes beside the changes of entities. They say which relations are tables
//! of the service, and have the marks of readers.
//!
//! Any role can write messages with any prefix (`pg_logical_emit_message`). So a note has a code that needs a secret,
//! and it is valid in one transaction only: nobody can forge a note, or write a note of another transaction again.

use std::str;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::pgoutput::Oid;

/// The prefix of the messages.
pub const NOTE_PREFIX: &str = "table_service";

/// How many bytes a mark may have.
pub const MARK_BYTES: usize = 256;

/// How many bytes a code has, which is SHA-256.
const CODE_BYTES: usize = 32;

/// More than any note has: the code, names of PostgreSQL or of a feed, and a mark. Longer messages are of others.
const MOST_BYTES: usize = 512;

/// A message of the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note<'m> {
    /// The relation has this name as a table of the service, and had that name before the transaction began. `None` is
    /// for a relation that is no table of the service, or that does not exist.
    Definition {
        relation: Oid,
        before: Option<&'m str>,
        now: Option<&'m str>,
    },
    /// A text that the reader of a feed has written.
    Mark { feed: &'m str, text: &'m str },
}

const DEFINITION: u8 = b'D';
const MARK: u8 = b'M';

/// Writes and reads notes with the secret of a server.
#[derive(Clone)]
pub struct Notary(Hmac<Sha256>);

impl Notary {
    /// Makes the notary of a server, which has this secret.
    pub fn new(secret: &[u8; 32]) -> Notary {
        let mut key = [0; 64];
        key.iter_mut().zip(secret).for_each(|(to, from)| *to = *from);
        Notary(Hmac::new(&key.into()))
    }

    fn code(&self, transaction: u32, note: &[u8]) -> Hmac<Sha256> {
        let of_transaction = self.0.clone().chain_update(transaction.to_be_bytes());
        of_transaction.chain_update(note)
    }

    /// Returns the message that a transaction writes. No name has a NUL.
    pub fn write(&self, transaction: u32, note: &Note<'_>) -> Vec<u8> {
        let names = |first: &str, second: &str| format!("{first}\0{second}").into_bytes();
        let body = match *note {
            Note::Definition { relation, before, now } => [
                &[DEFINITION],
                &relation.to_be_bytes()[..],
                &names(before.unwrap_or_default(), now.unwrap_or_default()),
            ]
            .concat(),
            Note::Mark { feed, text } => [&[MARK][..], &names(feed, text)].concat(),
        };
        let code = self.code(transaction, &body).finalize().into_bytes();
        [&code[..], &body].concat()
    }

    /// Returns the note that a message is, in the transaction that wrote it. `None` for a message that others have written.
    pub fn read<'m>(&self, transaction: u32, message: &'m [u8]) -> Option<Note<'m>> {
        let (code, body) = message.split_at_checked(CODE_BYTES)?;
        if message.len() > MOST_BYTES || self.code(transaction, body).verify_slice(code).is_err() {
            return None;
        }
        let (&tag, body) = body.split_first()?;
        let split = |bytes: &'m [u8]| {
            let (first, second) = str::from_utf8(bytes).ok()?.split_once('\0')?;
            Some((first, second))
        };
        match tag {
            DEFINITION => {
                let (&relation, names) = body.split_first_chunk()?;
                let (before, now) = split(names)?;
                let name = |name: &'m str| (!name.is_empty()).then_some(name);
                Some(Note::Definition {
                    relation: Oid::from_be_bytes(relation),
                    before: name(before),
                    now: name(now),
                })
            }
            MARK => split(body).map(|(feed, text)| Note::Mark { feed, text }),
            // Of a later version.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTES: [Note<'_>; 4] = [
        Note::Definition {
            relation: 16_400,
            before: None,
            now: Some("Orders"),
        },
        Note::Definition {
            relation: u32::MAX,
            before: Some("Örders"),
            now: Some("Orders"),
        },
        Note::Definition {
            relation: 1,
            before: Some("Orders"),
            now: None,
        },
        Note::Mark { feed: "f", text: "ä" },
    ];

    #[test]
    fn notes_are_read_as_they_were_written() {
        let notary = Notary::new(&[7; 32]);
        for note in NOTES {
            assert_eq!(notary.read(735, &notary.write(735, &note)), Some(note));
        }
        let longest = "x".repeat(MARK_BYTES);
        let mark = Note::Mark {
            feed: &"f".repeat(crate::change_feed::FEED_NAME_CHARACTERS),
            text: &longest,
        };
        assert_eq!(notary.read(1, &notary.write(1, &mark)), Some(mark));
    }

    #[test]
    fn what_others_write_is_no_note() {
        let notary = Notary::new(&[7; 32]);
        for note in NOTES {
            let message = notary.write(735, &note);
            assert_eq!(notary.read(736, &message), None, "of another transaction");
            assert_eq!(Notary::new(&[8; 32]).read(735, &message), None, "with another secret");
            for at in 0..message.len() {
                let mut forged = message.clone();
                forged[at] ^= 1;
                assert_eq!(notary.read(735, &forged), None, "with another byte {at}");
                assert_eq!(notary.read(735, &message[..at]), None, "up to {at}");
            }
            assert_eq!(notary.read(735, &[message.as_slice(), b"x"].concat()), None);
        }
    }
}
