//! Signatures for the entities of one table (semantics 7.2).

use super::addresses::AddressRange;
use super::parameters::{ADDRESS_AND_PROTOCOL, Client, Common, Parameters, failed, time};
use crate::access::account::Account;
use crate::access::grant::Grant;
use crate::access::granted_range::GrantedRange;
use crate::access::permissions::Permissions;
use crate::access::policies::{AccessPolicies, AccessPolicy};
use crate::error::Error;
use crate::table_name::fold;
use crate::ticks::Ticks;

/// From this version on a table is `/table/account/name` in what is signed.
const SERVICE_IN_RESOURCE: &str = "2015-02-21";

/// A signature for the entities of one table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableSas {
    pub(super) common: Common,
    pub(super) table: String,
    pub(super) policy: Option<String>,
    range: GrantedRange,
}

impl TableSas {
    pub(super) fn read(parameters: &Parameters<'_>, mut common: Common) -> Result<TableSas, Error> {
        let range = GrantedRange {
            start_partition: parameters.take("spk"),
            start_row: parameters.take("srk"),
            end_partition: parameters.take("epk"),
            end_row: parameters.take("erk"),
        };
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
        // Earlier versions do not sign these, so they do not count.
        if common.version.as_str() < ADDRESS_AND_PROTOCOL {
            common.addresses = None;
            common.protocols = None;
        }
        Ok(TableSas {
            common,
            table: parameters.need("tn")?,
            policy: parameters.take("si"),
            range,
        })
    }

    /// Returns a signature to be made for a table.
    pub fn new(version: &str, table: &str) -> TableSas {
        TableSas {
            common: Common {
                version: version.to_owned(),
                ..Common::default()
            },
            table: table.to_owned(),
            ..TableSas::default()
        }
    }

    /// Sets `sp`. Without it, the stored policy must have the permissions.
    pub fn permissions(mut self, permissions: Permissions) -> TableSas {
        self.common.permissions = Some(permissions.to_string());
        self
    }

    /// Sets `st`, cut off to seconds: clients of the service send no more.
    pub fn start(mut self, start: Ticks) -> TableSas {
        self.common.start = Some(start.whole_seconds().to_string());
        self
    }

    /// Sets `se`, cut off to seconds.
    pub fn expiry(mut self, expiry: Ticks) -> TableSas {
        self.common.expiry = Some(expiry.whole_seconds().to_string());
        self
    }

    /// Sets `si`.
    pub fn policy(mut self, id: &str) -> TableSas {
        self.policy = Some(id.to_owned());
        self
    }

    /// Sets `sip`.
    pub fn addresses(mut self, range: AddressRange) -> TableSas {
        let AddressRange { first, last } = range;
        self.common.addresses = Some(if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        });
        self
    }

    /// Sets `spr` to `https`.
    pub fn https_only(mut self) -> TableSas {
        self.common.protocols = Some("https".to_owned());
        self
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
            &range.start_partition,
            &range.start_row,
            &range.end_partition,
            &range.end_row,
        ];
        if bounds.iter().any(|bound| bound.as_deref() == Some("")) {
            return Err(Error::argument(
                "An empty bound of a range is signed like no bound, so that the client could leave it out: name a key, or give no bound",
            ));
        }
        self.range = range;
        Ok(self)
    }

    /// Signs the parameters with the first key of the account.
    ///
    /// # Errors
    /// `InvalidInput` if neither the parameters nor a stored policy say what is allowed, and until when.
    pub fn sign(mut self, account: &Account) -> Result<TableSas, Error> {
        if self.policy.is_none() && (self.common.permissions.is_none() || self.common.expiry.is_none()) {
            return Err(Error::argument(
                "A signature without a stored access policy needs permissions and an expiry",
            ));
        }
        let has_control = |(_, value): &(_, Option<&str>)| value.is_some_and(|value| value.contains(char::is_control));
        if self.own_parameters().iter().any(has_control) {
            return Err(Error::argument("What a signature signs has no control characters"));
        }
        self.common.signature = account.sign(&self.string_to_sign(account.name()));
        Ok(self)
    }

    /// Returns what is signed.
    pub fn string_to_sign(&self, account: &str) -> String {
        let version = self.common.version.as_str();
        let table = fold(&self.table);
        let resource = if version >= SERVICE_IN_RESOURCE {
            format!("/table/{account}/{table}")
        } else {
            format!("/{account}/{table}")
        };
        let text = |value: &'_ Option<String>| value.clone().unwrap_or_default();
        let common = &self.common;
        let mut parts = vec![
            text(&common.permissions),
            text(&common.start),
            text(&common.expiry),
            resource,
            text(&self.policy),
        ];
        if version >= ADDRESS_AND_PROTOCOL {
            parts.extend([text(&common.addresses), text(&common.protocols)]);
        }
        parts.extend([
            version.to_owned(),
            text(&self.range.start_partition),
            text(&self.range.start_row),
            text(&self.range.end_partition),
            text(&self.range.end_row),
        ]);
        parts.join("\n")
    }

    /// Returns the query string, without `?`, with every parameter percent-encoded.
    pub fn to_query(&self) -> String {
        self.common.to_query(self.own_parameters())
    }

    fn own_parameters(&self) -> Vec<(&'static str, Option<&str>)> {
        let range = &self.range;
        vec![
            ("tn", Some(self.table.as_str())),
            ("si", self.policy.as_deref()),
            ("spk", range.start_partition.as_deref()),
            ("srk", range.start_row.as_deref()),
            ("epk", range.end_partition.as_deref()),
            ("erk", range.end_row.as_deref()),
        ]
    }

    pub(super) fn grant(&self, policies: Option<&AccessPolicies>, client: &Client) -> Result<Grant, Error> {
        let none = AccessPolicy::default();
        let policy = match &self.policy {
            None => &none,
            Some(id) => policies
                .and_then(|policies| policies.find(id))
                .ok_or_else(|| failed("The table has no stored access policy of the name in si"))?,
        };
        let common = &self.common;
        let start = one_of(time("st", &common.start)?, policy.start, "st")?;
        let expiry = one_of(time("se", &common.expiry)?, policy.expiry, "se")?;
        let permissions = common.permissions.as_deref().map(|letters| {
            Permissions::parse(letters)
                .ok_or_else(|| failed("The permissions of a table are the letters r, a, u and d"))
        });
        let permissions = one_of(permissions.transpose()?, policy.permissions, "sp")?
            .filter(|permissions| !permissions.is_empty())
            .ok_or_else(|| failed("Neither sp nor a stored access policy has permissions"))?;
        common.check(start, expiry, client)?;
        Ok(Grant::Table {
            table: fold(&self.table),
            permissions,
            range: self.range.clone(),
        })
    }
}

/// Returns the value of a field that stands in the signature or in the stored policy, never in both.
fn one_of<T>(signed: Option<T>, stored: Option<T>, name: &str) -> Result<Option<T>, Error> {
    if signed.is_some() && stored.is_some() {
        return Err(failed(format!(
            "{name} stands in the signature and in its stored access policy"
        )));
    }
    Ok(signed.or(stored))
}
