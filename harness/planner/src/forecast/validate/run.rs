//! A recorded run as a data set: figures of its rows beside those of their simulation.

use std::collections::BTreeMap;
use std::path::Path;

use epochcost_channels::Traffic;
use epochcost_experiment::Options;
use epochcost_judge::analysis::{RowAnalysis, TrialAnalysis};
use epochcost_systems::Job;

use super::cells::{Cell, FIGURES, Setting, Statistic, WALL};
use super::predict::Predictor;
use super::score::{Compared, Expected, Scored, Verdict};
use super::{FigureScore, Request, Set};
use crate::error::{Error, Result};
use crate::forecast::estimate::{Estimate, StageMeans, stages};
use crate::forecast::recorded::RecordedRun;
use crate::forecast::{on_simulator, simulation_of};

/// Places of what a run's own steps are taken from: gradients and evaluations.
const OF_STEPS: [usize; 2] = [2, 5];

/// Returns the figures of an estimate.
pub(super) fn of_estimate(estimate: &Estimate) -> Vec<f64> {
    figures(
        [estimate.seconds, estimate.billed_ms as f64],
        estimate.stage_seconds,
        [estimate.cost_paper_usd, estimate.cost_full_usd],
        estimate.traffic,
    )
}

/// Returns the figures of a recorded trial.
fn of_trial(trial: &TrialAnalysis, job: &Job) -> Vec<f64> {
    figures(
        [trial.trial.wall_s, trial.billed_ms().unwrap_or_default()],
        stages(trial.seconds, job),
        [trial.paper.total_usd(), trial.full.total_usd()],
        trial.exchange(),
    )
}

/// Returns figures in the order of [`FIGURES`].
fn figures(
    [wall_s, billed_ms]: [f64; 2],
    stages: StageMeans,
    usd: [f64; 2],
    traffic: Traffic,
) -> Vec<f64> {
    // Polls take what they take: only requests that say something are compared.
    let sent = traffic.untimed();
    let requests = sent.puts + sent.gets + sent.messages + sent.deliveries + sent.in_store;
    let counts = [requests, sent.bytes_up, sent.bytes_down].map(|count| count as f64);
    [&[wall_s][..], &stages.all(), &[billed_ms], &usd, &counts].concat()
}

/// Compares a run with its simulation.
///
/// # Errors
/// When the run or a profile cannot be used, or no row has both.
pub(super) fn set(path: &Path, request: &Request<'_>) -> Result<Set> {
    let run = RecordedRun::open(path)?;
    let manifest = run.directory.manifest();
    let options = Options {
        keeps_impossible: true,
        ..on_simulator()
    };
    let (profile, compute) = (request.profile, request.compute);
    let experiment = run.experiment(run.document(profile)?, &options, profile, compute)?;
    let profile = simulation_of(&experiment)?.profile.clone();
    let prices = run.directory.prices().clone();
    let mut predictor = Predictor::of(profile, BTreeMap::new(), Some(experiment), prices);
    // Figures of every row that can be simulated.
    let (mut cells, mut missing, mut notes) = (Vec::new(), 0, Vec::new());
    for row in &run.rows {
        let id = &row.planned.row.id;
        let Some(first) = row.succeeded().next() else {
            let why = row.planned.infeasible.as_deref();
            let why = why.unwrap_or("every trial of it failed");
            notes.push(format!("{id}: {why}"));
            continue;
        };
        let steps = run.directory.steps(&first.trial)?;
        (predictor.values).insert(id.clone(), first.trial.values(&steps));
        if let Err(why) = predictor.row(id)? {
            missing += 1;
            notes.push(format!("{id}: its simulation failed: {why}"));
            continue;
        }
        cells.extend(row_cells(&manifest.run_id, row));
    }
    let predicted = predictor.predict(&cells, request.draws.unwrap_or(0), None)?;
    let is_of_steps = |cell: &Cell| OF_STEPS.map(Statistic::Row).contains(&cell.statistic);
    let compared = cells.iter().zip(predicted).map(|(cell, predicted)| {
        let is_fitted = compute.is_empty() && is_of_steps(cell);
        Compared::new(cell, predicted, &manifest.run_id, false, is_fitted)
    });
    let compared: Vec<Compared> = compared.collect();
    // Scores of each figure; wall times are judged.
    let of_figure = |figure: &str| {
        let own = compared.iter().filter(|cell| cell.statistic == figure);
        own.cloned().collect::<Vec<_>>()
    };
    let walls = of_figure(FIGURES[WALL]);
    let Some(judged) = Scored::of(&walls) else {
        let first = notes.first().map_or("it has no row", String::as_str);
        return Err(Error::NothingSelected(format!(
            "no row of {} can be compared: {first}",
            path.display()
        )));
    };
    let figures = FIGURES.into_iter().filter_map(|figure| {
        let scored = Scored::of(&of_figure(figure))?;
        Some(FigureScore { figure, scored })
    });
    let machine = run.directory.machine();
    let steps = match compute {
        [] => "as the run recorded them".to_owned(),
        named => format!("of the compute profile {}", named.join(" and ")),
    };
    let profile = &predictor.platform().name;
    Ok(Set {
        name: manifest.run_id.clone(),
        description: format!("{}, recorded and simulated", manifest.experiment),
        about: {
            let cpu = machine.cpu.as_deref().unwrap_or("an unknown CPU");
            format!("Recorded on {} cores of {cpu}", machine.cores)
        },
        sources: Vec::new(),
        stands_on: format!("profile {profile}; steps {steps}"),
        profile: profile.clone(),
        is_held_out: !compute.is_empty(),
        // Scores of a profile are of data that anybody can repeat.
        is_circular: true,
        fitted: None,
        floor: None,
        targets: (request.within.iter())
            .map(|within| verdict(*within, missing, &walls))
            .collect(),
        is_expected: true,
        judged,
        figures: figures.collect(),
        without: Vec::new(),
        cells: compared,
        notes,
    })
}

/// Returns the figures of a row that are not 0, means over its trials.
fn row_cells<'a>(run_id: &'a str, row: &'a RowAnalysis) -> impl Iterator<Item = Cell> + 'a {
    let planned = &row.planned.row;
    let trials: Vec<Vec<f64>> = (row.succeeded())
        .map(|trial| of_trial(trial, &planned.job))
        .collect();
    let mean = move |place: usize| {
        trials.iter().map(|trial| trial[place]).sum::<f64>() / trials.len() as f64
    };
    let means = (0..FIGURES.len()).map(move |place| (place, mean(place)));
    means
        .filter(|(_, mean)| *mean > 0.0)
        .map(|(place, measured)| Cell {
            series: run_id.to_owned(),
            setting: Setting::Row(planned.id.clone()),
            statistic: Statistic::Row(place),
            measured,
            place: run_id.to_owned(),
        })
}

/// Judges whether every recorded row has a simulated wall time within a share of its own.
fn verdict(within: f64, missing: usize, walls: &[Compared]) -> Verdict {
    let errors = walls.iter().map(|cell| (cell.ratio() - 1.0).abs());
    let largest = errors.fold(0.0, f64::max);
    Verdict {
        metric: "largest error of a wall time".to_owned(),
        limit: format!("≤ {within}"),
        value: (missing == 0).then_some(largest),
        verdict: Expected::of(missing == 0 && largest <= within),
        expect: Expected::Holds,
    }
}
