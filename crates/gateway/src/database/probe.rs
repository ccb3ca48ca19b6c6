//! The probe of a server: its part in replication, as it says itself.

use std::time::SystemTime;

use table_service_connect::with_sources;
use table_service_model::Lsn;
use table_service_model::replication::{Instance, Layout, Note, Role, ServerStatus, Timeline, timeline_of_file};
use tokio_postgres::Row;

/// The answer of a server to [`PROBE`](super::statements::PROBE).
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    pub status: ServerStatus,
    /// Whether the database is distributed by Citus. Then one standby has only a part of the data.
    pub has_citus: bool,
    /// The OID of the database, the same in a primary and all its physical copies.
    pub database: u32,
    /// When the server started, by its own clock, in microseconds since 1970.
    pub started: i64,
}

/// A database of a running server. All ways to it tell the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub instance: Instance,
    /// The OID of the database.
    pub database: u32,
}

impl Probe {
    /// Returns the database that has answered.
    pub fn place(&self) -> Place {
        let instance = Instance {
            timeline: self.status.timeline,
            started: self.started,
        };
        Place {
            instance,
            database: self.database,
        }
    }
}

/// Reads the answer.
///
/// # Errors
/// If it lacks a position or a timeline.
pub fn read(row: &Row) -> Result<Probe, String> {
    read_row(row)
        .map_err(|error| with_sources(&error))?
        .ok_or_else(|| "it does not say how far it is".to_owned())
}

fn read_row(row: &Row) -> Result<Option<Probe>, tokio_postgres::Error> {
    let clock: SystemTime = row.try_get(0)?;
    let position: Option<String> = row.try_get(1)?;
    let file: Option<String> = row.try_get(2)?;
    let standby_timeline: Option<i32> = row.try_get(3)?;
    let system = row.try_get(4)?;
    let (page, segment): (i32, i32) = (row.try_get(5)?, row.try_get(6)?);
    let recovers: bool = row.try_get(7)?;
    let Some(position) = position.as_deref().and_then(|position| Lsn::parse(position).ok()) else {
        return Ok(None);
    };
    let number = match &file {
        Some(file) => timeline_of_file(file),
        None => standby_timeline.and_then(|timeline| u32::try_from(timeline).ok()),
    };
    let Some(number) = number else { return Ok(None) };
    let role = if recovers {
        Role::Standby(position)
    } else {
        let size = |bytes: i32| u64::try_from(bytes).unwrap_or_default();
        let layout = Layout {
            page: size(page),
            segment: size(segment),
        };
        Role::Primary(Note {
            clock: microseconds(clock),
            position: layout.end_before(position),
        })
    };
    let timeline = Timeline { system, number };
    Ok(Some(Probe {
        status: ServerStatus { timeline, role },
        has_citus: row.try_get(8)?,
        database: row.try_get(9)?,
        started: microseconds(row.try_get(10)?),
    }))
}

/// A moment in microseconds since 1970.
fn microseconds(moment: SystemTime) -> i64 {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
