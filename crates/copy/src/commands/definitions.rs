//! Definitions of tables: a restore that makes a table gives it its definition.

use std::collections::BTreeMap;

use table_service_archive::Definition;

use crate::ends::Target;
use crate::failure::Failure;
use crate::records::Report;

/// Makes the tables that the target lacks, and gives them their definitions. Returns whether one lacks something that
/// the archive has. A file is no table.
///
/// # Errors
/// Errors that concern more than one table. The restore of a table meets, and names, the others.
pub async fn restore(
    target: &Target,
    tables: &[String],
    definitions: &BTreeMap<String, Definition>,
    report: &mut Report,
) -> Result<bool, Failure> {
    let mut lacks = false;
    for table in tables {
        let known = definitions.get(table);
        let made = match target {
            Target::Database(database) => {
                database
                    .create_defined(table, known.unwrap_or(&Definition::default()))
                    .await
            }
            Target::Service(_) | Target::Files(_) => make(target, table, known).await,
        };
        let undone = match made {
            Err(failure) if failure.is_of_table => continue,
            made => made?,
        };
        let Some(undone) = undone else { continue };
        let unknown = match known {
            None => Some("the archive does not know its access policies, property indexes and expiry."),
            Some(known) if known.policies.is_none() => Some("the role of the archive did not see its access policies."),
            Some(_) => None,
        };
        report
            .notes
            .extend(unknown.map(|unknown| format!("{table}: {unknown}")));
        lacks |= !undone.is_empty() && !matches!(target, Target::Files(_));
        for what in undone {
            report.note(format!("{table} lacks {what}."));
        }
    }
    Ok(lacks)
}

/// Makes a table of a service, or nothing for a file, and gives it its definition. Returns the parts that it lacks;
/// `None` if it was there.
async fn make(target: &Target, table: &str, known: Option<&Definition>) -> Result<Option<Vec<String>>, Failure> {
    if target.has(table).await? == Some(true) {
        return Ok(None);
    }
    target.create(table).await?;
    let mut undone = Vec::new();
    let Some(definition) = known else {
        return Ok(Some(undone));
    };
    if let Some(policies) = definition.some_policies() {
        match target.set_policies(table, &policies.to_string()).await {
            Ok(true) => {}
            Ok(false) => undone.push("its access policies, which the target cannot hold".to_owned()),
            Err(failure) => undone.push(format!("its access policies: {failure}")),
        }
    }
    let indexes = definition.indexes.iter();
    undone.extend(indexes.map(|name| format!("the property index on {name:?}, which only a database has")));
    if !definition.expiry.is_empty() {
        undone.push("its expiry, which only a database has".to_owned());
    }
    Ok(Some(undone))
}
