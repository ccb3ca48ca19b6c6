//! Entity group transactions: up to 100 operations on one partition, and everything about them that can be checked
//! before the first row is touched (semantics 5.2).

use std::borrow::Cow;
use std::collections::HashSet;

use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::entity;
use crate::error::Error;
use crate::etag::IfMatch;
use crate::json::operation_entity;
use crate::json::reader::{Kind, Reader};
use crate::key::{self, ROW_KEY};
use crate::limits;
use crate::properties::Properties;

/// What an operation does. Its name in the SQL API and in JSON is that of the variant in snake case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Action {
    Insert,
    Replace,
    Merge,
    InsertOrReplace,
    InsertOrMerge,
    Delete,
}

impl Action {
    /// Every action.
    pub const ALL: &[Action] = Action::VARIANTS;

    /// The name in the SQL API and in JSON, e.g. `insert_or_replace`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    fn from_name(name: &str) -> Option<Action> {
        name.parse().ok()
    }

    /// Whether it is for an entity that exists, of the version that `if_match` says.
    pub const fn is_conditional(self) -> bool {
        matches!(self, Action::Replace | Action::Merge | Action::Delete)
    }
}

/// One operation.
#[derive(Debug, Clone)]
pub struct Operation<'a> {
    pub action: Action,
    pub row_key: Cow<'a, str>,
    /// The bytes of a bag; empty for a delete.
    bag: Cow<'a, [u8]>,
    /// `Any` for inserts and upserts.
    pub if_match: IfMatch,
}

impl<'a> Operation<'a> {
    /// An operation given by its parts, as SQL gives them; `None` is NULL.
    ///
    /// # Errors
    /// `InvalidInput` for an unknown action, for `if_match` where it has no meaning or is missing, and for missing
    /// properties; `PropertiesNeedValue` for a missing RowKey.
    pub fn new(
        action: Option<&str>,
        row_key: Option<&'a str>,
        properties: Option<Properties<'a>>,
        if_match: Option<&str>,
    ) -> Result<Operation<'a>, Error> {
        let action = action.ok_or_else(|| Error::null_argument("operation"))?;
        let action = Action::from_name(action).ok_or_else(|| unknown_operation(action))?;
        let row_key = row_key.ok_or(Error::KeyMissing { key: ROW_KEY })?;
        let bag = match (action, properties) {
            (Action::Delete, _) => &[][..],
            (_, Some(properties)) => properties.as_bytes(),
            (_, None) => return Err(Error::null_argument("properties")),
        };
        Ok(Operation {
            action,
            row_key: Cow::Borrowed(row_key),
            bag: Cow::Borrowed(bag),
            if_match: condition(action, if_match)?,
        })
    }

    pub fn properties(&self) -> Properties<'_> {
        Properties::from_stored(&self.bag)
    }
}

fn condition(action: Action, if_match: Option<&str>) -> Result<IfMatch, Error> {
    match if_match {
        Some(_) if !action.is_conditional() => Err(Error::ArgumentInvalid {
            reason: format!("if_match has no meaning for {}", action.name()),
        }),
        Some(tag) => IfMatch::parse(tag),
        None if action.is_conditional() => Err(Error::ArgumentInvalid {
            reason: format!("{} needs if_match: an ETag, or * for any version", action.name()),
        }),
        None => Ok(IfMatch::Any),
    }
}

fn unknown_operation(name: &str) -> Error {
    Error::ArgumentInvalid {
        reason: format!(
            "\"{}\" is no operation; there are {}",
            Error::quoted(name),
            Action::ALL.iter().map(|action| action.name()).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// The operations of one entity group transaction, checked as far as that goes without data.
#[derive(Debug)]
pub struct Batch<'a>(Vec<Operation<'a>>);

impl<'a> Batch<'a> {
    /// The batch of these operations. An operation that could not be made is the error of its place.
    ///
    /// # Errors
    /// More than 100 operations before anything else; then the error of the operation with the lowest index.
    pub fn new(
        partition_key: &str,
        operations: impl ExactSizeIterator<Item = Result<Operation<'a>, Error>>,
    ) -> Result<Batch<'a>, Error> {
        if operations.len() > limits::BATCH_OPERATIONS {
            return Err(Error::TooManyOperations);
        }
        let mut collected = Collector {
            operations: Vec::with_capacity(operations.len()),
            row_keys: HashSet::with_capacity(operations.len()),
        };
        for operation in operations {
            collected.push(operation)?;
        }
        let bytes = collected
            .operations
            .iter()
            .map(|operation| partition_key.len() + operation.row_key.len() + operation.bag.len())
            .sum::<usize>();
        if bytes > limits::BATCH_BYTES {
            return Err(Error::BatchTooLarge);
        }
        collected.finish()
    }

    /// Reads a batch from JSON: an array of `{"<action>": {entity}, "if_match": "…"}`. The payload is this text.
    ///
    /// # Errors
    /// As [`Batch::new`]; `InvalidInput` for text that is no such array and for unknown members;
    /// `CommandsInBatchActOnDifferentPartitions` for an entity with another PartitionKey.
    pub fn parse(partition_key: &str, json: &'a str) -> Result<Batch<'a>, Error> {
        let parsed = if json.len() > limits::BATCH_BYTES {
            Err(Error::BatchTooLarge)
        } else {
            parse_operations(partition_key, json)
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

    /// Checks the limits of every entity that the batch gives whole. Those of a merged entity are known only with what
    /// it is merged into.
    ///
    /// # Errors
    /// `PropertyValueTooLarge` for keys of an insert or upsert, `EntityTooLarge`.
    pub fn check_limits(&self, partition_key: &str) -> Result<(), Error> {
        for (index, operation) in self.0.iter().enumerate() {
            let checked =
                if !operation.action.is_conditional() && !key::within_limits(partition_key, &operation.row_key) {
                    Err(Error::KeyTooLong)
                } else if operation.action == Action::Delete {
                    Ok(())
                } else {
                    entity::check_size(partition_key, &operation.row_key, operation.properties())
                };
            checked.map_err(|error| error.at(index))?;
        }
        Ok(())
    }

    pub fn operations(&self) -> &[Operation<'a>] {
        &self.0
    }
}

/// Operations that come one after the other, so that the error of the first wrong one is found first.
#[derive(Default)]
struct Collector<'a> {
    operations: Vec<Operation<'a>>,
    row_keys: HashSet<Cow<'a, str>>,
}

impl<'a> Collector<'a> {
    /// Adds an operation that has a row of its own, or says what is wrong with it and where.
    fn push(&mut self, operation: Result<Operation<'a>, Error>) -> Result<(), Error> {
        let checked = operation.and_then(|operation| {
            key::check_characters(ROW_KEY, &operation.row_key)?;
            if !self.row_keys.insert(operation.row_key.clone()) {
                return Err(Error::DuplicateRow);
            }
            Ok(operation)
        });
        self.operations
            .push(checked.map_err(|error| error.at(self.operations.len()))?);
        Ok(())
    }

    fn finish(self) -> Result<Batch<'a>, Error> {
        if self.operations.is_empty() {
            return Err(Error::ArgumentInvalid {
                reason: "A batch has at least one operation".to_owned(),
            });
        }
        Ok(Batch(self.operations))
    }
}

fn parse_operations<'a>(partition_key: &str, json: &'a str) -> Result<Batch<'a>, Error> {
    let mut reader = Reader::new(json);
    let mut collected = Collector::default();
    let mut more = first_operation(&mut reader)?;
    while more {
        if collected.operations.len() == limits::BATCH_OPERATIONS {
            return Err(Error::TooManyOperations);
        }
        match parse_operation(partition_key, &mut reader) {
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

fn parse_operation<'a>(partition_key: &str, reader: &mut Reader<'a>) -> Result<Operation<'a>, Error> {
    const FORM: &str = "An operation is an object {\"<operation>\": {entity}, \"if_match\": \"…\"}";
    let invalid = |reason: String| Error::ArgumentInvalid { reason };
    if reader.peek()? != Kind::Object {
        return Err(invalid(FORM.to_owned()));
    }
    let (mut given, mut if_match) = (None, None);
    let mut next = reader.first_member()?;
    while let Some(name) = next {
        let kind = reader.peek()?;
        if name == "if_match" {
            if kind != Kind::String {
                return Err(invalid(
                    "if_match is a string: an ETag, or * for any version".to_owned(),
                ));
            }
            if if_match.replace(reader.string()?).is_some() {
                return Err(invalid("if_match is given twice".to_owned()));
            }
        } else {
            let action = Action::from_name(&name).ok_or_else(|| unknown_operation(&name))?;
            if kind != Kind::Object {
                return Err(invalid(format!("The entity of {} is an object", action.name())));
            }
            let entity = operation_entity(reader, action == Action::Delete)?;
            if given.replace((action, entity)).is_some() {
                return Err(invalid("There are two operations in one object".to_owned()));
            }
        }
        next = reader.next_member()?;
    }
    let (action, entity) = given.ok_or_else(|| invalid(FORM.to_owned()))?;
    if entity.partition_key.is_some_and(|given| given != partition_key) {
        return Err(Error::AnotherPartition);
    }
    // A delete without a condition is for any version, as `batch_delete` has it.
    let if_match = match (action, if_match.as_deref()) {
        (Action::Delete, None) => IfMatch::Any,
        (_, tag) => condition(action, tag)?,
    };
    Ok(Operation {
        action,
        row_key: Cow::Owned(entity.row_key),
        bag: Cow::Owned(entity.properties.as_bytes().to_vec()),
        if_match,
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use crate::PropertiesBuf;
    use crate::json::parse_properties;

    fn parse(json: &str) -> Result<Vec<(Action, String, String, IfMatch)>, String> {
        Batch::parse("p", json).map_err(|error| error.report()).map(|batch| {
            let parts = |operation: &Operation<'_>| {
                (
                    operation.action,
                    operation.row_key.to_string(),
                    format!("{:?}", operation.properties()),
                    operation.if_match,
                )
            };
            batch.operations().iter().map(parts).collect()
        })
    }

    fn error(json: &str) -> String {
        parse(json).unwrap_err()
    }

    #[test]
    fn every_operation_has_a_json_form() {
        let batch = parse(
            r#"[{"insert": {"RowKey": "1", "PartitionKey": "p", "A": 1}},
                {"replace": {"RowKey": "2", "A": 1}, "if_match": "*"},
                {"if_match": "W/\"x\"", "merge": {"RowKey": "3"}},
                {"insert_or_replace": {"RowKey": "4", "Timestamp": 7}},
                {"insert_or_merge": {"RowKey": "5"}},
                {"delete": {"RowKey": "6", "A": {"nested": [1]}, "B@odata.type": 7}}]"#,
        )
        .unwrap();
        let actions: Vec<_> = batch.iter().map(|(action, ..)| *action).collect();
        assert_eq!(actions, Action::ALL);
        assert_eq!(batch[0].2, "{\"A\": Int32(1)}");
        assert_eq!(batch[2].3, IfMatch::Never);
        assert_eq!((batch[5].2.as_str(), batch[5].3), ("{}", IfMatch::Any));
    }

    #[test]
    fn a_typo_does_not_lose_a_check() {
        for (json, hint) in [
            (
                r#"[{"merge": {"RowKey": "1"}, "ifmatch": "*"}]"#,
                "\"ifmatch\" is no operation",
            ),
            (r#"[{"update": {"RowKey": "1"}}]"#, "\"update\" is no operation"),
            (r#"[{"merge": {"RowKey": "1"}}]"#, "merge needs if_match"),
            (r#"[{"replace": {"RowKey": "1"}}]"#, "replace needs if_match"),
            (
                r#"[{"insert": {"RowKey": "1"}, "if_match": "*"}]"#,
                "if_match has no meaning for insert",
            ),
            (
                r#"[{"merge": {"RowKey": "1"}, "if_match": null}]"#,
                "if_match is a string",
            ),
            (
                r#"[{"merge": {"RowKey": "1"}, "if_match": "*", "if_match": "*"}]"#,
                "if_match is given twice",
            ),
            (
                r#"[{"insert": {"RowKey": "1"}, "delete": {"RowKey": "2"}}]"#,
                "two operations in one object",
            ),
            (r#"[{"insert": 1}]"#, "The entity of insert is an object"),
            (r#"[{}]"#, "An operation is an object"),
            (r#"[7]"#, "An operation is an object"),
        ] {
            let error = Batch::parse("p", json).unwrap_err();
            assert_eq!(
                (error.code(), error.sqlstate()),
                (Code::InvalidInput, "22023"),
                "{json}"
            );
            assert!(error.report().starts_with("InvalidInput: 0:"), "{json}");
            assert!(error.hint().unwrap().contains(hint), "{json}: {:?}", error.hint());
        }
    }

    #[test]
    fn errors_carry_the_index_of_their_operation() {
        for (json, message) in [
            (
                r#"[{"insert": {"RowKey": "1"}}, {"insert": {}}]"#,
                "PropertiesNeedValue: 1:The values are not specified for all properties in the entity.",
            ),
            (
                r#"[{"insert": {"RowKey": "1"}}, {"delete": {"RowKey": "2"}}, {"insert": {"RowKey": "1"}}]"#,
                "InvalidDuplicateRow: 2:The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.",
            ),
            (
                r#"[{"insert": {"RowKey": "1"}}, {"insert": {"PartitionKey": "q", "RowKey": "2"}}]"#,
                "CommandsInBatchActOnDifferentPartitions: 1:All commands in a batch must operate on same entity group.",
            ),
            (
                r#"[{"insert": {"RowKey": "1"}}, {"insert": {"RowKey": "a/b"}}]"#,
                "OutOfRangeInput: 1:The 'RowKey' parameter of value 'a/b' is out of range.",
            ),
            (
                r#"[{"insert": {"RowKey": "1", "A b": 1}}]"#,
                "PropertyNameInvalid: 0:The property name is invalid.",
            ),
            // Of several, the first is reported, whatever they are.
            (
                r#"[{"insert": {"RowKey": "a/b"}}, {"insert": {"RowKey": "1", "A b": 1}}]"#,
                "OutOfRangeInput: 0:The 'RowKey' parameter of value 'a/b' is out of range.",
            ),
            (
                r#"[{"insert": {"RowKey": "1"}}, {"insert": {"RowKey": "1"}}, {"insert": {}}]"#,
                "InvalidDuplicateRow: 1:The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.",
            ),
            (
                r#"[{"insert": {"RowKey": "1"}}, {"insert": {}}, {"insert": {"RowKey": "1"}}]"#,
                "PropertiesNeedValue: 1:The values are not specified for all properties in the entity.",
            ),
        ] {
            assert_eq!(error(json), message);
        }
        assert!(error("[]").starts_with("InvalidInput: One of"));
    }

    #[test]
    fn text_that_is_no_batch_is_malformed() {
        for json in [
            "",
            "{}",
            "null",
            "[",
            "[{\"insert\":",
            "[] x",
            "[{\"insert\": {\"RowKey\": \"1\"}},]",
        ] {
            let error = Batch::parse("p", json).unwrap_err();
            assert_eq!(
                (error.code(), error.sqlstate()),
                (Code::InvalidInput, "22P02"),
                "{json}"
            );
        }
    }

    #[test]
    fn too_many_operations_are_reported_before_anything_else() {
        let operations = |count: usize, first: &str| {
            let mut all = vec![first.to_owned()];
            all.extend((1..count).map(|i| format!("{{\"insert\": {{\"RowKey\": \"{i}\"}}}}")));
            format!("[{}]", all.join(","))
        };
        let good = "{\"insert\": {\"RowKey\": \"0\"}}";
        assert_eq!(parse(&operations(100, good)).unwrap().len(), 100);
        for first in [
            good,
            "{\"nonsense\": 1}",
            "{\"insert\": {\"RowKey\": \"1\", \"A\": {}}}",
        ] {
            let error = Batch::parse("p", &operations(101, first)).unwrap_err();
            assert_eq!(error, Error::TooManyOperations, "{first}");
            assert_eq!(error.sqlstate(), "54000");
            assert_eq!(
                error.report(),
                "InvalidInput: 99:The batch request operation exceeds the maximum 100 changes per change set."
            );
        }
    }

    #[test]
    fn a_payload_ends_at_4_mebibytes() {
        let batch = |padding: usize| format!("[{{\"insert\": {{\"RowKey\": \"0\"}}}}{}]", " ".repeat(padding));
        let fits = limits::BATCH_BYTES - batch(0).len();
        assert!(parse(&batch(fits)).is_ok());
        let error = Batch::parse("p", &batch(fits + 1)).unwrap_err();
        assert_eq!((error.code(), error.sqlstate()), (Code::RequestBodyTooLarge, "54000"));

        let bag = parse_properties(&format!("{{\"A\": \"{}\"}}", "x".repeat(30_000))).unwrap();
        let keys: Vec<String> = (0..100).map(|i| i.to_string()).collect();
        let typed = |count: usize, padding: usize| {
            let partition_key = "p".repeat(padding);
            Batch::new(
                &partition_key,
                keys.iter()
                    .take(count)
                    .map(|key| Operation::new(Some("insert"), Some(key), Some(bag.as_properties()), None)),
            )
            .map(|batch| batch.operations().len())
        };
        assert_eq!(typed(100, 1), Ok(100));
        assert_eq!(typed(100, 20_000), Err(Error::BatchTooLarge));
    }

    #[test]
    fn operations_are_checked_again_when_they_come_as_rows() {
        let bag = PropertiesBuf::empty();
        let new = |action, row_key, with_bag: bool, if_match| {
            Operation::new(action, row_key, with_bag.then(|| bag.as_properties()), if_match)
                .err()
                .map(|error| (error.code(), error.sqlstate()))
        };
        let (invalid, missing) = (Code::InvalidInput, Code::PropertiesNeedValue);
        for (action, row_key, with_bag, if_match, expected) in [
            (Some("insert"), Some("1"), true, None, None),
            (Some("delete"), Some("1"), false, Some("*"), None),
            (None, Some("1"), true, None, Some((invalid, "22023"))),
            (Some("Insert"), Some("1"), true, None, Some((invalid, "22023"))),
            (Some("insert"), None, true, None, Some((missing, "23502"))),
            (Some("insert"), Some("1"), false, None, Some((invalid, "22023"))),
            (Some("insert"), Some("1"), true, Some("*"), Some((invalid, "22023"))),
            (Some("merge"), Some("1"), true, None, Some((invalid, "22023"))),
            (Some("delete"), Some("1"), false, None, Some((invalid, "22023"))),
            (Some("delete"), Some("1"), false, Some("x"), Some((invalid, "22023"))),
        ] {
            assert_eq!(new(action, row_key, with_bag, if_match), expected, "{action:?}");
        }
    }

    #[test]
    fn limits_are_checked_for_the_whole_batch() {
        let long = "k".repeat(1025);
        let limits = |json: &str| {
            let batch = Batch::parse("p", json).unwrap();
            batch.check_limits("p").map_err(|error| error.report())
        };
        let insert = format!(r#"[{{"insert": {{"RowKey": "1"}}}}, {{"insert": {{"RowKey": "{long}"}}}}]"#);
        assert!(limits(&insert).unwrap_err().starts_with("PropertyValueTooLarge: 1:"));
        // Over-long keys of a conditional operation name no entity, which is for the data to say.
        let delete = format!(r#"[{{"delete": {{"RowKey": "{long}"}}}}]"#);
        assert_eq!(limits(&delete), Ok(()));
    }
}
