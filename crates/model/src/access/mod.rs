//! Authorization (semantics 7): shared keys, shared access signatures, stored access policies, and the documents of the
//! account and its tables that go with them.
//!
//! A request shows its credentials as an [`Authorization`] header or as a [`Sas`]; either yields a [`Grant`], and the
//! grant is asked about each operation. The clock, the client's address and the stored policies are the caller's.

mod account;
mod authorization;
mod document;
mod grant;
mod granted_range;
mod permissions;
mod policies;
mod sas;
mod service_properties;
mod shared_key;

#[cfg(test)]
mod tests;

pub use account::{Account, AccountKey, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
pub use authorization::Authorization;
pub use grant::{Grant, Role, ServiceOperation};
pub use granted_range::GrantedRange;
pub use permissions::{AccountPermissions, Permissions, ResourceTypes};
pub use policies::{AccessPolicies, AccessPolicy, SignedIdentifier};
pub use sas::{AccountSas, AddressRange, Client, Sas, TableSas, is_version};
pub use service_properties::{
    CorsRule, Logging, Metrics, RetentionPolicy, ServiceProperties, ServicePropertiesChange, header_matches,
};
pub use shared_key::{SharedKey, SignedRequest};
