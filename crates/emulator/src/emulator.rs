//! Start and end of the emulator.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use parking_lot::Mutex;
use table_service_gateway::config::{self, AccountSettings, Config, ConfigError, Settings};
use table_service_gateway::server::run::{self, StopSignals};
use table_service_model::access::DEVELOPMENT_ACCOUNT;

use crate::cleaner::Cleaner;
use crate::control::Control;
use crate::faults::Faults;
use crate::installation::Installation;
use crate::other_services::OtherPort;
use crate::parent;
use crate::postgres::{self, FIRST_DATABASE, Server};
use crate::run_directory::{self, RunDirectory, lock_data};
use crate::server_user::{ServerUser, make, problem};
use crate::settings::{EmulatorSettings, under_name_of_option};

/// The most bytes of the directory of a socket: 107 for its path, as Linux has it, without `/.s.PGSQL.5432`.
const LONGEST_SOCKET: usize = 92;

/// Runs the emulator until SIGTERM or SIGINT.
pub fn run(options: EmulatorSettings) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let signals = StopSignals::new().map_err(|error| error.to_string())?;
        if let Some(process) = options.more.parent {
            parent::watch(process)?;
        }
        let kept = options.data.as_deref().map(std::path::absolute).transpose();
        let kept = kept.map_err(|error| format!("the directory of the tables: {error}"))?;
        // The data of the server are one below, so that the lock is beside them.
        let kept_data = kept.as_ref().map(|directory| directory.join("postgresql"));
        let installation = Installation::find(options.more.postgres.as_deref(), kept_data.as_deref())?;
        let owner = ServerUser::of_server()?;
        let _data_lock = match &kept {
            Some(directory) => {
                make(directory, 0o755)?;
                Some(lock_data(directory)?)
            }
            None => None,
        };
        let run_directory = RunDirectory::new(owner)?;
        let directory = run_directory.directory.clone();
        let messages = options.messages.clone();
        let result = async {
            let cleaner = Cleaner::start(&directory)?;
            let result = run_in(&run_directory, options, installation, owner, kept_data, signals).await;
            drop(run_directory);
            cleaner.clean();
            result
        };
        let result = result.await;
        // The cleaner may have been killed.
        run_directory::remove_when_left(&directory)?;
        if result.is_ok() {
            messages.closed();
        }
        result
    })
}

async fn run_in(
    run_directory: &RunDirectory,
    options: EmulatorSettings,
    installation: Installation,
    owner: ServerUser,
    kept_data: Option<PathBuf>,
    mut signals: StopSignals,
) -> Result<(), String> {
    let installation = installation.for_user(owner, &run_directory.programs())?;
    let settings = postgres::Settings {
        owner,
        durable: kept_data.is_some(),
        data: kept_data.unwrap_or_else(|| run_directory.server().join("data")),
        directory: run_directory.server(),
        log: run_directory.log()?,
        databases: match options.gateway.accounts.as_slice() {
            [] => vec![FIRST_DATABASE.to_owned()],
            accounts => accounts.iter().map(database_of).collect(),
        },
    };
    let messages = options.messages.clone();
    let is_for_program = options.more.parent.is_some();
    let names = options.names;
    let of_config = |error: &ConfigError| under_name_of_option(names, error);
    if let Some(file) = &options.log_file {
        make_directory_of(file)?;
    }
    let mut others = Vec::new();
    for (service, listen) in &options.other_services {
        let port = OtherPort::bind(*service, listen).await;
        others.push(port.map_err(|error| of_config(&error))?);
    }
    let other_addresses: Vec<_> = others.iter().map(|port| (port.service, port.address)).collect();
    let control = Arc::new(Control {
        takes_unsigned_tokens: options.unsigned_tokens,
        others: Mutex::new(others),
        faults: Faults::new(options.more.faults.clone()),
        keeps_tables: options.data.is_some(),
    });
    let config = gateway(options, &settings.directory)?;
    run::start_log(&config).map_err(|error| of_config(&error))?;
    messages.starts(is_for_program);
    let mut server = tokio::select! {
        server = Server::start(&installation, &settings) => server?,
        () = signals.any() => {
            messages.closes();
            return Ok(());
        }
    };
    let listens = AtomicBool::new(false);
    let gateway = run::run(config, Some(control), |addresses| {
        listens.store(true, Ordering::Relaxed);
        messages.listens(addresses, &other_addresses);
    });
    // The gateway may end before the other task has seen the signal.
    let closes = Once::new();
    let stopped_early = async {
        signals.any().await;
        closes.call_once(|| messages.closes());
        // Once it listens, the gateway takes the signals and finishes its requests.
        if listens.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        ended = gateway => match ended {
            Ok(()) => {
                closes.call_once(|| messages.closes());
                Ok(())
            }
            Err(error) => Err(error.downcast_ref::<ConfigError>().map_or_else(|| error.to_string(), of_config)),
        },
        problem = server.ended() => Err(problem),
        () = stopped_early => Ok(()),
    }
}

/// Makes the directory of a log that the user has named, if it does not exist, as azurite-table does.
fn make_directory_of(file: &Path) -> Result<(), String> {
    let file = std::path::absolute(file).map_err(|error| problem(file, &error))?;
    match file.parent().filter(|directory| !directory.is_dir()) {
        Some(directory) => make(directory, 0o755),
        None => Ok(()),
    }
}

/// The database of an account. An account's name has letters and digits only, so it is not the name of another database. The
/// development account has the same one as without accounts, so that its tables stay when others are added.
fn database_of(account: &AccountSettings) -> String {
    match account.name.as_str() {
        DEVELOPMENT_ACCOUNT => FIRST_DATABASE.to_owned(),
        name => format!("account_{name}"),
    }
}

/// The settings of the gateway. The environment is the gateway's, not the emulator's, so it is not read.
fn gateway(options: EmulatorSettings, socket: &Path) -> Result<Config, String> {
    let socket = socket.to_str().ok_or("TMPDIR must be UTF-8")?;
    // In a list of hosts a comma would part two of them.
    if socket.contains(',') || socket.len() > LONGEST_SOCKET {
        return Err(format!(
            "PostgreSQL's socket cannot be in {socket}: set TMPDIR to a directory with a shorter name, without commas"
        ));
    }
    let socket = socket.replace('\\', "\\\\").replace('\'', "\\'");
    let url = |database: &str| format!("host='{socket}' user=postgres dbname={database}").into();
    let mut settings = options.gateway;
    for account in &mut settings.accounts {
        account.database_url = vec![url(&database_of(account))];
    }
    if settings.accounts.is_empty() {
        settings.database_url = vec![url(FIRST_DATABASE)];
    }
    let mut config = config::check(Settings {
        explorer: Some(options.more.explorer),
        explorer_address_file: options.more.explorer_address_file,
        ..settings
    })
    .map_err(|error| under_name_of_option(options.names, &error))?;
    let hosts = config::host_names("--allowed-host", &options.more.allowed_hosts);
    let hosts = hosts.map_err(|error| format!("{}: {}", error.setting, error.problem))?;
    // If no account has a public key, no page can sign a request.
    config.client_hosts = config
        .accounts
        .iter()
        .any(|account| account.has_public_key)
        .then_some(hosts);
    config.log_file = options.log_file;
    Ok(config)
}
