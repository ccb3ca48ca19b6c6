//! The work of a request, as far as faults depend on it.

use http::Method;
use table_service_gateway::gateway::hook::HookedRequest;
use table_service_gateway::request::batch::{Batch, InnerRequest, read};
use table_service_gateway::request::body;
use table_service_gateway::request::operation::Operation;
use table_service_gateway::request::resource::{EntityAddress, Resource};
use table_service_model::table_name::fold;

use super::decision::hash;

/// The work of a request. A part that cannot be read is empty: the operation finds the error.
#[derive(Debug)]
pub struct Work {
    /// The method; of a batch, that of its first operation.
    method: &'static str,
    /// The table, in lower case.
    pub table: String,
    keys: Option<(String, String)>,
    /// The number of entities that count for the limits.
    pub entities: u32,
}

impl Work {
    #[cfg(test)]
    pub fn new(method: &'static str, table: &str, keys: Option<(&str, &str)>, entities: u32) -> Work {
        Work {
            method,
            table: fold(table),
            keys: keys.map(|(partition_key, row_key)| (partition_key.to_owned(), row_key.to_owned())),
            entities,
        }
    }

    /// Reads the work of a request.
    pub fn of(request: &HookedRequest<'_>) -> Work {
        let HookedRequest {
            tenant,
            head,
            operation,
            body,
        } = request;
        Work::read(
            &head.method,
            head.header("content-type"),
            operation,
            body,
            tenant.account.name(),
        )
    }

    fn read(method: &Method, content_type: Option<&str>, operation: &Operation, body: &[u8], account: &str) -> Work {
        let single = |table: &str, keys| Work {
            method: known(method),
            table: fold(table),
            keys,
            entities: 1,
        };
        match operation {
            Operation::Batch => match read(content_type, body) {
                Ok(Batch::Changes { requests, .. }) => {
                    let entities = u32::try_from(requests.len().max(1)).unwrap_or(u32::MAX);
                    let first = requests.first().map(|request| Work::inner(request, account));
                    let first = first.unwrap_or_else(|| single("", None));
                    Work { entities, ..first }
                }
                Ok(Batch::Read(request)) => Work::inner(&request, account),
                Err(_) => single("", None),
            },
            Operation::InsertEntity(table) => single(table, new_keys(body)),
            Operation::CreateTable => single(&body::table_name(body).unwrap_or_default(), None),
            other => single(other.table().unwrap_or_default(), other.address().map(keys)),
        }
    }

    fn inner(request: &InnerRequest<'_>, account: &str) -> Work {
        let (table, keys) = match request.resource(account) {
            Ok(Resource::Entity(address)) => (fold(&address.table), Some(keys(&address))),
            Ok(Resource::Entities(table)) => (fold(&table), new_keys(request.body)),
            _ => (String::new(), None),
        };
        Work {
            method: known(&request.method),
            table,
            keys,
            entities: 1,
        }
    }

    /// Returns a number that the same work always has, however the request is written.
    pub fn identity(&self) -> u64 {
        let (partition_key, row_key) = match &self.keys {
            Some((partition_key, row_key)) => (partition_key.as_str(), row_key.as_str()),
            None => ("", ""),
        };
        hash(&[self.method, &self.table, partition_key, row_key].map(str::as_bytes))
    }

    /// Returns the table and the PartitionKey, if the work is one entity's or a batch's.
    pub fn partition(&self) -> Option<(String, String)> {
        let (partition_key, _) = self.keys.as_ref()?;
        Some((self.table.clone(), partition_key.clone()))
    }
}

/// Returns the method as the service knows it. MERGE and PATCH are the same request.
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

fn new_keys(body: &[u8]) -> Option<(String, String)> {
    let entity = body::new_entity(body).ok()?;
    Some((entity.partition_key, entity.row_key))
}

#[cfg(test)]
mod tests {
    use table_service_gateway::request::query::Query;

    use super::*;

    fn work(method: &str, path: &str, content_type: &str, content: &str) -> Work {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let operation = Operation::read(&method, Resource::parse(path).unwrap(), &Query::parse("")).unwrap();
        Work::read(&method, Some(content_type), &operation, content.as_bytes(), "a")
    }

    fn single(method: &str, path: &str, content: &str) -> Work {
        work(method, path, "application/json", content)
    }

    fn batch(changes: &[&str]) -> Work {
        let parts = changes
            .iter()
            .map(|change| format!("--c\r\nContent-Type: application/http\r\n\r\n{change}\r\n"));
        let parts: String = parts.collect();
        let body = format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--\r\n--b--\r\n");
        work("POST", "/$batch", "multipart/mixed; boundary=b", &body)
    }

    const INSERT: &str = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}";

    #[test]
    fn a_batch_is_known_by_its_first_operation_and_counts_all_of_them() {
        let insert = format!("POST http://h/a/Things HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{INSERT}");
        let delete = "DELETE http://h/a/Things(PartitionKey='p',RowKey='s') HTTP/1.1\r\nIf-Match: *\r\n\r\n";
        for (changes, first) in [
            ([&*insert, delete], single("POST", "/Things", INSERT)),
            (
                [delete, &*insert],
                single("DELETE", "/Things(PartitionKey='p',RowKey='s')", ""),
            ),
        ] {
            let batch = batch(&changes);
            assert_eq!((batch.entities, first.entities), (2, 1));
            assert_eq!(batch.identity(), first.identity());
            assert_eq!(batch.partition(), Some(("things".to_owned(), "p".to_owned())));
        }
    }

    #[test]
    fn however_it_is_written_it_is_the_same_request() {
        let merge = single("MERGE", "/Things(PartitionKey='p',RowKey='r')", "{}");
        for path in [
            "/THINGS(PartitionKey='p',RowKey='r')",
            "/Things(RowKey='r',PartitionKey='p')",
        ] {
            assert_eq!(single("PATCH", path, "{}").identity(), merge.identity());
        }
        for other in [
            single("PUT", "/Things(PartitionKey='p',RowKey='r')", "{}"),
            single("MERGE", "/Others(PartitionKey='p',RowKey='r')", "{}"),
            single("MERGE", "/Things(PartitionKey='p',RowKey='s')", "{}"),
        ] {
            assert_ne!(other.identity(), merge.identity());
        }
    }

    #[test]
    fn requests_without_keys_are_in_no_partition() {
        for work in [
            single("GET", "/Things()", ""),
            single("POST", "/Tables", "{\"TableName\":\"Things\"}"),
            single("POST", "/Things", "no entity"),
        ] {
            assert_eq!((work.partition(), work.entities), (None, 1));
            assert_ne!(
                work.identity(),
                single("GET", "/Things(PartitionKey='p',RowKey='r')", "").identity()
            );
        }
    }
}
