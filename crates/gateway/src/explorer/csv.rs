//! CSV as Azure Storage Explorer has it: the keys, the Timestamp, then for each property a column and one with its type.

use std::collections::BTreeMap;

/// The names of all properties, in the order of the columns.
#[derive(Default)]
pub struct Columns(BTreeMap<String, ()>);

/// An entity's property: name, type, value.
pub type Property = (String, String, String);

impl Columns {
    pub fn add(&mut self, name: String) {
        self.0.insert(name, ());
    }

    /// The first line.
    pub fn head(&self) -> String {
        let mut line = "PartitionKey,RowKey,Timestamp".to_owned();
        for name in self.0.keys() {
            line.push(',');
            field(&mut line, name);
            line.push(',');
            field(&mut line, &format!("{name}@type"));
        }
        line.push_str("\r\n");
        line
    }

    /// Appends the line of an entity. `None` if it has a property without a column.
    pub fn line(&self, line: &mut String, keys: [&str; 2], timestamp: &str, properties: &[Property]) -> Option<()> {
        let by_name: BTreeMap<&str, &Property> = properties.iter().map(|p| (p.0.as_str(), p)).collect();
        if by_name.keys().any(|name| !self.0.contains_key(*name)) {
            return None;
        }
        for key in keys {
            field(line, &harmless(key));
            line.push(',');
        }
        line.push_str(timestamp);
        for name in self.0.keys() {
            line.push(',');
            let Some((_, edm, value)) = by_name.get(name.as_str()) else {
                line.push(',');
                continue;
            };
            match edm.as_str() {
                // An empty text is not a missing one.
                "Edm.String" if value.is_empty() => line.push_str("\"\""),
                "Edm.String" => field(line, &harmless(value)),
                _ => field(line, value),
            }
            line.push(',');
            field(line, edm);
        }
        line.push_str("\r\n");
        Some(())
    }
}

/// A text that no spreadsheet takes for a formula: one that begins like it gets an apostrophe. So does one that begins with an
/// apostrophe, so that the page can take it away again.
fn harmless(text: &str) -> String {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r', '\'']) {
        true => format!("'{text}"),
        false => text.to_owned(),
    }
}

fn field(line: &mut String, text: &str) {
    if text.contains([',', '"', '\r', '\n']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_and_separators_stay_text() {
        let mut columns = Columns::default();
        columns.add("B".to_owned());
        columns.add("A".to_owned());
        assert_eq!(columns.head(), "PartitionKey,RowKey,Timestamp,A,A@type,B,B@type\r\n");
        let property = |name: &str, edm: &str, value: &str| (name.to_owned(), edm.to_owned(), value.to_owned());
        let mut line = String::new();
        let properties = [
            property("A", "Edm.Int32", "-5"),
            property("B", "Edm.String", "=HYPERLINK(\"x\"),1"),
        ];
        columns.line(&mut line, ["@p", "'q"], "T", &properties).unwrap();
        assert_eq!(
            line,
            "'@p,''q,T,-5,Edm.Int32,\"'=HYPERLINK(\"\"x\"\"),1\",Edm.String\r\n"
        );
        line.clear();
        columns
            .line(&mut line, ["p", ""], "T", &[property("A", "Edm.String", "")])
            .unwrap();
        assert_eq!(line, "p,,T,\"\",Edm.String,,\r\n");
        assert!(
            columns
                .line(&mut line, ["p", "r"], "T", &[property("C", "Edm.Int32", "1")])
                .is_none()
        );
    }
}
