use super::*;
use crate::etag::IfMatch;
use crate::json::parse_properties;
use crate::{Code, Error, PropertiesBuf, limits};

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
