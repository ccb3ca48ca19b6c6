//! Table names (semantics 1.2).

use crate::{Error, limits};

/// Refuses a text that cannot be the name of a new table.
///
/// # Errors
/// Those of [`check_form`], and `InvalidInput` for the reserved name.
///
/// ```
/// use table_service_model::{Error, table_name};
///
/// assert_eq!(table_name::check("Employees"), Ok(()));
/// assert_eq!(table_name::check("my-table"), Err(Error::TableNameInvalid));
/// assert_eq!(table_name::check("Tables"), Err(Error::TableNameReserved));
/// ```
pub fn check(name: &str) -> Result<(), Error> {
    check_form(name)?;
    if is_reserved(name) {
        return Err(Error::TableNameReserved);
    }
    Ok(())
}

/// Refuses a text that cannot be the name of any table, whatever is to be done with it.
///
/// # Errors
/// `OutOfRangeInput` for the length, `InvalidResourceName` for characters.
pub fn check_form(name: &str) -> Result<(), Error> {
    if !(limits::TABLE_NAME_MIN_CHARACTERS..=limits::TABLE_NAME_MAX_CHARACTERS).contains(&name.chars().count()) {
        return Err(Error::TableNameLength);
    }
    let mut bytes = name.bytes();
    if !bytes.next().is_some_and(|b| b.is_ascii_alphabetic()) || !bytes.all(|b| b.is_ascii_alphanumeric()) {
        return Err(Error::TableNameInvalid);
    }
    Ok(())
}

/// Looks for names that differ from another one by typing errors, among any number of names. It soon gives up: a
/// hundred thousand tables do not make an error slow.
pub struct Slips<'n> {
    name: &'n str,
    /// How many letters may still be compared with one another.
    left: usize,
}

impl<'n> Slips<'n> {
    /// Names of ten letters are compared with twenty thousand others, the longest with fourteen hundred.
    const COMPARISONS: usize = 6_000_000;
    /// To find a name takes about as long as so many comparisons of letters.
    const NAME: usize = 200;

    /// Returns the search for names that are nearly this one.
    #[must_use]
    pub const fn of(name: &'n str) -> Slips<'n> {
        Slips {
            name,
            left: Slips::COMPARISONS,
        }
    }

    /// Returns how many slips make the name of the other one, if they are few for its length and the other one may be a table's.
    /// Case does not count.
    ///
    /// ```
    /// use table_service_model::table_name::Slips;
    ///
    /// assert_eq!(Slips::of("employes").to("Employees"), Some(1));
    /// assert_eq!(Slips::of("Offices").to("Employees"), None);
    /// ```
    pub fn to(&mut self, other: &str) -> Option<usize> {
        let few = self.name.len() / 3;
        self.left = self.left.saturating_sub(Slips::NAME);
        if self.name.len().abs_diff(other.len()) > few || check_form(other).is_err() || self.is_over() {
            return None;
        }
        self.left = self.left.saturating_sub(self.name.len().saturating_mul(other.len()));
        Some(strsim::osa_distance(&fold(self.name), &fold(other))).filter(|slips| *slips <= few)
    }

    /// Returns whether it has given up: no other name is compared.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.left == 0
    }
}

/// Returns the form in which names are compared: case does not count.
pub fn fold(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// Returns whether the name is the reserved one.
pub fn is_reserved(name: &str) -> bool {
    name.eq_ignore_ascii_case("tables")
}

/// Returns the first spelling of a name, in the order of bytes, that is not before `from`. `None` if all of them are before it.
///
/// So all spellings that an ordered index has are found in a few steps, however many are possible.
///
/// ```
/// use table_service_model::table_name::first_spelling;
///
/// assert_eq!(first_spelling("abc", b""), Some("ABC".to_owned()));
/// assert_eq!(first_spelling("abc", b"Ab_"), Some("Abc".to_owned()));
/// assert_eq!(first_spelling("abc", b"abd"), None);
/// ```
pub fn first_spelling(name: &str, from: &[u8]) -> Option<String> {
    let capitals = name.to_ascii_uppercase();
    let common = capitals
        .bytes()
        .zip(from)
        .take_while(|(capital, byte)| *capital == byte.to_ascii_uppercase())
        .count();
    // Keys that are equal to `from` up to a place, greater there, and the least behind it.
    let greater = |at: usize, byte: u8| {
        let (before, behind) = (from.get(..at)?, capitals.as_bytes().get(at.saturating_add(1)..)?);
        String::from_utf8([before, &[byte], behind].concat()).ok()
    };
    let Some(&other) = from.get(common) else {
        let rest = capitals.as_bytes().get(common..)?;
        return String::from_utf8([from, rest].concat()).ok();
    };
    let here = capitals.as_bytes().get(common).and_then(|&capital| {
        let byte = [capital, capital.to_ascii_lowercase()]
            .into_iter()
            .find(|byte| *byte > other)?;
        greater(common, byte)
    });
    here.or_else(|| {
        let (at, capital) = from
            .iter()
            .enumerate()
            .take(common)
            .rfind(|(_, byte)| byte.is_ascii_uppercase())?;
        greater(at, capital.to_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_letters_and_digits_of_3_to_63() {
        for name in ["abc", "Employees", "a12", &"a".repeat(63)] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn spellings_come_in_the_order_of_bytes() {
        let name = "a_B9";
        let mut all: Vec<String> = ["A_B9", "A_b9", "a_B9", "a_b9"].map(str::to_owned).into();
        all.sort();
        let others = [
            "",
            "A",
            "A_",
            "A_B",
            "A_B9x",
            "A_C",
            "A_a",
            "Aa",
            "B",
            "_",
            "a",
            "a_Z",
            "a_b",
            "a_b9\u{1}",
            "a_c",
            "b",
            "\u{e9}",
        ];
        let behind = all.iter().map(|spelling| format!("{spelling}\u{1}"));
        for from in others.map(str::to_owned).into_iter().chain(all.clone()).chain(behind) {
            let expected = all.iter().find(|spelling| spelling.as_bytes() >= from.as_bytes());
            assert_eq!(first_spelling(name, from.as_bytes()).as_ref(), expected, "{from}");
        }
        assert_eq!(first_spelling("été", "été".as_bytes()).as_deref(), Some("été"));
    }

    #[test]
    fn slips_are_letters_more_or_less_or_in_another_order() {
        for (name, other, expected) in [
            ("Employes", "Employees", Some(1)),
            ("Emploeyes", "employees", Some(1)),
            ("Employee", "Employees", Some(1)),
            ("EMPLOYEES", "Employees", Some(0)),
            ("abc", "abd", Some(1)),
            ("abc", "ade", None),
            ("abc", "abcde", None),
            ("Packages", "Package1s2", Some(2)),
            // An index, which is no table.
            ("Employees", "Employees_", None),
        ] {
            assert_eq!(Slips::of(name).to(other), expected, "{name} {other}");
        }
    }

    #[test]
    fn long_names_are_compared_with_fewer_others() {
        let others = |length: usize| {
            let (name, other) = ("a".repeat(length), "b".repeat(length));
            let mut slips = Slips::of(&name);
            (0..100_000)
                .take_while(|_| {
                    let _ = slips.to(&other);
                    !slips.is_over()
                })
                .count()
        };
        assert_eq!([3, 10, 63].map(others), [28_708, 19_999, 1_439]);
    }

    #[test]
    fn refuses_with_the_services_codes() {
        for name in ["", "ab", &"a".repeat(64), "1"] {
            assert_eq!(check(name), Err(Error::TableNameLength), "{name}");
        }
        for name in ["1abc", "a_b", "a-b", "été", "a b", "tab'le", "\"; DROP TABLE x; --"] {
            assert_eq!(check(name), Err(Error::TableNameInvalid), "{name}");
        }
        for name in ["tables", "Tables", "TABLES"] {
            assert_eq!(check(name), Err(Error::TableNameReserved), "{name}");
        }
    }
}
