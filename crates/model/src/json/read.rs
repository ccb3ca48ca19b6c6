//! Reads bags and entities from JSON, in one pass. It keeps the text of numbers, finds duplicates, and keeps nothing of
//! nested values.

use std::borrow::Cow;

use super::reader::{Kind, Reader};
use super::write::{Metadata, append_members};
use crate::edm::{parse_binary, parse_boolean, parse_double, parse_guid};
use crate::key::{PARTITION_KEY, ROW_KEY, TIMESTAMP, is_system_property};
use crate::ticks::ParseError;
use crate::{EdmType, Entity, Error, Projection, PropertiesBuf, PropertiesBuilder, Ticks, Value, limits};

const ANNOTATION: &str = "@odata.type";

/// Longest text of a value that can be stored, in bytes: 32 Ki units of three bytes each. 64 KiB of Binary have less as
/// Base64.
const LONGEST_TEXT: usize = 3 * limits::STRING_UTF16_UNITS;

/// An entity read from JSON.
#[derive(Debug)]
pub struct ParsedEntity {
    pub partition_key: String,
    pub row_key: String,
    /// The Timestamp that the payload gave.
    pub timestamp: Option<Ticks>,
    pub properties: PropertiesBuf,
}

impl ParsedEntity {
    /// Returns the entity.
    pub fn as_entity(&self) -> Entity<'_> {
        Entity {
            partition_key: Some(&self.partition_key),
            row_key: Some(&self.row_key),
            timestamp: self.timestamp,
            properties: self.properties.as_properties(),
        }
    }

    /// Returns a JSON object with the types of the values, from which the entity can be read back.
    pub fn to_json(&self) -> String {
        let mut out = vec![b'{'];
        append_members(&mut out, &self.as_entity(), &Projection::All, Metadata::Minimal);
        out.push(b'}');
        String::from_utf8(out).unwrap_or_default()
    }
}

/// Reads a bag from a JSON object in payload form. Members named `PartitionKey`, `RowKey`, `Timestamp` and `odata.*`
/// are ignored, as the service ignores them in a body whose URL names the keys; so are members that are `null`.
///
/// # Errors
/// `InvalidInput` for text that is not a JSON object, for nested values, and for a value that does not fit its
/// annotation; otherwise those of [`PropertiesBuilder`].
pub fn parse_properties(json: &str) -> Result<PropertiesBuf, Error> {
    whole(json)?.properties()
}

/// Reads an entity from a JSON object in payload form. Both keys are required; a Timestamp is kept.
///
/// # Errors
/// `PropertiesNeedValue` for a missing key, `InvalidInput` for a key that is not a string; otherwise those of
/// [`parse_properties`].
pub fn parse_entity(json: &str) -> Result<ParsedEntity, Error> {
    let members = whole(json)?;
    let timestamp = members.timestamp()?;
    entity(members, timestamp)
}

/// Reads an entity to insert, as [`parse_entity`] does, but ignores its Timestamp. Clients send the one of their object,
/// which for a new entity may be out of the range of Edm.DateTime.
///
/// # Errors
/// As [`parse_entity`].
pub fn parse_new_entity(json: &str) -> Result<ParsedEntity, Error> {
    entity(whole(json)?, None)
}

/// Reads the bag that comes next, as [`parse_properties`] does.
pub(crate) fn read_properties(reader: &mut Reader<'_>) -> Result<PropertiesBuf, Error> {
    Members::read(reader)?.properties()
}

fn whole(json: &str) -> Result<Members<'_>, Error> {
    let mut reader = Reader::new(json);
    let members = Members::read(&mut reader)?;
    reader.finish()?;
    Ok(members)
}

fn entity(members: Members<'_>, timestamp: Option<Ticks>) -> Result<ParsedEntity, Error> {
    Ok(ParsedEntity {
        partition_key: members.key(PARTITION_KEY)?,
        row_key: members.key(ROW_KEY)?,
        timestamp,
        properties: members.properties()?,
    })
}

/// The entity of one operation in a batch.
pub(crate) struct OperationEntity {
    /// The PartitionKey, if the payload repeats it.
    pub(crate) partition_key: Option<String>,
    pub(crate) row_key: String,
    pub(crate) properties: PropertiesBuf,
}

/// Reads the entity that comes next. With `keys_only` its properties do not matter and are not looked at.
///
/// # Errors
/// As [`parse_entity`], but the PartitionKey may be missing.
pub(crate) fn operation_entity(reader: &mut Reader<'_>, keys_only: bool) -> Result<OperationEntity, Error> {
    let members = if keys_only {
        Members::read_keys(reader)?
    } else {
        Members::read(reader)?
    };
    let partition_key = match members.key(PARTITION_KEY) {
        Ok(key) => Some(key),
        Err(Error::KeyMissing { .. }) => None,
        Err(error) => return Err(error),
    };
    Ok(OperationEntity {
        partition_key,
        row_key: members.key(ROW_KEY)?,
        properties: if keys_only {
            PropertiesBuf::empty()
        } else {
            members.properties()?
        },
    })
}

/// The members of one object, in the order of the text. Values get their type when all annotations are known.
struct Members<'j>(Vec<Member<'j>>);

struct Member<'j> {
    name: Cow<'j, str>,
    annotation: Option<Annotation>,
    token: Option<Token<'j>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Annotation {
    Known(EdmType),
    Unknown,
}

enum Token<'j> {
    Null,
    Boolean(bool),
    Number(&'j str),
    String(Cow<'j, str>),
    /// A string longer than any value's text.
    LongString,
    Nested,
}

impl<'j> Members<'j> {
    /// Reads the object that comes next.
    fn read(reader: &mut Reader<'j>) -> Result<Members<'j>, Error> {
        if reader.peek()? != Kind::Object {
            return Err(Error::MalformedJson {
                reason: "The properties of an entity are a JSON object".to_owned(),
            });
        }
        let mut members = Members(Vec::with_capacity(16));
        let mut next = reader.first_member()?;
        while let Some(name) = next {
            members.member(name, reader)?;
            next = reader.next_member()?;
        }
        members.join_annotations();
        Ok(members)
    }

    /// Reads the keys of the object that comes next and passes over everything else.
    fn read_keys(reader: &mut Reader<'j>) -> Result<Members<'j>, Error> {
        let mut members = Members(Vec::new());
        let mut next = reader.first_member()?;
        while let Some(name) = next {
            if matches!(&*name, PARTITION_KEY | ROW_KEY) {
                members.member(name, reader)?;
            } else {
                reader.skip()?;
            }
            next = reader.next_member()?;
        }
        Ok(members)
    }

    fn member(&mut self, name: Cow<'j, str>, reader: &mut Reader<'j>) -> Result<(), Error> {
        if self.0.len() == limits::JSON_MEMBERS {
            return Err(Error::TooManyProperties);
        }
        if name.starts_with("odata.") {
            return reader.skip();
        }
        if let Some((property, annotation)) = split_annotation(&name) {
            // Of the annotations, `X@odata.type` has a meaning for the service; others, as
            // `X@odata.type@odata.type`, are ignored.
            if !annotation.starts_with("odata.") {
                return Err(Error::PropertyNameInvalid {
                    name: Error::quoted(&name),
                });
            }
            if name.get(property.len()..) != Some(ANNOTATION) {
                return reader.skip();
            }
            let annotation = match reader.peek()? {
                Kind::String => EdmType::from_name(&reader.string()?).map_or(Annotation::Unknown, Annotation::Known),
                _ => {
                    reader.skip()?;
                    Annotation::Unknown
                }
            };
            let length = property.len();
            self.0.push(Member {
                name: match name {
                    Cow::Borrowed(name) => Cow::Borrowed(name.get(..length).unwrap_or_default()),
                    Cow::Owned(mut name) => {
                        name.truncate(length);
                        Cow::Owned(name)
                    }
                },
                annotation: Some(annotation),
                token: None,
            });
            return Ok(());
        }
        let token = match reader.peek()? {
            Kind::Null => {
                reader.skip()?;
                Token::Null
            }
            Kind::Boolean(value) => {
                reader.skip()?;
                Token::Boolean(value)
            }
            Kind::Number => Token::Number(reader.number()?),
            Kind::String => match reader.string()? {
                text if text.len() > LONGEST_TEXT => Token::LongString,
                text => Token::String(text),
            },
            Kind::Array | Kind::Object if is_system_property(&name) => {
                reader.skip()?;
                Token::Nested
            }
            // The contents of a nested value do not matter: it is refused.
            Kind::Array | Kind::Object => return Err(nested(&name)),
        };
        // Writers put an annotation immediately before its value.
        match self.0.last_mut() {
            Some(last) if last.token.is_none() && last.name == name => last.token = Some(token),
            _ => self.0.push(Member {
                name,
                annotation: None,
                token: Some(token),
            }),
        }
        Ok(())
    }

    /// Brings annotations from other places to their values.
    fn join_annotations(&mut self) {
        if self.0.iter().all(|member| member.token.is_some()) {
            return;
        }
        // A stable sort: of two annotations for one value the first counts.
        self.0.sort_by(|a, b| a.name.cmp(&b.name));
        for group in self.0.chunk_by_mut(|a, b| a.name == b.name) {
            let annotation = group.iter().find_map(|member| member.annotation);
            for member in group {
                member.annotation = annotation;
            }
        }
        self.0.retain(|member| member.token.is_some());
    }

    fn find(&self, name: &str) -> Result<Option<&Member<'j>>, Error> {
        let mut named = self.0.iter().filter(|member| member.name == name);
        let first = named.next();
        if named.next().is_some() {
            return Err(Error::DuplicateProperty { name: name.to_owned() });
        }
        Ok(first)
    }

    fn key(&self, name: &'static str) -> Result<String, Error> {
        let no_string = || Err(Error::unreadable(format!("{name} must be a string")));
        match self.find(name)? {
            None => Err(Error::KeyMissing { key: name }),
            Some(member) => match (&member.token, member.annotation) {
                (None | Some(Token::Null), _) => Err(Error::KeyMissing { key: name }),
                (_, Some(annotation)) if annotation != Annotation::Known(EdmType::String) => no_string(),
                (Some(Token::String(key)), _) => Ok(key.clone().into_owned()),
                (Some(Token::LongString), _) => Err(Error::KeyTooLong),
                _ => no_string(),
            },
        }
    }

    fn timestamp(&self) -> Result<Option<Ticks>, Error> {
        match self.find(TIMESTAMP)?.and_then(|member| member.token.as_ref()) {
            None | Some(Token::Null) => Ok(None),
            Some(Token::String(text)) => datetime(TIMESTAMP, text).map(Some),
            Some(_) => Err(mismatch(TIMESTAMP, EdmType::DateTime)),
        }
    }

    /// Returns the bag of all members that are user properties.
    fn properties(self) -> Result<PropertiesBuf, Error> {
        let mut builder = PropertiesBuilder::with_capacity(self.0.len());
        for member in self.0 {
            let Some(token) = member.token else { continue };
            if is_system_property(&member.name) {
                continue;
            }
            push(&mut builder, member.name, member.annotation, token)?;
        }
        builder.finish()
    }
}

/// Returns the parts before and behind the first `@`. `split_once` is made for long texts and takes four times as long for
/// a name.
fn split_annotation(name: &str) -> Option<(&str, &str)> {
    let at = name.bytes().position(|byte| byte == b'@')?;
    Some((name.get(..at)?, name.get(at + 1..)?))
}

/// Gives a value its type: that of its annotation, or the one that JSON suggests (semantics 1.6).
fn push<'j>(
    builder: &mut PropertiesBuilder<'j>,
    name: Cow<'j, str>,
    annotation: Option<Annotation>,
    token: Token<'j>,
) -> Result<(), Error> {
    let annotation = match annotation {
        _ if matches!(token, Token::Null) => return builder.absent(name),
        None => None,
        Some(Annotation::Known(edm)) => Some(edm),
        Some(Annotation::Unknown) => {
            return Err(Error::unreadable(format!(
                "The annotation of \"{}\" names no type of the Table service",
                Error::quoted(&name)
            )));
        }
    };
    let typed = |edm: EdmType, value: Option<Value<'static>>| value.ok_or_else(|| mismatch(&name, edm));
    let value = match (annotation, &token) {
        (None | Some(EdmType::String), Token::String(text)) => Value::String(text),
        (None | Some(EdmType::Boolean), &Token::Boolean(value)) => Value::Boolean(value),
        (None, Token::Number(text)) => number(text).ok_or_else(|| {
            Error::unreadable(format!(
                "The number of \"{}\" fits neither Edm.Int64 nor Edm.Double exactly",
                Error::quoted(&name)
            ))
        })?,
        (Some(EdmType::Int32), Token::Number(text)) => typed(EdmType::Int32, text.parse().ok().map(Value::Int32))?,
        (Some(EdmType::Int32), Token::String(text)) => typed(EdmType::Int32, integer(text).map(Value::Int32))?,
        (Some(EdmType::Int64), Token::Number(text)) => typed(EdmType::Int64, text.parse().ok().map(Value::Int64))?,
        (Some(EdmType::Int64), Token::String(text)) => typed(EdmType::Int64, integer(text).map(Value::Int64))?,
        (Some(EdmType::Double), Token::Number(text)) => typed(EdmType::Double, parse_double(text).map(Value::Double))?,
        (Some(EdmType::Double), Token::String(text)) => typed(EdmType::Double, parse_double(text).map(Value::Double))?,
        (Some(EdmType::Boolean), Token::String(text)) => {
            typed(EdmType::Boolean, parse_boolean(text).map(Value::Boolean))?
        }
        (Some(EdmType::DateTime), Token::String(text)) => Value::DateTime(datetime(&name, text)?),
        (Some(EdmType::Guid), Token::String(text)) => typed(EdmType::Guid, parse_guid(text).map(Value::Guid))?,
        (Some(EdmType::Binary), Token::String(text)) => {
            let bytes = parse_binary(text).ok_or_else(|| mismatch(&name, EdmType::Binary))?;
            return builder.push(name, Value::Binary(&bytes));
        }
        (None | Some(EdmType::String | EdmType::Binary), Token::LongString) => {
            return Err(Error::PropertyValueTooLarge {
                name: Error::quoted(&name),
            });
        }
        (Some(edm), _) => return Err(mismatch(&name, edm)),
        (None, Token::Null | Token::Nested) => return Err(nested(&name)),
    };
    builder.push(name, value)
}

/// Returns the value of a number without annotation, by its text: with a fraction or an exponent a Double, else the narrowest
/// integer, else a Double if that is exact.
fn number(text: &str) -> Option<Value<'static>> {
    if text.contains(['.', 'e', 'E']) {
        return parse_double(text).map(Value::Double);
    }
    if let Ok(n) = text.parse::<i64>() {
        return Some(i32::try_from(n).map_or(Value::Int64(n), Value::Int32));
    }
    let n = parse_double(text)?;
    (format!("{n:.0}") == text).then_some(Value::Double(n))
}

/// Returns the digits of an integer in a string. Rust would also read a plus sign.
fn integer<T: std::str::FromStr>(text: &str) -> Option<T> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

fn datetime(name: &str, text: &str) -> Result<Ticks, Error> {
    Ticks::parse_datetime(text).map_err(|error| match error {
        ParseError::Syntax => mismatch(name, EdmType::DateTime),
        ParseError::OutOfRange(quoted) => Error::out_of_range(name, &quoted),
    })
}

fn mismatch(name: &str, edm: EdmType) -> Error {
    Error::unreadable(format!("The value of \"{}\" is no {}", Error::quoted(name), edm.name()))
}

fn nested(name: &str) -> Error {
    let name = Error::quoted(name);
    Error::unreadable(format!(
        "\"{name}\" is an object or an array, which no Edm type holds. Store it as a JSON string and read it with (properties ->> '{name}')::jsonb"
    ))
}
