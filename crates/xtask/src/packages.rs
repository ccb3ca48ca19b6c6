//! SDKs and clients from their registries, at their pinned versions. `tests/sdk/packages.sh` keeps them in the cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::environment::{Environment, Result, text};

/// The Python of an environment that has the packages of a file.
pub fn python(environment: &Environment, name: &str, requirements: &str) -> Result<PathBuf> {
    Ok(packages(environment, "python", name, requirements)?.join("bin/python"))
}

/// The directory with the packages of a `package-lock.json`.
pub fn javascript(environment: &Environment, name: &str, directory: &str) -> Result<PathBuf> {
    Ok(packages(environment, "javascript", name, directory)?.join("node_modules"))
}

fn packages(environment: &Environment, language: &str, name: &str, list: &str) -> Result<PathBuf> {
    let mut script = environment.command("tests/sdk/packages.sh");
    text(script.args([language, name, list])).map(PathBuf::from)
}

/// Node.js, which finds these packages. They bring one where the machine's own is too old.
pub fn node(environment: &Environment, modules: &Path) -> Result<Command> {
    let path = environment.path_with(modules.join("node/bin"))?;
    // Which program it is, is decided with our own path.
    let program = std::env::split_paths(&path)
        .map(|directory| directory.join("node"))
        .find(|program| program.exists())
        .context("there is no Node.js")?;
    let mut node = environment.command(program);
    node.env("NODE_PATH", modules).env("PATH", path);
    Ok(node)
}
