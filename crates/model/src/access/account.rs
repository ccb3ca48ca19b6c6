//! Accounts and their keys.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::Error;

/// The account of `UseDevelopmentStorage=true`, and its key, which is built into every SDK.
pub const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
/// The well-known key of the development account.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// An account: its name, and the one or two keys that are valid at the same time, so that one can be changed while
/// clients still use the other.
#[derive(Debug, Clone)]
pub struct Account {
    name: String,
    keys: Vec<AccountKey>,
}

impl Account {
    /// Returns an account with this name and these keys.
    ///
    /// # Errors
    /// `InvalidInput` for a name that is not 3 to 24 lower-case letters and digits, and unless there are one or two
    /// keys.
    pub fn new(name: &str, keys: Vec<AccountKey>) -> Result<Account, Error> {
        let well_formed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        if !(3..=24).contains(&name.len()) || !name.bytes().all(well_formed) {
            return Err(Error::argument(
                "An account's name has 3 to 24 lower-case letters and digits",
            ));
        }
        if !(1..=2).contains(&keys.len()) {
            return Err(Error::argument("An account has one or two keys"));
        }
        Ok(Account {
            name: name.to_owned(),
            keys,
        })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the Base64 signature of a text with the first key.
    pub(super) fn sign(&self, text: &str) -> String {
        let signature = self.keys.first().map(|key| key.mac(text).finalize().into_bytes());
        STANDARD.encode(signature.unwrap_or_default())
    }

    /// Returns whether `signature`, in Base64, is that of the text with one of the keys. Takes the same time for every wrong
    /// signature.
    pub(super) fn verifies(&self, text: &str, signature: &str) -> bool {
        let Ok(signature) = STANDARD.decode(signature) else {
            return false;
        };
        // Both keys are always tried, so that the time does not tell which one signed.
        self.keys.iter().fold(false, |verified, key| {
            key.mac(text).verify_slice(&signature).is_ok() | verified
        })
    }
}

/// A key that signs requests.
#[derive(Clone)]
pub struct AccountKey(Hmac<Sha256>);

impl AccountKey {
    /// Reads a key as clients have it in their connection strings, in Base64.
    ///
    /// # Errors
    /// `InvalidInput` for text that is empty or not Base64. The text is never quoted.
    pub fn parse(text: &str) -> Result<AccountKey, Error> {
        STANDARD
            .decode(text.trim())
            .ok()
            .filter(|key| !key.is_empty())
            .and_then(|key| Hmac::new_from_slice(&key).ok())
            .map(AccountKey)
            .ok_or_else(|| Error::argument("An account's key is Base64 text, of 64 bytes as the service makes them"))
    }

    fn mac(&self, text: &str) -> Hmac<Sha256> {
        self.0.clone().chain_update(text.as_bytes())
    }
}

impl fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountKey")
    }
}
