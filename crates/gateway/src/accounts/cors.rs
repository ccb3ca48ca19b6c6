//! Cross-origin requests of web pages (CORS), by the rules in the service properties (semantics 4.10).

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CONTENT_LENGTH, DATE,
    HeaderName, HeaderValue, VARY,
};
use parking_lot::Mutex;
use table_service_model::RequestError;
use table_service_model::access::{CorsRule, ServiceProperties, header_matches};

use crate::database::{Node, Session};
use crate::request::Head;
use crate::response::Reply;

/// The time between two readings of the rules. Another gateway or SQL may change them.
const INTERVAL: Duration = Duration::from_secs(5);

/// Most headers in a preflight. Each is compared with each of the rules.
const MAX_HEADERS: usize = 128;

/// The CORS rules of an account, as they were read last. They answer requests without credentials, so that no such request waits for
/// the database: its time would tell which accounts exist.
#[derive(Default)]
pub struct CorsRules(Mutex<LastRules>);

#[derive(Default)]
struct LastRules {
    properties: Arc<ServiceProperties>,
    /// The number of changes by this gateway.
    changes: u64,
}

impl CorsRules {
    fn current(&self) -> Arc<ServiceProperties> {
        self.0.lock().properties.clone()
    }

    /// Reads the rules again, because this gateway has changed them: the change takes effect at once.
    pub async fn changed(&self, session: &Session<'_>) {
        let changes = {
            let mut known = self.0.lock();
            known.changes += 1;
            known.changes
        };
        let read = session.get_service_properties().await;
        self.learn(changes, read.map_err(|failure| failure.to_string()));
    }

    /// Reads the rules from a node.
    pub async fn read(&self, node: &Node) {
        let changes = self.0.lock().changes;
        self.learn(changes, node.service_properties().await);
    }

    /// Reads the rules again and again, as long as the database can be reached.
    pub async fn keep_reading(&self, node: &Node) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if !node.is_away() {
                self.read(node).await;
            }
        }
    }

    /// Takes rules that were read after so many changes. After another change they may be old.
    fn learn(&self, changes: u64, json: Result<String, String>) {
        let read = json.and_then(|json| ServiceProperties::from_json(&json).map_err(|error| error.to_string()));
        match read {
            Ok(properties) => {
                let mut known = self.0.lock();
                if known.changes == changes {
                    known.properties = Arc::new(properties);
                }
            }
            Err(problem) => tracing::debug!(problem, "the CORS rules stay as they were"),
        }
    }
}

/// A preflight request. It has no credentials.
pub struct Preflight<'h> {
    origin: &'h str,
    method: &'h str,
    /// As they were sent.
    headers: &'h str,
}

impl<'h> Preflight<'h> {
    /// Reads the headers of a preflight request.
    ///
    /// # Errors
    /// `MissingRequiredHeader` without an origin or a method, `CorsPreflightFailure` for too many headers.
    pub fn read(head: &'h Head) -> Result<Preflight<'h>, RequestError> {
        let need = |name| head.header(name).ok_or(RequestError::CorsHeaderMissing { name });
        let preflight = Preflight {
            origin: need("Origin")?,
            method: need("Access-Control-Request-Method")?,
            headers: head.header("Access-Control-Request-Headers").unwrap_or_default(),
        };
        if preflight.names().count() > MAX_HEADERS {
            return Err(RequestError::CorsPreflightFailure);
        }
        Ok(preflight)
    }

    fn names(&self) -> impl Iterator<Item = &'h str> {
        let names = self.headers.split(',').map(str::trim);
        names.filter(|name| !name.is_empty())
    }

    /// Answers it by the rules of the account.
    ///
    /// # Errors
    /// `CorsPreflightFailure` if no rule allows it.
    pub fn answer(&self, rules: &CorsRules) -> Result<Reply, RequestError> {
        let properties = rules.current();
        let names: Vec<&str> = self.names().collect();
        let rule = properties
            .cors_rule(self.origin, self.method, &names)
            .ok_or(RequestError::CorsPreflightFailure)?;
        let reply = allow(rule, self.origin, Reply::new(StatusCode::OK))
            .with_text(ACCESS_CONTROL_ALLOW_METHODS, self.method)
            .with_text(ACCESS_CONTROL_MAX_AGE, &rule.max_age_in_seconds.to_string());
        Ok(match self.headers {
            "" => reply,
            headers => reply.with_text(ACCESS_CONTROL_ALLOW_HEADERS, headers),
        })
    }
}

/// Adds the headers that let a page of another origin read a response, and `Vary` for caches. The response has its other headers
/// already.
pub fn decorate(rules: &CorsRules, head: &Head, reply: Reply) -> Reply {
    decorated(
        &rules.current().cors,
        head.sent_method.as_str(),
        head.header("origin"),
        reply,
    )
}

/// Adds the headers of the table in semantics 4.10.
fn decorated(rules: &[CorsRule], method: &str, origin: Option<&str>, reply: Reply) -> Reply {
    let is_cached = matches!(method, "GET" | "HEAD");
    let mut matching = rules
        .iter()
        .filter(|rule| rule.allowed_methods.iter().any(|allowed| allowed == method));
    let rule = match origin {
        Some(origin) => matching.find(|rule| rule.allowed_origins.iter().any(|o| o == "*" || o == origin)),
        // A cache may use the response for any page.
        None => matching.find(|rule| is_cached && allows_all(rule)),
    };
    let depends_on_origin = !rules.is_empty() && !rule.is_some_and(allows_all);
    let reply = if is_cached && depends_on_origin {
        reply.with(VARY, HeaderValue::from_static("Origin"))
    } else {
        reply
    };
    match rule {
        Some(rule) => expose(rule, allow(rule, origin.unwrap_or_default(), reply)),
        None => reply,
    }
}

fn allows_all(rule: &CorsRule) -> bool {
    rule.allowed_origins.iter().any(|allowed| allowed == "*")
}

fn allow(rule: &CorsRule, origin: &str, reply: Reply) -> Reply {
    if allows_all(rule) {
        return reply.with(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    }
    reply
        .with_text(ACCESS_CONTROL_ALLOW_ORIGIN, origin)
        .with(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"))
}

/// Adds the headers of the response that pages may read. Browsers know no prefixes, and `*` has another meaning for them in an answer
/// to a request with credentials.
fn expose(rule: &CorsRule, reply: Reply) -> Reply {
    let is_listed = |wanted: &str| rule.exposed_headers.iter().any(|exposed| exposed == wanted);
    if is_listed("*") && allows_all(rule) {
        return reply.with(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
    }
    let matches = |name: &str| rule.exposed_headers.iter().any(|exposed| header_matches(exposed, name));
    let mut names: Vec<&str> = reply.headers.keys().map(HeaderName::as_str).collect();
    // Those that are added when the response is written.
    names.push(DATE.as_str());
    if reply.status != StatusCode::NO_CONTENT {
        names.push(CONTENT_LENGTH.as_str());
    }
    names.retain(|name| matches(name) && !name.starts_with("access-control-"));
    match names.join(",") {
        none if none.is_empty() => reply,
        names => reply.with_text(ACCESS_CONTROL_EXPOSE_HEADERS, &names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{CACHE_CONTROL, ETAG};

    fn rule(origin: &str) -> CorsRule {
        CorsRule {
            allowed_origins: vec![origin.to_owned()],
            allowed_methods: vec!["GET".to_owned(), "HEAD".to_owned(), "PUT".to_owned()],
            exposed_headers: vec!["x-ms-*".to_owned(), "etag".to_owned()],
            max_age_in_seconds: 1,
            allowed_headers: Vec::new(),
        }
    }

    /// Vary, Access-Control-Allow-Origin and whether there is Access-Control-Expose-Headers.
    fn headers(rules: &[CorsRule], method: &str, origin: Option<&str>) -> (bool, Option<String>, bool) {
        let etag = HeaderValue::from_static("\"1\"");
        let reply = decorated(rules, method, origin, Reply::new(StatusCode::OK).with(ETAG, etag));
        let text = |name: HeaderName| reply.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let vary = text(VARY);
        assert!(vary.is_none() || vary.as_deref() == Some("Origin"));
        let exposed = text(ACCESS_CONTROL_EXPOSE_HEADERS).is_some();
        (vary.is_some(), text(ACCESS_CONTROL_ALLOW_ORIGIN), exposed)
    }

    #[test]
    fn answers_to_get_and_head_have_the_headers_of_the_services_table() {
        let (page, all, other) = ("http://page", rule("*"), rule("http://other"));
        let exact = rule(page);
        for (origin, rules, vary, allowed, exposed) in [
            (None, vec![], false, None, false),
            (None, vec![other.clone()], true, None, false),
            (None, vec![other.clone(), all.clone()], false, Some("*"), true),
            (Some(page), vec![], false, None, false),
            (Some(page), vec![other.clone(), exact.clone()], true, Some(page), true),
            (Some(page), vec![other.clone()], true, None, false),
            (Some(page), vec![other, all.clone()], false, Some("*"), true),
            // The first rule that matches counts.
            (Some(page), vec![exact.clone(), all.clone()], true, Some(page), true),
        ] {
            for method in ["GET", "HEAD"] {
                let expected = (vary, allowed.map(str::to_owned), exposed);
                assert_eq!(
                    headers(&rules, method, origin),
                    expected,
                    "{method} {origin:?} {rules:?}"
                );
            }
        }
        // Responses to other methods are not cached.
        assert_eq!(
            headers(std::slice::from_ref(&exact), "PUT", Some(page)),
            (false, Some(page.to_owned()), true)
        );
        assert_eq!(headers(&[all], "PUT", None), (false, None, false));
        assert_eq!(headers(&[exact], "POST", Some(page)), (false, None, false));
    }

    #[test]
    fn pages_may_read_all_headers_of_the_response_that_match() {
        let exposed = |origin: &str, headers: &[&str], status: StatusCode| {
            let rule = CorsRule {
                exposed_headers: headers.iter().map(|name| (*name).to_owned()).collect(),
                ..rule(origin)
            };
            let value = HeaderValue::from_static("x");
            let reply = Reply::new(status)
                .with(ETAG, value.clone())
                .with(CACHE_CONTROL, value.clone())
                .with(HeaderName::from_static("x-ms-version"), value.clone())
                .with(HeaderName::from_static("x-ms-request-id"), value);
            let reply = decorated(&[rule], "GET", Some("http://page"), reply);
            let exposed = reply.headers.get(ACCESS_CONTROL_EXPOSE_HEADERS)?.to_str().unwrap();
            let mut names: Vec<String> = exposed.split(',').map(str::to_owned).collect();
            names.sort_unstable();
            Some(names.join(","))
        };
        let (all, one, ok) = ("*", "http://page", StatusCode::OK);
        for (origin, headers, status, expected) in [
            (one, &["x-ms-*"][..], ok, Some("x-ms-request-id,x-ms-version")),
            (
                all,
                &["X-MS-*", "x-ms-version"],
                ok,
                Some("x-ms-request-id,x-ms-version"),
            ),
            // A header that this response does not have.
            (one, &["ETag", "x-ms-continuation-*", "location"], ok, Some("etag")),
            (one, &["x-ms-meta-*", "d"], ok, None),
            (one, &[], ok, None),
            (one, &["da*"], ok, Some("date")),
            (all, &["*"], ok, Some("*")),
            (
                one,
                &["*"],
                StatusCode::NO_CONTENT,
                Some("cache-control,date,etag,vary,x-ms-request-id,x-ms-version"),
            ),
            (
                one,
                &["etag", "*"],
                ok,
                Some("cache-control,content-length,date,etag,vary,x-ms-request-id,x-ms-version"),
            ),
        ] {
            assert_eq!(
                exposed(origin, headers, status).as_deref(),
                expected,
                "{origin} {headers:?}"
            );
        }
    }
}
