//! A table written over REST: batches of one partition each.

use futures_util::{StreamExt, TryStreamExt, stream};
use http::Method;
use table_service_model::json::value_to_json;
use table_service_model::{EdmType, Value};

use crate::failure::Failure;
use crate::printable;
use crate::records::{Key, OnConflict, Outcome, Record, Reject, WriteMode};

use super::batch::{self, Operation};
use super::client::{Call, RestClient, ServiceError, quoted};

/// Entities of this weight are written as JSON at a time, which takes up to six times as much.
const WRITE_BYTES: usize = 2 << 20;
/// How often an entity is tried that others seem to write and delete at the same time.
const TRIES_OF_NEWER: u32 = 20;

impl RestClient {
    /// Makes a table if it is not there.
    ///
    /// # Errors
    /// An error of the service. A signature that may not create tables is enough if the table is there.
    pub async fn create(&self, table: &str) -> Result<(), Failure> {
        let body = format!("{{\"TableName\":\"{table}\"}}");
        let answer = self.send(&Call::write(Method::POST, "Tables", body)).await?;
        let error = answer.error();
        if answer.status.is_success() || error.code == "TableAlreadyExists" {
            return Ok(());
        }
        if answer.status.as_u16() == 403 && self.has(table).await? {
            return Ok(());
        }
        Err(self.failure(table, &error))
    }

    /// Returns whether a table is there.
    pub async fn has(&self, table: &str) -> Result<bool, Failure> {
        let answer = self.send(&Call::get(&format!("{table}()"), "$top=1")).await?;
        match answer.status.as_u16() {
            200..300 => Ok(true),
            404 => Ok(false),
            _ => Err(self.failure(table, &answer.error())),
        }
    }

    /// Deletes the entities that have these keys. Returns how many were there.
    pub async fn delete(&self, table: &str, keys: &[Key]) -> Result<u64, Failure> {
        let delete = |key: &Key| {
            let resource = point(table, &key.partition_key, &key.row_key);
            async move {
                let answer = self.send(&Call::delete(&resource, "*")).await?;
                match answer.status.as_u16() {
                    200..300 => Ok(1),
                    // An attempt without an answer may have deleted it.
                    404 => Ok(u64::from(answer.ambiguous)),
                    _ => Err(self.failure(table, &answer.error())),
                }
            }
        };
        stream::iter(keys.iter().map(delete))
            .buffer_unordered(batch::AT_ONCE)
            .try_fold(0, async |deleted, more| Ok(deleted + more))
            .await
    }

    /// A writer into a table.
    pub fn writer(&self, table: &str, mode: WriteMode) -> RestWriter {
        RestWriter {
            client: self.clone(),
            table: table.to_owned(),
            mode,
        }
    }
}

/// Writes entities into one table.
pub struct RestWriter {
    client: RestClient,
    table: String,
    mode: WriteMode,
}

/// An entity that is being written.
struct Prepared {
    record: Record,
    operation: Operation,
}

impl RestWriter {
    /// Writes entities with different keys.
    ///
    /// # Errors
    /// A service that stays away, or does not let the client write.
    pub async fn write(&self, records: Vec<Record>) -> Result<Outcome, Failure> {
        let mut outcome = Outcome::default();
        let mut part = Vec::new();
        let mut bytes = 0;
        for record in records {
            bytes += record.weight();
            part.push(record);
            if bytes >= WRITE_BYTES {
                outcome += self.write_part(std::mem::take(&mut part)).await?;
                bytes = 0;
            }
        }
        outcome += self.write_part(part).await?;
        Ok(outcome)
    }

    async fn write_part(&self, records: Vec<Record>) -> Result<Outcome, Failure> {
        if self.mode.on_conflict == OnConflict::Newer {
            return batch::at_once(records, |record| self.newer(record)).await;
        }
        let prepare = |record| Prepared {
            operation: self.operation(&record),
            record,
        };
        let root = self.client.url("").len();
        let batches = batch::groups(records.into_iter().map(prepare).collect(), |prepared| {
            let Prepared { record, operation } = prepared;
            let bytes = operation.body.len() + root + operation.resource.len() + 400;
            (&record.partition_key, bytes)
        });
        batch::at_once(batches, |batch| self.batch(batch)).await
    }

    fn operation(&self, record: &Record) -> Operation {
        let (method, resource) = match self.mode.on_conflict {
            OnConflict::Replace => (Method::PUT, self.point(record)),
            OnConflict::Merge => (Method::PATCH, self.point(record)),
            OnConflict::Fail | OnConflict::Skip | OnConflict::Newer => (Method::POST, self.table.clone()),
        };
        Operation {
            method,
            resource,
            body: payload(record),
            if_match: None,
        }
    }

    fn point(&self, record: &Record) -> String {
        point(&self.table, &record.partition_key, &record.row_key)
    }

    /// The stored entity that has the keys of a record, with its ETag, if it is there.
    async fn stored(&self, record: &Record) -> Result<Option<(Record, String)>, Failure> {
        let client = &self.client;
        let answer = client.send(&Call::get(&self.point(record), "")).await?;
        match answer.status.as_u16() {
            404 => Ok(None),
            200..300 => {
                let text = std::str::from_utf8(&answer.body).unwrap_or_default();
                let record = Record::from_json(text).map_err(|error| {
                    let problem = printable::said(&error.report());
                    Failure::new(format!("{}: {problem}", client.name()))
                })?;
                Ok(Some((record, answer.header("etag").unwrap_or("*").to_owned())))
            }
            _ => Err(client.failure(&self.table, &answer.error())),
        }
    }

    async fn batch(&self, batch: Vec<Prepared>) -> Result<Outcome, Failure> {
        if batch.len() > 1 {
            let operations: Vec<&Operation> = batch.iter().map(|prepared| &prepared.operation).collect();
            let (result, ambiguous) = batch::send(&self.client, &operations).await?;
            match result {
                Ok(()) => {
                    return Ok(written(batch.iter().map(|one| &one.record)));
                }
                Err(error) if is_fatal(&error) => return Err(self.client.failure(&self.table, &error)),
                // One entity refuses the batch; each for itself tells which.
                Err(_) => return batch::at_once(batch, |prepared| self.single(prepared, ambiguous)).await,
            }
        }
        batch::at_once(batch, |prepared| self.single(prepared, false)).await
    }

    async fn single(&self, prepared: Prepared, ambiguous: bool) -> Result<Outcome, Failure> {
        let Prepared { record, operation } = prepared;
        let call = Call::write(operation.method, &operation.resource, operation.body);
        let answer = self.client.send(&call).await?;
        if answer.status.is_success() {
            return Ok(written([&record]));
        }
        let error = answer.error();
        if is_fatal(&error) {
            return Err(self.client.failure(&self.table, &error));
        }
        if error.status == 409 && error.code == "EntityAlreadyExists" {
            if self.mode.on_conflict == OnConflict::Skip {
                return Ok(skipped());
            }
            if self.mode.resumed || ambiguous || answer.ambiguous {
                let there = self.stored(&record).await?;
                if there.is_some_and(|(there, _)| there.properties == record.properties) {
                    return Ok(written([&record]));
                }
            }
        }
        Ok(self.rejected(&record, error.text()))
    }

    fn rejected(&self, record: &Record, reason: String) -> Outcome {
        let reject = Reject::of_record(&self.table, record, reason);
        Outcome::of(|outcome| outcome.rejects.push(reject))
    }

    /// Inserts an entity, or replaces an older one.
    async fn newer(&self, record: Record) -> Result<Outcome, Failure> {
        let mut last = String::new();
        for _ in 0..TRIES_OF_NEWER {
            let there = self.stored(&record).await?;
            let point = self.point(&record);
            let (method, resource, etag) = match &there {
                None => (Method::POST, self.table.clone(), None),
                Some((there, _)) if there.timestamp >= record.timestamp => return Ok(skipped()),
                Some((_, etag)) => (Method::PUT, point, Some(etag.clone())),
            };
            let call = Call {
                if_match: etag.as_deref(),
                ..Call::write(method, &resource, payload(&record))
            };
            let answer = self.client.send(&call).await?;
            if answer.status.is_success() {
                return Ok(written([&record]));
            }
            let error = answer.error();
            match error.status {
                // Another client was faster; read again.
                409 if error.code == "EntityAlreadyExists" => {}
                412 | 404 if error.code != "TableNotFound" => {}
                _ if is_fatal(&error) => return Err(self.client.failure(&self.table, &error)),
                _ => return Ok(self.rejected(&record, error.text())),
            }
            last = error.text();
        }
        let reason =
            format!("It was tried {TRIES_OF_NEWER} times, and each time it was another one than before: {last}");
        Ok(self.rejected(&record, reason))
    }
}

/// A service gives its own Timestamps to entities.
fn written<'a>(records: impl IntoIterator<Item = &'a Record>) -> Outcome {
    let mut outcome = Outcome::default();
    for record in records {
        outcome.written += 1;
        outcome.new_timestamps += u64::from(record.timestamp.is_some());
    }
    outcome
}

fn skipped() -> Outcome {
    Outcome::of(|outcome| outcome.skipped = 1)
}

/// Returns whether no other entity would fare better.
pub fn is_fatal(error: &ServiceError) -> bool {
    matches!(error.status, 0 | 401 | 403) || matches!(error.code.as_str(), "TableNotFound" | "TableBeingDeleted")
}

/// The resource of an entity.
pub fn point(table: &str, partition_key: &str, row_key: &str) -> String {
    format!(
        "{table}(PartitionKey={},RowKey={})",
        quoted(partition_key),
        quoted(row_key)
    )
}

/// An entity in a form that other implementations of the protocol also read: every Double is annotated, because `1.0`
/// is an integer for some. A negative zero is a string, because their JSON numbers have none.
fn payload(record: &Record) -> String {
    let mut out = Vec::with_capacity(record.weight() * 2);
    let string = |out: &mut Vec<u8>, text: &str| out.extend(value_to_json(Value::String(text)));
    out.extend_from_slice(b"{\"PartitionKey\":");
    string(&mut out, &record.partition_key);
    out.extend_from_slice(b",\"RowKey\":");
    string(&mut out, &record.row_key);
    for (name, value) in record.properties.as_properties().iter() {
        let edm = value.edm_type();
        if !matches!(edm, EdmType::String | EdmType::Int32 | EdmType::Boolean) {
            out.extend_from_slice(format!(",\"{name}@odata.type\":\"{}\"", edm.name()).as_bytes());
        }
        out.extend_from_slice(format!(",\"{name}\":").as_bytes());
        match value {
            Value::Double(number) if number == 0.0 && number.is_sign_negative() => out.extend_from_slice(b"\"-0.0\""),
            value => out.extend(value_to_json(value)),
        }
    }
    out.push(b'}');
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_annotate_doubles() {
        let json =
            r#"{"PartitionKey":"p\"","RowKey":"r","A":1.0,"B":-0.0,"C":1,"D@odata.type":"Edm.Double","D":"NaN"}"#;
        let payload = payload(&Record::from_json(json).unwrap());
        assert_eq!(
            payload,
            r#"{"PartitionKey":"p\"","RowKey":"r","A@odata.type":"Edm.Double","A":1.0,"B@odata.type":"Edm.Double","B":"-0.0","C":1,"D@odata.type":"Edm.Double","D":"NaN"}"#
        );
        assert_eq!(Record::from_json(&payload).unwrap().json(), json);
    }
}
