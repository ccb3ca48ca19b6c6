//! The command `verify`.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ends::Source;
use crate::failure::{Failure, exit};
use crate::records::{Counters, DigestSecret, Progress};
use crate::work::{Comparison, Verify};

use super::arguments::TwoEnds;
use super::common::print;
use super::rounds::{each_table, told};

/// Compares two ends: these tables, or those that the command line chooses. Of each table `most` differences are listed.
pub async fn compare(
    ends: &TwoEnds,
    tables: Option<Vec<String>>,
    with_timestamps: bool,
    most: usize,
) -> Result<u8, Failure> {
    let source = ends.options.source(ends.from()?, None)?;
    let target = ends.options.target(ends.to()?)?;
    // The target may have more tables than those that were asked for by name, or have just been copied.
    let compares_all = tables.is_none() && ends.options.tables.is_empty();
    let mut tables: BTreeSet<String> = match tables {
        Some(tables) => tables.into_iter().collect(),
        None => ends.options.chosen(&source).await?.into_iter().collect(),
    };
    let there = match &target {
        Source::Service(_) if !ends.options.tables.is_empty() => ends.options.tables.clone(),
        target => target.tables().await?,
    };
    let there: BTreeSet<String> = there.into_iter().collect();
    let has = |tables: &BTreeSet<String>, table: &str| tables.iter().any(|one| one.eq_ignore_ascii_case(table));
    let missing_of = |these: &BTreeSet<String>, others: &BTreeSet<String>| -> Vec<String> {
        others.iter().filter(|table| !has(these, table)).cloned().collect()
    };
    let mut missing: Vec<(&str, String)> = Vec::new();
    missing.extend(missing_of(&there, &tables).into_iter().map(|table| ("target", table)));
    if compares_all {
        missing.extend(missing_of(&tables, &there).into_iter().map(|table| ("source", table)));
    }
    tables.retain(|table| has(&there, table));
    let counters = Arc::new(Counters::default());
    let progress = Progress::start(ends.options.work.style(), counters.clone());
    let verify = Arc::new(Verify {
        source,
        target,
        readers: ends.options.work.concurrency,
        secret: DigestSecret::random(),
        with_timestamps,
        most,
        counters,
    });
    let mut comparisons = Vec::new();
    let tables: Vec<String> = tables.into_iter().collect();
    let left_out = each_table(&tables, async |table| {
        comparisons.push(verify.table(table).await?);
        Ok(())
    });
    let left_out = left_out.await?;
    drop(progress);
    if tables.is_empty() && missing.is_empty() {
        return Err(Failure::new("Nothing was compared: neither has a table."));
    }
    let mut equal = missing.is_empty();
    for (side, table) in missing {
        let text = format!("{table}: the {side} does not have this table.");
        let value = serde_json::json!({ "table": table, "side": side });
        print(ends.options.work.json, "missing", &value, &text);
    }
    for comparison in &comparisons {
        equal &= comparison.equal;
        print(ends.options.work.json, "comparison", comparison, &text(comparison));
    }
    let code = if equal { exit::DONE } else { exit::DIFFERENT };
    Ok(told(ends.options.work.json, &left_out, code))
}

fn text(comparison: &Comparison) -> String {
    let Comparison {
        table,
        source_entities,
        target_entities,
        ..
    } = comparison;
    if comparison.equal {
        return format!("{table}: equal, {source_entities} entities");
    }
    let mut lines = vec![format!(
        "{table}: different, {source_entities} entities in the source, {target_entities} in the target"
    )];
    for difference in &comparison.differences {
        lines.push(format!(
            "  PartitionKey {:?}, RowKey {:?}: {}",
            difference.partition_key, difference.row_key, difference.what
        ));
    }
    if comparison.more {
        lines.push("  and more".to_owned());
    }
    lines.join("\n")
}
