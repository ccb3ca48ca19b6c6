//! Load: some clients that each do one thing after the other for some time.

use std::time::{Duration, Instant};

use crate::Error;
use crate::operation::OperationWorker;

/// Lets all workers work at once for a time. Returns the steps in a second. The last ones may end later, and their time counts.
pub async fn rate(workers: &mut Vec<OperationWorker>, time: Duration) -> Result<f64, Error> {
    let mut running = tokio::task::JoinSet::new();
    let start = Instant::now();
    for mut worker in workers.drain(..) {
        running.spawn(async move {
            let mut steps: u64 = 0;
            while start.elapsed() < time {
                worker.step().await?;
                steps += 1;
            }
            Ok::<_, Error>((worker, steps))
        });
    }
    let mut steps = 0;
    while let Some(done) = running.join_next().await {
        let (worker, of_one) = done??;
        steps += of_one;
        workers.push(worker);
    }
    Ok(steps as f64 / start.elapsed().as_secs_f64())
}
