//! The programs of `docs/guide/drivers.md` that are not written in Rust: they print what the page shows. Their drivers come from
//! their registries.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment::{Result, about, root, run, step, text};
use crate::pgbouncer;
use crate::runner::Runner;
use crate::temporary::Server;

const PAGE: &str = "docs/guide/drivers.md";
const DATABASE: &str = "drivers";

/// Runs the programs. It needs Python, Node.js with npm, Java and apt-get.
///
/// # Errors
/// A program prints something else.
pub fn drivers(pg: Option<u32>) -> Result {
    let mut runner = Runner::with_postgres(pg, false)?;
    runner.install_extension()?;
    step("The programs of docs/guide/drivers.md");
    run_programs(&runner, None)
}

/// The same with the server behind this `PgBouncer`, if there is one.
///
/// # Errors
/// A program prints something else.
pub fn run_programs(runner: &Runner, bouncer: Option<&str>) -> Result {
    let environment = &runner.environment;
    let directory = runner.work()?.directory.join("drivers");
    std::fs::create_dir(&directory).map_err(about(&directory))?;
    let server = Server::start_with_tcp(environment, directory.join("cluster"), &[])?;
    let bouncer = bouncer
        .map(|program| pgbouncer::start(environment, program, &directory, &server))
        .transpose()?;
    let port = match &bouncer {
        Some((_, port)) => port.to_string(),
        None => server.connection("PGPORT")?,
    };
    let page = std::fs::read_to_string(root().join(PAGE)).map_err(about(Path::new(PAGE)))?;
    let programs = Programs {
        page,
        directory,
        port,
        server,
    };
    let python = programs.directory.join("python/bin");
    let here = |program: &Path| {
        let mut command = environment.command(program);
        command.current_dir(&programs.directory);
        command
    };

    run(here(Path::new("python3")).args(["-m", "venv", "python"]))?;
    run(here(&python.join("pip")).args(["install", "--quiet", "psycopg[binary]"]))?;
    programs.check(
        "python",
        "employees.py",
        here(&python.join("python")).arg("employees.py"),
    )?;

    run(here(Path::new("npm")).args(["install", "--silent", "--no-fund", "--no-audit", "pg"]))?;
    programs.check("js", "employees.js", here(Path::new("node")).arg("employees.js"))?;

    run(here(Path::new("sh")).args([
        "-c",
        "apt-get download -qq libpostgresql-jdbc-java 2>/dev/null && dpkg -x libpostgresql-jdbc-java_*.deb jdbc",
    ]))?;
    let mut java = here(Path::new("java"));
    java.args(["-cp", "jdbc/usr/share/java/postgresql.jar", "Employees.java"]);
    java.arg(format!(
        "jdbc:postgresql://localhost:{}/{DATABASE}?user=postgres",
        programs.port
    ));
    programs.check("java", "Employees.java", &mut java)
}

struct Programs<'e> {
    page: String,
    directory: PathBuf,
    port: String,
    server: Server<'e>,
}

impl Programs<'_> {
    /// The program of a language prints what the page shows, in a new database.
    fn check(&self, language: &str, file: &str, program: &mut Command) -> Result {
        let (source, shown) =
            blocks(&self.page, language).ok_or_else(|| format!("{PAGE} has no {language} program"))?;
        let path = self.directory.join(file);
        std::fs::write(&path, source).map_err(about(&path))?;
        self.server.sql(
            "postgres",
            "postgres",
            &[
                "SET client_min_messages = warning",
                &format!("DROP DATABASE IF EXISTS {DATABASE}"),
                &format!("CREATE DATABASE {DATABASE}"),
            ],
        )?;
        let search_path = format!("ALTER DATABASE {DATABASE} SET search_path = \"$user\", public, table_service");
        self.server
            .sql("postgres", DATABASE, &["CREATE EXTENSION table_service", &search_path])?;
        program.env("PGHOST", "localhost").env("PGPORT", &self.port);
        let printed = text(program.env("PGUSER", "postgres").env("PGDATABASE", DATABASE))?;
        if printed != shown.trim() {
            return Err(format!(
                "{PAGE}: the {language} program prints something else:\n{printed}"
            ));
        }
        println!("{language}: as the page shows");
        Ok(())
    }
}

/// The program in a language, and the block after it, which is what it prints.
fn blocks<'p>(page: &'p str, language: &str) -> Option<(&'p str, &'p str)> {
    let (_, program) = page.split_once(&format!("```{language}\n"))?;
    let (program, rest) = program.split_once("```\n")?;
    let (_, shown) = rest.split_once("```text\n")?;
    let (shown, _) = shown.split_once("```\n")?;
    Some((program, shown))
}

#[cfg(test)]
mod tests {
    use super::blocks;

    #[test]
    fn what_a_program_prints_stands_in_the_next_block() {
        let page = "```sh\nx\n```\n```js\none\n```\nprints\n```text\ntwo\n```\n```js\nthree\n```\n";
        assert_eq!(blocks(page, "js"), Some(("one\n", "two\n")));
        assert_eq!(blocks(page, "java"), None);
    }
}
