//! The messages of an emulator about itself, on standard output. The first one is on standard error: programs wait for
//! the next one.

use std::io::Write;
use std::net::SocketAddr;

use table_service_gateway::server::run::Addresses;
use table_service_model::access::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

use crate::other_services::OtherService;

/// The port that SDKs connect to with `UseDevelopmentStorage=true`.
const DEVELOPMENT_PORT: u16 = 10002;

const TABLE: &str = "Table";

/// The kind of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Messages {
    Quiet,
    Own,
    /// The words of azurite-table, for which test set-ups wait. Host and port are those of the command line.
    AzuriteTable {
        host: String,
        port: u16,
    },
    /// The words of azurite.
    Azurite,
}

impl Messages {
    /// Announces the start, which takes seconds on a busy machine. A free port is not known yet. A program that starts
    /// the emulator for itself reports standard error as the reason of a failure, so nothing is there.
    pub fn starts(&self, is_for_program: bool) {
        match self {
            Messages::Own if !is_for_program => _ = writeln!(std::io::stderr().lock(), "The emulator is starting."),
            Messages::AzuriteTable { host, port: port @ 1.. } => say(&is_starting(host, *port)),
            _ => {}
        }
    }

    /// Announces that the emulator listens, and where the other services do.
    pub fn listens(&self, addresses: &Addresses, others: &[(OtherService, SocketAddr)]) {
        let port = addresses.clients.port();
        if let Some(address) = addresses.explorer.as_ref().filter(|_| *self != Messages::Quiet) {
            table_service_explorer::print(address);
        }
        match self {
            Messages::Quiet => {}
            Messages::Own => say(&ready(addresses)),
            Messages::Azurite => {
                let others = others.iter().map(|(service, address)| (service.name(), *address));
                for (service, address) in others.chain([(TABLE, addresses.clients)]) {
                    let url = format!("{}://{address}", addresses.scheme);
                    say(&format!("Azurite {service} service is starting at {url}"));
                    say(&format!("Azurite {service} service is successfully listening at {url}"));
                }
                say("Only tables are served here: requests to the Blob and Queue services get NotImplemented.");
            }
            Messages::AzuriteTable { host, port: asked } => {
                if *asked == 0 {
                    say(&is_starting(host, port));
                }
                say(&format!("Azurite Table service successfully started on {host}:{port}"));
                let (scheme, address) = (addresses.scheme, addresses.clients);
                say(&format!(
                    "Azurite Table service is successfully listening at {scheme}://{address}"
                ));
            }
        }
    }

    /// Announces that the emulator is ending.
    pub fn closes(&self) {
        for service in self.services() {
            say(&format!("Azurite {service} service is closing..."));
        }
    }

    /// Announces that it has ended.
    pub fn closed(&self) {
        for service in self.services() {
            say(&format!("Azurite {service} service successfully closed"));
        }
    }

    /// The services that azurite would have.
    fn services(&self) -> &'static [&'static str] {
        match self {
            Messages::Quiet | Messages::Own => &[],
            Messages::AzuriteTable { .. } => &[TABLE],
            Messages::Azurite => &["Blob", "Queue", TABLE],
        }
    }
}

fn is_starting(host: &str, port: u16) -> String {
    format!("Azurite Table service is starting on {host}:{port}")
}

fn ready(addresses: &Addresses) -> String {
    let port = addresses.clients.port();
    let connection_string = if port == DEVELOPMENT_PORT {
        "UseDevelopmentStorage=true".to_owned()
    } else {
        format!(
            "DefaultEndpointsProtocol=http;AccountName={DEVELOPMENT_ACCOUNT};AccountKey={DEVELOPMENT_KEY};\
             TableEndpoint=http://127.0.0.1:{port}/{DEVELOPMENT_ACCOUNT};"
        )
    };
    format!(
        "The emulator is ready on http://{}, for operators on http://{}.\nConnection string: {connection_string}",
        addresses.clients, addresses.admin
    )
}

fn say(line: &str) {
    // The reader of the output may stop reading.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
