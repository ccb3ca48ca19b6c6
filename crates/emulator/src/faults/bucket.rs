//! A limit of entities a second.

use tokio::time::Instant;

/// The entities that may still be used. Each second fills a bucket up by the limit. A full bucket takes a batch that is larger than
/// the limit, and is below zero then. Otherwise such a batch could never be executed.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    left: f64,
    filled: Instant,
}

impl Bucket {
    /// Makes a full bucket.
    pub fn full(limit: u32, now: Instant) -> Bucket {
        Bucket {
            left: f64::from(limit),
            filled: now,
        }
    }

    /// Returns whether so many entities are within the limit now, or the bucket is full.
    pub fn has(&mut self, limit: u32, entities: u32, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.left = (self.left + passed * f64::from(limit)).min(f64::from(limit));
        self.filled = now;
        self.left >= f64::from(entities.min(limit))
    }

    /// Uses entities, also more than there are for a batch that is larger than the limit.
    pub fn take(&mut self, entities: u32) {
        self.left -= f64::from(entities);
    }

    /// Returns whether it would be full by now. A full bucket need not be kept.
    pub fn is_full(&self, limit: u32, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.left + passed * f64::from(limit) >= f64::from(limit)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_second_has_its_limit_and_time_fills_it_again() {
        let begin = Instant::now();
        let mut bucket = Bucket::full(10, begin);
        for _ in 0..10 {
            assert!(bucket.has(10, 1, begin));
            bucket.take(1);
        }
        assert!(!bucket.has(10, 1, begin));
        assert!(!bucket.is_full(10, begin + Duration::from_millis(900)));
        assert!(bucket.is_full(10, begin + Duration::from_secs(1)));
        assert!(bucket.has(10, 5, begin + Duration::from_millis(500)));
        assert!(!bucket.has(10, 6, begin + Duration::from_millis(500)));
        assert!(bucket.has(10, 10, begin + Duration::from_secs(60)));
    }

    #[test]
    fn a_full_one_takes_a_batch_larger_than_the_limit_and_pays_for_it() {
        let begin = Instant::now();
        let mut bucket = Bucket::full(50, begin);
        bucket.take(1);
        assert!(!bucket.has(50, 100, begin));
        let full = begin + Duration::from_secs(1);
        assert!(bucket.has(50, 100, full));
        bucket.take(100);
        assert!(!bucket.has(50, 1, full + Duration::from_secs(1)));
        assert!(!bucket.is_full(50, full + Duration::from_millis(1500)));
        assert!(bucket.has(50, 25, full + Duration::from_millis(1500)));
        assert!(!bucket.has(50, 26, full + Duration::from_millis(1500)));
        assert!(bucket.has(50, 100, full + Duration::from_secs(2)));
    }
}
