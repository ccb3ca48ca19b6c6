//! Histories made by hand: each bug must be found and named, and a right history must pass.

use std::collections::BTreeMap;

use histories_tests::check::check;
use histories_tests::history::{History, Operation, Outcome, Record, Seen};
use histories_tests::model::{Condition, Key, Kind, Properties, Refusal, Timestamp, VERSION, Write, WriteId};

/// The Timestamp of version `number`, if it is given in the order of the numbers.
fn at(number: u64) -> Timestamp {
    Timestamp::of_etag(&format!("W/\"datetime'2026-01-01T00%3A00%3A00.{number:06}Z'\""))
}

fn write(kind: Kind, key: Key, id: WriteId, condition: Condition) -> Write {
    Write {
        kind,
        key,
        id,
        property: "a".to_owned(),
        condition,
    }
}

fn insert(key: Key, id: WriteId) -> Write {
    write(Kind::Insert, key, id, Condition::AnyVersion)
}

fn replace(key: Key, id: WriteId, version: WriteId) -> Write {
    write(Kind::Replace, key, id, Condition::Version(version))
}

fn delete(key: Key, id: WriteId) -> Write {
    write(Kind::Delete, key, id, Condition::AnyVersion)
}

/// The entities of a partition after writes without merges.
fn seen(versions: &[(Key, WriteId)]) -> Outcome {
    let entity = |&(key, id): &(Key, WriteId)| {
        let properties = Properties::from([(VERSION.to_owned(), id), ("a".to_owned(), id)]);
        (
            key,
            Seen {
                properties,
                timestamp: at(id),
            },
        )
    };
    Outcome::Found(versions.iter().map(entity).collect::<BTreeMap<_, _>>())
}

fn written(versions: &[WriteId]) -> Outcome {
    Outcome::Written(versions.iter().map(|id| Some(at(*id))).collect())
}

/// A history of operations with their begin and end.
#[derive(Default)]
struct Made(History);

impl Made {
    fn record(mut self, [begin, end]: [usize; 2], operation: Operation, outcome: Outcome) -> Made {
        let client = format!("c{}", self.0.records.len());
        self.0.records.push(Record {
            client,
            operation,
            outcome,
            begin,
            end,
        });
        self
    }

    fn write(self, times: [usize; 2], write: Write, outcome: Outcome) -> Made {
        self.record(times, Operation::Write(vec![write]), outcome)
    }

    #[track_caller]
    fn passes(self) {
        assert_eq!(check(&self.0), Ok(()));
    }

    #[track_caller]
    fn fails(self, reason: &str) {
        let problem = check(&self.0).unwrap_err();
        assert!(problem.starts_with(reason), "{problem}");
    }
}

fn inserted() -> Made {
    Made::default().write([1, 2], insert(0, 1), written(&[1]))
}

#[test]
fn what_is_right_passes() {
    inserted()
        // Two at once: one of them wins.
        .write([3, 6], replace(0, 2, 1), written(&[2]))
        .write(
            [4, 5],
            replace(0, 3, 1),
            Outcome::Refused(0, Refusal::UpdateConditionNotSatisfied),
        )
        // It may read before or after the write that runs beside it.
        .record([7, 10], Operation::Query, seen(&[(0, 2)]))
        .write([8, 9], delete(0, 4), Outcome::Written(vec![None]))
        .record([11, 12], Operation::Get(0), seen(&[]))
        .write([13, 14], delete(0, 5), Outcome::Refused(0, Refusal::ResourceNotFound))
        .passes();
}

#[test]
fn what_is_in_doubt_may_be_done_later_or_never() {
    let doubtful = || inserted().write([3, usize::MAX], replace(0, 2, 1), Outcome::Unknown);
    doubtful().record([4, 5], Operation::Get(0), seen(&[(0, 1)])).passes();
    doubtful()
        .record([4, 5], Operation::Get(0), seen(&[(0, 1)]))
        .record([6, 7], Operation::Get(0), seen(&[(0, 2)]))
        .passes();
    doubtful()
        .record([4, 5], Operation::Get(0), seen(&[(0, 2)]))
        .record([6, 7], Operation::Get(0), seen(&[(0, 1)]))
        .fails("a stale read");
}

#[test]
fn a_lost_update_is_found() {
    inserted()
        .write([3, 4], replace(0, 2, 1), written(&[2]))
        .write([5, 6], replace(0, 3, 1), written(&[3]))
        .fails("a lost update: a write succeeded whose condition did not hold");
    // Both begin with a version that lacks the property of the other one.
    let merge = |id: WriteId, property: &str| Write {
        property: property.to_owned(),
        ..write(Kind::Merge, 0, id, Condition::AnyVersion)
    };
    inserted()
        .write([3, 5], merge(2, "b"), written(&[2]))
        .write([4, 6], merge(3, "c"), written(&[3]))
        .record(
            [7, 8],
            Operation::Get(0),
            Outcome::Found(BTreeMap::from([(
                0,
                Seen {
                    properties: [("a", 1), ("c", 3), (VERSION, 3)]
                        .map(|(name, id)| (name.to_owned(), id))
                        .into(),
                    timestamp: at(3),
                },
            )])),
        )
        .fails("a stale read, or an acknowledged write is lost");
}

#[test]
fn a_stale_read_is_found() {
    inserted()
        .write([3, 4], replace(0, 2, 1), written(&[2]))
        .record([5, 6], Operation::Get(0), seen(&[(0, 1)]))
        .record([7, 8], Operation::Get(0), seen(&[(0, 2)]))
        .fails("a stale read: a read of k0 shows version 1, although this was acknowledged before it began");
}

#[test]
fn a_torn_batch_is_found() {
    let batch = Operation::Write(vec![insert(0, 1), insert(1, 2)]);
    Made::default()
        .record([1, 4], batch.clone(), written(&[1, 2]))
        .record([2, 3], Operation::Query, seen(&[(0, 1)]))
        .fails("a torn batch");
    // The same of one that was not acknowledged.
    Made::default()
        .record([1, usize::MAX], batch, Outcome::Unknown)
        .record([2, 3], Operation::Query, seen(&[(1, 2)]))
        .fails("a torn batch");
}

#[test]
fn an_acknowledged_write_that_is_lost_is_found() {
    let mut made = inserted().write([3, 4], replace(0, 2, 1), written(&[2]));
    made.0.kills.push(5);
    made.record([6, 7], Operation::Query, seen(&[(0, 1)]))
        .fails("an acknowledged write is lost, because PostgreSQL was killed");
}

#[test]
fn an_etag_of_two_versions_is_found() {
    inserted()
        .write([3, 4], delete(0, 2), Outcome::Written(vec![None]))
        .write([5, 6], insert(0, 3), written(&[1]))
        .fails("an ETag names two versions: 00:00:00.0000010 of k0 is version 1 in");
}

#[test]
fn a_timestamp_that_does_not_rise_is_found() {
    Made::default()
        .write([1, 2], insert(0, 1), written(&[5]))
        .write([3, 4], delete(0, 2), Outcome::Written(vec![None]))
        .write([5, 6], insert(0, 3), written(&[4]))
        .fails("a Timestamp does not rise");
}

#[test]
fn a_write_that_is_done_twice_is_found() {
    let read = |id| {
        let Outcome::Found(mut found) = seen(&[(0, 1)]) else {
            unreachable!()
        };
        found.get_mut(&0).unwrap().timestamp = at(id);
        Outcome::Found(found)
    };
    inserted()
        .record([3, 4], Operation::Get(0), read(7))
        .fails("a write was done twice: version 1 of k0 has the Timestamps");
}

#[test]
fn what_nobody_wrote_is_found() {
    inserted()
        .record([3, 4], Operation::Get(0), seen(&[(0, 9)]))
        .fails("a version that nobody wrote");
    inserted()
        .write([3, 4], insert(0, 2), Outcome::Refused(0, Refusal::EntityAlreadyExists))
        .record([5, 6], Operation::Get(0), seen(&[(0, 2)]))
        .fails("a write that was refused");
}

#[test]
fn a_refusal_without_reason_is_found() {
    inserted()
        .write(
            [3, 4],
            replace(0, 2, 1),
            Outcome::Refused(0, Refusal::UpdateConditionNotSatisfied),
        )
        .fails("a write was refused without reason");
    inserted()
        .write([3, 4], insert(0, 2), written(&[2]))
        .fails("a write succeeded that should have failed");
}

#[test]
fn a_refused_batch_that_names_another_operation_is_found() {
    let batch = Operation::Write(vec![delete(1, 2), insert(0, 3)]);
    let refused = |index, refusal| inserted().record([3, 4], batch.clone(), Outcome::Refused(index, refusal));
    refused(0, Refusal::ResourceNotFound).passes();
    refused(1, Refusal::EntityAlreadyExists).fails("a refused batch names operation 1, but one before it fails");
}
