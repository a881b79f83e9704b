//! Predictions of cells by the simulator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use epochcost_experiment::{Document, Experiment};
use epochcost_kernels::hash;
use epochcost_platform::sim::{CLASSES_ABOVE, Sim};
use epochcost_simulator::profile::{Constant, Profile, Refinement};
use epochcost_simulator::{Options, Recorded, Simulation, probe};
use epochcost_spec::cost::PriceBook;
use epochcost_spec::rows::{self, StatedConstant, TrialPlan, stated};

use super::cells::{Cell, Setting};
use super::file::File;
use super::run;
use super::score::Predicted;
use crate::error::{Error, Result};
use crate::forecast::estimate::{estimate_by, sizes_only};
use crate::forecast::{on_profiles, on_simulator, parallel};

/// Seed of all draws of a validation.
const SEED: u64 = 0x5641_4C49;

/// Repetitions of a setting at the stated constants, of which the median is the prediction.
pub(super) const REPETITIONS: u32 = 25;

/// What a prediction is made from.
#[derive(Clone)]
pub(super) struct Predictor {
    profile: Profile<Constant>,
    /// Constants of the measured platform that the profile describes otherwise.
    constants: BTreeMap<String, StatedConstant>,
    /// Rows of the experiment, by id.
    rows: BTreeMap<String, TrialPlan>,
    /// What trials of a recorded run drew from their data, by row; empty of other rows.
    pub(super) values: BTreeMap<String, Arc<Recorded>>,
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
    pub(super) fn new(file: &File) -> Result<Self> {
        let profile = file.platform()?;
        let experiment = (file.experiment.as_ref())
            .map(|path| experiment_on(&file.beside(path), &profile, &file.profile));
        let (experiment, prices) = (experiment.transpose()?, PriceBook::shipped()?);
        let (profile, constants) = (stated(&profile, &file.constants), file.constants.clone());
        Ok(Self::of(profile, constants, experiment, prices))
    }

    /// Returns one with the rows of an experiment.
    pub(super) fn of(
        profile: Profile<Constant>,
        constants: BTreeMap<String, StatedConstant>,
        experiment: Option<Experiment>,
        prices: PriceBook,
    ) -> Self {
        let plans = experiment.iter().flat_map(Experiment::trial_plans);
        Self {
            profile,
            constants,
            rows: plans.map(|plan| (plan.row.id.clone(), plan)).collect(),
            values: BTreeMap::new(),
            simulation: experiment.and_then(|experiment| experiment.simulation),
            prices,
        }
    }

    /// Returns the same on another platform.
    pub(super) fn on(&self, profile: &Profile<Constant>) -> Self {
        let mut moved = self.clone();
        if let Some(simulation) = &mut moved.simulation {
            simulation.profile = profile.clone();
        }
        moved.profile = stated(profile, &self.constants);
        moved
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
    ) -> Result<Vec<Predicted>> {
        let of_run = !self.values.is_empty();
        let repetitions = if of_run { 1 } else { REPETITIONS };
        let settings = cells.iter().map(|cell| &cell.setting);
        let simulated = simulated(settings, repetitions, draws, |setting, draw| {
            self.seconds(setting, draw, without)
        })?;
        let predict = |cell: &Cell| {
            let seconds = simulated.get(&cell.setting).map_or(&[][..], Vec::as_slice);
            let figures = seconds.iter().map(|each| cell.statistic.of(each));
            Predicted::of(figures.collect(), repetitions)
        };
        Ok(cells.iter().map(predict).collect())
    }

    /// Simulates a setting once: the seconds of each operation, or a row's figures.
    fn seconds(
        &self,
        setting: &Setting,
        draw: Draw,
        without: Option<Refinement>,
    ) -> Result<Vec<f64>> {
        let refined = |profile: Profile<f64>| match without {
            None => profile,
            Some(refinement) => profile.without(refinement),
        };
        match setting {
            Setting::Operation(operation) => Ok(probe(&refined(self.drawn(draw)), operation)),
            Setting::Row(id) => {
                let (plan, mut simulation) = self.simulation(id, draw)?;
                simulation.profile = refined(simulation.profile);
                let figures = self.figures(plan, &simulation)?;
                figures.map_err(|why| Error::NothingSelected(format!("row {id}: {why}")))
            }
        }
    }

    /// Returns the figures of a row at the stated constants, or why it has none.
    ///
    /// # Errors
    /// When it cannot be simulated.
    pub(super) fn row(&self, id: &str) -> Result<Result<Vec<f64>, String>> {
        let (plan, simulation) = self.simulation(id, Draw::Stated(0))?;
        self.figures(plan, &simulation)
    }

    fn figures(
        &self,
        plan: &TrialPlan,
        simulation: &Simulation,
    ) -> Result<Result<Vec<f64>, String>> {
        let options = Options {
            recorded: self.values.get(&plan.row.id).cloned(),
            ..sizes_only(CLASSES_ABOVE)
        };
        let outcome = estimate_by(&plan.row, simulation, &self.prices, options)?;
        let figures = outcome.map(|estimate| run::of_estimate(&estimate));
        Ok(figures.map_err(|obstacle| obstacle.to_string()))
    }

    /// Returns the simulation of an experiment's row on a draw.
    fn simulation(&self, id: &str, draw: Draw) -> Result<(&TrialPlan, Simulation)> {
        let (Some(plan), Some(simulation)) = (self.rows.get(id), &self.simulation) else {
            let problem = format!("no row `{id}` of an experiment");
            return Err(Error::NothingSelected(problem));
        };
        let sim = Sim::new(simulation.clone(), None);
        let simulation = match draw {
            Draw::Stated(draw) => {
                let mut simulation = sim.describe(plan)?;
                // Those of a run are compared as plans are made: nothing is drawn.
                simulation.profile.draws = self.values.is_empty().then(|| seed(draw));
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
) -> Result<Experiment> {
    let mut document = Document::read(path)?;
    on_profiles(&mut document, Some(name), &[])?;
    if profile.interpreted.is_none() {
        document.set_option("the validation", "simulation.client", "compiled")?;
    }
    Ok(Experiment::from_document(document, &on_simulator())?)
}

/// Simulates every setting once, however many figures are taken from it: for each repetition at the stated
/// constants, then for each draw.
///
/// # Errors
/// The first of a simulation.
pub(super) fn simulated<'a, S: Ord + Sync, R: Send>(
    settings: impl Iterator<Item = &'a S>,
    repetitions: u32,
    draws: u32,
    simulate: impl Fn(&S, Draw) -> Result<R> + Sync,
) -> Result<BTreeMap<&'a S, Vec<R>>> {
    let settings: BTreeSet<&S> = settings.collect();
    let stated = (0..repetitions).map(Draw::Stated);
    let all: Vec<Draw> = stated.chain((0..draws).map(Draw::Sampled)).collect();
    let tasks: Vec<(&S, Draw)> = (settings.iter())
        .flat_map(|setting| all.iter().map(move |draw| (*setting, *draw)))
        .collect();
    let mut results = parallel::map(&tasks, |(setting, draw)| simulate(setting, *draw)).into_iter();
    let mut of = |setting| {
        let own: Result<Vec<R>> = results.by_ref().take(all.len()).collect();
        Ok((setting, own?))
    };
    settings.into_iter().map(&mut of).collect()
}
