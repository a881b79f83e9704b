//! The clock of a trial: the time that its epochs cover, and what it had taken when it
//! reached an accuracy.

use epochcost_record::{EvaluationRow, TrialRow};
use epochcost_spec::cost::{self, PriceBook, PriceBookError, Usage};
use epochcost_spec::metering::Invocation;
use epochcost_systems::{StepRecord, Totals};

use super::trial::stated;

/// An evaluation that found a higher accuracy than every one before it, and what the trial
/// had taken until then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Milestone {
    /// The accuracy, in 0..=1.
    pub accuracy: f64,
    /// Seconds from the start of the trial's first step to the end of the evaluation.
    pub seconds: f64,
    /// Cost by the paper's cost model of what ran until then.
    pub paper_usd: f64,
    /// Cost by the full cost model of what ran until then.
    pub full_usd: f64,
}

/// Returns the milestones of a trial with this `usage`, the earliest first.
///
/// # Errors
/// When the price book lacks a price.
pub(super) fn milestones(
    usage: &Usage<'_>,
    steps: &[StepRecord],
    trial: &TrialRow,
    prices: &PriceBook,
) -> Result<Vec<Milestone>, PriceBookError> {
    let Some(began_s) = steps.iter().map(|step| step.started_s).reduce(f64::min) else {
        return Ok(Vec::new());
    };
    let mut evaluations: Vec<&EvaluationRow> = stated(&trial.evaluations).into_values().collect();
    evaluations.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    let mut milestones: Vec<Milestone> = Vec::new();
    for row in evaluations {
        let accuracy = row.evaluation.accuracy();
        let best = milestones.last();
        if best.is_some_and(|best| accuracy <= best.accuracy) {
            continue;
        }
        let [paper_usd, full_usd] = bills_until(row.at_s, usage, steps, trial, prices)?;
        milestones.push(Milestone {
            accuracy,
            seconds: row.at_s - began_s,
            paper_usd,
            full_usd,
        });
    }
    Ok(milestones)
}

/// Returns the bills, by both cost models, of a trial that is stopped at `at_s`: calls are
/// cut there, and steps that had begun count with all of their requests.
fn bills_until(
    at_s: f64,
    usage: &Usage<'_>,
    steps: &[StepRecord],
    trial: &TrialRow,
    prices: &PriceBook,
) -> Result<[f64; 2], PriceBookError> {
    let calls = usage.invocations.iter().filter_map(|call| cut(call, at_s));
    let calls: Vec<Invocation> = calls.collect();
    let begun = || steps.iter().filter(|step| step.started_s < at_s);
    let stored = begun().map(|step| step.alike as f64 * step.stored_byte_s(at_s));
    let stored_byte_s = stored.sum::<f64>().max(0.0);
    let begun = Totals::of(begun());
    // A workflow's transitions have no times of their own: they follow its calls.
    let all: u64 = usage.invocations.iter().map(|call| call.alike).sum();
    let share = calls.iter().map(|call| call.alike).sum::<u64>() as f64 / all.max(1) as f64;
    let until = Usage {
        invocations: calls.iter().collect(),
        transitions: (usage.transitions as f64 * share).ceil() as u64,
        traffic: begun.traffic,
        waits: begun.waits,
        wall_s: (at_s - trial.started_s).clamp(0.0, usage.wall_s),
        stored_byte_s,
        ..usage.clone()
    };
    Ok([
        cost::paper(&until, prices)?.total_usd(),
        cost::full(&until, prices)?.total_usd(),
    ])
}

/// Returns the part of a call before `at_s`; none if it began later.
fn cut(call: &Invocation, at_s: f64) -> Option<Invocation> {
    let ran_s = at_s - call.started_s;
    (ran_s > 0.0).then(|| {
        let mut cut = call.clone();
        if at_s < call.ended_s {
            let share = ran_s / (call.ended_s - call.started_s);
            cut.ended_s = at_s;
            cut.duration_ms *= share;
            cut.billed_ms = (call.billed_ms as f64 * share).ceil() as u64;
        }
        cut
    })
}

/// Returns the seconds in which at least one of these `spans`, from a start to an end, was
/// under way: epochs of workers that do not wait for each other overlap, and their sum counts
/// a second as often as epochs share it.
pub fn covered_s(spans: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    let mut spans: Vec<(f64, f64)> = spans.into_iter().collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut covered, mut until) = (0.0, f64::NEG_INFINITY);
    for (start, end) in spans {
        covered += (end - start.max(until)).max(0.0);
        until = until.max(end);
    }
    covered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_that_epochs_share_count_once() {
        // One after another, with a pause; the order does not matter.
        assert_eq!(covered_s([(4.0, 6.0), (1.0, 3.0)]), 4.0);
        // Overlapping, and one within another.
        assert_eq!(covered_s([(0.0, 3.0), (1.0, 5.0), (2.0, 4.0)]), 5.0);
        assert_eq!(covered_s([]), 0.0);
    }
}
