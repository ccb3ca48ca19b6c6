//! Writes bags and entities as JSON.

use crate::edm::format_double;
use crate::key::{PARTITION_KEY, ROW_KEY, TIMESTAMP, is_system_property};
use crate::{EdmType, Entity, Error, Projection, Properties, Ticks, Value};

/// How much metadata a payload has (semantics 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metadata {
    /// No `odata.*` members and no type annotations: Int64, Guid, DateTime and Binary are just strings.
    None,
    /// The annotations that a reader of the payload needs.
    Minimal,
    /// Also the type of Timestamp.
    Full,
}

impl Metadata {
    /// Reads `none`, `minimal` or `full`.
    ///
    /// # Errors
    /// `InvalidInput` for anything else.
    pub fn parse(name: &str) -> Result<Metadata, Error> {
        match name {
            "none" => Ok(Metadata::None),
            "minimal" => Ok(Metadata::Minimal),
            "full" => Ok(Metadata::Full),
            _ => Err(Error::argument("metadata is none, minimal or full")),
        }
    }
}

/// Returns a bag as a JSON object, with the type annotations that reading it back needs.
pub fn properties_to_json(properties: Properties<'_>) -> Vec<u8> {
    let mut object = Object::new(properties.as_bytes().len());
    for (name, value) in properties.iter() {
        object.property(name, value, Metadata::Minimal);
    }
    object.finish()
}

/// Returns a bag as a JSON object that survives `jsonb`, which keeps numbers as decimals. It is that of
/// [`properties_to_json`], but a double that would come back as an integer or without its sign is an annotated string.
pub fn jsonb_text(properties: Properties<'_>) -> Vec<u8> {
    let mut object = Object::new(properties.as_bytes().len());
    for (name, value) in properties.iter() {
        match value {
            Value::Double(n) if n.is_finite() && !jsonb_keeps(n) => {
                object.annotation(name, EdmType::Double);
                object.name(name);
                object.string(&format_double(n));
            }
            _ => object.property(name, value, Metadata::Minimal),
        }
    }
    object.finish()
}

/// `numeric` has no negative zero, and prints large exponents as digits without a decimal point.
fn jsonb_keeps(n: f64) -> bool {
    let negative_zero = n == 0.0 && n.is_sign_negative();
    !negative_zero && (n.fract() != 0.0 || !format_double(n).contains('E'))
}

/// Returns one value as JSON, without its type.
pub fn value_to_json(value: Value<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    write_value(&mut out, value);
    out
}

/// Returns an entity as a JSON object. Keys or a Timestamp that are not there are `null`.
///
/// `odata.etag` comes first, then PartitionKey, RowKey, Timestamp, then the properties in ordinal order
/// (semantics 1.7).
pub fn entity_to_json(entity: &Entity<'_>, metadata: Metadata) -> Vec<u8> {
    projected_to_json(entity, &Projection::All, metadata)
}

/// Returns an entity as a JSON object with the chosen properties. A property that the entity lacks is `null` (semantics
/// 6.5). The keys and the Timestamp are always there.
pub fn projected_to_json(entity: &Entity<'_>, projection: &Projection, metadata: Metadata) -> Vec<u8> {
    let mut out = Vec::with_capacity(entity.properties.as_bytes().len() + 256);
    append_entity(&mut out, entity, projection, metadata);
    out
}

/// Appends the text of [`projected_to_json`].
pub fn append_entity(out: &mut Vec<u8>, entity: &Entity<'_>, projection: &Projection, metadata: Metadata) {
    out.push(b'{');
    let mut object = Object(std::mem::take(out));
    if let (Some(timestamp), true) = (entity.timestamp, metadata != Metadata::None) {
        object.name("odata.etag");
        object.etag(timestamp);
    }
    for (name, key) in [(PARTITION_KEY, entity.partition_key), (ROW_KEY, entity.row_key)] {
        object.name(name);
        match key {
            Some(key) => object.string(key),
            None => object.raw("null"),
        }
    }
    match entity.timestamp {
        Some(timestamp) => object.timestamp(timestamp, metadata),
        None => {
            object.name(TIMESTAMP);
            object.raw("null");
        }
    }
    object.properties(entity, projection, metadata);
    *out = object.finish();
}

/// Appends the members of an entity to the object at the end of `out`, but not `odata.*`, which the caller writes. With a
/// projection, the keys and the Timestamp are there only if it names them (semantics 6.5).
pub fn append_members(out: &mut Vec<u8>, entity: &Entity<'_>, projection: &Projection, metadata: Metadata) {
    let mut object = Object(std::mem::take(out));
    for (name, key) in [(PARTITION_KEY, entity.partition_key), (ROW_KEY, entity.row_key)] {
        if let (Some(key), true) = (key, projection.has(name)) {
            object.name(name);
            object.string(key);
        }
    }
    if let (Some(timestamp), true) = (entity.timestamp, projection.has(TIMESTAMP)) {
        object.timestamp(timestamp, metadata);
    }
    object.properties(entity, projection, metadata);
    *out = object.0;
}

struct Object(Vec<u8>);

impl Object {
    fn new(capacity: usize) -> Object {
        let mut out = Vec::with_capacity(capacity + 64);
        out.push(b'{');
        Object(out)
    }

    /// Neither names of properties nor `odata.*` need escapes.
    fn name(&mut self, name: &str) {
        self.separator();
        self.0.push(b'"');
        self.raw(name);
        self.raw("\":");
    }

    fn separator(&mut self) {
        if self.0.last() != Some(&b'{') {
            self.0.push(b',');
        }
    }

    fn raw(&mut self, json: &str) {
        self.0.extend_from_slice(json.as_bytes());
    }

    fn string(&mut self, text: &str) {
        write_string(&mut self.0, text);
    }

    fn annotation(&mut self, name: &str, edm: EdmType) {
        self.separator();
        self.0.push(b'"');
        self.raw(name);
        self.raw("@odata.type\":\"");
        self.raw(edm.name());
        self.0.push(b'"');
    }

    fn property(&mut self, name: &str, value: Value<'_>, metadata: Metadata) {
        if metadata != Metadata::None && needs_annotation(value) {
            self.annotation(name, value.edm_type());
        }
        self.name(name);
        write_value(&mut self.0, value);
    }

    fn timestamp(&mut self, timestamp: Ticks, metadata: Metadata) {
        if metadata == Metadata::Full {
            self.annotation(TIMESTAMP, EdmType::DateTime);
        }
        self.name(TIMESTAMP);
        self.0.push(b'"');
        timestamp.write(&mut self.0, ":");
        self.0.push(b'"');
    }

    /// Writes the text of [`crate::etag::format`] as a JSON string.
    fn etag(&mut self, timestamp: Ticks) {
        self.raw("\"W/\\\"datetime'");
        timestamp.write(&mut self.0, "%3A");
        self.raw("'\\\"\"");
    }

    fn properties(&mut self, entity: &Entity<'_>, projection: &Projection, metadata: Metadata) {
        match projection {
            Projection::All => {
                for (name, value) in entity.properties.iter() {
                    self.property(name, value, metadata);
                }
            }
            Projection::Names(names) => {
                for name in names.iter().filter(|name| !is_system_property(name)) {
                    match entity.properties.get(name) {
                        Some(value) => self.property(name, value, metadata),
                        // The projection may have any text as a name.
                        None => {
                            self.separator();
                            self.string(name);
                            self.raw(":null");
                        }
                    }
                }
            }
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

/// Returns whether the bare JSON value would be read as another type.
fn needs_annotation(value: Value<'_>) -> bool {
    match value {
        Value::Int64(_) | Value::DateTime(_) | Value::Guid(_) | Value::Binary(_) => true,
        Value::Double(n) => !n.is_finite(),
        Value::String(_) | Value::Int32(_) | Value::Boolean(_) => false,
    }
}

fn write_value(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::String(text) => write_string(out, text),
        Value::Int32(_) | Value::Boolean(_) => value.write_text(out),
        Value::Double(n) if n.is_finite() => value.write_text(out),
        Value::Int64(_) | Value::Double(_) | Value::DateTime(_) | Value::Guid(_) | Value::Binary(_) => {
            out.push(b'"');
            value.write_text(out);
            out.push(b'"');
        }
    }
}

fn write_string(out: &mut Vec<u8>, text: &str) {
    if needs_escapes(text) {
        // Writing a string to a Vec cannot fail.
        let _ = serde_json::to_writer(out, text);
    } else {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }
}

/// Returns whether JSON escapes a character of a text. serde_json looks at one byte after the other; without a branch for
/// each, the compiler makes this look at many at once.
fn needs_escapes(text: &str) -> bool {
    text.bytes().fold(false, |found, byte| {
        found | (byte < b' ') | (byte == b'"') | (byte == b'\\')
    })
}
