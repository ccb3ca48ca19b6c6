//! Who may call the explorer: only its own page, with the token.
//!
//! There is no cookie: browsers share cookies between the ports of a host. The admin port has checked the Host already.

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, ORIGIN};
use http::{StatusCode, Uri};

use super::answer::Problem;
use super::token::Token;
use crate::request::Host;

/// Checks the headers of a call.
///
/// # Errors
/// 403 for another origin, 415 for another content type, 401 without the token.
pub fn check(uri: &Uri, headers: &HeaderMap, token: &Token) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if headers.contains_key(ORIGIN) {
        let host = Host::of(uri, headers).ok();
        let own = host.map(|host| format!("http://{}", host.as_str()));
        let is_one = headers.get_all(ORIGIN).iter().count() == 1 && headers.get_all(HOST).iter().count() == 1;
        if !is_one || own.is_none() || own.as_deref() != text(ORIGIN) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "AuthorizationFailure",
                "Only the explorer's own page may call it.",
                None,
            ));
        }
    }
    let media_type = text(CONTENT_TYPE).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "InvalidHeaderValue",
            "The Content-Type must be application/json.",
            None,
        ));
    }
    let sent = text(AUTHORIZATION).and_then(|value| value.split_once(' '));
    match sent {
        Some((scheme, sent)) if scheme.eq_ignore_ascii_case("Bearer") && token.is(sent) => Ok(()),
        _ => Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "InvalidAuthenticationInfo",
            "The explorer does not know you.",
            Some(
                "Open the address that was printed when the program started, with all that stands behind #token=. \
                 It is a new one after each start.",
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(headers: &[&(http::HeaderName, &str)], token: &Token) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        match check(&Uri::from_static("/explorer/api"), &map, token) {
            Ok(()) => 200,
            Err(problem) => problem.status.as_u16(),
        }
    }

    #[test]
    fn only_the_own_page_with_the_token_may_call() {
        let token = Token::new().unwrap();
        let bearer = format!("Bearer {}", token.expose());
        let host = &(HOST, "localhost:10003");
        let json = &(CONTENT_TYPE, "application/json");
        let known = &(AUTHORIZATION, bearer.as_str());
        let own = &(ORIGIN, "http://localhost:10003");
        assert_eq!(status(&[host, json, known], &token), 200);
        assert_eq!(status(&[host, json, known, own], &token), 200);
        for origin in [
            "null",
            "",
            "http://localhost",
            "http://localhost:10004",
            "https://localhost:10003",
            "http://127.0.0.1:10003",
            "http://evil.example:10003",
            "http://localhost:100031",
        ] {
            assert_eq!(status(&[host, json, known, &(ORIGIN, origin)], &token), 403, "{origin}");
        }
        assert_eq!(status(&[host, json, known, own, own], &token), 403);
        for media_type in [
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/jsonp",
        ] {
            let other = &(CONTENT_TYPE, media_type);
            assert_eq!(status(&[host, other, known, own], &token), 415, "{media_type}");
        }
        assert_eq!(status(&[host, json, own], &token), 401);
        let without_scheme = &(AUTHORIZATION, token.expose());
        assert_eq!(status(&[host, json, without_scheme], &token), 401);
        let other = format!("Bearer {}", Token::new().unwrap().expose());
        assert_eq!(status(&[host, json, &(AUTHORIZATION, &other)], &token), 401);
    }
}
