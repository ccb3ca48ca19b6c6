//! The words of filters (semantics 6.2) and of the keys in URLs: one lexer, as the service has one.

use nom::branch::alt;
use nom::bytes::complete::{tag, take_while, take_while1};
use nom::character::complete::{anychar, char, digit1, one_of, satisfy};
use nom::combinator::{map, not, opt, recognize, rest, value};
use nom::multi::many0_count;
use nom::sequence::{delimited, pair, preceded, terminated};
use nom::{IResult, Parser};

use crate::text::{abbreviate, utf16_len};
use crate::{EdmType, Error, property_name};

/// How much of a text an error message quotes, in characters.
pub(crate) const QUOTED_TEXT: usize = 4096;

/// A word or a sign.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Token<'f> {
    Open,
    Close,
    Comma,
    Equals,
    /// A sign of OData that neither filters nor keys have.
    Sign,
    /// An identifier: a keyword, a property, or a literal such as `true`.
    Word(&'f str),
    /// The name after an `@`.
    Parameter(&'f str),
    /// The text between the quotes of a literal; in a String, quotes are still doubled.
    Quoted(EdmType, &'f str),
    /// Digits with an optional sign, and whether an `L` follows.
    Integer(&'f str, bool),
    /// A number that is not an integer, without its suffix.
    Double(&'f str),
    NegativeInfinity,
    Minus,
    End,
    Wrong(Wrong),
}

/// The ways in which a text is no token. The service looks no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// A String without its closing quote.
    UnterminatedString,
    /// A literal with a prefix and without its closing quote.
    UnterminatedLiteral,
    /// A number that ends behind its point or its exponent.
    NoDigit,
    /// A character that begins nothing.
    Character,
}

/// A token and its place. Offsets count UTF-16 units, as the service's error messages do.
#[derive(Debug, Clone, Copy)]
pub struct Spanned<'f> {
    pub token: Token<'f>,
    /// Whether it is no word right after another word, as in `1'x'` and `1and`.
    pub is_apart: bool,
    pub text: &'f str,
    pub start: usize,
    pub end: usize,
}

/// Splits a text into tokens. After the last one, every further token is [`Token::End`].
pub struct Tokens<'f> {
    all: &'f str,
    rest: &'f str,
    offset: usize,
    /// Whether the last token needs no space behind it, such as a parenthesis, or there was none.
    after_sign: bool,
}

impl<'f> Tokens<'f> {
    /// Begins to read a text.
    pub fn new(text: &'f str) -> Self {
        Tokens {
            all: text,
            rest: text,
            offset: 0,
            after_sign: true,
        }
    }

    /// Returns the next token.
    ///
    /// # Errors
    /// The text that is no token, with the position in UTF-16 units at which the service sees it.
    pub fn read(&mut self) -> Result<Spanned<'f>, Error> {
        let trimmed = self.rest.trim_start();
        let space = self.take(trimmed);
        let start = self.offset;
        let (rest, token) = token(trimmed).unwrap_or((trimmed, Token::End));
        let text = self.take(rest);
        let is_sign = matches!(token, Token::Open | Token::Close | Token::Comma | Token::Equals);
        let is_apart = is_sign || self.after_sign || !space.is_empty() || token == Token::End;
        self.after_sign = is_sign;
        match token {
            Token::Wrong(wrong) => Err(self.error(wrong, text, start)),
            token => Ok(Spanned {
                token,
                is_apart,
                text,
                start,
                end: self.offset,
            }),
        }
    }

    fn error(&self, wrong: Wrong, found: &str, start: usize) -> Error {
        let text = abbreviate(self.all, QUOTED_TEXT);
        match wrong {
            Wrong::UnterminatedString => Error::StringUnterminated {
                position: self.offset,
                text,
            },
            Wrong::UnterminatedLiteral => Error::LiteralUnterminated {
                position: self.offset,
                text,
            },
            Wrong::NoDigit => Error::DigitExpected {
                position: self.offset,
                text,
            },
            Wrong::Character => Error::CharacterInvalid {
                character: found.chars().next().unwrap_or_default(),
                position: start,
                text,
                reason: match found {
                    "\"" | "`" | "\u{2018}" | "\u{2019}" => "A text stands in single quotes, as in 'x'",
                    "<" | ">" | "!" => "A property is compared with one of the operators eq, ne, gt, ge, lt, le",
                    "&" | "|" => "Conditions are joined by and, or or not",
                    "@" => "A parameter is @ and a name, such as @age",
                    "%" => "The text seems to be percent-encoded twice, or not to be decoded",
                    _ => {
                        "Outside of quotes there are names, numbers and spaces. A quote within quotes is written twice"
                    }
                },
            },
        }
    }

    /// Moves on to `rest`, which is an end of the remaining text, and returns the text before it.
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
    let sign = |token| value(token, anychar);
    let wrong = || value(Token::Wrong(Wrong::Character), anychar);
    let word = map(identifier, Token::Word);
    // The first character leaves few tokens to try.
    match input.as_bytes().first() {
        Some(b'(') => sign(Token::Open).parse(input),
        Some(b')') => sign(Token::Close).parse(input),
        Some(b',') => sign(Token::Comma).parse(input),
        Some(b'=') => sign(Token::Equals).parse(input),
        Some(b'/' | b'?' | b'.' | b'*' | b':') => sign(Token::Sign).parse(input),
        Some(b'@') => alt((map(preceded(anychar, identifier), Token::Parameter), wrong())).parse(input),
        Some(b'-' | b'0'..=b'9') => alt((number, sign(Token::Minus))).parse(input),
        // Without a closing quote, the literal goes to the end of the text.
        Some(b'\'') => alt((quoted_literal, value(Token::Wrong(Wrong::UnterminatedString), rest))).parse(input),
        Some(b'b' | b'd' | b'g' | b'X' | b'x') => alt((quoted_literal, unterminated_literal, word)).parse(input),
        _ => alt((word, wrong())).parse(input),
    }
}

fn identifier(input: &str) -> IResult<&str, &str> {
    recognize(pair(
        satisfy(property_name::is_start),
        take_while(property_name::is_part),
    ))
    .parse(input)
}

/// The prefix of a literal names its type. It is right before the quote.
fn prefix(input: &str) -> IResult<&str, EdmType> {
    alt((
        value(EdmType::DateTime, tag("datetime")),
        value(EdmType::Guid, tag("guid")),
        value(EdmType::Binary, alt((tag("binary"), tag("X"), tag("x")))),
    ))
    .parse(input)
}

fn unterminated_literal(input: &str) -> IResult<&str, Token<'_>> {
    let wrong = Token::Wrong(Wrong::UnterminatedLiteral);
    value(wrong, (prefix, char('\''), rest)).parse(input)
}

fn quoted_literal(input: &str) -> IResult<&str, Token<'_>> {
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
    // The service asks for a digit behind a point and in an exponent.
    let no_digit = alt((
        recognize((sign(), digit1, char('.'), not(digit1))),
        recognize((
            sign(),
            digit1,
            opt(fraction()),
            one_of("eE"),
            opt(one_of("+-")),
            not(digit1),
        )),
    ));
    alt((
        value(
            Token::NegativeInfinity,
            terminated(tag("-INF"), not(satisfy(property_name::is_part))),
        ),
        value(Token::Wrong(Wrong::NoDigit), no_digit),
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
