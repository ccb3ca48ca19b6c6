//! The clients' exponential retry policy.

/// Returns how long to wait before retry number `retry`, in microseconds: `min(minimum + r · (2^retry − 1), maximum)`
/// with `r` drawn evenly from 80 to 120 per cent of `default_backoff`. `random` is evenly distributed in 0..1.
///
/// The formula and its bounds are those of the Table service's client libraries.
///
/// ```
/// use table_service_model::retry::delay;
///
/// let second = 1_000_000;
/// let wait = |retry| delay(retry, 30 * second, 3 * second, 90 * second, 0.5);
/// assert_eq!([0, 1, 2].map(wait), [3, 33, 90].map(|seconds| seconds * second));
/// ```
pub fn delay(retry: u32, default_backoff: i64, minimum: i64, maximum: i64, random: f64) -> i64 {
    let factor = 2f64.powi(i32::try_from(retry.min(1000)).unwrap_or(1000)) - 1.0;
    let increment = default_backoff as f64 * (0.8 + 0.4 * random) * factor;
    // `as` saturates, so a wait beyond all bounds is the longest one.
    minimum.saturating_add(increment as i64).min(maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn waits_the_minimum_first_then_doubles_within_20_per_cent_up_to_the_maximum() {
        let delay = |retry, random| delay(retry, 4 * SECOND, 3 * SECOND, 90 * SECOND, random);
        assert_eq!(delay(0, 0.5), 3 * SECOND);
        assert_eq!(delay(1, 0.5), 7 * SECOND);
        assert_eq!(delay(2, 0.5), 15 * SECOND);
        assert_eq!(delay(1, 0.0), 6_200_000);
        assert_eq!(delay(1, 1.0), 7_800_000);
        assert_eq!(delay(10, 0.5), 90 * SECOND);
        assert_eq!(delay(u32::MAX, 0.5), 90 * SECOND);
    }

    #[test]
    fn a_maximum_below_the_minimum_wins() {
        assert_eq!(delay(3, SECOND, 5 * SECOND, 2 * SECOND, 0.3), 2 * SECOND);
    }
}
