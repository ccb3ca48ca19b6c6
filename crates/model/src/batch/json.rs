//! Batches in JSON.

use std::borrow::Cow;

use super::group::{Batch, Collector};
use super::operation::{Action, Operation, condition, unknown_operation};
use super::patch;
use crate::json::operation_entity;
use crate::json::reader::{Kind, Reader};
use crate::{Dialect, Error, IfMatch, limits};

impl<'a> Batch<'a> {
    /// Reads a batch from JSON: an array of `{"<action>": {entity}, "if_match": "…"}`. The payload is this text. A patch has
    /// its other arguments beside `if_match`, by their names, and its condition in this dialect.
    ///
    /// # Errors
    /// As [`Batch::new`]; `InvalidInput` for text that is not such an array and for unknown members;
    /// `CommandsInBatchActOnDifferentPartitions` for an entity with another PartitionKey.
    pub fn parse(partition_key: &str, json: &'a str, dialect: Dialect) -> Result<Batch<'a>, Error> {
        let parsed = if json.len() > limits::BATCH_BYTES {
            Err(Error::BatchTooLarge)
        } else {
            parse_operations(partition_key, json, dialect)
        };
        match parsed {
            Ok(batch) => Ok(batch),
            // Too many operations are reported first, so an error has to wait until all have been counted.
            Err(_) if count_operations(json).is_ok_and(|count| count > limits::BATCH_OPERATIONS) => {
                Err(Error::TooManyOperations)
            }
            Err(error) => Err(error),
        }
    }
}

fn parse_operations<'a>(partition_key: &str, json: &'a str, dialect: Dialect) -> Result<Batch<'a>, Error> {
    let mut reader = Reader::new(json);
    let mut collected = Collector::default();
    let mut more = first_operation(&mut reader)?;
    while more {
        if collected.operations.len() == limits::BATCH_OPERATIONS {
            return Err(Error::TooManyOperations);
        }
        match parse_operation(partition_key, &mut reader, dialect) {
            Err(error @ Error::MalformedJson { .. }) => return Err(error),
            operation => collected.push(operation)?,
        }
        more = reader.next_element()?;
    }
    reader.finish()?;
    collected.finish()
}

fn first_operation(reader: &mut Reader<'_>) -> Result<bool, Error> {
    if reader.peek()? != Kind::Array {
        return Err(Error::MalformedJson {
            reason: "The operations of a batch are a JSON array".to_owned(),
        });
    }
    reader.first_element()
}

fn parse_operation<'a>(partition_key: &str, reader: &mut Reader<'a>, dialect: Dialect) -> Result<Operation<'a>, Error> {
    const FORM: &str = "An operation is an object {\"<operation>\": {entity}, \"if_match\": \"...\"}";
    if reader.peek()? != Kind::Object {
        return Err(Error::argument(FORM));
    }
    let (mut given, mut if_match, mut arguments) = (None, None, patch::Members::default());
    let mut next = reader.first_member()?;
    while let Some(name) = next {
        let kind = reader.peek()?;
        if name == "if_match" {
            if kind != Kind::String {
                return Err(Error::argument("if_match is a string: an ETag, or * for any version"));
            }
            if if_match.replace(reader.string()?).is_some() {
                return Err(Error::argument("if_match is given twice"));
            }
        } else if !arguments.take(&name, reader)? {
            let action = Action::from_name(&name).ok_or_else(|| unknown_operation(&name))?;
            if kind != Kind::Object {
                return Err(Error::argument(format!("The entity of {} is an object", action.name())));
            }
            let entity = operation_entity(reader, action == Action::Delete)?;
            if given.replace((action, entity)).is_some() {
                return Err(Error::argument("There are two operations in one object"));
            }
        }
        next = reader.next_member()?;
    }
    let (action, entity) = given.ok_or_else(|| Error::argument(FORM))?;
    if entity.partition_key.is_some_and(|given| given != partition_key) {
        return Err(Error::AnotherPartition);
    }
    // A delete or a patch without a condition is for any version, as `batch_delete` and `batch_patch` have it.
    let if_match = match (action, if_match.as_deref()) {
        (Action::Delete | Action::Patch, None) => IfMatch::Any,
        (_, tag) => condition(action, tag)?,
    };
    let patch = if action == Action::Patch {
        Some(Box::new(arguments.compile(dialect)?))
    } else if arguments.is_empty() {
        None
    } else {
        return Err(Error::argument(format!(
            "{} has none of the arguments of a patch: increment, remove, condition, parameters, create_missing",
            action.name()
        )));
    };
    Operation {
        action,
        row_key: Cow::Owned(entity.row_key),
        bag: Cow::Owned(entity.properties.as_bytes().to_vec()),
        if_match,
        patch,
        packed_bytes: 0,
    }
    .checked()
}

fn count_operations(json: &str) -> Result<usize, Error> {
    let mut reader = Reader::new(json);
    let mut count = 0;
    let mut more = first_operation(&mut reader)?;
    while more && count <= limits::BATCH_OPERATIONS {
        reader.skip()?;
        count += 1;
        more = reader.next_element()?;
    }
    Ok(count)
}
