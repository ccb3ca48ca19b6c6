//! The parts of a plan that `explain_query` shows: key ranges, residuals and classes.

use super::{Sample, assert_plan, parse, planned};
use crate::filter::{AccessClass, Plan};
use crate::{Dialect, Filter};

const NONE: &str = "";

#[test]
fn everything_is_a_table_scan() {
    for filter in [
        "",
        " \t\n",
        "true",
        "PartitionKey ge ''",
        "not (PartitionKey lt '')",
        "RowKey ge ''",
    ] {
        assert_plan(filter, "table scan", &["(-∞, +∞)"], NONE);
    }
}

#[test]
fn both_keys_are_a_point() {
    for filter in [
        "PartitionKey eq 'a' and RowKey eq '1'",
        "RowKey eq '1' and PartitionKey eq 'a'",
        "'a' eq PartitionKey and ('1' eq RowKey)",
        "PartitionKey ge 'a' and PartitionKey le 'a' and RowKey ge '1' and RowKey le '1'",
        "not (PartitionKey ne 'a' or RowKey ne '1')",
    ] {
        assert_plan(filter, "point query", &["[('a','1'), ('a','1')]"], NONE);
    }
    assert_plan(
        "PartitionKey eq '' and RowKey eq ''",
        "point query",
        &["[('',''), ('','')]"],
        NONE,
    );
    assert_plan(
        "PartitionKey eq 'a' and RowKey eq ''",
        "point query",
        &["[('a',''), ('a','')]"],
        NONE,
    );
    assert_plan(
        "PartitionKey eq 'a' and RowKey le ''",
        "point query",
        &["[('a',''), ('a','')]"],
        NONE,
    );
    assert_plan(
        "PartitionKey le '' and RowKey eq '1'",
        "point query",
        &["[('','1'), ('','1')]"],
        NONE,
    );
    assert_plan(
        "PartitionKey eq 'O''Brien' and RowKey eq ''''",
        "point query",
        &["[('O''Brien',''''), ('O''Brien','''')]"],
        NONE,
    );
}

#[test]
fn an_exact_partition_is_a_row_range() {
    for (filter, range) in [
        ("PartitionKey eq 'a'", "[('a',-∞), ('a',+∞)]"),
        ("PartitionKey eq ''", "[('',-∞), ('',+∞)]"),
        ("PartitionKey le ''", "[('',-∞), ('',+∞)]"),
        ("PartitionKey eq '' and RowKey lt '5'", "[('',-∞), ('','5'))"),
        ("PartitionKey eq 'a' and RowKey ge '1'", "[('a','1'), ('a',+∞)]"),
        ("PartitionKey eq 'a' and RowKey gt '1'", "(('a','1'), ('a',+∞)]"),
        ("PartitionKey eq 'a' and RowKey lt '5'", "[('a',-∞), ('a','5'))"),
        ("PartitionKey eq 'a' and RowKey le '5'", "[('a',-∞), ('a','5')]"),
        (
            "PartitionKey eq 'a' and RowKey ge '1' and RowKey lt '5'",
            "[('a','1'), ('a','5'))",
        ),
        (
            "PartitionKey eq 'a' and RowKey gt '' and RowKey le '5'",
            "(('a',''), ('a','5')]",
        ),
    ] {
        assert_plan(filter, "row range scan", &[range], NONE);
    }
    assert_plan(
        "PartitionKey eq 'a' and RowKey ne '1'",
        "row range scan",
        &["[('a',-∞), ('a','1'))", "(('a','1'), ('a',+∞)]"],
        NONE,
    );
}

#[test]
fn a_bounded_partition_key_is_a_partition_range() {
    for (filter, range) in [
        ("PartitionKey gt 'a'", "(('a',+∞), +∞)"),
        ("PartitionKey ge 'a'", "[('a',-∞), +∞)"),
        ("PartitionKey lt 'b'", "(-∞, ('b',-∞))"),
        ("PartitionKey le 'b'", "(-∞, ('b',+∞)]"),
        ("PartitionKey gt ''", "(('',+∞), +∞)"),
        ("PartitionKey ge 'a' and PartitionKey lt 'b'", "[('a',-∞), ('b',-∞))"),
        ("PartitionKey gt 'a' and PartitionKey le 'b'", "(('a',+∞), ('b',+∞)]"),
    ] {
        assert_plan(filter, "partition range scan", &[range], NONE);
    }
    assert_plan(
        "PartitionKey ne 'a'",
        "partition range scan",
        &["(-∞, ('a',-∞))", "(('a',+∞), +∞)"],
        NONE,
    );
    assert_plan(
        "PartitionKey ge 'a' and PartitionKey lt 'c' and RowKey eq '1'",
        "partition range scan",
        &["[('a',-∞), ('c',-∞))"],
        "RowKey eq '1'",
    );
}

#[test]
fn the_rest_is_a_table_scan() {
    for filter in [
        "RowKey eq '1'",
        "a eq 1",
        "a",
        "Timestamp ge datetime'2020-01-01T00:00:00Z'",
    ] {
        assert_plan(filter, "table scan", &["(-∞, +∞)"], filter);
    }
    assert_plan(
        "PartitionKey eq 'a' or b eq 1",
        "table scan",
        &["(-∞, +∞)"],
        "PartitionKey eq 'a' or b eq 1",
    );
}

#[test]
fn an_impossible_filter_touches_nothing() {
    for filter in [
        "false",
        "not true",
        "PartitionKey lt ''",
        "RowKey lt ''",
        "PartitionKey eq 'a' and PartitionKey eq 'b'",
        "PartitionKey gt 'b' and PartitionKey lt 'a' and c eq 1",
        "PartitionKey eq 'a' and RowKey ge '5' and RowKey lt '5'",
        "PartitionKey eq 1",
        "RowKey gt 5 or PartitionKey ge true",
        "Timestamp eq 'x'",
        "PartitionKey",
        "not (RowKey lt 1)",
        "PartitionKey eq 'a' and (RowKey eq '1' and a eq 1 and RowKey eq '2')",
    ] {
        assert_plan(filter, "nothing", &[], NONE);
    }
}

#[test]
fn a_literal_of_another_type_is_greater_than_any_key() {
    for filter in [
        "PartitionKey ne 1",
        "PartitionKey lt 1",
        "RowKey le X'00'",
        "Timestamp lt 'x'",
        "not PartitionKey",
    ] {
        assert_plan(filter, "table scan", &["(-∞, +∞)"], NONE);
    }
    assert_plan(
        "PartitionKey eq 'a' and RowKey ne 1",
        "row range scan",
        &["[('a',-∞), ('a',+∞)]"],
        NONE,
    );
}

#[test]
fn an_or_of_points_and_ranges_is_sorted_seeks() {
    assert_plan(
        "(PartitionKey eq 'b' and RowKey ge '5') or (PartitionKey eq 'a' and RowKey eq '1')",
        "row range scan",
        &["[('a','1'), ('a','1')]", "[('b','5'), ('b',+∞)]"],
        NONE,
    );
    assert_plan(
        "PartitionKey eq 'b' and RowKey eq '2' or PartitionKey eq 'a' and RowKey eq '1' or PartitionKey eq 'b' and RowKey eq '1'",
        "point query",
        &[
            "[('a','1'), ('a','1')]",
            "[('b','1'), ('b','1')]",
            "[('b','2'), ('b','2')]",
        ],
        NONE,
    );
    assert_plan(
        "(PartitionKey eq 'a' or PartitionKey eq 'b') and (RowKey eq '1' or RowKey eq '2')",
        "point query",
        &[
            "[('a','1'), ('a','1')]",
            "[('a','2'), ('a','2')]",
            "[('b','1'), ('b','1')]",
            "[('b','2'), ('b','2')]",
        ],
        NONE,
    );
}

#[test]
fn ranges_that_touch_or_overlap_are_one() {
    assert_plan(
        "PartitionKey eq 'a' and RowKey lt '5' or PartitionKey eq 'a' and RowKey ge '3'",
        "row range scan",
        &["[('a',-∞), ('a',+∞)]"],
        NONE,
    );
    assert_plan(
        "PartitionKey eq 'a' and RowKey ge '1' and RowKey lt '5' or PartitionKey eq 'a' and RowKey ge '5' and RowKey le '7'",
        "row range scan",
        &["[('a','1'), ('a','7')]"],
        NONE,
    );
    // The order of keys itself, as for paging by hand.
    assert_plan(
        "PartitionKey gt 'a' or PartitionKey eq 'a' and RowKey gt '5'",
        "partition range scan",
        &["(('a','5'), +∞)"],
        NONE,
    );
    assert_plan(
        "PartitionKey lt 'b' or PartitionKey eq 'b' and RowKey lt '5'",
        "partition range scan",
        &["(-∞, ('b','5'))"],
        NONE,
    );
    assert_plan(
        "PartitionKey lt 'a' or PartitionKey ge 'a'",
        "table scan",
        &["(-∞, +∞)"],
        NONE,
    );
    assert_plan(
        "PartitionKey eq 'a' and RowKey eq '1' or PartitionKey eq 'a' and RowKey eq '1'",
        "point query",
        &["[('a','1'), ('a','1')]"],
        NONE,
    );
}

#[test]
fn the_residual_does_not_repeat_what_the_ranges_guarantee() {
    for (filter, range, residual) in [
        ("PartitionKey eq 'a' and c eq 1", "[('a',-∞), ('a',+∞)]", "c eq 1"),
        (
            "c eq 1 and PartitionKey eq 'a' and d",
            "[('a',-∞), ('a',+∞)]",
            "c eq 1 and d",
        ),
        (
            "PartitionKey eq 'a' and RowKey ge '1' and RowKey lt '5' and (c eq 1 or d eq 2)",
            "[('a','1'), ('a','5'))",
            "c eq 1 or d eq 2",
        ),
        (
            "PartitionKey eq 'a' and (RowKey eq '1' or c eq 1)",
            "[('a',-∞), ('a',+∞)]",
            "RowKey eq '1' or c eq 1",
        ),
        (
            "PartitionKey eq 'a' and (PartitionKey eq 'b' or c eq 1)",
            "[('a',-∞), ('a',+∞)]",
            "c eq 1",
        ),
        (
            "PartitionKey eq 'a' and not (RowKey lt '1' or c eq 1)",
            "[('a','1'), ('a',+∞)]",
            "not (c eq 1)",
        ),
        (
            "PartitionKey eq 'a' and Timestamp ge datetime'2020-01-01T00:00:00Z' and Timestamp ne 5",
            "[('a',-∞), ('a',+∞)]",
            "Timestamp ge datetime'2020-01-01T00:00:00Z'",
        ),
    ] {
        let access = "row range scan";
        assert_plan(filter, access, &[range], residual);
    }
    assert_plan(
        "(PartitionKey eq 'a' and RowKey eq '1' and c eq 1) or (PartitionKey eq 'b' and RowKey ge '5' and c eq 2)",
        "row range scan",
        &["[('a','1'), ('a','1')]", "[('b','5'), ('b',+∞)]"],
        "PartitionKey eq 'a' and c eq 1 or PartitionKey eq 'b' and c eq 2",
    );
    assert_plan(
        "(PartitionKey eq 'a' or PartitionKey eq 'c') and (RowKey eq '1' and c or RowKey eq '2')",
        "point query",
        &[
            "[('a','1'), ('a','1')]",
            "[('a','2'), ('a','2')]",
            "[('c','1'), ('c','1')]",
            "[('c','2'), ('c','2')]",
        ],
        "RowKey eq '1' and c or RowKey eq '2'",
    );
}

#[test]
fn keys_are_in_the_order_of_their_bytes() {
    // UTF-16 would put U+1F600 before U+FF21.
    assert_plan(
        "PartitionKey eq '😀' or PartitionKey eq 'Ａ'",
        "row range scan",
        &["[('Ａ',-∞), ('Ａ',+∞)]", "[('😀',-∞), ('😀',+∞)]"],
        NONE,
    );
    let filter = parse("PartitionKey gt 'Ａ' and RowKey gt 'Ａ' and p lt 'Ａ'");
    let sample = Sample::new("😀", "😀", r#"{"p": "😀"}"#);
    assert!(
        filter.matches(&sample.entity()),
        "keys by bytes, a property by UTF-16 units"
    );
}

#[test]
fn a_product_beyond_the_limit_is_read_in_coarser_ranges() {
    let list = |key: &str, n: usize| {
        (0..n)
            .map(|i| format!("{key} eq '{i:04}'"))
            .collect::<Vec<_>>()
            .join(" or ")
    };
    let product = |n: usize| {
        let text = format!("({}) and ({})", list("PartitionKey", n), list("RowKey", n));
        Plan::new(parse(&text))
    };
    let exact = product(300);
    assert_eq!(
        (exact.ranges.len(), exact.access(), exact.residual),
        (90_000, AccessClass::PointQuery, None)
    );
    let coarse = product(400);
    assert_eq!((coarse.ranges.len(), coarse.access()), (400, AccessClass::RowRangeScan));
    assert_eq!(coarse.ranges[3].to_string(), "[('0003','0000'), ('0003','0399')]");
    for (pk, rk, expected) in [
        ("0003", "0007", true),
        ("0003", "0007x", false),
        ("0400", "0007", false),
        ("0003", "0400", false),
    ] {
        assert_eq!(planned(&coarse, &Sample::new(pk, rk, "{}")), expected, "{pk} {rk}");
    }
}

#[test]
fn a_range_of_rows_counts_as_one() {
    for text in [
        "PartitionKey eq 'p' and RowKey le 'b'",
        "PartitionKey eq 'p' and RowKey ge 'b'",
    ] {
        let filter = Filter::parse(text, None, Dialect::Service).unwrap();
        assert_eq!(
            Plan::within(&filter, usize::MAX, 1),
            Plan::new(filter.clone()),
            "{text}"
        );
    }
}

#[test]
fn a_page_begins_at_its_token() {
    let plan = Plan::new(parse(
        "PartitionKey eq 'a' and RowKey ge '1' and RowKey lt '5' or PartitionKey eq 'b' or PartitionKey ge 'd'",
    ));
    let from = |pk, rk| {
        plan.ranges_from(pk, rk)
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let all = ["[('a','1'), ('a','5'))", "[('b',-∞), ('b',+∞)]", "[('d',-∞), +∞)"];
    assert_eq!(from("", ""), all);
    assert_eq!(from("a", "1"), all);
    assert_eq!(from("a", "3")[0], "[('a','3'), ('a','5'))");
    assert_eq!(from("a", "3")[1..], all[1..]);
    // Where the entity of the token is gone, or was in no range.
    assert_eq!(from("a", "5"), all[1..]);
    assert_eq!(from("az", ""), all[1..]);
    assert_eq!(from("b", ""), all[1..]);
    assert_eq!(from("b", "7")[0], "[('b','7'), ('b',+∞)]");
    assert_eq!(from("c", "x"), all[2..]);
    assert_eq!(from("z", "9"), ["[('z','9'), +∞)"]);
    assert_eq!(
        Plan::new(parse("")).ranges_from("a", "1"),
        Plan::new(parse("PartitionKey gt 'a' or PartitionKey eq 'a' and RowKey ge '1'")).ranges
    );
    assert!(Plan::new(parse("PartitionKey lt 'b'")).ranges_from("b", "").is_empty());
    assert!(Plan::new(parse("false")).ranges_from("b", "").is_empty());
}

#[test]
fn a_range_tells_its_partition_and_its_point() {
    let range = |filter: &str| Plan::new(parse(filter)).ranges.remove(0);
    let point = range("PartitionKey eq 'a' and RowKey eq '1'");
    assert_eq!((point.partition(), point.point()), (Some("a"), Some(("a", "1"))));
    let rows = range("PartitionKey eq 'a' and RowKey lt '1'");
    assert_eq!((rows.partition(), rows.point()), (Some("a"), None));
    let partition = range("PartitionKey eq 'a'");
    assert_eq!((partition.partition(), partition.point()), (Some("a"), None));
    let partitions = range("PartitionKey ge 'a' and PartitionKey lt 'b'");
    assert_eq!((partitions.partition(), partitions.point()), (None, None));
}
