//! An archive: its first base, how far it is behind under load, its size, and a restore.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Parser;
use futures_util::TryStreamExt;
use table_service_benches::Error;
use table_service_benches::data::Data;
use table_service_benches::process::Running;
use table_service_benches::report::Spread;
use table_service_benches::session::connect;
use tokio::time::{interval, sleep};
use tokio_postgres::Client;

#[derive(Parser)]
struct Arguments {
    /// The database, as a URL. It must be empty but for the extension, on this machine, with wal_level = logical
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// The program table-service-copy
    #[arg(long)]
    copy: PathBuf,
    #[arg(long, default_value_t = 1_000_000)]
    entities: u64,
    /// How long it follows a table with 1,000 writes a second
    #[arg(long, default_value_t = 30)]
    seconds: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    let (url, entities) = (&arguments.database_url, arguments.entities);
    let client = connect(url).await?;
    Data::new("Orders", entities, 100).create(&client).await?;
    let directory = std::env::temp_dir().join(format!("table_service_archive.{}", std::process::id()));
    let archive = Archive {
        program: arguments.copy,
        path: directory.join("archive"),
    };
    std::fs::create_dir(&directory)?;
    let measured = measure(url, &client, &archive, entities, arguments.seconds).await;
    std::fs::remove_dir_all(&directory)?;
    measured
}

async fn measure(url: &str, client: &Client, archive: &Archive, entities: u64, seconds: u64) -> Result<(), Error> {
    // The shortest possible time: the server sends all rows.
    let began = Instant::now();
    let rows = client.copy_out("COPY table_service_data.\"Orders\" TO STDOUT").await?;
    rows.try_for_each(|_| async { Ok(()) }).await?;
    let copied = began.elapsed().as_secs_f64();
    let base = archive.run(&archive.keep(url)).await?;
    let bytes = archive.bytes()?;
    base.print(&format!("base of {entities}"), entities);
    println!(
        "  to COPY TO STDOUT {:.2}; {} bytes an entity",
        copied / base.seconds,
        bytes / entities
    );

    follow(url, client, archive, seconds).await?;

    let before = (archive.bytes()?, log_end(client).await?);
    client
        .batch_execute(
            "UPDATE table_service_data.\"Orders\" SET \"timestamp\" = clock_timestamp(), properties = (properties::jsonb || jsonb_build_object('Age', row_key::bigint % 90))::table_service.properties",
        )
        .await?;
    let logged = log_end(client).await? - before.1;
    let changes = archive.run(&archive.keep(url)).await?;
    changes.print("changes of one transaction", entities);
    println!(
        "  {} bytes a change; PostgreSQL's log {}",
        archive.bytes()?.saturating_sub(before.0) / entities,
        logged / i64::try_from(entities)?
    );

    client.batch_execute("CREATE DATABASE restored").await?;
    let (server, _) = url.rsplit_once('/').ok_or("the database must be a URL")?;
    let restored = format!("{server}/restored");
    let target = connect(&restored).await?;
    target.batch_execute("CREATE EXTENSION table_service").await?;
    let path = archive.path.display().to_string();
    let restore = [
        "restore", "--quiet", "--from", &path, "--at", "latest", "--to", &restored,
    ];
    archive.run(&restore).await?.print("restore into a database", entities);
    let file = archive.path.with_file_name("orders.jsonl").display().to_string();
    let restore = ["restore", "--quiet", "--from", &path, "--at", "latest", "--to", &file];
    archive.run(&restore).await?.print("restore into a file", entities);
    Ok(())
}

/// The end of the server's log, in bytes.
async fn log_end(client: &Client) -> Result<i64, Error> {
    let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    Ok(client.query_one(sql, &[]).await?.try_get(0)?)
}

/// How long after its commit a change is in the archive, and the cost of that, at 1,000 writes a second.
async fn follow(url: &str, client: &Client, archive: &Archive, seconds: u64) -> Result<(), Error> {
    let before = archive.last()?;
    let following = archive.start(&[&archive.keep(url)[..], &["--follow", "0.5"]].concat())?;
    while archive.last()? == before {
        sleep(Duration::from_millis(20)).await;
    }
    let writer = connect(url).await?;
    let writing = tokio::spawn(async move {
        let mut ticks = interval(Duration::from_millis(10));
        let sql = "DO $$ BEGIN FOR i IN 1..10 LOOP PERFORM table_service.insert_or_replace_entity('Orders', 'new', (random() * 100000)::int::text, '{\"Age\": 1, \"Name\": \"a name\"}'); COMMIT; END LOOP; END $$";
        while writer.batch_execute(sql).await.is_ok() {
            ticks.tick().await;
        }
    });
    let (began, spent) = (Instant::now(), following.processor_seconds()?);
    let mut times = Vec::new();
    while began.elapsed() < Duration::from_secs(seconds) {
        let now = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";
        let moment: String = client.query_one(now, &[]).await?.try_get(0)?;
        let marked = Instant::now();
        while archive.last()? < moment {
            sleep(Duration::from_millis(20)).await;
        }
        times.push(marked.elapsed().as_secs_f64());
    }
    writing.abort();
    let Spread { min, median, max } = Spread::of(times);
    println!(
        "behind at 1000 writes a second: {min:.2}/{median:.2}/{max:.2} s   target 2: {}; {:.1} % of a processor   target 15; {} MiB",
        if max < 2.0 { "met" } else { "missed" },
        (following.processor_seconds()? - spent) / began.elapsed().as_secs_f64() * 100.0,
        following.peak_memory()?
    );
    Ok(())
}

/// An archive and the program that keeps it.
struct Archive {
    program: PathBuf,
    path: PathBuf,
}

impl Archive {
    fn keep<'a>(&'a self, url: &'a str) -> [&'a str; 6] {
        [
            "archive",
            "--quiet",
            "--from",
            url,
            "--to",
            self.path.to_str().unwrap_or_default(),
        ]
    }

    fn start(&self, arguments: &[&str]) -> Result<Running, Error> {
        Running::start(Command::new(&self.program).args(arguments))
    }

    /// Runs the program to its end.
    async fn run(&self, arguments: &[&str]) -> Result<Cost, Error> {
        let began = Instant::now();
        let mut running = self.start(arguments)?;
        let (mut memory, mut processor) = (0, 0.0);
        let status = loop {
            if let (Ok(now), Ok(spent)) = (running.peak_memory(), running.processor_seconds()) {
                (memory, processor) = (memory.max(now), spent);
            }
            if let Some(status) = running.0.try_wait()? {
                break status;
            }
            sleep(Duration::from_millis(5)).await;
        };
        if !status.success() {
            return Err(format!("{}: {status}", arguments.join(" ")).into());
        }
        let seconds = began.elapsed().as_secs_f64();
        Ok(Cost {
            seconds,
            processor,
            memory,
        })
    }

    /// The bytes of all its files.
    fn bytes(&self) -> Result<u64, Error> {
        std::fs::read_dir(&self.path)?.try_fold(0, |bytes, entry| Ok(bytes + entry?.metadata()?.len()))
    }

    /// The last moment that can be restored.
    fn last(&self) -> Result<String, Error> {
        let list = ["archive", "--list", self.path.to_str().unwrap_or_default(), "--json"];
        let listed = Command::new(&self.program).args(list).output()?;
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout)?;
        let last = listed.get("last").and_then(serde_json::Value::as_str);
        Ok(last.ok_or("the archive has no moment")?.to_owned())
    }
}

/// The cost of a run of the program.
struct Cost {
    seconds: f64,
    processor: f64,
    /// In MiB.
    memory: u64,
}

impl Cost {
    fn print(&self, what: &str, entities: u64) {
        println!(
            "{what}: {:.1} s, {:.0} a second; the program {:.1} s of a processor, {} MiB",
            self.seconds,
            entities as f64 / self.seconds,
            self.processor,
            self.memory
        );
    }
}
