//! The partitions that are requested most now, in bounded memory: the Space-Saving sketch of Metwally, Agrawal and El Abbadi.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// The number of partitions that are counted at a time.
const COUNTERS: usize = 128;
/// After this time all counts are halved, so that a partition without requests is soon forgotten, also by a gateway
/// without requests. At a constant rate a count is that of 60 to 120 seconds.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// Account, table and partition.
pub type Partition = (String, String, String);

/// The sketch.
#[derive(Debug)]
pub struct HotPartitions {
    /// By the hash of the partition, so that counting a known partition copies no texts. The hash has a key that is random
    /// for each process, so no client can choose partitions with the same one.
    counts: HashMap<u64, (Partition, u64)>,
    /// When the counts were halved last.
    halved: Instant,
    hash: RandomState,
}

impl Default for HotPartitions {
    fn default() -> HotPartitions {
        HotPartitions {
            counts: HashMap::new(),
            halved: Instant::now(),
            hash: RandomState::new(),
        }
    }
}

impl HotPartitions {
    /// Counts a request.
    pub fn count(&mut self, account: &str, table: &str, partition: &str, now: Instant) {
        self.age(now);
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

    /// Halves the counts as often as it is due.
    fn age(&mut self, now: Instant) {
        let due = now.saturating_duration_since(self.halved).as_secs() / HALF_LIFE.as_secs();
        let Ok(due @ 1..) = u32::try_from(due) else { return };
        self.halved += HALF_LIFE.saturating_mul(due);
        self.counts.retain(|_, (_, count)| {
            *count = count.checked_shr(due).unwrap_or_default();
            *count > 0
        });
    }

    /// Returns the most requested partitions, the first one first.
    pub fn top(&mut self, number: usize, now: Instant) -> Vec<(Partition, u64)> {
        self.age(now);
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
        let now = Instant::now();
        let mut hot = HotPartitions {
            halved: now,
            ..HotPartitions::default()
        };
        for i in 0..50_000 {
            hot.count("a", "t", &format!("cold{i}"), now);
            if i % 4 == 0 {
                hot.count("a", "t", "hot", now);
            }
        }
        assert_eq!(hot.top(1, now)[0].0.2, "hot");
        assert!(hot.counts.len() <= COUNTERS);
    }

    #[test]
    fn what_was_hot_cools_down_though_nobody_asks() {
        let begun = Instant::now();
        let after = |half_lives| begun + HALF_LIFE * half_lives;
        let mut hot = HotPartitions {
            halved: begun,
            ..HotPartitions::default()
        };
        for _ in 0..1000 {
            hot.count("a", "t", "then", begun);
        }
        assert_eq!(hot.top(1, after(1) - Duration::from_secs(1))[0].1, 1000);
        assert_eq!(hot.top(1, after(1))[0].1, 500);
        assert_eq!(hot.top(1, after(1))[0].1, 500, "a look changes nothing");
        for _ in 0..200 {
            hot.count("a", "t", "now", after(3));
        }
        let top = hot.top(2, after(3));
        assert_eq!((top[0].0.2.as_str(), top[1].0.2.as_str()), ("now", "then"));
        assert_eq!((top[0].1, top[1].1), (200, 125));
        assert_eq!(hot.top(2, after(3 + 200)), []);
    }
}
