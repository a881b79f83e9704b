//! The tables a run directory keeps for other programs: `epochs.tsv` and
//! `cost.json`.

use serde::Serialize;

use epochcost_judge::analysis::{Analysis, RowAnalysis, TrialAnalysis};
use epochcost_platform::{Site, site_of};
use epochcost_record::{ResultsError, RunDirectory, TrialId};
use epochcost_spec::cost::{Bill, LineItem};

use super::table::exact;

/// `cost.json`.
#[derive(Serialize)]
struct Costs<'a> {
    region: &'a str,
    prices_of: String,
    note: &'a str,
    what: &'static str,
    trials: Vec<TrialCost<'a>>,
}

#[derive(Serialize)]
struct TrialCost<'a> {
    trial: &'a TrialId,
    failed: bool,
    paper: &'a Bill,
    full: &'a Bill,
    paper_usd: f64,
    full_usd: f64,
}

/// Writes both files.
pub(super) fn write(run: &RunDirectory, analysis: &Analysis) -> Result<(), ResultsError> {
    run.write("epochs.tsv", epochs(analysis).as_bytes())?;
    let trials = analysis.rows.iter().flat_map(|row| &row.trials);
    let trials = trials.map(|trial| TrialCost {
        trial: &trial.trial.id,
        failed: trial.trial.failure.is_some(),
        paper: &trial.paper,
        full: &trial.full,
        paper_usd: trial.paper.total_usd(),
        full_usd: trial.full.total_usd(),
    });
    let costs = Costs {
        region: run.prices().region(),
        prices_of: run.prices().date().to_string(),
        note: run.prices().note(),
        what: match site_of(&run.manifest().platform) {
            Some(Site::ThisMachine) => {
                "what AWS would have billed for these durations: local durations at list prices"
            }
            Some(Site::VirtualTime) => "list prices for what a simulation used",
            Some(Site::Cloud(_)) | None => "list prices for what was used",
        },
        trials: trials.collect(),
    };
    run.write_json("cost.json", &costs)
}

/// Returns each line of the bills of a row's trials, as a mean over all of
/// them.
pub(super) fn mean_items(
    row: &RowAnalysis,
    bill: impl Fn(&TrialAnalysis) -> &Bill,
) -> Vec<LineItem> {
    let trials = row.succeeded().count() as f64;
    let mut items: Vec<LineItem> = Vec::new();
    for item in row.succeeded().flat_map(|trial| &bill(trial).items) {
        let (quantity, usd) = (item.quantity / trials, item.usd / trials);
        match (items.iter_mut()).find(|known| known.dimension == item.dimension) {
            Some(known) => {
                known.quantity += quantity;
                known.usd += usd;
            }
            None => items.push(LineItem {
                quantity,
                usd,
                ..item.clone()
            }),
        }
    }
    items
}

/// Returns one line per epoch of a trial; unknown values are empty.
fn epochs(analysis: &Analysis) -> String {
    let mut text = String::from(
        "row\tsystem\ttrial\tepoch\tsteps\tseconds\ttrain_loss\ttest_loss\taccuracy\tfailed\n",
    );
    for row in &analysis.rows {
        let id = row.planned.row.id.replace(['\t', '\n', '\r'], " ");
        for trial in &row.trials {
            for epoch in &trial.epochs {
                text.push_str(&format!(
                    "{id}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n",
                    row.planned.row.job.system,
                    trial.trial.id.trial,
                    epoch.epoch,
                    epoch.steps,
                    epoch.seconds(),
                    exact(epoch.train_loss),
                    exact(epoch.test_loss),
                    exact(epoch.accuracy),
                    u8::from(trial.trial.failure.is_some())
                ));
            }
        }
    }
    text
}
