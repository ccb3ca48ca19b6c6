//! The properties of the account's table service (semantics 4.10): logging, metrics and CORS.
//!
//! Members have the names of the service's XML document, also in JSON.

use serde::{Deserialize, Serialize};

use super::document::{self, invalid};
use crate::{Error, limits};

const METHODS: [&str; 9] = [
    "DELETE", "GET", "HEAD", "MERGE", "POST", "OPTIONS", "PUT", "PATCH", "CONNECT",
];

/// The properties of the account's table service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub struct ServiceProperties {
    #[serde(default)]
    pub logging: Logging,
    #[serde(default)]
    pub hour_metrics: Metrics,
    #[serde(default)]
    pub minute_metrics: Metrics,
    #[serde(default)]
    pub cors: Vec<CorsRule>,
}

/// The kinds of requests that are logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub struct Logging {
    pub version: String,
    pub read: bool,
    pub write: bool,
    pub delete: bool,
    #[serde(default)]
    pub retention_policy: RetentionPolicy,
}

/// The requests that are counted, by the hour or by the minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub struct Metrics {
    pub version: String,
    pub enabled: bool,
    /// Only when enabled.
    #[serde(rename = "IncludeAPIs", default, skip_serializing_if = "Option::is_none")]
    pub include_apis: Option<bool>,
    #[serde(default)]
    pub retention_policy: RetentionPolicy,
}

/// How long logs or metrics are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub struct RetentionPolicy {
    pub enabled: bool,
    /// 1 to 365, only when enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<u16>,
}

/// Which requests a browser may send for pages of other origins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub struct CorsRule {
    pub allowed_origins: Vec<String>,
    pub allowed_methods: Vec<String>,
    pub max_age_in_seconds: u32,
    #[serde(default)]
    pub exposed_headers: Vec<String>,
    #[serde(default)]
    pub allowed_headers: Vec<String>,
}

/// The service's XML document of the properties.
#[derive(Serialize)]
#[serde(rename = "StorageServiceProperties", rename_all = "PascalCase")]
struct Document<'a> {
    logging: &'a Logging,
    hour_metrics: &'a Metrics,
    minute_metrics: &'a Metrics,
    cors: DocumentRules,
}

#[derive(Serialize)]
struct DocumentRules {
    #[serde(rename = "CorsRule")]
    rules: Vec<DocumentRule>,
}

/// A CORS rule of the document. Its lists are texts with commas.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct DocumentRule {
    allowed_origins: String,
    allowed_methods: String,
    max_age_in_seconds: u32,
    exposed_headers: String,
    allowed_headers: String,
}

impl Default for Logging {
    fn default() -> Self {
        Logging {
            version: "1.0".to_owned(),
            read: false,
            write: false,
            delete: false,
            retention_policy: RetentionPolicy::default(),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            version: "1.0".to_owned(),
            enabled: false,
            include_apis: None,
            retention_policy: RetentionPolicy::default(),
        }
    }
}

/// A change of the properties. Properties that it lacks stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub struct ServicePropertiesChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<Logging>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hour_metrics: Option<Metrics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minute_metrics: Option<Metrics>,
    /// An empty list removes all rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors: Option<Vec<CorsRule>>,
}

impl ServiceProperties {
    /// Reads the JSON form, as [`ServiceProperties::to_json`] wrote it.
    ///
    /// # Errors
    /// `InvalidInput` for anything else.
    pub fn from_json(json: &str) -> Result<ServiceProperties, Error> {
        document::parse(json)
    }

    /// Returns the JSON form.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the service's XML document of the properties, for a serializer of XML.
    pub fn document(&self) -> impl Serialize + '_ {
        let rule = |rule: &CorsRule| DocumentRule {
            allowed_origins: rule.allowed_origins.join(","),
            allowed_methods: rule.allowed_methods.join(","),
            max_age_in_seconds: rule.max_age_in_seconds,
            exposed_headers: rule.exposed_headers.join(","),
            allowed_headers: rule.allowed_headers.join(","),
        };
        Document {
            logging: &self.logging,
            hour_metrics: &self.hour_metrics,
            minute_metrics: &self.minute_metrics,
            cors: DocumentRules {
                rules: self.cors.iter().map(rule).collect(),
            },
        }
    }

    /// Returns the first rule that lets a request through: from a page of `origin`, with this method, and with these
    /// headers, which a preflight names and an actual request does not.
    pub fn cors_rule(&self, origin: &str, method: &str, headers: &[&str]) -> Option<&CorsRule> {
        self.cors.iter().find(|rule| rule.allows(origin, method, headers))
    }
}

impl ServicePropertiesChange {
    /// Reads the JSON form and checks it.
    ///
    /// # Errors
    /// `InvalidInput` for text that is not such a document, and those of [`ServicePropertiesChange::check`].
    pub fn from_json(json: &str) -> Result<ServicePropertiesChange, Error> {
        let change: ServicePropertiesChange = document::parse(json)?;
        change.check()?;
        Ok(change)
    }

    /// Returns the JSON form.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Checks the values of the document.
    ///
    /// # Errors
    /// `InvalidXmlDocument` for a document without any element, another Version than 1.0, days of retention out of 1 to 365 or without retention,
    /// IncludeAPIs without metrics (or the other way round), and CORS rules beyond their limits.
    pub fn check(&self) -> Result<(), Error> {
        if *self == ServicePropertiesChange::default() {
            return Err(invalid(
                "The document has none of Logging, HourMetrics, MinuteMetrics and Cors",
            ));
        }
        if let Some(logging) = &self.logging {
            check_version(&logging.version)?;
            logging.retention_policy.check()?;
        }
        for metrics in [&self.hour_metrics, &self.minute_metrics].into_iter().flatten() {
            if metrics.enabled != metrics.include_apis.is_some() {
                return Err(invalid("Metrics have IncludeAPIs exactly when they are enabled"));
            }
            check_version(&metrics.version)?;
            metrics.retention_policy.check()?;
        }
        let rules = self.cors.as_deref().unwrap_or_default();
        if rules.len() > limits::CORS_RULES {
            return Err(invalid("There are at most five CORS rules"));
        }
        rules.iter().try_for_each(CorsRule::check)?;
        if rules.iter().map(CorsRule::bytes).sum::<usize>() > limits::CORS_BYTES {
            return Err(invalid("The CORS rules have at most 2 KiB together"));
        }
        Ok(())
    }
}

/// There is only one version of Storage Analytics.
fn check_version(version: &str) -> Result<(), Error> {
    if version == "1.0" {
        Ok(())
    } else {
        Err(invalid("The Version of Logging and metrics is 1.0"))
    }
}

impl RetentionPolicy {
    fn check(&self) -> Result<(), Error> {
        match (self.enabled, self.days) {
            (true, Some(1..=365)) | (false, None) => Ok(()),
            (true, _) => Err(invalid("A retention policy that is enabled has 1 to 365 Days")),
            (false, Some(_)) => Err(invalid("A retention policy has Days only when it is enabled")),
        }
    }
}

/// Returns whether a name is the pattern, or begins with the text before its `*`, in any case.
pub fn header_matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name
            .get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix)),
        None => name.eq_ignore_ascii_case(pattern),
    }
}

impl CorsRule {
    /// Origins and methods are compared as they are, names of headers in any case.
    fn allows(&self, origin: &str, method: &str, headers: &[&str]) -> bool {
        let allowed_header = |header: &&str| {
            self.allowed_headers
                .iter()
                .any(|allowed| header_matches(allowed, header))
        };
        self.allowed_origins
            .iter()
            .any(|allowed| allowed == "*" || allowed == origin)
            && self.allowed_methods.iter().any(|allowed| allowed == method)
            && headers.iter().all(allowed_header)
    }

    fn check(&self) -> Result<(), Error> {
        if self.allowed_origins.is_empty() || self.allowed_methods.is_empty() {
            return Err(invalid("A CORS rule needs AllowedOrigins and AllowedMethods"));
        }
        if let Some(method) = self
            .allowed_methods
            .iter()
            .find(|method| !METHODS.contains(&method.as_str()))
        {
            return Err(invalid(format!(
                "A CORS rule cannot allow the method \"{}\"",
                Error::quoted(method)
            )));
        }
        for list in [&self.allowed_origins, &self.exposed_headers, &self.allowed_headers] {
            if list.iter().any(|item| item.contains(char::is_control)) {
                return Err(invalid(
                    "An origin or a header of a CORS rule has no control characters",
                ));
            }
            if list.len() > limits::CORS_ITEMS {
                return Err(invalid("A CORS rule has at most 64 origins and 64 headers"));
            }
        }
        for headers in [&self.exposed_headers, &self.allowed_headers] {
            // A lone * is all headers.
            let prefixes = headers
                .iter()
                .filter(|header| header.len() > 1 && header.ends_with('*'));
            if prefixes.count() > limits::CORS_PREFIXES {
                return Err(invalid("A CORS rule has at most two prefixes in a list of headers"));
            }
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        let lists = [
            &self.allowed_origins,
            &self.allowed_methods,
            &self.exposed_headers,
            &self.allowed_headers,
        ];
        lists.into_iter().flatten().map(|item| item.len() + 1).sum()
    }
}
