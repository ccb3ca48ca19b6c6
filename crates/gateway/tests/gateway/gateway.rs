//! Gateways with databases, for tests.

use raw_http::{Answer, Client};
use system_tests::Database;

pub use system_tests::gateway::{Gateway, program, url};

/// A gateway with a database of its own.
pub struct Service {
    pub gateway: Gateway,
    pub client: Client,
    pub database: Database,
}

impl Service {
    pub fn start() -> Service {
        Service::with(&[])
    }

    pub fn with(arguments: &[&str]) -> Service {
        let database = Database::new();
        let url = url(database.cluster(), database.name(), "postgres");
        let mut all = vec!["--database-url", &url];
        all.extend(arguments);
        let gateway = Gateway::start(&all);
        Service {
            client: gateway.client(),
            gateway,
            database,
        }
    }

    /// With a table.
    pub fn with_table(table: &str) -> Service {
        let service = Service::start();
        service.create_table(table);
        service
    }

    pub fn create_table(&self, table: &str) {
        self.client
            .post("Tables", &format!("{{\"TableName\":\"{table}\"}}"))
            .expect(201);
    }

    #[track_caller]
    pub fn insert(&self, table: &str, body: &str) -> Answer {
        self.client.post(table, body).expect(201)
    }
}
