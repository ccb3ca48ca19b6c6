//! Inserts entities.

use std::ffi::c_int;

use pgrx::prelude::*;
use table_service_model::{Error, Properties};

use super::eligibility::{Access, has_only_our_check, is_changeable_after_insert, is_whole};
use super::index_entries::{WrittenIndexes, check, new_version};
use crate::postgres::guarded::guarded;
use crate::postgres::relation::is_locked_to_write;
use crate::postgres::{
    Bag, OpenTable, PropertiesArg, Text, TextArg, Varlenas, caught, connect, has_sqlstate, new_context, rethrow,
};
use crate::storage::arguments::EntityKeys;
use crate::storage::contract;
use crate::storage::placement::Written;
use crate::storage::statement::{Kind, Statement};
use crate::storage::table::Table;

/// A table opened to insert entities.
pub struct Inserter<'t> {
    indexes: WrittenIndexes,
    relation: OpenTable,
    table: &'t Table,
}

impl<'t> Inserter<'t> {
    /// Opens a table that the caller has locked, to insert entities of a partition. Returns `None` if only a statement can do the work.
    pub fn open(table: &'t Table, partition_key: TextArg<'_>, written: Written) -> Option<Inserter<'t>> {
        const ACCESS: Access = Access {
            rights: pg_sys::ACL_INSERT,
            is_plain: |relation, own| {
                is_whole(relation) && has_only_our_check(relation, own) && is_changeable_after_insert(relation)
            },
            statement: |keys, bag| Statement::of_entity(Kind::Insert, keys, 0, bag),
            node: pg_sys::NodeTag::T_ModifyTable,
        };
        let relation = ACCESS.open(table, || table.relation_to_write(partition_key, written))?;
        let indexes = WrittenIndexes::open(relation.get())?;
        Some(Inserter {
            indexes,
            relation,
            table,
        })
    }

    /// Inserts an entity.
    ///
    /// # Errors
    /// `EntityAlreadyExists`, and the errors of the CHECK constraint.
    pub fn insert(&self, keys: EntityKeys<'_>, clock: i64, properties: PropertiesArg<'_>) -> Result<(), Error> {
        check(keys, clock, properties.get())?;
        // SAFETY: the relation and its index are open and locked, and the values have the types of the columns. The
        // table is plain (`ACCESS`), so an INSERT statement would do no more than this.
        let insert = || unsafe {
            let values = [
                keys.partition_key.datum(),
                keys.row_key.datum(),
                clock.into(),
                properties.datum(),
            ];
            let slot = new_version(self.relation.get().descriptor(), values);
            pg_sys::simple_table_tuple_insert(self.relation.get().as_ptr(), slot);
            self.indexes.add(self.relation.get(), &[slot], false);
            pg_sys::ExecDropSingleTupleTableSlot(slot);
            pg_sys::CommandCounterIncrement();
            Ok(())
        };
        caught(insert).unwrap_or_else(
            |error| match has_sqlstate(&error, &[PgSqlErrorCode::ERRCODE_UNIQUE_VIOLATION]) {
                true => Err(Error::EntityAlreadyExists),
                false => rethrow(error),
            },
        )
    }

    /// Inserts the first of many entities by a statement, and returns the others. Returns `None` if they may not be
    /// inserted directly.
    fn insert_first<'e, 'p>(
        &self,
        partition_key: TextArg<'_>,
        entities: &'e [(&'p str, Properties<'p>)],
        clock: i64,
    ) -> Option<&'e [(&'p str, Properties<'p>)]> {
        let (&(row_key, properties), rest) = entities.split_first()?;
        let (row_key, bag) = (Text::new(row_key), Bag::new(properties));
        let keys = EntityKeys {
            partition_key,
            row_key: row_key.arg(),
        };
        let statement = Statement::of_entity(Kind::Insert, keys, clock, bag.arg());
        let inserted = connect(|spi| spi.run(self.table.name(), &statement).processed());
        // If Citus has written here in this session, it has the locks that keep the shard from moving, and runs all further
        // statements of this transaction on the shard in this session.
        let relation = self.relation.get();
        let is_here = || self.table.relation_to_write(partition_key, Written::Many) == Some(relation.oid());
        (inserted == 1 && is_locked_to_write(relation) && is_here()).then_some(rest)
    }

    /// Inserts entities that are in key order, and fills page after page. Returns `None` if one of them is not valid.
    ///
    /// Raises 23505 for the first existing key, in key order. Call it in a subtransaction.
    pub fn insert_many(
        &self,
        partition_key: TextArg<'_>,
        entities: &[(&str, Properties<'_>)],
        clock: i64,
    ) -> Option<()> {
        for &(row_key, properties) in entities {
            contract::check(partition_key.get(), row_key, clock, properties).ok()?;
        }
        let entities = match self.table.entities_stay() {
            true => entities,
            false => self.insert_first(partition_key, entities, clock)?,
        };
        let values = Varlenas::new(
            entities
                .iter()
                .flat_map(|(row_key, properties)| [row_key.as_bytes(), properties.as_bytes()]),
        );
        let mut slots = Vec::new();
        slots.reserve(entities.len());
        // SAFETY: the relation is open and locked, and the table is plain. The table access method gets the arguments
        // that COPY gives it: the slots and their number. Each slot has values of the columns' types. `values` and
        // `slots` live until the end of the block. The slots and what the access method allocates are freed with the
        // context: virtual slots hold nothing but memory, and a copied descriptor is not counted.
        unsafe {
            let relation = self.relation.get().as_ptr();
            let multi_insert = (*(*relation).rd_tableam).multi_insert?;
            let context = new_context(c"table_service batch");
            let caller = pg_sys::MemoryContextSwitchTo(context);
            // A hundred references to the table's own descriptor cost more than the copy.
            let descriptor = pg_sys::CreateTupleDescCopy(self.relation.get().descriptor());
            let mut datums = values.datums();
            while let (Some(row_key), Some(properties)) = (datums.next(), datums.next()) {
                let values = [partition_key.datum(), row_key, clock.into(), properties];
                slots.push(new_version(descriptor, values));
            }
            let command = pg_sys::GetCurrentCommandId(true);
            guarded(|| {
                multi_insert(
                    relation,
                    slots.as_mut_ptr(),
                    slots.len() as c_int,
                    command,
                    0,
                    std::ptr::null_mut(),
                );
            });
            self.indexes.add(self.relation.get(), &slots, false);
            pg_sys::MemoryContextSwitchTo(caller);
            pg_sys::MemoryContextDelete(context);
            pg_sys::CommandCounterIncrement();
            Some(())
        }
    }
}
