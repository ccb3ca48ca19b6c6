//! Point reads and writes in groups.

use std::time::Duration;

use table_service_model::PropertiesBuf;
use table_service_model::batch::Action;
use tokio_postgres::Row;

use super::error::{Diagnosis, column};
use super::groups::{Arrays, GroupedCall, Outcome, Waiting};
use super::statements::Statement;
use super::types::{BagParameter, BatchOperation};
use crate::failure::Failure;

/// The most bytes of a call in a group. So the message of a group is not so large that its connection is closed
/// after it, and each request has taken more memory than that beside its body.
const SMALL: usize = 8 * 1024;

/// PartitionKey and RowKey of an entity that is read.
pub struct PointRead(pub [String; 2]);

impl GroupedCall for PointRead {
    type Value = Option<Row>;
    const STATEMENT: Statement = Statement::GetEntitiesByKeys;
    const SHORT: Duration = Duration::from_micros(300);

    fn arrays(group: &[Waiting<PointRead>]) -> Arrays<'_> {
        let keys = group
            .iter()
            .map(|waiting| waiting.call.0.each_ref().map(String::as_str).into());
        let (partition_keys, row_keys): (Vec<&str>, Vec<&str>) = keys.unzip();
        [Box::new(partition_keys), Box::new(row_keys)]
    }

    fn outcomes(rows: Vec<Row>, calls: usize) -> Vec<Outcome<PointRead>> {
        let mut outcomes: Vec<Outcome<PointRead>> = (0..calls).map(|_| Some(Ok(None))).collect();
        for row in rows {
            match place(&mut outcomes, &row, 2) {
                Some(outcome) => *outcome = Some(Ok(Some(row))),
                None => return (0..calls).map(|_| None).collect(),
            }
        }
        outcomes
    }
}

/// A write of an entity.
pub struct PointWrite {
    pub action: Action,
    pub keys: [String; 2],
    pub properties: Option<PropertiesBuf>,
    pub if_match: Option<String>,
}

impl GroupedCall for PointWrite {
    /// The ETag; `None` after a delete.
    type Value = Option<String>;
    const STATEMENT: Statement = Statement::WriteEntities;
    const SHORT: Duration = Duration::from_millis(2);

    fn arrays(group: &[Waiting<PointWrite>]) -> Arrays<'_> {
        let calls = group.iter().map(|Waiting { call, .. }| {
            let [partition_key, row_key] = &call.keys;
            let operation = BatchOperation {
                operation: call.action.name(),
                row_key,
                properties: call.properties.as_ref().map(BagParameter),
                if_match: call.if_match.as_deref(),
            };
            (partition_key.as_str(), operation)
        });
        let (partition_keys, operations): (Vec<&str>, Vec<BatchOperation<'_>>) = calls.unzip();
        [Box::new(partition_keys), Box::new(operations)]
    }

    fn outcomes(rows: Vec<Row>, calls: usize) -> Vec<Outcome<PointWrite>> {
        let unknown = || Diagnosis::without_connection(Failure::internal("A write of a group has no outcome"));
        let mut outcomes: Vec<Outcome<PointWrite>> = (0..calls).map(|_| Some(Err(unknown()))).collect();
        for row in rows {
            if let Some(outcome) = place(&mut outcomes, &row, 0) {
                *outcome = written(&row).unwrap_or_else(|failure| Some(Err(Diagnosis::without_connection(failure))));
            }
        }
        outcomes
    }
}

/// Returns the place for the outcome of a row. A column has its number.
fn place<'o, T>(outcomes: &'o mut [T], row: &Row, number: usize) -> Option<&'o mut T> {
    let number: i32 = column(row, number).ok()?;
    outcomes.get_mut(usize::try_from(number).ok()?)
}

/// Returns the outcome of a write.
fn written(row: &Row) -> Result<Outcome<PointWrite>, Failure> {
    Ok(match column(row, 1)? {
        "done" => Some(Ok(column(row, 2)?)),
        "failed" => {
            let hint: Option<String> = column(row, 5)?;
            // Whatever is not an error of the catalog is found out by the single call.
            Diagnosis::of_report(column(row, 3)?, column(row, 4)?, hint).map(Err)
        }
        _ => None,
    })
}

/// Returns whether a call with these parts may wait for a group.
pub fn is_small(keys: [&str; 2], properties: Option<&PropertiesBuf>, if_match: Option<&str>) -> bool {
    let properties = properties.map_or(0, |properties| properties.as_bytes().len());
    keys.map(str::len).iter().sum::<usize>() + properties + if_match.map_or(0, str::len) <= SMALL
}
