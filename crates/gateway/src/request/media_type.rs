//! The media types of Content-Type and Accept (RFC 9110, 8.3.1 and 12.5.1).

use std::borrow::Cow;

use mediatype::{MediaType, MediaTypeList, Name, names};

/// The type of payloads.
pub const JSON: MediaType<'_> = MediaType::new(names::APPLICATION, names::JSON);
/// The type of payloads of old clients, which is refused.
pub const ATOM: MediaType<'_> =
    MediaType::from_parts(names::APPLICATION, Name::new_unchecked("atom"), Some(names::XML), &[]);
/// A request within a batch.
pub const HTTP: MediaType<'_> = MediaType::new(names::APPLICATION, Name::new_unchecked("http"));
const MULTIPART_MIXED: MediaType<'_> = MediaType::new(names::MULTIPART, Name::new_unchecked("mixed"));

/// The longest boundary that RFC 2046 allows.
const BOUNDARY_BYTES: usize = 70;

/// Returns whether two media types are the same without their parameters. Case does not matter.
pub fn is(media_type: &MediaType<'_>, wanted: &MediaType<'_>) -> bool {
    media_type.essence() == *wanted
}

/// Returns the media type of a Content-Type; `None` if it is not one.
pub fn parse(text: &str) -> Option<MediaType<'_>> {
    MediaType::parse(text.trim()).ok()
}

/// Returns the media ranges of an Accept; `None` for an item that is not one.
pub fn ranges(text: &str) -> impl Iterator<Item = Option<MediaType<'_>>> {
    MediaTypeList::new(text).map(Result::ok)
}

/// Returns the value of a parameter, without its quotes.
pub fn parameter<'m>(media_type: &'m MediaType<'_>, name: &str) -> Option<Cow<'m, str>> {
    let mut parameters = media_type.params.iter();
    let (_, value) = parameters.find(|(given, _)| given.as_str().eq_ignore_ascii_case(name))?;
    Some(match value.unquoted_str() {
        Cow::Borrowed(text) => Cow::Borrowed(text),
        Cow::Owned(text) => Cow::Owned(text),
    })
}

/// Returns the boundary that a Content-Type of the type `multipart/mixed` names; `None` for any other type.
pub fn boundary(content_type: &str) -> Option<String> {
    let media_type = parse(content_type)?;
    if !is(&media_type, &MULTIPART_MIXED) {
        return None;
    }
    let boundary = parameter(&media_type, "boundary")?;
    let is_boundary = (1..=BOUNDARY_BYTES).contains(&boundary.len())
        && boundary.bytes().all(|b| (b' '..=b'~').contains(&b))
        && !boundary.ends_with(' ');
    is_boundary.then(|| boundary.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_read_from_the_content_type() {
        for (content_type, expected) in [
            ("multipart/mixed; boundary=batch_1", Some("batch_1")),
            ("Multipart/Mixed;BOUNDARY=\"a b\"", Some("a b")),
            ("multipart/mixed; charset=utf-8; boundary=x; y=z", Some("x")),
            ("multipart/mixed; boundary=x;", Some("x")),
            ("multipart/mixed; a=\"boundary=no;\"; boundary=yes", Some("yes")),
            ("multipart/mixed; boundary=\"a\\\"b\"", Some("a\"b")),
            (
                "multipart/mixed; boundary=\"===============7330845974216740156==\"",
                Some("===============7330845974216740156=="),
            ),
            ("multipart/mixed", None),
            ("multipart/mixed; boundary=", None),
            ("multipart/mixed; boundary=\"open", None),
            ("multipart/form-data; boundary=x", None),
            ("application/json", None),
        ] {
            assert_eq!(boundary(content_type).as_deref(), expected, "{content_type}");
        }
        assert_eq!(boundary(&format!("multipart/mixed; boundary={}", "x".repeat(71))), None);
    }

    #[test]
    fn a_range_that_does_not_parse_does_not_hide_the_others() {
        // The default of Java's HttpURLConnection.
        let accept = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2";
        let read: Vec<bool> = ranges(accept).map(|range| range.is_some()).collect();
        assert_eq!(read, [true, true, true, false, true]);
    }
}
