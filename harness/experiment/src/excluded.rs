//! Claims that the file's rows could be judged by, and that options of the command
//! exclude: rows that are left out, figures that a simulation does not have.

use epochcost_spec::claims::own::{OverRows, Place};
use epochcost_spec::claims::{Claim, Metric, Quantity};
use epochcost_spec::rows::{Row, device};
use epochcost_systems::{Device, Evaluate};

use super::beside;
use super::document::Document;
use super::error::ExperimentError;
use super::{Experiment, FormName, Options};

/// Marks every claim of `experiment` that could be judged without `options`, and
/// cannot be judged with them. `file` is the experiment's document without them.
///
/// # Errors
/// When the file stands beside what its paper does not have.
pub(super) fn mark(
    experiment: &mut Experiment,
    file: Document,
    options: &Options,
) -> Result<(), ExperimentError> {
    let mut given = options.given();
    // The quick form states the verdicts that it changes.
    let other = (options.form).filter(|form| *form != FormName::Quick);
    given.extend(other.map(|form| format!("the form {}", form.as_str())));
    if given.is_empty() {
        return Ok(());
    }
    let alone = Options {
        prices: options.prices.clone(),
        form: options.form.filter(|form| other != Some(*form)),
        keeps_impossible: options.keeps_impossible,
        ..Options::default()
    };
    // A file that cannot be run by itself excludes nothing by its options.
    let Ok(mut whole) = Experiment::from_document(file, &alone) else {
        return Ok(());
    };
    beside::add(&mut whole, &alone)?;
    // What options take away, or leave no row for, is excluded, too: they say nothing else of it.
    let stated = experiment.claims.len();
    for claim in &whole.claims {
        if !experiment.claims.iter().any(|own| own.claim == claim.claim) {
            experiment.claims.push(claim.clone());
        }
    }
    let excluded: Vec<Option<String>> = (experiment.claims.iter().enumerate())
        .map(|(place, claim)| {
            obstacle(&whole, claim).is_none().then_some(())?;
            let taken_away = (place >= stated).then_some("it is left out");
            let reason = obstacle(experiment, claim).or(taken_away)?;
            Some(format!("{}: {reason}", given.join(" ")))
        })
        .collect();
    for (claim, excluded) in experiment.claims.iter_mut().zip(excluded) {
        claim.excluded = excluded;
    }
    Ok(())
}

/// Returns why no row of the experiment can have a verdict on the claim.
fn obstacle(experiment: &Experiment, claim: &Claim) -> Option<&'static str> {
    let impossible = experiment.impossible.iter().map(|row| &row.row);
    let rows: Vec<&Row> = experiment.rows.iter().chain(impossible).collect();
    if let Some(formula) = &claim.formula {
        let places = OverRows::new(formula, &rows).map(|over| over.places);
        let places = places.unwrap_or_default();
        if places.is_empty() {
            return Some("no row is left that the claim is about");
        }
        let obstacle = |place: &Place| {
            let of = |id| rows.iter().find(|row| row.id == id).map(|row| vec![*row]);
            let mut reads = place.reads().into_iter();
            reads.find_map(|(id, (metric, _))| without_figure(experiment, metric, &of(id)?))
        };
        let obstacles: Option<Vec<_>> = places.iter().map(obstacle).collect();
        return obstacles?.first().copied();
    }
    let printed = claim.printed.as_ref()?;
    let row = rows.iter().find(|row| row.id == printed.row);
    let Some(row) = row else {
        return Some("no row is left that the claim is about");
    };
    without_figure(experiment, claim.metric?, &[*row])
}

/// Returns why none of these rows has a figure.
fn without_figure(
    experiment: &Experiment,
    metric: Metric,
    selected: &[&Row],
) -> Option<&'static str> {
    let simulation = experiment.simulation.as_ref();
    if simulation.is_some_and(|simulation| !simulation.real_compute) && needs_training(metric) {
        return Some("nothing is trained in virtual time");
    }
    if let Some(simulation) = simulation
        && is_usage(metric)
    {
        let on_gpu = |row: &&Row| device(simulation, row) == Device::Cuda;
        if metric != Metric::GpuPercent {
            return Some("a simulation does not record what processes use");
        }
        if !selected.iter().any(on_gpu) {
            return Some("no simulated row computes on a GPU");
        }
    }
    let is_evaluated = |row: &&Row| row.job.evaluate != Evaluate::Never;
    if is_accuracy(metric) && !selected.iter().any(is_evaluated) {
        return Some("nothing is evaluated");
    }
    None
}

fn needs_training(metric: Metric) -> bool {
    metric.is_learned() || metric == Metric::ReplicasIdentical
}

fn is_accuracy(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Accuracy
            | Metric::ValidationAccuracy
            | Metric::ValidationLoss
            | Metric::TimeToAccuracy
    )
}

fn is_usage(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::GpuPercent
            | Metric::Stage(_, Quantity::CpuPercent)
            | Metric::Stage(_, Quantity::MemoryMb)
    )
}
