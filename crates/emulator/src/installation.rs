//! The programs of PostgreSQL that an emulator runs.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use table_service_command_line::files::is_root;

use crate::server_user::{ServerUser, problem, read_of_server};

/// The directory in which Debian and apt.postgresql.org install PostgreSQL, with a directory for each major version.
const PACKAGED: &str = "/usr/lib/postgresql";
/// The directory of the PostgreSQL that comes with this program, from the directory above that of the program.
const BUNDLED: &str = "share/table-service-emulator";

/// PostgreSQL's programs, of a version that has the extension.
#[derive(Debug)]
pub struct Installation {
    programs: PathBuf,
    pub major: u32,
    /// The directory that has PostgreSQL and the extension beside it, if it came with this program.
    bundle: Option<PathBuf>,
}

impl Installation {
    /// Finds the given directory of programs; else the PostgreSQL that came with this program, or the latest major version that
    /// has the extension. Data need the major version that has made them.
    pub fn find(given: Option<&Path>, data: Option<&Path>) -> Result<Installation, String> {
        let made_by = data.and_then(|data| read_of_server(&data.join("PG_VERSION")).ok());
        let made_by: Option<u32> = made_by.and_then(|major| major.trim().parse().ok());
        let found = match given {
            Some(programs) => vec![Installation::of(programs)?],
            None => {
                let bundled = bundle().map(Installation::bundled).transpose()?;
                bundled.into_iter().chain(packaged()).collect()
            }
        };
        let Some(first) = found.first().map(|installation| installation.major) else {
            return Err(format!(
                "no PostgreSQL in {PACKAGED} has the extension: install the package postgresql-<major>-table-service, \
                 or name the directory of PostgreSQL's programs with --postgres"
            ));
        };
        let settings = made_by.unwrap_or(first);
        found.into_iter().find(|installation| installation.major == settings).ok_or_else(|| {
            format!("the data were made with PostgreSQL {settings}, and only PostgreSQL {first} has the extension here; pg_upgrade moves data to it")
        })
    }

    fn of(programs: &Path) -> Result<Installation, String> {
        let ask = |option: &str| answer(programs, "pg_config", option);
        let control = Path::new(&ask("--sharedir")?).join("extension/table_service.control");
        if !control.exists() {
            return Err(format!(
                "the PostgreSQL of {} lacks the extension: {} is not there",
                programs.display(),
                control.display()
            ));
        }
        Ok(Installation {
            programs: programs.to_owned(),
            major: major(&ask("--version")?)?,
            bundle: None,
        })
    }

    fn bundled(directory: PathBuf) -> Result<Installation, String> {
        let programs = directory.join("bin");
        Ok(Installation {
            major: major(&answer(&programs, "postgres", "--version")?)?,
            programs,
            bundle: Some(directory),
        })
    }

    /// Returns these programs, or a copy of them in a new directory if the server's user cannot reach them, as in a home directory.
    pub fn for_user(self, owner: ServerUser, directory: &Path) -> Result<Installation, String> {
        let Some(bundle) = self.bundle.as_ref().filter(|bundle| !self.is_usable(bundle, owner)) else {
            return Ok(self);
        };
        copy_tree(bundle, directory)?;
        let copy = Installation {
            programs: directory.join("bin"),
            major: self.major,
            bundle: Some(directory.to_owned()),
        };
        if copy.runs(owner) {
            return Ok(copy);
        }
        Err(format!(
            "PostgreSQL's programs do not run in {}: it may be mounted noexec; set TMPDIR to a directory where programs run",
            directory.display()
        ))
    }

    /// Returns whether the user can run the programs there, and PostgreSQL can name it.
    fn is_usable(&self, bundle: &Path, owner: ServerUser) -> bool {
        can_be_named(bundle) && (!is_root() || self.runs(owner))
    }

    /// Returns whether the user can run the programs.
    fn runs(&self, owner: ServerUser) -> bool {
        let mut command = self.program("postgres", owner);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    /// A program that runs as the server's user.
    pub fn program(&self, name: &str, owner: ServerUser) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.current_dir("/").stdin(Stdio::null());
        // Other variables of this process may be for its user only.
        command
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| is_passed(name)));
        // In a process group of its own: Ctrl-C ends the emulator, which finishes its requests and then stops the server.
        command.process_group(0);
        if is_root() {
            command.gid(owner.gid).uid(owner.uid);
        }
        command
    }

    /// The settings by which the server finds the extension.
    pub fn settings(&self) -> Vec<String> {
        let bundle = self.bundle.iter().map(|bundle| bundle.display());
        bundle
            .flat_map(|bundle| {
                [
                    format!("extension_control_path={bundle}/share:$system"),
                    format!("dynamic_library_path={bundle}/lib:$libdir"),
                ]
            })
            .collect()
    }

    /// The options of initdb for the order of texts: from 17 on PostgreSQL has it itself, and asks nothing of the system.
    pub fn locale(&self) -> &'static [&'static str] {
        const BUILT_IN: u32 = 17;
        if self.major < BUILT_IN {
            &["--locale=C.UTF-8"]
        } else {
            &["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        }
    }
}

/// Returns whether the server gets a variable of the environment: where programs, libraries and temporary files are, and the language.
fn is_passed(name: &OsStr) -> bool {
    const PASSED: [&str; 6] = ["PATH", "LD_LIBRARY_PATH", "TMPDIR", "TZ", "LANG", "LANGUAGE"];
    let name = name.to_str().unwrap_or_default();
    PASSED.contains(&name) || name.starts_with("LC_")
}

fn bundle() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let directory = program.parent()?.parent()?.join(BUNDLED);
    directory.is_dir().then_some(directory)
}

/// Returns whether PostgreSQL's settings and programs can name a directory. Settings part directories by colons, and initdb gives its
/// own to a shell between double quotes.
fn can_be_named(directory: &Path) -> bool {
    let bytes = directory.as_os_str().as_encoded_bytes();
    !bytes.iter().any(|byte| b":$`\"\\\r\n".contains(byte))
}

/// The latest first.
fn packaged() -> Vec<Installation> {
    let directories = fs::read_dir(PACKAGED).into_iter().flatten().flatten();
    let mut found: Vec<Installation> = directories
        .filter_map(|directory| Installation::of(&directory.path().join("bin")).ok())
        .collect();
    found.sort_by_key(|installation| std::cmp::Reverse(installation.major));
    found
}

/// Returns the answer of a program to an option.
fn answer(programs: &Path, name: &str, option: &str) -> Result<String, String> {
    let program = programs.join(name);
    let output = Command::new(&program).arg(option).output();
    let output = output.map_err(|error| format!("{} does not run: {error}", program.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The major version in `PostgreSQL 18.1 (Debian 18.1-2)`.
fn major(version: &str) -> Result<u32, String> {
    let number = version.trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits = number.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits
        .parse()
        .map_err(|_| format!("PostgreSQL does not say its version, but {version:?}"))
}

/// Copies a directory so that everybody can read it and run its programs.
fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    let with_mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    fs::create_dir(to)
        .and_then(|()| with_mode(to, 0o755))
        .map_err(|error| problem(to, &error))?;
    for entry in fs::read_dir(from).map_err(|error| problem(from, &error))? {
        let source = entry.map_err(|error| problem(from, &error))?.path();
        let target = to.join(source.file_name().unwrap_or_default());
        if source.is_dir() {
            copy_tree(&source, &target)?;
            continue;
        }
        let copied = fs::copy(&source, &target).and_then(|_| {
            let is_program = fs::metadata(&source)?.permissions().mode() & 0o111 != 0;
            with_mode(&target, if is_program { 0o755 } else { 0o644 })
        });
        copied.map_err(|error| problem(&source, &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_that_settings_or_a_shell_would_change_cannot_be_named() {
        for name in ["/a b", "/ü漢", "/a'b", "/a,b;c&d*e"] {
            assert!(can_be_named(Path::new(name)), "{name}");
        }
        for name in ["/a:b", "/a$b", "/a`b", "/a\"b", "/a\\b", "/a\nb"] {
            assert!(!can_be_named(Path::new(name)), "{name}");
        }
    }
}
