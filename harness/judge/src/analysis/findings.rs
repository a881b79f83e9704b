//! What a run on this machine shows: which systems learn, whether its checks hold, and the
//! range of the time that learning took. Its seconds rank nothing: they are of shared cores,
//! of loopback, and of a CPU in place of a GPU.

use std::collections::BTreeSet;

use epochcost_spec::claims::{ClaimKind, Metric, VerdictKind};
use epochcost_spec::format;
use epochcost_spec::rows::FEW_STEPS;

use super::counts::Counts;
use super::summary::{RowSummary, Verdict};

/// Rows that are named one by one; more are counted.
const NAMED: usize = 3;

/// Sentence on the seconds of a run.
const SECONDS: &str = "Seconds are of this machine: the verb plan and the platform sim compare systems \
                       on AWS.";

/// Returns whether nothing can be learned in a run of these rows, so that losses and
/// accuracies are those of chance.
pub fn is_too_short(rows: &[RowSummary], target: Option<f64>) -> bool {
    let steps = |row: &RowSummary| row.epochs * row.batches_per_worker;
    target.is_none() && rows.iter().all(|row| steps(row) < FEW_STEPS)
}

/// Returns whether the sentence on what was learned tells what a verdict says.
pub(super) fn tells(verdict: &Verdict) -> bool {
    let is_least = matches!(verdict.band, [Some(_), None]) && !verdict.ranking;
    let is_learned = is_least && verdict.metric == Some(Metric::Accuracy);
    verdict.kind == ClaimKind::Own && is_learned && verdict.holds()
}

/// Returns the findings of a run on this machine, a sentence each.
pub(super) fn of_run(
    rows: &[RowSummary],
    names: &[String],
    verdicts: &[Verdict],
    target: Option<f64>,
) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let sentences = match target {
        Some(target) => vec![
            learned(rows, names, target),
            checks(verdicts),
            format!("{}{SECONDS}", time_to(rows, target)),
        ],
        None => {
            let ran = |row: &RowSummary| row.trials > row.failed_trials;
            let outcome = outcome(rows, names, "ran", ran, |row| ending(row).to_owned());
            let counts = Counts::of(verdicts.iter().map(|verdict| (verdict, false)));
            let checks = counts.checks_hold();
            let checks = checks.map_or_else(String::new, |hold| format!(", {hold}"));
            if is_too_short(rows, target) {
                vec![outcome + &checks + "; the run is too short to compare."]
            } else {
                vec![format!("{outcome}{checks}."), SECONDS.to_owned()]
            }
        }
    };
    let said = sentences.into_iter();
    said.filter(|sentence| !sentence.is_empty()).collect()
}

/// Returns how many rows end with the target accuracy, and which do not.
fn learned(rows: &[RowSummary], names: &[String], target: f64) -> String {
    let has_passed = |row: &RowSummary| {
        let reached = row.seconds_to_target.and_then(|seconds| seconds.mean);
        let accuracy = row.mean(Metric::Accuracy);
        reached.is_some() && accuracy.is_some_and(|accuracy| accuracy >= target)
    };
    let what = format!("passed {} test accuracy", format::goal(target));
    let passed = rows.iter().filter(|row| has_passed(row));
    let accuracies = passed.filter_map(|row| row.mean(Metric::Accuracy));
    let accuracies: Vec<f64> = accuracies.collect();
    let what = match range(&accuracies) {
        Some([low, high]) if low == high => format!("{what} ({})", format::percent(low)),
        Some([low, high]) => {
            let low = format::percent(low).replace(" %", "");
            format!("{what} ({low} to {})", format::percent(high))
        }
        None => what,
    };
    let why = |row: &RowSummary| match row.mean(Metric::Accuracy) {
        Some(accuracy) if accuracy >= target => {
            format!("{}, not in every trial", format::percent(accuracy))
        }
        Some(accuracy) => format::percent(accuracy),
        None => ending(row).to_owned(),
    };
    format!("{}.", outcome(rows, names, &what, has_passed, why))
}

/// Returns the seconds in which rows reached the target, from the least to the most.
fn time_to(rows: &[RowSummary], target: f64) -> String {
    let seconds = rows.iter().filter_map(|row| row.seconds_to_target?.mean);
    let ends = range(&seconds.collect::<Vec<_>>()).map(|ends| ends.map(format::seconds));
    let seconds = match ends {
        Some([low, high]) if low == high => low,
        Some([low, high]) => format!("{low} to {high}"),
        None => return String::new(),
    };
    let goal = format::goal(target);
    format!("Time to {goal}: {seconds} on the trial's clock. ")
}

/// Returns for how many rows something is so, and why not for the others: "12 of 13 systems
/// ran (not MLLess: failed)".
fn outcome(
    rows: &[RowSummary],
    names: &[String],
    what: &str,
    is_so: impl Fn(&RowSummary) -> bool,
    why: impl Fn(&RowSummary) -> String,
) -> String {
    let systems: BTreeSet<&str> = rows.iter().map(|row| row.system.as_str()).collect();
    let noun = match (systems.len() == rows.len(), rows.len()) {
        (true, 1) => "system",
        (true, _) => "systems",
        (false, _) => "rows",
    };
    let others = rows.iter().zip(names).filter(|(row, _)| !is_so(row));
    let others = others.map(|(row, name)| format!("{name}: {}", why(row)));
    let others: Vec<String> = others.collect();
    let named: Vec<&str> = others.iter().take(NAMED).map(String::as_str).collect();
    let not = match others.len() {
        0 => String::new(),
        few if few <= NAMED => format!(" (not {})", named.join(", ")),
        many => format!(" (not {} and {} more)", named.join(", "), many - NAMED),
    };
    let all = rows.len();
    format!("{} of {all} {noun} {what}{not}", all - others.len())
}

/// Returns how a row ended that has no accuracy.
fn ending(row: &RowSummary) -> &'static str {
    match (&row.infeasible, row.trials, row.failed_trials) {
        (Some(_), 0, _) => "infeasible",
        (_, 0, _) => "not run",
        (_, trials, failed) if trials == failed => "failed",
        _ => "not evaluated",
    }
}

fn range(values: &[f64]) -> Option<[f64; 2]> {
    let low = values.iter().copied().reduce(f64::min)?;
    let high = values.iter().copied().reduce(f64::max)?;
    Some([low, high])
}

/// Returns what the checks are about, with how many of them hold; nothing without any.
fn checks(verdicts: &[Verdict]) -> String {
    let checks = (verdicts.iter()).filter(|verdict| verdict.kind == ClaimKind::Check);
    let checks: Vec<&Verdict> = checks.collect();
    let part = |is_of: &dyn Fn(Option<Metric>) -> bool, what: &str| {
        let of = checks.iter().filter(|check| is_of(check.metric));
        let all = of.clone().count();
        let hold = of.filter(|check| check.verdict == VerdictKind::Holds);
        let hold = hold.count();
        (all > 0).then(|| format!("{what} in {hold} of {all}"))
    };
    let replicas = Some(Metric::ReplicasIdentical);
    let traffic = Some(Metric::TrafficMatches);
    let is_traffic = |metric| metric == traffic;
    let is_other = |metric| metric != replicas && metric != traffic;
    let parts = [
        part(&|metric| metric == replicas, "replicas are bit-identical"),
        part(&is_traffic, "metered traffic equals its closed form"),
        part(&is_other, "other invariants hold"),
    ];
    match parts.into_iter().flatten().collect::<Vec<_>>() {
        parts if parts.is_empty() => String::new(),
        parts => format!("Checks: {}.", parts.join(", ")),
    }
}
