//! Reads single headers of requests and of the requests in a batch.

use http::header::AsHeaderName;
use http::{HeaderMap, Method};
use table_service_model::{Error, IfMatch, RequestError};

/// The method of classic clients that HTTP does not know.
pub const MERGE: &str = "MERGE";

/// Returns the value of a header, if it is text.
pub fn header(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    std::str::from_utf8(headers.get(name)?.as_bytes()).ok().map(str::trim)
}

/// Returns the condition of a write: the value of If-Match (semantics 2.2).
///
/// # Errors
/// For conditions that a write cannot have, and for a text that is no ETag.
pub fn if_match<'h>(method: &Method, headers: &'h HeaderMap) -> Result<Option<&'h str>, Error> {
    let given = header(headers, "if-match");
    if headers.contains_key("if-none-match") {
        let verb = if *method == Method::DELETE { "DELETE" } else { "PUT" };
        return Err(match given {
            Some(_) => RequestError::BothConditions,
            None => RequestError::IfNoneMatch { verb },
        }
        .into());
    }
    let mut all = headers.get_all("if-match").iter();
    if all.next().is_some() && all.next().is_some() {
        return Err(Error::EtagInvalid {
            value: "more than one".to_owned(),
        });
    }
    given.map(IfMatch::parse).transpose()?;
    Ok(given)
}

/// Returns the method that a request means: that of X-HTTP-Method in a POST, else that of its request line.
///
/// # Errors
/// For X-HTTP-Method with another value, twice, or with another method than POST.
pub fn meant_method(method: &Method, headers: &HeaderMap) -> Result<Method, RequestError> {
    let mut all = headers.get_all("x-http-method").iter();
    let Some(tunnelled) = all.next() else {
        return Ok(method.clone());
    };
    if all.next().is_some() {
        return Err(RequestError::MethodTunnelCount);
    }
    if *method != Method::POST {
        return Err(RequestError::MethodTunnelNotPost);
    }
    match tunnelled.as_bytes() {
        name @ (b"MERGE" | b"PUT" | b"DELETE" | b"PATCH") => {
            Method::from_bytes(name).map_err(|_| RequestError::MethodTunnelValue)
        }
        _ => Err(RequestError::MethodTunnelValue),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, http::HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn conditions_are_if_match_alone() {
        let of = |pairs: &[_]| if_match(&Method::PUT, &headers(pairs)).map(|tag| tag.map(str::to_owned));
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("if-match", " * ")]), Ok(Some("*".to_owned())));
        assert_eq!(
            of(&[("if-none-match", "*")]),
            Err(RequestError::IfNoneMatch { verb: "PUT" }.into())
        );
        assert_eq!(
            of(&[("if-match", "*"), ("if-none-match", "*")]),
            Err(RequestError::BothConditions.into())
        );
        assert!(of(&[("if-match", "*"), ("if-match", "*")]).is_err());
    }
}
