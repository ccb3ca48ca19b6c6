//! Stored access policies of a table (semantics 4.9).

use table_service_documents::{Unknown, read_policies, write_policies};
use table_service_model::access::AccessPolicies;

use super::context::Context;
use crate::failure::Failure;
use crate::request::body::text;
use crate::response::Reply;

/// Executes Get Table ACL.
pub async fn get(context: &Context<'_>, table: &str) -> Result<Reply, Failure> {
    let (json, _) = context.session.get_access_policies(table).await?;
    let policies = AccessPolicies::from_json(&json)?;
    Ok(Reply::xml(write_policies(&policies)?))
}

/// Executes Set Table ACL.
pub async fn set(context: &Context<'_>, table: &str, body: &[u8]) -> Result<Reply, Failure> {
    let policies = read_policies(text(body)?, Unknown::Refused)?;
    context.session.set_access_policies(table, policies.to_json()).await?;
    Ok(Reply::new(http::StatusCode::NO_CONTENT))
}
