//! Everything of a request but its body.

use std::time::Duration;

use http::{HeaderMap, Method};
use table_service_model::error::RequestError;
use uuid::Uuid;

use super::headers::{header, is_version, meant_method};
use super::peer::Peer;
use super::query::Query;

/// Everything of a request but its body.
#[derive(Debug)]
pub struct Head {
    pub id: Uuid,
    pub peer: Peer,
    /// The verb of the request line.
    pub sent_method: Method,
    /// The verb that is meant: that of X-HTTP-Method, if there is one.
    pub method: Method,
    pub host: String,
    /// The path as it stands in the request line.
    pub path: String,
    pub query: Query,
    pub headers: HeaderMap,
}

impl Head {
    /// Reads the head of a request.
    ///
    /// # Errors
    /// A request without a host, with a framing that two servers might read differently, with a wrong version or
    /// tunnelled verb.
    pub fn read(id: Uuid, peer: Peer, parts: http::request::Parts) -> Result<Head, RequestError> {
        check_framing(&parts.headers)?;
        check_version(&parts.headers)?;
        let host = host(&parts.uri, &parts.headers).ok_or(RequestError::HostMissing)?;
        let method = meant_method(&parts.method, &parts.headers)?;
        Ok(Head {
            id,
            peer,
            sent_method: parts.method,
            method,
            host,
            path: parts.uri.path().to_owned(),
            query: Query::parse(parts.uri.query().unwrap_or_default()),
            headers: parts.headers,
        })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The time that the client gives the operation, if it says so.
    ///
    /// # Errors
    /// `InvalidQueryParameterValue` for what is no number of seconds.
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

/// Two ways to say how long the body is: whoever stands between may choose the other one.
fn check_framing(headers: &HeaderMap) -> Result<(), RequestError> {
    let lengths = headers.get_all("content-length").iter().count();
    if lengths > 1 || (lengths > 0 && headers.contains_key("transfer-encoding")) {
        return Err(RequestError::HeaderInvalid { name: "Content-Length" });
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

fn host(uri: &http::Uri, headers: &HeaderMap) -> Option<String> {
    let host = match uri.authority() {
        Some(authority) => authority.as_str(),
        None => header(headers, "host")?,
    };
    (!host.is_empty() && headers.get_all("host").iter().count() <= 1).then(|| host.to_owned())
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
            (
                &[("host", "a"), ("content-length", "1"), ("transfer-encoding", "chunked")][..],
                RequestError::HeaderInvalid { name: "Content-Length" },
            ),
            (
                &[("host", "a"), ("x-ms-version", "latest")][..],
                RequestError::HeaderInvalid { name: "x-ms-version" },
            ),
        ] {
            assert_eq!(read("GET", pairs).unwrap_err(), error);
        }
        let head = read("GET", &[("host", "a"), ("x-ms-version", "2019-02-02")]).unwrap();
        assert_eq!(head.timeout(), Ok(Some(Duration::from_secs(5))));
    }
}
