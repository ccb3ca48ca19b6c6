//! Work that goes on when its task ends.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A future that runs in the task that waits for it. If that task ends, a new task finishes it. A task of its own from the beginning would
/// cost every request two switches between tasks.
pub struct Uncancelled<T: Send + 'static>(Option<Pin<Box<dyn Future<Output = T> + Send>>>);

impl<T: Send> Uncancelled<T> {
    /// Begins nothing: the work begins when it is polled.
    pub fn new(work: impl Future<Output = T> + Send + 'static) -> Uncancelled<T> {
        Uncancelled(Some(Box::pin(work)))
    }
}

impl<T: Send> Future for Uncancelled<T> {
    /// The result, or the value of a panic.
    type Output = Result<T, Box<dyn Any + Send>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.0 else {
            return Poll::Pending;
        };
        // After a panic the work is dropped and not polled again.
        let polled = match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => Ok(result),
            Err(panic) => Err(panic),
        };
        self.0 = None;
        Poll::Ready(polled)
    }
}

impl<T: Send> Drop for Uncancelled<T> {
    fn drop(&mut self) {
        // Without a runtime the program is ending.
        if let (Some(work), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::sync::Notify;
    use tokio::time::{sleep, timeout};

    #[tokio::test(start_paused = true)]
    async fn work_goes_on_when_nobody_waits_for_it() {
        let done = Arc::new(Notify::new());
        let noticed = done.clone();
        let work = Uncancelled::new(async move {
            sleep(Duration::from_secs(2)).await;
            done.notify_one();
        });
        assert!(timeout(Duration::from_secs(1), work).await.is_err());
        timeout(Duration::from_secs(5), noticed.notified()).await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_is_a_result() {
        assert_eq!(Uncancelled::new(async { 1 }).await.unwrap(), 1);
        let panic = Uncancelled::new(async { assert_eq!(1, 2, "as planned") })
            .await
            .unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("as planned"));
    }
}
