//! Requests of web pages from elsewhere, by the rules of the service properties (semantics 4.10).

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

/// How long rules are kept that another gateway, or SQL, may have changed.
const TIME_TO_LIVE: Duration = Duration::from_secs(5);

/// The service properties as they were read last.
#[derive(Default)]
pub struct CorsCache(Mutex<Option<(Instant, Arc<ServiceProperties>)>>);

impl CorsCache {
    /// What is changed here acts here at once.
    pub fn forget(&self) {
        *self.entry() = None;
    }

    async fn rules(&self, session: &Session<'_>) -> Result<Arc<ServiceProperties>, Failure> {
        if let Some((read, properties)) = &*self.entry()
            && read.elapsed() < TIME_TO_LIVE
        {
            return Ok(properties.clone());
        }
        let json = session.get_service_properties().await?;
        let properties = Arc::new(ServiceProperties::from_json(&json)?);
        *self.entry() = Some((Instant::now(), properties.clone()));
        Ok(properties)
    }

    fn entry(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Arc<ServiceProperties>)>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Answers a browser that asks before it sends the request itself. It shows no credentials.
///
/// # Errors
/// `MissingRequiredHeader` without an origin or a method, `CorsPreflightFailure` if no rule allows them.
pub async fn preflight(cache: &CorsCache, session: &Session<'_>, head: &Head) -> Result<Reply, Failure> {
    let missing = |name| RequestError::CorsHeaderMissing { name };
    let origin = head.header("origin").ok_or(missing("Origin"))?;
    let method = head.header("access-control-request-method");
    let method = method.ok_or(missing("Access-Control-Request-Method"))?;
    let headers = head.header("access-control-request-headers").unwrap_or_default();
    let names: Vec<&str> = headers
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect();

    let properties = cache.rules(session).await?;
    let rule = properties
        .cors_rule(origin, method, &names)
        .ok_or(RequestError::CorsPreflightFailure)?;
    let mut reply = allow(rule, origin, Reply::new(StatusCode::OK))
        .with_text(ACCESS_CONTROL_ALLOW_METHODS, method)
        .with_text(ACCESS_CONTROL_MAX_AGE, &rule.max_age_in_seconds.to_string());
    if !headers.is_empty() {
        reply = reply.with_text(ACCESS_CONTROL_ALLOW_HEADERS, headers);
    }
    Ok(reply)
}

/// Adds what lets a page from elsewhere read an answer, and what tells caches that pages differ.
pub async fn decorate(cache: &CorsCache, session: &Session<'_>, head: &Head, reply: Reply) -> Reply {
    match cache.rules(session).await {
        Ok(properties) => decorated(
            &properties.cors,
            head.sent_method.as_str(),
            head.header("origin"),
            reply,
        ),
        // Whether a page may read the answer must not decide whether there is one.
        Err(_) => reply,
    }
}

/// The table of semantics 4.10: which headers an answer gets.
fn decorated(rules: &[CorsRule], method: &str, origin: Option<&str>, reply: Reply) -> Reply {
    let is_cached = matches!(method, "GET" | "HEAD");
    let mut matching = rules
        .iter()
        .filter(|rule| rule.allowed_methods.iter().any(|allowed| allowed == method));
    let rule = match origin {
        Some(origin) => matching.find(|rule| rule.allowed_origins.iter().any(|o| o == "*" || o == origin)),
        // A cache may give the answer to any page.
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

/// The headers of a rule, with those of the answer for its prefixes: browsers know no prefixes.
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
        // Nobody caches the answers to other methods.
        assert_eq!(
            headers(std::slice::from_ref(&exact), "PUT", Some(page)),
            (false, Some(page.to_owned()), true)
        );
        assert_eq!(headers(&[all], "PUT", None), (false, None, false));
        assert_eq!(headers(&[exact], "POST", Some(page)), (false, None, false));
    }
}
