//! Random operations. Those of a client depend on its seed and on the answers that it has seen.

use std::collections::HashMap;
use std::ops::Range;

use system_tests::random::Random;

use crate::history::{Operation, Outcome};
use crate::model::{Condition, Key, Kind, VERSION, Write, WriteId};

/// The table of all histories; each has a partition of its own.
pub const TABLE: &str = "Histories";

/// So few entities that clients meet.
const ENTITIES: usize = 3;

/// Those behind them, which batches insert together and delete together. So many inserts are direct access, also to a shard.
pub const BLOCK: Range<Key> = ENTITIES..ENTITIES + 8;

const KINDS: [Kind; 6] = [
    Kind::Insert,
    Kind::Replace,
    Kind::Merge,
    Kind::InsertOrReplace,
    Kind::InsertOrMerge,
    Kind::Delete,
];

/// The operations of one client.
pub struct Workload {
    random: Random,
    next_id: WriteId,
    /// The version of each entity of a partition that this client saw last.
    seen: HashMap<(usize, Key), WriteId>,
}

impl Workload {
    pub fn new(seed: u64, client: usize) -> Workload {
        Workload {
            random: Random::new(seed.wrapping_mul(1000).wrapping_add(client as u64)),
            next_id: client as u64 * 1_000_000,
            seen: HashMap::new(),
        }
    }

    /// The next operation, and the number of the partition.
    pub fn next(&mut self, partitions: usize) -> (usize, Operation) {
        let partition = self.random.below(partitions);
        let operation = match self.random.below(20) {
            0..3 => Operation::Get(self.random.below(ENTITIES)),
            3..6 => Operation::Query,
            6..14 => {
                let key = self.random.below(ENTITIES);
                let kind = *self.random.pick(&KINDS);
                Operation::Write(vec![self.write(partition, key, kind)])
            }
            14..18 => {
                let mut keys: Vec<Key> = (0..ENTITIES).collect();
                self.random.shuffle(&mut keys);
                keys.truncate(2 + self.random.below(ENTITIES - 1));
                let write = |key| {
                    let kind = *self.random.pick(&KINDS);
                    self.write(partition, key, kind)
                };
                Operation::Write(keys.into_iter().map(write).collect())
            }
            _ => {
                let mut keys: Vec<Key> = BLOCK.collect();
                // An insert of one more entity, which may exist, undoes the others.
                if self.random.chance(30) {
                    keys.push(self.random.below(ENTITIES));
                }
                self.random.shuffle(&mut keys);
                let kind = *self.random.pick(&[Kind::Insert, Kind::Insert, Kind::Delete]);
                let write = |key| self.write(partition, key, kind);
                Operation::Write(keys.into_iter().map(write).collect())
            }
        };
        (partition, operation)
    }

    fn write(&mut self, partition: usize, key: Key, kind: Kind) -> Write {
        self.next_id += 1;
        let seen = self.seen.get(&(partition, key));
        let condition = match seen {
            Some(version) if self.random.chance(70) => Condition::Version(*version),
            _ => Condition::AnyVersion,
        };
        Write {
            kind,
            key,
            id: self.next_id,
            property: (*self.random.pick(&["a", "b"])).to_owned(),
            condition,
        }
    }

    /// Remembers the versions in an answer.
    pub fn learn(&mut self, partition: usize, operation: &Operation, outcome: &Outcome) {
        match (operation, outcome) {
            (Operation::Write(writes), Outcome::Written(timestamps)) => {
                // A delete has no ETag, and work by filter does not tell it.
                for (write, _) in writes
                    .iter()
                    .zip(timestamps)
                    .filter(|(_, timestamp)| timestamp.is_some())
                {
                    self.seen.insert((partition, write.key), write.id);
                }
            }
            (_, Outcome::Found(found)) => {
                for (key, seen) in found {
                    self.seen.insert((partition, *key), seen.properties[VERSION]);
                }
            }
            _ => {}
        }
    }

    /// Whether this client does something in this many of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.random.chance(percent)
    }
}
