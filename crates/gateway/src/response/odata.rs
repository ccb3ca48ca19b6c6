//! Writes tables and entities as OData payloads at the three metadata levels (semantics 4.1 to 4.8).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use table_service_model::json::{Metadata, append_members};
use table_service_model::{Entity, Projection, etag};

/// The characters that are percent-encoded in the keys of a URL.
const KEY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'!')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// The base URL of the account, with which links in payloads and headers begin.
#[derive(Debug, Clone)]
pub struct Base {
    /// Such as `http://127.0.0.1:10002/devstoreaccount1`.
    pub url: String,
    pub account: String,
}

impl Base {
    /// Returns the URL of a table.
    pub fn table_url(&self, table: &str) -> String {
        format!("{}/{}", self.url, table_path(table))
    }

    /// Returns the URL of an entity.
    pub fn entity_url(&self, table: &str, partition_key: &str, row_key: &str) -> String {
        format!("{}/{}", self.url, entity_path(table, partition_key, row_key))
    }

    /// Returns the context URL, the member `odata.metadata` of a payload. There is none at the level none.
    pub fn context_url(&self, metadata: Metadata, what: &str) -> Option<String> {
        (metadata != Metadata::None).then(|| [&self.url, "/$metadata#", what].concat())
    }

    /// Appends an entity. It has a `context_url` if the payload is only this entity.
    pub fn write_entity(
        &self,
        out: &mut Vec<u8>,
        table: &str,
        entity: &Entity<'_>,
        projection: &Projection,
        metadata: Metadata,
        context_url: Option<&str>,
    ) {
        let mut object = Object::begin(out);
        if let Some(context_url) = context_url {
            object.member("odata.metadata", context_url);
        }
        let path = match (metadata, entity.partition_key, entity.row_key) {
            (Metadata::Full, Some(partition_key), Some(row_key)) => Some(entity_path(table, partition_key, row_key)),
            _ => None,
        };
        if let Some(path) = &path {
            object.member("odata.type", &format!("{}.{table}", self.account));
            object.member("odata.id", &format!("{}/{path}", self.url));
        }
        if let (Some(timestamp), true) = (entity.timestamp, metadata != Metadata::None) {
            object.member("odata.etag", &etag::format(timestamp));
        }
        if let Some(path) = &path {
            object.member("odata.editLink", path);
        }
        append_members(object.0, entity, projection, metadata);
        object.end();
    }

    /// Appends a table.
    pub fn write_table(&self, out: &mut Vec<u8>, name: &str, metadata: Metadata, context_url: Option<&str>) {
        let mut object = Object::begin(out);
        if let Some(context_url) = context_url {
            object.member("odata.metadata", context_url);
        }
        if metadata == Metadata::Full {
            let path = table_path(name);
            object.member("odata.type", &format!("{}.Tables", self.account));
            object.member("odata.id", &format!("{}/{path}", self.url));
            object.member("odata.editLink", &path);
        }
        object.member("TableName", name);
        object.end();
    }

    /// Appends the beginning of a payload that is a list.
    pub fn begin_list(&self, out: &mut Vec<u8>, context_url: Option<&str>) {
        let mut object = Object::begin(out);
        if let Some(context_url) = context_url {
            object.member("odata.metadata", context_url);
            out.push(b',');
        }
        out.extend_from_slice(b"\"value\":[");
    }
}

fn table_path(table: &str) -> String {
    format!("Tables('{}')", url_key(table))
}

fn entity_path(table: &str, partition_key: &str, row_key: &str) -> String {
    format!(
        "{table}(PartitionKey='{}',RowKey='{}')",
        url_key(partition_key),
        url_key(row_key)
    )
}

fn url_key(key: &str) -> String {
    let encoded = utf8_percent_encode(key, KEY).to_string();
    if encoded.contains('\'') {
        encoded.replace('\'', "''")
    } else {
        encoded
    }
}

/// An object that is being written at the end of a buffer.
struct Object<'o>(&'o mut Vec<u8>);

impl<'o> Object<'o> {
    fn begin(out: &'o mut Vec<u8>) -> Object<'o> {
        out.push(b'{');
        Object(out)
    }

    fn member(&mut self, name: &str, value: &str) {
        if self.0.last() != Some(&b'{') {
            self.0.push(b',');
        }
        self.string(name);
        self.0.push(b':');
        self.string(value);
    }

    fn string(&mut self, text: &str) {
        // Writing a string to a Vec cannot fail.
        let _ = serde_json::to_writer(&mut *self.0, text);
    }

    fn end(self) {
        self.0.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use table_service_model::Ticks;
    use table_service_model::json::parse_properties;

    fn base() -> Base {
        Base {
            url: "http://h/acc".to_owned(),
            account: "acc".to_owned(),
        }
    }

    fn entity(metadata: Metadata, select: &str) -> String {
        let bag = parse_properties(r#"{"n":1,"b@odata.type":"Edm.Int64","b":"2"}"#).unwrap();
        let entity = Entity {
            partition_key: Some("p:1"),
            row_key: Some("O'B"),
            timestamp: Ticks::parse("2020-01-01T00:00:00Z"),
            properties: bag.as_properties(),
        };
        let base = base();
        let context_url = base.context_url(metadata, "t/@Element");
        let mut out = Vec::new();
        let projection = Projection::parse(select).unwrap();
        base.write_entity(&mut out, "t", &entity, &projection, metadata, context_url.as_deref());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_levels_differ_in_what_an_entity_says_about_itself() {
        assert_eq!(
            entity(Metadata::None, ""),
            r#"{"PartitionKey":"p:1","RowKey":"O'B","Timestamp":"2020-01-01T00:00:00Z","b":"2","n":1}"#
        );
        assert_eq!(
            entity(Metadata::Minimal, ""),
            r#"{"odata.metadata":"http://h/acc/$metadata#t/@Element","odata.etag":"W/\"datetime'2020-01-01T00%3A00%3A00Z'\"","PartitionKey":"p:1","RowKey":"O'B","Timestamp":"2020-01-01T00:00:00Z","b@odata.type":"Edm.Int64","b":"2","n":1}"#
        );
        assert_eq!(
            entity(Metadata::Full, ""),
            r#"{"odata.metadata":"http://h/acc/$metadata#t/@Element","odata.type":"acc.t","odata.id":"http://h/acc/t(PartitionKey='p%3A1',RowKey='O''B')","odata.etag":"W/\"datetime'2020-01-01T00%3A00%3A00Z'\"","odata.editLink":"t(PartitionKey='p%3A1',RowKey='O''B')","PartitionKey":"p:1","RowKey":"O'B","Timestamp@odata.type":"Edm.DateTime","Timestamp":"2020-01-01T00:00:00Z","b@odata.type":"Edm.Int64","b":"2","n":1}"#
        );
    }

    #[test]
    fn only_what_is_selected_is_there() {
        assert_eq!(entity(Metadata::None, "n,z"), r#"{"n":1,"z":null}"#);
        assert_eq!(entity(Metadata::None, "RowKey"), r#"{"RowKey":"O'B"}"#);
        assert!(entity(Metadata::Minimal, "z").ends_with(r#"Z'\"","z":null}"#));
    }

    #[test]
    fn tables_have_their_levels_too() {
        let table = |metadata| {
            let mut out = Vec::new();
            base().write_table(
                &mut out,
                "Abc",
                metadata,
                base().context_url(metadata, "Tables/@Element").as_deref(),
            );
            String::from_utf8(out).unwrap()
        };
        assert_eq!(table(Metadata::None), r#"{"TableName":"Abc"}"#);
        assert_eq!(
            table(Metadata::Full),
            r#"{"odata.metadata":"http://h/acc/$metadata#Tables/@Element","odata.type":"acc.Tables","odata.id":"http://h/acc/Tables('Abc')","odata.editLink":"Tables('Abc')","TableName":"Abc"}"#
        );
    }
}
