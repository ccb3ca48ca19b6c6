//! Text from outside, for terminals, reports and messages.
//!
//! Names, keys and messages come from the other side, and a terminal obeys some characters. Everything that is printed
//! goes through here.

use std::fmt::Write as _;
use std::io::Write as _;

/// The most bytes of one foreign text in a message.
const LONGEST: usize = 2000;

/// Characters that change the display of a terminal: controls, and those that turn or hide text.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The text with those characters as `\u{1b}`.
pub fn escaped(text: &str) -> String {
    escape(text, |_| false)
}

/// A message of ours. Its lines stay lines.
pub fn message(text: &str) -> String {
    escape(text, |c| c == '\n')
}

fn escape(text: &str, stays: fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) && !stays(c) {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// A message of the other side, in one line and not too long.
pub fn said(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", escaped(text.get(..end).unwrap_or_default())),
        None => escaped(text),
    }
}

/// JSON in one line. Those characters are only in strings, where JSON has its own form for them.
pub fn json(value: &serde_json::Value) -> String {
    let text = value.to_string();
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Prints a message for people, on standard error. A reader that has gone does not stop the program.
pub fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", message(text));
}

/// Prints an answer for people, on standard output.
pub fn tell_output(text: &str) {
    let _ = writeln!(std::io::stdout(), "{}", message(text));
}

/// Prints an object for machines, on standard output.
pub fn tell_machines(value: &serde_json::Value) {
    let _ = writeln!(std::io::stdout(), "{}", json(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing() {
        let nasty = "a\u{1b}[31m\u{7}\u{9b}2J\u{202e}b\nc\r\t";
        assert_eq!(
            escaped(nasty),
            "a\\u{1b}[31m\\u{7}\\u{9b}2J\\u{202e}b\\u{a}c\\u{d}\\u{9}"
        );
        assert!(message(nasty).contains("b\nc"));
        assert_eq!(escaped("字 😀 é"), "字 😀 é");
        assert!(said(&"x".repeat(100_000)).len() < 3000);
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({ "a\u{9b}": "\u{1b}\u{202e}\u{e0001}😀\u{7f}" });
        let text = json(&value);
        assert!(text.chars().all(|c| !is_obeyed(c)), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
