//! Comparison of two runs of the same rows: what changed from the first to the
//! second.
//!
//! A difference is called one only where the whole interval of the ratio lies
//! beyond a threshold, and the intervals hold together: over all rows and
//! metrics of a comparison, the chance that any of them misses is at most one
//! in twenty (Bonferroni). What varies from run to run of one machine by less
//! than the threshold is thereby no difference.

mod guard;
mod judge;

use std::collections::BTreeMap;

use epochcost_record::RunDirectory;
use epochcost_spec::claims::{COMPARED, Metric};
use judge::{Known, decided};
use serde::Serialize;

use super::{Analysis, RowAnalysis};

/// The chance that a comparison of two equal runs is wrong anywhere.
pub const ERROR_RATE: f64 = 0.05;

/// The change of a metric from one run to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The change is within the threshold, or none where trials repeat exactly.
    Same,
    /// The second run has less.
    Less,
    /// The second run has more.
    More,
    /// The trials do not decide it.
    Undecided,
    /// The two figures are not of the same thing.
    NotComparable,
}

/// The way in which the trials of a run repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// Measured trials, which vary.
    Measured,
    /// Simulated trials with the constants as stated: all are alike.
    Exactly,
    /// Simulated trials, each with constants drawn by its seed.
    Sampled,
}

/// Rules that separate changes from chance.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Ratios between 1/(1 + threshold) and 1 + threshold are no difference.
    pub threshold: f64,
    /// Repetition of the trials.
    pub repeats: Repeats,
}

/// One trial's figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// The trial's seed: in two runs, the same work.
    pub seed: u64,
    /// The figure.
    pub value: f64,
}

/// The figures of one row of one run.
#[derive(Clone, Debug, Default)]
pub struct RowFigures {
    /// The row's id.
    pub id: String,
    /// Figures by metric, of the trials that did not fail.
    pub figures: Vec<(Metric, Vec<Value>)>,
}

/// Reasons why figures cannot be compared, and notes for readers.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Why times, costs and memory are not of the same thing.
    pub timed: Option<String>,
    /// Why those of single rows are not, by row id.
    pub timed_rows: BTreeMap<String, String>,
    /// Why costs and counts of single rows, which are of whole trials, are not.
    pub total_rows: BTreeMap<String, String>,
    /// Why losses and accuracies are not.
    pub learned: Option<String>,
    /// Notes on what else differs.
    pub notes: Vec<String>,
    /// Settings that differ, by row id.
    pub settings: Vec<(String, Vec<String>)>,
}

impl Guard {
    /// Returns why a metric of a row is not of the same thing.
    fn why_unlike(&self, row: &str, metric: Metric) -> Option<&str> {
        let timed = self.timed.as_ref().or_else(|| self.timed_rows.get(row));
        let why = timed.filter(|_| metric.is_of_machine());
        let why = why.or(self.learned.as_ref().filter(|_| metric.is_learned()));
        let total = self.total_rows.get(row);
        why.or(total.filter(|_| is_of_whole_trial(metric)))
            .map(String::as_str)
    }
}

/// Whether a metric grows with the number of epochs.
fn is_of_whole_trial(metric: Metric) -> bool {
    use Metric::{Bytes, CostFullUsd, CostPaperUsd, Gets, Messages, Puts};
    let totals = [CostPaperUsd, CostFullUsd, Bytes, Puts, Gets, Messages];
    totals.contains(&metric)
}

/// Two runs, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Rows that both runs have.
    pub rows: Vec<RowComparison>,
    /// Rows that only the first run has.
    pub only_before: Vec<String>,
    /// Rows that only the second run has.
    pub only_after: Vec<String>,
    /// Notes for readers.
    pub notes: Vec<String>,
    /// Number of ratios that were decided by their interval.
    pub intervals: usize,
    /// Coverage probability of each of these intervals, so that all cover with
    /// 0.95.
    pub confidence: f64,
}

/// One row, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowComparison {
    /// The row's id.
    pub id: String,
    /// Settings that differ between the runs.
    pub settings: Vec<String>,
    /// Every metric that a trial of either run has.
    pub metrics: Vec<MetricComparison>,
}

/// One metric of one row, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricComparison {
    /// The metric.
    pub metric: Metric,
    /// Unit.
    pub unit: &'static str,
    /// Mean of the first run's trials.
    pub before: Option<f64>,
    /// Mean of the second run's trials.
    pub after: Option<f64>,
    /// Trials of both runs.
    pub trials: [usize; 2],
    /// The second mean over the first.
    pub ratio: Option<f64>,
    /// Interval, at the comparison's confidence.
    pub interval: Option<[f64; 2]>,
    /// Outcome.
    pub change: Change,
    /// Word for the change.
    pub word: &'static str,
    /// Reason, and what to do about it.
    pub reason: String,
}

impl Change {
    /// Returns the word for it, for that metric.
    pub fn word(self, metric: Metric) -> &'static str {
        let [less, more] = match (metric.unit(), metric.is_learned()) {
            ("s" | "ms", _) => ["faster", "slower"],
            ("USD", _) => ["cheaper", "costlier"],
            (_, true) => ["lower", "higher"],
            _ => ["less", "more"],
        };
        match self {
            Self::Same => "same",
            Self::Less => less,
            Self::More => more,
            Self::Undecided => "undecided",
            Self::NotComparable => "not comparable",
        }
    }
}

impl RowFigures {
    fn of(row: &RowAnalysis) -> Self {
        let figures = COMPARED.map(|metric| {
            let values = row.values(metric).into_iter();
            let values = values.map(|(trial, value)| Value {
                seed: trial.trial.seed,
                value,
            });
            (metric, values.collect())
        });
        Self {
            id: row.planned.row.id.clone(),
            figures: figures.into(),
        }
    }

    fn of_metric(&self, metric: Metric) -> &[Value] {
        let found = self.figures.iter().find(|(own, _)| *own == metric);
        found.map_or(&[], |(_, values)| values)
    }
}

impl Comparison {
    /// Compares two analysed runs.
    pub fn of_runs([before, after]: [(&RunDirectory, &Analysis); 2], threshold: f64) -> Self {
        let rules = Rules {
            threshold,
            repeats: guard::repeats(before.0.manifest(), after.0.manifest()),
        };
        let figures = |analysis: &Analysis| -> Vec<RowFigures> {
            analysis.rows.iter().map(RowFigures::of).collect()
        };
        let guard = guard::guard(before, after);
        Self::of(&figures(before.1), &figures(after.1), &guard, rules)
    }

    /// Compares the rows that both sides have.
    pub fn of(before: &[RowFigures], after: &[RowFigures], guard: &Guard, rules: Rules) -> Self {
        // What can be decided without intervals.
        let of = |row: &RowFigures| after.iter().find(|other| other.id == row.id);
        let pairs = before.iter().filter_map(|row| Some((row, of(row)?)));
        let pairs: Vec<(&RowFigures, &RowFigures)> = pairs.collect();
        let known = |pair: &(&RowFigures, &RowFigures)| known(pair.0, pair.1, guard, rules);
        let known: Vec<Vec<(Metric, Option<Known>)>> = pairs.iter().map(known).collect();
        // The confidence of each interval, so that all hold together (Bonferroni).
        let all = known.iter().flatten();
        let intervals = all.filter(|(_, known)| known.is_none()).count();
        let confidence = 1.0 - ERROR_RATE / intervals.max(1) as f64;
        // Every metric of every row, decided.
        let rows = pairs.iter().zip(known).map(|((before, after), known)| {
            let metrics = known.into_iter().map(|(metric, known)| {
                let values = [before.of_metric(metric), after.of_metric(metric)];
                decided(known, metric, values, rules, confidence)
            });
            let settings = guard.settings.iter().find(|(id, _)| *id == before.id);
            RowComparison {
                id: before.id.clone(),
                settings: settings.map_or_else(Vec::new, |(_, settings)| settings.clone()),
                metrics: metrics.collect(),
            }
        });
        Self {
            rows: rows.collect(),
            only_before: lacking(before, after),
            only_after: lacking(after, before),
            notes: guard.notes.clone(),
            intervals,
            confidence,
        }
    }

    /// Returns how many metrics have that word, for each word in use.
    pub fn counts(&self) -> Vec<(&'static str, usize)> {
        let mut counts: Vec<(&'static str, usize)> = Vec::new();
        for metric in self.rows.iter().flat_map(|row| &row.metrics) {
            match counts.iter_mut().find(|(word, _)| *word == metric.word) {
                Some((_, count)) => *count += 1,
                None => counts.push((metric.word, 1)),
            }
        }
        counts
    }
}

/// Returns what can be concluded of each metric before the number of intervals is
/// known.
fn known(
    before: &RowFigures,
    after: &RowFigures,
    guard: &Guard,
    rules: Rules,
) -> Vec<(Metric, Option<Known>)> {
    let known = |metric| {
        let values = [before.of_metric(metric), after.of_metric(metric)];
        let has_some = values.iter().any(|values| !values.is_empty());
        let unlike = guard.why_unlike(&before.id, metric);
        has_some.then(|| (metric, Known::of(metric, values, unlike, rules)))
    };
    COMPARED.into_iter().filter_map(known).collect()
}

/// Returns the ids of rows of `of` that `from` does not have.
fn lacking(of: &[RowFigures], from: &[RowFigures]) -> Vec<String> {
    let is_lacking = |row: &&RowFigures| !from.iter().any(|other| other.id == row.id);
    let lacking = of.iter().filter(is_lacking);
    lacking.map(|row| row.id.clone()).collect()
}
