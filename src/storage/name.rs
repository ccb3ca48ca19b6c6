//! Names of relations.

use std::fmt;
use std::rc::Rc;

use pgrx::spi::quote_identifier;

use crate::postgres::catalog;

/// The name of a relation in the schema of the tables of the service.
#[derive(Debug, Clone)]
pub struct QualifiedName(Rc<str>);

impl QualifiedName {
    /// Makes the name of a relation from its stored name.
    pub fn new(name: Rc<str>) -> QualifiedName {
        QualifiedName(name)
    }

    /// Returns the name as it is stored, without the schema.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// Writes the schema and the name, quoted for SQL.
impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", catalog::DATA_SCHEMA, quote_identifier(&*self.0))
    }
}
