//! A partition, and the effect of one operation after the other on it (semantics 2.2, 2.3, 5).

use std::collections::BTreeMap;
use std::fmt;

/// A row key: the entities of a partition are numbered.
pub type Key = usize;

/// Each write of an entity has a number of its own, which it leaves in the entity.
pub type WriteId = u64;

/// The property in which a write leaves its number. So it names the version.
pub const VERSION: &str = "v";

/// The properties of an entity: each holds the number of the write that set it.
pub type Properties = BTreeMap<String, WriteId>;

/// A version's Timestamp, as the digits of its ETag.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u128);

impl Timestamp {
    /// The Timestamp in an ETag.
    ///
    /// # Panics
    /// If it is no ETag of the service.
    pub fn of_etag(etag: &str) -> Timestamp {
        let time = etag
            .strip_prefix("W/\"datetime'")
            .and_then(|rest| rest.strip_suffix("Z'\""));
        let time = time.unwrap_or_else(|| panic!("no ETag: {etag}")).replace("%3A", "");
        let (seconds, fraction) = time.split_once('.').unwrap_or((&time, ""));
        let digits: String = format!("{seconds}{fraction:0<7}")
            .chars()
            .filter(char::is_ascii_digit)
            .collect();
        Timestamp(digits.parse().unwrap())
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:021}", self.0);
        let (seconds, fraction) = digits.split_at(14);
        write!(
            f,
            "{}:{}:{}.{fraction}",
            &seconds[8..10],
            &seconds[10..12],
            &seconds[12..]
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Insert,
    Replace,
    Merge,
    InsertOrReplace,
    InsertOrMerge,
    Delete,
}

/// The condition of If-Match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    AnyVersion,
    /// The version that this write made.
    Version(WriteId),
}

/// One write: alone or in a batch.
#[derive(Clone, PartialEq, Eq)]
pub struct Write {
    pub kind: Kind,
    pub key: Key,
    pub id: WriteId,
    /// Beside [`VERSION`], the property that it sets.
    pub property: String,
    /// Of replace, merge and delete.
    pub condition: Condition,
}

impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Write {
            kind,
            key,
            id,
            property,
            condition,
        } = self;
        write!(f, "{kind:?} k{key}")?;
        if *kind != Kind::Delete {
            write!(f, " {property}={id}")?;
        }
        match (kind, condition) {
            (Kind::Insert | Kind::InsertOrReplace | Kind::InsertOrMerge, _) => Ok(()),
            (_, Condition::AnyVersion) => write!(f, " if any version"),
            (_, Condition::Version(version)) => write!(f, " if version {version}"),
        }
    }
}

/// Why a write is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    EntityAlreadyExists,
    ResourceNotFound,
    UpdateConditionNotSatisfied,
}

/// An entity that is or was there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    pub entity: Option<Properties>,
    /// The last Timestamp that the service gave to it, deleted versions included. Not known of a write without an
    /// answer if nobody saw its version.
    pub timestamp: Option<Timestamp>,
}

/// The state of a partition.
pub type Partition = BTreeMap<Key, Slot>;

impl Write {
    /// The effect of the write on an entity: its new properties, `None` if it deletes it.
    pub fn apply(&self, entity: Option<&Properties>) -> Result<Option<Properties>, Refusal> {
        let set = |mut properties: Properties| {
            properties.insert(VERSION.to_owned(), self.id);
            properties.insert(self.property.clone(), self.id);
            Some(properties)
        };
        let matching = || match (entity, self.condition) {
            (None, _) => Err(Refusal::ResourceNotFound),
            (Some(entity), Condition::Version(version)) if entity.get(VERSION) != Some(&version) => {
                Err(Refusal::UpdateConditionNotSatisfied)
            }
            (Some(entity), _) => Ok(entity.clone()),
        };
        match self.kind {
            Kind::Insert if entity.is_some() => Err(Refusal::EntityAlreadyExists),
            Kind::Insert | Kind::InsertOrReplace => Ok(set(Properties::new())),
            Kind::InsertOrMerge => Ok(set(entity.cloned().unwrap_or_default())),
            Kind::Replace => matching().map(|_| set(Properties::new())),
            Kind::Merge => matching().map(set),
            Kind::Delete => matching().map(|_| None),
        }
    }
}

/// The entity with this key.
pub fn entity(partition: &Partition, key: Key) -> Option<&Properties> {
    partition.get(&key).and_then(|slot| slot.entity.as_ref())
}

/// The state after all writes of a batch.
///
/// # Errors
/// The first write that is refused, and why.
pub fn apply_all(writes: &[Write], partition: &Partition) -> Result<Partition, (usize, Refusal)> {
    let mut after = partition.clone();
    for (index, write) in writes.iter().enumerate() {
        let slot = after.entry(write.key).or_default();
        slot.entity = write.apply(slot.entity.as_ref()).map_err(|refusal| (index, refusal))?;
    }
    Ok(after)
}
