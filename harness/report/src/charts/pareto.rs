//! Time against cost, with what was published and what nothing gets below.

use epochcost_judge::analysis::headline;
use epochcost_judge::analysis::summary::Verdict;
use epochcost_judge::analysis::titles::model_title;
use epochcost_judge::analysis::{TrialAnalysis, epochs_are_alike, samples_per_epoch};
use epochcost_platform::{Site, site_of};
use epochcost_spec::claims::{Estimate, Metric};
use epochcost_spec::format;
use epochcost_spec::metering::Invocation;
use epochcost_systems::{Host, find};

use super::{Chart, Labelled};
use crate::chart::{LowerBound, Mark, Scatter};
use crate::provenance::Provenance;

/// Most lower bounds that are drawn: more would hide the points.
const MOST_BOUNDS: usize = 4;

/// What the seconds and dollars of the chart are for: rows are compared by work that
/// is alike.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Basis {
    /// An epoch, of as many samples in every row.
    Epoch,
    /// A thousand samples, where epochs differ.
    Samples,
    /// The first evaluation with this accuracy.
    Target(f64),
}

impl Basis {
    fn of(rows: &[Labelled<'_>], target: Option<f64>) -> Self {
        match target {
            Some(target) => Self::Target(target),
            None if epochs_are_alike(rows.iter().map(|labelled| labelled.row)) => Self::Epoch,
            None => Self::Samples,
        }
    }

    /// Returns it in words, behind "of" or "to".
    fn words(self) -> String {
        match self {
            Self::Epoch => "of an epoch".into(),
            Self::Samples => "of 1,000 samples".into(),
            Self::Target(target) => format!("to {} accuracy", format::goal(target)),
        }
    }

    /// Returns what an epoch is multiplied by.
    fn per_epoch(self, labelled: &Labelled<'_>) -> f64 {
        match self {
            Self::Samples => 1000.0 / samples_per_epoch(labelled.row),
            Self::Epoch | Self::Target(_) => 1.0,
        }
    }
}

/// Draws cost against wall seconds, both for the same work in every row, under a title.
pub(super) fn time_against_cost(
    rows: &[Labelled<'_>],
    verdicts: &[Verdict],
    platform: &str,
    target: Option<f64>,
    title: &str,
) -> Option<Chart> {
    let provenance = Provenance::of_platform(platform);
    let basis = Basis::of(rows, target);
    // Points of this run and published ones, and what bounds them. What was published
    // is an epoch's.
    let observed = (rows.iter()).filter_map(|row| observed(row, provenance, basis));
    let mut marks: Vec<Mark> = observed.collect();
    let reached = marks.len();
    let mut lower_bounds = Vec::new();
    if basis == Basis::Epoch {
        marks.extend(rows.iter().filter_map(|row| published(row, verdicts)));
        lower_bounds = self::lower_bounds(rows);
    }
    // Caption, with what published seconds add up to.
    let has = [marks.len() > reached, !lower_bounds.is_empty()];
    let mut caption = caption(platform, provenance, has);
    if basis == Basis::Samples {
        caption.push_str(
            " Epochs of these rows differ in length, so that 1,000 samples are compared.",
        );
    }
    if matches!(basis, Basis::Target(_)) && reached < rows.len() {
        let others = rows.len() - reached;
        let words = "rows did not reach the accuracy in every trial, and are left out.";
        caption.push_str(&format!(" {others} {words}"));
    }
    if rows.iter().any(|row| adds_up_seconds(row, verdicts)) {
        caption.push_str(
            " Published seconds that add up functions which ran at once are left out: those are \
             no time.",
        );
    }
    let words = basis.words();
    let seconds = match provenance {
        Provenance::Simulated => "simulated seconds",
        _ => "wall seconds",
    };
    let drawn = Scatter {
        id: "time-cost",
        label: &format!("Cost {words} against its seconds, on logarithmic axes"),
        x: (&format!("{seconds} {words} (log)"), format::seconds),
        y: (&format!("cost {words}, USD (log)"), format::usd),
        marks,
        lower_bounds,
        has_frontier: site_of(platform) != Some(Site::ThisMachine),
    };
    Some(Chart {
        name: headline::NAME.to_owned(),
        ..drawn.chart(title, caption)?
    })
}

fn observed(labelled: &Labelled<'_>, provenance: Provenance, basis: Basis) -> Option<Mark> {
    let mean = |metric| labelled.row.estimate(metric).mean;
    let factor = basis.per_epoch(labelled);
    let epochs = labelled.row.planned.row.job.epochs as f64;
    let (x, y, y_to) = match basis {
        Basis::Target(target) => (
            labelled.row.seconds_to(target).mean?,
            labelled.row.usd_to(target).mean?,
            labelled.row.paper_usd_to(target).mean,
        ),
        Basis::Epoch | Basis::Samples => (
            mean(Metric::SecondsPerEpoch)? * factor,
            mean(Metric::CostFullUsd)? / epochs * factor,
            mean(Metric::CostPaperUsd).map(|usd| usd / epochs * factor),
        ),
    };
    Some(mark(labelled, provenance, [x, y], y_to))
}

/// Returns a row's point.
fn mark(
    labelled: &Labelled<'_>,
    provenance: Provenance,
    [x, y]: [f64; 2],
    y_to: Option<f64>,
) -> Mark {
    Mark {
        name: labelled.name.to_owned(),
        system: labelled.system.clone(),
        look: labelled.look,
        provenance,
        x,
        y,
        y_to,
    }
}

/// Returns the published point that a row is compared with, where both of its figures
/// are published: as this run defines them, or as the comparison paper adds
/// them up.
fn published(labelled: &Labelled<'_>, verdicts: &[Verdict]) -> Option<Mark> {
    let row = &labelled.row.planned.row;
    let published = |metric| published_for(verdicts, &row.id, metric);
    let added_up = || published(Metric::TotalSeconds).filter(|_| !runs_at_once(labelled));
    let seconds = published(Metric::SecondsPerEpoch).or_else(added_up);
    let of_trial = published(Metric::CostPaperUsd).map(|usd| usd / row.job.epochs as f64);
    let at = [seconds?, of_trial.or(published(Metric::TotalCostUsd))?];
    Some(mark(labelled, Provenance::Published, at, None))
}

/// Whether a sum of a row's mini-batches is longer than its epoch: some ran at once.
fn runs_at_once(labelled: &Labelled<'_>) -> bool {
    let mean = |metric| labelled.row.estimate(metric).mean;
    let both = mean(Metric::TotalSeconds).zip(mean(Metric::SecondsPerEpoch));
    both.is_some_and(|(sum, epoch)| sum > 1.05 * epoch)
}

/// Whether a row's published seconds are such a sum alone.
fn adds_up_seconds(labelled: &Labelled<'_>, verdicts: &[Verdict]) -> bool {
    let row = &labelled.row.planned.row.id;
    let published = |metric| published_for(verdicts, row, metric).is_some();
    published(Metric::TotalSeconds) && !published(Metric::SecondsPerEpoch) && runs_at_once(labelled)
}

/// Returns the published value that a row is compared with, if it is one of its own
/// and not a ratio, in the metric's own unit.
fn published_for(verdicts: &[Verdict], row: &str, metric: Metric) -> Option<f64> {
    let is_its = |verdict: &&Verdict| {
        let is_row = verdict.row.as_deref() == Some(row);
        is_row && verdict.metric == Some(metric) && verdict.unit == metric.unit()
    };
    verdicts.iter().find(is_its)?.published
}

/// Returns the cost of an epoch's gradients alone, in the cheapest of the rows
/// that compute the same ones on the same kind of host.
fn lower_bounds(rows: &[Labelled<'_>]) -> Vec<LowerBound> {
    // The least cost of each kind of work.
    let mut groups: Vec<(Work<'_>, f64)> = Vec::new();
    for labelled in rows {
        let Some(usd) = gradients_usd(labelled).filter(|usd| *usd > 0.0) else {
            continue;
        };
        let work = Work::of(labelled);
        match groups.iter_mut().find(|(known, _)| *known == work) {
            Some((_, least)) => *least = least.min(usd),
            None => groups.push((work, usd)),
        }
    }
    if groups.len() > MOST_BOUNDS {
        return Vec::new();
    }
    // Names hold what distinguishes the bounds from each other.
    let differs = |part: fn(&Work<'_>) -> String| {
        let first = groups.first().map(|(work, _)| part(work));
        groups.iter().any(|(work, _)| Some(part(work)) != first)
    };
    let parts: [fn(&Work<'_>) -> String; 3] = [
        |work| model_title(work.model),
        |work| format!("W={}", work.workers),
        |work| format!("{} × {}", work.batches, work.batch_size),
    ];
    let distinguishing: Vec<_> = parts.into_iter().filter(|part| differs(*part)).collect();
    let bound = |(work, y): &(Work<'_>, f64)| {
        let parts = (distinguishing.iter()).map(|part| format!(", {}", part(work)));
        let (host, parts, usd) = (work.host(), parts.collect::<String>(), format::usd(*y));
        let name = format!("lower bound on {host}: computing only, no exchange{parts}: {usd}");
        LowerBound { name, y: *y }
    };
    groups.iter().map(bound).collect()
}

/// Returns the part of the cost per epoch, by the paper's cost model, that paid
/// for computing gradients.
fn gradients_usd(labelled: &Labelled<'_>) -> Option<f64> {
    let system = find(&labelled.row.planned.row.job.system)?;
    let deployment = system.deployment();
    if deployment.runs_on(Host::Function) && deployment.runs_on(Host::Instance) {
        // Its workers pay for the wait for their functions, too.
        return None;
    }
    let epochs = labelled.row.planned.row.job.epochs as f64;
    let usd = |trial: &TrialAnalysis| {
        let charged_s = |call: &Invocation| call.duration_ms / 1e3 * call.alike as f64;
        let charged_s: f64 = trial.invocations.iter().map(charged_s).sum();
        let share = trial.seconds.compute_gradients / charged_s;
        (charged_s > 0.0).then(|| trial.paper.total_usd() * share.min(1.0) / epochs)
    };
    let each: Vec<f64> = labelled.row.succeeded().filter_map(usd).collect();
    Estimate::of(&each).mean
}

/// What gradients are computed of, and where.
#[derive(PartialEq)]
struct Work<'a> {
    host: Host,
    model: &'a str,
    workers: usize,
    batches: usize,
    batch_size: usize,
}

impl<'a> Work<'a> {
    fn of(labelled: &Labelled<'a>) -> Self {
        let job = &labelled.row.planned.row.job;
        Self {
            host: if labelled.row.on_functions() {
                Host::Function
            } else {
                Host::Instance
            },
            model: &job.model,
            workers: job.workers,
            batches: job.batches_per_worker,
            batch_size: job.batch_size,
        }
    }

    fn host(&self) -> &'static str {
        match self.host {
            Host::Function => "functions",
            Host::Instance => "instances",
        }
    }
}

fn caption(platform: &str, provenance: Provenance, [published, bounded]: [bool; 2]) -> String {
    let is_here = site_of(platform) == Some(Site::ThisMachine);
    let mut caption = "A point is the cost with everything billed; the line from it ends at the \
                       cost by the paper's formula."
        .to_owned();
    caption.push_str(if is_here {
        " Seconds are of this machine, and dollars follow from them: the chart ranks nothing."
    } else {
        " Down and left is better. A dashed step, where there is one, is the Pareto frontier: \
         nothing of this run is both faster and cheaper."
    });
    if bounded {
        caption.push_str(
            " Dotted lines are lower bounds: the cost of computing alone in the cheapest row, without \
             any exchange.",
        );
    }
    if published {
        caption.push_str(match provenance {
            Provenance::Simulated => {
                " Hollow points with a whole edge are published, with a dotted one simulated; \
                 arrows lead from published costs to those simulated by the same formula."
            }
            _ => {
                " Hollow points are published, not measured; arrows lead from published costs to \
                 those measured by the same formula."
            }
        });
    }
    match site_of(platform) {
        Some(Site::ThisMachine) => caption.push_str(" Local durations at list prices."),
        Some(Site::VirtualTime) => caption.push_str(" Simulated durations at list prices."),
        Some(Site::Cloud(_)) | None => {}
    }
    caption
}
