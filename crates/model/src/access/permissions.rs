//! The letters of `sp`, `srt` and `ss`.

use std::fmt;

/// Permissions on the entities of a table: `r` read, `a` add, `u` update, `d` delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Permissions {
    pub read: bool,
    pub add: bool,
    pub update: bool,
    pub delete: bool,
}

impl Permissions {
    /// Reads letters in any order; `None` for any other letter.
    pub fn parse(text: &str) -> Option<Permissions> {
        let mut permissions = Permissions::default();
        for letter in text.chars() {
            match letter {
                'r' => permissions.read = true,
                'a' => permissions.add = true,
                'u' => permissions.update = true,
                'd' => permissions.delete = true,
                _ => return None,
            }
        }
        Some(permissions)
    }

    /// Returns whether nothing is permitted.
    pub fn is_empty(self) -> bool {
        self == Permissions::default()
    }
}

impl fmt::Display for Permissions {
    /// Returns the letters in the canonical order, `raud`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [
            (self.read, "r"),
            (self.add, "a"),
            (self.update, "u"),
            (self.delete, "d"),
        ];
        letters
            .iter()
            .filter(|(has, _)| *has)
            .try_for_each(|(_, letter)| f.write_str(letter))
    }
}

/// Permissions of an account SAS: those of [`Permissions`] and `w` write, `l` list, `c` create. Letters that other
/// services know mean nothing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccountPermissions {
    pub read: bool,
    pub write: bool,
    pub delete: bool,
    pub list: bool,
    pub add: bool,
    pub create: bool,
    pub update: bool,
}

impl AccountPermissions {
    /// Reads letters in any order; `None` for anything but lower-case letters.
    pub fn parse(text: &str) -> Option<AccountPermissions> {
        let has = |letter| text.contains(letter);
        text.bytes()
            .all(|b| b.is_ascii_lowercase())
            .then(|| AccountPermissions {
                read: has('r'),
                write: has('w'),
                delete: has('d'),
                list: has('l'),
                add: has('a'),
                create: has('c'),
                update: has('u'),
            })
    }
}

/// The resources an account SAS is for: `s` the service, `c` containers (tables), `o` objects (entities).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceTypes {
    pub service: bool,
    pub container: bool,
    pub object: bool,
}

impl ResourceTypes {
    /// Reads letters in any order; `None` for any other letter.
    pub fn parse(text: &str) -> Option<ResourceTypes> {
        let has = |letter| text.contains(letter);
        text.chars()
            .all(|c| matches!(c, 's' | 'c' | 'o'))
            .then(|| ResourceTypes {
                service: has('s'),
                container: has('c'),
                object: has('o'),
            })
    }
}
