//! Table 3 of Barrak et al. 2025: time to accuracy.

use super::finding::{Check, Input, Outcome};
use super::ranking::Ranking;
use super::{AuditError, Findings, Paper, Sources, table2};
use crate::format;
use crate::published::{Quantity, Row};

const SECONDS_PER_MINUTE: f64 = 60.0;

/// The accuracy in the column's heading, percent.
const HEADING_PERCENT: f64 = 80.0;

/// Epochs of the same exchange may differ by this factor without a remark.
const LIKE_FACTOR: f64 = 1.5;

const fn check(what: &'static str, formula: &'static str, unit: &'static str) -> Check {
    Check {
        paper: Paper::CostPerformance,
        item: "Table 3",
        what,
        formula,
        unit,
    }
}

/// Returns the table's rows, by framework.
fn rows(sources: Sources<'_>) -> Result<Vec<(&str, Row<'_>)>, AuditError> {
    let mut rows = Vec::new();
    for row in sources.published.table("cp_table3.csv")?.rows() {
        rows.push((row.text("framework")?, row));
    }
    Ok(rows)
}

/// Checks the column headed "time to 80 %": the text gives the same times as
/// those to the final accuracy.
pub(super) fn header(sources: Sources<'_>) -> Findings {
    let what = "time to 80 % against the text's time to final accuracy";
    let check = check(
        what,
        "the two differ, where the final accuracy is not 80 %",
        "min",
    );
    let rows = rows(sources)?;
    // The accuracies that the one time stands for.
    let mut lowest: Option<(&str, f64)> = None;
    let mut highest: Option<(&str, f64)> = None;
    for (framework, row) in &rows {
        let reached = row.number("final_accuracy_percent")?.value;
        if lowest.is_none_or(|(_, least)| reached < least) {
            lowest = Some((framework, reached));
        }
        if highest.is_none_or(|(_, most)| reached > most) {
            highest = Some((framework, reached));
        }
    }
    // Each framework's column against the text.
    let mut findings = Vec::new();
    for (framework, row) in &rows {
        let column = row.number("time_to_80_minutes")?;
        let key = [
            Paper::CostPerformance.cited(),
            "§4.3",
            "time to final accuracy",
            framework,
        ];
        let text = sources.published.stated(key)?;
        let reached = row.number("final_accuracy_percent")?;
        let inputs = vec![
            Input::of("time to final accuracy", &text),
            Input::of("final accuracy, %", &reached),
        ];
        let is_same = (column.value - text.value).abs() <= column.half_digit;
        let contradicts = is_same && reached.value > HEADING_PERCENT;
        let outcome = if contradicts {
            Outcome::Differs
        } else {
            Outcome::Agrees
        };
        let finding = check
            .unchecked(*framework, inputs)
            .with_computed(text.value)
            .with_printed(&column)
            .with_outcome(outcome);
        findings.push(match (contradicts, lowest, highest) {
            (true, Some(low), Some(high)) => finding
                .explained(format!(
                    "one time stands for two accuracies, {HEADING_PERCENT} % and {} %: only one \
                     can be meant",
                    reached.value
                ))
                .concluding(format!(
                    "the order of times is the same under both readings, but if the text is \
                     right they are times to different accuracies, from {} % ({}) to {} % ({})",
                    low.1, low.0, high.1, high.0
                )),
            _ => finding,
        });
    }
    Ok(findings)
}

/// One framework's time to accuracy, in epochs of Table 2.
struct Epochs<'a> {
    framework: &'a str,
    minutes: Quantity,
    seconds: Quantity,
    /// Cost of an epoch, as printed.
    usd: f64,
    count: f64,
}

/// Checks the table's minutes against Table 2's seconds per epoch.
pub(super) fn epochs(sources: Sources<'_>) -> Findings {
    let what = "epochs behind the time to accuracy";
    let check = check(
        what,
        "minutes × 60 / total seconds of Table 2 (MobileNet)",
        "",
    );
    // Times to accuracy over seconds per epoch.
    let model = table2::rows(sources, "MobileNet")?;
    let mut all = Vec::new();
    for (framework, row) in rows(sources)? {
        let in_table2 = match framework {
            "GPU-based" => table2::GPU,
            name => name,
        };
        let Some((_, epoch)) = model.iter().find(|(name, _)| *name == in_table2) else {
            continue;
        };
        let minutes = row.number("time_to_80_minutes")?;
        let seconds = epoch.number("total_seconds")?;
        all.push(Epochs {
            framework,
            count: minutes.value * SECONDS_PER_MINUTE / seconds.value,
            usd: epoch.number("total_cost_usd")?.value,
            minutes,
            seconds,
        });
    }
    // What remarks are made of: SPIRT's parallel time, costs, the GPU.
    let batches = model.iter().find(|(name, _)| *name == "SPIRT");
    let batch_seconds = match batches {
        Some((_, row)) => Some(row.number("seconds_per_batch")?.value),
        None => None,
    };
    let to_accuracy = cost_to_accuracy(&all);
    let gpu = all.iter().find(|epochs| epochs.framework == "GPU-based");
    let gpu = gpu.map(|epochs| (epochs.count, epochs.minutes.value));
    Ok(all
        .iter()
        .map(|epochs| {
            let inputs = vec![
                Input::of("minutes", &epochs.minutes),
                Input::of("total seconds", &epochs.seconds),
            ];
            let finding = check
                .unchecked(epochs.framework, inputs)
                .with_computed(epochs.count);
            let Some(remark) = remark(epochs, gpu, batch_seconds) else {
                return finding.with_outcome(Outcome::Agrees);
            };
            finding
                .with_outcome(Outcome::Differs)
                .explained(remark)
                .concluding(to_accuracy.clone())
        })
        .collect())
}

/// Returns what is odd about that many epochs; none for the GPU, the yardstick.
fn remark(
    epochs: &Epochs<'_>,
    gpu: Option<(f64, f64)>,
    batch_seconds: Option<f64>,
) -> Option<String> {
    let (gpu_epochs, gpu_minutes) = gpu?;
    let factor = epochs.count / gpu_epochs;
    match epochs.framework {
        "AllReduce" | "ScatterReduce" if !(1.0 / LIKE_FACTOR..=LIKE_FACTOR).contains(&factor) => {
            let slower = epochs.minutes.value / gpu_minutes;
            Some(format!(
                "{} epochs against the GPU's {}, though both step on the mean gradient of the \
                 same 4 × 512 samples: of its {} times the GPU's time, a factor of {} is more \
                 epochs, which no exchange explains",
                format::number(epochs.count),
                format::number(gpu_epochs),
                format::number(slower),
                format::number(factor),
            ))
        }
        "SPIRT" if factor < 1.0 => {
            let parallel = batch_seconds.map(|seconds| {
                let count = epochs.minutes.value * SECONDS_PER_MINUTE / seconds;
                format!(
                    "; with its functions in parallel, {seconds} s per epoch, the time holds up \
                     to {} epochs",
                    format::number(count)
                )
            });
            Some(format!(
                "SPIRT steps once per epoch, on the mean over all mini-batches: {} epochs would \
                 be as many steps to its final accuracy, where the GPU steps once per mini-batch \
                 in {} epochs{}",
                format::number(epochs.count),
                format::number(gpu_epochs),
                parallel.unwrap_or_default()
            ))
        }
        "MLLess" if factor < 1.0 / LIKE_FACTOR => Some(format!(
            "{} epochs against the GPU's {}: a filter sends less of each update and cannot make \
             a step better, so that something else must (its published code has another \
             optimizer, Adam)",
            format::number(epochs.count),
            format::number(gpu_epochs),
        )),
        _ => None,
    }
}

/// Returns the order of costs to accuracy, beside that of costs per epoch.
fn cost_to_accuracy(all: &[Epochs<'_>]) -> String {
    let named = |figure: fn(&Epochs<'_>) -> f64| {
        let items = all.iter();
        Ranking::new(items.map(|epochs| (epochs.framework.to_owned(), figure(epochs))))
    };
    let (an_epoch, in_all) = (named(|one| one.usd), named(|one| one.usd * one.count));
    let survives = if an_epoch.agrees_with(&in_all) {
        "is also the order of costs to accuracy"
    } else {
        "is not that of costs to accuracy"
    };
    format!(
        "the order of costs per epoch ({} USD) {survives}, epochs × cost of an epoch ({} USD)",
        an_epoch.text(),
        in_all.text()
    )
}
