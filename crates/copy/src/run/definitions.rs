//! What tables have beside their entities: a restore that makes a table gives it that again.

use std::collections::BTreeMap;

use serde_json::Value;
use table_service_archive::Definition;

use crate::failure::Failure;
use crate::peer::Target;
use crate::report::Report;

/// Makes the tables that the target lacks, and gives them what they had. Returns whether one lacks something that the
/// archive has. A file is no table.
///
/// # Errors
/// What is no matter of one table. The restore of a table meets, and names, what is.
pub async fn restore(
    target: &Target,
    tables: &[String],
    definitions: &BTreeMap<String, Definition>,
    report: &mut Report,
) -> Result<bool, Failure> {
    let mut lacks = false;
    for table in tables {
        let made = match make(target, table).await {
            Err(failure) if failure.is_of_table => continue,
            made => made?,
        };
        if !made {
            continue;
        }
        let Some(definition) = definitions.get(table) else {
            report.note(format!(
                "{table}: the archive does not know its access policies, property indexes and expiry."
            ));
            continue;
        };
        if definition.policies.is_none() {
            report.note(format!(
                "{table}: the role of the archive did not see its access policies."
            ));
        }
        let undone = define(target, table, definition).await?;
        lacks |= !undone.is_empty() && !matches!(target, Target::Files(_));
        for what in undone {
            report.note(format!("{table} lacks {what}."));
        }
    }
    Ok(lacks)
}

/// Makes a table, and returns whether it was not there.
async fn make(target: &Target, table: &str) -> Result<bool, Failure> {
    let is_there = target.has(table).await? == Some(true);
    if !is_there {
        target.create(table).await?;
    }
    Ok(!is_there)
}

/// Gives a new table what it had. Returns what it lacks then.
async fn define(target: &Target, table: &str, definition: &Definition) -> Result<Vec<String>, Failure> {
    let mut undone = Vec::new();
    let is_list = |policies: &&Value| policies.as_array().is_some_and(|list| !list.is_empty());
    if let Some(policies) = definition.policies.as_ref().filter(is_list) {
        match target.set_policies(table, &policies.to_string()).await {
            Ok(true) => {}
            Ok(false) => undone.push("its access policies, which the target cannot hold".to_owned()),
            Err(failure) => undone.push(format!("its access policies: {failure}")),
        }
    }
    match target {
        Target::Sql(database) => undone.extend(database.define(table, definition).await?),
        Target::Rest(_) | Target::Files(_) => {
            let properties = definition.indexes.iter();
            undone.extend(properties.map(|name| format!("the property index on {name:?}, which only a database has")));
            if !definition.expiry.is_empty() {
                undone.push("its expiry, which only a database has".to_owned());
            }
        }
    }
    Ok(undone)
}
