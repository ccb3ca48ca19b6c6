//! The statements on one table: their texts and the values of their parameters.
//!
//! A statement always has the same text for a table, and one plan for all values. It selects by key, so a plan for
//! other values is as good. The clock is a parameter, and every function in an UPDATE is IMMUTABLE, so that the same
//! text runs on a distributed table.

mod expression;
mod index_scan;
mod scan;

pub use expression::{index_expression, passes};
pub use index_scan::{Bounds, IndexScan, Tested};
pub use scan::{RangeKeys, ScanFilter, range_to_sql, scan_to_sql};

use super::arguments::Keys;
use super::name::QualifiedName;
use super::types::PropertiesArg;
use super::types::value::{Array, Value};
use scan::{ENTITY, Shape};

/// A statement and the values of its parameters.
pub struct Statement<'a> {
    kind: Kind,
    values: Vec<Value<'a>>,
}

/// How an update changes the properties of an existing entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// The given properties replace all properties.
    Replace,
    /// The given properties are added, and replace those with the same names.
    Merge,
}

/// What a statement does with many entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteMany {
    /// Inserts entities, and skips those that exist.
    Insert,
    /// Inserts entities, or changes those that exist. Skips a merge that would exceed the limits.
    Upsert(Change),
    /// Replaces the properties of existing entities.
    Replace,
}

/// Which statement it is. Plans are kept by this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Insert,
    InsertOrRaise,
    Upsert(Change),
    Update(Change),
    UpdateVersion(Change),
    Delete,
    DeleteVersion,
    Get,
    GetTimestamp,
    GetMany,
    LockMany,
    LookMany,
    DeleteMany,
    WriteMany(WriteMany),
    Scan(Shape),
}

impl<'a> Statement<'a> {
    fn new(kind: Kind, values: impl Into<Vec<Value<'a>>>) -> Statement<'a> {
        Statement {
            kind,
            values: values.into(),
        }
    }

    fn of_entity(kind: Kind, keys: Keys<'a>, clock: i64, properties: PropertiesArg<'a>) -> Statement<'a> {
        let [partition_key, row_key] = keys.values();
        let (clock, properties) = (Value::timestamptz(clock), Value::properties(properties));
        Statement::new(kind, [partition_key, row_key, clock, properties])
    }

    /// Inserts an entity, or does nothing if an entity has these keys.
    pub fn insert(keys: Keys<'a>, clock: i64, properties: PropertiesArg<'a>) -> Statement<'a> {
        Statement::of_entity(Kind::Insert, keys, clock, properties)
    }

    /// Inserts an entity, or raises 23505 if an entity has these keys.
    pub fn insert_or_raise(keys: Keys<'a>, clock: i64, properties: PropertiesArg<'a>) -> Statement<'a> {
        Statement::of_entity(Kind::InsertOrRaise, keys, clock, properties)
    }

    /// Inserts an entity or changes the existing one with these keys. Returns its Timestamp.
    pub fn upsert(change: Change, keys: Keys<'a>, clock: i64, properties: PropertiesArg<'a>) -> Statement<'a> {
        Statement::of_entity(Kind::Upsert(change), keys, clock, properties)
    }

    /// Changes an entity if it has the Timestamp `version`, or any for `None`. Returns its new Timestamp.
    pub fn update(
        change: Change,
        keys: Keys<'a>,
        clock: i64,
        properties: PropertiesArg<'a>,
        version: Option<i64>,
    ) -> Statement<'a> {
        let mut statement = Statement::of_entity(Kind::Update(change), keys, clock, properties);
        if let Some(version) = version {
            statement.kind = Kind::UpdateVersion(change);
            statement.values.push(Value::timestamptz(version));
        }
        statement
    }

    /// Deletes an entity if it has the Timestamp `version`, or any for `None`.
    pub fn delete(keys: Keys<'a>, version: Option<i64>) -> Statement<'a> {
        let [partition_key, row_key] = keys.values();
        match version {
            None => Statement::new(Kind::Delete, [partition_key, row_key]),
            Some(version) => {
                let version = Value::timestamptz(version);
                Statement::new(Kind::DeleteVersion, [partition_key, row_key, version])
            }
        }
    }

    /// Selects the entity with these keys, under the caller's snapshot.
    pub fn get(keys: Keys<'a>) -> Statement<'a> {
        Statement::new(Kind::Get, keys.values())
    }

    /// Selects the Timestamp of the entity with these keys, under a new snapshot.
    pub fn get_timestamp(keys: Keys<'a>) -> Statement<'a> {
        Statement::new(Kind::GetTimestamp, keys.values())
    }

    /// Selects the entities with these RowKeys, in key order, under the caller's snapshot.
    pub fn get_many(partition_key: Value<'a>, row_keys: &'a Array) -> Statement<'a> {
        Statement::new(Kind::GetMany, [partition_key, row_keys.value()])
    }

    /// Locks the entities with these RowKeys, in key order, and returns them.
    pub fn lock_many(partition_key: Value<'a>, row_keys: &'a Array) -> Statement<'a> {
        Statement::new(Kind::LockMany, [partition_key, row_keys.value()])
    }

    /// Selects the RowKeys and Timestamps of the entities that now exist, under a new snapshot.
    pub fn look_many(partition_key: Value<'a>, row_keys: &'a Array) -> Statement<'a> {
        Statement::new(Kind::LookMany, [partition_key, row_keys.value()])
    }

    /// Deletes entities. Returns their RowKeys.
    pub fn delete_many(partition_key: Value<'a>, row_keys: &'a Array) -> Statement<'a> {
        Statement::new(Kind::DeleteMany, [partition_key, row_keys.value()])
    }

    /// Writes entities, whose RowKeys and properties have the same order in both arrays. Returns the RowKeys and
    /// Timestamps of those that it wrote.
    pub fn write_many(
        write: WriteMany,
        partition_key: Value<'a>,
        row_keys: &'a Array,
        clock: i64,
        properties: &'a Array,
    ) -> Statement<'a> {
        let clock = Value::timestamptz(clock);
        let values = [partition_key, row_keys.value(), clock, properties.value()];
        Statement::new(Kind::WriteMany(write), values)
    }

    /// Selects the entities of a key range that pass the filter, in key order, under the caller's snapshot. `all_rows`
    /// says that the caller reads all of them.
    pub fn scan(range: &'a RangeKeys, filter: Option<&'a ScanFilter>, all_rows: bool) -> Statement<'a> {
        let shape = Shape::new(range, filter, all_rows);
        Statement::new(Kind::Scan(shape), scan::values(range, filter))
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn values(&self) -> &[Value<'a>] {
        &self.values
    }
}

/// Selects the entity with the keys `$1` and `$2`.
const POINT: &str = "t.partition_key OPERATOR(pg_catalog.=) $1 AND t.row_key OPERATOR(pg_catalog.=) $2";
/// Returns the new Timestamp, and whether the bag is NULL. A merge into NULL is NULL, if a user dropped the NOT NULL
/// constraint.
const RETURNING: &str = "RETURNING t.\"timestamp\", t.properties IS NULL";
/// Selects the entities with the PartitionKey `$1` and a RowKey in the array `$2`.
const POINTS: &str = "t.partition_key OPERATOR(pg_catalog.=) $1 AND t.row_key OPERATOR(pg_catalog.=) ANY ($2)";
/// The rows of the arrays `$2` and `$4`.
const GIVEN: &str = "ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($4))";
const RETURNING_MANY: &str = "RETURNING t.row_key, t.\"timestamp\"";

impl Kind {
    /// Returns the text of the statement.
    pub(super) fn sql(self, table: &QualifiedName) -> String {
        let insert_into = format!("INSERT INTO {table} AS t (partition_key, row_key, \"timestamp\", properties)");
        let insert = format!("{insert_into} VALUES ($1, $2, $3, $4)");
        let insert_many = format!(
            "{insert_into} SELECT $1, given.row_key, $3, given.properties FROM {GIVEN} WITH ORDINALITY AS given(row_key, properties, position) ORDER BY given.position"
        );
        let on_conflict = "ON CONFLICT (partition_key, row_key) DO UPDATE SET \"timestamp\" = table_service.next_timestamp(t.\"timestamp\", excluded.\"timestamp\"), properties";
        let update = format!(
            "UPDATE {table} AS t SET \"timestamp\" = table_service.next_timestamp(t.\"timestamp\", $3), properties"
        );
        let changed = |change, given: &str| match change {
            Change::Replace => given.to_owned(),
            Change::Merge => format!("t.properties OPERATOR(table_service.||) {given}"),
        };
        let version = |n| format!("t.\"timestamp\" OPERATOR(pg_catalog.=) ${n}");
        match self {
            Kind::Scan(shape) => shape.sql(table),
            Kind::Insert => format!("{insert} ON CONFLICT DO NOTHING"),
            Kind::InsertOrRaise => insert,
            Kind::Upsert(change) => {
                let properties = changed(change, "excluded.properties");
                format!("{insert} {on_conflict} = {properties} {RETURNING}")
            }
            Kind::Update(change) => {
                let properties = changed(change, "$4");
                format!("{update} = {properties} WHERE {POINT} {RETURNING}")
            }
            Kind::UpdateVersion(change) => {
                let properties = changed(change, "$4");
                format!("{update} = {properties} WHERE {POINT} AND {} {RETURNING}", version(5))
            }
            Kind::Delete => format!("DELETE FROM {table} AS t WHERE {POINT}"),
            Kind::DeleteVersion => format!("DELETE FROM {table} AS t WHERE {POINT} AND {}", version(3)),
            Kind::Get => format!("SELECT {ENTITY} FROM {table} AS t WHERE {POINT}"),
            Kind::GetTimestamp => format!("SELECT t.\"timestamp\" FROM {table} AS t WHERE {POINT}"),
            Kind::GetMany => format!("SELECT {ENTITY} FROM {table} AS t WHERE {POINTS} ORDER BY t.row_key"),
            Kind::LockMany => {
                format!("SELECT {ENTITY} FROM {table} AS t WHERE {POINTS} ORDER BY t.row_key FOR UPDATE")
            }
            Kind::LookMany => format!("SELECT t.row_key, t.\"timestamp\" FROM {table} AS t WHERE {POINTS}"),
            Kind::DeleteMany => format!("DELETE FROM {table} AS t WHERE {POINTS} RETURNING t.row_key"),
            Kind::WriteMany(WriteMany::Insert) => format!("{insert_many} ON CONFLICT DO NOTHING {RETURNING_MANY}"),
            Kind::WriteMany(WriteMany::Upsert(change)) => {
                let properties = changed(change, "excluded.properties");
                // Skips a merge that would exceed the limits, instead of raising, so that the batch can tell which one
                // it was.
                let fits = match change {
                    Change::Replace => "",
                    Change::Merge => {
                        " WHERE table_service.merge_fits(t.partition_key, t.row_key, t.properties, excluded.properties)"
                    }
                };
                format!("{insert_many} {on_conflict} = {properties}{fits} {RETURNING_MANY}")
            }
            // Not a join: if the statistics say that the table has few rows, the planner would read the whole partition
            // for it.
            Kind::WriteMany(WriteMany::Replace) => {
                format!("{update} = ($4)[pg_catalog.array_position($2, t.row_key)] WHERE {POINTS} {RETURNING_MANY}")
            }
        }
    }

    /// Returns whether the planner may choose any plan. Other statements select by key or stop early.
    pub(super) fn any_plan(self) -> bool {
        matches!(self, Kind::Scan(shape) if shape.any_plan())
    }

    /// Returns whether the statement uses the caller's snapshot. Writes, and the look-ups that belong to them, take a
    /// new one.
    pub(super) fn is_read(self) -> bool {
        matches!(self, Kind::Get | Kind::GetMany | Kind::Scan(_))
    }
}
