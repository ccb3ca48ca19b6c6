//! What was done, at the end.

use serde::Serialize;

use crate::failure::Failure;

/// How many entities there were in a second.
pub fn rate(entities: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { entities as f64 / seconds } else { 0.0 }
}

/// What else `restore --as-it-was` has done with a table.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct AsItWas {
    pub deleted: u64,
    /// They were as they are to be.
    pub left: u64,
    /// Others have written them meanwhile.
    pub changed: u64,
}

#[derive(Debug, Clone, Default, Serialize)]
pub struct TableReport {
    pub table: String,
    pub read: u64,
    pub written: u64,
    pub skipped: u64,
    pub rejected: u64,
    pub new_timestamps: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub as_it_was: Option<AsItWas>,
}

impl TableReport {
    /// Adds the counts of another report.
    fn count(&mut self, other: &TableReport) {
        self.read += other.read;
        self.written += other.written;
        self.skipped += other.skipped;
        self.rejected += other.rejected;
        self.new_timestamps += other.new_timestamps;
    }
}

/// A table that was not served, and why.
#[derive(Debug, Serialize)]
pub struct LeftOut {
    pub table: String,
    pub reason: String,
}

impl LeftOut {
    pub fn text(&self) -> String {
        format!("{}: left out: {}", self.table, self.reason)
    }
}

#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub from: String,
    pub to: String,
    pub tables: Vec<TableReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    pub seconds: f64,
    /// What the source's clock showed when the copy, or its last round, began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    pub notes: Vec<String>,
}

impl Report {
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// # Errors
    /// A table that was left out: a copy that follows has all of its tables.
    pub fn require_all(&self) -> Result<(), Failure> {
        match self.left_out.first() {
            Some(LeftOut { table, reason }) => Err(Failure::new(format!("Table {table} cannot be followed: {reason}"))),
            None => Ok(()),
        }
    }

    /// Adds the counts of a round of a table.
    pub fn add(&mut self, done: TableReport) {
        match self.tables.iter_mut().find(|table| table.table == done.table) {
            Some(table) => table.count(&done),
            None => self.tables.push(done),
        }
    }

    pub fn sum(&self) -> TableReport {
        let mut sum = TableReport::default();
        for table in &self.tables {
            sum.count(table);
        }
        sum
    }

    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for table in &self.tables {
            if let Some(done) = &table.as_it_was {
                lines.push(format!(
                    "{}: {} written, {} deleted, {} left as they were, {} changed by others meanwhile, {} rejected",
                    table.table, table.written, done.deleted, done.left, done.changed, table.rejected
                ));
                continue;
            }
            lines.push(format!(
                "{}: {} read, {} written, {} skipped, {} rejected",
                table.table, table.read, table.written, table.skipped, table.rejected
            ));
        }
        lines.extend(self.left_out.iter().map(LeftOut::text));
        let sum = self.sum();
        let rate = rate(sum.read, self.seconds);
        lines.push(format!(
            "{} tables, {} entities in {:.1} s, {rate:.0} a second",
            self.tables.len(),
            sum.written,
            self.seconds
        ));
        if sum.new_timestamps > 0 {
            lines.push(format!(
                "{} of {} entities have a new Timestamp: a database gives one to an entity that it replaces, a service to every entity.",
                sum.new_timestamps, sum.written
            ));
        }
        if let Some(started) = &self.started {
            lines.push(format!(
                "By the source's clock it began at {started}; --since {started} copies what changed since then."
            ));
        }
        lines.extend(self.notes.iter().cloned());
        lines.join("\n")
    }
}
