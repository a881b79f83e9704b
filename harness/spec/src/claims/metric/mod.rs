//! The figures that claims can be about: name, unit, and where reports show
//! them. How each is read from a trial is in `analysis::figures`;
//! `docs/adding-a-metric.md` goes through all of it with one metric.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use epochcost_systems::Stage;
use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};

/// A figure of a row that a claim can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Wall time of an epoch.
    SecondsPerEpoch,
    /// Time, CPU or memory of one stage.
    Stage(Stage, Quantity),
    /// Time of synchronising, all five parts: seconds per worker and epoch.
    Synchronise,
    /// Time of computing one mini-batch's gradients.
    ComputeGradientsPerBatch,
    /// Time of averaging a worker's own gradients, seconds per worker and
    /// epoch: the function `average_gradients` without its waiting for others.
    GradientAveraging,
    /// Time of the function `update_model`, seconds per worker and epoch.
    ModelUpdate,
    /// Time of a mini-batch: the mean duration of the functions that each
    /// compute one, or an epoch's seconds over its mini-batches.
    SecondsPerBatch,
    /// `seconds_per_batch` times the mini-batches of an epoch, as if they ran
    /// one after another.
    TotalSeconds,
    /// Time from the first step to the end of the first evaluation that
    /// reaches the claim's `target`.
    TimeToAccuracy,
    /// Billed time of a trial.
    BilledMs,
    /// Epochs by which the gradients of others that a step used were older
    /// than the step: a mean over steps.
    Staleness,
    /// Share of the time in which a GPU computed, by its driver: a mean over
    /// samples and workers.
    GpuPercent,
    /// Peak resident memory of a sandbox, or of the process of an instance.
    PeakMemoryMb,
    /// Peak resident memory of a function's sandbox: instances are left out.
    FunctionPeakMemoryMb,
    /// Cost of a trial by the paper's cost model.
    CostPaperUsd,
    /// Cost of a trial by the full cost model.
    CostFullUsd,
    /// Cost of one mini-batch's function by the paper's cost model.
    CostPerFunctionUsd,
    /// Cost of a worker's mini-batches, or of its instance, per epoch.
    CostPerWorkerUsd,
    /// Cost of all workers, per epoch.
    TotalCostUsd,
    /// Values written in the exchange.
    Puts,
    /// Values read in the exchange.
    Gets,
    /// Messages published in the exchange.
    Messages,
    /// Bytes sent in the exchange.
    BytesUp,
    /// Bytes received in the exchange.
    BytesDown,
    /// Bytes sent and received in the exchange.
    Bytes,
    /// Mean training loss of the last epoch.
    TrainLoss,
    /// Test accuracy after the last epoch, in 0..=1.
    Accuracy,
    /// Accuracy on the validation split after the last epoch, in 0..=1.
    ValidationAccuracy,
    /// Mean loss on the validation split after the last epoch.
    ValidationLoss,
    /// Whether replicas were bit-identical: 1 or 0.
    ReplicasIdentical,
    /// Whether the metered exchange equals the system's closed form: 1 or 0.
    TrafficMatches,
    /// Failed invocations that were called again.
    Retries,
    /// Whether a loss was not a finite number: 1 or 0.
    Diverged,
    /// Whether a trial ended with a model: 1 or 0. The one metric of which trials that
    /// failed are a part.
    Completed,
}

/// What is recorded of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// Wall time, seconds per worker and epoch.
    Seconds,
    /// CPU time over wall time, percent of a core.
    CpuPercent,
    /// Resident memory behind the stage, MB: the most of a step, a mean over
    /// steps.
    MemoryMb,
}

/// A column of the table of rows.
#[derive(Clone, Copy, Debug)]
pub struct MetricColumn {
    /// The metric that it shows.
    pub metric: Metric,
    /// The heading.
    pub title: &'static str,
    /// The heading in a terminal.
    pub short: &'static str,
    /// Rank in a terminal: columns of the lowest are left out first where it is too narrow.
    pub keep: u8,
    /// How its values are written.
    pub format: Format,
}

/// How a metric's values are written in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A number without a unit.
    Number,
    /// Whole megabytes.
    Megabytes,
    /// Bytes in the unit that suits their size.
    Bytes,
    /// A share, written in percent.
    Percent,
}

/// The metrics of the report's table of rows, in the order of its columns, behind seconds and
/// cost.
pub const COLUMNS: [MetricColumn; 6] = [
    column(COMPUTE, ["compute seconds", "compute s"], 5, Format::Number),
    column(
        Metric::Synchronise,
        ["synchronise seconds", "sync s"],
        6,
        Format::Number,
    ),
    column(
        Metric::PeakMemoryMb,
        ["peak memory", "memory"],
        2,
        Format::Megabytes,
    ),
    column(Metric::Bytes, ["exchanged", "exchanged"], 7, Format::Bytes),
    column(Metric::TrainLoss, ["train loss", "loss"], 2, Format::Number),
    column(
        Metric::Accuracy,
        ["accuracy", "accuracy"],
        8,
        Format::Percent,
    ),
];

const COMPUTE: Metric = Metric::Stage(Stage::ComputeGradients, Quantity::Seconds);

/// The metrics that `epochcost compare` compares, in the order in which it
/// shows them. Each one more widens the intervals of all others.
pub const COMPARED: [Metric; 10] = [
    Metric::SecondsPerEpoch,
    Metric::CostPaperUsd,
    Metric::CostFullUsd,
    Metric::PeakMemoryMb,
    Metric::Bytes,
    Metric::Puts,
    Metric::Gets,
    Metric::Messages,
    Metric::TrainLoss,
    Metric::Accuracy,
];

impl Metric {
    /// Every metric that a claim can name, in the order in which errors list
    /// them. CPU and memory are those of Barrak et al. 2023 (P2P), Table I.
    pub const ALL: [Self; 52] = [
        Self::SecondsPerEpoch,
        Self::Stage(Stage::FetchDataset, Quantity::Seconds),
        Self::Stage(Stage::ComputeGradients, Quantity::Seconds),
        Self::Synchronise,
        Self::Stage(Stage::UpdateModel, Quantity::Seconds),
        Self::Stage(Stage::DetectConvergence, Quantity::Seconds),
        Self::Stage(Stage::Serialise, Quantity::Seconds),
        Self::Stage(Stage::Put, Quantity::Seconds),
        Self::Stage(Stage::Wait, Quantity::Seconds),
        Self::Stage(Stage::Get, Quantity::Seconds),
        Self::Stage(Stage::Aggregate, Quantity::Seconds),
        Self::ComputeGradientsPerBatch,
        Self::GradientAveraging,
        Self::ModelUpdate,
        Self::SecondsPerBatch,
        Self::TotalSeconds,
        Self::TimeToAccuracy,
        Self::BilledMs,
        Self::Stage(Stage::ComputeGradients, Quantity::CpuPercent),
        Self::Stage(Stage::Put, Quantity::CpuPercent),
        Self::Stage(Stage::Get, Quantity::CpuPercent),
        Self::Stage(Stage::UpdateModel, Quantity::CpuPercent),
        Self::Stage(Stage::DetectConvergence, Quantity::CpuPercent),
        Self::Stage(Stage::ComputeGradients, Quantity::MemoryMb),
        Self::Stage(Stage::Put, Quantity::MemoryMb),
        Self::Stage(Stage::Get, Quantity::MemoryMb),
        Self::Stage(Stage::UpdateModel, Quantity::MemoryMb),
        Self::Stage(Stage::DetectConvergence, Quantity::MemoryMb),
        Self::Staleness,
        Self::GpuPercent,
        Self::PeakMemoryMb,
        Self::FunctionPeakMemoryMb,
        Self::CostPaperUsd,
        Self::CostFullUsd,
        Self::CostPerFunctionUsd,
        Self::CostPerWorkerUsd,
        Self::TotalCostUsd,
        Self::Puts,
        Self::Gets,
        Self::Messages,
        Self::BytesUp,
        Self::BytesDown,
        Self::Bytes,
        Self::TrainLoss,
        Self::Accuracy,
        Self::ValidationAccuracy,
        Self::ValidationLoss,
        Self::ReplicasIdentical,
        Self::TrafficMatches,
        Self::Retries,
        Self::Diverged,
        Self::Completed,
    ];

    /// Returns its name in claims and results, and the unit of its values:
    /// one line per metric.
    const fn name_and_unit(self) -> (&'static str, &'static str) {
        match self {
            Self::SecondsPerEpoch => ("seconds_per_epoch", "s"),
            Self::Stage(stage, Quantity::Seconds) => (stage_names(stage)[0], "s"),
            Self::Stage(stage, Quantity::CpuPercent) => (stage_names(stage)[1], "%"),
            Self::Stage(stage, Quantity::MemoryMb) => (stage_names(stage)[2], "MB"),
            Self::Synchronise => ("synchronise", "s"),
            Self::ComputeGradientsPerBatch => ("compute_gradients_per_batch", "s"),
            Self::GradientAveraging => ("gradient_averaging", "s"),
            Self::ModelUpdate => ("model_update", "s"),
            Self::SecondsPerBatch => ("seconds_per_batch", "s"),
            Self::TotalSeconds => ("total_seconds", "s"),
            Self::TimeToAccuracy => ("time_to_accuracy", "s"),
            Self::BilledMs => ("billed_ms", "ms"),
            Self::Staleness => ("staleness", "epochs"),
            Self::GpuPercent => ("gpu_percent", "%"),
            Self::PeakMemoryMb => ("peak_memory_mb", "MB"),
            Self::FunctionPeakMemoryMb => ("function_peak_memory_mb", "MB"),
            Self::CostPaperUsd => ("cost_paper_usd", "USD"),
            Self::CostFullUsd => ("cost_full_usd", "USD"),
            Self::CostPerFunctionUsd => ("cost_per_function_usd", "USD"),
            Self::CostPerWorkerUsd => ("cost_per_worker_usd", "USD"),
            Self::TotalCostUsd => ("total_cost_usd", "USD"),
            Self::Puts => ("puts", ""),
            Self::Gets => ("gets", ""),
            Self::Messages => ("messages", ""),
            Self::BytesUp => ("bytes_up", "bytes"),
            Self::BytesDown => ("bytes_down", "bytes"),
            Self::Bytes => ("bytes", "bytes"),
            Self::TrainLoss => ("train_loss", ""),
            Self::Accuracy => ("accuracy", ""),
            Self::ValidationAccuracy => ("validation_accuracy", ""),
            Self::ValidationLoss => ("validation_loss", ""),
            Self::ReplicasIdentical => ("replicas_identical", ""),
            Self::TrafficMatches => ("traffic_matches", ""),
            Self::Retries => ("retries", ""),
            Self::Diverged => ("diverged", ""),
            Self::Completed => ("completed", ""),
        }
    }

    /// Returns the metric of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Returns its name in claims and results.
    pub const fn name(self) -> &'static str {
        self.name_and_unit().0
    }

    /// Returns the unit of its values; empty for shares and counts.
    pub const fn unit(self) -> &'static str {
        self.name_and_unit().1
    }

    /// Returns the units that its values can be given in, its own first, each
    /// with the factor by which a value is multiplied.
    pub fn units(self) -> &'static [(&'static str, f64)] {
        match self.unit() {
            "s" => &[
                ("s", 1.0),
                ("ms", 1e3),
                ("min", 1.0 / 60.0),
                ("h", 1.0 / 3600.0),
            ],
            "ms" => &[("ms", 1.0), ("s", 1e-3)],
            "MB" => &[("MB", 1.0), ("GB", 1e-3)],
            "USD" => &[("USD", 1.0)],
            "bytes" => &[("bytes", 1.0), ("kB", 1e-3), ("MB", 1e-6), ("GB", 1e-9)],
            "%" => &[("%", 1.0)],
            "epochs" => &[("epochs", 1.0)],
            _ if matches!(self, Self::Accuracy | Self::ValidationAccuracy) => {
                &[("", 1.0), ("%", 100.0)]
            }
            _ => &[("", 1.0)],
        }
    }

    /// Whether it is a time, or computed from one: such a figure belongs to
    /// the machine and network on which it was taken.
    pub fn is_timed(self) -> bool {
        matches!(self.unit(), "s" | "ms" | "USD" | "%" | "epochs")
    }

    /// Whether it belongs to the machine and the programs that it was taken
    /// with: a time, a cost, a use of the processor or memory.
    pub fn is_of_machine(self) -> bool {
        self.is_timed() || self.unit() == "MB"
    }

    /// Whether it is the share of a processor that a stage got, which whatever else runs
    /// on the machine changes.
    pub fn is_share_of_processor(self) -> bool {
        matches!(self, Self::Stage(_, Quantity::CpuPercent))
    }

    /// Whether it is the memory behind a stage.
    pub fn is_memory_of_stage(self) -> bool {
        matches!(self, Self::Stage(_, Quantity::MemoryMb))
    }

    /// Whether a simulation takes it, or part of it, from a compute profile.
    /// Every time but those of functions that compute no gradient is counted
    /// here: workers that compute make others wait.
    pub fn stands_on_compute(self) -> bool {
        let computes = !matches!(self, Self::GradientAveraging | Self::ModelUpdate);
        let holds_a_step = matches!(self, Self::PeakMemoryMb | Self::FunctionPeakMemoryMb);
        (self.is_timed() && computes) || holds_a_step
    }

    /// Whether it depends on what the data holds, beyond its size.
    pub fn is_learned(self) -> bool {
        matches!(
            self,
            Self::TrainLoss
                | Self::Accuracy
                | Self::ValidationAccuracy
                | Self::ValidationLoss
                | Self::TimeToAccuracy
                | Self::Diverged
        )
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| Metric::ALL.map(Metric::name).into());
        let name = String::deserialize(deserializer)?;
        Self::named(&name).ok_or_else(|| de::Error::unknown_variant(&name, &NAMES))
    }
}

const fn column(
    metric: Metric,
    [title, short]: [&'static str; 2],
    keep: u8,
    format: Format,
) -> MetricColumn {
    MetricColumn {
        metric,
        title,
        short,
        keep,
        format,
    }
}

/// Returns the names of a stage's seconds, CPU and memory.
const fn stage_names(stage: Stage) -> [&'static str; 3] {
    macro_rules! names {
        ($stage:literal) => {
            [
                $stage,
                concat!($stage, "_cpu_percent"),
                concat!($stage, "_memory_mb"),
            ]
        };
    }
    match stage {
        Stage::FetchDataset => names!("fetch_dataset"),
        Stage::ComputeGradients => names!("compute_gradients"),
        Stage::Serialise => names!("serialise"),
        Stage::Put => names!("put"),
        Stage::Wait => names!("wait"),
        Stage::Get => names!("get"),
        Stage::Aggregate => names!("aggregate"),
        Stage::UpdateModel => names!("update_model"),
        Stage::DetectConvergence => names!("detect_convergence"),
    }
}
