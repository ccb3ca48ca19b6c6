//! The entities that are measured: the same in a table of the service and in a hand-written one.

use rand::Rng;
use rand::rngs::SmallRng;
use tokio_postgres::Client;

use crate::Error;

/// The hand-written side: the schema that a PostgreSQL engineer would create for the same data.
pub const HAND_WRITTEN: &str = include_str!("../hand_written.sql");

/// The number of partitions of the loaded data.
pub const PARTITIONS: u64 = 100;

/// A table, how many entities are loaded into it, and where they are found.
#[derive(Debug, Clone, Copy)]
pub struct Data {
    /// Its name as a table of the service.
    pub table: &'static str,
    pub entities: u64,
    pub partitions: u64,
}

impl Data {
    pub fn new(table: &'static str, entities: u64, partitions: u64) -> Data {
        Data {
            table,
            entities,
            partitions: partitions.min(entities).max(1),
        }
    }

    /// Creates the table as one of the service and loads it.
    pub async fn create(&self, client: &Client) -> Result<(), Error> {
        client
            .execute("SELECT table_service.create_table($1)", &[&self.table])
            .await?;
        let table = format!("table_service_data.\"{}\"", self.table);
        self.load(client, &table, "table_service.properties").await
    }

    /// The keys of the entity with this number.
    pub fn keys(&self, number: u64) -> (String, String) {
        let partition = number / self.entities.div_ceil(self.partitions);
        (format!("p{partition:06}"), format!("{number:010}"))
    }

    /// The number of any loaded entity.
    pub fn any(&self, random: &mut SmallRng) -> u64 {
        random.random_range(0..self.entities)
    }

    /// The number of an entity that has at least so many after it in its partition, if partitions are that large.
    pub fn any_with_rest(&self, random: &mut SmallRng, rest: u64) -> u64 {
        let size = self.entities.div_ceil(self.partitions);
        let partition = random.random_range(0..self.entities / size);
        partition * size + random.random_range(0..=size.saturating_sub(rest))
    }

    /// Fills a table that has the four columns of an entity, in random key order.
    pub async fn load(&self, client: &Client, table: &str, properties: &str) -> Result<(), Error> {
        let sql = format!(
            "SELECT setseed(0.5);
             INSERT INTO {table} SELECT 'p' || lpad((n / {per_partition})::text, 6, '0'), lpad(n::text, 10, '0'), clock_timestamp(), jsonb_build_object(
                 'Name', md5(n::text), 'Age', n * 7919::bigint % 100, 'City', (ARRAY['Seattle', 'Redmond', 'Oslo', 'Graz'])[1 + n % 4],
                 'Score', n % 1000 / 8.0, 'Active', n % 3 = 0)::{properties}
             FROM generate_series(0, {last}) AS n ORDER BY random();
             VACUUM ANALYZE {table};",
            per_partition = self.entities.div_ceil(self.partitions),
            last = self.entities.saturating_sub(1),
        );
        // One by one: VACUUM runs in no transaction.
        for statement in sql
            .split_inclusive(';')
            .filter(|statement| !statement.trim().is_empty())
        {
            client.batch_execute(statement).await?;
        }
        Ok(())
    }
}

/// Properties like those that are loaded, as JSON.
pub fn properties(random: &mut SmallRng) -> String {
    format!(
        r#"{{"Name": "{:032x}", "Age": {}, "City": "Seattle", "Score": {}, "Active": true}}"#,
        random.random::<u128>(),
        random.random_range(0..100),
        f64::from(random.random_range(0..1000)) / 8.0,
    )
}

/// A new, unique key.
pub fn new_key(random: &mut SmallRng) -> String {
    format!("{:016x}", random.random::<u64>())
}
