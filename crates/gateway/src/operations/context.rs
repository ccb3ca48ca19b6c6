//! What every operation is given.

use std::sync::OnceLock;

use table_service_model::access::Grant;
use table_service_model::json::Metadata;

use crate::account::Tenant;
use crate::database::Session;
use crate::request::Head;
use crate::request::negotiation::Prefer;
use crate::response::odata::Base;

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
