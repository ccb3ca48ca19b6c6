//! Texts that may hold a key, a signature or a password.

use std::fmt;

use serde::{Deserialize, Deserializer};

/// A text from a place where secrets are. Nothing prints it: it has no `Display`, it cannot be serialised, and `Debug`
/// prints only its kind and its length.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Returns the text, for use. It must not come into a message.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Secret {
        Secret(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe(&self.0))
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret)
    }
}

/// Returns the kind and the length of a text that must not be shown.
#[must_use]
pub fn describe(text: &str) -> String {
    let text = text.trim();
    let length = text.chars().count();
    let kind = if text.starts_with(['"', '\'', '`']) {
        "a text in quotes"
    } else if text.contains("://") {
        "a URL"
    } else if text.contains(';') {
        "a list with semicolons"
    } else if text.contains('=') {
        "a text with an equals sign"
    } else {
        "a text"
    };
    match length {
        0 => "an empty text".to_owned(),
        1 => format!("{kind} of 1 character"),
        _ => format!("{kind} of {length} characters"),
    }
}

/// Returns a text from a command line or a file, for a message: itself if it is the name of an option or a setting,
/// else the result of [`describe`]. A secret in the wrong place is no such name.
#[must_use]
pub fn shown(text: &str) -> String {
    let name = text.trim_start_matches('-');
    let is_name = name.len() <= 40
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.split(['-', '_', '.']).all(|word| {
            // An index may follow: `accounts[0]`.
            let word = word
                .strip_suffix(']')
                .and_then(|word| word.split_once('['))
                .map_or(word, |(word, _)| word);
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase())
        });
    if is_name { text.to_owned() } else { describe(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kind_and_length_are_said() {
        for (text, said) in [
            ("", "an empty text"),
            ("x", "a text of 1 character"),
            ("c2VjcmV0", "a text of 8 characters"),
            ("\"postgresql://u:secret@h\"", "a text in quotes of 25 characters"),
            ("jdbc:postgresql://h?password=secret", "a URL of 35 characters"),
            ("Host=h;Password=secret", "a list with semicolons of 22 characters"),
            ("KEY=secret", "a text with an equals sign of 10 characters"),
        ] {
            assert_eq!(describe(text), said);
            assert_eq!(format!("{:?}", Secret::from(text)), said);
        }
    }

    #[test]
    fn names_of_options_and_settings_are_shown() {
        for name in ["--retry-for", "-x", "pool_size", "lissten"] {
            assert_eq!(shown(name), name);
        }
        for other in [
            "Eby8vdM02xNO",
            "5f4dcc3b",
            "--key=secret",
            "postgresql://u:p@h/d",
            "-",
            "",
        ] {
            assert!(!shown(other).contains(other) || other.len() < 2, "{other}");
        }
    }
}
