//! Where sources and targets are taken from: an argument, the environment or a file.

use std::fmt;

use crate::failure::Failure;

/// A text that may hold a key, a signature or a password. It is never printed.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes the text itself, that of an environment variable (`env:NAME`) or that of a file (`@FILE`).
    ///
    /// # Errors
    /// A variable that is not set, a file that cannot be read.
    pub fn read(argument: &str) -> Result<Secret, Failure> {
        let text = if let Some(name) = argument.strip_prefix("env:") {
            std::env::var(name)
                .map_err(|_| Failure::usage(format!("The environment variable {name} is not set, or is not UTF-8.")))?
        } else if let Some(file) = argument.strip_prefix('@') {
            std::fs::read_to_string(file).map_err(|error| Failure::usage(format!("{file}: {error}.")))?
        } else {
            argument.to_owned()
        };
        Ok(Secret(text.trim().to_owned()))
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Whether an argument shows a secret to everybody who can list the processes of the machine.
pub fn is_exposed(argument: &str) -> bool {
    if argument.starts_with("env:") || argument.starts_with('@') {
        return false;
    }
    let lower = argument.to_ascii_lowercase();
    let has_password = (lower.starts_with("postgres://") || lower.starts_with("postgresql://"))
        && (lower.contains("password=")
            || lower
                .split_once("://")
                .and_then(|(_, rest)| rest.split_once('@'))
                .is_some_and(|(user, _)| user.contains(':')));
    has_password || lower.contains("accountkey=") || lower.contains("sig=")
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
            assert!(is_exposed(exposed), "{exposed}");
        }
        for harmless in [
            "postgresql://u@h:5432/d",
            "env:SOURCE",
            "@/run/secrets/source",
            "UseDevelopmentStorage=true",
            "-",
            "backup",
        ] {
            assert!(!is_exposed(harmless), "{harmless}");
        }
    }
}
