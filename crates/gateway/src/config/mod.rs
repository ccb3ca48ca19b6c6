//! Settings. A flag overrides an environment variable, which overrides the file, which overrides the default.

mod command_line;
mod error;
mod file;
mod reread;
mod settings;
#[cfg(test)]
mod tests;
mod validation;

pub use command_line::CommandLine;
pub use error::ConfigError;
pub use file::{AccountSettings, BearerSettings};
pub use reread::{Reread, hung_up};
pub use settings::{ExplorerMode, LogFormat, Settings};
pub use validation::{AccountConfig, Config, TlsFiles, check, host_names};
