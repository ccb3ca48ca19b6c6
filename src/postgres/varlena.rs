//! Values of variable length, which PostgreSQL calls varlena: read in place, and made anew.

use pgrx::prelude::*;

use super::memory::reserve;

/// The bytes of a varlena. They are copied only if they are compressed or stored out of line.
///
/// # Safety
/// `datum` is a varlena, not NULL, that lives as long as `'a`. So does the memory context in which this is called.
pub unsafe fn bytes<'a>(datum: pg_sys::Datum) -> &'a [u8] {
    // SAFETY: as promised.
    unsafe { plain(datum).1 }
}

/// As [`bytes`], with the datum that has them in place.
///
/// # Safety
/// As for [`bytes`].
pub unsafe fn plain<'a>(datum: pg_sys::Datum) -> (pg_sys::Datum, &'a [u8]) {
    // SAFETY: as promised; the packed form has its header and its length in place.
    unsafe {
        let mut packed = datum.cast_mut_ptr::<pg_sys::varlena>();
        if !is_in_place(packed) {
            packed = pg_sys::pg_detoast_datum_packed(packed);
        }
        let length = pgrx::varsize_any_exhdr(packed);
        let data = pgrx::vardata_any(packed);
        (
            pg_sys::Datum::from(packed),
            std::slice::from_raw_parts(data.cast(), length),
        )
    }
}

/// The length of a varlena's bytes, without fetching them.
///
/// # Safety
/// `datum` is a varlena, not NULL.
pub unsafe fn size(datum: pg_sys::Datum) -> usize {
    // SAFETY: as promised.
    unsafe {
        let varlena = datum.cast_mut_ptr::<pg_sys::varlena>();
        if is_in_place(varlena) {
            pgrx::varsize_any_exhdr(varlena)
        } else {
            pg_sys::toast_raw_datum_size(datum).saturating_sub(pg_sys::VARHDRSZ)
        }
    }
}

/// Whether the bytes stand behind the header as they are. A call of PostgreSQL costs more than this test, which runs for every
/// row of a scan.
///
/// # Safety
/// A valid varlena.
unsafe fn is_in_place(varlena: *const pg_sys::varlena) -> bool {
    // SAFETY: as promised; only the header is read.
    unsafe { pgrx::varatt_is_4b_u(varlena) || (pgrx::varatt_is_1b(varlena) && !pgrx::varatt_is_1b_e(varlena)) }
}

/// A copy of `bytes` in the current memory context, for a function to return.
pub fn palloc(bytes: &[u8]) -> pg_sys::Datum {
    let size = pg_sys::VARHDRSZ + bytes.len();
    // SAFETY: there is room for the header and the bytes. PostgreSQL refuses to allocate what a header cannot say.
    unsafe {
        let varlena = pg_sys::palloc(size).cast::<pg_sys::varlena>();
        pgrx::set_varsize_4b(varlena, size as i32);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), varlena.cast::<u8>().add(pg_sys::VARHDRSZ), bytes.len());
        pg_sys::Datum::from(varlena)
    }
}

/// A varlena in Rust's own memory.
pub struct Varlena(Vec<u32>);

const WORD: usize = size_of::<u32>();

impl Varlena {
    /// The largest size that a header can say, header included: PostgreSQL's MaxAllocSize.
    const LARGEST: usize = 0x3FFF_FFFF;

    /// A copy of `bytes`.
    pub fn new(bytes: &[u8]) -> Varlena {
        let mut builder = Builder::new(bytes.len());
        builder.push(bytes);
        builder.finish()
    }

    /// For as long as this lives.
    pub fn datum(&self) -> pg_sys::Datum {
        pg_sys::Datum::from(self.0.as_ptr())
    }

    /// The bytes behind the header.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: the header says how many bytes there are.
        unsafe { bytes(self.datum()) }
    }
}

/// A varlena while it is written, part by part.
pub struct Builder {
    words: Vec<u32>,
    /// In bytes, header included.
    length: usize,
}

impl Builder {
    /// With room for so many bytes behind the header.
    ///
    /// Raises `out_of_memory`, and `program_limit_exceeded` for more than a varlena can have.
    pub fn new(capacity: usize) -> Builder {
        let mut builder = Builder {
            words: Vec::new(),
            length: pg_sys::VARHDRSZ,
        };
        builder.reserve(capacity);
        builder.words.push(0);
        builder
    }

    fn reserve(&mut self, bytes: usize) {
        let length = self.length.saturating_add(bytes);
        if length > Varlena::LARGEST {
            ereport!(
                ERROR,
                PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
                "a value is larger than the 1 GB that PostgreSQL can hold"
            );
        }
        let words = length.div_ceil(WORD);
        if words > self.words.capacity() {
            let more = words - self.words.len();
            reserve(&mut self.words, more);
        }
    }

    /// Bytes behind the header so far.
    pub fn len(&self) -> usize {
        self.length - pg_sys::VARHDRSZ
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let start = self.length;
        self.length += bytes.len();
        self.words.resize(self.length.div_ceil(WORD), 0);
        // SAFETY: the words that were just made hold the bytes.
        unsafe {
            let target = self.words.as_mut_ptr().cast::<u8>().add(start);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
    }

    /// Appends an element of an array: a varlena with a header of its own, aligned as an integer.
    pub fn push_element(&mut self, bytes: &[u8]) {
        self.align();
        let start = self.length / WORD;
        self.push(&[0; pg_sys::VARHDRSZ]);
        self.push(bytes);
        let size = (pg_sys::VARHDRSZ + bytes.len()) as i32;
        // SAFETY: the element begins with this word.
        unsafe { pgrx::set_varsize_4b(self.words.as_mut_ptr().add(start).cast(), size) };
    }

    /// Appends zeros until the next element of an array may begin.
    pub fn align(&mut self) {
        self.length = self.length.next_multiple_of(WORD);
        self.words.resize(self.length / WORD, 0);
    }

    pub fn finish(mut self) -> Varlena {
        // SAFETY: there is at least the word of the header.
        unsafe { pgrx::set_varsize_4b(self.words.as_mut_ptr().cast(), self.length as i32) };
        Varlena(self.words)
    }
}
