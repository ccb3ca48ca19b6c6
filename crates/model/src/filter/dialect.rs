//! The grammar of filters beyond the service's. It becomes the service's as far as possible (semantics 6.7).

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use crate::filter::ast::{Column, Comparison, Expression, Literal, Operator, TextFunction, TextTest};

/// Which grammar a filter has. A filter in the service's grammar means the same in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, EnumString, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Dialect {
    /// That of the service.
    #[default]
    Service,
    /// Also with functions of text, lists, and tests for absent properties.
    Extended,
}

/// A function of the extended dialect; its name is its own in small letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Function {
    StartsWith,
    EndsWith,
    Contains,
    /// `Contains` with its arguments in the other order.
    SubstringOf,
}

impl Function {
    /// Returns the function of this name.
    pub fn of_name(name: &str) -> Option<Function> {
        name.parse().ok()
    }

    /// Returns an example of a call.
    pub fn example(self) -> String {
        let name: &str = self.into();
        match self {
            Function::SubstringOf => format!("{name}('x', Name)"),
            _ => format!("{name}(Name, 'x')"),
        }
    }

    /// Returns the condition that a call states.
    pub fn condition(self, property: Column, text: Box<str>) -> Expression {
        let function = match self {
            Function::StartsWith => return starts_with(property, text),
            Function::EndsWith => TextFunction::EndsWith,
            Function::Contains | Function::SubstringOf => TextFunction::Contains,
        };
        Expression::Text(TextTest {
            property,
            function,
            text,
        })
    }
}

/// Returns the condition that an entity has the property, whatever its value is: a value of another type than Boolean
/// counts as less (semantics 6.3 rule 4), and no Boolean is greater than true.
pub(super) fn exists(property: Column) -> Expression {
    comparison(property, Operator::Le, Literal::Boolean(true))
}

/// Texts with a prefix are neighbours in the order of texts, so they are a range.
fn starts_with(property: Column, prefix: Box<str>) -> Expression {
    let next = match property {
        Column::PartitionKey | Column::RowKey => next_character,
        Column::Timestamp | Column::Property(_) => next_character_in_utf16,
    };
    let end = end_of_prefix(&prefix, next);
    let from = comparison(property.clone(), Operator::Ge, Literal::String(prefix));
    match end {
        Some(end) => Expression::And(vec![
            from,
            comparison(property, Operator::Lt, Literal::String(end.into())),
        ]),
        // Nothing but Strings is greater than or equal to a String.
        None => from,
    }
}

fn comparison(property: Column, operator: Operator, literal: Literal) -> Expression {
    Expression::Comparison(Comparison {
        property,
        operator,
        literal,
    })
}

/// Returns the least text behind all that begin with a prefix; `None` if there is none.
fn end_of_prefix(prefix: &str, next: fn(char) -> Option<char>) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        if let Some(next) = next(last) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

/// Returns the next character in the order of keys, by code points.
fn next_character(character: char) -> Option<char> {
    (character..=char::MAX).nth(1)
}

/// Returns the next character in the order of property values: characters of two units are between U+D7FF and U+E000.
fn next_character_in_utf16(character: char) -> Option<char> {
    match character {
        '\u{d7ff}' => Some('\u{10000}'),
        '\u{ffff}' => None,
        char::MAX => Some('\u{e000}'),
        other => next_character(other),
    }
}

/// The way to the extended dialect in SQL. Hints name it until [`hint_for`] names another door's setting.
pub(super) const IN_SQL: &str = "In SQL, SET table_service.filter_dialect = 'extended'";

/// Returns a hint for clients of another door than SQL: the hint names that door's setting for the extended dialect,
/// for example "The setting filter_dialect = extended". It names no setting if the door has none.
#[must_use]
pub fn hint_for(hint: &str, setting: Option<&str>) -> String {
    match (hint.split_once(IN_SQL), setting) {
        (None, _) => hint.to_owned(),
        (Some((before, behind)), Some(setting)) => format!("{before}{setting}{behind}"),
        (Some((before, _)), None) => before.trim_end().to_owned(),
    }
}
