//! The head of a request.

use std::time::Duration;

use http::header::{AsHeaderName, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Method};
use table_service_model::RequestError;
use table_service_model::access::is_version;
use uuid::Uuid;

use super::headers::{header, meant_method};
use super::host::Host;
use super::peer::Peer;
use super::query::Query;

/// The head of a request: everything but its body.
#[derive(Debug)]
pub struct Head {
    pub id: Uuid,
    pub peer: Peer,
    /// The method of the request line.
    pub sent_method: Method,
    /// The method that is meant: that of X-HTTP-Method, if there is one.
    pub method: Method,
    pub host: Host,
    /// The path as in the request line.
    pub path: String,
    pub query: Query,
    pub headers: HeaderMap,
}

impl Head {
    /// Reads the head of a request.
    ///
    /// # Errors
    /// For a missing or invalid host, an ambiguous length of the body, and a wrong version or X-HTTP-Method.
    pub fn read(id: Uuid, peer: Peer, parts: http::request::Parts) -> Result<Head, RequestError> {
        check_framing(&parts.headers)?;
        check_version(&parts.headers)?;
        let host = Host::of(&parts.uri, &parts.headers)?;
        let method = meant_method(&parts.method, &parts.headers)?;
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        // PostgreSQL's text cannot contain it.
        if query
            .pairs()
            .any(|(name, value)| name.contains('\0') || value.contains('\0'))
        {
            return Err(RequestError::UrlSyntax);
        }
        Ok(Head {
            id,
            peer,
            sent_method: parts.method,
            method,
            host,
            path: parts.uri.path().to_owned(),
            query,
            headers: parts.headers,
        })
    }

    /// Returns the value of a header, if it is text.
    pub fn header(&self, name: impl AsHeaderName) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Returns the time limit that the client sets for the operation, if any.
    ///
    /// # Errors
    /// `InvalidQueryParameterValue` if it is not a number of seconds.
    pub fn timeout(&self) -> Result<Option<Duration>, RequestError> {
        let invalid = RequestError::QueryParameterInvalid { name: "timeout" };
        let Some(text) = self.query.get("timeout") else {
            return Ok(None);
        };
        match text.parse() {
            Ok(seconds @ 1..) => Ok(Some(Duration::from_secs(seconds))),
            _ => Err(invalid),
        }
    }
}

/// Refuses a body with two lengths, or in an encoding that another program may read otherwise: a proxy may use the other length.
fn check_framing(headers: &HeaderMap) -> Result<(), RequestError> {
    let lengths = headers.get_all(CONTENT_LENGTH).iter().count();
    if lengths > 1 || (lengths > 0 && headers.contains_key(TRANSFER_ENCODING)) {
        return Err(RequestError::HeaderInvalid { name: "Content-Length" });
    }
    let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
    if encodings.next().is_some_and(|encoding| encoding != "chunked") || encodings.next().is_some() {
        let name = "Transfer-Encoding";
        return Err(RequestError::HeaderInvalid { name });
    }
    Ok(())
}

fn check_version(headers: &HeaderMap) -> Result<(), RequestError> {
    match header(headers, "x-ms-version") {
        None if headers.contains_key("x-ms-version") => Err(RequestError::HeaderInvalid { name: "x-ms-version" }),
        Some(version) if !is_version(version.as_bytes()) => Err(RequestError::HeaderInvalid { name: "x-ms-version" }),
        _ => Ok(()),
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

    fn read(method: &str, pairs: &[(&'static str, &'static str)]) -> Result<Head, RequestError> {
        let mut request = http::Request::builder()
            .method(method)
            .uri("/a/t?timeout=5")
            .body(())
            .unwrap();
        *request.headers_mut() = headers(pairs);
        let peer = Peer {
            address: [127, 0, 0, 1].into(),
            https: false,
        };
        Head::read(Uuid::nil(), peer, request.into_parts().0)
    }

    #[test]
    fn verbs_can_be_tunnelled_through_post() {
        let meant = |method, pairs: &[_]| {
            let mut all = vec![("host", "h")];
            all.extend(pairs);
            read(method, &all).map(|head| head.method.to_string())
        };
        assert_eq!(meant("PATCH", &[]).as_deref(), Ok("PATCH"));
        assert_eq!(meant("POST", &[("x-http-method", "MERGE")]).as_deref(), Ok("MERGE"));
        assert_eq!(
            meant("PUT", &[("x-http-method", "MERGE")]),
            Err(RequestError::MethodTunnelNotPost)
        );
        assert_eq!(
            meant("POST", &[("x-http-method", "GET")]),
            Err(RequestError::MethodTunnelValue)
        );
        let twice = [("x-http-method", "PUT"), ("x-http-method", "PUT")];
        assert_eq!(meant("POST", &twice), Err(RequestError::MethodTunnelCount));
    }

    #[test]
    fn framing_host_and_version_are_checked() {
        for (pairs, error) in [
            (&[][..], RequestError::HostMissing),
            (&[("host", "")][..], RequestError::HostMissing),
            (&[("host", "a"), ("host", "b")][..], RequestError::HostMissing),
            (&[("host", "a\"b")][..], RequestError::HeaderInvalid { name: "Host" }),
            (&[("host", "a@b")][..], RequestError::HeaderInvalid { name: "Host" }),
            (&[("host", "a/b")][..], RequestError::HeaderInvalid { name: "Host" }),
            (&[("host", "a:b:c")][..], RequestError::HeaderInvalid { name: "Host" }),
            (&[("host", "a:evil")][..], RequestError::HeaderInvalid { name: "Host" }),
            (
                &[("host", "a"), ("content-length", "1"), ("transfer-encoding", "chunked")][..],
                RequestError::HeaderInvalid { name: "Content-Length" },
            ),
            (
                &[("host", "a"), ("transfer-encoding", "gzip, chunked")][..],
                RequestError::HeaderInvalid {
                    name: "Transfer-Encoding",
                },
            ),
            (
                &[
                    ("host", "a"),
                    ("transfer-encoding", "chunked"),
                    ("transfer-encoding", "chunked"),
                ][..],
                RequestError::HeaderInvalid {
                    name: "Transfer-Encoding",
                },
            ),
            (
                &[("host", "a"), ("x-ms-version", "latest")][..],
                RequestError::HeaderInvalid { name: "x-ms-version" },
            ),
        ] {
            assert_eq!(read("GET", pairs).unwrap_err(), error);
        }
        // Proxies send these.
        for length in ["0", "2"] {
            assert!(read("DELETE", &[("host", "a"), ("content-length", length)]).is_ok());
        }
        assert!(read("GET", &[("host", "a"), ("transfer-encoding", "chunked")]).is_ok());
        let head = read("GET", &[("host", "a"), ("x-ms-version", "2019-02-02")]).unwrap();
        assert_eq!(head.timeout(), Ok(Some(Duration::from_secs(5))));
    }
}
