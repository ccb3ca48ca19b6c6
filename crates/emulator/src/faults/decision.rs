//! The fault that a request meets: a function of its arguments, so the same requests fail again.

use std::time::Duration;

use super::settings::{Inject, Latency, Percent};

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The request is beyond a limit.
    Limit,
    Busy,
    Timeout(When),
    Reset(When),
}

/// Whether a fault comes before or after the work. In the cloud a client cannot know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    BeforeWork,
    AfterWork,
}

/// Returns the fault of a request and its latency. `identity` is its number, `earlier` the number of equal requests before it.
pub fn decide(inject: &Inject, seed: u64, identity: u64, earlier: u64) -> (Option<Fault>, Duration) {
    let draw = |name: &str| {
        let number = hash(&[
            &seed.to_le_bytes(),
            name.as_bytes(),
            &identity.to_le_bytes(),
            &earlier.to_le_bytes(),
        ]);
        part(number)
    };
    let happens = |name: &str, share: Option<Percent>| share.is_some_and(|percent| draw(name) * 100.0 < percent.0);
    let when = |name: &str| match draw(name) < 0.5 {
        true => When::BeforeWork,
        false => When::AfterWork,
    };
    let injected = if happens("503", inject.busy) {
        Some(Fault::Busy)
    } else if happens("timeout", inject.timeout) {
        Some(Fault::Timeout(when("timeout, when")))
    } else if happens("reset", inject.reset) {
        Some(Fault::Reset(when("reset, when")))
    } else {
        None
    };
    let latency = inject.latency.map_or(Duration::ZERO, |Latency { least, most }| {
        least + most.saturating_sub(least).mul_f64(draw("latency"))
    });
    (injected, latency)
}

/// Returns a number from 0 to 1, without 1. A double keeps 53 bits of it.
fn part(number: u64) -> f64 {
    const BITS: u32 = 53;
    #[allow(clippy::cast_precision_loss, reason = "a double keeps these bits")]
    let part = (number >> (u64::BITS - BITS)) as f64 / (1_u64 << BITS) as f64;
    part
}

/// FNV-1a of the parts and their lengths, with the last step of MurmurHash3: every bit of the result depends on every bit before.
/// It is the same on every machine and in every version, unlike the one of the standard library.
pub fn hash(parts: &[&[u8]]) -> u64 {
    let mut state: u64 = 0xcbf2_9ce4_8422_2325;
    let mut take = |byte: u8| state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    for part in parts {
        part.iter().copied().for_each(&mut take);
        part.len().to_le_bytes().into_iter().for_each(&mut take);
    }
    state = (state ^ (state >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    state = (state ^ (state >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    state ^ (state >> 33)
}

#[cfg(test)]
mod tests {
    use super::super::work::Work;
    use super::*;

    fn inject(text: &str) -> Inject {
        text.parse().unwrap()
    }

    fn number(row_key: &str) -> u64 {
        Work::new("PUT", "Things", Some(("p", row_key)), 1).identity()
    }

    /// Returns the faults of 10,000 requests.
    fn faults(inject: &Inject, seed: u64) -> Vec<Option<Fault>> {
        let requests = (0..10_000).map(|row| number(&row.to_string()));
        requests.map(|identity| decide(inject, seed, identity, 0).0).collect()
    }

    #[test]
    fn the_same_requests_fail_again_and_others_with_another_seed() {
        let inject = inject("503=1%,timeout=1%,reset=1%");
        assert_eq!(faults(&inject, 7), faults(&inject, 7));
        assert_ne!(faults(&inject, 7), faults(&inject, 8));
    }

    /// Users may have noted the failures of a seed.
    #[test]
    fn decisions_do_not_change_between_versions() {
        assert_eq!(number("r"), 0x83de_0636_88df_749c);
        let failing: Vec<usize> = (0..10_000)
            .zip(faults(&inject("503=0.05%"), 1))
            .filter_map(|(row, fault)| fault.map(|_| row))
            .collect();
        assert_eq!(failing, [555, 902, 2512, 4651, 8479, 8847]);
    }

    #[test]
    fn a_retry_is_decided_anew() {
        let inject = inject("503=50%");
        let outcomes: Vec<bool> = (0..20)
            .map(|earlier| decide(&inject, 1, number("r"), earlier).0.is_some())
            .collect();
        assert!(outcomes.contains(&true) && outcomes.contains(&false), "{outcomes:?}");
    }

    #[test]
    fn faults_are_as_frequent_as_set_and_half_of_them_come_after_the_work() {
        let count = |faults: &[Option<Fault>], wanted: &[Fault]| {
            let is_wanted = |fault: &&Option<Fault>| fault.is_some_and(|fault| wanted.contains(&fault));
            faults.iter().filter(is_wanted).count()
        };
        let (before, after) = (When::BeforeWork, When::AfterWork);
        let faults = faults(&inject("503=10%,timeout=10%,reset=10%"), 3);
        assert!((900..1100).contains(&count(&faults, &[Fault::Busy])));
        for [first, second] in [
            [Fault::Timeout(before), Fault::Timeout(after)],
            [Fault::Reset(before), Fault::Reset(after)],
        ] {
            // The faults before take a part of the requests.
            assert!((700..1100).contains(&count(&faults, &[first, second])));
            assert!((350..550).contains(&count(&faults, &[first])));
        }
        assert_eq!(count(&faults, &[]), 0);
    }

    #[test]
    fn always_and_never_are_exact() {
        assert!(faults(&inject("503=100%"), 1).iter().all(Option::is_some));
        assert!(faults(&inject("503=0%"), 1).iter().all(Option::is_none));
    }

    #[test]
    fn latencies_are_within_their_range() {
        let inject = inject("latency=20ms..200ms");
        let latencies = (0..1000).map(|row| decide(&inject, 1, number(&row.to_string()), 0).1.as_millis());
        let latencies: Vec<u128> = latencies.collect();
        assert!(latencies.iter().all(|latency| (20..=200).contains(latency)));
        assert!(latencies.iter().any(|latency| *latency < 50) && latencies.iter().any(|latency| *latency > 170));
    }

    #[test]
    fn no_two_identities_share_their_text() {
        let identity = |partition_key, row_key| Work::new("PUT", "t", Some((partition_key, row_key)), 1).identity();
        assert_ne!(identity("ab", "c"), identity("a", "bc"));
    }
}
