//! Rows of CSV with the columns `PartitionKey`, `RowKey`, `Timestamp`, `Name` and `Name@type`, as Azure Storage Explorer
//! writes and reads them. A property that an entity lacks has neither value nor type.
//!
//! A release of Storage Explorer writes types only into the first row of data, and can write none at all. In files that
//! the explorer of 0.3 has exported, texts may be [escaped](formula::ESCAPED).

use std::borrow::Cow;
use std::collections::HashMap;

use table_service_command_line::printable::said;
use table_service_model::edm::{EdmType, Value, parse_binary, parse_boolean, parse_double, parse_guid};
use table_service_model::json::ParsedEntity;
use table_service_model::key::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use table_service_model::{PropertiesBuilder, Ticks};

use crate::guess::Guess;
use crate::input::{Fault, LineColumn};
use crate::row::{BLANK, Row};
use crate::{TYPE, formula, reason};

/// The columns of a file, by their index.
pub struct Columns {
    count: usize,
    partition_key: usize,
    row_key: usize,
    timestamp: Option<usize>,
    properties: Vec<Column>,
    /// Columns without a name, as spreadsheets write them behind the others.
    nameless: Vec<usize>,
    has_escaped_texts: bool,
    /// Values without a type of their own: whether one had the type of the first row, and whether one had none.
    by_first_row: bool,
    untyped: bool,
    inferred: bool,
}

struct Column {
    name: String,
    value: usize,
    edm: Option<usize>,
    /// The type of the first row of data, which values without a type have.
    first: Option<EdmType>,
    /// The type that all values fit.
    inferred: Option<EdmType>,
}

impl Columns {
    /// Reads the header.
    ///
    /// # Errors
    /// A missing column of a key, a column that comes twice, a type without its value.
    pub fn of_header(header: &Row) -> Result<Columns, Fault> {
        let names = header.names()?;
        let indexes: HashMap<&str, usize> = names
            .iter()
            .enumerate()
            .map(|(index, name)| (name.as_str(), index))
            .collect();
        let required = |name: &str| {
            indexes.get(name).copied().ok_or_else(|| {
                let reason = format!(
                    "the header has no column {name}. If another delimiter is between them, table-service-copy takes it with --delimiter. \
                     If other columns are the keys, it takes a mapping with --mapping"
                );
                header.position(0).fault(reason)
            })
        };
        let mut columns = Columns {
            count: header.count(),
            partition_key: required(PARTITION_KEY)?,
            row_key: required(ROW_KEY)?,
            timestamp: indexes.get(TIMESTAMP).copied(),
            properties: Vec::new(),
            nameless: Vec::new(),
            has_escaped_texts: indexes.contains_key(formula::ESCAPED),
            by_first_row: false,
            untyped: false,
            inferred: false,
        };
        for (index, name) in names.iter().enumerate() {
            let name = name.as_str();
            if name.is_empty() {
                columns.nameless.push(index);
                continue;
            }
            if let Some(property) = name.strip_suffix(TYPE) {
                if !indexes.contains_key(property) {
                    let reason = format!(
                        "the header has the column {}, but not the one of its values",
                        said(name)
                    );
                    return Err(header.position(index).fault(reason));
                }
                continue;
            }
            // As in JSON.
            if [PARTITION_KEY, ROW_KEY, TIMESTAMP].contains(&name) || name.starts_with("odata.") {
                continue;
            }
            columns.properties.push(Column {
                name: name.to_owned(),
                value: index,
                edm: indexes.get(format!("{name}{TYPE}").as_str()).copied(),
                first: None,
                inferred: None,
            });
        }
        Ok(columns)
    }

    /// Reads the types in the first row of data.
    pub fn learn(&mut self, first: &Row) {
        for column in &mut self.properties {
            let named = column.edm.and_then(|index| first.field(index));
            column.first = named.and_then(edm_type);
        }
    }

    /// Notes values without a type in the guess of their column.
    pub fn see(&self, row: &Row, guesses: &mut Vec<Guess>) {
        guesses.resize(self.properties.len(), Guess::default());
        for (column, guess) in self.properties.iter().zip(guesses) {
            let typed = column.edm.is_some_and(|index| row.field(index) != Some(""));
            if let (false, None, Some(text)) = (typed, column.first, row.field(column.value)) {
                guess.see(text);
            }
        }
    }

    /// Gives values without a type the one of their guess.
    pub fn infer(&mut self, guesses: &[Guess]) {
        self.inferred = true;
        for (column, guess) in self.properties.iter_mut().zip(guesses) {
            column.inferred = guess.edm_type();
        }
    }

    /// Returns notes on the types for the user, once the rows are read.
    pub fn notes(&self) -> Vec<String> {
        const SHOWN: usize = 40;
        let mut notes = Vec::new();
        if self.inferred {
            let mut texts: Vec<String> = self
                .properties
                .iter()
                .filter_map(|column| Some(format!("{} is {}", said(&column.name), column.inferred?.name())))
                .collect();
            let more = match texts.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            texts.truncate(SHOWN);
            if !texts.is_empty() {
                notes.push(format!("types told from the values: {}{more}", texts.join(", ")));
            }
        }
        if self.by_first_row {
            notes.push(
                "values without a type have the type that the first row of data gives to their column".to_owned(),
            );
        }
        if self.untyped {
            notes.push(
                "values without a type are Strings; with --infer-types they get the type that all values of their \
                 column look like"
                    .to_owned(),
            );
        }
        notes
    }

    /// Returns the entity of a row.
    ///
    /// # Errors
    /// The position and the reason if it is none.
    pub fn entity(&mut self, row: &Row) -> Result<ParsedEntity, (LineColumn, String)> {
        if row.is_blank() {
            return Err((row.position(0), BLANK.to_owned()));
        }
        if row.count() != self.count {
            let reason = format!("The row has {} fields, but the header {}", row.count(), self.count);
            return Err((row.position(self.count), reason));
        }
        if let Some(&index) = self.nameless.iter().find(|&&index| row.field(index) != Some("")) {
            return Err((
                row.position(index),
                "The header has no name for the column of this value".to_owned(),
            ));
        }
        let field = |index: usize| {
            let text = row.field(index);
            text.ok_or_else(|| (row.position(index), "The text is not UTF-8".to_owned()))
        };
        let plain = |text| match self.has_escaped_texts {
            true => Cow::Owned(formula::unescape(text)),
            false => Cow::Borrowed(text),
        };
        let mut builder = PropertiesBuilder::with_capacity(self.properties.len().min(256));
        for column in &self.properties {
            let text = field(column.value)?;
            let named = column.edm.map(field).transpose()?.unwrap_or_default();
            let edm = match named {
                "" | "Null" | "Edm.Null" if text.is_empty() => continue,
                "" => {
                    // The end of a row that is cut short here looks like a type that is not given.
                    let ends = column.edm == self.count.checked_sub(1) && !row.has_line_end;
                    if ends {
                        let reason = format!(
                            "The file ends where the type of \"{}\" should stand",
                            said(&column.name)
                        );
                        return Err((row.position(self.count), reason));
                    }
                    self.by_first_row |= column.first.is_some();
                    self.untyped |= column.first.is_none() && !self.inferred;
                    column.first.or(column.inferred).unwrap_or(EdmType::String)
                }
                given => edm_type(given).ok_or_else(|| {
                    let reason = format!("\"{}\" has the unknown type {}", said(&column.name), said(given));
                    (row.position(column.edm.unwrap_or_default()), reason)
                })?,
            };
            let text = match edm {
                EdmType::String => plain(text),
                _ => Cow::Borrowed(text),
            };
            push(&mut builder, &column.name, edm, &text).map_err(|reason| (row.position(column.value), reason))?;
        }
        let timestamp = match self.timestamp {
            Some(index) => match field(index)? {
                "" => None,
                text => Some(
                    Ticks::parse(text)
                        .ok_or_else(|| (row.position(index), format!("{TIMESTAMP} is no time: {}", said(text))))?,
                ),
            },
            None => None,
        };
        Ok(ParsedEntity {
            partition_key: plain(field(self.partition_key)?).into_owned(),
            row_key: plain(field(self.row_key)?).into_owned(),
            timestamp,
            properties: builder.finish().map_err(|error| (row.position(0), reason(&error)))?,
        })
    }
}

/// `Edm.Int32`, or `Int32` as some versions write it.
pub fn edm_type(name: &str) -> Option<EdmType> {
    EdmType::from_name(name).or_else(|| EdmType::from_name(&format!("Edm.{name}")))
}

fn push<'n>(builder: &mut PropertiesBuilder<'n>, name: &'n str, edm: EdmType, text: &str) -> Result<(), String> {
    let bytes;
    let value = match edm {
        EdmType::String => Some(Value::String(text)),
        EdmType::Int32 => text.parse().ok().map(Value::Int32),
        EdmType::Int64 => text.parse().ok().map(Value::Int64),
        EdmType::Double => parse_double(text).map(Value::Double),
        EdmType::Boolean => parse_boolean(text).map(Value::Boolean),
        EdmType::DateTime => Ticks::parse(text).map(Value::DateTime),
        EdmType::Guid => parse_guid(text).map(Value::Guid),
        EdmType::Binary => {
            bytes = parse_binary(text);
            bytes.as_deref().map(Value::Binary)
        }
    };
    let value = value.ok_or_else(|| format!("The value of \"{}\" is no {}", said(name), edm.name()))?;
    builder.push(Cow::Borrowed(name), value).map_err(|error| reason(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Input;

    /// Entities, or why they are none, and notes.
    type Found = (Vec<Result<String, String>>, Vec<String>);

    fn read(text: &str, infer: bool) -> Result<Found, String> {
        let rows = |columns: &mut Option<Columns>, each: &mut dyn FnMut(&mut Columns, &Row)| {
            let mut input = Input::new(text.as_bytes()).unwrap();
            let mut row = Row::default();
            row.read(&mut input, b',').unwrap();
            if columns.is_none() {
                *columns = Some(Columns::of_header(&row).map_err(|fault| fault.to_string())?);
            }
            let columns = columns.as_mut().unwrap();
            let mut first = true;
            while row.read(&mut input, b',').unwrap() {
                if std::mem::take(&mut first) {
                    columns.learn(&row);
                }
                each(columns, &row);
            }
            Ok::<(), String>(())
        };
        let mut columns = None;
        if infer {
            let mut guesses = Vec::new();
            rows(&mut columns, &mut |columns, row| columns.see(row, &mut guesses))?;
            columns.as_mut().unwrap().infer(&guesses);
        }
        let mut all = Vec::new();
        rows(&mut columns, &mut |columns, row| {
            let entity = columns.entity(row);
            all.push(
                entity
                    .map(|entity| entity.to_json())
                    .map_err(|(position, reason)| format!("{position}: {reason}")),
            );
        })?;
        Ok((all, columns.unwrap().notes()))
    }

    fn entities(text: &str, infer: bool) -> Vec<String> {
        read(text, infer).unwrap().0.into_iter().map(Result::unwrap).collect()
    }

    #[test]
    fn rows_have_the_types_of_their_columns() {
        let text = "PartitionKey,RowKey,Timestamp,S,S@type,N,N@type,P,odata.etag\r\n\
                    p,\"r,\"\"1\",2020-01-01T00:00:00.1234567Z,,Edm.String,12,Edm.Int64,x,W/1\r\n\
                    p,r2,,,,,,,\r\n";
        assert_eq!(
            entities(text, false),
            [
                r#"{"PartitionKey":"p","RowKey":"r,\"1","Timestamp":"2020-01-01T00:00:00.1234567Z","N@odata.type":"Edm.Int64","N":"12","P":"x","S":""}"#,
                r#"{"PartitionKey":"p","RowKey":"r2"}"#,
            ]
        );
    }

    #[test]
    fn types_may_stand_in_the_first_row_only() {
        let text = "PartitionKey,RowKey,A,A@type,B,B@type\np,1,2,Int32,,String\np,2,4,,x,\np,3,,,,\np,4,7,Int64,,\n";
        let (records, notes) = read(text, true).unwrap();
        let records: Vec<String> = records.into_iter().map(Result::unwrap).collect();
        assert_eq!(
            records,
            [
                r#"{"PartitionKey":"p","RowKey":"1","A":2,"B":""}"#,
                r#"{"PartitionKey":"p","RowKey":"2","A":4,"B":"x"}"#,
                r#"{"PartitionKey":"p","RowKey":"3"}"#,
                r#"{"PartitionKey":"p","RowKey":"4","A@odata.type":"Edm.Int64","A":"7"}"#,
            ]
        );
        assert_eq!(notes.len(), 1, "{notes:?}");
        let wrong = "PartitionKey,RowKey,A,A@type\np,1,2,Int32\np,2,x,\n";
        assert!(
            read(wrong, false).unwrap().0[1]
                .as_ref()
                .unwrap_err()
                .contains("line 3, column 5")
        );
    }

    #[test]
    fn without_types_all_is_text_unless_types_are_inferred() {
        let text = "PartitionKey,RowKey,A,B,B@type\np,1,2,true,\np,2,,false,\np,3,-7,,\n";
        let (records, notes) = read(text, false).unwrap();
        assert_eq!(
            records[0].as_ref().unwrap(),
            r#"{"PartitionKey":"p","RowKey":"1","A":"2","B":"true"}"#
        );
        assert!(notes.len() == 1 && notes[0].contains("are Strings"), "{notes:?}");
        let (records, notes) = read(text, true).unwrap();
        assert_eq!(
            records[0].as_ref().unwrap(),
            r#"{"PartitionKey":"p","RowKey":"1","A":2,"B":true}"#
        );
        assert_eq!(notes, ["types told from the values: A is Edm.Int32, B is Edm.Boolean"]);
    }

    #[test]
    fn apostrophes_before_formulas_go_only_where_the_file_says_so() {
        let texts = |more: &str, end: &str| {
            format!(
                "PartitionKey,RowKey,S,S@type,N,N@type{more}\n'=p,''r,'@s;'=1,Edm.String,-1,Edm.Int32{end}\n'p,r,'s,,,{end}\n"
            )
        };
        assert_eq!(
            entities(&texts(",odata.apostrophes", ","), false),
            [
                r#"{"PartitionKey":"=p","RowKey":"'r","N":-1,"S":"@s;=1"}"#,
                r#"{"PartitionKey":"'p","RowKey":"r","S":"'s"}"#,
            ]
        );
        // A file of Storage Explorer.
        assert_eq!(
            entities(&texts("", ""), false),
            [
                r#"{"PartitionKey":"'=p","RowKey":"''r","N":-1,"S":"'@s;'=1"}"#,
                r#"{"PartitionKey":"'p","RowKey":"r","S":"'s"}"#,
            ]
        );
    }

    #[test]
    fn bad_headers_and_rows_say_why_and_where() {
        for (text, says) in [
            (
                "PartitionKey,X\np,1\n",
                "line 1, column 1: the header has no column RowKey",
            ),
            ("PartitionKey;RowKey\np;1\n", "--delimiter"),
            (
                "PartitionKey,RowKey,A,A\n",
                "line 1, column 23: the header has the column A twice",
            ),
            (
                "PartitionKey,RowKey,A@type\n",
                "column 21: the header has the column A@type",
            ),
        ] {
            let fault = read(text, false).err().unwrap();
            assert!(fault.contains(says), "{text}: {fault}");
        }
        let text = "PartitionKey,RowKey,A,A@type\np,r,x,Edm.Int32\np,r,x,Edm.Decimal\np,r,x\np,r,x,,\np,r,x,";
        let (rows, _) = read(text, false).unwrap();
        for (row, says) in rows.iter().zip([
            "line 2, column 5: The value of \"A\" is no Edm.Int32",
            "line 3, column 7: \"A\" has the unknown type Edm.Decimal",
            "line 4, column 6: The row has 3 fields, but the header 4",
            "line 5, column 8: The row has 5 fields, but the header 4",
            "line 6, column 7: The file ends where the type of \"A\" should stand",
        ]) {
            assert_eq!(row.as_ref().unwrap_err(), says);
        }
    }
}
