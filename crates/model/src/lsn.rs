//! Positions in PostgreSQL's write-ahead log.
//!
//! ```
//! use table_service_model::Lsn;
//!
//! assert_eq!(Lsn::parse("0/16B3748")?.to_string(), "0/16B3748");
//! # Ok::<(), table_service_model::Error>(())
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Error;

/// A position in the write-ahead log, in bytes from its beginning. In a change feed it is the end of a transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Lsn(pub u64);

impl Lsn {
    /// Reads PostgreSQL's form of a position: two hexadecimal numbers of up to eight digits.
    ///
    /// # Errors
    /// `InvalidInput` for any other text.
    pub fn parse(text: &str) -> Result<Lsn, Error> {
        let part = |digits: &str| {
            let is_hexadecimal = digits.len() <= 8 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            is_hexadecimal.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
        };
        text.split_once('/')
            .and_then(|(high, low)| Some(Lsn(u64::from(part(high)?) << 32 | u64::from(part(low)?))))
            .ok_or_else(|| Error::argument("A position is one that query_changes has returned, such as 0/16B3748"))
    }
}

impl TryFrom<String> for Lsn {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Lsn, &'static str> {
        Lsn::parse(&text).map_err(|_| "it is no position of a change feed")
    }
}

impl From<Lsn> for String {
    fn from(lsn: Lsn) -> String {
        lsn.to_string()
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_they_are_written() {
        for lsn in [0, 1, 0xFFFF_FFFF, 0x1_0000_0000, 0x16_B374_D848, u64::MAX] {
            assert_eq!(Lsn::parse(&Lsn(lsn).to_string()).unwrap(), Lsn(lsn));
        }
        assert_eq!(Lsn(0x16_B374_D848).to_string(), "16/B374D848");
        assert_eq!(Lsn::parse("00000016/b374d848").unwrap(), Lsn(0x16_B374_D848));
        for text in [
            "",
            "/",
            "0",
            "0/",
            "/0",
            "0/0/0",
            "g/0",
            "0/+1",
            "+16/+1",
            "0/-1",
            " 0/1",
            "0/1 ",
            "000000001/0",
            "0/123456789",
        ] {
            assert!(Lsn::parse(text).is_err(), "{text}");
        }
    }
}
