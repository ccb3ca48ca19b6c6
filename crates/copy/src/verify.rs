//! Compares the tables of two places.
//!
//! The two sides may have their entities in different orders. So keys are spread over buckets by a hash, and each side
//! gives for each bucket a count and the sum of the digests of its entities, which depends on no order. Digests depend
//! on a secret of this run: without one, somebody could find other entities that have the same sum. Where buckets differ,
//! their entities are read again and compared one by one, as many buckets at a time as memory takes.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use table_service_model::Value;

use crate::failure::Failure;
use crate::peer::Source;
use crate::progress::Counters;
use crate::record::{Chunk, DigestSecret, Range, Record};
use crate::workers::each;

const BUCKETS: usize = 1 << 14;
/// What the entities of one side that are compared at a time may take.
const COMPARED_BYTES: u64 = 16 << 20;
/// The entities of a larger bucket are not compared one by one. Keys spread evenly, unless somebody chose them.
const LARGEST_BUCKET: u64 = 64 << 20;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Bucket {
    count: u64,
    digest: u128,
    bytes: u64,
}

/// What one side has.
#[derive(Default)]
struct Summary {
    buckets: Vec<Bucket>,
    unreadable: u64,
}

impl Summary {
    fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.count).sum()
    }
}

/// An entity that is not the same on both sides.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    pub table: String,
    #[serde(rename = "PartitionKey")]
    pub partition_key: String,
    #[serde(rename = "RowKey")]
    pub row_key: String,
    pub what: String,
}

/// What the comparison of a table has found.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    pub table: String,
    pub equal: bool,
    pub source_entities: u64,
    pub target_entities: u64,
    pub differences: Vec<Difference>,
    /// There are more than are listed.
    pub more: bool,
}

pub struct Verify {
    pub source: Source,
    pub target: Source,
    pub readers: usize,
    pub secret: Arc<DigestSecret>,
    pub with_timestamps: bool,
    /// How many differences are listed.
    pub most: usize,
    pub counters: Arc<Counters>,
}

fn bucket_of(record: &Record) -> usize {
    usize::try_from(record.key_hash() % BUCKETS as u64).unwrap_or_default()
}

impl Verify {
    /// Compares a table.
    pub async fn table(self: &Arc<Verify>, table: &str) -> Result<Comparison, Failure> {
        let (source, target) = tokio::try_join!(self.summary(true, table), self.summary(false, table))?;
        let differing: Vec<usize> = (0..BUCKETS)
            .filter(|&index| {
                let same = |bucket: Option<&Bucket>| bucket.map(|bucket| (bucket.count, bucket.digest));
                same(source.buckets.get(index)) != same(target.buckets.get(index))
            })
            .collect();
        let mut comparison = Comparison {
            table: table.to_owned(),
            equal: differing.is_empty() && source.unreadable + target.unreadable == 0,
            source_entities: source.count(),
            target_entities: target.count(),
            differences: Vec::new(),
            more: false,
        };
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut bytes = u64::MAX;
        for index in differing {
            let size = source.buckets.get(index).map_or(0, |bucket| bucket.bytes);
            if size > LARGEST_BUCKET {
                comparison.more = true;
                continue;
            }
            if bytes.saturating_add(size) > COMPARED_BYTES {
                groups.push(Vec::new());
                bytes = 0;
            }
            bytes += size;
            if let Some(group) = groups.last_mut() {
                group.push(index);
            }
        }
        for group in groups {
            if comparison.differences.len() >= self.most {
                comparison.more = true;
                break;
            }
            let summed: u64 = group
                .iter()
                .filter_map(|&index| source.buckets.get(index))
                .map(|bucket| bucket.bytes)
                .sum();
            let most = 2 * summed + COMPARED_BYTES;
            self.compare(table, &group, most, &mut comparison).await?;
        }
        comparison
            .differences
            .sort_by(|a, b| (&a.partition_key, &a.row_key).cmp(&(&b.partition_key, &b.row_key)));
        Ok(comparison)
    }

    async fn summary(self: &Arc<Verify>, of_source: bool, table: &str) -> Result<Summary, Failure> {
        let summary = Arc::new(Mutex::new(Summary {
            buckets: vec![Bucket::default(); BUCKETS],
            unreadable: 0,
        }));
        let (secret, with_timestamps) = (self.secret.clone(), self.with_timestamps);
        let counters = self.counters.clone();
        let result = summary.clone();
        self.each(of_source, table, move |records, unreadable| {
            let digests: Vec<(usize, u128, u64)> = records
                .iter()
                .map(|record| {
                    (
                        bucket_of(record),
                        secret.digest(record, with_timestamps),
                        record.weight() as u64,
                    )
                })
                .collect();
            counters.read(records.len());
            let mut summary = result.lock().unwrap_or_else(PoisonError::into_inner);
            summary.unreadable += unreadable;
            for (index, digest, bytes) in digests {
                if let Some(bucket) = summary.buckets.get_mut(index) {
                    bucket.count += 1;
                    bucket.digest = bucket.digest.wrapping_add(digest);
                    bucket.bytes += bytes;
                }
            }
            Ok(())
        })
        .await?;
        let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *summary))
    }

    fn side(&self, of_source: bool) -> &Source {
        if of_source { &self.source } else { &self.target }
    }

    /// Reads a table of one side, several ranges at a time.
    async fn each<F>(self: &Arc<Verify>, of_source: bool, table: &str, take: F) -> Result<(), Failure>
    where
        F: Fn(Vec<Record>, u64) -> Result<(), Failure> + Clone + Send + Sync + 'static,
    {
        let ranges = self.side(of_source).ranges(table, self.readers).await?;
        if ranges == [Range::Stream] {
            return Err(Failure::usage(
                "Standard input is gone once it is read; give a file to compare it.",
            ));
        }
        let (verify, name) = (self.clone(), table.to_owned());
        each(self.readers, ranges, move |range| {
            let (verify, table, take) = (verify.clone(), name.clone(), take.clone());
            async move {
                let take = |chunk: Chunk| take(chunk.records, chunk.rejects.len() as u64);
                verify.side(of_source).each_chunk(&table, &range, take).await
            }
        })
        .await
    }

    /// Lists the entities that differ in some buckets.
    async fn compare(
        self: &Arc<Verify>,
        table: &str,
        group: &[usize],
        most_bytes: u64,
        comparison: &mut Comparison,
    ) -> Result<(), Failure> {
        let chosen: Arc<HashSet<usize>> = Arc::new(group.iter().copied().collect());
        let source: Arc<Mutex<HashMap<(String, String), Record>>> = Arc::default();
        let (collected, buckets) = (source.clone(), chosen.clone());
        let bytes = Arc::new(AtomicU64::new(0));
        let name = self.source.name();
        self.each(true, table, move |records, _| {
            let mut collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
            for record in records {
                if buckets.contains(&bucket_of(&record)) {
                    // Twice the summary: the table may have grown since, but not so much.
                    let weight = record.weight() as u64;
                    if bytes.fetch_add(weight, Ordering::Relaxed) + weight > most_bytes {
                        return Err(Failure::new(format!(
                            "{name}: the table has changed too much while it was compared."
                        )));
                    }
                    collected.insert((record.partition_key.clone(), record.row_key.clone()), record);
                }
            }
            Ok(())
        })
        .await?;
        let found: Arc<Mutex<(Vec<Difference>, bool)>> = Arc::default();
        let (list, most, with_timestamps) = (
            found.clone(),
            self.most - comparison.differences.len(),
            self.with_timestamps,
        );
        let (left, name) = (source.clone(), table.to_owned());
        self.each(false, table, move |records, _| {
            for record in records {
                if !chosen.contains(&bucket_of(&record)) {
                    continue;
                }
                let key = (record.partition_key.clone(), record.row_key.clone());
                let other = left.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
                let what = match other {
                    None => Some("only in the target".to_owned()),
                    Some(other) => difference(&other, &record, with_timestamps),
                };
                if let Some(what) = what {
                    push(&list, most, &name, key, what);
                }
            }
            Ok(())
        })
        .await?;
        let left = std::mem::take(&mut *source.lock().unwrap_or_else(PoisonError::into_inner));
        for key in left.into_keys() {
            push(&found, most, table, key, "only in the source".to_owned());
        }
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        comparison.differences.append(&mut found.0);
        comparison.more |= found.1;
        Ok(())
    }
}

fn push(list: &Mutex<(Vec<Difference>, bool)>, most: usize, table: &str, key: (String, String), what: String) {
    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
    if list.0.len() >= most {
        list.1 = true;
        return;
    }
    list.0.push(Difference {
        table: table.to_owned(),
        partition_key: key.0,
        row_key: key.1,
        what,
    });
}

/// What differs between two entities of one key.
fn difference(source: &Record, target: &Record, with_timestamps: bool) -> Option<String> {
    let mut parts = Vec::new();
    let (a, b) = (source.properties.as_properties(), target.properties.as_properties());
    let shown = |value: Value<'_>| {
        let text: String = value.text().chars().take(60).collect();
        format!("{text:?} ({})", value.edm_type().name())
    };
    for (name, value) in a.iter() {
        match b.get(name) {
            None => parts.push(format!("{name} is only in the source")),
            // By their texts, which tell 0.0 from -0.0 and hold one NaN.
            Some(other) if other.edm_type() != value.edm_type() || other.text() != value.text() => {
                parts.push(format!(
                    "{name} is {} in the source, {} in the target",
                    shown(value),
                    shown(other)
                ));
            }
            Some(_) => {}
        }
    }
    for (name, _) in b.iter() {
        if !a.contains(name) {
            parts.push(format!("{name} is only in the target"));
        }
    }
    let micros = |record: &Record| record.timestamp.map(|timestamp| timestamp.to_postgres_micros());
    if with_timestamps && micros(source) != micros(target) {
        let text = |record: &Record| record.timestamp.map_or("absent".to_owned(), |time| time.to_string());
        parts.push(format!(
            "Timestamp is {} in the source, {} in the target",
            text(source),
            text(target)
        ));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_properties_values_and_types() {
        let record =
            |members: &str| Record::from_json(&format!(r#"{{"PartitionKey":"p","RowKey":"r"{members}}}"#)).unwrap();
        let differ = |a: &str, b: &str| difference(&record(a), &record(b), true).unwrap_or_default();
        assert_eq!(
            differ(
                r#","A":1,"N@odata.type":"Edm.Double","N":"NaN""#,
                r#","A":1,"N@odata.type":"Edm.Double","N":"NaN""#
            ),
            ""
        );
        assert_eq!(
            differ(r#","A":0.0,"B":1"#, r#","A":-0.0,"C":1"#),
            "A is \"0.0\" (Edm.Double) in the source, \"-0.0\" (Edm.Double) in the target; B is only in the source; C is only in the target"
        );
        assert_eq!(
            differ(
                r#","Timestamp":"2020-01-01T00:00:00.0000001Z""#,
                r#","Timestamp":"2020-01-01T00:00:00Z""#
            ),
            "",
            "a database has microseconds"
        );
        assert!(differ(r#","Timestamp":"2020-01-01T00:00:00Z""#, "").contains("absent"));
    }
}
