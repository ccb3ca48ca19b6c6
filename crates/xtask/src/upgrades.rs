//! Upgrades from released versions, with the libraries and gateways of these versions (see `pgrx-config/release.sh`).
//!
//! `tests/upgrade/data.sql` has the content of a database. `answers.sql`, `definitions.sql` and `matches.sql` have
//! statements with answers that are the same before, during and after the upgrade. `twins.sql` makes tables with one
//! name, for a second database, and `twins_answers.sql` asks for them. `features.sql` has features of this version
//! alone, for `pg_upgrade`. `catalog.sql` lists every object of the extension. `tests/system/tests/system/upgrade.rs`
//! tests the parts that need no library of another version.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, bail};
use fs_err::File;

use crate::background::Background;
use crate::environment::{Environment, Result, root, run, step, text, write};
use crate::runner::Runner;
use crate::sdks::Programs;
use crate::service::{DATABASE, Service};
use crate::temporary::Server;

const THIS: &str = env!("CARGO_PKG_VERSION");
const ANSWERS: &str = "tests/upgrade/answers.sql";
/// Statements that make and drop tables. After `ALTER EXTENSION`, a library before 0.5.0 cannot execute them.
const DEFINITIONS: &str = "tests/upgrade/definitions.sql";
const DEFINITIONS_CALL: (&str, &str) = ("0.5.0", "refuse_taken_names_wrapper");
/// The queries of `matches`. After `ALTER EXTENSION`, a library before 0.2.0 cannot execute them.
const MATCHES: &str = "tests/upgrade/matches.sql";
const MATCHES_CALL: (&str, &str) = ("0.2.0", "matches_support_wrapper");

/// The statement of `docs/guide/upgrade.md` for `pg_upgrade` to PostgreSQL 19 or later: its planner asks for more.
const ASKS_FOR_QUERIES: &str =
    "ALTER FUNCTION table_service.query_entities SUPPORT table_service.query_entities_support";

/// The database with tables that have one name in two cases, or a reserved one, as was possible before 0.5.0.
const TWINS: &str = "twins";
/// The output of `twins_answers.sql`.
const TWINS_ANSWERS: &str = "Tables\nTwins\ntwins\n\
    42P09 AmbiguousTableName\n42P09 AmbiguousTableName\n{\"A\":3}\n{\"A\":1}\nt\n1\n2\n3";

/// The output of `feed.sql` where the feed goes on.
const FEED_GOES_ON: &str = "0\n1\ninsert|new|{\"State\":\"sent\"}|t\n\n0";

/// Upgrades from every release; on a PostgreSQL after 15 also with `pg_upgrade` from the major before, which keeps change feeds from
/// 17 on.
pub fn upgrades(pg: Option<u32>, accept: bool) -> Result {
    let mut runner = Runner::with_postgres(pg, false)?;
    runner.environment.set_up("sdks")?;
    runner.install_extension()?;
    step("Upgrades from released versions");
    runner.build_gateway()?;
    let environment = &runner.environment;
    let work = runner.work()?.directory.join("upgrades");
    fs_err::create_dir(&work)?;
    let new = Server::start(environment, work.join("new"), &[])?;
    create_database(&new)?;
    let catalog = catalog(&new)?;
    if catalog.is_empty() {
        bail!("a new database has no catalog");
    }
    let upgrades = Upgrades {
        environment,
        work,
        new,
        catalog,
    };
    let mut major_before = (environment.pg > 15)
        .then(|| Runner::with_postgres(Some(environment.pg - 1), false))
        .transpose()?;
    for (release, commit) in releases()? {
        // Only pg_upgrade leads to a major that a release does not know.
        let manifest = text(
            environment
                .command("git")
                .arg("show")
                .arg(format!("{commit}:Cargo.toml")),
        )?;
        let knows = |pg: u32| manifest.contains(&format!("\npg{pg} = "));
        if knows(environment.pg) {
            upgrades.from(&release, &commit, accept)?;
        }
        if let Some(before) = &major_before
            && knows(before.environment.pg)
        {
            upgrades.by_pg_upgrade(&release, before.environment.pg)?;
        }
    }
    if let Some(before) = &mut major_before
        && before.environment.pg >= 17
    {
        before.install_extension()?;
        upgrades.with_a_feed_by_pg_upgrade(&before.environment)?;
    }
    Ok(())
}

/// Returns whether the programs of a release take a function of the extension that is not in C for a stranger's.
fn knows_only_functions_in_c(source: &Path) -> Result<bool> {
    let question = source.join("crates/model/src/extension.rs");
    Ok(question.exists() && !fs_err::read_to_string(question)?.contains("event_trigger"))
}

/// The released versions before this one, and the commit of each.
fn releases() -> Result<Vec<(String, String)>> {
    let path = root().join("sql/releases/commits");
    let lines = fs_err::read_to_string(&path)?;
    let releases = lines
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .filter(|(release, _)| *release != THIS);
    Ok(releases
        .map(|(release, commit)| (release.to_owned(), commit.to_owned()))
        .collect())
}

struct Upgrades<'e> {
    environment: &'e Environment,
    work: PathBuf,
    /// A server with the extension of this checkout.
    new: Server<'e>,
    /// Its catalog of a new database.
    catalog: String,
}

impl Upgrades<'_> {
    fn from(&self, release: &str, commit: &str, accept: bool) -> Result {
        headline(&format!(
            "From {release} to {THIS} on PostgreSQL {}",
            self.environment.pg
        ));
        let old = self.postgres_with(release, self.environment.pg)?;
        let server = Server::start(&old, self.work.join(format!("old-{release}")), &[])?;
        create_database(&server)?;
        file(&server, "tests/upgrade/data.sql")?;
        let before = answers(&server, DATABASE)?;
        add_twins(&server)?;

        headline("Its binary formats are the committed ones");
        let formats = file(&server, "tests/upgrade/formats.sql")?;
        let committed = root().join(format!("crates/model/tests/formats/{release}.txt"));
        if accept {
            fs_err::write(&committed, format!("{formats}\n"))?;
        }
        let committed_formats = fs_err::read_to_string(&committed)?;
        self.same(&committed.display().to_string(), committed_formats.trim_end(), &formats)?;

        headline(&format!("A dump of {release}, restored into {THIS}"));
        self.restores(&server, &before)?;

        headline(&format!(
            "The gateway of {release} with {THIS}, and the gateway of {THIS} with {release}"
        ));
        let source = self.work.join(format!("source-{release}"));
        self.unpack(commit, &source)?;
        let built = self.built(release, self.environment.pg)?;
        let programs = Programs::here(self.environment)?;
        let gateway = self.environment.target().join("debug/table-service-gateway");
        self.work_together(&gateway, &old, &programs)?;
        let old_gateway = built.join("table-service-gateway");
        if knows_only_functions_in_c(&source)? {
            self.refuses(&old_gateway)?;
        } else {
            let programs = programs.in_directory(source.join("tests/sdk"));
            self.work_together(&old_gateway, self.environment, &programs)?;
        }

        headline(&format!(
            "The library of {THIS} under the objects of {release}, while a session has the old one open"
        ));
        self.library_and_objects(release, &server, &old, &before)?;
        self.keeps_twins(&server)?;
        self.is_like_new(&server, &format!("the database that was upgraded from {release}"))
    }

    /// The environment of a copy of a PostgreSQL with that release.
    fn postgres_with(&self, release: &str, pg: u32) -> Result<Environment> {
        let built = self.built(release, pg)?;
        let tree = self.work.join(format!("postgresql-{pg}-{release}"));
        let environment = self.environment.with_own_postgres(pg, &tree)?;
        let (libraries, extensions) = directories(&environment)?;
        let mut remove = environment.command("sh");
        run(remove.args(["-c", "rm -f \"$0\"/table_service[.-]*"]).arg(&extensions))?;
        let copy = |name: &str, to: &Path| fs_err::copy(built.join(name), to.join(name));
        copy("table_service.so", &libraries)?;
        copy(&format!("table_service--{release}.sql"), &extensions)?;
        let path = root().join("table_service.control");
        let control = fs_err::read_to_string(&path)?;
        let control = control.replace("@CARGO_VERSION@", release);
        fs_err::write(extensions.join("table_service.control"), control)?;
        Ok(environment)
    }

    /// Where a release was built.
    fn built(&self, release: &str, pg: u32) -> Result<PathBuf> {
        let mut script = self.environment.command("pgrx-config/release.sh");
        text(script.args([release, &pg.to_string()])).map(PathBuf::from)
    }

    /// The files of this checkout over those of a release, as a package does it.
    fn replace_files(&self, old: &Environment) -> Result {
        let library = self
            .environment
            .directory_of_postgres("--pkglibdir")?
            .join("table_service.so");
        let (libraries, extensions) = directories(old)?;
        let mut replace = self.environment.command("packaging/extension.sh");
        run(replace.args([library, libraries, extensions]))
    }

    fn restores(&self, server: &Server, before: &str) -> Result {
        let mut dump = self.environment.command(self.environment.of_postgres("pg_dump"));
        let path = self.work.join("dump.sql");
        run(dump
            .arg("-f")
            .arg(&path)
            .arg("-d")
            .arg(server.url("postgres", DATABASE)?))?;
        self.new.sql(
            "postgres",
            "postgres",
            &[
                "SET client_min_messages = warning",
                "DROP DATABASE IF EXISTS restored",
                "CREATE DATABASE restored",
            ],
        )?;
        text(self.new.psql("postgres", "restored")?.arg("-f").arg(&path))?;
        self.same(
            "answers of the restored database",
            before,
            &answers(&self.new, "restored")?,
        )
    }

    fn unpack(&self, commit: &str, directory: &Path) -> Result {
        fs_err::create_dir(directory)?;
        let mut unpack = self.environment.command("bash");
        unpack.args(["-o", "pipefail", "-c", "git archive \"$0\" | tar x -C \"$1\"", commit]);
        run(unpack.arg(directory))
    }

    /// A gateway works with a database, by an SDK that knows neither, in the gateway's test programs.
    fn work_together(&self, gateway: &Path, postgres: &Environment, programs: &Programs) -> Result {
        let directory = self.work.join("sdk");
        let mut service = Service::start(postgres, directory.clone(), &[])?;
        gateway.clone_into(&mut service.gateway);
        programs.run(service, &["python".to_owned()])?;
        fs_err::remove_dir_all(&directory)?;
        let version = text(self.environment.command(gateway).arg("--version"))?;
        println!("ok: {version} with the extension of {}", postgres.pg_config().display());
        Ok(())
    }

    /// A gateway that knows only functions in C refuses the extension of this version and names the unknown function, as the guide says.
    fn refuses(&self, gateway: &Path) -> Result {
        const SAYS: &str = "of the database is not of the extension table_service";
        let directory = self.work.join("refused");
        let service = Service::start(self.environment, directory.clone(), &[])?;
        let mut command = self.environment.command(gateway);
        let mut refusing = Background::start(command.args(service.command_line()), &directory, "gateway")?;
        let log = directory.join("gateway.log");
        refusing.wait_until(|| fs_err::read_to_string(&log).ok()?.contains(SAYS).then_some(()))?;
        drop(refusing);
        drop(service);
        fs_err::remove_dir_all(&directory)?;
        println!("ok: {} refuses the extension of {THIS}", gateway.display());
        Ok(())
    }

    /// First the files are replaced, then the objects.
    fn library_and_objects(&self, release: &str, server: &Server, old: &Environment, before: &str) -> Result {
        let mut session = Session::start(server)?;
        let all = format!("\\i {ANSWERS}\n\\i {DEFINITIONS}\n\\i {MATCHES}");
        let answers_alone = format!("\\i {ANSWERS}");
        self.same("answers of the open session before", before, &session.ask(&all)?)?;
        let before_alone = session.ask(&answers_alone)?;

        self.replace_files(old)?;
        self.same(
            "answers of the open session after the files were replaced",
            before,
            &session.ask(&all)?,
        )?;
        self.same(
            "answers of a new session, before ALTER EXTENSION",
            before,
            &answers(server, DATABASE)?,
        )?;
        self.write_in_turn(&mut session, server, "Before")?;

        server.sql("postgres", DATABASE, &["ALTER EXTENSION table_service UPDATE"])?;
        self.same(
            "answers of the open session after ALTER EXTENSION",
            &before_alone,
            &session.ask(&answers_alone)?,
        )?;
        self.same(
            "answers of a new session after ALTER EXTENSION",
            before,
            &answers(server, DATABASE)?,
        )?;
        self.write_in_turn(&mut session, server, "After")?;
        self.needs_the_new_library(release, &mut session, server, DEFINITIONS, DEFINITIONS_CALL)?;
        self.needs_the_new_library(release, &mut session, server, MATCHES, MATCHES_CALL)
    }

    /// The open session executes a file as a new one does, unless its library lacks a function of version `since`.
    fn needs_the_new_library(
        &self,
        release: &str,
        session: &mut Session,
        server: &Server,
        path: &str,
        (since, function): (&str, &str),
    ) -> Result {
        let said = session.ask(&format!("\\set ON_ERROR_STOP off\n\\i {path}"))?;
        if release >= since {
            let expected = file(server, path)?;
            return self.same(&format!("answers of {path} in the open session"), &expected, &said);
        }
        if !said.contains(&format!("could not find function \"{function}\"")) {
            bail!("the open session with the library of {release} executes {path}: {said}");
        }
        println!("ok: the open session needs the new library for {path}");
        Ok(())
    }

    /// The session with the old library and one with the new library change the same entity alternately.
    fn write_in_turn(&self, session: &mut Session, server: &Server, table: &str) -> Result {
        server.sql(
            "postgres",
            DATABASE,
            &[&format!("SELECT 1 FROM table_service.create_table('{table}')")],
        )?;
        let mut tag = session.ask(&format!(
            "SELECT table_service.insert_entity('{table}', 'p', 'r', '{{\"A\": 0}}')"
        ))?;
        for number in 1..=3 {
            let merge = |by: &str, tag: &str| {
                let tag = tag.replace('\'', "''");
                format!("SELECT table_service.merge_entity('{table}', 'p', 'r', '{{\"{by}\": {number}}}', '{tag}')")
            };
            tag = server.sql("postgres", DATABASE, &[&merge("New", &tag)])?;
            tag = session.ask(&merge("Old", &tag))?;
        }
        let got = session.ask(&format!(
            "SELECT properties FROM table_service.get_entity('{table}', 'p', 'r')"
        ))?;
        self.same(
            "the old and the new library write alternately",
            "{\"A\":0,\"New\":3,\"Old\":3}",
            &got,
        )?;
        let gone = format!("SELECT 1 FROM table_service.delete_table('{table}')");
        server.sql("postgres", DATABASE, &[&gone]).map(drop)
    }

    /// Checks that the database has the catalog of a new one.
    fn is_like_new(&self, server: &Server, what: &str) -> Result {
        self.same(
            &format!("{what} has the catalog of a new database"),
            &self.catalog,
            &catalog(server)?,
        )
    }

    /// From the extension of a release on another PostgreSQL to this one on the PostgreSQL of this environment.
    fn by_pg_upgrade(&self, release: &str, pg: u32) -> Result {
        self.headline_of_pg_upgrade(release, pg);
        let old = self.postgres_with(release, pg)?;
        let server = Server::start(&old, self.work.join(format!("old{pg}-{release}")), &[])?;
        create_database(&server)?;
        file(&server, "tests/upgrade/data.sql")?;
        let before = answers(&server, DATABASE)?;
        add_twins(&server)?;
        let upgraded = self.pg_upgraded(&server, release)?;
        self.keeps_twins(&upgraded)?;
        self.same("answers after pg_upgrade", &before, &answers(&upgraded, DATABASE)?)?;
        upgraded.sql("postgres", DATABASE, &["ALTER EXTENSION table_service UPDATE"])?;
        self.same("answers after ALTER EXTENSION", &before, &answers(&upgraded, DATABASE)?)?;
        self.is_like_new(&upgraded, "the database that pg_upgrade made")
    }

    /// Upgrades another PostgreSQL that has the extension of this version, with features of this version alone.
    fn with_a_feed_by_pg_upgrade(&self, old: &Environment) -> Result {
        self.headline_of_pg_upgrade(THIS, old.pg);
        // A transaction of autovacuum counts as a change that the feed has not read.
        let server = Server::start(old, self.work.join("old"), &["autovacuum=off"])?;
        create_database(&server)?;
        file(&server, "tests/upgrade/data.sql")?;
        file(&server, "tests/upgrade/features.sql")?;
        let features = "tests/upgrade/features_answers.sql";
        let (before, before_of_features) = (answers(&server, DATABASE)?, file(&server, features)?);
        add_twins(&server)?;
        // A transaction that was rolled back may not be on the disk yet.
        let confirm = [
            "CHECKPOINT",
            "SELECT table_service.confirm_changes('orders', pg_current_wal_flush_lsn()::text)",
            "SELECT \"position\" FROM table_service.query_change_feeds()",
        ];
        let confirmed = server.sql("postgres", DATABASE, &confirm)?;
        let upgraded = self.pg_upgraded(&server, THIS)?;
        self.keeps_twins(&upgraded)?;
        self.same("answers after pg_upgrade", &before, &answers(&upgraded, DATABASE)?)?;
        self.same(
            "a property index, an expiry and a change feed after pg_upgrade",
            &before_of_features,
            &file(&upgraded, features)?,
        )?;
        let mut feed = upgraded.psql("postgres", DATABASE)?;
        feed.args(["-f", "tests/upgrade/feed.sql", "-v"])
            .arg(format!("confirmed={confirmed}"));
        self.same("the change feed goes on", FEED_GOES_ON, &text(&mut feed)?)?;
        if old.pg < 19 && self.environment.pg >= 19 {
            upgraded.sql("postgres", DATABASE, &[ASKS_FOR_QUERIES])?;
        }
        self.is_like_new(&upgraded, "the database that pg_upgrade made")
    }

    /// Tables with one name are refused, the others are served, and the remedy of the hint helps.
    fn keeps_twins(&self, server: &Server) -> Result {
        server.sql("postgres", TWINS, &["ALTER EXTENSION table_service UPDATE"])?;
        let mut asked = server.psql("postgres", TWINS)?;
        asked.args(["-f", "tests/upgrade/twins_answers.sql"]);
        self.same("tables with one name", TWINS_ANSWERS, &text(&mut asked)?)
    }

    fn headline_of_pg_upgrade(&self, version: &str, pg: u32) {
        headline(&format!(
            "pg_upgrade from {version} on PostgreSQL {pg} to {THIS} on PostgreSQL {}",
            self.environment.pg
        ));
    }

    /// Stops a server, upgrades it by pg_upgrade to the PostgreSQL of this environment, and starts it.
    fn pg_upgraded(&self, server: &Server, version: &str) -> Result<Server<'_>> {
        let environment = self.environment;
        let has_checksums = server.sql("postgres", DATABASE, &["SHOW data_checksums"])? == "on";
        server.stop_and_keep()?;
        let directory = self.work.join(format!("upgraded-{version}"));
        environment.make_directory_of_server(&directory)?;
        let data = directory.join("data");
        let mut init = environment.command_of_server(environment.of_postgres("initdb"));
        init.args("-U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync".split(' '));
        // From PostgreSQL 18 on they are the default.
        if environment.pg >= 18 && !has_checksums {
            init.arg("--no-data-checksums");
        }
        text(init.arg("-D").arg(&data))?;
        let settings = root().join("pgrx-config/server.conf");
        let settings = fs_err::read_to_string(&settings)?;
        let append = "printf '%s\n' \"$2\" \"include_if_exists = 'run.conf'\" >>\"$1\"";
        let mut configure = environment.command_of_server("sh");
        configure.args(["-c", append, "sh"]).arg(data.join("postgresql.conf"));
        run(configure.arg(settings))?;
        let mut upgrade = environment.command_of_server(environment.of_postgres("pg_upgrade"));
        upgrade
            .current_dir(&directory)
            .args(["-U", "postgres", "-b"])
            .arg(server.environment.of_postgres(""));
        upgrade
            .arg("-B")
            .arg(environment.of_postgres(""))
            .arg("-d")
            .arg(server.directory.join("data"));
        upgrade.arg("-D").arg(&data).arg("-s").arg(&directory);
        let log = self.work.join("pg_upgrade.log");
        upgrade.stdout(File::create(&log)?.into_file());
        if let Err(error) = run(&mut upgrade) {
            let mut logs = environment.command("find");
            logs.arg(&log)
                .arg(&directory)
                .args(["(", "-name", "*.txt", "-o", "-name", "pg_upgrade*.log", ")"]);
            run(logs.args(["-exec", "tail", "-n", "30", "{}", "+"]))?;
            return Err(error);
        }
        Server::start(environment, directory, &[])
    }

    fn same(&self, what: &str, expected: &str, got: &str) -> Result {
        if expected == got {
            println!("ok: {what}");
            return Ok(());
        }
        let file = |name: &str, text: &str| write(self.work.join(name), &format!("{text}\n"));
        let mut diff = self.environment.command("diff");
        let diff = diff
            .arg("-u")
            .arg(file("expected", expected)?)
            .arg(file("got", got)?)
            .output();
        let differences = diff?.stdout;
        for line in String::from_utf8_lossy(&differences).lines().take(40) {
            println!("{}", line.chars().take(400).collect::<String>());
        }
        bail!("FAILED: {what}")
    }
}

/// A session of psql that stays open.
struct Session {
    psql: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Session {
    fn start(server: &Server) -> Result<Session> {
        let psql = server.psql("postgres", DATABASE)?;
        // Messages of errors are a part of its answers.
        let mut shell = server.environment.command("sh");
        shell
            .args(["-c", "exec \"$@\" 2>&1", "sh"])
            .arg(psql.get_program())
            .args(psql.get_args());
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut psql = shell.spawn()?;
        let input = psql.stdin.take();
        let output = psql.stdout.take().context("psql has no output")?;
        Ok(Session {
            psql,
            input,
            output: BufReader::new(output),
        })
    }

    /// Returns the answer to these commands.
    fn ask(&mut self, commands: &str) -> Result<String> {
        const END: &str = "end of the answer";
        let input = self.input.as_mut().context("psql has no input")?;
        write!(input, "{commands}\n;\n\\echo {END}\n").context("psql")?;
        let mut answer = String::new();
        loop {
            let mut line = String::new();
            self.output.read_line(&mut line).context("psql")?;
            if line.is_empty() || line.trim_end() == END {
                return Ok(answer.trim().to_owned());
            }
            answer += &line;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.psql.wait();
    }
}

fn create_database(server: &Server) -> Result {
    server.sql("postgres", "postgres", &[&format!("CREATE DATABASE {DATABASE}")])?;
    server
        .sql("postgres", DATABASE, &["CREATE EXTENSION table_service"])
        .map(drop)
}

/// Adds a copy of the database, with tables that have one name.
fn add_twins(server: &Server) -> Result {
    let copy = format!("CREATE DATABASE {TWINS} TEMPLATE {DATABASE}");
    server.sql("postgres", "postgres", &[&copy])?;
    run(server.psql("postgres", TWINS)?.args(["-f", "tests/upgrade/twins.sql"]))
}

/// Runs a file in the database. Returns its output.
fn file(server: &Server, path: &str) -> Result<String> {
    text(server.psql("postgres", DATABASE)?.args(["-f", path]))
}

fn answers(server: &Server, database: &str) -> Result<String> {
    text(
        server
            .psql("postgres", database)?
            .args(["-f", ANSWERS, "-f", DEFINITIONS, "-f", MATCHES]),
    )
}

fn catalog(server: &Server) -> Result<String> {
    let mut psql = server.psql("postgres", DATABASE)?;
    text(
        psql.args(["-f", "tests/upgrade/catalog.sql"])
            .env("PGOPTIONS", "-c search_path="),
    )
}

/// Where a PostgreSQL has its libraries and extensions.
fn directories(environment: &Environment) -> Result<(PathBuf, PathBuf)> {
    let extensions = environment.directory_of_postgres("--sharedir")?.join("extension");
    Ok((environment.directory_of_postgres("--pkglibdir")?, extensions))
}

fn headline(text: &str) {
    println!("-- {text}");
}
