//! Tasks that are scripts: packages and bare systems.

use crate::environment::{Environment, Result, run};

/// Bare Debian systems on which the commands of the README are tried.
#[derive(clap::Args)]
pub struct Cold {
    /// Only these states of a system: bare, server, headers, cluster, user, interrupted
    states: Vec<String>,
    /// Only what set-up finds missing there, and what it says
    #[arg(long)]
    check: bool,
    /// Only these releases of Debian: bookworm, trixie
    #[arg(long = "release", value_name = "NAME")]
    releases: Vec<String>,
}

/// `make run` and tests on bare Debian systems.
pub fn cold(environment: &Environment, options: &Cold) -> Result {
    let mut cold = environment.command("tests/cold.sh");
    if !options.releases.is_empty() {
        cold.env("RELEASES", options.releases.join(" "));
    }
    run(cold.args(options.check.then_some("--check")).args(&options.states))
}

/// The packages in bare systems, of a release of Debian if one is given.
pub fn test_packages(environment: &Environment, release: &[String]) -> Result {
    script(environment, "tests/packages/debian.sh", release)?;
    script(environment, "tests/packages/bundle.sh", &[])
}

/// A script with its arguments.
pub fn script(environment: &Environment, path: &str, arguments: &[String]) -> Result {
    run(environment.command(path).args(arguments))
}
