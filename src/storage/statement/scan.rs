//! Scans of key ranges: statements with a few fixed texts.

use std::rc::Rc;

use table_service_model::filter::{Bound, Columns};
use table_service_model::{Filter, KeyRange, Predicate};

use super::expression::passes;
use crate::postgres::{Text, Value, Varlena};
use crate::storage::name::QualifiedName;

/// The columns of an entity.
pub(super) const ENTITY: &str = "t.partition_key, t.row_key, t.\"timestamp\", t.properties";

/// A scan of a key range, with the values of its parameters.
pub struct RangeScan {
    shape: Shape,
    keys: Vec<Text>,
    filter: Option<Rc<ScanFilter>>,
    first: Option<First>,
}

impl RangeScan {
    fn of(range: &KeyRange, filter: Option<&Rc<ScanFilter>>, extent: Extent, first: Option<First>) -> RangeScan {
        RangeScan {
            shape: Shape::new(range, filter.map(|filter| &**filter), extent),
            keys: keys(range).into_iter().map(Text::new).collect(),
            filter: filter.cloned(),
            first,
        }
    }

    /// Selects the entities of a key range that pass the filter, in key order, under the caller's snapshot. `all_rows`
    /// says that the caller reads all of them.
    pub fn new(range: &KeyRange, filter: Option<&Rc<ScanFilter>>, all_rows: bool) -> RangeScan {
        let extent = if all_rows { Extent::All } else { Extent::First };
        RangeScan::of(range, filter, extent, None)
    }

    /// Counts the entities of a key range that pass the filter, under the caller's snapshot.
    pub fn count(range: &KeyRange, filter: Option<&Rc<ScanFilter>>) -> RangeScan {
        RangeScan::of(range, filter, Extent::Count, None)
    }

    /// Does the same as [`new`](RangeScan::new) in a distributed table, for all rows or the first ones.
    pub fn distributed(range: &KeyRange, filter: Option<&Rc<ScanFilter>>, first: Option<First>) -> RangeScan {
        let extent = first.map_or(Extent::DistributedAll, |_| Extent::DistributedFirst);
        RangeScan::of(range, filter, extent, first)
    }

    /// Returns the properties that determine its text.
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the values of its parameters. They do not move when the scan does.
    pub(super) fn values(&self) -> Vec<Value<'_>> {
        let mut values: Vec<_> = self.keys.iter().map(Text::value).collect();
        values.extend(self.filter.as_deref().map(ScanFilter::value));
        if let Some(First { rows, until }) = self.first {
            values.extend(self.filter.as_ref().map(|_| Value::timestamptz(until)));
            values.push(Value::int8(i64::try_from(rows).unwrap_or(i64::MAX)));
        }
        values
    }
}

/// The properties that determine the text of a scan. Its parameters are the keys and then the compiled filter. If its
/// rows are counted, the point in time that ends the filter and the number of rows follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    range: RangeShape,
    filter: FilterArguments,
    extent: Extent,
}

/// How much of its range a scan reads, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Extent {
    /// Until the caller wants no more rows.
    First,
    /// To its end.
    All,
    /// Of a distributed table, to its end.
    DistributedAll,
    /// Of a distributed table, a number of rows.
    DistributedFirst,
    /// How many rows there are.
    Count,
}

/// The first rows of a scan of a distributed table. Other servers send all rows of a statement, so it must end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct First {
    pub rows: u64,
    /// From this point in time on, every row passes the filter. In microseconds since 2000-01-01.
    pub until: i64,
}

/// The columns that the filter in the WHERE clause looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum FilterArguments {
    None,
    /// A filter on properties alone. The statement does not pass it the other columns.
    Properties,
    Entity,
}

/// A filter as a parameter of a scan, which tests it in its WHERE clause.
pub struct ScanFilter {
    arguments: FilterArguments,
    pub(super) predicate: Varlena,
}

impl ScanFilter {
    /// Makes the parameter of a compiled filter.
    pub fn new(predicate: &Predicate) -> ScanFilter {
        let only_properties = Columns {
            properties: true,
            ..Columns::default()
        };
        ScanFilter {
            arguments: if predicate.columns() == only_properties {
                FilterArguments::Properties
            } else {
                FilterArguments::Entity
            },
            predicate: Varlena::new(&predicate.to_bytes()),
        }
    }

    /// Returns the compiled form, the value of a parameter.
    pub fn value(&self) -> Value<'_> {
        Value::bytea(&self.predicate)
    }

    /// Returns the condition that tests the filter. Its compiled form is in this parameter.
    pub fn condition(&self, predicate: &str) -> Option<String> {
        self.arguments.call(predicate)
    }
}

impl FilterArguments {
    /// Returns the condition that tests a filter. Its compiled form is in this parameter.
    fn call(self, predicate: &str) -> Option<String> {
        match self {
            FilterArguments::None => None,
            FilterArguments::Properties => Some(format!("table_service.scan_passes(t.properties, {predicate})")),
            FilterArguments::Entity => Some(format!("table_service.scan_passes({ENTITY}, {predicate})")),
        }
    }
}

impl Shape {
    pub(super) fn new(range: &KeyRange, filter: Option<&ScanFilter>, extent: Extent) -> Shape {
        Shape {
            range: RangeShape::of(range),
            filter: filter.map_or(FilterArguments::None, |filter| filter.arguments),
            extent,
        }
    }
}

/// A key range without its keys. Its parameters are the PartitionKey if the range is in one partition, then those of
/// the lower bound, then those of the upper bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RangeShape {
    Point,
    /// Rows of one partition.
    Rows {
        lower: End,
        upper: End,
    },
    /// Rows of several partitions.
    Partitions {
        lower: End,
        upper: End,
    },
}

/// One end of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum End {
    Open,
    /// A bound on the PartitionKey alone.
    Partition {
        inclusive: bool,
    },
    /// A bound on both keys, or on the RowKey if the range is in one partition.
    Row {
        inclusive: bool,
    },
}

impl End {
    fn of(bound: &Option<Bound>, one_partition: bool) -> End {
        match bound {
            None => End::Open,
            Some(Bound { row_key: None, .. }) if one_partition => End::Open,
            Some(Bound {
                row_key: None,
                inclusive,
                ..
            }) => End::Partition { inclusive: *inclusive },
            Some(Bound { inclusive, .. }) => End::Row { inclusive: *inclusive },
        }
    }
}

impl RangeShape {
    const TABLE: RangeShape = RangeShape::Partitions {
        lower: End::Open,
        upper: End::Open,
    };

    pub(super) fn of(range: &KeyRange) -> RangeShape {
        if range.point().is_some() {
            return RangeShape::Point;
        }
        let one_partition = range.partition().is_some();
        let (lower, upper) = (
            End::of(&range.lower, one_partition),
            End::of(&range.upper, one_partition),
        );
        if one_partition {
            RangeShape::Rows { lower, upper }
        } else {
            RangeShape::Partitions { lower, upper }
        }
    }

    /// Returns the conditions on the columns of `alias`. Takes the texts of the keys, in the order of [`keys`].
    pub(super) fn conditions(self, alias: &str, mut texts: impl Iterator<Item = String>) -> Vec<String> {
        let (pk, rk) = (format!("{alias}partition_key"), format!("{alias}row_key"));
        let compare =
            |left: &str, operator: &str, right: &str| format!("{left} OPERATOR(pg_catalog.{operator}) {right}");
        let mut next = || texts.next().unwrap_or_default();
        let mut conditions = Vec::new();
        let (lower, upper) = match self {
            RangeShape::Point => {
                conditions.push(compare(&pk, "=", &next()));
                conditions.push(compare(&rk, "=", &next()));
                return conditions;
            }
            RangeShape::Rows { lower, upper } => {
                conditions.push(compare(&pk, "=", &next()));
                (lower, upper)
            }
            RangeShape::Partitions { lower, upper } => (lower, upper),
        };
        let one_partition = matches!(self, RangeShape::Rows { .. });
        for (end, including, excluding) in [(lower, ">=", ">"), (upper, "<=", "<")] {
            match end {
                End::Open => {}
                End::Partition { inclusive } => {
                    conditions.push(compare(&pk, if inclusive { including } else { excluding }, &next()));
                }
                End::Row { inclusive } => {
                    let operator = if inclusive { including } else { excluding };
                    if one_partition {
                        conditions.push(compare(&rk, operator, &next()));
                    } else {
                        // The row comparison implies the first condition. But a foreign table or another engine may be
                        // able to use only the first.
                        let (partition, row) = (next(), next());
                        conditions.push(compare(&pk, including, &partition));
                        conditions.push(compare(
                            &format!("ROW({pk}, {rk})"),
                            operator,
                            &format!("ROW({partition}, {row})"),
                        ));
                    }
                }
            }
        }
        conditions
    }

    fn select(self, table: &QualifiedName, conditions: &[String]) -> String {
        let filtered = filtered(conditions);
        let order = match self {
            RangeShape::Point => "",
            RangeShape::Rows { .. } => " ORDER BY t.row_key",
            RangeShape::Partitions { .. } => " ORDER BY t.partition_key, t.row_key",
        };
        format!("SELECT {ENTITY} FROM {table} AS t{filtered}{order}")
    }
}

/// Returns the statement that counts the rows that meet conditions.
pub(super) fn count(table: &str, conditions: &[String]) -> String {
    format!("SELECT pg_catalog.count(*) FROM {table} AS t{}", filtered(conditions))
}

fn filtered(conditions: &[String]) -> String {
    if conditions.is_empty() {
        return String::new();
    }
    format!(" WHERE {}", conditions.join(" AND "))
}

/// Returns the keys of a range, in the order of its shape's parameters.
pub(super) fn keys(range: &KeyRange) -> Vec<&str> {
    if let Some((partition_key, row_key)) = range.point() {
        return vec![partition_key, row_key];
    }
    let partition = range.partition();
    let mut keys: Vec<&str> = partition.into_iter().collect();
    for bound in [&range.lower, &range.upper].into_iter().flatten() {
        if partition.is_none() {
            keys.push(&bound.partition_key);
        }
        keys.extend(bound.row_key.as_deref());
    }
    keys
}

/// Returns the conditions of a range with its keys as literals, for SQL that users see. The whole table has no
/// condition.
pub fn range_to_sql(range: &KeyRange, alias: &str) -> Vec<String> {
    let literals = keys(range).into_iter().map(pgrx::spi::quote_literal);
    RangeShape::of(range).conditions(alias, literals)
}

/// Returns the scan of a range with its keys as literals.
pub fn scan_to_sql(range: &KeyRange, table: &QualifiedName, residual: Option<&Filter>) -> String {
    let shape = RangeShape::of(range);
    let mut conditions = range_to_sql(range, "t.");
    conditions.extend(residual.map(|filter| passes("t.", filter)));
    shape.select(table, &conditions)
}

impl Shape {
    pub(super) fn is_count(self) -> bool {
        self.extent == Extent::Count
    }

    /// Returns whether the planner may choose any plan. It may if the scan reads the whole table to its end.
    pub(super) fn any_plan(self) -> bool {
        self.extent == Extent::All && self.range == RangeShape::TABLE
    }

    /// Returns whether the scan must be planned with its values. Citus can plan one without them only if it goes to one
    /// shard, and recognizes that only if a single condition names the PartitionKey.
    pub(super) fn needs_values(self) -> bool {
        let is_distributed = matches!(self.extent, Extent::DistributedAll | Extent::DistributedFirst);
        let is_partition = !matches!(self.range, RangeShape::Partitions { .. });
        is_distributed && !(is_partition && self.filter != FilterArguments::Entity)
    }

    /// Returns the text of the statement.
    pub(super) fn sql(self, table: &QualifiedName) -> String {
        let mut keys = 0;
        let parameters = std::iter::repeat_with(|| {
            keys += 1;
            format!("${keys}")
        });
        let mut conditions = self.range.conditions("t.", parameters);
        let filter = self.filter.call(&format!("${}", keys + 1));
        if self.is_count() {
            conditions.extend(filter);
            return count(&table.to_string(), &conditions);
        }
        if self.extent != Extent::DistributedFirst {
            conditions.extend(filter);
            return self.range.select(table, &conditions);
        }
        let limit = keys + 1 + 2 * filter.iter().len();
        conditions.extend(filter.map(|filter| {
            let until = keys + 2;
            format!("({filter} OR pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>=) ${until})")
        }));
        format!("{} LIMIT ${limit}", self.range.select(table, &conditions))
    }
}
