//! Shared access signatures: those of one table (semantics 7.2) and those of the account (semantics 7.3).

mod account;
mod addresses;
mod parameters;
mod table;

pub use self::account::AccountSas;
pub use self::addresses::AddressRange;
pub use self::parameters::{Client, is_version};
pub use self::table::TableSas;

use self::parameters::{Parameters, failed};
use super::account::Account;
use super::grant::Grant;
use super::policies::AccessPolicies;
use crate::Error;

/// The credentials in the query of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sas {
    Table(TableSas),
    Account(AccountSas),
}

impl Sas {
    /// Reads the signature among the percent-decoded parameters of a query; `None` if there is no `sig`.
    ///
    /// # Errors
    /// `AuthenticationFailed` if a parameter is missing, occurs twice, or excludes another.
    pub fn parse<'q>(query: impl IntoIterator<Item = (&'q str, &'q str)>) -> Result<Option<Sas>, Error> {
        let mut parameters = Parameters::default();
        for (name, value) in query {
            parameters.add(name, value)?;
        }
        if !parameters.has("sig") {
            return Ok(None);
        }
        parameters.check_common()?;
        Ok(Some(if parameters.has("ss") || parameters.has("srt") {
            Sas::Account(AccountSas::read(parameters)?)
        } else {
            Sas::Table(TableSas::read(parameters)?)
        }))
    }

    /// Checks that the signature was made with a key of the account. This comes first: before it, nothing in the query can
    /// be trusted.
    ///
    /// # Errors
    /// `AuthenticationFailed`.
    pub fn check_signature(&self, account: &Account) -> Result<(), Error> {
        let text = match self {
            Sas::Table(sas) => sas.string_to_sign(account.name()),
            Sas::Account(sas) => sas.string_to_sign(account.name()),
        };
        if account.verifies(&text, self.parameters().value("sig").unwrap_or_default()) {
            Ok(())
        } else {
            Err(failed(
                "The signature is not that of these parameters with a key of the account",
            ))
        }
    }

    /// Returns the table and the identifier of the stored access policy that [`Sas::grant`] needs.
    pub fn policy(&self) -> Option<(&str, &str)> {
        match self {
            Sas::Table(TableSas(parameters)) => Some((parameters.value("tn")?, parameters.value("si")?)),
            Sas::Account(_) => None,
        }
    }

    /// Returns the grant that the signature gives this client; `policies` are the table's, if [`Sas::policy`] asks for
    /// one.
    ///
    /// # Errors
    /// `AuthenticationFailed` for times and parameters, `AuthorizationSourceIPMismatch`,
    /// `AuthorizationProtocolMismatch`, `AuthorizationServiceMismatch`.
    pub fn grant(&self, policies: Option<&AccessPolicies>, client: &Client) -> Result<Grant, Error> {
        match self {
            Sas::Table(sas) => sas.grant(policies, client),
            Sas::Account(sas) => sas.grant(client),
        }
    }

    /// Returns the query string, without `?`, with every parameter percent-encoded.
    pub fn to_query(&self) -> String {
        self.parameters().to_query()
    }

    fn parameters(&self) -> &Parameters {
        match self {
            Sas::Table(TableSas(parameters)) | Sas::Account(AccountSas(parameters)) => parameters,
        }
    }
}
