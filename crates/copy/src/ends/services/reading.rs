//! Bodies of answers of each kind, for the fuzz targets: it does all that the program does with a body.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::records::Record;

use super::answers::{EntityKeys, Page, TableName, error_in};
use super::batch;
use super::documents::{policies_from_xml, properties_from_xml};

/// The kind of an answer.
#[derive(Debug, Clone, Copy)]
pub enum AnswerKind {
    Entities,
    Keys,
    Tables,
    Batch,
    Policies,
    Properties,
    /// An error of any call.
    Error,
}

/// Returns how many entities, keys, tables, changes or policies are in a body, and how long an error's code and message are.
///
/// # Errors
/// The fault of the answer, or the service's code and message in it.
pub fn read(kind: AnswerKind, body: &[u8]) -> Result<usize, String> {
    fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
        serde_json::from_slice(body).map_err(|error| error.to_string())
    }
    let text = || std::str::from_utf8(body).map_err(|error| error.to_string());
    match kind {
        AnswerKind::Entities => {
            let page: Page<&RawValue> = parse(body)?;
            let entities = page.value.0.iter().filter(|raw| Record::from_json(raw.get()).is_ok());
            Ok(entities.count())
        }
        AnswerKind::Keys => parse(body).map(|page: Page<EntityKeys>| page.value.0.len()),
        AnswerKind::Tables => parse(body).map(|page: Page<TableName>| page.value.0.len()),
        AnswerKind::Batch => batch::parts(body).map_err(|error| error.text()),
        AnswerKind::Policies => policies_from_xml(text()?).map(|json| json.matches("\"Id\":").count()),
        AnswerKind::Properties => properties_from_xml(text()?).map(|_| 1),
        AnswerKind::Error => {
            let (code, message) = error_in(body);
            Ok(code.unwrap_or_default().len() + message.len())
        }
    }
}
