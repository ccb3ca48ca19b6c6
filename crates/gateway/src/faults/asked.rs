//! What a request asks for, as far as faults depend on it.

use http::Method;
use table_service_model::table_name::fold;

use super::decision::Identity;
use crate::request::batch::{Batch, InnerRequest, read};
use crate::request::operation::Operation;
use crate::request::resource::{EntityAddress, Resource};
use crate::request::{Head, body};

/// What a request asks for. What does not parse leaves its part empty: the operation says what is wrong.
#[derive(Debug)]
pub struct Asked {
    /// Of a batch, that of its first operation.
    method: &'static str,
    table: String,
    keys: Option<(String, String)>,
    /// How many entities count for the limits.
    pub entities: u32,
}

impl Asked {
    #[cfg(test)]
    pub fn new(method: &'static str, table: &str, keys: Option<(&str, &str)>, entities: u32) -> Asked {
        Asked {
            method,
            table: fold(table),
            keys: keys.map(|(partition_key, row_key)| (partition_key.to_owned(), row_key.to_owned())),
            entities,
        }
    }

    /// Reads a request. `account` is the name of its account.
    pub fn of(head: &Head, operation: &Operation, content: &[u8], account: &str) -> Asked {
        let alone = |method: &Method, table: &str, keys| Asked {
            method: known(method),
            table: fold(table),
            keys,
            entities: 1,
        };
        match operation {
            Operation::Batch => match read(head.header("content-type"), content) {
                Ok(Batch::Changes { requests, .. }) => {
                    let entities = u32::try_from(requests.len().max(1)).unwrap_or(u32::MAX);
                    let first = requests.first().map(|request| Asked::inner(request, account));
                    let first = first.unwrap_or_else(|| alone(&head.method, "", None));
                    Asked { entities, ..first }
                }
                Ok(Batch::Read(request)) => Asked::inner(&request, account),
                Err(_) => alone(&head.method, "", None),
            },
            Operation::InsertEntity(table) => alone(&head.method, table, new_keys(content)),
            Operation::CreateTable => {
                let table = body::table_name(content).unwrap_or_default();
                alone(&head.method, &table, None)
            }
            other => {
                let table = other.table().unwrap_or_default();
                alone(&head.method, table, other.address().map(keys))
            }
        }
    }

    fn inner(request: &InnerRequest<'_>, account: &str) -> Asked {
        let (table, keys) = match request.resource(account) {
            Ok(Resource::Entity(address)) => (fold(&address.table), Some(keys(&address))),
            Ok(Resource::Entities(table)) => (fold(&table), new_keys(request.body)),
            _ => (String::new(), None),
        };
        Asked {
            method: known(&request.method),
            table,
            keys,
            entities: 1,
        }
    }

    pub fn identity(&self) -> Identity<'_> {
        let (partition_key, row_key) = match &self.keys {
            Some((partition_key, row_key)) => (partition_key.as_str(), row_key.as_str()),
            None => ("", ""),
        };
        Identity {
            method: self.method,
            table: &self.table,
            partition_key,
            row_key,
        }
    }

    /// Returns the partition of an account, if it is one entity's or a batch's.
    pub fn partition(&self, account: usize) -> Option<(usize, String, String)> {
        let (partition_key, _) = self.keys.as_ref()?;
        Some((account, self.table.clone(), partition_key.clone()))
    }
}

/// Returns the methods of the service. Clients send MERGE as PATCH, or PATCH as MERGE: it is the same request.
fn known(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        _ => "MERGE",
    }
}

fn keys(address: &EntityAddress) -> (String, String) {
    (address.partition_key.clone(), address.row_key.clone())
}

fn new_keys(content: &[u8]) -> Option<(String, String)> {
    let entity = body::new_entity(content).ok()?;
    Some((entity.partition_key, entity.row_key))
}
