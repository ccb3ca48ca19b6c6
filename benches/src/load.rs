//! Load: some clients that each do one thing after the other for some time.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::Error;

/// What one client does, again and again.
pub trait Worker {
    /// Does it once. Returns the number of entities.
    ///
    /// # Errors
    /// What the server says. It ends the measurement.
    fn step(&mut self) -> impl Future<Output = Result<u64, Error>> + Send;
}

/// What happened within a time.
#[derive(Debug, Clone)]
pub struct Measured {
    pub steps: u64,
    pub entities: u64,
    pub elapsed: Duration,
    /// Of one step, in microseconds.
    pub latency: Histogram<u64>,
}

impl Measured {
    fn nothing() -> Result<Measured, Error> {
        Ok(Measured {
            steps: 0,
            entities: 0,
            elapsed: Duration::ZERO,
            // Up to a minute, to three digits.
            latency: Histogram::new_with_bounds(1, 60_000_000, 3)?,
        })
    }

    /// Steps in a second.
    pub fn rate(&self) -> f64 {
        self.steps as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Entities in a second.
    pub fn entities_rate(&self) -> f64 {
        self.entities as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Adds what another client did in the same time.
    ///
    /// # Errors
    /// Never: all histograms have the same bounds.
    pub fn add(&mut self, other: &Measured) -> Result<(), Error> {
        self.steps += other.steps;
        self.entities += other.entities;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.latency.add(&other.latency)?;
        Ok(())
    }

    /// Adds what was done in a time after this one.
    ///
    /// # Errors
    /// Never, as for `add`.
    pub fn follow(&mut self, other: &Measured) -> Result<(), Error> {
        let elapsed = self.elapsed + other.elapsed;
        self.add(other)?;
        self.elapsed = elapsed;
        Ok(())
    }

    /// The time within which this part of the steps was done, in microseconds.
    pub fn within(&self, quantile: f64) -> u64 {
        self.latency.value_at_quantile(quantile)
    }
}

/// Lets a worker work for a time. The last step may end later, and its time counts.
pub async fn run(worker: &mut impl Worker, time: Duration) -> Result<Measured, Error> {
    let mut measured = Measured::nothing()?;
    let start = Instant::now();
    let mut before = start;
    while measured.elapsed < time {
        let entities = worker.step().await?;
        let now = Instant::now();
        measured.steps += 1;
        measured.entities += entities;
        let micros = u64::try_from((now - before).as_micros()).unwrap_or(u64::MAX);
        measured.latency.saturating_record(micros);
        measured.elapsed = now - start;
        before = now;
    }
    Ok(measured)
}

/// Lets all workers work at once for a time.
pub async fn run_all<W: Worker + Send + 'static>(workers: &mut Vec<W>, time: Duration) -> Result<Measured, Error> {
    let mut running = tokio::task::JoinSet::new();
    for mut worker in workers.drain(..) {
        running.spawn(async move {
            let measured = run(&mut worker, time).await;
            (worker, measured)
        });
    }
    let mut total = Measured::nothing()?;
    while let Some(done) = running.join_next().await {
        let (worker, measured) = done?;
        total.add(&measured?)?;
        workers.push(worker);
    }
    Ok(total)
}
