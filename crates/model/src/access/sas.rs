//! Shared access signatures: those of one table (semantics 7.2) and those of the account (7.3).

use std::borrow::Cow;
use std::net::IpAddr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::account::Account;
use super::grant::Grant;
use super::key_range::KeyRange;
use super::permissions::{AccountPermissions, Permissions, ResourceTypes};
use super::policies::{AccessPolicies, AccessPolicy};
use crate::error::Error;
use crate::table_name::fold;
use crate::ticks::Ticks;

/// From this version on a table is `/table/account/name` in what is signed.
const SERVICE_IN_RESOURCE: &str = "2015-02-21";
/// From this version on addresses and protocols are signed.
const ADDRESS_AND_PROTOCOL: &str = "2015-04-05";
/// From this version on an account SAS signs its encryption scope.
const ENCRYPTION_SCOPE: &str = "2020-12-06";

/// What stays as it is in a query parameter.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Where a request comes from, and when.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    pub now: Ticks,
    pub address: IpAddr,
    pub https: bool,
}

/// The credentials in the query of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sas {
    Table(TableSas),
    Account(AccountSas),
}

/// What both kinds have: the parameters as sent, percent-decoded, because that is how they are signed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Common {
    version: String,
    start: Option<String>,
    expiry: Option<String>,
    permissions: Option<String>,
    addresses: Option<String>,
    protocols: Option<String>,
    signature: String,
}

/// A signature for the entities of one table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableSas {
    common: Common,
    table: String,
    policy: Option<String>,
    range: KeyRange,
}

/// A signature for all tables of the account.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountSas {
    common: Common,
    services: String,
    resource_types: String,
    encryption_scope: Option<String>,
}

/// The addresses of `sip`: one, or all from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    pub first: IpAddr,
    pub last: IpAddr,
}

impl AddressRange {
    /// Reads `168.1.5.60` or `168.1.5.60-168.1.5.70`.
    pub fn parse(text: &str) -> Option<AddressRange> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        let ordered = match (first, last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => first <= last,
            (IpAddr::V6(first), IpAddr::V6(last)) => first <= last,
            _ => false,
        };
        ordered.then_some(AddressRange { first, last })
    }

    /// Whether an address is in the range. An IPv4 address that arrives as an IPv6 one is the same address.
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && self.first <= address && address <= self.last
    }
}

impl Sas {
    /// Reads the signature among the percent-decoded parameters of a query; `None` if there is no `sig`.
    ///
    /// # Errors
    /// `AuthenticationFailed` if a parameter lacks, occurs twice, or cannot go with another.
    pub fn parse<'q>(query: impl IntoIterator<Item = (&'q str, &'q str)>) -> Result<Option<Sas>, Error> {
        let mut parameters = Parameters::default();
        for (name, value) in query {
            parameters.add(name, value)?;
        }
        if parameters.get("sig").is_none() {
            return Ok(None);
        }
        let mut common = Common {
            version: parameters.need("sv")?,
            start: parameters.take("st"),
            expiry: parameters.take("se"),
            permissions: parameters.take("sp"),
            addresses: parameters.take("sip"),
            protocols: parameters.take("spr"),
            // A plus sign that was not percent-encoded has become a space.
            signature: parameters.need("sig")?.replace(' ', "+"),
        };
        if !is_version(&common.version) {
            return Err(failed("sv is a version such as 2019-02-02"));
        }
        if parameters.get("ss").is_some() || parameters.get("srt").is_some() {
            return Ok(Some(Sas::Account(AccountSas {
                common,
                services: parameters.need("ss")?,
                resource_types: parameters.need("srt")?,
                encryption_scope: parameters.take("ses"),
            })));
        }
        let range = KeyRange {
            start_partition: parameters.take("spk"),
            start_row: parameters.take("srk"),
            end_partition: parameters.take("epk"),
            end_row: parameters.take("erk"),
        };
        if !range.is_complete() {
            return Err(failed("srk needs spk, and erk needs epk"));
        }
        // Versions before do not sign these, so nobody can have meant them.
        if common.version.as_str() < ADDRESS_AND_PROTOCOL {
            common.addresses = None;
            common.protocols = None;
        }
        Ok(Some(Sas::Table(TableSas {
            common,
            table: parameters.need("tn")?,
            policy: parameters.take("si"),
            range,
        })))
    }

    /// Checks that the signature was made with a key of the account. Comes first: until then nothing else in the query
    /// is worth a look at stored policies.
    ///
    /// # Errors
    /// `AuthenticationFailed`.
    pub fn check_signature(&self, account: &Account) -> Result<(), Error> {
        let (text, common) = match self {
            Sas::Table(sas) => (sas.string_to_sign(account.name()), &sas.common),
            Sas::Account(sas) => (sas.string_to_sign(account.name()), &sas.common),
        };
        if account.verifies(&text, &common.signature) {
            Ok(())
        } else {
            Err(failed(
                "The signature is not that of these parameters with a key of the account",
            ))
        }
    }

    /// The table and the identifier of the stored access policy that [`Sas::grant`] needs.
    pub fn policy(&self) -> Option<(&str, &str)> {
        match self {
            Sas::Table(sas) => Some((&sas.table, sas.policy.as_deref()?)),
            Sas::Account(_) => None,
        }
    }

    /// What the signature allows this client; `policies` are those of the table, if [`Sas::policy`] asks for one.
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

    /// The query string, without `?`, with every parameter percent-encoded.
    pub fn to_query(&self) -> String {
        let (common, own) = match self {
            Sas::Table(sas) => (&sas.common, sas.own_parameters()),
            Sas::Account(sas) => (&sas.common, sas.own_parameters()),
        };
        let first = [("sv", Some(common.version.as_str()))];
        let last = [
            ("sp", common.permissions.as_deref()),
            ("st", common.start.as_deref()),
            ("se", common.expiry.as_deref()),
            ("sip", common.addresses.as_deref()),
            ("spr", common.protocols.as_deref()),
            ("sig", Some(common.signature.as_str())),
        ];
        let parts: Vec<String> = first
            .into_iter()
            .chain(own)
            .chain(last)
            .filter_map(|(name, value)| Some(format!("{name}={}", utf8_percent_encode(value?, QUERY))))
            .collect();
        parts.join("&")
    }
}

impl TableSas {
    /// A signature to be made for a table.
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

    /// Sets `sp`; left out, a stored policy has the permissions.
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
    /// `InvalidInput` for a row without its partition.
    pub fn range(mut self, range: KeyRange) -> Result<TableSas, Error> {
        if !range.is_complete() {
            return Err(Error::ArgumentInvalid {
                reason: "The first or last row of a range needs its partition".to_owned(),
            });
        }
        self.range = range;
        Ok(self)
    }

    /// The finished signature.
    ///
    /// # Errors
    /// `InvalidInput` if neither the parameters nor a stored policy say what is allowed, and until when.
    pub fn sign(mut self, account: &Account) -> Result<Sas, Error> {
        if self.policy.is_none() && (self.common.permissions.is_none() || self.common.expiry.is_none()) {
            return Err(Error::ArgumentInvalid {
                reason: "A signature without a stored access policy needs permissions and an expiry".to_owned(),
            });
        }
        self.common.signature = account.sign(&self.string_to_sign(account.name()));
        Ok(Sas::Table(self))
    }

    /// What is signed.
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

    fn grant(&self, policies: Option<&AccessPolicies>, client: &Client) -> Result<Grant, Error> {
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

impl AccountSas {
    /// What is signed.
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

    fn own_parameters(&self) -> Vec<(&'static str, Option<&str>)> {
        vec![
            ("ss", Some(self.services.as_str())),
            ("srt", Some(self.resource_types.as_str())),
            ("ses", self.encryption_scope.as_deref()),
        ]
    }

    fn grant(&self, client: &Client) -> Result<Grant, Error> {
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

impl Common {
    /// Checks the times, the client's address and its protocol.
    fn check(&self, start: Option<Ticks>, expiry: Option<Ticks>, client: &Client) -> Result<(), Error> {
        if start.is_some_and(|start| client.now < start) {
            return Err(failed("The signature is not valid yet"));
        }
        match expiry {
            None => return Err(failed("Neither se nor a stored access policy has an expiry")),
            Some(expiry) if client.now >= expiry => return Err(failed("The signature has expired")),
            Some(_) => {}
        }
        if let Some(addresses) = &self.addresses {
            let range = AddressRange::parse(addresses)
                .ok_or_else(|| failed("sip is an address, or two with - between them"))?;
            if !range.contains(client.address) {
                return Err(Error::SourceIpMismatch {
                    address: client.address.to_canonical(),
                });
            }
        }
        match self.protocols.as_deref() {
            None | Some("https,http" | "http,https") => Ok(()),
            Some("https") if client.https => Ok(()),
            Some("https") => Err(Error::ProtocolMismatch),
            Some(_) => Err(failed("spr is https, or https,http")),
        }
    }
}

/// The parameters of a query that a signature consists of.
#[derive(Default)]
struct Parameters<'q>(Vec<(&'q str, &'q str)>);

const NAMES: [&str; 16] = [
    "sv", "st", "se", "sp", "sip", "spr", "sig", "ss", "srt", "ses", "tn", "si", "spk", "srk", "epk", "erk",
];

impl<'q> Parameters<'q> {
    fn add(&mut self, name: &'q str, value: &'q str) -> Result<(), Error> {
        if !NAMES.contains(&name) {
            return Ok(());
        }
        if self.get(name).is_some() {
            return Err(failed(format!("The parameter {name} occurs twice")));
        }
        self.0.push((name, value));
        Ok(())
    }

    fn get(&self, name: &str) -> Option<&'q str> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }

    /// A parameter that may lack. Keys may be empty; for the others that is as good as absent.
    fn take(&self, name: &str) -> Option<String> {
        let is_key = matches!(name, "spk" | "srk" | "epk" | "erk");
        self.get(name)
            .filter(|value| is_key || !value.is_empty())
            .map(str::to_owned)
    }

    fn need(&self, name: &str) -> Result<String, Error> {
        self.take(name)
            .ok_or_else(|| failed(format!("The signature lacks the parameter {name}")))
    }
}

fn failed(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::AuthenticationFailed {
        reason: reason.into().into_owned(),
    }
}

/// The value of a field that stands in the signature or in the stored policy, never in both.
fn one_of<T>(signed: Option<T>, stored: Option<T>, name: &str) -> Result<Option<T>, Error> {
    if signed.is_some() && stored.is_some() {
        return Err(failed(format!(
            "{name} stands in the signature and in its stored access policy"
        )));
    }
    Ok(signed.or(stored))
}

fn time(name: &str, text: &Option<String>) -> Result<Option<Ticks>, Error> {
    let parse = |text: &String| {
        Ticks::parse(text).ok_or_else(|| failed(format!("{name} is a time in UTC such as 2026-01-31T12:00:00Z")))
    };
    text.as_ref().map(parse).transpose()
}

/// Whether text has the form `YYYY-MM-DD`, in which versions compare as text.
fn is_version(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(i, b)| match i {
            4 | 7 => b == b'-',
            _ => b.is_ascii_digit(),
        })
}
