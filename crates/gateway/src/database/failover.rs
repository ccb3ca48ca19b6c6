//! The hosts of one URL: which of them is the primary now.
//!
//! All are looked at all the time, each in a task of its own, so that none of them hides another. The rules are in the model
//! (`replication`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use table_service_model::replication::{Line, Refused, Role, Sight, Sighting, Verdict, elect, refused};
use tokio::sync::watch;

use super::connection::Connector;
use super::sight::Look;
use super::standbys::Secondary;
use super::watch::keep_looking;

/// The hosts of one URL.
pub struct Failover {
    servers: Vec<Connector>,
    state: Mutex<State>,
    target: watch::Sender<Target>,
    /// Counts the times when all are to be looked at at once.
    rounds: watch::Sender<u64>,
    /// The standbys that follow the primary, if they serve reads.
    secondary: Option<Arc<Secondary>>,
}

struct State {
    sightings: Vec<Sighting>,
    /// Why a server cannot be used.
    problems: Vec<String>,
    /// The line of the last primary.
    known: Option<Line>,
    /// The last primary, as long as it did not say that it is none.
    current: Option<usize>,
    /// What the log has about each server.
    told: Vec<Option<Refused>>,
}

/// Where statements go.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// Only as long as it is on this line. Behind its name another server may have been before.
    Primary(usize, Line),
    /// The servers are being asked.
    Wait,
    /// Why there is no primary.
    None(String),
}

impl Failover {
    pub fn new(servers: Vec<Connector>, secondary: Option<Arc<Secondary>>) -> Arc<Failover> {
        let count = servers.len();
        Arc::new(Failover {
            state: Mutex::new(State {
                sightings: vec![Sighting::Asked; count],
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

    /// Begins to look at the servers.
    pub fn start(self: &Arc<Self>) {
        for index in 0..self.servers.len() {
            let failover = self.clone();
            tokio::spawn(async move {
                if let Some(server) = failover.server(index) {
                    let again = failover.rounds.subscribe();
                    let accepts = |look: &Look| failover.accepts(index, look);
                    keep_looking(server, Some(again), 1, accepts, |look| failover.report(index, look)).await;
                }
            });
        }
    }

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

    /// Returns whether what a server has said over a connection is that it is the primary.
    pub fn is_primary(&self, index: usize, look: Look) -> bool {
        matches!(look.sight.role, Role::Primary(_)) && *self.target.borrow() == Target::Primary(index, look.sight.line)
    }

    /// Returns whether a server may be judged over a connection to it that is not new. One on another line than the primary may not be
    /// the one any more to which its name leads; and of several addresses of a name another one may have the primary.
    fn accepts(&self, index: usize, look: &Look) -> bool {
        let has_several = || self.server(index).is_some_and(Connector::has_several_addresses);
        match look.sight.role {
            Role::Primary(_) => self.state().known.is_none_or(|known| known == look.sight.line),
            Role::Standby(_) => !has_several(),
        }
    }

    /// The primary. While the servers are being asked, this waits.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn primary(&self) -> Result<usize, String> {
        let mut target = self.target.subscribe();
        let known = target.wait_for(|target| *target != Target::Wait).await;
        match known.as_deref() {
            Ok(Target::Primary(index, _)) => Ok(*index),
            Ok(Target::None(problem)) => Err(problem.clone()),
            _ => Err("nobody looks for the primary".to_owned()),
        }
    }

    /// Waits until another server is the primary than the one of a connection: an answer of that one may never come.
    pub async fn superseded(&self, index: usize, look: Look) {
        let own = Target::Primary(index, look.sight.line);
        let mut target = self.target.subscribe();
        let other = target.wait_for(|target| matches!(target, Target::Primary(..)) && *target != own);
        if other.await.is_err() {
            std::future::pending().await
        }
    }

    /// A server may not be the primary any more: all are asked at once. `is_standby` says that it is in recovery.
    pub fn suspect(&self, index: usize, is_standby: bool) {
        let mut state = self.state();
        if self.current() != Some(index) {
            return;
        }
        state.sightings.fill(Sighting::Asked);
        if is_standby {
            if let Some(sighting) = state.sightings.get_mut(index) {
                *sighting = Sighting::Standby;
            }
            state.current = None;
        }
        self.target.send_replace(Target::Wait);
        self.rounds.send_modify(|round| *round += 1);
    }

    /// Checks that a new connection leads to the primary.
    ///
    /// # Errors
    /// Where it leads instead.
    pub fn check(&self, index: usize, look: Look) -> Result<(), String> {
        if self.is_primary(index, look) {
            return Ok(());
        }
        let line = look.sight.line;
        if let (Some(known), Role::Primary(_)) = (self.state().known, look.sight.role)
            && line.system == known.system
            && line.timeline < known.timeline
        {
            // It was begun before the name led to another server.
            let (own, newest) = (line.timeline, known.timeline);
            return Err(format!(
                "it takes writes on timeline {own}, and the primary has timeline {newest}"
            ));
        }
        self.report(index, Ok(look));
        match self.is_primary(index, look) {
            true => Ok(()),
            false => Err("it is not the primary any more".to_owned()),
        }
    }

    /// Takes what a server says of itself, or why it cannot be used.
    fn report(&self, index: usize, look: Result<Look, String>) {
        let mut state = self.state();
        let new = match &look {
            Ok(look) => sighting(&look.sight),
            Err(_) => Sighting::Away,
        };
        if let Some(sighting) = state.sightings.get_mut(index) {
            *sighting = new;
        }
        if let Some(problem) = state.problems.get_mut(index) {
            *problem = look.as_ref().err().cloned().unwrap_or_default();
        }
        let verdict = elect(&state.sightings, state.known, state.current);
        let target = match verdict {
            Verdict::Primary(primary, line) => {
                if state.current != Some(primary) {
                    self.tell_of(primary);
                }
                state.current = Some(primary);
                state.known = Some(line);
                Target::Primary(primary, line)
            }
            Verdict::Wait => Target::Wait,
            // It may only be slow. Statements that fail there begin to look for another one.
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
        if let (Some(secondary), Ok(look), Verdict::Primary(primary, _)) = (&self.secondary, look, verdict)
            && primary == index
            && let Role::Primary(note) = look.sight.role
        {
            secondary.primary(look, note);
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
        let now: Vec<(usize, Refused)> = refused(&state.sightings, state.known, primary).collect();
        for (index, told) in state.told.iter_mut().enumerate() {
            let new = now.iter().find(|(refused, _)| *refused == index).map(|(_, why)| *why);
            if let (Some(why), Some(server)) = (new.filter(|why| *told != Some(*why)), self.servers.get(index)) {
                let why = match why {
                    Refused::OldTimeline { own, newest } => {
                        format!("it takes writes on timeline {own}, and the primary has timeline {newest}: stop it")
                    }
                    Refused::OtherSystem => "it is no copy of the primary: another system_identifier".to_owned(),
                    Refused::Second => {
                        "it takes writes on the timeline of the primary: one of the two must stop".to_owned()
                    }
                };
                tracing::warn!(node = server.name(), why, "the server is refused as primary");
            }
            *told = new;
        }
    }

    /// Why there is no primary.
    fn why(&self, state: &State) -> String {
        let of_each = self.servers.iter().zip(&state.sightings).zip(&state.problems);
        let of_each = of_each.map(|((server, sighting), problem)| match sighting {
            Sighting::Standby => format!("{} is in recovery", server.name()),
            Sighting::Primary(_) => format!("{} is refused as primary", server.name()),
            Sighting::Asked | Sighting::Away => format!("{}: {problem}", server.name()),
        });
        of_each.collect::<Vec<_>>().join("; ")
    }

    fn name(&self) -> String {
        let names: Vec<&str> = self.servers.iter().map(Connector::name).collect();
        names.join(", ")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_away(state: &State, index: usize) -> bool {
    state.sightings.get(index) == Some(&Sighting::Away)
}

fn sighting(sight: &Sight) -> Sighting {
    match sight.role {
        Role::Primary(_) => Sighting::Primary(sight.line),
        Role::Standby(_) => Sighting::Standby,
    }
}
