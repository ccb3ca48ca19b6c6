//! Stored access policies and service properties, which travel beside the entities.

use crate::ends::{Source, Target};
use crate::failure::Failure;
use crate::records::Report;

/// Copies the service's properties, and the policies of these tables.
///
/// # Errors
/// An error of the source or the target. Policies that the target cannot hold are noted in the report.
pub async fn copy(source: &Source, target: &Target, tables: &[String], report: &mut Report) -> Result<(), Failure> {
    let mut carried = 0;
    for table in tables {
        let Some(policies) = source.policies(table).await? else {
            report.note("The source has no access policies and service properties.");
            return Ok(());
        };
        if !target.set_policies(table, &policies).await? {
            report.note("The target cannot hold access policies and service properties.");
            return Ok(());
        }
        carried += 1;
    }
    if let Some(properties) = source.service_properties().await? {
        target.set_service_properties(&properties).await?;
    }
    report.note(format!(
        "The access policies of {carried} tables and the service properties were copied."
    ));
    Ok(())
}
