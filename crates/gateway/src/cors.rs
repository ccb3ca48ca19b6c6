//! Cross-origin requests of web pages (CORS), by the rules in the service properties (semantics 4.10).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::HeaderName;
use http::StatusCode;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HeaderValue, VARY,
};
use table_service_model::access::{CorsRule, ServiceProperties};
use table_service_model::error::RequestError;

use crate::database::Session;
use crate::failure::Failure;
use crate::request::Head;
use crate::response::Reply;

/// How long rules are kept. Another gateway or SQL may change them in the meantime.
const TIME_TO_LIVE: Duration = Duration::from_secs(5);

/// Most headers that a preflight may ask for: each is compared with each of the rules.
const MAX_HEADERS: usize = 128;

/// The service properties as they were read last.
#[derive(Default)]
pub struct CorsCache(Mutex<Option<(Instant, Arc<ServiceProperties>)>>);

impl CorsCache {
    /// Forgets the rules, so that a change through this gateway takes effect at once.
    pub fn forget(&self) {
        *self.entry() = None;
    }

    /// The rules. If they are old, one request reads them again, and until it has them the others go on with the old ones. So
    /// a database that cannot be reached holds up nobody else.
    async fn rules(&self, session: &Session<'_>) -> Result<Arc<ServiceProperties>, Failure> {
        let mut old = None;
        if let Some((read, properties)) = &mut *self.entry() {
            if read.elapsed() < TIME_TO_LIVE {
                return Ok(properties.clone());
            }
            *read = Instant::now();
            old = Some(properties.clone());
        }
        match Box::pin(session.get_service_properties()).await {
            Ok(json) => {
                let properties = Arc::new(ServiceProperties::from_json(&json)?);
                *self.entry() = Some((Instant::now(), properties.clone()));
                Ok(properties)
            }
            Err(failure) if failure.status().is_server_error() => old.ok_or(failure),
            Err(failure) => Err(failure),
        }
    }

    fn entry(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Arc<ServiceProperties>)>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
    pub async fn answer(&self, cache: &CorsCache, session: &Session<'_>) -> Result<Reply, Failure> {
        let properties = cache.rules(session).await?;
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

/// Adds the headers that let a page of another origin read a response, and `Vary` for caches.
pub async fn decorate(cache: &CorsCache, session: &Session<'_>, head: &Head, reply: Reply) -> Reply {
    match cache.rules(session).await {
        Ok(properties) => decorated(
            &properties.cors,
            head.sent_method.as_str(),
            head.header("origin"),
            reply,
        ),
        // Without the rules the response is still right, only not readable for pages of other origins.
        Err(_) => reply,
    }
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
    let reply = match rule {
        Some(rule) if allows_all(rule) => {
            return expose(rule, allow(rule, "*", reply));
        }
        Some(rule) => expose(rule, allow(rule, origin.unwrap_or_default(), reply)),
        None => reply,
    };
    if is_cached && !rules.is_empty() {
        reply.with(VARY, HeaderValue::from_static("Origin"))
    } else {
        reply
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

fn expose(rule: &CorsRule, reply: Reply) -> Reply {
    if rule.exposed_headers.is_empty() {
        return reply;
    }
    let exposed = exposed(rule, &reply);
    reply.with_text(ACCESS_CONTROL_EXPOSE_HEADERS, &exposed)
}

/// The exposed headers of a rule. A prefix becomes the headers of the response that begin with it, because browsers know
/// no prefixes.
fn exposed(rule: &CorsRule, reply: &Reply) -> String {
    let mut names: Vec<String> = Vec::new();
    for header in &rule.exposed_headers {
        match header.strip_suffix('*') {
            Some(prefix) if !prefix.is_empty() => {
                let prefix = prefix.to_ascii_lowercase();
                let matching = reply
                    .headers
                    .keys()
                    .map(HeaderName::as_str)
                    .filter(|name| name.starts_with(&prefix));
                names.extend(matching.map(str::to_owned));
            }
            _ => names.push(header.clone()),
        }
    }
    names.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let reply = decorated(rules, method, origin, Reply::new(StatusCode::OK));
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
}
