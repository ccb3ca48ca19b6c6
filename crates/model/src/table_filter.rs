//! `$filter` over the tables themselves (semantics 4.3): the only property is `TableName`, and its case does not count.

use crate::entity::Entity;
use crate::error::Error;
use crate::filter::{Column, Comparison, Expression, Filter, Literal};
use crate::properties::{Properties, PropertiesBuilder};
use crate::table_name::fold;

const TABLE_NAME: &str = "TableName";

/// A predicate over table names.
#[derive(Debug, Clone)]
pub struct TableFilter(Filter);

impl TableFilter {
    /// Reads a filter as [`Filter::parse`] does.
    ///
    /// # Errors
    /// As there; `InternalError`, as the service has it, for any property but `TableName`.
    pub fn parse(text: &str, parameters: Option<Properties<'_>>) -> Result<TableFilter, Error> {
        let filter = Filter::parse(text, parameters)?;
        folded(filter.expression()).map(|expression| TableFilter(Filter::new(expression)))
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

/// Returns the expression with its strings in the form in which names are compared.
fn folded(expression: &Expression) -> Result<Expression, Error> {
    let all = |terms: &[Expression]| terms.iter().map(folded).collect::<Result<Vec<_>, _>>();
    Ok(match expression {
        Expression::And(terms) => Expression::And(all(terms)?),
        Expression::Or(terms) => Expression::Or(all(terms)?),
        Expression::Not(term) => Expression::Not(Box::new(folded(term)?)),
        Expression::Comparison(comparison) => Expression::Comparison(Comparison {
            literal: match &comparison.literal {
                Literal::String(text) => Literal::String(fold(text).into()),
                other => other.clone(),
            },
            property: known(&comparison.property.column).map(|()| comparison.property.clone())?,
            operator: comparison.operator,
        }),
        Expression::Property(property) => Expression::Property(known(&property.column).map(|()| property.clone())?),
        Expression::Constant(value) => Expression::Constant(*value),
    })
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

    fn passing<'n>(filter: &str, names: &[&'n str]) -> Vec<&'n str> {
        let filter = TableFilter::parse(filter, None).unwrap();
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
            assert_eq!(passing(filter, &names), expected, "{filter}");
        }
    }

    #[test]
    fn another_property_is_the_services_internal_error() {
        for filter in [
            "name eq 'x'",
            "PartitionKey eq 'x'",
            "TableName eq 'x' or tablename eq 'x'",
            "Flag",
        ] {
            let error = TableFilter::parse(filter, None).unwrap_err();
            assert_eq!(
                error.report(),
                "InternalError: Server encountered an internal error. Please try again after some time.",
                "{filter}"
            );
            assert_eq!(error.sqlstate(), "42703");
        }
    }
}
