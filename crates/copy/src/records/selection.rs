//! The entities that a filter selects.

use table_service_model::filter::{AccessClass, Dialect, Expression, Filter, Plan, Predicate, hint_for};

use crate::failure::Failure;

use super::record::{Record, reason};

/// How many comparisons the Table service takes in a filter.
const MOST_COMPARISONS: usize = 15;
/// How many a key range has: a partition, and where it begins and ends.
const COMPARISONS_OF_A_RANGE: usize = 3;

/// A filter that is well-formed, so it can stand beside other conditions in parentheses.
pub struct Selection {
    /// `None` if every entity passes.
    text: Option<String>,
    filter: Filter,
    predicate: Predicate,
}

impl Selection {
    /// Reads a filter. Every entity passes `None`.
    pub fn read(text: Option<&str>) -> Result<Selection, Failure> {
        let text = text.unwrap_or_default().trim();
        let filter = Filter::parse(text, None, Dialect::Service).map_err(|error| {
            // Every end must take the filter, so no setting gives it another dialect.
            let reason = hint_for(&reason(&error), None);
            Failure::usage(format!("--filter cannot be read: {reason}"))
        })?;
        let is_all = filter == Filter::EVERYTHING;
        Ok(Selection {
            text: (!is_all).then(|| text.to_owned()),
            predicate: Predicate::new(&filter),
            filter,
        })
    }

    /// The filter for a service or a database; `None` if every entity passes.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Returns whether it is worth while, and possible, to ask for it range by range.
    pub fn can_be_divided(&self) -> bool {
        let access = Plan::new(self.filter.clone()).access();
        !matches!(
            access,
            AccessClass::Nothing | AccessClass::PointQuery | AccessClass::RowRangeScan
        ) && comparisons(self.filter.expression()) + COMPARISONS_OF_A_RANGE <= MOST_COMPARISONS
    }

    /// The partition of all entities that pass, if there is only one.
    pub fn partition(&self) -> Option<String> {
        Plan::new(self.filter.clone()).partition().map(str::to_owned)
    }

    /// Returns whether an entity passes.
    pub fn selects(&self, record: &Record) -> bool {
        self.predicate.matches(&record.as_entity())
    }
}

/// No path in a filter is long.
fn comparisons(expression: &Expression) -> usize {
    match expression {
        Expression::And(terms) | Expression::Or(terms) => terms.iter().map(comparisons).sum(),
        Expression::Not(term) => comparisons(term),
        Expression::Comparison(_) | Expression::Text(_) | Expression::Property(_) | Expression::Constant(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_entity_passes_is_no_filter() {
        for all in [None, Some(""), Some(" true "), Some("(true)")] {
            assert_eq!(Selection::read(all).unwrap().text(), None, "{all:?}");
        }
        assert_eq!(Selection::read(Some(" A eq 1 ")).unwrap().text(), Some("A eq 1"));
        for wrong in ["A eq", "A eq 1) or (true", "A eq 'x", "eq"] {
            let said = Selection::read(Some(wrong)).err().unwrap();
            assert!(said.code == 2 && said.to_string().contains("InvalidInput"), "{said}");
        }
    }

    /// Any end must take the filter, and the service is one.
    #[test]
    fn filters_are_the_services() {
        for (extended, code) in [
            ("startswith(A, 'x')", "NotImplemented"),
            ("A in ('x')", "InvalidInput"),
            ("A eq null", "InvalidInput"),
        ] {
            let said = Selection::read(Some(extended)).err().unwrap();
            assert!(said.code == 2 && said.to_string().contains(code), "{said}");
            assert!(!said.to_string().contains("SQL"), "{said}");
        }
    }

    #[test]
    fn ranges_need_room_in_the_filter() {
        let divided = |text: &str| Selection::read(Some(text)).unwrap().can_be_divided();
        let many = |count: usize| vec!["A eq 1"; count].join(" or ");
        assert!(divided("A eq 1") && divided("PartitionKey gt 'a'") && divided(&many(12)));
        assert!(!divided("PartitionKey eq 'a' and B") && !divided(&many(13)));
    }
}
