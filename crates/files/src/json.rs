//! JSON documents as a stream: their structure is checked to the end, and only one entity at a time is kept.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::input::{Fault, Input};
use crate::payload::Members;

/// How deep values may be nested: entities are flat, and the documents around them nearly so.
const DEEPEST: usize = 64;

/// Where the bytes of a value go.
pub enum Sink<'a> {
    Keep(&'a mut Vec<u8>),
    Skip,
}

impl Input<'_> {
    /// The next character that is no white space; `None` at the end.
    ///
    /// # Errors
    /// A file that cannot be read any further.
    pub fn peek_token(&mut self) -> Result<Option<u8>, Fault> {
        loop {
            let available = self.fill()?;
            let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
            let count = available.iter().take_while(|byte| blank(byte)).count();
            if count < available.len() || count == 0 {
                self.advance(count);
                return self.peek();
            }
            self.advance(count);
        }
    }

    /// Takes this character, which has to be next.
    ///
    /// # Errors
    /// Another character, or the end.
    pub fn expect(&mut self, byte: u8, sink: &mut Sink<'_>) -> Result<(), Fault> {
        match self.peek_token()? {
            Some(found) if found == byte => self.take(sink, 1),
            _ => Err(self.unexpected(&format!("{:?}", char::from(byte)))?),
        }
    }

    /// Takes this character if it is next.
    ///
    /// # Errors
    /// A file that cannot be read any further.
    pub fn accept(&mut self, byte: u8, sink: &mut Sink<'_>) -> Result<bool, Fault> {
        let is_next = self.peek_token()? == Some(byte);
        if is_next {
            self.take(sink, 1)?;
        }
        Ok(is_next)
    }

    /// Returns the fault of a character that the document cannot have here.
    ///
    /// # Errors
    /// A file that cannot be read any further.
    pub fn unexpected(&mut self, expected: &str) -> Result<Fault, Fault> {
        Ok(match self.peek_token()? {
            None => self.fault(format!("the document ends where {expected} should stand")),
            Some(byte) => self.fault(format!(
                "the character {:?} stands where {expected} should stand",
                if byte.is_ascii() { char::from(byte) } else { '\u{fffd}' }
            )),
        })
    }

    /// The document has to end here.
    ///
    /// # Errors
    /// More text.
    pub fn expect_end(&mut self) -> Result<(), Fault> {
        match self.peek_token()? {
            None => Ok(()),
            Some(_) => Err(self.fault("text stands behind the end of the document")),
        }
    }

    /// Reads a member's name and the colon behind it.
    ///
    /// # Errors
    /// Something else.
    pub fn name(&mut self, sink: &mut Sink<'_>) -> Result<String, Fault> {
        if self.peek_token()? != Some(b'"') {
            return Err(self.unexpected("a name")?);
        }
        let mut raw = Vec::new();
        self.string(&mut Sink::Keep(&mut raw))?;
        if let Sink::Keep(record) = sink {
            record.extend_from_slice(&raw);
        }
        let name = serde_json::from_slice(&raw).map_err(|_| self.fault("a name is no text of JSON"))?;
        self.expect(b':', sink)?;
        Ok(name)
    }

    /// Reads a value of any kind.
    ///
    /// # Errors
    /// Something else, a document that ends within it, too many values in each other.
    pub fn value(&mut self, sink: &mut Sink<'_>) -> Result<(), Fault> {
        self.nested(sink, 0)
    }

    fn nested(&mut self, sink: &mut Sink<'_>, depth: usize) -> Result<(), Fault> {
        if depth > DEEPEST {
            return Err(self.fault(format!("more than {DEEPEST} values stand in each other")));
        }
        match self.peek_token()? {
            Some(b'"') => self.string(sink),
            Some(b'-' | b'0'..=b'9' | b'a'..=b'z') => self.word(sink),
            Some(open @ (b'[' | b'{')) => {
                let close = if open == b'[' { b']' } else { b'}' };
                self.take(sink, 1)?;
                if self.accept(close, sink)? {
                    return Ok(());
                }
                loop {
                    if open == b'{' {
                        if self.peek_token()? != Some(b'"') {
                            return Err(self.unexpected("a name")?);
                        }
                        self.string(sink)?;
                        self.expect(b':', sink)?;
                    }
                    self.nested(sink, depth + 1)?;
                    if !self.accept(b',', sink)? {
                        return self.expect(close, sink);
                    }
                }
            }
            _ => Err(self.unexpected("a value")?),
        }
    }

    /// A number, `true`, `false` or `null`, which the reader of the entity checks.
    fn word(&mut self, sink: &mut Sink<'_>) -> Result<(), Fault> {
        loop {
            let available = self.fill()?;
            let of_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
            let count = available.iter().take_while(|byte| of_word(byte)).count();
            if count == 0 {
                return Ok(());
            }
            self.take(sink, count)?;
        }
    }

    fn string(&mut self, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let begin = self.position();
        self.take(sink, 1)?;
        loop {
            let available = self.fill()?;
            if available.is_empty() {
                return Err(begin.fault("the document ends within the text that begins here"));
            }
            let special = available.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            let count = special.unwrap_or(available.len());
            self.take(sink, count)?;
            match special.map(|_| self.peek()).transpose()?.flatten() {
                None => {}
                Some(b'"') => return self.take(sink, 1),
                Some(_) => {
                    self.take(sink, 1)?;
                    // The escaped character; the end is found above.
                    if self.peek()?.is_some() {
                        self.take(sink, 1)?;
                    }
                }
            }
        }
    }

    fn take(&mut self, sink: &mut Sink<'_>, count: usize) -> Result<(), Fault> {
        match sink {
            Sink::Keep(record) => self.keep(record, count),
            Sink::Skip => {
                self.advance(count);
                Ok(())
            }
        }
    }
}

/// The entities of a document: `[{…},{…}]`, `{"value":[{…},{…}]}` with anything around the list, or one object behind
/// the other. It can be kept as text between two parts of a document.
#[derive(Default, Clone, Copy, Serialize, Deserialize)]
pub struct Objects {
    state: State,
}

#[derive(Default, Clone, Copy, Serialize, Deserialize)]
enum State {
    #[default]
    Begin,
    /// Within the list. `wrapped`: an object is around it.
    List {
        wrapped: bool,
        first: bool,
    },
    /// Objects without a list around them.
    Loose,
    End,
}

impl Objects {
    /// Reads the next object into `object`; false at the end.
    ///
    /// # Errors
    /// A document that is damaged, ends too early or goes on behind its end, or an object that is too long to be an
    /// entity.
    pub fn next(&mut self, input: &mut Input<'_>, object: &mut Vec<u8>) -> Result<bool, Fault> {
        loop {
            object.clear();
            match self.state {
                State::End => {
                    input.expect_end()?;
                    return Ok(false);
                }
                State::Begin => match input.peek_token()? {
                    None => return Err(input.fault("the document is empty; one without entities is []")),
                    Some(b'[') => {
                        input.expect(b'[', &mut Sink::Skip)?;
                        self.state = State::List {
                            wrapped: false,
                            first: true,
                        };
                    }
                    Some(b'{') => {
                        input.begin_record();
                        if head(input, object)? {
                            self.state = State::Loose;
                            return Ok(true);
                        }
                        self.state = State::List {
                            wrapped: true,
                            first: true,
                        };
                    }
                    Some(_) => return Err(input.unexpected("a list or an entity")?),
                },
                State::List { wrapped, first } => {
                    if !first && input.accept(b',', &mut Sink::Skip)? || first && input.peek_token()? != Some(b']') {
                        if input.peek_token()? != Some(b'{') {
                            return Err(input.unexpected("an entity")?);
                        }
                        input.begin_record();
                        input.value(&mut Sink::Keep(object))?;
                        self.state = State::List { wrapped, first: false };
                        return Ok(true);
                    }
                    input.expect(b']', &mut Sink::Skip)?;
                    if wrapped {
                        while input.accept(b',', &mut Sink::Skip)? {
                            input.name(&mut Sink::Skip)?;
                            input.value(&mut Sink::Skip)?;
                        }
                        input.expect(b'}', &mut Sink::Skip)?;
                    }
                    input.expect_end()?;
                    self.state = State::End;
                }
                State::Loose => match input.peek_token()? {
                    None => self.state = State::End,
                    Some(b'{') => {
                        input.begin_record();
                        input.value(&mut Sink::Keep(object))?;
                        return Ok(true);
                    }
                    Some(_) => return Err(input.unexpected("an entity")?),
                },
            }
        }
    }
}

/// Returns whether a text begins a document, not lines of JSON: with a list, or with an object that does not end where its line ends.
#[must_use]
pub fn is_document(text: &str, is_whole: bool) -> bool {
    let text = text.trim();
    let line = text.lines().next().unwrap_or_default();
    match serde_json::from_str::<Members<'_>>(line) {
        // AzCopy writes a document in one line.
        Ok(Members(members)) => {
            let has_list = |(name, raw): &(String, &RawValue)| name == "value" && raw.get().starts_with('[');
            is_whole && text == line && members.iter().any(has_list)
        }
        Err(_) => text.starts_with(['[', '{']),
    }
}

/// Reads an entity, or the beginning of the object that has the list of entities. Returns whether it is an entity.
fn head(input: &mut Input<'_>, object: &mut Vec<u8>) -> Result<bool, Fault> {
    input.expect(b'{', &mut Sink::Keep(object))?;
    if input.accept(b'}', &mut Sink::Keep(object))? {
        return Ok(true);
    }
    let mut is_entity = false;
    loop {
        let name = input.name(&mut Sink::Keep(object))?;
        is_entity |= name == table_service_model::key::PARTITION_KEY;
        if !is_entity && input.accept(b'[', &mut Sink::Skip)? {
            return Ok(false);
        }
        input.value(&mut Sink::Keep(object))?;
        if !input.accept(b',', &mut Sink::Keep(object))? {
            input.expect(b'}', &mut Sink::Keep(object))?;
            return Ok(true);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn objects(text: &str) -> Result<Vec<String>, String> {
        let mut input = Input::new(text.as_bytes()).unwrap();
        let mut objects = Objects::default();
        let (mut object, mut all) = (Vec::new(), Vec::new());
        while objects
            .next(&mut input, &mut object)
            .map_err(|error| error.to_string())?
        {
            all.push(String::from_utf8(object.clone()).unwrap());
        }
        Ok(all)
    }

    const DOCUMENTS: [&str; 5] = [
        "[{\"a\":\"]}\\\"\"},{}]",
        "\u{feff}[\r\n{\"a\": \"]}\\\"\"},\r\n{ }\r\n]\r\n",
        "{\"odata.metadata\":\"https://x/$metadata#[T\",\"value\":[{\"a\":\"]}\\\"\"},{}],\"more\":[1,{\"x\":null}]}",
        "{\"$id\":{\"a\":[1]},\"value\":[{\"a\":\"]}\\\"\"},{}]} ",
        "{\"a\":\"]}\\\"\"}\n{}\n",
    ];

    #[test]
    fn arrays_documents_and_lists() {
        let two = vec!["{\"a\":\"]}\\\"\"}".to_owned(), "{}".to_owned()];
        for text in DOCUMENTS {
            assert_eq!(objects(text).unwrap(), two, "{text}");
        }
        for text in ["[]", "{\"value\":[]}", "[ ]\n"] {
            assert_eq!(objects(text).unwrap(), Vec::<String>::new(), "{text}");
        }
        let nested = "{\"PartitionKey\":\"p\",\"L\":[1]}";
        assert_eq!(objects(nested).unwrap(), [nested], "an entity has no list of entities");
    }

    #[test]
    fn a_document_that_is_cut_short_is_an_error() {
        for text in DOCUMENTS {
            let whole = text.trim_end();
            let loose = "{\"a\":\"]}\\\"\"}";
            for end in whole.char_indices().map(|(index, _)| index) {
                let cut = &whole[..end];
                // Of objects without a list, the first one alone is also whole.
                if !(whole.starts_with(loose) && cut.trim_end() == loose) {
                    assert!(objects(cut).is_err(), "{cut}");
                }
            }
        }
    }

    #[test]
    fn broken_documents_say_where() {
        let deep = "[".repeat(100);
        for (text, says) in [
            ("", "line 1, column 1: the document is empty"),
            (" \n", "line 2, column 1: the document is empty"),
            (
                "[{\"a\":1",
                "line 1, column 8: the document ends where '}' should stand",
            ),
            ("[1]", "line 1, column 2: the character '1' stands where an entity"),
            ("[{},]", "column 5: the character ']' stands where an entity"),
            ("[{}{}]", "column 4: the character '{' stands where ']'"),
            ("[{}]x", "column 5: text stands behind the end"),
            ("[{}\n}", "line 2, column 1: the character '}' stands where ']'"),
            ("[{\"a\":1]}", "column 8: the character ']' stands where '}'"),
            (
                "[{\"a\":\"x}]",
                "column 7: the document ends within the text that begins here",
            ),
            ("{}x", "column 3: the character 'x' stands where an entity"),
            ("x", "column 1: the character 'x' stands where a list"),
            (&format!("[{{\"a\":{deep}"), "more than 64 values stand in each other"),
        ] {
            let fault = objects(text).unwrap_err();
            assert!(fault.contains(says), "{text}: {fault}");
        }
    }
}
