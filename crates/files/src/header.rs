//! The entities of rows and objects: those of the service, or those that a mapping makes of others.

use table_service_command_line::printable::said;
use table_service_model::json::ParsedEntity;

use crate::columns::Columns;
use crate::input::{Fault, LineColumn};
use crate::mapping::{Field, Mapping};
use crate::payload::{self, Members};
use crate::row::{BLANK, Row};

/// The header of CSV.
pub enum Header<'m> {
    Entities(Columns),
    /// With the names of the columns.
    Mapped(&'m Mapping, Vec<String>),
}

impl<'m> Header<'m> {
    /// Reads the header.
    ///
    /// # Errors
    /// A column that comes twice; without a mapping, as for [`Columns::of_header`].
    pub fn of(row: &Row, mapping: Option<&'m Mapping>) -> Result<Header<'m>, Fault> {
        Ok(match mapping {
            None => Header::Entities(Columns::of_header(row)?),
            Some(mapping) => Header::Mapped(mapping, row.names()?),
        })
    }

    /// Reads the types in the first row of data.
    pub fn learn(&mut self, first: &Row) {
        if let Header::Entities(columns) = self {
            columns.learn(first);
        }
    }

    /// Returns the entity of a row.
    ///
    /// # Errors
    /// The position and the reason if it is none.
    pub fn entity(&mut self, row: &Row) -> Result<ParsedEntity, (LineColumn, String)> {
        let (mapping, names) = match self {
            Header::Entities(columns) => return columns.entity(row),
            Header::Mapped(mapping, names) => (mapping, names),
        };
        if row.is_blank() {
            return Err((row.position(0), BLANK.to_owned()));
        }
        if row.count() != names.len() {
            let reason = format!("The row has {} fields, but the header {}", row.count(), names.len());
            return Err((row.position(names.len()), reason));
        }
        let field = |(index, name): (usize, &'_ String)| {
            let text = row.field(index);
            text.ok_or_else(|| (row.position(index), format!("The text of {} is not UTF-8", said(name))))
        };
        let texts = names.iter().enumerate().map(field).collect::<Result<Vec<_>, _>>()?;
        let fields: Vec<_> = names
            .iter()
            .map(String::as_str)
            .zip(texts.into_iter().map(Field::Text))
            .collect();
        mapping.entity(&fields).map_err(|reason| (row.position(0), reason))
    }
}

/// Returns the entity of an object.
///
/// # Errors
/// The reason if it is none.
pub fn object(text: &[u8], mapping: Option<&Mapping>) -> Result<ParsedEntity, String> {
    let Some(mapping) = mapping else {
        return payload::entity(text);
    };
    let Members(members) = serde_json::from_slice(text)
        .map_err(|error| format!("It is no object of JSON: {}", said(&error.to_string())))?;
    let fields: Vec<_> = members
        .iter()
        .map(|(name, raw)| (name.as_str(), Field::Json(raw)))
        .collect();
    mapping.entity(&fields)
}
