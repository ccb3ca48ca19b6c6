//! Unmodified SDKs, browsers and other clients from their registries, against gateways.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::bail;

use crate::background::{Background, new_key};
use crate::citus::{Cluster, Node};
use crate::environment::{Environment, Result, run};
use crate::packages::{javascript, node, python};
use crate::runner::Runner;
use crate::service::{DATABASE, ROLE, Service, all};
use crate::temporary::Server;

const ACCOUNT: &str = "sdktests1";
/// The suites of the SDKs, in directories of `tests/sdk`.
const SUITES: [&str; 3] = ["python", "javascript", "replay"];
const REQUIREMENTS: &str = "tests/sdk/requirements.txt";
const JAVASCRIPT: &str = "tests/sdk/javascript";

/// The suites of the SDKs. `tests` are SUITE or SUITE/TEST; without one, all.
pub fn sdks(runner: &Runner, bouncer: Option<&str>, tests: &[String]) -> Result {
    let programs = Programs::here(&runner.environment)?;
    let mut service = Service::start(&runner.environment, runner.work()?.directory.join("sdk"), &[])?;
    if let Some(bouncer) = bouncer {
        service.put_behind(bouncer)?;
    }
    programs.run(service, tests)
}

/// The same on a Citus cluster of three servers, which the gateway uses all.
pub fn sdks_on_citus(runner: &Runner) -> Result {
    let programs = Programs::here(&runner.environment)?;
    let directory = runner.work()?.directory.join("sdk");
    fs_err::create_dir(&directory)?;
    let cluster = Cluster::start(&Node {
        environment: &runner.environment,
        directory: &directory,
        database: DATABASE,
        owner: ROLE,
        settings: &[],
    })?;
    let service = Service::of(&runner.environment, directory.clone(), cluster.servers)?;
    programs.run(service, &[])
}

/// The programs of the suites, and the SDKs that they use.
pub struct Programs {
    tests: PathBuf,
    python: PathBuf,
    modules: PathBuf,
}

impl Programs {
    /// Those of this checkout.
    pub fn here(environment: &Environment) -> Result<Programs> {
        Ok(Programs {
            tests: "tests/sdk".into(),
            python: python(environment, "python", REQUIREMENTS)?,
            modules: javascript(environment, "javascript", JAVASCRIPT)?,
        })
    }

    /// Those in another directory, with the same SDKs.
    pub fn in_directory(self, tests: PathBuf) -> Programs {
        Programs { tests, ..self }
    }

    /// Runs the suites against a gateway of this service. See [`sdks`].
    pub fn run(&self, mut service: Service, tests: &[String]) -> Result {
        let chosen: Vec<(&str, Option<&str>)> = if tests.is_empty() {
            SUITES.map(|suite| (suite, None)).to_vec()
        } else {
            tests.iter().map(|test| split(test)).collect()
        };
        if let Some((unknown, _)) = chosen.iter().find(|(suite, _)| !SUITES.contains(suite)) {
            bail!("there is no suite '{unknown}' (there are: {})", SUITES.join(" "));
        }
        let (key, other_key) = (new_key(&service.environment)?, new_key(&service.environment)?);
        let address = service.start_gateway("gateway", &["--account", ACCOUNT, "--key", &key, "--key", &other_key])?;
        let environment = &mut service.environment;
        environment.set("SDK_ACCOUNT", ACCOUNT);
        environment.set("SDK_KEY", &key);
        environment.set("SDK_OTHER_KEY", &other_key);
        environment.set("SDK_ENDPOINT", format!("http://{address}/{ACCOUNT}"));
        let ended = all(chosen.iter().map(|(suite, test)| {
            println!("\n-- {suite}");
            run(self.command(&service.environment, suite)?.args(test))
        }));
        service.finish(ended, &[&key, &other_key], "sdk")
    }

    fn command(&self, environment: &Environment, suite: &str) -> Result<Command> {
        let directory = self.tests.join(suite);
        match suite {
            "javascript" => self.javascript(environment, &directory.join("run.js")),
            _ => Ok(self.python(environment, &directory.join("run.py"))),
        }
    }

    fn javascript(&self, environment: &Environment, program: &Path) -> Result<Command> {
        let mut node = node(environment, &self.modules)?;
        node.arg("--test-reporter=spec").arg(program);
        Ok(node)
    }

    fn python(&self, environment: &Environment, program: &Path) -> Command {
        let mut python = environment.command(&self.python);
        python.arg("-B").arg(program);
        python
    }
}

fn split(test: &str) -> (&str, Option<&str>) {
    test.split_once('/')
        .map_or((test, None), |(suite, test)| (suite, Some(test)))
}

/// The SDKs with a primary, a standby that follows it by streaming replication, and a gateway in front of both.
pub fn sdks_with_a_standby(runner: &Runner) -> Result {
    let programs = Programs::here(&runner.environment)?;
    let mut service = Service::start(&runner.environment, runner.work()?.directory.join("standbys"), &[])?;
    let primary = service.server()?;
    primary.sql("postgres", DATABASE, &["GRANT pg_read_all_stats TO gateway"])?;
    let standby = start_standby(&runner.environment, primary, service.directory.join("standby"))?;
    let primary = primary.directory.clone();
    service.environment.set("SDK_PRIMARY", primary);
    service.environment.set("SDK_STANDBY", &standby.directory);
    let control =
        |service: &Service, what: &str| run(service.environment.command("tests/sdk/standbys/control.sh").arg(what));
    control(&service, "pause")?;
    // The standby does not replay this yet. So it is behind all positions that the gateway notes.
    service
        .server()?
        .sql(ROLE, DATABASE, &["SELECT table_service.create_table('Early')"])?;
    let (key, url) = (new_key(&service.environment)?, standby.url(ROLE, DATABASE)?);
    let address = service.start_gateway(
        "gateway",
        &["--account", ACCOUNT, "--key", &key, "--secondary-url", &url],
    )?;
    let environment = &mut service.environment;
    environment.set("SDK_ACCOUNT", ACCOUNT);
    environment.set("SDK_KEY", &key);
    environment.set("SDK_PORT", address.rsplit(':').next().unwrap_or_default());
    println!("\n-- javascript");
    let javascript = run(&mut programs.javascript(&service.environment, Path::new("tests/sdk/standbys/run.js"))?);
    control(&service, "resume")?;
    println!("\n-- python");
    let python = run(&mut programs.python(&service.environment, Path::new("tests/sdk/standbys/run.py")));
    service.finish(all([javascript, python].into_iter()), &[&key], "sdk-standbys")
}

/// A copy of a server, which follows it.
fn start_standby<'e>(environment: &'e Environment, primary: &Server, directory: PathBuf) -> Result<Server<'e>> {
    environment.make_directory_of_server(&directory)?;
    let mut backup = environment.command_of_server(environment.of_postgres("pg_basebackup"));
    backup
        .arg("-D")
        .arg(directory.join("data"))
        .args(["--checkpoint=fast", "--write-recovery-conf", "--no-sync"]);
    run(backup.args(["-d", &primary.url("postgres", "postgres")?]))?;
    Server::start(environment, directory, &[])
}

/// The explorer: its scripts under a linter and a checker of types, then a browser that drives it: all tests, or those
/// with a text in their names.
pub fn explorer(runner: &Runner, bouncer: Option<&str>, name: Option<&str>) -> Result {
    let modules = javascript(&runner.environment, "explorer", "tests/explorer")?;
    let mut service = Service::start(
        &runner.environment,
        runner.work()?.directory.join("explorer"),
        // The page shows statistics. They come when a test asks for them.
        &["autovacuum=off"],
    )?;
    if let Some(bouncer) = bouncer {
        service.put_behind(bouncer)?;
    }
    println!("\n-- linter and types");
    lint(&service, &modules)?;

    println!("\n-- in a browser");
    let server = service.server()?;
    server.sql(
        "postgres",
        "postgres",
        &[
            "ALTER ROLE gateway REPLICATION",
            "CREATE DATABASE second OWNER gateway TEMPLATE template0",
        ],
    )?;
    server.sql(
        ROLE,
        "second",
        &[
            "CREATE EXTENSION table_service",
            "SELECT table_service.create_table('Elsewhere')",
        ],
    )?;
    let accounts = service.directory.join("accounts.toml");
    let key = new_key(&service.environment)?;
    let account = |name: &str, url: &str| {
        format!("[[accounts]]\nname = \"{name}\"\nkeys = [\"{key}\"]\ndatabase_url = \"{url}\"\n")
    };
    let second = account("second", &server.url(ROLE, "second")?);
    let gone = account("gone", &server.url(ROLE, DATABASE)?.replace("cluster", "nowhere"));
    fs_err::write(&accounts, second + &gone)?;
    let cluster = server.directory.clone();
    let accounts = accounts.display().to_string();
    let (clients, writing) = start_explorer(&mut service, "write", &["--config", &accounts])?;
    let (_, reading) = start_explorer(&mut service, "read", &[])?;
    a_terminal_shows_the_address(&mut service)?;
    let environment = &mut service.environment;
    environment.set("GATEWAY_CLIENTS", format!("http://{clients}"));
    environment.set("EXPLORER_WRITING", &writing);
    environment.set("EXPLORER_READING", &reading);
    environment.set("EXPLORER_CLUSTER", cluster);
    environment.set("EXPLORER_COPY", service.gateway.with_file_name("table-service-copy"));
    let mut tests = node(&service.environment, &modules)?;
    tests.args(["--test", "--test-reporter=spec", "--test-concurrency=1"]);
    tests.args(name.map(|name| format!("--test-name-pattern={name}")));
    let suites = ["explorer", "grid", "entity", "views"].map(|suite| format!("tests/explorer/{suite}.test.js"));
    let ended = run(tests.args(suites));
    let token = |address: &str| address.rsplit("token=").next().unwrap_or_default().to_owned();
    service.finish(ended, &[&token(&writing), &token(&reading)], "explorer")
}

/// A linter and a checker of types, which look for their packages beside the files.
fn lint(service: &Service, modules: &Path) -> Result {
    let checked = service.directory.join("checked");
    let copy = |from: &str, to: &Path| run(service.environment.command("cp").args(["-r", from]).arg(to));
    copy("crates/explorer/src/page", &checked)?;
    for file in ["eslint.config.js", "tsconfig.json", "package.json"] {
        copy(&format!("tests/explorer/{file}"), &checked)?;
    }
    fs_err::os::unix::fs::symlink(modules, checked.join("node_modules"))?;
    for program in [
        ["node_modules/eslint/bin/eslint.js", "--max-warnings=0", "."],
        ["node_modules/typescript/bin/tsc", "--project", "."],
    ] {
        run(node(&service.environment, modules)?.args(program).current_dir(&checked))?;
    }
    Ok(())
}

/// A gateway with an explorer. Returns its address, and the one of the explorer, which only its owner can read.
fn start_explorer(service: &mut Service, rights: &str, options: &[&str]) -> Result<(String, String)> {
    let file = service.directory.join(format!("{rights}.address"));
    let path = file.display().to_string();
    let options = [options, &["--explorer", rights, "--explorer-address-file", &path]].concat();
    let address = service.start_gateway(rights, &options)?;
    let mode = fs_err::metadata(&file)?.permissions().mode();
    if mode & 0o077 != 0 {
        bail!("others can read the file with the address: {path}");
    }
    let explorer = fs_err::read_to_string(&file)?;
    Ok((address, explorer.trim().to_owned()))
}

fn a_terminal_shows_the_address(service: &mut Service) -> Result {
    let command = format!(
        "{} {} --explorer read",
        service.gateway.display(),
        service.command_line().join(" ")
    );
    let mut script = service.environment.command("script");
    script.args(["-qfec", &command, "terminal"]).stdin(Stdio::null());
    let mut terminal = Background::start(&mut script, &service.directory, "script")?;
    let shown = service.directory.join("terminal");
    terminal.wait_until(|| {
        let shown = fs_err::read_to_string(&shown).ok()?;
        shown
            .lines()
            .any(|line| line.starts_with("explorer on http://127.0.0.1:") && line.contains("/explorer#token="))
            .then_some(())
    })
}
