//! The standbys that serve the secondary endpoint of an account. The rules are in the model (`replication`).

use std::time::Duration;

use parking_lot::Mutex;
use table_service_model::replication::{Answer, Note, Problem, Standbys};

use super::probe::Probe;

/// The state of the standbys of an account.
pub struct Secondary {
    rules: Mutex<Standbys>,
    names: Vec<String>,
    /// The primary's `system_identifier`, and the OID of its database.
    database: Mutex<Option<(i64, u32)>>,
    /// The last line of the log about each: why it serves no reads, or that it does.
    told: Mutex<Vec<Option<Result<(), String>>>>,
}

/// A standby, for the metrics.
#[derive(Debug, Clone, Copy)]
pub struct StandbyStatus {
    pub is_serving: bool,
    /// The time that it is behind the primary, if both are known.
    pub lag: Option<Duration>,
}

impl Secondary {
    /// Makes the state of standbys before anything is known of them.
    pub fn new(names: Vec<String>, max_staleness: Option<Duration>) -> Secondary {
        let limit = max_staleness.map(|limit| i64::try_from(limit.as_micros()).unwrap_or(i64::MAX));
        Secondary {
            rules: Mutex::new(Standbys::new(names.len(), limit)),
            told: Mutex::new(vec![None; names.len()]),
            names,
            database: Mutex::default(),
        }
    }

    /// Takes a probe of the primary.
    pub fn primary(&self, probe: Probe, note: Note) {
        *self.database.lock() = Some((probe.status.timeline.system, probe.database));
        self.rules.lock().primary(probe.status.timeline, note);
        for index in 0..self.names.len() {
            self.tell(index, None);
        }
    }

    /// Takes a probe of a standby, or the reason why the standby cannot be used.
    pub fn standby(&self, index: usize, probe: Result<Probe, String>) {
        let probe = probe.and_then(|probe| self.refuse_other_data(probe));
        let status = probe.as_ref().ok().map(|probe| probe.status);
        self.rules.lock().standby(index, status);
        self.tell(index, probe.err());
    }

    /// Returns whether a standby may serve reads, by its last probe.
    pub fn is_serving(&self, index: usize) -> bool {
        self.rules.lock().state(index).is_ok()
    }

    /// Checks that a connection may serve a read that begins now, by the last probe over it.
    pub fn admits(&self, probe: Probe) -> Result<(), String> {
        let probe = self.refuse_other_data(probe)?;
        self.rules.lock().admits(probe.status).map(drop).map_err(in_words)
    }

    /// Why no standby serves reads.
    pub fn why_none(&self) -> String {
        let told = self.told.lock();
        let of_each = self.names.iter().zip(told.iter()).map(|(name, told)| match told {
            Some(Err(problem)) => format!("{name}: {problem}"),
            _ => format!("{name} cannot be reached"),
        });
        of_each.collect::<Vec<_>>().join("; ")
    }

    /// Returns the answer of the secondary endpoint about itself.
    pub fn answer(&self) -> Answer {
        self.rules.lock().answer()
    }

    /// Returns the same, without a promise that later answers are not before it.
    pub fn peek(&self) -> Answer {
        self.rules.lock().peek()
    }

    /// Returns the state of a standby, for the metrics.
    pub fn status(&self, index: usize) -> StandbyStatus {
        let rules = self.rules.lock();
        let lag = rules.behind(index).and_then(|lag| u64::try_from(lag).ok());
        StandbyStatus {
            is_serving: rules.state(index).is_ok(),
            lag: lag.map(Duration::from_micros),
        }
    }

    /// Writes to the log when a standby begins or ceases to serve reads.
    fn tell(&self, index: usize, away: Option<String>) {
        let state = self.rules.lock().state(index);
        let mut told = self.told.lock();
        let (Some(told), Some(name)) = (told.get_mut(index), self.names.get(index)) else {
            return;
        };
        let new = match (state, away) {
            (Ok(_), _) => Ok(()),
            (Err(_), Some(problem)) => Err(problem),
            // The text of its last attempt says more.
            (Err(Problem::Away), None) => return,
            (Err(problem), None) => Err(in_words(problem)),
        };
        if told.as_ref() == Some(&new) {
            return;
        }
        match &new {
            Ok(()) => tracing::info!(node = name, "the standby serves reads"),
            Err(problem) => tracing::warn!(node = name, problem, "the standby serves no reads"),
        }
        *told = Some(new);
    }

    /// Refuses a copy of the primary where other tables are read.
    fn refuse_other_data(&self, probe: Probe) -> Result<Probe, String> {
        let known = *self.database.lock();
        let is_other =
            known.is_some_and(|(system, oid)| probe.status.timeline.system == system && probe.database != oid);
        match probe.has_citus {
            true => Err(OF_CITUS.to_owned()),
            false if is_other => Err(OTHER_DATABASE.to_owned()),
            false => Ok(probe),
        }
    }
}

/// Why the standbys of a distributed database serve no reads.
pub const OF_CITUS: &str =
    "the database is distributed by Citus: a standby of one of its nodes has only a part of the tables";

/// Why a standby serves no reads although it is a copy of the primary.
const OTHER_DATABASE: &str =
    "its URL names another database than database_url: a standby has the database of its primary";

fn in_words(problem: Problem) -> String {
    match problem {
        Problem::Away => "it cannot be reached".to_owned(),
        Problem::PrimaryUnknown => "the primary has not been reached yet".to_owned(),
        Problem::NotAStandby => "it is not in recovery, so it is no standby".to_owned(),
        Problem::OtherSystem => "it is no copy of the primary: another system_identifier".to_owned(),
        Problem::OtherTimeline { own, primary } => {
            format!("it is on timeline {own}, and the primary on timeline {primary}")
        }
        Problem::NoMomentYet => "it has not replayed anything of which the moment is known".to_owned(),
        Problem::CatchingUp => "it is behind the LastSyncTime that was answered last".to_owned(),
        Problem::TooFarBehind => "it is further behind than max_staleness".to_owned(),
    }
}
