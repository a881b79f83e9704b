//! Warnings for readers of the results.

use epochcost_platform::{Site, site_of};
use epochcost_record::{DIVERGED, INCOMPLETE, Machine, RunDirectory, SimulationRecord, TrialId};
use epochcost_spec::metering::Invocation;
use epochcost_systems::Host;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::titles::model_title;
use super::work::is_cpu_for_gpu;
use super::{RowAnalysis, TrialAnalysis, variation};

/// Memory size that gives one whole virtual CPU on AWS Lambda, MB.
const MB_PER_VCPU: f64 = 1769.0;

/// A warning, with the rows that it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The warning; of several that differ in their numbers alone, the first.
    pub text: String,
    /// Ids of the rows that it is about; none of a warning about the whole run.
    pub rows: Vec<String>,
    /// How often it was given.
    pub times: usize,
}

/// Rows that a line of text names; more are counted.
const NAMED: usize = 3;

impl Warning {
    fn of_run(text: String) -> Self {
        Self {
            text,
            rows: Vec::new(),
            times: 1,
        }
    }

    /// Returns it in a line, with the rows that it is about.
    pub fn line(&self) -> String {
        let times = match self.times {
            times if times > self.rows.len().max(1) => format!(" ({times} times)"),
            _ => String::new(),
        };
        match self.rows.as_slice() {
            [] => format!("{}{times}", self.text),
            [row] => format!("{row}: {}{times}", self.text),
            rows => {
                let named = rows[..rows.len().min(NAMED)].join(", ");
                let more = match rows.len().saturating_sub(NAMED) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("{} rows ({named}{more}): {}{times}", rows.len(), self.text)
            }
        }
    }
}

/// Beginnings of the warnings that question a result, which come before all others: a terminal
/// shows two.
const FIRST: [&str; 5] = [
    REHEARSAL,
    INCOMPLETE,
    DIVERGED,
    UNLIKE_CLOSED_FORM,
    BEYOND_LIMITS,
];

const REHEARSAL: &str = "a rehearsal: ";
const UNLIKE_CLOSED_FORM: &str = "the metered exchange differs from its closed form";
const BEYOND_LIMITS: &str = "limits of functions are switched off, and ";

/// Returns every warning: those that question a result, then the most general ones. Warnings that
/// differ in their numbers alone are one. `order` is every trial in the order in which they were
/// run.
pub(super) fn collect(run: &RunDirectory, rows: &[RowAnalysis], order: &[TrialId]) -> Vec<Warning> {
    let of_run = of_run(run, rows, order).into_iter().map(Warning::of_run);
    let mut warnings: Vec<Warning> = of_run.collect();
    warnings.extend(of_rows(rows));
    let simulation = run.manifest().simulation.as_ref();
    if simulation.is_some_and(|record| !record.limits) {
        warnings.extend(beyond_limits(rows));
    }
    let rank = |text: &str| FIRST.iter().position(|start| text.starts_with(start));
    warnings.sort_by_key(|warning| rank(&warning.text).unwrap_or(FIRST.len()));
    warnings
}

fn of_run(run: &RunDirectory, rows: &[RowAnalysis], order: &[TrialId]) -> Vec<String> {
    let (mut warnings, manifest) = (run.warnings().to_vec(), run.manifest());
    let platform = &manifest.platform;
    if manifest.rehearsed {
        warnings.push(format!(
            "{REHEARSAL}servers that stand in for those of {platform} answered, so that no figure \
             here says anything of it"
        ));
    }
    // The machine and the build.
    if site_of(platform) == Some(Site::ThisMachine) {
        warnings.extend(busy_host(run.machine(), rows));
        let limits = run.machine().limits.iter().filter(|limit| !limit.enforced);
        warnings.extend(limits.map(|limit| {
            let (what, how) = (&limit.what, &limit.how);
            format!("the {what} limit of functions was not enforced: {how}")
        }));
    }
    let simulation = manifest.simulation.as_ref();
    if manifest.epochcost.profile != "release" && simulation.is_none() {
        warnings.push("epochcost was built without optimisations: its times mean nothing".into());
    }
    // The data.
    let generated = manifest.datasets.iter().filter(|record| record.generated);
    warnings.extend(generated.map(|record| {
        let name = &record.name;
        format!("{name} is a generated set: accuracies on it compare with each other only")
    }));
    // Trials: too few, or of odd times.
    match simulation {
        Some(record) => warnings.extend(of_simulation(record, rows)),
        None if rows.iter().any(|row| row.succeeded().count() == 1) => {
            warnings.push("rows with one trial have no interval: add --trials 3 or more".into());
        }
        None => {}
    }
    if simulation.is_none() {
        warnings.extend(variation::of(rows, order));
    }
    // Prices.
    warnings.extend(stale_prices(run));
    warnings
}

/// Trials that sample the profile's ranges, below which their interval means little.
const FEW_SAMPLES: usize = 20;

fn of_simulation(record: &SimulationRecord, rows: &[RowAnalysis]) -> Vec<String> {
    let mut warnings = Vec::new();
    let trials = rows.iter().map(|row| row.succeeded().count());
    let trials = trials.max().unwrap_or(0);
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
    for row in rows.iter().filter(|row| is_cpu_for_gpu(row)) {
        if let Some(used) = &row.planned.compute {
            let (id, model) = (&row.planned.row.id, model_title(&row.planned.row.job.model));
            warnings.push(format!(
                "{id}: no compute profile knows {model} on a GPU, so that its instances compute at \
                 the speed of a CPU ({})",
                used.profile
            ));
        }
    }
    warnings
}

fn busy_host(machine: &Machine, rows: &[RowAnalysis]) -> Vec<String> {
    let cores = machine.cores as f64;
    let allowed = machine.cpu_quota.unwrap_or(cores);
    let mut warnings = Vec::new();
    let wanted = |row: &RowAnalysis| {
        row.planned.row.job.workers as f64 * f64::from(row.planned.row.memory_mb) / MB_PER_VCPU
    };
    let on_functions = rows.iter().filter(|row| row.on_functions());
    let most = on_functions.map(wanted).fold(0.0, f64::max);
    if most > allowed {
        warnings.push(format!(
            "the workers' memory sizes stand for up to {most:.1} vCPUs, and this machine has \
             {allowed}: workers that compute at the same time slow each other down, as they would \
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

fn of_rows(rows: &[RowAnalysis]) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = Vec::new();
    for row in rows {
        let id = &row.planned.row.id;
        if row.trials.len() < row.planned.trials && row.planned.infeasible.is_none() {
            let (run, planned) = (row.trials.len(), row.planned.trials);
            let text = format!("{INCOMPLETE}{run} of {planned} trials were run");
            add(&mut warnings, id, &text);
        }
        let retries: u64 = row.succeeded().map(TrialAnalysis::retries).sum();
        if retries > 0 {
            let trials = row.succeeded().filter(|trial| trial.retries() > 0).count();
            let failed = match retries {
                1 => "1 function failed and was".to_owned(),
                several => format!("{several} functions failed and were"),
            };
            let text = format!(
                "{failed} called again, in {trials} of {} trials: their times and costs include it",
                row.trials.len()
            );
            add(&mut warnings, id, &text);
        }
        for trial in &row.trials {
            for text in &trial.trial.warnings {
                add(&mut warnings, id, text);
            }
            if trial.trial.failure.is_none() && trial.traffic_matches == Some(false) {
                add(&mut warnings, id, UNLIKE_CLOSED_FORM);
            }
        }
    }
    warnings
}

/// Rows that the platform would refuse if limits held: a simulation without them has figures of
/// functions that cannot be.
fn beyond_limits(rows: &[RowAnalysis]) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = Vec::new();
    for analysed in rows {
        let row = &analysed.planned.row;
        let calls = || {
            let calls = analysed.trials.iter().flat_map(|trial| &trial.invocations);
            calls.filter(|call| call.host == Host::Function)
        };
        let memory = |call: &Invocation| Some((call.peak_memory_mb?, call.memory_mb?));
        let too_large = calls().filter_map(memory).filter(|(used, has)| used > has);
        if let Some((used, has)) = too_large.max() {
            let text = format!("{BEYOND_LIMITS}a function uses {used} of its {has} MB");
            add(&mut warnings, &row.id, &text);
        }
        let longest = calls().map(|call| call.duration_ms).fold(0.0, f64::max) / 1e3;
        if longest > row.timeout_s as f64 {
            let limit = row.timeout_s;
            let text =
                format!("{BEYOND_LIMITS}a function runs {longest:.0} s, of {limit} s at most");
            add(&mut warnings, &row.id, &text);
        }
    }
    warnings
}

/// Counts a warning about a row, with those of its kind.
fn add(warnings: &mut Vec<Warning>, row: &str, text: &str) {
    let own = kind(text);
    let is_its = |known: &Warning| kind(&known.text) == own;
    let place = warnings.iter().position(is_its).unwrap_or_else(|| {
        warnings.push(Warning {
            text: text.to_owned(),
            ..Warning::default()
        });
        warnings.len() - 1
    });
    let warning = &mut warnings[place];
    warning.times += 1;
    if !warning.rows.iter().any(|known| known == row) {
        warning.rows.push(row.to_owned());
    }
}

/// Returns a text without its numbers.
fn kind(text: &str) -> String {
    let mut kind = String::with_capacity(text.len());
    for c in text.chars() {
        let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '#');
        if !c.is_ascii_digit() {
            kind.push(c);
        } else if !kind.ends_with(is_number) {
            kind.push('#');
        }
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::cases;

    #[test]
    fn warnings_that_differ_in_their_numbers_are_one() {
        let mut warnings = Vec::new();
        for ([row, text], _) in cases(&[
            "a | oversubscribed: functions of 4 workers, 1.16 vCPU each, shared 2 cores",
            "b | oversubscribed: functions of 8 workers, 0.5 vCPU each, shared 2 cores",
            "b | oversubscribed: functions of 8 workers, 0.5 vCPU each, shared 2 cores",
            "b | booting was not simulated",
        ]) {
            add(&mut warnings, row, text);
        }
        assert_eq!(warnings.len(), 2);
        assert_eq!((warnings[0].rows.len(), warnings[0].times), (2, 3));
        let line = warnings[0].line();
        assert!(line.starts_with("2 rows (a, b): oversubscribed"), "{line}");
        assert!(line.ends_with("(3 times)"), "{line}");
        assert_eq!(warnings[1].line(), "b: booting was not simulated");
    }
}
