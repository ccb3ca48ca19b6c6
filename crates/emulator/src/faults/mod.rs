//! A bad day on demand: throttling, timeouts, resets and latency, as clients of the cloud meet them.

mod bucket;
mod decision;
mod settings;
mod work;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use table_service_gateway::failure::Failure;
use table_service_gateway::gateway::hook::{Decision, End, HookedRequest};
use tokio::time::Instant;

use self::bucket::Bucket;
use self::decision::{Fault, When, decide};
use self::settings::Throttle;
use self::work::Work;

pub use self::settings::FaultSettings;

/// The number of different requests that are remembered. When there are more, all are forgotten.
const REMEMBERED: usize = 1_000_000;
/// The number of partitions with a bucket before full buckets are removed for the first time.
const BUCKETS: usize = 10_000;

/// The faults of an emulator. They can be changed while it runs.
#[derive(Default)]
pub struct Faults {
    /// Whether there are any. Without them requests are not read.
    are_on: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    settings: FaultSettings,
    /// The number of requests so far, by the number of their work.
    seen: HashMap<u64, u64>,
    accounts: HashMap<usize, Bucket>,
    partitions: HashMap<(usize, (String, String)), Bucket>,
    /// The number of buckets that were left when full ones were last removed.
    busy: usize,
}

impl Faults {
    /// Makes faults, and forgets no request, because there was none.
    pub fn new(settings: FaultSettings) -> Faults {
        let faults = Faults::default();
        faults.set(settings);
        faults
    }

    /// Returns the settings that hold now.
    pub fn settings(&self) -> FaultSettings {
        self.state.lock().settings.clone()
    }

    /// Sets other faults, and forgets all earlier requests.
    pub fn set(&self, settings: FaultSettings) {
        let mut state = self.state.lock();
        let are_on = settings.throttle.is_some() || settings.inject.is_some();
        *state = State {
            settings,
            ..State::default()
        };
        // Under the lock, so that the flag and the settings of two calls at once agree.
        self.are_on.store(are_on, Ordering::Relaxed);
    }

    /// Forgets all earlier requests, so that the same requests meet the same faults again.
    pub fn begin_anew(&self) {
        let mut state = self.state.lock();
        *state = State {
            settings: std::mem::take(&mut state.settings),
            ..State::default()
        };
    }

    /// Decides about a request.
    pub fn decide(&self, request: &HookedRequest<'_>) -> Decision {
        self.decide_on(request.tenant.number, || Work::of(request))
    }

    /// Decides about a request of an account. Without faults its work is not read.
    fn decide_on(&self, account: usize, work: impl FnOnce() -> Work) -> Decision {
        if !self.are_on.load(Ordering::Relaxed) {
            return Decision::default();
        }
        let work = work();
        let (fault, delay) = self.state.lock().fault(account, &work, Instant::now());
        Decision {
            table: Some(work.table),
            delay,
            ..fault.map(decision).unwrap_or_default()
        }
    }
}

impl State {
    /// Returns the fault that a request meets, and its latency.
    fn fault(&mut self, account: usize, work: &Work, now: Instant) -> (Option<Fault>, Duration) {
        let (injected, latency) = match self.settings.inject {
            Some(inject) => {
                let identity = work.identity();
                let earlier = self.count(identity);
                decide(&inject, self.settings.seed, identity, earlier)
            }
            None => (None, Duration::ZERO),
        };
        let throttle = self.settings.throttle.unwrap_or_default();
        let fault = match self.is_within(throttle, account, work, now) {
            true => injected,
            false => Some(Fault::Limit),
        };
        (fault, latency)
    }

    /// Counts a request, and returns the number of equal requests before it.
    fn count(&mut self, identity: u64) -> u64 {
        if self.seen.len() >= REMEMBERED && !self.seen.contains_key(&identity) {
            self.seen.clear();
        }
        let seen = self.seen.entry(identity).or_default();
        let earlier = *seen;
        *seen += 1;
        earlier
    }

    /// Returns whether a request is within the limits. It uses both or none of them.
    fn is_within(&mut self, throttle: Throttle, account: usize, work: &Work, now: Instant) -> bool {
        let mut used = Vec::with_capacity(2);
        if let Some(limit) = throttle.account {
            let bucket = self.accounts.entry(account).or_insert_with(|| Bucket::full(limit, now));
            used.push((limit, bucket));
        }
        if let Some((limit, partition)) = throttle.partition.zip(work.partition()) {
            // Not before their number has doubled, so that few requests pay for it.
            if self.partitions.len() >= BUCKETS.max(2 * self.busy) {
                self.partitions.retain(|_, bucket| !bucket.is_full(limit, now));
                self.busy = self.partitions.len();
            }
            let bucket = match self.partitions.entry((account, partition)) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(Bucket::full(limit, now)),
            };
            used.push((limit, bucket));
        }
        let is_within = used
            .iter_mut()
            .all(|(limit, bucket)| bucket.has(*limit, work.entities, now));
        if is_within {
            used.into_iter().for_each(|(_, bucket)| bucket.take(work.entities));
        }
        is_within
    }
}

/// Returns the decision about a request that meets a fault, with the fault's name in the options, or `throttle`.
fn decision(fault: Fault) -> Decision {
    let busy = |reason: &str| End::Failure(Failure::busy(reason));
    let (name, end, when) = match fault {
        Fault::Limit => {
            let end = busy("More entities a second than --throttle allows");
            ("throttle", end, When::BeforeWork)
        }
        Fault::Busy => ("503", busy("An injected fault"), When::BeforeWork),
        Fault::Timeout(when) => {
            let end = End::Failure(Failure::timed_out("An injected fault"));
            ("timeout", end, when)
        }
        Fault::Reset(when) => ("reset", End::Close, when),
    };
    let (before, after) = match when {
        When::BeforeWork => (Some(end), None),
        When::AfterWork => (None, Some(end)),
    };
    Decision {
        name: Some(name),
        before,
        after,
        ..Decision::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(partition_key: &str, entities: u32) -> Work {
        Work::new("POST", "Things", Some((partition_key, "r")), entities)
    }

    fn faults(throttle: Option<&str>, inject: Option<&str>) -> Faults {
        Faults::new(FaultSettings {
            throttle: throttle.map(|text| text.parse().unwrap()),
            inject: inject.map(|text| text.parse().unwrap()),
            seed: 1,
        })
    }

    fn meets(faults: &Faults, account: usize, partition_key: &str, entities: u32) -> Option<Fault> {
        faults
            .state
            .lock()
            .fault(account, &work(partition_key, entities), Instant::now())
            .0
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_counts_its_operations_in_partition_and_account() {
        let faults = faults(Some("partition=150,account=250"), None);
        assert_eq!(meets(&faults, 0, "a", 100), None);
        assert_eq!(meets(&faults, 0, "a", 100), Some(Fault::Limit));
        assert_eq!(meets(&faults, 0, "a", 50), None);
        assert_eq!(meets(&faults, 0, "a", 1), Some(Fault::Limit));
        // A refused request uses nothing.
        assert_eq!(meets(&faults, 0, "b", 100), None);
        assert_eq!(meets(&faults, 0, "b", 1), Some(Fault::Limit));
        assert_eq!(meets(&faults, 1, "b", 100), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(meets(&faults, 0, "a", 150), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_larger_than_the_limits_can_be_done() {
        let faults = faults(Some("partition=50,account=80"), None);
        assert_eq!(meets(&faults, 0, "a", 100), None);
        assert_eq!(meets(&faults, 0, "a", 1), Some(Fault::Limit));
        assert_eq!(meets(&faults, 0, "b", 1), Some(Fault::Limit));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(meets(&faults, 0, "a", 100), None);
    }

    #[tokio::test(start_paused = true)]
    async fn full_buckets_are_forgotten_when_there_are_twice_as_many_as_were_busy() {
        let faults = faults(Some("partition=1"), None);
        let request = |number: usize| meets(&faults, 0, &number.to_string(), 1);
        let buckets = || faults.state.lock().partitions.len();
        assert!((0..=BUCKETS).all(|number| request(number).is_none()));
        assert_eq!(buckets(), BUCKETS + 1);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!((BUCKETS + 1..2 * BUCKETS).all(|number| request(number).is_none()));
        assert_eq!(buckets(), 2 * BUCKETS, "none is removed in between");
        assert_eq!(request(2 * BUCKETS), None);
        assert_eq!(buckets(), BUCKETS, "those of a second ago are full");
        assert_eq!(request(2 * BUCKETS), Some(Fault::Limit));
    }

    #[test]
    fn without_settings_no_request_is_read() {
        let off = faults(None, None);
        let decision = off.decide_on(0, || panic!("it reads the request"));
        assert!(decision.name.is_none() && decision.before.is_none() && decision.after.is_none());
    }

    #[test]
    fn the_last_settings_count_whatever_else_is_called_at_once() {
        let (off, on) = (FaultSettings::default(), faults(None, Some("503=100%")).settings());
        for _ in 0..2000 {
            let faults = Faults::default();
            std::thread::scope(|threads| {
                threads.spawn(|| faults.set(off.clone()));
                threads.spawn(|| faults.set(on.clone()));
            });
            let happens = faults.decide_on(0, || work("p", 1)).name.is_some();
            assert_eq!(happens, faults.settings() == on);

            faults.set(off.clone());
            std::thread::scope(|threads| {
                threads.spawn(|| faults.begin_anew());
                threads.spawn(|| faults.set(on.clone()));
            });
            assert_eq!(faults.settings(), on);
        }
    }

    #[test]
    fn the_same_requests_meet_the_same_faults_after_a_new_beginning() {
        let faults = faults(None, Some("503=30%,timeout=30%"));
        let hundred = || (0..100).map(|_| meets(&faults, 0, "p", 1)).collect::<Vec<_>>();
        let first = hundred();
        assert_ne!(hundred(), first);
        faults.begin_anew();
        assert_eq!(hundred(), first);
        assert!(first.contains(&None), "a retry may succeed");
        faults.set(FaultSettings::default());
        assert!(hundred().iter().all(Option::is_none));
    }
}
