//! Rows that do the same work, and may be compared by their seconds and dollars.

use std::collections::BTreeSet;

use epochcost_spec::claims::{Estimate, Metric, VerdictKind, ratio};
use epochcost_spec::cost::{EC2_MINIMUM_S, LineItem, instances::gpus};
use epochcost_spec::format;
use epochcost_systems::{Device, Host};

use super::agreement::{self, Agreement};
use super::titles::model_title;
use super::{RowAnalysis, TrialAnalysis};

/// Share by which the samples of an epoch may differ: what does not fill a batch
/// is left out, and depends on the number of workers.
const SAME: f64 = 0.05;

/// Times the accuracy of guessing up to which nothing was learned.
const GUESSING: f64 = 2.0;

/// A ratio from which on a figure is more than slightly larger: below, two rows tie.
pub const SLIGHTLY: f64 = 1.005;

/// What rows are compared by, in the order in which they have it.
#[derive(Clone, Copy)]
pub(super) enum By {
    /// Seconds per epoch, or to the target.
    Seconds,
    /// Dollars for them, with everything billed.
    Usd,
}

/// Rows with the same model, data and work.
#[derive(Default)]
pub(super) struct Setting {
    /// What distinguishes it from the other settings of the run.
    pub name: String,
    /// Rows that have figures.
    pub contenders: Vec<Contender>,
    /// Rows that did not reach the target accuracy or, without one, guess.
    pub left_out: usize,
    /// Rows that were computed on a CPU in place of their GPU: they are compared with none.
    pub on_cpu: usize,
    /// The accuracy that is to be reached.
    pub target: Option<f64>,
}

/// A row with what it takes for the work.
pub(super) struct Contender {
    /// The row's name in reports, without the model: it is that of the setting.
    pub name: String,
    /// Seconds per epoch, or to the target.
    pub seconds: Estimate,
    /// Dollars per epoch, or to the target, with everything billed.
    pub usd: Estimate,
    /// Seconds, and dollars, by number of trial.
    by_trial: [Vec<(usize, f64)>; 2],
    /// Seconds, and dollars in proportion, by draw of a simulation's constants; empty without.
    drawn: [Vec<Option<f64>>; 2],
    /// Whether gradients are computed on functions.
    pub on_functions: bool,
    /// What they are computed on: "functions", or "4 × g4dn.xlarge".
    pub host: String,
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

    /// Returns the rows with such a figure, the best first.
    pub fn order(&self, by: By) -> Vec<&Contender> {
        let rows = self.contenders.iter();
        let mut order: Vec<_> = rows.filter_map(|row| Some((row.mean(by)?, row))).collect();
        order.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        order.into_iter().map(|(_, row)| row).collect()
    }

    /// Returns the best row, then the rows that tie with it.
    pub fn best(&self, by: By) -> Vec<&Contender> {
        let order = self.order(by);
        let Some((&best, rest)) = order.split_first() else {
            return Vec::new();
        };
        let tied = rest.iter().copied().filter(|row| best.ties(row, by));
        std::iter::once(best).chain(tied).collect()
    }

    /// Returns the cheapest row on functions, or on rented instances.
    pub fn cheapest_on(&self, functions: bool) -> Option<&Contender> {
        let mut order = self.order(By::Usd).into_iter();
        order.find(|row| row.on_functions == functions)
    }
}

impl Contender {
    fn mean(&self, by: By) -> Option<f64> {
        match by {
            By::Seconds => self.seconds.mean,
            By::Usd => self.usd.mean,
        }
    }

    /// Returns whether this row's lead over another is none: it is slight, not one of every
    /// trial, or not one of most draws of a simulation's constants.
    fn ties(&self, other: &Self, by: By) -> bool {
        let [own, others] = [self, other].map(|row| &row.by_trial[by as usize]);
        let pairs = others.iter().filter_map(|(trial, value)| {
            let own = own.iter().find(|(known, _)| known == trial)?;
            Some((*value, own.1))
        });
        let apart = ratio::paired(&pairs.collect::<Vec<_>>());
        let is_slight = apart.mean.is_some_and(|ratio| ratio < SLIGHTLY);
        let is_chance = apart.ci95.is_some_and(|[low, _]| low <= 1.0);
        is_slight || is_chance || !self.leads_in_draws(other, by)
    }

    /// Returns whether it leads in so many draws that a ranking would agree; without draws, it
    /// does.
    fn leads_in_draws(&self, other: &Self, by: By) -> bool {
        let [own, others] = [self, other].map(|row| &row.drawn[by as usize]);
        if own.is_empty() || own.len() != others.len() {
            return true;
        }
        let draws = own.iter().zip(others);
        let found = draws.map(|(own, other)| Some((own.as_ref()? < other.as_ref()?, None)));
        Agreement::over(found).kind() == VerdictKind::Agrees
    }
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
            let setting = Setting {
                target,
                ..Setting::default()
            };
            groups.push((work, setting));
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
    let mut settings: Vec<Setting> = groups.into_iter().map(|(_, setting)| setting).collect();
    settings.retain(|setting| !setting.contenders.is_empty());
    settings
}

/// Returns whether a row was trained in a simulation and is, at its end, hardly better than
/// guessing among the classes of its data.
pub(super) fn guesses(row: &RowAnalysis) -> bool {
    let job = &row.planned.row.job;
    let Ok(data) = epochcost_datasets::find(&job.data.dataset) else {
        return false;
    };
    let accuracy = row.estimate(Metric::Accuracy).mean;
    row.planned.compute.is_some()
        && accuracy.is_some_and(|accuracy| accuracy * f64::from(data.classes) <= GUESSING)
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
        let is_short = |seconds: f64, minimum_s| seconds < minimum_s;
        let mut items = trial.full.items.iter();
        workers.any(|call| is_short(call.billed_ms as f64 / 1e3, trial.minimum_s))
            || (is_short(trial.trial.wall_s, EC2_MINIMUM_S) && items.any(LineItem::is_instance))
    })
}

/// Returns whether all rows with figures do the same work per epoch.
pub fn epochs_are_alike<'a>(rows: impl Iterator<Item = &'a RowAnalysis>) -> bool {
    let rows = rows.filter(|row| row.succeeded().count() > 0);
    let mut samples = rows.map(samples_per_epoch);
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
    /// Samples of an epoch, and epochs, over which a start is spread; none where the work is to reach
    /// a target.
    epochs: Option<(f64, usize)>,
}

impl<'a> Work<'a> {
    fn of(row: &'a RowAnalysis, target: Option<f64>) -> Self {
        let job = &row.planned.row.job;
        Self {
            model: &job.model,
            dataset: &job.data.dataset,
            epochs: (target.is_none()).then(|| (samples_per_epoch(row), job.epochs)),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        let is_alike = match (self.epochs, other.epochs) {
            (Some((a, epochs)), Some((b, others))) => is_close(a, b) && epochs == others,
            _ => true,
        };
        is_alike && (self.model, self.dataset) == (other.model, other.dataset)
    }
}

fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= SAME * a.max(b)
}

/// Names each setting by what differs between them.
fn name_settings(groups: &mut [(Work<'_>, Setting)]) {
    let parts: [fn(&Work<'_>) -> String; 4] = [
        |work| model_title(work.model),
        |work| work.dataset.to_owned(),
        |work| {
            let (samples, _) = work.epochs.unwrap_or_default();
            format!("{} samples per epoch", format::count(samples))
        },
        |work| match work.epochs {
            Some((_, 1)) => "1 epoch".to_owned(),
            Some((_, epochs)) => format!("{epochs} epochs"),
            None => String::new(),
        },
    ];
    let differs = |part: &fn(&Work<'_>) -> String| {
        let first = groups.first().map(|(work, _)| part(work));
        groups.iter().any(|(work, _)| Some(part(work)) != first)
    };
    let parts: Vec<_> = parts.into_iter().filter(differs).collect();
    for (work, setting) in groups {
        let named: Vec<String> = parts.iter().map(|part| part(work)).collect();
        setting.name = named.join(", ");
    }
}

/// Returns what a row's gradients are computed on.
fn host(row: &RowAnalysis) -> String {
    if row.on_functions() {
        return "functions".to_owned();
    }
    let ranks = row.succeeded().flat_map(|trial| &trial.invocations);
    let ranks = ranks.filter(|call| call.host == Host::Instance);
    let count = ranks.map(|call| call.rank).collect::<BTreeSet<_>>().len();
    format!("{count} × {}", row.planned.row.instance_type)
}

/// Returns a row's figures; nothing without them, without the target, or of a row that guesses.
fn contender(row: &RowAnalysis, name: &str, target: Option<f64>) -> Option<Contender> {
    if target.is_none() && guesses(row) {
        return None;
    }
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
    let usd_of = |trial: &TrialAnalysis| match target {
        Some(target) => Some(trial.reached(target)?.full_usd),
        None => Some(trial.metric(Metric::CostFullUsd, job)? / job.epochs as f64),
    };
    // Rows of as many epochs are compared: their whole dollars are in the same order.
    let drawn = match target {
        Some(_) => [Some((Metric::TimeToAccuracy, target)), None],
        None => [Metric::SecondsPerEpoch, Metric::CostFullUsd].map(|metric| Some((metric, None))),
    };
    let by_trial = |of: &dyn Fn(&TrialAnalysis) -> Option<f64>| {
        let numbered = |trial: &TrialAnalysis| Some((trial.trial.id.trial, of(trial)?));
        row.succeeded().filter_map(numbered).collect()
    };
    Some(Contender {
        name: name.replace(&format!(" · {}", model_title(&job.model)), ""),
        seconds,
        by_trial: [by_trial(&seconds_of), by_trial(&usd_of)],
        drawn: drawn.map(|figure| {
            let values = figure.and_then(|figure| agreement::values(row, figure).ok());
            values.unwrap_or_default().to_vec()
        }),
        usd,
        on_functions: row.on_functions(),
        host: host(row),
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
        let worker = include_str!("../../../../workloads/worker/src/compute/mod.rs");
        assert!(worker.contains(&format!("\"{FELL_BACK} in fp32")));
    }

    /// A row with these seconds and dollars, which are its draws' too, but for some of the seconds.
    fn row(name: &str, seconds: f64, usd: f64, drawn: Vec<f64>) -> Contender {
        let drawn = drawn.into_iter().map(Some).collect();
        Contender {
            name: name.to_owned(),
            seconds: Estimate::of(&[seconds]),
            usd: Estimate::of(&[usd]),
            by_trial: [vec![(0, seconds)], vec![(0, usd)]],
            drawn: [drawn, Vec::new()],
            on_functions: true,
            host: "functions".to_owned(),
            holds_minimum: false,
            trials: 1,
        }
    }

    fn best(rows: Vec<Contender>, by: By) -> Vec<String> {
        let setting = Setting {
            contenders: rows,
            ..Setting::default()
        };
        let best = setting.best(by);
        best.iter().map(|row| row.name.clone()).collect()
    }

    #[test]
    fn a_lead_is_one_of_most_draws_and_not_slight() {
        // "b" is ahead in `lost` of 100 draws.
        let drawn = |lost: usize| {
            let behind = (0..100).map(|draw| if draw < lost { 1.0 } else { 3.0 });
            vec![
                row("b", 2.1, 1.004, behind.collect()),
                row("a", 2.0, 1.0, vec![2.0; 100]),
            ]
        };
        assert_eq!(best(drawn(5), By::Seconds), ["a"]);
        assert_eq!(best(drawn(6), By::Seconds), ["a", "b"]);
        // No dollars were drawn, and a lead of 0.4 % is slight.
        assert_eq!(best(drawn(0), By::Usd), ["a", "b"]);
    }
}
