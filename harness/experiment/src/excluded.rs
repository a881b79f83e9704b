//! Claims that the file's rows could be judged by, and that options of the command
//! exclude: rows that are left out, figures that a simulation does not have.

use epochcost_spec::claims::own::{OverRows, Place};
use epochcost_spec::claims::{Claim, Metric};
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
            let of = |id| rows.iter().find(|row| row.id == id);
            let mut reads = place.reads().into_iter();
            reads.find_map(|(id, (metric, _))| without_figure(experiment, metric, of(id)?))
        };
        let obstacles: Option<Vec<_>> = places.iter().map(obstacle).collect();
        return obstacles?.first().copied();
    }
    let printed = claim.printed.as_ref()?;
    match rows.iter().find(|row| row.id == printed.row) {
        Some(row) => without_figure(experiment, claim.metric?, row),
        None => Some("no row is left that the claim is about"),
    }
}

/// Returns why a row does not have a figure.
fn without_figure(experiment: &Experiment, metric: Metric, row: &Row) -> Option<&'static str> {
    let is_trained = metric.is_learned() || metric == Metric::ReplicasIdentical;
    if let Some(simulation) = &experiment.simulation {
        if is_trained && !simulation.real_compute {
            return Some("nothing is trained in virtual time");
        }
        if metric.is_share_of_processor() || metric.is_memory_of_stage() {
            return Some("a simulation does not record what processes use");
        }
        if metric == Metric::GpuPercent && device(simulation, row) != Device::Cuda {
            return Some("no simulated row computes on a GPU");
        }
    }
    // Of what is learned, loss and divergence are those of training.
    let is_evaluated =
        metric.is_learned() && !matches!(metric, Metric::TrainLoss | Metric::Diverged);
    (is_evaluated && row.job.evaluate == Evaluate::Never).then_some("nothing is evaluated")
}
