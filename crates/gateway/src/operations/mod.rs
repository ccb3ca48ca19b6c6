//! What can be asked of the service, and which request asks for what (semantics 4).

mod acl;
mod batch;
pub mod cors;
mod entities;
mod query;
mod service;
mod tables;

use std::sync::OnceLock;

use bytes::Bytes;
use http::Method;
use table_service_model::Error;
use table_service_model::access::{self, Grant};
use table_service_model::error::RequestError;
use table_service_model::json::Metadata;

use crate::account::Tenant;
use crate::database::Session;
use crate::failure::Failure;
use crate::request::negotiation::Prefer;
use crate::request::query::Query;
use crate::request::resource::{EntityAddress, Resource};
use crate::request::{Head, MERGE};
use crate::response::Reply;
use crate::response::odata::Base;

/// An operation of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    Batch,
    GetServiceProperties,
    SetServiceProperties,
    GetServiceStats,
}

impl Operation {
    /// The operation of a verb on a resource.
    ///
    /// # Errors
    /// For verbs that the resource does not have, and parameters that it cannot have.
    pub fn of(method: &Method, resource: Resource, query: &Query) -> Result<Operation, RequestError> {
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
            // An entity without its keys.
            (Resource::Entities(_), ..) if is("PUT") || is("PATCH") || is(MERGE) || is("DELETE") => {
                Err(RequestError::UrlKeyCount)
            }
            (Resource::Entity(address), ..) if is("GET") => Ok(Operation::GetEntity(address)),
            (Resource::Entity(address), ..) if is("PUT") => Ok(Operation::ReplaceEntity(address)),
            (Resource::Entity(address), ..) if is("PATCH") || is(MERGE) => Ok(Operation::MergeEntity(address)),
            (Resource::Entity(address), ..) if is("DELETE") => Ok(Operation::DeleteEntity(address)),
            (Resource::Batch, ..) if is("POST") => Ok(Operation::Batch),
            _ => Err(RequestError::VerbNotSupported),
        }
    }

    /// The name for metrics and logs.
    pub fn name(&self) -> &'static str {
        match self {
            Operation::QueryTables => "QueryTables",
            Operation::GetTable(_) => "GetTable",
            Operation::CreateTable => "CreateTable",
            Operation::DeleteTable(_) => "DeleteTable",
            Operation::GetTableAcl(_) => "GetTableAcl",
            Operation::SetTableAcl(_) => "SetTableAcl",
            Operation::QueryEntities(_) => "QueryEntities",
            Operation::GetEntity(_) => "GetEntity",
            Operation::InsertEntity(_) => "InsertEntity",
            Operation::ReplaceEntity(_) => "ReplaceEntity",
            Operation::MergeEntity(_) => "MergeEntity",
            Operation::DeleteEntity(_) => "DeleteEntity",
            Operation::Batch => "Batch",
            Operation::GetServiceProperties => "GetServiceProperties",
            Operation::SetServiceProperties => "SetServiceProperties",
            Operation::GetServiceStats => "GetServiceStats",
        }
    }

    /// The table that it is on.
    pub fn table(&self) -> Option<&str> {
        match self {
            Operation::GetTable(table)
            | Operation::DeleteTable(table)
            | Operation::GetTableAcl(table)
            | Operation::SetTableAcl(table)
            | Operation::QueryEntities(table)
            | Operation::InsertEntity(table) => Some(table),
            Operation::GetEntity(address)
            | Operation::ReplaceEntity(address)
            | Operation::MergeEntity(address)
            | Operation::DeleteEntity(address) => Some(&address.table),
            _ => None,
        }
    }

    /// The entity that it is on, if the URL names it.
    pub fn address(&self) -> Option<&EntityAddress> {
        match self {
            Operation::GetEntity(address)
            | Operation::ReplaceEntity(address)
            | Operation::MergeEntity(address)
            | Operation::DeleteEntity(address) => Some(address),
            _ => None,
        }
    }

    /// What a grant must permit; `None` for a batch, whose operations are asked about one by one. `conditional` says
    /// whether If-Match was sent.
    pub fn permission(&self, conditional: bool) -> Option<access::Operation> {
        Some(match self {
            Operation::QueryTables | Operation::GetTable(_) => access::Operation::QueryTables,
            Operation::CreateTable => access::Operation::CreateTable,
            Operation::DeleteTable(_) => access::Operation::DeleteTable,
            Operation::GetTableAcl(_) => access::Operation::GetTableAcl,
            Operation::SetTableAcl(_) => access::Operation::SetTableAcl,
            Operation::QueryEntities(_) | Operation::GetEntity(_) => access::Operation::QueryEntities,
            Operation::InsertEntity(_) => access::Operation::InsertEntity,
            Operation::ReplaceEntity(_) | Operation::MergeEntity(_) if conditional => access::Operation::UpdateEntity,
            Operation::ReplaceEntity(_) | Operation::MergeEntity(_) => access::Operation::UpsertEntity,
            Operation::DeleteEntity(_) => access::Operation::DeleteEntity,
            Operation::GetServiceProperties => access::Operation::GetServiceProperties,
            Operation::SetServiceProperties => access::Operation::SetServiceProperties,
            Operation::GetServiceStats => access::Operation::GetServiceStats,
            Operation::Batch => return None,
        })
    }

    /// Whether it can be asked of the read-only endpoint.
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

    /// Whether `Prefer` has a meaning for it.
    pub fn has_preference(&self) -> bool {
        matches!(self, Operation::CreateTable | Operation::InsertEntity(_))
    }
}

/// What an operation needs to know beside its own parameters.
pub struct Context<'a> {
    pub tenant: &'a Tenant,
    pub session: Session<'a>,
    pub grant: &'a Grant,
    pub head: &'a Head,
    pub base: Base,
    /// The form of the response.
    pub metadata: Metadata,
    pub prefer: Option<Prefer>,
    /// The table and the partition that the body names, for the metrics.
    pub partition: OnceLock<(String, String)>,
}

/// Executes an operation that is authenticated and permitted; that is, but for single keys and the operations of a batch.
///
/// # Errors
/// Those of the operation.
pub async fn execute(context: &Context<'_>, operation: &Operation, body: Bytes) -> Result<Reply, Failure> {
    match operation {
        Operation::QueryTables => tables::query(context).await,
        Operation::GetTable(name) => tables::get(context, name).await,
        Operation::CreateTable => tables::create(context, &body).await,
        Operation::DeleteTable(name) => tables::delete(context, name).await,
        Operation::GetTableAcl(table) => acl::get(context, table).await,
        Operation::SetTableAcl(table) => acl::set(context, table, &body).await,
        Operation::QueryEntities(table) => query::query(context, table).await,
        Operation::GetEntity(address) => {
            let select = context.head.query.get("$select");
            entities::get(context, address, select, context.metadata).await
        }
        Operation::InsertEntity(table) => entities::insert(context, table, &body).await,
        Operation::ReplaceEntity(address) => entities::replace(context, address, &body).await,
        Operation::MergeEntity(address) => entities::merge(context, address, &body).await,
        Operation::DeleteEntity(address) => entities::delete(context, address).await,
        Operation::Batch => batch::execute(context, &body).await,
        Operation::GetServiceProperties => service::get_properties(context).await,
        Operation::SetServiceProperties => service::set_properties(context, &body).await,
        Operation::GetServiceStats => service::stats(),
    }
}

/// Refuses what an OData request may ask for and this service does not have (semantics 6.1).
///
/// # Errors
/// `NotImplemented`.
fn check_options(query: &Query) -> Result<(), Error> {
    const KNOWN: [&str; 4] = ["$filter", "$select", "$top", "$format"];
    for (name, _) in query.pairs() {
        if name.starts_with('$') && !KNOWN.contains(&name) {
            return Err(Error::NotImplemented {
                reason: format!("There is no query option {}", name.chars().take(64).collect::<String>()),
            });
        }
    }
    Ok(())
}

/// The number of entities or tables that a page is to have: `$top`, at most 1000.
///
/// # Errors
/// `InvalidInput`.
fn top(query: &Query) -> Result<Option<i64>, Error> {
    const PAGE: i64 = 1000;
    match query.get("$top") {
        None => Ok(None),
        Some(text) => match text.parse() {
            Ok(top @ 0..=PAGE) => Ok(Some(top)),
            _ => Err(Error::ArgumentInvalid {
                reason: format!("$top is a number from 0 to {PAGE}"),
            }),
        },
    }
}

/// The text of a body.
///
/// # Errors
/// `InvalidInput` for bytes that are not UTF-8.
fn text(body: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(body)
        .map(|text| text.trim_start_matches('\u{FEFF}'))
        .map_err(|_| Error::MalformedJson {
            reason: "The body is not UTF-8".to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &str, path: &str, query: &str) -> Result<&'static str, RequestError> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        Operation::of(&method, Resource::parse(path)?, &Query::parse(query)).map(|operation| operation.name())
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
            ("GET", "", "restype=service&comp=properties", "GetServiceProperties"),
            ("PUT", "", "restype=service&comp=properties", "SetServiceProperties"),
            ("GET", "", "restype=service&comp=stats", "GetServiceStats"),
        ] {
            assert_eq!(of(method, path, query), Ok(expected), "{method} {path}?{query}");
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
            assert_eq!(of(method, path, query), Err(error), "{method} {path}?{query}");
        }
    }

    #[test]
    fn top_is_0_to_1000() {
        for (text, expected) in [("0", Ok(Some(0))), ("1000", Ok(Some(1000)))] {
            assert_eq!(top(&Query::parse(&format!("$top={text}"))), expected);
        }
        for text in ["-1", "1001", "x", "", "1.0", "99999999999999999999"] {
            assert!(top(&Query::parse(&format!("$top={text}"))).is_err(), "{text}");
        }
    }
}
