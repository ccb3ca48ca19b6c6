//! Any source.

use table_service_model::Ticks;
use tokio::sync::mpsc::{Sender, channel};

use crate::failure::Failure;
use crate::records::{Chunk, Position, Range};

use super::archive::ArchiveSource;
use super::databases::SqlSource;
use super::files::{FileSource, POLICIES_ENDING, SERVICE_FILE};
use super::services::RestSource;

/// Where entities are read.
pub enum Source {
    Service(Box<RestSource>),
    Database(Box<SqlSource>),
    Files(FileSource),
    Archive(Box<ArchiveSource>),
}

impl Source {
    /// The notes on the reading for the report.
    pub fn note(&self) -> Option<&'static str> {
        match self {
            Source::Database(source) => source.note(),
            Source::Service(_) | Source::Files(_) | Source::Archive(_) => None,
        }
    }

    /// Its name in reports and in the resume file, without a secret.
    pub fn name(&self) -> String {
        match self {
            Source::Service(source) => source.client.name(),
            Source::Database(source) => source.name().to_owned(),
            Source::Files(source) => source.name(),
            Source::Archive(source) => source.name(),
        }
    }

    /// The time of the source's clock; `None` for files.
    pub async fn clock(&self) -> Result<Option<Ticks>, Failure> {
        match self {
            Source::Service(source) => source.clock().await,
            Source::Database(source) => source.clock().await,
            Source::Files(_) | Source::Archive(_) => Ok(None),
        }
    }

    /// Ends the snapshot that the source has kept for this copy.
    pub async fn release(&self) {
        if let Source::Database(source) = self {
            source.release().await;
        }
    }

    /// The names of all tables.
    pub async fn tables(&self) -> Result<Vec<String>, Failure> {
        match self {
            Source::Service(source) => source.tables().await,
            Source::Database(source) => source.tables().await,
            Source::Files(source) => source.tables(),
            Source::Archive(source) => Ok(source.tables()),
        }
    }

    /// The number of entities and of bytes of a table, as far as they are known without reading it.
    pub async fn estimate(&self, table: &str) -> Result<(Option<u64>, Option<u64>), Failure> {
        match self {
            Source::Service(_) | Source::Archive(_) => Ok((None, None)),
            Source::Database(source) => source.estimate(table).await,
            Source::Files(source) => Ok((None, source.bytes(table))),
        }
    }

    /// Divides a table into ranges for so many readers.
    pub async fn ranges(&self, table: &str, readers: usize) -> Result<Vec<Range>, Failure> {
        match self {
            Source::Service(source) => source.ranges(table, readers).await,
            Source::Database(source) => source.ranges(table, readers).await,
            Source::Files(source) => source.ranges(table),
            Source::Archive(_) => Ok(vec![Range::Stream]),
        }
    }

    /// Sends the chunks of a range from a position on.
    pub async fn read(
        &self,
        table: &str,
        range: &Range,
        position: Option<Position>,
        chunks: Sender<Chunk>,
    ) -> Result<(), Failure> {
        match self {
            Source::Service(source) => source.read(table, range, position, chunks).await,
            Source::Database(source) => source.read(table, range, position, chunks).await,
            Source::Files(source) => source.read(table, range, position, chunks).await,
            Source::Archive(source) => source.read(table, chunks).await,
        }
    }

    /// Gives `take` the chunks of a range.
    pub async fn each_chunk(
        &self,
        table: &str,
        range: &Range,
        mut take: impl FnMut(Chunk) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (sender, mut chunks) = channel(1);
        let taking = async {
            while let Some(chunk) = chunks.recv().await {
                take(chunk)?;
            }
            Ok(())
        };
        tokio::try_join!(self.read(table, range, None, sender), taking)?;
        Ok(())
    }

    /// The stored access policies of a table as JSON; `None` if the source has none.
    pub async fn policies(&self, table: &str) -> Result<Option<String>, Failure> {
        match self {
            Source::Service(source) => source.client.policies(table).await.map(Some),
            Source::Database(source) => source.policies(table).await.map(Some),
            Source::Files(source) => source.document(&format!("{table}{POLICIES_ENDING}")),
            Source::Archive(_) => Ok(None),
        }
    }

    /// The properties of the service as JSON; `None` if the source has none.
    pub async fn service_properties(&self) -> Result<Option<String>, Failure> {
        match self {
            Source::Service(source) => source.client.service_properties().await.map(Some),
            Source::Database(source) => source.service_properties().await.map(Some),
            Source::Files(source) => source.document(SERVICE_FILE),
            Source::Archive(_) => Ok(None),
        }
    }
}
