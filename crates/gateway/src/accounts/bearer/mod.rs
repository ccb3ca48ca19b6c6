//! Bearer tokens of an account: JSON Web Tokens of its issuer, whose roles are those of the service (semantics 7.4).

mod signatures;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use jsonwebtoken::jwk::{CommonParameters, JwkSet, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use parking_lot::Mutex;
use serde_json::Value;
use table_service_command_line::files;
use table_service_model::Error;
use table_service_model::access::{Grant, Role};

use crate::config::{BearerSettings, ConfigError};

/// The time between two readings of the file with the issuer's keys.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The largest file of keys, in bytes.
const LARGEST_KEYS: u64 = 1 << 20;

/// An issuer whose tokens an account accepts.
pub struct Bearer {
    settings: BearerSettings,
    keys: Mutex<IssuerKeys>,
}

/// The issuer's keys as they were read last.
struct IssuerKeys {
    keys: Arc<JwkSet>,
    file: FileVersion,
    checked: Instant,
}

/// Time of change and length of a file. If they differ, the file has changed.
type FileVersion = Option<(SystemTime, u64)>;

impl Bearer {
    /// Reads the issuer's keys.
    ///
    /// # Errors
    /// A file that is missing or is not a key set.
    pub fn new(settings: BearerSettings) -> Result<Bearer, ConfigError> {
        signatures::install();
        let file = stamp(&settings.jwks_file);
        let keys = read_keys(&settings.jwks_file)?;
        Ok(Bearer {
            keys: Mutex::new(IssuerKeys {
                keys: Arc::new(keys),
                file,
                checked: Instant::now(),
            }),
            settings,
        })
    }

    /// Returns the issuer's keys. They are read again when the file has changed. If it cannot be used, the old keys
    /// stay valid.
    fn keys(&self) -> Arc<JwkSet> {
        let mut known = self.keys.lock();
        if known.checked.elapsed() >= CHECK_INTERVAL {
            known.checked = Instant::now();
            let file = stamp(&self.settings.jwks_file);
            if file != known.file {
                known.file = file;
                match read_keys(&self.settings.jwks_file) {
                    Ok(keys) => known.keys = Arc::new(keys),
                    Err(error) => tracing::warn!(%error, "the issuer's keys stay as they were"),
                }
            }
        }
        known.keys.clone()
    }

    /// Returns the value of WWW-Authenticate in a 401: where clients get tokens, and for which resource.
    pub fn challenge(&self) -> String {
        let BearerSettings { issuer, audiences, .. } = &self.settings;
        let authorization_uri = self.settings.authorization_uri.as_ref().unwrap_or(issuer);
        let resource = audiences.first().map(String::as_str).unwrap_or_default();
        format!("Bearer authorization_uri={authorization_uri} resource_id={resource}")
    }

    /// Checks a token and returns what it allows.
    ///
    /// # Errors
    /// - `AuthenticationFailed` if the request did not come over HTTPS
    /// - `NoAuthenticationInformation` if the token has another issuer or audience, a wrong signature, or is not valid now;
    ///   SDKs then get a new token
    /// - `AuthorizationPermissionMismatch` if it has no role of the service
    pub fn grant(&self, token: &str, https: bool) -> Result<Grant, Error> {
        check_transport(https)?;
        let claims = self.claims(token)?;
        let roles: Vec<&str> = match claims.get(&self.settings.roles_claim) {
            Some(Value::String(role)) => vec![role],
            Some(Value::Array(roles)) => roles.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let has = |wanted: &[String]| roles.iter().any(|role| wanted.iter().any(|name| name == role));
        if has(&self.settings.contributor_roles) {
            Ok(Grant::Role(Role::Contributor))
        } else if has(&self.settings.reader_roles) {
            Ok(Grant::Role(Role::Reader))
        } else {
            Err(Error::PermissionMismatch {
                needed: "a role of the service in the token",
            })
        }
    }

    fn claims(&self, token: &str) -> Result<HashMap<String, Value>, Error> {
        let header = decode_header(token).map_err(|_| failed("The token is no JSON Web Token"))?;
        if !signatures::accepts(header.alg) {
            return Err(failed("The token's algorithm is not accepted"));
        }
        let keys = self.keys();
        let key = match (&header.kid, keys.keys.as_slice()) {
            (Some(id), _) => keys.find(id),
            (None, [key]) => Some(key),
            (None, _) => None,
        };
        let key = key.ok_or_else(|| failed("The token's key is not among the issuer's"))?;
        if !is_for(&key.common, header.alg) {
            return Err(failed("The issuer's key is for another algorithm or use"));
        }
        let key = DecodingKey::from_jwk(key).map_err(|_| failed("The issuer's key cannot be used"))?;
        let mut validation = Validation::new(header.alg);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_audience(&self.settings.audiences);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.validate_nbf = true;
        let decoded = decode::<HashMap<String, Value>>(token, &key, &validation);
        let claims = decoded
            .map(|token| token.claims)
            .map_err(|error| failed(&format!("The token is not valid: {error}")))?;
        // The check above also accepts a list that names the issuer among others.
        if claims.get("iss").and_then(Value::as_str) != Some(&self.settings.issuer) {
            return Err(failed("The token's issuer is no text"));
        }
        Ok(claims)
    }
}

/// Refuses tokens that anybody could have read on their way.
///
/// # Errors
/// `AuthenticationFailed` without HTTPS.
pub fn check_transport(https: bool) -> Result<(), Error> {
    match https {
        true => Ok(()),
        false => Err(Error::AuthenticationFailed {
            reason: "Bearer tokens are accepted over HTTPS only".to_owned(),
        }),
    }
}

/// Returns whether a key may verify signatures of this algorithm, by its own `alg`, `use` and `key_ops`.
fn is_for(key: &CommonParameters, algorithm: Algorithm) -> bool {
    let verifies = match &key.public_key_use {
        None => true,
        Some(given) => *given == PublicKeyUse::Signature,
    };
    let has_operation = match &key.key_operations {
        None => true,
        Some(operations) => operations.contains(&KeyOperations::Verify),
    };
    let has_algorithm = match key.key_algorithm {
        None => true,
        Some(given) => given.to_string().parse() == Ok(algorithm),
    };
    verifies && has_operation && has_algorithm
}

fn stamp(file: &Path) -> FileVersion {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn read_keys(file: &Path) -> Result<JwkSet, ConfigError> {
    let problem =
        |error: &dyn std::fmt::Display| ConfigError::new("bearer.jwks_file", format!("{}: {error}", file.display()));
    let text = files::text(file, LARGEST_KEYS).map_err(|error| problem(&error))?;
    let keys: JwkSet = serde_json::from_str(&text).map_err(|error| problem(&error))?;
    if keys.keys.is_empty() {
        return Err(problem(&"it has no keys"));
    }
    Ok(keys)
}

/// Returns the error that makes clients get another token. The reason is only for the log.
fn failed(reason: &str) -> Error {
    tracing::debug!(reason, "a bearer token is refused");
    Error::NotAuthenticated
}
