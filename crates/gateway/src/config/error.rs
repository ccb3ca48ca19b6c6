//! A setting that cannot be used.

use std::fmt;

/// A setting that cannot be used. `Display` names it.
#[derive(Debug)]
pub struct ConfigError {
    setting: String,
    problem: String,
    /// Whether it may be right at another time, as an address that another program uses now.
    may_pass: bool,
}

impl ConfigError {
    pub fn new(setting: impl Into<String>, problem: impl fmt::Display) -> ConfigError {
        ConfigError {
            setting: setting.into(),
            problem: problem.to_string(),
            may_pass: false,
        }
    }

    /// Says that the setting may be right at another time.
    #[must_use]
    pub fn that_may_pass(mut self) -> ConfigError {
        self.may_pass = true;
        self
    }

    /// Returns whether the setting may be right at another time.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        self.may_pass
    }

    /// Returns the name of the setting in the configuration file.
    #[must_use]
    pub fn setting(&self) -> &str {
        &self.setting
    }

    /// Returns the problem, without the name of the setting.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
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
