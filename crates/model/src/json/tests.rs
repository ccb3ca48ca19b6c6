use super::*;
use crate::{
    Code, EdmType, Entity, Error, Projection, Properties, PropertiesBuf, PropertiesBuilder, Ticks, Value, limits,
};

const UNREADABLE: &str = "InvalidInput 22023";
const MALFORMED: &str = "InvalidInput 22P02";
const DUPLICATE: &str = "DuplicatePropertiesSpecified 22023";

/// `Code SQLSTATE`.
fn refusal(error: &Error) -> String {
    format!("{} {}", error.code(), error.sqlstate())
}

/// Returns the properties of a bag, or the error without a bag: `Name Edm.Type text, …` or `Code SQLSTATE`.
fn read(json: &str) -> String {
    match parse_properties(json) {
        Ok(bag) => {
            assert!(Properties::validate(bag.as_bytes()).is_ok(), "{json}");
            let shown =
                |(name, value): (&str, Value<'_>)| format!("{name} {} {}", value.edm_type().name(), value.text());
            bag.as_properties().iter().map(shown).collect::<Vec<_>>().join(", ")
        }
        Err(error) => refusal(&error),
    }
}

/// Reads every JSON text and compares.
fn check<'a>(cases: impl IntoIterator<Item = (impl AsRef<str>, impl AsRef<str>)> + 'a) {
    for (json, expected) in cases {
        assert_eq!(read(json.as_ref()), expected.as_ref(), "{}", json.as_ref());
    }
}

/// Reads every text as the value of `X` under an annotation and compares type and value, or the refusal.
fn check_annotated(edm: &str, cases: &[(&str, &str)]) {
    check(cases.iter().map(|(value, expected)| {
        let expected = match *expected {
            UNREADABLE => UNREADABLE.to_owned(),
            text => format!("X {edm} {text}"),
        };
        (format!(r#"{{"X@odata.type":"{edm}","X":{value}}}"#), expected)
    }));
}

fn hint(json: &str) -> String {
    parse_properties(json).unwrap_err().hint().unwrap_or_default()
}

fn text(json: Vec<u8>) -> String {
    String::from_utf8(json).unwrap()
}

// --- types (semantics 1.6)

#[test]
fn a_bare_value_has_the_type_that_json_suggests() {
    check(
        [
            (r#""a""#, "Edm.String a"),
            (r#""""#, "Edm.String "),
            (r#""123""#, "Edm.String 123"),
            (r#""NaN""#, "Edm.String NaN"),
            (r#""2020-01-01T00:00:00Z""#, "Edm.String 2020-01-01T00:00:00Z"),
            ("true", "Edm.Boolean true"),
            ("false", "Edm.Boolean false"),
            ("0", "Edm.Int32 0"),
            ("-0", "Edm.Int32 0"),
            ("3", "Edm.Int32 3"),
            ("2147483647", "Edm.Int32 2147483647"),
            ("-2147483648", "Edm.Int32 -2147483648"),
            ("2147483648", "Edm.Int64 2147483648"),
            ("-2147483649", "Edm.Int64 -2147483649"),
            ("9223372036854775807", "Edm.Int64 9223372036854775807"),
            ("-9223372036854775808", "Edm.Int64 -9223372036854775808"),
            ("9223372036854775808", "Edm.Double 9.2233720368547758E+18"),
            ("-9223372036854777856", "Edm.Double -9.2233720368547779E+18"),
            ("18446744073709551616", "Edm.Double 1.8446744073709552E+19"),
            ("10000000000000000000000", "Edm.Double 1E+22"),
            ("3.0", "Edm.Double 3.0"),
            ("3.1", "Edm.Double 3.1"),
            ("0.0", "Edm.Double 0.0"),
            ("-0.0", "Edm.Double -0.0"),
            ("-0e0", "Edm.Double -0.0"),
            ("1e2", "Edm.Double 100.0"),
            ("1E+2", "Edm.Double 100.0"),
            ("1e-5", "Edm.Double 1E-05"),
            ("12345678901234567890.0", "Edm.Double 1.2345678901234567E+19"),
            ("1.797693134862315e308", "Edm.Double 1.7976931348623149E+308"),
            ("-1.797693134862315e308", "Edm.Double -1.7976931348623149E+308"),
            ("4.9e-324", "Edm.Double 4.94065645841247E-324"),
            ("1e-400", "Edm.Double 0.0"),
        ]
        .map(|(value, expected)| (format!(r#"{{"X": {value}}}"#), format!("X {expected}"))),
    );
    check([(r#"{"X": null}"#, "")]);
}

#[test]
fn a_bare_number_that_no_type_holds_exactly_is_refused() {
    let (exact, inexact) = (format!("1{}", "0".repeat(22)), format!("1{}", "0".repeat(23)));
    check([(format!(r#"{{"X":{exact}}}"#), "X Edm.Double 1E+22")]);
    for number in [
        "9223372036854775809",
        "-9223372036854775809",
        "123456789012345678901",
        &inexact,
        &"9".repeat(400),
        "1.797693134862316e308",
        "-1.797693134862316e308",
        "1e309",
        "1e999999999999999999999",
    ] {
        let json = format!(r#"{{"X":{number}}}"#);
        check([(&json, UNREADABLE)]);
        assert_eq!(
            hint(&json),
            "The number of \"X\" fits neither Edm.Int64 nor Edm.Double exactly."
        );
    }
}

#[test]
fn an_annotated_string() {
    check_annotated(
        "Edm.String",
        &[
            (r#""a""#, "a"),
            (r#""""#, ""),
            (r#""5""#, "5"),
            ("5", UNREADABLE),
            ("5.0", UNREADABLE),
            ("true", UNREADABLE),
        ],
    );
}

#[test]
fn an_annotated_int32() {
    check_annotated(
        "Edm.Int32",
        &[
            ("5", "5"),
            (r#""12345""#, "12345"),
            (r#""-2147483648""#, "-2147483648"),
            ("2147483647", "2147483647"),
            ("2147483648", UNREADABLE),
            (r#""2147483648""#, UNREADABLE),
            ("-2147483649", UNREADABLE),
            ("3.0", UNREADABLE),
            ("3e0", UNREADABLE),
            (r#""3.0""#, UNREADABLE),
            (r#""3e0""#, UNREADABLE),
            (r#""+3""#, UNREADABLE),
            (r#"" 3""#, UNREADABLE),
            (r#""""#, UNREADABLE),
            (r#""x""#, UNREADABLE),
            ("true", UNREADABLE),
        ],
    );
}

#[test]
fn an_annotated_int64() {
    check_annotated(
        "Edm.Int64",
        &[
            (r#""123""#, "123"),
            ("123", "123"),
            (r#""9223372036854775807""#, "9223372036854775807"),
            (r#""-9223372036854775808""#, "-9223372036854775808"),
            ("9223372036854775807", "9223372036854775807"),
            (r#""9223372036854775808""#, UNREADABLE),
            ("9223372036854775808", UNREADABLE),
            ("-9223372036854775809", UNREADABLE),
            ("1.0", UNREADABLE),
            ("1e3", UNREADABLE),
            (r#""1.0""#, UNREADABLE),
            (r#""+1""#, UNREADABLE),
            (r#""""#, UNREADABLE),
            ("false", UNREADABLE),
        ],
    );
}

#[test]
fn an_annotated_double() {
    check_annotated(
        "Edm.Double",
        &[
            ("3.14", "3.14"),
            ("3", "3.0"),
            ("-0", "-0.0"),
            ("9223372036854775809", "9.2233720368547758E+18"),
            (r#""3.14""#, "3.14"),
            (r#""0""#, "0.0"),
            (r#""1.23456789012346e+24""#, "1.23456789012346E+24"),
            (r#""NaN""#, "NaN"),
            (r#""Infinity""#, "Infinity"),
            (r#""-Infinity""#, "-Infinity"),
            (r#""1.797693134862315e308""#, "1.7976931348623149E+308"),
            (r#""1.797693134862316e308""#, UNREADABLE),
            ("1.797693134862316e308", UNREADABLE),
            (r#""nan""#, UNREADABLE),
            (r#""inf""#, UNREADABLE),
            (r#""+Infinity""#, UNREADABLE),
            (r#""1,5""#, UNREADABLE),
            (r#""""#, UNREADABLE),
            ("true", UNREADABLE),
        ],
    );
}

#[test]
fn an_annotated_boolean() {
    check_annotated(
        "Edm.Boolean",
        &[
            ("true", "true"),
            (r#""true""#, "true"),
            (r#""False""#, "false"),
            (r#""TRUE""#, "true"),
            (r#""1""#, UNREADABLE),
            (r#""yes""#, UNREADABLE),
            (r#""""#, UNREADABLE),
            ("1", UNREADABLE),
        ],
    );
}

#[test]
fn an_annotated_datetime() {
    check_annotated(
        "Edm.DateTime",
        &[
            (r#""2020-01-01T01:02:00.0000000Z""#, "2020-01-01T01:02:00Z"),
            (r#""2013-08-22T01:12:06.2608595Z""#, "2013-08-22T01:12:06.2608595Z"),
            (r#""2013-08-22T01:12:06.26085951Z""#, "2013-08-22T01:12:06.2608595Z"),
            (r#""2008-07-10T00:00:00""#, "2008-07-10T00:00:00Z"),
            (r#""2008-07-10T00:00:00+02:00""#, "2008-07-09T22:00:00Z"),
            (r#""2008-07-10T10:20Z""#, "2008-07-10T10:20:00Z"),
            (r#""2008-07-10""#, "2008-07-10T00:00:00Z"),
            (r#""1601-01-01T00:00:00Z""#, "1601-01-01T00:00:00Z"),
            (r#""9999-12-31T23:59:59.9999999Z""#, "9999-12-31T23:59:59.9999999Z"),
            (r#""""#, UNREADABLE),
            (r#""today""#, UNREADABLE),
            (r#""2020-02-30""#, UNREADABLE),
            ("637134336000000000", UNREADABLE),
            ("true", UNREADABLE),
        ],
    );
}

#[test]
fn a_datetime_out_of_range_is_quoted_in_the_services_form() {
    for (time, quoted) in [
        ("0001-01-01T00:00:00Z", "01/01/0001 00:00:00"),
        ("1600-12-31T23:59:59.9999999Z", "12/31/1600 23:59:59"),
        ("1601-01-01T00:00:00+00:01", "12/31/1600 23:59:00"),
    ] {
        let json = format!(r#"{{"When@odata.type":"Edm.DateTime","When":"{time}"}}"#);
        let error = parse_properties(&json).unwrap_err();
        assert_eq!(
            (error.report().as_str(), error.sqlstate()),
            (
                format!("OutOfRangeInput: The 'When' parameter of value '{quoted}' is out of range.").as_str(),
                "22003"
            )
        );
    }
}

#[test]
fn an_annotated_guid() {
    let guid = "a455c812-1f7a-4f5c-9c3b-0123456789ab";
    check_annotated(
        "Edm.Guid",
        &[
            (&format!("{guid:?}"), guid),
            (&format!("{:?}", guid.to_uppercase()), guid),
            (&format!("\"{{{guid}}}\""), UNREADABLE),
            (&format!("{:?}", guid.replace('-', "")), UNREADABLE),
            (r#""""#, UNREADABLE),
            ("1", UNREADABLE),
        ],
    );
}

#[test]
fn an_annotated_binary() {
    check_annotated(
        "Edm.Binary",
        &[
            (r#""AAEC""#, "AAEC"),
            (r#""/+8=""#, "/+8="),
            (r#""\/+8=""#, "/+8="),
            (r#""""#, ""),
            (r#""AAE""#, UNREADABLE),
            (r#""_-8=""#, UNREADABLE),
            (r#""AA EC""#, UNREADABLE),
            ("0", UNREADABLE),
        ],
    );
}

#[test]
fn a_value_that_does_not_fit_its_annotation_is_named_in_the_hint() {
    let json = r#"{"Age@odata.type":"Edm.Int32","Age":"x"}"#;
    let error = parse_properties(json).unwrap_err();
    assert_eq!(
        error.report(),
        "InvalidInput: An error occurred while processing this request."
    );
    assert_eq!(hint(json), "The value of \"Age\" is no Edm.Int32.");
}

// --- annotations

#[test]
fn an_annotation_counts_wherever_it_stands() {
    check([
        (r#"{"A@odata.type":"Edm.Int64","A":"1"}"#, "A Edm.Int64 1"),
        (r#"{"A":"1","A@odata.type":"Edm.Int64"}"#, "A Edm.Int64 1"),
        (r#"{"A@odata.type":"Edm.Int64","odata.x":0,"A":"1"}"#, "A Edm.Int64 1"),
        (
            r#"{"A@odata.type":"Edm.Int64","C":1,"B":"2","A":"1","B@odata.type":"Edm.Double"}"#,
            "A Edm.Int64 1, B Edm.Double 2.0, C Edm.Int32 1",
        ),
        (
            r#"{"A@odata.type":"Edm.Int64","B@odata.type":"Edm.Double","A":"1","B":"2"}"#,
            "A Edm.Int64 1, B Edm.Double 2.0",
        ),
        // An escape is another spelling of the same name.
        (r#"{"\u0041@odata.type":"Edm.Int64","A":"1"}"#, "A Edm.Int64 1"),
        (r#"{"A":"1","A\u0040odata.type":"Edm.\u0049nt64"}"#, "A Edm.Int64 1"),
        (r#"{"a@odata.type":"Edm.Int64","A":"1"}"#, "A Edm.String 1"),
    ]);
}

#[test]
fn an_annotation_without_a_value_says_nothing() {
    check([
        (r#"{"A@odata.type":"Edm.Int64"}"#, ""),
        (r#"{"A@odata.type":"Edm.Nonsense","B":1}"#, "B Edm.Int32 1"),
        (r#"{"1 bad name@odata.type":"Edm.Int64"}"#, ""),
        (r#"{"@odata.type":"Edm.Int64"}"#, ""),
        (r#"{"A@odata.type":"Edm.Int64","A":null}"#, ""),
        (r#"{"A":null,"A@odata.type":"Edm.Nonsense"}"#, ""),
    ]);
}

#[test]
fn an_annotation_that_names_no_type_is_refused() {
    for annotation in [
        r#""Edm.Int16""#,
        r#""edm.int32""#,
        r#""Int32""#,
        r#""""#,
        "null",
        "5",
        "{}",
        "[]",
    ] {
        let json = format!(r#"{{"X@odata.type":{annotation},"X":1}}"#);
        check([(&json, UNREADABLE)]);
        assert_eq!(
            hint(&json),
            "The annotation of \"X\" names no type of the Table service."
        );
    }
}

#[test]
fn other_metadata_is_ignored_whatever_its_value() {
    check([
        (r#"{"A@odata.type@odata.type":"Edm.String","A":1}"#, "A Edm.Int32 1"),
        (
            r#"{"A@odata.type":"Edm.Int64","A@odata.type@odata.type":"Edm.String","A":"1"}"#,
            "A Edm.Int64 1",
        ),
        (r#"{"A@odata.navigationLinkUrl":{"deep":[1]},"A":1}"#, "A Edm.Int32 1"),
        (
            r#"{"odata.etag":"W/\"x\"","odata.metadata":null,"odata.id":1,"odata.type":{"a":[{"b":{}}]},"odata.editLink":[[1],"x"],"A":1}"#,
            "A Edm.Int32 1",
        ),
        (r#"{"odata.etag":1,"odata.etag":2,"odata.etag@odata.type":"x"}"#, ""),
    ]);
}

#[test]
fn a_name_is_checked_however_it_is_spelled() {
    let invalid = "PropertyNameInvalid 22023";
    check([
        (
            r#"{"timestamp":1,"partitionkey":2,"ETag":3,"odata":4}"#,
            "ETag Edm.Int32 3, odata Edm.Int32 4, partitionkey Edm.Int32 2, timestamp Edm.Int32 1",
        ),
        (r#"{"A":1,"a":2}"#, "A Edm.Int32 1, a Edm.Int32 2"),
        (r#"{"n\u00e4me":1}"#, "näme Edm.Int32 1"),
        (r#"{"":1}"#, invalid),
        (r#"{"123abc":1}"#, invalid),
        (r#"{"a-b":1}"#, invalid),
        (r#"{"a b":null}"#, invalid),
        (r#"{"a\u0000":1}"#, invalid),
        (r#"{"a@b":1}"#, invalid),
        (r#"{"a@odata":1}"#, invalid),
        (r#"{"OData.etag":1}"#, invalid),
        (r#"{"\ud83d\ude00":1}"#, invalid),
    ]);
}

// --- system properties

#[test]
fn the_system_properties_are_ignored_whatever_their_value() {
    for name in ["PartitionKey", "RowKey", "Timestamp", "\\u0052owKey"] {
        for value in [
            r#""a""#,
            "1",
            "1.5",
            "true",
            "null",
            "{\"a\":[{}]}",
            "[1,[2]]",
            r#""\u0000""#,
        ] {
            check([
                (format!(r#"{{"{name}":{value},"A":1}}"#), "A Edm.Int32 1"),
                (format!(r#"{{"{name}@odata.type":"Edm.Int32","{name}":{value}}}"#), ""),
                (
                    format!(r#"{{"{name}":{value},"{name}":{value},"{name}@odata.type":5}}"#),
                    "",
                ),
            ]);
        }
    }
    check([(format!(r#"{{"RowKey":"{}"}}"#, "x".repeat(200_000)), "")]);
}

#[test]
fn a_new_entitys_timestamp_means_nothing() {
    // Go's zero time, which its SDK sends.
    for timestamp in [r#""0001-01-01T00:00:00Z""#, r#""yesterday""#, "1", "null"] {
        let json = format!(r#"{{"PartitionKey":"p","RowKey":"r","Timestamp":{timestamp},"A":1}}"#);
        let parsed = parse_new_entity(&json).unwrap();
        assert_eq!(parsed.timestamp, None);
        assert_eq!(parsed.properties, parse_properties(r#"{"A":1}"#).unwrap());
    }
    assert_eq!(
        parse_new_entity("{}").unwrap_err(),
        Error::KeyMissing { key: "PartitionKey" }
    );
}

#[test]
fn an_entity_has_two_keys_and_may_have_a_timestamp() {
    let parsed = parse_entity(
        r#"{"odata.etag":"W/\"x\"","A":1,"RowKey":"r\u00e9","PartitionKey":"","PartitionKey@odata.type":"Edm.String",
            "Timestamp@odata.type":"Edm.DateTime","Timestamp":"2022-04-13T21:50:14.2477041Z"}"#,
    )
    .unwrap();
    assert_eq!((parsed.partition_key.as_str(), parsed.row_key.as_str()), ("", "ré"));
    assert_eq!(parsed.timestamp, Ticks::parse("2022-04-13T21:50:14.2477041Z"));
    assert_eq!(parsed.properties, parse_properties(r#"{"A":1}"#).unwrap());
    for timestamp in ["null", r#""2022-04-13""#] {
        let json = format!(r#"{{"PartitionKey":"p","RowKey":"r","Timestamp":{timestamp}}}"#);
        assert_eq!(
            parse_entity(&json).unwrap().timestamp,
            Ticks::parse(timestamp.trim_matches('"'))
        );
    }
}

#[test]
fn an_entity_without_proper_keys_is_refused() {
    let missing = "PropertiesNeedValue 23502";
    for (members, refused) in [
        ("", missing),
        (r#""PartitionKey":"p""#, missing),
        (r#""RowKey":"r""#, missing),
        (r#""PartitionKey":null,"RowKey":"r""#, missing),
        (
            r#""PartitionKey@odata.type":"Edm.Int32","PartitionKey":null,"RowKey":"r""#,
            missing,
        ),
        (r#""PartitionKey":"p","RowKey@odata.type":"Edm.String""#, missing),
        (r#""PartitionKey":1,"RowKey":"r""#, UNREADABLE),
        (r#""PartitionKey":"p","RowKey":true"#, UNREADABLE),
        (r#""PartitionKey":"p","RowKey":{}"#, UNREADABLE),
        (
            r#""PartitionKey@odata.type":"Edm.Int32","PartitionKey":"1","RowKey":"r""#,
            UNREADABLE,
        ),
        (
            r#""PartitionKey@odata.type":"Edm.Guid","PartitionKey":"a455c812-1f7a-4f5c-9c3b-0123456789ab","RowKey":"r""#,
            UNREADABLE,
        ),
        (
            r#""PartitionKey":"p","RowKey@odata.type":"Nonsense","RowKey":"r""#,
            UNREADABLE,
        ),
        (r#""PartitionKey":"p","PartitionKey":"p","RowKey":"r""#, DUPLICATE),
        (r#""PartitionKey":"p","RowKey":"r","\u0052owKey":null"#, DUPLICATE),
        (
            r#""PartitionKey":"p","RowKey":"r","Timestamp":"2022-04-13","Timestamp":null"#,
            DUPLICATE,
        ),
        (r#""PartitionKey":"p","RowKey":"r","Timestamp":1"#, UNREADABLE),
        (r#""PartitionKey":"p","RowKey":"r","Timestamp":"now""#, UNREADABLE),
        (r#""PartitionKey":"p","RowKey":"r","Timestamp":[]"#, UNREADABLE),
        (
            r#""PartitionKey":"p","RowKey":"r","Timestamp":"1600-12-31""#,
            "OutOfRangeInput 22003",
        ),
        (r#""PartitionKey":"p","RowKey":"r","A":{}"#, UNREADABLE),
    ] {
        let error = parse_entity(&format!("{{{members}}}")).unwrap_err();
        assert_eq!(refusal(&error), refused, "{members}");
    }
    let long = format!(r#"{{"PartitionKey":"{}","RowKey":""}}"#, "x".repeat(200_000));
    assert_eq!(parse_entity(&long).unwrap_err(), Error::KeyTooLong);
}

// --- strings

#[test]
fn strings_hold_every_character_but_u0000() {
    check([
        (r#"{"X":"\"\\\/\b\f\n\r\t"}"#, "X Edm.String \"\\/\u{8}\u{c}\n\r\t"),
        (
            r#"{"X":"\u0001\u001f\u007f\u00e9\u65E5\uffff"}"#,
            "X Edm.String \u{1}\u{1f}\u{7f}é日\u{ffff}",
        ),
        (r#"{"X":"\ud83d\ude00\uD83D\uDE00😀"}"#, "X Edm.String 😀😀😀"),
        (r#"{"X":"é日😀\u0041"}"#, "X Edm.String é日😀A"),
        (r#"{"\u0058":"a"}"#, "X Edm.String a"),
        (r#"{"X":"a\u0000b"}"#, UNREADABLE),
        (r#"{"X":"\ud83d"}"#, MALFORMED),
        (r#"{"X":"\ude00"}"#, MALFORMED),
        (r#"{"X":"\ud83dx"}"#, MALFORMED),
        (r#"{"X":"\ud83d\n"}"#, MALFORMED),
        (r#"{"X":"\ud83d\u0041"}"#, MALFORMED),
        (r#"{"X":"\ude00\ud83d"}"#, MALFORMED),
        (r#"{"\ud83d":1}"#, MALFORMED),
        (r#"{"X":"\u00"}"#, MALFORMED),
        (r#"{"X":"\u00g0"}"#, MALFORMED),
        (r#"{"X":"\x"}"#, MALFORMED),
        ("{\"X\":\"a\nb\"}", MALFORMED),
        ("{\"X\":\"a\0b\"}", MALFORMED),
    ]);
    assert_eq!(
        hint(r#"{"X":"a\u0000b"}"#),
        "\"X\" contains U+0000, which PostgreSQL's text cannot hold; store it as Edm.Binary."
    );
    // A program that cuts a string at a UTF-16 unit leaves half of a pair of surrogates.
    for (half, column) in [
        (r"\ud83d", 22),
        (r"a\ud83d", 23),
        (r"\ud83dx", 22),
        (r"\ud83d\n", 23),
        (r"\ude00", 21),
        (r"\ude00\ud83d", 21),
        (r"\ud83d\u0041", 27),
    ] {
        assert_eq!(
            hint(&format!(r#"{{"A":1,"Name":"{half}"}}"#)),
            format!(
                "\"Name\" has half of a pair of surrogates at line 1, column {column}, which PostgreSQL's text cannot hold."
            ),
            "{half}"
        );
    }
    assert_eq!(
        hint(r#"{"odata.x":"\ud800"}"#),
        "\"odata.x\" has half of a pair of surrogates at line 1, column 19, which PostgreSQL's text cannot hold."
    );
    assert_eq!(
        hint(r#"{"A":1,"\ud83d":1}"#),
        "A string has half of a pair of surrogates at line 1, column 15, which PostgreSQL's text cannot hold."
    );
}

#[test]
fn strings_are_escaped_wherever_a_character_needs_it() {
    for character in ('\u{1}'..'\u{300}').chain(['\u{2028}', '\u{ffff}', '😀']) {
        for text in [
            character.to_string(),
            format!("{}{character}", "x".repeat(70)),
            format!("{character}{}", "é".repeat(35)),
        ] {
            let json = value_to_json(Value::String(&text));
            assert_eq!(String::from_utf8(json).unwrap(), serde_json::to_string(&text).unwrap());
        }
    }
}

// --- duplicates

#[test]
fn a_member_may_stand_only_once() {
    check([
        (r#"{"A":1,"A":1}"#, DUPLICATE),
        (r#"{"A":1,"B":2,"A":"x"}"#, DUPLICATE),
        (r#"{"A":1,"A":null}"#, DUPLICATE),
        (r#"{"A":null,"A":1}"#, DUPLICATE),
        (r#"{"A":null,"A":null}"#, DUPLICATE),
        (r#"{"A":1,"\u0041":2}"#, DUPLICATE),
        (r#"{"A@odata.type":"Edm.Int64","A":"1","A":"2"}"#, DUPLICATE),
        (r#"{"A":"1","A":"2","A@odata.type":"Edm.Int64"}"#, DUPLICATE),
    ]);
    assert_eq!(hint(r#"{"A":1,"A":1}"#), "The property is \"A\".");
}

#[test]
fn a_duplicate_beyond_the_252nd_property_is_a_duplicate() {
    check([
        (object((0..252).chain([0]).map(property)), DUPLICATE),
        (object((0..300).chain([299]).map(property)), DUPLICATE),
        (
            object((0..252).map(property).chain([r#""P5":null"#.to_owned()])),
            DUPLICATE,
        ),
    ]);
}

fn object(members: impl IntoIterator<Item = String>) -> String {
    format!("{{{}}}", members.into_iter().collect::<Vec<_>>().join(","))
}

fn property(i: usize) -> String {
    format!("\"P{i}\":{i}")
}

// --- nested values and malformed text

#[test]
fn a_nested_value_is_refused_with_a_way_out() {
    for value in ["{}", "[]", "[1,2]", r#"{"a":{"b":1}}"#] {
        let json = format!(r#"{{"A":1,"Tags":{value}}}"#);
        check([(&json, UNREADABLE)]);
        assert_eq!(
            hint(&json),
            "\"Tags\" is an object or an array, which no Edm type holds. Store it as a JSON string and read it with (properties ->> 'Tags')::jsonb."
        );
    }
    check([(r#"{"X@odata.type":"Edm.String","X":["a"]}"#, UNREADABLE)]);
}

#[test]
fn malformed_json_is_refused_with_its_place() {
    for (json, place) in [
        ("", "line 1, column 0"),
        (" \n ", "line 2, column 1"),
        ("{", "line 1, column 1"),
        ("{\n  \"A\": 1,\n  \"B\" 2}", "line 3, column 7"),
        (r#"{"A":1"#, "line 1, column 6"),
        (r#"{"A":1,"#, "line 1, column 7"),
        (r#"{"A":1,}"#, "line 1, column 8"),
        (r#"{,"A":1}"#, "line 1, column 2"),
        (r#"{"A":1,,"B":1}"#, "line 1, column 8"),
        (r#"{"A"}"#, "line 1, column 5"),
        (r#"{"A":}"#, "line 1, column 6"),
        (r#"{A:1}"#, "line 1, column 2"),
        (r#"{1:1}"#, "line 1, column 2"),
        (r#"{'A':1}"#, "line 1, column 2"),
        (r#"{"A":'x'}"#, "line 1, column 6"),
        (r#"{"A":"x}"#, "line 1, column 8"),
        (r#"{"A":"\q"}"#, "line 1, column 8"),
        (r#"{"A":1} x"#, "line 1, column 9"),
        (r#"{"A":1}{}"#, "line 1, column 8"),
        (r#"{"A":1}]"#, "line 1, column 8"),
        (r#"{"A":tru}"#, "line 1, column 9"),
        (r#"{"A":nul"#, "line 1, column 8"),
        (r#"{"A":True}"#, "line 1, column 6"),
        (r#"{"A":undefined}"#, "line 1, column 6"),
        (r#"{"A":01}"#, "line 1, column 7"),
        (r#"{"A":+1}"#, "line 1, column 6"),
        (r#"{"A":.5}"#, "line 1, column 6"),
        (r#"{"A":1.}"#, "line 1, column 8"),
        (r#"{"A":1.e5}"#, "line 1, column 8"),
        (r#"{"A":1e}"#, "line 1, column 8"),
        (r#"{"A":-}"#, "line 1, column 7"),
        (r#"{"A":0x10}"#, "line 1, column 7"),
        (r#"{"A":1 2}"#, "line 1, column 8"),
        (r#"{"A":NaN}"#, "line 1, column 6"),
        (r#"{"A":Infinity}"#, "line 1, column 6"),
        (r#"{"A":-Infinity}"#, "line 1, column 7"),
        (r#"{"odata.x":[1,],"A":1}"#, "line 1, column 15"),
        (r#"{"odata.x":{"a" 1},"A":1}"#, "line 1, column 17"),
        (r#"{"odata.x":[NaN]}"#, "line 1, column 13"),
        (r#"{"A":1/*x*/}"#, "line 1, column 7"),
    ] {
        check([(json, MALFORMED)]);
        let hint = hint(json);
        assert!(
            hint.starts_with("The JSON is malformed: ") && hint.ends_with(&format!(" at {place}.")),
            "{json}: {hint}"
        );
    }
}

#[test]
fn anything_but_an_object_is_refused() {
    for json in ["[]", "[{}]", "null", "true", "1", r#""{}""#, "x", "\u{feff}{}", "\0"] {
        check([(json, MALFORMED)]);
        assert_eq!(hint(json), "The properties of an entity are a JSON object.");
    }
}

#[test]
fn white_space_may_stand_between_tokens() {
    check([
        (" {} ", ""),
        ("\t{\r\n\"A\" :\t1 , \"B\": \"x\"\n}\n", "A Edm.Int32 1, B Edm.String x"),
        ("{\u{a0}}", MALFORMED),
        ("{\u{b}}", MALFORMED),
    ]);
}

// --- sizes

#[test]
fn limits_hold_at_their_edge() {
    let value = |text: &str| format!(r#"{{"X":"{text}"}}"#);
    let shown = |text: &str| format!("X Edm.String {text}");
    let too_large = "PropertyValueTooLarge 54000";
    for (character, escaped, units) in [("a", "\\u0061", 1), ("日", "\\u65e5", 1), ("😀", "\\ud83d\\ude00", 2)] {
        let edge = character.repeat(32768 / units);
        check([
            (value(&edge), shown(&edge)),
            (value(&escaped.repeat(32768 / units)), shown(&edge)),
            (value(&format!("{edge}a")), too_large.to_owned()),
            (
                value(&format!("{}a", escaped.repeat(32768 / units))),
                too_large.to_owned(),
            ),
            (value(&edge.repeat(4)), too_large.to_owned()),
        ]);
    }

    let binary = |bytes: usize| {
        let mut base64 = Vec::new();
        crate::edm::write_binary(&mut base64, &vec![0xA5; bytes]);
        format!(r#"{{"X@odata.type":"Edm.Binary","X":"{}"}}"#, text(base64))
    };
    assert_eq!(
        parse_properties(&binary(65536)).unwrap().as_properties().size(),
        8 + 2 + 65536 + 4
    );
    check([(binary(65537), too_large), (binary(200_000), too_large)]);

    let name = |characters: usize| format!(r#"{{"{}":1}}"#, "é".repeat(characters));
    assert!(parse_properties(&name(255)).is_ok());
    check([(name(256), "PropertyNameTooLong 54000")]);

    let properties = |count: usize| object((0..count).map(property));
    assert_eq!(parse_properties(&properties(252)).unwrap().as_properties().len(), 252);
    check([(properties(253), "TooManyProperties 54000")]);
}

#[test]
fn the_size_of_an_entity_holds_at_its_edge() {
    // 15 strings of 65,536 bytes in UTF-16 and one of the rest.
    let strings = |last: usize| {
        let member = |(i, units): (usize, usize)| format!(r#""S{i:02}":"{}""#, "日".repeat(units));
        object([32768; 15].into_iter().chain([last]).enumerate().map(member))
    };
    let rest = (limits::ENTITY_BYTES - limits::ENTITY_BASE_BYTES - 16 * (8 + 6 + 4)) / 2 - 15 * 32768;
    let bag = parse_properties(&strings(rest)).unwrap();
    assert_eq!(
        bag.as_properties().size(),
        limits::ENTITY_BYTES - limits::ENTITY_BASE_BYTES
    );
    check([(strings(rest + 1), "EntityTooLarge 54000")]);
}

#[test]
fn nulls_and_annotations_do_not_count_as_properties_but_are_bounded() {
    let annotated = |i| format!(r#""P{i}@odata.type":"Edm.Int64","P{i}":"{i}""#);
    let full = object((0..252).map(annotated));
    assert_eq!(parse_properties(&full).unwrap().as_properties().len(), 252);
    let apart = object(
        (0..252)
            .map(property)
            .chain((0..252).map(|i| format!(r#""P{i}@odata.type":"Edm.Int64""#))),
    );
    assert_eq!(parse_properties(&apart), parse_properties(&full));
    let nulls = |count: usize| object((0..count).map(|i| format!("\"N{i}\":null")));
    check([
        (nulls(limits::JSON_MEMBERS), ""),
        (nulls(limits::JSON_MEMBERS + 1), "TooManyProperties 54000"),
    ]);
}

#[test]
fn hostile_sizes_are_refused_or_read() {
    let deep = "[".repeat(100_000);
    let long = "x".repeat(20_000_000);
    let escaped = "\\u00e9".repeat(3_000_000);
    check([
        (format!(r#"{{"A":{deep}"#), UNREADABLE),
        (format!(r#"{{"A":{}"#, r#"{"a":"#.repeat(100_000)), UNREADABLE),
        (format!(r#"{{"odata.x":{deep}"#), MALFORMED),
        (format!(r#"{{"odata.x":{deep}{}}}"#, "]".repeat(100_000)), MALFORMED),
        (format!(r#"{{"odata.x":{}"#, r#"{"a":"#.repeat(100_000)), MALFORMED),
        (format!(r#"{{"RowKey":{deep}"#), MALFORMED),
        (format!(r#"{{"A@odata.type":{deep}"#), MALFORMED),
        (deep, MALFORMED),
        (r#"{"a":"#.repeat(100_000), UNREADABLE),
        (format!(r#"{{"A":"{long}"}}"#), "PropertyValueTooLarge 54000"),
        (format!(r#"{{"A":"{escaped}"}}"#), "PropertyValueTooLarge 54000"),
        (format!(r#"{{"A":"{long}"#), MALFORMED),
        (format!(r#"{{"{long}":1}}"#), "PropertyNameTooLong 54000"),
        (format!(r#"{{"{escaped}":1}}"#), "PropertyNameTooLong 54000"),
        (format!(r#"{{"odata.x":"{long}","A":1}}"#), "A Edm.Int32 1"),
        (format!(r#"{{"A@odata.type":"{long}","A":1}}"#), UNREADABLE),
        (format!(r#"{{"A@odata.type":"Edm.Int32","A":"{long}"}}"#), UNREADABLE),
        (object((0..1_000_000).map(property)), "TooManyProperties 54000"),
        (object((0..1_000_000).map(|_| r#""odata.x":1"#.to_owned())), ""),
        (
            object((0..1_000_000).map(|_| r#""A":1"#.to_owned())),
            "TooManyProperties 54000",
        ),
    ]);
    // Numbers of any length are read or refused.
    check([
        (format!(r#"{{"A":0.{}1}}"#, "0".repeat(1_000_000)), "A Edm.Double 0.0"),
        (format!(r#"{{"A":1e-{}1}}"#, "0".repeat(1_000_000)), "A Edm.Double 0.1"),
    ]);
    assert_eq!(
        parse_properties(&format!(r#"{{"A":{}}}"#, "1".repeat(1_000_000)))
            .unwrap_err()
            .code(),
        Code::InvalidInput
    );
}

#[test]
fn errors_quote_only_the_beginning_of_a_name() {
    let name = "n".repeat(100_000);
    for json in [
        format!(r#"{{"{name}":1}}"#),
        format!(r#"{{"{name} ":1}}"#),
        format!(r#"{{"{name}":{{}}}}"#),
        format!(r#"{{"{name}@odata.type":"Edm.Int32","{name}":"x"}}"#),
        format!(r#"{{"{name}@odata.type":"x","{name}":"x"}}"#),
        format!(r#"{{"{name}":1e999}}"#),
        format!(r#"{{"{name}@odata.type":"Edm.DateTime","{name}":"0001-01-01"}}"#),
        format!(r#"{{"a@{name}":1}}"#),
    ] {
        let error = parse_properties(&json).unwrap_err();
        assert!(
            error.report().len() + error.hint().map_or(0, |hint| hint.len()) < 2000,
            "{error:?}"
        );
    }
}

// --- output

fn sample() -> PropertiesBuf {
    parse_properties(
        r#"{"s":"O'Brien \"é\"","I":-5,"L@odata.type":"Edm.Int64","L":"123","D":3.0,"E":1.23456789012346e24,
            "N@odata.type":"Edm.Double","N":"NaN","P@odata.type":"Edm.Double","P":"Infinity",
            "M@odata.type":"Edm.Double","M":"-Infinity","B":true,
            "T@odata.type":"Edm.DateTime","T":"2020-01-01T01:02:00.0000000Z",
            "G@odata.type":"Edm.Guid","G":"A455C812-1F7A-4F5C-9C3B-0123456789AB",
            "X@odata.type":"Edm.Binary","X":"AAE="}"#,
    )
    .unwrap()
}

const SAMPLE_WITH_TYPES: &str = r#""B":true,"D":3.0,"E":1.23456789012346E+24,"G@odata.type":"Edm.Guid","G":"a455c812-1f7a-4f5c-9c3b-0123456789ab","I":-5,"L@odata.type":"Edm.Int64","L":"123","M@odata.type":"Edm.Double","M":"-Infinity","N@odata.type":"Edm.Double","N":"NaN","P@odata.type":"Edm.Double","P":"Infinity","T@odata.type":"Edm.DateTime","T":"2020-01-01T01:02:00Z","X@odata.type":"Edm.Binary","X":"AAE=","s":"O'Brien \"é\"""#;

#[test]
fn each_metadata_level_says_as_much_as_the_service() {
    let bag = sample();
    let entity = Entity {
        partition_key: Some("p\"1"),
        row_key: Some(""),
        timestamp: Ticks::parse("2022-04-13T21:50:14.387626Z"),
        properties: bag.as_properties(),
    };
    let etag = r#""odata.etag":"W/\"datetime'2022-04-13T21%3A50%3A14.387626Z'\"""#;
    let keys = r#""PartitionKey":"p\"1","RowKey":"""#;
    let timestamp = r#""Timestamp":"2022-04-13T21:50:14.387626Z""#;
    let annotation = r#""Timestamp@odata.type":"Edm.DateTime""#;
    let bare = r#""B":true,"D":3.0,"E":1.23456789012346E+24,"G":"a455c812-1f7a-4f5c-9c3b-0123456789ab","I":-5,"L":"123","M":"-Infinity","N":"NaN","P":"Infinity","T":"2020-01-01T01:02:00Z","X":"AAE=","s":"O'Brien \"é\"""#;
    for (level, expected) in [
        ("none", format!("{{{keys},{timestamp},{bare}}}")),
        ("minimal", format!("{{{etag},{keys},{timestamp},{SAMPLE_WITH_TYPES}}}")),
        (
            "full",
            format!("{{{etag},{keys},{annotation},{timestamp},{SAMPLE_WITH_TYPES}}}"),
        ),
    ] {
        let level = Metadata::parse(level).unwrap();
        assert_eq!(text(entity_to_json(&entity, level)), expected);
    }
    assert_eq!(
        text(properties_to_json(bag.as_properties())),
        format!("{{{SAMPLE_WITH_TYPES}}}")
    );
    assert_eq!(text(properties_to_json(PropertiesBuf::empty().as_properties())), "{}");
    for level in ["", "Minimal", "fullmetadata", "verbose"] {
        assert_eq!(refusal(&Metadata::parse(level).unwrap_err()), UNREADABLE);
    }
}

#[test]
fn a_chosen_name_cannot_break_the_payload() {
    let bag = parse_properties(r#"{"a@odata.type": "Edm.Int64", "a": "1"}"#).unwrap();
    let entity = Entity {
        partition_key: Some("p"),
        row_key: Some("r"),
        timestamp: None,
        properties: bag.as_properties(),
    };
    let chosen = |names: &str| {
        let projection = Projection::parse(names).unwrap();
        let mut members = b"{".to_vec();
        append_members(&mut members, &entity, &projection, Metadata::Minimal);
        members.push(b'}');
        let whole = text(projected_to_json(&entity, &projection, Metadata::Minimal));
        (text(members), whole)
    };
    for (names, expected) in [
        ("b\"c", r#""b\"c":null"#),
        ("\":1,x\\", r#""\":1":null,"x\\":null"#),
        ("a\u{1}b", r#""a\u0001b":null"#),
        ("a,a@odata.type", r#""a@odata.type":"Edm.Int64","a":"1""#),
        ("odata.etag,b", r#""b":null"#),
    ] {
        let expected = expected.to_owned();
        let whole = format!(r#"{{"PartitionKey":"p","RowKey":"r","Timestamp":null,{expected}}}"#);
        assert_eq!(chosen(names), (format!("{{{expected}}}"), whole), "{names}");
    }
    assert_eq!(chosen("odata.etag").0, "{}");
}

#[test]
fn a_missing_key_or_timestamp_is_null() {
    let bag = PropertiesBuf::empty();
    let entity = Entity {
        partition_key: None,
        row_key: None,
        timestamp: None,
        properties: bag.as_properties(),
    };
    for level in [Metadata::None, Metadata::Minimal, Metadata::Full] {
        assert_eq!(
            text(entity_to_json(&entity, level)),
            r#"{"PartitionKey":null,"RowKey":null,"Timestamp":null}"#
        );
    }
}

#[test]
fn output_escapes_what_json_requires_and_nothing_else() {
    let string = |text: &str| String::from_utf8(value_to_json(Value::String(text))).unwrap();
    assert_eq!(string("\"\\/\u{8}\u{c}\n\r\t"), r#""\"\\/\b\f\n\r\t""#);
    assert_eq!(
        string("\u{1}\u{1f}\u{7f}é\u{2028}😀'<"),
        "\"\\u0001\\u001f\u{7f}é\u{2028}😀'<\""
    );
}

#[test]
fn a_single_value_is_its_payload_form() {
    let bag = sample();
    for (name, json) in [
        ("s", r#""O'Brien \"é\"""#),
        ("I", "-5"),
        ("L", r#""123""#),
        ("D", "3.0"),
        ("N", r#""NaN""#),
        ("B", "true"),
        ("T", r#""2020-01-01T01:02:00Z""#),
        ("G", r#""a455c812-1f7a-4f5c-9c3b-0123456789ab""#),
        ("X", r#""AAE=""#),
    ] {
        let value = bag.as_properties().get(name).unwrap();
        assert_eq!(text(value_to_json(value)), json);
        assert_eq!(
            value.text(),
            serde_json::from_str::<String>(json).unwrap_or(json.to_owned())
        );
    }
}

#[test]
fn jsonb_gets_doubles_that_it_would_change_as_strings() {
    for (value, kept) in [
        (0.0, true),
        (-0.0, false),
        (1.0, true),
        (-3.25, true),
        (1e14, true),
        (123456789012345.0, true),
        (1e15, false),
        (-1e15, false),
        (1.5e15, false),
        (9007199254740993.0, false),
        (4503599627370495.5, true),
        (f64::MAX, false),
        (0.00001, true),
        (f64::MIN_POSITIVE, true),
        (5e-324, true),
    ] {
        let mut builder = PropertiesBuilder::new();
        builder.push("D".into(), Value::Double(value)).unwrap();
        let bag = builder.finish().unwrap();
        let printed = Value::Double(value).text();
        let expected = match kept {
            true => format!(r#"{{"D":{printed}}}"#),
            false => format!(r#"{{"D@odata.type":"Edm.Double","D":"{printed}"}}"#),
        };
        let json = text(jsonb_text(bag.as_properties()));
        assert_eq!(json, expected);
        assert_eq!(parse_properties(&json), Ok(bag));
    }
    let others = sample().as_properties().without(&["E"]);
    assert_eq!(
        jsonb_text(others.as_properties()),
        properties_to_json(others.as_properties())
    );
    assert_eq!(others.as_properties().type_of("N"), Some(EdmType::Double));
}
