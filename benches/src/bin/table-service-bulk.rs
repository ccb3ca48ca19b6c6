//! Work by filter beside batches of 100 and beside hand-written SQL, in turn, on tables that are filled again for each.

use std::time::Instant;

use clap::Parser;
use table_service_benches::Error;
use table_service_benches::data::{Data, HAND_WRITTEN, PARTITIONS};
use table_service_benches::report::Spread;
use table_service_benches::session::connect;
use tokio_postgres::Client;

#[derive(Parser)]
struct Arguments {
    /// The database, as a connection string. It must be empty but for the extension, and on this machine
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// How many entities a table has. A third of them is deleted
    #[arg(long, default_value_t = 3_000_000)]
    entities: u64,
    /// How often each is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

const OURS: &str = "table_service_data.\"Bulk\"";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    let client = connect(&arguments.database_url).await?;
    let data = Data::new("Bulk", arguments.entities, PARTITIONS);
    eprintln!("loading {} entities, twice", data.entities);
    client.batch_execute(HAND_WRITTEN).await?;
    data.create(&client).await?;
    data.load(&client, "hand", "jsonb").await?;
    client
        .batch_execute(&format!(
            "CREATE TABLE kept AS TABLE {OURS}; CREATE TABLE hand_kept AS TABLE hand"
        ))
        .await?;
    let (mut deletes, mut counts, mut updates) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..arguments.rounds {
        let ours = timed(&client, OURS, "kept", async || {
            let sql = "CALL table_service.delete_entities_in_steps('Bulk', 'Active')";
            Ok(client.query_one(sql, &[]).await?.try_get::<_, i64>(0)?.unsigned_abs())
        });
        let ours = ours.await?;
        let batches = timed(&client, OURS, "kept", async || in_batches(&client).await).await?;
        let hand = timed(&client, "hand", "hand_kept", async || by_hand(&client).await).await?;
        println!(
            "{round}: delete {} of {}: in steps of 1000 {:.1} s, batches of 100 {:.1} s, hand-written steps of 1000 {:.1} s",
            ours.1, data.entities, ours.0, batches.0, hand.0
        );
        deletes.push((batches.0 / ours.0, hand.0 / ours.0));
        let (ours, hand) = (
            "SELECT table_service.count_entities('Bulk', 'Age lt 50 and Score ge 10.0')",
            "SELECT count(*) FROM hand WHERE (props ->> 'Age')::int < 50 AND (props ->> 'Score')::float8 >= 10",
        );
        counts.push(ratio(&client, ours, hand).await?);
        let (ours, hand) = (
            "SELECT table_service.update_entities('Bulk', 'Age eq 7', '{\"State\": \"seen\"}')",
            "UPDATE hand SET props = props || '{\"State\": \"seen\"}', ts = greatest(clock_timestamp(), ts + interval '1 us')
             WHERE (props ->> 'Age')::int = 7",
        );
        updates.push(ratio(&client, ours, hand).await?);
    }
    print("delete / batches of 100", deletes.iter().map(|ratios| ratios.0), 3.0);
    print(
        "delete / hand-written DELETE in steps",
        deletes.iter().map(|ratios| ratios.1),
        0.5,
    );
    print("count / hand-written count(*)", counts.iter().copied(), 1.0);
    print("update of 1 % / hand-written UPDATE", updates.iter().copied(), 0.5);
    Ok(())
}

fn print(what: &str, ratios: impl Iterator<Item = f64>, target: f64) {
    let Spread { min, median, max } = Spread::of(ratios);
    let verdict = if median >= target { "met" } else { "missed" };
    println!("{what:<44} {min:.2}/{median:.2}/{max:.2}   target {target}: {verdict}");
}

/// Fills a table again, and returns how many seconds `work` takes and how many entities it counts.
async fn timed(
    client: &Client,
    table: &str,
    kept: &str,
    work: impl AsyncFnOnce() -> Result<u64, Error>,
) -> Result<(f64, u64), Error> {
    for sql in [
        format!("TRUNCATE {table}"),
        format!("INSERT INTO {table} TABLE {kept}"),
        format!("VACUUM ANALYZE {table}"),
        "CHECKPOINT".to_owned(),
    ] {
        client.batch_execute(&sql).await?;
    }
    let began = Instant::now();
    let count = work().await?;
    Ok((began.elapsed().as_secs_f64(), count))
}

/// How many times as long the second statement takes as the first. Both run twice, and the second time counts.
async fn ratio(client: &Client, ours: &str, hand: &str) -> Result<f64, Error> {
    let mut seconds = [0.0; 2];
    for _ in 0..2 {
        for (sql, seconds) in [ours, hand].into_iter().zip(&mut seconds) {
            let began = Instant::now();
            client.query(sql, &[]).await?;
            *seconds = began.elapsed().as_secs_f64();
        }
    }
    let [ours, hand] = seconds;
    Ok(hand / ours)
}

/// What users of 0.2 had: pages of keys, deleted in batches.
async fn in_batches(client: &Client) -> Result<u64, Error> {
    let page = client
        .prepare(
            "SELECT partition_key, row_key, continuation_token
             FROM table_service.query_page('Bulk', 'Active', 'PartitionKey', 100, $1)",
        )
        .await?;
    let batch = client
        .prepare(
            "SELECT count(*) FROM table_service.execute_batch('Bulk', $1, VARIADIC (
                SELECT array_agg(table_service.batch_delete(key)) FROM unnest($2::text[]) AS key))",
        )
        .await?;
    let (mut token, mut count) = (None::<String>, 0);
    loop {
        let rows = client.query(&page, &[&token]).await?;
        let mut partitions: Vec<(String, Vec<String>)> = Vec::new();
        token = None;
        for row in &rows {
            let (partition_key, row_key): (Option<String>, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
            token = row.try_get(2)?;
            let (Some(partition_key), Some(row_key)) = (partition_key, row_key) else {
                continue;
            };
            match partitions.last_mut() {
                Some((last, row_keys)) if *last == partition_key => row_keys.push(row_key),
                _ => partitions.push((partition_key, vec![row_key])),
            }
        }
        for (partition_key, row_keys) in &partitions {
            let row = client.query_one(&batch, &[partition_key, row_keys]).await?;
            count += row.try_get::<_, i64>(0)?.unsigned_abs();
        }
        if token.is_none() {
            return Ok(count);
        }
    }
}

/// Steps by place in the table. Beside other writers they would miss entities that move meanwhile.
async fn by_hand(client: &Client) -> Result<u64, Error> {
    let step = client
        .prepare(
            "WITH gone AS (
                DELETE FROM hand WHERE ctid = ANY (ARRAY(
                    SELECT ctid FROM hand WHERE (partition_key, row_key) > ($1, $2) AND (props ->> 'Active')::boolean
                    ORDER BY partition_key, row_key LIMIT 1000))
                RETURNING partition_key, row_key)
             SELECT count(*), max((partition_key, row_key)::text) FROM gone",
        )
        .await?;
    let (mut keys, mut count) = ((String::new(), String::new()), 0);
    loop {
        let row = client.query_one(&step, &[&keys.0, &keys.1]).await?;
        let deleted: i64 = row.try_get(0)?;
        if deleted == 0 {
            return Ok(count);
        }
        count += deleted.unsigned_abs();
        let text: String = row.try_get(1)?;
        let (partition_key, row_key) = text.trim_matches(['(', ')']).split_once(',').ok_or("no keys")?;
        keys = (partition_key.to_owned(), row_key.to_owned());
    }
}
