//! The messages of Citus that have no SQLSTATE, from its source. Only their text says whether a server was lost.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::environment::{Result, names, root, run};

/// The directories of the code that runs for statements on entities.
const DIRECTORIES: [&str; 3] = ["connection", "executor", "transaction"];

/// Compares the messages in a source of Citus with those in tests/citus/messages, which gives the meaning of each.
pub fn check(source: &Path) -> Result {
    let unpacked = root().join("target/citus/source");
    let source = if source.is_file() {
        // The tar of a release has one directory.
        fs_err::create_dir_all(&unpacked)?;
        let mut tar = Command::new("tar");
        run(tar
            .arg("xf")
            .arg(source)
            .args(["--strip-components=1", "-C"])
            .arg(&unpacked))?;
        &unpacked
    } else {
        source
    };
    let mut found = BTreeSet::new();
    for directory in DIRECTORIES {
        let path = source.join("src/backend/distributed").join(directory);
        for name in names(&path, "c").with_context(|| format!("{} has no source of Citus", source.display()))? {
            let text = fs_err::read_to_string(path.join(format!("{name}.c")))?;
            let messages = text.split("ereport(ERROR").skip(1).filter_map(message);
            found.extend(messages.map(|message| format!("{directory}/{name}.c: {message}")));
        }
    }
    let listed = fs_err::read_to_string(root().join("tests/citus/messages"))?;
    let listed: BTreeSet<String> = listed
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| Some(line.split_once(' ')?.1.to_owned()))
        .collect();
    for message in found.difference(&listed) {
        println!("not in tests/citus/messages: {message}");
    }
    for message in listed.difference(&found) {
        println!("not in this source of Citus: {message}");
    }
    if found != listed {
        bail!(
            "tests/citus/messages does not fit this source of Citus: say of each message whether a server was lost (busy) or not (fault)"
        );
    }
    println!("{} messages", found.len());
    Ok(())
}

/// Returns the beginning of the message of an error, up to the first value in it. `None` if the error has a SQLSTATE.
/// `call` begins within the parentheses of the call.
fn message(call: &str) -> Option<String> {
    let call = call.get(..end(call))?;
    if call.contains("errcode") {
        return None;
    }
    let (_, message) = call.split_once("errmsg")?;
    let message = message.replace("\\\"", "\u{0}");
    // C joins literals that follow one another.
    let message: String = message
        .split('"')
        .enumerate()
        .take_while(|(number, part)| number % 2 == 1 || *number == 0 || part.trim().is_empty())
        .filter(|(number, _)| number % 2 == 1)
        .map(|(_, part)| part)
        .collect();
    let message = message.replace('\u{0}', "\"");
    Some(message.split('%').next()?.trim_end().to_owned())
}

/// Returns where the call ends.
fn end(call: &str) -> usize {
    let (mut depth, mut in_text, mut is_escaped) = (1, false, false);
    for (at, character) in call.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => in_text = !in_text,
            '(' if !in_text => depth += 1,
            ')' if !in_text => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    call.len()
}
