//! Arrays.

use pgrx::prelude::*;

use super::within_limit;

/// The elements of an array.
pub struct Elements<'a> {
    pub type_oid: pg_sys::Oid,
    pub datums: &'a [pg_sys::Datum],
    /// Which of them are NULL.
    pub nulls: &'a [bool],
}

impl Elements<'_> {
    /// Takes an array apart.
    ///
    /// # Safety
    /// `datum` must be an array that is not NULL and lives long enough. Its elements must be varlenas with this alignment.
    pub unsafe fn of<'a>(datum: pg_sys::Datum, alignment: u8) -> Elements<'a> {
        let (mut datums, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
        // SAFETY: the caller promises such an array. Varlenas have the length -1, and are not passed by value. `deconstruct_array`
        // allocates both results with `count` elements.
        unsafe {
            let array = pg_sys::pg_detoast_datum(within_limit(datum).cast_mut_ptr()).cast::<pg_sys::ArrayType>();
            let type_oid = (*array).elemtype;
            let alignment = alignment as std::ffi::c_char;
            pg_sys::deconstruct_array(
                array,
                type_oid,
                -1,
                false,
                alignment,
                &mut datums,
                &mut nulls,
                &mut count,
            );
            let (datums, nulls) = match usize::try_from(count) {
                Ok(count @ 1..) => (
                    std::slice::from_raw_parts(datums, count),
                    std::slice::from_raw_parts(nulls, count),
                ),
                _ => (&[][..], &[][..]),
            };
            Elements {
                type_oid,
                datums,
                nulls,
            }
        }
    }
}
