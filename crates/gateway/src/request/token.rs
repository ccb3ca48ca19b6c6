//! Continuation tokens in the service's form, `1!<length>!<text>` (semantics 6.6).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use table_service_model::Error;
use table_service_model::token::TOKEN_BYTES;

/// Encodes a key or the name of a table.
pub fn seal(key: &str) -> String {
    let text = STANDARD
        .encode(key)
        .replace('+', "*")
        .replace('/', "_")
        .replace('=', "-");
    format!("1!{}!{text}", text.len())
}

/// Decodes a key or the name of a table.
///
/// # Errors
/// `InvalidInput` for anything that [`seal`] never gives.
pub fn open(token: &str) -> Result<String, Error> {
    let read = || {
        if token.len() > TOKEN_BYTES {
            return None;
        }
        let (length, text) = token.strip_prefix("1!")?.split_once('!')?;
        if length.parse() != Ok(text.len()) {
            return None;
        }
        let text = text.replace('*', "+").replace('_', "/").replace('-', "=");
        let key = String::from_utf8(STANDARD.decode(text).ok()?).ok()?;
        (!key.contains('\0')).then_some(key)
    };
    read().ok_or_else(|| Error::argument("A continuation token is sent back as it came"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_is_the_services() {
        assert_eq!(seal("11"), "1!4!MTE-");
        assert_eq!(seal(""), "1!0!");
        for key in ["", "11", "O'Brien", "😀?>", "\u{fb}\u{ff}", "a+b/c=d"] {
            assert_eq!(open(&seal(key)).as_deref(), Ok(key));
            assert!(!seal(key).contains(['+', '/', '=']));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let long = format!("1!{}!{}", 100_000, "A".repeat(100_000));
        for token in [
            "",
            "MTE=",
            "1!5!MTE-",
            "1!4!MTE=x",
            "2!4!MTE-",
            "1!!",
            "1!3!MTE",
            "1!4!____",
            "x!4!MTE-",
            "1!4!AAAA",
            &long,
        ] {
            assert!(open(token).is_err(), "{token}");
        }
    }
}
