//! The most requested partitions, in bounded memory: the Space-Saving sketch of Metwally, Agrawal and El Abbadi.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// The number of partitions that are counted at a time.
const COUNTERS: usize = 128;
/// After this many requests all counts are halved, so that the counts are recent.
const HALF_LIFE: u64 = 100_000;

/// Account, table and partition.
pub type Partition = (String, String, String);

#[derive(Debug, Default)]
pub struct HotPartitions {
    /// By the hash of the partition, so that counting a known partition copies no texts. The hash has a key that is random
    /// for each process, so no client can choose partitions with the same one.
    counts: HashMap<u64, (Partition, u64)>,
    requests: u64,
    hash: RandomState,
}

impl HotPartitions {
    pub fn count(&mut self, account: &str, table: &str, partition: &str) {
        self.requests += 1;
        if self.requests.is_multiple_of(HALF_LIFE) {
            self.counts.retain(|_, (_, count)| {
                *count /= 2;
                *count > 0
            });
        }
        let hash = self.hash.hash_one((account, table, partition));
        if let Some((_, count)) = self.counts.get_mut(&hash) {
            *count += 1;
            return;
        }
        // The new partition takes the counter of the least requested one, with its count.
        let mut inherited = 0;
        if self.counts.len() >= COUNTERS
            && let Some(least) = self.counts.iter().min_by_key(|(_, (_, count))| *count)
        {
            let least = *least.0;
            inherited = self.counts.remove(&least).map_or(0, |(_, count)| count);
        }
        let partition = (account.to_owned(), table.to_owned(), partition.to_owned());
        self.counts.insert(hash, (partition, inherited + 1));
    }

    /// Returns the most requested partitions, the first one first.
    pub fn top(&self, number: usize) -> Vec<(Partition, u64)> {
        let mut all: Vec<_> = self.counts.values().cloned().collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all.truncate(number);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_partition_is_found_among_many() {
        let mut hot = HotPartitions::default();
        for i in 0..50_000 {
            hot.count("a", "t", &format!("cold{i}"));
            if i % 4 == 0 {
                hot.count("a", "t", "hot");
            }
        }
        assert_eq!(hot.top(1)[0].0.2, "hot");
        assert!(hot.counts.len() <= COUNTERS);
    }

    #[test]
    fn what_was_hot_cools_down() {
        let mut hot = HotPartitions::default();
        for _ in 0..HALF_LIFE {
            hot.count("a", "t", "then");
        }
        for _ in 0..3 * HALF_LIFE {
            hot.count("a", "t", "now");
        }
        let top = hot.top(2);
        assert_eq!((top[0].0.2.as_str(), top[1].0.2.as_str()), ("now", "then"));
        assert!(top[1].1 < HALF_LIFE / 4);
    }
}
