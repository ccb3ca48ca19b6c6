//! Reading and writing the values that payloads hold as strings.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Reads a finite double, `NaN`, `Infinity` or `-Infinity`; `None` for anything else and for a number that overflows.
pub fn parse_double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        // Rust would also read `inf` and `infinity`.
        _ if text
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E')) =>
        {
            text.parse().ok().filter(|value: &f64| value.is_finite())
        }
        _ => None,
    }
}

/// Reads `true` or `false` in any case.
pub fn parse_boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// Reads a Guid in the form 8-4-4-4-12 in any case, without braces.
pub fn parse_guid(text: &str) -> Option<[u8; 16]> {
    // Of the forms that the library reads, only this one has 36 characters.
    (text.len() == uuid::fmt::Hyphenated::LENGTH)
        .then(|| uuid::Uuid::try_parse(text).ok())
        .flatten()
        .map(uuid::Uuid::into_bytes)
}

/// Reads Base64 with padding.
pub fn parse_binary(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Appends the lower-case form 8-4-4-4-12.
pub fn write_guid(out: &mut Vec<u8>, guid: [u8; 16]) {
    let mut buffer = uuid::Uuid::encode_buffer();
    let text = uuid::Uuid::from_bytes(guid).hyphenated().encode_lower(&mut buffer);
    out.extend_from_slice(text.as_bytes());
}

/// Appends base64 with padding.
pub fn write_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    if let Some(target) = out.get_mut(start..) {
        // The room is exactly as long as padded base64.
        let _ = STANDARD.encode_slice(bytes, target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_in_strings() {
        for (text, value) in [
            ("3.25", 3.25),
            ("0", 0.0),
            ("1.23456789012346e+24", 1.23456789012346e24),
        ] {
            assert_eq!(parse_double(text), Some(value));
        }
        assert_eq!(parse_double("-Infinity"), Some(f64::NEG_INFINITY));
        assert!(parse_double("NaN").is_some_and(f64::is_nan));
        for text in [
            "",
            "inf",
            "nan",
            "INF",
            "infinity",
            "1,5",
            "0x10",
            " 1",
            "1e400",
            "1.797693134862316e308",
            "e",
        ] {
            assert_eq!(parse_double(text), None, "{text}");
        }
        assert_eq!(parse_double("1.797693134862315e308"), Some(1.797693134862315e308));
    }

    #[test]
    fn booleans_in_any_case() {
        assert_eq!(parse_boolean("true"), Some(true));
        assert_eq!(parse_boolean("False"), Some(false));
        for text in ["", "1", "yes", "truee"] {
            assert_eq!(parse_boolean(text), None, "{text}");
        }
    }

    #[test]
    fn guids_in_one_form() {
        let text = "a455c812-1f7a-4f5c-9c3b-0123456789ab";
        let guid = parse_guid(&text.to_uppercase()).unwrap();
        let mut out = Vec::new();
        write_guid(&mut out, guid);
        assert_eq!(out, text.as_bytes());
        for text in [
            "",
            "a455c8121f7a4f5c9c3b0123456789ab",
            "{a455c812-1f7a-4f5c-9c3b-0123456789ab}",
            "a455c812-1f7a-4f5c-9c3b-0123456789ag",
            "a455c8121-f7a-4f5c-9c3b-0123456789ab",
        ] {
            assert_eq!(parse_guid(text), None, "{text}");
        }
    }

    #[test]
    fn binary_is_padded_base64() {
        for bytes in [&b""[..], b"a", b"ab", b"abc", &[0, 255, 128, 7]] {
            let mut out = b"x".to_vec();
            write_binary(&mut out, bytes);
            let text = std::str::from_utf8(&out[1..]).unwrap();
            assert_eq!(parse_binary(text).as_deref(), Some(bytes));
        }
        for text in ["YQ", "YQ=", "Y", "YQ==\n", "Y*==", "_-=="] {
            assert_eq!(parse_binary(text), None, "{text}");
        }
    }
}
