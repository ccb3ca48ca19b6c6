//! Sources and targets of the command line: arguments, variables of the environment or files.

use std::path::Path;
use std::sync::Once;

use table_service_connect::DatabaseUrl;
use table_service_model::Secret;

use crate::created;
use crate::failure::Failure;
use crate::printable::tell;

use super::path::is_path;

/// The most bytes of a file with a connection string.
const LARGEST_FILE: u64 = 64 << 10;

/// Takes the text itself, the value of an environment variable (`env:NAME`) or the text of a file (`@FILE`). Warns of a
/// secret in the arguments of the program.
///
/// # Errors
/// A variable that is not set, a file that cannot be read. An argument that has its secret behind `env:` or `@` is not
/// repeated.
pub fn read(argument: &Secret) -> Result<Secret, Failure> {
    warn_if_exposed(argument);
    let given = argument.expose();
    if let Some(name) = given.strip_prefix("env:") {
        let text = std::env::var(name).map_err(|_| {
            Failure::usage(match is_variable(name) {
                true => format!("The environment variable {name} is not set, or is not UTF-8."),
                false => "The environment variable that env: names is not set, or is not UTF-8.".to_owned(),
            })
        })?;
        return Ok(text.trim().into());
    }
    if let Some(file) = given.strip_prefix('@') {
        let failed = |error: std::io::Error| {
            Failure::usage(match is_path(file) {
                true => format!("{file}: {error}."),
                false => format!("The file that @ names cannot be read: {error}."),
            })
        };
        let text = created::text(Path::new(file), LARGEST_FILE).map_err(failed)?;
        return Ok(text.trim_start_matches('\u{feff}').trim().into());
    }
    Ok(given.trim().into())
}

/// Returns whether a text has the form that names of variables have, which keys and passwords seldom have.
fn is_variable(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Warns once of an argument that shows a secret.
fn warn_if_exposed(argument: &Secret) {
    static WARNED: Once = Once::new();
    // An argument is the same text as an environment variable gives, so look where it came from.
    if is_exposed(argument) && std::env::args().any(|given| given.ends_with(argument.expose())) {
        WARNED.call_once(|| {
            tell(
                "table-service-copy: every user of this machine can read the key, signature or password in the arguments. \
                 Give it as env:NAME or @FILE.",
            );
        });
    }
}

/// Returns whether an argument shows a secret to all users that can list the processes of the machine.
fn is_exposed(argument: &Secret) -> bool {
    let argument = argument.expose();
    if argument.starts_with("env:") || argument.starts_with('@') {
        return false;
    }
    let lower = argument.to_ascii_lowercase();
    DatabaseUrl::has_password(argument) || lower.contains("accountkey=") || lower.contains("sig=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_arguments_are_noticed() {
        for exposed in [
            "postgresql://u:p@h/d",
            "postgres://u@h/d?password=p",
            "AccountName=a;AccountKey=eA==;",
            "https://a.table.core.windows.net/?sv=1&sig=x",
        ] {
            assert!(is_exposed(&exposed.into()), "{exposed}");
        }
        for harmless in [
            "postgresql://u@h:5432/d",
            "env:SOURCE",
            "@/run/secrets/source",
            "UseDevelopmentStorage=true",
            "-",
            "backup",
        ] {
            assert!(!is_exposed(&harmless.into()), "{harmless}");
        }
    }

    #[test]
    fn names_of_variables_are_shown_and_nothing_else() {
        for (argument, shown) in [
            ("env:NOT_SET_ANYWHERE", true),
            ("env:Eby8vdM02xNOcqFlqUwJ", false),
            ("env:postgresql://u:p@h/d", false),
            ("@/nowhere/at-all", true),
            ("@AccountKey=Eby8vdM02xNOcqFlqUwJ", false),
        ] {
            let said = read(&argument.into())
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            let rest = argument.trim_start_matches("env:").trim_start_matches('@');
            assert_eq!(said.contains(rest), shown, "{said}");
        }
    }
}
