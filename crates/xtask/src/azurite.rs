//! Azurite, the current emulator, as another implementation of the protocol.

use std::path::Path;

use crate::background::{Background, free_port};
use crate::environment::{Environment, Result, run};

const VERSION: &str = "3.37.0";

/// Fetches it from its registry, and starts it with its data in a directory. Returns its address.
pub fn start(environment: &Environment, directory: &Path) -> Result<(Background, String)> {
    let fetched = environment.cache.join(format!("azurite-{VERSION}"));
    let program = fetched.join("node_modules/.bin/azurite-table");
    if !program.exists() {
        fs_err::create_dir_all(&fetched)?;
        let mut install = environment.command("npm");
        install
            .args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
            .arg(&fetched);
        run(install.arg(format!("azurite@{VERSION}")))?;
    }
    let port = free_port()?;
    let mut azurite = environment.command(program);
    azurite.args([
        "--silent",
        "--skipApiVersionCheck",
        "--tableHost",
        "127.0.0.1",
        "--tablePort",
        &port.to_string(),
    ]);
    azurite.arg("--location").arg(directory);
    let mut azurite = Background::start(&mut azurite, directory, "azurite")?;
    azurite.wait_for_line("Azurite Table service successfully started")?;
    Ok((azurite, format!("127.0.0.1:{port}")))
}
