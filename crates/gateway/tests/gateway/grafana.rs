//! deploy/grafana asks for metrics that the gateway has, and for all of them.

use std::collections::BTreeSet;
use std::path::Path;

use system_tests::wait_until;

use crate::gateway::Service;

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_name(c));
    words
        .filter(|word| word.starts_with("table_service_"))
        .map(str::to_owned)
        .collect()
}

/// The names of the samples of /metrics, with the labels that each has.
fn samples(metrics: &str) -> BTreeSet<String> {
    metrics
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .map(str::to_owned)
        .collect()
}

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/grafana")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_dashboard_and_the_alerts_ask_for_the_metrics_that_there_are() {
    let service = Service::with(&["--expiry-interval", "1"]);
    service.create_table("Things");
    service.client.get("Things(PartitionKey='p',RowKey='r')").expect(404);
    service.insert("Things", r#"{"PartitionKey":"p","RowKey":"r"}"#);
    let session = service.database.session("feeds");
    session.run("SELECT table_service.set_expiry('Things', time_to_live => '1 day')");
    session.run("SELECT table_service.create_change_feed('watched')");
    let metrics = || service.gateway.admin("/metrics").expect(200).text().to_owned();
    wait_until("everything was counted", || {
        ["expiry_staleness_seconds{", "change_feed_lost{"]
            .iter()
            .all(|name| metrics().contains(name))
    });
    session.run("SELECT table_service.drop_change_feed('watched')");
    let there = samples(&metrics());
    let mut shown = BTreeSet::new();
    for name in ["dashboard.json", "alerts.yaml"] {
        let asked = names(&file(name));
        assert!(asked.len() > 10, "{name}: {asked:?}");
        let missing: Vec<_> = asked.difference(&there).collect();
        assert!(missing.is_empty(), "{name}: the gateway has no {missing:?}");
        shown.extend(asked);
    }
    // Of a histogram the buckets are enough.
    let unseen: Vec<_> = there
        .difference(&shown)
        .filter(|name| !name.starts_with("table_service_request_duration_seconds_"))
        .collect();
    assert!(unseen.is_empty(), "neither the dashboard nor an alert shows {unseen:?}");
    let dashboard: serde_json::Value = serde_json::from_str(&file("dashboard.json")).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 10);
}

#[test]
fn the_labels_of_the_dashboard_are_those_of_the_metrics() {
    let service = Service::with_table("Things");
    let metrics = service.gateway.admin("/metrics").expect(200).text().to_owned();
    let of = |name: &str| {
        let line = metrics
            .lines()
            .find(|line| line.starts_with(&format!("{name}{{")))
            .unwrap();
        let labels = line.split(['{', '}']).nth(1).unwrap().to_owned();
        labels
            .split("\",")
            .map(|label| label.split('=').next().unwrap().to_owned())
            .collect::<BTreeSet<_>>()
    };
    let dashboard: serde_json::Value = serde_json::from_str(&file("dashboard.json")).unwrap();
    let mut compared = 0;
    for target in dashboard["panels"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap())
    {
        let (expression, legend) = (
            target["expr"].as_str().unwrap(),
            target["legendFormat"].as_str().unwrap(),
        );
        for name in names(expression) {
            if !metrics.contains(&format!("\n{name}{{")) {
                continue;
            }
            let known = of(&name);
            for label in legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap()) {
                assert!(known.contains(label), "{name} has no label {label}, but {known:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 5, "{compared}");
}
