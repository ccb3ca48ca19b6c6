//! The election: which of several hosts is the primary.

use super::Timeline;

/// The last known state of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostState {
    /// A probe has begun and has no answer yet.
    Pending,
    /// It cannot be used.
    Away,
    /// It is in recovery.
    Standby,
    /// It takes writes.
    Primary(Timeline),
    /// It takes writes, and is a copy of a primary that has this timeline as well.
    Copy(Timeline),
}

/// The result of an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The primary, and its timeline.
    Primary(usize, Timeline),
    /// A server that has not answered yet may be the primary.
    Wait,
    None,
}

/// Why a server that takes writes is not the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It has stayed on a timeline from which another server was promoted.
    OldTimeline { own: u32, newest: u32 },
    /// It is no copy of the primary.
    OtherSystem,
    /// It is a copy of the primary, on the same timeline.
    Copy,
}

/// Elects the server that is not in recovery; of several, the one with the highest timeline. `known` is the timeline of the last
/// primary: a server with a lower timeline, or of another system, is never elected after it. `current` is the primary until now: it
/// stays if it is not in recovery, and does not wait for the others. A copy is never elected.
///
/// A single server is not judged: there is no other one, and the operator may move its name.
#[must_use]
pub fn elect(servers: &[HostState], known: Option<Timeline>, current: Option<usize>) -> Verdict {
    let best = best(servers, known, current);
    let Some((index, timeline)) = best else {
        return if servers.contains(&HostState::Pending) {
            Verdict::Wait
        } else {
            Verdict::None
        };
    };
    let is_certain = servers.len() == 1
        || !servers.contains(&HostState::Pending)
        || known.is_some_and(|known| timeline.number > known.number)
        || (current == Some(index) && known == Some(timeline));
    if is_certain {
        Verdict::Primary(index, timeline)
    } else {
        Verdict::Wait
    }
}

/// Returns the servers that take writes and are not the primary, and why.
pub fn refused(
    servers: &[HostState],
    known: Option<Timeline>,
    primary: Option<usize>,
) -> impl Iterator<Item = (usize, Refused)> + '_ {
    let line_of = |index: usize| match servers.get(index) {
        Some(HostState::Primary(timeline)) => Some(*timeline),
        _ => None,
    };
    let leading = primary.and_then(line_of).or(known);
    let others = servers
        .iter()
        .enumerate()
        .filter(move |(index, _)| Some(*index) != primary);
    others.filter_map(move |(index, server)| {
        let (HostState::Primary(timeline) | HostState::Copy(timeline), Some(leading)) = (server, leading) else {
            return None;
        };
        let (own, newest) = (timeline.number, leading.number);
        let why = if timeline.system != leading.system {
            Refused::OtherSystem
        } else if own < newest {
            Refused::OldTimeline { own, newest }
        } else {
            // One that could be the primary is not refused. It may be another name of the primary.
            matches!(server, HostState::Copy(_)).then_some(Refused::Copy)?
        };
        Some((index, why))
    })
}

fn best(servers: &[HostState], known: Option<Timeline>, current: Option<usize>) -> Option<(usize, Timeline)> {
    let is_single = servers.len() == 1;
    let mut best: Option<(usize, Timeline)> = None;
    for (index, server) in servers.iter().enumerate() {
        let HostState::Primary(timeline) = *server else {
            continue;
        };
        let is_allowed =
            is_single || known.is_none_or(|known| timeline.system == known.system && timeline.number >= known.number);
        let is_better = best.is_none_or(|(_, best)| {
            timeline.number > best.number || (timeline.number == best.number && current == Some(index))
        });
        if is_allowed && is_better {
            best = Some((index, timeline));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::HostState::*;
    use super::*;

    fn timeline(number: u32) -> Timeline {
        Timeline { system: 7, number }
    }

    fn primary(number: u32) -> HostState {
        Primary(timeline(number))
    }

    #[test]
    fn the_primary_is_the_one_that_is_not_in_recovery() {
        assert_eq!(
            elect(&[Standby, primary(1), Away], None, None),
            Verdict::Primary(1, timeline(1))
        );
        assert_eq!(elect(&[Standby, Away], None, None), Verdict::None);
        assert_eq!(elect(&[Standby, Pending], None, None), Verdict::Wait);
    }

    #[test]
    fn of_several_the_highest_timeline_wins() {
        let servers = [primary(1), primary(3), primary(2)];
        assert_eq!(elect(&servers, None, None), Verdict::Primary(1, timeline(3)));
        assert_eq!(
            elect(&servers, Some(timeline(1)), Some(0)),
            Verdict::Primary(1, timeline(3))
        );
        let refused: Vec<_> = refused(&servers, Some(timeline(1)), Some(1)).collect();
        let old = |own| Refused::OldTimeline { own, newest: 3 };
        assert_eq!(refused, [(0, old(1)), (2, old(2))]);
    }

    #[test]
    fn an_old_primary_that_returns_is_refused_also_while_the_new_one_is_away() {
        let servers = [primary(1), Away];
        assert_eq!(elect(&servers, Some(timeline(2)), None), Verdict::None);
        let old = Refused::OldTimeline { own: 1, newest: 2 };
        assert_eq!(
            refused(&servers, Some(timeline(2)), None).collect::<Vec<_>>(),
            [(0, old)]
        );
        // The first look knows nothing, so it waits for all.
        assert_eq!(elect(&[primary(1), Pending], None, None), Verdict::Wait);
        assert_eq!(
            elect(&[primary(1), primary(2)], None, None),
            Verdict::Primary(1, timeline(2))
        );
    }

    #[test]
    fn nobody_waits_for_a_silent_server_without_need() {
        // The primary is still there.
        assert_eq!(
            elect(&[Pending, primary(2)], Some(timeline(2)), Some(1)),
            Verdict::Primary(1, timeline(2))
        );
        // A server was promoted.
        assert_eq!(
            elect(&[Pending, primary(3)], Some(timeline(2)), Some(0)),
            Verdict::Primary(1, timeline(3))
        );
        // A second one with this timeline could be the right one.
        assert_eq!(elect(&[Pending, primary(2)], Some(timeline(2)), Some(0)), Verdict::Wait);
    }

    #[test]
    fn two_with_one_timeline_do_not_take_turns() {
        let servers = [primary(2), primary(2)];
        assert_eq!(
            elect(&servers, Some(timeline(2)), Some(1)),
            Verdict::Primary(1, timeline(2))
        );
        assert_eq!(elect(&servers, None, None), Verdict::Primary(0, timeline(2)));
        assert_eq!(refused(&servers, Some(timeline(2)), Some(1)).count(), 0);
    }

    #[test]
    fn a_copy_is_refused_also_while_the_primary_is_away() {
        let copy = Copy(timeline(2));
        for (first, primary) in [(primary(2), Some(0)), (Away, None)] {
            let refused: Vec<_> = refused(&[first, copy], Some(timeline(2)), primary).collect();
            assert_eq!(refused, [(1, Refused::Copy)]);
        }
        assert_eq!(elect(&[Away, copy], Some(timeline(2)), Some(0)), Verdict::None);
        let refused: Vec<_> = refused(&[primary(3), copy], Some(timeline(3)), Some(0)).collect();
        assert_eq!(refused, [(1, Refused::OldTimeline { own: 2, newest: 3 })]);
    }

    #[test]
    fn a_server_of_another_system_is_refused() {
        let of_other = Timeline { system: 8, number: 9 };
        let other = Primary(of_other);
        assert_eq!(
            elect(&[other, primary(1)], Some(timeline(1)), Some(1)),
            Verdict::Primary(1, timeline(1))
        );
        assert_eq!(elect(&[other, Away], Some(timeline(1)), None), Verdict::None);
        let refused: Vec<_> = refused(&[other, Away], Some(timeline(1)), None).collect();
        assert_eq!(refused, [(0, Refused::OtherSystem)]);
        // A single server is not judged.
        assert_eq!(elect(&[other], Some(timeline(1)), None), Verdict::Primary(0, of_other));
    }
}
