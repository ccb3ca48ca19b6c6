//! Work on many things, several at a time.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::failure::Failure;

/// Does the work on each item, at most so many at a time. The first error ends all.
pub async fn each<T, F, W>(workers: usize, items: Vec<T>, work: F) -> Result<(), Failure>
where
    T: Send + 'static,
    F: Fn(T) -> W + Clone + Send + Sync + 'static,
    W: Future<Output = Result<(), Failure>> + Send,
{
    let workers = workers.min(items.len());
    let items = Arc::new(Mutex::new(items.into_iter()));
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let (items, work) = (items.clone(), work.clone());
        tasks.spawn(async move {
            let next = || items.lock().next();
            while let Some(item) = next() {
                work(item).await?;
            }
            Ok(())
        });
    }
    joined(tasks).await
}

/// Waits until all tasks have ended. The first error ends all: dropping the set stops its tasks.
pub async fn joined(mut tasks: JoinSet<Result<(), Failure>>) -> Result<(), Failure> {
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| Failure::new(error.to_string()))??;
    }
    Ok(())
}
