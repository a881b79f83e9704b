//! The figures that claims can be about, their units and what they depend on.

use serde::{Deserialize, Serialize};

/// A figure of a row that a claim can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Wall seconds of an epoch.
    SecondsPerEpoch,
    /// Seconds of fetching data, a worker an epoch.
    FetchDataset,
    /// Seconds of computing gradients, a worker an epoch.
    ComputeGradients,
    /// Seconds of synchronising, a worker an epoch.
    Synchronise,
    /// Seconds of updating the model, a worker an epoch.
    UpdateModel,
    /// Seconds of detecting convergence, a worker an epoch.
    DetectConvergence,
    /// Seconds of turning gradients into bytes and back, a worker an epoch.
    Serialise,
    /// Seconds of sending, a worker an epoch.
    Put,
    /// Seconds of waiting for others, a worker an epoch.
    Wait,
    /// Seconds of fetching what others sent, a worker an epoch.
    Get,
    /// Seconds of reducing, a worker an epoch.
    Aggregate,
    /// Seconds of computing one mini-batch's gradients.
    ComputeGradientsPerBatch,
    /// Seconds of averaging a worker's own gradients, a worker an epoch: the
    /// function `average_gradients` without its waiting for others.
    GradientAveraging,
    /// Seconds of the function `update_model`, a worker an epoch.
    ModelUpdate,
    /// Seconds of a mini-batch: the mean duration of the functions that each
    /// compute one, or an epoch's seconds over its mini-batches.
    SecondsPerBatch,
    /// `seconds_per_batch` times the mini-batches of an epoch, as if they ran
    /// one after another.
    TotalSeconds,
    /// Seconds from the first step to the end of the first evaluation that
    /// reaches the claim's `target`.
    TimeToAccuracy,
    /// Billed milliseconds of a trial.
    BilledMs,
    /// CPU time of computing gradients over its wall time, percent of a core.
    ComputeGradientsCpuPercent,
    /// The same of sending.
    PutCpuPercent,
    /// The same of fetching what others sent.
    GetCpuPercent,
    /// The same of updating the model.
    UpdateModelCpuPercent,
    /// The same of detecting convergence.
    DetectConvergenceCpuPercent,
    /// Resident memory behind computing gradients, MB: the most of a step, a
    /// mean over steps.
    ComputeGradientsMemoryMb,
    /// The same of sending.
    PutMemoryMb,
    /// The same of fetching what others sent.
    GetMemoryMb,
    /// The same of updating the model.
    UpdateModelMemoryMb,
    /// The same of detecting convergence.
    DetectConvergenceMemoryMb,
    /// By how many epochs the gradients of others that a step used were older
    /// than it: a mean over steps.
    Staleness,
    /// Peak resident memory of an invocation, MB.
    PeakMemoryMb,
    /// Cost of a trial by the paper's formula, USD.
    CostPaperUsd,
    /// Cost of a trial with everything counted, USD.
    CostFullUsd,
    /// Cost of one mini-batch's function by the paper's formula, USD.
    CostPerFunctionUsd,
    /// Cost of a worker's mini-batches, or of its instance, an epoch, USD.
    CostPerWorkerUsd,
    /// The same of all workers, USD.
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
    /// 1 if replicas were bit-identical, else 0.
    ReplicasIdentical,
    /// 1 if the metered exchange equals the system's closed form, else 0.
    TrafficMatches,
}

impl Metric {
    /// The unit of its values; empty for shares and counts.
    pub fn unit(self) -> &'static str {
        match self {
            Self::SecondsPerEpoch
            | Self::FetchDataset
            | Self::ComputeGradients
            | Self::Synchronise
            | Self::UpdateModel
            | Self::DetectConvergence
            | Self::Serialise
            | Self::Put
            | Self::Wait
            | Self::Get
            | Self::Aggregate
            | Self::ComputeGradientsPerBatch
            | Self::GradientAveraging
            | Self::ModelUpdate
            | Self::SecondsPerBatch
            | Self::TotalSeconds
            | Self::TimeToAccuracy => "s",
            Self::BilledMs => "ms",
            Self::PeakMemoryMb
            | Self::ComputeGradientsMemoryMb
            | Self::PutMemoryMb
            | Self::GetMemoryMb
            | Self::UpdateModelMemoryMb
            | Self::DetectConvergenceMemoryMb => "MB",
            Self::ComputeGradientsCpuPercent
            | Self::PutCpuPercent
            | Self::GetCpuPercent
            | Self::UpdateModelCpuPercent
            | Self::DetectConvergenceCpuPercent => "%",
            Self::Staleness => "epochs",
            Self::CostPaperUsd
            | Self::CostFullUsd
            | Self::CostPerFunctionUsd
            | Self::CostPerWorkerUsd
            | Self::TotalCostUsd => "USD",
            Self::BytesUp | Self::BytesDown | Self::Bytes => "bytes",
            Self::Puts
            | Self::Gets
            | Self::Messages
            | Self::TrainLoss
            | Self::Accuracy
            | Self::ReplicasIdentical
            | Self::TrafficMatches => "",
        }
    }

    /// The units that its values can be given in, its own first, with what a
    /// value is multiplied by.
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
            _ if self == Self::Accuracy => &[("", 1.0), ("%", 100.0)],
            _ => &[("", 1.0)],
        }
    }

    /// Whether it is a time, or computed from one: such a figure belongs to
    /// the machine and network on which it was taken.
    pub fn is_timed(self) -> bool {
        matches!(self.unit(), "s" | "ms" | "USD" | "%" | "epochs")
    }

    /// Whether a simulation takes it, or part of it, from a compute profile.
    /// Every time but those of functions that compute no gradient is counted
    /// here: workers that compute make others wait.
    pub fn stands_on_compute(self) -> bool {
        let computes = !matches!(self, Self::GradientAveraging | Self::ModelUpdate);
        (self.is_timed() && computes) || self == Self::PeakMemoryMb
    }

    /// Whether it depends on what the data holds, beyond its size.
    pub fn is_learned(self) -> bool {
        matches!(
            self,
            Self::TrainLoss | Self::Accuracy | Self::TimeToAccuracy
        )
    }
}

/// From a metric's own unit to that of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// A value is multiplied by this,
    factor: f64,
    /// and this is added.
    offset: f64,
}

impl Scale {
    /// Leaves values as they are.
    pub const NONE: Self = Self {
        factor: 1.0,
        offset: 0.0,
    };

    /// From `metric`'s own unit to `unit`; none if there is no way.
    pub fn of_metric(metric: Metric, unit: &str) -> Option<Self> {
        let mut units = metric.units().iter();
        units
            .find(|(name, _)| *name == unit)
            .map(|&(_, factor)| Self {
                factor,
                offset: 0.0,
            })
    }

    /// From a ratio to `unit`, `×` or `% less`; none for another.
    pub fn of_ratio(unit: &str) -> Option<Self> {
        match unit {
            "×" => Some(Self::NONE),
            "% less" => Some(Self {
                factor: -100.0,
                offset: 100.0,
            }),
            _ => None,
        }
    }

    /// A value in the other unit.
    pub fn apply(self, value: f64) -> f64 {
        self.factor * value + self.offset
    }

    /// An interval's ends in the other unit, the lower one first.
    pub fn interval(self, [low, high]: [f64; 2]) -> [f64; 2] {
        let ends = [self.apply(low), self.apply(high)];
        match self.factor < 0.0 {
            true => [ends[1], ends[0]],
            false => ends,
        }
    }
}

/// The units of a ratio: itself, and by how many percent it is below 1.
pub const RATIO_UNITS: [&str; 2] = ["×", "% less"];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn units_are_converted_and_others_refused() {
        let minutes = Scale::of_metric(Metric::TimeToAccuracy, "min").unwrap();
        assert!((minutes.apply(90.0) - 1.5).abs() < 1e-12);
        let percent = Scale::of_metric(Metric::Accuracy, "%").unwrap();
        assert!((percent.apply(0.832) - 83.2).abs() < 1e-12);
        assert_eq!(Scale::of_metric(Metric::Puts, "%"), None);
        assert_eq!(Scale::of_metric(Metric::TrainLoss, "s"), None);
    }

    #[test]
    fn a_share_that_is_saved_turns_an_interval_around() {
        let saved = Scale::of_ratio("% less").unwrap();
        assert!((saved.apply(0.0266) - 97.34).abs() < 1e-9);
        assert_eq!(saved.interval([0.25, 0.5]), [50.0, 75.0]);
        assert_eq!(Scale::of_ratio("s"), None);
    }
}
