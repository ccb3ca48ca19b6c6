//! The operation that a request asks for (semantics 4).

use http::Method;
use strum::IntoStaticStr;
use table_service_model::{RequestError, access, limits};

use super::headers::MERGE;
use super::query::Query;
use super::resource::{EntityAddress, Misplaced, Resource};

/// The longest document that is read. Valid ones are much shorter.
const XML_BYTES: usize = 64 * 1024;

/// An operation of the service.
#[derive(Debug, Clone, PartialEq, Eq, IntoStaticStr)]
pub enum Operation {
    QueryTables,
    GetTable(String),
    CreateTable,
    DeleteTable(String),
    GetTableAcl(String),
    SetTableAcl(String),
    QueryEntities(String),
    GetEntity(EntityAddress),
    InsertEntity(String),
    /// Replace, or insert or replace.
    ReplaceEntity(EntityAddress),
    /// Merge, or insert or merge.
    MergeEntity(EntityAddress),
    DeleteEntity(EntityAddress),
    /// Delete Table with an endpoint that ends with the name of a table, by mistake.
    #[strum(serialize = "DeleteEntity")]
    DeleteMisplacedTable(String),
    Batch,
    GetServiceProperties,
    SetServiceProperties,
    GetServiceStats,
}

impl Operation {
    /// Returns the operation for a method on a resource.
    ///
    /// # Errors
    /// For a method that the resource does not have, and for parameters that it cannot have.
    pub fn read(method: &Method, resource: Resource, query: &Query) -> Result<Operation, RequestError> {
        let is = |name: &str| method.as_str() == name;
        let (comp, restype) = (query.get("comp"), query.get("restype"));
        match (resource, comp, restype) {
            (Resource::Service, Some("properties"), Some("service")) if is("GET") => {
                Ok(Operation::GetServiceProperties)
            }
            (Resource::Service, Some("properties"), Some("service")) if is("PUT") => {
                Ok(Operation::SetServiceProperties)
            }
            (Resource::Service, Some("stats"), Some("service")) if is("GET") => Ok(Operation::GetServiceStats),
            (Resource::Service, Some("properties" | "stats"), Some("service")) => Err(RequestError::VerbNotSupported),
            (_, _, Some(_)) => Err(RequestError::QueryParameterInvalid { name: "restype" }),
            (Resource::Entities(table), Some("acl"), None) if is("GET") || is("HEAD") => {
                Ok(Operation::GetTableAcl(table))
            }
            (Resource::Entities(table), Some("acl"), None) if is("PUT") => Ok(Operation::SetTableAcl(table)),
            (Resource::Entities(_), Some("acl"), None) => Err(RequestError::VerbNotSupported),
            (_, Some(_), None) => Err(RequestError::QueryParameterInvalid { name: "comp" }),
            (Resource::Service, None, None) => Err(RequestError::UriInvalid),
            (Resource::Tables, ..) if is("GET") => Ok(Operation::QueryTables),
            (Resource::Tables, ..) if is("POST") => Ok(Operation::CreateTable),
            (Resource::Table(name), ..) if is("GET") => Ok(Operation::GetTable(name)),
            (Resource::Table(name), ..) if is("DELETE") => Ok(Operation::DeleteTable(name)),
            (Resource::Entities(table), ..) if is("GET") => Ok(Operation::QueryEntities(table)),
            (Resource::Entities(table), ..) if is("POST") => Ok(Operation::InsertEntity(table)),
            // The path of an entity without its keys.
            (Resource::Entities(_), ..) if is("PUT") || is("PATCH") || is(MERGE) || is("DELETE") => {
                Err(RequestError::UrlKeyCount)
            }
            (Resource::Entity(address), ..) if is("GET") => Ok(Operation::GetEntity(address)),
            (Resource::Entity(address), ..) if is("PUT") => Ok(Operation::ReplaceEntity(address)),
            (Resource::Entity(address), ..) if is("PATCH") || is(MERGE) => Ok(Operation::MergeEntity(address)),
            (Resource::Entity(address), ..) if is("DELETE") => Ok(Operation::DeleteEntity(address)),
            (Resource::Batch, ..) if is("POST") => Ok(Operation::Batch),
            // The service answers as to an insert, and to a batch that it cannot read. SDKs explain these answers.
            (Resource::Misplaced { table, resource }, ..) => match resource {
                Misplaced::Tables if is("POST") => Ok(Operation::InsertEntity(table)),
                Misplaced::Batch if is("POST") => Err(RequestError::MediaTypeNotSupported),
                Misplaced::Table if is("DELETE") => Ok(Operation::DeleteMisplacedTable(table)),
                Misplaced::Table => Err(RequestError::UrlKeyCount),
                Misplaced::Tables | Misplaced::Batch => Err(RequestError::UriInvalid),
            },
            _ => Err(RequestError::VerbNotSupported),
        }
    }

    /// Returns the name for metrics and logs.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// Returns the table of the operation.
    pub fn table(&self) -> Option<&str> {
        match self {
            Operation::GetTable(table)
            | Operation::DeleteTable(table)
            | Operation::GetTableAcl(table)
            | Operation::SetTableAcl(table)
            | Operation::QueryEntities(table)
            | Operation::InsertEntity(table)
            | Operation::DeleteMisplacedTable(table) => Some(table),
            _ => self.address().map(|address| address.table.as_str()),
        }
    }

    /// Returns the entity of the operation, if its URL names one.
    pub fn address(&self) -> Option<&EntityAddress> {
        match self {
            Operation::GetEntity(address)
            | Operation::ReplaceEntity(address)
            | Operation::MergeEntity(address)
            | Operation::DeleteEntity(address) => Some(address),
            _ => None,
        }
    }

    /// Returns the operation that a grant must permit. `None` for a batch: its operations are checked one by one.
    /// `conditional` says whether there is an If-Match.
    pub fn permission(&self, conditional: bool) -> Option<access::ServiceOperation> {
        Some(match self {
            Operation::QueryTables | Operation::GetTable(_) => access::ServiceOperation::QueryTables,
            Operation::CreateTable => access::ServiceOperation::CreateTable,
            Operation::DeleteTable(_) => access::ServiceOperation::DeleteTable,
            Operation::GetTableAcl(_) => access::ServiceOperation::GetTableAcl,
            Operation::SetTableAcl(_) => access::ServiceOperation::SetTableAcl,
            Operation::QueryEntities(_) | Operation::GetEntity(_) => access::ServiceOperation::QueryEntities,
            Operation::InsertEntity(_) => access::ServiceOperation::InsertEntity,
            Operation::ReplaceEntity(_) | Operation::MergeEntity(_) if conditional => {
                access::ServiceOperation::UpdateEntity
            }
            Operation::ReplaceEntity(_) | Operation::MergeEntity(_) => access::ServiceOperation::UpsertEntity,
            Operation::DeleteEntity(_) | Operation::DeleteMisplacedTable(_) => access::ServiceOperation::DeleteEntity,
            Operation::GetServiceProperties => access::ServiceOperation::GetServiceProperties,
            Operation::SetServiceProperties => access::ServiceOperation::SetServiceProperties,
            Operation::GetServiceStats => access::ServiceOperation::GetServiceStats,
            Operation::Batch => return None,
        })
    }

    /// Returns whether the operation only reads, so that the secondary endpoint has it.
    pub fn reads(&self) -> bool {
        matches!(
            self,
            Operation::QueryTables
                | Operation::GetTable(_)
                | Operation::GetTableAcl(_)
                | Operation::QueryEntities(_)
                | Operation::GetEntity(_)
                | Operation::GetServiceProperties
                | Operation::GetServiceStats
        )
    }

    /// Returns the longest body of the operation.
    pub fn body_limit(&self) -> usize {
        match self {
            Operation::SetTableAcl(_) | Operation::SetServiceProperties => XML_BYTES,
            _ => limits::BATCH_BYTES,
        }
    }

    /// Returns whether `Prefer` has a meaning for the operation.
    pub fn has_preference(&self) -> bool {
        matches!(self, Operation::CreateTable | Operation::InsertEntity(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(method: &str, path: &str, query: &str) -> Result<&'static str, RequestError> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        Operation::read(&method, Resource::parse(path).unwrap(), &Query::parse(query)).map(|operation| operation.name())
    }

    #[test]
    fn every_operation_has_its_request() {
        let entity = "t(PartitionKey='p',RowKey='r')";
        for (method, path, query, expected) in [
            ("GET", "Tables", "", "QueryTables"),
            ("GET", "Tables()", "$top=1", "QueryTables"),
            ("GET", "Tables('t')", "", "GetTable"),
            ("POST", "Tables", "", "CreateTable"),
            ("DELETE", "Tables('t')", "", "DeleteTable"),
            ("GET", "t", "comp=acl", "GetTableAcl"),
            ("PUT", "t", "comp=acl", "SetTableAcl"),
            ("GET", "t()", "", "QueryEntities"),
            ("GET", entity, "", "GetEntity"),
            ("POST", "t", "", "InsertEntity"),
            ("PUT", entity, "", "ReplaceEntity"),
            ("PATCH", entity, "", "MergeEntity"),
            ("MERGE", entity, "", "MergeEntity"),
            ("DELETE", entity, "", "DeleteEntity"),
            ("POST", "$batch", "", "Batch"),
            ("POST", "t/Tables", "", "InsertEntity"),
            ("DELETE", "t/Tables('t')", "", "DeleteEntity"),
            ("GET", "", "restype=service&comp=properties", "GetServiceProperties"),
            ("PUT", "", "restype=service&comp=properties", "SetServiceProperties"),
            ("GET", "", "restype=service&comp=stats", "GetServiceStats"),
        ] {
            assert_eq!(name(method, path, query), Ok(expected), "{method} {path}?{query}");
        }
    }

    #[test]
    fn other_requests_are_refused() {
        let entity = "t(PartitionKey='p',RowKey='r')";
        for (method, path, query, error) in [
            ("PUT", "t", "", RequestError::UrlKeyCount),
            ("DELETE", "t", "", RequestError::UrlKeyCount),
            ("POST", entity, "", RequestError::VerbNotSupported),
            ("GET", "$batch", "", RequestError::VerbNotSupported),
            ("PUT", "Tables('t')", "", RequestError::VerbNotSupported),
            (
                "DELETE",
                "",
                "restype=service&comp=properties",
                RequestError::VerbNotSupported,
            ),
            ("GET", "", "", RequestError::UriInvalid),
            ("GET", "t/Tables", "", RequestError::UriInvalid),
            ("GET", "t/Tables('t')", "", RequestError::UrlKeyCount),
            ("POST", "t/$batch", "", RequestError::MediaTypeNotSupported),
            (
                "GET",
                "t",
                "restype=service&comp=properties",
                RequestError::QueryParameterInvalid { name: "restype" },
            ),
            (
                "GET",
                "t",
                "comp=x",
                RequestError::QueryParameterInvalid { name: "comp" },
            ),
        ] {
            assert_eq!(name(method, path, query), Err(error), "{method} {path}?{query}");
        }
    }
}
