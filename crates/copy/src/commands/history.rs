//! The command `history`.

use std::collections::BTreeSet;
use std::io::{BufWriter, ErrorKind, Write};

use serde_json::{Map, Value};
use table_service_archive::{Archive, Version};
use tokio::task::block_in_place;

use crate::ends::output;
use crate::failure::{Failure, exit};
use crate::printable::{escaped, tell};
use crate::records::Selection;

use super::arguments::{HistoryArguments, HistoryFormat};

/// Shows versions of entities, and returns the exit status.
pub fn history(arguments: &HistoryArguments) -> Result<u8, Failure> {
    block_in_place(|| {
        let selection = Selection::read(Some(&arguments.filter))?;
        let archive = Archive::open(&arguments.from)?;
        let mut out = BufWriter::new(output::for_data()?);
        let (epochs, told) = archive.history(
            &arguments.table,
            &|record| selection.selects(record),
            arguments.since,
            arguments.until,
        )?;
        for note in told.notes.iter().chain(&told.unknown) {
            tell(&format!("table-service-copy: {note}"));
        }
        let code = match told.unknown.is_empty() {
            true => exit::DONE,
            false => exit::DIFFERENT,
        };
        for mut versions in epochs {
            while let Some((_, line)) = versions.next().map_err(|error| Failure::new(error.to_string()))? {
                let text = match arguments.format {
                    HistoryFormat::Lines => line,
                    HistoryFormat::Text => text(&line)?.into_bytes(),
                };
                match out.write_all(&text).and_then(|()| out.write_all(b"\n")) {
                    // A reader that has seen enough.
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(code),
                    written => written.map_err(|error| Failure::new(error.to_string()))?,
                }
            }
        }
        match out.flush() {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::new(error.to_string())),
            _ => Ok(code),
        }
    })
}

/// A version in one line: its time, its kind, the entity and the changes.
fn text(line: &[u8]) -> Result<String, Failure> {
    let failed = |error: serde_json::Error| Failure::new(error.to_string());
    let version: Version = serde_json::from_slice(line).map_err(failed)?;
    let members = |json: &serde_json::value::RawValue| serde_json::from_str::<Map<String, Value>>(json.get());
    let (before, after) = (
        members(&version.before).map_err(failed)?,
        members(&version.after).map_err(failed)?,
    );
    let Some(partition_key) = version.partition_key else {
        let about = version.properties.as_deref().map(members).transpose().map_err(failed)?;
        let about = |name| about.as_ref()?.get(name)?.as_str();
        let what = match version.kind.as_str() {
            "gap" => {
                let until = about("Until").unwrap_or("the end");
                format!("until {until}: {}", about("Reason").unwrap_or_default())
            }
            "rename" => format!("{} -> {}", about("Before").unwrap_or_default(), version.table_name),
            _ => version.table_name,
        };
        return Ok(escaped(&format!("{} {:6} {what}", version.committed, version.kind)));
    };
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changes: Vec<String> = names
        .into_iter()
        .filter_map(|name| match (before.get(name), after.get(name)) {
            (Some(old), Some(new)) if old == new => None,
            (Some(old), Some(new)) => Some(format!("{name}: {old} -> {new}")),
            (Some(old), None) => Some(format!("-{name}: {old}")),
            (None, new) => Some(format!("+{name}: {}", new.cloned().unwrap_or_default())),
        })
        .collect();
    let key = format!("({partition_key:?}, {:?})", version.row_key.unwrap_or_default());
    let text = format!("{} {:6} {key} {}", version.committed, version.kind, changes.join(", "));
    Ok(escaped(text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_one_line() {
        let line = br#"{"position":"0/1","committed":"2026-01-01T00:00:00Z","table_name":"T","kind":"update","partition_key":"p","row_key":"r\u001b","timestamp":null,"properties":{},"before":{"A":1,"B":"x","C":2},"after":{"A":2,"D":"y\n"}}"#;
        assert_eq!(
            text(line).unwrap(),
            r#"2026-01-01T00:00:00Z update ("p", "r\u{1b}") A: 1 -> 2, -B: "x", -C: 2, +D: "y\n""#
        );
        let line = br#"{"position":"0/1","committed":"2026-01-01T00:00:00Z","table_name":"T","kind":"gap","partition_key":null,"row_key":null,"timestamp":null,"properties":{"Reason":"x\u001b","Until":null},"before":{},"after":{}}"#;
        assert_eq!(
            text(line).unwrap(),
            "2026-01-01T00:00:00Z gap    until the end: x\\u{1b}"
        );
    }
}
