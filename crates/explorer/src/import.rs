//! Imports: the page sends a file in parts as they are, and learns how much of each part was written.

use serde::{Deserialize, Serialize};
use table_service_files::json::Objects;
use table_service_files::mapping::Mapping;
use table_service_files::{Fault, Header, Input, LineColumn, ParsedEntity, Part, Row, header};

use crate::answer::Problem;

/// The most entities of one transaction.
const BATCH: usize = 200;

/// The form of entities in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// An object of JSON on each line.
    Lines,
    /// A document of JSON that has a list of objects.
    Document,
    Csv,
}

/// The parameters of an import.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ImportRequest {
    table: String,
    /// The fate of an entity that exists: `insert`, `replace` or `merge`.
    mode: String,
    form: Form,
    /// The character between the fields of CSV.
    #[serde(default = "comma")]
    delimiter: char,
    /// Keys and properties of a file that has none of the service.
    mapping: Option<Mapping>,
    /// The context from the parts before: the header of CSV and the first row, or the position in a document of JSON.
    head: Option<String>,
    part: String,
    /// Where the part begins.
    line: u64,
    #[serde(default = "first")]
    column: u64,
    is_last: bool,
}

/// The entities of the beginning of a part. It is the answer of the call, once they are written.
#[derive(Serialize)]
pub struct Imported {
    #[serde(skip)]
    entities: Vec<ParsedEntity>,
    #[serde(skip)]
    lines: Option<(u64, u64)>,
    written: usize,
    /// Their length in UTF-16 units, as scripts count.
    taken: usize,
    /// Where the text behind them begins.
    line: u64,
    column: u64,
    head: Option<String>,
}

/// Returns the delimiter of a file that names none.
pub fn comma() -> char {
    ','
}

fn first() -> u64 {
    1
}

/// Returns a delimiter as a byte.
///
/// # Errors
/// The character cannot be between fields.
pub fn delimiter(given: char) -> Result<u8, Problem> {
    match u8::try_from(given) {
        Ok(byte) if byte.is_ascii() && !byte.is_ascii_alphanumeric() && !matches!(byte, b'"' | b'\r' | b'\n' | 0) => {
            Ok(byte)
        }
        _ => Err(Problem::input(
            "The delimiter of CSV is one character of ASCII that is no letter, digit or quote.",
        )),
    }
}

impl ImportRequest {
    /// Reads at most a batch of entities. The text behind the last line end is left to the next part, if there is one.
    ///
    /// # Errors
    /// A text that is not of entities, with its line; an unknown mode.
    pub fn read(&self) -> Result<Imported, Problem> {
        if !["insert", "replace", "merge"].contains(&&*self.mode) {
            return Err(Problem::input("The mode must be insert, replace or merge."));
        }
        let delimiter = delimiter(self.delimiter)?;
        let mut imported = Imported {
            entities: Vec::new(),
            lines: None,
            written: 0,
            taken: 0,
            line: self.line,
            column: self.column,
            head: self.head.clone(),
        };
        let begin = LineColumn {
            line: self.line,
            column: self.column,
        };
        let mut part = Part::new(&self.part, begin, self.is_last);
        let read = match self.form {
            Form::Csv => self.read_rows(&mut part, delimiter, &mut imported),
            Form::Lines | Form::Document => self.read_json(&mut part, &mut imported),
        };
        let mut taken = read.map_err(|reason| imported.unwritten(Problem::input(reason)))?;
        if self.is_last && imported.entities.len() < BATCH {
            taken = self.part.len();
        }
        let text = self.part.get(..taken).unwrap_or_default();
        imported.taken = text.encode_utf16().count();
        imported.line += text.bytes().filter(|&byte| byte == b'\n').count() as u64;
        let (before, last) = text
            .rsplit_once('\n')
            .map_or((self.column, text), |(_, last)| (1, last));
        imported.column = before + last.chars().count() as u64;
        imported.written = imported.entities.len();
        Ok(imported)
    }

    /// Reads objects of JSON. Returns how many bytes are taken.
    fn read_json(&self, part: &mut Part<'_>, imported: &mut Imported) -> Result<usize, String> {
        let mut document = (self.form == Form::Document).then(Objects::default);
        if let (Some(objects), Some(head)) = (&mut document, &self.head) {
            *objects =
                serde_json::from_str(head).map_err(|error| format!("The head is none of a document: {error}"))?;
        }
        let mut object = Vec::new();
        while imported.entities.len() < BATCH
            && let Some((line, place)) = part.object(document.as_mut(), &mut object).map_err(said)?
        {
            let entity = header::object(&object, self.mapping.as_ref());
            imported.push(line, entity.map_err(|reason| format!("{place}: {reason}")))?;
        }
        imported.head = document.and_then(|objects| serde_json::to_string(&objects).ok());
        Ok(part.taken())
    }

    /// Reads rows of CSV. Returns how many bytes are taken.
    fn read_rows(&self, part: &mut Part<'_>, mut delimiter: u8, imported: &mut Imported) -> Result<usize, String> {
        let mut header = None;
        let mut row = Row::default();
        if let Some(head) = &self.head {
            let mut head = Input::of_part(head, LineColumn { line: 1, column: 1 });
            row.read_header(&mut head, &mut delimiter).map_err(said)?;
            let mut of_head = Header::of(&row, self.mapping.as_ref()).map_err(said)?;
            if row.read(&mut head, delimiter).map_err(said)? {
                of_head.learn(&row);
            }
            header = Some(of_head);
        }
        let mut has_first = self.head.is_some();
        while imported.entities.len() < BATCH && part.row(&mut row, &mut delimiter, header.is_none()).map_err(said)? {
            let Some(header) = &mut header else {
                header = Some(Header::of(&row, self.mapping.as_ref()).map_err(said)?);
                continue;
            };
            if !std::mem::replace(&mut has_first, true) {
                header.learn(&row);
                imported.head = self.part.get(..part.taken()).map(str::to_owned);
            }
            let entity = header.entity(&row);
            let entity = entity.map_err(|(position, reason)| format!("{position}: {reason}"));
            imported.push(row.position(0).line, entity)?;
        }
        // The next part gets the header with the first row.
        Ok(if has_first { part.taken() } else { 0 })
    }

    /// Returns the parameters of the statement that writes a part.
    pub fn parameters(&self, part: &Imported) -> Vec<Option<String>> {
        let entities: Vec<String> = part.entities.iter().map(ParsedEntity::to_json).collect();
        let entities = format!("[{}]", entities.join(","));
        vec![Some(self.table.clone()), Some(entities), Some(self.mode.clone())]
    }
}

impl Imported {
    fn push(&mut self, line: u64, entity: Result<ParsedEntity, String>) -> Result<(), String> {
        let (first, _) = self.lines.unwrap_or((line, line));
        self.lines = Some((first, line));
        self.entities.push(entity?);
        Ok(())
    }

    /// Says which lines a problem keeps from being written.
    pub fn unwritten(&self, problem: Problem) -> Problem {
        match self.lines {
            Some((first, last)) => problem.with_hint(format!("Nothing of the lines {first} to {last} was written.")),
            None => problem,
        }
    }
}

fn said(fault: Fault) -> String {
    fault.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Imports a text in parts of so many characters, as the page does.
    fn import(text: &str, form: Form, mut length: usize) -> Result<Vec<String>, String> {
        let (mut rest, mut entities) = (text.to_owned(), Vec::new());
        let (mut head, mut line, mut column) = (None, 1, 1);
        loop {
            let part: String = rest.chars().take(length).collect();
            let is_last = part.len() == rest.len();
            let request = ImportRequest {
                table: "T".to_owned(),
                mode: "insert".to_owned(),
                form,
                delimiter: ',',
                mapping: None,
                head: head.clone(),
                part,
                line,
                column,
                is_last,
            };
            let part = request.read().map_err(|problem| format!("{problem:?}"))?;
            entities.extend(part.entities.iter().map(ParsedEntity::to_json));
            rest = String::from_utf16(&rest.encode_utf16().skip(part.taken).collect::<Vec<_>>()).unwrap();
            (head, line, column) = (part.head, part.line, part.column);
            if is_last && rest.is_empty() {
                return Ok(entities);
            }
            length += usize::from(part.taken == 0);
        }
    }

    #[test]
    fn parts_of_any_length_give_the_same_entities() {
        let csv = "PartitionKey,RowKey,A,A@type\r\np,\"r\n,1\",5,Edm.Int32\r\n\r\np,\"🎉\"\"\",7,\r\np,3,,";
        let json = "{\"PartitionKey\":\"p\",\"RowKey\":\"🎉\",\"A\":1}\n\n{\"PartitionKey\":\"p\",\"RowKey\":\"2\"}";
        let array =
            " [{\"PartitionKey\":\"p\",\"RowKey\":\"🎉\",\"A\":\"]}\"},\n{\"RowKey\":\"2\",\"PartitionKey\":\"p\"} ] ";
        let document = format!("{{\"a\":{{\"b\":[1]}},\"value\":{array},\"c\":[{{}}]}}");
        for (text, form, count) in [
            (csv, Form::Csv, 3),
            (json, Form::Lines, 2),
            (array, Form::Document, 2),
            (&document, Form::Document, 2),
            ("[]", Form::Document, 0),
            ("", Form::Lines, 0),
        ] {
            let whole = import(text, form, usize::MAX).unwrap();
            assert_eq!(whole.len(), count, "{whole:?}");
            for length in 1..text.chars().count() {
                assert_eq!(import(text, form, length).unwrap(), whole, "{length}");
            }
        }
        let many = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n".repeat(2 * BATCH + 1);
        assert_eq!(import(&many, Form::Lines, usize::MAX).unwrap().len(), 2 * BATCH + 1);
    }

    #[test]
    fn a_fault_has_its_line() {
        let entity = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n";
        for (text, form, says) in [
            (format!("{}{{", entity.repeat(BATCH + 1)), Form::Lines, "line 202: "),
            (
                format!("{}{{", entity.repeat(BATCH + 1)),
                Form::Lines,
                "Nothing of the lines 201 to 202 was written.",
            ),
            (
                "PartitionKey,RowKey\r\np,r\r\np".to_owned(),
                Form::Csv,
                "line 3, column 2: The row has 1 fields",
            ),
            (
                "PartitionKey,RowKey\r\np,\"open".to_owned(),
                Form::Csv,
                "line 2, column 3: the file ends within the field",
            ),
            (
                "PartitionKey\r\np".to_owned(),
                Form::Csv,
                "the header has no column RowKey",
            ),
            (
                "[{\"PartitionKey\":\"p\",\"RowKey\":\"r\"},\n {\"PartitionKey\":1}]".to_owned(),
                Form::Document,
                "line 2, column 2: ",
            ),
            (
                "[{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}; ]".to_owned(),
                Form::Document,
                "line 1, column 35: the character ';' stands where",
            ),
            (
                "[]x".to_owned(),
                Form::Document,
                "line 1, column 3: text stands behind the end",
            ),
        ] {
            for length in [7, 64, usize::MAX] {
                let problem = import(&text, form, length).unwrap_err();
                assert!(
                    problem.contains(says) || length != usize::MAX && says.contains("201"),
                    "{problem}"
                );
            }
        }
    }
}
