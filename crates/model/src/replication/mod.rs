//! Physical replication as a client of several servers sees it: which server is the primary, which standbys may serve reads, and
//! how far back those reads are (semantics 4.11).
//!
//! Everything here depends on the status that the servers have sent. The caller asks them, and decides when.

mod copies;
mod election;
mod notes;
mod standbys;
mod status;

pub use copies::Copies;
pub use election::{HostState, Refused, Verdict, elect, refused};
pub use notes::{Note, Notes};
pub use standbys::{Answer, Problem, Standbys};
pub use status::{Role, ServerStatus};

use crate::Lsn;

/// A timeline of a system. Only positions in the write-ahead log of the same timeline can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeline {
    /// `system_identifier`, the same in a primary and all its physical copies.
    pub system: i64,
    /// Each promotion begins a timeline with a higher number.
    pub number: u32,
}

/// A server from its start until it stops. Two names of a server lead to one of these, and its copies are others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instance {
    pub timeline: Timeline,
    /// When it started, by its own clock, in microseconds since 1970.
    pub started: i64,
}

/// The sizes of the pages and of the files of a write-ahead log, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub page: u64,
    pub segment: u64,
}

/// The bytes of the header of a page, and of that of the first page of a segment.
const PAGE_HEADER: u64 = 24;
const SEGMENT_HEADER: u64 = 40;

impl Layout {
    /// Returns the end of the log that a server has to replay before the next record, from the position of that record.
    /// If the page is new, the position is behind its header. No record ends there: the replayed log ends where the page
    /// begins.
    #[must_use]
    pub fn end_before(self, insert: Lsn) -> Lsn {
        let in_segment = insert.0.checked_rem(self.segment);
        let in_page = insert.0.checked_rem(self.page);
        let header = match (in_segment, in_page) {
            (Some(SEGMENT_HEADER), _) => SEGMENT_HEADER,
            (_, Some(PAGE_HEADER)) => PAGE_HEADER,
            _ => 0,
        };
        Lsn(insert.0.saturating_sub(header))
    }
}

/// Returns the timeline in the name of a file of the write-ahead log, such as `000000010000000000000003`.
#[must_use]
pub fn timeline_of_file(name: &str) -> Option<u32> {
    u32::from_str_radix(name.get(..8)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout {
        page: 8192,
        segment: 16 << 20,
    };

    #[test]
    fn a_position_behind_a_header_is_the_start_of_its_page() {
        for (insert, end) in [
            (0x0300_0028, 0x0300_0000),
            (0x0300_2018, 0x0300_2000),
            (0x0300_2028, 0x0300_2028),
            (0x0300_0018, 0x0300_0000),
            (0x0300_2000, 0x0300_2000),
            (0x0300_2020, 0x0300_2020),
            (0, 0),
        ] {
            assert_eq!(LAYOUT.end_before(Lsn(insert)), Lsn(end), "{insert:x}");
        }
        let unknown = Layout { page: 0, segment: 0 };
        assert_eq!(unknown.end_before(Lsn(24)), Lsn(24));
    }

    #[test]
    fn file_names_are_read() {
        assert_eq!(timeline_of_file("0000000A0000000000000003"), Some(10));
        assert_eq!(timeline_of_file("0000"), None);
        assert_eq!(timeline_of_file("zzzzzzzz0000000000000003"), None);
    }
}
