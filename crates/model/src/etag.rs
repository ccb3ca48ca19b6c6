//! ETags: the Timestamp of an entity in another spelling (semantics 2.1), and the values of If-Match (semantics 2.2).

use crate::text::abbreviate;
use crate::{Error, Ticks};

const PREFIX: &str = "W/\"datetime'";
const SUFFIX: &str = "'\"";

/// Returns the ETag of an entity with this Timestamp: `W/"datetime'2022-04-13T21%3A50%3A14.2477041Z'"`.
///
/// ```
/// use table_service_model::{Ticks, etag};
///
/// let timestamp = Ticks::parse("2022-04-13T21:50:14.25Z").unwrap();
/// assert_eq!(etag::format(timestamp), "W/\"datetime'2022-04-13T21%3A50%3A14.25Z'\"");
/// ```
pub fn format(timestamp: Ticks) -> String {
    let mut tag = Vec::with_capacity(56);
    tag.extend_from_slice(PREFIX.as_bytes());
    timestamp.write(&mut tag, "%3A");
    tag.extend_from_slice(SUFFIX.as_bytes());
    // All of it is ASCII.
    String::from_utf8(tag).unwrap_or_default()
}

/// The version of an entity that a conditional write needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMatch {
    /// `*`: any version, as long as there is one.
    Any,
    /// The version with this Timestamp.
    Version(Ticks),
    /// A well-formed tag that no entity ever has.
    Never,
}

impl IfMatch {
    /// Reads `*` or one weak tag.
    ///
    /// # Errors
    /// `InvalidInput` for anything that does not have the form `W/"..."`; the `W` may be small.
    ///
    /// ```
    /// use table_service_model::etag::{IfMatch, format};
    /// use table_service_model::{Code, Ticks};
    ///
    /// assert_eq!(IfMatch::parse("*")?, IfMatch::Any);
    /// assert_eq!(IfMatch::parse(&format(Ticks::ZERO))?, IfMatch::Version(Ticks::ZERO));
    /// assert_eq!(IfMatch::parse("W/\"of another service\"")?, IfMatch::Never);
    /// assert_eq!(IfMatch::parse("1").unwrap_err().code(), Code::InvalidInput);
    /// # Ok::<(), table_service_model::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<IfMatch, Error> {
        let text = text.trim_matches([' ', '\t']);
        if text == "*" {
            return Ok(IfMatch::Any);
        }
        let opaque = text
            .strip_prefix("W/\"")
            .or_else(|| text.strip_prefix("w/\""))
            .and_then(|rest| rest.strip_suffix('"'))
            .filter(|opaque| !opaque.contains('"'));
        let Some(opaque) = opaque else {
            return Err(Error::EtagInvalid {
                value: abbreviate(text, 256),
            });
        };
        // Tags are compared by their spelling, so another spelling of the same time is another tag.
        let version = opaque
            .strip_prefix("datetime'")
            .and_then(|rest| rest.strip_suffix('\''))
            .and_then(|time| Ticks::parse(&time.replace("%3A", ":")))
            // All but the letter of a weak tag.
            .filter(|&ticks| format(ticks).get(1..) == text.get(1..));
        Ok(version.map_or(IfMatch::Never, IfMatch::Version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use proptest::prelude::*;

    #[test]
    fn tags_have_the_services_form() {
        for (time, tag) in [
            (
                "2022-04-13T21:50:14.2477041Z",
                "W/\"datetime'2022-04-13T21%3A50%3A14.2477041Z'\"",
            ),
            (
                "2022-04-13T21:50:14.3876260Z",
                "W/\"datetime'2022-04-13T21%3A50%3A14.387626Z'\"",
            ),
            ("2022-04-13T21:50:14Z", "W/\"datetime'2022-04-13T21%3A50%3A14Z'\""),
        ] {
            assert_eq!(format(Ticks::parse(time).unwrap()), tag);
        }
    }

    #[test]
    fn other_spellings_are_well_formed_and_match_nothing() {
        for tag in [
            "W/\"wrong\"",
            "W/\"\"",
            "W/\"datetime'2022-04-13T21%3a50%3a14Z'\"",
            "W/\"datetime'2022-04-13T21:50:14Z'\"",
            "W/\"datetime'2022-04-13T21%3A50%3A14.0000000Z'\"",
            "W/\"datetime'2022-04-13T21%3A50%3A14+00%3A00'\"",
            "W/\"datetime'x'\"",
        ] {
            assert_eq!(IfMatch::parse(tag), Ok(IfMatch::Never), "{tag}");
        }
    }

    #[test]
    fn a_weak_tag_may_begin_with_a_small_letter() {
        let time = Ticks::parse("2022-04-13T21:50:14.2477041Z").unwrap();
        let tag = "w/\"datetime'2022-04-13T21%3A50%3A14.2477041Z'\"";
        assert_eq!(IfMatch::parse(tag), Ok(IfMatch::Version(time)));
        assert_eq!(IfMatch::parse("w/\"abc\""), Ok(IfMatch::Never));
    }

    #[test]
    fn anything_else_is_malformed() {
        for tag in ["", "abc", "\"abc\"", "W/abc", "W/\"a\", W/\"b\"", "W/\"", "**", "*, *"] {
            let error = IfMatch::parse(tag).unwrap_err();
            assert_eq!(error.code(), Code::InvalidInput, "{tag}");
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("The etag value '{tag}' specified"))
            );
        }
        assert_eq!(IfMatch::parse(" * "), Ok(IfMatch::Any));
    }

    proptest! {
        #[test]
        fn a_tag_is_read_back(ticks in 0..=Ticks::MAX.get()) {
            let ticks = Ticks::new(ticks).unwrap();
            prop_assert_eq!(IfMatch::parse(&format(ticks)), Ok(IfMatch::Version(ticks)));
        }
    }
}
