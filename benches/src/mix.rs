//! A mix of operations on one partition: what the stress test drives.

use std::str::FromStr;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::{Client, Statement};

use crate::Error;
use crate::data::new_key;
use crate::load::Worker;
use crate::session::{Text, connect};

/// How many per cent of the operations are of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    pub get: u32,
    pub insert: u32,
    pub merge: u32,
    pub query: u32,
}

impl FromStr for Mix {
    type Err = String;

    /// Reads `get=70,insert=20,merge=10`; what is not named has none.
    fn from_str(text: &str) -> Result<Mix, String> {
        let mut mix = Mix {
            get: 0,
            insert: 0,
            merge: 0,
            query: 0,
        };
        for part in text.split(',') {
            let (name, share) = part
                .split_once('=')
                .ok_or_else(|| format!("'{part}' is not NAME=PERCENT"))?;
            let share: u32 = share
                .trim()
                .parse()
                .map_err(|_| format!("'{share}' is not a number of per cent"))?;
            match name.trim() {
                "get" => mix.get = share,
                "insert" => mix.insert = share,
                "merge" => mix.merge = share,
                "query" => mix.query = share,
                other => return Err(format!("'{other}' is none of get, insert, merge, query")),
            }
        }
        match mix
            .get
            .checked_add(mix.insert)
            .and_then(|n| n.checked_add(mix.merge))
            .and_then(|n| n.checked_add(mix.query))
        {
            Some(100) => Ok(mix),
            _ => Err("the parts of the mix do not add up to 100 per cent".to_owned()),
        }
    }
}

/// The partition that is driven.
#[derive(Debug, Clone)]
pub struct Partition {
    pub table: String,
    pub partition_key: String,
    /// How many entities it had before, with the RowKeys `0000000000` and so on.
    pub entities: u64,
    /// The size of the properties of an entity, in bytes.
    pub size: usize,
}

impl Partition {
    /// The RowKey of one of the entities that were there before.
    pub fn row_key(number: u64) -> String {
        format!("{number:010}")
    }

    fn any(&self, random: &mut SmallRng) -> String {
        Partition::row_key(random.random_range(0..self.entities.max(1)))
    }

    /// The properties of an entity of the wanted size, as JSON.
    pub fn properties(&self, number: u32) -> String {
        format!(
            r#"{{"Number": {number}, "Text": "{}"}}"#,
            "x".repeat(self.size.saturating_sub(16))
        )
    }
}

/// A client that works on the partition.
pub struct Driver {
    partition: Partition,
    mix: Mix,
    client: Client,
    get: Statement,
    insert: Statement,
    merge: Statement,
    query: Statement,
    random: SmallRng,
}

impl Driver {
    pub async fn new(connection: &str, partition: Partition, mix: Mix) -> Result<Driver, Error> {
        let client = connect(connection).await?;
        Ok(Driver {
            get: client.prepare("SELECT partition_key, row_key, \"timestamp\", properties::text FROM table_service.get_entity($1, $2, $3)").await?,
            insert: client.prepare("SELECT table_service.insert_entity($1, $2, $3, $4)").await?,
            merge: client.prepare("SELECT table_service.merge_entity($1, $2, $3, $4, '*')").await?,
            query: client
                .prepare("SELECT partition_key, row_key, \"timestamp\", properties::text FROM table_service.query_page($1, $2, top => 100)")
                .await?,
            partition,
            mix,
            client,
            random: SmallRng::from_os_rng(),
        })
    }
}

impl Worker for Driver {
    async fn step(&mut self) -> Result<u64, Error> {
        let Partition {
            table, partition_key, ..
        } = &self.partition;
        let dice = self.random.random_range(0..100);
        if dice < self.mix.get {
            let row_key = self.partition.any(&mut self.random);
            let rows = self.client.query(&self.get, &[table, partition_key, &row_key]).await?;
            return Ok(rows.len() as u64);
        }
        if dice < self.mix.get + self.mix.insert {
            let row_key = format!("n{:032x}", self.random.random::<u128>());
            let properties = Text(self.partition.properties(self.random.random_range(0..1000)));
            self.client
                .query_one(&self.insert, &[table, partition_key, &row_key, &properties])
                .await?;
            return Ok(1);
        }
        if dice < self.mix.get + self.mix.insert + self.mix.merge {
            let row_key = self.partition.any(&mut self.random);
            let properties = Text(format!(r#"{{"Number": {}}}"#, self.random.random_range(0..1000)));
            self.client
                .query_one(&self.merge, &[table, partition_key, &row_key, &properties])
                .await?;
            return Ok(1);
        }
        // Quotes are doubled in a filter's string.
        let filter = format!(
            "PartitionKey eq '{}' and RowKey ge '{}'",
            partition_key.replace('\'', "''"),
            self.partition.any(&mut self.random)
        );
        let rows = self.client.query(&self.query, &[table, &filter]).await?;
        Ok(rows.len() as u64)
    }
}

/// A client that inserts new entities, one by one or in batches.
pub struct Inserter {
    partition: Partition,
    batch: usize,
    client: Client,
    statement: Statement,
    random: SmallRng,
}

impl Inserter {
    pub async fn new(connection: &str, partition: Partition, batch: usize) -> Result<Inserter, Error> {
        let client = connect(connection).await?;
        let sql = if batch == 1 {
            "SELECT table_service.insert_entity($1, $2, $3, $4)"
        } else {
            "SELECT count(*) FROM table_service.execute_batch_json($1, $2, $3)"
        };
        Ok(Inserter {
            statement: client.prepare(sql).await?,
            partition,
            batch,
            client,
            random: SmallRng::from_os_rng(),
        })
    }
}

impl Worker for Inserter {
    async fn step(&mut self) -> Result<u64, Error> {
        let Partition {
            table, partition_key, ..
        } = &self.partition;
        let properties = self.partition.properties(self.random.random_range(0..1000));
        if self.batch == 1 {
            let row_key = new_key(&mut self.random);
            self.client
                .query_one(&self.statement, &[table, partition_key, &row_key, &Text(properties)])
                .await?;
        } else {
            let members = properties.trim_start_matches('{');
            let operations: Vec<String> = (0..self.batch)
                .map(|_| format!(r#"{{"insert":{{"RowKey":"{}",{members}}}"#, new_key(&mut self.random)))
                .collect();
            let operations = format!("[{}]", operations.join(","));
            self.client
                .query_one(&self.statement, &[table, partition_key, &operations])
                .await?;
        }
        Ok(self.batch as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_names_its_parts() {
        let mix = "get=70, insert=20,merge=10".parse();
        assert_eq!(
            mix,
            Ok(Mix {
                get: 70,
                insert: 20,
                merge: 10,
                query: 0
            })
        );
    }

    #[test]
    fn a_mix_is_a_hundred_per_cent() {
        for wrong in [
            "get=70",
            "get=70,insert=40",
            "get",
            "put=100",
            "get=x",
            "get=4294967295,insert=101",
        ] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
    }
}
