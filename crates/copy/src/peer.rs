//! Any source and any target.

use table_service_model::Ticks;
use tokio::sync::mpsc::{Sender, channel};

use crate::archived::ArchiveSource;
use crate::cli::{Options, Work};
use crate::failure::Failure;
use crate::files::{FileSource, FileTarget, POLICIES_ENDING, SERVICE_FILE};
use crate::location::Location;
use crate::record::{Chunk, Key, Position, Range};
use crate::rest::{RestClient, RestSource};
use crate::sql::{Database, SqlSource};
use crate::write::OnConflict;

/// Where entities are read.
pub enum Source {
    Rest(Box<RestSource>),
    Sql(Box<SqlSource>),
    Files(FileSource),
    Archive(Box<ArchiveSource>),
}

impl Source {
    /// The source that an argument names. With `since`, only entities with this Timestamp or a later one are read.
    pub fn new(location: Location, options: &Options, since: Option<Ticks>) -> Result<Source, Failure> {
        let Work { files, reach, .. } = &options.work;
        let of_files = |path| FileSource::new(path, files, &options.reading, &options.tables);
        Ok(match location {
            Location::Rest(endpoint) => {
                let client = RestClient::new(endpoint, reach.patience())?;
                Source::Rest(Box::new(RestSource::new(client, since, &options.tables)))
            }
            Location::Sql(url) => Source::Sql(Box::new(SqlSource::new(reach.database(url)?, since))),
            Location::Path(path) => Source::Files(of_files(Some(path))),
            Location::Stream => Source::Files(of_files(None)),
        })
    }

    /// The notes on the reading for the report.
    pub fn note(&self) -> Option<&'static str> {
        match self {
            Source::Sql(source) => source.note(),
            Source::Rest(_) | Source::Files(_) | Source::Archive(_) => None,
        }
    }

    /// What reports and the resume file call it. It has no secret.
    pub fn name(&self) -> String {
        match self {
            Source::Rest(source) => source.client.name(),
            Source::Sql(source) => source.name().to_owned(),
            Source::Files(source) => source.name(),
            Source::Archive(source) => source.name(),
        }
    }

    /// What the source's clock shows; `None` for files.
    pub async fn clock(&self) -> Result<Option<Ticks>, Failure> {
        match self {
            Source::Rest(source) => source.clock().await,
            Source::Sql(source) => source.clock().await,
            Source::Files(_) | Source::Archive(_) => Ok(None),
        }
    }

    /// Ends the snapshot that the source has kept for this copy.
    pub async fn release(&self) {
        if let Source::Sql(source) = self {
            source.release().await;
        }
    }

    /// The names of all tables.
    pub async fn tables(&self) -> Result<Vec<String>, Failure> {
        match self {
            Source::Rest(source) => source.tables().await,
            Source::Sql(source) => source.tables().await,
            Source::Files(source) => source.tables(),
            Source::Archive(source) => Ok(source.tables()),
        }
    }

    /// The number of entities and of bytes of a table, as far as they are known without reading it.
    pub async fn estimate(&self, table: &str) -> Result<(Option<u64>, Option<u64>), Failure> {
        match self {
            Source::Rest(_) | Source::Archive(_) => Ok((None, None)),
            Source::Sql(source) => source.estimate(table).await,
            Source::Files(source) => Ok((None, source.bytes(table))),
        }
    }

    /// Divides a table into ranges for so many readers.
    pub async fn ranges(&self, table: &str, readers: usize) -> Result<Vec<Range>, Failure> {
        match self {
            Source::Rest(source) => source.ranges(table, readers).await,
            Source::Sql(source) => source.ranges(table, readers).await,
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
            Source::Rest(source) => source.read(table, range, position, chunks).await,
            Source::Sql(source) => source.read(table, range, position, chunks).await,
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
            Source::Rest(source) => source.client.policies(table).await.map(Some),
            Source::Sql(source) => source.policies(table).await.map(Some),
            Source::Files(source) => source.document(&format!("{table}{POLICIES_ENDING}")),
            Source::Archive(_) => Ok(None),
        }
    }

    /// The properties of the service as JSON; `None` if the source has none.
    pub async fn service_properties(&self) -> Result<Option<String>, Failure> {
        match self {
            Source::Rest(source) => source.client.service_properties().await.map(Some),
            Source::Sql(source) => source.service_properties().await.map(Some),
            Source::Files(source) => source.document(SERVICE_FILE),
            Source::Archive(_) => Ok(None),
        }
    }
}

/// Where entities are written.
pub enum Target {
    Rest(Box<RestClient>),
    Sql(Box<Database>),
    Files(FileTarget),
}

impl Target {
    /// The target that an argument names.
    pub fn new(location: Location, work: &Work) -> Result<Target, Failure> {
        let (files, reach) = (&work.files, &work.reach);
        Ok(match location {
            Location::Rest(endpoint) => Target::Rest(Box::new(RestClient::new(endpoint, reach.patience())?)),
            Location::Sql(url) => Target::Sql(Box::new(reach.database(url)?.for_writing())),
            Location::Path(path) => Target::Files(FileTarget::new(Some(path), files)?),
            Location::Stream => Target::Files(FileTarget::new(None, files)?),
        })
    }

    /// What reports and the resume file call it. It has no secret.
    pub fn name(&self) -> String {
        match self {
            Target::Rest(target) => target.name(),
            Target::Sql(target) => target.name.clone(),
            Target::Files(target) => target.name(),
        }
    }

    /// Makes a table if it is not there. A file is made when its entities come.
    pub async fn create(&self, table: &str) -> Result<(), Failure> {
        match self {
            Target::Rest(target) => target.create(table).await,
            Target::Sql(target) => target.create(table).await,
            Target::Files(_) => Ok(()),
        }
    }

    /// Returns whether a table is there; `None` if the target cannot say.
    pub async fn has(&self, table: &str) -> Result<Option<bool>, Failure> {
        match self {
            Target::Rest(target) => target.has(table).await.map(Some),
            Target::Sql(target) => target.has(table).await.map(Some),
            Target::Files(target) => Ok(target.file_of(table).map(|file| file.exists())),
        }
    }

    /// Checks that what is to happen to entities that are there already can happen.
    pub fn check_conflicts(&self, on_conflict: OnConflict) -> Result<(), Failure> {
        match self {
            Target::Files(_) if !matches!(on_conflict, OnConflict::Fail | OnConflict::Replace) => Err(Failure::usage(
                "A file is written anew: give --on-conflict fail or replace.",
            )),
            _ => Ok(()),
        }
    }

    /// Checks that there is room for so many tables.
    pub fn check_room(&self, tables: usize) -> Result<(), Failure> {
        match self {
            Target::Files(files) if tables > 1 && files.holds_one_table() => Err(Failure::usage(format!(
                "{} is one file, but there are {tables} tables. Give a directory, or --table.",
                files.name()
            ))),
            _ => Ok(()),
        }
    }

    /// Deletes the entities that have these keys, if they are there. Files keep theirs.
    pub async fn delete(&self, table: &str, keys: &[Key]) -> Result<(), Failure> {
        match self {
            Target::Rest(target) => target.delete(table, keys).await,
            Target::Sql(target) => target.delete(table, keys).await,
            Target::Files(_) => Ok(()),
        }
    }

    /// Stores the policies of a table; false if the target cannot hold them.
    pub async fn set_policies(&self, table: &str, json: &str) -> Result<bool, Failure> {
        match self {
            Target::Rest(target) => target.set_policies(table, json).await.map(|()| true),
            Target::Sql(target) => target.set_policies(table, json).await.map(|()| true),
            Target::Files(target) => target.write_document(&format!("{table}{POLICIES_ENDING}"), json),
        }
    }

    /// Stores the properties of the service.
    pub async fn set_service_properties(&self, json: &str) -> Result<(), Failure> {
        match self {
            Target::Rest(target) => target.set_service_properties(json).await,
            Target::Sql(target) => target.set_service_properties(json).await,
            Target::Files(target) => target.write_document(SERVICE_FILE, json).map(|_| ()),
        }
    }
}
