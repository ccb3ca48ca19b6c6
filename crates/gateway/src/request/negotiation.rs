//! Which form of payload a client wants, and which it sends (semantics 3.3).

use table_service_model::error::RequestError;
use table_service_model::json::Metadata;

const JSON: &str = "application/json";
const ATOM: &str = "application/atom+xml";

/// The Content-Type of a payload.
pub fn content_type(metadata: Metadata) -> &'static str {
    match metadata {
        Metadata::None => "application/json;odata=nometadata;streaming=true;charset=utf-8",
        Metadata::Minimal => "application/json;odata=minimalmetadata;streaming=true;charset=utf-8",
        Metadata::Full => "application/json;odata=fullmetadata;streaming=true;charset=utf-8",
    }
}

/// The form of the response by `$format`, which comes first, and Accept.
///
/// # Errors
/// 415 with the reason's code if the client takes none that there is.
pub fn accepted(format: Option<&str>, accept: Option<&str>) -> Result<Metadata, RequestError> {
    let Some(wanted) = format.or(accept).filter(|wanted| !wanted.trim().is_empty()) else {
        return Ok(Metadata::Minimal);
    };
    let mut ranges: Vec<(&str, u16)> = wanted.split(',').map(|range| (range, weight(range))).collect();
    // The client's favourite; of equals, the first.
    ranges.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    let mut refusal = None;
    for (range, weight) in ranges {
        match media_range(range) {
            Ok(metadata) if weight > 0 => return Ok(metadata),
            Ok(_) => {}
            Err(error) => _ = refusal.get_or_insert(error),
        }
    }
    Err(refusal.unwrap_or(RequestError::MediaTypeNotSupported))
}

/// How much a client wants a media range, in thousandths: all of it without a readable `q`.
fn weight(range: &str) -> u16 {
    let q = range.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let q = value.trim().parse::<f32>().ok()?;
        (name.trim().eq_ignore_ascii_case("q") && (0.0..=1.0).contains(&q)).then_some(q)
    });
    q.map_or(1000, |q| (q * 1000.0) as u16)
}

fn media_range(range: &str) -> Result<Metadata, RequestError> {
    let mut parts = range.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default();
    let is = |name: &str| media_type.eq_ignore_ascii_case(name);
    if is("*/*") || is("application/*") {
        return Ok(Metadata::Minimal);
    }
    // `$format=atom` and `$format=json` are OData's short forms.
    if is(ATOM) || is("atom") {
        return Err(RequestError::AtomFormatNotSupported);
    }
    if !is(JSON) && !is("json") {
        return Err(RequestError::MediaTypeNotSupported);
    }
    let level = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("odata").then_some(value.trim())
    });
    match level.map(str::to_ascii_lowercase).as_deref() {
        None | Some("minimalmetadata") => Ok(Metadata::Minimal),
        Some("nometadata") => Ok(Metadata::None),
        Some("fullmetadata") => Ok(Metadata::Full),
        Some("verbose") => Err(RequestError::JsonVerboseFormatNotSupported),
        Some(_) => Err(RequestError::MediaTypeNotSupported),
    }
}

/// Refuses a payload that is not JSON. One without a Content-Type is taken for JSON.
///
/// # Errors
/// 415.
pub fn check_content_type(content_type: Option<&str>) -> Result<(), RequestError> {
    let media_type = content_type
        .and_then(|value| value.split(';').next())
        .unwrap_or_default()
        .trim();
    if media_type.is_empty() || media_type.eq_ignore_ascii_case(JSON) {
        return Ok(());
    }
    Err(if media_type.eq_ignore_ascii_case(ATOM) {
        RequestError::AtomFormatNotSupported
    } else {
        RequestError::MediaTypeNotSupported
    })
}

/// What `Prefer` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefer {
    ReturnContent,
    ReturnNoContent,
}

impl Prefer {
    /// Reads the header; what it does not know it passes over.
    pub fn parse(header: Option<&str>) -> Option<Prefer> {
        header?.split(',').find_map(|preference| {
            let preference = preference.trim();
            [Prefer::ReturnContent, Prefer::ReturnNoContent]
                .into_iter()
                .find(|known| preference.eq_ignore_ascii_case(known.as_str()))
        })
    }

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
