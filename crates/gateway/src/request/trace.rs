//! The trace that a request belongs to (W3C Trace Context, `traceparent`).

use http::{HeaderMap, HeaderName};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The length of a header of version 00. Later versions may have more behind it.
const LENGTH: usize = 55;

/// The trace of a request, and the operation of the client in it that has sent the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    header: String,
}

impl Trace {
    /// Reads the header. An invalid one counts as none, by the standard, and so do two.
    pub fn of(headers: &HeaderMap) -> Option<Trace> {
        let mut all = headers.get_all(TRACEPARENT).iter();
        let text = all.next()?.to_str().ok()?;
        let is_one = all.next().is_none();
        let (known, rest) = text.split_at_checked(LENGTH)?;
        let parts: Vec<&str> = known.split('-').collect();
        let [version, trace, parent, flags] = parts[..] else {
            return None;
        };
        let is_hex = |text: &str, length| {
            text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_id = |text: &str, length| is_hex(text, length) && text.bytes().any(|byte| byte != b'0');
        let is_end = rest.is_empty() || (version != "00" && rest.starts_with('-'));
        let is_valid = is_one
            && is_hex(version, 2)
            && version != "ff"
            && is_id(trace, 32)
            && is_id(parent, 16)
            && is_hex(flags, 2)
            && is_end;
        is_valid.then(|| Trace {
            header: known.to_owned(),
        })
    }

    /// 32 hexadecimal digits.
    pub fn trace_id(&self) -> &str {
        self.header.get(3..35).unwrap_or_default()
    }

    /// Returns the id of the client's operation, 16 hexadecimal digits.
    pub fn parent_id(&self) -> &str {
        self.header.get(36..52).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(values: &[&str]) -> Option<Trace> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, value.parse().unwrap());
        }
        Trace::of(&headers)
    }

    #[test]
    fn a_valid_header_names_a_trace_and_an_operation() {
        let trace = read(&[VALID]).unwrap();
        assert_eq!(trace.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(trace.parent_id(), "00f067aa0ba902b7");
        let later = VALID.replacen("00", "01", 1) + "-more";
        assert_eq!(read(&[&later]).unwrap().trace_id(), trace.trace_id());
    }

    #[test]
    fn anything_else_counts_as_none() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[VALID, VALID]), None);
        let zero_trace = VALID.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        let zero_parent = VALID.replace("00f067aa0ba902b7", &"0".repeat(16));
        let long = format!("{VALID}-more");
        let behind = format!("{}more", VALID.replacen("00", "01", 1));
        let (upper, ff) = (VALID.to_ascii_uppercase(), VALID.replacen("00", "ff", 1));
        let other = VALID.replace("-01", "-0g");
        let hostile = format!("{}\"}}", &VALID[..53]);
        for text in [
            "",
            "x",
            &VALID[..54],
            &zero_trace,
            &zero_parent,
            &long,
            &behind,
            &upper,
            &ff,
            &other,
            &hostile,
        ] {
            assert_eq!(read(&[text]), None, "{text}");
        }
    }
}
