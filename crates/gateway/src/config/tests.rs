//! How settings are read, from every source.

use table_service_connect::DatabaseUrl;
use table_service_model::Dialect;
use table_service_model::access::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};

use super::command_line::CommandLine;
use super::validation::{AccountConfig, Config};

const KEY: &str = "a2V5";

fn config(arguments: &[&str]) -> Result<Config, String> {
    let arguments = std::iter::once("table-service-gateway").chain(arguments.iter().copied());
    let command_line: CommandLine =
        table_service_command_line::read(arguments.map(Into::into), &[]).map_err(|error| error.to_string())?;
    command_line.config().map_err(|error| error.to_string())
}

fn with_file(content: &str, arguments: &[&str]) -> Result<Config, String> {
    let file = std::env::temp_dir().join(format!(
        "gateway-config-{}-{}.toml",
        std::process::id(),
        fingerprint(content)
    ));
    std::fs::write(&file, content).unwrap();
    let mut all = vec!["--config", file.to_str().unwrap()];
    all.extend(arguments);
    let result = config(&all);
    std::fs::remove_file(&file).unwrap();
    result
}

fn fingerprint(content: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn without_an_account_it_is_the_development_account_on_loopback() {
    let config = config(&["--database-url", "postgresql://localhost/tables"]).unwrap();
    assert_eq!(config.listen, "127.0.0.1:10002");
    assert_eq!(config.accounts[0].account.name(), DEVELOPMENT_ACCOUNT);
    assert!(config.loopback_only);
}

#[test]
fn flags_beat_the_file() {
    let file = "listen = \"0.0.0.0:1\"\npool_size = 3\naccount = \"one\"\nkey = [\"a2V5\"]\ndatabase_url = \"postgresql://localhost/d\"\n";
    let config = with_file(file, &["--listen", "127.0.0.1:2"]).unwrap();
    assert_eq!((config.listen.as_str(), config.pool_size), ("127.0.0.1:2", 3));
    assert!(!config.loopback_only);
}

#[test]
fn the_public_key_is_for_loopback_under_any_name() {
    let file = format!(
        "[[accounts]]\nname = \"one\"\nkeys = [\"a2V5\", \" {DEVELOPMENT_KEY} \"]\ndatabase_url = \"postgresql://localhost/one\"\n"
    );
    assert!(with_file(&file, &[]).unwrap().loopback_only);
    let account = [
        "--account",
        "one",
        "--key",
        DEVELOPMENT_KEY,
        "--database-url",
        "postgresql://localhost/d",
    ];
    assert!(config(&account).unwrap().loopback_only);
    let exposed = [&account[..], &["--expose-development-account"]].concat();
    assert!(!config(&exposed).unwrap().loopback_only);
}

#[test]
fn several_accounts_have_a_database_each() {
    let file = "[[accounts]]\nname = \"one\"\nkeys = [\"a2V5\"]\ndatabase_url = \"postgresql://localhost/one\"\n\
                    [[accounts]]\nname = \"two\"\nkeys = [\"a2V5\", \"a2V6\"]\ndatabase_url = \"postgresql://localhost/two\"\n";
    let config = with_file(file, &[]).unwrap();
    let databases: Vec<_> = config.accounts.iter().map(|account| account.database.name()).collect();
    assert_eq!(databases, ["localhost:5432/one", "localhost:5432/two"]);
}

#[test]
fn an_account_may_have_several_databases() {
    let databases = |config: Config| -> Vec<Vec<String>> {
        let of = |account: &AccountConfig| {
            let databases = std::iter::once(&account.database).chain(&account.other_databases);
            databases.map(DatabaseUrl::name).collect()
        };
        config.accounts.iter().map(of).collect()
    };
    let names = |hosts: &[&str]| -> Vec<String> { hosts.iter().map(|host| format!("{host}:5432/d")).collect() };
    let url = |host: &str| format!("postgresql://{host}/d?sslmode=require");

    let flags = ["--database-url", &url("one"), "--database-url", &url("two")];
    assert_eq!(databases(config(&flags).unwrap()), [names(&["one", "two"])]);
    let lines = ["--database-url", &format!("{}\n{}", url("one"), url("two"))];
    assert_eq!(databases(config(&lines).unwrap()), [names(&["one", "two"])]);
    // One URL with several hosts is one database.
    assert_eq!(
        databases(config(&["--database-url", &url("one,two")]).unwrap()),
        [["one:5432,two:5432/d"]]
    );

    let account =
        |name: &str, urls: &str| format!("[[accounts]]\nname = \"{name}\"\nkeys = [\"a2V5\"]\ndatabase_url = {urls}\n");
    let list = format!("[\"{}\", \"{}\"]", url("one"), url("two"));
    let file = account("aaa", &list) + &account("bbb", &format!("\"{}\"", url("three")));
    assert_eq!(
        databases(with_file(&file, &[]).unwrap()),
        [names(&["one", "two"]), names(&["three"])]
    );
    let file = format!("database_url = {list}\n");
    assert_eq!(databases(with_file(&file, &[]).unwrap()), [names(&["one", "two"])]);
    // Flags beat the file; the lists are not joined.
    assert_eq!(
        databases(with_file(&file, &["--database-url", &url("four")]).unwrap()),
        [names(&["four"])]
    );

    for (urls, expected) in [
        ("[]", "is missing"),
        (&*format!("[\"{0}\", \"{0}\"]", url("one")), "names a database twice"),
        ("5", "a database URL, or a list of them"),
        (
            "[\"postgresql://one/d?sslmode=require\", \"x\"]",
            "is not a database URL",
        ),
        ("[\"postgresql://localhost/d\", \"postgresql://two/d\"]", "sslmode"),
    ] {
        let error = with_file(&account("aaa", urls), &[]).unwrap_err();
        assert!(
            error.contains(expected) && error.contains("database_url"),
            "{urls}: {error}"
        );
    }
}

#[test]
fn errors_name_the_setting() {
    for (arguments, expected) in [
        (
            &[][..],
            "there is no account yet. Write one into the configuration file",
        ),
        (
            &["--account", "one", "--key", "a2V5"],
            "database_url (--database-url, TABLE_SERVICE_DATABASE_URL, or database_url in the configuration file): is missing",
        ),
        (&["--database-url", "nonsense"], "database_url (--database-url"),
        (
            &["--database-url", "postgresql://localhost/d", "--account", "one"],
            "key (--key, TABLE_SERVICE_KEY",
        ),
        (
            &[
                "--database-url",
                "postgresql://localhost/d",
                "--account",
                "one",
                "--key",
                "%",
            ],
            "key (--key, TABLE_SERVICE_KEY",
        ),
        (
            &[
                "--database-url",
                "postgresql://localhost/d",
                "--account",
                "One!",
                "--key",
                KEY,
            ],
            "account (--account",
        ),
        (
            &["--database-url", "postgresql://localhost/d", "--pool-size", "0"],
            "pool_size (--pool-size",
        ),
        (
            &["--database-url", "postgresql://localhost/d", "--pool-size", "many"],
            "--pool-size",
        ),
        (
            &[
                "--database-url",
                "postgresql://localhost/d",
                "--header-timeout",
                "18446744073709551615",
            ],
            "header_timeout (--header-timeout",
        ),
        (
            &["--database-url", "postgresql://localhost/d", "--tls-key", "k"],
            "tls_certificate (--tls-certificate",
        ),
        (
            &["--database-url", "postgresql://localhost/d", "--max-staleness", "5"],
            "max_staleness (--max-staleness",
        ),
        (
            &[
                "--database-url",
                "postgresql://localhost/d",
                "--explorer-address-file",
                "a",
            ],
            "explorer_address_file (--explorer-address-file",
        ),
        (&["--config", "/does/not/exist.toml"], "/does/not/exist.toml"),
        (&["--config", "/dev/zero"], "more than 1048576 bytes"),
        (&["--config", "/"], "directory"),
    ] {
        let error = config(arguments).unwrap_err();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn errors_of_the_file_name_the_setting() {
    for (file, expected) in [
        ("lissten = \"x\"", "lissten"),
        ("pool_size = \"x\"", "pool_size"),
        ("pool_size = -1", "it is a number, not a whole number, 0 or more"),
        ("explorer = true", "not one of the words that --help names"),
        ("bearer = 5", "it is a number, not a section"),
        (
            "[[accounts]]\nname = \"one\"\nkeys = [\"%\"]\ndatabase_url = \"postgresql://localhost/d\"",
            "accounts[0].keys",
        ),
        (
            "[[accounts]]\nname = \"one\"\nkeys = [\"a2V5\"]\ndatabase_url = \"x\"",
            "accounts[0].database_url",
        ),
        (
            "[[accounts]]\nname = \"one two\"\nkeys = [\"a2V5\"]\ndatabase_url = \"x\"",
            "accounts[0].name",
        ),
    ] {
        let error = with_file(file, &[]).unwrap_err();
        assert!(error.contains(expected), "{file}: {error}");
    }
}

#[test]
fn proxies_are_trusted_by_address_and_network() {
    let url = "postgresql://role@localhost/db";
    let config = |proxies: &str| config(&["--database-url", url, "--trusted-proxies", proxies]);
    assert!(config("10.0.0.0/8, fd00::1").is_ok());
    let error = config("10.0.0.0/8,proxy").unwrap_err();
    assert!(
        error.contains("trusted_proxies (--trusted-proxies") && error.contains("\"proxy\""),
        "{error}"
    );
}

#[test]
fn hosts_of_the_admin_port_are_names_without_ports() {
    let url = "postgresql://role@localhost/db";
    let config = |hosts: &str| config(&["--database-url", url, "--admin-hosts", hosts]);
    assert_eq!(config("A.example, b").unwrap().admin_hosts, ["a.example", "b"]);
    for wrong in ["a.example:10003", "http://a.example", "a,", "*"] {
        let error = config(wrong).unwrap_err();
        assert!(error.contains("admin_hosts (--admin-hosts"), "{error}");
    }
}

#[test]
fn no_secret_is_in_an_error_or_the_debug_form() {
    let url = "postgresql://role:secret@localhost:port/db";
    assert!(!config(&["--database-url", url]).unwrap_err().contains("secret"));
    let config = config(&["--database-url", "postgresql://role:secret@localhost/db"]).unwrap();
    let debug = format!("{config:?}");
    assert!(!debug.contains("secret") && !debug.contains("Eby8"), "{debug}");
}

/// Every way in which a key or a URL can be mistyped, or stand in the wrong place.
#[test]
fn what_is_wrong_is_not_repeated() {
    const SECRET: &str = "s3cretKey";
    let wrong = [
        "\"postgresql://role:s3cretKey@localhost/db\"",
        "'postgresql://role:s3cretKey@localhost/db'",
        "DATABASE_URL=postgresql://role:s3cretKey@localhost/db",
        "postgresql//role:s3cretKey@localhost/db",
        "postgresql:/role:s3cretKey@localhost/db",
        "postgresql://role:a@s3cretKey@localhost/db",
        "postgresql://role:s3cretKey@localhost:port/db",
        "postgresql://localhost/db?s3cretKey=1",
        "postgresql://localhost;password=s3cretKey/db",
        "jdbc:postgresql://localhost/db?password=s3cretKey",
        "Host=localhost;Username=role;Password=s3cretKey",
        "host=localhost pass=s3cretKey",
        "s3cretKey",
    ];
    let says = |said: Result<Config, String>| {
        let said = said.unwrap_err();
        assert!(!said.contains(SECRET) && !said.contains("3cret"), "{said}");
        said
    };
    for text in wrong {
        for arguments in [
            &["--database-url", text][..],
            &[text],
            &["--pool-size", text],
            &["--log-format", text],
            &["--database-url", "postgresql://localhost/d", "--account", text],
            &[
                "--database-url",
                "postgresql://localhost/d",
                "--account",
                "one",
                "--key",
                &format!("%{text}"),
            ],
        ] {
            says(config(arguments));
        }
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        for file in [
            format!("database_url = {text}\n"),
            format!("database_url = \"{text}\n"),
            format!("pool_size = \"{quoted}\"\n"),
            format!("\"{quoted}\" = 1\n"),
            format!("log_format = \"{quoted}\"\n"),
            format!("database_url = [[\"{quoted}\"]]\n"),
            format!("[[accounts]]\nname = \"one\"\nkeys = \"{quoted}\"\ndatabase_url = \"postgresql://localhost/d\"\n"),
            format!("[[accounts]]\nname = \"{quoted}\"\nkeys = [\"%\"]\ndatabase_url = \"{quoted}\"\n"),
        ] {
            // A URL in quotes is right in TOML.
            let said = with_file(&file, &[]).err().unwrap_or_default();
            assert!(!said.contains("3cret"), "{said}");
        }
    }
    let said = says(with_file("pool_size = 1\n  s3cretKey\n", &[]));
    assert!(said.contains("line 2, column"), "{said}");
    let said = says(config(&["--database-url", wrong[0]]));
    assert!(said.contains("a text in quotes of 42 characters"), "{said}");
}

#[test]
fn database_urls_are_checked() {
    for (url, says) in [
        ("postgresql://role@db.example.com/db", "sslmode"),
        ("postgresql:///d", "names no host"),
        ("host=localhost port=1,2", "not as many"),
        (
            "postgresql://localhost/d?target_session_attrs=read-only",
            "secondary_url",
        ),
    ] {
        let error = config(&["--database-url", url]).unwrap_err();
        assert!(error.contains("database_url") && error.contains(says), "{url}: {error}");
    }
}

#[test]
fn an_issuer_belongs_to_one_account() {
    let account = |name: &str| {
        format!(
            "[[accounts]]\nname = \"{name}\"\nkeys = [\"a2V5\"]\ndatabase_url = \"postgresql://localhost/{name}\"\n"
        )
    };
    let issuer = |issuer: &str| format!("issuer = \"{issuer}\"\naudiences = [\"a\"]\njwks_file = \"/keys\"\n");
    let file = format!(
        "{}[accounts.bearer]\n{}{}",
        account("one"),
        issuer("https://one"),
        account("two")
    );
    let config = with_file(&file, &[]).unwrap();
    let issuers: Vec<_> = config
        .accounts
        .iter()
        .map(|account| account.bearer.as_ref().map(|bearer| bearer.issuer.as_str()))
        .collect();
    assert_eq!(issuers, [Some("https://one"), None]);
    let for_all = format!(
        "[bearer]\n{}{}{}",
        issuer("https://one"),
        account("one"),
        account("two")
    );
    assert!(with_file(&for_all, &[]).unwrap_err().contains("accounts.bearer"));
}

#[test]
fn a_dialect_belongs_to_one_account() {
    let account = |name: &str, dialect: &str| {
        format!(
            "[[accounts]]\nname = \"{name}\"\nkeys = [\"a2V5\"]\ndatabase_url = \"postgresql://localhost/{name}\"\n{dialect}\n"
        )
    };
    let extended = "filter_dialect = \"extended\"\n";
    let dialects = |file: &str, arguments: &[&str]| {
        let config = with_file(file, arguments).unwrap();
        let dialects = config.accounts.iter().map(|account| account.filter_dialect);
        dialects.collect::<Vec<_>>()
    };
    let (service, one) = (Dialect::Service, ["--database-url", "postgresql://localhost/d"]);
    assert_eq!(
        dialects(&(account("one", extended) + &account("two", "")), &[]),
        [Dialect::Extended, service]
    );
    assert_eq!(dialects("", &one), [service]);
    assert_eq!(dialects(extended, &one), [Dialect::Extended]);
    assert_eq!(
        dialects(extended, &[&one[..], &["--filter-dialect", "service"]].concat()),
        [service]
    );
    let for_all = with_file(&(extended.to_owned() + &account("one", "")), &[]).unwrap_err();
    assert!(
        for_all.contains("filter_dialect") && for_all.contains("[[accounts]]"),
        "{for_all}"
    );
    let wrong = with_file("filter_dialect = \"odata\"", &[]).unwrap_err();
    assert!(
        wrong.contains("filter_dialect") && wrong.contains("not one of service, extended"),
        "{wrong}"
    );
}

#[test]
fn the_help_has_groups_and_examples() {
    use clap::CommandFactory;

    let command = CommandLine::command();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    assert!(help.matches("table-service-gateway --").count() >= 3, "{help}");
    let groups: Vec<&str> = command
        .get_arguments()
        .filter_map(|arg| arg.get_help_heading())
        .collect();
    assert_eq!(
        groups.len() + 1,
        command.get_arguments().count(),
        "only --config stands alone"
    );
}
