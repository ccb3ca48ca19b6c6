//! The emulator as its users run it. `PG_CONFIG` names a PostgreSQL with the extension.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use clap::CommandFactory;
use raw_http::{Answer, Client, raw, send_all_then_read};
use system_tests::tls::Certificate;
use table_service_emulator::azurite::{Azurite, AzuriteTable};
use table_service_emulator::command_line::CommandLine;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_table-service-emulator");

/// A directory for the temporary files of one test, which others can reach: as root, the server is another user.
struct Temporary(TempDir);

impl Temporary {
    fn new() -> Temporary {
        let directory = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir_in("/tmp");
        Temporary(directory.unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the entries of the directory.
    fn entries(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The names of the directories of emulators.
    fn emulators(&self) -> Vec<String> {
        let entries = self.entries().into_iter().filter(|path| !path.ends_with("data"));
        let places = entries.filter_map(|base| fs::read_dir(base).ok()).flatten().flatten();
        let names = places.map(|place| place.file_name().into_string().unwrap());
        names.filter(|name| name != "lock").collect()
    }

    /// Processes that work in this directory: servers.
    fn processes(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let cwds = entries.filter_map(|entry| fs::read_link(entry.path().join("cwd")).ok());
        cwds.filter(|cwd| cwd.starts_with(self.path())).collect()
    }

    /// Returns whether no file and no process is left.
    fn is_clean(&self) -> bool {
        self.entries().is_empty() && self.processes().is_empty()
    }
}

fn program(temporary: &Temporary, arguments: &[&str]) -> Command {
    let pg_config = std::env::var("PG_CONFIG").expect("PG_CONFIG names a PostgreSQL with the extension");
    let output = Command::new(pg_config).arg("--bindir").output().unwrap();
    // Shells let programs in the background ignore some signals, and tests may run there.
    let mut command = Command::new("env");
    command
        .args(["--default-signal", PROGRAM])
        .args(arguments)
        .env("TMPDIR", temporary.path())
        .env(
            "TABLE_SERVICE_EMULATOR_POSTGRES",
            String::from_utf8(output.stdout).unwrap().trim(),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

struct Emulator {
    child: Child,
    address: SocketAddr,
    admin: SocketAddr,
}

impl Emulator {
    fn start(temporary: &Temporary, arguments: &[&str]) -> Emulator {
        let started = Emulator::try_start(temporary, arguments);
        started.unwrap_or_else(|said| panic!("it does not start: {said}"))
    }

    /// Starts it, or returns what it says instead.
    fn try_start(temporary: &Temporary, arguments: &[&str]) -> Result<Emulator, String> {
        let mut all = vec!["--port", "0", "--admin-port", "0"];
        all.extend(arguments);
        let mut child = program(temporary, &all).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let addresses: Vec<SocketAddr> = line
            .split("http://")
            .skip(1)
            .map(|rest| {
                rest.split([',', '\n'])
                    .next()
                    .unwrap()
                    .trim_end_matches('.')
                    .parse()
                    .unwrap()
            })
            .collect();
        let [address, admin] = addresses[..] else {
            let mut errors = String::new();
            child.stderr.as_mut().unwrap().read_to_string(&mut errors).unwrap();
            child.wait().unwrap();
            return Err(format!("{line}{errors}"));
        };
        Ok(Emulator { child, address, admin })
    }

    fn client(&self) -> Client {
        Client::new(self.address)
    }

    fn admin(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let host = self.admin.to_string();
        let mut all = headers.to_vec();
        if !headers.iter().any(|(name, _)| *name == "Host") {
            all.push(("Host", &host));
        }
        Client::new(self.admin).exchange(&raw(method, path, &all, b""))
    }

    fn signal(&mut self, name: &str) {
        kill(name, self.child.id());
        self.child.wait().unwrap();
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let ended = self.child.try_wait().unwrap();
        if ended.is_none() {
            self.signal("TERM");
        }
        if std::thread::panicking() {
            let mut errors = String::new();
            let _ = self.child.stderr.as_mut().unwrap().read_to_string(&mut errors);
            eprintln!("the emulator before its test failed: {ended:?}, {errors}");
        }
    }
}

fn kill(signal: &str, process: u32) {
    let sent = Command::new("sh")
        .args(["-c", "kill -s \"$1\" \"$2\"", "sh", signal, &process.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}: it does not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn create_table(emulator: &Emulator, name: &str) {
    emulator
        .client()
        .post("Tables", &format!("{{\"TableName\":\"{name}\"}}"))
        .expect(201);
}

fn tables(emulator: &Emulator) -> usize {
    let answer = emulator.client().get("Tables").expect(200);
    answer.json()["value"].as_array().unwrap().len()
}

#[test]
fn it_serves_the_development_account_and_leaves_nothing() {
    let temporary = Temporary::new();
    let mut emulator = Emulator::start(&temporary, &[]);
    create_table(&emulator, "Things");
    emulator
        .client()
        .post("Things", "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"A\":1}")
        .expect(201);
    assert_eq!(temporary.emulators().len(), 1);
    assert!(!temporary.processes().is_empty());
    emulator.signal("TERM");
    assert!(temporary.is_clean());
}

#[test]
fn whatever_signal_ends_it_nothing_is_left() {
    let temporary = Temporary::new();
    for signal in ["INT", "HUP", "QUIT", "USR1", "ABRT", "KILL"] {
        let mut emulator = Emulator::start(&temporary, &[]);
        create_table(&emulator, "Things");
        emulator.signal(signal);
        // A process that outlives the emulator cleans up.
        wait_until(signal, || temporary.is_clean());
    }
}

#[test]
fn it_ends_with_its_server_and_says_why() {
    let temporary = Temporary::new();
    let mut emulator = Emulator::start(&temporary, &[]);
    let file = fs::read_to_string(temporary.processes()[0].join("postmaster.pid")).unwrap();
    kill("INT", file.lines().next().unwrap().parse().unwrap());
    assert!(!emulator.child.wait().unwrap().success());
    let mut said = String::new();
    emulator
        .child
        .stderr
        .as_mut()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(said.starts_with("The emulator is starting.\n"), "{said}");
    assert!(said.contains("PostgreSQL has ended (exit status: 0)"), "{said}");
    assert!(said.contains("database system is shut down"), "{said}");
    wait_until("it cleans up", || temporary.is_clean());
}

#[test]
fn the_next_start_cleans_up_if_everything_was_killed() {
    let temporary = Temporary::new();
    let mut killed = Emulator::start(&temporary, &[]);
    let mut running = Emulator::start(&temporary, &[]);
    let directory = killed.child.id().to_string();
    assert!(temporary.emulators().contains(&directory));
    // The cleaner, then the emulator. The server goes on.
    let cleaner = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .find(|entry| {
            let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let arguments = String::from_utf8_lossy(&arguments).into_owned();
            arguments.contains("\0clean-up\0") && arguments.contains(&format!("/{directory}\0"))
        })
        .unwrap();
    kill("KILL", cleaner.file_name().to_str().unwrap().parse().unwrap());
    killed.signal("KILL");
    assert!(temporary.emulators().contains(&directory));
    let mut next = Emulator::start(&temporary, &[]);
    assert!(!temporary.emulators().contains(&directory));
    let servers = temporary.processes();
    assert!(
        servers
            .iter()
            .all(|cwd| !cwd.to_str().unwrap().contains(&format!("/{directory}/"))),
        "{servers:?}"
    );
    // Directories that others use stay.
    create_table(&running, "Things");
    create_table(&next, "Things");
    running.signal("TERM");
    next.signal("TERM");
    assert!(temporary.is_clean());
}

#[test]
fn one_that_ends_is_waited_for() {
    let temporary = Temporary::new();
    let data = temporary.path().join("data");
    let data = data.to_str().unwrap();
    let mut first = Emulator::start(&temporary, &["--data", data]);
    create_table(&first, "Kept");
    let mut next = std::thread::scope(|scope| {
        // It waits some seconds. A server on a slow disk may take longer to end.
        let next = scope.spawn(|| {
            loop {
                match Emulator::try_start(&temporary, &["--data", data]) {
                    Ok(next) => break next,
                    Err(said) => assert!(said.contains("another emulator uses"), "{said}"),
                }
            }
        });
        first.signal("TERM");
        next.join().unwrap()
    });
    next.client().get("Tables('Kept')").expect(200);
    next.signal("TERM");
    assert_eq!(temporary.processes(), Vec::<PathBuf>::new());
}

#[test]
fn tables_are_kept_in_a_directory() {
    let temporary = Temporary::new();
    let data = temporary.path().join("data");
    let data = data.to_str().unwrap();
    let mut emulator = Emulator::start(&temporary, &["--data", data]);
    create_table(&emulator, "Kept");
    // Nobody else may use it meanwhile, and nothing resets it.
    let second = program(&temporary, &["--port", "0", "--admin-port", "0", "--data", data])
        .output()
        .unwrap();
    assert!(!second.status.success());
    assert!(error(&second).contains("another emulator uses"), "{}", error(&second));
    let refused = emulator.admin("POST", "/reset", &[]).expect(405);
    assert!(refused.text().contains("keeps its tables"), "{}", refused.text());
    emulator.signal("TERM");
    assert_eq!(temporary.processes(), Vec::<PathBuf>::new());
    assert_eq!(temporary.entries(), [PathBuf::from(data)]);
    let mut emulator = Emulator::start(&temporary, &["--data", data]);
    assert_eq!(tables(&emulator), 1);
    create_table(&emulator, "Crashed");
    emulator.signal("KILL");
    let emulator = Emulator::start(&temporary, &["--data", data]);
    assert_eq!(tables(&emulator), 2);
}

#[test]
fn reset_empties_it_for_the_next_test() {
    let temporary = Temporary::new();
    let emulator = Emulator::start(&temporary, &[]);
    for name in ["One", "two", "Three"] {
        create_table(&emulator, name);
    }
    emulator.admin("GET", "/reset", &[]).expect(405);
    // A web page cannot do it.
    emulator
        .admin("POST", "/reset", &[("Origin", "http://example.com")])
        .expect(403);
    // Not even a page with a name that leads to this machine, which is not another origin for the browser.
    let refused = emulator
        .admin("POST", "/reset", &[("Host", "evil.example")])
        .expect(421);
    assert!(refused.text().contains("admin_hosts"), "{}", refused.text());
    assert_eq!(tables(&emulator), 3);
    emulator.admin("POST", "/reset", &[]).expect(200);
    assert_eq!(tables(&emulator), 0);
    create_table(&emulator, "One");
}

/// The key of its account is public, so a page of a browser on this machine could sign requests.
#[test]
fn a_page_under_a_name_of_the_internet_does_not_reach_the_tables() {
    let temporary = Temporary::new();
    let emulator = Emulator::start(&temporary, &["--allowed-host", "azurite.example.com"]);
    let under = |host: &str| {
        let client = Client {
            host: format!("{host}:10002"),
            ..Client::new(emulator.address)
        };
        client.get("Tables")
    };
    for host in [
        "127.0.0.1",
        "[::1]",
        "localhost",
        "azurite",
        "host.docker.internal",
        "AZURITE.example.com",
    ] {
        under(host).expect(200);
    }
    for host in ["evil.example.com", "localhost.evil.com", "x.azurite.example.com"] {
        let message = format!("This emulator does not answer under the name {host}, ");
        let refused = under(host);
        refused.fails_with(403, "AuthorizationFailure", &message);
        assert!(
            refused.text().contains(&format!("--allowed-host {host}")),
            "{}",
            refused.text()
        );
    }
    // No browser may ask for more, and no name is the host of another account.
    let preflight = [
        ("Host", "evil.example.com"),
        ("Origin", "http://evil.example.com"),
        ("Access-Control-Request-Method", "GET"),
    ];
    let client = Client::new(emulator.address);
    client
        .exchange(&raw("OPTIONS", "/devstoreaccount1/Tables", &preflight, b""))
        .expect(403);
    let wrong = program(&temporary, &["--allowed-host", "a b"]).output().unwrap();
    assert!(
        error(&wrong).contains("--allowed-host: \"a b\" is no host"),
        "{}",
        error(&wrong)
    );
}

#[test]
fn an_interrupted_start_leaves_no_half_made_data() {
    let temporary = Temporary::new();
    let data = temporary.path().join("data");
    let data = data.to_str().unwrap();
    for signal in ["KILL", "TERM"] {
        let mut child = program(&temporary, &["--port", "0", "--data", data]).spawn().unwrap();
        wait_until("initdb begins", || {
            fs::read_dir(data)
                .is_ok_and(|entries| entries.flatten().any(|entry| entry.path().join("PG_VERSION").exists()))
        });
        kill(signal, child.id());
        child.wait().unwrap();
    }
    let emulator = Emulator::start(&temporary, &["--data", data]);
    create_table(&emulator, "Things");
    let unfinished = fs::read_dir(data).unwrap().count();
    assert_eq!(unfinished, 2, "the lock and the data");
}

#[test]
fn an_end_during_the_start_leaves_no_unfinished_data() {
    let temporary = Temporary::new();
    let data = temporary.path().join("data");
    let entries = || -> Vec<PathBuf> {
        let entries = fs::read_dir(&data).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    for signal in ["TERM", "INT"] {
        let options = ["--port", "0", "--admin-port", "0", "--data", data.to_str().unwrap()];
        let mut child = program(&temporary, &options).spawn().unwrap();
        wait_until("initdb begins", || {
            entries().iter().any(|entry| entry.join("PG_VERSION").exists())
        });
        kill(signal, child.id());
        child.wait().unwrap();
        assert_eq!(entries(), [data.join("lock")]);
    }
}

#[test]
fn data_are_used_after_a_crash_of_the_machine() {
    let temporary = Temporary::new();
    let data = temporary.path().join("data");
    let data = data.to_str().unwrap();
    let mut emulator = Emulator::start(&temporary, &["--data", data]);
    create_table(&emulator, "Kept");
    emulator.signal("TERM");
    // The number of the server that was lost is another process's now.
    let lock = Path::new(data).join("postgresql/postmaster.pid");
    fs::write(
        &lock,
        format!("{}\n{data}/postgresql\n1\n5432\n/tmp\n\n\n", std::process::id()),
    )
    .unwrap();
    let emulator = Emulator::start(&temporary, &["--data", data]);
    assert_eq!(tables(&emulator), 1);
}

#[test]
fn data_of_a_later_version_are_refused_in_words_of_postgresql() {
    let temporary = Temporary::new();
    let data = temporary.path().join("data");
    let arguments = ["--port", "0", "--admin-port", "0", "--data", data.to_str().unwrap()];
    let mut emulator = Emulator::start(&temporary, &["--data", data.to_str().unwrap()]);
    let socket = temporary
        .path()
        .join(format!(
            "table-service-emulator-{}",
            fs::metadata("/proc/self").unwrap().uid()
        ))
        .join(&temporary.emulators()[0])
        .join("server");
    let changed = Command::new(Path::new(&std::env::var("PG_CONFIG").unwrap()).with_file_name("psql"))
        .args(["-X", "-U", "postgres", "-h", socket.to_str().unwrap(), "-c"])
        .arg("UPDATE pg_extension SET extversion = '99.0' WHERE extname = 'table_service'")
        .output()
        .unwrap();
    assert!(changed.status.success(), "{}", error(&changed));
    emulator.signal("TERM");
    let refused = program(&temporary, &arguments).output().unwrap();
    let said = error(&refused);
    assert!(said.contains("has no update path from version \"99.0\""), "{said}");
}

#[test]
fn healthcheck_says_whether_it_is_ready() {
    let temporary = Temporary::new();
    let mut emulator = Emulator::start(&temporary, &[]);
    let port = emulator.admin.port().to_string();
    let check = || {
        program(&temporary, &["healthcheck", "--admin-port", &port])
            .output()
            .unwrap()
    };
    let quiet = program(&temporary, &["--admin-port", &port, "healthcheck", "--quiet"])
        .output()
        .unwrap();
    assert!(quiet.status.success() && quiet.stdout.is_empty());
    let healthy = check();
    assert!(healthy.status.success(), "{}", error(&healthy));
    assert!(String::from_utf8_lossy(&healthy.stdout).contains("ready, extension"));
    emulator.signal("TERM");
    let gone = check();
    assert!(!gone.status.success());
    assert!(error(&gone).contains("no emulator answers"), "{}", error(&gone));
}

#[test]
fn an_empty_variable_is_an_unset_option() {
    let temporary = Temporary::new();
    let lines = [CommandLine::command(), AzuriteTable::command(), Azurite::command()];
    let variables: BTreeSet<_> = lines
        .iter()
        .flat_map(clap::Command::get_arguments)
        .filter_map(clap::Arg::get_env)
        .collect();
    assert!(variables.len() > 8, "{variables:?}");
    let mut command = program(&temporary, &["healthcheck", "--port", &free_ports().to_string()]);
    let refused = command.envs(variables.iter().map(|name| (name, ""))).output().unwrap();
    assert!(
        error(&refused).starts_with("table-service-emulator: "),
        "{}",
        error(&refused)
    );
}

#[test]
fn what_is_missing_or_in_use_is_named() {
    let temporary = Temporary::new();
    let emulator = Emulator::start(&temporary, &[]);
    let port = emulator.address.port().to_string();
    let taken = program(&temporary, &["--port", &port, "--admin-port", "0"])
        .output()
        .unwrap();
    assert!(!taken.status.success());
    assert!(
        error(&taken).contains(&format!("--port: cannot listen on 127.0.0.1:{port}")),
        "{}",
        error(&taken)
    );
    let missing = program(&temporary, &["--postgres", "/nonexistent"]).output().unwrap();
    assert!(
        error(&missing).contains("/nonexistent/pg_config does not run"),
        "{}",
        error(&missing)
    );
    drop(emulator);
    assert!(temporary.is_clean());
}

#[test]
fn it_does_not_use_a_directory_that_somebody_else_made() {
    let temporary = Temporary::new();
    let uid = fs::metadata("/proc/self").unwrap().uid();
    let base = temporary.path().join(format!("table-service-emulator-{uid}"));
    std::os::unix::fs::symlink(Path::new("/tmp"), &base).unwrap();
    let refused = program(&temporary, &["--port", "0", "--admin-port", "0"])
        .output()
        .unwrap();
    assert!(!refused.status.success());
    assert!(
        error(&refused).contains("belongs to another user"),
        "{}",
        error(&refused)
    );
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Returns the exit status and the output of an emulator that should not start. One that starts is ended, with success.
fn refused(temporary: &Temporary, arguments: &[&str]) -> Output {
    let mut child = program(temporary, arguments).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    if !line.is_empty() {
        kill("TERM", child.id());
    }
    child.wait_with_output().unwrap()
}

/// The user that runs the server when the emulator is root.
fn user_postgres() -> u32 {
    let output = Command::new("id").args(["-u", "postgres"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// Finds the entries of a directory that belong to another user than the directory: names that a user could have
/// planted for another.
fn names_of_others(directory: &Path, found: &mut Vec<PathBuf>) {
    let owner = fs::symlink_metadata(directory).unwrap().uid();
    // Entries that the server is removing just now do not matter.
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(is) = entry.metadata() else { continue };
        if owner != 0 && is.uid() != owner {
            found.push(entry.path());
        }
        if is.is_dir() {
            names_of_others(&entry.path(), found);
        }
    }
}

#[test]
fn root_writes_nothing_where_another_user_may_put_a_name() {
    if !is_root() {
        return;
    }
    let temporary = Temporary::new();
    let data = temporary.path().join("data");
    for arguments in [&[][..], &["--data", data.to_str().unwrap()]] {
        let mut emulator = Emulator::start(&temporary, arguments);
        create_table(&emulator, "Things");
        let mut found = Vec::new();
        names_of_others(temporary.path(), &mut found);
        assert_eq!(found, Vec::<PathBuf>::new());
        // Nobody else reads the files that it has made for itself.
        let place = temporary
            .path()
            .join("table-service-emulator-0")
            .join(&temporary.emulators()[0]);
        let files = fs::read_dir(&place)
            .unwrap()
            .flatten()
            .map(|entry| entry.metadata().unwrap());
        let modes: Vec<u32> = files
            .filter(fs::Metadata::is_file)
            .map(|file| file.mode() & 0o777)
            .collect();
        assert_eq!(modes, [0o600, 0o600], "the lock and the log");
        emulator.signal("TERM");
    }
}

#[test]
fn root_keeps_no_data_where_another_user_may_put_a_name() {
    if !is_root() {
        return;
    }
    let temporary = Temporary::new();
    let victim = temporary.path().join("victim");
    fs::write(&victim, "root's").unwrap();
    let theirs = temporary.path().join("theirs");
    let inner = theirs.join("inner");
    fs::create_dir_all(&inner).unwrap();
    std::os::unix::fs::symlink(&victim, theirs.join("lock")).unwrap();
    let open_to_all = temporary.path().join("open");
    fs::create_dir(&open_to_all).unwrap();
    fs::set_permissions(&open_to_all, fs::Permissions::from_mode(0o1777)).unwrap();
    std::os::unix::fs::chown(&theirs, Some(user_postgres()), None).unwrap();
    for data in [theirs.clone(), inner, theirs.join("new"), open_to_all] {
        let refused = refused(
            &temporary,
            &["--port", "0", "--admin-port", "0", "--data", data.to_str().unwrap()],
        );
        assert!(!refused.status.success(), "{}", data.display());
        assert!(
            error(&refused).contains("can be written by other users than root"),
            "{}",
            error(&refused)
        );
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "root's");
    assert!(!theirs.join("new").exists());
    // A name of root's own in a directory that keeps it is as good as any.
    let kept = temporary.path().join("open/kept");
    let mut emulator = Emulator::start(&temporary, &["--data", kept.to_str().unwrap()]);
    emulator.signal("TERM");
}

/// Files and directories that the user names, and links on the way to them.
#[test]
fn root_writes_no_file_where_links_of_others_lead() {
    if !is_root() {
        return;
    }
    let temporary = Temporary::new();
    let (own, theirs) = (temporary.path().join("own"), temporary.path().join("theirs"));
    let open_to_all = temporary.path().join("open");
    for directory in [&own, &theirs, &open_to_all] {
        fs::create_dir(directory).unwrap();
    }
    let victim = own.join("victim");
    fs::write(&victim, "root's").unwrap();
    fs::set_permissions(&open_to_all, fs::Permissions::from_mode(0o1777)).unwrap();
    let link = |to: &Path, name: PathBuf| {
        std::os::unix::fs::symlink(to, &name).unwrap();
        std::os::unix::fs::lchown(&name, Some(user_postgres()), None).unwrap();
        name
    };
    let to_file = link(&victim, open_to_all.join("file"));
    let to_directory = link(&own, open_to_all.join("directory"));
    let of_another = open_to_all.join("another");
    fs::write(&of_another, "").unwrap();
    for path in [&theirs, &of_another] {
        std::os::unix::fs::chown(path, Some(user_postgres()), None).unwrap();
    }
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    for (arguments, path) in [
        (
            &["azurite-table", "--inMemoryPersistence", "--tablePort", "0", "-d"][..],
            text(&to_file),
        ),
        (
            &["azurite-table", "--inMemoryPersistence", "--tablePort", "0", "-d"],
            text(&of_another),
        ),
        (
            &["azurite-table", "--inMemoryPersistence", "--tablePort", "0", "-d"],
            text(&theirs.join("log")),
        ),
        (
            &["azurite-table", "--inMemoryPersistence", "--tablePort", "0", "-d"],
            text(&to_directory.join("victim")),
        ),
        (
            &["azurite-table", "--tablePort", "0", "--location"],
            text(&to_directory),
        ),
        (&["--port", "0", "--admin-port", "0", "--data"], text(&to_directory)),
        (
            &["--port", "0", "--admin-port", "0", "--explorer-address-file"],
            text(&to_directory.join("victim")),
        ),
        (
            &["--port", "0", "--admin-port", "0", "--explorer-address-file"],
            text(&theirs.join("address")),
        ),
    ] {
        let refused = refused(&temporary, &[arguments, &[&path]].concat());
        let said = error(&refused);
        let is_named = said.contains("other users than root")
            || said.contains("does not follow")
            || said.contains("belongs to another user");
        assert!(!refused.status.success() && is_named, "{path}: {said}");
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "root's");
    assert_eq!(fs::read_to_string(&of_another).unwrap(), "");
    assert_eq!(
        fs::read_dir(&own).unwrap().count() + fs::read_dir(&theirs).unwrap().count(),
        1
    );
}

/// The environment may have texts for the user of this process only. As root, the server is another user.
#[test]
fn the_server_gets_little_of_the_environment() {
    let temporary = Temporary::new();
    let mut command = program(&temporary, &["--port", "0", "--admin-port", "0"]);
    let mut child = command
        .env("MY_SECRET", "s3cret")
        .env("LC_TIME", "C")
        .env("PGDATA", "/x")
        .spawn()
        .unwrap();
    lines(&mut child).next().unwrap();
    let mut servers = 0;
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let works_here = fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(temporary.path()));
        if works_here && let Ok(environment) = fs::read(entry.path().join("environ")) {
            let environment = String::from_utf8_lossy(&environment);
            // A process of the server writes its title there.
            servers += usize::from(environment.contains("LC_TIME=C"));
            assert!(
                !environment.contains("s3cret") && !environment.contains("PGDATA=/x"),
                "{environment}"
            );
        }
    }
    assert!(servers > 0);
    kill("TERM", child.id());
    child.wait().unwrap();
}

#[test]
fn it_follows_no_link_in_its_data() {
    let temporary = Temporary::new();
    let data = temporary.path().join("data");
    fs::create_dir(&data).unwrap();
    let other = temporary.path().join("other");
    std::os::unix::fs::symlink(&other, data.join("lock")).unwrap();
    let refused = program(
        &temporary,
        &["--port", "0", "--admin-port", "0", "--data", data.to_str().unwrap()],
    )
    .output()
    .unwrap();
    assert!(!refused.status.success());
    assert!(!other.exists(), "{}", error(&refused));
}

#[test]
fn it_signals_no_process_that_it_did_not_start() {
    let temporary = Temporary::new();
    let mut emulator = Emulator::start(&temporary, &[]);
    let server = temporary.processes()[0].clone();
    let directory = server.parent().unwrap();
    // Its arguments are those of the server.
    let setting = format!("unix_socket_directories={}", directory.display());
    let mut stranger = Command::new("sh")
        .args(["-c", "read line", "sh", "-D", server.to_str().unwrap(), "-c", &setting])
        .current_dir("/")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    emulator.signal("TERM");
    assert!(temporary.is_clean());
    assert_eq!(stranger.try_wait().unwrap(), None, "the stranger was ended");
    drop(stranger.stdin.take());
    stranger.wait().unwrap();
}

/// Two ports that are free, one after the other. They are below the range from which the kernel takes the ports of
/// connections: a connection could take them before the emulator does, or for a minute after its end.
fn free_ports() -> u16 {
    loop {
        let random = RandomState::new().build_hasher().finish();
        let port = 20_000 + u16::try_from(random % 12_000).unwrap();
        if [port, port + 1]
            .iter()
            .all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        {
            return port;
        }
    }
}

fn guide() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/emulator.md")).unwrap()
}

#[test]
fn the_commands_of_the_guide_run() {
    let temporary = Temporary::new();
    let guide = guide();
    let section = guide.split("## In tests and in CI\n").nth(1).unwrap();
    let commands: Vec<_> = section
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with("    "))
        .collect();
    assert_eq!(commands.len(), 6, "{commands:?}");
    let port = free_ports();
    let commands = commands.join("\n").replace("10003", &(port + 1).to_string());
    let emulator = program(&temporary, &[]);
    let directory = Path::new(PROGRAM).parent().unwrap();
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell
        .args(["-euc", &commands])
        .env("PATH", path)
        .env("TABLE_SERVICE_EMULATOR_PORT", port.to_string());
    shell.envs(emulator.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{}", error(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains("ready, extension") && printed.contains("empty"),
        "{printed}"
    );
    assert!(temporary.is_clean());
}

#[test]
fn the_guide_has_every_option() {
    let temporary = Temporary::new();
    let output = program(&temporary, &["--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let guide = guide();
    let options = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
        words.filter(|word| word.starts_with("--")).map(str::to_owned).collect()
    };
    let table: String = guide.lines().filter(|line| line.starts_with("| `--")).collect();
    // The examples also have options of other programs.
    let mut expected = options(help.split("Examples:").next().unwrap_or_default());
    expected.retain(|option| !["--help", "--version"].contains(&option.as_str()));
    assert_eq!(options(&table), expected);
}

#[test]
fn bash_completes_its_options() {
    let script = Command::new(PROGRAM).args(["--completions", "bash"]).output().unwrap();
    assert!(script.status.success(), "{}", error(&script));
    let script = String::from_utf8(script.stdout).unwrap();
    let complete = "completer=$(complete -p table-service-emulator); completer=${completer#*-F }; COMP_WORDS=(table-service-emulator --thr) COMP_CWORD=1
        ${completer%% *} table-service-emulator --thr table-service-emulator; echo \"${COMPREPLY[@]}\"";
    let completed = Command::new("bash")
        .args(["-c", &format!("{script}\n{complete}")])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&completed.stdout),
        "--throttle\n",
        "{}",
        error(&completed)
    );
}

/// Also nothing of faults that were asked for. Those are counted.
#[test]
fn quiet_prints_nothing() {
    let temporary = Temporary::new();
    let port = free_ports();
    let options = ["--port", &port.to_string(), "--quiet", "--inject", "503=100%"];
    let child = program(&temporary, &options).spawn().unwrap();
    let ready = || {
        program(&temporary, &["healthcheck", "--port", &port.to_string()])
            .output()
            .unwrap()
    };
    wait_until("it is ready", || ready().status.success());
    let [clients, admin] = [port, port + 1].map(|port| Client::new(SocketAddr::from(([127, 0, 0, 1], port))));
    for _ in 0..3 {
        clients.get("Things()").expect(503);
    }
    let metrics = admin.exchange(&raw("GET", "/metrics", &[("Host", "localhost")], b""));
    let counted = "table_service_injected_faults_total{fault=\"503\"} 3";
    assert!(metrics.text().contains(counted), "{}", metrics.text());
    kill("TERM", child.id());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(
        (
            String::from_utf8(ended.stdout).unwrap(),
            String::from_utf8(ended.stderr).unwrap()
        ),
        Default::default()
    );
}

#[test]
fn the_log_names_faults_and_their_tables() {
    let temporary = Temporary::new();
    let log = temporary.path().join("log");
    let options = [
        "azurite-table",
        "--inMemoryPersistence",
        "--tablePort=0",
        "--inject",
        "503=100%",
        "-d",
    ];
    let mut child = program(&temporary, &[&options[..], &[log.to_str().unwrap()]].concat())
        .spawn()
        .unwrap();
    let started = lines(&mut child).nth(2).unwrap();
    let client = Client::new(started.split("http://").nth(1).unwrap().parse().unwrap());
    client.get("Things()").expect(503);
    let batch = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\r\n\
                 POST Others HTTP/1.1\r\n\r\n{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}\r\n--c--\r\n--b--\r\n";
    let headers = [("Content-Type", "multipart/mixed; boundary=b")];
    client.send("POST", "$batch", &headers, batch.as_bytes());
    let text = || fs::read_to_string(&log).unwrap_or_default();
    for (operation, table) in [("QueryEntities", "Things"), ("Batch", "others")] {
        let operation = format!("operation=\"{operation}\"");
        wait_until("the line", || text().contains(&operation));
        let text = text();
        let line = text.lines().find(|line| line.contains(&operation)).unwrap();
        let names = line.contains(&format!("table=\"{table}\"")) && line.contains("fault=\"503\"");
        assert!(names && line.contains(" DEBUG "), "{line}");
    }
    kill("TERM", child.id());
    child.wait().unwrap();
}

/// The lines that an emulator prints until it ends.
fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap)
}

#[test]
fn it_ends_when_its_parent_does() {
    let temporary = Temporary::new();
    let mut parent = Command::new("sleep").arg("1000").spawn().unwrap();
    let process = parent.id().to_string();
    let mut emulator = Emulator::start(&temporary, &["--parent", &process]);
    create_table(&emulator, "Things");
    parent.kill().unwrap();
    wait_until("it ends", || emulator.child.try_wait().unwrap().is_some());
    assert!(emulator.child.wait().unwrap().success());
    assert!(temporary.is_clean());
    let mut said = String::new();
    emulator
        .child
        .stderr
        .as_mut()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(said, "");
    parent.wait().unwrap();
    let gone = program(&temporary, &["--port", "0", "--parent", &process])
        .output()
        .unwrap();
    let said = error(&gone);
    assert!(
        said.contains(&format!("--parent: there is no process {process}")),
        "{said}"
    );
}

#[test]
fn it_stands_for_azurite_table() {
    let temporary = Temporary::new();
    let location = temporary.path().join("data");
    let location = location.to_str().unwrap();
    let log = format!("{location}/logs/debug.log");
    let options = [
        "azurite-table",
        "--tablePort=0",
        "--silent",
        "true",
        "--debug",
        &log,
        "--skipApiVersionCheck",
        "-l",
        location,
    ];
    for round in 0..2 {
        let mut command = program(&temporary, &options);
        if round == 1 {
            // The development account keeps its tables when another account is added.
            let (name, key) = (raw_http::ACCOUNT, raw_http::KEY);
            command.env("AZURITE_ACCOUNTS", format!("other:{key};{name}:{key}"));
        }
        let mut child = command.spawn().unwrap();
        let mut lines = lines(&mut child);
        let starting = lines.next().unwrap();
        let address = starting
            .strip_prefix("Azurite Table service is starting on ")
            .unwrap()
            .to_owned();
        assert_eq!(
            lines.next().unwrap(),
            format!("Azurite Table service successfully started on {address}")
        );
        assert_eq!(
            lines.next().unwrap(),
            format!("Azurite Table service is successfully listening at http://{address}")
        );
        let client = Client::new(address.parse().unwrap());
        if round == 0 {
            client.post("Tables", "{\"TableName\":\"Kept\"}").expect(201);
        } else {
            client.get("Tables('Kept')").expect(200);
        }
        kill(["INT", "TERM"][round], child.id());
        let ending: Vec<String> = lines.collect();
        assert_eq!(
            ending,
            [
                "Azurite Table service is closing...",
                "Azurite Table service successfully closed"
            ]
        );
        assert!(child.wait().unwrap().success());
    }
    assert!(
        Path::new(location)
            .join("table-service-emulator/postgresql/PG_VERSION")
            .exists()
    );
    assert!(fs::metadata(log).unwrap().len() > 0);
    assert_eq!(temporary.entries(), [PathBuf::from(location)]);
}

/// The addresses of the Blob, Queue and Table service that an emulator prints if it replaces azurite. Test set-ups wait
/// for these lines.
fn services(said: &mut impl Iterator<Item = String>, scheme: &str) -> [SocketAddr; 3] {
    let addresses = ["Blob", "Queue", "Table"].map(|service| {
        let starting = said.next().unwrap();
        let address = starting
            .strip_prefix(&format!("Azurite {service} service is starting at {scheme}://"))
            .unwrap_or_else(|| panic!("{starting}"));
        assert_eq!(
            said.next().unwrap(),
            format!("Azurite {service} service is successfully listening at {scheme}://{address}")
        );
        address.parse().unwrap()
    });
    assert!(said.next().unwrap().starts_with("Only tables are served here"));
    addresses
}

const FREE_PORTS: [&str; 3] = ["--blobPort=0", "--queuePort=0", "--tablePort=0"];

#[test]
fn it_stands_for_azurite_and_has_only_tables() {
    let temporary = Temporary::new();
    // As Aspire gives them.
    let hosts = [
        "--blobHost",
        "127.0.0.1",
        "--queueHost",
        "127.0.0.1",
        "--tableHost",
        "127.0.0.1",
    ];
    let location = temporary.path().join("data");
    let options = [
        &["azurite", "-l", location.to_str().unwrap()][..],
        &hosts,
        &["--skipApiVersionCheck"],
        &FREE_PORTS,
    ];
    let mut child = program(&temporary, &options.concat()).spawn().unwrap();
    let mut said = lines(&mut child);
    let [blob, queue, table] = services(&mut said, "http");
    Client::new(table)
        .post("Tables", "{\"TableName\":\"Things\"}")
        .expect(201);

    // The requests of checks of the health of a container.
    for (address, kind) in [(blob, "Containers"), (queue, "Queues")] {
        let list = Client::new(address).get("?comp=list&maxresults=1").expect(200);
        assert_eq!(
            list.text(),
            format!(
                "<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ServiceEndpoint=\"http://{address}/devstoreaccount1/\">\
                 <{kind} /><NextMarker /></EnumerationResults>"
            )
        );
    }
    for (address, service, method, target) in [
        (blob, "Blob", "PUT", "container?restype=container"),
        (blob, "Blob", "GET", "container?restype=container&comp=list"),
        (blob, "Blob", "GET", "?restype=service&comp=properties"),
        (queue, "Queue", "PUT", "queue"),
        (queue, "Queue", "POST", "queue/messages"),
    ] {
        let refused = Client::new(address).send(method, target, &[], b"a body").expect(501);
        assert_eq!(refused.header("x-ms-error-code"), Some("NotImplemented"));
        assert_eq!(refused.header("content-type"), Some("application/xml"));
        let begin = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>NotImplemented</Code><Message>This emulator serves tables only: it \
             has no {service} service.\nRequestId:{}\nTime:",
            refused.header("x-ms-request-id").unwrap()
        );
        let text = refused.text();
        assert!(
            text.starts_with(&begin) && text.ends_with("Z</Message></Error>"),
            "{text}"
        );
    }
    // Also without a signature: only this machine can ask.
    let plain = raw("GET", "/", &[("Host", "localhost")], b"");
    Client::new(blob).exchange(&plain).expect(501);

    kill("TERM", child.id());
    let services = ["Blob", "Queue", "Table"];
    let closing = services.map(|service| format!("Azurite {service} service is closing..."));
    let closed = services.map(|service| format!("Azurite {service} service successfully closed"));
    assert_eq!(said.collect::<Vec<_>>(), [closing, closed].concat());
    assert!(child.wait().unwrap().success());
    assert_eq!(temporary.entries(), [location]);
}

#[test]
fn a_port_of_another_service_that_is_in_use_is_named() {
    let temporary = Temporary::new();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for service in ["blob", "queue"] {
        let option = format!("--{service}Port");
        let options = [
            &["azurite", "--inMemoryPersistence"][..],
            &FREE_PORTS,
            &[&option, &port],
        ]
        .concat();
        let refused = program(&temporary, &options).output().unwrap();
        let said = error(&refused);
        let expected = format!("--{service}Host and --{service}Port: cannot listen on 127.0.0.1:{port}");
        assert!(!refused.status.success() && said.contains(&expected), "{said}");
    }
}

/// A token of the cloud that nobody has signed.
fn token(change: impl FnOnce(&mut serde_json::Value)) -> String {
    use base64::Engine;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let mut claims = serde_json::json!({
        "iss": "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/", "aud": "https://storage.azure.com",
        "iat": now - 60, "nbf": now - 60, "exp": now + 600,
    });
    change(&mut claims);
    let part = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    format!(
        "{}.{}.{}",
        part("{\"alg\":\"RS256\",\"typ\":\"JWT\"}"),
        part(&claims.to_string()),
        part("signed")
    )
}

#[test]
fn bearer_tokens_are_taken_as_azurite_takes_them() {
    let temporary = Temporary::new();
    let elsewhere = Temporary::new();
    let certificate = Certificate::new(elsewhere.path(), "server");
    let oauth = ["azurite", "--inMemoryPersistence", "--oauth", "basic"];
    let files = ["--cert", &certificate.certificate, "--key", &certificate.key];
    let authorized = |token: &str, method: &str, target: &str, body: &str| {
        let (length, bearer) = (body.len().to_string(), format!("Bearer {token}"));
        let target = format!("/devstoreaccount1/{target}");
        let headers = [
            ("Host", "localhost"),
            ("Connection", "close"),
            ("Content-Length", &length),
            ("Authorization", &bearer),
        ];
        raw(method, &target, &headers, body.as_bytes())
    };
    let create = |token: &str| authorized(token, "POST", "Tables", "{\"TableName\":\"Things\"}");
    for scheme in ["https", "http"] {
        let files = if scheme == "https" { &files[..] } else { &[] };
        let mut child = program(&temporary, &[&oauth[..], files, &FREE_PORTS].concat())
            .spawn()
            .unwrap();
        let [blob, _, table] = services(&mut lines(&mut child), scheme);
        if scheme == "http" {
            // Anybody could have read it on its way.
            let refused = Client::new(table).exchange(&create(&token(|_| {}))).expect(403);
            refused.fails_with(403, "AuthenticationFailed", "");
        } else {
            let send = |request: &[u8]| certificate.exchange(table, request);
            let past = 1_500_000_000;
            for wrong in [
                token(|claims| claims["exp"] = past.into()),
                token(|claims| claims["iss"] = "https://example.com".into()),
                token(|claims| claims["aud"] = "https://another.table.core.windows.net".into()),
                "nonsense".to_owned(),
            ] {
                let (status, text) = send(&create(&wrong));
                assert!(status == 403 && text.contains("AuthenticationFailed"), "{text}");
            }
            let good = token(|claims| claims["aud"] = "https://devstoreaccount1.table.core.windows.net/".into());
            let (status, text) = send(&create(&good));
            assert_eq!(status, 201, "{text}");
            // As in the cloud, a token is not enough for policies.
            assert_eq!(send(&authorized(&good, "GET", "Things?comp=acl", "")).0, 403);
            let (status, text) = certificate.exchange(blob, &authorized(&good, "GET", "container", ""));
            assert_eq!(status, 501, "{text}");
        }
        kill("TERM", child.id());
        child.wait().unwrap();
    }
}

#[test]
fn the_set_ups_of_the_guide_start() {
    let guide = guide();
    let section = guide.split("## Replace azurite\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let commands: BTreeSet<(&str, &str)> = rows
        .flat_map(|row| {
            ["azurite-table", "azurite"].into_iter().filter_map(move |name| {
                let (_, behind) = row.rsplit_once(&format!("{name} "))?;
                Some((name, behind.split(['`', '"']).next()?.trim_end_matches(['&', ' '])))
            })
        })
        .collect();
    assert!(commands.len() >= 8, "{commands:?}");
    let temporary = Temporary::new();
    let data = temporary.path().join("data");
    fs::create_dir(&data).unwrap();
    for (name, options) in commands {
        let options = options.replace("/data", &format!("{}/in-a-volume", data.display()));
        let (free_ports, says) = match name {
            "azurite" => (&FREE_PORTS[..], 13),
            _ => (&FREE_PORTS[2..], 5),
        };
        let mut arguments = vec![name];
        arguments.extend(options.split_whitespace());
        arguments.extend(free_ports);
        let mut child = program(&temporary, &arguments).current_dir(&data).spawn().unwrap();
        let said: Vec<String> = lines(&mut child)
            .inspect(|line| {
                if line.contains("Table service is successfully listening") {
                    kill("TERM", child.id());
                }
            })
            .collect();
        assert_eq!(said.len(), says, "{name} {options}: {said:?}");
    }
}

#[test]
fn problems_have_the_names_of_the_options_of_azurite_table() {
    let temporary = Temporary::new();
    let problem = |options: &[&str], accounts: &str| {
        let mut arguments = vec!["azurite-table", "--tablePort=0", "--inMemoryPersistence", "true"];
        arguments.extend(options);
        let mut command = program(&temporary, &arguments);
        let output = command.env("AZURITE_ACCOUNTS", accounts).output().unwrap();
        assert!(!output.status.success(), "{options:?}");
        error(&output)
    };
    for (options, accounts, expected) in [
        (
            &["--tableHost", "192.0.2.1"][..],
            "",
            "--tableHost and --tablePort: cannot listen on",
        ),
        (&["--cert", "/nope", "--key", "/nope"], "", "--cert: /nope: "),
        (&["--debug", "/proc/nope"], "", "--debug: /proc/nope: "),
        (
            &["--tableKeepAliveTimeout", "99999999999"],
            "",
            "--tableKeepAliveTimeout: must be at most",
        ),
        (
            &[],
            "one two:a2V5",
            "AZURITE_ACCOUNTS, accounts[0].name: An account's name",
        ),
        (&[], "one:a2V5;one:a2V5", "AZURITE_ACCOUNTS: one is configured twice"),
    ] {
        let said = problem(options, accounts);
        assert!(said.contains(expected), "{options:?} {accounts}: {said}");
    }
    assert!(temporary.is_clean());
}

#[test]
fn a_directory_that_no_socket_can_be_in_is_named() {
    let temporary = Temporary::new();
    for name in ["a,b", &"long".repeat(20)] {
        let directory = temporary.path().join(name);
        fs::create_dir(&directory).unwrap();
        let mut command = program(&temporary, &["--port", "0", "--admin-port", "0"]);
        let refused = command.env("TMPDIR", &directory).output().unwrap();
        assert!(!refused.status.success(), "{name}");
        assert!(error(&refused).contains("set TMPDIR"), "{}", error(&refused));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn an_empty_tmpdir_is_none_and_a_missing_one_is_named() {
    let temporary = Temporary::new();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let missing = temporary.path().join("missing");
    for (directory, expected) in [("", "cannot listen"), (missing.to_str().unwrap(), "set TMPDIR")] {
        let mut command = program(&temporary, &["--port", &port, "--admin-port", "0"]);
        let refused = command.env("TMPDIR", directory).output().unwrap();
        assert!(error(&refused).contains(expected), "{directory:?}: {}", error(&refused));
    }
}

#[test]
fn under_the_name_of_azurite_table_it_has_its_accounts() {
    let temporary = Temporary::new();
    let link = temporary.path().join("data");
    fs::create_dir(&link).unwrap();
    let link = link.join("azurite-table");
    std::os::unix::fs::symlink(PROGRAM, &link).unwrap();
    let key = raw_http::KEY;
    let other = "b3RoZXIga2V5";
    let run = |accounts: &str| {
        let environment = program(&temporary, &[]);
        let mut command = Command::new("env");
        command
            .arg("--default-signal")
            .arg(&link)
            .args(["--inMemoryPersistence", "--tablePort", "0"])
            .envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("AZURITE_ACCOUNTS", accounts)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    };
    let mut child = run(&format!("first:{key};second:{other}:{key}")).spawn().unwrap();
    let mut lines = lines(&mut child);
    let started = lines.nth(1).unwrap();
    let address: SocketAddr = started.rsplit(' ').next().unwrap().parse().unwrap();
    let client = |name: &str, key: &str| Client {
        account: raw_http::account(name, key),
        prefix: format!("/{name}"),
        ..Client::new(address)
    };
    let table = "{\"TableName\":\"Things\"}";
    client("first", key).post("Tables", table).expect(201);
    // Each account has tables of its own, and all of its keys are good.
    client("second", other).post("Tables", table).expect(201);
    client("second", key).post("Tables", table).expect(409);
    client(raw_http::ACCOUNT, key).get("Tables").expect(403);
    kill("TERM", child.id());
    assert_eq!(lines.last().unwrap(), "Azurite Table service successfully closed");
    child.wait().unwrap();
    let refused = run(&format!("first:{key}:{key}:{key}")).output().unwrap();
    let said = error(&refused);
    assert!(said.contains("AZURITE_ACCOUNTS") && !said.contains(key), "{said}");
}

/// A link leads to the name that the program has; a copy has no other one.
#[test]
fn under_the_name_of_azurite_table_it_leaves_nothing_either() {
    let temporary = Temporary::new();
    let elsewhere = Temporary::new();
    let copy = elsewhere.path().join("azurite-table");
    fs::copy(PROGRAM, &copy).unwrap();
    let environment = program(&temporary, &[]);
    let mut command = Command::new(&copy);
    command
        .args(["--inMemoryPersistence", "--tablePort", "0"])
        .envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let listens = lines(&mut child).nth(2).unwrap();
    assert!(listens.contains("listening"), "{listens}");
    kill("KILL", child.id());
    let said = error(&child.wait_with_output().unwrap());
    assert_eq!(said, "");
    wait_until("it cleans up", || temporary.is_clean());
}

/// Returns the outcomes of the same 200 inserts: a status, or 0 for no answer.
fn outcomes(emulator: &Emulator, table: &str) -> Vec<u16> {
    let client = emulator.client();
    (0..200)
        .map(|row| {
            let entity = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}");
            let bytes = client.request(
                "POST",
                table,
                &[("Content-Type", "application/json")],
                entity.as_bytes(),
            );
            let mut connection = raw_http::Connection::open(emulator.address);
            connection.write(&bytes);
            connection.answer().map_or(0, |answer| answer.status)
        })
        .collect()
}

fn entities(emulator: &Emulator, table: &str) -> usize {
    let answer = emulator.client().get(&format!("{table}()")).expect(200);
    answer.json()["value"].as_array().unwrap().len()
}

#[test]
fn the_same_seed_gives_the_same_bad_day() {
    let temporary = Temporary::new();
    let faults = ["--inject", "503=10%,timeout=10%,reset=10%", "--seed", "7"];
    let emulator = Emulator::start(&temporary, &faults);
    // A retry may succeed.
    let create = || {
        let created = (0..100).map(|_| {
            let bytes = emulator.client().request(
                "POST",
                "Tables",
                &[("Content-Type", "application/json")],
                b"{\"TableName\":\"Things\"}",
            );
            let mut connection = raw_http::Connection::open(emulator.address);
            connection.write(&bytes);
            connection.answer().map_or(0, |answer| answer.status)
        });
        assert!(created.into_iter().any(|status| [201, 409].contains(&status)));
    };
    create();
    let first = outcomes(&emulator, "Things");
    for status in [0, 201, 500, 503] {
        assert!(first.contains(&status), "{status}: {first:?}");
    }
    // Nothing is injected into the port for operators.
    for _ in 0..50 {
        emulator.admin("GET", "/ready", &[]).expect(200);
    }
    emulator.admin("POST", "/reset", &[]).expect(200);
    create();
    assert_eq!(outcomes(&emulator, "Things"), first);
    emulator.admin("POST", "/faults", &[]).expect(200);
    // Some of those that got no answer, or a timeout, have happened, and some have not.
    let succeeded = first.iter().filter(|status| **status == 201).count();
    let unknown = first.iter().filter(|status| [0, 500].contains(*status)).count();
    let stored = entities(&emulator, "Things");
    assert!(
        succeeded < stored && stored < succeeded + unknown,
        "{succeeded} {stored} {unknown}"
    );
}

#[test]
fn faults_are_set_while_it_runs() {
    let temporary = Temporary::new();
    let emulator = Emulator::start(&temporary, &[]);
    create_table(&emulator, "Things");
    let host = emulator.admin.to_string();
    let set = |body: &str, headers: &[(&str, &str)]| {
        let mut all = headers.to_vec();
        if !headers.iter().any(|(name, _)| *name == "Host") {
            all.push(("Host", &host));
        }
        let length = body.len().to_string();
        all.push(("Content-Length", &length));
        send_all_then_read(emulator.admin, &raw("POST", "/faults", &all, body.as_bytes()))
    };
    let always = "{\"inject\":\"503=100%\",\"seed\":7}";
    set(always, &[("Origin", "http://example.com")]).expect(403);
    set(always, &[("Host", "evil.example")]).expect(421);
    let wrong = set("{\"inject\":\"500=1%\"}", &[]).expect(400);
    assert!(wrong.text().contains("there is no fault 500"), "{}", wrong.text());
    let wrong = set("[]", &[]).expect(400);
    assert!(wrong.text().contains("a JSON object is expected"), "{}", wrong.text());
    let wrong = emulator.admin("PUT", "/faults", &[]).expect(405);
    assert!(wrong.text().contains("POST"), "{}", wrong.text());
    // A client that still sends can read the response.
    let large = " ".repeat(12 * 1024 * 1024);
    set(&large, &[("Origin", "http://example.com")]).expect(403);
    set(&large, &[("Host", "evil.example")]).expect(421);
    set(&large, &[]).expect(400);
    emulator.client().get("Tables").expect(200);
    set(always, &[]).expect(200);
    assert_eq!(emulator.admin("GET", "/faults", &[]).expect(200).text().trim(), always);
    let busy = emulator.client().get("Tables").expect(503);
    assert_eq!(busy.header("retry-after"), Some("1"));
    busy.fails_with(503, "ServerBusy", "");
    set("{\"inject\":\"timeout=100%\"}", &[]).expect(200);
    emulator.client().get("Tables").fails_with(500, "OperationTimedOut", "");
    set("", &[]).expect(200);
    emulator.client().get("Tables").expect(200);
}

#[test]
fn a_batch_is_throttled_by_its_operations_and_may_have_happened_when_it_times_out() {
    let temporary = Temporary::new();
    let emulator = Emulator::start(&temporary, &["--throttle", "partition=2"]);
    create_table(&emulator, "Things");
    let batch = |partition: &str, operations: usize| {
        let address = emulator.address;
        let changes: String = (0..operations)
            .map(|row| {
                format!(
                    "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
                     POST http://{address}/devstoreaccount1/Things HTTP/1.1\r\nContent-Type: application/json\r\n\r\n\
                     {{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\"}}\r\n"
                )
            })
            .collect();
        let body = format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{changes}--c--\r\n--b--\r\n");
        let headers = [("Content-Type", "multipart/mixed; boundary=b")];
        emulator
            .client()
            .send("POST", "$batch", &headers, body.as_bytes())
            .status
    };
    // It is larger than the limit, so the next one has to wait for fifty seconds.
    assert_eq!(batch("larger", 100), 202);
    assert_eq!(batch("larger", 1), 503);
    assert_eq!(batch("as-large", 2), 202);
    let body = b"{\"inject\":\"timeout=100%\"}";
    let (host, length) = (emulator.admin.to_string(), body.len().to_string());
    let faults = raw("POST", "/faults", &[("Host", &host), ("Content-Length", &length)], body);
    Client::new(emulator.admin).exchange(&faults).expect(200);
    for partition in 0..20 {
        assert_eq!(batch(&format!("unknown-{partition}"), 2), 500);
    }
    emulator.admin("POST", "/faults", &[]).expect(200);
    let happened = (0..20)
        .filter(|partition| {
            let answer = emulator
                .client()
                .get(&format!("Things(PartitionKey='unknown-{partition}',RowKey='1')"));
            answer.status == 200
        })
        .count();
    assert!((1..20).contains(&happened), "{happened} of 20 batches have happened");
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_explorer_writes_and_its_address_is_for_its_user() {
    let temporary = Temporary::new();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("explorer");
    // Somebody else's file with this name is not written to.
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let emulator = Emulator::start(&temporary, &["--explorer-address-file", file.to_str().unwrap()]);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let address = fs::read_to_string(&file).unwrap();
    let (page, token) = address.trim().split_once("/explorer#token=").unwrap();
    assert_eq!(page, format!("http://{}", emulator.admin));
    emulator.admin("GET", "/explorer", &[]).expect(200);
    let bearer = format!("Bearer {token}");
    let json = ("Content-Type", "application/json");
    let known = emulator.admin("POST", "/explorer/api", &[json, ("Authorization", &bearer)]);
    assert_eq!(known.expect(200).json()["canWrite"], true);
    emulator.admin("POST", "/explorer/api", &[json]).expect(401);
}

#[test]
fn the_explorer_can_be_off() {
    let temporary = Temporary::new();
    let emulator = Emulator::start(&temporary, &["--explorer", "off"]);
    emulator.admin("GET", "/explorer", &[]).expect(404);
}
