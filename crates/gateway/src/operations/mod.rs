//! The operations of the service (semantics 4).

mod acl;
mod batch;
mod context;
mod entities;
mod query;
mod service;
mod tables;

pub use context::Context;

use crate::database::Statement;
use crate::failure::Failure;
use crate::limits::shares::Share;
use crate::request::operation::Operation;
use crate::response::Reply;

/// Executes an operation. It is authenticated and permitted already, except for keys in its body and the operations of a
/// batch, which are checked here. `memory` is the part that the request has taken.
pub async fn execute(
    context: &Context<'_>,
    operation: &Operation,
    body: Vec<u8>,
    memory: &mut Share,
) -> Result<Reply, Failure> {
    match operation {
        Operation::QueryTables => tables::query(context).await,
        Operation::GetTable(name) => tables::get(context, name).await,
        Operation::CreateTable => tables::create(context, &body).await,
        Operation::DeleteTable(name) => tables::delete(context, name).await,
        Operation::GetTableAcl(table) => acl::get(context, table).await,
        Operation::SetTableAcl(table) => acl::set(context, table, &body).await,
        // In a box, as a batch, so that other operations do not move the space that it needs.
        Operation::QueryEntities(table) => Box::pin(query::query(context, table, memory)).await,
        Operation::GetEntity(address) => entities::get(context, address, &context.head.query, context.metadata).await,
        Operation::InsertEntity(table) => entities::insert(context, table, &body).await,
        Operation::ReplaceEntity(address) => {
            let statements = [Statement::ReplaceEntity, Statement::InsertOrReplaceEntity];
            entities::update(context, address, &body, statements).await
        }
        Operation::MergeEntity(address) => {
            let statements = [Statement::MergeEntity, Statement::InsertOrMergeEntity];
            entities::update(context, address, &body, statements).await
        }
        Operation::DeleteEntity(address) => entities::delete(context, address).await,
        Operation::DeleteMisplacedTable(table) => entities::refuse_misplaced(context, table).await,
        Operation::Batch => Box::pin(batch::execute(context, &body, memory)).await,
        Operation::GetServiceProperties => service::get_properties(context).await,
        Operation::SetServiceProperties => service::set_properties(context, &body).await,
        Operation::GetServiceStats => service::stats(context),
    }
}
