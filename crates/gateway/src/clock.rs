//! The clock.

use table_service_model::Ticks;

/// Returns the time now.
pub fn now() -> Ticks {
    const UNIX_EPOCH: i64 = 621_355_968_000_000_000;
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let ticks = i64::try_from(since.as_nanos() / 100).unwrap_or_default();
    Ticks::new(UNIX_EPOCH.saturating_add(ticks)).unwrap_or(Ticks::MAX)
}
