//! `summary.json`: the contract with programs that read results.

use std::collections::BTreeMap;

use epochcost_channels::Traffic;
use epochcost_record::{ComputeUsed, SchemaVersion};
use epochcost_spec::claims::{Cell, Claim, ClaimKind, Estimate, Metric, VerdictKind};
use epochcost_spec::exit::Exit;
use epochcost_spec::rows::{self, Precision, TensorStoreChoice};
use epochcost_systems::Fidelity;
use serde::{Deserialize, Serialize, Serializer};

use super::agreement::Agreement;
use super::causes::Effect;
use super::counts::Counts;
use super::warnings::Warning;

/// The version of `summary.json`.
pub const SUMMARY_VERSION: SchemaVersion = SchemaVersion { major: 4, minor: 0 };

/// A run in figures. What is not available is null, never 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The format's version.
    pub schema_version: SchemaVersion,
    /// The run.
    pub run_id: String,
    /// Platform that it ran on.
    pub platform: String,
    /// The platform profile of a simulated run.
    pub profile: Option<String>,
    /// The sentences that begin every report of the run.
    #[serde(default)]
    pub answer: Answer,
    /// Test accuracy, in 0..=1, that a claim requires.
    pub target_accuracy: Option<f64>,
    /// Claims that options of the command exclude: they have no verdict.
    #[serde(default)]
    pub excluded: Vec<Excluded>,
    /// Warnings for readers of the results, by kind.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// Number of verdicts by kind of claim and of verdict.
    pub counts: Counts,
    /// One for each system × model × setting, in the experiment's order.
    pub rows: Vec<RowSummary>,
    /// Every verdict, in the order of the claims.
    pub verdicts: Vec<Verdict>,
}

/// One row: a system under one setting, over all its trials that did not fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowSummary {
    /// Unique name inside the run.
    pub id: String,
    /// The training system.
    pub system: String,
    /// The model.
    pub model: String,
    /// The dataset.
    pub dataset: String,
    /// The description followed.
    pub fidelity: Fidelity,
    /// Precision of its matrix products; absent if `fp32`.
    #[serde(default, skip_serializing_if = "Precision::is_default")]
    pub precision: Precision,
    /// Platform that it ran on.
    pub platform: String,
    /// What served its channels, `embedded` or `real`; null of a simulation.
    pub services: Option<String>,
    /// What computed on tensors in Redis; null but of real services.
    pub tensor_store: Option<TensorStoreChoice>,
    /// Trainings that ran at once; absent if it was alone.
    #[serde(default = "rows::one", skip_serializing_if = "rows::is_one")]
    pub jobs: usize,
    /// Data-parallel replicas.
    pub workers: usize,
    /// Samples in a mini-batch.
    pub batch_size: usize,
    /// Mini-batches per worker and epoch.
    pub batches_per_worker: usize,
    /// Epochs.
    pub epochs: usize,
    /// Trials that ended, failed ones included.
    pub trials: usize,
    /// Trials that failed.
    pub failed_trials: usize,
    /// Those of them that a claim about `completed` expected to fail.
    #[serde(default, skip_serializing_if = "is_none")]
    pub failed_as_expected: usize,
    /// The limit that makes the row impossible: it has no trials and no
    /// figures.
    pub infeasible: Option<String>,
    /// Source of a simulated row's compute time.
    pub compute: Option<ComputeUsed>,
    /// Memory size of its functions; null on instances.
    pub memory_mb: Option<u32>,
    /// Every metric that its trials have, by name, per trial and in the metric's own unit.
    pub figures: BTreeMap<String, Estimate>,
    /// Invocations that the account's limits refused, over all trials that ended,
    /// failed ones included; null where nothing refuses any.
    pub throttles: Option<u64>,
    /// Failed invocations that were called again, over all trials that did not fail.
    #[serde(default)]
    pub retries: u64,
    /// Trials that did not fail and have such invocations: their times include them.
    #[serde(default)]
    pub retried_trials: usize,
    /// Trials in which a loss was not a finite number.
    #[serde(default)]
    pub diverged_trials: usize,
    /// Seconds to the first evaluation with the target accuracy; null without a
    /// target, its mean where a trial does not get there.
    pub seconds_to_target: Option<Estimate>,
    /// Cost by the paper's formula to that evaluation.
    pub cost_to_target_paper_usd: Option<f64>,
    /// Cost with everything counted to that evaluation.
    pub cost_to_target_full_usd: Option<f64>,
    /// The exchange's traffic over workers and epochs.
    pub traffic: TrafficMeans,
    /// The exchange's traffic by closed form, without the counts that depend on timing.
    pub closed_form: Option<Traffic>,
    /// Whether metered and closed form agree.
    pub traffic_matches: Option<bool>,
    /// Traffic for fetching data.
    pub dataset_traffic: TrafficMeans,
    /// Traffic of checkpoints, statistics and logs.
    pub state_traffic: TrafficMeans,
    /// Whether all replicas held the same bits after every step.
    pub replicas_identical: Option<bool>,
    /// Whether it stands for a GPU and was computed on a CPU: its seconds and dollars are
    /// not a GPU's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cpu_for_gpu: bool,
    /// Whether `cost_full_usd` holds the minimum charge of an instance, 60 s.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub instance_minimum: bool,
    /// The verdicts on this row.
    pub verdicts: Vec<Verdict>,
}

/// The sentences that begin every report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What was fastest; empty where seconds are of this machine.
    pub fastest: String,
    /// What was cheapest, and how it compares with rented instances; empty where seconds
    /// are of this machine.
    pub cheapest: String,
    /// What a run on this machine shows; over several runs, which statements of each paper
    /// hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// Which conclusions of the paper hold, do not, and cannot be told.
    pub conclusions: String,
}

/// A claim that options of the command exclude.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excluded {
    /// The claim.
    pub claim: String,
    /// The options, and why the claim cannot be judged under them.
    pub why: String,
}

impl Excluded {
    /// Returns the claim with what excludes it, if something does.
    pub fn of(claim: &Claim) -> Option<Self> {
        let why = claim.excluded.clone()?;
        Some(Self {
            claim: claim.claim.clone(),
            why,
        })
    }
}

/// Whether a count is its default, which is not written.
fn is_none(count: &usize) -> bool {
    *count == 0
}

impl RowSummary {
    /// Returns the mean of a metric; none if no trial has it.
    pub fn mean(&self, metric: Metric) -> Option<f64> {
        self.figures.get(metric.name())?.mean
    }

    /// Returns the fidelity, the precision where it is not `fp32`, and how many trainings ran at once.
    pub fn described(&self) -> String {
        let mut text = self.fidelity.as_str().to_owned();
        if self.precision != Precision::Fp32 {
            text.push_str(&format!(", {}", self.precision.name()));
        }
        if self.jobs > 1 {
            text.push_str(&format!(", {} at once", self.jobs));
        }
        text
    }

    /// Returns the number of trials that failed and were not expected to.
    pub fn surprising_failures(&self) -> usize {
        self.failed_trials.saturating_sub(self.failed_as_expected)
    }

    /// Returns how many trials ended, and how many of them in which other way than as asked.
    pub fn outcomes(&self) -> String {
        if self.infeasible.is_some() && self.failed_trials == 0 {
            return "infeasible".to_owned();
        }
        let mut text = self.trials.to_string();
        for (count, how) in [
            (self.surprising_failures(), "failed"),
            (self.failed_as_expected, "failed as expected"),
            (self.diverged_trials, "diverged"),
            (self.retried_trials, "with retries"),
        ] {
            if count > 0 {
                text.push_str(&format!(", {count} {how}"));
            }
        }
        text
    }
}

/// Mean traffic of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficMeans {
    /// Values written.
    #[serde(serialize_with = "count")]
    pub puts: Option<f64>,
    /// Values read.
    #[serde(serialize_with = "count")]
    pub gets: Option<f64>,
    /// Reads that found nothing.
    #[serde(serialize_with = "count")]
    pub missed_gets: Option<f64>,
    /// LIST requests.
    #[serde(serialize_with = "count")]
    pub lists: Option<f64>,
    /// Delete requests.
    #[serde(serialize_with = "count")]
    pub deletes: Option<f64>,
    /// Messages published.
    #[serde(serialize_with = "count")]
    pub messages: Option<f64>,
    /// Messages taken.
    #[serde(serialize_with = "count")]
    pub deliveries: Option<f64>,
    /// Queue requests that move nothing.
    #[serde(serialize_with = "count")]
    pub polls: Option<f64>,
    /// Commands computed inside the tensor store.
    #[serde(serialize_with = "count")]
    pub in_store: Option<f64>,
    /// Bytes from workers to channels.
    #[serde(serialize_with = "count")]
    pub bytes_up: Option<f64>,
    /// Bytes from channels to workers.
    #[serde(serialize_with = "count")]
    pub bytes_down: Option<f64>,
}

impl TrafficMeans {
    /// Returns the mean of the traffic of several trials; unknown without any.
    pub fn of(trials: &[Traffic]) -> Self {
        let mean = |field: fn(&Traffic) -> u64| {
            let sum: f64 = trials.iter().map(|traffic| field(traffic) as f64).sum();
            (!trials.is_empty()).then(|| sum / trials.len() as f64)
        };
        Self {
            puts: mean(|t| t.puts),
            gets: mean(|t| t.gets),
            missed_gets: mean(|t| t.missed_gets),
            lists: mean(|t| t.lists),
            deletes: mean(|t| t.deletes),
            messages: mean(|t| t.messages),
            deliveries: mean(|t| t.deliveries),
            polls: mean(|t| t.polls),
            in_store: mean(|t| t.in_store),
            bytes_up: mean(|t| t.bytes_up),
            bytes_down: mean(|t| t.bytes_down),
        }
    }
}

/// The verdict on one claim for one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The claim.
    pub claim: String,
    /// Whose statement it is.
    pub kind: ClaimKind,
    /// The claims that a consequence follows from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of: Vec<String>,
    /// What it is counted as: verdicts with the same statement are one.
    pub statement: String,
    /// The statement of the paper that it is a reading of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading_of: Option<String>,
    /// The row; null if the claim selects none.
    pub row: Option<String>,
    /// Whether the claim ranks two rows, and gives no value.
    #[serde(default)]
    pub ranking: bool,
    /// What was observed; null where nothing that is recorded is the published
    /// figure.
    pub metric: Option<Metric>,
    /// The unit of the values.
    pub unit: String,
    /// Publication.
    pub source: Option<String>,
    /// The cell of a published table, `FILE:LINE:COLUMN`.
    pub cell: Option<Cell>,
    /// The published value.
    pub published: Option<f64>,
    /// The observed value.
    pub observed: Option<f64>,
    /// 95 % interval of the observed value.
    pub observed_ci95: Option<[f64; 2]>,
    /// Observed over published.
    pub ratio: Option<f64>,
    /// Ends of the band in which the observed value is expected.
    pub band: [Option<f64>; 2],
    /// The verdict.
    pub verdict: VerdictKind,
    /// The verdict that the claim expects.
    pub expect: Option<VerdictKind>,
    /// How much likelier the published figure is if the paper is right than if it is off by a factor
    /// of two; null without a published figure, or where nothing is drawn.
    pub evidence: Option<f64>,
    /// A remark of the paper's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Agreement of a simulated ranking over draws of the profile's constants; left out of
    /// every other verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draws: Option<Agreement>,
    /// Rows of which further trials could decide it: those of a figure measured on this
    /// machine whose interval crosses an edge of the band.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undecided_rows: Vec<String>,
    /// Reason, in a sentence.
    pub reason: String,
    /// What accounts for the distance between published and observed, as far
    /// as rows of the run show it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Effect>,
}

impl Verdict {
    /// Returns the printed figure that it is on, by its cell. A paper's other claims are
    /// statements, those that give a value and those that were not run among them.
    pub fn figure(&self) -> Option<&Cell> {
        self.cell.as_ref()
    }

    /// Returns whether it is on a printed figure.
    pub fn is_on_figure(&self) -> bool {
        self.figure().is_some()
    }

    /// Returns whether it is as expected: equal to `expect` if that is given; else anything of a
    /// paper's claim, and anything but "fails" of others.
    pub fn holds(&self) -> bool {
        match self.expect {
            Some(kind) => kind == self.verdict,
            None => self.verdict != VerdictKind::Fails,
        }
    }
}

impl Summary {
    /// Returns how a run with these results ends: [`Exit::Failed`] if a trial
    /// failed that no claim expected to fail, or a verdict is not as expected.
    pub fn exit_status(&self) -> Exit {
        let failed = (self.rows.iter()).any(|row| row.surprising_failures() > 0);
        if failed || self.verdicts.iter().any(|verdict| !verdict.holds()) {
            Exit::Failed
        } else {
            Exit::Done
        }
    }
}

/// Writes a mean of counts, as a whole number if it is one.
fn count<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    /// Largest value up to which every whole number is an f64.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match *value {
        Some(value) if value.fract() == 0.0 && (0.0..=EXACT).contains(&value) => {
            serializer.serialize_some(&(value as u64))
        }
        Some(value) => serializer.serialize_some(&value),
        None => serializer.serialize_none(),
    }
}
