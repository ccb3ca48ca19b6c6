//! The resource of a path (semantics 3.1), without the account.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use table_service_model::lexer::{Token, Tokens};
use table_service_model::{EdmType, Error, RequestError, key};

/// A resource of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// The account itself: service properties and stats.
    Service,
    /// `/Tables`
    Tables,
    /// `/Tables('name')`
    Table(String),
    /// `/name` or `/name()`
    Entities(String),
    /// `/name(PartitionKey='p',RowKey='r')`
    Entity(EntityAddress),
    /// `/$batch`
    Batch,
    /// `/name/Tables`, `/name/Tables('name')` and `/name/$batch`: by mistake, the client's endpoint ends with the name of a table.
    Misplaced { table: String, resource: Misplaced },
}

/// The mistake behind the name of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misplaced {
    Tables,
    Table,
    Batch,
}

/// The table and the keys of an entity in a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityAddress {
    pub table: String,
    pub partition_key: String,
    pub row_key: String,
}

impl Resource {
    /// Reads a path from a URL as it is. Empty segments do not count.
    ///
    /// # Errors
    /// `InvalidInput` if the keys do not parse or do not belong to the resource, `InvalidUri` if there is no such resource.
    pub fn parse(path: &str) -> Result<Resource, Error> {
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let path = segments.next().unwrap_or_default();
        if let Some(second) = segments.next() {
            return Resource::parse_misplaced(path, second, segments.next());
        }
        if !escapes_are_whole(path) {
            return Err(RequestError::UrlSyntax.into());
        }
        let path = percent_decode_str(path)
            .decode_utf8()
            .map_err(|_| RequestError::UrlSyntax)?;
        if path.is_empty() {
            return Ok(Resource::Service);
        }
        if path.eq_ignore_ascii_case("$batch") {
            return Ok(Resource::Batch);
        }
        let (name, keys) = match path.split_once('(') {
            None => (&*path, Vec::new()),
            Some((name, keys)) => (name, parse_keys(keys)?),
        };
        if name.is_empty() {
            return Err(RequestError::UriInvalid.into());
        }
        if name.eq_ignore_ascii_case("tables") {
            return match keys.as_slice() {
                [] => Ok(Resource::Tables),
                [(None | Some("TableName"), table)] => Ok(Resource::Table(table.to_string())),
                _ => Err(RequestError::UrlKeyCount.into()),
            };
        }
        let table = name.to_owned();
        let (partition_key, row_key) = match keys.as_slice() {
            [] => return Ok(Resource::Entities(table)),
            [(Some("PartitionKey"), partition_key), (Some("RowKey"), row_key)]
            | [(Some("RowKey"), row_key), (Some("PartitionKey"), partition_key)] => (partition_key, row_key),
            [_, _] => return Err(RequestError::UrlSyntax.into()),
            _ => return Err(RequestError::UrlKeyCount.into()),
        };
        Ok(Resource::Entity(EntityAddress {
            table,
            partition_key: partition_key.to_string(),
            row_key: row_key.to_string(),
        }))
    }

    /// Reads a path of several segments, which no resource has.
    fn parse_misplaced(first: &str, second: &str, third: Option<&str>) -> Result<Resource, Error> {
        // In a key a slash must be percent-encoded.
        if first.contains('\'') {
            return Err(RequestError::UrlSyntax.into());
        }
        let resource = match second {
            _ if third.is_some() => return Err(RequestError::UriInvalid.into()),
            "$batch" => Misplaced::Batch,
            "Tables" => Misplaced::Tables,
            table if table.starts_with("Tables(") => Misplaced::Table,
            keys if keys.contains('(') => return Err(RequestError::UrlKeyCount.into()),
            _ => return Err(RequestError::UriInvalid.into()),
        };
        match Resource::parse(first)? {
            Resource::Entities(table) => Ok(Resource::Misplaced { table, resource }),
            _ => Err(RequestError::UriInvalid.into()),
        }
    }

    /// Returns the table that the resource is or belongs to.
    pub fn table(&self) -> Option<&str> {
        match self {
            Resource::Table(table) | Resource::Entities(table) | Resource::Misplaced { table, .. } => Some(table),
            Resource::Entity(address) => Some(&address.table),
            Resource::Service | Resource::Tables | Resource::Batch => None,
        }
    }
}

impl EntityAddress {
    /// Returns the table, the PartitionKey and the RowKey.
    pub fn parts(&self) -> [&str; 3] {
        [&self.table, &self.partition_key, &self.row_key]
    }

    /// Refuses keys that no entity can have, for an operation that writes (semantics 1.3).
    ///
    /// # Errors
    /// `InvalidInput` for `/` and `\`, `OutOfRangeInput` for the rest.
    pub fn check_for_write(&self) -> Result<(), Error> {
        self.check_separators()?;
        key::check_characters_of_both(&self.partition_key, &self.row_key)
            .map_err(|_| RequestError::UrlKeyOutOfRange.into())
    }

    /// Refuses keys that no entity can have, for an operation that reads.
    ///
    /// # Errors
    /// `InvalidInput` for `/`, `\` and control characters, `ResourceNotFound` for the rest.
    pub fn check_for_read(&self) -> Result<(), Error> {
        self.check_separators()?;
        let refused = |c: char| {
            matches!(
                c,
                '\0'..='\x1F' | '\x7F' | '\u{81}' | '\u{8D}' | '\u{8F}' | '\u{90}' | '\u{9D}'
            )
        };
        if self.keys().any(|key| key.contains(refused)) {
            return Err(RequestError::UrlSyntax.into());
        }
        key::check_characters_of_both(&self.partition_key, &self.row_key).map_err(|_| Error::EntityNotFound)
    }

    fn check_separators(&self) -> Result<(), RequestError> {
        if self.keys().any(|key| key.contains(['/', '\\'])) {
            return Err(RequestError::UrlSyntax);
        }
        Ok(())
    }

    fn keys(&self) -> impl Iterator<Item = &str> {
        [self.partition_key.as_str(), &self.row_key].into_iter()
    }
}

/// Returns whether two hexadecimal digits follow every `%`. If not, the client forgot to encode a key, and the path
/// would name another entity.
fn escapes_are_whole(path: &str) -> bool {
    path.split('%').skip(1).all(|rest| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

type KeyLiterals<'a> = Vec<(Option<&'a str>, Cow<'a, str>)>;

/// Parses the keys behind a `(`, with their names: `'literal')` or `Name='literal',Name='literal')`. In a literal, quotes
/// are doubled.
fn parse_keys(text: &str) -> Result<KeyLiterals<'_>, Error> {
    let text = text.trim_end().strip_suffix(')').ok_or(RequestError::UrlSyntax)?;
    let mut tokens = Tokens::new(text);
    let mut keys = Vec::new();
    // The text is read to its end before it is judged, as the service does, because an error of a token comes first.
    let mut is_list = true;
    let mut next = tokens.read()?.token;
    while next != Token::End {
        let (name, value) = match next {
            Token::Word(name) => match (tokens.read()?.token, tokens.read()?.token) {
                (Token::Equals, Token::Quoted(EdmType::String, value)) => (Some(name), value),
                _ => return Err(RequestError::UrlSyntax.into()),
            },
            Token::Quoted(EdmType::String, value) => (None, value),
            _ => return Err(RequestError::UrlSyntax.into()),
        };
        keys.push((name, unquoted(value)));
        next = tokens.read()?.token;
        if next == Token::Comma {
            next = tokens.read()?.token;
            is_list &= next != Token::End;
        } else {
            is_list &= next == Token::End;
        }
    }
    if is_list {
        Ok(keys)
    } else {
        Err(RequestError::UrlSyntax.into())
    }
}

/// Returns the text between the quotes of a literal, where a quote is written twice.
fn unquoted(literal: &str) -> Cow<'_, str> {
    if literal.contains('\'') {
        Cow::Owned(literal.replace("''", "'"))
    } else {
        Cow::Borrowed(literal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(path: &str) -> (String, String) {
        match Resource::parse(path).unwrap() {
            Resource::Entity(address) => (address.partition_key, address.row_key),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn every_resource_has_its_path() {
        for (path, resource) in [
            ("", Resource::Service),
            ("Tables", Resource::Tables),
            ("Tables()", Resource::Tables),
            ("Tables('Abc')", Resource::Table("Abc".into())),
            ("Tables%28%27Abc%27%29", Resource::Table("Abc".into())),
            ("Tables(TableName='Abc')", Resource::Table("Abc".into())),
            ("$batch", Resource::Batch),
            ("%24batch", Resource::Batch),
            ("Abc", Resource::Entities("Abc".into())),
            ("Abc()", Resource::Entities("Abc".into())),
            ("/", Resource::Service),
            ("//Tables/", Resource::Tables),
            ("$batch/", Resource::Batch),
            (
                "Abc/Tables",
                Resource::Misplaced {
                    table: "Abc".into(),
                    resource: Misplaced::Tables,
                },
            ),
            (
                "Abc//$batch/",
                Resource::Misplaced {
                    table: "Abc".into(),
                    resource: Misplaced::Batch,
                },
            ),
        ] {
            assert_eq!(Resource::parse(path).as_ref(), Ok(&resource), "{path}");
        }
    }

    #[test]
    fn keys_are_decoded_first_and_unquoted_then() {
        for (path, partition_key, row_key) in [
            ("t(PartitionKey='p',RowKey='r')", "p", "r"),
            ("t(RowKey='r',PartitionKey='p')", "p", "r"),
            ("t(PartitionKey='',RowKey='')", "", ""),
            ("t(PartitionKey='O''Brien',RowKey='''')", "O'Brien", "'"),
            ("t(PartitionKey='O%27%27Brien',RowKey=%27r%27)", "O'Brien", "r"),
            ("t(PartitionKey='a,b)c=d',RowKey='(')", "a,b)c=d", "("),
            ("t(PartitionKey='a+b%2Bc',RowKey='100%25')", "a+b+c", "100%"),
            ("t(PartitionKey=%27%F0%9F%98%80%27,RowKey='%C3%A9')", "😀", "é"),
            ("t(%20PartitionKey%20=%20'p'%20,%20RowKey='r'%20)", "p", "r"),
        ] {
            assert_eq!(keys(path), (partition_key.to_owned(), row_key.to_owned()), "{path}");
        }
    }

    #[test]
    fn broken_paths_have_the_services_errors() {
        for (path, error) in [
            ("t(PartitionKey='p'", RequestError::UrlSyntax),
            ("t(PartitionKey='p',RowKey='r'", RequestError::UrlSyntax),
            ("t(PartitionKey='p'RowKey='r')", RequestError::UrlSyntax),
            ("t(PartitionKey='p',RowKey='r',)", RequestError::UrlSyntax),
            ("t(PartitionKey='O'Brien',RowKey='r')", RequestError::UrlSyntax),
            ("t(PartitionKey=1,RowKey=-2)", RequestError::UrlSyntax),
            ("t(,)", RequestError::UrlSyntax),
            ("t(PartitionKey=p,RowKey=r)", RequestError::UrlSyntax),
            ("t(PartitionKey='p',RowKey='r')x", RequestError::UrlSyntax),
            ("t(Partition='p',Row='r')", RequestError::UrlSyntax),
            ("t(PartitionKey='p',PartitionKey='r')", RequestError::UrlSyntax),
            ("t(PartitionKey='a/b',RowKey='r')", RequestError::UrlSyntax),
            ("t('p')", RequestError::UrlKeyCount),
            ("t(PartitionKey='p')", RequestError::UrlKeyCount),
            ("t(a='1',b='2',c='3')", RequestError::UrlKeyCount),
            ("t/Others('x')", RequestError::UrlKeyCount),
            ("Tables('a','b')", RequestError::UrlKeyCount),
            ("t(PartitionKey='%FF',RowKey='r')", RequestError::UrlSyntax),
            ("t(PartitionKey='100%',RowKey='r')", RequestError::UrlSyntax),
            ("t(PartitionKey='%zz',RowKey='r')", RequestError::UrlSyntax),
            ("t%", RequestError::UrlSyntax),
            ("a/b", RequestError::UriInvalid),
            ("a/Tables/b", RequestError::UriInvalid),
            ("Tables/Tables", RequestError::UriInvalid),
            ("()", RequestError::UriInvalid),
        ] {
            assert_eq!(Resource::parse(path), Err(error.into()), "{path}");
        }
    }

    #[test]
    fn a_malformed_key_has_the_services_message_and_position() {
        for (path, message) in [
            (
                "t(PartitionKey='p',RowKey='r)",
                "There is an unterminated string literal at position 26 in 'PartitionKey='p',RowKey='r'.",
            ),
            (
                "t(PartitionKey='p',RowKey='O'Brien')",
                "There is an unterminated string literal at position 33 in 'PartitionKey='p',RowKey='O'Brien''.",
            ),
            // This one was recorded.
            (
                "t(PartitionKey='%22A'aaa%22_bbbb3',RowKey='%22A'aaa%22_bbbb3')",
                "Syntax error: character '\"' is not valid at position 20 in \
                 'PartitionKey='\"A'aaa\"_bbbb3',RowKey='\"A'aaa\"_bbbb3''.",
            ),
            (
                "t(PartitionKey='%F0%9F%98%80''',RowKey=~)",
                "Syntax error: character '~' is not valid at position 27 in 'PartitionKey='😀''',RowKey=~'.",
            ),
        ] {
            assert_eq!(Resource::parse(path).unwrap_err().to_string(), message, "{path}");
        }
    }

    #[test]
    fn characters_that_no_key_has_differ_by_operation() {
        let address = |key: &str| EntityAddress {
            table: "t".into(),
            partition_key: key.into(),
            row_key: "r".into(),
        };
        let syntax = || Error::from(RequestError::UrlSyntax);
        for (key, read, write) in [
            ("a/b", syntax(), syntax()),
            ("a\\b", syntax(), syntax()),
            ("a#b", Error::EntityNotFound, RequestError::UrlKeyOutOfRange.into()),
            ("a?b", Error::EntityNotFound, RequestError::UrlKeyOutOfRange.into()),
            ("a\tb", syntax(), RequestError::UrlKeyOutOfRange.into()),
            ("a\u{9f}b", Error::EntityNotFound, RequestError::UrlKeyOutOfRange.into()),
        ] {
            assert_eq!(address(key).check_for_read(), Err(read), "{key:?}");
            assert_eq!(address(key).check_for_write(), Err(write), "{key:?}");
        }
        assert_eq!(address("O'Brien % + é").check_for_read(), Ok(()));
    }
}
