//! How each metric is read from a trial's figures.

use epochcost_spec::claims::{Metric, Quantity};
use epochcost_systems::Job;

use super::columns::machine_epochs;
use super::trial::{TrialAnalysis, seconds_per_epoch};

impl TrialAnalysis {
    /// Returns the value of `metric` in its own unit; none if the trial does
    /// not have it. `docs/METHODOLOGY.md` defines every one.
    pub fn metric(&self, metric: Metric, job: &Job) -> Option<f64> {
        let stepped = !self.epochs.is_empty();
        let per_worker_epoch = |seconds: f64| stepped.then(|| seconds / machine_epochs(job));
        let count = |count: u64| stepped.then_some(count as f64);
        let function = |name: &str| self.functions.get(name);
        let exchange = self.exchange();
        match metric {
            // Time, CPU and memory by stage.
            Metric::Stage(stage, Quantity::Seconds) => per_worker_epoch(self.seconds.of(stage)),
            Metric::Stage(stage, Quantity::CpuPercent) => self.usage.cpu_percent(stage),
            Metric::Stage(stage, Quantity::MemoryMb) => self.usage.memory_mb(stage),
            Metric::Synchronise => per_worker_epoch(self.seconds.synchronise()),
            Metric::ComputeGradientsPerBatch => {
                per_worker_epoch(self.seconds.compute_gradients / job.batches_per_worker as f64)
            }
            // Other times.
            Metric::SecondsPerEpoch => seconds_per_epoch(&self.epochs),
            Metric::GradientAveraging => function("average_gradients")
                .and_then(|seconds| per_worker_epoch(seconds.total() - seconds.wait)),
            Metric::ModelUpdate => {
                function("update_model").and_then(|seconds| per_worker_epoch(seconds.total()))
            }
            Metric::SecondsPerBatch => self.columns.seconds_per_batch,
            Metric::TotalSeconds => self.columns.total_seconds,
            // The accuracy to reach stands in the claim, not in the metric.
            Metric::TimeToAccuracy => None,
            Metric::Staleness => self.staleness,
            // Usage and costs.
            Metric::GpuPercent => self.gpu_percent(),
            Metric::BilledMs => self.billed_ms(),
            Metric::PeakMemoryMb => self.peak_memory_mb().map(f64::from),
            Metric::FunctionPeakMemoryMb => self.function_peak_memory_mb().map(f64::from),
            Metric::CostPaperUsd => self.billed_ms().map(|_| self.paper.total_usd()),
            Metric::CostFullUsd => self.billed_ms().map(|_| self.full.total_usd()),
            Metric::CostPerFunctionUsd => self.columns.cost_per_function_usd,
            Metric::CostPerWorkerUsd => self.columns.cost_per_worker_usd,
            Metric::TotalCostUsd => self.columns.total_cost_usd,
            // Traffic of the exchange.
            Metric::Puts => count(exchange.puts),
            Metric::Gets => count(exchange.gets),
            Metric::Messages => count(exchange.messages),
            Metric::BytesUp => count(exchange.bytes_up),
            Metric::BytesDown => count(exchange.bytes_down),
            Metric::Bytes => count(exchange.bytes_up + exchange.bytes_down),
            Metric::TrafficMatches => self.traffic_matches.map(f64::from),
            // Outcome.
            Metric::Retries => (!self.invocations.is_empty()).then(|| self.retries() as f64),
            Metric::Diverged => self.diverged().map(f64::from),
            Metric::Completed => Some(f64::from(self.trial.failure.is_none())),
            // Learning.
            Metric::TrainLoss => self.epochs.last().and_then(|epoch| epoch.train_loss),
            Metric::Accuracy => self.epochs.iter().rev().find_map(|epoch| epoch.accuracy),
            Metric::ValidationAccuracy => self.validation().map(|found| found.accuracy()),
            Metric::ValidationLoss => self.validation().map(|found| found.loss),
            Metric::ReplicasIdentical => self.replicas_identical.map(f64::from),
        }
    }
}
