//! The rights that credentials give (the tables of semantics 7.2 and 7.3).

use strum::VariantArray;

use super::granted_range::GrantedRange;
use super::permissions::{AccountPermissions, Permissions, ResourceTypes};
use crate::table_name::fold;
use crate::{Dialect, Error};

/// The operation of a request, or one operation of an entity group transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, VariantArray)]
pub enum ServiceOperation {
    GetServiceProperties,
    SetServiceProperties,
    GetServiceStats,
    QueryTables,
    CreateTable,
    DeleteTable,
    GetTableAcl,
    SetTableAcl,
    /// A query or the look-up of one entity.
    QueryEntities,
    InsertEntity,
    /// Replace or merge of an entity that exists.
    UpdateEntity,
    /// Insert or replace, insert or merge.
    UpsertEntity,
    DeleteEntity,
}

impl ServiceOperation {
    /// Every operation, for tests.
    pub const ALL: &[ServiceOperation] = ServiceOperation::VARIANTS;
}

/// The role of the bearer of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Storage Table Data Reader: query tables and entities.
    Reader,
    /// Storage Table Data Contributor: everything with tables and entities.
    Contributor,
}

/// The rights that valid credentials give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// The account's key allows everything.
    Owner,
    /// A table SAS: some operations on entities of one table, by its lower-case name.
    Table {
        table: String,
        permissions: Permissions,
        range: GrantedRange,
    },
    /// An account SAS.
    Account {
        permissions: AccountPermissions,
        resource_types: ResourceTypes,
    },
    Role(Role),
}

impl Grant {
    /// Checks an operation; `table` is the table it is on, if any.
    ///
    /// # Errors
    /// `AuthorizationFailure` for an operation that no grant of this kind allows or that is on another table,
    /// `AuthorizationResourceTypeMismatch` and `AuthorizationPermissionMismatch` for one that this grant lacks.
    pub fn permits(&self, operation: ServiceOperation, table: Option<&str>) -> Result<(), Error> {
        match self {
            Grant::Owner => Ok(()),
            Grant::Table {
                table: granted,
                permissions,
                ..
            } => {
                let Some((letters, needed)) = entity_permission(operation) else {
                    return Err(not_authorized("The signature is for entities of a table"));
                };
                if table.is_none_or(|table| fold(table) != *granted) {
                    return Err(not_authorized("The signature is for another table"));
                }
                if !permissions.has(letters) {
                    return Err(Error::PermissionMismatch { needed });
                }
                Ok(())
            }
            Grant::Account {
                permissions,
                resource_types,
            } => permitted_by_account_sas(operation, *permissions, *resource_types),
            Grant::Role(role) => permitted_by_role(operation, *role),
        }
    }

    /// Checks the keys of an entity that an operation reads or writes.
    ///
    /// # Errors
    /// `AuthorizationFailure` for one outside the range of a table SAS.
    pub fn permits_key(&self, partition_key: &str, row_key: &str) -> Result<(), Error> {
        match self {
            Grant::Table { range, .. } if !range.contains(partition_key, row_key) => {
                Err(not_authorized("The entity is outside the signature's range of keys"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the filter of a query, limited to the entities of the grant: [`GrantedRange::clip`] for a table SAS with
    /// a range, the same filter otherwise.
    pub fn clip(&self, filter: Option<&str>, dialect: Dialect) -> Result<Option<String>, Error> {
        match self {
            Grant::Table { range, .. } if !range.is_everything() => range.clip(filter, dialect),
            _ => Ok(filter.map(str::to_owned)),
        }
    }
}

fn not_authorized(reason: &str) -> Error {
    Error::NotAuthorized {
        reason: reason.to_owned(),
    }
}

/// Returns the letters that an operation on entities needs, and their name; `None` for other operations.
fn entity_permission(operation: ServiceOperation) -> Option<(&'static str, &'static str)> {
    match operation {
        ServiceOperation::QueryEntities => Some(("r", "r")),
        ServiceOperation::InsertEntity => Some(("a", "a")),
        ServiceOperation::UpdateEntity => Some(("u", "u")),
        ServiceOperation::UpsertEntity => Some(("au", "a and u")),
        ServiceOperation::DeleteEntity => Some(("d", "d")),
        _ => None,
    }
}

fn permitted_by_account_sas(
    operation: ServiceOperation,
    account: AccountPermissions,
    types: ResourceTypes,
) -> Result<(), Error> {
    let has = |letters| account.has(letters);
    let (needed_type, has, needed) = match operation {
        ServiceOperation::GetServiceProperties | ServiceOperation::GetServiceStats => ("s", has("r"), "r"),
        ServiceOperation::SetServiceProperties => ("s", has("w"), "w"),
        ServiceOperation::QueryTables => ("c", has("l"), "l"),
        ServiceOperation::CreateTable => ("c", has("c") || has("w"), "c or w"),
        ServiceOperation::DeleteTable => ("c", has("d"), "d"),
        _ => match entity_permission(operation) {
            Some((letters, needed)) => ("o", has(letters), needed),
            None => return Err(not_authorized("Only the account's key reaches access policies")),
        },
    };
    if !types.has(needed_type) {
        return Err(Error::ResourceTypeMismatch { needed: needed_type });
    }
    if !has {
        return Err(Error::PermissionMismatch { needed });
    }
    Ok(())
}

fn permitted_by_role(operation: ServiceOperation, role: Role) -> Result<(), Error> {
    let needed = match operation {
        ServiceOperation::QueryTables | ServiceOperation::QueryEntities => return Ok(()),
        ServiceOperation::GetServiceProperties
        | ServiceOperation::SetServiceProperties
        | ServiceOperation::GetServiceStats
        | ServiceOperation::GetTableAcl
        | ServiceOperation::SetTableAcl => "the account's key",
        _ if role == Role::Contributor => return Ok(()),
        _ => "the role Storage Table Data Contributor",
    };
    Err(Error::PermissionMismatch { needed })
}
