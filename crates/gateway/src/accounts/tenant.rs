//! The accounts of the gateway. Each has its own database.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use table_service_connect::{Certificates, DatabaseUrl};
use table_service_model::Dialect;
use table_service_model::access::Account;

use super::bearer::Bearer;
use super::cors::CorsRules;
use crate::config::{AccountConfig, Config};
use crate::database::{Database, Membership, Node, PoolSettings, Secondary};

/// An account with its database.
pub struct Tenant {
    /// Its number among the accounts, from zero.
    pub number: usize,
    pub account: Account,
    pub database: Database,
    /// The dialect of `$filter`.
    pub filter_dialect: Dialect,
    /// The issuer of its bearer tokens, if any.
    pub bearer: Option<Bearer>,
    pub cors: CorsRules,
}

/// All accounts, by name.
#[derive(Clone)]
pub struct Tenants(Arc<HashMap<String, Arc<Tenant>>>);

impl Tenants {
    /// Makes the accounts. This does not connect to any database.
    ///
    /// # Errors
    /// For a database URL that needs TLS without certificates, and for keys of an issuer that cannot be read.
    pub fn new(config: &Config, certificates: &Certificates) -> Result<Tenants, String> {
        let tenant = |(number, account): (usize, &AccountConfig)| {
            let name = account.account.name();
            let settings = PoolSettings {
                size: config.pool_size,
                timeout: config.pool_timeout,
                statement_timeout: config.statement_timeout,
                filter_dialect: account.filter_dialect,
                write_groups: config.write_groups,
            };
            let secondary = (!account.standbys.is_empty()).then(|| {
                let names = account.standbys.iter().map(DatabaseUrl::name).collect();
                Arc::new(Secondary::new(names, config.max_staleness))
            });
            let problem = |problem: String| format!("the database of the account {name}: {problem}");
            let node = |url: &DatabaseUrl, membership| {
                Node::new(url.clone(), settings, certificates, secondary.clone(), membership).map_err(problem)
            };
            let others = account.other_databases.iter();
            let others = others
                .map(|url| node(url, Membership::unknown()))
                .collect::<Result<_, _>>()?;
            let first = node(&account.database, Membership::First)?;
            let standbys = secondary.clone().map(|secondary| {
                let standby = |(index, url): (usize, &DatabaseUrl)| {
                    Node::standby(url.clone(), settings, certificates, secondary.clone(), index).map_err(problem)
                };
                let nodes: Result<_, _> = account.standbys.iter().enumerate().map(standby).collect();
                nodes.map(|nodes| (nodes, secondary.clone()))
            });
            let database = Database::new(first, others, standbys.transpose()?);
            let bearer = account.bearer.clone().map(Bearer::new).transpose();
            let tenant = Tenant {
                number,
                account: account.account.clone(),
                database,
                filter_dialect: account.filter_dialect,
                bearer: bearer.map_err(|problem| format!("the account {name}: {problem}"))?,
                cors: CorsRules::default(),
            };
            Ok((name.to_owned(), Arc::new(tenant)))
        };
        let tenants = config
            .accounts
            .iter()
            .enumerate()
            .map(tenant)
            .collect::<Result<_, String>>()?;
        Ok(Tenants(Arc::new(tenants)))
    }

    /// Returns the account of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<Tenant>> {
        self.0.get(name)
    }

    /// Returns the issuer in the challenge to a refused client. For an account that accepts no tokens or does not exist, it is the
    /// issuer of another account, always the same one, so that challenges do not tell which accounts exist.
    pub fn challenger(&self, name: &str) -> Option<&Bearer> {
        if let Some(bearer) = self.get(name).and_then(|tenant| tenant.bearer.as_ref()) {
            return Some(bearer);
        }
        let mut with_issuer: Vec<&Tenant> = self.iter().map(Arc::as_ref).collect();
        with_issuer.retain(|tenant| tenant.bearer.is_some());
        with_issuer.sort_by_key(|tenant| tenant.number);
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let number = hasher.finish().checked_rem(with_issuer.len() as u64)?;
        let tenant = with_issuer.get(usize::try_from(number).ok()?)?;
        tenant.bearer.as_ref()
    }

    /// Returns all accounts, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Tenant>> {
        self.0.values()
    }
}
