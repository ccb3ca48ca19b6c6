//! Reads and writes of a table with an expiry beside one without, in turn, and how fast a sweep is.

use std::time::Instant;

use clap::Parser;
use table_service_benches::Error;
use table_service_benches::report::Spread;
use table_service_benches::session::{connect, timed};

#[derive(Parser)]
struct Arguments {
    /// The database, as a connection string. It must be empty but for the extension, and on this machine
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// How many entities a table has
    #[arg(long, default_value_t = 200_000)]
    entities: u64,
    /// How often each is measured
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// The tables: without an expiry, with a property that no entity has, and with a time to live.
const TABLES: [&str; 3] = ["Plain", "ByProperty", "ByTime"];

/// Work in one statement on the table TABLE with ENTITIES entities; ROUND makes keys that are new. And the smallest ratio that
/// it should have.
const WORKS: [(&str, &str, Option<f64>); 7] = [
    (
        "read one",
        "SELECT count(*) FROM generate_series(1, 20000) AS i, table_service.get_entity('TABLE', 'p' || i % 100, i::text)",
        Some(0.97),
    ),
    (
        "read a page of 1000",
        "SELECT count(*) FROM generate_series(1, 50) AS i, table_service.query_page('TABLE', 'PartitionKey ge ''p' || i || '''')",
        Some(0.97),
    ),
    (
        "read all that a filter selects",
        "SELECT count(*) FROM table_service.query_entities('TABLE', 'Age lt 10')",
        Some(0.97),
    ),
    (
        "count",
        "SELECT table_service.count_entities('TABLE', 'Age lt 10')",
        Some(0.97),
    ),
    (
        "insert",
        "DO $$ BEGIN FOR i IN 1..5000 LOOP PERFORM table_service.insert_entity('TABLE', 'new ROUND', i::text, '{\"Age\": 1, \"Name\": \"a name\"}'); COMMIT; END LOOP; END $$",
        None,
    ),
    (
        "merge",
        "DO $$ BEGIN FOR i IN 1..5000 LOOP PERFORM table_service.merge_entity('TABLE', 'p' || i % 100, i::text, '{\"Age\": 2}', '*'); COMMIT; END LOOP; END $$",
        None,
    ),
    (
        "upsert",
        "DO $$ BEGIN FOR i IN 1..5000 LOOP PERFORM table_service.insert_or_merge_entity('TABLE', 'p' || i % 100, i::text, '{\"Age\": 3}'); COMMIT; END LOOP; END $$",
        None,
    ),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let arguments = Arguments::parse();
    let client = connect(&arguments.database_url).await?;
    for table in TABLES {
        eprintln!("loading {} entities into {table}", arguments.entities);
        client
            .batch_execute(&format!(
                "SELECT table_service.create_table('{table}');
                INSERT INTO table_service_data.\"{table}\" SELECT 'p' || i % 100, i::text, now(),
                    jsonb_build_object('Age', i % 90, 'Name', 'a name ' || i, 'City', 'a city ' || i % 50)::table_service.properties
                FROM generate_series(1, {}) AS i",
                arguments.entities
            ))
            .await?;
    }
    client
        .batch_execute(
            "SELECT table_service.set_expiry('ByProperty', 'ExpiresAt'), table_service.set_expiry('ByTime', 'ExpiresAt', '30 days')",
        )
        .await?;
    client.batch_execute("VACUUM ANALYZE").await?;
    for (name, sql, target) in WORKS {
        let mut ratios = [Vec::new(), Vec::new()];
        for round in 0..arguments.rounds {
            let mut seconds = [0.0; 3];
            for (table, seconds) in TABLES.iter().zip(&mut seconds) {
                let sql = sql.replace("TABLE", table).replace("ROUND", &round.to_string());
                *seconds = timed(&client, &sql).await?;
            }
            for (ratios, other) in ratios.iter_mut().zip(&seconds[1..]) {
                ratios.push(seconds[0] / other);
            }
        }
        for (ratios, table) in ratios.into_iter().zip(&TABLES[1..]) {
            let Spread { min, median, max } = Spread::of(ratios.into_iter());
            let verdict = match target {
                Some(target) if median >= target => format!("   target {target}: met"),
                Some(target) => format!("   target {target}: missed"),
                None => String::new(),
            };
            println!("{name:<32} {table:<12} {min:.2}/{median:.2}/{max:.2}{verdict}");
        }
    }
    let mut rates = Vec::new();
    for _ in 0..arguments.rounds {
        client
            .batch_execute(&format!(
                "SELECT table_service.clear_table('ByProperty');
                INSERT INTO table_service_data.\"ByProperty\" SELECT 'p' || i % 100, i::text, now(),
                    '{{\"ExpiresAt@odata.type\": \"Edm.DateTime\", \"ExpiresAt\": \"2020-01-01T00:00:00Z\", \"Name\": \"a name\"}}'
                FROM generate_series(1, {}) AS i; CHECKPOINT",
                arguments.entities
            ))
            .await?;
        let began = Instant::now();
        let mut since = None::<std::time::SystemTime>;
        loop {
            let sql = "SELECT deleted, more, oldest FROM table_service.expire_entities('ByProperty', since => $1)";
            let row = client.query_one(sql, &[&since]).await?;
            since = Some(row.try_get(2)?);
            if !row.try_get::<_, bool>(1)? {
                break;
            }
        }
        rates.push(arguments.entities as f64 / began.elapsed().as_secs_f64());
    }
    let Spread { min, median, max } = Spread::of(rates.into_iter());
    let verdict = if median >= 20_000.0 { "met" } else { "missed" };
    println!("swept in a second: {min:.0}/{median:.0}/{max:.0}   target 20000: {verdict}");
    Ok(())
}
