//! The hosts of one URL, and the primary among them.
//!
//! All hosts are probed all the time, each in a task of its own, so that no host delays another. The rules are in the model
//! (`replication`).

use std::sync::Arc;

use parking_lot::Mutex;
use table_service_model::replication::{Copies, HostState, Refused, Role, Timeline, Verdict, elect, refused};
use tokio::sync::watch;

use super::connection::Connector;
use super::probe::Probe;
use super::probing::keep_probing;
use super::standbys::Secondary;

/// The hosts of one URL.
pub struct Failover {
    servers: Vec<Connector>,
    state: Mutex<State>,
    target: watch::Sender<Target>,
    /// Counts the rounds in which all hosts are probed at once.
    rounds: watch::Sender<u64>,
    /// The standbys that follow the primary, if they serve reads.
    secondary: Option<Arc<Secondary>>,
}

struct State {
    states: Vec<HostState>,
    copies: Copies,
    /// Why a server cannot be used.
    problems: Vec<String>,
    /// The timeline of the last primary.
    known: Option<Timeline>,
    /// The last primary, unless it is in recovery now.
    current: Option<usize>,
    /// The last refusal of each server in the log.
    told: Vec<Option<Refused>>,
}

/// The target of statements.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// A server, while it is on this timeline. Its name may have led to another server before.
    Primary(usize, Timeline),
    /// The servers are being probed.
    Wait,
    /// Why there is no primary.
    None(String),
}

impl Failover {
    /// Makes the state of servers before anything is known of them.
    pub fn new(servers: Vec<Connector>, secondary: Option<Arc<Secondary>>) -> Arc<Failover> {
        let count = servers.len();
        Arc::new(Failover {
            state: Mutex::new(State {
                states: vec![HostState::Pending; count],
                copies: Copies::new(count),
                problems: vec![String::new(); count],
                known: None,
                current: None,
                told: vec![None; count],
            }),
            servers,
            target: watch::Sender::new(Target::Wait),
            rounds: watch::Sender::new(0),
            secondary,
        })
    }

    /// Begins to probe the servers.
    pub fn start(self: &Arc<Self>) {
        for index in 0..self.servers.len() {
            let failover = self.clone();
            tokio::spawn(async move {
                if let Some(server) = failover.server(index) {
                    let again = failover.rounds.subscribe();
                    let accepts = |probe: &Probe| failover.accepts(index, probe);
                    keep_probing(server, Some(again), 1, accepts, |probe| failover.report(index, probe)).await;
                }
            });
        }
    }

    /// Returns the server of a number.
    pub fn server(&self, index: usize) -> Option<&Connector> {
        self.servers.get(index)
    }

    /// The names of the servers, and whether each is the primary.
    pub fn servers(&self) -> impl Iterator<Item = (&str, bool)> {
        let primary = self.current();
        let names = self.servers.iter().map(Connector::name).enumerate();
        names.map(move |(index, name)| (name, primary == Some(index)))
    }

    /// The primary, if it is known.
    pub fn current(&self) -> Option<usize> {
        match *self.target.borrow() {
            Target::Primary(index, _) => Some(index),
            _ => None,
        }
    }

    /// Returns whether a server was the primary when it was probed over a connection.
    pub fn is_primary(&self, index: usize, probe: Probe) -> bool {
        matches!(probe.status.role, Role::Primary(_))
            && *self.target.borrow() == Target::Primary(index, probe.status.timeline)
    }

    /// Returns whether a probe over an existing connection is enough. The name of a server on another timeline than the primary's may lead
    /// to another server now, and another address of the name may be the primary's.
    fn accepts(&self, index: usize, probe: &Probe) -> bool {
        let has_several = || self.server(index).is_some_and(Connector::has_several_addresses);
        match probe.status.role {
            Role::Primary(_) => self
                .state
                .lock()
                .known
                .is_none_or(|known| known == probe.status.timeline),
            Role::Standby(_) => !has_several(),
        }
    }

    /// Returns the primary. While the servers are being probed, this waits.
    pub async fn primary(&self) -> Result<usize, String> {
        let mut target = self.target.subscribe();
        let known = target.wait_for(|target| *target != Target::Wait).await;
        match known.as_deref() {
            Ok(Target::Primary(index, _)) => Ok(*index),
            Ok(Target::None(problem)) => Err(problem.clone()),
            _ => Err("the servers are not probed any more".to_owned()),
        }
    }

    /// Waits until another server than the one of a connection is the primary. The old one may never answer.
    pub async fn superseded(&self, index: usize, probe: Probe) {
        let own = Target::Primary(index, probe.status.timeline);
        let mut target = self.target.subscribe();
        let other = target.wait_for(|target| matches!(target, Target::Primary(..)) && *target != own);
        if other.await.is_err() {
            std::future::pending().await
        }
    }

    /// Notes that a server may not be the primary any more, and probes all at once. `is_standby` says that it is in recovery.
    pub fn suspect(&self, index: usize, is_standby: bool) {
        let mut state = self.state.lock();
        if self.current() != Some(index) {
            return;
        }
        state.states.fill(HostState::Pending);
        if is_standby {
            if let Some(state) = state.states.get_mut(index) {
                *state = HostState::Standby;
            }
            state.current = None;
        }
        self.target.send_replace(Target::Wait);
        self.rounds.send_modify(|round| *round += 1);
    }

    /// Checks that a new connection leads to the primary.
    pub fn check(&self, index: usize, probe: Probe) -> Result<(), String> {
        if self.is_primary(index, probe) {
            return Ok(());
        }
        let timeline = probe.status.timeline;
        if let (Some(known), Role::Primary(_)) = (self.state.lock().known, probe.status.role)
            && timeline.system == known.system
            && timeline.number < known.number
        {
            // The connection is older than the change of the name.
            let (own, newest) = (timeline.number, known.number);
            return Err(format!(
                "it takes writes on timeline {own}, and the primary has timeline {newest}"
            ));
        }
        self.report(index, Ok(probe));
        match self.is_primary(index, probe) {
            true => Ok(()),
            false => Err("it is not the primary any more".to_owned()),
        }
    }

    /// Takes a probe of a server, or the reason why the server cannot be used.
    fn report(&self, index: usize, probe: Result<Probe, String>) {
        let mut state = self.state.lock();
        state.take(index, probe.as_ref().ok());
        if let Some(problem) = state.problems.get_mut(index) {
            *problem = probe.as_ref().err().cloned().unwrap_or_default();
        }
        let verdict = elect(&state.states, state.known, state.current);
        let target = match verdict {
            Verdict::Primary(primary, timeline) => {
                if state.current != Some(primary) {
                    self.tell_of(primary);
                }
                state.current = Some(primary);
                state.known = Some(timeline);
                Target::Primary(primary, timeline)
            }
            Verdict::Wait => Target::Wait,
            // It may only be slow. Statements that fail there begin a new round of probes.
            Verdict::None if self.current().is_some_and(|current| is_away(&state, current)) => return,
            Verdict::None => {
                let problem = self.why(&state);
                if !matches!(*self.target.borrow(), Target::None(_)) {
                    tracing::warn!(hosts = self.name(), problem, "there is no primary");
                }
                state.current = None;
                Target::None(problem)
            }
        };
        if *self.target.borrow() != target {
            self.target.send_replace(target);
        }
        let primary = match verdict {
            Verdict::Primary(primary, _) => Some(primary),
            _ => None,
        };
        self.tell_of_refused(&mut state, primary);
        drop(state);
        if let (Some(secondary), Ok(probe), Verdict::Primary(primary, _)) = (&self.secondary, probe, verdict)
            && primary == index
            && let Role::Primary(note) = probe.status.role
        {
            secondary.primary(probe, note);
        }
    }

    fn tell_of(&self, primary: usize) {
        // Of a single host there is nothing to tell.
        if let [_, _, ..] = self.servers.as_slice()
            && let Some(server) = self.servers.get(primary)
        {
            tracing::info!(hosts = self.name(), primary = server.name(), "the primary is known");
        }
    }

    fn tell_of_refused(&self, state: &mut State, primary: Option<usize>) {
        let now: Vec<(usize, Refused)> = refused(&state.states, state.known, primary).collect();
        for (index, told) in state.told.iter_mut().enumerate() {
            let new = now.iter().find(|(refused, _)| *refused == index).map(|(_, why)| *why);
            if let (Some(why), Some(server)) = (new.filter(|why| *told != Some(*why)), self.servers.get(index)) {
                let why = match why {
                    Refused::OldTimeline { own, newest } => {
                        format!("it takes writes on timeline {own}, and the primary has timeline {newest}: stop it")
                    }
                    Refused::OtherSystem => "it is no copy of the primary: another system_identifier".to_owned(),
                    Refused::Copy => COPY.to_owned(),
                };
                tracing::warn!(node = server.name(), why, "the server is refused as primary");
            }
            *told = new;
        }
    }

    /// Why there is no primary.
    fn why(&self, state: &State) -> String {
        let of_each = self.servers.iter().zip(&state.states).zip(&state.problems);
        let of_each = of_each.map(|((server, state), problem)| match state {
            HostState::Standby => format!("{} is in recovery", server.name()),
            HostState::Primary(_) => format!("{} is refused as primary", server.name()),
            HostState::Copy(_) => format!("{}: {COPY}", server.name()),
            HostState::Pending | HostState::Away => format!("{}: {problem}", server.name()),
        });
        of_each.collect::<Vec<_>>().join("; ")
    }

    fn name(&self) -> String {
        let names: Vec<&str> = self.servers.iter().map(Connector::name).collect();
        names.join(", ")
    }
}

/// Why a server is refused that takes writes beside the primary.
const COPY: &str = "it is a copy of the primary and takes writes on its timeline: stop it";

fn is_away(state: &State, index: usize) -> bool {
    state.states.get(index) == Some(&HostState::Away)
}

impl State {
    /// Takes the answer of a server, if it can be used.
    fn take(&mut self, index: usize, probe: Option<&Probe>) {
        let new = match probe {
            Some(probe) if matches!(probe.status.role, Role::Primary(_)) => {
                let instance = probe.place().instance;
                return self.copies.take(&mut self.states, index, instance, self.current);
            }
            Some(_) => HostState::Standby,
            None => HostState::Away,
        };
        if let Some(state) = self.states.get_mut(index) {
            *state = new;
        }
    }
}
