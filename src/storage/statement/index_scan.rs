//! Scans of property indexes. Their texts depend on the filter, unlike those of the other statements.

use table_service_model::property_index::{Condition, Span};
use table_service_model::{Expiry, Filter, KeyRange};

use super::expression::{expiry_expression, index_expression, passes};
use super::scan::{ENTITY, RangeShape, ScanFilter, count, keys, range_to_sql};
use crate::postgres::{Text, Value, Varlena};
use crate::storage::name::QualifiedName;

/// A scan that reads entities through property indexes: its text, and the values of its parameters.
pub struct IndexScan {
    pub(in crate::storage) text: String,
    parameters: Vec<Parameter>,
}

enum Parameter {
    Key(Text),
    Bytes(Varlena),
    Count(i64),
    /// In microseconds since 2000-01-01.
    Moment(i64),
    /// A condition in a text that users see.
    Shown(String),
}

/// A filter in the condition of a scan.
#[derive(Clone, Copy)]
pub enum Tested<'f> {
    /// Compiled, as a parameter.
    Compiled(&'f ScanFilter),
    /// As SQL that users see.
    Shown(&'f Filter),
    /// Not at all: the caller tests it.
    ByCaller,
}

/// How a scan uses the bounds of its key range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounds {
    /// The planner may find entities by them.
    Searched,
    /// They are tested on the entities that the condition finds. A bitmap of a large range would take longer than that.
    Tested,
}

impl IndexScan {
    /// Reads the entities that have an entry in a span and pass the filter. All entries of the span must have the same
    /// value, so the entities come in key order, except those with cut entries. `sort_cut` says whether these are
    /// sorted, which takes a little time for all entities.
    pub fn ordered(
        table: &QualifiedName,
        property: &str,
        span: &Span,
        filter: Tested<'_>,
        sort_cut: bool,
    ) -> IndexScan {
        let mut scan = IndexScan::new();
        let key = expression(property);
        let mut conditions = vec![scan.span(&key, span)];
        scan.filter(&mut conditions, filter);
        let keys = if sort_cut { ", t.partition_key, t.row_key" } else { "" };
        scan.text = format!(
            "SELECT {ENTITY} FROM {table} AS t WHERE {} ORDER BY {key}{keys}",
            conditions.join(" AND ")
        );
        scan
    }

    /// Reads the entities of key ranges with entries that meet a condition, if they pass the filter, in key order, at
    /// most `limit`. `properties` has the names of the properties by their numbers in the condition. `bounds` says
    /// whether the planner may use the ranges to find them.
    ///
    /// Several ranges must be in order. Then only the beginning of the first and the end of the last are bounds. The
    /// caller tests the others, unless the text is shown.
    pub fn sorted<N: AsRef<str>>(
        table: &QualifiedName,
        ranges: &[KeyRange],
        (condition, properties): (&Condition, &[N]),
        filter: Tested<'_>,
        limit: Option<u64>,
        bounds: Bounds,
    ) -> IndexScan {
        let mut scan = IndexScan::new();
        let range = KeyRange {
            lower: ranges.first().and_then(|range| range.lower.clone()),
            upper: ranges.last().and_then(|range| range.upper.clone()),
        };
        let mut keys = scan.range(&range);
        if let (Tested::Shown(_), [_, _, ..]) = (filter, ranges) {
            let each: Vec<String> = ranges
                .iter()
                .map(|range| range_to_sql(range, "t.").join(" AND "))
                .collect();
            keys.push(scan.parameter(Parameter::Shown(format!("(({}))", each.join(") OR (")))));
        }
        let mut conditions = vec![scan.condition(condition, properties)];
        scan.filter(&mut conditions, filter);
        let mut from = format!("{table} AS t");
        if bounds == Bounds::Tested && !keys.is_empty() {
            // PostgreSQL moves no condition into a subquery with OFFSET.
            from = format!(
                "(SELECT {ENTITY} FROM {from} WHERE {} OFFSET 0) AS t",
                conditions.join(" AND ")
            );
        } else {
            keys.append(&mut conditions);
        }
        scan.text = format!(
            "SELECT {ENTITY} FROM {from} WHERE {} ORDER BY t.partition_key, t.row_key",
            keys.join(" AND ")
        );
        if let Some(limit) = limit {
            let limit = scan.parameter(Parameter::Count(i64::try_from(limit).unwrap_or(i64::MAX)));
            scan.text.push_str(&format!(" LIMIT {limit}"));
        }
        scan
    }

    /// Counts the entities of a key range with entries that meet a condition, if they pass the filter. `properties` is
    /// as for [`IndexScan::sorted`].
    pub fn counted<N: AsRef<str>>(
        table: &QualifiedName,
        range: &KeyRange,
        (condition, properties): (&Condition, &[N]),
        filter: &ScanFilter,
    ) -> IndexScan {
        let mut scan = IndexScan::new();
        let mut conditions = scan.range(range);
        conditions.push(scan.condition(condition, properties));
        scan.filter(&mut conditions, Tested::Compiled(filter));
        scan.text = count(&table.to_string(), &conditions);
        scan
    }

    /// Deletes entities that expire in a window of time, in microseconds since 2000-01-01: the first `limit` of them
    /// that nobody has locked. Returns how many it has deleted, how many it has locked, and the last moment among
    /// these.
    ///
    /// A version that another transaction has just replaced is tested again when it is locked. The delete does not see the new
    /// version, so that one stays for the next sweep.
    pub fn sweep(table: &QualifiedName, expiry: &Expiry, window: (i64, i64), limit: u64) -> IndexScan {
        let mut scan = IndexScan::new();
        let (moment, expired) = scan.expired_in(expiry, window, limit);
        // Each row is fetched by its position. The parts of a partitioned table have rows with the same ctid.
        scan.text = format!(
            "WITH expired AS MATERIALIZED (
                SELECT t.tableoid AS part, t.ctid AS position, {moment} AS moment FROM {table} AS t
                {expired} FOR UPDATE OF t SKIP LOCKED
            ), deleted AS (
                DELETE FROM {table} AS t USING expired AS e
                WHERE t.ctid OPERATOR(pg_catalog.=) e.position AND t.tableoid OPERATOR(pg_catalog.=) e.part RETURNING 1
            )
            SELECT (SELECT pg_catalog.count(*) FROM deleted), pg_catalog.count(*), pg_catalog.max(e.moment)
            FROM expired AS e"
        );
        scan
    }

    /// Finds entities that expire in a window of time, in microseconds since 2000-01-01: the keys, the Timestamps and
    /// the moments of the first `limit` of them. It locks the shards that have them, as a delete does.
    pub fn find_expired(table: &QualifiedName, expiry: &Expiry, window: (i64, i64), limit: u64) -> IndexScan {
        let mut scan = IndexScan::new();
        let (moment, expired) = scan.expired_in(expiry, window, limit);
        scan.text = format!(
            "SELECT t.partition_key, t.row_key, t.\"timestamp\", {moment}, \
                pg_catalog.lock_relation_if_exists(t.tableoid::pg_catalog.regclass::pg_catalog.text, 'ROW EXCLUSIVE') \
            FROM {table} AS t {expired}"
        );
        scan
    }

    /// Returns the moment of expiry of a row `t`, and the clauses for the first `limit` rows that expire in a window.
    fn expired_in(&mut self, expiry: &Expiry, (since, until): (i64, i64), limit: u64) -> (String, String) {
        let moment = expiry_expression("t.", expiry);
        let until = self.parameter(Parameter::Moment(until));
        let since = self.parameter(Parameter::Moment(since));
        let limit = self.parameter(Parameter::Count(i64::try_from(limit).unwrap_or(i64::MAX)));
        let clauses = format!(
            "WHERE {moment} OPERATOR(pg_catalog.<=) {until} AND {moment} OPERATOR(pg_catalog.>=) {since} ORDER BY {moment} LIMIT {limit}"
        );
        (moment, clauses)
    }

    /// Reads the first moment of expiry of all entities.
    pub fn first_expiry(table: &QualifiedName, expiry: &Expiry) -> IndexScan {
        let mut scan = IndexScan::new();
        let moment = expiry_expression("t.", expiry);
        scan.text = format!("SELECT {moment} FROM {table} AS t WHERE {moment} IS NOT NULL ORDER BY {moment} LIMIT 1");
        scan
    }

    /// Deletes all entities that have expired at `until`, in microseconds since 2000-01-01.
    pub fn sweep_all(table: &QualifiedName, expiry: &Expiry, until: i64) -> IndexScan {
        let mut scan = IndexScan::new();
        let moment = expiry_expression("t.", expiry);
        let until = scan.parameter(Parameter::Moment(until));
        scan.text = format!("DELETE FROM {table} AS t WHERE {moment} OPERATOR(pg_catalog.<=) {until}");
        scan
    }

    /// Finds one entity that has expired at `until`, in microseconds since 2000-01-01.
    pub fn expired(table: &QualifiedName, expiry: &Expiry, until: i64) -> IndexScan {
        let mut scan = IndexScan::new();
        let moment = expiry_expression("t.", expiry);
        let until = scan.parameter(Parameter::Moment(until));
        scan.text = format!("SELECT 1 FROM {table} AS t WHERE {moment} OPERATOR(pg_catalog.<=) {until} LIMIT 1");
        scan
    }

    fn new() -> IndexScan {
        IndexScan {
            text: String::new(),
            parameters: Vec::new(),
        }
    }

    /// Adds a parameter, and returns its name.
    fn parameter(&mut self, parameter: Parameter) -> String {
        self.parameters.push(parameter);
        format!("${}", self.parameters.len())
    }

    /// Adds the keys of a range, and returns its conditions.
    fn range(&mut self, range: &KeyRange) -> Vec<String> {
        let keys = keys(range).into_iter();
        let parameters = keys.map(|key| self.parameter(Parameter::Key(Text::new(key))));
        RangeShape::of(range).conditions("t.", parameters)
    }

    fn filter(&mut self, conditions: &mut Vec<String>, filter: Tested<'_>) {
        match filter {
            Tested::Compiled(filter) => {
                let predicate = self.parameter(Parameter::Bytes(Varlena::new(filter.predicate.as_bytes())));
                conditions.extend(filter.condition(&predicate));
            }
            Tested::Shown(filter) => {
                let call = self.parameter(Parameter::Shown(passes("t.", filter)));
                conditions.push(call);
            }
            Tested::ByCaller => {}
        }
    }

    fn span(&mut self, key: &str, span: &Span) -> String {
        let lower = self.parameter(Parameter::Bytes(Varlena::new(&span.lower)));
        let upper = self.parameter(Parameter::Bytes(Varlena::new(&span.upper)));
        format!("{key} OPERATOR(pg_catalog.>=) {lower} AND {key} OPERATOR(pg_catalog.<) {upper}")
    }

    fn condition<N: AsRef<str>>(&mut self, condition: &Condition, properties: &[N]) -> String {
        let (terms, separator): (Vec<String>, _) = match condition {
            Condition::Spans { property, spans } => {
                let key = expression(properties.get(*property).map_or("", AsRef::as_ref));
                (spans.iter().map(|span| self.span(&key, span)).collect(), ") OR (")
            }
            Condition::All(terms) => (self.conditions(terms, properties), ") AND ("),
            Condition::Any(terms) => (self.conditions(terms, properties), ") OR ("),
        };
        match terms.as_slice() {
            [] => "false".to_owned(),
            _ => format!("(({}))", terms.join(separator)),
        }
    }

    fn conditions<N: AsRef<str>>(&mut self, terms: &[Condition], properties: &[N]) -> Vec<String> {
        terms.iter().map(|term| self.condition(term, properties)).collect()
    }

    pub(in crate::storage) fn values(&self) -> Vec<Value<'_>> {
        let value = |parameter| match parameter {
            &Parameter::Count(n) => Some(Value::int8(n)),
            &Parameter::Moment(micros) => Some(Value::timestamptz(micros)),
            Parameter::Key(text) => Some(text.value()),
            Parameter::Bytes(bytes) => Some(Value::bytea(bytes)),
            Parameter::Shown(_) => None,
        };
        self.parameters.iter().filter_map(value).collect()
    }

    /// Returns the text with literals instead of parameters.
    pub fn to_sql(&self) -> String {
        let mut sql = String::new();
        // Names of tables and properties contain no `$`.
        let mut rest = self.text.as_str();
        while let Some((before, after)) = rest.split_once('$') {
            sql.push_str(before);
            rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
            let number = after.strip_suffix(rest).and_then(|digits| digits.parse::<usize>().ok());
            let parameter = number.and_then(|number| self.parameters.get(number.checked_sub(1)?));
            match parameter {
                Some(Parameter::Key(text)) => sql.push_str(&pgrx::spi::quote_literal(text.arg().get())),
                Some(Parameter::Count(n)) => sql.push_str(&n.to_string()),
                Some(Parameter::Moment(_)) => sql.push_str("pg_catalog.now()"),
                Some(Parameter::Shown(condition)) => sql.push_str(condition),
                Some(Parameter::Bytes(bytes)) => {
                    let digits = bytes.as_bytes().iter().map(|byte| format!("{byte:02x}"));
                    sql.push_str(&format!("'\\x{}'::pg_catalog.bytea", digits.collect::<String>()));
                }
                None => sql.push('$'),
            }
        }
        sql.push_str(rest);
        sql
    }
}

/// Returns the expression of the index on a property.
fn expression(property: &str) -> String {
    index_expression("t.", &pgrx::spi::quote_literal(property))
}
