//! Pages of changes, from the messages of a slot.

use std::ops::ControlFlow;

use pgrx::spi::quote_identifier;
use table_service_model::change_feed::{Boundary, Change, Decoder};
use table_service_model::pgoutput::Malformed;
use table_service_model::{Error, Lsn};

use crate::postgres::{Connection, Cursor, Text, Value, catalog, notes};

/// The messages of a slot.
pub struct Messages<'f> {
    slot: &'f str,
    /// As a list of names, quoted.
    publications: Text,
    publication: &'f str,
    /// Whether definitions of tables and marks are also read.
    with_notes: bool,
    /// After how many messages PostgreSQL ends with the next transaction.
    limit: i32,
}

impl<'f> Messages<'f> {
    /// Returns the messages of a feed's slot and publication.
    pub fn of(slot: &'f str, publication: &'f str, with_notes: bool) -> Messages<'f> {
        Messages {
            slot,
            publications: Text::new(quote_identifier(publication).as_str()),
            publication,
            with_notes,
            limit: 0,
        }
    }

    /// Reads transactions after `from`, until they have `top` changes, into `sink`. Returns whether there are none.
    ///
    /// # Errors
    /// `InternalError` for messages that cannot be read.
    pub fn read(
        mut self,
        spi: &Connection,
        top: u64,
        from: Lsn,
        sink: &mut dyn FnMut(Lsn, i64, Change<'_>),
    ) -> Result<bool, Error> {
        // A transaction with one change has three messages, and each table has two more.
        self.limit = i32::try_from(top.saturating_mul(3).saturating_add(8)).unwrap_or(i32::MAX);
        loop {
            let cursor = self.open(spi);
            if let Some(page) = self.page(&cursor, top, from)? {
                page.give(&cursor, sink)?;
                cursor.close();
                return Ok(page.changes == 0);
            }
            cursor.close();
            self.limit = self.limit.saturating_mul(4);
        }
    }

    fn open<'c>(&self, spi: &'c Connection) -> Cursor<'c> {
        const SQL: &str = "SELECT m.data FROM pg_catalog.pg_logical_slot_peek_binary_changes($1::pg_catalog.name, NULL, $2, 'proto_version', '1', 'binary', 'true', 'publication_names', $3, 'messages', $4) AS m";
        let (slot, messages) = (Text::new(self.slot), Text::new(&self.with_notes.to_string()));
        let values = [
            slot.value(),
            Value::int4(self.limit),
            self.publications.value(),
            messages.value(),
        ];
        Cursor::open(spi, SQL, &values)
    }

    fn decoder(&self) -> Decoder {
        let decoder = Decoder::new(catalog::DATA_SCHEMA, catalog::properties_type().to_u32());
        match self.with_notes {
            true => decoder.with_notes(notes::notary(), self.slot.to_owned()),
            false => decoder,
        }
    }

    fn unreadable(&self, reason: Malformed) -> Error {
        Error::ChangesUnreadable {
            reason: format!("The slot of the publication {} has given {reason}", self.publication),
        }
    }

    /// Finds the end of the page. Returns `None` if there may be more messages, and these have too few changes.
    fn page(&self, cursor: &Cursor<'_>, top: u64, from: Lsn) -> Result<Option<Page<'_>>, Error> {
        let mut page = Page {
            messages: self,
            ends: Vec::new(),
            changes: 0,
            from,
        };
        let mut decoder = self.decoder();
        let (mut messages, mut of_transaction, mut failure) = (0, 0, None);
        cursor.for_each(|row| {
            messages += 1;
            match decoder.decode(row.bytea(1).unwrap_or_default(), &mut |_| of_transaction += 1) {
                Ok(Some(Boundary::End(end))) => {
                    page.ends.push(end);
                    if end > from {
                        page.changes += of_transaction;
                    }
                    of_transaction = 0;
                }
                Ok(_) => {}
                Err(error) => failure = Some(self.unreadable(error)),
            }
            if failure.is_some() || page.changes >= top {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        let is_whole = page.changes >= top || messages < self.limit || self.limit == i32::MAX;
        Ok(is_whole.then_some(page))
    }
}

/// The transactions of a page.
struct Page<'m> {
    messages: &'m Messages<'m>,
    /// Where each of them ends. The position of a change comes behind it.
    ends: Vec<Lsn>,
    /// How many changes it has. With none, all messages of the slot were read.
    changes: u64,
    /// Transactions up to here are confirmed.
    from: Lsn,
}

impl Page<'_> {
    fn give(&self, cursor: &Cursor<'_>, sink: &mut dyn FnMut(Lsn, i64, Change<'_>)) -> Result<(), Error> {
        let mut ends = self.ends.iter().copied();
        let Some(mut end) = ends.next() else {
            return Ok(());
        };
        let mut decoder = self.messages.decoder();
        let (mut committed, mut failure) = (0, None);
        cursor.for_each(|row| {
            let mut give = |change: Change<'_>| {
                if end > self.from {
                    sink(end, committed, change);
                }
            };
            match decoder.decode(row.bytea(1).unwrap_or_default(), &mut give) {
                Ok(Some(Boundary::Begin { committed: moment })) => committed = moment,
                Ok(Some(Boundary::End(_))) => match ends.next() {
                    Some(next) => end = next,
                    None => return ControlFlow::Break(()),
                },
                Ok(None) => {}
                Err(error) => {
                    failure = Some(self.messages.unreadable(error));
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        failure.map_or(Ok(()), Err)
    }
}
