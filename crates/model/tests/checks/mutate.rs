//! A small fuzzer that needs no nightly Rust: it changes files of a corpus for FUZZ_SECONDS seconds.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant, SystemTime};

/// Pieces of text that parsers treat in a special way.
const PIECES: [&[u8]; 24] = [
    b"'",
    b"''",
    b"\"",
    b"\\",
    b"(",
    b")",
    b",",
    b"=",
    b"%",
    b"%00",
    b"\0",
    b"\r\n",
    b"\n",
    b"--",
    b"{",
    b"}",
    b":null",
    b"e999",
    b"-",
    b"99999999999999999999",
    b"\xff",
    "é".as_bytes(),
    "😀".as_bytes(),
    b"\xef\xbb\xbf",
];

/// Checks changed files of a corpus, by the seed in FUZZ_SEED or another each time. Prints bytes that a check fails on.
pub fn mutate(corpus: &[Vec<u8>], check: impl Fn(&[u8])) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seconds = number("FUZZ_SECONDS").unwrap_or(10);
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = number("FUZZ_SEED").unwrap_or(clock.as_secs()) | 1;
    let mut random = Random(seed);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut tried = 0u64;
    while Instant::now() < end {
        let mut bytes = random.pick(corpus).clone();
        for _ in 0..=random.below(6) {
            let other: &Vec<u8> = random.pick(corpus);
            change(&mut bytes, other, &mut random);
        }
        bytes.truncate(64 * 1024);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&bytes))) {
            eprintln!("seed {seed}, after {tried}: {}", bytes.escape_ascii());
            resume_unwind(panic);
        }
        tried += 1;
    }
    println!("{tried} tried, seed {seed}");
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let (from, to) = random.range(bytes.len());
    match random.below(7) {
        0 => drop(bytes.drain(from..to)),
        1 => bytes.truncate(from),
        2 => drop(bytes.splice(from..from, random.pick(&PIECES).iter().copied())),
        3 => drop(bytes.splice(from..to, random.pick(&PIECES).iter().copied())),
        4 => {
            let (first, last) = random.range(other.len());
            drop(bytes.splice(from..to, other[first..last].iter().copied()));
        }
        5 => {
            let again = bytes[from..to].to_vec();
            drop(bytes.splice(to..to, again));
        }
        _ => {
            if let Some(byte) = bytes.get_mut(from) {
                *byte = random.next() as u8;
            }
        }
    }
}

/// Xorshift: good enough to choose with, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Mostly short ranges.
    fn range(&mut self, length: usize) -> (usize, usize) {
        let from = self.below(length + 1);
        let most = if self.below(4) == 0 {
            length - from
        } else {
            (length - from).min(8)
        };
        (from, from + self.below(most + 1))
    }
}
