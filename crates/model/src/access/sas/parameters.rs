//! The parameters of a query, and what both kinds of signatures make of them.

use std::borrow::Cow;
use std::net::IpAddr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::addresses::AddressRange;
use crate::error::Error;
use crate::ticks::Ticks;

/// From this version on addresses and protocols are signed, and there are signatures of accounts.
pub const ADDRESS_AND_PROTOCOL: &str = "2015-04-05";

/// The characters that are percent-encoded in a query parameter: all but the unreserved characters of RFC 3986.
const ESCAPED_IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Where a request comes from, and when.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    pub now: Ticks,
    pub address: IpAddr,
    pub https: bool,
}

/// The parameters of both kinds as sent, percent-decoded, because that is how they are signed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Common {
    pub version: String,
    pub start: Option<String>,
    pub expiry: Option<String>,
    pub permissions: Option<String>,
    pub addresses: Option<String>,
    pub protocols: Option<String>,
    pub signature: String,
}

impl Common {
    /// Reads the parameters that both kinds have.
    ///
    /// # Errors
    /// `AuthenticationFailed` if one is missing or `sv` is not a version.
    pub fn read(parameters: &Parameters<'_>) -> Result<Common, Error> {
        let common = Common {
            version: parameters.need("sv")?,
            start: parameters.take("st"),
            expiry: parameters.take("se"),
            permissions: parameters.take("sp"),
            addresses: parameters.take("sip"),
            protocols: parameters.take("spr"),
            // A plus sign that was not percent-encoded has become a space.
            signature: parameters.need("sig")?.replace(' ', "+"),
        };
        if is_version(&common.version) {
            Ok(common)
        } else {
            Err(failed("sv is a version such as 2019-02-02"))
        }
    }

    /// Returns the query string of these parameters and those of one kind, without `?`, percent-encoded.
    pub fn to_query(&self, own: Vec<(&'static str, Option<&str>)>) -> String {
        let first = [("sv", Some(self.version.as_str()))];
        let last = [
            ("sp", self.permissions.as_deref()),
            ("st", self.start.as_deref()),
            ("se", self.expiry.as_deref()),
            ("sip", self.addresses.as_deref()),
            ("spr", self.protocols.as_deref()),
            ("sig", Some(self.signature.as_str())),
        ];
        let parts: Vec<String> = first
            .into_iter()
            .chain(own)
            .chain(last)
            .filter_map(|(name, value)| Some(format!("{name}={}", utf8_percent_encode(value?, ESCAPED_IN_QUERY))))
            .collect();
        parts.join("&")
    }

    /// Checks the times, the client's address and its protocol.
    pub fn check(&self, start: Option<Ticks>, expiry: Option<Ticks>, client: &Client) -> Result<(), Error> {
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
pub struct Parameters<'q>(Vec<(&'q str, &'q str)>);

const NAMES: [&str; 16] = [
    "sv", "st", "se", "sp", "sip", "spr", "sig", "ss", "srt", "ses", "tn", "si", "spk", "srk", "epk", "erk",
];

impl<'q> Parameters<'q> {
    pub fn add(&mut self, name: &'q str, value: &'q str) -> Result<(), Error> {
        if !NAMES.contains(&name) {
            return Ok(());
        }
        if self.get(name).is_some() {
            return Err(failed(format!("The parameter {name} occurs twice")));
        }
        // Fields are signed one a line: a line end in one of them would make it several.
        if value.contains(char::is_control) {
            return Err(failed(format!("The parameter {name} has a control character")));
        }
        self.0.push((name, value));
        Ok(())
    }

    pub fn get(&self, name: &str) -> Option<&'q str> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }

    /// Returns a parameter that may be missing. A key may be empty; any other parameter that is empty counts as
    /// missing.
    pub fn take(&self, name: &str) -> Option<String> {
        let is_key = matches!(name, "spk" | "srk" | "epk" | "erk");
        self.get(name)
            .filter(|value| is_key || !value.is_empty())
            .map(str::to_owned)
    }

    pub fn need(&self, name: &str) -> Result<String, Error> {
        self.take(name)
            .ok_or_else(|| failed(format!("The signature lacks the parameter {name}")))
    }
}

pub fn failed(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::AuthenticationFailed {
        reason: reason.into().into_owned(),
    }
}

/// Returns the time that a parameter names: a date, or a time with `Z`. An Edm.DateTime has more forms.
///
/// # Errors
/// `AuthenticationFailed` for text that is not a time, and for one with an offset or without a zone.
pub fn time(name: &str, text: &Option<String>) -> Result<Option<Ticks>, Error> {
    let parse = |text: &String| {
        let is_in_utc = match text.contains('T') {
            true => text.ends_with('Z'),
            false => text.len() == "2026-01-31".len(),
        };
        let ticks = Ticks::parse(text).filter(|_| is_in_utc);
        ticks.ok_or_else(|| {
            failed(format!(
                "{name} is a date, or a time in UTC with Z at its end such as 2026-01-31T12:00:00Z"
            ))
        })
    };
    text.as_ref().map(parse).transpose()
}

/// Returns whether text has the form `YYYY-MM-DD`, in which versions compare as text.
fn is_version(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(i, b)| match i {
            4 | 7 => b == b'-',
            _ => b.is_ascii_digit(),
        })
}
