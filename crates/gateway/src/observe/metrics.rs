//! Metrics in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use table_service_model::replication::Answer;

use super::event::{Event, Outcome};
use super::hot::HotPartitions;
use crate::database::{ChangeFeed, Database, Secondary};

/// The number of most requested partitions in the metrics.
const HOT_PARTITIONS: usize = 10;
/// The most tables that are counted by their names. A request of a further one is counted under no name.
const TABLES: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    operation: &'static str,
    status: u16,
    code: &'static str,
}

/// Names of labels with their values.
type Labels<const N: usize, T> = [(&'static str, T); N];
type NodeLabels = Labels<2, LabelText>;

/// A label value that clients or operators choose. The encoder does not escape values, so this does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LabelText(String);

impl EncodeLabelValue for LabelText {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        for character in self.0.chars() {
            match character {
                '\\' => encoder.write_str("\\\\")?,
                '"' => encoder.write_str("\\\"")?,
                '\n' => encoder.write_str("\\n")?,
                other => encoder.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// Registers metrics, each with its name and its help text.
macro_rules! register {
    ($registry:ident: $($name:ident, $help:literal, $metric:expr;)*) => {
        $($registry.register(stringify!($name), $help, $metric);)*
    };
}

/// The counts since the start.
#[derive(Default)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    durations: Durations,
    faults: Family<Labels<1, &'static str>, Counter>,
    received: Counter,
    sent: Counter,
    pub connections: Gauge<i64, AtomicI64>,
    pub refused_connections: Counter<u64, AtomicU64>,
    pub active_requests: Gauge<i64, AtomicI64>,
    expired: Family<Labels<1, String>, Counter>,
    expiry_staleness: Family<Labels<1, String>, Gauge<f64, AtomicU64>>,
    /// The change feeds of each account's database.
    feeds: Mutex<BTreeMap<String, Vec<ChangeFeed>>>,
    hot: Mutex<HotPartitions>,
    /// The requests of tables, by account and table.
    tables: Mutex<BTreeMap<String, BTreeMap<String, u64>>>,
}

/// The durations of requests, by operation, from half a millisecond to half a minute.
struct Durations(Family<Labels<1, &'static str>, Histogram, fn() -> Histogram>);

impl Default for Durations {
    fn default() -> Durations {
        Durations(Family::new_with_constructor(|| {
            Histogram::new([
                0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
            ])
        }))
    }
}

impl Metrics {
    /// Counts an answered request.
    pub fn count(&self, event: &Event, outcome: &Outcome<'_>) {
        let Event { operation, .. } = *event;
        let code = outcome.error.map_or("", |(code, _)| code.as_str());
        let status = outcome.status.as_u16();
        let labels = RequestLabels {
            operation,
            status,
            code,
        };
        self.requests.get_or_create(&labels).inc();
        self.durations
            .0
            .get_or_create(&[("operation", operation)])
            .observe(outcome.duration.as_secs_f64());
        if let Some(fault) = event.fault {
            self.faults.get_or_create(&[("fault", fault)]).inc();
        }
        self.received.inc_by(event.request_bytes as u64);
        self.sent.inc_by(outcome.response_bytes as u64);
        if let Some(partition) = &event.partition {
            let mut hot = self.hot.lock();
            hot.count(&event.account, &event.table, partition, Instant::now());
        }
        if event.is_of_table {
            self.count_table(&event.account, &event.table);
        }
    }

    fn count_table(&self, account: &str, table: &str) {
        let mut tables = self.tables.lock();
        if let Some(count) = tables.get_mut(account).and_then(|of| of.get_mut(table)) {
            *count += 1;
            return;
        }
        let is_full = tables.values().map(BTreeMap::len).sum::<usize>() >= TABLES;
        let table = if is_full { "" } else { table };
        let of_account = tables.entry(account.to_owned()).or_default();
        *of_account.entry(table.to_owned()).or_default() += 1;
    }

    fn of_tables(&self) -> Family<Labels<2, LabelText>, Counter> {
        let family = Family::<Labels<2, LabelText>, Counter>::default();
        let tables = self.tables.lock();
        for (account, table, count) in tables
            .iter()
            .flat_map(|(account, of)| of.iter().map(move |(table, count)| (account, table, count)))
        {
            let labels = [("account", &**account), ("table", &**table)].map(text_of);
            family.get_or_create(&labels).inc_by(*count);
        }
        family
    }

    /// Counts the expired entities that a sweep has removed. All that expired before `oldest` were removed; `None` says
    /// that entities of no table expire.
    pub fn swept(&self, account: &str, deleted: u64, oldest: Option<SystemTime>) {
        let labels = [("account", account.to_owned())];
        self.expired.get_or_create(&labels).inc_by(deleted);
        // The clock of the database may be ahead.
        let late = oldest.map_or(Duration::ZERO, |oldest| oldest.elapsed().unwrap_or_default());
        self.expiry_staleness.get_or_create(&labels).set(late.as_secs_f64());
    }

    fn of_feeds(&self) -> [Family<Labels<2, String>, Gauge>; 2] {
        let [retained, lost] = <[Family<Labels<2, String>, Gauge>; 2]>::default();
        let all = self.feeds.lock();
        for (account, feed) in all
            .iter()
            .flat_map(|(account, feeds)| feeds.iter().map(move |feed| (account, feed)))
        {
            let labels = [("account", account.clone()), ("feed", feed.name.clone())];
            retained.get_or_create(&labels).set(feed.retained_bytes);
            lost.get_or_create(&labels).set(i64::from(feed.is_lost));
        }
        [retained, lost]
    }

    /// Takes the change feeds of an account's database.
    pub fn feeds(&self, account: &str, feeds: Vec<ChangeFeed>) {
        let mut all = self.feeds.lock();
        all.insert(account.to_owned(), feeds);
    }

    /// Returns all metrics, as text.
    ///
    /// `held_bytes` is the memory of bodies and answers, `databases` has every account's name with its database.
    pub fn text<'a>(&self, held_bytes: usize, databases: impl Iterator<Item = (&'a str, &'a Database)>) -> String {
        let [retained, lost] = self.of_feeds();

        let held = Gauge::<i64, AtomicI64>::default();
        held.set(i64::try_from(held_bytes).unwrap_or(i64::MAX));

        let (up, size, in_use, waiting) = (gauges(), gauges(), gauges(), gauges());
        let [timeouts, at_owner, grouped] = <[Family<NodeLabels, Counter>; 3]>::default();
        let (primary, serving) = (gauges(), gauges());
        let lag: Family<NodeLabels, Gauge<f64, AtomicU64>> = Family::default();
        let last_sync: Family<Labels<1, String>, Gauge> = Family::default();
        for (account, database) in databases {
            let labels = |node: &str| [("account", account), ("node", node)].map(text_of);
            let standbys = database.standby_states().map(|(node, _)| node);
            for node in database.nodes().chain(standbys) {
                let (labels, status) = (labels(&node.name), node.status());
                set(&up, &labels, usize::from(!status.away));
                set(&size, &labels, status.size);
                set(&in_use, &labels, status.in_use);
                set(&waiting, &labels, status.waiting);
                timeouts.get_or_create(&labels).inc_by(status.timeouts);
                at_owner.get_or_create(&labels).inc_by(status.at_owner);
                grouped.get_or_create(&labels).inc_by(status.grouped_writes);
            }
            for (host, is_primary) in database.nodes().flat_map(|node| node.hosts()) {
                set(&primary, &labels(host), usize::from(is_primary));
            }
            for (standby, status) in database.standby_states() {
                let labels = labels(&standby.name);
                set(&serving, &labels, usize::from(status.is_serving));
                if let Some(behind) = status.lag {
                    lag.get_or_create(&labels).set(behind.as_secs_f64());
                }
            }
            if let Some(Answer::Live(second)) = database.secondary().map(Secondary::peek) {
                last_sync.get_or_create(&[("account", account.to_owned())]).set(second);
            }
        }

        let hot = Family::<Labels<3, LabelText>, Gauge>::default();
        let top = self.hot.lock().top(HOT_PARTITIONS, Instant::now());
        for ((account, table, partition), count) in top {
            let labels = [("account", &*account), ("table", &*table), ("partition", &*partition)].map(text_of);
            hot.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
        }

        let mut registry = Registry::with_prefix("table_service");
        register! { registry:
            requests, "Requests answered", self.requests.clone();
            request_duration_seconds, "Time from the head of a request to its answer", self.durations.0.clone();
            received_bytes, "Bytes in bodies of requests", self.received.clone();
            sent_bytes, "Bytes in bodies of answers", self.sent.clone();
            connections, "Connections of clients", self.connections.clone();
            connections_refused, "Connections beyond the limit", self.refused_connections.clone();
            active_requests, "Requests being served", self.active_requests.clone();
            expired_entities, "Entities that were removed because they have expired", self.expired.clone();
            expiry_staleness_seconds, "How long ago the oldest entity expired that the last sweep left", self.expiry_staleness.clone();
            change_feed_retained_bytes, "What a change feed keeps of the log of its database", retained;
            change_feed_lost, "1 if a change feed has lost changes, so that its reader has to begin again", lost;
            held_bytes, "Bytes of bodies that have arrived and of answers that clients have not taken", held;
            node_primary, "1 if a host of a database URL is the primary, else 0", primary;
            standby_serving, "1 if a standby serves reads of the secondary endpoint, else 0", serving;
            standby_lag_seconds, "How far a standby is behind what is known of the primary", lag;
            last_sync_time_seconds, "What was acknowledged before this moment is visible on the secondary endpoint", last_sync;
            node_up, "1 if the database could be reached when it was tried last and has the tables of the first node, else 0", up;
            pool_size, "Most connections to the database", size;
            pool_in_use, "Connections to the database that are in use", in_use;
            pool_waiting, "Requests that wait for a connection", waiting;
            pool_timeouts, "Requests that waited for a connection in vain", timeouts;
            requests_at_owner, "Requests that were sent to the node that has their partition", at_owner;
            grouped_writes, "Writes that shared a transaction with those of other requests", grouped;
            hot_partition_requests, "Requests to the partitions that are requested most now: those of about the last 90 seconds", hot;
            table_requests, "Requests of a table that were permitted and well-formed", self.of_tables();
            // Only an emulator has them.
            injected_faults, "Requests that met a fault which was asked for", self.faults.clone();
        }

        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

fn text_of((name, value): (&'static str, &str)) -> (&'static str, LabelText) {
    (name, LabelText(value.to_owned()))
}

fn gauges() -> Family<NodeLabels, Gauge> {
    Family::default()
}

fn set(gauges: &Family<NodeLabels, Gauge>, labels: &NodeLabels, value: usize) {
    gauges
        .get_or_create(labels)
        .set(i64::try_from(value).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_take_bounded_memory() {
        let metrics = Metrics::default();
        for number in 0..TABLES + 5 {
            metrics.count_table("account", &format!("T{number}"));
        }
        metrics.count_table("account", "T0");
        let tables = metrics.tables.lock();
        let of = |table: &str| tables.get("account").and_then(|of| of.get(table)).copied();
        assert_eq!(
            (of("T0"), of("T999"), of("T1000"), of("")),
            (Some(2), Some(1), None, Some(5))
        );
    }
}
