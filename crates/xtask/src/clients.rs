//! Unmodified clients of the Table service from their registries against the gateway, and the table of their abilities
//! in `docs/guide/gateway.md`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::bail;

use crate::background::new_key;
use crate::environment::{Environment, Result, run, step, text};
use crate::packages::{javascript, node, python};
use crate::runner::Runner;
use crate::service::Service;

/// In the order of the table: a file with the client's program, in the directory of its language in `tests/clients`.
const CLIENTS: [&str; 14] = [
    "python/azure-data-tables",
    "javascript/azure-data-tables",
    "rust/azure_data_tables",
    "python/azure-cli",
    "python/azure-cosmosdb-table",
    "python/azure-storage",
    "javascript/azure-storage",
    "javascript/azure-table-node",
    "javascript/fast-azure-storage",
    "javascript/azure-entities",
    "javascript/connect-azuretables",
    "javascript/keyv-azuretable",
    "javascript/unstorage",
    "python/llama-index-storage-kvstore-azure",
];

const ACCOUNT: &str = "clienttests";

/// Runs these clients, or all, and writes the table.
///
/// # Errors
/// A client fails that has passed before, unless that is accepted.
pub fn clients(pg: Option<u32>, chosen: &[String], accept: bool) -> Result {
    if let Some(unknown) = chosen.iter().find(|client| !CLIENTS.contains(&client.as_str())) {
        bail!("there is no client '{unknown}' (there are: {})", CLIENTS.join(" "));
    }
    let mut runner = Runner::with_postgres(pg, false)?;
    runner.environment.set_up("sdks")?;
    runner.install_extension()?;
    step("Unmodified clients of the Table service against the gateway");
    runner.build_gateway()?;
    // The downloads take long, so they come before there is a server.
    let clients = CLIENTS
        .iter()
        .filter(|client| chosen.is_empty() || chosen.iter().any(|name| name == *client))
        .map(|client| Client::fetch(&runner.environment, client))
        .collect::<Result<Vec<Client>>>()?;
    let mut service = Service::start(&runner.environment, runner.work()?.directory.join("clients"), &[])?;
    let key = start_gateways(&mut service)?;
    let results = service.directory.join("results");
    fs_err::create_dir(&results)?;
    for client in clients {
        client.run(&service.environment, &results)?;
    }
    println!();
    let mut table = service.environment.command("python3");
    if accept {
        table.env("ACCEPT", "1");
    }
    table
        .args(["tests/clients/table.py", "docs/guide/gateway.md"])
        .arg(&results);
    let written = run(table.args(CLIENTS));
    service.finish(written, &[&key], "clients")
}

/// Two gateways: some clients speak HTTPS only. Returns the key of the account.
fn start_gateways(service: &mut Service) -> Result<String> {
    let file = |name: &str| service.directory.join(name).display().to_string();
    let (certificate, private_key) = (file("certificate.pem"), file("key.pem"));
    let mut openssl = service.environment.command("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
    ]);
    openssl.args(["-nodes", "-days", "2", "-subj", "/CN=gateway", "-addext"]);
    openssl.arg(format!(
        "subjectAltName=DNS:localhost,IP:127.0.0.1,DNS:{ACCOUNT}.table.core.windows.net"
    ));
    run(openssl.args(["-keyout", &private_key, "-out", &certificate]))?;

    let key = new_key(&service.environment)?;
    let account = ["--account", ACCOUNT, "--key", &key];
    let address = service.start_gateway("gateway", &account)?;
    let tls = ["--tls-certificate", &certificate, "--tls-key", &private_key];
    let https = service.start_gateway("https", &[account, tls].concat())?;
    let programs = &mut service.environment;
    programs.set("CLIENT_ACCOUNT", ACCOUNT);
    programs.set("CLIENT_KEY", &key);
    programs.set("CLIENT_ENDPOINT", format!("http://{address}/{ACCOUNT}"));
    programs.set("CLIENT_TLS_PORT", https.rsplit(':').next().unwrap_or_default());
    programs.set("NODE_EXTRA_CA_CERTS", certificate);
    Ok(key)
}

/// A client at its pinned version.
struct Client {
    name: &'static str,
    version: String,
    /// The program, its arguments, and for one in JavaScript the packages that it uses.
    program: PathBuf,
    arguments: Vec<String>,
    modules: Option<PathBuf>,
}

impl Client {
    fn fetch(environment: &Environment, client: &'static str) -> Result<Client> {
        let (language, name) = client.split_once('/').unwrap_or_default();
        let source = |ending: &str| format!("tests/clients/{client}.{ending}");
        match language {
            "python" => {
                let python = python(environment, &format!("client-{name}"), &source("txt"))?;
                let version = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))";
                Ok(Client {
                    name: client,
                    version: text(environment.command(&python).args(["-c", version, name]))?,
                    program: python,
                    arguments: ["-B", "-W", "ignore", &source("py")].map(str::to_owned).to_vec(),
                    modules: None,
                })
            }
            "javascript" => {
                let modules = javascript(environment, "clients", "tests/clients/javascript")?;
                let package = if name == "azure-data-tables" {
                    "@azure/data-tables"
                } else {
                    name
                };
                let version = "console.log(JSON.parse(require('fs').readFileSync(process.argv[1])).version)";
                let manifest = modules.join(package).join("package.json");
                Ok(Client {
                    name: client,
                    version: text(node(environment, &modules)?.args(["-e", version]).arg(manifest))?,
                    program: "node".into(),
                    arguments: ["--no-deprecation", &source("js")].map(str::to_owned).to_vec(),
                    modules: Some(modules),
                })
            }
            _ => {
                let target = environment.cache.join("sdk/clients-rust");
                let mut build = environment.cargo(["build", "--quiet", "--locked"]);
                build.args(["--manifest-path", "tests/clients/rust/Cargo.toml", "--target-dir"]);
                run(build.arg(&target))?;
                let mut package = environment.cargo(["pkgid", "--manifest-path", "tests/clients/rust/Cargo.toml"]);
                let package = text(package.arg(name))?;
                Ok(Client {
                    name: client,
                    version: package.rsplit('@').next().unwrap_or_default().to_owned(),
                    program: target.join("debug/client"),
                    arguments: Vec::new(),
                    modules: None,
                })
            }
        }
    }

    /// Runs it, and writes its results for `tests/clients/table.py`: a line with its status, then one for each point.
    fn run(&self, environment: &Environment, results: &Path) -> Result {
        println!("\n-- {} {}", self.name, self.version);
        let mut program = match &self.modules {
            Some(modules) => node(environment, modules)?,
            None => environment.command(&self.program),
        };
        let output = program.args(&self.arguments).stderr(Stdio::inherit()).output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut lines = format!(
            "{{\"client\": \"{}\", \"version\": \"{}\", \"status\": {}}}\n",
            self.name,
            self.version,
            output.status.code().unwrap_or(1)
        );
        // The other lines are the client's own.
        for line in printed.lines().filter(|line| line.starts_with("{\"point\":")) {
            println!("{line}");
            lines += &format!("{line}\n");
        }
        let file = results.join(self.name.replacen('/', ".", 1));
        Ok(fs_err::write(&file, lines)?)
    }
}
