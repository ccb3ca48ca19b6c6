//! deploy/grafana asks for metrics that the gateway has, and for all of them. So does the page on monitoring, with their labels.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use system_tests::wait_until;

use crate::failover::all_hosts;
use crate::gateway::{Gateway, Service};
use crate::standbys::{Replicated, secondary, wait_until_live};

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_name(c));
    words
        // A statement in an alert names the schema of the tables.
        .filter(|word| word.starts_with("table_service_") && *word != "table_service_data")
        .map(str::to_owned)
        .collect()
}

/// The names of the samples of /metrics.
fn samples(metrics: &str) -> BTreeSet<String> {
    metrics
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .map(str::to_owned)
        .collect()
}

/// The names of the labels of a metric that has samples.
fn labels(metrics: &str, name: &str) -> BTreeSet<String> {
    let line = metrics
        .lines()
        .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])))
        .unwrap_or_else(|| panic!("no sample of {name}"));
    let labels = line.split(['{', '}']).nth(1).unwrap_or_default();
    labels
        .split("\",")
        .filter_map(|label| Some(label.split_once('=')?.0.to_owned()))
        .collect()
}

/// The metrics of the tables of the page on monitoring, with their labels.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let page = file("../../docs/guide/monitoring.md");
    let code = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    page.lines()
        .filter(|line| line.starts_with("| `table_service_"))
        .map(|row| {
            let cells: Vec<&str> = row.split('|').collect();
            (cells[1].trim_matches([' ', '`']).to_owned(), code(cells[2]))
        })
        .collect()
}

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy/grafana")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of metrics that the gateway registers, without those that only an emulator has.
fn told() -> Vec<&'static str> {
    let code = include_str!("../../src/observe/metrics.rs");
    let (_, table) = code.split_once("register! {").unwrap();
    let (table, _) = table.split_once("// Only an emulator has them.").unwrap();
    let names: Vec<_> = table
        .lines()
        .filter_map(|line| Some(line.trim().split_once(", \"")?.0))
        .collect();
    assert!(names.len() > 20, "{names:?}");
    names
}

/// The metrics of a gateway with a primary and a standby in its database URL. Both are also there for reads.
fn metrics_of_standbys() -> String {
    let servers = Replicated::start(&[&[]]);
    let url = all_hosts(&servers);
    let gateway = Gateway::start(&["--database-url", &url, "--secondary-url", &url]);
    wait_until_live(&secondary(&gateway));
    let metrics = gateway.admin("/metrics").expect(200).text().to_owned();
    // The primary serves no reads of the secondary endpoint. One name in both metrics prevents an alert about this.
    let of = |name: &str, value: &str| {
        let line = metrics
            .lines()
            .find(|line| line.starts_with(name) && line.ends_with(value))
            .unwrap();
        line.split(['{', '}']).nth(1).unwrap()
    };
    assert_eq!(
        of("table_service_node_primary{", " 1"),
        of("table_service_standby_serving{", " 0")
    );
    metrics
}

#[test]
fn the_dashboard_and_the_alerts_ask_for_the_metrics_that_there_are() {
    let service = Service::with(&["--expiry-interval", "1"]);
    service.create_table("Things");
    service.client.get("Things(PartitionKey='p',RowKey='r')").expect(404);
    service.insert("Things", r#"{"PartitionKey":"p","RowKey":"r"}"#);
    let session = service.database.session("feeds");
    session.run("SELECT table_service.set_expiry('Things', time_to_live => '1 day')");
    session.run("SELECT table_service.create_change_feed('watched', '{Things}')");
    let metrics = || service.gateway.admin("/metrics").expect(200).text().to_owned();
    wait_until("everything was counted", || {
        ["expiry_staleness_seconds{", "change_feed_lost{"]
            .iter()
            .all(|name| metrics().contains(name))
    });
    let metrics = metrics() + &metrics_of_standbys();
    session.run("SELECT table_service.drop_change_feed('watched')");
    let there = samples(&metrics);
    // These are samples of all metrics of the gateway.
    for name in told() {
        let name = format!("table_service_{name}");
        assert!(
            there.iter().any(|sample| sample.starts_with(&name)),
            "no sample of {name} was seen"
        );
    }
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

    let mut documented = documented();
    let faults = documented.remove("table_service_injected_faults_total");
    assert_eq!(
        faults,
        Some(BTreeSet::from(["fault".to_owned()])),
        "only an emulator has it"
    );
    // A histogram has its name here, without the endings of its samples.
    let all: BTreeSet<&str> = there
        .iter()
        .map(|name| {
            let name = name
                .strip_suffix("_bucket")
                .or(name.strip_suffix("_sum"))
                .unwrap_or(name);
            name.strip_suffix("_count").unwrap_or(name)
        })
        .collect();
    assert_eq!(
        documented.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        all,
        "docs/guide/monitoring.md has the left ones, and the gateway the right ones"
    );
    for (name, documented) in documented {
        let sample = if there.contains(&name) {
            name.clone()
        } else {
            format!("{name}_count")
        };
        assert_eq!(documented, labels(&metrics, &sample), "{name}");
    }
}

/// The page on monitoring has instructions for each alert.
#[test]
fn the_page_on_monitoring_names_every_alert_with_its_severity() {
    let alerts = file("alerts.yaml");
    let rules: Vec<(&str, &str)> = alerts
        .split("- alert: ")
        .skip(1)
        .map(|rule| {
            let severity = rule.split("severity: ").nth(1).and_then(|rest| rest.split('}').next());
            (rule.lines().next().unwrap(), severity.unwrap())
        })
        .collect();
    assert!(rules.len() > 10, "{rules:?}");
    let page = file("../../docs/guide/monitoring.md");
    for (alert, severity) in &rules {
        let row = format!("| `{alert}` | {severity} | ");
        assert!(page.contains(&row), "docs/guide/monitoring.md has no row {row}");
    }
    assert_eq!(page.matches("| `TableService").count(), rules.len());
}

#[test]
fn the_labels_of_the_dashboard_are_those_of_the_metrics() {
    let service = Service::with_table("Things");
    let metrics = service.gateway.admin("/metrics").expect(200).text().to_owned();
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
            let known = labels(&metrics, &name);
            for label in legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap()) {
                assert!(known.contains(label), "{name} has no label {label}, but {known:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 5, "{compared}");
}
