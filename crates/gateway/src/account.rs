//! The accounts that are served, each from its own database.

use std::collections::HashMap;
use std::sync::Arc;

use table_service_model::access::Account;

use crate::config::Config;
use crate::cors::CorsCache;
use crate::database::{Database, PoolSettings};

/// An account and where its tables are.
pub struct Tenant {
    pub account: Account,
    pub database: Database,
    pub cors: CorsCache,
}

/// All accounts, by name.
#[derive(Clone)]
pub struct Tenants(Arc<HashMap<String, Arc<Tenant>>>);

impl Tenants {
    /// Nothing connects yet.
    ///
    /// # Errors
    /// A database URL that asks for what there is not.
    pub fn new(config: &Config, tls: Option<Arc<rustls::ClientConfig>>) -> Result<Tenants, String> {
        let settings = PoolSettings {
            size: config.pool_size,
            timeout: config.pool_timeout,
            statement_timeout: config.statement_timeout,
        };
        let tenant = |account: &crate::config::AccountConfig| {
            let name = account.account.name();
            let database = Database::new(account.database.clone(), settings, tls.clone())
                .map_err(|problem| format!("the database of the account {name}: {problem}"))?;
            let tenant = Tenant {
                account: account.account.clone(),
                database,
                cors: CorsCache::default(),
            };
            Ok((name.to_owned(), Arc::new(tenant)))
        };
        let tenants = config.accounts.iter().map(tenant).collect::<Result<_, String>>()?;
        Ok(Tenants(Arc::new(tenants)))
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Tenant>> {
        self.0.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Tenant>> {
        self.0.values()
    }
}
