//! `$filter` over the tables themselves (semantics 4.3): the only property is `TableName`, and its case does not count.

use crate::filter::{Column, Expression};
use crate::table_name::fold;
use crate::{Dialect, Entity, Error, Filter, Properties, PropertiesBuilder};

const TABLE_NAME: &str = "TableName";

/// A predicate over table names.
#[derive(Debug, Clone)]
pub struct TableFilter(Filter);

impl TableFilter {
    /// Reads a filter as [`Filter::parse`] does.
    ///
    /// # Errors
    /// As there; `InternalError`, as the service has it, for any property but `TableName`.
    pub fn parse(text: &str, parameters: Option<Properties<'_>>, dialect: Dialect) -> Result<TableFilter, Error> {
        let filter = Filter::parse_folded(text, parameters, dialect, fold)?;
        check(filter.expression())?;
        Ok(TableFilter(filter))
    }

    /// Returns whether a table of this name passes.
    ///
    /// # Errors
    /// Those of [`PropertiesBuilder::push`] for the name as a value. The name of a table has none of them.
    pub fn matches(&self, name: &str) -> Result<bool, Error> {
        let mut builder = PropertiesBuilder::new();
        builder.push(TABLE_NAME.into(), crate::Value::String(&fold(name)))?;
        let bag = builder.finish()?;
        Ok(self.0.matches(&Entity {
            partition_key: None,
            row_key: None,
            timestamp: None,
            properties: bag.as_properties(),
        }))
    }
}

/// Checks that an expression names no other property.
fn check(expression: &Expression) -> Result<(), Error> {
    match expression {
        Expression::And(terms) | Expression::Or(terms) => terms.iter().try_for_each(check),
        Expression::Not(term) => check(term),
        Expression::Comparison(comparison) => known(&comparison.property),
        Expression::Text(test) => known(&test.property),
        Expression::Property(property) => known(property),
        Expression::Constant(_) => Ok(()),
    }
}

fn known(column: &Column) -> Result<(), Error> {
    match column.name() {
        TABLE_NAME => Ok(()),
        other => Err(Error::UnknownTableProperty {
            name: Error::quoted(other),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passing<'n>(filter: &str, dialect: Dialect, names: &[&'n str]) -> Vec<&'n str> {
        let filter = TableFilter::parse(filter, None, dialect).unwrap();
        names
            .iter()
            .copied()
            .filter(|name| filter.matches(name).unwrap())
            .collect()
    }

    #[test]
    fn names_are_compared_without_their_case() {
        let names = ["Alpha", "beta", "Gamma", "gamut"];
        for (filter, expected) in [
            ("", &names[..]),
            ("TableName eq 'ALPHA'", &["Alpha"]),
            ("TableName ge 'GAM' and TableName lt 'gan'", &["Gamma", "gamut"]),
            ("not (TableName gt 'Beta')", &["Alpha", "beta"]),
            ("'beta' eq TableName", &["beta"]),
            ("TableName eq 7", &[]),
        ] {
            assert_eq!(passing(filter, Dialect::Service, &names), expected, "{filter}");
        }
        for (filter, expected) in [
            ("startswith(TableName, 'GAM')", &["Gamma", "gamut"][..]),
            ("startswith(TableName, 'Z')", &["Zeta"]),
            ("contains(TableName, 'ET')", &["beta", "Zeta"]),
            ("TableName in ('ALPHA', 'BETA', null)", &["Alpha", "beta"]),
            ("TableName eq null", &[]),
        ] {
            let names = ["Alpha", "beta", "Gamma", "gamut", "Zeta"];
            assert_eq!(passing(filter, Dialect::Extended, &names), expected, "{filter}");
        }
        assert!(TableFilter::parse("endswith(Name, 'x')", None, Dialect::Extended).is_err());
    }

    #[test]
    fn another_property_is_the_services_internal_error() {
        for filter in [
            "name eq 'x'",
            "PartitionKey eq 'x'",
            "TableName eq 'x' or tablename eq 'x'",
            "Flag",
        ] {
            let error = TableFilter::parse(filter, None, Dialect::Service).unwrap_err();
            assert_eq!(
                error.report(),
                "InternalError: Server encountered an internal error. Please try again after some time.",
                "{filter}"
            );
            assert_eq!(error.sqlstate(), "42703");
        }
    }
}
