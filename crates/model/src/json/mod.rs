//! Entities and property bags as the JSON payloads of the Table service (semantics 1.4, 1.6, 4.4).

mod read;
pub(crate) mod reader;
mod write;

pub(crate) use read::operation_entity;
pub use read::{ParsedEntity, parse_entity, parse_new_entity, parse_properties};
pub use write::{
    Metadata, append_entity, append_members, entity_to_json, jsonb_text, projected_to_json, properties_to_json,
    value_to_json,
};

#[cfg(test)]
mod tests;
