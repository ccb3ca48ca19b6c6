//! Lines of bounded length.

use crate::input::{Fault, Input, LONGEST};

pub enum Line {
    /// Without its end.
    Whole,
    /// Longer than an entity can be; the buffer has its beginning.
    TooLong,
}

/// Reads the next line into `line`; `None` at the end.
pub fn next(input: &mut Input<'_>, line: &mut Vec<u8>) -> Result<Option<Line>, Fault> {
    line.clear();
    input.begin_record();
    let mut any = false;
    let mut too_long = false;
    loop {
        let available = input.fill()?;
        if available.is_empty() {
            break;
        }
        any = true;
        let end = available.iter().position(|&byte| byte == b'\n');
        let part = end.unwrap_or(available.len());
        // The end of such a line is found, so the lines behind it can be read.
        too_long |= line.len() + part > LONGEST;
        if too_long {
            input.advance(part);
        } else {
            input.keep(line, part)?;
        }
        if end.is_some() {
            input.advance(1);
            break;
        }
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(any.then_some(if too_long { Line::TooLong } else { Line::Whole }))
}
