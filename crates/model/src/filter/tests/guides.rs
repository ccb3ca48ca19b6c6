//! The filters that the Table service's design guides print.

use super::{Sample, assert_plan, parse, passes};
use crate::filter::Plan;
use crate::{Projection, Ticks};

const SALES: &str = "[('Sales',-∞), ('Sales',+∞)]";

#[test]
fn point_query() {
    for filter in [
        "PartitionKey eq 'Sales' and RowKey eq '2'",
        "(PartitionKey eq 'Sales') and (RowKey eq '2')",
        "(PartitionKey eq 'Sales') and (RowKey eq 'empid_000223')",
        "(PartitionKey eq 'Sales') and (RowKey eq 'email_jonesj@contoso.com')",
    ] {
        let key = filter.rsplit('\'').nth(1).unwrap();
        assert_plan(
            filter,
            "point query",
            &[&format!("[('Sales','{key}'), ('Sales','{key}')]")],
            "",
        );
    }
}

#[test]
fn range_query_over_row_keys() {
    assert_plan(
        "PartitionKey eq 'Sales' and RowKey ge 'S' and RowKey lt 'T'",
        "row range scan",
        &["[('Sales','S'), ('Sales','T'))"],
        "",
    );
}

#[test]
fn partition_scan_and_table_scan() {
    assert_plan(
        "PartitionKey eq 'Sales' and LastName eq 'Smith'",
        "row range scan",
        &[SALES],
        "LastName eq 'Smith'",
    );
    assert_plan(
        "LastName eq 'Jones'",
        "table scan",
        &["(-∞, +∞)"],
        "LastName eq 'Jones'",
    );
}

#[test]
fn employees_by_id_and_by_email_in_one_partition() {
    let ids = "(PartitionKey eq 'Sales') and (RowKey ge 'empid_000100') and (RowKey lt 'empid_000200')";
    assert_plan(
        ids,
        "row range scan",
        &["[('Sales','empid_000100'), ('Sales','empid_000200'))"],
        "",
    );
    let emails = "(PartitionKey eq 'Sales') and (RowKey ge 'email_a') and (RowKey lt 'email_b')";
    assert_plan(
        emails,
        "row range scan",
        &["[('Sales','email_a'), ('Sales','email_b'))"],
        "",
    );
    for (row_key, by_id, by_email) in [
        ("empid_000123", true, false),
        ("empid_000200", false, false),
        ("email_a", false, true),
        ("email_adam@contoso.com", false, true),
        ("email_bob@contoso.com", false, false),
    ] {
        let sample = Sample::new("Sales", row_key, "{}");
        assert_eq!(passes(&parse(ids), &sample), by_id, "{row_key}");
        assert_eq!(passes(&parse(emails), &sample), by_email, "{row_key}");
    }
}

#[test]
fn last_names_from_b_to_c() {
    let filter = "(PartitionKey eq 'Sales') and (LastName ge 'B') and (LastName lt 'D')";
    assert_plan(
        filter,
        "row range scan",
        &[SALES],
        "LastName ge 'B' and LastName lt 'D'",
    );
    for (name, expected) in [
        ("Adams", false),
        ("B", true),
        ("Brown", true),
        ("Czerny", true),
        ("D", false),
        ("brown", false),
    ] {
        let sample = Sample::new("Sales", "1", &format!(r#"{{"LastName": "{name}"}}"#));
        assert_eq!(passes(&parse(filter), &sample), expected, "{name}");
    }
}

#[test]
fn log_tail_with_inverted_ticks() {
    let at = |text: &str| Ticks::parse(text).unwrap().inverted();
    let filter = format!("PartitionKey eq 'empid' and RowKey le '{}'", at("2026-01-01T00:00:00Z"));
    for (time, expected) in [
        ("2025-12-31T23:59:59.9999999Z", false),
        ("2026-01-01T00:00:00Z", true),
        ("2026-01-01T00:00:00.0000001Z", true),
    ] {
        assert_eq!(
            passes(&parse(&filter), &Sample::new("empid", &at(time), "{}")),
            expected,
            "{time}"
        );
    }
    // `EmployeeExpense(PartitionKey='empid')?$top=10` is the first ten of the whole partition.
    assert_plan(
        "PartitionKey eq 'empid'",
        "row range scan",
        &["[('empid',-∞), ('empid',+∞)]"],
        "",
    );
}

/// The guide's filter for the reviews of an employee mixes two forms of the key: in byte order `'e'` is after `'0'`.
#[test]
fn the_reviews_of_an_employee() {
    assert_plan(
        "(PartitionKey eq 'Sales') and (RowKey ge 'empid_000123') and (RowKey lt '000123_2012')",
        "nothing",
        &[],
        "",
    );
    let works = "(PartitionKey eq 'Sales') and (RowKey ge '000123_') and (RowKey lt '000123`')";
    assert_plan(
        works,
        "row range scan",
        &["[('Sales','000123_'), ('Sales','000123`'))"],
        "",
    );
    for (row_key, expected) in [
        ("000123_2011", true),
        ("000123_2012", true),
        ("000123", false),
        ("000124_2012", false),
        ("empid_000123", false),
    ] {
        assert_eq!(
            passes(&parse(works), &Sample::new("Sales", row_key, "{}")),
            expected,
            "{row_key}"
        );
    }
}

/// The guide selects `Manager Rating`, which is no property name.
#[test]
fn the_projection_of_the_reviews() {
    let sample = Sample::new(
        "Sales",
        "000123_2012",
        r#"{"ManagerRating": 4, "PeerRating": 5, "Comments": "good"}"#,
    );
    let names = |select: &str| {
        let chosen = Projection::parse(select)
            .unwrap()
            .apply(sample.properties.as_properties());
        chosen
            .as_properties()
            .iter()
            .map(|(name, _)| name.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("RowKey,Manager Rating,Peer Rating,Comments"), ["Comments"]);
    assert_eq!(
        names("RowKey,ManagerRating,PeerRating,Comments"),
        ["Comments", "ManagerRating", "PeerRating"]
    );
}

#[test]
fn several_departments_at_once() {
    let plan = Plan::new(parse(
        "(PartitionKey eq 'Sales' or PartitionKey eq 'Marketing') and RowKey ge 'empid_' and RowKey lt 'empid`' and Age gt 30",
    ));
    assert_eq!(
        plan.ranges.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "[('Marketing','empid_'), ('Marketing','empid`'))",
            "[('Sales','empid_'), ('Sales','empid`'))"
        ]
    );
    assert_eq!(plan.residual.unwrap().to_string(), "Age gt 30");
}
