//! The canonical text of a filter. It is in the dialect of the service as far as that can say it.

use std::fmt::{self, Display, Formatter, Write};

use crate::edm::{format_double, write_guid};
use crate::filter::ast::{Comparison, Expression, Filter, Literal, TextTest};

impl Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Display for Expression {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Or(terms) => separated(f, terms, " or "),
            Expression::And(terms) => separated(f, terms, " and "),
            Expression::Not(term) if matches!(**term, Expression::Property(_)) => write!(f, "not {term}"),
            Expression::Not(term) => write!(f, "not ({term})"),
            Expression::Comparison(comparison) => comparison.fmt(f),
            Expression::Text(TextTest {
                property,
                function,
                text,
            }) => {
                write!(f, "{}({}, ", function.name(), property.name())?;
                write_quoted(f, text)?;
                f.write_char(')')
            }
            Expression::Property(property) => f.write_str(property.name()),
            Expression::Constant(value) => value.fmt(f),
        }
    }
}

fn separated(f: &mut Formatter<'_>, terms: &[Expression], separator: &str) -> fmt::Result {
    for (index, term) in terms.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        // `and` binds tighter: an `or` within an `and` is all that needs parentheses.
        if matches!(term, Expression::Or(_)) {
            write!(f, "({term})")?;
        } else {
            term.fmt(f)?;
        }
    }
    Ok(())
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Comparison {
            property,
            operator,
            literal,
        } = self;
        write!(f, "{} {} {literal}", property.name(), operator.keyword())
    }
}

impl Display for Literal {
    /// Returns the literal as a filter spells it (semantics 6.2).
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Literal::String(text) => write_quoted(f, text),
            Literal::Int32(n) => n.fmt(f),
            Literal::Int64(n) => write!(f, "{n}L"),
            Literal::Double(n) if n.is_infinite() => f.write_str(if *n > 0.0 { "INF" } else { "-INF" }),
            Literal::Double(n) => f.write_str(&format_double(*n)),
            Literal::Boolean(b) => b.fmt(f),
            Literal::DateTime(ticks) => write!(f, "datetime'{ticks}'"),
            Literal::Guid(guid) => {
                let mut text = Vec::with_capacity(36);
                write_guid(&mut text, *guid);
                write!(f, "guid'{}'", String::from_utf8_lossy(&text))
            }
            Literal::Binary(bytes) => {
                f.write_str("X'")?;
                for byte in bytes {
                    write!(f, "{byte:02X}")?;
                }
                f.write_char('\'')
            }
        }
    }
}

/// Appends text in single quotes; quotes in it are doubled.
pub(super) fn write_quoted(f: &mut impl Write, text: &str) -> fmt::Result {
    f.write_char('\'')?;
    for (index, part) in text.split('\'').enumerate() {
        if index > 0 {
            f.write_str("''")?;
        }
        f.write_str(part)?;
    }
    f.write_char('\'')
}
