//! The rights that credentials give (the tables of semantics 7.2 and 7.3).

use strum::VariantArray;

use super::granted_range::GrantedRange;
use super::permissions::{AccountPermissions, Permissions, ResourceTypes};
use crate::error::Error;
use crate::filter::Dialect;
use crate::table_name::fold;

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
    /// `AuthorizationFailure` for what no signature of this kind allows, `AuthorizationResourceTypeMismatch` and
    /// `AuthorizationPermissionMismatch` for what this one does not.
    pub fn permits(&self, operation: ServiceOperation, table: Option<&str>) -> Result<(), Error> {
        match self {
            Grant::Owner => Ok(()),
            Grant::Table {
                table: granted,
                permissions,
                ..
            } => {
                let Some((needed, has)) = entity_permission(operation) else {
                    return Err(not_authorized("The signature is for entities of a table"));
                };
                if table.is_none_or(|table| fold(table) != *granted) {
                    return Err(not_authorized("The signature is for another table"));
                }
                if !has(permissions) {
                    return Err(Error::PermissionMismatch { needed });
                }
                Ok(())
            }
            Grant::Account {
                permissions,
                resource_types,
            } => permitted_by_account_sas(operation, permissions, *resource_types),
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

    /// Returns the filter of a query, limited to what the grant allows: [`GrantedRange::clip`] for a table SAS with a
    /// range, the same filter otherwise.
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

type HasPermission = fn(&Permissions) -> bool;

/// Returns the permission that an operation on entities needs, by name and as a test; `None` for other operations.
fn entity_permission(operation: ServiceOperation) -> Option<(&'static str, HasPermission)> {
    match operation {
        ServiceOperation::QueryEntities => Some(("r", |p| p.read)),
        ServiceOperation::InsertEntity => Some(("a", |p| p.add)),
        ServiceOperation::UpdateEntity => Some(("u", |p| p.update)),
        ServiceOperation::UpsertEntity => Some(("a and u", |p| p.add && p.update)),
        ServiceOperation::DeleteEntity => Some(("d", |p| p.delete)),
        _ => None,
    }
}

fn permitted_by_account_sas(
    operation: ServiceOperation,
    account: &AccountPermissions,
    types: ResourceTypes,
) -> Result<(), Error> {
    let (of_type, needed_type, has, needed) = match operation {
        ServiceOperation::GetServiceProperties | ServiceOperation::GetServiceStats => {
            (types.service, "s", account.read, "r")
        }
        ServiceOperation::SetServiceProperties => (types.service, "s", account.write, "w"),
        ServiceOperation::QueryTables => (types.container, "c", account.list, "l"),
        ServiceOperation::CreateTable => (types.container, "c", account.create || account.write, "c or w"),
        ServiceOperation::DeleteTable => (types.container, "c", account.delete, "d"),
        ServiceOperation::GetTableAcl | ServiceOperation::SetTableAcl => {
            return Err(not_authorized("Only the account's key reaches access policies"));
        }
        ServiceOperation::QueryEntities
        | ServiceOperation::InsertEntity
        | ServiceOperation::UpdateEntity
        | ServiceOperation::UpsertEntity
        | ServiceOperation::DeleteEntity => {
            let permissions = Permissions {
                read: account.read,
                add: account.add,
                update: account.update,
                delete: account.delete,
            };
            let (needed, has) =
                entity_permission(operation).map_or(("", false), |(name, has)| (name, has(&permissions)));
            (types.object, "o", has, needed)
        }
    };
    if !of_type {
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
