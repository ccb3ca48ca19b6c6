//! The guard of the calls: only the explorer's own page may make them, and only with the token.
//!
//! The token is in no cookie, because browsers share cookies between the ports of a host. The admin port has checked the Host already.

use http::Uri;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, ORIGIN};
use table_service_model::Code;

use crate::answer::Problem;
use crate::token::Token;

/// Checks the headers of a call.
///
/// # Errors
/// 403 for another origin, 415 for another content type, 401 without the token.
pub fn check(uri: &Uri, headers: &HeaderMap, token: &Token) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if headers.contains_key(ORIGIN) {
        let host = uri
            .authority()
            .map_or_else(|| text(HOST), |authority| Some(authority.as_str()));
        let own = host.map(|host| format!("http://{host}"));
        let is_one = headers.get_all(ORIGIN).iter().count() == 1 && headers.get_all(HOST).iter().count() == 1;
        if !is_one || own.is_none() || own.as_deref() != text(ORIGIN) {
            let message = "Only the explorer's own page may call it.";
            return Err(Problem::new(Code::AuthorizationFailure, message, None));
        }
    }
    let media_type = text(CONTENT_TYPE).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        let message = "The Content-Type must be application/json.";
        return Err(Problem::new(Code::MediaTypeNotSupported, message, None));
    }
    let sent = text(AUTHORIZATION).and_then(|value| value.split_once(' '));
    match sent {
        Some((scheme, sent)) if scheme.eq_ignore_ascii_case("Bearer") && token.is(sent) => Ok(()),
        _ => {
            let hint = "Open the address that was printed when the program started, with all that stands behind #token=. \
                        It is a new one after each start.";
            let message = "The explorer does not know you.";
            Err(Problem::new(
                Code::NoAuthenticationInformation,
                message,
                Some(hint.to_owned()),
            ))
        }
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

    const HOST_HEADER: &(http::HeaderName, &str) = &(HOST, "localhost:10003");
    const JSON: &(http::HeaderName, &str) = &(CONTENT_TYPE, "application/json");
    const OWN: &(http::HeaderName, &str) = &(ORIGIN, "http://localhost:10003");

    fn token() -> (Token, String) {
        let token = Token::new().unwrap();
        let bearer = format!("Bearer {}", token.expose());
        (token, bearer)
    }

    #[test]
    fn only_the_own_page_may_call() {
        let (token, bearer) = token();
        let known = &(AUTHORIZATION, bearer.as_str());
        assert_eq!(status(&[HOST_HEADER, JSON, known], &token), 200);
        assert_eq!(status(&[HOST_HEADER, JSON, known, OWN], &token), 200);
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
            let other = &(ORIGIN, origin);
            assert_eq!(status(&[HOST_HEADER, JSON, known, other], &token), 403, "{origin}");
        }
        assert_eq!(status(&[HOST_HEADER, JSON, known, OWN, OWN], &token), 403);
    }

    #[test]
    fn content_that_pages_may_send_to_other_sites_is_refused() {
        let (token, bearer) = token();
        let known = &(AUTHORIZATION, bearer.as_str());
        for media_type in [
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/jsonp",
        ] {
            let other = &(CONTENT_TYPE, media_type);
            assert_eq!(status(&[HOST_HEADER, other, known, OWN], &token), 415, "{media_type}");
        }
    }

    #[test]
    fn a_call_needs_the_token() {
        let (token, _) = token();
        assert_eq!(status(&[HOST_HEADER, JSON, OWN], &token), 401);
        let without_scheme = &(AUTHORIZATION, token.expose());
        assert_eq!(status(&[HOST_HEADER, JSON, OWN, without_scheme], &token), 401);
        let other = format!("Bearer {}", Token::new().unwrap().expose());
        assert_eq!(status(&[HOST_HEADER, JSON, &(AUTHORIZATION, &other)], &token), 401);
    }
}
