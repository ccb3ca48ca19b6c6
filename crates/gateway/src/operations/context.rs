//! The context of an operation.

use std::sync::OnceLock;

use table_service_model::Grant;
use table_service_model::json::Metadata;

use crate::accounts::tenant::Tenant;
use crate::database::Session;
use crate::request::Head;
use crate::request::negotiation::Prefer;
use crate::response::odata::Base;

/// The needs of every operation, beside its own parameters.
pub struct Context<'a> {
    pub tenant: &'a Tenant,
    pub session: Session<'a>,
    pub grant: &'a Grant,
    pub head: &'a Head,
    pub base: Base,
    /// The metadata level of the response.
    pub metadata: Metadata,
    pub prefer: Option<Prefer>,
    /// Table and partition of the request body or of its filter, for the metrics.
    pub partition: OnceLock<(String, String)>,
}
