//! The URL of a database: its servers, and the name that messages may show.

use std::net::IpAddr;
use std::time::Duration;

use table_service_model::{Secret, secret};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// The URL of a database with one server or several.
#[derive(Debug, Clone)]
pub struct DatabaseUrl(Config);

impl DatabaseUrl {
    /// Reads a URL. As in libpq, each server has a host, an address (`hostaddr`) or both, and either each has a port or all have the same.
    ///
    /// # Errors
    /// The problem, as the rest of a sentence. It repeats nothing of the URL: a part of a mistyped one can be the password.
    pub fn read(url: &Secret) -> Result<DatabaseUrl, String> {
        let unreadable = || {
            format!(
                "is not a database URL: it is {url:?}, and the form is postgresql://role:password@host:port/database; in a password, \
                 @ is %40, / is %2F, : is %3A and % is %25"
            )
        };
        let config: Config = url.expose().trim().parse().map_err(|_| unreadable())?;
        let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
        if !hosts
            .iter()
            .all(|host| matches!(host, Host::Unix(_)) || matches!(host, Host::Tcp(name) if is_host(name)))
        {
            return Err(unreadable());
        }
        let servers = hosts.len().max(addresses.len());
        let fits = |count: usize, least: usize| count <= least || count == servers;
        if servers == 0 {
            let problem = "names no host: it is localhost, or the directory of a socket, such as %2Frun%2Fpostgresql";
            return Err(problem.to_owned());
        }
        if !fits(hosts.len(), 0) || !fits(addresses.len(), 0) || !fits(ports.len(), 1) {
            let problem = "has not as many addresses (hostaddr) or ports as hosts; one port is enough";
            return Err(problem.to_owned());
        }
        // A driver connects to an address instead of the host beside it, so both have to be here.
        let is_this_machine = hosts.iter().all(is_here) && addresses.iter().all(IpAddr::is_loopback);
        if config.get_ssl_mode() == SslMode::Prefer && !is_this_machine {
            let problem = "names another machine without sslmode: add ?sslmode=require for TLS, or ?sslmode=disable to do without";
            return Err(problem.to_owned());
        }
        Ok(DatabaseUrl(config))
    }

    /// Returns whether a text is a URL with a password.
    pub fn has_password(text: &str) -> bool {
        text.parse::<Config>()
            .is_ok_and(|config| config.get_password().is_some())
    }

    /// Returns whether two URLs name the same database.
    pub fn is_same_database(&self, other: &DatabaseUrl) -> bool {
        let place = |url: &DatabaseUrl| {
            let DatabaseUrl(config) = url;
            let (hosts, addresses) = (config.get_hosts().to_vec(), config.get_hostaddrs().to_vec());
            let database = config.get_dbname().map(str::to_owned);
            (hosts, addresses, config.get_ports().to_vec(), database)
        };
        place(self) == place(other)
    }

    /// Returns whether it asks for a server that only reads.
    pub fn wants_read_only(&self) -> bool {
        self.0.get_target_session_attrs() == TargetSessionAttrs::ReadOnly
    }

    /// Returns its servers and its database, such as `db1:5432,db2:5432/tables`, without role and password.
    pub fn name(&self) -> String {
        let DatabaseUrl(config) = self;
        let servers = self.servers().into_iter().map(|DatabaseUrl(server)| {
            let port = server.get_ports().first().copied().unwrap_or(5432);
            match server.get_hosts().first() {
                Some(Host::Tcp(host)) if host.contains(':') => format!("[{host}]:{port}"),
                Some(Host::Tcp(host)) => format!("{host}:{port}"),
                Some(Host::Unix(directory)) => format!("{}:{port}", directory.display()),
                None => String::new(),
            }
        });
        let servers: Vec<String> = servers.collect();
        let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
        format!("{}/{}", servers.join(","), shown_name(database))
    }

    /// Returns each server alone. For TLS, a server with an address only has it also as its host.
    #[must_use]
    pub fn servers(&self) -> Vec<DatabaseUrl> {
        let DatabaseUrl(config) = self;
        let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
        let server = |index: usize| {
            let mut one = Config::new();
            one.ssl_mode(config.get_ssl_mode());
            one.ssl_negotiation(config.get_ssl_negotiation());
            one.channel_binding(config.get_channel_binding());
            one.target_session_attrs(config.get_target_session_attrs());
            one.keepalives(config.get_keepalives());
            one.keepalives_idle(config.get_keepalives_idle());
            config
                .get_keepalives_interval()
                .map(|time| one.keepalives_interval(time));
            config
                .get_keepalives_retries()
                .map(|retries| one.keepalives_retries(retries));
            config.get_connect_timeout().map(|time| one.connect_timeout(*time));
            config.get_tcp_user_timeout().map(|time| one.tcp_user_timeout(*time));
            config.get_user().map(|user| one.user(user));
            config.get_password().map(|password| one.password(password));
            config.get_dbname().map(|database| one.dbname(database));
            config.get_options().map(|options| one.options(options));
            config.get_application_name().map(|name| one.application_name(name));
            ports.get(index).or(ports.first()).map(|port| one.port(*port));
            addresses.get(index).map(|address| one.hostaddr(*address));
            match (hosts.get(index), addresses.get(index)) {
                (Some(Host::Tcp(host)), _) => drop(one.host(host)),
                (Some(Host::Unix(directory)), _) => drop(one.host_path(directory)),
                (None, Some(address)) => drop(one.host(address.to_string())),
                (None, None) => {}
            }
            DatabaseUrl(one)
        };
        (0..hosts.len().max(addresses.len())).map(server).collect()
    }

    /// Returns the settings for the driver.
    pub(crate) fn into_config(self) -> Config {
        self.0
    }

    /// Adds settings of its sessions, such as `-c jit=off`, behind those that it has.
    pub fn add_options(&mut self, more: &str) {
        let options = format!("{} {more}", self.0.get_options().unwrap_or_default());
        self.0.options(options.trim());
    }

    /// Sets the name of the program, also over the name in the URL.
    pub fn set_application_name(&mut self, name: &str) {
        self.0.application_name(name);
    }

    /// Sets the name of the program, unless the URL has one.
    pub fn default_application_name(&mut self, name: &str) {
        if self.0.get_application_name().is_none() {
            self.0.application_name(name);
        }
    }

    /// Closes connections over a network that has not delivered for so long, unless the URL says it.
    pub fn default_network_timeout(&mut self, time: Duration) {
        if self.0.get_tcp_user_timeout().is_none() {
            self.0.tcp_user_timeout(time);
        }
    }
}

/// Returns whether a host is on this machine.
fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

/// Returns whether a text has the form of a host's name or address. In a mistyped URL a part of the password can stand where the host
/// does. It must not be looked up or shown.
pub fn is_host(text: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    !text.is_empty() && text.len() <= 253 && text.chars().all(is_part)
}

/// Returns the name of a database, for messages. One with other characters than names have may be a mistyped secret.
fn shown_name(text: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_' | '$');
    if text.len() <= 63 && text.chars().all(is_part) {
        return text.to_owned();
    }
    format!("({})", secret::describe(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<DatabaseUrl, String> {
        DatabaseUrl::read(&url.into())
    }

    /// Metrics and log tell them apart by it.
    #[test]
    fn each_server_has_a_name() {
        for (url, together, each) in [
            ("host=a,b port=1 dbname=d", "a:1,b:1/d", &["a:1/d", "b:1/d"][..]),
            (
                "host=a,b hostaddr=10.0.0.1,10.0.0.2 dbname=d",
                "a:5432,b:5432/d",
                &["a:5432/d", "b:5432/d"],
            ),
            (
                "hostaddr=10.0.0.1,::1 port=1,2 dbname=d",
                "10.0.0.1:1,[::1]:2/d",
                &["10.0.0.1:1/d", "[::1]:2/d"],
            ),
            (
                "host=/run/p,::1 dbname=d",
                "/run/p:5432,[::1]:5432/d",
                &["/run/p:5432/d", "[::1]:5432/d"],
            ),
        ] {
            let url = read(&format!("{url} sslmode=disable")).unwrap();
            assert_eq!(url.name(), together);
            let names: Vec<String> = url.servers().iter().map(DatabaseUrl::name).collect();
            assert_eq!(names, each);
        }
    }

    #[test]
    fn servers_have_a_host_or_an_address_each() {
        for (url, count) in [
            ("host=a port=1", Some(1)),
            ("hostaddr=10.0.0.1,10.0.0.2", Some(2)),
            ("host=a,b,c port=1,2,3", Some(3)),
            ("host=a,b,c port=1", Some(3)),
            ("port=1", None),
            ("host=a,b hostaddr=10.0.0.1", None),
            ("host=a hostaddr=10.0.0.1,10.0.0.2", None),
            ("host=a,b port=1,2,3", None),
            ("host=a port=1,2", None),
        ] {
            let servers = read(&format!("{url} sslmode=disable")).map(|url| url.servers().len());
            assert_eq!(servers.ok(), count, "{url}");
        }
        for url in ["", "postgresql://", "postgresql:///d", "postgresql://role@/d"] {
            assert!(read(url).unwrap_err().contains("names no host"), "{url}");
        }
        // In this form a comma belongs to the name of the directory.
        assert!(
            read("postgresql:///d?host=/one,/two&port=1,2")
                .unwrap_err()
                .contains("not as many")
        );
    }

    #[test]
    fn another_machine_needs_sslmode() {
        for here in [
            "postgresql://u@LocalHost,[::1]/d",
            "postgresql://u@%2Frun%2Fpostgresql/d",
            "host=127.0.0.1,localhost hostaddr=127.0.0.2,::1",
            "postgresql://u@h.example/d?sslmode=require&hostaddr=10.0.0.1",
            "postgresql://u@h.example/d?sslmode=disable",
        ] {
            assert!(read(here).is_ok(), "{here}");
        }
        for away in [
            "postgresql://u@h.example/d?hostaddr=127.0.0.1",
            "postgresql://u@localhost/d?hostaddr=10.0.0.1",
            "postgresql://u@%2Frun%2Fpostgresql/d?hostaddr=10.0.0.1",
            "postgresql://u@localhost,127.0.0.1/d?hostaddr=127.0.0.1,10.0.0.1",
            "postgresql://u@localhost,127.0.0.1.example.com/d",
            "postgresql:///d?hostaddr=10.0.0.1",
            "postgresql://u@0.0.0.0/d",
        ] {
            assert!(read(away).unwrap_err().contains("sslmode"), "{away}");
        }
    }

    #[test]
    fn parts_of_a_password_are_no_host() {
        for host in ["db.example.com", "10.0.0.1", "::1", "straße.example", "db_1"] {
            assert!(is_host(host), "{host}");
        }
        for host in ["", "ss@host", "host;password=x", "host password", "a/b", "%40", "x=y"] {
            assert!(!is_host(host), "{host}");
        }
        for mistyped in [
            "postgresql://u:sec@ret@h/d",
            "postgresql://h;password=secret/d",
            "postgresql://u@h/d?secret",
        ] {
            let said = read(mistyped).unwrap_err();
            assert!(!said.contains("ret@") && !said.contains("secret"), "{said}");
        }
    }
}
