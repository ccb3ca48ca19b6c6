//! CSV as Azure Storage Explorer has it: the keys, the Timestamp, then for each property a column and one with its type.

use std::collections::{BTreeMap, BTreeSet};

use table_service_model::formula;

/// What stands in the first line: the names of all properties, in the order of the columns, and whether texts are
/// [escaped](formula).
#[derive(Default)]
pub struct Columns {
    names: BTreeSet<String>,
    are_texts_escaped: bool,
}

/// An entity, with its properties as name, type and value.
pub struct Entity {
    pub keys: [String; 2],
    pub timestamp: String,
    pub properties: Vec<[String; 3]>,
}

const STRING: &str = "Edm.String";

/// The most properties with different names, each of which takes two columns. The programs that open such files have 16,384 columns,
/// and each line has a separator for each of them.
pub const MOST_PROPERTIES: usize = 8000;

impl Columns {
    /// Makes room for an entity. `None` if there would be too many columns.
    pub fn add(&mut self, entity: Entity) -> Option<()> {
        self.are_texts_escaped |= has_formula(&entity);
        self.names.extend(entity.properties.into_iter().map(|[name, ..]| name));
        (self.names.len() <= MOST_PROPERTIES).then_some(())
    }

    /// The first line.
    pub fn head(&self) -> String {
        let mut line = "PartitionKey,RowKey,Timestamp".to_owned();
        for name in &self.names {
            line.push(',');
            field(&mut line, name);
            line.push(',');
            field(&mut line, &format!("{name}@type"));
        }
        if self.are_texts_escaped {
            line.push(',');
            line.push_str(formula::COLUMN);
        }
        line.push_str("\r\n");
        line
    }

    /// Appends the line of an entity. `None` if there is no room for it.
    pub fn line(&self, line: &mut String, entity: &Entity) -> Option<()> {
        let by_name: BTreeMap<&str, _> = entity.properties.iter().map(|p| (p[0].as_str(), p)).collect();
        if by_name.keys().any(|name| !self.names.contains(*name)) || has_formula(entity) && !self.are_texts_escaped {
            return None;
        }
        for key in &entity.keys {
            field(line, &formula::escape(key));
            line.push(',');
        }
        line.push_str(&entity.timestamp);
        for name in &self.names {
            line.push(',');
            let Some([_, edm, value]) = by_name.get(name.as_str()) else {
                line.push(',');
                continue;
            };
            match edm.as_str() {
                // An empty text is not a missing one.
                STRING if value.is_empty() => line.push_str("\"\""),
                STRING => field(line, &formula::escape(value)),
                _ => field(line, value),
            }
            line.push(',');
            field(line, edm);
        }
        if self.are_texts_escaped {
            line.push(',');
        }
        line.push_str("\r\n");
        Some(())
    }
}

/// Returns whether a text of the entity has to be escaped.
fn has_formula(entity: &Entity) -> bool {
    let texts = entity
        .properties
        .iter()
        .filter(|[_, edm, _]| edm == STRING)
        .map(|[.., value]| value);
    entity.keys.iter().chain(texts).any(|text| formula::is_escaped(text))
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
    use proptest::prelude::*;

    use super::*;

    fn entity(keys: [&str; 2], properties: &[[&str; 3]]) -> Entity {
        Entity {
            keys: keys.map(str::to_owned),
            timestamp: "T".to_owned(),
            properties: properties.iter().map(|p| p.map(str::to_owned)).collect(),
        }
    }

    fn csv(entities: &[Entity], columns: &Columns) -> Option<String> {
        let mut text = columns.head();
        entities.iter().try_for_each(|entity| columns.line(&mut text, entity))?;
        Some(text)
    }

    #[test]
    fn formulas_and_separators_stay_text() {
        let of = || {
            [
                entity(
                    ["@p", "'q"],
                    &[["A", "Edm.Int32", "-5"], ["B", "Edm.String", "=HYPERLINK(\"x\"),1"]],
                ),
                entity(["p", ""], &[["B", "Edm.String", ""]]),
            ]
        };
        let mut columns = Columns::default();
        of().into_iter().try_for_each(|entity| columns.add(entity)).unwrap();
        assert_eq!(
            csv(&of(), &columns).unwrap(),
            "PartitionKey,RowKey,Timestamp,A,A@type,B,B@type,odata.apostrophes\r\n\
             '@p,''q,T,-5,Edm.Int32,\"'=HYPERLINK(\"\"x\"\"),1\",Edm.String,\r\n\
             p,,T,,,\"\",Edm.String,\r\n"
        );
        assert!(csv(&[entity(["p", "r"], &[["C", "Edm.Int32", "1"]])], &columns).is_none());
    }

    /// The cells of a file, as a spreadsheet with this separator reads them: a quote counts where a cell begins.
    fn cells(text: &str, separator: char) -> Vec<String> {
        let mut cells = vec![String::new()];
        let (mut is_beginning, mut is_quoted) = (true, false);
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '"' if is_quoted && characters.next_if_eq(&'"').is_none() => is_quoted = false,
                '"' if is_beginning => is_quoted = true,
                _ if !is_quoted && (character == separator || matches!(character, '\r' | '\n')) => {
                    cells.push(String::new());
                    is_beginning = true;
                    continue;
                }
                _ => cells.last_mut().unwrap().push(character),
            }
            is_beginning = false;
        }
        cells
    }

    proptest! {
        #[test]
        fn no_spreadsheet_finds_a_formula(texts in proptest::collection::vec("[;,=+@\\-\t\r\n\"'x]{0,8}", 4)) {
            let entities = || {
                let [p, r, a, b] = [0, 1, 2, 3].map(|index| texts[index].as_str());
                [entity([p, r], &[["A", "Edm.String", a], ["B", "Edm.String", b]])]
            };
            let mut columns = Columns::default();
            entities().into_iter().try_for_each(|entity| columns.add(entity)).unwrap();
            let text = csv(&entities(), &columns).unwrap();
            for cell in [',', ';', '\t'].into_iter().flat_map(|separator| cells(&text, separator)) {
                let cell = cell.trim_start_matches(['\t', '\r', '\n']);
                prop_assert!(!cell.starts_with(['=', '+', '-', '@']), "{}: {}", text, cell);
            }
        }
    }

    #[test]
    fn without_formulas_the_file_is_that_of_storage_explorer() {
        let of = |text| {
            [entity(
                ["p", "r"],
                &[["A", "Edm.Int32", "-5"], ["B", "Edm.String", text]],
            )]
        };
        let mut columns = Columns::default();
        of("x-1")
            .into_iter()
            .try_for_each(|entity| columns.add(entity))
            .unwrap();
        assert_eq!(
            csv(&of("x-1"), &columns).unwrap(),
            "PartitionKey,RowKey,Timestamp,A,A@type,B,B@type\r\np,r,T,-5,Edm.Int32,x-1,Edm.String\r\n"
        );
        // One that came after the columns were known.
        assert!(csv(&of("-x"), &columns).is_none());
    }
}
