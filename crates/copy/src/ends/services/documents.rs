//! Stored access policies and service properties over REST: XML there, JSON in databases and files.

use bytes::Bytes;
use http::Method;
use quick_xml::de::{Deserializer, EntityResolver};
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::BytesText;
use quick_xml::se;
use serde::{Deserialize, Serialize};
use table_service_model::access::{
    AccessPolicies, AccessPolicy, CorsRule, Logging, Metrics, ServiceProperties, ServicePropertiesChange,
    SignedIdentifier,
};

use crate::failure::Failure;
use crate::printable;

use super::client::{Call, RestClient};

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";
const PROPERTIES: &str = "restype=service&comp=properties";

#[derive(Serialize, Deserialize)]
#[serde(rename = "SignedIdentifiers")]
struct Identifiers {
    #[serde(rename = "SignedIdentifier", default)]
    identifiers: Vec<Identifier>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Identifier {
    id: String,
    #[serde(default)]
    access_policy: AccessPolicy,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Properties {
    logging: Option<Logging>,
    hour_metrics: Option<Metrics>,
    minute_metrics: Option<Metrics>,
    cors: Option<Rules>,
}

#[derive(Deserialize, Default)]
struct Rules {
    #[serde(rename = "CorsRule", default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Rule {
    allowed_origins: String,
    allowed_methods: String,
    max_age_in_seconds: u32,
    #[serde(default)]
    exposed_headers: String,
    #[serde(default)]
    allowed_headers: String,
}

fn list(text: &str) -> Vec<String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(str::to_owned).collect()
}

/// Refuses a document type: the service sends none, and the reader panics at one between two texts.
struct NoDocumentType;

impl EntityResolver for NoDocumentType {
    type Error = std::io::Error;

    fn capture(&mut self, _: BytesText<'_>) -> Result<(), std::io::Error> {
        Err(std::io::Error::other("a document type is not expected"))
    }

    fn resolve(&self, entity: &str) -> Option<&str> {
        resolve_predefined_entity(entity)
    }
}

fn from_xml<'x, T: Deserialize<'x>>(xml: &'x str) -> Result<T, String> {
    let text = xml.trim_start_matches('\u{feff}');
    T::deserialize(&mut Deserializer::from_str_with_resolver(text, NoDocumentType)).map_err(|error| error.to_string())
}

/// Access policies as JSON.
pub fn policies_from_xml(xml: &str) -> Result<String, String> {
    let read: Identifiers = from_xml(xml)?;
    let policies = read.identifiers.into_iter().map(|identifier| SignedIdentifier {
        id: identifier.id,
        policy: identifier.access_policy,
    });
    let policies = AccessPolicies::new(policies.collect()).map_err(|error| error.report())?;
    Ok(policies.to_json())
}

fn policies_to_xml(json: &str) -> Result<String, String> {
    let policies = AccessPolicies::from_json(json).map_err(|error| error.report())?;
    let identifiers = policies.iter().map(|entry| Identifier {
        id: entry.id.clone(),
        access_policy: entry.policy,
    });
    to_xml(&Identifiers {
        identifiers: identifiers.collect(),
    })
}

fn to_xml(document: &impl Serialize) -> Result<String, String> {
    let xml = se::to_string(document).map_err(|error| error.to_string())?;
    Ok(format!("{HEAD}{xml}"))
}

/// Service properties as JSON.
pub fn properties_from_xml(xml: &str) -> Result<String, String> {
    let read: Properties = from_xml(xml)?;
    let cors = read.cors.unwrap_or_default().rules.into_iter().map(|rule| CorsRule {
        allowed_origins: list(&rule.allowed_origins),
        allowed_methods: list(&rule.allowed_methods),
        max_age_in_seconds: rule.max_age_in_seconds,
        exposed_headers: list(&rule.exposed_headers),
        allowed_headers: list(&rule.allowed_headers),
    });
    let change = ServicePropertiesChange {
        logging: read.logging,
        hour_metrics: read.hour_metrics,
        minute_metrics: read.minute_metrics,
        cors: Some(cors.collect()),
    };
    Ok(change.to_json())
}

fn properties_to_xml(json: &str) -> Result<String, String> {
    let read = ServiceProperties::from_json(json).map_err(|error| error.report())?;
    to_xml(&read.document())
}

impl RestClient {
    /// The stored access policies of a table, as JSON.
    pub async fn policies(&self, table: &str) -> Result<String, Failure> {
        let xml = self.document(table, "comp=acl").await?;
        policies_from_xml(&xml)
            .map_err(|error| Failure::new(format!("{}: {table}: {}", self.name(), printable::said(&error))))
    }

    /// Stores the access policies of a table.
    pub async fn set_policies(&self, table: &str, json: &str) -> Result<(), Failure> {
        let xml = policies_to_xml(json).map_err(|error| Failure::new(format!("{table}: {error}")))?;
        self.put_document(table, "comp=acl", xml).await
    }

    /// The properties of the service, as JSON.
    pub async fn service_properties(&self) -> Result<String, Failure> {
        let xml = self.document("", PROPERTIES).await?;
        properties_from_xml(&xml).map_err(|error| Failure::new(format!("{}: {}", self.name(), printable::said(&error))))
    }

    /// Stores the properties of the service.
    pub async fn set_service_properties(&self, json: &str) -> Result<(), Failure> {
        let xml = properties_to_xml(json).map_err(|error| Failure::new(format!("service properties: {error}")))?;
        self.put_document("", PROPERTIES, xml).await
    }

    async fn document(&self, resource: &str, query: &str) -> Result<String, Failure> {
        let call = Call {
            headers: &[("accept", "application/xml")],
            ..Call::get(resource, query)
        };
        let answer = self.succeeded(self.send(&call).await?, query)?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    async fn put_document(&self, resource: &str, query: &str, xml: String) -> Result<(), Failure> {
        let call = Call {
            method: Method::PUT,
            content_type: "application/xml",
            headers: &[("accept", "application/xml")],
            body: Bytes::from(xml),
            ..Call::get(resource, query)
        };
        self.succeeded(self.send(&call).await?, query).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_the_same_in_both_forms() {
        for json in [
            "[]",
            r#"[{"Id":"a&b","Start":"2020-01-01T00:00:00.0000000Z","Expiry":"2099-01-01T00:00:00.1234567Z","Permission":"raud"},{"Id":"bare"}]"#,
        ] {
            let xml = policies_to_xml(json).unwrap();
            let back = policies_from_xml(&xml).unwrap();
            assert_eq!(
                AccessPolicies::from_json(&back).unwrap().to_json(),
                AccessPolicies::from_json(json).unwrap().to_json(),
                "{xml}"
            );
        }
    }

    #[test]
    fn service_properties_are_the_same_in_both_forms() {
        let json = r#"{"Logging":{"Version":"1.0","Read":true,"Write":false,"Delete":true,"RetentionPolicy":{"Enabled":true,"Days":7}},"HourMetrics":{"Version":"1.0","Enabled":true,"IncludeAPIs":false,"RetentionPolicy":{"Enabled":false}},"MinuteMetrics":{"Version":"1.0","Enabled":false,"RetentionPolicy":{"Enabled":false}},"Cors":[{"AllowedOrigins":["http://a","http://b"],"AllowedMethods":["GET"],"MaxAgeInSeconds":5,"ExposedHeaders":[],"AllowedHeaders":["x-ms-*"]}]}"#;
        let xml = properties_to_xml(json).unwrap();
        assert_eq!(properties_from_xml(&xml).unwrap(), json, "{xml}");
    }
}
