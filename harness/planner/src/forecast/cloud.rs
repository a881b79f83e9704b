//! Forecasts of rows on a cloud: what would be created, and the most that it can
//! cost.

use epochcost_experiment::{Experiment, PlatformKind};
use epochcost_platform::{CostLine, PlannedResource, RowUsage, WorstCase};
use epochcost_spec::cost::PriceBook;
use epochcost_spec::format::{number, usd};
use epochcost_spec::ui::{Output, table};

use super::rows::PlannedRow;
use crate::error::Error;

/// The part of a forecast that concerns a cloud.
#[derive(Debug)]
pub(super) struct OnCloud {
    /// The text for people.
    pub(super) text: String,
    /// The same for machines.
    pub(super) json: serde_json::Value,
}

/// Returns what rows would create and cost at most on a platform; nothing where
/// its trials cost nothing.
///
/// # Errors
/// When something has no price, or this build does not have the platform.
pub(super) fn on_cloud(
    platform: PlatformKind,
    rows: &[RowUsage],
    prices: &PriceBook,
) -> Result<Option<OnCloud>, Error> {
    let Some(cloud) = platform.cloud()? else {
        return Ok(None);
    };
    let worst = cloud
        .worst_case(rows, prices)
        .map_err(|none| Error::Lacks {
            what: none.to_string(),
            remedy: "plan with a price book that has it: --prices FILE".to_owned(),
        })?;
    Ok(Some(OnCloud {
        text: text(platform.title(), &worst, prices),
        json: serde_json::json!({
            "region": worst.region,
            "prices": prices.date().to_string(),
            "resources": worst.resources,
            "worst_case": worst.lines,
            "worst_case_usd": worst.usd(),
        }),
    }))
}

/// Returns what the possible rows of a forecast use; names those left out.
pub(super) fn usage(
    platform: PlatformKind,
    experiment: &Experiment,
    rows: &[PlannedRow],
    trials: usize,
    output: Output,
) -> Vec<RowUsage> {
    let mut used = Vec::with_capacity(rows.len());
    for (row, planned) in experiment.rows.iter().zip(rows) {
        let Some(estimate) = &planned.estimate else {
            let (title, id) = (platform.title(), &row.id);
            output.message(format_args!("left out on {title}: {id} is impossible"));
            continue;
        };
        used.push(RowUsage {
            row: row.clone(),
            trials,
            uses_tensor_store: estimate.uses_tensor_store,
            uses_queue: estimate.uses_queue,
            puts: estimate.total(|traffic| traffic.puts),
            bytes_up: estimate.total(|traffic| traffic.bytes_up),
            gets: estimate.total(|traffic| traffic.gets),
            data_gets: estimate.dataset_traffic.gets,
            most: estimate.most.clone(),
            seconds: estimate.seconds,
            usd: estimate.cost_full_usd,
        });
    }
    used
}

fn text(title: &str, worst: &WorstCase, prices: &PriceBook) -> String {
    let stale = prices.stale(jiff::Zoned::now().date());
    let text = [
        format!(
            "On {title} in {}, nothing of which this plan creates. Names have the run's digits \
             for 0s; what names no row is shared.",
            worst.region
        ),
        resources_table(&worst.resources),
        format!(
            "The worst case: every invocation times out, every trial meets its deadline. \
             Prices of {}, {}.{}",
            prices.date(),
            prices.note(),
            stale.map_or(String::new(), |text| format!(" Warning: {text}."))
        ),
        costs_table(&worst.lines),
        format!("at most {} in all, before tax", usd(worst.usd())),
    ];
    text.join("\n\n")
}

fn resources_table(resources: &[PlannedResource]) -> String {
    let rows: Vec<[String; 5]> = (resources.iter())
        .map(|planned| {
            [
                planned.count.to_string(),
                planned.title.clone(),
                planned.name.clone(),
                planned.detail.clone(),
                planned.row.clone().unwrap_or_default(),
            ]
        })
        .collect();
    table(["n", "what", "name", "", "row"], &rows)
}

fn costs_table(lines: &[CostLine]) -> String {
    let rows: Vec<[String; 6]> = (lines.iter())
        .map(|line| {
            [
                line.row.clone(),
                line.what.clone(),
                number(line.quantity),
                line.unit.clone(),
                line.unit_usd.to_string(),
                usd(line.usd),
            ]
        })
        .collect();
    table(["row", "for", "quantity", "unit", "$ a unit", "$"], &rows)
}
