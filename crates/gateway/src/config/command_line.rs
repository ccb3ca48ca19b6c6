//! The command line, and the order of the sources of settings.

use std::path::PathBuf;

use figment::Figment;
use figment::error::{Actual, Kind};
use figment::providers::Serialized;
use table_service_command_line::files;
use table_service_model::secret;

use super::error::ConfigError;
use super::settings::Settings;
use super::validation::{Config, check};

/// In bytes.
const LARGEST_FILE: u64 = 1 << 20;

/// Serves the REST protocol of the Azure Table service from PostgreSQL databases with the extension table_service.
///
/// Every flag has an environment variable. In the configuration file a setting has the name of its flag, with `_` for `-`.
// The first paragraph begins `--help`, so it says what the program is.
#[derive(Debug, clap::Parser)]
#[command(
    name = "table-service-gateway",
    version,
    after_help = "Examples:\n  \
                  table-service-gateway --database-url postgresql://me@localhost/mydata\n  \
                  table-service-gateway --config /etc/table-service/gateway.toml\n  \
                  TABLE_SERVICE_KEY=$(cat key) table-service-gateway --account mine --listen 0.0.0.0:443 \\\n    \
                  --tls-certificate cert.pem --tls-key key.pem --database-url postgresql://gateway@db/mine"
)]
pub struct CommandLine {
    /// A TOML file with settings
    #[arg(long, env = "TABLE_SERVICE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    settings: Settings,
}

impl CommandLine {
    /// Merges all sources and checks the result.
    ///
    /// # Errors
    /// The first setting that cannot be used, by its name.
    pub fn config(self) -> Result<Config, ConfigError> {
        let mut figment = Figment::new();
        if let Some(path) = &self.config {
            let problem = |problem: String| ConfigError::new("", format!("{}: {problem}", path.display()));
            // Once: a pipe gives its text only once.
            let text = files::text(path, LARGEST_FILE).map_err(|error| problem(error.to_string()))?;
            // The reader's message repeats the wrong line, and that line may have a key.
            let file: toml::Table = text.parse().map_err(|error: toml::de::Error| {
                problem(match position(&error.to_string()) {
                    Some((line, column)) => format!("line {line}, column {column} is not TOML"),
                    None => "it cannot be read as TOML".to_owned(),
                })
            })?;
            figment = figment.merge(Serialized::defaults(file));
        }
        // A setting that is not given overrides nothing.
        let mut given = serde_json::to_value(&self.settings).unwrap_or_default();
        if let Some(given) = given.as_object_mut() {
            given.retain(|_, value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()));
        }
        let settings: Settings = figment
            .merge(Serialized::defaults(given))
            .extract()
            .map_err(|error| wrong(&error))?;
        check(settings)
    }
}

/// Returns line and column, from the first line of an error of the TOML reader.
fn position(text: &str) -> Option<(u32, u32)> {
    let (_, rest) = text.split_once("at line ")?;
    let (line, rest) = rest.split_once(", column ")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((line.parse().ok()?, rest.get(..digits)?.parse().ok()?))
}

/// Returns a setting that cannot be read, without its value.
fn wrong(error: &figment::Error) -> ConfigError {
    let mut name = String::new();
    let is_unknown = |part: &String| matches!(&error.kind, Kind::UnknownField(field, _) if field == part);
    for part in error.path.iter().filter(|part| !is_unknown(part)) {
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            name.push_str(&format!("[{part}]"));
            continue;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(&secret::shown(part));
    }
    let problem = match &error.kind {
        Kind::InvalidType(actual, expected) | Kind::InvalidValue(actual, expected) => {
            format!("it is {}, not {}", kind(actual), expected_kind(&expected.to_string()))
        }
        Kind::InvalidLength(length, expected) => format!("it has {length} items, not {expected}"),
        Kind::UnknownField(field, known) => {
            let file = "the configuration file has";
            let known = known.join(", ");
            format!(
                "{file} {}, which is no setting; there are {known}",
                secret::shown(field)
            )
        }
        Kind::UnknownVariant(value, known) => {
            format!("it is {}, not one of {}", secret::shown(value), known.join(", "))
        }
        Kind::MissingField(field) => format!("{field} is missing"),
        Kind::DuplicateField(field) => format!("{field} is there twice"),
        Kind::ISizeOutOfRange(_) | Kind::USizeOutOfRange(_) => "the number is too large".to_owned(),
        Kind::Message(_) | Kind::Unsupported(_) | Kind::UnsupportedKey(..) => "it cannot be read".to_owned(),
    };
    ConfigError::new(name, problem)
}

/// Returns the kind that a setting must have, in place of a type of Rust.
fn expected_kind(expected: &str) -> &str {
    match expected {
        "usize" | "u64" | "u32" | "u16" => "a whole number, 0 or more",
        "a boolean" => "true or false",
        name if name.starts_with("enum ") => "one of the words that --help names",
        name if name.starts_with("struct ") => "a section",
        name => name,
    }
}

fn kind(actual: &Actual) -> String {
    match actual {
        Actual::Bool(_) => "true or false".to_owned(),
        Actual::Unsigned(_) | Actual::Signed(_) | Actual::Float(_) => "a number".to_owned(),
        Actual::Str(text) => secret::describe(text),
        Actual::Seq => "a list".to_owned(),
        Actual::Map => "a section".to_owned(),
        _ => "something else".to_owned(),
    }
}
