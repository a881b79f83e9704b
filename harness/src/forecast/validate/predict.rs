//! Predictions of cells by the simulator.

use std::collections::BTreeMap;

use epochcost_kernels::hash;
use epochcost_simulator::profile::{Constant, Profile, Refinement};
use epochcost_simulator::{Simulation, probe};

use super::cells::{Cell, Setting, Statistic, quantile};
use super::file::File;
use crate::cost::PriceBook;
use crate::error::Error;
use crate::experiment::{Document, Experiment, Options};
use crate::forecast::estimate::{Outcome, estimate};
use crate::forecast::parallel;
use crate::platform::sim::Sim;
use crate::platform::simulator;
use crate::results::ResultsError;
use crate::rows::{self, StatedConstant, TrialPlan, stated};

/// Seed of all draws of a validation.
const SEED: u64 = 0x5641_4C49;

/// Repetitions of a setting at the stated constants, of which the median is the prediction.
pub(super) const REPETITIONS: u32 = 25;

/// A predicted figure.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Predicted {
    /// Median over repetitions at the stated constants.
    pub(super) value: f64,
    /// The 5th and the 95th percentile of draws about the stated constants, and the value
    /// itself where it lies beyond; none without draws.
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
}

/// What a prediction is made from.
#[derive(Clone)]
pub(super) struct Predictor {
    profile: Profile<Constant>,
    /// Constants of the measured platform that the profile describes otherwise.
    constants: BTreeMap<String, StatedConstant>,
    /// Rows of the experiment, by id.
    rows: BTreeMap<String, TrialPlan>,
    simulation: Option<rows::Simulation>,
    prices: PriceBook,
}

/// One simulation of a setting.
#[derive(Clone, Copy)]
pub(super) enum Draw {
    /// At the stated constants, with single events drawn.
    Stated(u32),
    /// On a draw of the constants' ranges.
    Sampled(u32),
}

impl Predictor {
    /// Reads the profile and the experiment of a validation.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub(super) fn new(file: &File) -> Result<Self, Error> {
        let profile = file.platform()?;
        let (mut rows, mut simulation) = (BTreeMap::new(), None);
        if let Some(experiment) = &file.experiment {
            let experiment = experiment_on(&file.beside(experiment), &profile, &file.profile)?;
            simulation.clone_from(&experiment.simulation);
            let plans = experiment.trial_plans().into_iter();
            rows.extend(plans.map(|plan| (plan.row.id.clone(), plan)));
        }
        Ok(Self {
            profile: stated(&profile, &file.constants),
            constants: file.constants.clone(),
            rows,
            simulation,
            prices: PriceBook::shipped().map_err(ResultsError::from)?,
        })
    }

    /// Returns the same on another platform.
    pub(super) fn on(&self, profile: &Profile<Constant>) -> Self {
        let simulation = self.simulation.as_ref();
        let simulation = simulation.map(|simulation| rows::Simulation {
            profile: profile.clone(),
            ..simulation.clone()
        });
        Self {
            profile: stated(profile, &self.constants),
            simulation,
            ..self.clone()
        }
    }

    /// Returns the platform, with the constants that the file states.
    pub(super) fn platform(&self) -> &Profile<Constant> {
        &self.profile
    }

    /// Returns the profile on a draw.
    pub(super) fn drawn(&self, draw: Draw) -> Profile<f64> {
        match draw {
            Draw::Stated(draw) => self.profile.drawn(seed(draw)),
            Draw::Sampled(draw) => self.profile.sampled(seed(draw)),
        }
    }

    /// Returns whether a constant of the profile was fitted to published figures.
    pub(super) fn is_fitted_to_a_paper(&self) -> bool {
        let mut constants = self.profile.constants().into_iter();
        constants.any(|(_, constant)| constant.fitted_to.is_some())
    }

    /// Returns the refinements that the profile has.
    pub(super) fn refinements(&self) -> Vec<Refinement> {
        let whole = self.profile.drawn(SEED);
        let all = Refinement::ALL.into_iter();
        all.filter(|refinement| whole.without(*refinement) != whole)
            .collect()
    }

    /// Predicts cells, with intervals of `draws` draws, without one refinement.
    ///
    /// # Errors
    /// When a row cannot be simulated.
    pub(super) fn predict(
        &self,
        cells: &[Cell],
        draws: u32,
        without: Option<Refinement>,
    ) -> Result<Vec<Predicted>, Error> {
        // Every setting is simulated once, however many figures are taken from it.
        let mut settings: Vec<&Setting> = cells.iter().map(|cell| &cell.setting).collect();
        settings.sort();
        settings.dedup();
        let stated = (0..REPETITIONS).map(Draw::Stated);
        let all: Vec<Draw> = stated.chain((0..draws).map(Draw::Sampled)).collect();
        let tasks: Vec<(&Setting, Draw)> = (settings.iter())
            .flat_map(|setting| all.iter().map(move |draw| (*setting, *draw)))
            .collect();
        let seconds = parallel::map(&tasks, |(setting, draw)| {
            self.seconds(setting, *draw, without)
        });
        let seconds: Vec<Vec<f64>> = seconds.into_iter().collect::<Result<_, _>>()?;
        let of_setting: BTreeMap<&Setting, &[Vec<f64>]> = settings
            .into_iter()
            .zip(seconds.chunks(all.len()))
            .collect();
        let predict = |cell: &Cell| {
            let seconds = of_setting.get(&cell.setting).copied().unwrap_or_default();
            predicted(cell.statistic, seconds)
        };
        Ok(cells.iter().map(predict).collect())
    }

    /// Simulates a setting once: the seconds of each operation.
    fn seconds(
        &self,
        setting: &Setting,
        draw: Draw,
        without: Option<Refinement>,
    ) -> Result<Vec<f64>, Error> {
        let refined = |profile: Profile<f64>| match without {
            None => profile,
            Some(refinement) => profile.without(refinement),
        };
        match setting {
            Setting::Operation(operation) => Ok(probe(&refined(self.drawn(draw)), operation)),
            Setting::Row(id) => {
                let (plan, simulation) = self.simulation(id, draw)?;
                let profile = refined(simulation.profile.clone());
                let simulation = Simulation {
                    profile,
                    ..simulation
                };
                synchronise(plan, &simulation, &self.prices)
            }
        }
    }

    /// Returns the simulation of an experiment's row on a draw.
    fn simulation(&self, id: &str, draw: Draw) -> Result<(&TrialPlan, Simulation), Error> {
        let (Some(plan), Some(simulation)) = (self.rows.get(id), &self.simulation) else {
            return Err(Error::NothingSelected(format!(
                "no row `{id}` of an experiment"
            )));
        };
        let sim = Sim::new(simulation.clone(), None);
        let simulation = match draw {
            Draw::Stated(draw) => {
                let mut simulation = sim.describe(plan)?;
                simulation.profile.draws = Some(seed(draw));
                simulation
            }
            Draw::Sampled(draw) => sim.describe_draw(plan, seed(draw))?,
        };
        Ok((plan, simulation))
    }
}

fn seed(draw: u32) -> u64 {
    hash::mix(SEED, draw.into())
}

/// Reads the experiment whose rows are predicted, on another profile than its own if asked.
fn experiment_on(
    path: &std::path::Path,
    profile: &Profile<Constant>,
    name: &str,
) -> Result<Experiment, Error> {
    let mut document = Document::read(path)?;
    let quoted = serde_json::Value::from(name).to_string();
    document.set_option("the validation", "simulation.profile", &quoted)?;
    if profile.interpreted.is_none() {
        document.set_option("the validation", "simulation.client", "compiled")?;
    }
    let options = Options {
        platform: Some(simulator()),
        ..Options::default()
    };
    Ok(Experiment::from_document(document, &options)?)
}

/// Returns the seconds of synchronisation per worker and epoch.
fn synchronise(
    plan: &TrialPlan,
    simulation: &Simulation,
    prices: &PriceBook,
) -> Result<Vec<f64>, Error> {
    let id = &plan.row.id;
    match estimate(&plan.row, simulation, prices)? {
        Outcome::Feasible(estimate) => {
            Ok(vec![estimate.stage_seconds.synchronise.unwrap_or(f64::NAN)])
        }
        Outcome::Infeasible(limit) => Err(Error::NothingSelected(format!("row {id}: {limit}"))),
        Outcome::Failed(reason) => Err(Error::NothingSelected(format!("row {id}: {reason}"))),
    }
}

/// Returns the prediction of a figure from its repetitions and draws.
fn predicted(statistic: Statistic, seconds: &[Vec<f64>]) -> Predicted {
    let mut figures: Vec<f64> = seconds.iter().map(|each| statistic.of(each)).collect();
    let repetitions = (REPETITIONS as usize).min(figures.len());
    let mut drawn = figures.split_off(repetitions);
    figures.sort_by(f64::total_cmp);
    drawn.sort_by(f64::total_cmp);
    let end = |share: f64| (!drawn.is_empty()).then(|| quantile(&drawn, share));
    let value = quantile(&figures, 0.5);
    Predicted {
        value,
        low: end(0.05).map(|low| low.min(value)),
        high: end(0.95).map(|high| high.max(value)),
    }
}
