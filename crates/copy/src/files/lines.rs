//! Lines of bounded length.

use std::io::BufRead;

/// The longest line that can be an entity: 1 MiB as UTF-16 is at most 3 MiB as UTF-8, and every byte of it may be
/// written as `\u00xx`.
pub const LONGEST: usize = 8 << 20;

pub enum Line {
    /// Without its end.
    Whole,
    /// Longer than an entity can be; the buffer has its beginning.
    TooLong,
}

/// Reads the next line into `line`; `None` at the end.
pub fn next(reader: &mut dyn BufRead, line: &mut Vec<u8>) -> std::io::Result<Option<Line>> {
    line.clear();
    let mut any = false;
    let mut too_long = false;
    loop {
        let available = reader.fill_buf()?;
        if available.is_empty() {
            break;
        }
        any = true;
        let end = available.iter().position(|&byte| byte == b'\n');
        let part = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
        if line.len() + part.len() > LONGEST {
            too_long = true;
        } else if !too_long {
            line.extend_from_slice(part);
        }
        let used = end.map_or(available.len(), |end| end + 1);
        reader.consume(used);
        if end.is_some() {
            break;
        }
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(any.then_some(if too_long { Line::TooLong } else { Line::Whole }))
}
