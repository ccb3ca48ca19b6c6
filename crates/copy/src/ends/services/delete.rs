//! Entities deleted over REST, each in the version that passed the filter.
//!
//! Others may change an entity after its keys were read, so that it no longer passes. So a delete names the ETag that was
//! read with the keys; an entity that has another one is read again with the filter, and deleted in its new version if it
//! still passes.

use http::Method;

use crate::failure::Failure;
use crate::records::{Outcome, Reject};

use super::batch::{self, Operation};
use super::client::{Call, ServiceError, filter_literal};
use super::keys::{KeyReader, Keyed};
use super::source::RestSource;
use super::target::{is_fatal, point};

/// How many entities of a batch may be gone or changed before each is deleted for itself.
const FAULTS_OF_A_BATCH: usize = 5;
/// How often an entity is tried that others change again and again.
const TRIES: u32 = 20;

/// Deletes entities of one table that pass a filter.
pub struct RestDeleter<'a> {
    pub source: &'a RestSource,
    pub table: &'a str,
    pub filter: Option<&'a str>,
}

impl RestDeleter<'_> {
    /// Deletes entities with different keys.
    ///
    /// # Errors
    /// A service that stays away, or does not let the client delete.
    pub async fn delete(&self, keys: Vec<Keyed>) -> Result<Outcome, Failure> {
        let batches = batch::groups(keys, |keyed| {
            // Escaped, a character has three bytes for each of its own.
            let bytes = 3 * (keyed.partition_key.len() + keyed.row_key.len()) + keyed.etag.len() + 600;
            (&keyed.partition_key, bytes)
        });
        batch::at_once(batches, |batch| self.batch(batch)).await
    }

    async fn batch(&self, mut batch: Vec<Keyed>) -> Result<Outcome, Failure> {
        let client = &self.source.client;
        let mut removed = Outcome::default();
        let mut ambiguous = false;
        for _ in 0..FAULTS_OF_A_BATCH {
            if batch.len() < 2 {
                break;
            }
            let operations: Vec<Operation> = batch
                .iter()
                .map(|keyed| Operation {
                    method: Method::DELETE,
                    resource: self.point(keyed),
                    body: String::new(),
                    if_match: Some(keyed.etag.clone()),
                })
                .collect();
            let operations: Vec<&Operation> = operations.iter().collect();
            let (result, is_ambiguous) = batch::send(client, &operations).await?;
            let error = match result {
                Ok(()) => {
                    removed.deleted += batch.len() as u64;
                    return Ok(removed);
                }
                Err(error) if is_fatal(&error) => return Err(client.failure(self.table, &error)),
                Err(error) => error,
            };
            // A batch without an answer may have deleted all of them.
            ambiguous = is_ambiguous;
            let Some(index) = index_of(&error).filter(|&index| index < batch.len() && !ambiguous) else {
                break;
            };
            // Whether it is gone or changed, it is seen for itself; the others are tried again without it.
            let keyed = batch.remove(index);
            removed += self.single(keyed, false).await?;
        }
        removed += batch::at_once(batch, |keyed| self.single(keyed, ambiguous)).await?;
        Ok(removed)
    }

    async fn single(&self, mut keyed: Keyed, ambiguous: bool) -> Result<Outcome, Failure> {
        let client = &self.source.client;
        let mut reason = String::new();
        for _ in 0..TRIES {
            let answer = client.send(&Call::delete(&self.point(&keyed), &keyed.etag)).await?;
            if answer.status.is_success() {
                return Ok(Outcome::of(|outcome| outcome.deleted = 1));
            }
            let error = answer.error();
            match error.status {
                _ if is_fatal(&error) => return Err(client.failure(self.table, &error)),
                // An earlier try has done it, although its answer did not come.
                404 if ambiguous || answer.ambiguous => return Ok(Outcome::of(|outcome| outcome.deleted = 1)),
                404 => return Ok(Outcome::of(|outcome| outcome.gone = 1)),
                412 => match self.read_again(&keyed).await? {
                    Some(there) => keyed = there,
                    None => return Ok(Outcome::of(|outcome| outcome.changed = 1)),
                },
                _ => return Ok(self.rejected(&keyed, error.text())),
            }
            reason = format!(
                "It was tried {TRIES} times, and each time it was another one than before: {}",
                error.text()
            );
        }
        Ok(self.rejected(&keyed, reason))
    }

    /// An entity as it is now, if it is there and passes the filter.
    async fn read_again(&self, keyed: &Keyed) -> Result<Option<Keyed>, Failure> {
        let keys = format!(
            "PartitionKey eq {} and RowKey eq {}",
            filter_literal(&keyed.partition_key),
            filter_literal(&keyed.row_key)
        );
        let mut reader = KeyReader::new(self.source, self.table, &[Some(&keys), self.filter], None);
        while let Some((found, _)) = reader.next().await? {
            if !found.is_empty() {
                let is_it =
                    |found: &Keyed| found.partition_key == keyed.partition_key && found.row_key == keyed.row_key;
                return Ok(found.into_iter().find(is_it));
            }
        }
        Ok(None)
    }

    fn point(&self, keyed: &Keyed) -> String {
        point(self.table, &keyed.partition_key, &keyed.row_key)
    }

    fn rejected(&self, keyed: &Keyed, reason: String) -> Outcome {
        let reject = Reject::of_key(self.table, &keyed.partition_key, &keyed.row_key, reason);
        Outcome::of(|outcome| outcome.rejects.push(reject))
    }
}

/// Which operation of a batch an error is about: its message begins with the number.
fn index_of(error: &ServiceError) -> Option<usize> {
    error.message.split_once(':')?.0.trim().parse().ok()
}
