//! The parameters of a query, and the checks that both kinds of signatures share.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::addresses::AddressRange;
use crate::{Error, Ticks};

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

/// The parameters of a signature by their names, as sent, percent-decoded, because that is how they are signed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parameters(BTreeMap<&'static str, String>);

const NAMES: [&str; 16] = [
    "sv", "tn", "si", "spk", "srk", "epk", "erk", "ss", "srt", "ses", "sp", "st", "se", "sip", "spr", "sig",
];

impl Parameters {
    /// Adds a parameter of a query, if it is one of a signature.
    ///
    /// # Errors
    /// `AuthenticationFailed` if it occurs twice or has a control character.
    pub fn add(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let Some(name) = NAMES.into_iter().find(|known| *known == name) else {
            return Ok(());
        };
        if self.has(name) {
            return Err(failed(format!("The parameter {name} occurs twice")));
        }
        if value.contains(char::is_control) {
            return Err(failed(format!("The parameter {name} has a control character")));
        }
        self.set(name, Some(value.to_owned()));
        Ok(())
    }

    /// Sets a parameter, or removes it.
    pub fn set(&mut self, name: &'static str, value: Option<String>) {
        match value {
            Some(value) => self.0.insert(name, value),
            None => self.0.remove(name),
        };
    }

    /// Returns whether there is such a parameter, even if it is empty.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the value of a parameter that may be missing. A key may be empty; any other parameter that is empty counts as
    /// missing.
    pub fn value(&self, name: &str) -> Option<&str> {
        let is_key = matches!(name, "spk" | "srk" | "epk" | "erk");
        let found = self.0.get(name).map(String::as_str);
        found.filter(|value| is_key || !value.is_empty())
    }

    /// Returns the value of a parameter.
    ///
    /// # Errors
    /// `AuthenticationFailed` if it is missing.
    pub fn need(&self, name: &str) -> Result<&str, Error> {
        self.value(name)
            .ok_or_else(|| failed(format!("The signature lacks the parameter {name}")))
    }

    /// Checks the parameters that both kinds have.
    ///
    /// # Errors
    /// `AuthenticationFailed` if one is missing or `sv` is not a version.
    pub fn check_common(&mut self) -> Result<(), Error> {
        let is_valid = is_version(self.need("sv")?.as_bytes());
        let signature = self.need("sig")?.replace(' ', "+");
        self.set("sig", Some(signature));
        match is_valid {
            true => Ok(()),
            false => Err(failed("sv is a version such as 2019-02-02")),
        }
    }

    /// Returns the version.
    pub fn version(&self) -> &str {
        self.value("sv").unwrap_or_default()
    }

    /// Returns the lines that are signed: parameters, of which those that are missing are empty lines.
    pub fn lines<const N: usize>(&self, names: [&str; N]) -> Vec<&str> {
        names.map(|name| self.value(name).unwrap_or_default()).to_vec()
    }

    /// Returns the query string, without `?`, percent-encoded.
    pub fn to_query(&self) -> String {
        let part = |name| {
            let value = utf8_percent_encode(self.value(name)?, ESCAPED_IN_QUERY);
            Some(format!("{name}={value}"))
        };
        NAMES.into_iter().filter_map(part).collect::<Vec<_>>().join("&")
    }

    /// Returns whether a value has a control character: a line end would end a line of the string to sign.
    pub fn have_control_characters(&self) -> bool {
        self.0.values().any(|value| value.contains(char::is_control))
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
        if let Some(addresses) = self.value("sip") {
            let range = AddressRange::parse(addresses)
                .ok_or_else(|| failed("sip is an address, or two with - between them"))?;
            if !range.contains(client.address) {
                return Err(Error::SourceIpMismatch {
                    address: client.address.to_canonical(),
                });
            }
        }
        match self.value("spr") {
            None | Some("https,http" | "http,https") => Ok(()),
            Some("https") if client.https => Ok(()),
            Some("https") => Err(Error::ProtocolMismatch),
            Some(_) => Err(failed("spr is https, or https,http")),
        }
    }
}

/// Returns the error of a signature that permits nothing, for this reason.
pub fn failed(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::AuthenticationFailed {
        reason: reason.into().into_owned(),
    }
}

/// Returns the time that a parameter names: a date, or a time with `Z`. An Edm.DateTime has more forms.
///
/// # Errors
/// `AuthenticationFailed` for text that is not a time, and for one with an offset or without a zone.
pub fn time(name: &str, parameters: &Parameters) -> Result<Option<Ticks>, Error> {
    let parse = |text: &str| {
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
    parameters.value(name).map(parse).transpose()
}

/// Returns whether text has the form `YYYY-MM-DD`, in which versions compare as text.
pub fn is_version(text: &[u8]) -> bool {
    text.len() == 10
        && text.iter().enumerate().all(|(i, b)| match i {
            4 | 7 => *b == b'-',
            _ => b.is_ascii_digit(),
        })
}
