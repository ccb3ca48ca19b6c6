//! Any target.

use crate::failure::Failure;
use crate::records::{Key, OnConflict};

use super::databases::Database;
use super::files::{FileTarget, POLICIES_ENDING, SERVICE_FILE};
use super::services::RestClient;

/// Where entities are written.
pub enum Target {
    Service(Box<RestClient>),
    Database(Box<Database>),
    Files(FileTarget),
}

impl Target {
    /// Its name in reports and in the resume file, without a secret.
    pub fn name(&self) -> String {
        match self {
            Target::Service(target) => target.name(),
            Target::Database(target) => target.name.clone(),
            Target::Files(target) => target.name(),
        }
    }

    /// Makes a table if it is not there. A file is made when its entities come.
    pub async fn create(&self, table: &str) -> Result<(), Failure> {
        match self {
            Target::Service(target) => target.create(table).await,
            Target::Database(target) => target.create(table).await,
            Target::Files(_) => Ok(()),
        }
    }

    /// Returns whether a table is there; `None` if the target cannot say.
    pub async fn has(&self, table: &str) -> Result<Option<bool>, Failure> {
        match self {
            Target::Service(target) => target.has(table).await.map(Some),
            Target::Database(target) => target.has(table).await.map(Some),
            Target::Files(target) => Ok(target.file_of(table).map(|file| file.exists())),
        }
    }

    /// Checks that the target can treat entities that are there already in this way.
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

    /// Deletes the entities that have these keys. Returns how many were there. Files keep theirs.
    pub async fn delete(&self, table: &str, keys: &[Key]) -> Result<u64, Failure> {
        match self {
            Target::Service(target) => target.delete(table, keys).await,
            Target::Database(target) => target.delete(table, keys).await,
            Target::Files(_) => Ok(0),
        }
    }

    /// Stores the policies of a table; false if the target cannot hold them.
    pub async fn set_policies(&self, table: &str, json: &str) -> Result<bool, Failure> {
        match self {
            Target::Service(target) => target.set_policies(table, json).await.map(|()| true),
            Target::Database(target) => target.set_policies(table, json).await.map(|()| true),
            Target::Files(target) => target.write_document(&format!("{table}{POLICIES_ENDING}"), json),
        }
    }

    /// Stores the properties of the service.
    pub async fn set_service_properties(&self, json: &str) -> Result<(), Failure> {
        match self {
            Target::Service(target) => target.set_service_properties(json).await,
            Target::Database(target) => target.set_service_properties(json).await,
            Target::Files(target) => target.write_document(SERVICE_FILE, json).map(|_| ()),
        }
    }
}
