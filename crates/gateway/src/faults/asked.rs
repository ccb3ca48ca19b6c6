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

    /// Returns the table, in lower case.
    pub fn table(&self) -> &str {
        &self.table
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

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use uuid::Uuid;

    use super::*;
    use crate::request::Peer;

    fn asked(method: &str, path: &str, content_type: &str, content: &str) -> Asked {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", content_type)
            .body(())
            .unwrap();
        let peer = Peer {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            https: false,
        };
        let head = Head::read(Uuid::nil(), peer, request.into_parts().0).unwrap();
        let operation = Operation::read(&head.method, Resource::parse(path).unwrap(), &head.query).unwrap();
        Asked::of(&head, &operation, content.as_bytes(), "a")
    }

    fn alone(method: &str, path: &str, content: &str) -> Asked {
        asked(method, path, "application/json", content)
    }

    fn batch(changes: &[&str]) -> Asked {
        let parts = changes
            .iter()
            .map(|change| format!("--c\r\nContent-Type: application/http\r\n\r\n{change}\r\n"));
        let parts: String = parts.collect();
        let body = format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--\r\n--b--\r\n");
        asked("POST", "/$batch", "multipart/mixed; boundary=b", &body)
    }

    const INSERT: &str = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}";

    #[test]
    fn a_batch_is_known_by_its_first_operation_and_counts_all_of_them() {
        let insert = format!("POST http://h/a/Things HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{INSERT}");
        let delete = "DELETE http://h/a/Things(PartitionKey='p',RowKey='s') HTTP/1.1\r\nIf-Match: *\r\n\r\n";
        for (changes, first) in [
            ([&*insert, delete], alone("POST", "/Things", INSERT)),
            (
                [delete, &*insert],
                alone("DELETE", "/Things(PartitionKey='p',RowKey='s')", ""),
            ),
        ] {
            let batch = batch(&changes);
            assert_eq!((batch.entities, first.entities), (2, 1));
            assert_eq!(batch.identity(), first.identity());
            assert_eq!(batch.partition(3), Some((3, "things".to_owned(), "p".to_owned())));
        }
    }

    #[test]
    fn however_it_is_written_it_is_the_same_request() {
        let merge = alone("MERGE", "/Things(PartitionKey='p',RowKey='r')", "{}");
        for path in [
            "/THINGS(PartitionKey='p',RowKey='r')",
            "/Things(RowKey='r',PartitionKey='p')",
        ] {
            assert_eq!(alone("PATCH", path, "{}").identity(), merge.identity());
        }
        for other in [
            alone("PUT", "/Things(PartitionKey='p',RowKey='r')", "{}"),
            alone("MERGE", "/Others(PartitionKey='p',RowKey='r')", "{}"),
            alone("MERGE", "/Things(PartitionKey='p',RowKey='s')", "{}"),
        ] {
            assert_ne!(other.identity(), merge.identity());
        }
    }

    #[test]
    fn requests_without_keys_are_in_no_partition() {
        for asked in [
            alone("GET", "/Things()", ""),
            alone("POST", "/Tables", "{\"TableName\":\"Things\"}"),
            alone("POST", "/Things", "no entity"),
        ] {
            assert_eq!((asked.partition(0), asked.entities), (None, 1));
            assert_eq!(asked.identity().partition_key, "");
        }
    }
}
