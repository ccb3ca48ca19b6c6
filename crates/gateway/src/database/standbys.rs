//! The standbys that serve the secondary endpoint of an account. The rules are in the model (`replication`).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use table_service_model::replication::{Answer, Note, Problem, Standbys};

use super::sight::Look;

/// What is known of the standbys of an account.
pub struct Secondary {
    rules: Mutex<Standbys>,
    names: Vec<String>,
    /// The primary's `system_identifier`, and the OID of its database.
    database: Mutex<Option<(i64, u32)>>,
    /// What the log has about each: why it serves no reads, or that it does.
    told: Mutex<Vec<Option<Result<(), String>>>>,
}

/// A standby, for the metrics.
#[derive(Debug, Clone, Copy)]
pub struct StandbyStatus {
    pub is_serving: bool,
    /// How far it is behind the primary, as far as both are known.
    pub lag: Option<Duration>,
}

impl Secondary {
    pub fn new(names: Vec<String>, max_staleness: Option<Duration>) -> Secondary {
        let limit = max_staleness.map(|limit| i64::try_from(limit.as_micros()).unwrap_or(i64::MAX));
        Secondary {
            rules: Mutex::new(Standbys::new(names.len(), limit)),
            told: Mutex::new(vec![None; names.len()]),
            names,
            database: Mutex::default(),
        }
    }

    /// Takes what the primary has said.
    pub fn primary(&self, look: Look, note: Note) {
        *self.database.lock().unwrap_or_else(PoisonError::into_inner) = Some((look.sight.line.system, look.database));
        self.rules().primary(look.sight.line, note);
        for index in 0..self.names.len() {
            self.tell(index, None);
        }
    }

    /// Takes what a standby has said, or why it cannot be used.
    pub fn standby(&self, index: usize, look: Result<Look, String>) {
        let look = look.and_then(|look| self.refuse_other_data(look));
        let sight = look.as_ref().ok().map(|look| look.sight);
        self.rules().standby(index, sight);
        self.tell(index, look.err());
    }

    pub fn is_serving(&self, index: usize) -> bool {
        self.rules().state(index).is_ok()
    }

    /// Checks that a connection may serve a read that begins now, by what its own server has said over it.
    ///
    /// # Errors
    /// Why it may not.
    pub fn admits(&self, look: Look) -> Result<(), String> {
        let look = self.refuse_other_data(look)?;
        self.rules().admits(look.sight).map(drop).map_err(in_words)
    }

    /// Why no standby serves reads.
    pub fn why_none(&self) -> String {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let of_each = self.names.iter().zip(told.iter()).map(|(name, told)| match told {
            Some(Err(problem)) => format!("{name}: {problem}"),
            _ => format!("{name} cannot be reached"),
        });
        of_each.collect::<Vec<_>>().join("; ")
    }

    /// What the secondary endpoint answers about itself.
    pub fn answer(&self) -> Answer {
        self.rules().answer()
    }

    /// The same, for those that do not rely on it.
    pub fn peek(&self) -> Answer {
        self.rules().peek()
    }

    pub fn status(&self, index: usize) -> StandbyStatus {
        let rules = self.rules();
        let lag = rules.behind(index).and_then(|lag| u64::try_from(lag).ok());
        StandbyStatus {
            is_serving: rules.state(index).is_ok(),
            lag: lag.map(Duration::from_micros),
        }
    }

    /// Writes to the log when a standby begins or ceases to serve reads.
    fn tell(&self, index: usize, away: Option<String>) {
        let state = self.rules().state(index);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn refuse_other_data(&self, look: Look) -> Result<Look, String> {
        let known = *self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = known.is_some_and(|(system, oid)| look.sight.line.system == system && look.database != oid);
        match look.has_citus {
            true => Err(OF_CITUS.to_owned()),
            false if is_other => Err(OTHER_DATABASE.to_owned()),
            false => Ok(look),
        }
    }

    fn rules(&self) -> MutexGuard<'_, Standbys> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
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
