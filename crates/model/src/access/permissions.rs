//! The letters of `sp` and `srt`.

use std::fmt;

/// Makes a type of sets of letters. It reads letters in any order, and writes them in the order that is given here.
macro_rules! letters {
    ($($(#[$doc:meta])* $name:ident = $letters:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name(u32);

        impl $name {
            /// Reads letters in any order; `None` for any other letter.
            pub fn parse(text: &str) -> Option<$name> {
                text.chars().all(|c| $letters.contains(c)).then(|| $name(set(text)))
            }

            /// Returns whether all of these letters are in the set.
            pub fn has(self, letters: &str) -> bool {
                set(letters) & !self.0 == 0
            }

            /// Returns whether nothing is permitted.
            pub fn is_empty(self) -> bool {
                self.0 == 0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $letters
                    .matches(|c: char| self.has(c.encode_utf8(&mut [0; 4])))
                    .try_for_each(|letter| f.write_str(letter))
            }
        }
    )*};
}

letters! {
    /// Permissions on the entities of a table: `r` read, `a` add, `u` update, `d` delete.
    Permissions = "raud";
    /// Permissions of an account SAS: those of [`Permissions`] and `w` write, `l` list, `c` create. Letters that other
    /// services know mean nothing here.
    AccountPermissions = "abcdefghijklmnopqrstuvwxyz";
    /// The resources an account SAS is for: `s` the service, `c` containers (tables), `o` objects (entities).
    ResourceTypes = "sco";
}

/// Returns a bit for each of these letters, which are of ASCII.
fn set(letters: &str) -> u32 {
    letters.bytes().fold(0, |set, letter| set | 1 << (letter % 32))
}
