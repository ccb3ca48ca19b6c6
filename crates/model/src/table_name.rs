//! Table names (semantics 1.2).

use crate::error::Error;
use crate::limits;

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
    if name.eq_ignore_ascii_case("tables") {
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

/// Returns how many slips of a hand make one name of the other, if they are few for its length. Case does not count.
///
/// ```
/// use table_service_model::table_name;
///
/// assert_eq!(table_name::slips("employes", "Employees"), Some(1));
/// assert_eq!(table_name::slips("Offices", "Employees"), None);
/// ```
pub fn slips(name: &str, other: &str) -> Option<usize> {
    let few = name.len() / 3;
    if name.len().abs_diff(other.len()) > few {
        return None;
    }
    Some(strsim::osa_distance(&fold(name), &fold(other))).filter(|slips| *slips <= few)
}

/// Returns the form in which names are compared: case does not count.
pub fn fold(name: &str) -> String {
    name.to_ascii_lowercase()
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
        ] {
            assert_eq!(slips(name, other), expected, "{name} {other}");
        }
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
