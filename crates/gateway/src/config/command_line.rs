//! The command line, and which source of a setting wins.

use std::path::PathBuf;

use figment::Figment;
use figment::providers::{Format, Serialized, Toml};

use super::error::ConfigError;
use super::settings::Settings;
use super::validation::{Config, check};

/// Serves the REST protocol of the Azure Table service from PostgreSQL databases with the extension table_service.
///
/// Every flag has an environment variable. In the configuration file a setting has the name of its flag, with `_` for `-`.
// The first paragraph begins `--help`, so it says what the program is.
#[derive(Debug, clap::Parser)]
#[command(name = "table-service-gateway", version)]
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
            figment = figment.merge(Toml::file_exact(path));
        }
        let settings: Settings = figment
            .merge(Serialized::defaults(&self.settings))
            .extract()
            .map_err(|error| ConfigError::new("", error))?;
        check(settings)
    }
}
