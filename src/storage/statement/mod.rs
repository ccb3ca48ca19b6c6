//! The statements on one table: their texts and the values of their parameters.
//!
//! A statement always has the same text for a table, and one plan for all values. It selects by key, so a plan for
//! other values is as good. The clock is a parameter, and every function in an UPDATE is IMMUTABLE, so that the same
//! text runs on a distributed table.

mod expression;
mod index_scan;
mod scan;

pub use expression::{expiry_expression, index_expression, passes};
pub use index_scan::{Bounds, IndexScan, Tested};
pub use scan::{First, RangeScan, ScanFilter, range_to_sql, scan_to_sql};

use super::arguments::EntityKeys;
use super::name::QualifiedName;
use crate::postgres::{Array, Bag, PropertiesArg, Text, Value};
use scan::{ENTITY, Shape};

/// A statement and the values of its parameters.
pub struct Statement<'a> {
    pub(super) kind: Kind,
    pub(super) values: Vec<Value<'a>>,
}

/// How an update changes the properties of an existing entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UpdateMode {
    /// The given properties replace all properties.
    Replace,
    /// The given properties are added, and replace those with the same names.
    Merge,
}

/// The work of a statement on many entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteMany {
    /// Inserts entities, and skips those that exist.
    Insert,
    /// Inserts entities, or changes those that exist. Skips a merge that would exceed the limits.
    Upsert(UpdateMode),
    /// Replaces the properties of existing entities.
    Replace,
}

/// Which statement it is. Plans are kept by this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Inserts an entity, or does nothing if an entity has these keys.
    Insert,
    /// Inserts an entity, or raises 23505 if an entity has these keys.
    InsertOrRaise,
    /// Inserts an entity and returns it, or does nothing if an entity has these keys.
    InsertReturning,
    /// Inserts an entity or changes the existing one with these keys. Returns its Timestamp.
    Upsert(UpdateMode),
    /// Changes an entity: any version, or the version with a Timestamp if `true`. Returns its new Timestamp.
    Update(UpdateMode, bool),
    /// Replaces the properties of an entity that has a Timestamp, and returns it.
    ReplaceVersion,
    /// Deletes an entity.
    Delete {
        /// Whether only the version with a Timestamp.
        of_version: bool,
        /// Whether it is returned.
        returning: bool,
    },
    /// Selects the entity with these keys, under the caller's snapshot.
    Get,
    /// Selects the entity with these keys, under a new snapshot.
    Look,
    /// Selects the Timestamp of the entity with these keys, under a new snapshot.
    GetTimestamp,
    /// Selects the entities with these RowKeys, in key order, under the caller's snapshot.
    GetMany,
    /// Locks the entities with these RowKeys, in key order, and returns them.
    LockMany,
    /// Selects the RowKeys and Timestamps of the entities that now exist, under a new snapshot.
    LookMany,
    /// Selects the entities that now exist, under a new snapshot.
    LookEntities,
    /// Deletes entities: any versions, or those with Timestamps if `true`, which have the order of the RowKeys. Returns their RowKeys.
    DeleteMany(bool),
    /// Deletes entities that are locked.
    DeleteLocked,
    /// Replaces the properties of entities that are locked.
    ReplaceLocked,
    /// Writes entities. Returns the RowKeys and Timestamps of those that it wrote.
    WriteMany(WriteMany),
    /// Replaces the properties of the entities that have these Timestamps. Returns the same.
    ReplaceVersions,
    /// With this number of rows.
    WriteRows(WriteMany, usize),
    Scan(Shape),
}

/// How a statement is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementPlanning {
    /// Once, for all values, so that it selects by key.
    ForKeys,
    /// Once, for all values, so that it selects by the keys of an array.
    ForManyKeys,
    /// Once, for all values, as the planner likes.
    Freely,
    /// Each time, with its values.
    EachTime,
}

impl<'a> Statement<'a> {
    fn new(kind: Kind, values: impl Into<Vec<Value<'a>>>) -> Statement<'a> {
        Statement {
            kind,
            values: values.into(),
        }
    }

    /// A scan of a key range.
    pub fn of_range(scan: &'a RangeScan) -> Statement<'a> {
        Statement::new(Kind::Scan(scan.shape()), scan.values())
    }

    /// A statement on the entity with these keys.
    pub fn of_keys(kind: Kind, keys: EntityKeys<'a>) -> Statement<'a> {
        Statement::new(kind, keys.values())
    }

    /// A statement on the entities with these RowKeys.
    pub fn of_row_keys(kind: Kind, partition_key: Value<'a>, row_keys: &'a Array) -> Statement<'a> {
        Statement::new(kind, [partition_key, row_keys.value()])
    }

    /// A write of the entity with these keys.
    pub fn of_entity(kind: Kind, keys: EntityKeys<'a>, clock: i64, properties: PropertiesArg<'a>) -> Statement<'a> {
        let [partition_key, row_key] = keys.values();
        let (clock, properties) = (Value::timestamptz(clock), Value::properties(properties));
        Statement::new(kind, [partition_key, row_key, clock, properties])
    }

    /// Adds the value of another parameter.
    pub fn with(mut self, value: impl Into<Option<Value<'a>>>) -> Statement<'a> {
        self.values.extend(value.into());
        self
    }

    /// Changes an entity if it has the Timestamp `version`, or any for `None`. Returns its new Timestamp.
    pub fn update(
        change: UpdateMode,
        keys: EntityKeys<'a>,
        clock: i64,
        properties: PropertiesArg<'a>,
        version: Option<i64>,
    ) -> Statement<'a> {
        let kind = Kind::Update(change, version.is_some());
        Statement::of_entity(kind, keys, clock, properties).with(version.map(Value::timestamptz))
    }

    /// Deletes an entity if it has the Timestamp `version`, or any for `None`.
    pub fn delete(keys: EntityKeys<'a>, version: Option<i64>, returning: bool) -> Statement<'a> {
        let of_version = version.is_some();
        Statement::of_keys(Kind::Delete { of_version, returning }, keys).with(version.map(Value::timestamptz))
    }

    /// Deletes entities, or only those with these Timestamps, in the order of the RowKeys. Returns their RowKeys.
    pub fn delete_many(partition_key: Value<'a>, row_keys: &'a Array, versions: Option<&'a Array>) -> Statement<'a> {
        let kind = Kind::DeleteMany(versions.is_some());
        Statement::of_row_keys(kind, partition_key, row_keys).with(versions.map(Array::value))
    }

    /// A write of entities. Their RowKeys and properties have the same order in both arrays.
    pub fn of_arrays(
        kind: Kind,
        partition_key: Value<'a>,
        row_keys: &'a Array,
        clock: i64,
        properties: &'a Array,
    ) -> Statement<'a> {
        let clock = Value::timestamptz(clock);
        Statement::new(kind, [partition_key, row_keys.value(), clock, properties.value()])
    }

    /// Does the same as [`Kind::WriteMany`] with a list of rows instead of arrays, for inserts and upserts: Citus would move the rows of arrays through files, and count wrongly how many it inserted.
    pub fn write_rows(
        write: WriteMany,
        partition_key: Value<'a>,
        clock: i64,
        rows: &'a [(Text, Bag)],
    ) -> Statement<'a> {
        let mut values = vec![partition_key, Value::timestamptz(clock)];
        values.extend(rows.iter().flat_map(|(row_key, bag)| [row_key.value(), bag.value()]));
        Statement::new(Kind::WriteRows(write, rows.len()), values)
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
        let insert_many = match self {
            Kind::WriteRows(_, rows) => {
                let row = |row: usize| format!("($1, ${}, $2, ${})", 2 * row + 3, 2 * row + 4);
                format!(
                    "{insert_into} VALUES {}",
                    (0..rows).map(row).collect::<Vec<_>>().join(", ")
                )
            }
            _ => format!(
                "{insert_into} SELECT $1, given.row_key, $3, given.properties FROM {GIVEN} WITH ORDINALITY AS given(row_key, properties, position) ORDER BY given.position"
            ),
        };
        let on_conflict = "ON CONFLICT (partition_key, row_key) DO UPDATE SET \"timestamp\" = table_service.next_timestamp(t.\"timestamp\", excluded.\"timestamp\"), properties";
        let update = format!(
            "UPDATE {table} AS t SET \"timestamp\" = table_service.next_timestamp(t.\"timestamp\", $3), properties"
        );
        let changed = |change, given: &str| match change {
            UpdateMode::Replace => given.to_owned(),
            UpdateMode::Merge => format!("t.properties OPERATOR(table_service.||) {given}"),
        };
        let and = |is_wanted, version: String| match is_wanted {
            true => format!(" AND t.\"timestamp\" OPERATOR(pg_catalog.=) {version}"),
            false => String::new(),
        };
        let version = |is_wanted, n| and(is_wanted, format!("${n}"));
        let versions = |is_wanted, n| and(is_wanted, format!("(${n})[pg_catalog.array_position($2, t.row_key)]"));
        let returning_entity = format!("RETURNING {ENTITY}");
        // Not a join: if the statistics say that the table has few rows, the planner would read the whole partition for
        // it. COALESCE changes nothing, because every row is in the array. Citus takes a subscript at the top of the
        // expression for an assignment to an element.
        let replace_many =
            format!("{update} = COALESCE(($4)[pg_catalog.array_position($2, t.row_key)], t.properties) WHERE {POINTS}");
        match self {
            Kind::Scan(shape) => shape.sql(table),
            Kind::Insert => format!("{insert} ON CONFLICT DO NOTHING"),
            Kind::InsertOrRaise => insert,
            Kind::InsertReturning => format!("{insert} ON CONFLICT DO NOTHING {returning_entity}"),
            Kind::Upsert(change) => {
                let properties = changed(change, "excluded.properties");
                format!("{insert} {on_conflict} = {properties} {RETURNING}")
            }
            Kind::Update(change, of_version) => {
                let (properties, version) = (changed(change, "$4"), version(of_version, 5));
                format!("{update} = {properties} WHERE {POINT}{version} {RETURNING}")
            }
            Kind::ReplaceVersion => format!("{update} = $4 WHERE {POINT}{} {returning_entity}", version(true, 5)),
            Kind::Delete { of_version, returning } => {
                let returning = if returning {
                    format!(" {returning_entity}")
                } else {
                    String::new()
                };
                format!(
                    "DELETE FROM {table} AS t WHERE {POINT}{}{returning}",
                    version(of_version, 3)
                )
            }
            Kind::Get | Kind::Look => format!("SELECT {ENTITY} FROM {table} AS t WHERE {POINT}"),
            Kind::GetTimestamp => format!("SELECT t.\"timestamp\" FROM {table} AS t WHERE {POINT}"),
            Kind::GetMany => format!("SELECT {ENTITY} FROM {table} AS t WHERE {POINTS} ORDER BY t.row_key"),
            Kind::LockMany => {
                format!("SELECT {ENTITY} FROM {table} AS t WHERE {POINTS} ORDER BY t.row_key FOR UPDATE")
            }
            Kind::LookMany => format!("SELECT t.row_key, t.\"timestamp\" FROM {table} AS t WHERE {POINTS}"),
            Kind::LookEntities => format!("SELECT {ENTITY} FROM {table} AS t WHERE {POINTS}"),
            Kind::DeleteMany(of_versions) => {
                let versions = versions(of_versions, 3);
                format!("DELETE FROM {table} AS t WHERE {POINTS}{versions} RETURNING t.row_key")
            }
            Kind::DeleteLocked => format!("DELETE FROM {table} AS t WHERE {POINTS}"),
            Kind::ReplaceLocked => replace_many,
            Kind::WriteMany(WriteMany::Insert) | Kind::WriteRows(WriteMany::Insert, _) => {
                format!("{insert_many} ON CONFLICT DO NOTHING {RETURNING_MANY}")
            }
            Kind::WriteMany(WriteMany::Upsert(change)) | Kind::WriteRows(WriteMany::Upsert(change), _) => {
                let properties = changed(change, "excluded.properties");
                // Skips a merge that would exceed the limits, instead of raising, so that the batch can tell which one
                // it was.
                let fits = match change {
                    UpdateMode::Replace => "",
                    UpdateMode::Merge => {
                        " WHERE table_service.merge_fits(t.partition_key, t.row_key, t.properties, excluded.properties)"
                    }
                };
                format!("{insert_many} {on_conflict} = {properties}{fits} {RETURNING_MANY}")
            }
            Kind::WriteMany(WriteMany::Replace) | Kind::WriteRows(WriteMany::Replace, _) => {
                format!("{replace_many} {RETURNING_MANY}")
            }
            Kind::ReplaceVersions => format!("{replace_many}{} {RETURNING_MANY}", versions(true, 5)),
        }
    }

    /// Returns how the statement, which has this text, is planned.
    pub(super) fn planning(self, sql: &str) -> StatementPlanning {
        match self {
            Kind::Scan(shape) if shape.needs_values() => StatementPlanning::EachTime,
            Kind::Scan(shape) if shape.any_plan() => StatementPlanning::Freely,
            // Other statements select by key or stop early.
            _ if sql.contains(POINTS) => StatementPlanning::ForManyKeys,
            _ => StatementPlanning::ForKeys,
        }
    }

    /// Returns whether the plan is kept. There are as many texts of `WriteRows` as numbers of rows, and how entities are
    /// counted depends on the range.
    pub(super) fn is_kept(self) -> bool {
        match self {
            Kind::WriteRows(..) => false,
            Kind::Scan(shape) => !shape.is_count(),
            _ => true,
        }
    }

    /// Returns whether the statement uses the caller's snapshot. Writes, and the look-ups that belong to them, take a
    /// new one.
    pub(super) fn is_read(self) -> bool {
        matches!(self, Kind::Get | Kind::GetMany | Kind::Scan(_))
    }
}

/// The rules under which a statement also runs on a distributed table. The tests need no Citus.
#[cfg(any(test, feature = "pg_test"))]
#[allow(clippy::unwrap_used)]
#[pgrx::pg_schema]
mod tests {
    use std::rc::Rc;

    use pgrx::prelude::*;
    use table_service_model::filter::{Dialect, Filter, Plan, Predicate};

    use super::scan::Extent;
    use super::*;
    use crate::postgres::types::value::Array;

    fn table() -> QualifiedName {
        QualifiedName::new("Rules".into())
    }

    fn writes() -> Vec<Kind> {
        let changes = [UpdateMode::Replace, UpdateMode::Merge];
        let many = [
            WriteMany::Insert,
            WriteMany::Upsert(UpdateMode::Replace),
            WriteMany::Upsert(UpdateMode::Merge),
            WriteMany::Replace,
        ];
        let mut kinds = vec![
            Kind::Insert,
            Kind::InsertOrRaise,
            Kind::InsertReturning,
            Kind::ReplaceVersion,
            Kind::ReplaceVersions,
        ];
        for of_version in [false, true] {
            let delete = |returning| Kind::Delete { of_version, returning };
            kinds.extend([delete(false), delete(true), Kind::DeleteMany(of_version)]);
            kinds.extend(changes.map(|change| Kind::Update(change, of_version)));
        }
        kinds.extend(changes.map(Kind::Upsert));
        kinds.extend(many.map(Kind::WriteMany));
        kinds.extend(many[..3].iter().map(|&write| Kind::WriteRows(write, 3)));
        kinds
    }

    fn looks() -> [Kind; 7] {
        [
            Kind::Get,
            Kind::Look,
            Kind::GetTimestamp,
            Kind::GetMany,
            Kind::LockMany,
            Kind::LookMany,
            Kind::LookEntities,
        ]
    }

    /// Returns the scans of all shapes of ranges, and whether their range is in one partition.
    fn scans(extent: Extent) -> Vec<(Kind, bool)> {
        let ranges = [
            ("", false),
            ("PartitionKey gt 'a'", false),
            ("PartitionKey ge 'a' and PartitionKey lt 'b'", false),
            ("PartitionKey eq 'a'", true),
            ("PartitionKey eq 'a' and RowKey gt 'b' and RowKey le 'c'", true),
            ("PartitionKey eq 'a' and RowKey eq 'b'", true),
        ];
        let filters = [
            None,
            Some("N eq 1"),
            Some("N eq 1 and Timestamp gt datetime'2020-01-01T00:00:00Z'"),
        ];
        let mut kinds = Vec::new();
        for (range, is_partition) in ranges {
            let plan = Plan::new(Filter::parse(range, None, Dialect::Service).unwrap());
            let range = plan.ranges.first().unwrap();
            for filter in filters {
                let filter = filter.map(|text| {
                    ScanFilter::new(&Predicate::new(&Filter::parse(text, None, Dialect::Service).unwrap()))
                });
                kinds.push((Kind::Scan(Shape::new(range, filter.as_ref(), extent)), is_partition));
            }
        }
        kinds
    }

    /// Returns the functions that a text calls.
    fn functions(sql: &str) -> Vec<&str> {
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
        sql.match_indices('(')
            .map(|(at, _)| &sql[..at])
            .map(|before| &before[before.trim_end_matches(is_name).len()..])
            .filter(|name| name.contains('.'))
            .collect()
    }

    /// Returns whether all functions of a name are IMMUTABLE.
    fn is_immutable(name: &str) -> bool {
        let sql = "SELECT bool_and(provolatile = 'i') FROM pg_proc WHERE pronamespace::regnamespace::text || '.' || proname = $1";
        Spi::get_one_with_args(sql, &[name.into()]).unwrap().unwrap()
    }

    #[pg_test]
    fn statements_on_a_partition_name_it() {
        let scans = [Extent::First, Extent::DistributedAll, Extent::DistributedFirst].map(scans);
        let scans = scans
            .iter()
            .flatten()
            .filter(|(_, is_partition)| *is_partition)
            .map(|(kind, _)| *kind);
        for kind in looks().into_iter().chain(writes()).chain(scans) {
            let sql = kind.sql(&table());
            let is_named = sql.contains("t.partition_key OPERATOR(pg_catalog.=) $1")
                || sql.contains("VALUES ($1, ")
                || sql.contains(" SELECT $1, ");
            assert!(is_named, "{sql}");
        }
    }

    #[pg_test]
    fn writes_call_only_immutable_functions() {
        for kind in writes() {
            let sql = kind.sql(&table());
            for function in functions(&sql) {
                assert!(is_immutable(function), "{function}: {sql}");
            }
            // Citus takes it for an assignment to an element.
            assert!(!sql.contains("properties = ($"), "{sql}");
        }
        assert_eq!(functions("SELECT pg_catalog.now() FROM a.b (c)"), ["pg_catalog.now"]);
        assert!(is_immutable("table_service.next_timestamp") && !is_immutable("pg_catalog.now"));
        let merge = "SELECT provolatile = 'i' FROM pg_operator AS o JOIN pg_proc AS p ON p.oid = oprcode WHERE oprname = '||' AND oprnamespace = 'table_service'::regnamespace AND oprright = oprleft";
        assert_eq!(Spi::get_one(merge).unwrap(), Some(true));
    }

    #[pg_test]
    fn scans_of_shards_end_by_themselves_and_are_planned_with_values() {
        for (kind, is_partition) in scans(Extent::DistributedFirst) {
            let sql = kind.sql(&table());
            assert!(sql.contains(" LIMIT $"), "{sql}");
            assert!(
                is_partition || kind.planning(&sql) == StatementPlanning::EachTime,
                "{sql}"
            );
        }
        for (kind, is_partition) in scans(Extent::DistributedAll) {
            let sql = kind.sql(&table());
            assert!(!sql.contains("LIMIT"), "{sql}");
            assert!(
                is_partition || kind.planning(&sql) == StatementPlanning::EachTime,
                "{sql}"
            );
        }
        // Elsewhere the rows come one by one, and one plan serves all values.
        for (kind, _) in scans(Extent::First).into_iter().chain(scans(Extent::All)) {
            let sql = kind.sql(&table());
            assert!(
                kind.planning(&sql) != StatementPlanning::EachTime && !sql.contains("LIMIT"),
                "{sql}"
            );
        }
    }

    #[pg_test]
    fn texts_have_as_many_parameters_as_statements_have_values() {
        let plan = Plan::new(Filter::parse("PartitionKey eq 'a' and RowKey gt 'b'", None, Dialect::Service).unwrap());
        let range = plan.ranges.first().unwrap();
        let filter = Rc::new(ScanFilter::new(&Predicate::new(
            &Filter::parse("N eq 1", None, Dialect::Service).unwrap(),
        )));
        let first = Some(First { rows: 7, until: 0 });
        let key = Text::new("a");
        let rows = [("a", &[][..]), ("b", &[][..])].map(|(key, bag)| {
            let bag = table_service_model::Properties::from_stored(bag);
            (Text::new(key), Bag::new(bag))
        });
        let keys_of_one = EntityKeys {
            partition_key: key.arg(),
            row_key: key.arg(),
        };
        let bag = Bag::new(table_service_model::Properties::from_stored(&[]));
        let texts = Array::of_texts(["a"].into_iter());
        let versions = Array::of_timestamps([0].into_iter());
        let statements = [
            Statement::of_entity(Kind::InsertReturning, keys_of_one, 0, bag.arg()),
            Statement::of_entity(Kind::ReplaceVersion, keys_of_one, 0, bag.arg()).with(Value::timestamptz(0)),
            Statement::delete_many(key.value(), &texts, Some(&versions)),
            Statement::of_arrays(Kind::ReplaceVersions, key.value(), &texts, 0, &texts).with(versions.value()),
            Statement::write_rows(WriteMany::Insert, key.value(), 0, &rows),
            Statement::write_rows(WriteMany::Upsert(UpdateMode::Merge), key.value(), 0, &rows),
        ];
        let scans = [
            RangeScan::new(range, None, false),
            RangeScan::new(range, Some(&filter), true),
            RangeScan::distributed(range, None, first),
            RangeScan::distributed(range, Some(&filter), first),
            RangeScan::distributed(range, Some(&filter), None),
        ];
        for statement in statements.into_iter().chain(scans.iter().map(Statement::of_range)) {
            let (sql, count) = (statement.kind.sql(&table()), statement.values.len());
            assert!(
                sql.contains(&format!("${count}")) && !sql.contains(&format!("${}", count + 1)),
                "{count}: {sql}"
            );
        }
    }
}
