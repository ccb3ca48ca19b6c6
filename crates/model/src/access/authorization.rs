//! The Authorization header.

use super::shared_key::SharedKey;
use crate::Error;

/// The content of an Authorization header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorization<'a> {
    SharedKey(SharedKey<'a>),
    /// A token, which the caller must understand.
    Bearer(&'a str),
}

impl<'a> Authorization<'a> {
    /// Reads the header's value.
    ///
    /// # Errors
    /// `InvalidAuthenticationInfo` for anything else than `SharedKey account:signature`,
    /// `SharedKeyLite account:signature` and `Bearer token`.
    pub fn parse(value: &'a str) -> Result<Authorization<'a>, Error> {
        let unreadable = |reason| Error::AuthenticationUnreadable { reason };
        let (scheme, rest) = value
            .trim()
            .split_once(' ')
            .ok_or(unreadable("The header is a scheme, a space and credentials"))?;
        let rest = rest.trim();
        let is = |name: &str| scheme.eq_ignore_ascii_case(name);
        if is("Bearer") && !rest.is_empty() {
            return Ok(Authorization::Bearer(rest));
        }
        let lite = is("SharedKeyLite");
        if !lite && !is("SharedKey") {
            return Err(unreadable("The schemes are SharedKey, SharedKeyLite and Bearer"));
        }
        match rest.split_once(':') {
            Some((account, signature)) if !account.is_empty() && !signature.is_empty() => {
                Ok(Authorization::SharedKey(SharedKey {
                    lite,
                    account,
                    signature,
                }))
            }
            _ => Err(unreadable(
                "The credentials are an account's name, a colon and a signature",
            )),
        }
    }
}
