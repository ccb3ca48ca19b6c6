//! Runs a page.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

use system_tests::Database;

use crate::compare::{difference, tidy};
use crate::page::Page;
use crate::psql::{End, Psql};

/// A difference between a block and its page.
#[derive(Debug)]
pub struct Problem {
    pub page: String,
    /// The line of the block's SQL, or the line where its output differs.
    pub line: usize,
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.page, self.line, self.what.trim_end())
    }
}

/// The result of running a page.
#[derive(Debug)]
pub struct Report {
    pub problems: Vec<Problem>,
    /// The page with the outputs of this run where they differ.
    pub accepted: String,
}

impl Report {
    /// Whether the only problems are different outputs, which the accepted page corrects.
    pub fn can_be_accepted(&self) -> bool {
        self.problems.iter().all(|problem| problem.what.starts_with(DIFFERS))
    }
}

const DIFFERS: &str = "the output differs";

/// Runs all blocks of a page in a new database: an empty one for a page that creates the extension itself, else one with
/// the extension and the search path that `docs/guide/start.md` tells users to set.
pub fn run(page: &Page) -> Report {
    let creates_extension = |block: &crate::Block| block.sql.contains("CREATE EXTENSION table_service");
    let database = Database::empty();
    // The server of the tests has a longer limit; a reader's server has this one.
    let default = format!(
        "ALTER DATABASE {} SET table_service.page_time_limit = '5 s'",
        database.name()
    );
    database.session("set-up").run(&default);
    if !page.blocks.iter().any(creates_extension) {
        database.session("set-up").run(&format!(
            "CREATE EXTENSION table_service; ALTER DATABASE {} SET search_path = \"$user\", public, table_service",
            database.name()
        ));
    }
    run_in(page, &database)
}

fn run_in(page: &Page, database: &Database) -> Report {
    let mut sessions: HashMap<&str, Psql> = HashMap::new();
    let (mut problems, mut outputs) = (Vec::new(), Vec::new());
    for (index, block) in page.blocks.iter().enumerate() {
        let session = sessions
            .entry(&block.session)
            .or_insert_with(|| Psql::start(connection(database)));
        let printed = session.run(&block.sql, block.output.is_none());
        let problem = |line, what: String| Problem {
            page: page.name.clone(),
            line,
            what,
        };
        match &block.output {
            _ if printed.end == End::Hangs => {
                let what = format!("this block does not end. It printed:\n{}", printed.text);
                problems.push(problem(block.line, what));
                break; // the next blocks depend on this one
            }
            None if printed.end == End::Gone => {
                let what = format!("this block, which has no output block, fails:\n{}", printed.text);
                problems.push(problem(block.line, what));
                break;
            }
            None => {}
            Some(output) => {
                if let Some(difference) = difference(&output.text, &printed.text) {
                    let what = format!("{DIFFERS}: - is the page, + is what psql prints\n{}", difference.diff);
                    problems.push(problem(output.line + difference.line, what));
                    outputs.push((index, tidy(&printed.text)));
                }
            }
        }
        // The page shows that the session's server process ended. The next block with this name opens a new session.
        if printed.end == End::Gone {
            sessions.remove(block.session.as_str());
        }
    }
    Report {
        problems,
        accepted: page.with_outputs(&outputs),
    }
}

fn connection(database: &Database) -> Command {
    let mut command = database.cluster().program("psql");
    // PostgreSQL's other programs are also on the path, because \! may call them.
    let programs = Path::new(command.get_program()).parent().map(Path::to_owned);
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(programs.into_iter().chain(std::env::split_paths(&rest))).unwrap();
    command.env("PATH", path).env("PGDATABASE", database.name());
    command
}
