//! Table 2 of Barrak et al. 2025: epochs, and seconds.

use super::finding::{Check, Input, Outcome};
use super::ranking::Ranking;
use super::{AuditError, Findings, Paper, Sources};
use crate::format;
use crate::published::{Quantity, Row};

/// The table's models, in its order.
pub(super) const MODELS: [&str; 2] = ["MobileNet", "ResNet-18"];

/// How the table names the GPU baseline.
pub(super) const GPU: &str = "GPU (g4dn.xlarge)";

pub(super) const fn check(what: &'static str, formula: &'static str, unit: &'static str) -> Check {
    Check {
        paper: Paper::CostPerformance,
        item: "Table 2",
        what,
        formula,
        unit,
    }
}

/// Returns a number of the table's set-up.
pub(super) fn setting(
    sources: Sources<'_>,
    quantity: &str,
    subject: &str,
) -> Result<Quantity, AuditError> {
    let key = [Paper::CostPerformance.cited(), "Table 2", quantity, subject];
    Ok(sources.published.stated(key)?)
}

/// Returns the table's rows of one model.
pub(super) fn rows<'a>(
    sources: Sources<'a>,
    model: &str,
) -> Result<Vec<(&'a str, Row<'a>)>, AuditError> {
    let mut rows = Vec::new();
    for row in sources.published.table("cp_table2.csv")?.rows() {
        if row.text("model")? == model {
            rows.push((row.text("framework")?, row));
        }
    }
    Ok(rows)
}

/// Returns every row that runs on functions, by a name of model and framework.
pub(super) fn function_rows(sources: Sources<'_>) -> Result<Vec<(String, Row<'_>)>, AuditError> {
    let mut found = Vec::new();
    for model in MODELS {
        for (framework, row) in rows(sources, model)? {
            if framework != GPU {
                found.push((format!("{model}, {framework}"), row));
            }
        }
    }
    Ok(found)
}

/// Checks how many full batches a worker's share of the data has.
pub(super) fn epoch(sources: Sources<'_>) -> Findings {
    let check = check(
        "mini-batches per worker and epoch",
        "⌊samples / workers / batch size⌋",
        "",
    );
    let samples = setting(sources, "training samples", "CIFAR-10")?;
    let workers = setting(sources, "workers", "")?;
    let batch = setting(sources, "batch size", "")?;
    let Some((name, row)) = function_rows(sources)?.into_iter().next() else {
        return Ok(Vec::new());
    };
    let inputs = vec![
        Input::exact("samples", &samples),
        Input::exact("workers", &workers),
        Input::exact("batch size", &batch),
    ];
    let computed = (samples.value / workers.value / batch.value).floor();
    let printed = row.number("batches_per_worker")?;
    let used = printed.value * workers.value * batch.value;
    Ok(vec![
        check
            .finding(name, inputs, computed, &printed)
            .concluding(format!(
                "an epoch of the table covers {} of {} samples",
                format::count(used),
                format::count(samples.value)
            )),
    ])
}

/// Checks total seconds from seconds per batch.
pub(super) fn totals(sources: Sources<'_>) -> Findings {
    let check = check("total seconds", "seconds per batch × batches", "s");
    let mut findings = Vec::new();
    for (name, row) in function_rows(sources)? {
        let seconds = row.number("seconds_per_batch")?;
        let batches = row.number("batches_per_worker")?;
        let computed = seconds.value * batches.value;
        let inputs = vec![
            Input::of("seconds per batch", &seconds),
            Input::exact("batches", &batches),
        ];
        findings.push(check.finding(name, inputs, computed, &row.number("total_seconds")?));
    }
    Ok(findings)
}

/// Checks SPIRT's times: it computes the gradients of its mini-batches in
/// parallel functions; the table adds their durations.
pub(super) fn parallel(sources: Sources<'_>) -> Findings {
    let check = check(
        "wall time of SPIRT's parallel functions",
        "seconds per batch (all functions at once) + averaging and update in the database",
        "s",
    );
    let mut findings = Vec::new();
    for model in MODELS {
        let rows = rows(sources, model)?;
        let Some((_, spirt)) = rows.iter().find(|(name, _)| *name == "SPIRT") else {
            continue;
        };
        let seconds = spirt.number("seconds_per_batch")?;
        // Wall time: one function's seconds, and what the database takes.
        let mut inputs = vec![Input::of("seconds per batch", &seconds)];
        inputs.extend(in_database(sources, model)?);
        let wall: f64 = inputs.iter().map(|input| input.value).sum();
        let printed = spirt.number("total_seconds")?;
        // The printed time, if it is a sum.
        let is_summed = (printed.value / wall - 1.0).abs() > super::TOLERANCE;
        let outcome = if is_summed {
            Outcome::Differs
        } else {
            Outcome::Agrees
        };
        let finding = check
            .unchecked(format!("{model}, SPIRT"), inputs)
            .with_computed(wall)
            .with_printed(&printed)
            .with_outcome(outcome);
        findings.push(if is_summed {
            finding
                .explained(lower_bound(model))
                .concluding(order_of_times(&rows, wall)?)
        } else {
            finding
        });
    }
    Ok(findings)
}

fn lower_bound(model: &str) -> String {
    let missing = match model {
        "ResNet-18" => "the exchange between peers and starts of functions are not in it",
        _ => "averaging, update, the exchange between peers and starts of functions are not in it",
    };
    format!(
        "the table adds durations of functions that run at the same time, as if one followed the \
         other: right for a cost, wrong for a time. What is computed is a lower bound: {missing}"
    )
}

/// Returns what the paper states of SPIRT's work inside the database, for that
/// model.
fn in_database(sources: Sources<'_>, model: &str) -> Result<Vec<Input>, AuditError> {
    let mut inputs = Vec::new();
    for row in sources.published.table("cp_communication.csv")?.rows() {
        let name = match row.text("metric")? {
            "gradient averaging time" => "averaging in the database",
            "model update time" => "update in the database",
            _ => continue,
        };
        if row.text("model")? == model {
            inputs.push(Input::of(name, &row.number("optimised")?));
        }
    }
    Ok(inputs)
}

/// Returns the order of the model's times, as printed and with SPIRT's wall
/// time.
fn order_of_times(rows: &[(&str, Row<'_>)], wall: f64) -> Result<String, AuditError> {
    let mut printed = Vec::new();
    let mut corrected = Vec::new();
    for (name, row) in rows {
        let seconds = row.number("total_seconds")?.value;
        printed.push(((*name).to_owned(), seconds));
        let own = if *name == "SPIRT" { wall } else { seconds };
        corrected.push(((*name).to_owned(), own));
    }
    let (printed, corrected) = (Ranking::new(printed), Ranking::new(corrected));
    let survives = if printed.agrees_with(&corrected) {
        "the order of times survives"
    } else {
        "the order of times does not survive"
    };
    Ok(format!(
        "{survives}: printed {}; with SPIRT's lower bound {}",
        printed.text(),
        corrected.text()
    ))
}
