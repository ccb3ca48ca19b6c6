//! A case for each row of semantics 6.2 to 6.5, by its name.

use super::{Sample, error, explain, holds, invalid_input, parse, passes};
use crate::error::Stage;
use crate::filter::Plan;
use crate::json::parse_properties;
use crate::{Code, Dialect, Error, Filter};

/// Tests, each with the name of its row.
macro_rules! golden {
    ($($row:literal $name:ident $body:block)*) => {
        $(#[test] fn $name() $body)*

        const ROWS: &[&str] = &[$($row),*];
    };
}

fn printed(text: &str) -> String {
    parse(text).to_string()
}

/// The literal of `p eq <literal>` in its canonical spelling.
fn literal(spelling: &str) -> String {
    printed(&format!("p eq {spelling}")).split_off("p eq ".len())
}

fn is_not_implemented(text: &str) {
    let error = error(text);
    assert_eq!(
        error.report(),
        "NotImplemented: The requested operation is not implemented on the specified resource.",
        "{text}"
    );
    assert_eq!(error.sqlstate(), "0A000");
}

fn syntax_error_at(position: usize, text: &str) {
    assert_eq!(
        invalid_input(text),
        format!("Syntax error at position {position} in '{text}'.")
    );
}

fn invalid_character(character: char, position: usize, text: &str) {
    assert_eq!(
        invalid_input(text),
        format!("Syntax error: character '{character}' is not valid at position {position} in '{text}'.")
    );
}

golden! {
    "6.2 empty" an_empty_filter_is_every_entity {
        for text in ["", " ", "\t\r\n \u{a0}"] {
            assert_eq!(parse(text), Filter::EVERYTHING);
            assert!(holds(text, "{}"));
        }
    }

    "6.4 hints" a_syntax_error_says_what_was_expected {
        let operators = "eq, ne, gt, ge, lt, le";
        for (text, expected) in [
            ("Age > 5", operators),
            ("Age = 5", operators),
            ("Age", ""),
            ("Age EQ 5", operators),
            ("not Age == 5", operators),
            ("5", "such as Age gt 30"),
            ("'x' and a eq 1", operators),
            ("a eq 1 eq 1", operators),
            ("a eq 1 && b eq 2", "joined by and, or or not"),
            ("a eq 1 b eq 2", "and, or or the end of the filter"),
            ("(a eq 1 b eq 2)", "and, or or a closing parenthesis"),
            ("(a eq 1", "and, or or a closing parenthesis"),
            ("a eq 1)", "and, or or the end of the filter"),
            ("a eq 1 and", "a comparison such as Age gt 30"),
            ("()", "a comparison such as Age gt 30"),
            ("a eq", "a property or a literal"),
            ("a eq \"b\"", "'x'"),
            ("a eq /5", "a property or a literal"),
            ("a eq 'b", "ends with a single quote"),
            ("a eq 'it's'", "a space between two words"),
            ("a eq 1and b eq 2", "a space between two words"),
        ] {
            if expected.is_empty() {
                assert!(Filter::parse(text, None, Dialect::Service).is_ok(), "{text}");
                continue;
            }
            let hint = error(text).hint().unwrap_or_default();
            assert!(hint.contains(expected) && hint.ends_with('.'), "{text}: {hint}");
        }
    }

    "6.2 case-sensitive" keywords_are_lower_case {
        for text in ["a EQ 1", "a Eq 1", "a eq 1 AND b eq 2", "a eq 1 Or b eq 2", "NOT a", "Not a eq 1"] {
            assert!(invalid_input(text).starts_with("Syntax error at position"), "{text}");
        }
        // A word that is no keyword is a property.
        assert!(holds("Eq eq 1 and And and Null eq 'x'", r#"{"Eq": 1, "And": true, "Null": "x"}"#));
        for (text, expected) in [("True", true), ("TRUE", true), ("False", false), ("fALSE", false)] {
            assert_eq!(holds(text, "{}"), expected, "the exception: {text}");
        }
        assert!(holds("nan eq 1 and inf eq 2", r#"{"nan": 1, "inf": 2}"#));
    }

    "6.2 or" or_takes_any {
        for (bag, expected) in [(r#"{"a": 1}"#, true), (r#"{"c": 3}"#, true), (r#"{"a": 2}"#, false)] {
            assert_eq!(holds("a eq 1 or b eq 2 or c eq 3", bag), expected);
        }
    }

    "6.2 and" and_takes_all {
        assert!(holds("a eq 1 and b eq 2 and c eq 3", r#"{"a": 1, "b": 2, "c": 3}"#));
        assert!(!holds("a eq 1 and b eq 2 and c eq 3", r#"{"a": 1, "b": 2, "c": 4}"#));
    }

    "6.2 precedence" and_binds_tighter_than_or {
        assert_eq!(parse("a or b and c or d"), parse("a or (b and c) or d"));
        assert_ne!(parse("a or b and c"), parse("(a or b) and c"));
        assert_eq!(printed("(a or b) and (c or d and e)"), "(a or b) and (c or d and e)");
        assert_eq!(printed("((a) and ((b)))"), "a and b");
    }

    "6.2 cmp" a_comparison_has_two_operands_or_is_one {
        assert!(holds("a", r#"{"a": true}"#));
        assert!(holds("(a)", r#"{"a": true}"#));
        assert!(holds("((a eq 1))", r#"{"a": 1}"#));
        syntax_error_at(9, "a eq 1 eq 1");
        syntax_error_at(6, "(a) eq 1");
        syntax_error_at(6, "a eq (1)");
        syntax_error_at(2, "()");
        for text in ["1", "'x'", "1.5", "guid'a455c812-0000-0000-0000-000000000000'", " 5L "] {
            assert_eq!(invalid_input(text), "The $filter expression must evaluate to a single boolean value.", "{text}");
        }
    }

    "6.2 op" six_operators {
        for (text, expected) in [
            ("a eq 5", true), ("a eq 4", false),
            ("a ne 4", true), ("a ne 5", false),
            ("a gt 4", true), ("a gt 5", false),
            ("a ge 5", true), ("a ge 6", false),
            ("a lt 6", true), ("a lt 5", false),
            ("a le 5", true), ("a le 4", false),
        ] {
            assert_eq!(holds(text, r#"{"a": 5}"#), expected, "{text}");
            assert_eq!(printed(text), text);
        }
        for text in ["a = 1", "a == 1", "a != 1", "a > 1", "a like 'x'", "a in 1"] {
            assert!(invalid_input(text).starts_with("Syntax error"), "{text}");
        }
    }

    "6.2 whitespace" keywords_stand_apart {
        assert_eq!(parse(" a  eq\t1\r\nand   not(b)or(c)"), parse("a eq 1 and not b or c"));
        assert_eq!(parse("(a eq 1)and(b eq 2)"), parse("a eq 1 and b eq 2"));
        syntax_error_at(9, "a eq 1and b eq 2");
        syntax_error_at(11, "a eq 'x'and b");
        syntax_error_at(7, "a eq'x'");
        syntax_error_at(6, "a eq-5");
        syntax_error_at(4, "a eq");
        syntax_error_at(3, "a b");
    }

    "6.2 not" not_takes_the_comparison_after_it {
        assert_eq!(parse("not a eq 1"), parse("not (a eq 1)"));
        assert_eq!(parse("not a eq 1 and b"), parse("(not (a eq 1)) and b"));
        assert_eq!(printed("not a"), "not a");
        assert_eq!(printed("not (a or b)"), "not (a or b)");
        assert!(holds("not (a eq 1)", r#"{"a": 2}"#));
        assert!(holds("not a", r#"{"a": false}"#));
    }

    "6.2 not not" not_may_repeat {
        assert_eq!(parse("not not a"), parse("a"));
        assert_eq!(parse("not not not (a eq 1)"), parse("not (a eq 1)"));
        assert_eq!(parse("not (not (not (a eq 1 and b)))"), parse("not (a eq 1 and b)"));
        assert_eq!(parse("not (not (a eq 1 and b)) and c"), parse("a eq 1 and b and c"));
    }

    "6.2 functions" functions_and_arithmetic_are_not_implemented {
        for text in [
            "startswith(a, 'x')",
            "substringof('x', a) eq true",
            "length(a) eq 5",
            "tolower (a) eq 'x'",
            "a eq length(b)",
            "a add 1 eq 2",
            "a eq 1 add 2",
            "a sub 1 eq 2",
            "a mul 1 eq 2",
            "a div 1 eq 2",
            "a mod 2 eq 0",
            "-a eq 1",
            "a eq -b",
            "(a add 1) eq 2",
        ] {
            is_not_implemented(text);
        }
        // They are no keywords.
        assert!(holds("mod eq 1 and length eq 2", r#"{"mod": 1, "length": 2}"#));
    }

    "6.2 property" a_property_is_an_identifier {
        for name in ["_", "_1", "été", "名前", "a\u{300}", "X", "datetime", "guid", "binary", "L"] {
            assert!(holds(&format!("{name} eq 1"), &format!(r#"{{"{name}": 1}}"#)), "{name}");
        }
        assert!(!holds(&format!("{} eq 1", "a".repeat(1000)), "{}"), "no entity has it");
        assert!(!holds("A eq 1", r#"{"a": 1}"#), "names are case-sensitive");
        for text in ["a-b eq 1", "a.b eq 1", "a/b eq 1", "😀 eq 1", "\"a\" eq 1", "[a] eq 1", "$a eq 1"] {
            assert!(invalid_input(text).starts_with("Syntax error"), "{text}");
        }
    }

    "6.2 system properties" keys_and_timestamp_are_operands {
        let sample = Sample::new("p", "r", "{}");
        for (text, expected) in [
            ("PartitionKey eq 'p' and RowKey eq 'r'", true),
            ("PartitionKey gt 'o' and RowKey lt 's'", true),
            ("RowKey ne 'r'", false),
            ("Timestamp eq datetime'2022-04-13T21:50:14.2477041Z'", true),
            ("Timestamp gt datetime'2022-04-13T21:50:14.247704Z'", true),
            ("Timestamp ge datetime'2022-04-13T21:50:14.2477042Z'", false),
            ("timestamp ge datetime'2001-01-01T00:00:00Z'", false),
        ] {
            assert_eq!(passes(&parse(text), &sample), expected, "{text}");
        }
    }

    "6.2 String" string_literals {
        assert_eq!(literal("'abc'"), "'abc'");
        assert_eq!(literal("''"), "''");
        assert!(holds("a eq 'o''clock'", r#"{"a": "o'clock"}"#));
        assert!(holds("a eq ''''", r#"{"a": "'"}"#));
        assert!(holds(r"a eq '\n%27日本 😀'", r#"{"a": "\\n%27日本 😀"}"#), "no other escapes");
        let unterminated = |position: usize, text: &str| {
            assert_eq!(
                invalid_input(text),
                format!("There is an unterminated string literal at position {position} in '{text}'.")
            );
        };
        unterminated(7, "a eq 'b");
        unterminated(8, "a eq '😀");
        unterminated(9, "a eq 'b''");
        unterminated(1, "'");
        assert_eq!(
            invalid_input("a eq datetime'2020"),
            "There is an unterminated literal at position 18 in 'a eq datetime'2020'."
        );
        syntax_error_at(10, "a eq '😀'x");
        invalid_character('"', 5, "a eq \"b\"");
    }

    "6.2 Int32" int32_literals {
        for (spelling, canonical) in [
            ("123", "123"),
            ("-5", "-5"),
            ("007", "7"),
            ("2147483647", "2147483647"),
            ("-2147483648", "-2147483648"),
        ] {
            assert_eq!(literal(spelling), canonical);
        }
        invalid_character('+', 5, "a eq +5");
    }

    "6.2 Int64" int64_literals {
        for (spelling, canonical) in [
            ("123L", "123L"),
            ("123l", "123L"),
            ("-5L", "-5L"),
            ("2147483648", "2147483648L"),
            ("-2147483649", "-2147483649L"),
            ("9223372036854775807", "9223372036854775807L"),
            ("-9223372036854775808L", "-9223372036854775808L"),
        ] {
            assert_eq!(literal(spelling), canonical);
        }
        syntax_error_at(9, "a eq 1.5L");
    }

    "6.2 Double" double_literals {
        for (spelling, canonical) in [
            ("1.5", "1.5"),
            ("3.0", "3.0"),
            ("1e10", "10000000000.0"),
            ("1E+10", "10000000000.0"),
            ("1.5e-7", "1.5E-07"),
            ("3D", "3.0"),
            ("3d", "3.0"),
            ("-3.5D", "-3.5"),
            ("3f", "3.0"),
            ("3.5F", "3.5"),
            ("3m", "3.0"),
            ("3.5M", "3.5"),
            ("1e3d", "1000.0"),
            ("-0.0", "-0.0"),
            ("NaN", "NaN"),
            ("INF", "INF"),
            ("-INF", "-INF"),
        ] {
            assert_eq!(literal(spelling), canonical, "{spelling}");
        }
        for (position, text) in [(7, "a eq 1."), (7, "a eq 1.x"), (7, "a eq 1e"), (8, "a eq 1e+"), (9, "a eq 1.5e"), (3, "-1.")] {
            let expected = format!("A digit was expected at position {position} in '{text}'.");
            assert_eq!(invalid_input(text), expected);
        }
        syntax_error_at(6, "a eq .5");
    }

    "6.2 Boolean" boolean_literals {
        assert_eq!(literal("true"), "true");
        assert_eq!(literal("false"), "false");
        is_not_implemented("a eq Other");
    }

    "6.2 DateTime" datetime_literals {
        for (spelling, canonical) in [
            ("2013-08-22T01:12:06.2608595Z", "2013-08-22T01:12:06.2608595Z"),
            ("2013-08-22T01:12:06", "2013-08-22T01:12:06Z"),
            ("2013-08-22T01:12:06.5", "2013-08-22T01:12:06.5Z"),
            ("2013-08-22T01:12:06+02:00", "2013-08-21T23:12:06Z"),
            ("2013-08-22T01:12:06.0000000Z", "2013-08-22T01:12:06Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ] {
            assert_eq!(literal(&format!("datetime'{spelling}'")), format!("datetime'{canonical}'"));
        }
        syntax_error_at(34, "a eq DateTime'2013-08-22T01:12:06'");
    }

    "6.2 Guid" guid_literals {
        let guid = "a455c812-1f7a-4f5c-9c3b-0123456789ab";
        assert_eq!(literal(&format!("guid'{guid}'")), format!("guid'{guid}'"));
        assert_eq!(literal(&format!("guid'{}'", guid.to_uppercase())), format!("guid'{guid}'"));
    }

    "6.2 Binary" binary_literals {
        for spelling in ["X'0A1b'", "x'0a1B'", "binary'0A1B'"] {
            assert_eq!(literal(spelling), "X'0A1B'");
        }
        assert_eq!(literal("X''"), "X''");
    }

    "6.2 null" null_is_always_an_error {
        for text in ["a eq null", "null eq a", "null", "not null", "a eq 1 or null", "null eq null", "1 ne null"] {
            assert_eq!(invalid_input(text), "One of the request inputs is not valid.", "{text}");
        }
    }

    "6.2 SDK helpers" what_sdk_helpers_write {
        let text = "((((((((S eq 'o''x') and (L eq 123L)) and (I eq 5)) and (D eq 3.0)) and (B eq true)) and \
                    (T eq datetime'2020-01-01T00:00:00.0000000Z')) and (G eq guid'a455c812-1f7a-4f5c-9c3b-0123456789ab')) \
                    and (X eq X'0aff'))";
        assert!(holds(
            text,
            r#"{"S": "o'x", "L@odata.type": "Edm.Int64", "L": "123", "I": 5, "D": 3.0, "B": true,
                "T@odata.type": "Edm.DateTime", "T": "2020-01-01T00:00:00Z",
                "G@odata.type": "Edm.Guid", "G": "a455c812-1f7a-4f5c-9c3b-0123456789ab",
                "X@odata.type": "Edm.Binary", "X": "Cv8="}"#
        ));
    }

    "6.3.1" an_absent_property_is_false_even_with_ne {
        for operator in ["eq", "ne", "lt", "le", "gt", "ge"] {
            assert!(!holds(&format!("a {operator} 1"), "{}"));
            assert!(holds(&format!("not (a {operator} 1)"), "{}"));
        }
        assert!(!holds("a", "{}"));
        assert!(holds("not a", "{}"));
        assert!(holds("not (a eq 1) and not (a ne 1)", "{}"));
    }

    "6.3.2 String" strings_compare_by_utf16_units {
        for (text, expected) in [
            ("a gt 'B'", true),
            ("a lt 'bB'", true),
            ("a eq 'B'", false),
            ("a gt ''", true),
            ("a lt 'ä'", true),
        ] {
            assert_eq!(holds(text, r#"{"a": "b"}"#), expected, "{text}");
        }
        // U+1F600 begins with the surrogate D83D.
        assert!(holds("a lt '\u{e000}' and a lt '\u{ffff}' and a gt '\u{d7ff}'", r#"{"a": "😀"}"#));
        assert!(!holds("a eq 'e\u{301}'", r#"{"a": "é"}"#), "no normalization");
    }

    "6.3.2 Boolean" false_is_less_than_true {
        assert!(holds("a lt true and a ne true and a ge false", r#"{"a": false}"#));
        assert!(holds("a gt false", r#"{"a": true}"#));
    }

    "6.3.2 Guid" guids_are_in_the_order_of_their_text {
        let bag = r#"{"a@odata.type": "Edm.Guid", "a": "01000000-0000-0000-0000-000000000000"}"#;
        assert!(holds("a gt guid'00ffffff-ffff-ffff-ffff-ffffffffffff'", bag));
        assert!(holds("a lt guid'01000000-0000-0000-0000-000000000001'", bag));
        assert!(holds("a lt guid'f1000000-0000-0000-0000-000000000000'", bag));
    }

    "6.3.2 Binary" binaries_compare_by_bytes {
        let bag = r#"{"a@odata.type": "Edm.Binary", "a": "CgE="}"#;
        assert!(holds("a eq X'0A01' and a gt X'0A' and a lt X'0A0100' and a lt X'FF' and a gt X''", bag));
    }

    "6.3.2 DateTime" datetimes_compare_by_ticks {
        let bag = r#"{"a@odata.type": "Edm.DateTime", "a": "2020-01-01T00:00:00.0000001Z"}"#;
        assert!(holds("a gt datetime'2020-01-01T00:00:00Z' and a lt datetime'2020-01-01T00:00:00.0000002Z'", bag));
        assert!(holds("a eq datetime'2020-01-01T01:00:00.0000001+01:00'", bag));
        assert!(holds("a gt datetime'0001-01-01T00:00:00Z'", bag));
    }

    "6.3.2 Double" doubles_are_ieee {
        let nan = r#"{"a@odata.type": "Edm.Double", "a": "NaN"}"#;
        for literal in ["NaN", "1.0", "1", "1L", "INF"] {
            for (operator, expected) in
                [("eq", false), ("ne", true), ("lt", false), ("le", false), ("gt", false), ("ge", false)]
            {
                let text = format!("a {operator} {literal}");
                assert_eq!(holds(&text, nan), expected, "{text}");
            }
        }
        assert!(holds("a ne NaN and not (a lt NaN)", r#"{"a": 1.0}"#));
        assert!(holds("a eq -0.0 and a eq 0", r#"{"a": 0.0}"#));
        assert!(holds("a lt INF and a gt -INF", r#"{"a": 1.7e308}"#));
    }

    "6.3.3 Int32" an_int32_property_takes_an_int32_literal {
        let bag = r#"{"a": 3}"#;
        assert!(holds("a eq 3", bag));
        assert!(!holds("a eq 3L", bag) && holds("a lt 3L", bag) && holds("a lt 1L", bag));
        assert!(!holds("a eq 3.0", bag) && holds("a le 1.0", bag));
    }

    "6.3.3 Int64" an_int64_property_takes_integer_literals {
        let bag = r#"{"a@odata.type": "Edm.Int64", "a": "3"}"#;
        assert!(holds("a eq 3 and a eq 3L and a gt 2 and a gt 2L", bag));
        assert!(!holds("a eq 3.0", bag) && holds("a ne 3.0 and a lt 1.0", bag));
    }

    "6.3.3 Double" a_double_property_takes_all_numbers {
        let bag = r#"{"a": 3.0}"#;
        assert!(holds("a eq 3 and a eq 3L and a eq 3.0 and a gt 2 and a gt 2L and a gt 2.5", bag));
        // The literal is widened to the nearest double.
        assert!(holds("a eq 9007199254740993L", r#"{"a": 9007199254740992.0}"#));
    }

    "6.3.4" another_type_is_less {
        for (text, bag) in [
            ("a OP 5", r#"{"a": "x"}"#),
            ("a OP 'x'", r#"{"a": 5}"#),
            ("a OP 3L", r#"{"a": 3}"#),
            ("a OP true", r#"{"a": 1}"#),
            ("a OP datetime'2020-01-01T00:00:00Z'", r#"{"a": "2020-01-01T00:00:00Z"}"#),
            ("PartitionKey OP 5", "{}"),
            ("Timestamp OP 'x'", "{}"),
        ] {
            for (operator, expected) in
                [("eq", false), ("ne", true), ("lt", true), ("le", true), ("gt", false), ("ge", false)]
            {
                assert_eq!(holds(&text.replace("OP", operator), bag), expected, "{text} {operator}");
            }
        }
    }

    "6.3.5" a_bare_property_is_whether_it_is_true {
        for (bag, expected) in [
            (r#"{"a": true}"#, true),
            (r#"{"a": false}"#, false),
            (r#"{"a": 1}"#, false),
            (r#"{"a": "true"}"#, false),
            ("{}", false),
        ] {
            assert_eq!(holds("a", bag), expected, "{bag}");
            assert_eq!(holds("not a", bag), !expected, "{bag}");
        }
        assert!(!holds("PartitionKey or RowKey or Timestamp", "{}"));
    }

    "6.3.6" a_literal_may_stand_on_the_left {
        for (left, right) in [
            ("5 lt a", "a gt 5"),
            ("5 le a", "a ge 5"),
            ("5 gt a", "a lt 5"),
            ("5 ge a", "a le 5"),
            ("5 eq a", "a eq 5"),
            ("'x' ne PartitionKey", "PartitionKey ne 'x'"),
        ] {
            assert_eq!(printed(left), right);
        }
    }

    "6.3.7" bare_constants {
        assert!(holds("true", "{}"));
        assert!(!holds("false", "{}"));
        assert!(holds("true and a eq 1", r#"{"a": 1}"#));
        assert!(!holds("not (false or true)", "{}"));
        assert_eq!(explain("false").0, "nothing");
    }

    "6.4 syntax" two_identifiers_in_a_row {
        syntax_error_at(7, "aaa bbb ccc");
        let error = error("aaa bbb ccc");
        assert_eq!((error.sqlstate(), error.stage()), ("22023", Stage::FrontEnd));
        // Positions are UTF-16 units.
        syntax_error_at(7, "aéé bbb ccc");
        syntax_error_at(13, "a eq '😀😀' b");
    }

    "6.4 literal glued" a_string_right_after_a_number {
        syntax_error_at(23, "property1 eq 1'invalid'");
    }

    "6.4 shapes" property_to_property_and_constant_to_constant {
        for text in ["a eq b", "PartitionKey eq RowKey", "1 eq 2", "'a' eq 'a'", "true eq true", "a eq 1 and b lt c"] {
            is_not_implemented(text);
        }
        // The front end reads the whole text first.
        syntax_error_at(12, "a eq b and (");
        syntax_error_at(11, "1 eq 2 and)");
        // As the service answers for tables (semantics 4.3).
        is_not_implemented("filter eq not valid");
    }

    "6.4 null equality" null_with_eq_and_ne {
        for text in ["p eq null", "p ne null", "null ne p"] {
            assert_eq!(invalid_input(text), "One of the request inputs is not valid.");
        }
        assert_eq!(error("p eq null").stage(), Stage::BackEnd);
        syntax_error_at(15, "p eq null and )");
    }

    "6.4 null order" null_with_another_operator {
        for (operator, name) in [
            ("lt", "LessThan"),
            ("le", "LessThanOrEqual"),
            ("gt", "GreaterThan"),
            ("ge", "GreaterThanOrEqual"),
        ] {
            assert_eq!(
                invalid_input(&format!("p {operator} null")),
                format!("The operator '{name}' is not supported for the 'null' literal; only equality checks are supported.")
            );
        }
        assert_eq!(error("p lt null").stage(), Stage::FrontEnd);
    }

    "6.4 literal body" a_literal_without_the_form_of_its_type {
        for (literal, edm) in [
            ("datetime'x'", "Edm.DateTime"),
            ("datetime''", "Edm.DateTime"),
            ("datetime'2013-02-30T00:00:00Z'", "Edm.DateTime"),
            ("guid'1'", "Edm.Guid"),
            ("guid'{a455c812-1f7a-4f5c-9c3b-0123456789ab}'", "Edm.Guid"),
            ("X'0A1'", "Edm.Binary"),
            ("binary'0G'", "Edm.Binary"),
            ("9223372036854775808", "Edm.Int64"),
            ("9223372036854775808L", "Edm.Int64"),
            ("1e400", "Edm.Double"),
        ] {
            let text = format!("p eq {literal}");
            assert_eq!(
                invalid_input(&text),
                format!("Unrecognized '{edm}' literal '{literal}' at '5' in '{text}'.")
            );
        }
    }

    "6.4 many comparisons" there_is_no_limit_of_15_comparisons {
        let text = (0..51).map(|i| format!("a ne {i}")).collect::<Vec<_>>().join(" and ");
        assert!(holds(&text, r#"{"a": 51}"#));
        assert!(!holds(&text, r#"{"a": 50}"#));
    }

    "6.6 resume" a_page_resumes_at_the_first_key_from_the_mark_on {
        let plan = Plan::new(parse("PartitionKey eq 'a'"));
        let rest = plan.ranges_from("a", "5");
        assert!(rest[0].contains("a", "5") && rest[0].contains("a", "6") && !rest[0].contains("a", "4"));
    }
}

#[test]
fn parameters_are_literals() {
    let parameters = parse_properties(
        r#"{"name": "O'Brien' or 'a' eq 'a", "n": 5, "l@odata.type": "Edm.Int64", "l": "5", "yes": true, "名": 1.5}"#,
    )
    .unwrap();
    let parse = |text: &str| Filter::parse(text, Some(parameters.as_properties()), Dialect::Service);
    assert_eq!(
        parse("LastName eq @name and @n lt a or b eq @l and @yes or c eq @名")
            .unwrap()
            .to_string(),
        "LastName eq 'O''Brien'' or ''a'' eq ''a' and a gt 5 or b eq 5L and true or c eq 1.5"
    );
    assert!(matches!(parse("@n eq @n"), Err(Error::NotImplemented { .. })));
    for (text, name) in [("a eq @missing", "@missing"), ("a eq @Name", "@Name"), ("@x", "@x")] {
        let error = parse(text).unwrap_err();
        assert_eq!((error.code(), error.sqlstate()), (Code::InvalidInput, "22023"));
        assert!(error.hint().unwrap().contains(name), "{error:?}");
    }
    assert!(error("a eq @name").hint().unwrap().contains("@name"));
    invalid_character('@', 5, "a eq @");
    invalid_character('@', 5, "a eq @1");
    // The first fault is the error.
    syntax_error_at(7, "aaa bbb \"");
    syntax_error_at(3, "a@b");
}

#[test]
fn every_row_has_its_case() {
    let sections = ["6.2", "6.3", "6.4", "6.6"];
    let count = |section: &str| ROWS.iter().filter(|row| row.starts_with(section)).count();
    assert_eq!(sections.map(count), [23, 14, 8, 1], "semantics 6.5 is in projection.rs");
    let mut names = ROWS.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ROWS.len());
}
