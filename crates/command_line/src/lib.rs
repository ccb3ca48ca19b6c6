//! Command lines of all programs: the meaning of environment variables, and errors that repeat no value of an argument, because a key
//! or a URL may stand in the wrong place.

pub mod failure;
pub mod files;
pub mod printable;

use std::any::TypeId;
use std::ffi::{OsStr, OsString};
use std::io::Write;

use clap::builder::{BoolishValueParser, Resettable};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Parser, ValueEnum};
use clap_complete::Shell;
use table_service_model::secret;

/// With this option and the name of a shell, a program prints its completions for that shell. Packages are made with it.
const COMPLETIONS: &str = "--completions";

/// Reads the arguments of a program. Those with the names that are `harmless` never hold a secret.
///
/// # Errors
/// The fault of the arguments, without their values but for the harmless ones, or the text that they ask for (`--help`, `--version`).
pub fn read<C: Parser>(arguments: impl IntoIterator<Item = OsString>, harmless: &[&str]) -> Result<C, clap::Error> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    read_with_values(arguments.clone())
        .map_err(|error| without_values(error, &mut command::<C>(), &arguments, harmless))
}

/// Reads the arguments of a program that takes no secrets.
///
/// # Errors
/// The fault of the arguments, or the text that they ask for (`--help`, `--version`).
pub fn read_with_values<C: Parser>(arguments: impl IntoIterator<Item = OsString>) -> Result<C, clap::Error> {
    let mut command = command::<C>();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let [_, option, shell] = arguments.as_slice()
        && option == COMPLETIONS
    {
        let script = completions(&mut command, shell)?;
        let written = std::io::stdout().lock().write_all(&script);
        std::process::exit(i32::from(written.is_err()));
    }
    let mut matches = command.try_get_matches_from_mut(arguments)?;
    C::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Returns the script with which a shell completes the arguments of a program.
fn completions(command: &mut Command, shell: &OsStr) -> Result<Vec<u8>, clap::Error> {
    let known = Shell::from_str(shell.to_str().unwrap_or_default(), true);
    let shell = known.map_err(|_| {
        command.error(
            ErrorKind::InvalidValue,
            format!("{COMPLETIONS} is for bash, fish or zsh"),
        )
    })?;
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, command, name, &mut script);
    Ok(script)
}

fn command<C: Parser>() -> Command {
    with_common_rules(C::command())
}

fn with_common_rules(command: Command) -> Command {
    command.mut_args(with_common_rule).mut_subcommands(with_common_rules)
}

/// An environment variable without a text is an unset one: tools that start containers make such variables. A boolean may be said in
/// all usual words.
fn with_common_rule(arg: Arg) -> Arg {
    let is_boolean = arg.get_value_parser().type_id() == TypeId::of::<bool>();
    let arg = match arg.get_env().and_then(std::env::var_os) {
        Some(text) if text.is_empty() => arg.env(Resettable::Reset),
        _ => arg,
    };
    match is_boolean {
        true => arg.value_parser(BoolishValueParser::new()),
        false => arg,
    }
}

fn without_values(
    mut error: clap::Error,
    program: &mut Command,
    arguments: &[OsString],
    harmless: &[&str],
) -> clap::Error {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return error;
    }
    program.build();
    let is_harmless = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(of)) => harmless.iter().any(|name| has_name(of, name)),
        _ => false,
    };
    // It resembles the name of one.
    let is_mistyped = error.get(ContextKind::SuggestedSubcommand).is_some();
    for kind in [
        ContextKind::InvalidArg,
        ContextKind::InvalidValue,
        ContextKind::InvalidSubcommand,
    ] {
        let Some(ContextValue::String(text)) = error.get(kind) else {
            continue;
        };
        let shown = match kind {
            // A known argument has a name, such as `--pool-size <NUMBER>`, and a name is no secret.
            ContextKind::InvalidArg if knows(program, text) => text.clone(),
            // An unknown argument may be a mistyped option.
            ContextKind::InvalidArg if text.starts_with('-') => secret::shown(text),
            ContextKind::InvalidSubcommand if is_mistyped || program.find_subcommand(text).is_some() => text.clone(),
            ContextKind::InvalidArg | ContextKind::InvalidSubcommand => described(text, arguments),
            _ if is_harmless && is_short(text) => printable::escaped(text),
            _ => secret::describe(text),
        };
        error.insert(kind, ContextValue::String(shown));
    }
    // A suggestion resembles the text, and so shows it.
    error.remove(ContextKind::Suggested);
    error
}

/// Returns the description of an argument that may be a secret in the wrong place.
fn described(text: &str, arguments: &[OsString]) -> String {
    let position = arguments.iter().position(|argument| argument.to_str() == Some(text));
    let place = position
        .map(|position| format!(", argument {position} of the command line"))
        .unwrap_or_default();
    format!(
        "{}{place}, not shown because it may be a secret",
        secret::describe(text)
    )
}

/// Returns whether a text has the characters and the length of a moment or a duration, which no key of an account has.
fn is_short(text: &str) -> bool {
    text.len() <= 40 && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.: ".contains(c))
}

/// Returns whether an argument that clap shows so has this name.
fn has_name(shown: &str, name: &str) -> bool {
    let option = shown.strip_prefix("--").unwrap_or_default();
    option.split([' ', '[', '=']).next() == Some(name)
}

/// Returns whether a program has an argument that clap shows so.
fn knows(program: &Command, shown: &str) -> bool {
    program.get_arguments().any(|arg| arg.to_string() == shown)
        || program.get_subcommands().any(|command| knows(command, shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        /// Where a copy of this test finds it.
        #[arg(long, env = "COMMAND_LINE_TEST_NUMBER", value_name = "NUMBER")]
        number: Option<u32>,
        #[arg(long, env = "COMMAND_LINE_TEST_LIST", value_delimiter = ',')]
        list: Vec<String>,
        #[arg(long, env = "COMMAND_LINE_TEST_FLAG")]
        flag: bool,
        #[arg(long, env = "COMMAND_LINE_TEST_SWITCH", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
        switch: Option<bool>,
        #[arg(long, value_name = "NUMBER")]
        moment: Option<u32>,
        #[command(subcommand)]
        command: Option<Sub>,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Sub {
        Count {
            #[arg(long, env = "COMMAND_LINE_TEST_RETRY", default_value_t = 3)]
            retry_the_service_for_at_most_so_many_seconds: u32,
        },
    }

    fn line(text: &str) -> Result<Program, String> {
        let arguments = text.split_whitespace().map(OsString::from);
        read(arguments, &["moment"]).map_err(|error| error.to_string())
    }

    /// Runs a test again, with an environment of its own. Returns whether this is the copy.
    fn is_copy(test: &str, variables: &[(&str, &str)]) -> bool {
        const COPY: &str = "COMMAND_LINE_TEST_COPY";
        if std::env::var_os(COPY).is_some() {
            return true;
        }
        let mut copy = std::process::Command::new(std::env::current_exe().unwrap());
        copy.args(["--exact", test])
            .env(COPY, "1")
            .envs(variables.iter().copied());
        let ended = copy.output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        false
    }

    #[test]
    fn an_empty_variable_is_an_unset_one() {
        let variables = ["NUMBER", "LIST", "FLAG", "SWITCH", "RETRY"].map(|name| format!("COMMAND_LINE_TEST_{name}"));
        if is_copy(
            "tests::an_empty_variable_is_an_unset_one",
            &variables.each_ref().map(|name| (name.as_str(), "")),
        ) {
            let read = line("program count").unwrap();
            assert_eq!(
                (read.number, read.list.len(), read.flag, read.switch),
                (None, 0, false, None)
            );
            let Some(Sub::Count {
                retry_the_service_for_at_most_so_many_seconds,
            }) = read.command
            else {
                panic!("{read:?}");
            };
            assert_eq!(retry_the_service_for_at_most_so_many_seconds, 3);
            assert!(line("program --flag").unwrap().flag);
        }
    }

    #[test]
    fn a_boolean_may_be_said_in_all_usual_words() {
        for (word, meant) in [("true", true), ("1", true), ("yes", true), ("on", true), ("ON", true)]
            .into_iter()
            .chain([("false", false), ("0", false), ("no", false), ("off", false)])
        {
            assert_eq!(
                line(&format!("program --switch {word}")).unwrap().switch,
                Some(meant),
                "{word}"
            );
        }
        assert_eq!(line("program --switch").unwrap().switch, Some(true));
        let problem = line("program --switch 2").unwrap_err();
        assert!(problem.contains("--switch [<BOOL>]"), "{problem}");
        let variables = [("COMMAND_LINE_TEST_FLAG", "yes"), ("COMMAND_LINE_TEST_SWITCH", "off")];
        if is_copy("tests::a_boolean_may_be_said_in_all_usual_words", &variables) {
            let read = line("program").unwrap();
            assert_eq!((read.flag, read.switch), (true, Some(false)));
        }
    }

    #[test]
    fn shells_complete_what_the_program_has() {
        let script = |shell: &str| completions(&mut command::<Program>(), OsStr::new(shell));
        for shell in ["bash", "fish", "zsh"] {
            let script = String::from_utf8(script(shell).unwrap()).unwrap();
            for word in ["number", "count", "retry-the-service-for-at-most-so-many-seconds"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
        let problem = script("s3cret").unwrap_err().to_string();
        assert!(
            problem.contains("--completions is for bash, fish or zsh") && !problem.contains("s3cret"),
            "{problem}"
        );
    }

    #[test]
    fn names_are_shown_and_values_are_not() {
        for (text, shown) in [
            ("program --number s3cret", "--number <NUMBER>"),
            ("program --switch s3cret", "--switch [<BOOL>]"),
            (
                "program count --retry-the-service-for-at-most-so-many-seconds s3cret",
                "--retry-the-service-for-at-most-so-many-seconds <RETRY_THE_SERVICE_FOR_AT_MOST_SO_MANY_SECONDS>",
            ),
            ("program --nummer 1", "--nummer"),
            (
                "program --flag s3cret",
                "a text of 6 characters, argument 2 of the command line, not shown because it may be a secret",
            ),
            ("program --s3cret", "a text of 8 characters"),
        ] {
            let problem = line(text).unwrap_err();
            assert!(problem.contains(shown) && !problem.contains("s3cret"), "{problem}");
        }
        for (text, shown) in [
            ("program --moment yesterday", "'yesterday' for '--moment <NUMBER>'"),
            ("program cuont", "'cuont'"),
        ] {
            let problem = line(text).unwrap_err();
            assert!(problem.contains(shown), "{problem}");
        }
    }
}
