use super::*;
use crate::json::parse_properties;
use crate::{Code, Dialect, Entity, Error, IfMatch, PropertiesBuf, limits};

fn parse(json: &str) -> Result<Vec<(Action, String, String, IfMatch)>, String> {
    Batch::parse("p", json, Dialect::Service)
        .map_err(|error| error.report())
        .map(|batch| {
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
            {"delete": {"RowKey": "6", "A": {"nested": [1]}, "B@odata.type": 7}},
            {"patch": {"RowKey": "7", "A": 1}, "increment": {"N": 1}, "remove": ["B"], "condition": "N lt @n",
                "parameters": {"n": 5}, "create_missing": true}]"#,
    )
    .unwrap();
    let actions: Vec<_> = batch.iter().map(|(action, ..)| *action).collect();
    assert_eq!(actions, Action::ALL);
    assert_eq!(batch[0].2, "{\"A\": Int32(1)}");
    assert_eq!(batch[2].3, IfMatch::Never);
    assert_eq!((batch[5].2.as_str(), batch[5].3), ("{}", IfMatch::Any));
    assert_eq!((batch[6].2.as_str(), batch[6].3), ("{\"A\": Int32(1)}", IfMatch::Any));
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
        (
            r#"[{"merge": {"RowKey": "1"}, "if_match": "*", "condition": "A eq 1"}]"#,
            "merge has none of the arguments of a patch",
        ),
        (
            r#"[{"patch": {"RowKey": "1"}, "increment": 1}]"#,
            "increment is an object of properties",
        ),
        (
            r#"[{"patch": {"RowKey": "1"}, "remove": ["A", null]}]"#,
            "remove must not contain NULL",
        ),
        (
            r#"[{"patch": {"RowKey": "1", "A": 1}, "remove": ["A"]}]"#,
            "\"A\" is given twice",
        ),
        (
            r#"[{"patch": {"RowKey": "1"}, "create_missing": 1}]"#,
            "create_missing is true or false",
        ),
        (r#"[{}]"#, "An operation is an object"),
        (r#"[7]"#, "An operation is an object"),
    ] {
        let error = Batch::parse("p", json, Dialect::Service).unwrap_err();
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
        let error = Batch::parse("p", json, Dialect::Service).unwrap_err();
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
        let error = Batch::parse("p", &operations(101, first), Dialect::Service).unwrap_err();
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
    let error = Batch::parse("p", &batch(fits + 1), Dialect::Service).unwrap_err();
    assert_eq!((error.code(), error.sqlstate()), (Code::RequestBodyTooLarge, "54000"));

    let bag = parse_properties(&format!("{{\"A\": \"{}\"}}", "x".repeat(30_000))).unwrap();
    let keys: Vec<String> = (0..100).map(|i| i.to_string()).collect();
    let typed = |count: usize, padding: usize| {
        let partition_key = "p".repeat(padding);
        Batch::new(
            &partition_key,
            keys.iter().take(count).map(|key| {
                Operation::new(
                    Some("insert"),
                    Some(key),
                    Some(bag.as_properties()),
                    None,
                    Dialect::Service,
                )
            }),
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
        Operation::new(
            action,
            row_key,
            with_bag.then(|| bag.as_properties()),
            if_match,
            Dialect::Service,
        )
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
        let batch = Batch::parse("p", json, Dialect::Service).unwrap();
        batch.check_limits("p").map_err(|error| error.report())
    };
    let insert = format!(r#"[{{"insert": {{"RowKey": "1"}}}}, {{"insert": {{"RowKey": "{long}"}}}}]"#);
    assert!(limits(&insert).unwrap_err().starts_with("PropertyValueTooLarge: 1:"));
    // Over-long keys of a conditional operation name no entity, which is for the data to say.
    let delete = format!(r#"[{{"delete": {{"RowKey": "{long}"}}}}]"#);
    assert_eq!(limits(&delete), Ok(()));
}

/// Returns the arguments of a patch that has all of them.
fn arguments<'a>(increment: &'a PropertiesBuf, parameters: &'a PropertiesBuf) -> PatchArguments<'a> {
    PatchArguments {
        increment: Some(increment.as_properties()),
        remove: Some(vec![Some("B"), Some("C")]),
        condition: Some("N lt @n and S eq @s"),
        parameters: Some(parameters.as_properties()),
        create_missing: true,
    }
}

fn entity(properties: &PropertiesBuf) -> Entity<'_> {
    Entity {
        partition_key: Some("p"),
        row_key: Some("r"),
        timestamp: None,
        properties: properties.as_properties(),
    }
}

#[test]
fn a_patch_is_packed_into_its_operation() {
    let [increment, parameters, set, stored, expected] = [
        r#"{"N@odata.type": "Edm.Int64", "N": "9007199254740993", "D": 0.1}"#,
        r#"{"n@odata.type": "Edm.Int64", "n": "5", "s": "it's \"€\" \u0001"}"#,
        r#"{"A": true}"#,
        r#"{"N@odata.type": "Edm.Int64", "N": "4", "S": "it's \"€\" \u0001", "B": 1}"#,
        r#"{"N@odata.type": "Edm.Int64", "N": "9007199254740997", "D": 0.1, "S": "it's \"€\" \u0001", "A": true}"#,
    ]
    .map(|json| parse_properties(json).unwrap());
    let packed = arguments(&increment, &parameters).pack();
    let operation = Operation::new(
        Some(&packed),
        Some("r"),
        Some(set.as_properties()),
        Some("*"),
        Dialect::Service,
    )
    .unwrap();
    assert_eq!((operation.action, operation.may_insert()), (Action::Patch, true));
    assert_eq!(operation.changed(&entity(&stored)), Ok(expected.clone()));
    // The condition is that of the stored entity.
    assert_eq!(
        operation.changed(&entity(&expected)),
        Err(Error::UpdateConditionNotSatisfied)
    );
    // With a version the entity must exist.
    let tag = crate::etag::format(crate::Ticks::parse("2026-01-01").unwrap());
    let of_version = Operation::new(Some(&packed), Some("r"), None, Some(&tag), Dialect::Service).unwrap();
    assert!(!of_version.may_insert());
}

#[test]
fn a_patch_that_is_made_by_hand_is_checked() {
    for (operation, hint) in [
        ("patch", "Make it with batch_patch()"),
        ("patch ", "malformed"),
        ("patch {", "malformed"),
        ("patch {} {}", "malformed"),
        ("patch []", "What follows patch is a JSON object"),
        ("patch null", "What follows patch is a JSON object"),
        ("patch {}", "Nothing is given"),
        ("patch{}", "\"patch{}\" is no operation"),
        ("Patch {}", "\"Patch {}\" is no operation"),
        (
            r#"patch {"increments": {"N": 1}}"#,
            "\"increments\" is no argument of a patch",
        ),
        (
            r#"patch {"increment": {"N": "1"}}"#,
            "not an Int32, an Int64 or a Double",
        ),
        (r#"patch {"increment": null}"#, "increment is an object of properties"),
        (r#"patch {"increment": {"N": [1]}}"#, "no Edm type holds"),
        (
            r#"patch {"increment": {"N": 1}, "increment": {"N": 1}}"#,
            "increment is given twice",
        ),
        (
            r#"patch {"increment": {"N": 1}, "remove": ["N"]}"#,
            "\"N\" is given twice",
        ),
        (r#"patch {"remove": "N"}"#, "remove is an array of names"),
        (r#"patch {"remove": [1]}"#, "remove is an array of names"),
        (r#"patch {"remove": [null]}"#, "remove must not contain NULL"),
        (r#"patch {"remove": ["RowKey"]}"#, "RowKey is a system property"),
        (r#"patch {"remove": [], "condition": 1}"#, "condition is a string"),
        (
            r#"patch {"remove": [], "parameters": []}"#,
            "parameters is an object of properties",
        ),
        (
            r#"patch {"remove": [], "create_missing": "yes"}"#,
            "create_missing is true or false",
        ),
        ("patch {\"remove\": [\"\u{0}\"]}", "malformed"),
    ] {
        let error = Operation::new(Some(operation), Some("r"), None, Some("*"), Dialect::Service).unwrap_err();
        assert_eq!(error.code(), Code::InvalidInput, "{operation}");
        assert!(error.hint().unwrap().contains(hint), "{operation}: {:?}", error.hint());
    }
    let wrong = Operation::new(
        Some(r#"patch {"remove": [], "condition": "N eq"}"#),
        Some("r"),
        None,
        Some("*"),
        Dialect::Service,
    );
    assert!(matches!(wrong, Err(Error::FilterSyntax { .. })));
    // A patch that sets nothing has no properties, and one without if_match is a mistake.
    let nothing = r#"patch {"remove": []}"#;
    assert!(Operation::new(Some(nothing), Some("r"), None, Some("*"), Dialect::Service).is_ok());
    let error = Operation::new(Some(nothing), Some("r"), None, None, Dialect::Service).unwrap_err();
    assert!(error.hint().unwrap().contains("patch needs if_match"));
}

#[test]
fn the_arguments_of_patches_count_for_the_size_of_a_batch() {
    let increment = parse_properties(r#"{"N": 1}"#).unwrap();
    let condition = format!("S ne '{}'", "x".repeat(60_000));
    let packed = PatchArguments {
        increment: Some(increment.as_properties()),
        remove: None,
        condition: Some(&condition),
        parameters: None,
        create_missing: false,
    }
    .pack();
    let keys: Vec<String> = (0..limits::BATCH_BYTES / packed.len() + 1)
        .map(|i| i.to_string())
        .collect();
    let batch = |count: usize| {
        let operation = |key| Operation::new(Some(&packed), Some(key), None, Some("*"), Dialect::Service);
        Batch::new("p", keys.iter().take(count).map(|key| operation(key))).map(|batch| batch.operations().len())
    };
    assert_eq!(batch(keys.len() - 2), Ok(keys.len() - 2));
    assert_eq!(batch(keys.len()), Err(Error::BatchTooLarge));
}
