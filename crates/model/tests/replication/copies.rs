//! The law of copies: servers that use one disk in turn are never taken for copies, also where several names lead to one
//! of them. Random histories of starts, stops and answers test it.

use proptest::collection::vec;
use proptest::prelude::*;

use table_service_model::replication::{Copies, HostState, Instance, Timeline, Verdict, elect};

/// The server that each host leads to.
const HOSTS: [usize; 3] = [0, 1, 0];

#[derive(Debug, Clone, Copy)]
enum Event {
    /// This server starts. The one that has the disk stops before.
    Start(usize),
    Stop,
    /// A host answers, if its server runs.
    Answer(usize),
    /// All hosts are probed anew.
    Suspect,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (0..2usize).prop_map(Event::Start),
        1 => Just(Event::Stop),
        12 => (0..HOSTS.len()).prop_map(Event::Answer),
        1 => Just(Event::Suspect),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn servers_that_use_one_disk_in_turn_are_no_copies(events in vec(event(), 0..100)) {
        let timeline = Timeline { system: 7, number: 1 };
        let mut copies = Copies::new(HOSTS.len());
        let mut states = [HostState::Pending; HOSTS.len()];
        let (mut running, mut current) = (None, None);
        for (started, event) in (0..).zip(events) {
            match event {
                Event::Start(server) => running = Some((server, Instance { timeline, started })),
                Event::Stop => running = None,
                Event::Suspect => states.fill(HostState::Pending),
                Event::Answer(host) => match running {
                    Some((server, instance)) if server == HOSTS[host] => {
                        copies.take(&mut states, host, instance, current);
                    }
                    _ => states[host] = HostState::Away,
                },
            }
            prop_assert!(!states.contains(&HostState::Copy(timeline)), "{states:?}");
            if let Verdict::Primary(primary, _) = elect(&states, current.map(|_| timeline), current) {
                current = Some(primary);
            }
        }
    }
}
