//! Signatures for the entities of one table (semantics 7.2).

use super::addresses::AddressRange;
use super::parameters::{ADDRESS_AND_PROTOCOL, Client, Parameters, failed, time};
use crate::access::account::Account;
use crate::access::grant::Grant;
use crate::access::granted_range::GrantedRange;
use crate::access::permissions::Permissions;
use crate::access::policies::{AccessPolicies, AccessPolicy};
use crate::table_name::fold;
use crate::{Error, Ticks};

/// From this version on, the string to sign has a table as `/table/account/name`.
const SERVICE_IN_RESOURCE: &str = "2015-02-21";

/// A signature for the entities of one table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableSas(pub(super) Parameters);

impl TableSas {
    pub(super) fn read(mut parameters: Parameters) -> Result<TableSas, Error> {
        // Earlier versions do not sign these, so they do not count.
        if parameters.version() < ADDRESS_AND_PROTOCOL {
            parameters.set("sip", None);
            parameters.set("spr", None);
        }
        let sas = TableSas(parameters);
        let range = sas.granted_range();
        if !range.is_complete() {
            return Err(failed("srk needs spk, and erk needs epk"));
        }
        // It is signed like one that is missing, so a client with the signature could read beyond it. Nobody should rely on
        // it.
        if [&range.end_partition, &range.end_row]
            .into_iter()
            .flatten()
            .any(String::is_empty)
        {
            return Err(failed("An empty epk or erk is no bound: it could be left out"));
        }
        sas.0.need("tn")?;
        Ok(sas)
    }

    fn granted_range(&self) -> GrantedRange {
        let [start_partition, start_row, end_partition, end_row] =
            ["spk", "srk", "epk", "erk"].map(|name| self.0.value(name).map(str::to_owned));
        GrantedRange {
            start_partition,
            start_row,
            end_partition,
            end_row,
        }
    }

    /// Returns a signature to be made for a table.
    pub fn new(version: &str, table: &str) -> TableSas {
        TableSas::default().with("sv", version).with("tn", table)
    }

    fn with(mut self, name: &'static str, value: impl ToString) -> TableSas {
        self.0.set(name, Some(value.to_string()));
        self
    }

    /// Sets `sp`. Without it, the stored policy must have the permissions.
    pub fn permissions(self, permissions: Permissions) -> TableSas {
        self.with("sp", permissions)
    }

    /// Sets `st`, cut off to seconds: clients of the service send no more.
    pub fn start(self, start: Ticks) -> TableSas {
        self.with("st", start.whole_seconds())
    }

    /// Sets `se`, cut off to seconds.
    pub fn expiry(self, expiry: Ticks) -> TableSas {
        self.with("se", expiry.whole_seconds())
    }

    /// Sets `si`.
    pub fn policy(self, id: &str) -> TableSas {
        self.with("si", id)
    }

    /// Sets `sip`.
    pub fn addresses(self, AddressRange { first, last }: AddressRange) -> TableSas {
        match first == last {
            true => self.with("sip", first),
            false => self.with("sip", format!("{first}-{last}")),
        }
    }

    /// Sets `spr` to `https`.
    pub fn https_only(self) -> TableSas {
        self.with("spr", "https")
    }

    /// Sets `spk`, `srk`, `epk` and `erk`.
    ///
    /// # Errors
    /// `InvalidInput` for a row without its partition, and for an empty bound.
    pub fn range(mut self, range: GrantedRange) -> Result<TableSas, Error> {
        if !range.is_complete() {
            return Err(Error::argument("The first or last row of a range needs its partition"));
        }
        let bounds = [
            ("spk", range.start_partition),
            ("srk", range.start_row),
            ("epk", range.end_partition),
            ("erk", range.end_row),
        ];
        if bounds.iter().any(|(_, bound)| bound.as_deref() == Some("")) {
            return Err(Error::argument(
                "An empty bound of a range is signed like no bound, so that the client could leave it out: name a key, or give no bound",
            ));
        }
        for (name, bound) in bounds {
            self.0.set(name, bound);
        }
        Ok(self)
    }

    /// Signs the parameters with the first key of the account.
    ///
    /// # Errors
    /// `InvalidInput` for control characters, and without a stored policy if permissions or the expiry are missing.
    pub fn sign(self, account: &Account) -> Result<TableSas, Error> {
        let TableSas(parameters) = &self;
        if !(parameters.has("si") || parameters.has("sp") && parameters.has("se")) {
            return Err(Error::argument(
                "A signature without a stored access policy needs permissions and an expiry",
            ));
        }
        if parameters.have_control_characters() {
            return Err(Error::argument("What a signature signs has no control characters"));
        }
        let signature = account.sign(&self.string_to_sign(account.name()));
        Ok(self.with("sig", signature))
    }

    /// Returns the string to sign.
    pub fn string_to_sign(&self, account: &str) -> String {
        let TableSas(parameters) = self;
        let table = fold(parameters.value("tn").unwrap_or_default());
        let resource = if parameters.version() >= SERVICE_IN_RESOURCE {
            format!("/table/{account}/{table}")
        } else {
            format!("/{account}/{table}")
        };
        let mut lines = parameters.lines(["sp", "st", "se"]);
        lines.push(&resource);
        lines.extend(parameters.lines(["si"]));
        if parameters.version() >= ADDRESS_AND_PROTOCOL {
            lines.extend(parameters.lines(["sip", "spr"]));
        }
        lines.extend(parameters.lines(["sv", "spk", "srk", "epk", "erk"]));
        lines.join("\n")
    }

    /// Returns the query string, without `?`, with every parameter percent-encoded.
    pub fn to_query(&self) -> String {
        self.0.to_query()
    }

    pub(super) fn grant(&self, policies: Option<&AccessPolicies>, client: &Client) -> Result<Grant, Error> {
        let none = AccessPolicy::default();
        let TableSas(parameters) = self;
        let policy = match parameters.value("si") {
            None => &none,
            Some(id) => policies
                .and_then(|policies| policies.find(id))
                .ok_or_else(|| failed("The table has no stored access policy of the name in si"))?,
        };
        let start = one_of(time("st", parameters)?, policy.start, "st")?;
        let expiry = one_of(time("se", parameters)?, policy.expiry, "se")?;
        let permissions = parameters.value("sp").map(|letters| {
            Permissions::parse(letters)
                .ok_or_else(|| failed("The permissions of a table are the letters r, a, u and d"))
        });
        let permissions = one_of(permissions.transpose()?, policy.permissions, "sp")?
            .filter(|permissions| !permissions.is_empty())
            .ok_or_else(|| failed("Neither sp nor a stored access policy has permissions"))?;
        parameters.check(start, expiry, client)?;
        Ok(Grant::Table {
            table: fold(parameters.need("tn")?),
            permissions,
            range: self.granted_range(),
        })
    }
}

/// Returns the value of a field from the signature or from the stored policy. It is an error if both have it.
fn one_of<T>(signed: Option<T>, stored: Option<T>, name: &str) -> Result<Option<T>, Error> {
    if signed.is_some() && stored.is_some() {
        return Err(failed(format!(
            "{name} stands in the signature and in its stored access policy"
        )));
    }
    Ok(signed.or(stored))
}
