//! Rows that do the same work, and may be compared by their seconds and dollars.

use epochcost_systems::{Device, Host};

use super::{RowAnalysis, TrialAnalysis};
use crate::claims::{Estimate, Metric};
use crate::cost::{EC2_MINIMUM_S, LineItem, instances::gpus};
use crate::format;

/// Share by which the samples of an epoch may differ: what does not fill a batch
/// is left out, and depends on the number of workers.
const SAME: f64 = 0.05;

/// Rows with the same model, data and work.
pub(super) struct Setting {
    /// What distinguishes it from the other settings of the run.
    pub name: String,
    /// Rows that have figures.
    pub contenders: Vec<Contender>,
    /// Rows that did not reach the target accuracy.
    pub left_out: usize,
    /// Rows that were computed on a CPU in place of their GPU: they are compared with none.
    pub on_cpu: usize,
    target: Option<f64>,
}

/// A row with what it takes for the work.
#[derive(Clone)]
pub(super) struct Contender {
    /// The row's name in reports, without the model: it is that of the setting.
    pub name: String,
    /// Seconds per epoch, or to the target.
    pub seconds: Estimate,
    /// Seconds by number of trial.
    pub times: Vec<(usize, f64)>,
    /// Dollars per epoch, or to the target, with everything billed.
    pub usd: Estimate,
    /// Whether gradients are computed on functions.
    pub on_functions: bool,
    /// Whether the dollars hold the minimum charge of an instance.
    pub holds_minimum: bool,
    /// Trials that did not fail.
    pub trials: usize,
}

impl Setting {
    /// Returns whether several rows do this work.
    pub fn is_compared(&self) -> bool {
        self.contenders.len() > 1
    }

    /// Returns what the figures are for, "per epoch" or "to 80.0 % accuracy".
    pub fn basis(&self) -> String {
        match self.target {
            Some(target) => format!("to {} accuracy", format::goal(target)),
            None => "per epoch".into(),
        }
    }

    /// Returns the rows, the fastest first.
    pub fn by_seconds(&self) -> Vec<Contender> {
        let mut order = self.contenders.clone();
        let key = |row: &Contender| row.seconds.mean.unwrap_or(f64::INFINITY);
        order.sort_by(|a, b| key(a).total_cmp(&key(b)));
        order
    }

    /// Returns the fastest row.
    pub fn fastest(&self) -> Option<Contender> {
        self.by_seconds().into_iter().next()
    }

    /// Returns the cheapest row.
    pub fn cheapest(&self) -> Option<Contender> {
        least(self.contenders.iter())
    }

    /// Returns the cheapest row on functions, or on rented instances.
    pub fn cheapest_on(&self, functions: bool) -> Option<Contender> {
        let rows = self.contenders.iter();
        least(rows.filter(|row| row.on_functions == functions))
    }
}

fn least<'r>(rows: impl Iterator<Item = &'r Contender>) -> Option<Contender> {
    let usd = |row: &Contender| row.usd.mean.unwrap_or(f64::INFINITY);
    rows.min_by(|a, b| usd(a).total_cmp(&usd(b))).cloned()
}

/// Returns the run's settings, in the order of its rows. With a target, the work
/// is to reach it; else, it is an epoch of as many samples.
pub(super) fn settings(
    rows: &[RowAnalysis],
    names: &[String],
    target: Option<f64>,
) -> Vec<Setting> {
    let mut groups: Vec<(Work<'_>, Setting)> = Vec::new();
    for (row, name) in rows.iter().zip(names) {
        let work = Work::of(row, target);
        let place = groups.iter().position(|(known, _)| known.is_same(&work));
        let place = place.unwrap_or_else(|| {
            groups.push((
                work,
                Setting {
                    name: String::new(),
                    contenders: Vec::new(),
                    left_out: 0,
                    on_cpu: 0,
                    target,
                },
            ));
            groups.len() - 1
        });
        let setting = &mut groups[place].1;
        match contender(row, name, target) {
            Some(_) if is_cpu_for_gpu(row) => setting.on_cpu += 1,
            Some(contender) => setting.contenders.push(contender),
            None => setting.left_out += usize::from(row.succeeded().count() > 0),
        }
    }
    name_settings(&mut groups);
    groups
        .into_iter()
        .map(|(_, setting)| setting)
        .filter(|setting| !setting.contenders.is_empty())
        .collect()
}

/// Beginning of the warning of a worker that computed on a CPU in place of the job's GPU.
const FELL_BACK: &str = "gradients were computed on the CPU";

/// Returns whether a row stands for a GPU, by its device or its instance type, and was
/// computed on a CPU.
pub(super) fn is_cpu_for_gpu(row: &RowAnalysis) -> bool {
    let (plan, job) = (&row.planned.row, &row.planned.row.job);
    let is_gpus =
        job.device == Device::Cuda || (!row.on_functions() && gpus(&plan.instance_type) > 0);
    let mut warnings = row.succeeded().flat_map(|trial| &trial.trial.warnings);
    let fell_back = match &row.planned.compute {
        Some(used) => used.device == Device::Cpu,
        None => job.device == Device::Cpu || warnings.any(|text| text.contains(FELL_BACK)),
    };
    is_gpus && fell_back && row.succeeded().count() > 0
}

/// Returns whether the full bill of a trial of this row holds the minimum charge of an
/// instance.
pub(super) fn holds_minimum(row: &RowAnalysis) -> bool {
    let mut trials = row.succeeded();
    trials.any(|trial| {
        let calls = trial.invocations.iter();
        let mut workers = calls.filter(|call| call.host == Host::Instance);
        let is_short = |seconds: f64| seconds < EC2_MINIMUM_S;
        let mut items = trial.full.items.iter();
        workers.any(|call| is_short(call.billed_ms as f64 / 1e3))
            || (is_short(trial.trial.wall_s) && items.any(LineItem::is_instance))
    })
}

/// Returns whether all rows with figures do the same work per epoch.
pub fn epochs_are_alike<'a>(rows: impl Iterator<Item = &'a RowAnalysis>) -> bool {
    let mut samples = rows
        .filter(|row| row.succeeded().count() > 0)
        .map(samples_per_epoch);
    let Some(first) = samples.next() else {
        return true;
    };
    samples.all(|one| is_close(one, first))
}

/// Returns the samples that a row trains on in an epoch.
pub fn samples_per_epoch(row: &RowAnalysis) -> f64 {
    let job = &row.planned.row.job;
    (job.workers * job.batches_per_worker * job.batch_size) as f64
}

/// What rows have in common that do the same work.
struct Work<'a> {
    model: &'a str,
    dataset: &'a str,
    /// Samples of an epoch; none where the work is to reach a target.
    samples: Option<f64>,
}

impl<'a> Work<'a> {
    fn of(row: &'a RowAnalysis, target: Option<f64>) -> Self {
        let job = &row.planned.row.job;
        Self {
            model: &job.model,
            dataset: &job.data.dataset,
            samples: target.is_none().then(|| samples_per_epoch(row)),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        let is_close = match (self.samples, other.samples) {
            (Some(a), Some(b)) => is_close(a, b),
            _ => true,
        };
        is_close && (self.model, self.dataset) == (other.model, other.dataset)
    }
}

fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= SAME * a.max(b)
}

/// Names each setting by what differs between them.
fn name_settings(groups: &mut [(Work<'_>, Setting)]) {
    let parts: [fn(&Work<'_>) -> String; 3] = [
        |work| work.model.to_owned(),
        |work| work.dataset.to_owned(),
        |work| {
            let samples = work.samples.unwrap_or(0.0);
            format!("{} samples per epoch", format::count(samples))
        },
    ];
    let differs: Vec<bool> = (parts.iter())
        .map(|part| {
            let first = groups.first().map(|(work, _)| part(work));
            groups.iter().any(|(work, _)| Some(part(work)) != first)
        })
        .collect();
    for (work, setting) in groups {
        let parts = parts.iter().zip(&differs);
        let named: Vec<String> = parts
            .filter(|(_, differs)| **differs)
            .map(|(part, _)| part(work))
            .collect();
        setting.name = named.join(", ");
    }
}

/// Returns a row's figures; nothing without them, or without the target.
fn contender(row: &RowAnalysis, name: &str, target: Option<f64>) -> Option<Contender> {
    let job = &row.planned.row.job;
    let seconds_of = |trial: &TrialAnalysis| match target {
        Some(target) => trial.time_to_accuracy(target),
        None => trial.metric(Metric::SecondsPerEpoch, job),
    };
    let (seconds, usd) = match target {
        Some(target) => (row.seconds_to(target), row.usd_to(target)),
        None => {
            let usd = row.estimate(Metric::CostFullUsd);
            let epochs = job.epochs as f64;
            let per_epoch = Estimate {
                mean: usd.mean.map(|usd| usd / epochs),
                ci95: usd.ci95.map(|ends| ends.map(|end| end / epochs)),
                n: usd.n,
            };
            (row.estimate(Metric::SecondsPerEpoch), per_epoch)
        }
    };
    seconds.mean?;
    let times = row.succeeded();
    Some(Contender {
        name: name.replace(&format!(" · {}", job.model), ""),
        seconds,
        times: times
            .filter_map(|trial| Some((trial.trial.id.trial, seconds_of(trial)?)))
            .collect(),
        usd,
        on_functions: row.on_functions(),
        holds_minimum: holds_minimum(row),
        trials: row.succeeded().count(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worker is another program: nothing but its text says that it fell back.
    #[test]
    fn the_worker_warns_in_these_words() {
        let worker = include_str!("../../../workloads/worker/src/compute/mod.rs");
        assert!(worker.contains(&format!("\"{FELL_BACK} in fp32")));
    }
}
