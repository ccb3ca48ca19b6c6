//! Signatures for all tables of the account (semantics 7.3).

use super::parameters::{ADDRESS_AND_PROTOCOL, Client, Common, Parameters, failed, time};
use crate::access::grant::Grant;
use crate::access::permissions::{AccountPermissions, ResourceTypes};
use crate::error::Error;

/// From this version on an account SAS signs its encryption scope.
const ENCRYPTION_SCOPE: &str = "2020-12-06";

/// A signature for all tables of the account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountSas {
    pub(super) common: Common,
    services: String,
    resource_types: String,
    encryption_scope: Option<String>,
}

impl AccountSas {
    pub(super) fn read(parameters: &Parameters<'_>, common: Common) -> Result<AccountSas, Error> {
        // Earlier versions have no such signatures.
        if common.version.as_str() < ADDRESS_AND_PROTOCOL {
            return Err(failed("Signatures of accounts have version 2015-04-05 or later"));
        }
        Ok(AccountSas {
            common,
            services: parameters.need("ss")?,
            resource_types: parameters.need("srt")?,
            encryption_scope: parameters.take("ses"),
        })
    }

    /// Returns what is signed.
    pub fn string_to_sign(&self, account: &str) -> String {
        let text = |value: &'_ Option<String>| value.clone().unwrap_or_default();
        let common = &self.common;
        let mut parts = vec![
            account.to_owned(),
            text(&common.permissions),
            self.services.clone(),
            self.resource_types.clone(),
            text(&common.start),
            text(&common.expiry),
            text(&common.addresses),
            text(&common.protocols),
            common.version.clone(),
        ];
        if common.version.as_str() >= ENCRYPTION_SCOPE {
            parts.push(text(&self.encryption_scope));
        }
        // Every part ends its line.
        parts.push(String::new());
        parts.join("\n")
    }

    /// Returns the query string, without `?`, with every parameter percent-encoded.
    pub fn to_query(&self) -> String {
        self.common.to_query(self.own_parameters())
    }

    fn own_parameters(&self) -> Vec<(&'static str, Option<&str>)> {
        vec![
            ("ss", Some(self.services.as_str())),
            ("srt", Some(self.resource_types.as_str())),
            ("ses", self.encryption_scope.as_deref()),
        ]
    }

    pub(super) fn grant(&self, client: &Client) -> Result<Grant, Error> {
        let common = &self.common;
        let permissions = common
            .permissions
            .as_deref()
            .and_then(AccountPermissions::parse)
            .ok_or_else(|| failed("sp has the permissions, in lower-case letters"))?;
        let resource_types = ResourceTypes::parse(&self.resource_types)
            .ok_or_else(|| failed("srt has the resource types s, c and o"))?;
        common.check(time("st", &common.start)?, time("se", &common.expiry)?, client)?;
        if !self.services.contains('t') {
            return Err(Error::ServiceMismatch);
        }
        Ok(Grant::Account {
            permissions,
            resource_types,
        })
    }
}
