//! The laws of any text as a filter. The fuzz target and the replay of its corpus check this.

#![allow(clippy::unwrap_used, clippy::panic)]

use table_service_model::entity::Entity;
use table_service_model::filter::{Dialect, Filter, Plan, Predicate};
use table_service_model::json::parse_properties;
use table_service_model::{Code, Ticks};

const BAGS: [&str; 4] = [
    "{}",
    r#"{"a": 1, "b": "x", "c": true, "d": 2.5}"#,
    r#"{"a@odata.type": "Edm.Int64", "a": "1", "b@odata.type": "Edm.Guid", "b": "a455c812-1f7a-4f5c-9c3b-0123456789ab"}"#,
    r#"{"a@odata.type": "Edm.Binary", "a": "AAEC", "d@odata.type": "Edm.DateTime", "d": "2020-01-01T00:00:00Z"}"#,
];
const KEYS: [&str; 5] = ["", "a", "b", "\u{ff21}", "\u{1f600}"];

/// Any text is a filter or refused. A filter prints as an equal one, and its compiled form and its plan agree with it. A
/// filter that the service's dialect reads means the same in the other one.
pub fn filter(text: &str) {
    let extended = read(text, Dialect::Extended);
    if let Some(filter) = read(text, Dialect::Service) {
        assert_eq!(extended.as_ref(), Some(&filter), "{text}");
    }
    extended.as_ref().map(check);
}

fn read(text: &str, dialect: Dialect) -> Option<Filter> {
    let parameters = parse_properties(BAGS[1]).unwrap();
    match Filter::parse(text, Some(parameters.as_properties()), dialect) {
        Ok(filter) => Some(filter),
        Err(error) => {
            assert!(
                matches!(error.code(), Code::InvalidInput | Code::NotImplemented),
                "{error:?}"
            );
            assert!(error.report().len() + error.hint().unwrap_or_default().len() < 32 * 1024);
            None
        }
    }
}

fn check(filter: &Filter) {
    let printed = filter.to_string();
    assert_eq!(
        Filter::parse(&printed, None, Dialect::Extended).as_ref(),
        Ok(filter),
        "{printed}"
    );
    let predicate = Predicate::new(filter);
    assert_eq!(Predicate::from_bytes(&predicate.to_bytes()).as_ref(), Ok(&predicate));
    let plan = Plan::new(filter.clone());
    for bag in BAGS.map(|json| parse_properties(json).unwrap()) {
        for partition_key in KEYS {
            for row_key in KEYS {
                let entity = Entity {
                    partition_key: Some(partition_key),
                    row_key: Some(row_key),
                    timestamp: Ticks::parse("2020-01-01"),
                    properties: bag.as_properties(),
                };
                let expected = filter.matches(&entity);
                assert_eq!(predicate.matches(&entity), expected, "{printed} for {entity:?}");
                let ranges = |ranges: &[_]| {
                    let contains =
                        |range: &&table_service_model::filter::KeyRange| range.contains(partition_key, row_key);
                    ranges.iter().filter(contains).count()
                };
                let inside = ranges(&plan.ranges);
                assert!(inside <= 1, "{plan:?}");
                let passes = |filter: &Filter| filter.matches(&entity);
                let planned = inside == 1 && plan.residual.as_ref().is_none_or(passes);
                assert_eq!(planned, expected, "{printed} as {plan:?} for {entity:?}");
                assert_eq!(ranges(&plan.ranges_from(partition_key, row_key)), inside);
            }
        }
    }
}
