//! Work in one statement on tables of several kinds, in turn: an expiry beside none, and work by filter beside hand-written SQL.

use clap::{Parser, ValueEnum};
use table_service_benches::Error;
use table_service_benches::data::{Data, HAND_WRITTEN, PARTITIONS};
use table_service_benches::session::{Side, connect, ratios};
use tokio_postgres::Client;

#[derive(Parser)]
struct Arguments {
    /// The database, as a connection string. It must be empty but for the extension, and on this machine
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    #[arg(value_enum)]
    suite: Suite,
    /// How many entities a table has [default: 3,000,000, of which bulk deletes a third, or 200,000]
    #[arg(long)]
    entities: Option<u64>,
    /// How often each is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Suite {
    /// Work by filter beside hand-written SQL
    Bulk,
    /// Tables with an expiry beside one without
    Expiry,
}

/// The hand-written statement, ours, and how many times as fast ours should be at least.
const BULK: [(&str, &str, &str, f64); 3] = [
    (
        "delete in steps of 1000",
        // By place in the table, which beside other writers would miss entities that move meanwhile. Both keys rise together here.
        "DO $$ DECLARE p text := ''; r text := ''; deleted bigint; BEGIN LOOP
             WITH gone AS (DELETE FROM hand WHERE ctid = ANY (ARRAY(
                 SELECT ctid FROM hand WHERE (partition_key, row_key) > (p, r) AND (props ->> 'Active')::boolean
                 ORDER BY partition_key, row_key LIMIT 1000)) RETURNING partition_key, row_key)
             SELECT count(*), max(partition_key), max(row_key) INTO deleted, p, r FROM gone;
             COMMIT;
             EXIT WHEN deleted = 0;
         END LOOP; END $$",
        "CALL table_service.delete_entities_in_steps('Bulk', 'Active')",
        0.5,
    ),
    (
        "count",
        "SELECT count(*) FROM hand WHERE (props ->> 'Age')::int < 50 AND (props ->> 'Score')::float8 >= 10",
        "SELECT table_service.count_entities('Bulk', 'Age lt 50 and Score ge 10.0')",
        1.0,
    ),
    (
        "update of 1 %",
        "UPDATE hand SET props = props || '{\"State\": \"seen\"}', ts = greatest(clock_timestamp(), ts + interval '1 us')
         WHERE (props ->> 'Age')::int = 7",
        "SELECT table_service.update_entities('Bulk', 'Age eq 7', '{\"State\": \"seen\"}')",
        0.5,
    ),
];

/// The tables: without an expiry, with a property that no entity has, and with a time to live.
const TABLES: [&str; 3] = ["Plain", "ByProperty", "ByTime"];
/// Work on the table TABLE; ROUND makes keys that are new. Reads have a target.
const EXPIRY: [(&str, &str, Option<f64>); 7] = [
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
    match arguments.suite {
        Suite::Bulk => bulk(&client, arguments.entities.unwrap_or(3_000_000), arguments.rounds).await,
        Suite::Expiry => expiry(&client, arguments.entities.unwrap_or(200_000), arguments.rounds).await,
    }
}

/// The tables are filled again before each statement.
async fn bulk(client: &Client, entities: u64, rounds: usize) -> Result<(), Error> {
    let ours = "table_service_data.\"Bulk\"";
    let data = Data::new("Bulk", entities, PARTITIONS);
    client.batch_execute(HAND_WRITTEN).await?;
    data.create(client).await?;
    data.load(client, "hand", "jsonb").await?;
    let keep = format!("CREATE TABLE kept AS TABLE {ours}; CREATE TABLE hand_kept AS TABLE hand");
    client.batch_execute(&keep).await?;
    for (name, hand, sql, target) in BULK {
        let side = |table: &str, kept: &str, sql: &str| Side {
            before: vec![
                format!("TRUNCATE {table}"),
                format!("INSERT INTO {table} TABLE {kept}"),
                format!("VACUUM ANALYZE {table}"),
                "CHECKPOINT".to_owned(),
            ],
            sql: sql.to_owned(),
        };
        let sides = [side("hand", "hand_kept", hand), side(ours, "kept", sql)];
        println!(
            "{name:<32} {}",
            ratios(client, rounds, &sides, Some(target)).await?.concat()
        );
    }
    Ok(())
}

async fn expiry(client: &Client, entities: u64, rounds: usize) -> Result<(), Error> {
    for table in TABLES {
        let create = format!(
            "SELECT table_service.create_table('{table}');
             INSERT INTO table_service_data.\"{table}\" SELECT 'p' || i % 100, i::text, now(),
                 jsonb_build_object('Age', i % 90, 'Name', 'a name ' || i, 'City', 'a city ' || i % 50)::table_service.properties
             FROM generate_series(1, {entities}) AS i"
        );
        client.batch_execute(&create).await?;
    }
    let set = "SELECT table_service.set_expiry('ByProperty', 'ExpiresAt'), table_service.set_expiry('ByTime', 'ExpiresAt', '30 days')";
    client.batch_execute(set).await?;
    client.batch_execute("VACUUM ANALYZE").await?;
    for (name, sql, target) in EXPIRY {
        let sides = TABLES.map(|table| Side::of(table, sql));
        let ratios = ratios(client, rounds, &sides, target).await?;
        for (ratio, table) in ratios.into_iter().zip(&TABLES[1..]) {
            println!("{name:<32} {table:<12} {ratio}");
        }
    }
    Ok(())
}
