//! An archive as a source: its tables as they were at a point.

use std::fs::File;
use std::sync::Arc;

use parking_lot::Mutex;
use table_service_archive::{Directory, Restored, State};
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
            let (mut chunk, mut count) = (Chunk::new(Position::End), 0);
            let mut take = |record: Record| {
                if !selection.selects(&record) {
                    return Ok(true);
                }
                count += 1;
                chunk.add(record);
                match chunk.take_full(|| Position::Records(count)) {
                    Some(full) => Ok(chunks.blocking_send(full).is_ok()),
                    None => Ok(true),
                }
            };
            let outcome = state.visit(id, &mut |_, _, _| Ok(()), &mut take).map_err(|problem| {
                let mut failure = directory.failed(&problem);
                failure.is_of_table = true;
                failure
            })?;
            if !outcome.stopped {
                // If nobody takes it, the copy has failed elsewhere.
                let _ = chunks.blocking_send(chunk);
            }
            Ok(())
        };
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|error| Failure::new(error.to_string()))?
    }
}
