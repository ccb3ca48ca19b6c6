//! Requests signed with the account's key (semantics 7.1).

use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::account::Account;
use super::grant::Grant;
use crate::{Error, Ticks, limits};

const TICKS_PER_SECOND: i64 = 10_000_000;

/// The credentials of an Authorization header of the schemes SharedKey and SharedKeyLite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedKey<'a> {
    /// Whether the scheme is SharedKeyLite, which signs less.
    pub lite: bool,
    pub account: &'a str,
    pub signature: &'a str,
}

/// The parts of a request that are signed.
#[derive(Debug, Clone, Copy)]
pub struct SignedRequest<'a> {
    /// The HTTP verb of the request line, whatever X-HTTP-Method says.
    pub verb: &'a str,
    /// The header Content-MD5, or empty.
    pub content_md5: &'a str,
    /// The header Content-Type, or empty.
    pub content_type: &'a str,
    /// The header x-ms-date if there is one, else Date.
    pub date: &'a str,
    /// The path exactly as the request line has it: percent-encoded, and without the query.
    pub path: &'a str,
    /// The value of the query parameter `comp`.
    pub comp: Option<&'a str>,
}

impl SignedRequest<'_> {
    /// Returns the string to sign of SharedKey.
    pub fn string_to_sign(&self, account: &str) -> String {
        let resource = self.canonicalized_resource(account);
        [self.verb, self.content_md5, self.content_type, self.date, &resource].join("\n")
    }

    /// Returns the string to sign of SharedKeyLite.
    pub fn string_to_sign_lite(&self, account: &str) -> String {
        [self.date, &self.canonicalized_resource(account)].join("\n")
    }

    fn canonicalized_resource(&self, account: &str) -> String {
        match self.comp {
            Some(comp) => ["/", account, self.path, "?comp=", comp].concat(),
            None => ["/", account, self.path].concat(),
        }
    }

    /// Returns the value of an Authorization header for this request.
    pub fn authorization(&self, account: &Account, lite: bool) -> String {
        let (scheme, text) = if lite {
            ("SharedKeyLite", self.string_to_sign_lite(account.name()))
        } else {
            ("SharedKey", self.string_to_sign(account.name()))
        };
        format!("{scheme} {}:{}", account.name(), account.sign(&text))
    }
}

impl SharedKey<'_> {
    /// Checks the signature and the request's clock against `now`. The holder of the key may do everything.
    ///
    /// # Errors
    /// `AuthenticationFailed`, whose hint names the reason.
    pub fn verify(&self, account: &Account, request: &SignedRequest<'_>, now: Ticks) -> Result<Grant, Error> {
        let failed = |reason: &str| {
            Err(Error::AuthenticationFailed {
                reason: reason.to_owned(),
            })
        };
        if self.account != account.name() {
            return failed("The Authorization header names another account than the request");
        }
        let Some(date) = parse_http_date(request.date) else {
            return failed("The request needs the header x-ms-date or Date, such as Sun, 11 Oct 2026 21:49:13 GMT");
        };
        let window = limits::CLOCK_WINDOW_MINUTES * 60 * TICKS_PER_SECOND;
        if (now.get() - date.get()).abs() > window {
            return failed("The request's date is more than 15 minutes from the server's clock");
        }
        let text = if self.lite {
            request.string_to_sign_lite(account.name())
        } else {
            request.string_to_sign(account.name())
        };
        if !account.verifies(&text, self.signature) {
            return failed("The signature is not that of this request with a key of the account");
        }
        Ok(Grant::Owner)
    }
}

/// Returns the time of a header such as `Sun, 11 Oct 2026 21:49:13 GMT`.
fn parse_http_date(text: &str) -> Option<Ticks> {
    let seconds = OffsetDateTime::parse(text.trim(), &Rfc2822).ok()?.unix_timestamp();
    Ticks::from_unix_seconds(seconds)
}
