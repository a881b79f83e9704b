//! Progress of trials: bars on a terminal, lines anywhere else.

use std::time::Duration;

use epochcost_systems::Record;
use indicatif::ProgressBar;

use epochcost_platform::{Figures, Progress};
use epochcost_spec::metering::TrialOutcome;
use epochcost_spec::rows::{FEW_STEPS, TrialPlan};
use epochcost_spec::ui::{Output, bar, tick};

/// Progress of all trials of a run.
pub struct Following {
    bar: ProgressBar,
    trials: usize,
    /// What stands behind seconds: virtual ones are not those of this clock.
    origin: &'static str,
    output: Output,
}

/// Returns a bar over `length` things that is drawn again and again.
pub fn ticking(length: usize, output: Output, template: &str) -> ProgressBar {
    let bar = bar(output, Some(length as u64), template);
    tick(&bar, Duration::from_millis(200));
    bar
}

/// Progress of one trial.
pub struct TrialProgress {
    bar: ProgressBar,
    name: String,
    /// Steps of all workers and epochs.
    steps: u64,
    output: Output,
}

impl Progress for TrialProgress {
    fn rented(&self, what: &str) {
        let line = || self.output.message(format_args!("{}: {what}", self.name));
        self.bar.suspend(line);
    }

    fn steps(&self, done: u64) {
        let share = share(done, self.steps);
        self.bar.set_message(format!("{}: {share}", self.name));
    }
}

/// Returns how many steps have ended, with their share. A system that computes in other
/// steps than mini-batches may have more.
fn share(done: u64, all: u64) -> String {
    if (1..=all).contains(&done) {
        format!("{done} of {all} steps ({} %)", 100 * done / all)
    } else {
        format!("{done} steps")
    }
}

impl Following {
    /// Begins the display; no trial has ended yet.
    pub fn new(trials: usize, figures: Figures, output: Output) -> Self {
        let template = "{spinner} [{pos}/{len} trials, {percent} %, {elapsed}, {eta} left] {msg}";
        Self {
            bar: ticking(trials, output, template),
            trials,
            origin: match figures {
                Figures::Simulated => " simulated",
                Figures::Measured => "",
            },
            output,
        }
    }

    /// Reports that a trial begins.
    pub fn trial(&self, index: usize, plan: &TrialPlan) -> TrialProgress {
        let name = plan.row.job.trial.clone();
        self.bar.set_message(name.clone());
        if !self.output.draws_progress() {
            let (number, of) = (index + 1, self.trials);
            (self.output).detail(format_args!("trial {number}/{of} {name} begins"));
        }
        let job = &plan.row.job;
        TrialProgress {
            bar: self.bar.clone(),
            name,
            output: self.output,
            steps: (job.workers * job.batches_per_worker * job.epochs) as u64,
        }
    }

    /// Reports that an earlier run finished a trial.
    pub fn skipped(&self, index: usize, plan: &TrialPlan) {
        self.bar.inc(1);
        self.line(index, plan, "already finished");
    }

    /// Reports that a trial has ended.
    pub fn ended(&self, index: usize, plan: &TrialPlan, outcome: &TrialOutcome) {
        self.bar.inc(1);
        let job = &plan.row.job;
        let learns = job.epochs * job.batches_per_worker >= FEW_STEPS;
        let accuracy = outcome.last_evaluation().filter(|_| learns);
        let accuracy = accuracy.map_or(String::new(), |(rank, evaluation)| {
            // Replicas of several workers may differ.
            let is_other = |record: &Record| {
                matches!(record, Record::Evaluated { rank: other, .. } if *other != rank)
            };
            let whose = if outcome.records.iter().any(is_other) {
                format!(" (worker {rank})")
            } else {
                String::new()
            };
            format!(", accuracy {:.1} %{whose}", 100.0 * evaluation.accuracy())
        });
        let diverged = outcome.divergence();
        let diverged = diverged.map_or(String::new(), |step| format!(", diverged: {step}"));
        let took = format!("{:.1} s{}", outcome.wall_s, self.origin);
        let result = match &outcome.failure {
            None => format!("{took}{accuracy}{diverged}"),
            Some(failure) => format!("failed after {took}: {failure}"),
        };
        self.line(index, plan, &result);
        for warning in &outcome.warnings {
            let line = || self.output.detail(format_args!("  warning: {warning}"));
            self.bar.suspend(line);
        }
    }

    /// Reports that all trials have ended.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn line(&self, index: usize, plan: &TrialPlan, text: &str) {
        let (of, name) = (self.trials, &plan.row.job.trial);
        let line = format_args!("trial {}/{of} {name}: {text}", index + 1);
        self.bar.suspend(|| self.output.message(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_a_share_as_long_as_they_are_mini_batches() {
        assert_eq!(share(6, 24), "6 of 24 steps (25 %)");
        assert_eq!(share(24, 24), "24 of 24 steps (100 %)");
        assert_eq!(share(25, 24), "25 steps");
        assert_eq!(share(0, 0), "0 steps");
    }
}
