//! The dialect of an account's filters, as settings name it.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use table_service_model::filter::Dialect;

/// The dialect of `$filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FilterDialect {
    #[default]
    Service,
    Extended,
}

impl From<FilterDialect> for Dialect {
    fn from(dialect: FilterDialect) -> Dialect {
        match dialect {
            FilterDialect::Service => Dialect::Service,
            FilterDialect::Extended => Dialect::Extended,
        }
    }
}
