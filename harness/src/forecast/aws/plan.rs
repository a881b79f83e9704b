//! `plan --platform aws`: what would be made, and the most that it can cost.

use epochcost_aws::deployment::Training;
use epochcost_aws::planned::{Planned, planned};
use epochcost_aws::{Line, RunId, Scope, worst_case};
use jiff::Timestamp;

use super::{OnAws, ToDeploy};
use crate::cost::{Book, PriceBook};
use crate::error::Error;
use crate::format::{number, usd};
use crate::ui::table;

pub(super) fn plan(rows: &[ToDeploy], prices: &PriceBook) -> Result<OnAws, Error> {
    let trainings: Vec<Training> = rows.iter().map(training).collect();
    let unusable = |reason: String| Error::Lacks {
        what: format!("there is no worst case: {reason}"),
        remedy: "plan with a price book that has it: --prices FILE".to_owned(),
    };
    // No account is needed: names are shown with a run's digits all 0.
    let scope = Scope {
        run: RunId::new(0),
        partition: "aws".to_owned(),
        account: "000000000000".to_owned(),
        region: prices.region().to_owned(),
        expires: Timestamp::UNIX_EPOCH,
    };
    let resources = planned(&scope, &trainings).map_err(|error| unusable(error.to_string()))?;
    let lines =
        worst_case(&trainings, &Book(prices)).map_err(|error| unusable(error.to_string()))?;
    let total: f64 = lines.iter().map(|line| line.usd).sum();
    let stale = prices.stale(jiff::Zoned::now().date());
    let text = [
        format!(
            "On AWS in {}, nothing of which this plan creates. Names have the run's digits for 0s; \
             what names no row is shared.",
            scope.region
        ),
        resources_table(&resources),
        format!(
            "The worst case: every invocation times out, every trial meets its deadline. \
             Prices of {}, {}.{}",
            prices.date(),
            prices.note(),
            stale.map_or(String::new(), |text| format!(" Warning: {text}."))
        ),
        costs_table(&lines),
        format!("at most {} in all, before tax", usd(total)),
    ];
    Ok(OnAws {
        text: text.join("\n\n"),
        json: serde_json::json!({
            "region": scope.region,
            "prices": prices.date().to_string(),
            "resources": resources,
            "worst_case": lines,
            "worst_case_usd": total,
        }),
    })
}

pub(crate) fn training(deploy: &ToDeploy) -> Training {
    Training {
        row: deploy.row.id.clone(),
        job: deploy.row.job.clone(),
        memory_mb: deploy.row.memory_mb,
        timeout_s: deploy.row.timeout_s,
        instance_type: deploy.row.instance_type.clone(),
        trials: deploy.trials as u64,
        uses_tensor_store: deploy.uses_tensor_store,
        uses_queue: deploy.uses_queue,
        puts: deploy.puts,
        bytes_up: deploy.bytes_up,
    }
}

fn resources_table(resources: &[Planned]) -> String {
    let rows: Vec<[String; 5]> = (resources.iter())
        .map(|planned| {
            [
                planned.count.to_string(),
                planned.kind.to_string(),
                planned.name.clone(),
                planned.detail.clone(),
                planned.row.clone().unwrap_or_default(),
            ]
        })
        .collect();
    table(["n", "what", "name", "", "row"], &rows)
}

fn costs_table(lines: &[Line]) -> String {
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
