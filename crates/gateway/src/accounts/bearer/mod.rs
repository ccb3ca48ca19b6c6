//! Bearer tokens of an account: JSON Web Tokens of its issuer, with the roles of the service (semantics 7.4).

mod signatures;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::PathBuf;

use jsonwebtoken::jwk::{CommonParameters, JwkSet, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::Value;
use table_service_model::access::Role;
use table_service_model::{Error, Grant};

use crate::config::{BearerSettings, ConfigError, Reread};

/// An issuer whose tokens an account accepts.
pub struct Bearer {
    settings: BearerSettings,
    pub keys: Reread<JwkSet, 1>,
}

impl Bearer {
    /// Reads the issuer's keys.
    ///
    /// # Errors
    /// A file that is missing or is not a key set.
    pub fn new(settings: BearerSettings) -> Result<Bearer, ConfigError> {
        signatures::install();
        let files = [settings.jwks_file.clone()];
        let keys = Reread::read("the key set of the issuer", ["bearer.jwks_file"], files, key_set)?;
        Ok(Bearer { settings, keys })
    }

    /// Returns the value of WWW-Authenticate in a 401: where clients get tokens, and for which resource.
    pub fn challenge(&self) -> String {
        let BearerSettings { issuer, audiences, .. } = &self.settings;
        let authorization_uri = self.settings.authorization_uri.as_ref().unwrap_or(issuer);
        let resource = audiences.first().map(String::as_str).unwrap_or_default();
        format!("Bearer authorization_uri={authorization_uri} resource_id={resource}")
    }

    /// Checks a token and returns its grant.
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
        let keys = self.keys.current();
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
    let (key_use, operations) = (key.public_key_use.as_ref(), key.key_operations.as_ref());
    key_use.is_none_or(|given| *given == PublicKeyUse::Signature)
        && operations.is_none_or(|operations| operations.contains(&KeyOperations::Verify))
        && key
            .key_algorithm
            .is_none_or(|given| given.to_string().parse() == Ok(algorithm))
}

fn key_set([file]: &[PathBuf; 1], [text]: &[Vec<u8>; 1]) -> Result<JwkSet, ConfigError> {
    let problem =
        |error: &dyn std::fmt::Display| ConfigError::new("bearer.jwks_file", format!("{}: {error}", file.display()));
    let keys: JwkSet = serde_json::from_slice(text).map_err(|error| problem(&error))?;
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
