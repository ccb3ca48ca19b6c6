//! Copies of the primary that take writes beside it, such as a base backup that was started without `standby.signal`.
//!
//! A promotion always begins a timeline. So of two servers that take writes on one timeline at the same time, one is a
//! copy of the other. It lacks all that was written since it was made.

use super::{HostState, Instance, Timeline};

/// The copies among several hosts, as their answers show them.
#[derive(Debug, Clone)]
pub struct Copies {
    /// The last primary.
    primary: Option<Instance>,
    hosts: Vec<Host>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Host {
    /// Its last answer.
    last: Option<Instance>,
    /// Whether it has given that since the last answer of the primary.
    is_new: bool,
    /// The timeline on which it has taken writes beside the primary.
    beside: Option<Timeline>,
}

impl Copies {
    /// Makes the state of so many hosts. Nothing is known of them yet.
    #[must_use]
    pub fn new(count: usize) -> Copies {
        Copies {
            primary: None,
            hosts: vec![Host::default(); count],
        }
    }

    /// Takes the answer of a host that takes writes, and writes its state and those of the copies. `current` is the
    /// primary until now.
    ///
    /// A host is a copy if it has answered between two answers of the primary, which has not started again meanwhile,
    /// and both have one timeline. One answer of each is no proof: two servers may use one disk in turn.
    pub fn take(&mut self, states: &mut [HostState], index: usize, instance: Instance, current: Option<usize>) {
        let is_current = current == Some(index);
        let Some(host) = self.hosts.get_mut(index) else { return };
        let has_run_on = host.last.replace(instance) == Some(instance);
        host.is_new = true;
        if is_current {
            self.primary = Some(instance);
        }
        // Another name of the primary.
        if self.primary == Some(instance) {
            host.beside = None;
        }
        for (other, host) in self.hosts.iter_mut().enumerate() {
            if other == index || (!is_current && has_run_on) {
                continue;
            }
            let was_there = std::mem::take(&mut host.is_new) && is_current && has_run_on;
            let is_beside = |last: Instance| last.timeline == instance.timeline && last != instance;
            if was_there && host.last.is_some_and(is_beside) {
                host.beside = Some(instance.timeline);
            }
        }
        if let Some(state) = states.get_mut(index) {
            *state = HostState::Primary(instance.timeline);
        }
        for (state, host) in states.iter_mut().zip(&self.hosts) {
            if let HostState::Primary(timeline) = *state
                && host.beside == Some(timeline)
            {
                *state = HostState::Copy(timeline);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Verdict, elect};
    use super::*;

    /// A server that has started at this time, on a timeline.
    fn server(started: i64, number: u32) -> Instance {
        let timeline = Timeline { system: 7, number };
        Instance { timeline, started }
    }

    /// Two hosts, as a program that follows the primary keeps them.
    struct Hosts {
        copies: Copies,
        states: [HostState; 2],
        known: Option<Timeline>,
        current: Option<usize>,
    }

    impl Hosts {
        fn new() -> Hosts {
            Hosts {
                copies: Copies::new(2),
                states: [HostState::Pending; 2],
                known: None,
                current: None,
            }
        }

        /// A host takes writes, or cannot be reached. Returns the primary then.
        fn says(&mut self, index: usize, answer: Option<Instance>) -> Option<usize> {
            match answer {
                Some(instance) => self.copies.take(&mut self.states, index, instance, self.current),
                None => self.states[index] = HostState::Away,
            }
            if let Verdict::Primary(primary, timeline) = elect(&self.states, self.known, self.current) {
                (self.current, self.known) = (Some(primary), Some(timeline));
                return self.current;
            }
            None
        }

        /// Both have answered twice, the first one first.
        fn after(first: Instance, second: Instance) -> Hosts {
            let mut hosts = Hosts::new();
            for _ in 0..2 {
                hosts.says(0, Some(first));
                assert_eq!(hosts.says(1, Some(second)), Some(0));
            }
            hosts
        }
    }

    #[test]
    fn a_copy_beside_the_primary_never_takes_its_place() {
        let (primary, copy) = (server(1, 1), server(2, 1));
        let mut hosts = Hosts::after(primary, copy);
        assert_eq!(hosts.states[1], HostState::Copy(copy.timeline));
        // One probe has no answer in time, and then the primary is away for good.
        assert_eq!(hosts.says(0, None), None);
        assert_eq!(hosts.says(1, Some(copy)), None);
        assert_eq!(hosts.says(1, None), None);
        // It was stopped, and is started again as it was.
        assert_eq!(hosts.says(1, Some(server(3, 1))), None);
        assert_eq!(hosts.says(0, Some(server(4, 1))), Some(0), "the primary is back");
        assert_eq!(hosts.says(0, None), None);
    }

    #[test]
    fn the_answers_before_the_primary_fails_are_enough() {
        let mut hosts = Hosts::new();
        hosts.says(0, Some(server(1, 1)));
        hosts.says(1, Some(server(2, 1)));
        assert_eq!(hosts.says(0, Some(server(1, 1))), Some(0));
        assert_eq!(hosts.says(0, None), None);
    }

    #[test]
    fn a_promotion_ends_it() {
        let mut hosts = Hosts::after(server(1, 1), server(2, 1));
        hosts.says(0, None);
        assert_eq!(hosts.says(1, Some(server(3, 2))), Some(1));
        assert_eq!(hosts.says(0, Some(server(1, 1))), Some(1));
        assert_eq!(hosts.says(1, Some(server(3, 2))), Some(1));
    }

    #[test]
    fn two_names_of_one_server_are_no_copies() {
        let mut hosts = Hosts::after(server(1, 1), server(1, 1));
        assert_eq!(hosts.says(0, None), Some(1));
        assert_eq!(hosts.says(0, Some(server(1, 1))), Some(1));
        // It starts again, and one name leads there first.
        hosts.says(0, Some(server(5, 1)));
        hosts.says(1, Some(server(5, 1)));
        hosts.says(0, Some(server(5, 1)));
        assert_eq!(hosts.says(1, None), Some(0));
        // A late answer makes one of them a copy until its next answer.
        let mut hosts = Hosts::after(server(1, 1), server(1, 1));
        hosts.says(1, Some(server(6, 1)));
        hosts.says(0, Some(server(1, 1)));
        assert_eq!(hosts.states[1], HostState::Copy(server(1, 1).timeline));
        hosts.says(0, Some(server(6, 1)));
        hosts.says(1, Some(server(6, 1)));
        assert_eq!(hosts.says(0, None), Some(1));
    }

    #[test]
    fn two_servers_may_use_one_disk_one_after_the_other() {
        let mut hosts = Hosts::new();
        hosts.says(1, None);
        hosts.says(0, Some(server(1, 1)));
        hosts.says(0, Some(server(1, 1)));
        // It has stopped, and nobody has noticed that yet.
        assert_eq!(hosts.says(1, Some(server(2, 1))), Some(0));
        assert_eq!(hosts.says(0, None), Some(1));
        assert_eq!(hosts.says(1, Some(server(2, 1))), Some(1));
        assert_eq!(hosts.says(1, None), None);
        assert_eq!(hosts.says(0, Some(server(3, 1))), Some(0), "and back again");
        // An answer of the first one, from before the second one started, is no proof.
        let mut hosts = Hosts::new();
        hosts.says(1, Some(server(1, 1)));
        assert_eq!(hosts.says(0, Some(server(2, 1))), Some(0));
        hosts.says(0, Some(server(2, 1)));
        assert_eq!(hosts.states[1], HostState::Primary(server(1, 1).timeline));
    }
}
