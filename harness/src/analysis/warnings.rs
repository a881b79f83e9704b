//! Warnings for readers of the results.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{RowAnalysis, variation};
use crate::platform::{Site, site_of};
use crate::results::{ComputeUsed, Machine, RunDirectory, SimulationRecord, TrialId};

/// Memory size that gives one whole virtual CPU on AWS Lambda, MB.
const MB_PER_VCPU: f64 = 1769.0;

/// Returns every warning, the most general ones first; equal texts are counted.
/// `order` is every trial in the order in which they were run.
pub(super) fn collect(run: &RunDirectory, rows: &[RowAnalysis], order: &[TrialId]) -> Vec<String> {
    let mut warnings = run.warnings().to_vec();
    // The machine and the build.
    if site_of(&run.manifest().platform) == Some(Site::ThisMachine) {
        warnings.extend(busy_host(run.machine(), rows));
        warnings.extend(
            run.machine()
                .limits
                .iter()
                .filter(|limit| !limit.enforced)
                .map(|limit| {
                    format!(
                        "the {} limit of functions was not enforced: {}",
                        limit.what, limit.how
                    )
                }),
        );
    }
    let simulation = run.manifest().simulation.as_ref();
    if run.manifest().epochcost.profile != "release" && simulation.is_none() {
        warnings.push("epochcost was built without optimisations: its times mean nothing".into());
    }
    // The data.
    for record in run
        .manifest()
        .datasets
        .iter()
        .filter(|record| record.generated)
    {
        warnings.push(format!(
            "{} is a generated set: accuracies on it compare with each other only",
            record.name
        ));
    }
    // Trials: too few, or of odd times.
    match simulation {
        Some(record) => warnings.extend(of_simulation(record, rows)),
        None if rows.iter().any(|row| row.succeeded().count() == 1) => {
            warnings.push("rows with one trial have no interval: add --trials 3 or more".into());
        }
        None => {}
    }
    if simulation.is_none() {
        let odd = variation::of(rows, order);
        warnings.extend(odd.iter().map(ToString::to_string));
    }
    // Prices and rows.
    warnings.extend(stale_prices(run));
    warnings.extend(of_rows(rows));
    warnings
}

/// Trials that sample the profile's ranges, below which their interval means little.
const FEW_SAMPLES: usize = 20;

fn of_simulation(record: &SimulationRecord, rows: &[RowAnalysis]) -> Vec<String> {
    let mut warnings = Vec::new();
    let trials = rows.iter().map(|row| row.succeeded().count()).max();
    let trials = trials.unwrap_or(0);
    if !record.sample && trials > 1 {
        warnings.push(
            "a simulation repeats itself: intervals over its trials mean nothing for its times; \
             `simulation.sample: true` shows how far the ranges of its constants reach"
                .into(),
        );
    }
    if record.sample && trials < FEW_SAMPLES {
        warnings.push(format!(
            "{trials} trials sample the ranges of the profile's constants: their interval is \
             hardly more than their extremes, give --trials {FEW_SAMPLES} or more"
        ));
    }
    for row in rows {
        let fell_back =
            |used: &&ComputeUsed| !row.on_functions() && row.planned.row.job.device != used.device;
        if let Some(used) = row.planned.compute.as_ref().filter(fell_back) {
            warnings.push(format!(
                "{}: no compute profile knows {} on a GPU, so that its instances compute at the \
                 speed of a CPU ({})",
                row.planned.row.id, row.planned.row.job.model, used.profile
            ));
        }
    }
    warnings
}

fn busy_host(machine: &Machine, rows: &[RowAnalysis]) -> Vec<String> {
    let cores = machine.cores as f64;
    let mut warnings = Vec::new();
    let wanted = |row: &RowAnalysis| {
        row.planned.row.job.workers as f64 * f64::from(row.planned.row.memory_mb) / MB_PER_VCPU
    };
    let most = rows
        .iter()
        .filter(|row| row.on_functions())
        .map(wanted)
        .fold(0.0, f64::max);
    if most > cores {
        warnings.push(format!(
            "the workers' memory sizes stand for up to {most:.1} vCPUs, and this machine has \
             {cores}: workers that compute at the same time slow each other down, as they would \
             not on AWS"
        ));
    }
    if let Some(load) = machine.load_average.filter(|load| *load > 0.5 * cores) {
        warnings.push(format!(
            "the machine was busy when the run began (load {load:.2} on {cores} CPUs): times are \
             longer than on a quiet one"
        ));
    }
    warnings
}

fn stale_prices(run: &RunDirectory) -> Option<String> {
    let created: Timestamp = run.manifest().created.parse().ok()?;
    run.prices().stale(created.to_zoned(TimeZone::UTC).date())
}

fn of_rows(rows: &[RowAnalysis]) -> Vec<String> {
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows {
        let id = &row.planned.row.id;
        if row.trials.len() < row.planned.trials && row.planned.infeasible.is_none() {
            let (run, planned) = (row.trials.len(), row.planned.trials);
            counted.insert(format!("{id}: {run} of {planned} trials were run"), 1);
        }
        for trial in &row.trials {
            for text in &trial.trial.warnings {
                *counted.entry(format!("{id}: {text}")).or_default() += 1;
            }
            if trial.trial.failure.is_none() && trial.traffic_matches == Some(false) {
                *counted
                    .entry(format!(
                        "{id}: the metered exchange differs from its closed form"
                    ))
                    .or_default() += 1;
            }
        }
    }
    counted
        .into_iter()
        .map(|(text, times)| {
            if times > 1 {
                format!("{text} ({times} times)")
            } else {
                text
            }
        })
        .collect()
}
