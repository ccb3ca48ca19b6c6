//! Requests of web pages from elsewhere, by the rules of the service properties (semantics 4.10).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::HeaderName;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HeaderValue, VARY,
};
use http::{Method, StatusCode};
use table_service_model::Error;
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
    let missing = |name| Error::from(RequestError::HeaderMissing { name });
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
    let mut reply = allow(Reply::new(StatusCode::OK), rule, origin)
        .with_text(ACCESS_CONTROL_ALLOW_METHODS, method)
        .with_text(ACCESS_CONTROL_MAX_AGE, &rule.max_age_in_seconds.to_string());
    if !headers.is_empty() {
        reply = reply.with_text(ACCESS_CONTROL_ALLOW_HEADERS, headers);
    }
    Ok(reply)
}

/// Adds what lets a page from elsewhere read an answer, and what tells caches that pages differ.
pub async fn decorate(cache: &CorsCache, session: &Session<'_>, head: &Head, reply: Reply) -> Reply {
    // Whether a page may read the answer must not decide whether there is one.
    let Ok(properties) = cache.rules(session).await else {
        return reply;
    };
    if properties.cors.is_empty() {
        return reply;
    }
    let reply = if head.sent_method == Method::GET {
        reply.with(VARY, HeaderValue::from_static("Origin"))
    } else {
        reply
    };
    let Some(origin) = head.header("origin") else {
        return reply;
    };
    match properties.cors_rule(origin, head.sent_method.as_str(), &[]) {
        Some(rule) => {
            let reply = allow(reply, rule, origin);
            if rule.exposed_headers.is_empty() {
                return reply;
            }
            let exposed = exposed(rule, &reply);
            reply.with_text(ACCESS_CONTROL_EXPOSE_HEADERS, &exposed)
        }
        None => reply,
    }
}

fn allow(reply: Reply, rule: &CorsRule, origin: &str) -> Reply {
    if rule.allowed_origins.iter().any(|allowed| allowed == "*") {
        return reply.with(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    }
    reply
        .with(VARY, HeaderValue::from_static("Origin"))
        .with_text(ACCESS_CONTROL_ALLOW_ORIGIN, origin)
        .with(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"))
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
