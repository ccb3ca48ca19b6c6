//! The beginning of a file, as it is shown before an import.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use table_service_files::json::{Objects, is_document};
use table_service_files::mapping::{Field, typed};
use table_service_files::payload::Members;
use table_service_files::{Fault, Guess, Input, LineColumn, Part, Row};
use table_service_model::key::{PARTITION_KEY, ROW_KEY};

use crate::answer::Problem;
use crate::import::{Form, comma, delimiter};

/// The most rows that are read, and the most that are shown.
const READ: usize = 1000;
const SHOWN: usize = 10;
/// The length of a value that is shown.
const LENGTH: usize = 120;
/// The most bytes of values that are shown, beside those of the first row.
const SHOWN_BYTES: usize = 256 * 1024;
/// The most columns of a preview, beside the keys, and the length of their names. An entity has 252 properties.
const COLUMNS: usize = 1000;
const NAME: usize = 255;
/// The possible separators of CSV, if the call names none.
const DELIMITERS: [char; 4] = [',', ';', '\t', '|'];

/// Where a file begins.
const BEGIN: LineColumn = LineColumn { line: 1, column: 1 };

/// The parameters of a preview: the beginning of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PreviewRequest {
    /// Whether the name of the file says that it is CSV.
    is_csv: bool,
    part: String,
    is_last: bool,
}

/// The beginning of a file.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    form: Form,
    delimiter: char,
    /// Whether it has the keys of entities, so that it needs no mapping.
    has_keys: bool,
    columns: Vec<Column>,
    /// Whether the file has columns that are left out here.
    has_more_columns: bool,
    /// The index of each column.
    #[serde(skip)]
    indexes: HashMap<String, usize>,
    /// The first rows: a text or nothing for each column.
    rows: Vec<Vec<Option<String>>>,
    #[serde(skip)]
    shown: usize,
    /// The number of rows that the types are told from.
    read: usize,
}

#[derive(Serialize)]
struct Column {
    name: String,
    /// The type that all texts of the column look like; `None` if they have types of their own, or are texts.
    #[serde(rename = "type")]
    edm: Option<&'static str>,
    #[serde(skip)]
    guess: Guess,
    #[serde(skip)]
    is_text: bool,
}

impl PreviewRequest {
    /// Reads the first rows. An import reports errors of later ones.
    ///
    /// # Errors
    /// The first row of the text is none.
    pub fn read(&self) -> Result<Preview, Problem> {
        let form = self.form();
        let mut preview = Preview {
            form,
            delimiter: comma(),
            has_keys: false,
            columns: Vec::new(),
            has_more_columns: false,
            indexes: HashMap::new(),
            rows: Vec::new(),
            shown: 0,
            read: 0,
        };
        let read = match form {
            Form::Csv => {
                preview.delimiter = self.delimiter();
                self.rows(&mut preview)
            }
            Form::Lines | Form::Document => self.objects(&mut preview).map_err(Problem::input),
        };
        if preview.read == 0 {
            read?;
        }
        let has = |key: &str| preview.indexes.contains_key(key);
        preview.has_keys = has(PARTITION_KEY) && has(ROW_KEY);
        for column in preview.columns.iter_mut().filter(|column| column.is_text) {
            column.edm = column.guess.edm_type().map(|edm| edm.name());
        }
        let count = preview.columns.len();
        preview.rows.iter_mut().for_each(|row| row.resize(count, None));
        Ok(preview)
    }

    fn form(&self) -> Form {
        let text = self.part.trim_start();
        match self.is_csv || !text.starts_with(['[', '{']) {
            true => Form::Csv,
            false if is_document(text, self.is_last) => Form::Document,
            false => Form::Lines,
        }
    }

    /// The delimiter that the header has most often outside of quotes.
    fn delimiter(&self) -> char {
        let mut lines = self.part.trim_start().lines();
        // PowerShell writes its first line without delimiters.
        let line = lines.find(|line| !line.starts_with("#TYPE ")).unwrap_or_default();
        let outside: String = line.split('"').step_by(2).collect();
        let count = |delimiter: char| outside.matches(delimiter).count();
        let most = DELIMITERS.into_iter().rev().max_by_key(|&delimiter| count(delimiter));
        most.unwrap_or_else(comma)
    }

    fn rows(&self, preview: &mut Preview) -> Result<(), Problem> {
        let mut delimiter = delimiter(preview.delimiter)?;
        let mut part = self.part();
        let mut row = Row::default();
        let fault = |fault: Fault| Problem::input(fault.to_string());
        // A header that is cut is shown as far as it is here.
        let mut head = Input::of_part(&self.part, BEGIN);
        if !row.read_header(&mut head, &mut delimiter).map_err(fault)? {
            return Err(Problem::input("The file is empty."));
        }
        preview.delimiter = delimiter.into();
        let names = row.names().map_err(fault)?;
        for name in &names {
            preview.column(name);
        }
        part.row(&mut row, &mut delimiter, true).map_err(fault)?;
        while preview.read < READ && part.row(&mut row, &mut delimiter, false).map_err(fault)? {
            let fields = names.iter().enumerate();
            preview.add(fields.map(|(index, name)| (name.as_str(), Field::Text(row.field(index).unwrap_or_default()))));
        }
        Ok(())
    }

    fn objects(&self, preview: &mut Preview) -> Result<(), String> {
        let (mut part, mut object) = (self.part(), Vec::new());
        let mut document = (preview.form == Form::Document).then(Objects::default);
        while preview.read < READ
            && let Some((_, place)) = part
                .object(document.as_mut(), &mut object)
                .map_err(|fault| fault.to_string())?
        {
            preview
                .add_json(&object)
                .map_err(|reason| format!("{place}: {reason}"))?;
        }
        Ok(())
    }

    fn part(&self) -> Part<'_> {
        Part::new(&self.part, BEGIN, self.is_last)
    }
}

impl Preview {
    fn add_json(&mut self, text: &[u8]) -> Result<(), String> {
        let Members(members) =
            serde_json::from_slice(text).map_err(|error| format!("It is no object of JSON: {error}"))?;
        self.add(members.iter().map(|(name, raw)| (name.as_str(), Field::Json(raw))));
        Ok(())
    }

    /// Returns the index of a column, and adds the column if there is none of that name. `None` for the column of a
    /// type, and if there are too many columns.
    fn column(&mut self, name: &str) -> Option<usize> {
        if name.is_empty() || typed(name).is_some() || name.starts_with("odata.") {
            return None;
        }
        if let Some(&index) = self.indexes.get(name) {
            return Some(index);
        }
        let index = self.columns.len();
        let is_key = [PARTITION_KEY, ROW_KEY].contains(&name);
        if (index >= COLUMNS && !is_key) || name.chars().nth(NAME).is_some() {
            self.has_more_columns = true;
            return None;
        }
        self.indexes.insert(name.to_owned(), index);
        self.columns.push(Column {
            name: name.to_owned(),
            edm: None,
            guess: Guess::default(),
            is_text: true,
        });
        Some(index)
    }

    fn add<'f>(&mut self, fields: impl Iterator<Item = (&'f str, Field<'f>)>) {
        let fields: Vec<_> = fields.collect();
        let types: HashSet<&str> = fields
            .iter()
            .filter(|(_, field)| field.text().is_some_and(|text| !text.is_empty()))
            .filter_map(|(name, _)| typed(name))
            .collect();
        let is_shown = self.rows.len() < SHOWN && self.shown < SHOWN_BYTES;
        let mut row = Vec::new();
        for (name, field) in &fields {
            let Some(index) = self.column(name) else { continue };
            let text = field.text();
            if let (Some(column), Some(text)) = (self.columns.get_mut(index), &text) {
                // Numbers and booleans of JSON have a type, and so has a value with a type beside it.
                let is_text = match field {
                    Field::Text(_) => true,
                    Field::Json(raw) => raw.get().starts_with('"'),
                };
                column.is_text &= is_text && !types.contains(name);
                column.guess.see(text);
            }
            if is_shown {
                row.resize(row.len().max(index + 1), None);
                if let (Some(cell), Some(text)) = (row.get_mut(index), text) {
                    let is_long = text.chars().nth(LENGTH).is_some();
                    let shown: String = text.chars().take(LENGTH).collect();
                    self.shown += shown.len();
                    *cell = Some(if is_long { shown + "…" } else { shown });
                }
            }
        }
        if is_shown {
            self.rows.push(row);
        }
        self.read += 1;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn preview(part: &str, is_csv: bool, is_last: bool) -> Result<Value, String> {
        let request = PreviewRequest {
            is_csv,
            part: part.to_owned(),
            is_last,
        };
        let preview = request.read().map_err(|problem| format!("{problem:?}"))?;
        Ok(serde_json::to_value(preview).unwrap())
    }

    #[test]
    fn the_form_is_told_from_the_text() {
        let entity = r#"{"PartitionKey":"p","RowKey":"r"}"#;
        for (text, is_csv, form) in [
            (entity.to_owned(), false, "lines"),
            (format!("{entity}\n{entity}\n"), false, "lines"),
            (format!("[{entity}]"), false, "document"),
            (
                format!("{{\"odata.metadata\":\"x\",\"value\":[{entity}]}}"),
                false,
                "document",
            ),
            (format!("{{\n\"value\": [{entity}]}}"), false, "document"),
            (format!("{{\"value\" : [{entity}]}}"), false, "document"),
            ("sep=;\nPartitionKey;RowKey\np;r\n".to_owned(), true, "csv"),
            ("#TYPE Selected\nPartitionKey;RowKey;;\np;r;;\n".to_owned(), true, "csv"),
            ("PartitionKey,RowKey\np,r\n".to_owned(), true, "csv"),
            ("PartitionKey\tRowKey\np\tr\n".to_owned(), false, "csv"),
        ] {
            let found = preview(&text, is_csv, true).unwrap();
            assert_eq!(
                (&found["form"], &found["hasKeys"]),
                (&json!(form), &json!(true)),
                "{text}"
            );
        }
    }

    #[test]
    fn columns_have_the_types_that_their_texts_look_like() {
        let csv = "id;name;born;alive;n;n@type;\"a,b\"\r\n1;Ada;1815-12-10T00:00:00Z;false;5;Edm.Int64;x\r\n2;;;true;6;;y\r\n3;cut";
        let found = preview(csv, true, false).unwrap();
        assert_eq!(found["delimiter"], ";");
        assert_eq!(
            found["columns"],
            json!([
                {"name": "id", "type": "Edm.Int32"}, {"name": "name", "type": null}, {"name": "born", "type": "Edm.DateTime"},
                {"name": "alive", "type": "Edm.Boolean"}, {"name": "n", "type": null}, {"name": "a,b", "type": null},
            ])
        );
        assert_eq!(found["rows"][1], json!(["2", "", "", "true", "6", "y"]));
        assert_eq!((&found["read"], &found["hasKeys"]), (&json!(2), &json!(false)));

        let array = r#"[{"id":1,"when":"2020-01-01T00:00:00Z","tags":["a"]},{"id":2,"more":null},{"id":"#;
        let found = preview(array, false, false).unwrap();
        assert_eq!(
            found["columns"],
            json!([
                {"name": "id", "type": null}, {"name": "when", "type": "Edm.DateTime"}, {"name": "tags", "type": null},
                {"name": "more", "type": null},
            ])
        );
        assert_eq!(
            found["rows"],
            json!([["1", "2020-01-01T00:00:00Z", "[\"a\"]", null], ["2", null, null, null]])
        );
    }

    /// A file says how large its preview may become, and memory for it is taken before.
    #[test]
    fn the_answer_is_small_whatever_the_file_says() {
        let wide = |names: usize| (0..names).map(|n| format!("c{n}")).collect::<Vec<_>>().join(",");
        let long_names: Vec<String> = (0..2000).map(|n| format!("{n}{}", "\u{1}".repeat(250))).collect();
        let controls = vec!["\u{1}".repeat(200); 1000].join(",");
        let ragged = |row: usize| {
            let members = (0..1500).map(|n| format!("\"r{row}_{n}\":1"));
            format!("{{{}}}\n", members.collect::<Vec<_>>().join(","))
        };
        for (text, is_csv) in [
            (format!("{}\n{}\n", wide(20_000), wide(20_000)), true),
            (long_names.join(",") + "\n", true),
            (format!("{}\n{}", wide(1000), format!("{controls}\n").repeat(20)), true),
            ((0..100).map(ragged).collect(), false),
        ] {
            let found = preview(&text, is_csv, true).unwrap();
            let length = found.to_string().len();
            assert!(length < 4 * 1024 * 1024, "{length}");
            assert!(found["columns"].as_array().unwrap().len() <= COLUMNS + 2);
            assert_eq!(found["hasMoreColumns"], !text.starts_with(&(wide(1000) + "\n")));
        }
        let keys = format!("{},RowKey,PartitionKey\n", wide(2000));
        assert_eq!(preview(&keys, true, true).unwrap()["hasKeys"], true);
        let members: Vec<String> = (0..20_001).map(|n| format!("\"{n}\":1")).collect();
        let refused = preview(&format!("[{{{}}}]", members.join(",")), false, true).unwrap_err();
        assert!(refused.contains("the object has more than 20000 members"), "{refused}");
    }

    #[test]
    fn what_is_no_file_of_entities_says_where() {
        for (text, is_csv, says) in [
            ("", true, "The file is empty"),
            ("a,a\n", true, "the header has the column a twice"),
            (
                "{\"a\"\n",
                false,
                "line 2, column 1: the document ends where ':' should stand",
            ),
            (
                "[5, {\"a\":1}]",
                false,
                "line 1, column 2: the character '5' stands where an entity",
            ),
        ] {
            let refused = preview(text, is_csv, true).unwrap_err();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
