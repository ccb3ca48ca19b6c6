//! The crates and files of this repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::modules::Crate;

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every library, program, test and benchmark of the workspace. Their files are named from the root of the repository.
///
/// # Errors
///
/// An error of cargo, or a source file that cannot be read.
pub fn crates() -> Result<Vec<Crate>, String> {
    let root = root().canonicalize().map_err(|error| error.to_string())?;
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(&root)
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let read = |path: &Path| std::fs::read_to_string(root.join(path)).ok();
    let mut crates = Vec::new();
    for target in list(&metadata, "packages").flat_map(|package| list(package, "targets")) {
        let file = PathBuf::from(text(target, "src_path"));
        let file = file.strip_prefix(&root).map_err(|error| error.to_string())?;
        let test = list(target, "kind").any(|kind| matches!(kind.as_str(), Some("test" | "bench" | "example")));
        crates.push(Crate::read(&text(target, "name").replace('-', "_"), file, test, &read)?);
    }
    Ok(crates)
}

fn list<'a>(value: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> {
    value.get(member).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// The text files of the repository with their paths from its root: those that git would list, without asking git.
pub fn text_files() -> Result<Vec<(PathBuf, String)>, String> {
    let root = root();
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(root.join(&directory)).map_err(|error| format!("{directory:?}: {error}"))?;
        for entry in entries {
            let entry = entry.map_err(|error| error.to_string())?;
            let name = entry.file_name();
            let path = directory.join(&name);
            let kind = entry.file_type().map_err(|error| error.to_string())?;
            if kind.is_dir() && !["target", ".git", "node_modules"].iter().any(|other| name == *other) {
                directories.push(path);
            } else if kind.is_file()
                && let Ok(content) = std::fs::read_to_string(entry.path())
            {
                found.push((path, content));
            }
        }
    }
    found.sort();
    Ok(found)
}
