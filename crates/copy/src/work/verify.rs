//! Compares the tables of a source and a target.
//!
//! The two sides may have their entities in different orders. So keys are spread over buckets by a hash, and each side
//! gives for each bucket a count and the sum of the digests of its entities, which depends on no order. Digests depend
//! on a secret of this run: without one, somebody could find other entities that have the same sum. Where buckets differ,
//! their entities are read again and compared one by one, as many buckets at a time as memory takes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;
use table_service_model::Value;
use tokio::sync::mpsc::channel;

use crate::ends::Source;
use crate::failure::Failure;
use crate::records::{Chunk, Counters, DigestSecret, Key, Range, Record};

use super::workers::each;

const BUCKETS: usize = 1 << 14;
/// The most bytes of the entities of one side that are compared at a time.
const COMPARED_BYTES: u64 = 16 << 20;
/// The entities of a larger bucket are not compared one by one. Keys spread evenly, unless somebody chose them.
const LARGEST_BUCKET: u64 = 64 << 20;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Bucket {
    count: u64,
    digest: u128,
    bytes: u64,
}

/// The entities of one side.
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

/// The outcome of the comparison of a table.
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

/// A comparison of two sources.
pub struct Verify {
    pub source: Source,
    pub target: Source,
    pub readers: usize,
    pub secret: DigestSecret,
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
        let mut summary = Summary {
            buckets: vec![Bucket::default(); BUCKETS],
            unreadable: 0,
        };
        let verify = self.clone();
        let digests = move |chunk: Chunk| {
            let digest = |record: &Record| {
                let digest = verify.secret.digest(record, verify.with_timestamps);
                (bucket_of(record), digest, record.weight() as u64)
            };
            let digests: Vec<(usize, u128, u64)> = chunk.records.iter().map(digest).collect();
            verify.counters.read(digests.len());
            (digests, chunk.rejects.len() as u64)
        };
        let add = |(digests, unreadable): (Vec<(usize, u128, u64)>, u64)| {
            summary.unreadable += unreadable;
            for (index, digest, bytes) in digests {
                if let Some(bucket) = summary.buckets.get_mut(index) {
                    bucket.count += 1;
                    bucket.digest = bucket.digest.wrapping_add(digest);
                    bucket.bytes += bytes;
                }
            }
            Ok(())
        };
        self.each(of_source, table, digests, add).await?;
        Ok(summary)
    }

    fn side(&self, of_source: bool) -> &Source {
        if of_source { &self.source } else { &self.target }
    }

    /// Reads a table of one side, several ranges at a time. `make` turns chunks into values, and `take` takes these.
    async fn each<T: Send + 'static>(
        self: &Arc<Verify>,
        of_source: bool,
        table: &str,
        make: impl Fn(Chunk) -> T + Clone + Send + Sync + 'static,
        mut take: impl FnMut(T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let ranges = self.side(of_source).ranges(table, self.readers).await?;
        if ranges == [Range::Stream] {
            return Err(Failure::usage(
                "Standard input is gone once it is read; give a file to compare it.",
            ));
        }
        let (verify, name, (sender, mut made)) = (self.clone(), table.to_owned(), channel(self.readers));
        let reading = each(self.readers, ranges, move |range| {
            let (verify, table, make, sender) = (verify.clone(), name.clone(), make.clone(), sender.clone());
            async move {
                let (chunk_sender, mut chunks) = channel(1);
                let making = async {
                    while let Some(chunk) = chunks.recv().await {
                        if sender.send(make(chunk)).await.is_err() {
                            // The taker reports its error itself.
                            break;
                        }
                    }
                    Ok(())
                };
                let source = verify.side(of_source);
                tokio::try_join!(source.read(&table, &range, None, chunk_sender), making).map(drop)
            }
        });
        let taking = async {
            while let Some(made) = made.recv().await {
                take(made)?;
            }
            Ok(())
        };
        tokio::try_join!(taking, reading).map(drop)
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
        let choose = move |mut chunk: Chunk| {
            chunk.records.retain(|record| chosen.contains(&bucket_of(record)));
            chunk.records
        };
        let (mut source, mut bytes) = (HashMap::new(), 0);
        let collect = |records: Vec<Record>| {
            bytes += records.iter().map(|record| record.weight() as u64).sum::<u64>();
            // Twice the summary: the table may have grown since, but not so much.
            if bytes > most_bytes {
                return Err(Failure::new(format!(
                    "{}: the table has changed too much while it was compared.",
                    self.source.name()
                )));
            }
            source.extend(records.into_iter().map(|record| (record.key(), record)));
            Ok(())
        };
        self.each(true, table, choose.clone(), collect).await?;
        let mut differ = |key: Key, what: String| {
            if comparison.differences.len() >= self.most {
                comparison.more = true;
                return;
            }
            comparison.differences.push(Difference {
                table: table.to_owned(),
                partition_key: key.partition_key,
                row_key: key.row_key,
                what,
            });
        };
        let look = |records: Vec<Record>| {
            for record in records {
                let what = match source.remove(&record.key()) {
                    None => Some("only in the target".to_owned()),
                    Some(other) => difference(&other, &record, self.with_timestamps),
                };
                if let Some(what) = what {
                    differ(record.key(), what);
                }
            }
            Ok(())
        };
        self.each(false, table, choose, look).await?;
        source
            .into_keys()
            .for_each(|key| differ(key, "only in the source".to_owned()));
        Ok(())
    }
}

/// The difference of two entities of one key.
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
