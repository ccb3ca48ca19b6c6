//! Bearer tokens: JSON Web Tokens of one issuer, whose roles are those of the service (semantics 7.4).

use std::collections::HashMap;

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::Value;
use table_service_model::Error;
use table_service_model::access::{Grant, Role};

use crate::config::{BearerSettings, ConfigError};

/// The algorithms with a public key: a shared secret would let everyone who checks tokens make them.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// An issuer whose tokens are accepted.
pub struct Bearer {
    settings: BearerSettings,
    keys: JwkSet,
}

pub type BearerError = ConfigError;

impl Bearer {
    /// Reads the issuer's keys.
    ///
    /// # Errors
    /// A file that is not there or is no key set.
    pub fn new(settings: BearerSettings) -> Result<Bearer, BearerError> {
        let problem = |error: &dyn std::fmt::Display| {
            ConfigError::new("bearer.jwks_file", format!("{}: {error}", settings.jwks_file.display()))
        };
        let text = std::fs::read_to_string(&settings.jwks_file).map_err(|error| problem(&error))?;
        let keys: JwkSet = serde_json::from_str(&text).map_err(|error| problem(&error))?;
        if keys.keys.is_empty() {
            return Err(problem(&"it has no keys"));
        }
        Ok(Bearer { settings, keys })
    }

    /// The header WWW-Authenticate of a 401: where there are tokens, and for what.
    pub fn challenge(&self) -> String {
        let BearerSettings { issuer, audiences, .. } = &self.settings;
        let authorization_uri = self.settings.authorization_uri.as_ref().unwrap_or(issuer);
        let resource = audiences.first().map(String::as_str).unwrap_or_default();
        format!("Bearer authorization_uri={authorization_uri} resource_id={resource}")
    }

    /// What a token allows.
    ///
    /// # Errors
    /// `AuthenticationFailed` for one that does not come over HTTPS; `NoAuthenticationInformation`, which makes SDKs get
    /// another, for one that is not the issuer's, not for us or not valid now; `AuthorizationPermissionMismatch` for one
    /// without a role.
    pub fn grant(&self, token: &str, https: bool) -> Result<Grant, Error> {
        if !https {
            return Err(Error::AuthenticationFailed {
                reason: "Bearer tokens are accepted over HTTPS only".to_owned(),
            });
        }
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
        if !ALGORITHMS.contains(&header.alg) {
            return Err(failed("The token's algorithm is not accepted"));
        }
        let key = match &header.kid {
            Some(id) => self.keys.find(id),
            None => self.keys.keys.first().filter(|_| self.keys.keys.len() == 1),
        };
        let key = key.ok_or_else(|| failed("The token's key is not among the issuer's"))?;
        let key = DecodingKey::from_jwk(key).map_err(|_| failed("The issuer's key cannot be used"))?;
        let mut validation = Validation::new(header.alg);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_audience(&self.settings.audiences);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.validate_nbf = true;
        let decoded = decode::<HashMap<String, Value>>(token, &key, &validation);
        decoded
            .map(|token| token.claims)
            .map_err(|error| failed(&format!("The token is not valid: {error}")))
    }
}

/// The log tells the operator why; the client is told to get another token.
fn failed(reason: &str) -> Error {
    tracing::debug!(reason, "a bearer token is refused");
    Error::NotAuthenticated
}
