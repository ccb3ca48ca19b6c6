//! Formats, and how files are named after tables.

use std::path::Path;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use table_service_files::mapping::Mapping;

use crate::created;
use crate::printable::said;

use super::azurite;

/// The file of the service's properties, beside the tables.
pub const SERVICE_FILE: &str = "service-properties.json";
/// The file of a table's access policies is named after the table, with this ending.
pub const POLICIES_ENDING: &str = ".policies.json";

/// How entities stand in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// One entity a line, as JSON with types
    #[default]
    Jsonl,
    /// Columns `Name` and `Name@type`, as Azure Storage Explorer has it
    Csv,
    /// One JSON document with all entities, as AzCopy 7.3 and Azure Storage Explorer export it
    Azcopy,
    /// The database file of the emulator azurite; only to be read
    Azurite,
}

/// A layout, compressed with zstd or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Format {
    pub layout: Layout,
    pub compressed: bool,
}

/// The options for files.
#[derive(Debug, Clone, Args)]
pub struct FileOptions {
    /// The format of files: jsonl, csv or azcopy, with .zst behind it for compressed ones, or azurite for an emulator's
    /// database. Without it, the ending of a file's name says it, and new files are jsonl
    #[arg(long, value_parser = Format::parse)]
    pub format: Option<Format>,

    /// What stands between the fields of CSV: one character, or tab
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter)]
    pub delimiter: u8,
}

/// The options for files that are read.
#[derive(Debug, Clone, Args)]
pub struct ReadOptions {
    /// Give values of CSV without a type the type that all values of their column look like, and say which. Without it
    /// they are Strings
    #[arg(long)]
    pub infer_types: bool,

    /// A JSON file that says which columns or members become the keys and the properties of files without PartitionKey and RowKey, such as
    /// {"partitionKey": {"column": "country"}, "rowKey": {"column": "id"}}
    #[arg(long, value_name = "FILE", value_parser = mapping, conflicts_with = "infer_types")]
    pub mapping: Option<Arc<Mapping>>,

    /// Whose tables are read from an emulator's database file, if it has several accounts
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
}

/// The largest mapping: a line for each column.
const LARGEST_MAPPING: u64 = 4 << 20;

/// Reads the file of a mapping.
///
/// # Errors
/// A file that cannot be read, or is no mapping.
fn mapping(path: &str) -> Result<Arc<Mapping>, String> {
    let text = created::text(Path::new(path), LARGEST_MAPPING).map_err(|error| error.to_string())?;
    let read = serde_json::from_str(&text).map(Arc::new);
    read.map_err(|error| format!("it is no mapping: {}", said(&error.to_string())))
}

/// Reads the delimiter of CSV.
///
/// # Errors
/// The character cannot be between fields.
fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        &[byte] if byte.is_ascii() && !byte.is_ascii_alphanumeric() && !matches!(byte, b'"' | b'\r' | b'\n' | 0) => {
            Ok(byte)
        }
        _ => Err("it is one character of ASCII that is no letter, digit or quote, or tab".to_owned()),
    }
}

impl Format {
    /// Reads `jsonl`, `csv`, `azcopy` or `azurite`, with `.zst` behind it or not.
    ///
    /// # Errors
    /// For any other text.
    pub fn parse(text: &str) -> Result<Format, String> {
        let (name, compressed) = match text.strip_suffix(".zst") {
            Some(name) => (name, true),
            None => (text, false),
        };
        Layout::from_str(name, false)
            .map(|layout| Format { layout, compressed })
            .map_err(|_| "it is jsonl, csv, azcopy or azurite, with .zst behind it or not".to_owned())
    }

    /// The format that the ending of a file's name says.
    pub fn of_path(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let (name, compressed) = match name.strip_suffix(".zst") {
            Some(name) => (name, true),
            None => (name.as_str(), false),
        };
        let layout = match name.rsplit_once('.')?.1 {
            _ if name == azurite::FILE => Layout::Azurite,
            "jsonl" | "ndjson" => Layout::Jsonl,
            "csv" => Layout::Csv,
            "json" => Layout::Azcopy,
            _ => return None,
        };
        Some(Format { layout, compressed })
    }

    /// The ending of the files that the program writes.
    pub fn ending(self) -> &'static str {
        match (self.layout, self.compressed) {
            (Layout::Jsonl, false) => "jsonl",
            (Layout::Jsonl, true) => "jsonl.zst",
            (Layout::Csv, false) => "csv",
            (Layout::Csv, true) => "csv.zst",
            (Layout::Azcopy | Layout::Azurite, false) => "json",
            (Layout::Azcopy | Layout::Azurite, true) => "json.zst",
        }
    }
}

/// The table that a file is named after. AzCopy names its files `account_table_time_volume_checksum.json`.
pub fn table_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let format = Format::of_path(path)?;
    let stem = name.split('.').next()?;
    if format.layout == Layout::Azurite {
        return None;
    }
    if format.layout == Layout::Azcopy && stem.contains('_') {
        // The time has a fraction, so this stem ends within it.
        let mut parts = stem.split('_').skip(1);
        return parts.next().filter(|part| !part.is_empty()).map(str::to_owned);
    }
    (!stem.is_empty()).then(|| stem.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters() {
        assert_eq!(delimiter(";"), Ok(b';'));
        assert_eq!(delimiter("tab"), Ok(b'\t'));
        assert_eq!(delimiter("\t"), Ok(b'\t'));
        for text in ["", "\"", "\n", "a", "ab", "\u{a7}"] {
            assert!(delimiter(text).is_err(), "{text}");
        }
    }

    #[test]
    fn files_are_named_after_tables() {
        for (file, table, ending) in [
            ("dir/Orders.jsonl", "Orders", "jsonl"),
            ("Orders.JSONL.zst", "Orders", "jsonl.zst"),
            ("Orders.csv", "Orders", "csv"),
            ("Orders.json", "Orders", "json"),
            (
                "mycompany_Orders_20140103T112020.9090000Z_0_6E84E4FFB9D63C9D.json",
                "Orders",
                "json",
            ),
        ] {
            let path = Path::new(file);
            assert_eq!(table_of(path).as_deref(), Some(table), "{file}");
            assert_eq!(Format::of_path(path).map(Format::ending), Some(ending), "{file}");
        }
        let database = Path::new("x/__azurite_db_table__.json");
        assert_eq!(
            Format::of_path(database).map(|format| format.layout),
            Some(Layout::Azurite)
        );
        for file in ["Orders", "x.manifest", ".jsonl", "x.zst", "__azurite_db_table__.json"] {
            assert_eq!(table_of(Path::new(file)), None, "{file}");
        }
    }
}
