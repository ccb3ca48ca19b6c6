//! The two XML documents of the service (semantics 4.9, 4.10), read and written by quick-xml.

use serde::Serialize;
use table_service_model::access::{
    AccessPolicies, AccessPolicy, CorsRule, Logging, Metrics, Permissions, RetentionPolicy, ServiceProperties,
    ServicePropertiesChange, SignedIdentifier,
};
use table_service_model::{Error, Ticks};

mod element;

pub use element::Unknown;
use element::{Element, invalid};

const SIGNED_IDENTIFIERS: &str = "SignedIdentifiers";
const SERVICE_PROPERTIES: &str = "StorageServiceProperties";
/// The service's documents begin with a byte order mark.
const HEAD: &str = "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?>";

#[derive(Serialize)]
struct Identifiers<'a> {
    #[serde(rename = "SignedIdentifier")]
    identifiers: Vec<Identifier<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Identifier<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    access_policy: Option<&'a AccessPolicy>,
}

/// Reads the stored access policies of a table. An empty text is an empty list.
///
/// # Errors
/// `InvalidXmlDocument`.
pub fn read_policies(text: &str, unknown: Unknown) -> Result<AccessPolicies, Error> {
    if text.trim().is_empty() {
        return Ok(AccessPolicies::default());
    }
    let document = Element::read(text, SIGNED_IDENTIFIERS, unknown)?;
    let identifiers = document.items("SignedIdentifier")?.map(|identifier| {
        identifier.check_children(&["Id", "AccessPolicy"])?;
        Ok(SignedIdentifier {
            id: identifier.need("Id")?.to_owned(),
            policy: match identifier.child("AccessPolicy") {
                Some(policy) => read_policy(policy)?,
                None => AccessPolicy::default(),
            },
        })
    });
    AccessPolicies::new(identifiers.collect::<Result<_, Error>>()?)
}

fn read_policy(policy: &Element) -> Result<AccessPolicy, Error> {
    policy.check_children(&["Start", "Expiry", "Permission"])?;
    let time = |name: &str| {
        let parse = |text: &str| Ticks::parse(text).ok_or_else(|| invalid(format!("{text} is not a time")));
        policy.given(name).map(parse).transpose()
    };
    let permissions = |text: &str| {
        Permissions::parse(text).ok_or_else(|| invalid(format!("{text} is not a set of permissions r, a, u and d")))
    };
    Ok(AccessPolicy {
        start: time("Start")?,
        expiry: time("Expiry")?,
        permissions: policy.given("Permission").map(permissions).transpose()?,
    })
}

/// Returns the stored access policies of a table as the service gives them back.
///
/// # Errors
/// `InvalidXmlDocument` if they cannot be written, which does not happen.
pub fn write_policies(policies: &AccessPolicies) -> Result<String, Error> {
    let identifiers = policies.iter().map(|identifier| Identifier {
        id: &identifier.id,
        access_policy: Some(&identifier.policy).filter(|policy| **policy != AccessPolicy::default()),
    });
    let document = Identifiers {
        identifiers: identifiers.collect(),
    };
    write(&document, SIGNED_IDENTIFIERS)
}

/// Reads a change of the properties of the service. Its values are not checked.
///
/// # Errors
/// `InvalidXmlDocument`.
pub fn read_properties(text: &str, unknown: Unknown) -> Result<ServicePropertiesChange, Error> {
    let document = Element::read(text, SERVICE_PROPERTIES, unknown)?;
    document.check_children(&["Logging", "HourMetrics", "MinuteMetrics", "Cors"])?;
    let rules = |cors: &Element| cors.items("CorsRule")?.map(read_rule).collect::<Result<_, _>>();
    Ok(ServicePropertiesChange {
        logging: document.child("Logging").map(read_logging).transpose()?,
        hour_metrics: document.child("HourMetrics").map(read_metrics).transpose()?,
        minute_metrics: document.child("MinuteMetrics").map(read_metrics).transpose()?,
        cors: document.child("Cors").map(rules).transpose()?,
    })
}

fn read_logging(logging: &Element) -> Result<Logging, Error> {
    logging.check_children(&["Version", "Read", "Write", "Delete", "RetentionPolicy"])?;
    Ok(Logging {
        version: logging.need("Version")?.trim().to_owned(),
        read: logging.boolean("Read")?,
        write: logging.boolean("Write")?,
        delete: logging.boolean("Delete")?,
        retention_policy: read_retention(logging)?,
    })
}

fn read_metrics(metrics: &Element) -> Result<Metrics, Error> {
    metrics.check_children(&["Version", "Enabled", "IncludeAPIs", "RetentionPolicy"])?;
    Ok(Metrics {
        version: metrics.need("Version")?.trim().to_owned(),
        enabled: metrics.boolean("Enabled")?,
        include_apis: match metrics.given("IncludeAPIs") {
            Some(_) => Some(metrics.boolean("IncludeAPIs")?),
            None => None,
        },
        retention_policy: read_retention(metrics)?,
    })
}

fn read_retention(parent: &Element) -> Result<RetentionPolicy, Error> {
    let Some(policy) = parent.child("RetentionPolicy") else {
        return Ok(RetentionPolicy::default());
    };
    policy.check_children(&["Enabled", "Days"])?;
    Ok(RetentionPolicy {
        enabled: policy.boolean("Enabled")?,
        days: match policy.given("Days") {
            Some(_) => Some(policy.number("Days")?),
            None => None,
        },
    })
}

fn read_rule(rule: &Element) -> Result<CorsRule, Error> {
    rule.check_children(&[
        "AllowedOrigins",
        "AllowedMethods",
        "MaxAgeInSeconds",
        "ExposedHeaders",
        "AllowedHeaders",
    ])?;
    let list = |name: &str| {
        let items = rule.given(name).unwrap_or_default().split(',').map(str::trim);
        items
            .filter(|item| !item.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    // The service returns headers with prefixes last.
    let headers = |name: &str| {
        let mut headers = list(name);
        headers.sort_by_key(|header| header.ends_with('*'));
        headers
    };
    Ok(CorsRule {
        allowed_origins: list("AllowedOrigins"),
        allowed_methods: list("AllowedMethods"),
        max_age_in_seconds: rule.number("MaxAgeInSeconds")?,
        exposed_headers: headers("ExposedHeaders"),
        allowed_headers: headers("AllowedHeaders"),
    })
}

/// Returns the properties of the service as it gives them back.
///
/// # Errors
/// `InvalidXmlDocument` if they cannot be written, which does not happen.
pub fn write_properties(properties: &ServiceProperties) -> Result<String, Error> {
    write(&properties.document(), SERVICE_PROPERTIES)
}

fn write<T: Serialize>(document: &T, root: &str) -> Result<String, Error> {
    let body = quick_xml::se::to_string_with_root(root, document).map_err(|error| invalid(error.to_string()))?;
    // This is the service's form of an empty element. In texts, > is escaped.
    let body = body.replace("/>", " />");
    Ok(format!("{HEAD}{body}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use table_service_model::Code;

    fn read_policies(text: &str) -> Result<AccessPolicies, Error> {
        super::read_policies(text, Unknown::Refused)
    }

    fn read_properties(text: &str) -> Result<ServicePropertiesChange, Error> {
        super::read_properties(text, Unknown::Refused)
    }

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
                write_policies(&policies).unwrap().ends_with("<SignedIdentifiers />"),
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
        let text = "<StorageServiceProperties><Logging><Version>1.0</Version><Delete>True</Delete><Read>FALSE</Read>\
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
    fn unknown_elements_and_attributes_are_refused_or_ignored() {
        let policies = "<SignedIdentifiers><More a='b'/><SignedIdentifier><Id>a</Id><More/></SignedIdentifier></SignedIdentifiers>";
        assert!(read_policies(policies).is_err());
        let read = super::read_policies(policies, Unknown::Ignored).unwrap();
        assert_eq!(read, read_policies(&write_policies(&read).unwrap()).unwrap());
        assert_eq!(read.iter().count(), 1);
        let properties = "<StorageServiceProperties a='b'><More/><Cors/></StorageServiceProperties>";
        assert!(read_properties(properties).is_err());
        let read = super::read_properties(properties, Unknown::Ignored).unwrap();
        assert_eq!(read.cors, Some(Vec::new()));
    }

    #[test]
    fn an_empty_list_of_rules_is_a_change() {
        assert!(read_properties("<StorageServiceProperties/>").unwrap().check().is_err());
        let change = read_properties("<StorageServiceProperties><Cors/></StorageServiceProperties>").unwrap();
        assert_eq!(change.cors, Some(Vec::new()));
        let defaults = write_properties(&ServiceProperties::default()).unwrap();
        assert!(defaults.ends_with("<Cors /></StorageServiceProperties>"), "{defaults}");
    }
}
