//! The two XML documents of the service (semantics 4.9, 4.10), read and written by quick-xml.

use quick_xml::events::Event;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use table_service_model::access::{
    AccessPolicies, AccessPolicy, CorsRule, Logging, Metrics, Permissions, ServiceProperties, ServicePropertiesChange,
    SignedIdentifier,
};
use table_service_model::{Error, Ticks};

const SIGNED_IDENTIFIERS: &str = "SignedIdentifiers";
const SERVICE_PROPERTIES: &str = "StorageServiceProperties";
/// The service's documents begin with a byte order mark.
const HEAD: &str = "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?>";

#[derive(Debug, Serialize, Deserialize)]
struct Identifiers {
    #[serde(rename = "SignedIdentifier", default)]
    identifiers: Vec<Identifier>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Identifier {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    access_policy: Option<Policy>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Policy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expiry: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    permission: Option<String>,
}

/// Reads the stored access policies of a table. Nothing at all is an empty list.
///
/// # Errors
/// `InvalidXmlDocument`.
pub fn read_policies(text: &str) -> Result<AccessPolicies, Error> {
    if text.trim().is_empty() {
        return Ok(AccessPolicies::default());
    }
    let document: Identifiers = read(text, SIGNED_IDENTIFIERS)?;
    let identifiers = document.identifiers.into_iter().map(|identifier| {
        Ok(SignedIdentifier {
            id: identifier.id,
            policy: read_policy(identifier.access_policy.unwrap_or_default())?,
        })
    });
    AccessPolicies::new(identifiers.collect::<Result<_, Error>>()?)
}

fn read_policy(policy: Policy) -> Result<AccessPolicy, Error> {
    let given = |text: Option<String>| text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let time = |text: Option<String>| {
        given(text)
            .map(|text| Ticks::parse(&text).ok_or_else(|| invalid(format!("{text} is no time"))))
            .transpose()
    };
    let permissions = |text: String| {
        Permissions::parse(&text).ok_or_else(|| invalid(format!("{text} are no permissions: they are r, a, u and d")))
    };
    Ok(AccessPolicy {
        start: time(policy.start)?,
        expiry: time(policy.expiry)?,
        permissions: given(policy.permission).map(permissions).transpose()?,
    })
}

/// The stored access policies of a table as the service gives them back.
///
/// # Errors
/// None that can happen: `InvalidXmlDocument` if they cannot be written.
pub fn write_policies(policies: &AccessPolicies) -> Result<String, Error> {
    let identifier = |identifier: &SignedIdentifier| {
        let AccessPolicy {
            start,
            expiry,
            permissions,
        } = identifier.policy;
        let policy = Policy {
            start: start.map(Ticks::with_seven_digits),
            expiry: expiry.map(Ticks::with_seven_digits),
            permission: permissions.map(|permissions| permissions.to_string()),
        };
        let is_empty = policy.start.is_none() && policy.expiry.is_none() && policy.permission.is_none();
        Identifier {
            id: identifier.id.clone(),
            access_policy: (!is_empty).then_some(policy),
        }
    };
    let document = Identifiers {
        identifiers: policies.iter().map(identifier).collect(),
    };
    write(&document, SIGNED_IDENTIFIERS)
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Properties {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    logging: Option<Logging>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hour_metrics: Option<Metrics>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    minute_metrics: Option<Metrics>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cors: Option<Cors>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Cors {
    #[serde(rename = "CorsRule", default)]
    rules: Vec<Rule>,
}

/// Lists are texts with commas.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Rule {
    #[serde(default)]
    allowed_origins: String,
    #[serde(default)]
    allowed_methods: String,
    max_age_in_seconds: u32,
    #[serde(default)]
    exposed_headers: String,
    #[serde(default)]
    allowed_headers: String,
}

/// Reads a change of the properties of the service.
///
/// # Errors
/// `InvalidXmlDocument`.
pub fn read_properties(text: &str) -> Result<ServicePropertiesChange, Error> {
    let document: Properties = read(text, SERVICE_PROPERTIES)?;
    let change = ServicePropertiesChange {
        logging: document.logging,
        hour_metrics: document.hour_metrics,
        minute_metrics: document.minute_metrics,
        cors: document
            .cors
            .map(|cors| cors.rules.into_iter().map(read_rule).collect()),
    };
    change.check()?;
    Ok(change)
}

fn read_rule(rule: Rule) -> CorsRule {
    let list = |text: String| {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(str::to_owned).collect::<Vec<_>>()
    };
    // The service gives headers back with prefixes last.
    let headers = |text: String| {
        let mut headers = list(text);
        headers.sort_by_key(|header| header.ends_with('*'));
        headers
    };
    CorsRule {
        allowed_origins: list(rule.allowed_origins),
        allowed_methods: list(rule.allowed_methods),
        max_age_in_seconds: rule.max_age_in_seconds,
        exposed_headers: headers(rule.exposed_headers),
        allowed_headers: headers(rule.allowed_headers),
    }
}

/// The properties of the service as it gives them back.
///
/// # Errors
/// None that can happen: `InvalidXmlDocument` if they cannot be written.
pub fn write_properties(properties: &ServiceProperties) -> Result<String, Error> {
    let rule = |rule: &CorsRule| Rule {
        allowed_origins: rule.allowed_origins.join(","),
        allowed_methods: rule.allowed_methods.join(","),
        max_age_in_seconds: rule.max_age_in_seconds,
        exposed_headers: rule.exposed_headers.join(","),
        allowed_headers: rule.allowed_headers.join(","),
    };
    let document = Properties {
        logging: Some(properties.logging.clone()),
        hour_metrics: Some(properties.hour_metrics.clone()),
        minute_metrics: Some(properties.minute_metrics.clone()),
        cors: Some(Cors {
            rules: properties.cors.iter().map(rule).collect(),
        }),
    };
    write(&document, SERVICE_PROPERTIES)
}

fn read<T: DeserializeOwned>(text: &str, root: &str) -> Result<T, Error> {
    let text = text.trim_start_matches('\u{FEFF}');
    check_root(text, root)?;
    quick_xml::de::from_str(text).map_err(|error| invalid(error.to_string()))
}

/// The document has to be whole and of the right kind: the deserializer would take any root, and stops at its end.
fn check_root(text: &str, root: &str) -> Result<(), Error> {
    let mut reader = quick_xml::Reader::from_str(text);
    let mut found = false;
    let mut depth = 0u32;
    loop {
        match reader.read_event().map_err(|error| invalid(error.to_string()))? {
            Event::Start(element) if depth > 0 || (!found && element.local_name().as_ref() == root.as_bytes()) => {
                found = true;
                depth += 1;
            }
            Event::Empty(element) if depth > 0 || (!found && element.local_name().as_ref() == root.as_bytes()) => {
                found = true;
            }
            Event::Start(_) | Event::Empty(_) => return Err(invalid(format!("The document is one {root}"))),
            Event::End(_) => depth = depth.saturating_sub(1),
            // What a document type can declare has no place here.
            Event::DocType(_) => return Err(invalid("A document type is not accepted")),
            Event::Eof if found && depth == 0 => return Ok(()),
            Event::Eof => return Err(invalid(format!("The document is no whole {root}"))),
            _ => {}
        }
    }
}

fn write<T: Serialize>(document: &T, root: &str) -> Result<String, Error> {
    let body = quick_xml::se::to_string_with_root(root, document).map_err(|error| invalid(error.to_string()))?;
    Ok(format!("{HEAD}{body}"))
}

fn invalid(reason: impl Into<String>) -> Error {
    Error::DocumentInvalid { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use table_service_model::Code;

    #[test]
    fn policies_are_read_and_given_back() {
        let text = "\u{FEFF}<?xml version='1.0' encoding='utf-8'?>\n<SignedIdentifiers>\
            <SignedIdentifier><Id>a&amp;b</Id><AccessPolicy><Start>2009-02-02T20:00:00Z</Start>\
            <Expiry>2009-02-03T21:00:00.1Z</Expiry><Permission>dr</Permission></AccessPolicy></SignedIdentifier>\
            <SignedIdentifier><Id>empty</Id><AccessPolicy/></SignedIdentifier>\
            <SignedIdentifier><Id>bare</Id></SignedIdentifier></SignedIdentifiers>";
        let policies = read_policies(text).unwrap();
        assert_eq!(
            write_policies(&policies).unwrap(),
            "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?><SignedIdentifiers>\
             <SignedIdentifier><Id>a&amp;b</Id><AccessPolicy><Start>2009-02-02T20:00:00.0000000Z</Start>\
             <Expiry>2009-02-03T21:00:00.1000000Z</Expiry><Permission>rd</Permission></AccessPolicy></SignedIdentifier>\
             <SignedIdentifier><Id>empty</Id></SignedIdentifier><SignedIdentifier><Id>bare</Id></SignedIdentifier>\
             </SignedIdentifiers>"
        );
        for empty in [
            "",
            " \n",
            "<SignedIdentifiers />",
            "<SignedIdentifiers></SignedIdentifiers>",
        ] {
            let policies = read_policies(empty).unwrap();
            assert!(
                write_policies(&policies).unwrap().ends_with("<SignedIdentifiers/>"),
                "{empty}"
            );
        }
    }

    #[test]
    fn documents_that_are_none_are_refused() {
        let identifier = "<SignedIdentifier><Id>a</Id></SignedIdentifier>";
        for text in [
            "x".to_owned(),
            "<SignedIdentifiers>".to_owned(),
            "<Other/>".to_owned(),
            format!("<SignedIdentifiers>{identifier}</SignedIdentifiers><More/>"),
            format!("<SignedIdentifiers>{}</SignedIdentifiers>", identifier.repeat(2)),
            "<SignedIdentifiers><SignedIdentifier/></SignedIdentifiers>".to_owned(),
            "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Permission>x</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>".to_owned(),
            "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Start>x</Start></AccessPolicy></SignedIdentifier></SignedIdentifiers>".to_owned(),
            "<!DOCTYPE x [<!ENTITY a 'b'>]><SignedIdentifiers/>".to_owned(),
        ] {
            assert_eq!(read_policies(&text).unwrap_err().code(), Code::InvalidXmlDocument, "{text}");
        }
    }

    #[test]
    fn properties_are_read_and_given_back() {
        let text = "<StorageServiceProperties><Logging><Version>1.0</Version><Delete>true</Delete><Read>false</Read>\
            <Write>false</Write><RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></Logging>\
            <HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>false</IncludeAPIs>\
            <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics>\
            <Cors><CorsRule><AllowedOrigins>http://a,http://b</AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods>\
            <MaxAgeInSeconds>5</MaxAgeInSeconds><ExposedHeaders>x-ms-meta-*,x-ms-meta-abc</ExposedHeaders><AllowedHeaders/>\
            </CorsRule></Cors></StorageServiceProperties>";
        let change = read_properties(text).unwrap();
        assert!(change.minute_metrics.is_none());
        let properties = ServiceProperties {
            logging: change.logging.clone().unwrap(),
            hour_metrics: change.hour_metrics.clone().unwrap(),
            cors: change.cors.clone().unwrap(),
            ..ServiceProperties::default()
        };
        let written = write_properties(&properties).unwrap();
        let exposed = "<ExposedHeaders>x-ms-meta-abc,x-ms-meta-*</ExposedHeaders>";
        assert!(written.contains(exposed), "{written}");
        let mut again = read_properties(&written).unwrap();
        assert_eq!(again.minute_metrics.take(), Some(Metrics::default()));
        assert_eq!(again, change);
    }

    #[test]
    fn a_document_that_changes_nothing_is_refused_and_an_empty_list_of_rules_is_a_change() {
        assert!(read_properties("<StorageServiceProperties/>").is_err());
        let change = read_properties("<StorageServiceProperties><Cors/></StorageServiceProperties>").unwrap();
        assert_eq!(change.cors, Some(Vec::new()));
        let defaults = write_properties(&ServiceProperties::default()).unwrap();
        assert!(defaults.ends_with("<Cors/></StorageServiceProperties>"), "{defaults}");
    }
}
