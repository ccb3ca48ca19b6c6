//! What a server says of its part in replication.

use std::time::SystemTime;

use table_service_connect::with_sources;
use table_service_model::replication::{Layout, Line, Note, Position, Role, Sight, timeline_of_file};
use tokio_postgres::Row;

/// Asks a server, in this order: the clock is read before the position, so that what was acknowledged before that moment is before
/// that position. Without the privileges of `pg_read_all_stats` the timeline of a standby is that of its last restartpoint.
pub const LOOK: &str = "SELECT pg_catalog.clock_timestamp(), \
     CASE WHEN r.recovers THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_insert_lsn() END::pg_catalog.text, \
     CASE WHEN NOT r.recovers THEN pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()) END, \
     coalesce((SELECT w.received_tli FROM pg_catalog.pg_stat_wal_receiver AS w), \
              (SELECT c.timeline_id FROM pg_catalog.pg_control_checkpoint() AS c)), \
     s.system_identifier, i.wal_block_size, i.bytes_per_wal_segment, r.recovers, \
     EXISTS (SELECT FROM pg_catalog.pg_extension AS e WHERE e.extname OPERATOR(pg_catalog.=) 'citus'), \
     (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()) \
     FROM (SELECT pg_catalog.pg_is_in_recovery() AS recovers OFFSET 0) AS r, \
     pg_catalog.pg_control_system() AS s, pg_catalog.pg_control_init() AS i";

/// What a server has said of itself.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    pub sight: Sight,
    /// Whether the database is distributed by Citus. Then one standby has only a part of the data.
    pub has_citus: bool,
    /// The OID of the database, the same in a primary and all its physical copies.
    pub database: u32,
}

/// Reads the answer to [`LOOK`].
///
/// # Errors
/// If it is none of PostgreSQL.
pub fn look(row: &Row) -> Result<Look, String> {
    read(row)
        .map_err(|error| with_sources(&error))?
        .ok_or_else(|| "it does not say how far it is".to_owned())
}

fn read(row: &Row) -> Result<Option<Look>, tokio_postgres::Error> {
    let clock: SystemTime = row.try_get(0)?;
    let position: Option<String> = row.try_get(1)?;
    let file: Option<String> = row.try_get(2)?;
    let standby_timeline: Option<i32> = row.try_get(3)?;
    let system = row.try_get(4)?;
    let (page, segment): (i32, i32) = (row.try_get(5)?, row.try_get(6)?);
    let recovers: bool = row.try_get(7)?;
    let Some(position) = position.as_deref().and_then(Position::parse) else {
        return Ok(None);
    };
    let timeline = match &file {
        Some(file) => timeline_of_file(file),
        None => standby_timeline.and_then(|timeline| u32::try_from(timeline).ok()),
    };
    let Some(timeline) = timeline else { return Ok(None) };
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
    let line = Line { system, timeline };
    Ok(Some(Look {
        sight: Sight { line, role },
        has_citus: row.try_get(8)?,
        database: row.try_get(9)?,
    }))
}

/// A moment in microseconds since 1970.
fn microseconds(moment: SystemTime) -> i64 {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
