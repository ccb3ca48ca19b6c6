//! Fair shares of the gateway's limited resources between accounts: permits to run, and memory.
//!
//! The law. T is the whole amount. `own` is the part that every account is guaranteed, C = T − Σ own is common, and
//! over_i = max(0, used_i − own) is the part of C that account i has borrowed.
//!
//! - *Safety*: always Σ over_i ≤ C. So never more than T is in use.
//! - *Guarantee*: a request for x gets it at once if used_i + x ≤ own, whatever other accounts hold or wait for. `own` is at least
//!   the need of one request; if T is too small for that, there are no shares.
//! - *Borrowing*: otherwise x is granted if the safety still holds and no request of the same account waits. If not, the request
//!   waits in the queue of its account. When an amount is given back, the accounts are served round robin, each the first request of
//!   its queue, if it fits. A request that does not fit is passed over: in the end its account's own part serves it. Borrowing never
//!   delays a guarantee.
//! - *No hold and wait*: a request takes all that it may need in one step. From then on it only gives back.
//! - *Return*: every holding ends in a known time. For permits that is the time limit of requests; for memory it is that of
//!   bodies, of requests and of responses together. Then the connection is cut.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

/// An amount that accounts share. Accounts are numbered from zero.
pub struct Shares {
    /// The part that each account is guaranteed.
    own: usize,
    /// The part for all.
    common: usize,
    state: Mutex<State>,
    /// Notified when nothing is used.
    unused: Notify,
}

struct State {
    accounts: Vec<Account>,
    used: usize,
    /// The amount that all accounts have borrowed.
    over: usize,
    /// The number of requests in the queues. The first of each still waits.
    waiting: usize,
    /// The account that is served next.
    next: usize,
}

#[derive(Default)]
struct Account {
    used: usize,
    queue: VecDeque<Waiter>,
}

struct Waiter {
    least: usize,
    most: usize,
    granted: oneshot::Sender<Share>,
}

/// The amount that a request has taken. It is given back when this is dropped.
pub struct Share {
    shares: Arc<Shares>,
    account: usize,
    amount: usize,
}

impl Shares {
    /// Divides half of an amount between the accounts, but at least `need` for each, the need of one request.
    ///
    /// # Errors
    /// The amount that these accounts need, if it is more.
    pub fn new(total: usize, accounts: usize, need: usize) -> Result<Arc<Shares>, usize> {
        let accounts = accounts.max(1);
        let needed = need.saturating_mul(accounts);
        if needed > total {
            return Err(needed);
        }
        let own = (total / 2 / accounts).max(need);
        Ok(Arc::new(Shares {
            own,
            common: total - own * accounts,
            state: Mutex::new(State {
                accounts: std::iter::repeat_with(Account::default).take(accounts).collect(),
                used: 0,
                over: 0,
                waiting: 0,
                next: 0,
            }),
            unused: Notify::new(),
        }))
    }

    /// Takes an amount if it is free.
    pub fn try_take(self: &Arc<Self>, account: usize, amount: usize) -> Option<Share> {
        self.take_now(&mut self.state.lock(), account, amount, amount)
    }

    /// Takes as much as is free, between two amounts, as soon as it is free. `None` if it is not in time.
    pub async fn take(
        self: &Arc<Self>,
        account: usize,
        least: usize,
        most: usize,
        patience: Duration,
    ) -> Option<Share> {
        let mut waiting = {
            let mut state = self.state.lock();
            if let Some(share) = self.take_now(&mut state, account, least, most) {
                return Some(share);
            }
            let (granted, receiver) = oneshot::channel();
            state
                .accounts
                .get_mut(account)?
                .queue
                .push_back(Waiter { least, most, granted });
            state.waiting += 1;
            Waiting {
                shares: self,
                granted: receiver,
            }
        };
        // All requests before it in the queue may have given up.
        self.serve(self.state.lock());
        if let Ok(granted) = timeout(patience, &mut waiting.granted).await {
            return granted.ok();
        }
        waiting.granted.close();
        waiting.granted.try_recv().ok()
    }

    /// Returns the amount that all accounts use.
    pub fn used(&self) -> usize {
        self.state.lock().used
    }

    /// Ends when nothing is used.
    pub async fn all_given_back(&self) {
        loop {
            let unused = self.unused.notified();
            tokio::pin!(unused);
            unused.as_mut().enable();
            if self.used() == 0 {
                return;
            }
            unused.await;
        }
    }

    /// Takes an amount for a request that has just come.
    fn take_now(self: &Arc<Self>, state: &mut State, account: usize, least: usize, most: usize) -> Option<Share> {
        // Requests in the queues of other accounts need more than is free.
        let may_borrow = state.accounts.get(account)?.queue.is_empty();
        let amount = self.grant(state, account, least, most, may_borrow)?;
        Some(self.share(account, amount))
    }

    /// Grants as much as there is, between two amounts.
    fn grant(&self, state: &mut State, account: usize, least: usize, most: usize, may_borrow: bool) -> Option<usize> {
        let used = &mut state.accounts.get_mut(account)?.used;
        let own = self.own.saturating_sub(*used);
        let common = if may_borrow { self.common - state.over } else { 0 };
        let amount = most.min(own + common);
        if amount < least {
            return None;
        }
        *used += amount;
        state.used += amount;
        state.over += amount.saturating_sub(own);
        Some(amount)
    }

    fn give_back(self: &Arc<Self>, account: usize, amount: usize) {
        let mut state = self.state.lock();
        let Some(of_account) = state.accounts.get_mut(account) else {
            return;
        };
        let over = of_account.used.saturating_sub(self.own);
        of_account.used -= amount;
        let over = over - of_account.used.saturating_sub(self.own);
        state.over -= over;
        state.used -= amount;
        if state.used == 0 {
            self.unused.notify_waiters();
        }
        self.serve(state);
    }

    /// Grants the free amount to waiting requests.
    fn serve(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let mut granted = Vec::new();
        let accounts = state.accounts.len();
        let mut passed_over = 0;
        while state.waiting > 0 && passed_over < accounts {
            let account = state.next;
            state.next = (account + 1) % accounts;
            match self.first(&mut state, account) {
                Some((waiter, amount)) => {
                    granted.push((waiter.granted, self.share(account, amount)));
                    passed_over = 0;
                }
                None => passed_over += 1,
            }
        }
        // The share of a request that has given up is given back, which needs the lock.
        drop(state);
        for (waiter, share) in granted {
            drop(waiter.send(share));
        }
    }

    /// Takes the first waiting request out of the queue of an account, if its amount is free.
    fn first(&self, state: &mut State, account: usize) -> Option<(Waiter, usize)> {
        let queue = &mut state.accounts.get_mut(account)?.queue;
        while queue.front().is_some_and(|waiter| waiter.granted.is_closed()) {
            queue.pop_front();
            state.waiting -= 1;
        }
        let &Waiter { least, most, .. } = queue.front()?;
        let amount = self.grant(state, account, least, most, true)?;
        state.waiting -= 1;
        let waiter = state.accounts.get_mut(account)?.queue.pop_front()?;
        Some((waiter, amount))
    }

    fn share(self: &Arc<Self>, account: usize, amount: usize) -> Share {
        Share {
            shares: self.clone(),
            account,
            amount,
        }
    }
}

/// A waiting request. When this is dropped, it has given up.
struct Waiting<'s> {
    shares: &'s Arc<Shares>,
    granted: oneshot::Receiver<Share>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.granted.close();
        // Requests behind it may fit now. The channel gives back the share that it was granted meanwhile.
        self.shares.serve(self.shares.state.lock());
    }
}

impl Share {
    /// Returns how much it is.
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Gives back all beyond an amount.
    pub fn shrink(&mut self, amount: usize) {
        if let Some(rest @ 1..) = self.amount.checked_sub(amount) {
            self.amount = amount;
            self.shares.give_back(self.account, rest);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.amount > 0 {
            self.shares.give_back(self.account, self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    fn shares(total: usize, accounts: usize) -> Arc<Shares> {
        Shares::new(total, accounts, 1).unwrap()
    }

    fn all(shares: &Arc<Shares>, account: usize) -> Vec<Share> {
        std::iter::from_fn(|| shares.try_take(account, 1)).collect()
    }

    #[test]
    fn one_account_cannot_take_the_part_of_another() {
        let shares = shares(8, 2);
        // Two of its own and the four that are common.
        let taken = all(&shares, 0);
        assert_eq!(taken.len(), 6);
        let other = all(&shares, 1);
        assert_eq!(other.len(), 2);
        assert_eq!(shares.used(), 8);
        drop(taken);
        let other_again = all(&shares, 1);
        assert_eq!(other_again.len(), 4);
        drop((other, other_again));
        assert_eq!(shares.used(), 0);
    }

    #[test]
    fn an_account_alone_has_everything() {
        for total in [1, 2, 5] {
            assert_eq!(all(&shares(total, 1), 0).len(), total);
        }
    }

    #[test]
    fn every_account_has_what_one_request_needs_or_there_are_no_shares() {
        assert_eq!(Shares::new(29, 3, 10).err(), Some(30));
        let shares = Shares::new(30, 3, 10).unwrap();
        let taken = [0, 1, 2].map(|account| shares.try_take(account, 10).unwrap());
        assert!(shares.try_take(0, 1).is_none());
        drop(taken);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_gets_as_much_as_is_free() {
        let shares = shares(8, 2);
        let most = shares.take(0, 1, 100, SOON).await.unwrap();
        assert_eq!(most.amount(), 6);
        let mut own = shares.take(1, 1, 100, SOON).await.unwrap();
        assert_eq!(own.amount(), 2);
        assert!(shares.take(0, 1, 1, SOON).await.is_none());
        own.shrink(1);
        own.shrink(5);
        assert_eq!((own.amount(), shares.used()), (1, 7));
        // That one is the other account's.
        assert!(shares.take(0, 1, 1, SOON).await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_request_gets_what_is_given_back() {
        let shares = shares(4, 1);
        let all = shares.try_take(0, 4).unwrap();
        assert!(shares.take(0, 1, 1, SOON).await.is_none());
        let waiting = tokio::spawn({
            let shares = shares.clone();
            async move { shares.take(0, 4, 4, SOON).await.is_some() }
        });
        tokio::task::yield_now().await;
        drop(all);
        assert!(waiting.await.unwrap());
        shares.all_given_back().await;
    }

    /// The law in a few lines.
    struct Model {
        own: usize,
        common: usize,
        used: Vec<usize>,
        /// Least amounts, by account, in the order in which they came.
        queues: Vec<VecDeque<(u64, usize)>>,
    }

    impl Model {
        /// Returns how much an account could get now.
        fn free(&self, account: usize, may_borrow: bool) -> usize {
            let over: usize = self.used.iter().map(|used| used.saturating_sub(self.own)).sum();
            assert!(over <= self.common, "safety");
            let common = if may_borrow { self.common - over } else { 0 };
            self.own.saturating_sub(self.used[account]) + common
        }

        /// Asserts that no first request of a queue could be served.
        fn check(&self) {
            for (account, queue) in self.queues.iter().enumerate() {
                if let Some((_, least)) = queue.front() {
                    assert!(*least > self.free(account, true), "it waits for what is free");
                }
            }
        }
    }

    type Taking = Pin<Box<dyn Future<Output = Option<Share>>>>;

    fn poll(taking: &mut Taking) -> Poll<Option<Share>> {
        taking.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    /// One random history. Returns how many requests had to wait, and were served.
    async fn history(seed: u64) -> usize {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % below
        };
        let (accounts, need) = (1 + random(5), 1 + random(6));
        let total = accounts * need + random(30);
        let shares = Shares::new(total, accounts, need).unwrap();
        let own = (total / 2 / accounts).max(need);
        let mut model = Model {
            own,
            common: total - own * accounts,
            used: vec![0; accounts],
            queues: vec![VecDeque::new(); accounts],
        };
        let mut held: Vec<(usize, Share)> = Vec::new();
        let mut waiting: Vec<(u64, usize, usize, usize, Taking)> = Vec::new();
        let mut served = 0;
        for number in 0..300 {
            match random(10) {
                0..5 => {
                    let (account, least) = (random(accounts), 1 + random(need));
                    let most = least + random(2 * need);
                    let free = model.free(account, model.queues[account].is_empty());
                    let (shares, patience) = (shares.clone(), Duration::from_secs(1 + random(9) as u64));
                    let mut taking: Taking = Box::pin(async move { shares.take(account, least, most, patience).await });
                    match poll(&mut taking) {
                        Poll::Ready(share) => {
                            let share = share.unwrap();
                            assert_eq!(share.amount(), free.min(most));
                            assert!(share.amount() >= least);
                            model.used[account] += share.amount();
                            held.push((account, share));
                        }
                        Poll::Pending => {
                            assert!(least > free, "guarantee");
                            model.queues[account].push_back((number, least));
                            waiting.push((number, account, least, most, taking));
                        }
                    }
                }
                5..8 if !held.is_empty() => {
                    let (account, mut share) = held.swap_remove(random(held.len()));
                    let kept = random(share.amount() + 1) * random(2);
                    model.used[account] -= share.amount() - kept;
                    share.shrink(kept);
                    if kept > 0 {
                        held.push((account, share));
                    }
                }
                8 if !waiting.is_empty() => {
                    // Its client has gone.
                    let (number, account, ..) = waiting.swap_remove(random(waiting.len()));
                    model.queues[account].retain(|(other, _)| *other != number);
                }
                _ => tokio::time::advance(Duration::from_secs(random(3) as u64)).await,
            }
            // In the order in which they came, until nothing happens any more: a request that gives up lets others go on.
            waiting.sort_by_key(|(number, ..)| *number);
            let mut before = usize::MAX;
            while waiting.len() < before {
                before = waiting.len();
                waiting.retain_mut(|(number, account, least, most, taking)| match poll(taking) {
                    Poll::Pending => true,
                    Poll::Ready(None) => {
                        model.queues[*account].retain(|(other, _)| other != number);
                        false
                    }
                    Poll::Ready(Some(share)) => {
                        let first = model.queues[*account].pop_front();
                        assert_eq!(
                            first.map(|(first, _)| first),
                            Some(*number),
                            "in the order of its queue"
                        );
                        assert!((*least..=*most).contains(&share.amount()));
                        model.used[*account] += share.amount();
                        held.push((*account, share));
                        served += 1;
                        false
                    }
                });
            }
            assert_eq!(shares.used(), model.used.iter().sum::<usize>());
            model.check();
        }
        drop((held, waiting));
        assert_eq!(shares.used(), 0);
        served
    }

    #[tokio::test(start_paused = true)]
    async fn random_histories_keep_the_law() {
        let mut served = 0;
        for seed in 0..500 {
            served += history(seed).await;
        }
        assert!(served > 500, "{served}");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_accounts_are_served_round_robin() {
        // Each account has 1 of its own, 4 are common.
        let shares = shares(8, 4);
        let all = all(&shares, 0);
        let own = [1, 2, 3].map(|account| shares.try_take(account, 1).unwrap());
        let wait = |account: usize| -> (usize, Taking) {
            let shares = shares.clone();
            (account, Box::pin(async move { shares.take(account, 1, 1, SOON).await }))
        };
        let mut waiting: Vec<_> = [1, 1, 1, 1, 2, 2, 3].map(wait).into_iter().collect();
        for (_, taking) in &mut waiting {
            assert!(poll(taking).is_pending());
        }
        let mut order = Vec::new();
        let mut got = Vec::new();
        for share in all {
            drop(share);
            waiting.retain_mut(|(account, taking)| match poll(taking) {
                Poll::Ready(share) => {
                    order.push(*account);
                    got.push(share.unwrap());
                    false
                }
                Poll::Pending => true,
            });
        }
        assert_eq!(order, [1, 2, 3, 1]);
        drop(own);
    }
}
