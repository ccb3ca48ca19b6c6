//! Command lines whose errors repeat no value of an argument: a key or a URL may stand in the wrong place.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Parser};
use table_service_model::secret;

/// Reads the arguments of a program.
///
/// # Errors
/// What is wrong, without the values of arguments, or what is asked for (`--help`, `--version`).
pub fn read<C: Parser>(arguments: impl IntoIterator<Item = OsString>) -> Result<C, clap::Error> {
    C::try_parse_from(arguments).map_err(|error| without_values(error, &C::command()))
}

fn without_values(mut error: clap::Error, program: &Command) -> clap::Error {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return error;
    }
    for kind in [
        ContextKind::InvalidArg,
        ContextKind::InvalidValue,
        ContextKind::InvalidSubcommand,
    ] {
        let Some(ContextValue::String(text)) = error.get(kind) else {
            continue;
        };
        // An option is named with its form, `--pool-size <NUMBER>`.
        let (name, form) = text.split_once(' ').unwrap_or((text, "<>"));
        let is_option = name.starts_with('-') && secret::shown(name) == name && form.starts_with('<');
        let is_command = kind == ContextKind::InvalidSubcommand && program.find_subcommand(text).is_some();
        let shown = if kind == ContextKind::InvalidArg && is_option || is_command {
            text.clone()
        } else {
            secret::describe(text)
        };
        error.insert(kind, ContextValue::String(shown));
    }
    // What looks like it is found by its text.
    error.remove(ContextKind::Suggested);
    error
}
