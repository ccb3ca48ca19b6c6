//! `table_service.entity`.

use pgrx::prelude::*;
use table_service_model::{Entity, ParsedEntity, Properties, Ticks};

use crate::postgres::types::composite::composite;
use crate::postgres::types::{argument, result, sql_type};
use crate::postgres::{Bag, PropertiesArg, RecordArg, Text, TextArg, Value, catalog};

/// An entity, read in place. Any of its attributes may be NULL.
pub struct EntityArg<'a> {
    partition_key: Option<TextArg<'a>>,
    row_key: Option<TextArg<'a>>,
    timestamp: Option<i64>,
    properties: Option<PropertiesArg<'a>>,
}

sql_type!(EntityArg<'_>, "table_service.entity", ThisExtension);
argument!(EntityArg, datum => {
    // SAFETY: the attributes of an entity have these types. They live as long as the datum.
    unsafe {
        let row = RecordArg::from_datum(datum, false)?.deform();
        let text = |column| row.value(column).and_then(|datum| TextArg::from_datum(datum, false));
        EntityArg {
            partition_key: text(0),
            row_key: text(1),
            timestamp: row.value(2).map(|datum| datum.value() as i64),
            properties: row.value(3).and_then(|datum| PropertiesArg::from_datum(datum, false)),
        }
    }
});

impl<'a> EntityArg<'a> {
    /// Returns whether this is a row of NULLs. An outer join without a match gives such a row or NULL, depending on the
    /// plan, so functions treat both alike.
    pub fn is_null(&self) -> bool {
        self.partition_key.is_none() && self.row_key.is_none() && self.timestamp.is_none() && self.properties.is_none()
    }

    /// Returns the Timestamp in microseconds since 2000-01-01.
    pub fn timestamp(&self) -> Option<i64> {
        self.timestamp
    }

    /// Returns the entity. If its properties are NULL, it has none.
    pub fn get(&self) -> Entity<'a> {
        Entity {
            partition_key: self.partition_key.map(TextArg::get),
            row_key: self.row_key.map(TextArg::get),
            timestamp: self.timestamp.and_then(Ticks::from_postgres_micros),
            properties: self
                .properties
                .map_or(Properties::from_stored(&[]), |properties| properties.get()),
        }
    }
}

/// An entity to return. Without a Timestamp, its attribute `"timestamp"` is NULL.
pub struct EntityOut(pub ParsedEntity);

sql_type!(EntityOut, "table_service.entity", ThisExtension);
result!(EntityOut, this => this.into_datum());

impl EntityOut {
    fn into_datum(self) -> pg_sys::Datum {
        let EntityOut(entity) = self;
        let partition_key = Text::new(&entity.partition_key);
        let row_key = Text::new(&entity.row_key);
        let micros = entity.timestamp.map(Ticks::to_postgres_micros);
        let properties = Bag::new(entity.properties.as_properties());
        composite(
            catalog::entity_type(),
            [
                Some(partition_key.value()),
                Some(row_key.value()),
                micros.map(Value::timestamptz),
                Some(properties.value()),
            ],
        )
    }
}
