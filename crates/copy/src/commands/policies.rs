//! Stored access policies and service properties, which travel beside the entities.

use crate::ends::{Source, Target};
use crate::failure::Failure;
use crate::records::{LeftOut, Report};

use super::rounds::each_table;

/// Copies the service's properties, and the policies of these tables. One whose policies cannot be copied is left out.
///
/// # Errors
/// An error that is no matter of one table. Policies that the target cannot hold are noted in the report.
pub async fn copy(source: &Source, target: &Target, tables: &[String], report: &mut Report) -> Result<(), Failure> {
    let (mut carried, mut lacking) = (0, None);
    let left_out = each_table(tables, async |table| {
        if lacking.is_none() {
            match source.policies(table).await? {
                None => lacking = Some("The source has no access policies and service properties."),
                Some(policies) if target.set_policies(table, &policies).await? => carried += 1,
                Some(_) => lacking = Some("The target cannot hold access policies and service properties."),
            }
        }
        Ok(())
    });
    report
        .left_out
        .extend(left_out.await?.into_iter().map(|LeftOut { table, reason }| {
            let reason = format!("its access policies: {reason}");
            LeftOut { table, reason }
        }));
    if let Some(lacking) = lacking {
        report.note(lacking);
        return Ok(());
    }
    if let Some(properties) = source.service_properties().await? {
        target.set_service_properties(&properties).await?;
    }
    report.note(format!(
        "The access policies of {carried} tables and the service properties were copied."
    ));
    Ok(())
}
