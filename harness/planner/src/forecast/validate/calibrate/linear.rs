//! How measured figures follow from the constants of a profile, near their values.

use std::collections::BTreeMap;
use std::sync::Arc;

use epochcost_kernels::hash;
use epochcost_simulator::profile::{Constant, Level, Profile};
use epochcost_simulator::{Probe, probe};
use epochcost_spec::rows::{StatedConstant, stated};

use super::super::cells::Statistic;
use super::super::rounds::{Line, Prices};
use crate::forecast::parallel;

/// Seed of the single events.
const SEED: u64 = 0x4341_4C49;
/// Simulations of a setting, whose deviation is the error of measuring it once.
const REPETITIONS: u64 = 9;
/// Simulations of it with another value of a constant.
const MOVED_REPETITIONS: u64 = 3;
/// Factor by which a constant is moved to see what follows.
const STEP: f64 = 1.1;
/// Slope below which a constant does not matter to a figure.
const FLAT: f64 = 0.005;
/// Parts of a profile that a single operation can depend on.
const PARTS: [&str; 5] = [
    "object_store.",
    "queue.",
    "function.",
    "instance.",
    "interpreted.",
];
/// Prefix of constants by memory size that are one figure.
const BANDWIDTH: &str = "function.bandwidth";

/// What a figure is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum What {
    /// Repetitions of a single operation.
    Operation(Probe),
    /// A quantity of a round of aggregation.
    Round(Line),
}

/// A measured figure.
#[derive(Clone, Debug)]
pub(in super::super) struct Row {
    /// Measurements of one day.
    pub(in super::super) series: String,
    /// What was measured.
    pub(in super::super) what: What,
    /// The figure that was taken from the repetitions.
    pub(in super::super) statistic: Statistic,
    /// Seconds, or dollars.
    pub(in super::super) measured: f64,
    /// Where it stands.
    pub(in super::super) place: String,
    /// Constants of the measured platform that the profile describes otherwise.
    pub(in super::super) constants: Arc<BTreeMap<String, StatedConstant>>,
}

/// A constant that rows can move, or several that are one figure.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    /// Its path; of several, what all begin with.
    pub(super) path: String,
    /// Standard deviation of its logarithm, before any row.
    pub(super) deviation: f64,
    /// The level of the day that it follows.
    pub(super) level: Option<Level>,
}

impl Parameter {
    /// Returns the constants of `profile` with a range, each with the deviation of its draws or
    /// that between authors, whichever is larger.
    pub(super) fn all(profile: &Profile<Constant>) -> Vec<Self> {
        let levels = profile.values().levels;
        let author = levels.and_then(|levels| levels.author).unwrap_or(0.0);
        let mut all: Vec<Self> = Vec::new();
        for (path, constant) in profile.constants() {
            let Some(drawn) = drawn_deviation(&constant) else {
                continue;
            };
            let own = Self {
                deviation: drawn.max(author),
                level: Level::of(&path),
                path: if path.starts_with(BANDWIDTH) {
                    BANDWIDTH.to_owned()
                } else {
                    path
                },
            };
            let is_part = PARTS.iter().any(|part| own.path.starts_with(part));
            if is_part && all.iter().all(|known| known.path != own.path) {
                all.push(own);
            }
        }
        all
    }

    /// Returns whether it is, or has, the constant at `path`.
    pub(super) fn has(&self, path: &str) -> bool {
        path == self.path || (self.path == BANDWIDTH && path.starts_with(BANDWIDTH))
    }
}

/// Returns the standard deviation of the logarithm of a constant's draws: half of them are uniform
/// from the value down to `low`, half up to `high`. `None` without a range above 0.
fn drawn_deviation(constant: &Constant) -> Option<f64> {
    let (low, high) = constant.range();
    let squares = (constant.value / low).ln().powi(2) + (high / constant.value).ln().powi(2);
    let deviation = (squares / 6.0).sqrt();
    (low > 0.0 && deviation > 0.0).then_some(deviation)
}

/// Returns the profile with the value of each parameter multiplied by e to the power of `by`.
pub(super) fn moved(
    profile: &Profile<Constant>,
    parameters: &[Parameter],
    by: &[f64],
) -> Profile<Constant> {
    profile.map(&mut |path, constant| {
        let mut of_path = parameters.iter().zip(by);
        let factor = of_path
            .find(|(parameter, _)| parameter.has(path))
            .map_or(1.0, |(_, by)| by.exp());
        Constant {
            value: constant.value * factor,
            ..constant.clone()
        }
    })
}

/// A figure near the values of a profile.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    /// Logarithm of the predicted figure.
    pub(super) log: f64,
    /// Its standard deviation between simulations.
    pub(super) noise: f64,
    /// Change of the logarithm by that of each parameter.
    pub(super) slopes: Vec<f64>,
}

/// Predicts every row near the values of `profile`; `None` for one whose figure is 0 or less.
/// Of parameters that did not matter `before`, the slope is 0.
pub(super) fn linear(
    profile: &Profile<Constant>,
    parameters: &[Parameter],
    rows: &[Row],
    prices: &Prices,
    before: Option<&[Option<Linear>]>,
) -> Vec<Option<Linear>> {
    // Every setting is simulated once, however many figures are taken from it.
    let mut settings: Vec<usize> = Vec::new();
    let setting_of: Vec<usize> = (0..rows.len())
        .map(|index| {
            let known = settings.iter().position(|first| {
                let (first, row) = (&rows[*first], &rows[index]);
                first.what == row.what && Arc::ptr_eq(&first.constants, &row.constants)
            });
            known.unwrap_or_else(|| {
                settings.push(index);
                settings.len() - 1
            })
        })
        .collect();
    let matters = |setting: usize, parameter: usize| {
        let Some(before) = before else { return true };
        let mut of_setting = setting_of.iter().zip(before);
        of_setting.any(|(of, linear)| {
            let slopes = linear.as_ref().map(|linear| &linear.slopes);
            *of == setting && slopes.is_some_and(|slopes| slopes[parameter].abs() >= FLAT)
        })
    };
    // As it is stated, and with each parameter moved.
    let mut tasks: Vec<(usize, Option<usize>)> = Vec::new();
    for setting in 0..settings.len() {
        let moved = (0..parameters.len()).filter(|parameter| matters(setting, *parameter));
        let all = std::iter::once(None).chain(moved.map(Some));
        tasks.extend(all.map(|moved| (setting, moved)));
    }
    let seconds = parallel::map(&tasks, |(setting, moved_one)| {
        let row = &rows[settings[*setting]];
        let (profile, repetitions) = match moved_one {
            None => (profile.clone(), REPETITIONS),
            Some(parameter) => {
                let only = std::slice::from_ref(&parameters[*parameter]);
                (moved(profile, only, &[STEP.ln()]), MOVED_REPETITIONS)
            }
        };
        let profile = stated(&profile, &row.constants);
        let drawn = |repetition| {
            let profile = profile.drawn(hash::mix(SEED, repetition));
            match &row.what {
                What::Operation(operation) => probe(&profile, operation),
                What::Round(line) => vec![line.simulated(&profile, prices)],
            }
        };
        (0..repetitions).map(drawn).collect::<Vec<Vec<f64>>>()
    });
    // The figures of every row, from its setting.
    let line = |index: usize| {
        let statistic = rows[index].statistic;
        let logs = |seconds: &[Vec<f64>]| -> Vec<f64> {
            seconds.iter().map(|each| statistic.of(each).ln()).collect()
        };
        let all = tasks.iter().zip(&seconds);
        let own = all.filter(|((setting, _), _)| *setting == setting_of[index]);
        let (mut stated, mut slopes) = (Vec::new(), vec![0.0; parameters.len()]);
        for ((_, moved), seconds) in own {
            let logs = logs(seconds);
            match moved {
                None => stated = logs,
                Some(parameter) => {
                    let changes = logs.iter().zip(&stated).map(|(now, before)| now - before);
                    slopes[*parameter] = changes.sum::<f64>() / logs.len() as f64 / STEP.ln();
                }
            }
        }
        let count = stated.len() as f64;
        let log = stated.iter().sum::<f64>() / count;
        let squares: f64 = stated.iter().map(|each| (each - log).powi(2)).sum();
        let is_finite = log.is_finite() && slopes.iter().all(|slope| slope.is_finite());
        is_finite.then(|| Linear {
            log,
            noise: (squares / (count - 1.0)).sqrt(),
            slopes,
        })
    };
    (0..rows.len()).map(line).collect()
}
