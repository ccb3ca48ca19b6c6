//! The hash by which Citus distributes partitions over shards: PostgreSQL's hash of a text of the collation C.
//!
//! PostgreSQL calls the function `hash_bytes` (`src/common/hashfn.c`). It is Bob Jenkins' lookup3 of 2006, with an initial value of
//! PostgreSQL's own.

/// Returns the hash of a PartitionKey.
#[must_use]
pub fn partition_hash(partition_key: &str) -> i32 {
    let bytes = partition_key.as_bytes();
    // PostgreSQL also takes the length modulo 2^32.
    let length = bytes.len() as u32;
    let begin = 0x9e37_79b9_u32.wrapping_add(length).wrapping_add(3_923_095);
    let mut state = [begin; 3];
    let (blocks, tail) = bytes.as_chunks::<12>();
    for block in blocks {
        add(&mut state, *block);
        mix(&mut state);
    }
    let mut last = [0; 12];
    for (to, from) in last.iter_mut().zip(tail) {
        *to = *from;
    }
    // The lowest byte of the third word is the length's.
    let [_, _, _, _, _, _, _, _, third @ ..] = &mut last;
    if cfg!(target_endian = "little") {
        third.rotate_right(1);
    }
    add(&mut state, last);
    finish(state).cast_signed()
}

fn add([a, b, c]: &mut [u32; 3], [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3]: [u8; 12]) {
    *a = a.wrapping_add(u32::from_ne_bytes([a0, a1, a2, a3]));
    *b = b.wrapping_add(u32::from_ne_bytes([b0, b1, b2, b3]));
    *c = c.wrapping_add(u32::from_ne_bytes([c0, c1, c2, c3]));
}

fn mix([a, b, c]: &mut [u32; 3]) {
    *a = a.wrapping_sub(*c) ^ c.rotate_left(4);
    *c = c.wrapping_add(*b);
    *b = b.wrapping_sub(*a) ^ a.rotate_left(6);
    *a = a.wrapping_add(*c);
    *c = c.wrapping_sub(*b) ^ b.rotate_left(8);
    *b = b.wrapping_add(*a);
    *a = a.wrapping_sub(*c) ^ c.rotate_left(16);
    *c = c.wrapping_add(*b);
    *b = b.wrapping_sub(*a) ^ a.rotate_left(19);
    *a = a.wrapping_add(*c);
    *c = c.wrapping_sub(*b) ^ b.rotate_left(4);
    *b = b.wrapping_add(*a);
}

fn finish([mut a, mut b, mut c]: [u32; 3]) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `hashtext(text COLLATE "C")` of PostgreSQL 15. The golden file `scale_out` compares many more texts with the server.
    #[test]
    fn it_is_postgresqls() {
        for (text, hash) in KNOWN {
            assert_eq!(partition_hash(text), hash, "{text:?}");
        }
    }

    const KNOWN: [(&str, i32); 7] = [
        ("", -1_477_818_771),
        ("a", 1_075_015_857),
        ("0123456789a", -1_884_806_007),
        ("0123456789ab", -1_437_215_093),
        ("0123456789abc", -1_125_236_995),
        ("Zürich", 1_169_491_486),
        ("a partition key of several blocks", -1_997_071_575),
    ];
}
