//! Futures that wake themselves.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Wake, Waker};

/// The most polls in a row. Then other tasks have their turn.
const POLLS: usize = 8;

/// A future that is polled again at once if it wakes its task while it is polled, as hyper does when a body is read. The runtime would
/// put the task into its queue and wake another thread for it, which takes more processor time than the poll.
pub struct SelfWaking<F> {
    future: F,
    own: Option<(Arc<OwnWaker>, Waker)>,
}

impl<F: Future + Unpin> SelfWaking<F> {
    /// Makes such a future of any other one.
    pub fn new(future: F) -> SelfWaking<F> {
        SelfWaking { future, own: None }
    }
}

impl<F: Future + Unpin> Future for SelfWaking<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let SelfWaking { future, own } = &mut *self;
        let (own, waker) = match own {
            Some(own) if own.0.task.will_wake(context.waker()) => own,
            own => {
                let new = Arc::new(OwnWaker {
                    task: context.waker().clone(),
                    state: AtomicU8::new(WAITS),
                });
                own.insert((new.clone(), Waker::from(new)))
            }
        };
        for _ in 0..POLLS {
            own.state.store(IS_POLLED, SeqCst);
            if let Poll::Ready(result) = Pin::new(&mut *future).poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(result);
            }
            if own.state.swap(WAITS, SeqCst) == IS_POLLED {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Nobody polls: a wake is passed on to the task.
const WAITS: u8 = 0;
/// A wake is noted.
const IS_POLLED: u8 = 1;
/// A wake was noted.
const WOKEN: u8 = 2;

struct OwnWaker {
    task: Waker,
    state: AtomicU8,
}

impl Wake for OwnWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.compare_exchange(IS_POLLED, WOKEN, SeqCst, SeqCst) == Err(WAITS) {
            self.task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    /// Polls a future that wakes its task in the first `wakes` polls, and is ready in the poll after `pending` others. Returns whether it is
    /// ready, how often it was polled, and how often its task was woken.
    fn polled(wakes: usize, pending: usize) -> (bool, usize, usize) {
        let (task, mut polls) = (Arc::new(Wakes::default()), 0);
        let future = SelfWaking::new(poll_fn(|context| {
            if polls < wakes {
                context.waker().wake_by_ref();
                // A second wake is no more than the first.
                context.waker().wake_by_ref();
            }
            polls += 1;
            if polls > pending {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        }));
        let is_ready = std::pin::pin!(future)
            .poll(&mut Context::from_waker(&Waker::from(task.clone())))
            .is_ready();
        (is_ready, polls, task.0.load(SeqCst))
    }

    #[test]
    fn a_future_that_wakes_itself_is_polled_again() {
        assert_eq!(polled(0, 0), (true, 1, 0));
        assert_eq!(polled(0, 1), (false, 1, 0));
        assert_eq!(polled(2, 2), (true, 3, 0));
        assert_eq!(polled(2, 5), (false, 3, 0));
        // Other tasks have their turn.
        assert_eq!(polled(100, 100), (false, POLLS, 1));
    }

    #[test]
    fn a_wake_in_between_wakes_the_task() {
        let (task, mut kept) = (Arc::new(Wakes::default()), None);
        let mut future = SelfWaking::new(poll_fn(|context| {
            kept = Some(context.waker().clone());
            Poll::<()>::Pending
        }));
        let waker = Waker::from(task.clone());
        assert!(
            Pin::new(&mut future)
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        drop(future);
        kept.unwrap().wake();
        assert_eq!(task.0.load(SeqCst), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_wake_of_another_thread_is_lost() {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(SelfWaking::new(Box::pin(async move {
            for number in 0..100_000 {
                sender.send(number).unwrap();
                if number % 7 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        })));
        let received = tokio::spawn(SelfWaking::new(Box::pin(async move {
            let mut received = 0;
            while receiver.recv().await.is_some() {
                received += 1;
            }
            received
        })));
        assert_eq!(received.await.unwrap(), 100_000);
    }
}
