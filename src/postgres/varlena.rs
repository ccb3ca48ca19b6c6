//! Values of variable length, PostgreSQL's varlenas: reading them in place, and making new ones.

use pgrx::prelude::*;

/// Returns the bytes of a varlena. They are copied only if they are compressed or stored out of line.
///
/// # Safety
/// `datum` must be a varlena that is not NULL and lives as long as `'a`. A copy is made in the current memory context,
/// which must live as long.
#[inline]
pub unsafe fn bytes<'a>(datum: pg_sys::Datum) -> &'a [u8] {
    // SAFETY: the caller makes the same promise.
    unsafe { plain(datum).1 }
}

/// Does the same as [`bytes`], and also returns the datum that has the bytes in place.
///
/// # Safety
/// As for [`bytes`].
#[inline]
pub unsafe fn plain<'a>(datum: pg_sys::Datum) -> (pg_sys::Datum, &'a [u8]) {
    // SAFETY: the datum is a varlena that is not NULL. After detoasting, its header and its bytes are in place, and the
    // header has their number.
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

/// Returns the length of a varlena's bytes, without detoasting them.
///
/// # Safety
/// `datum` must be a varlena that is not NULL.
pub unsafe fn size(datum: pg_sys::Datum) -> usize {
    // SAFETY: the datum is a varlena that is not NULL. Its length is read from its header, or by PostgreSQL's function.
    unsafe {
        let varlena = datum.cast_mut_ptr::<pg_sys::varlena>();
        if is_in_place(varlena) {
            pgrx::varsize_any_exhdr(varlena)
        } else {
            pg_sys::toast_raw_datum_size(datum).saturating_sub(pg_sys::VARHDRSZ)
        }
    }
}

/// Returns whether the bytes are in place behind the header, neither compressed nor stored out of line. It runs for
/// every row of a scan, and a call of PostgreSQL's function costs more.
///
/// # Safety
/// The varlena must be valid.
unsafe fn is_in_place(varlena: *const pg_sys::varlena) -> bool {
    // SAFETY: the varlena is valid, and only its header is read.
    unsafe { pgrx::varatt_is_4b_u(varlena) || (pgrx::varatt_is_1b(varlena) && !pgrx::varatt_is_1b_e(varlena)) }
}

/// Copies `bytes` into a varlena in the current memory context, for a function to return.
pub fn palloc(bytes: &[u8]) -> pg_sys::Datum {
    let size = pg_sys::VARHDRSZ + bytes.len();
    // SAFETY: the allocation has room for the header and the bytes. `palloc` raises an error for a size that a header
    // cannot represent.
    unsafe {
        let varlena = pg_sys::palloc(size).cast::<pg_sys::varlena>();
        pgrx::set_varsize_4b(varlena, size as i32);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), varlena.cast::<u8>().add(pg_sys::VARHDRSZ), bytes.len());
        pg_sys::Datum::from(varlena)
    }
}

/// A varlena in memory that Rust owns.
pub struct Varlena(Memory);

enum Memory {
    /// Most keys are short. They need no allocation, which would cost more than the copy.
    Short([u32; SHORT]),
    Long(Vec<u32>),
}

const WORD: usize = size_of::<u32>();
const SHORT: usize = 12;

impl Varlena {
    /// The largest size that a header can represent, header included. PostgreSQL's MaxAllocSize.
    const LARGEST: usize = 0x3FFF_FFFF;

    /// Copies `bytes`.
    ///
    /// Raises as [`Builder::new`].
    pub fn new(bytes: &[u8]) -> Varlena {
        let size = pg_sys::VARHDRSZ + bytes.len();
        if size > SHORT * WORD {
            let mut builder = Builder::new(bytes.len());
            builder.push(bytes);
            return builder.finish();
        }
        let mut words = [0; SHORT];
        let start = words.as_mut_ptr().cast::<u8>();
        // SAFETY: the words have room for the header and the bytes.
        unsafe {
            pgrx::set_varsize_4b(start.cast(), size as i32);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.add(pg_sys::VARHDRSZ), bytes.len());
        }
        Varlena(Memory::Short(words))
    }

    /// Returns the datum, which is valid until `self` is moved or dropped.
    pub fn datum(&self) -> pg_sys::Datum {
        pg_sys::Datum::from(match &self.0 {
            Memory::Short(words) => words.as_ptr(),
            Memory::Long(words) => words.as_ptr(),
        })
    }

    /// Returns the bytes behind the header.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: `new` or `Builder::finish` wrote a header with the length of the bytes, which live as long as `self`.
        unsafe { bytes(self.datum()) }
    }
}

/// Many varlenas in one allocation that Rust owns.
pub struct Varlenas {
    builder: Builder,
    /// The words with which the varlenas begin.
    starts: Vec<usize>,
}

impl Varlenas {
    /// Copies the values.
    ///
    /// Raises as [`Builder::new`].
    pub fn new<'v>(values: impl Iterator<Item = &'v [u8]> + Clone) -> Varlenas {
        let sizes = values.clone().map(|bytes| pg_sys::VARHDRSZ + bytes.len() + WORD);
        let mut builder = Builder::new(sizes.sum());
        let starts = values.map(|bytes| builder.push_element(bytes)).collect();
        Varlenas { builder, starts }
    }

    /// Returns the datums in order, which are valid until `self` is dropped.
    pub fn datums(&self) -> impl Iterator<Item = pg_sys::Datum> {
        let words = &self.builder.words;
        self.starts
            .iter()
            .map(|&start| pg_sys::Datum::from(&raw const words[start]))
    }
}

/// Builds a varlena part by part.
pub struct Builder {
    words: Vec<u32>,
    /// In bytes, header included.
    length: usize,
}

impl Builder {
    /// Makes room for this many bytes behind the header.
    ///
    /// Raises `out_of_memory`, or `program_limit_exceeded` for more bytes than a varlena can have.
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
            self.words.reserve(more);
        }
    }

    /// Returns how many bytes are behind the header so far.
    pub fn len(&self) -> usize {
        self.length - pg_sys::VARHDRSZ
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let start = self.length;
        self.length += bytes.len();
        self.words.resize(self.length.div_ceil(WORD), 0);
        // SAFETY: `resize` made the words long enough for the bytes, which begin at `start`.
        unsafe {
            let target = self.words.as_mut_ptr().cast::<u8>().add(start);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
    }

    /// Appends an element of an array: a varlena with its own header, aligned as an integer. Returns the word with which
    /// it begins.
    pub fn push_element(&mut self, bytes: &[u8]) -> usize {
        self.align();
        let start = self.length / WORD;
        self.push(&[0; pg_sys::VARHDRSZ]);
        self.push(bytes);
        let size = (pg_sys::VARHDRSZ + bytes.len()) as i32;
        // SAFETY: the element's header is this word, which `push` has appended.
        unsafe { pgrx::set_varsize_4b(self.words.as_mut_ptr().add(start).cast(), size) };
        start
    }

    /// Appends zeros up to the alignment of the next element of an array.
    pub fn align(&mut self) {
        self.length = self.length.next_multiple_of(WORD);
        self.words.resize(self.length / WORD, 0);
    }

    /// Returns the varlena, with its header.
    pub fn finish(mut self) -> Varlena {
        // SAFETY: `new` made the word of the header.
        unsafe { pgrx::set_varsize_4b(self.words.as_mut_ptr().cast(), self.length as i32) };
        Varlena(Memory::Long(self.words))
    }
}
