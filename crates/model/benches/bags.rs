//! The costs of the model by itself: JSON to bag and back, merge, look-up, filters. `cargo xtask bench model`.

#![allow(clippy::unwrap_used)]

use divan::{Bencher, black_box};
use table_service_model::entity::Entity;
use table_service_model::filter::{Dialect, Filter, Plan, Predicate};
use table_service_model::json::{self, Metadata};
use table_service_model::{PropertiesBuf, Ticks};

fn main() {
    divan::main();
}

/// An entity of an application.
const SMALL: &str =
    r#"{"Name": "1a79a4d60de6718e8e5b326e338ae533", "Age": 34, "City": "Seattle", "Score": 12.5, "Active": true}"#;

/// All types, escapes, and characters of several bytes.
const TYPED: &str = r#"{"Text": "a \"quoted\" tale of Köln, 東京 and 😀", "Int32": -7, "Int64@odata.type": "Edm.Int64", "Int64": "9007199254740993",
    "Double": 0.30000000000000004, "Flag": false, "When@odata.type": "Edm.DateTime", "When": "2014-07-31T18:00:00.1234567Z",
    "Id@odata.type": "Edm.Guid", "Id": "c9da6455-213d-42c9-9a79-3e9149a57833", "Raw@odata.type": "Edm.Binary", "Raw": "AAECAwQFBgcICQ=="}"#;

/// As many properties as an entity may have.
fn wide() -> String {
    let members: Vec<String> = (0..252).map(|n| format!(r#""Property{n:03}": "value {n}""#)).collect();
    format!("{{{}}}", members.join(", "))
}

fn payload(name: &str) -> String {
    match name {
        "small" => SMALL.to_owned(),
        "typed" => TYPED.to_owned(),
        _ => wide(),
    }
}

fn bag(name: &str) -> PropertiesBuf {
    json::parse_properties(&payload(name)).unwrap()
}

const PAYLOADS: [&str; 3] = ["small", "typed", "wide"];

#[divan::bench(args = PAYLOADS)]
fn json_to_bag(bencher: Bencher<'_, '_>, name: &str) {
    let text = payload(name);
    bencher.bench_local(|| json::parse_properties(black_box(&text)).unwrap());
}

#[divan::bench(args = PAYLOADS)]
fn bag_to_json(bencher: Bencher<'_, '_>, name: &str) {
    let bag = bag(name);
    bencher.bench_local(|| json::properties_to_json(black_box(bag.as_properties())));
}

#[divan::bench(args = PAYLOADS)]
fn entity_to_json(bencher: Bencher<'_, '_>, name: &str) {
    let bag = bag(name);
    let entity = Entity {
        partition_key: Some("Marketing"),
        row_key: Some("00001"),
        timestamp: Ticks::from_postgres_micros(0),
        properties: bag.as_properties(),
    };
    bencher.bench_local(|| json::entity_to_json(black_box(&entity), Metadata::Minimal));
}

#[divan::bench(args = PAYLOADS)]
fn merge_one_property(bencher: Bencher<'_, '_>, name: &str) {
    let (stored, new) = (bag(name), json::parse_properties(r#"{"Score": 1.5}"#).unwrap());
    bencher.bench_local(|| black_box(stored.as_properties()).merge(new.as_properties()));
}

#[divan::bench(args = PAYLOADS)]
fn look_up(bencher: Bencher<'_, '_>, name: &str) {
    let bag = bag(name);
    let wanted = bag
        .as_properties()
        .iter()
        .last()
        .map(|(name, _)| name.to_owned())
        .unwrap();
    bencher.bench_local(|| black_box(bag.as_properties()).get(black_box(&wanted)).is_some());
}

const FILTERS: [&str; 3] = [
    "Age ge 40 and Age lt 42",
    "City eq 'Seattle' or not (Score gt 10.0)",
    "Active and (Name ge 'a' and Name lt 'b' or Age eq 34)",
];

#[divan::bench(args = FILTERS)]
fn parse_and_plan(filter: &str) -> Plan {
    Plan::new(Filter::parse(black_box(filter), None, Dialect::Service).unwrap())
}

#[divan::bench(args = FILTERS)]
fn evaluate_filter(bencher: Bencher<'_, '_>, filter: &str) {
    let predicate = Predicate::new(&Filter::parse(filter, None, Dialect::Service).unwrap());
    let bag = bag("small");
    let entity = Entity {
        partition_key: None,
        row_key: None,
        timestamp: None,
        properties: bag.as_properties(),
    };
    bencher.bench_local(|| predicate.matches(black_box(&entity)));
}
