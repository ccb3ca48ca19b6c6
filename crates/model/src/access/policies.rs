//! Stored access policies of a table (semantics 4.9).

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::document;
use super::permissions::Permissions;
use crate::{Error, Ticks, limits};

/// The stored access policies of a table, in the order in which they were set.
///
/// In JSON: `[{"Id": "readers", "Start": "2026-01-01T00:00:00.0000000Z", "Expiry": …, "Permission": "r"}]`, where all but
/// the Id may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessPolicies(Vec<SignedIdentifier>);

/// A policy and the name by which signatures refer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub struct SignedIdentifier {
    pub id: String,
    /// With all of its fields absent, the service gives back the identifier alone.
    #[serde(flatten)]
    pub policy: AccessPolicy,
}

/// Times and permissions of signatures that name the policy. The table's owner can change them later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct AccessPolicy {
    #[serde(default, with = "document::time", skip_serializing_if = "Option::is_none")]
    pub start: Option<Ticks>,
    #[serde(default, with = "document::time", skip_serializing_if = "Option::is_none")]
    pub expiry: Option<Ticks>,
    #[serde(
        rename = "Permission",
        default,
        deserialize_with = "read_permissions",
        serialize_with = "write_permissions",
        skip_serializing_if = "Option::is_none"
    )]
    pub permissions: Option<Permissions>,
}

impl AccessPolicies {
    /// Returns the policies of a table, checked.
    ///
    /// # Errors
    /// `InvalidXmlDocument` for more than five policies, an identifier that is empty, longer than 64 characters or
    /// there twice.
    pub fn new(policies: Vec<SignedIdentifier>) -> Result<AccessPolicies, Error> {
        if policies.len() > limits::POLICIES {
            return Err(document::invalid("A table has at most five stored access policies"));
        }
        for (index, policy) in policies.iter().enumerate() {
            if policy.id.is_empty() || policy.id.chars().count() > limits::POLICY_ID_CHARACTERS {
                return Err(document::invalid(
                    "The Id of a stored access policy has 1 to 64 characters",
                ));
            }
            if policy.id.contains('\0') {
                return Err(document::invalid("The Id of a stored access policy has no U+0000"));
            }
            if policies.iter().take(index).any(|other| other.id == policy.id) {
                return Err(document::invalid("The Id of a stored access policy occurs twice"));
            }
        }
        Ok(AccessPolicies(policies))
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// `InvalidInput` for text that is not a list of policies, and those of [`AccessPolicies::new`].
    pub fn from_json(json: &str) -> Result<AccessPolicies, Error> {
        AccessPolicies::new(document::parse(json)?)
    }

    /// Returns the JSON form.
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.0).unwrap_or_default()
    }

    /// Returns the policy with this identifier. Case counts.
    pub fn find(&self, id: &str) -> Option<&AccessPolicy> {
        self.0.iter().find(|entry| entry.id == id).map(|entry| &entry.policy)
    }

    /// Returns the policies in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &SignedIdentifier> {
        self.0.iter()
    }
}

fn read_permissions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Permissions>, D::Error> {
    document::optional(
        deserializer,
        Permissions::parse,
        "a Permission has the letters r, a, u and d",
    )
}

fn write_permissions<S: Serializer>(permissions: &Option<Permissions>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&permissions.unwrap_or_default())
}
