//! The environment of all commands, and how they are run.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Context, bail};

/// The result of a step: its error says why it fails.
pub type Result<T = ()> = anyhow::Result<T>;

/// The environment that `pgrx-config/env.sh` makes of the caller's, for one PostgreSQL.
#[derive(Clone)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    /// The PostgreSQL major.
    pub pg: u32,
    /// Where tools and PostgreSQL installations are kept.
    pub cache: PathBuf,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap_or(root)
}

/// Returns how many processors this machine has.
pub fn processors() -> Result<usize> {
    Ok(std::thread::available_parallelism()?.get())
}

/// Returns whether this process runs as root. PostgreSQL does not: it runs as the user `postgres` then.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

impl Environment {
    /// The environment for a PostgreSQL major, or for the default one.
    pub fn load(pg: Option<u32>, checked: bool) -> Result<Environment> {
        const PRINT: &str = ". pgrx-config/env.sh \"$1\"; export cache cargo_deny_version cargo_mutants_version pgspot_version \
                             actionlint_version mdbook_version kubernetes_validate_version; env -0";
        let mut bash = Command::new("bash");
        bash.args(["-euc", PRINT, "env.sh"])
            .arg(pg.map(|pg| pg.to_string()).unwrap_or_default())
            .current_dir(root())
            .env_clear()
            .envs(of_the_caller());
        if checked {
            bash.env("CHECKED", "1");
        }
        let printed = output(&mut bash)?;
        let variables = printed.split(|&byte| byte == 0).filter_map(|field| {
            let end = field.iter().position(|&byte| byte == b'=')?;
            let (name, value) = field.split_at(end);
            let value = value.get(1..).unwrap_or_default();
            Some((OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned()))
        });
        let mut environment = Environment {
            variables: variables.collect(),
            pg: 0,
            cache: PathBuf::new(),
        };
        let major = environment.get("PG").unwrap_or_default().to_string_lossy();
        environment.pg = major
            .parse()
            .with_context(|| format!("'{major}' is no PostgreSQL major"))?;
        environment.cache = environment.get("cache").unwrap_or_default().into();
        Ok(environment)
    }

    /// The pinned version of a tool.
    pub fn version(&self, tool: &str) -> String {
        let version = self.get(&format!("{tool}_version")).unwrap_or_default();
        version.to_string_lossy().into_owned()
    }

    /// Sets a variable for all commands from now on.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.insert(name.into(), value.into());
    }

    /// Copies the private PostgreSQL of a major into a new directory. Returns the environment for the copy.
    pub fn with_own_postgres(&self, pg: u32, tree: &Path) -> Result<Environment> {
        let original = self.cache.join(format!("pg{pg}"));
        run(self.command("cp").arg("-a").arg(original).arg(tree))?;
        let mut other = self.clone();
        other.set("PG_CONFIG", tree.join("bin/pg_config"));
        Ok(other)
    }

    /// The path with another directory before the others.
    pub fn path_with(&self, directory: PathBuf) -> Result<OsString> {
        let path = self.get("PATH").unwrap_or_default();
        let paths = std::iter::once(directory).chain(std::env::split_paths(path));
        Ok(std::env::join_paths(paths)?)
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// A command in this environment, from the root of the repository.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(&self.variables).current_dir(root());
        command
    }

    /// A command as the user that PostgreSQL runs as. This user need not reach our directory.
    pub fn command_of_server(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = if is_root() {
            let mut command = self.command("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            self.command(program)
        };
        command.current_dir("/");
        command
    }

    /// Makes a directory that only this user can reach, for a server.
    pub fn make_directory_of_server(&self, directory: &Path) -> Result {
        std::fs::DirBuilder::new().mode(0o700).create(directory)?;
        if is_root() {
            run(self.command("chown").arg("postgres:").arg(directory))?;
        }
        Ok(())
    }

    /// `cargo` with these arguments.
    pub fn cargo<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let mut command = self.command("cargo");
        command.args(arguments);
        command
    }

    /// `pgrx-config/setup.sh`, for one of the things that it provides.
    pub fn set_up(&self, what: &str) -> Result {
        run(self.command("pgrx-config/setup.sh").arg(what))
    }

    /// The `pg_config` of the private PostgreSQL.
    pub fn pg_config(&self) -> PathBuf {
        self.get("PG_CONFIG").unwrap_or_default().into()
    }

    /// The answer of its `pg_config` to an option, for example `--sharedir`.
    pub fn directory_of_postgres(&self, option: &str) -> Result<PathBuf> {
        text(self.command(self.pg_config()).arg(option)).map(PathBuf::from)
    }

    /// A program of the private PostgreSQL, such as psql.
    pub fn of_postgres(&self, program: &str) -> PathBuf {
        self.pg_config().with_file_name(program)
    }

    /// Where cargo builds.
    pub fn target(&self) -> PathBuf {
        self.get("CARGO_TARGET_DIR")
            .map_or_else(|| root().join("target"), PathBuf::from)
    }
}

/// The variables that the scripts and tests here read. Only the options of a task set these: a variable of the caller's
/// environment, where make also puts those of its command line, would also reach other steps.
const OPTIONS: [&str; 8] = [
    "ACCEPT",
    "CHECKED",
    "HISTORIES",
    "PAGE",
    "RELEASES",
    "SEED",
    "SOAK",
    "VALGRIND",
];

/// Returns the caller's environment without options, and without the variables that `cargo run` adds for this program: cargo and
/// PostgreSQL would take them for the user's.
fn of_the_caller() -> impl Iterator<Item = (OsString, OsString)> {
    let added = |name: &OsStr| {
        let bytes = name.as_bytes();
        [b"CARGO_PKG_".as_slice(), b"CARGO_MANIFEST_"]
            .iter()
            .any(|prefix| bytes.starts_with(prefix))
            || ["CARGO", "PG", "RUSTC_BOOTSTRAP"].iter().any(|other| name == *other)
            || OPTIONS.iter().any(|option| name == *option)
    };
    std::env::vars_os()
        .filter(move |(name, _)| !added(name))
        .map(|(name, value)| {
            if name != "LD_LIBRARY_PATH" {
                return (name, value);
            }
            let target = root().join("target");
            let ours =
                |path: &Path| path.starts_with(&target) || path.ends_with("lib") && path.join("rustlib").exists();
            let kept: Vec<PathBuf> = std::env::split_paths(&value).filter(|path| !ours(path)).collect();
            (name, std::env::join_paths(kept).unwrap_or_default())
        })
}

/// Runs a command with our input and output.
pub fn run(command: &mut Command) -> Result {
    let status = command.status().with_context(|| name(command))?;
    if status.success() {
        Ok(())
    } else {
        bail!("{}: {status}", name(command))
    }
}

/// Runs a command. Returns its output.
pub fn output(command: &mut Command) -> Result<Vec<u8>> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| name(command))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        bail!("{}: {}", name(command), output.status)
    }
}

/// Runs a command. Returns its output as text, without white space around it.
pub fn text(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&output(command)?).trim().to_owned())
}

/// A command in one line, for messages; of a script, only its name.
fn name(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    let arguments = command
        .get_args()
        .map(OsStr::to_string_lossy)
        .take_while(|argument| !argument.contains('\n'));
    words.extend(arguments.map(std::borrow::Cow::into_owned));
    words.join(" ")
}

/// Writes a file. Returns its path.
pub fn write(path: PathBuf, text: &str) -> Result<PathBuf> {
    fs_err::write(&path, text)?;
    Ok(path)
}

/// The names of the files in a directory that have this ending, without it, in order.
pub fn names(directory: &Path, ending: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs_err::read_dir(directory)? {
        let name = entry?.file_name();
        if let Some(name) = name
            .to_str()
            .and_then(|name| name.strip_suffix(ending)?.strip_suffix('.'))
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Prints a headline, with the minutes and seconds since the first one: they tell where the time of a run goes.
pub fn step(text: &str) {
    static START: OnceLock<Instant> = OnceLock::new();
    let seconds = START.get_or_init(Instant::now).elapsed().as_secs();
    println!("\n\x1b[1m== {:02}:{:02} {text}\x1b[0m", seconds / 60, seconds % 60);
}
