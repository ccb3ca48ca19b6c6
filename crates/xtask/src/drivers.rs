//! The programs that the guide shows, but for the one in Rust: their output is the one on the page. Their packages come
//! from their registries, at the versions that `tests/drivers` names.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::environment::{Result, root, run, step, text, write};
use crate::packages::{javascript, node, python};
use crate::pgbouncer;
use crate::runner::Runner;
use crate::temporary::{ON_TCP, Server};

/// `docs/README.md` says how their programs are marked.
const PAGES: [&str; 3] = [
    "docs/guide/drivers.md",
    "docs/guide/orms.md",
    "docs/guide/change-feed.md",
];
const LANGUAGES: [&str; 3] = ["python", "js", "java"];
/// The sections with drivers that were tried behind `PgBouncer`.
const BEHIND_PGBOUNCER: [&str; 3] = ["psycopg", "node-postgres", "JDBC"];
const DATABASE: &str = "drivers";

/// Runs all programs. It needs Python, Node.js with npm, Java and apt-get.
pub fn drivers(pg: Option<u32>) -> Result {
    let mut runner = Runner::with_postgres(pg, false)?;
    runner.environment.set_up("sdks")?;
    runner.install_extension()?;
    step("The programs of the guide");
    run_programs(&runner, None, |_| true)
}

/// Runs the programs that need little, of pages with a text in their path.
pub fn small_programs(runner: &Runner, page: &str) -> Result {
    runner.environment.set_up("sdks")?;
    step("The programs of the guide");
    run_programs(runner, None, |program| {
        program.size == "small" && program.page.contains(page)
    })
}

/// Runs the programs of drivers with the server behind this `PgBouncer`.
pub fn programs_behind(runner: &Runner, bouncer: &str) -> Result {
    run_programs(runner, Some(bouncer), |program| {
        BEHIND_PGBOUNCER.contains(&program.section)
    })
}

fn run_programs(runner: &Runner, bouncer: Option<&str>, is_chosen: impl Fn(&Program) -> bool) -> Result {
    let read = |page| Ok((page, fs_err::read_to_string(root().join(page))?));
    let pages = PAGES.into_iter().map(read).collect::<Result<Vec<_>>>()?;
    let mut chosen = Vec::new();
    for (page, text) in &pages {
        chosen.extend(programs(page, text)?.into_iter().filter(&is_chosen));
    }
    if chosen.is_empty() {
        return Ok(());
    }
    let environment = &runner.environment;
    let directory = runner.work()?.directory.join("drivers");
    fs_err::create_dir(&directory)?;
    let server = Server::start(environment, directory.join("cluster"), &[ON_TCP])?;
    let bouncer = bouncer
        .map(|program| pgbouncer::start(environment, program, &directory, &server))
        .transpose()?;
    let port = match &bouncer {
        Some((_, port)) => port.to_string(),
        None => server.connection("PGPORT")?,
    };
    for (number, program) in chosen.iter().enumerate() {
        let directory = directory.join(number.to_string());
        fs_err::create_dir(&directory)?;
        make_database(&server)?;
        program.check(runner, &directory, &port)?;
    }
    Ok(())
}

fn make_database(server: &Server) -> Result {
    server.sql(
        "postgres",
        "postgres",
        &[
            "SET client_min_messages = warning",
            // PgBouncer keeps connections to the database of the program before.
            &format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"),
            &format!("CREATE DATABASE {DATABASE}"),
        ],
    )?;
    let search_path = format!("ALTER DATABASE {DATABASE} SET search_path = \"$user\", public, table_service");
    server
        .sql("postgres", DATABASE, &["CREATE EXTENSION table_service", &search_path])
        .map(drop)
}

/// A program that a page shows.
#[derive(Debug, PartialEq, Eq)]
struct Program<'p> {
    page: &'p str,
    section: &'p str,
    language: &'p str,
    /// `small` or `large`: which directory of `tests/drivers` names its packages.
    size: &'p str,
    source: &'p str,
    /// For Prisma, which makes its client of it.
    schema: Option<&'p str>,
    shown: &'p str,
}

impl Program<'_> {
    /// Checks that its output in a new database is the one on the page.
    fn check(&self, runner: &Runner, directory: &Path, port: &str) -> Result {
        let name = format!("{}, {} ({})", self.page, self.section, self.language);
        let mut program = self.command(runner, directory, port)?;
        program.current_dir(directory);
        program.env("PGHOST", "localhost").env("PGPORT", port);
        program.env("PGUSER", "postgres").env("PGDATABASE", DATABASE);
        let printed = text(&mut program).with_context(|| name.clone())?;
        if printed != self.shown.trim() {
            bail!("{name}: the program prints something else:\n{printed}");
        }
        println!("{name}: as the page shows");
        Ok(())
    }

    fn command(&self, runner: &Runner, directory: &Path, port: &str) -> Result<Command> {
        let environment = &runner.environment;
        let write = |name: &str, text: &str| write(directory.join(name), text);
        let packages = format!("tests/drivers/{}", self.size);
        let cached = format!("drivers-{}", self.size);
        match self.language {
            "python" => {
                let python = python(environment, &cached, &format!("{packages}/requirements.txt"))?;
                let mut program = environment.command(python);
                program.arg(write("program.py", self.source)?);
                Ok(program)
            }
            "js" => {
                let modules = javascript(environment, &cached, &packages)?;
                if let Some(schema) = self.schema {
                    write("schema.prisma", schema)?;
                    make_prisma_client(node(environment, &modules)?.current_dir(directory), &modules, directory)?;
                }
                let mut program = node(environment, &modules)?;
                program.arg(write("program.js", self.source)?);
                Ok(program)
            }
            _ => {
                let mut fetch = environment.command("sh");
                fetch.current_dir(directory).args([
                    "-c",
                    "apt-get download -qq libpostgresql-jdbc-java 2>/dev/null && dpkg -x libpostgresql-jdbc-java_*.deb jdbc",
                ]);
                run(&mut fetch)?;
                let mut program = environment.command("java");
                program.args(["-cp", "jdbc/usr/share/java/postgresql.jar"]);
                program.arg(write("Employees.java", self.source)?);
                program.arg(format!("jdbc:postgresql://localhost:{port}/{DATABASE}?user=postgres"));
                Ok(program)
            }
        }
    }
}

/// Makes the client of `schema.prisma`. Prisma looks for its packages beside that file. It would also fetch an engine for migrations,
/// which no program uses, from a host of its own: so it is told of one.
fn make_prisma_client(node: &mut Command, modules: &Path, directory: &Path) -> Result {
    fs_err::os::unix::fs::symlink(modules, directory.join("node_modules"))?;
    node.env("PRISMA_SCHEMA_ENGINE_BINARY", "/bin/true");
    text(node.args([
        "node_modules/prisma/build/index.js",
        "generate",
        "--schema=schema.prisma",
    ]))
    .map(drop)
}

/// Returns the programs of a page that run. The output of each is in the block `text` behind it.
fn programs<'p>(page: &'p str, text: &'p str) -> Result<Vec<Program<'p>>> {
    let (mut programs, mut schema) = (Vec::new(), None);
    for section in text.split("\n## ") {
        // The text behind the fence, and the content.
        let block = |block: &'p str| block.split_once('\n').unwrap_or((block, ""));
        let mut blocks = section.split("\n```").skip(1).step_by(2).map(block);
        let is_whole = section.matches("\n```").count() % 2 == 0;
        let section = section.lines().next().unwrap_or_default();
        if !is_whole {
            bail!("{page}, {section}: a block has no end in its section");
        }
        while let Some((info, source)) = blocks.next() {
            let (language, mark) = info.split_once(' ').unwrap_or((info, "small"));
            if language == "prisma" {
                schema = Some(source);
                continue;
            }
            if !LANGUAGES.contains(&language) || mark == "untested" {
                continue;
            }
            let Some(("text", shown)) = blocks.next() else {
                bail!("{page}, {section}: a {language} program has no block `text` behind it");
            };
            if !["small", "large"].contains(&mark) {
                bail!("{page}, {section}: `{mark}` is no mark of a program");
            }
            programs.push(Program {
                page,
                section,
                language,
                size: mark,
                source,
                schema: schema.take(),
                shown,
            });
        }
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::programs;

    #[test]
    fn what_a_program_prints_stands_in_the_next_block() {
        let page = "\n## A\n```sh\nx\n```\n```js\none\n```\nprints\n```text\ntwo\n```\n## B\n```prisma\np\n```\n```js large\nthree\n\n```\n```text\n```\n\
            ```java untested\nfour\n```\n";
        let found = programs("page", page).unwrap();
        let [a, b] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((a.section, a.language, a.size), ("A", "js", "small"));
        assert_eq!((a.source, a.shown), ("one", "two"));
        assert_eq!((b.section, b.size, b.source), ("B", "large", "three\n"));
        assert_eq!((a.schema, b.schema), (None, Some("p")));
        for wrong in [
            "\n```js\none\n```\n",
            "\n```js\none\n```\n```sh\n```\n",
            "\n```python huge\none\n```\n```text\n```\n",
            "\n```js\n## A\none\n```\n```text\n```\n",
        ] {
            assert!(programs("page", wrong).is_err(), "{wrong}");
        }
    }
}
