//! The bodies of answers. Nothing here calls a service, and the result of a body is bounded by its length.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// How many items a page may have.
pub const LARGEST_PAGE: usize = 1000;

/// The items of a page: not more than a page can have.
pub struct Items<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Items<T>, D::Error> {
        struct Bounded<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
            type Value = Items<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Items<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    if all.len() == LARGEST_PAGE {
                        return Err(A::Error::custom(format!("a page has more than {LARGEST_PAGE} items")));
                    }
                    all.push(item);
                }
                Ok(Items(all))
            }
        }

        deserializer.deserialize_seq(Bounded(PhantomData))
    }
}

/// A page of entities, of keys or of the list of tables.
#[derive(Deserialize)]
pub struct Page<T> {
    pub value: Items<T>,
}

/// The keys of an entity, with its version.
#[derive(Deserialize)]
pub struct EntityKeys {
    #[serde(rename = "odata.etag")]
    pub etag: Option<String>,
    #[serde(rename = "PartitionKey")]
    pub partition_key: String,
    #[serde(rename = "RowKey")]
    pub row_key: String,
    #[serde(rename = "Timestamp")]
    pub timestamp: Option<String>,
}

/// A table in the list.
#[derive(Deserialize)]
pub struct TableName {
    #[serde(rename = "TableName")]
    pub name: String,
}

/// Code and message of an error in JSON or XML.
pub fn error_in(body: &[u8]) -> (Option<String>, String) {
    #[derive(Deserialize)]
    struct Document {
        #[serde(rename = "odata.error")]
        error: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        code: Option<String>,
        message: Option<Message>,
    }
    #[derive(Deserialize)]
    struct Message {
        value: Option<String>,
    }
    if let Ok(Document { error }) = serde_json::from_slice(body) {
        let message = error.message.and_then(|message| message.value);
        return (error.code, message.unwrap_or_default());
    }
    let text = String::from_utf8_lossy(body);
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}"))?;
        let (_, rest) = rest.split_once('>')?;
        Some(rest.split_once('<')?.0.to_owned())
    };
    let code = element("Code").or_else(|| element("m:code"));
    let message = element("Message").or_else(|| element("m:message")).unwrap_or_default();
    (code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_read_in_both_forms() {
        let json =
            br#"{"odata.error":{"code":"EntityAlreadyExists","message":{"lang":"en-US","value":"0:x\nRequestId:1"}}}"#;
        assert_eq!(
            error_in(json),
            (Some("EntityAlreadyExists".to_owned()), "0:x\nRequestId:1".to_owned())
        );
        let xml = b"<?xml version=\"1.0\"?><Error><Code>ServerBusy</Code><Message>wait</Message></Error>";
        assert_eq!(error_in(xml), (Some("ServerBusy".to_owned()), "wait".to_owned()));
        assert_eq!(error_in(b"oops"), (None, String::new()));
    }
}
