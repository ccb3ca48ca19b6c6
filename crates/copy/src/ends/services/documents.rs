//! Stored access policies and service properties over REST: XML there, JSON in databases and files.

use bytes::Bytes;
use http::Method;
use table_service_documents::{Unknown, read_policies, read_properties, write_policies, write_properties};
use table_service_model::Error;
use table_service_model::access::{AccessPolicies, ServiceProperties, ServicePropertiesChange};

use crate::failure::Failure;
use crate::printable;

use super::client::{Call, RestClient};

const PROPERTIES: &str = "restype=service&comp=properties";

/// Access policies as JSON.
pub fn policies_from_xml(xml: &str) -> Result<String, String> {
    let policies = read_policies(xml, Unknown::Ignored).map_err(|error| error.report())?;
    Ok(policies.to_json())
}

fn policies_to_xml(json: &str) -> Result<String, String> {
    let written = AccessPolicies::from_json(json).and_then(|policies| write_policies(&policies));
    sent(written)
}

/// Service properties as JSON.
pub fn properties_from_xml(xml: &str) -> Result<String, String> {
    let read = read_properties(xml, Unknown::Ignored).map_err(|error| error.report())?;
    // Without a list of rules there is none.
    let change = ServicePropertiesChange {
        cors: Some(read.cors.unwrap_or_default()),
        ..read
    };
    Ok(change.to_json())
}

fn properties_to_xml(json: &str) -> Result<String, String> {
    let written = ServiceProperties::from_json(json).and_then(|properties| write_properties(&properties));
    sent(written)
}

/// A document as it is sent: without the byte order mark with which the service answers.
fn sent(written: Result<String, Error>) -> Result<String, String> {
    let written = written.map_err(|error| error.report())?;
    Ok(written.trim_start_matches('\u{feff}').to_owned())
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
