//! Forecasts of rows on a cloud: what would be created, and the most that it can
//! cost.

use epochcost_experiment::{Experiment, PlatformKind};
use epochcost_platform::{CostLine, PlannedResource, RowUsage, WorstCase};
use epochcost_spec::cost::PriceBook;
use epochcost_spec::format::{number, usd};
use epochcost_spec::ui::Output;

use super::rows::PlannedRow;
use crate::columns::table;
use crate::error::{Error, Result};

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
) -> Result<Option<OnCloud>> {
    let Some(cloud) = platform.cloud()? else {
        return Ok(None);
    };
    let worst = cloud.worst_case(rows, prices).map_err(Error::no_price)?;
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
    table(
        resources,
        [
            ("n", &|planned| planned.count.to_string()),
            ("what", &|planned| planned.title.clone()),
            ("name", &|planned| planned.name.clone()),
            ("", &|planned| planned.detail.clone()),
            ("row", &|planned| planned.row.clone().unwrap_or_default()),
        ],
    )
}

fn costs_table(lines: &[CostLine]) -> String {
    table(
        lines,
        [
            ("row", &|line| line.row.clone()),
            ("for", &|line| line.what.clone()),
            ("quantity", &|line| number(line.quantity)),
            ("unit", &|line| line.unit.clone()),
            ("$ a unit", &|line| line.unit_usd.to_string()),
            ("$", &|line| usd(line.usd)),
        ],
    )
}
