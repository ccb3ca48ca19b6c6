//! A setting that cannot be used.

use std::fmt;

/// A setting that cannot be used. `Display` names it.
#[derive(Debug)]
pub struct ConfigError {
    /// The name of the setting in the configuration file.
    pub setting: String,
    /// The problem, without that name.
    pub problem: String,
    /// Whether it may be right at another time, as an address that another program uses now.
    pub may_pass: bool,
}

impl ConfigError {
    /// Makes an error that does not pass by itself.
    pub fn new(setting: impl Into<String>, problem: impl fmt::Display) -> ConfigError {
        ConfigError {
            setting: setting.into(),
            problem: problem.to_string(),
            may_pass: false,
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigError { setting, problem, .. } = self;
        if setting.is_empty() {
            return f.write_str(problem);
        }
        let flag = setting.replace('_', "-");
        let variable = setting.to_ascii_uppercase();
        if setting.contains(['[', '.']) {
            return write!(f, "{setting} in the configuration file: {problem}");
        }
        write!(
            f,
            "{setting} (--{flag}, TABLE_SERVICE_{variable}, or {setting} in the configuration file): {problem}"
        )
    }
}

impl std::error::Error for ConfigError {}
