//! Start and end of the emulator.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use table_service_gateway::config::{self, Config, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY, Settings};
use table_service_gateway::run::{self, Addresses};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::command_line::CommandLine;
use crate::keeper::Keeper;
use crate::owner::{Owner, make};
use crate::place::{self, Place, lock_data};
use crate::postgres::{self, Installation, Server};

/// The port that SDKs connect to with `UseDevelopmentStorage=true`.
const DEVELOPMENT_PORT: u16 = 10002;

/// Runs the emulator until SIGTERM or SIGINT.
///
/// # Errors
/// Why it does not start, or why it had to end.
pub fn run(command_line: &CommandLine) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let signals = Signals::new()?;
        let kept = command_line.data.as_deref().map(std::path::absolute).transpose();
        let kept = kept.map_err(|error| format!("--data: {error}"))?;
        // The data of the server are one below, so that the lock is beside them.
        let kept_data = kept.as_ref().map(|directory| directory.join("postgresql"));
        let installation = Installation::find(command_line.postgres.as_deref(), kept_data.as_deref())?;
        let owner = Owner::of_server()?;
        let _data_lock = match &kept {
            Some(directory) => {
                make(directory, 0o755)?;
                Some(lock_data(directory)?)
            }
            None => None,
        };
        let place = Place::new(owner)?;
        let directory = place.directory.clone();
        let result = run_in(place, command_line, &installation, owner, kept_data, signals).await;
        // If the keeper was killed, nobody has done it.
        place::remove_when_left(&directory)?;
        result
    })
}

async fn run_in(
    place: Place,
    command_line: &CommandLine,
    installation: &Installation,
    owner: Owner,
    kept_data: Option<PathBuf>,
    signals: Signals,
) -> Result<(), String> {
    let keeper = Keeper::start(&place.directory)?;
    let settings = postgres::Settings {
        owner,
        durable: kept_data.is_some(),
        data: kept_data.unwrap_or_else(|| place.server().join("data")),
        directory: place.server(),
        log: place.log()?,
    };
    let result = serve(command_line, installation, &settings, signals).await;
    drop(place);
    keeper.clean();
    result
}

async fn serve(
    command_line: &CommandLine,
    installation: &Installation,
    settings: &postgres::Settings,
    mut signals: Signals,
) -> Result<(), String> {
    let config = gateway(command_line, &settings.directory)?;
    run::start_log(&config).map_err(|error| error.to_string())?;
    let mut server = tokio::select! {
        server = Server::start(installation, settings) => server?,
        () = signals.any() => return Ok(()),
    };
    let listens = AtomicBool::new(false);
    let gateway = run::run(config, |addresses| {
        listens.store(true, Ordering::Relaxed);
        announce(command_line, addresses);
    });
    let stopped_early = async {
        signals.any().await;
        // Once it listens, the gateway takes the signals and finishes its requests.
        if listens.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        ended = gateway => ended.map_err(|error| error.to_string()),
        problem = server.ended() => Err(problem),
        () = stopped_early => Ok(()),
    }
}

/// The signals that end the emulator in peace.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Signals, String> {
        let listen = |kind| signal(kind).map_err(|error| error.to_string());
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The settings of the gateway. The environment is the gateway's, not the emulator's, so it is not read.
fn gateway(command_line: &CommandLine, socket: &Path) -> Result<Config, String> {
    let host = if command_line.expose { "0.0.0.0" } else { "127.0.0.1" };
    let socket = socket.to_str().ok_or("TMPDIR must be UTF-8")?;
    let mut config = config::check(Settings {
        listen: Some(format!("{host}:{}", command_line.ports.port)),
        admin_listen: Some(format!("127.0.0.1:{}", command_line.ports.admin()?)),
        database_url: vec![
            format!(
                "host='{}' user=postgres dbname=postgres",
                socket.replace('\\', "\\\\").replace('\'', "\\'")
            )
            .into(),
        ],
        expose_development_account: Some(command_line.expose),
        log: Some("warn".to_owned()),
        ..Settings::default()
    })
    .map_err(|error| error.to_string())?;
    config.allow_reset = command_line.data.is_none();
    Ok(config)
}

fn announce(command_line: &CommandLine, addresses: &Addresses) {
    if command_line.quiet {
        return;
    }
    let port = addresses.clients.port();
    let connection_string = if port == DEVELOPMENT_PORT {
        "UseDevelopmentStorage=true".to_owned()
    } else {
        format!(
            "DefaultEndpointsProtocol=http;AccountName={DEVELOPMENT_ACCOUNT};AccountKey={DEVELOPMENT_KEY};\
             TableEndpoint=http://127.0.0.1:{port}/{DEVELOPMENT_ACCOUNT};"
        )
    };
    // Whoever reads this may stop reading.
    let _ = writeln!(
        std::io::stdout().lock(),
        "The emulator is ready on http://{}, for operators on http://{}.\nConnection string: {connection_string}",
        addresses.clients,
        addresses.admin
    );
}
