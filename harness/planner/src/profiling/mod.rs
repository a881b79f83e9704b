//! Profiling: measures this machine's compute profile, which simulations stand on.
//!
//! Every point (model, batch size, threads) is measured by processes of its
//! own, one per round; a round goes through all points, so that a slow moment of
//! the machine does not fall on one model alone.
//!
//! A line is fitted to the medians of one thread, weighted by 1 / time²: relative
//! errors count, not seconds ([`Line`](epochcost_simulator::profile::Line)).
//! What more threads gain is Amdahl's share at the largest batch size; the
//! seconds of an evaluated sample are those at the largest batch size; memory is
//! a line through the highest peaks, whatever the threads.

mod measure;
mod names;
mod plan;
mod record;
mod script;
mod summary;
#[cfg(test)]
mod tests;

use std::path::Path;

use epochcost_platform::PlatformError;
use epochcost_platform::local::worker::{Worker, find_or_build};
use epochcost_simulator::profile::{ComputeProfile, Fit, ModelCost};
use epochcost_spec::ui::{Output, bar};
use serde::Serialize;

use self::measure::Measurement;
use self::summary::Point;
use crate::columns::table;
use crate::error::Result;

pub use self::plan::{Plan, Request};
pub use self::script::{SamplesPerStep, ScriptPlan, ScriptRequest, measure as measure_script};

/// What `--json` prints.
#[derive(Serialize)]
struct Profiled<'a> {
    file: &'a Path,
    profile: &'a ComputeProfile,
    points: &'a [Point],
    warnings: &'a [String],
}

/// Measures every point, writes the profile to its file and prints it.
///
/// # Errors
/// Whatever kept a process from measuring.
pub async fn measure(plan: &Plan, output: Output) -> Result<()> {
    let found = tokio::task::spawn_blocking(find_or_build).await;
    let worker = found.map_err(|error| PlatformError::Worker(error.to_string()))??;
    let described = worker.describe().await?;
    described.offers(plan.device, "`profile`", "measure the CPU")?;
    let busy = plan.busy();
    if let Some(warning) = &busy {
        output.message(format_args!("warning: {warning}"));
    }
    let measurements = measurements(plan, &worker, output).await?;
    let points = summary::points(&measurements);
    let mut warnings = summary::warnings(&points);
    let profile = summary::profile(plan, &points)?;
    if let Some(bad) = summary::bad_fits(&profile).filter(|_| !plan.allows_bad_fit) {
        // What was measured is shown, so that the reader sees which point is off.
        output.text(summary::points_table(&points));
        return Err(bad);
    }
    warnings.extend(summary::doubts(plan, &profile));
    for warning in &warnings {
        output.message(format_args!("warning: {warning}"));
    }
    warnings.splice(0..0, busy);
    record::write(plan, &worker, &profile, &points, &warnings)?;
    output.text(summary::points_table(&points));
    output.text(format_args!("\n{}", costs_table(&profile)));
    output.json(&Profiled {
        file: &plan.out,
        profile: &profile,
        points: &points,
        warnings: &warnings,
    });
    output.message(format_args!("profile: {}", plan.out.display()));
    Ok(())
}

/// Measures every point once per round.
async fn measurements(plan: &Plan, worker: &Worker, output: Output) -> Result<Vec<Measurement>> {
    let settings = plan.settings();
    let bar = bar(
        output,
        Some(settings.len() as u64),
        "{spinner} [{pos}/{len} processes, {elapsed}] {msg}",
    );
    let mut measurements = Vec::with_capacity(settings.len());
    for setting in settings {
        bar.set_message(setting.to_string());
        let measurement = measure::measure(worker, setting).await?;
        bar.inc(1);
        bar.suspend(|| output.detail(&measurement));
        measurements.push(measurement);
    }
    bar.finish_and_clear();
    Ok(measurements)
}

/// Returns the costs of a compute profile as a table.
pub fn costs_table(profile: &ComputeProfile) -> String {
    let largest_error = |fit: &Fit| format!("{:.1} %", 100.0 * fit.largest_error);
    let fit =
        |cost: &ModelCost, text: fn(&Fit) -> String| cost.fit.as_ref().map_or("-".into(), text);
    table(
        &profile.models,
        [
            ("model", &|cost| cost.model.clone()),
            ("fixed s", &|cost| cost.fixed_s.to_string()),
            ("s/sample", &|cost| cost.sample_s.to_string()),
            ("parallel", &|cost| cost.parallel.to_string()),
            ("evaluate s/sample", &|of| of.evaluate_sample_s.to_string()),
            ("build s", &|cost| cost.build_s.to_string()),
            ("fixed MB", &|cost| cost.fixed_mb.to_string()),
            ("MB/sample", &|cost| cost.sample_mb.to_string()),
            ("r²", &|cost| fit(cost, |fit| fit.r_squared.to_string())),
            ("largest error", &|cost| fit(cost, largest_error)),
        ],
    )
}
