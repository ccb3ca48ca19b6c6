//! Imports: the page sends a file in parts as they are, and learns how much of each part was written.

use serde::{Deserialize, Serialize};
use table_service_files::payload;
use table_service_files::{Columns, Fault, Input, ParsedEntity, Row, lines};

use crate::answer::Problem;

/// The most entities of one transaction.
const BATCH: usize = 200;

/// The parameters of an import.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ImportRequest {
    table: String,
    /// The fate of an entity that exists: `insert`, `replace` or `merge`.
    mode: String,
    is_csv: bool,
    /// The header of CSV and the first row, if they are not in this part.
    head: Option<String>,
    part: String,
    /// The line in which the part begins.
    line: u64,
    is_last: bool,
}

/// The entities of the beginning of a part.
#[derive(Serialize)]
pub struct Part {
    #[serde(skip)]
    entities: Vec<ParsedEntity>,
    #[serde(skip)]
    lines: Option<(u64, u64)>,
    written: usize,
    /// Their length in UTF-16 units, as scripts count.
    taken: usize,
    /// The line behind them.
    line: u64,
    head: Option<String>,
}

impl ImportRequest {
    /// Reads at most a batch of entities. The text behind the last line end is left to the next part, if there is one.
    ///
    /// # Errors
    /// A text that is none of entities, with its line; a mode that would write nothing.
    pub fn read(&self) -> Result<Part, Problem> {
        if !["insert", "replace", "merge"].contains(&&*self.mode) {
            return Err(Problem::input("The mode must be insert, replace or merge."));
        }
        let mut part = Part {
            entities: Vec::new(),
            lines: None,
            written: 0,
            taken: 0,
            line: self.line,
            head: self.head.clone(),
        };
        let mut input = Input::of_part(&self.part, self.line);
        let read = match self.is_csv {
            true => self.read_rows(&mut input, &mut part),
            false => self.read_lines(&mut input, &mut part),
        };
        let mut taken = read.map_err(|reason| part.unwritten(Problem::input(reason)))?;
        if self.is_last && part.entities.len() < BATCH {
            taken = self.part.len();
        }
        let text = self.part.get(..taken).unwrap_or_default();
        part.taken = text.encode_utf16().count();
        part.line += text.bytes().filter(|&byte| byte == b'\n').count() as u64;
        part.written = part.entities.len();
        Ok(part)
    }

    /// Reads lines of JSON. Returns how many bytes are taken.
    fn read_lines(&self, input: &mut Input<'_>, part: &mut Part) -> Result<usize, String> {
        let mut line = Vec::new();
        while part.entities.len() < BATCH {
            let begin = input.taken();
            let number = input.position().line;
            if lines::next(input, &mut line).map_err(said)?.is_none() {
                return Ok(begin);
            }
            if !self.is_last && !self.part.get(..input.taken()).is_some_and(|text| text.ends_with('\n')) {
                return Ok(begin);
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                let entity = payload::entity(&line);
                part.push(number, entity.map_err(|reason| format!("line {number}: {reason}")))?;
            }
        }
        Ok(input.taken())
    }

    /// Reads rows of CSV. Returns how many bytes are taken.
    fn read_rows(&self, input: &mut Input<'_>, part: &mut Part) -> Result<usize, String> {
        let mut columns = None;
        let mut row = Row::default();
        if let Some(head) = &self.head {
            let mut head = Input::of_part(head, 1);
            row.read(&mut head, b',').map_err(said)?;
            let mut of_head = Columns::of_header(&row).map_err(said)?;
            if row.read(&mut head, b',').map_err(said)? {
                of_head.learn(&row);
            }
            columns = Some(of_head);
        }
        let mut has_first = self.head.is_some();
        while part.entities.len() < BATCH {
            let begin = input.taken();
            let read = row.read(input, b',');
            // The rest of the row may be in the next part, which gets the header with the first row.
            let begin = if has_first { begin } else { 0 };
            let is_cut = !self.is_last && input.peek().is_ok_and(|next| next.is_none());
            match read {
                Ok(true) if row.has_line_end() || self.is_last => {}
                Ok(_) => return Ok(begin),
                Err(_) if is_cut => return Ok(begin),
                Err(fault) => return Err(fault.to_string()),
            }
            let Some(columns) = &mut columns else {
                columns = Some(Columns::of_header(&row).map_err(said)?);
                continue;
            };
            if !std::mem::replace(&mut has_first, true) {
                columns.learn(&row);
                part.head = self.part.get(..input.taken()).map(str::to_owned);
            }
            let entity = columns.entity(&row);
            let entity = entity.map_err(|(position, reason)| format!("{position}: {reason}"));
            part.push(row.position(0).line, entity)?;
        }
        Ok(input.taken())
    }

    /// Returns the parameters of the statement that writes a part.
    pub fn parameters(&self, part: &Part) -> Vec<Option<String>> {
        let entities: Vec<String> = part.entities.iter().map(ParsedEntity::to_json).collect();
        let entities = format!("[{}]", entities.join(","));
        vec![Some(self.table.clone()), Some(entities), Some(self.mode.clone())]
    }
}

impl Part {
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

    /// Returns the answer of the call, once the entities are written.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn said(fault: Fault) -> String {
    fault.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Imports a text in parts of so many characters, as the page does.
    fn import(text: &str, is_csv: bool, mut length: usize) -> Result<Vec<String>, String> {
        let (mut rest, mut entities) = (text.to_owned(), Vec::new());
        let (mut head, mut line) = (None, 1);
        loop {
            let part: String = rest.chars().take(length).collect();
            let is_last = part.len() == rest.len();
            let request = ImportRequest {
                table: "T".to_owned(),
                mode: "insert".to_owned(),
                is_csv,
                head: head.clone(),
                part,
                line,
                is_last,
            };
            let part = request.read().map_err(|problem| format!("{problem:?}"))?;
            entities.extend(part.entities.iter().map(ParsedEntity::to_json));
            rest = String::from_utf16(&rest.encode_utf16().skip(part.taken).collect::<Vec<_>>()).unwrap();
            (head, line) = (part.head, part.line);
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
        for (text, is_csv, count) in [(csv, true, 3), (json, false, 2), ("", false, 0)] {
            let whole = import(text, is_csv, usize::MAX).unwrap();
            assert_eq!(whole.len(), count, "{whole:?}");
            for length in 1..text.chars().count() {
                assert_eq!(import(text, is_csv, length).unwrap(), whole, "{length}");
            }
        }
        let many = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n".repeat(2 * BATCH + 1);
        assert_eq!(import(&many, false, usize::MAX).unwrap().len(), 2 * BATCH + 1);
    }

    #[test]
    fn a_fault_has_its_line() {
        let entity = "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\n";
        for (text, is_csv, says) in [
            (format!("{}{{", entity.repeat(BATCH + 1)), false, "line 202: "),
            (
                format!("{}{{", entity.repeat(BATCH + 1)),
                false,
                "Nothing of the lines 201 to 202 was written.",
            ),
            (
                "PartitionKey,RowKey\r\np,r\r\np".to_owned(),
                true,
                "line 3, column 2: The row has 1 fields",
            ),
            (
                "PartitionKey,RowKey\r\np,\"open".to_owned(),
                true,
                "line 2, column 3: the file ends within the field",
            ),
            ("PartitionKey\r\np".to_owned(), true, "the header has no column RowKey"),
        ] {
            for length in [7, 64, usize::MAX] {
                let problem = import(&text, is_csv, length).unwrap_err();
                assert!(
                    problem.contains(says) || length != usize::MAX && says.contains("201"),
                    "{problem}"
                );
            }
        }
    }
}
