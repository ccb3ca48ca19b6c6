//! An archive as a source: its tables as they were at a point.

use std::fs::File;
use std::sync::Arc;

use parking_lot::Mutex;
use table_service_archive::{Directory, Restored, State, Visitor};
use tokio::sync::mpsc::Sender;

use crate::failure::Failure;
use crate::records::{Chunk, Position, Record, Selection};

/// Tables that are read once, in the order in which they are listed.
pub struct ArchiveSource {
    directory: Directory,
    tables: Vec<(String, u32)>,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    state: State,
    selection: Selection,
    _reading: Option<File>,
}

impl ArchiveSource {
    /// The restored tables, with the entities that a filter selects.
    pub fn new(restored: Restored, selection: Selection) -> ArchiveSource {
        let Restored {
            directory,
            tables,
            state,
            reading,
            ..
        } = restored;
        ArchiveSource {
            directory,
            tables,
            shared: Arc::new(Mutex::new(Shared {
                state,
                selection,
                _reading: reading,
            })),
        }
    }

    /// The directory.
    pub fn name(&self) -> String {
        self.directory.name()
    }

    /// The names that the tables get.
    pub fn tables(&self) -> Vec<String> {
        self.tables.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Reads a table.
    pub async fn read(&self, table: &str, chunks: Sender<Chunk>) -> Result<(), Failure> {
        let found = self.tables.iter().find(|(name, _)| name == table);
        let id = found.map(|(_, id)| *id);
        let id = id.ok_or_else(|| self.directory.failed(&format!("there is no table {table}")))?;
        let (shared, directory) = (self.shared.clone(), self.directory.clone());
        let read = move || {
            let mut shared = shared.lock();
            let Shared { state, selection, .. } = &mut *shared;
            let mut sending = Sending {
                chunks,
                chunk: Chunk::new(Position::End),
                count: 0,
                selection,
            };
            let outcome = state.visit(id, &mut sending).map_err(|problem| {
                let mut failure = directory.failed(&problem);
                failure.is_of_table = true;
                failure
            })?;
            if !outcome.stopped {
                // If nobody takes it, the copy has failed elsewhere.
                let _ = sending.chunks.blocking_send(sending.chunk);
            }
            Ok(())
        };
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|error| Failure::new(error.to_string()))?
    }
}

/// Sends the entities that a filter selects.
struct Sending<'s> {
    chunks: Sender<Chunk>,
    chunk: Chunk,
    count: u64,
    selection: &'s Selection,
}

impl Visitor for Sending<'_> {
    fn entity(&mut self, record: Record) -> Result<bool, String> {
        if !self.selection.selects(&record) {
            return Ok(true);
        }
        self.count += 1;
        self.chunk.add(record);
        match self.chunk.take_full(|| Position::Records(self.count)) {
            Some(full) => Ok(self.chunks.blocking_send(full).is_ok()),
            None => Ok(true),
        }
    }
}
