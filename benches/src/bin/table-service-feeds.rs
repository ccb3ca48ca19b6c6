//! The cost of a change feed for writers, the cost of a poll of it, and how far a copy that follows it is behind.

use std::process::Command;
use std::time::{Duration, Instant};

use clap::Parser;
use table_service_benches::Error;
use table_service_benches::process::Running;
use table_service_benches::report::Spread;
use table_service_benches::session::{Side, connect, ratios};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_postgres::Client;

#[derive(Parser)]
struct Arguments {
    /// The database, as a URL. It must be empty but for the extension, on this machine, with wal_level = logical
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// The program table-service-copy
    #[arg(long)]
    copy: Option<String>,
    /// How often each is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many transactions, and how many entities of one transaction, are read at once
    #[arg(long, default_value_t = 100_000)]
    transactions: u64,
}

/// Writes in one statement, each a transaction of its own, of the table TABLE.
const WRITES: [(&str, &str); 3] = [
    (
        "insert",
        "DO $$ BEGIN FOR i IN 1..5000 LOOP PERFORM table_service.insert_entity('TABLE', 'new ROUND', i::text, '{\"Age\": 1, \"Name\": \"a name\"}'); COMMIT; END LOOP; END $$",
    ),
    (
        "merge",
        "DO $$ BEGIN FOR i IN 1..5000 LOOP PERFORM table_service.merge_entity('TABLE', 'new ROUND', i::text, '{\"Age\": 2}', '*'); COMMIT; END LOOP; END $$",
    ),
    (
        "delete",
        "DO $$ BEGIN FOR i IN 1..5000 LOOP PERFORM table_service.delete_entity('TABLE', 'new ROUND', i::text); COMMIT; END LOOP; END $$",
    ),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    let (url, rounds) = (&arguments.database_url, arguments.rounds);
    let client = connect(url).await?;
    client
        .batch_execute("SELECT table_service.create_table('Plain'), table_service.create_table('Fed'); CREATE TABLE other (n integer)")
        .await?;
    // A statement of its own: the feed's slot needs a transaction that has not written.
    let feed = "SELECT table_service.create_change_feed('bench', '{Fed}')";
    client.batch_execute(feed).await?;

    println!("writes with a feed to writes without: min/median/max");
    for (name, sql) in WRITES {
        let sides = ["Plain", "Fed"].map(|table| Side::of(table, sql));
        let ratios = ratios(&client, rounds, &sides, Some(0.97)).await?;
        println!("  {name:<36} {}", ratios.concat());
    }
    settle(&client).await?;

    println!("a poll each second, which reads and confirms: milliseconds, min/median/max, and changes");
    for rate in [0, 1_000, 10_000] {
        polls(url, &client, rate, rounds, &format!("{rate} writes a second")).await?;
        settle(&client).await?;
    }
    let old = connect(url).await?;
    old.batch_execute("BEGIN; INSERT INTO other VALUES (1)").await?;
    polls(url, &client, 1_000, rounds, "1000 beside an old transaction").await?;
    old.batch_execute("COMMIT").await?;
    drain(&client).await?;

    println!("changes in a second, min/median/max");
    let transactions = arguments.transactions;
    let small = format!(
        "DO $$ BEGIN FOR i IN 1..{transactions} LOOP PERFORM table_service.insert_or_replace_entity('Fed', 'p', i::text, '{{\"Age\": 1, \"Name\": \"a name\"}}'); COMMIT; END LOOP; END $$"
    );
    let large = format!(
        "INSERT INTO table_service_data.\"Fed\" SELECT gen_random_uuid()::text, i::text, now(), '{{\"Age\": 1, \"Name\": \"a name\"}}' FROM generate_series(1, {transactions}) AS i"
    );
    for (name, sql) in [("small transactions", small), ("one transaction", large)] {
        let mut rates = Vec::new();
        for _ in 0..rounds {
            client.batch_execute(&sql).await?;
            let began = Instant::now();
            let changes = drain(&client).await?;
            rates.push(changes as f64 / began.elapsed().as_secs_f64());
        }
        println!("  {transactions:>8} in {name:<24} {}", Spread::of(rates).text(0, None));
    }
    client
        .batch_execute("SELECT table_service.drop_change_feed('bench')")
        .await?;
    if let Some(program) = &arguments.copy {
        follow(url, &client, program, rounds).await?;
    }
    Ok(())
}

/// Reads and confirms pages until there are no more changes. Returns how many there were.
async fn drain(client: &Client) -> Result<u64, Error> {
    let mut all = 0;
    loop {
        let changes = poll(client).await?;
        all += changes;
        if changes == 0 {
            return Ok(all);
        }
    }
}

/// Confirms all changes, and lets PostgreSQL note from where it has to read: it reads the log again since it last noted
/// which transactions run, which it does every 15 seconds and at a checkpoint.
async fn settle(client: &Client) -> Result<(), Error> {
    drain(client).await?;
    client.batch_execute("CHECKPOINT").await?;
    let marker = "SELECT table_service.insert_or_replace_entity('Fed', 'marker', 'settled', '{}')";
    client.batch_execute(marker).await?;
    drain(client).await.map(|_| ())
}

/// Reads a page and confirms it. Returns how many changes it had.
async fn poll(client: &Client) -> Result<u64, Error> {
    let sql = "SELECT count(*), max(\"position\"::pg_lsn)::text FROM table_service.query_changes('bench', 100000)";
    let row = client.query_one(sql, &[]).await?;
    if let Some(position) = row.try_get::<_, Option<String>>(1)? {
        let sql = "SELECT table_service.confirm_changes('bench', $1)";
        client.execute(sql, &[&position]).await?;
    }
    Ok(u64::try_from(row.try_get::<_, i64>(0)?)?)
}

async fn polls(url: &str, client: &Client, rate: u64, rounds: usize, name: &str) -> Result<(), Error> {
    let writer = write_at(url, rate).await?;
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let (mut times, mut changes) = (Vec::new(), 0);
    for _ in 0..rounds {
        ticks.tick().await;
        let began = Instant::now();
        changes += poll(client).await?;
        times.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    writer.abort();
    let times = Spread::of(times).text(1, None);
    println!("  {name:<36} {times}   {}", changes / rounds as u64);
    Ok(())
}

/// Writes entities of `Fed` at a rate in a second, each in a transaction of its own, until it is aborted. It writes those of 10
/// milliseconds at once.
async fn write_at(url: &str, rate: u64) -> Result<JoinHandle<()>, Error> {
    let client = connect(url).await?;
    let sql = format!(
        "DO $$ BEGIN FOR i IN 1..{} LOOP PERFORM table_service.insert_or_replace_entity('Fed', 'p', (i * random() * 1000)::int::text, '{{\"Age\": 1, \"Name\": \"a name\"}}'); COMMIT; END LOOP; END $$",
        rate / 100
    );
    Ok(tokio::spawn(async move {
        let mut ticks = interval(Duration::from_millis(10));
        while rate > 0 && client.batch_execute(&sql).await.is_ok() {
            ticks.tick().await;
        }
    }))
}

/// How long after its commit a change is in the target of a copy that follows, at 1,000 writes a second.
async fn follow(url: &str, client: &Client, program: &str, rounds: usize) -> Result<(), Error> {
    client.batch_execute("CREATE DATABASE followed").await?;
    let (server, _) = url.rsplit_once('/').ok_or("the database must be a URL")?;
    let target_url = format!("{server}/followed");
    let target = connect(&target_url).await?;
    target.batch_execute("CREATE EXTENSION table_service").await?;
    let mut copying = Command::new(program);
    copying.args(["--from", url, "--to", &target_url, "--quiet"]);
    let _following = Running::start(copying.args(["--on-conflict", "replace", "--follow", "0"]))?;
    let writer = write_at(url, 1_000).await?;
    let mut times = Vec::new();
    for round in 0..=rounds * 10 {
        let marker = round.to_string();
        let sql = "SELECT table_service.insert_entity('Fed', 'marker', $1, '{}')";
        client.execute(sql, &[&marker]).await?;
        let began = Instant::now();
        let is_there =
            "SELECT count(*) FROM table_service.query_entities('Fed', 'PartitionKey eq ''marker''') WHERE row_key = $1";
        loop {
            // The first one waits for the copy of the earlier entities.
            match target.query_one(is_there, &[&marker]).await {
                Ok(row) if row.try_get::<_, i64>(0)? > 0 => break,
                _ if began.elapsed() > Duration::from_secs(300) => return Err("the copy does not follow".into()),
                _ => sleep(Duration::from_millis(1)).await,
            }
        }
        if round > 0 {
            times.push(began.elapsed().as_secs_f64() * 1000.0);
        }
    }
    writer.abort();
    let times = Spread::of(times).text(0, None);
    println!("lag of --follow at 1000 writes a second: milliseconds, {times}");
    Ok(())
}
