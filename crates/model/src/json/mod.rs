//! Entities and property bags as the JSON payloads of the Table service (semantics 1.4, 1.6, 4.4).
//!
//! ```
//! use table_service_model::json::{parse_entity, properties_to_json};
//!
//! let entity = parse_entity(r#"{"PartitionKey": "Sales", "RowKey": "1", "Id@odata.type": "Edm.Int64", "Id": "7", "Name": null}"#)?;
//! assert_eq!(entity.partition_key, "Sales");
//! let json = properties_to_json(entity.properties.as_properties());
//! assert_eq!(String::from_utf8_lossy(&json), r#"{"Id@odata.type":"Edm.Int64","Id":"7"}"#);
//! # Ok::<(), table_service_model::Error>(())
//! ```

mod read;
pub(crate) mod reader;
mod write;

pub use read::{ParsedEntity, parse_entity, parse_new_entity, parse_properties};
pub(crate) use read::{operation_entity, read_properties};
pub use write::{
    Metadata, append_entity, append_members, entity_to_json, jsonb_text, projected_to_json, properties_to_json,
    value_to_json,
};

#[cfg(test)]
mod tests;
