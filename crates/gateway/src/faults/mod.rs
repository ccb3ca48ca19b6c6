//! A bad day on demand: throttling, timeouts, resets and latency, as clients of the cloud meet them. Only the emulator has it.

mod asked;
mod bucket;
mod decision;
mod settings;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use table_service_model::error::RequestError;
use tokio::time::Instant;

use self::bucket::Bucket;
use self::decision::{Injected, When, decide};
use crate::failure::Failure;
use crate::response::Reply;

pub use self::asked::Asked;
pub use self::settings::{FaultSettings, Inject, Throttle};

/// How many requests are remembered, and how many partitions. Who sends more different ones begins anew.
const REMEMBERED: usize = 1_000_000;
/// How many partitions may have a bucket before those that are full are forgotten for the first time.
const BUCKETS: usize = 10_000;

/// The faults of an emulator. They can be changed while it runs.
#[derive(Default)]
pub struct Faults {
    /// Whether there are any: without them a request looks at nothing else.
    are_on: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    settings: FaultSettings,
    /// How often a request came, by the number of its identity.
    seen: HashMap<u64, u64>,
    accounts: HashMap<usize, Bucket>,
    partitions: HashMap<(usize, String, String), Bucket>,
    /// How many partitions were busy when the others were last forgotten.
    busy: usize,
}

impl Faults {
    pub fn new(settings: FaultSettings) -> Faults {
        let faults = Faults::default();
        faults.set(settings);
        faults
    }

    pub fn settings(&self) -> FaultSettings {
        self.state().settings.clone()
    }

    /// Other faults from now on. What came before is forgotten.
    pub fn set(&self, settings: FaultSettings) {
        let mut state = self.state();
        let are_on = settings.throttle.is_some() || settings.inject.is_some();
        *state = State {
            settings,
            ..State::default()
        };
        // Under the lock: of two that are set at once, both say the same.
        self.are_on.store(are_on, Ordering::Relaxed);
    }

    /// Forgets what came before, so that the same requests meet the same faults again.
    pub fn begin_anew(&self) {
        let mut state = self.state();
        *state = State {
            settings: std::mem::take(&mut state.settings),
            ..State::default()
        };
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the fault that a request of an account meets. `asked` says what it asks for, if that matters.
    pub fn of(&self, account: usize, asked: impl FnOnce() -> Asked) -> Fault {
        if !self.are_on.load(Ordering::Relaxed) {
            return Fault::default();
        }
        let asked = asked();
        self.state().fault(account, &asked, Instant::now())
    }
}

impl State {
    fn fault(&mut self, account: usize, asked: &Asked, now: Instant) -> Fault {
        let (injected, latency) = match self.settings.inject {
            Some(inject) => {
                let identity = asked.identity().number();
                let earlier = self.count(identity);
                decide(&inject, self.settings.seed, identity, earlier)
            }
            None => (None, Duration::ZERO),
        };
        let throttle = self.settings.throttle.unwrap_or_default();
        let is_beyond = !self.is_within(throttle, account, asked, now);
        let meets = match is_beyond {
            true => Some(Meets::Limit),
            false => injected.map(Meets::Injected),
        };
        Fault { meets, latency }
    }

    /// Returns how often a request came before.
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
    fn is_within(&mut self, throttle: Throttle, account: usize, asked: &Asked, now: Instant) -> bool {
        let mut used = Vec::with_capacity(2);
        if let Some(limit) = throttle.account {
            let bucket = self.accounts.entry(account).or_insert_with(|| Bucket::full(limit, now));
            used.push((limit, bucket));
        }
        if let Some((limit, key)) = throttle.partition.zip(asked.partition(account)) {
            // Not before there are twice as many, so that a request seldom looks at all of them.
            if self.partitions.len() >= BUCKETS.max(2 * self.busy) {
                self.partitions.retain(|_, bucket| !bucket.is_full(limit, now));
                self.busy = self.partitions.len();
            }
            let bucket = match self.partitions.entry(key) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(Bucket::full(limit, now)),
            };
            used.push((limit, bucket));
        }
        let is_within = used
            .iter_mut()
            .all(|(limit, bucket)| bucket.has(*limit, asked.entities, now));
        if is_within {
            used.into_iter().for_each(|(_, bucket)| bucket.take(asked.entities));
        }
        is_within
    }
}

/// What a request meets.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    meets: Option<Meets>,
    latency: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meets {
    Limit,
    Injected(Injected),
}

impl Fault {
    /// Returns the fault's name in the options, or `throttle`.
    pub fn name(&self) -> Option<&'static str> {
        self.meets.map(|meets| match meets {
            Meets::Limit => "throttle",
            Meets::Injected(Injected::Busy) => "503",
            Meets::Injected(Injected::Timeout(_)) => "timeout",
            Meets::Injected(Injected::Reset(_)) => "reset",
        })
    }

    /// Waits, and answers if the work is not to be done.
    pub async fn before(&self) -> Option<Result<Reply, Failure>> {
        if !self.latency.is_zero() {
            tokio::time::sleep(self.latency).await;
        }
        self.answer(When::BeforeWork)
    }

    /// Returns the answer when the work is done: not what it has been, if the client is not to know.
    ///
    /// # Errors
    /// Those of the work, or the one that is injected.
    pub fn after(&self, result: Result<Reply, Failure>) -> Result<Reply, Failure> {
        self.answer(When::AfterWork).unwrap_or(result)
    }

    fn answer(&self, now: When) -> Option<Result<Reply, Failure>> {
        let is_before = now == When::BeforeWork;
        match self.meets? {
            Meets::Limit if is_before => Some(Err(busy("More entities a second than --throttle allows"))),
            Meets::Injected(Injected::Busy) if is_before => Some(Err(busy("An injected fault"))),
            Meets::Injected(Injected::Timeout(when)) if when == now => {
                let reason = "An injected fault".to_owned();
                Some(Err(RequestError::OperationTimedOut { reason }.into()))
            }
            Meets::Injected(Injected::Reset(when)) if when == now => Some(Ok(Reply::none())),
            _ => None,
        }
    }
}

fn busy(reason: &str) -> Failure {
    let reason = reason.to_owned();
    RequestError::ServerBusy { reason }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(partition_key: &str, entities: u32) -> Asked {
        Asked::new("POST", "Things", Some((partition_key, "r")), entities)
    }

    fn faults(throttle: Option<&str>, inject: Option<&str>) -> Faults {
        Faults::new(FaultSettings {
            throttle: throttle.map(|text| text.parse().unwrap()),
            inject: inject.map(|text| text.parse().unwrap()),
            seed: 1,
        })
    }

    fn meets(faults: &Faults, account: usize, partition_key: &str, entities: u32) -> Option<Meets> {
        faults
            .state()
            .fault(account, &asked(partition_key, entities), Instant::now())
            .meets
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_counts_its_operations_in_partition_and_account() {
        let faults = faults(Some("partition=150,account=250"), None);
        assert_eq!(meets(&faults, 0, "a", 100), None);
        assert_eq!(meets(&faults, 0, "a", 100), Some(Meets::Limit));
        assert_eq!(meets(&faults, 0, "a", 50), None);
        assert_eq!(meets(&faults, 0, "a", 1), Some(Meets::Limit));
        // What is refused uses nothing.
        assert_eq!(meets(&faults, 0, "b", 100), None);
        assert_eq!(meets(&faults, 0, "b", 1), Some(Meets::Limit));
        assert_eq!(meets(&faults, 1, "b", 100), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(meets(&faults, 0, "a", 150), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_larger_than_the_limits_can_be_done() {
        let faults = faults(Some("partition=50,account=80"), None);
        assert_eq!(meets(&faults, 0, "a", 100), None);
        assert_eq!(meets(&faults, 0, "a", 1), Some(Meets::Limit));
        assert_eq!(meets(&faults, 0, "b", 1), Some(Meets::Limit));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(meets(&faults, 0, "a", 100), None);
    }

    #[tokio::test(start_paused = true)]
    async fn full_buckets_are_forgotten_when_there_are_twice_as_many_as_were_busy() {
        let faults = faults(Some("partition=1"), None);
        let request = |number: usize| meets(&faults, 0, &number.to_string(), 1);
        let buckets = || faults.state().partitions.len();
        assert!((0..=BUCKETS).all(|number| request(number).is_none()));
        assert_eq!(buckets(), BUCKETS + 1);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!((BUCKETS + 1..2 * BUCKETS).all(|number| request(number).is_none()));
        assert_eq!(buckets(), 2 * BUCKETS, "nothing is looked at in between");
        assert_eq!(request(2 * BUCKETS), None);
        assert_eq!(buckets(), BUCKETS, "those of a second ago are full");
        assert_eq!(request(2 * BUCKETS), Some(Meets::Limit));
    }

    #[test]
    fn without_settings_nothing_is_looked_at() {
        let off = faults(None, None);
        let fault = off.of(0, || panic!("it looks at the request"));
        assert_eq!(fault, Fault::default());
    }

    #[test]
    fn what_is_set_happens_whoever_else_sets_or_begins_anew() {
        let (off, on) = (FaultSettings::default(), faults(None, Some("503=100%")).settings());
        for _ in 0..2000 {
            let faults = Faults::default();
            std::thread::scope(|threads| {
                threads.spawn(|| faults.set(off.clone()));
                threads.spawn(|| faults.set(on.clone()));
            });
            let happens = faults.of(0, || asked("p", 1)).meets.is_some();
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
