//! The form of the payload that a client accepts, and of the one that it sends (semantics 3.3).

use mediatype::MediaType;
use table_service_model::RequestError;
use table_service_model::json::Metadata;

use super::media_type::{self, ATOM, JSON};

/// Returns the Content-Type of a payload.
pub fn content_type(metadata: Metadata) -> &'static str {
    match metadata {
        Metadata::None => "application/json;odata=nometadata;streaming=true;charset=utf-8",
        Metadata::Minimal => "application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
        Metadata::Full => "application/json;odata=fullmetadata;streaming=true;charset=utf-8",
    }
}

/// Returns the metadata level of the response, by `$format` or else by Accept.
///
/// # Errors
/// 415 if the client accepts none of the levels.
pub fn accepted(format: Option<&str>, accept: Option<&str>) -> Result<Metadata, RequestError> {
    let Some(wanted) = format.or(accept).filter(|wanted| !wanted.trim().is_empty()) else {
        return Ok(Metadata::Minimal);
    };
    match wanted.trim() {
        // OData's short forms for `$format`.
        "json" => return Ok(Metadata::Minimal),
        "atom" => return Err(RequestError::AtomFormatNotSupported),
        // Nearly all clients send one of these. A comparison is faster than a list of media types.
        "application/json;odata=minimalmetadata" => return Ok(Metadata::Minimal),
        "application/json;odata=nometadata" => return Ok(Metadata::None),
        "application/json;odata=fullmetadata" => return Ok(Metadata::Full),
        _ => {}
    }
    let mut ranges: Vec<(MediaType<'_>, u16)> = media_type::ranges(wanted)
        .flatten()
        .map(|range| {
            let weight = weight(&range);
            (range, weight)
        })
        .collect();
    // The one with the highest weight; of equal ones, the first.
    ranges.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    let mut refusal = None;
    for (range, weight) in &ranges {
        match metadata_of(range) {
            Ok(metadata) if *weight > 0 => return Ok(metadata),
            Ok(_) => {}
            Err(error) => _ = refusal.get_or_insert(error),
        }
    }
    Err(refusal.unwrap_or(RequestError::MediaTypeNotSupported))
}

/// Returns the weight of a media range in thousandths. It is 1000 without a readable `q`.
fn weight(range: &MediaType<'_>) -> u16 {
    let q = media_type::parameter(range, "q").and_then(|q| q.parse::<f32>().ok());
    q.filter(|q| (0.0..=1.0).contains(q))
        .map_or(1000, |q| (q * 1000.0) as u16)
}

/// Returns the metadata level of a media range.
fn metadata_of(range: &MediaType<'_>) -> Result<Metadata, RequestError> {
    if range.subty == "*" && (range.ty == "*" || range.ty == "application") {
        return Ok(Metadata::Minimal);
    }
    if media_type::is(range, &ATOM) {
        return Err(RequestError::AtomFormatNotSupported);
    }
    if !media_type::is(range, &JSON) {
        return Err(RequestError::MediaTypeNotSupported);
    }
    let level = media_type::parameter(range, "odata");
    match level.map(|level| level.to_ascii_lowercase()).as_deref() {
        None | Some("minimalmetadata") => Ok(Metadata::Minimal),
        Some("nometadata") => Ok(Metadata::None),
        Some("fullmetadata") => Ok(Metadata::Full),
        Some("verbose") => Err(RequestError::JsonVerboseFormatNotSupported),
        Some(_) => Err(RequestError::MediaTypeNotSupported),
    }
}

/// Refuses a payload that is not JSON. A payload without Content-Type counts as JSON.
///
/// # Errors
/// 415.
pub fn check_content_type(content_type: Option<&str>) -> Result<(), RequestError> {
    // Nearly all clients send this type without parameters.
    let is_simple = |text: &str| matches!(text.trim(), "" | "application/json");
    let Some(text) = content_type.filter(|text| !is_simple(text)) else {
        return Ok(());
    };
    match media_type::parse(text) {
        Some(given) if media_type::is(&given, &JSON) => Ok(()),
        Some(given) if media_type::is(&given, &ATOM) => Err(RequestError::AtomFormatNotSupported),
        _ => Err(RequestError::MediaTypeNotSupported),
    }
}

/// The preference in `Prefer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefer {
    ReturnContent,
    ReturnNoContent,
}

impl Prefer {
    /// Reads the header. Unknown preferences are ignored.
    pub fn parse(header: Option<&str>) -> Option<Prefer> {
        header?.split(',').find_map(|preference| {
            let preference = preference.trim();
            [Prefer::ReturnContent, Prefer::ReturnNoContent]
                .into_iter()
                .find(|known| preference.eq_ignore_ascii_case(known.as_str()))
        })
    }

    /// Returns the preference in the spelling of the header.
    pub fn as_str(self) -> &'static str {
        match self {
            Prefer::ReturnContent => "return-content",
            Prefer::ReturnNoContent => "return-no-content",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_comes_before_accept() {
        for (format, accept, expected) in [
            (None, None, Metadata::Minimal),
            (None, Some("*/*"), Metadata::Minimal),
            (None, Some("application/json"), Metadata::Minimal),
            (None, Some("application/json;odata=nometadata"), Metadata::None),
            (
                None,
                Some("application/json; odata=FullMetadata; charset=utf-8"),
                Metadata::Full,
            ),
            (
                None,
                Some("text/html,application/xhtml+xml,*/*;q=0.8"),
                Metadata::Minimal,
            ),
            (
                None,
                Some("application/atom+xml,application/json;odata=nometadata"),
                Metadata::None,
            ),
            (
                Some("application/json;odata=fullmetadata"),
                Some("application/json"),
                Metadata::Full,
            ),
            (Some("json"), Some("application/atom+xml"), Metadata::Minimal),
            (
                None,
                Some("application/json;odata=nometadata;q=0.5, application/json;odata=fullmetadata"),
                Metadata::Full,
            ),
            (
                None,
                Some("application/atom+xml, application/json;q=0.1"),
                Metadata::Minimal,
            ),
        ] {
            assert_eq!(accepted(format, accept), Ok(expected), "{format:?} {accept:?}");
        }
    }

    #[test]
    fn what_there_is_not_is_refused() {
        for (accept, expected) in [
            ("application/atom+xml", RequestError::AtomFormatNotSupported),
            ("atom", RequestError::AtomFormatNotSupported),
            ("application/xml", RequestError::MediaTypeNotSupported),
            ("application/json;q=0", RequestError::MediaTypeNotSupported),
            (
                "application/json;odata=verbose",
                RequestError::JsonVerboseFormatNotSupported,
            ),
            ("text/html", RequestError::MediaTypeNotSupported),
            ("application/json;odata=x", RequestError::MediaTypeNotSupported),
        ] {
            assert_eq!(accepted(None, Some(accept)), Err(expected), "{accept}");
        }
        assert!(check_content_type(Some("application/json; charset=utf-8")).is_ok());
        assert!(check_content_type(None).is_ok());
        assert_eq!(
            check_content_type(Some("text/plain")),
            Err(RequestError::MediaTypeNotSupported)
        );
    }

    #[test]
    fn preferences_are_read() {
        assert_eq!(Prefer::parse(Some("return-no-content")), Some(Prefer::ReturnNoContent));
        assert_eq!(Prefer::parse(Some("x, Return-Content")), Some(Prefer::ReturnContent));
        assert_eq!(Prefer::parse(Some("x")), None);
    }
}
