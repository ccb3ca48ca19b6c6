//! The settings that only the file can have: several accounts, and issuers of bearer tokens.

use std::fmt;
use std::path::PathBuf;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serializer};
use table_service_model::{Dialect, Secret};

/// One of `[[accounts]]` in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountSettings {
    pub name: String,
    pub keys: Vec<Secret>,
    /// One database, or the nodes of a distributed one.
    #[serde(deserialize_with = "one_or_more")]
    pub database_url: Vec<Secret>,
    /// Hot standbys of the database, which serve reads of the secondary endpoint.
    #[serde(default, deserialize_with = "one_or_more")]
    pub secondary_url: Vec<Secret>,
    /// The dialect of `$filter`.
    #[serde(default)]
    pub filter_dialect: Option<Dialect>,
    /// The issuer of the account's bearer tokens.
    #[serde(default)]
    pub bearer: Option<BearerSettings>,
}

/// `[accounts.bearer]` in the file, or `[bearer]` for a single account: tokens of one issuer, checked against its
/// published keys.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BearerSettings {
    /// The claim `iss` that tokens must have.
    pub issuer: String,
    /// The claims `aud` that tokens may have. The first one is named in the challenge to clients.
    pub audiences: Vec<String>,
    /// The address at which clients get a token, such as `https://login.microsoftonline.com/<tenant>/oauth2/authorize`
    /// [default: the issuer].
    #[serde(default)]
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
pub fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Secret>, D::Error> {
    struct OneOrMore;

    impl<'de> Visitor<'de> for OneOrMore {
        type Value = Vec<Secret>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a database URL, or a list of them")
        }

        fn visit_str<E>(self, text: &str) -> Result<Vec<Secret>, E> {
            Ok(vec![text.into()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, texts: A) -> Result<Vec<Secret>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(texts))
        }
    }

    deserializer.deserialize_any(OneOrMore)
}

/// Hands secrets of the command line and the environment to figment, which merges them with those of the file.
pub fn exposed<S: Serializer>(secrets: &[Secret], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(secrets.iter().map(Secret::expose))
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
