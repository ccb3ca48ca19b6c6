//! The objects of the first array in a JSON document, one by one: `[{…},{…}]` and `{"value":[{…},{…}]}`. Documents with
//! one object after the other, without an array, are read too.

use std::io::{BufRead, Error, ErrorKind};

use super::lines::LONGEST;

pub struct Objects<'r> {
    reader: &'r mut dyn BufRead,
    /// Whether the objects stand in an array, known once the first one has come.
    started: bool,
    ended: bool,
}

impl<'r> Objects<'r> {
    pub fn new(reader: &'r mut dyn BufRead) -> Objects<'r> {
        Objects {
            reader,
            started: false,
            ended: false,
        }
    }

    /// Reads the next object into `object`; false at the end.
    ///
    /// # Errors
    /// A document that ends within an object, has something else where an object could be, or an object that is too
    /// long to be an entity.
    pub fn next(&mut self, object: &mut Vec<u8>) -> std::io::Result<bool> {
        object.clear();
        if !self.started {
            self.started = true;
            self.start()?;
        }
        while !self.ended {
            match self.byte()? {
                None => self.ended = true,
                Some(b' ' | b'\t' | b'\r' | b'\n' | b',') => {}
                // What follows the array, such as the end of the document around it, is not of interest.
                Some(b']' | b'}') => self.ended = true,
                Some(b'{') => {
                    self.object(object)?;
                    return Ok(true);
                }
                Some(byte) => {
                    return Err(malformed(format!(
                        "the character {:?} stands where an entity should begin",
                        char::from(byte)
                    )));
                }
            }
        }
        Ok(false)
    }

    /// Goes to the inside of the array. `{"odata.metadata":"…","value":[` is passed over.
    fn start(&mut self) -> std::io::Result<()> {
        // A document of an array within an object begins with `{`, and so does a list of objects without an array. Only
        // the former has an array before its first object ends, and before any nested object.
        loop {
            let buffer = self.reader.fill_buf()?;
            match buffer.first() {
                None => return Ok(()),
                // A byte order mark, which Windows programs write.
                Some(b' ' | b'\t' | b'\r' | b'\n' | 0xef | 0xbb | 0xbf) => self.reader.consume(1),
                Some(b'[') => {
                    self.reader.consume(1);
                    return Ok(());
                }
                _ => break,
            }
        }
        // Readers give at least 64 KiB unless the document is shorter, and the head is much shorter.
        let head = self.reader.fill_buf()?;
        let mut in_string = false;
        let mut escaped = false;
        for (index, &byte) in head.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_string => escaped = true,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b'[' => {
                    self.reader.consume(index + 1);
                    return Ok(());
                }
                b'}' => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }

    /// The rest of an object whose brace has been read.
    fn object(&mut self, object: &mut Vec<u8>) -> std::io::Result<()> {
        object.push(b'{');
        let (mut depth, mut in_string, mut escaped) = (1usize, false, false);
        while depth > 0 {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Err(malformed("the document ends within an entity".to_owned()));
            }
            let mut used = 0;
            for &byte in buffer {
                used += 1;
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if in_string => escaped = true,
                    b'"' => in_string = !in_string,
                    _ if in_string => {}
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
            }
            object.extend_from_slice(buffer.get(..used).unwrap_or_default());
            self.reader.consume(used);
            if object.len() > LONGEST {
                return Err(malformed("an object is too long to be an entity".to_owned()));
            }
        }
        Ok(())
    }

    fn byte(&mut self) -> std::io::Result<Option<u8>> {
        let byte = self.reader.fill_buf()?.first().copied();
        if byte.is_some() {
            self.reader.consume(1);
        }
        Ok(byte)
    }
}

fn malformed(reason: String) -> Error {
    Error::new(ErrorKind::InvalidData, reason)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn objects(text: &str) -> Result<Vec<String>, String> {
        let mut bytes = text.as_bytes();
        let mut objects = Objects::new(&mut bytes);
        let (mut object, mut all) = (Vec::new(), Vec::new());
        while objects.next(&mut object).map_err(|error| error.to_string())? {
            all.push(String::from_utf8(object.clone()).unwrap());
        }
        Ok(all)
    }

    #[test]
    fn arrays_documents_and_lists() {
        let two = vec!["{\"a\":\"]}\\\"\"}".to_owned(), "{}".to_owned()];
        for text in [
            "[{\"a\":\"]}\\\"\"},{}]",
            "\u{feff}[\r\n{\"a\":\"]}\\\"\"},\r\n{}\r\n]\r\n",
            "{\"odata.metadata\":\"https://x/$metadata#[T\",\"value\":[{\"a\":\"]}\\\"\"},{}]}",
            "{\"a\":\"]}\\\"\"}\n{}\n",
        ] {
            assert_eq!(objects(text).unwrap(), two, "{text}");
        }
        for text in ["", "[]", "{\"value\":[]}", " \n"] {
            assert_eq!(objects(text).unwrap(), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn broken_documents_are_errors() {
        for text in ["[{\"a\":1", "[1]", "[{}x", "x"] {
            assert!(objects(text).is_err(), "{text}");
        }
    }
}
