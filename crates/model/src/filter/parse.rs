//! From text to a tree, without recursion: parentheses cost memory, never stack.

use crate::edm::{parse_double, parse_guid};
use crate::filter::ast::{Column, Comparison, Expression, Filter, Literal, Operator};
use crate::filter::dialect::{Dialect, Function, IN_SQL, exists};
use crate::lexer::{QUOTED_TEXT, Spanned, Token, Tokens};
use crate::text::abbreviate;
use crate::{EdmType, Error, Properties, Ticks, Value, limits};

/// How much of a literal an error message quotes, in characters.
const QUOTED_LITERAL: usize = 256;

impl Filter {
    /// Reads a filter (semantics 6.2 and 6.7). Text that is empty or blank is [`Filter::EVERYTHING`]. An `@name` takes its
    /// value from `parameters`.
    ///
    /// # Errors
    /// Those of semantics 6.4; `InvalidInput` for an `@name` without a value, and for a filter beyond the limits
    /// `FILTER_BYTES`, `FILTER_PARENTHESES`, `FILTER_DEPTH` or `FILTER_COPIED_BYTES` of [`crate::limits`].
    pub fn parse(text: &str, parameters: Option<Properties<'_>>, dialect: Dialect) -> Result<Filter, Error> {
        parse(text, parameters, dialect, None).map(Filter)
    }

    /// Reads a filter. Its Strings are compared in the form that `fold` gives them.
    ///
    /// # Errors
    /// Those of [`Filter::parse`].
    pub(crate) fn parse_folded(
        text: &str,
        parameters: Option<Properties<'_>>,
        dialect: Dialect,
        fold: fn(&str) -> String,
    ) -> Result<Filter, Error> {
        parse(text, parameters, dialect, Some(fold)).map(Filter)
    }
}

fn parse(
    text: &str,
    parameters: Option<Properties<'_>>,
    dialect: Dialect,
    fold: Option<fn(&str) -> String>,
) -> Result<Expression, Error> {
    if text.len() > limits::FILTER_BYTES {
        return Err(Error::FilterBeyondLimit {
            reason: format!("A filter has at most {} bytes", limits::FILTER_BYTES),
        });
    }
    let mut tokens = Tokens::new(text);
    let current = tokens.read()?;
    if current.token == Token::End {
        return Ok(Expression::Constant(true));
    }
    let mut parser = Parser {
        text,
        tokens,
        current,
        parameters,
        dialect,
        fold,
        copied_bytes: 0,
        unsupported: None,
        groups: Vec::new(),
        terms: Vec::new(),
    };
    let expression = parser.filter()?;
    // The front end reads the whole text before the back end looks at its shape.
    match parser.unsupported {
        Some(error) => Err(error),
        None => Ok(expression),
    }
}

/// A term, and the length of the longest path below it.
struct Term {
    expression: Expression,
    depth: usize,
}

/// An open parenthesis, or the filter as a whole.
///
/// The terms of all groups lie on one stack. Those of the innermost are `or` terms from `or_start` on, each of them
/// complete, and the `and` terms of the one that is being read from `and_start` on. So the terms of a closed group can
/// become its parent's where they lie, and `(((a) or b) or c)` is one list however deep its parentheses.
#[derive(Clone, Copy)]
struct Group {
    negated: bool,
    or_start: usize,
    and_start: usize,
}

/// Hints: the tokens that a filter could have where it has another one.
mod expected {
    /// Behind a property.
    pub const OPERATOR: &str =
        "Expected there: one of the operators eq, ne, gt, ge, lt, le; or, after a Boolean property, and, or or the end";
    /// Behind a literal.
    pub const OPERATOR_OF_LITERAL: &str =
        "After a literal one of the operators eq, ne, gt, ge, lt, le is expected, and a property after it";
    /// Behind a term.
    pub const CONNECTIVE: &str =
        "Expected there: and, or or the end of the filter. A comparison has one operator: eq, ne, gt, ge, lt, le";
    /// Behind a term in parentheses.
    pub const CONNECTIVE_OR_CLOSE: &str =
        "Expected there: and, or or a closing parenthesis. A comparison has one operator: eq, ne, gt, ge, lt, le";
    /// Where a term begins.
    pub const TERM: &str = "Expected there: a comparison such as Age gt 30, not, or an opening parenthesis";
    /// Behind an operator.
    pub const OPERAND: &str =
        "Expected there: a property or a literal, such as 30, 5L, 1.5, 'text', true or datetime'2026-01-31T12:00:00Z'";
    /// Of a filter that is no condition.
    pub const CONDITION: &str = "A filter is a condition, such as Age gt 30";
    /// Between two words.
    pub const SPACE: &str = "Expected there: a space between two words";
    /// Behind `in`.
    pub const LIST: &str = "Expected there: a list of literals in parentheses, as in Name in ('a', 'b')";
    /// Behind a function.
    pub const ARGUMENTS: &str = "Expected there: two arguments in parentheses, as in startswith(Name, 'x')";
    /// Behind `in` in the service's dialect.
    pub const LIST_IN_SERVICE: &str = "The service's filters have no lists: write P eq 'a' or P eq 'b'. \
        In SQL, SET table_service.filter_dialect = 'extended' lets a filter say P in ('a', 'b')";
}

#[derive(Clone)]
enum Operand {
    Property(Column),
    Literal(Literal),
    Null,
    /// A function, whose arguments come next.
    Call(Function),
}

impl Operand {
    /// Returns how many bytes a copy has beside the operand itself.
    fn bytes(&self) -> usize {
        match self {
            Operand::Property(property) => property.name().len(),
            Operand::Literal(Literal::String(text)) => text.len(),
            Operand::Literal(Literal::Binary(bytes)) => bytes.len(),
            Operand::Literal(_) | Operand::Null | Operand::Call(_) => 0,
        }
    }
}

struct Parser<'f> {
    text: &'f str,
    tokens: Tokens<'f>,
    current: Spanned<'f>,
    parameters: Option<Properties<'f>>,
    dialect: Dialect,
    /// The function that gives the form in which a String is compared.
    fold: Option<fn(&str) -> String>,
    /// How many bytes the copies have so far: of a parameter's value in each literal, and of the property before `in` for
    /// each member of its list.
    copied_bytes: usize,
    /// The first error of the back end.
    unsupported: Option<Error>,
    groups: Vec<Group>,
    terms: Vec<Term>,
}

impl<'f> Parser<'f> {
    fn advance(&mut self) -> Result<Spanned<'f>, Error> {
        Ok(std::mem::replace(&mut self.current, self.tokens.read()?))
    }

    fn syntax_error<T>(&self, unexpected: Spanned<'_>, expected: &'static str) -> Result<T, Error> {
        Err(Error::FilterSyntax {
            position: unexpected.end,
            filter: abbreviate(self.text, QUOTED_TEXT),
            expected: if unexpected.is_apart { expected } else { expected::SPACE },
        })
    }

    fn filter(&mut self) -> Result<Expression, Error> {
        let mut group = Group {
            negated: false,
            or_start: 0,
            and_start: 0,
        };
        loop {
            let mut negated = false;
            while self.current.token == Token::Word("not") {
                self.advance()?;
                negated = !negated;
            }
            if self.current.token == Token::Open {
                self.advance()?;
                if self.groups.len() == limits::FILTER_PARENTHESES {
                    return Err(Error::FilterBeyondLimit {
                        reason: format!("A filter has at most {} open parentheses", limits::FILTER_PARENTHESES),
                    });
                }
                self.groups.push(group);
                group = Group {
                    negated,
                    or_start: self.terms.len(),
                    and_start: self.terms.len(),
                };
                continue;
            }
            let expression = self.comparison()?;
            let mut is_property = matches!(expression, Expression::Property(_));
            group = match expression {
                Expression::And(terms) => self.add_group(group, negated, terms, false)?,
                Expression::Or(terms) => self.add_group(group, negated, terms, true)?,
                leaf => {
                    self.add(if negated { leaf.negated() } else { leaf });
                    group
                }
            };

            while self.current.token == Token::Close
                && let Some(parent) = self.groups.pop()
            {
                self.advance()?;
                is_property = false;
                group = self.close(group, parent)?;
            }
            // A token that does not belong here is an error before the next token is read, which may be none.
            let connective = self.current;
            match connective.token {
                _ if !connective.is_apart => return self.syntax_error(connective, expected::SPACE),
                Token::Word("and") => {}
                Token::Word("or") => {
                    self.fold(group.and_start, Expression::And)?;
                    group.and_start = self.terms.len();
                }
                Token::End if self.groups.is_empty() => {
                    self.fold_group(group)?;
                    return match self.terms.pop() {
                        Some(term) => Ok(term.expression),
                        None => self.syntax_error(connective, expected::TERM),
                    };
                }
                Token::Word("add" | "sub" | "mul" | "div" | "mod") => return arithmetic(),
                Token::Word("in") if is_property => return self.syntax_error(connective, expected::LIST_IN_SERVICE),
                _ if is_property => return self.syntax_error(connective, expected::OPERATOR),
                _ if self.groups.is_empty() => return self.syntax_error(connective, expected::CONNECTIVE),
                _ => return self.syntax_error(connective, expected::CONNECTIVE_OR_CLOSE),
            }
            self.advance()?;
        }
    }

    /// Adds a term that is a leaf, or its negation.
    fn add(&mut self, expression: Expression) {
        let depth = usize::from(matches!(expression, Expression::Not(_)));
        self.terms.push(Term { expression, depth });
    }

    /// Adds terms as if they stood in parentheses of their own, joined by `or` if it `is_any`, else by `and`.
    fn add_group(
        &mut self,
        parent: Group,
        negated: bool,
        terms: Vec<Expression>,
        is_any: bool,
    ) -> Result<Group, Error> {
        let or_start = self.terms.len();
        let mut and_start = or_start;
        for term in terms {
            if is_any {
                and_start = self.terms.len();
            }
            self.add(term);
        }
        let group = Group {
            negated,
            or_start,
            and_start,
        };
        self.close(group, parent)
    }

    /// Makes the terms of a group, whose closing parenthesis has been read, part of its parent.
    fn close(&mut self, group: Group, parent: Group) -> Result<Group, Error> {
        let ends_here = matches!(self.current.token, Token::Close | Token::End);
        if parent.or_start == group.or_start && ends_here {
            // The parent holds this group alone: `((...))`, `not (not (...))`.
            return Ok(Group {
                negated: parent.negated != group.negated,
                ..group
            });
        }
        if !group.negated {
            if group.or_start == group.and_start {
                // Nothing but `and` within: the terms go on with those of the parent.
                return Ok(parent);
            }
            if parent.and_start == group.or_start && self.current.token != Token::Word("and") {
                // An `or` among `or`s.
                return Ok(Group {
                    and_start: group.and_start,
                    ..parent
                });
            }
        }
        self.fold_group(group)?;
        Ok(parent)
    }

    /// Makes one term of all terms of a group.
    fn fold_group(&mut self, group: Group) -> Result<(), Error> {
        self.fold(group.and_start, Expression::And)?;
        self.fold(group.or_start, Expression::Or)?;
        if group.negated
            && let Some(term) = self.terms.pop()
        {
            let grows = !matches!(term.expression, Expression::Not(_) | Expression::Constant(_));
            self.push(term.expression.negated(), term.depth + usize::from(grows))?;
        }
        Ok(())
    }

    /// Makes one term of those from `start` on, unless there is only one.
    fn fold(&mut self, start: usize, wrap: fn(Vec<Expression>) -> Expression) -> Result<(), Error> {
        if self.terms.len() <= start + 1 {
            return Ok(());
        }
        let mut depth = 0;
        let terms = self
            .terms
            .drain(start..)
            .map(|term| {
                depth = depth.max(term.depth);
                term.expression
            })
            .collect();
        self.push(wrap(terms), depth + 1)
    }

    fn push(&mut self, expression: Expression, depth: usize) -> Result<(), Error> {
        if depth > limits::FILTER_DEPTH {
            return Err(Error::FilterBeyondLimit {
                reason: format!(
                    "The operators and, or and not nest at most {} deep",
                    limits::FILTER_DEPTH
                ),
            });
        }
        self.terms.push(Term { expression, depth });
        Ok(())
    }

    /// `operand [ op operand ]`, and in the extended dialect the lists and functions.
    fn comparison(&mut self) -> Result<Expression, Error> {
        let start = self.current;
        let left = self.operand(expected::TERM)?;
        if self.current.token == Token::Word("in") && self.dialect == Dialect::Extended {
            return self.list(&left);
        }
        let operator = match self.current.token {
            Token::Word(word) => Operator::of_keyword(word),
            _ => None,
        };
        let Some(operator) = operator else {
            return match left {
                Operand::Property(property) => Ok(Expression::Property(property)),
                Operand::Literal(Literal::Boolean(value)) => Ok(Expression::Constant(value)),
                Operand::Literal(_) if self.is_whole() => Err(Error::FilterNotBoolean {
                    reason: expected::CONDITION,
                }),
                Operand::Literal(_) => self.syntax_error(start, expected::OPERATOR_OF_LITERAL),
                Operand::Null => Ok(self.unsupported(null_is_no_value(self.dialect))),
                Operand::Call(function) => self.call(function),
            };
        };
        self.advance()?;
        if self.current.token == Token::Word("not") {
            // OData reads this as a comparison with a negation.
            return predicate_compared();
        }
        let right = self.operand(expected::OPERAND)?;
        self.compared(left, operator, right)
    }

    fn compared(&mut self, left: Operand, operator: Operator, right: Operand) -> Result<Expression, Error> {
        Ok(match (left, right) {
            (Operand::Call(_), _) | (_, Operand::Call(_)) => return predicate_compared(),
            (Operand::Property(property), Operand::Null) | (Operand::Null, Operand::Property(property))
                if self.dialect == Dialect::Extended && matches!(operator, Operator::Eq | Operator::Ne) =>
            {
                let exists = exists(property);
                if operator == Operator::Ne {
                    exists
                } else {
                    exists.negated()
                }
            }
            (Operand::Null, _) | (_, Operand::Null) => {
                let name = match operator {
                    Operator::Eq | Operator::Ne => return Ok(self.unsupported(null_is_no_value(self.dialect))),
                    Operator::Lt => "LessThan",
                    Operator::Le => "LessThanOrEqual",
                    Operator::Gt => "GreaterThan",
                    Operator::Ge => "GreaterThanOrEqual",
                };
                return Err(Error::FilterNullOperator { operator: name });
            }
            (Operand::Property(property), Operand::Literal(literal)) => Expression::Comparison(Comparison {
                property,
                operator,
                literal,
            }),
            (Operand::Literal(literal), Operand::Property(property)) => Expression::Comparison(Comparison {
                property,
                operator: operator.mirrored(),
                literal,
            }),
            (Operand::Property(_), Operand::Property(_)) => self.unsupported(not_implemented(
                "A comparison of a property with a property is not supported",
            )),
            (Operand::Literal(_), Operand::Literal(_)) => self.unsupported(not_implemented(
                "A comparison of a constant with a constant is not supported",
            )),
        })
    }

    /// `in (operand, ...)`: comparisons by `eq` of the operand before it. One of them must hold.
    fn list(&mut self, left: &Operand) -> Result<Expression, Error> {
        self.advance()?;
        self.take(Token::Open, expected::LIST)?;
        let mut any = Vec::new();
        loop {
            let member = self.operand(expected::LIST)?;
            self.copied(left.bytes())?;
            any.push(self.compared(left.clone(), Operator::Eq, member)?);
            if self.current.token != Token::Comma {
                break;
            }
            self.advance()?;
        }
        self.take(Token::Close, expected::LIST)?;
        Ok(Expression::any_of(any))
    }

    /// `(operand, operand)`: the arguments of a function.
    fn call(&mut self, function: Function) -> Result<Expression, Error> {
        self.take(Token::Open, expected::ARGUMENTS)?;
        let first = self.operand(expected::ARGUMENTS)?;
        self.take(Token::Comma, expected::ARGUMENTS)?;
        let second = self.operand(expected::ARGUMENTS)?;
        self.take(Token::Close, expected::ARGUMENTS)?;
        if matches!(self.current.token, Token::Word(word) if Operator::of_keyword(word).is_some()) {
            return predicate_compared();
        }
        let (property, text) = match function {
            Function::SubstringOf => (second, first),
            Function::StartsWith | Function::EndsWith | Function::Contains => (first, second),
        };
        Ok(match (property, text) {
            (Operand::Property(property), Operand::Literal(Literal::String(text))) => {
                function.condition(property, text)
            }
            _ => self.unsupported(Error::argument(format!(
                "A function takes a property and a text, as in {}",
                function.example()
            ))),
        })
    }

    fn function(&self, name: &str) -> Result<Function, Error> {
        match (Function::of_name(name), self.dialect) {
            (Some(function), Dialect::Extended) => Ok(function),
            (Some(_), Dialect::Service) => Err(not_implemented(format!(
                "The service's filters have no functions. {}",
                in_sql(name)
            ))),
            (None, _) => Err(not_implemented(format!(
                "The function {} is not supported",
                Error::quoted(name)
            ))),
        }
    }

    fn take(&mut self, token: Token<'_>, expected: &'static str) -> Result<(), Error> {
        if self.current.token != token {
            return self.syntax_error(self.current, expected);
        }
        self.advance().map(drop)
    }

    /// Returns whether the operand that has just been read is all of the filter.
    fn is_whole(&self) -> bool {
        self.terms.is_empty() && self.groups.is_empty() && self.current.token == Token::End
    }

    /// Notes an error of the back end, which counts if the rest of the text is well-formed.
    fn unsupported(&mut self, error: Error) -> Expression {
        self.unsupported.get_or_insert(error);
        Expression::Constant(false)
    }

    fn operand(&mut self, expected: &'static str) -> Result<Operand, Error> {
        let token = self.current;
        match token.token {
            _ if !token.is_apart => return self.syntax_error(token, expected),
            Token::Word("and" | "or" | "not" | "eq" | "ne" | "gt" | "ge" | "lt" | "le")
            | Token::Open
            | Token::Close
            | Token::Comma
            | Token::Equals
            | Token::Sign
            | Token::End
            | Token::Wrong(_) => return self.syntax_error(token, expected),
            Token::Minus => return arithmetic(),
            _ => self.advance()?,
        };
        let operand = match token.token {
            Token::Word(name) if self.current.token == Token::Open => return self.function(name).map(Operand::Call),
            Token::Word("null") => Operand::Null,
            // Programs print them in any case.
            Token::Word(word) if word.eq_ignore_ascii_case("true") => Operand::Literal(Literal::Boolean(true)),
            Token::Word(word) if word.eq_ignore_ascii_case("false") => Operand::Literal(Literal::Boolean(false)),
            Token::Word("NaN") => Operand::Literal(Literal::Double(f64::NAN)),
            Token::Word("INF") => Operand::Literal(Literal::Double(f64::INFINITY)),
            Token::NegativeInfinity => Operand::Literal(Literal::Double(f64::NEG_INFINITY)),
            Token::Word(name) => Operand::Property(Column::of_name(name)),
            Token::Parameter(name) => Operand::Literal(self.parameter(name)?),
            Token::Integer(digits, long) => Operand::Literal(self.literal(token, integer(digits, long))?),
            Token::Double(digits) => {
                let value = parse_double(digits).map(Literal::Double);
                Operand::Literal(self.literal(token, value.ok_or(EdmType::Double))?)
            }
            Token::Quoted(edm, body) => Operand::Literal(self.literal(token, quoted(edm, body).ok_or(edm))?),
            _ => return self.syntax_error(token, expected),
        };
        match (self.current.token, operand, self.fold) {
            (Token::Word("add" | "sub" | "mul" | "div" | "mod"), ..) => arithmetic(),
            (_, Operand::Literal(Literal::String(text)), Some(fold)) => {
                Ok(Operand::Literal(Literal::String(fold(&text).into())))
            }
            (_, operand, _) => Ok(operand),
        }
    }

    fn parameter(&mut self, name: &str) -> Result<Literal, Error> {
        let value = self
            .parameters
            .and_then(|parameters| parameters.get(name))
            .ok_or_else(|| {
                Error::argument(format!(
                    "The filter's @{} has no value among the parameters",
                    Error::quoted(name)
                ))
            })?;
        self.copied(match value {
            Value::String(text) => text.len(),
            Value::Binary(bytes) => bytes.len(),
            _ => 0,
        })?;
        Ok(value.into())
    }

    fn copied(&mut self, bytes: usize) -> Result<(), Error> {
        self.copied_bytes += bytes;
        if self.copied_bytes > limits::FILTER_COPIED_BYTES {
            return Err(Error::FilterBeyondLimit {
                reason: format!(
                    "The values of the filter's parameters have at most {} bytes, each counted wherever it stands. So has \
                     what stands before an in, counted for each member of the list",
                    limits::FILTER_COPIED_BYTES
                ),
            });
        }
        Ok(())
    }

    fn literal(&self, token: Spanned<'_>, literal: Result<Literal, EdmType>) -> Result<Literal, Error> {
        literal.map_err(|edm| Error::FilterLiteral {
            edm: edm.name(),
            literal: abbreviate(token.text, QUOTED_LITERAL),
            position: token.start,
            filter: abbreviate(self.text, QUOTED_TEXT),
            form: form(edm),
        })
    }
}

/// Returns the hint about the literals of a type.
fn form(edm: EdmType) -> &'static str {
    match edm {
        EdmType::DateTime => "A DateTime is a day and a time that there are, as in datetime'2026-01-31T12:00:00Z'",
        EdmType::Guid => {
            "A Guid has 32 hexadecimal digits in five groups, as in guid'a455c812-1f7a-4f5c-9c3b-0123456789ab'"
        }
        EdmType::Binary => "A Binary has two hexadecimal digits for each byte, as in X'0A1F'",
        EdmType::Double => "A Double is at most 1.7976931348623157e308",
        _ => "An Int64 is between -9223372036854775808 and 9223372036854775807",
    }
}

/// The type in an error is the one that the digits ask for.
fn integer(digits: &str, long: bool) -> Result<Literal, EdmType> {
    let int32 = if long {
        None
    } else {
        digits.parse().ok().map(Literal::Int32)
    };
    int32
        .or_else(|| digits.parse().ok().map(Literal::Int64))
        .ok_or(EdmType::Int64)
}

fn quoted(edm: EdmType, body: &str) -> Option<Literal> {
    Some(match edm {
        EdmType::DateTime => Literal::DateTime(Ticks::parse(body)?),
        EdmType::Guid => Literal::Guid(parse_guid(body)?),
        EdmType::Binary => Literal::Binary(hexadecimal(body)?),
        _ if body.contains('\'') => Literal::String(body.replace("''", "'").into()),
        _ => Literal::String(body.into()),
    })
}

fn hexadecimal(digits: &str) -> Option<Box<[u8]>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|n| u8::try_from(n).ok());
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else {
        return None;
    };
    pairs
        .iter()
        .map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?))
        .collect()
}

fn not_implemented(reason: impl Into<String>) -> Error {
    Error::NotImplemented { reason: reason.into() }
}

fn arithmetic<T>() -> Result<T, Error> {
    Err(not_implemented("Arithmetic in a filter is not supported"))
}

fn predicate_compared<T>() -> Result<T, Error> {
    Err(not_implemented("A comparison with a predicate is not supported"))
}

fn null_is_no_value(dialect: Dialect) -> Error {
    Error::argument(match dialect {
        Dialect::Service => format!(
            "No property is null: one without a value is absent, and the service cannot compare it with null. {}",
            in_sql("P eq null")
        ),
        Dialect::Extended => "null is no condition and no value: P eq null says that an entity lacks P".to_owned(),
    })
}

/// Returns the hint that names the setting of SQL for the extended dialect, and the filter that it allows.
fn in_sql(what: &str) -> String {
    format!("{IN_SQL} lets a filter say {what}")
}
