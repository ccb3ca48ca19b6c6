//! Entity group transactions (semantics 5).
//!
//! All that needs no data is checked here, in the order of the operations, so that the first wrong one is
//! reported. The database checks the rest. If an operation fails, the response is still 202 and has one part with the
//! error. If the whole request fails, the response is an error.

use std::collections::HashSet;

use http::{Method, StatusCode};
use table_service_model::batch::Action;
use table_service_model::error::Stage;
use table_service_model::limits::BATCH_OPERATIONS;
use table_service_model::table_name::fold;
use table_service_model::{Code, Error, PropertiesBuf, RequestError, access, json, key};

use super::context::Context;
use super::entities::{self, inserted};
use crate::database::{BagParameter, BatchOperation};
use crate::failure::Failure;
use crate::limits::blocking::on_payload;
use crate::limits::needs::Need;
use crate::limits::shares::Share;
use crate::request::batch::{self, Batch, InnerRequest};
use crate::request::negotiation::{Prefer, accepted, check_content_type};
use crate::request::resource::{EntityAddress, Resource};
use crate::request::{MERGE, body, if_match};
use crate::response::batch::Part;
use crate::response::error::{self, Form};
use crate::response::{Reply, batch as response};

/// The DataServiceVersion of parts with data, and of parts without.
const DATA: &str = "3.0;";
const NOTHING: &str = "1.0;";

/// One operation that was read and checked.
struct CheckedOperation<'b> {
    action: Action,
    table: String,
    partition_key: String,
    row_key: String,
    properties: Option<PropertiesBuf>,
    if_match: Option<&'b str>,
    prefer: Option<Prefer>,
}

/// Executes a batch.
pub async fn execute(context: &Context<'_>, content: &[u8], memory: &mut Share) -> Result<Reply, Failure> {
    match on_payload(content.len(), || {
        batch::read(context.head.header("content-type"), content)
    })? {
        Batch::Read(request) => read(context, &request).await,
        Batch::Changes { requests, further } => {
            memory.shrink(Need::of_changes(content.len()));
            let (parts, error) = match execute_changes(context, &requests).await {
                Ok(parts) => (parts, None),
                Err(failure) => {
                    let part = failed(context, &requests, failure)?;
                    let error = part.reply.error.clone();
                    (vec![part], error)
                }
            };
            let refused: Vec<Part> = (0..further).map(|_| refused(context)).collect();
            let mut reply = response::changes(parts, &refused);
            reply.error = error;
            Ok(reply)
        }
    }
}

/// Returns the response to a change set behind the first.
fn refused(context: &Context<'_>) -> Part {
    let failure = RequestError::MalformedBatch {
        reason: "A batch has one change set: this one was not looked at".to_owned(),
    };
    let form = Form::Json(context.metadata);
    Part {
        reply: error::reply(&failure.into(), form, None, context.head.id),
        version: DATA,
        content_id: None,
    }
}

/// Executes the operations. The message of an error begins with the index of its operation.
async fn execute_changes(context: &Context<'_>, requests: &[InnerRequest<'_>]) -> Result<Vec<Part>, Failure> {
    let bytes = requests.iter().map(|request| request.body.len()).sum();
    let changes = match on_payload(bytes, || read_changes(context, requests)) {
        Ok(changes) => changes,
        Err(failure) => return Err(without_table(context, requests, failure).await),
    };
    let Some(first) = changes.first() else {
        return Ok(Vec::new());
    };
    let (table, partition_key) = (&first.table, &first.partition_key);
    _ = context.partition.set((table.clone(), partition_key.clone()));
    let operations: Vec<BatchOperation<'_>> = changes
        .iter()
        .map(|change| BatchOperation {
            operation: change.action.name(),
            row_key: &change.row_key,
            properties: change.properties.as_ref().map(BagParameter),
            if_match: change.if_match,
        })
        .collect();
    let etags = context.session.execute_batch(table, partition_key, &operations).await?;
    let parts = changes.iter().zip(&etags).zip(requests);
    parts
        .map(|((change, etag), request)| answer(context, change, etag.as_deref(), request))
        .collect()
}

/// Replaces an error that comes after TableNotFound by TableNotFound, if the table does not exist: see
/// [`entities::found_first`]. Such an error is only raised for operations that are permitted.
async fn without_table(context: &Context<'_>, requests: &[InnerRequest<'_>], failure: Failure) -> Failure {
    let resource = requests
        .first()
        .and_then(|request| request.resource(context.tenant.account.name()).ok());
    match resource.as_ref().and_then(Resource::table) {
        Some(table) => match entities::found_first(context, table, ["", ""], None, failure).await {
            first if first.is_of_table() => first.at(0),
            failure => failure,
        },
        None => failure,
    }
}

/// Returns the response to an operation that has succeeded.
fn answer(
    context: &Context<'_>,
    change: &CheckedOperation<'_>,
    etag: Option<&str>,
    request: &InnerRequest<'_>,
) -> Result<Part, Failure> {
    let etag = etag.unwrap_or_default();
    let (reply, version) = match (change.action, &change.properties) {
        (Action::Insert, Some(properties)) => {
            let keys = [change.partition_key.as_str(), &change.row_key];
            let metadata = level(request)?;
            let reply = inserted(context, &change.table, keys, properties, etag, change.prefer, metadata);
            (reply, DATA)
        }
        (Action::Delete, _) => (Reply::no_content(), NOTHING),
        _ => (Reply::no_content().with_text(http::header::ETAG, etag), NOTHING),
    };
    Ok(Part {
        reply,
        version,
        content_id: request.content_id().cloned(),
    })
}

/// Reads and checks all operations, and reports the first one that is wrong. Exceeded limits are reported only if nothing
/// else is wrong, because the service checks them in its back end.
fn read_changes<'b>(
    context: &Context<'_>,
    requests: &'b [InnerRequest<'b>],
) -> Result<Vec<CheckedOperation<'b>>, Failure> {
    if requests.len() > BATCH_OPERATIONS {
        return Err(Error::TooManyOperations.into());
    }
    let mut changes: Vec<CheckedOperation<'b>> = Vec::with_capacity(requests.len());
    let mut row_keys = HashSet::with_capacity(requests.len());
    let mut beyond_limits = None;
    for (index, request) in requests.iter().enumerate() {
        let mut check = || {
            let change = read_change(context, request)?;
            if let Some(first) = changes.first()
                && (fold(&change.table) != fold(&first.table) || change.partition_key != first.partition_key)
            {
                return Err(Error::AnotherPartition.into());
            }
            if !row_keys.insert(change.row_key.clone()) {
                return Err(Error::DuplicateRow.into());
            }
            Ok(change)
        };
        match check() {
            Ok(change) => changes.push(change),
            Err(failure) => {
                let failure: Failure = failure;
                let is_limit = failure.stage == Stage::BackEnd && failure.status() == StatusCode::BAD_REQUEST;
                let failure = failure.at(index);
                if !is_limit {
                    return Err(failure);
                }
                beyond_limits.get_or_insert(failure);
            }
        }
    }
    beyond_limits.map_or(Ok(changes), Err)
}

fn read_change<'b>(context: &Context<'_>, request: &'b InnerRequest<'b>) -> Result<CheckedOperation<'b>, Failure> {
    let verb = request.method.as_str();
    let (action, table, keys, properties, if_match) = match request.resource(context.tenant.account.name())? {
        Resource::Entities(table) if request.method == Method::POST => {
            context.grant.permits(permission(Action::Insert), Some(&table))?;
            check_content_type(request.header("content-type"))?;
            let entity = body::new_entity(request.body)?;
            key::check_characters_of_both(&entity.partition_key, &entity.row_key)?;
            let keys = (entity.partition_key, entity.row_key);
            (Action::Insert, table, keys, Some(entity.properties), None)
        }
        Resource::Entity(address) => {
            let condition = if_match(&request.method, &request.headers)?;
            address.check_for_write()?;
            let action = match (verb, condition) {
                ("PUT", Some(_)) => Action::Replace,
                ("PUT", None) => Action::InsertOrReplace,
                ("PATCH" | MERGE, Some(_)) => Action::Merge,
                ("PATCH" | MERGE, None) => Action::InsertOrMerge,
                ("DELETE", Some(_)) => Action::Delete,
                ("DELETE", None) => return Err(RequestError::HeaderMissing { name: "If-Match" }.into()),
                _ => return Err(RequestError::VerbNotSupported.into()),
            };
            context.grant.permits(permission(action), Some(&address.table))?;
            let properties = match action {
                Action::Delete => None,
                _ => {
                    check_content_type(request.header("content-type"))?;
                    Some(body::properties(request.body)?)
                }
            };
            let keys = (address.partition_key, address.row_key);
            (action, address.table, keys, properties, condition)
        }
        _ => return Err(RequestError::VerbNotSupported.into()),
    };
    let (partition_key, row_key) = keys;
    context.grant.permits_key(&partition_key, &row_key)?;
    level(request)?;
    Ok(CheckedOperation {
        action,
        table,
        partition_key,
        row_key,
        properties,
        if_match,
        prefer: Prefer::parse(request.header("prefer")),
    })
}

fn permission(action: Action) -> access::ServiceOperation {
    match action {
        Action::Insert => access::ServiceOperation::InsertEntity,
        // No request asks for a patch.
        Action::Replace | Action::Merge | Action::Patch => access::ServiceOperation::UpdateEntity,
        Action::InsertOrReplace | Action::InsertOrMerge => access::ServiceOperation::UpsertEntity,
        Action::Delete => access::ServiceOperation::DeleteEntity,
    }
}

/// Returns the metadata level of the response to one operation.
fn level(request: &InnerRequest<'_>) -> Result<json::Metadata, RequestError> {
    accepted(request.query().get("$format"), request.header("accept"))
}

/// Returns the response to a change set that failed, unless the whole request fails.
fn failed(context: &Context<'_>, requests: &[InnerRequest<'_>], failure: Failure) -> Result<Part, Failure> {
    let (index, mut failure) = match split_index(&failure.message) {
        Some((index, _)) => (index, failure),
        None => (0, failure.at(0)),
    };
    let concerns_all = concerns_all(&failure);
    let alone = requests.len() == 1 && failure.stage == Stage::BackEnd;
    if (concerns_all || alone)
        && let Some((_, message)) = split_index(&failure.message)
    {
        failure.message = message.to_owned();
    }
    if concerns_all {
        return Err(failure);
    }
    let request = requests.get(index);
    let metadata = request
        .and_then(|request| level(request).ok())
        .unwrap_or(context.metadata);
    let prefer = request.and_then(|request| Prefer::parse(request.header("prefer")));
    let reply = error::reply(&failure, Form::Json(metadata), prefer, context.head.id);
    Ok(Part {
        reply,
        version: DATA,
        content_id: request.and_then(InnerRequest::content_id).cloned(),
    })
}

/// Returns whether the whole request fails, and not one of its operations. Credentials belong to the whole request.
fn concerns_all(failure: &Failure) -> bool {
    let of_the_service = matches!(
        failure.code,
        Code::ServerBusy | Code::OperationTimedOut | Code::InternalError | Code::RequestBodyTooLarge
    );
    of_the_service || failure.status() == StatusCode::FORBIDDEN
}

/// Splits a message into the index before it and the rest.
fn split_index(message: &str) -> Option<(usize, &str)> {
    let (index, message) = message.split_once(':')?;
    Some((index.parse().ok()?, message))
}

/// Executes a point query that is alone in its batch. Its errors are in the part.
async fn read(context: &Context<'_>, request: &InnerRequest<'_>) -> Result<Reply, Failure> {
    let result = match request.resource(context.tenant.account.name()) {
        Ok(Resource::Entity(address)) => look_up(context, request, &address).await,
        Ok(_) => {
            return Err(RequestError::MalformedBatch {
                reason: "The only query in a batch is one by keys".to_owned(),
            }
            .into());
        }
        Err(error) => Err(error.into()),
    };
    let reply = match result {
        Ok(reply) => reply,
        Err(failure) if concerns_all(&failure) => return Err(failure),
        Err(failure) => {
            let form = Form::Json(level(request).unwrap_or(context.metadata));
            error::reply(&failure, form, None, context.head.id)
        }
    };
    let error = reply.error.clone();
    let mut answer = response::read(Part {
        reply,
        version: DATA,
        content_id: request.content_id().cloned(),
    });
    answer.error = error;
    Ok(answer)
}

async fn look_up(context: &Context<'_>, request: &InnerRequest<'_>, address: &EntityAddress) -> Result<Reply, Failure> {
    let grant = context.grant;
    grant.permits(access::ServiceOperation::QueryEntities, Some(&address.table))?;
    entities::get(context, address, &request.query(), level(request)?).await
}
