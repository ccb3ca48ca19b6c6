//! Typed values: the parameters of statements and the columns of results.

use std::marker::PhantomData;

use pgrx::prelude::*;

use super::{PropertiesArg, TextArg};
use crate::postgres::catalog;
use crate::postgres::varlena::{Builder, Varlena};

/// An SQL value with its type. It is not NULL, and lives as long as its source.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    datum: pg_sys::Datum,
    type_oid: pg_sys::Oid,
    source: PhantomData<&'a [u8]>,
}

impl<'a> Value<'a> {
    fn new(datum: pg_sys::Datum, type_oid: pg_sys::Oid) -> Value<'a> {
        Value {
            datum,
            type_oid,
            source: PhantomData,
        }
    }

    /// Returns PostgreSQL's own value.
    pub fn datum(self) -> pg_sys::Datum {
        self.datum
    }

    /// Returns the SQL type.
    pub fn type_oid(self) -> pg_sys::Oid {
        self.type_oid
    }

    /// Makes an interval.
    pub fn interval(interval: &'a pg_sys::Interval) -> Value<'a> {
        Value::new(pg_sys::Datum::from(std::ptr::from_ref(interval)), pg_sys::INTERVALOID)
    }

    /// Makes a text.
    pub fn text(text: TextArg<'a>) -> Value<'a> {
        Value::new(text.datum(), pg_sys::TEXTOID)
    }

    /// Makes a bag.
    pub fn properties(properties: PropertiesArg<'a>) -> Value<'a> {
        Value::new(properties.datum(), catalog::properties_type())
    }

    /// Makes a `bytea`.
    pub fn bytea(bytes: &'a Varlena) -> Value<'a> {
        Value::new(bytes.datum(), pg_sys::BYTEAOID)
    }
}

/// Makes constructors of values that PostgreSQL passes by value.
macro_rules! by_value {
    ($($(#[$doc:meta])* $name:ident($rust:ty) $type_oid:ident;)*) => {
        impl<'a> Value<'a> {
            $($(#[$doc])*
            pub fn $name(value: $rust) -> Value<'a> {
                Value::new(value.into(), pg_sys::$type_oid)
            })*
        }
    };
}

by_value! {
    /// Makes a boolean.
    boolean(bool) BOOLOID;
    /// Makes an integer.
    int4(i32) INT4OID;
    /// Makes a bigint.
    int8(i64) INT8OID;
    /// From microseconds since 2000-01-01.
    timestamptz(i64) TIMESTAMPTZOID;
    /// Makes an OID.
    oid(pg_sys::Oid) OIDOID;
    /// Makes a regclass.
    regclass(pg_sys::Oid) REGCLASSOID;
}

/// A text that Rust owns, as a varlena.
pub struct Text(Varlena);

impl Text {
    /// Copies a text.
    pub fn new(text: &str) -> Text {
        Text(Varlena::new(text.as_bytes()))
    }

    /// Returns the text as an argument.
    pub fn arg(&self) -> TextArg<'_> {
        // SAFETY: the varlena lives as long as `self`, and its bytes were a `str`.
        unsafe { TextArg::from_parts(self.0.datum(), std::str::from_utf8_unchecked(self.0.as_bytes())) }
    }

    /// Returns the text as a value.
    pub fn value(&self) -> Value<'_> {
        Value::text(self.arg())
    }
}

/// A bag that Rust owns, as a varlena.
pub struct Bag(Varlena);

impl Bag {
    /// Copies a bag.
    pub fn new(properties: table_service_model::Properties<'_>) -> Bag {
        Bag(Varlena::new(properties.as_bytes()))
    }

    /// Returns the bag as an argument.
    pub fn arg(&self) -> PropertiesArg<'_> {
        // SAFETY: the varlena lives as long as `self`, and its bytes are those of a bag.
        unsafe { PropertiesArg::from_parts(self.0.datum(), self.0.as_bytes()) }
    }

    /// Returns the bag as a value.
    pub fn value(&self) -> Value<'_> {
        Value::properties(self.arg())
    }
}

/// An array of one dimension without NULLs, as a varlena.
pub struct Array {
    varlena: Varlena,
    type_oid: pg_sys::Oid,
}

impl Array {
    /// Makes a `text[]`.
    pub fn of_texts<'t>(texts: impl ExactSizeIterator<Item = &'t str>) -> Array {
        Array::new(pg_sys::TEXTOID, pg_sys::TEXTARRAYOID, texts.map(str::as_bytes))
    }

    /// Makes a `properties[]`.
    pub fn of_bags<'b>(bags: impl ExactSizeIterator<Item = table_service_model::Properties<'b>>) -> Array {
        let element = catalog::properties_type();
        // SAFETY: the function looks up a catalog, which needs a transaction, and SQL functions run in one.
        let array = unsafe { pg_sys::get_array_type(element) };
        Array::new(element, array, bags.map(|bag| bag.as_bytes()))
    }

    /// From microseconds since 2000-01-01.
    pub fn of_timestamps(micros: impl ExactSizeIterator<Item = i64>) -> Array {
        let mut builder = Array::builder(pg_sys::TIMESTAMPTZOID, micros.len());
        for micros in micros {
            builder.push(&micros.to_ne_bytes());
        }
        Array {
            varlena: builder.finish(),
            type_oid: pg_sys::TIMESTAMPTZARRAYOID,
        }
    }

    /// The positions of rows, as a `tid[]`.
    pub fn of_positions(positions: &[pg_sys::ItemPointerData]) -> Array {
        let mut builder = Array::builder(pg_sys::TIDOID, positions.len());
        for position in positions {
            for half in [position.ip_blkid.bi_hi, position.ip_blkid.bi_lo, position.ip_posid] {
                builder.push(&half.to_ne_bytes());
            }
        }
        builder.align();
        Array {
            varlena: builder.finish(),
            type_oid: pg_sys::TIDARRAYOID,
        }
    }

    /// Makes an array of varlenas with int alignment, such as texts and bags.
    fn new<'e>(element: pg_sys::Oid, array: pg_sys::Oid, elements: impl ExactSizeIterator<Item = &'e [u8]>) -> Array {
        let mut builder = Array::builder(element, elements.len());
        for bytes in elements {
            builder.push_element(bytes);
        }
        builder.align();
        Array {
            varlena: builder.finish(),
            type_oid: array,
        }
    }

    /// Begins an array of this many elements, which come next.
    fn builder(element: pg_sys::Oid, count: usize) -> Builder {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let mut builder = Builder::new(size_of::<pg_sys::ArrayType>());
        // The fields of PostgreSQL's ArrayType after its length. An empty array has no dimension.
        let dimensions = i32::from(count > 0);
        let no_null_bitmap = 0i32;
        builder.push(&dimensions.to_ne_bytes());
        builder.push(&no_null_bitmap.to_ne_bytes());
        builder.push(&element.to_u32().to_ne_bytes());
        if dimensions > 0 {
            let lower_bound = 1i32;
            builder.push(&count.to_ne_bytes());
            builder.push(&lower_bound.to_ne_bytes());
        }
        // The data of an array begin at PostgreSQL's largest alignment.
        while !(builder.len() + pg_sys::VARHDRSZ).is_multiple_of(pg_sys::MAXIMUM_ALIGNOF as usize) {
            builder.push(&[0]);
        }
        builder
    }

    /// Returns the array as a value.
    pub fn value(&self) -> Value<'_> {
        Value::new(self.varlena.datum(), self.type_oid)
    }
}
