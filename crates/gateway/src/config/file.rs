//! The settings that only the file can have: several accounts, and issuers of bearer tokens.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};

/// One of `[[accounts]]` in the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountSettings {
    pub name: String,
    pub keys: Vec<String>,
    /// One database, or the nodes of a distributed one.
    #[serde(deserialize_with = "one_or_more")]
    pub database_url: Vec<String>,
    /// Whose bearer tokens the account accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer: Option<BearerSettings>,
}

/// `[accounts.bearer]` in the file, or `[bearer]` for a single account: tokens of one issuer, checked against its
/// published keys.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BearerSettings {
    /// The claim `iss` that tokens must have.
    pub issuer: String,
    /// The claims `aud` that tokens may have. The first one is named in the challenge to clients.
    pub audiences: Vec<String>,
    /// Where clients get a token, such as `https://login.microsoftonline.com/<tenant>/oauth2/authorize`
    /// [default: the issuer].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization_uri: Option<String>,
    /// A file with the issuer's JSON Web Key Set.
    pub jwks_file: PathBuf,
    /// The claim that names the roles, a string or a list of strings.
    #[serde(default = "roles_claim")]
    pub roles_claim: String,
    /// The values of that claim that allow reading.
    #[serde(default = "reader_roles")]
    pub reader_roles: Vec<String>,
    /// The values of that claim that allow everything with tables and entities.
    #[serde(default = "contributor_roles")]
    pub contributor_roles: Vec<String>,
}

/// Reads a text or a list of texts.
///
/// # Errors
/// For anything else.
pub fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a database URL, or a list of them")]
    enum Given {
        One(String),
        More(Vec<String>),
    }
    Ok(match Given::deserialize(deserializer)? {
        Given::One(text) => vec![text],
        Given::More(texts) => texts,
    })
}

fn roles_claim() -> String {
    "roles".to_owned()
}

fn reader_roles() -> Vec<String> {
    vec!["Storage Table Data Reader".to_owned()]
}

fn contributor_roles() -> Vec<String> {
    vec!["Storage Table Data Contributor".to_owned()]
}
