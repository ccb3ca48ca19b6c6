//! The words of a filter (semantics 6.2).

use nom::branch::alt;
use nom::bytes::complete::{tag, take_while, take_while1};
use nom::character::complete::{anychar, char, digit1, one_of, satisfy};
use nom::combinator::{map, not, opt, recognize, rest, value};
use nom::multi::many0_count;
use nom::sequence::{delimited, pair, preceded, terminated};
use nom::{IResult, Parser};

use crate::edm::EdmType;
use crate::property_name;
use crate::text::utf16_len;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Token<'f> {
    Open,
    Close,
    /// An identifier: a keyword, a property, or a literal such as `true`.
    Word(&'f str),
    /// The name after an `@`.
    Parameter(&'f str),
    /// What stands between the quotes of a literal; in a String, quotes are still doubled.
    Quoted(EdmType, &'f str),
    /// Digits with an optional sign, and whether an `L` follows.
    Integer(&'f str, bool),
    /// A number that is not an integer, without its suffix.
    Double(&'f str),
    NegativeInfinity,
    Minus,
    End,
    /// A literal without its closing quote.
    Unclosed,
    /// A word right after another word.
    Joined,
    /// Nothing that a filter can hold here.
    Unexpected,
}

/// A token where it stands. Offsets count UTF-16 units, as the service's error messages do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spanned<'f> {
    pub token: Token<'f>,
    pub text: &'f str,
    pub start: usize,
    pub end: usize,
}

/// Splits a filter into tokens. After the last one, every further token is [`Token::End`].
pub(super) struct Tokens<'f> {
    rest: &'f str,
    offset: usize,
    /// Whether the last token was a parenthesis, or there was none.
    after_parenthesis: bool,
}

impl<'f> Tokens<'f> {
    pub fn new(text: &'f str) -> Self {
        Tokens {
            rest: text,
            offset: 0,
            after_parenthesis: true,
        }
    }

    pub fn next(&mut self) -> Spanned<'f> {
        let trimmed = self.rest.trim_start();
        let space = self.take(trimmed);
        let start = self.offset;
        let (rest, token) = token(trimmed).unwrap_or((trimmed, Token::End));
        let text = self.take(rest);
        let parenthesis = matches!(token, Token::Open | Token::Close);
        let apart = parenthesis || self.after_parenthesis || !space.is_empty() || token == Token::End;
        self.after_parenthesis = parenthesis;
        Spanned {
            // A word right after another word is out of place: `1'x'`, `eq'x'`, `1and`.
            token: if apart { token } else { Token::Joined },
            text,
            start,
            end: self.offset,
        }
    }

    /// Moves on to `rest`, which is an end of what is left, and gives what lies between.
    fn take(&mut self, rest: &'f str) -> &'f str {
        let taken = self
            .rest
            .len()
            .checked_sub(rest.len())
            .and_then(|length| self.rest.get(..length))
            .unwrap_or_default();
        self.offset += utf16_len(taken.as_bytes());
        self.rest = rest;
        taken
    }
}

/// Returns the token at the very start of `input`; an error only where there is none.
fn token(input: &str) -> IResult<&str, Token<'_>> {
    let word = map(identifier, Token::Word);
    let unexpected = value(Token::Unexpected, anychar);
    // The first character leaves few tokens to try.
    match input.as_bytes().first() {
        Some(b'(') => value(Token::Open, anychar).parse(input),
        Some(b')') => value(Token::Close, anychar).parse(input),
        Some(b'@') => alt((map(preceded(anychar, identifier), Token::Parameter), unexpected)).parse(input),
        Some(b'-' | b'0'..=b'9') => alt((number, value(Token::Minus, anychar))).parse(input),
        // Without a closing quote, the literal goes to the end of the text.
        Some(b'\'') => alt((quoted_literal, value(Token::Unclosed, rest))).parse(input),
        Some(b'b' | b'd' | b'g' | b'X' | b'x') => alt((quoted_literal, word)).parse(input),
        _ => alt((word, unexpected)).parse(input),
    }
}

fn identifier(input: &str) -> IResult<&str, &str> {
    recognize(pair(
        satisfy(property_name::is_start),
        take_while(property_name::is_part),
    ))
    .parse(input)
}

/// The prefix says the type; it stands right before the quote.
fn quoted_literal(input: &str) -> IResult<&str, Token<'_>> {
    let prefix = alt((
        value(EdmType::DateTime, tag("datetime")),
        value(EdmType::Guid, tag("guid")),
        value(EdmType::Binary, alt((tag("binary"), tag("X"), tag("x")))),
    ));
    map((opt(prefix), quoted), |(edm, body)| {
        Token::Quoted(edm.unwrap_or(EdmType::String), body)
    })
    .parse(input)
}

fn quoted(input: &str) -> IResult<&str, &str> {
    let body = recognize(many0_count(alt((take_while1(|c| c != '\''), tag("''")))));
    delimited(char('\''), body, char('\'')).parse(input)
}

fn number(input: &str) -> IResult<&str, Token<'_>> {
    let fraction = || recognize(pair(char('.'), digit1));
    let exponent = || recognize((one_of("eE"), opt(one_of("+-")), digit1));
    let sign = || opt(char('-'));
    let double_suffix = || one_of("dDfFmM");
    alt((
        value(
            Token::NegativeInfinity,
            terminated(tag("-INF"), not(satisfy(property_name::is_part))),
        ),
        map(
            terminated(
                alt((
                    recognize((sign(), digit1, fraction(), opt(exponent()))),
                    recognize((sign(), digit1, exponent())),
                )),
                opt(double_suffix()),
            ),
            Token::Double,
        ),
        map(terminated(recognize((sign(), digit1)), double_suffix()), Token::Double),
        map(
            pair(recognize((sign(), digit1)), opt(one_of("lL"))),
            |(digits, suffix)| Token::Integer(digits, suffix.is_some()),
        ),
    ))
    .parse(input)
}
