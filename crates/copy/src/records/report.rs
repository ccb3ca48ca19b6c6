//! The report at the end.

use serde::Serialize;

use crate::failure::Failure;

use super::outcome::Outcome;

/// How many entities there were in a second.
pub fn rate(entities: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { entities as f64 / seconds } else { 0.0 }
}

/// The work on one table.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TableReport {
    pub table: String,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Whether `--as-it-was` made it.
    #[serde(skip)]
    pub as_it_was: bool,
}

impl TableReport {
    /// The work of a copy, and not of `--as-it-was`.
    pub fn of_copy(table: &str, outcome: Outcome) -> TableReport {
        TableReport {
            table: table.to_owned(),
            outcome,
            as_it_was: false,
        }
    }
}

/// A table that was not served, and why.
#[derive(Debug, Serialize)]
pub struct LeftOut {
    pub table: String,
    pub reason: String,
}

impl LeftOut {
    /// The line for people.
    pub fn text(&self) -> String {
        format!("{}: left out: {}", self.table, self.reason)
    }
}

/// The work of a run.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub from: String,
    pub to: String,
    pub tables: Vec<TableReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
    pub seconds: f64,
    /// The time of the source's clock when the copy, or its last round, began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    pub notes: Vec<String>,
}

impl Report {
    /// Adds a sentence.
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
        match self.tables.iter_mut().find(|known| known.table == done.table) {
            Some(known) => known.outcome.count(&done.outcome),
            None => self.tables.push(TableReport {
                outcome: Outcome::of(|counted| counted.count(&done.outcome)),
                ..done
            }),
        }
    }

    /// The counts of all tables.
    pub fn sum(&self) -> Outcome {
        let mut sum = Outcome::default();
        self.tables.iter().for_each(|table| sum.count(&table.outcome));
        sum
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for table in &self.tables {
            let (table, done, is_copy) = (&table.table, &table.outcome, !table.as_it_was);
            let Outcome { written, rejected, .. } = done;
            let deleted = format!("{} deleted", done.deleted);
            // Only a copy that follows deletes.
            let too = if done.deleted > 0 { &format!(", {deleted}") } else { "" };
            lines.push(match is_copy {
                true => format!(
                    "{table}: {} read, {written} written, {} skipped, {rejected} rejected{too}",
                    done.read, done.skipped
                ),
                false => format!(
                    "{table}: {written} written, {deleted}, {} left as they were, {} changed by others meanwhile, {rejected} rejected",
                    done.left, done.changed
                ),
            });
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
