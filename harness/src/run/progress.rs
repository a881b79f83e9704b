//! Progress of trials: bars on a terminal, lines anywhere else.

use std::sync::Arc;
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

/// Progress of the draws of a run's rows.
pub struct DrawProgress {
    bar: ProgressBar,
    output: Output,
}

impl DrawProgress {
    /// Begins the display: `draws` in all, of every row that rankings compare.
    pub fn new(draws: usize, output: Output) -> Self {
        let bar = ticking(
            draws,
            output,
            "{spinner} [{pos}/{len} draws, {elapsed}] {msg}",
        );
        Self { bar, output }
    }

    /// Reports that the draws of `row` begin.
    pub fn row(&self, row: &str) {
        self.bar.set_message(row.to_owned());
    }

    /// Returns a bar that counts draws from any thread.
    pub fn counter(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// Reports that a row's draws have ended, in `seconds`, or lie there already.
    pub fn ended(&self, row: &str, draws: u32, seconds: Option<f64>) {
        let text = match seconds {
            Some(seconds) => format!("{draws} draws of {row}: {seconds:.1} s"),
            None => format!("{draws} draws of {row}: already finished"),
        };
        self.bar.suspend(|| self.output.detail(text));
    }

    /// Reports that all draws have ended.
    pub fn finish(&self, rows: usize, draws: u32, seconds: f64) {
        self.bar.finish_and_clear();
        self.output.message(format_args!(
            "rankings are judged over {draws} draws of the profile's constants: {rows} rows, \
             {seconds:.1} s"
        ));
    }
}

/// Returns a bar over `length` things that is drawn again and again.
fn ticking(length: usize, output: Output, template: &str) -> ProgressBar {
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
        self.bar
            .set_message(format!("{}: {}", self.name, share(done, self.steps)));
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
        let bar = ticking(
            trials,
            output,
            "{spinner} [{pos}/{len} trials, {percent} %, {elapsed}, {eta} left] {msg}",
        );
        Self {
            bar,
            trials,
            origin: match figures {
                Figures::Simulated => " simulated",
                Figures::Measured => "",
            },
            output,
        }
    }

    /// Reports that a trial begins.
    pub fn trial(&self, index: usize, plan: &TrialPlan) -> Arc<TrialProgress> {
        let name = plan.row.job.trial.clone();
        self.bar.set_message(name.clone());
        if !self.output.draws_progress() {
            self.output.detail(format_args!(
                "trial {}/{} {name} begins",
                index + 1,
                self.trials
            ));
        }
        let job = &plan.row.job;
        Arc::new(TrialProgress {
            bar: self.bar.clone(),
            name,
            output: self.output,
            steps: (job.workers * job.batches_per_worker * job.epochs) as u64,
        })
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
        let result = match &outcome.failure {
            None => format!("{:.1} s{}{accuracy}{diverged}", outcome.wall_s, self.origin),
            Some(failure) => format!(
                "failed after {:.1} s{}: {failure}",
                outcome.wall_s, self.origin
            ),
        };
        self.line(index, plan, &result);
        for warning in &outcome.warnings {
            self.print(|| self.output.detail(format_args!("  warning: {warning}")));
        }
    }

    /// Reports that all trials have ended.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn line(&self, index: usize, plan: &TrialPlan, text: &str) {
        let (of, name) = (self.trials, &plan.row.job.trial);
        self.print(|| {
            self.output
                .message(format_args!("trial {}/{of} {name}: {text}", index + 1))
        });
    }

    /// Prints above the bar.
    fn print(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
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
