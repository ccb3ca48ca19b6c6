//! Reads multipart bodies (RFC 2046) by boundaries and lengths.
//!
//! Lines end with CRLF; a bare LF is also accepted. The work is linear in the length of the body, for any bytes in it.

use std::ops::Range;

use memchr::memchr;
use memchr::memmem::Finder;

/// Why a body is not a multipart body.
const START: &str = "The body does not begin with its boundary";
const END: &str = "The body ends before its last boundary";
const BOUNDARY_LINE: &str = "There is something else on the line of a boundary";

/// The parts of a multipart body.
pub struct Parts<'b> {
    body: &'b [u8],
    delimiter: Finder<'static>,
    position: usize,
    /// Whether a part was found already.
    has_parts: bool,
    ended: bool,
}

impl<'b> Parts<'b> {
    /// Finds the first boundary. Text before it is ignored.
    ///
    /// # Errors
    /// A body without its boundary.
    pub fn new(body: &'b [u8], boundary: &str) -> Result<Parts<'b>, &'static str> {
        let delimiter = format!("--{boundary}");
        let mut parts = Parts {
            body,
            delimiter: Finder::new(&delimiter).into_owned(),
            position: 0,
            has_parts: false,
            ended: false,
        };
        let line = parts.find_boundary(0).ok_or(START)?;
        parts.pass_boundary(line.end)?;
        Ok(parts)
    }

    /// Returns the next part with its headers, if there is one.
    ///
    /// `length` returns the least length of the part that begins with these bytes, if it is known; the boundary is searched
    /// only behind it. It is given the bytes before the next boundary: the headers of a part hold none. If the last boundary
    /// lacks its closing `--`, the end of the body ends the parts.
    ///
    /// # Errors
    /// A body that ends too early.
    pub fn next(&mut self, length: impl FnOnce(&'b [u8]) -> Option<usize>) -> Result<Option<&'b [u8]>, &'static str> {
        if self.ended {
            return Ok(None);
        }
        let rest = self.body.get(self.position..).ok_or(END)?;
        if self.has_parts && rest.iter().all(u8::is_ascii_whitespace) {
            self.ended = true;
            return Ok(None);
        }
        let start = self.position;
        let first = self.find_boundary(start).ok_or(END)?;
        let before = self.body.get(start..first.end - self.delimiter.needle().len());
        let least = length(before.ok_or(END)?).unwrap_or(0);
        if least > rest.len() {
            return Err(END);
        }
        let line = if start + least <= first.start {
            first
        } else {
            self.find_boundary(start + least).ok_or(END)?
        };
        let part = self.body.get(start..line.start).ok_or(END)?;
        self.has_parts = true;
        self.pass_boundary(line.end)?;
        Ok(Some(part))
    }

    /// Returns where the next boundary begins, with the line end that belongs to it, and where it ends.
    fn find_boundary(&self, from: usize) -> Option<Range<usize>> {
        let mut at = from;
        loop {
            let found = at + self.delimiter.find(self.body.get(at..)?)?;
            let end = found + self.delimiter.needle().len();
            let before = self.body.get(..found)?;
            // A boundary is a whole line. Another boundary may begin with the same text.
            let begins_line = before.is_empty() || found == self.position || before.ends_with(b"\n");
            let follows = self.body.get(end..)?;
            let ends =
                matches!(follows.first(), None | Some(b'\r' | b'\n' | b' ' | b'\t')) || follows.starts_with(b"--");
            if begins_line && ends {
                let line_end = before.strip_suffix(b"\n").map(|b| b.strip_suffix(b"\r").unwrap_or(b));
                let start = line_end.map_or(found, <[u8]>::len).max(self.position.min(found));
                return Some(start.max(from.min(found))..end);
            }
            // No boundary begins on the rest of this line.
            at = end + memchr(b'\n', follows)? + 1;
        }
    }

    /// Goes to the line after a boundary that ends here.
    fn pass_boundary(&mut self, end: usize) -> Result<(), &'static str> {
        let mut rest = self.body.get(end..).ok_or(END)?;
        let mut position = end;
        if let Some(after) = rest.strip_prefix(b"--") {
            self.ended = true;
            rest = after;
            position += 2;
        }
        let line = rest.iter().position(|b| *b == b'\n');
        let text = line.map_or(rest, |line| rest.get(..line).unwrap_or_default());
        if !text.trim_ascii().is_empty() {
            return Err(BOUNDARY_LINE);
        }
        match line {
            Some(line) => self.position = position + line + 1,
            None if self.ended || self.has_parts => self.position = self.body.len(),
            None => return Err(END),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(body: &str, boundary: &str) -> Result<Vec<String>, &'static str> {
        let mut parts = Parts::new(body.as_bytes(), boundary)?;
        let mut all = Vec::new();
        while let Some(part) = parts.next(|_| None)? {
            all.push(String::from_utf8(part.to_vec()).unwrap());
        }
        Ok(all)
    }

    /// With work that is quadratic in the length of the body, this takes longer than anybody waits.
    #[test]
    fn hostile_bodies_cost_no_more_than_others() {
        const LENGTH: usize = 4 * 1024 * 1024;
        let many = "--b\n".repeat(LENGTH / 8);
        let body = many + &" \n".repeat(LENGTH / 4);
        assert!(parts(&body, "b") == Ok(vec![String::new(); LENGTH / 8 - 1]));
        // Each part reads its headers up to its own end only.
        let mut given = 0;
        let body = "--a:b\nx: y\n".repeat(LENGTH / 16) + "--a:b--";
        let mut all = Parts::new(body.as_bytes(), "a:b").unwrap();
        while all
            .next(|bytes| {
                given += bytes.len();
                None
            })
            .unwrap()
            .is_some()
        {}
        assert!(given <= body.len(), "{given}");
        // A line that only looks like a boundary.
        let dashes = format!("x{}", "-".repeat(LENGTH));
        for (line, boundary) in [(dashes, "-".repeat(70)), ("--bx\n".repeat(LENGTH / 8), "b".to_owned())] {
            let body = format!("--{boundary}\n{line}\n--{boundary}--");
            assert!(parts(&body, &boundary).unwrap() == [line]);
        }
    }

    #[test]
    fn parts_stand_between_boundaries() {
        for body in [
            "--b\r\none\r\n--b\r\ntwo\r\n\r\n--b--\r\n",
            "preamble\r\n--b\r\none\r\n--b  \r\ntwo\r\n\r\n--b--",
            "--b\none\n--b\ntwo\r\n\n--b--\n epilogue",
            "--b\r\none\r\n--b\r\ntwo\r\n\r\n--b",
            "--b\r\none\r\n--b\r\ntwo\r\n\r\n--b\r\n\r\n",
        ] {
            assert_eq!(
                parts(body, "b"),
                Ok(vec!["one".to_owned(), "two\r\n".to_owned()]),
                "{body:?}"
            );
        }
        assert_eq!(parts("--b\r\n\r\n--b--", "b"), Ok(vec![String::new()]));
        assert_eq!(parts("--b\r\n--b--", "b"), Ok(vec![String::new()]));
        assert_eq!(parts("--b--", "b"), Ok(vec![]));
    }

    #[test]
    fn what_only_looks_like_a_boundary_is_content() {
        let body = "--b\r\nx --b y\r\n--bb\r\n--b-\r\n--b--\r\n";
        assert_eq!(parts(body, "b"), Ok(vec!["x --b y\r\n--bb\r\n--b-".to_owned()]));
    }

    #[test]
    fn a_length_keeps_a_boundary_in_the_content() {
        let body = b"--b\r\n12345\r\n--b\r\n67\r\n--b--";
        let mut parts = Parts::new(body, "b").unwrap();
        let part = parts.next(|_| Some(14)).unwrap().unwrap();
        assert_eq!(part, b"12345\r\n--b\r\n67");
        assert_eq!(parts.next(|_| None), Ok(None));
    }

    #[test]
    fn broken_bodies_are_refused() {
        for (body, error) in [
            ("", START),
            ("none", START),
            ("x--b\r\n", START),
            ("--b", END),
            ("--b\r\none", END),
            ("--b x\r\none\r\n--b--", BOUNDARY_LINE),
            ("--b\r\none\r\n--b--x", BOUNDARY_LINE),
        ] {
            assert_eq!(parts(body, "b"), Err(error), "{body:?}");
        }
        let mut parts = Parts::new(b"--b\r\none\r\n--b--", "b").unwrap();
        assert_eq!(parts.next(|_| Some(usize::MAX)), Err(END));
    }
}
