//! Fair shares between accounts of what the gateway has a limited amount of: places for requests, and memory.
//!
//! Half of the amount is divided: each account has its own part, which no other account can take. The other half is
//! common. So one account alone can use nearly everything, and still leaves every other account its part.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// An amount that accounts share. Accounts are numbered from zero.
pub struct Shares {
    /// The part that each account has for itself.
    own: usize,
    /// The part for all.
    common: usize,
    used: Mutex<Used>,
    freed: Notify,
}

struct Used {
    by_account: Vec<usize>,
    /// What all accounts use beyond their own parts.
    common: usize,
}

/// What a request has taken. It is given back when this is dropped.
pub struct Share {
    shares: Arc<Shares>,
    account: usize,
    amount: usize,
}

impl Shares {
    pub fn new(total: usize, accounts: usize) -> Arc<Shares> {
        let accounts = accounts.max(1);
        let own = total / 2 / accounts;
        Arc::new(Shares {
            own,
            common: total - own * accounts,
            used: Mutex::new(Used {
                by_account: vec![0; accounts],
                common: 0,
            }),
            freed: Notify::new(),
        })
    }

    /// Takes an amount if it is free.
    pub fn try_take(self: &Arc<Self>, account: usize, amount: usize) -> Option<Share> {
        let mut share = Share {
            shares: self.clone(),
            account,
            amount: 0,
        };
        share.try_grow(amount).then_some(share)
    }

    /// Takes an amount as soon as it is free; `None` if it is not in time. More than the account's own part counts as that
    /// part, so that an account which uses nothing never has to wait for others.
    pub async fn take(self: &Arc<Self>, account: usize, amount: usize, patience: Duration) -> Option<Share> {
        let amount = amount.min(self.own);
        if let Some(share) = self.try_take(account, amount) {
            return Some(share);
        }
        let deadline = Instant::now() + patience;
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(share) = self.try_take(account, amount) {
                return Some(share);
            }
            timeout_at(deadline, freed).await.ok()?;
        }
    }

    /// What all accounts use now.
    pub fn used(&self) -> usize {
        self.lock().by_account.iter().sum()
    }

    /// Ends when nothing is used.
    pub async fn all_given_back(&self) {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if self.used() == 0 {
                return;
            }
            freed.await;
        }
    }

    /// Changes what an account uses, unless that is more than it may use and `may_exceed` is not set.
    fn change(&self, account: usize, from: usize, to: usize, may_exceed: bool) -> bool {
        let mut used = self.lock();
        let Some(before) = used.by_account.get(account).copied() else {
            return false;
        };
        let after = before - from + to;
        let common = used.common - before.saturating_sub(self.own) + after.saturating_sub(self.own);
        if common > self.common && to > from && !may_exceed {
            return false;
        }
        used.common = common;
        if let Some(amount) = used.by_account.get_mut(account) {
            *amount = after;
        }
        drop(used);
        if to < from {
            self.freed.notify_waiters();
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Share {
    /// Takes more, if it is free.
    pub fn try_grow(&mut self, by: usize) -> bool {
        let amount = self.amount + by;
        let grown = self.shares.change(self.account, self.amount, amount, false);
        if grown {
            self.amount = amount;
        }
        grown
    }

    /// Corrects an estimate. The amount is used already, so this may exceed the limits.
    pub fn correct(&mut self, amount: usize) {
        self.shares.change(self.account, self.amount, amount, true);
        self.amount = amount;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shares.change(self.account, self.amount, 0, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    #[test]
    fn one_account_cannot_take_the_part_of_another() {
        let shares = Shares::new(8, 2);
        // Two of its own and the four that are common.
        let taken: Vec<Share> = std::iter::from_fn(|| shares.try_take(0, 1)).collect();
        assert_eq!(taken.len(), 6);
        let other: Vec<Share> = std::iter::from_fn(|| shares.try_take(1, 1)).collect();
        assert_eq!(other.len(), 2);
        assert_eq!(shares.used(), 8);
        drop(taken);
        let other_again: Vec<Share> = std::iter::from_fn(|| shares.try_take(1, 1)).collect();
        assert_eq!(other_again.len(), 4);
        drop((other, other_again));
        assert_eq!(shares.used(), 0);
    }

    #[test]
    fn an_account_alone_has_everything() {
        for total in [1, 2, 5] {
            let shares = Shares::new(total, 1);
            let taken: Vec<Share> = std::iter::from_fn(|| shares.try_take(0, 1)).collect();
            assert_eq!(taken.len(), total);
        }
    }

    #[test]
    fn a_corrected_share_counts_as_it_is() {
        let shares = Shares::new(10, 1);
        let mut share = shares.try_take(0, 1).unwrap();
        share.correct(12);
        assert_eq!(shares.used(), 12);
        assert!(shares.try_take(0, 1).is_none());
        assert!(!share.try_grow(1));
        share.correct(3);
        assert!(share.try_grow(7) && !share.try_grow(1));
        drop(share);
        assert_eq!(shares.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_that_uses_nothing_does_not_wait_for_others() {
        let shares = Shares::new(8, 2);
        let taken: Vec<Share> = std::iter::from_fn(|| shares.try_take(0, 1)).collect();
        assert!(shares.take(1, 100, SOON).await.is_some());
        drop(taken);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_gets_what_is_given_back() {
        let shares = Shares::new(4, 1);
        let all = shares.try_take(0, 4).unwrap();
        assert!(shares.take(0, 1, SOON).await.is_none());
        let waiting = tokio::spawn({
            let shares = shares.clone();
            // This is more than there is.
            async move { shares.take(0, 100, SOON).await.is_some() }
        });
        tokio::task::yield_now().await;
        drop(all);
        assert!(waiting.await.unwrap());
        shares.all_given_back().await;
    }
}
