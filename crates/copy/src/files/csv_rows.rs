//! Rows of CSV with the columns `PartitionKey`, `RowKey`, `Timestamp`, `Name` and `Name@type`, as Azure Storage Explorer
//! writes and reads them. A property that an entity lacks has neither value nor type.

use std::borrow::Cow;

use csv::StringRecord;
use table_service_model::edm::{EdmType, Value, parse_binary, parse_boolean, parse_double, parse_guid};
use table_service_model::key::{PARTITION_KEY, ROW_KEY, TIMESTAMP};
use table_service_model::{PropertiesBuilder, Ticks};

use crate::record::{Record, reason};

const TYPE: &str = "@type";

/// Where the columns of a table stand.
pub struct Columns {
    partition_key: usize,
    row_key: usize,
    timestamp: Option<usize>,
    /// Name, column of the value, column of the type.
    properties: Vec<(String, usize, Option<usize>)>,
}

impl Columns {
    /// Reads the header.
    ///
    /// # Errors
    /// A missing column of a key, a column that stands there twice.
    pub fn of_header(header: &StringRecord) -> Result<Columns, String> {
        let place = |name: &str| header.iter().position(|column| trimmed(column) == name);
        let required = |name: &str| place(name).ok_or_else(|| format!("the header has no column {name}"));
        let mut properties = Vec::new();
        for (index, column) in header.iter().enumerate() {
            let column = trimmed(column);
            if place(column) != Some(index) {
                return Err(format!("the header has the column {column} twice"));
            }
            if [PARTITION_KEY, ROW_KEY, TIMESTAMP].contains(&column) || column.ends_with(TYPE) {
                continue;
            }
            properties.push((column.to_owned(), index, place(&format!("{column}{TYPE}"))));
        }
        Ok(Columns {
            partition_key: required(PARTITION_KEY)?,
            row_key: required(ROW_KEY)?,
            timestamp: place(TIMESTAMP),
            properties,
        })
    }

    /// The entity of a row.
    ///
    /// # Errors
    /// Why it is no entity.
    pub fn record(&self, row: &StringRecord) -> Result<Record, String> {
        let field = |index: usize| row.get(index).unwrap_or_default();
        let mut builder = PropertiesBuilder::with_capacity(self.properties.len());
        for (name, value, edm) in &self.properties {
            let text = field(*value);
            let edm = match edm.map(field).unwrap_or_default() {
                "" | "Null" if text.is_empty() => continue,
                "" => EdmType::String,
                given => edm_type(given).ok_or_else(|| format!("\"{name}\" has the unknown type {given}"))?,
            };
            push(&mut builder, name, edm, text)?;
        }
        let timestamp = match self.timestamp.map(field).unwrap_or_default() {
            "" => None,
            text => Some(Ticks::parse(text).ok_or_else(|| format!("{TIMESTAMP} is no time: {text}"))?),
        };
        Ok(Record {
            partition_key: field(self.partition_key).to_owned(),
            row_key: field(self.row_key).to_owned(),
            timestamp,
            properties: builder.finish().map_err(|error| reason(&error))?,
        })
    }
}

/// Spreadsheets write a byte order mark before the first column.
fn trimmed(column: &str) -> &str {
    column.trim_start_matches('\u{feff}').trim()
}

/// `Edm.Int32`, or `Int32` as some versions write it.
fn edm_type(name: &str) -> Option<EdmType> {
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
    let value = value.ok_or_else(|| format!("The value of \"{name}\" is no {}", edm.name()))?;
    builder.push(Cow::Borrowed(name), value).map_err(|error| reason(&error))
}

/// The header of a table whose entities have these properties.
pub fn header<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut header: Vec<String> = [PARTITION_KEY, ROW_KEY, TIMESTAMP].map(str::to_owned).to_vec();
    for name in names {
        header.push(name.to_owned());
        header.push(format!("{name}{TYPE}"));
    }
    header
}

/// The row of an entity.
pub fn row<'n>(record: &Record, names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut row = vec![
        record.partition_key.clone(),
        record.row_key.clone(),
        record.timestamp.map(|time| time.to_string()).unwrap_or_default(),
    ];
    let properties = record.properties.as_properties();
    for name in names {
        match properties.get(name) {
            Some(value) => {
                row.push(value.text());
                row.push(value.edm_type().name().to_owned());
            }
            None => row.extend([String::new(), String::new()]),
        }
    }
    row
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn records(text: &str) -> Result<Vec<Result<Record, String>>, String> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
        let columns = Columns::of_header(reader.headers().unwrap())?;
        Ok(reader.records().map(|row| columns.record(&row.unwrap())).collect())
    }

    #[test]
    fn rows_have_the_types_of_their_columns() {
        let text = "\u{feff}PartitionKey,RowKey,Timestamp,S,S@type,N,N@type,P\r\n\
                    p,\"r,\"\"1\",2020-01-01T00:00:00.1234567Z,,Edm.String,12,Edm.Int64,x\r\n\
                    p,r2,,,,,,\r\n";
        let read: Vec<String> = records(text).unwrap().into_iter().map(|r| r.unwrap().json()).collect();
        assert_eq!(
            read,
            [
                r#"{"PartitionKey":"p","RowKey":"r,\"1","Timestamp":"2020-01-01T00:00:00.1234567Z","N@odata.type":"Edm.Int64","N":"12","P":"x","S":""}"#,
                r#"{"PartitionKey":"p","RowKey":"r2"}"#,
            ]
        );
    }

    #[test]
    fn bad_headers_and_rows_say_why() {
        assert!(records("PartitionKey,X\np,1\n").unwrap_err().contains("RowKey"));
        assert!(records("PartitionKey,RowKey,A,A\n").unwrap_err().contains("twice"));
        let rows = records("PartitionKey,RowKey,A,A@type\np,r,x,Edm.Int32\np,r,x,Edm.Decimal\n").unwrap();
        assert!(rows.iter().all(Result::is_err));
    }
}
