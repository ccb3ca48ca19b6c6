//! Signatures for all tables of the account (semantics 7.3).

use super::parameters::{ADDRESS_AND_PROTOCOL, Client, Parameters, failed, time};
use crate::Error;
use crate::access::grant::Grant;
use crate::access::permissions::{AccountPermissions, ResourceTypes};

/// From this version on an account SAS signs its encryption scope.
const ENCRYPTION_SCOPE: &str = "2020-12-06";

/// A signature for all tables of the account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountSas(pub(super) Parameters);

impl AccountSas {
    pub(super) fn read(parameters: Parameters) -> Result<AccountSas, Error> {
        if parameters.version() < ADDRESS_AND_PROTOCOL {
            return Err(failed("Signatures of accounts have version 2015-04-05 or later"));
        }
        parameters.need("ss")?;
        parameters.need("srt")?;
        Ok(AccountSas(parameters))
    }

    /// Returns the string to sign.
    pub fn string_to_sign(&self, account: &str) -> String {
        let AccountSas(parameters) = self;
        let mut lines = vec![account];
        lines.extend(parameters.lines(["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"]));
        if parameters.version() >= ENCRYPTION_SCOPE {
            lines.extend(parameters.lines(["ses"]));
        }
        lines.push("");
        lines.join("\n")
    }

    pub(super) fn grant(&self, client: &Client) -> Result<Grant, Error> {
        let AccountSas(parameters) = self;
        let permissions = parameters
            .value("sp")
            .and_then(AccountPermissions::parse)
            .ok_or_else(|| failed("sp has the permissions, in lower-case letters"))?;
        let resource_types = ResourceTypes::parse(parameters.need("srt")?)
            .ok_or_else(|| failed("srt has the resource types s, c and o"))?;
        parameters.check(time("st", parameters)?, time("se", parameters)?, client)?;
        if !parameters.need("ss")?.contains('t') {
            return Err(Error::ServiceMismatch);
        }
        Ok(Grant::Account {
            permissions,
            resource_types,
        })
    }
}
