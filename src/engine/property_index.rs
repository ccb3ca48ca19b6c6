//! Property indexes: which a table has, and their names.

use std::rc::Rc;

use md5::{Digest, Md5};
use table_service_model::Error;

use super::table::{Table, relation_in_data_schema};
use crate::postgres::catalog::PropertyIndex;
use crate::postgres::property_index::of_table;

/// How many names for an index are tried.
const NAMES: u32 = 100;
/// The longest name of a relation, in bytes.
const NAME_BYTES: usize = 63;

/// Returns the property indexes of a table that the caller has locked, also those that are not valid.
pub fn all(table: &Table) -> Rc<[PropertyIndex]> {
    of_table(table.oid())
}

/// Returns an index on a property that queries can use. The caller must have locked the table.
pub fn find(table: &Table, property: &str) -> Option<PropertyIndex> {
    all(table)
        .iter()
        .find(|index| index.is_valid && *index.property == *property)
        .cloned()
}

/// Returns the name for a new index: table and property, cut if they are too long, and numbered if other relations have
/// the name.
///
/// # Errors
/// `ResourceAlreadyExists` if other relations have all the names.
pub fn free_index_name(table: &Table, property: &str) -> Result<String, Error> {
    let full = format!("{}_{property}", table.name().name());
    let suffixes = (0..NAMES).map(|number| match number {
        0 => String::new(),
        _ => format!("_{number}"),
    });
    suffixes
        .map(|suffix| {
            if full.len() + suffix.len() <= NAME_BYTES {
                return format!("{full}{suffix}");
            }
            let hash = format!("_{:x}{suffix}", Md5::digest(&full));
            let mut end = NAME_BYTES - hash.len();
            while !full.is_char_boundary(end) {
                end -= 1;
            }
            format!("{}{hash}", &full[..end])
        })
        .find(|name| relation_in_data_schema(name).is_none())
        .ok_or_else(|| Error::PropertyIndexExists {
            property: property.to_owned(),
        })
}

/// Returns the expression of a property index over the columns of `alias`. `property` is an SQL literal.
pub fn expression(alias: &str, property: &str) -> String {
    format!("table_service.property_index_key({alias}partition_key, {alias}row_key, {alias}properties, {property})")
}
