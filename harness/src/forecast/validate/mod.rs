//! The simulator against public measurements that its constants were not fitted to.
//!
//! A validation file names a data set, the series that constants may have been fitted to, and
//! targets. Every other series is judged: each cell of it is predicted by the simulator's own
//! stations, channels and starts, and compared with what was measured.

mod authors;
mod calibrate;
mod cells;
mod file;
mod predict;
mod rounds;
mod score;
mod text;

use std::path::{Path, PathBuf};

use serde::Serialize;

use self::authors::LeftOut;
use self::cells::Cell;
pub(crate) use self::file::File as Validation;
use self::file::{File, Source};
use self::predict::{Predicted, Predictor};
use self::score::{Compared, Score, Scored, Verdict};
use crate::error::Error;
use crate::profiles::misses::{self, Headline, Scope};
use crate::results::SchemaVersion;

pub use self::calibrate::{Calibrated, Calibration, calibrate};

/// The version of the format of a validation's result.
const VALIDATION_VERSION: SchemaVersion = SchemaVersion { major: 2, minor: 0 };

/// What is validated, and how.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The validation files.
    pub files: &'a [PathBuf],
    /// The platform profile, in the place of that of the files.
    pub profile: Option<&'a str>,
    /// Draws of the constants' ranges.
    pub draws: u32,
    /// Whether the judged cells are also predicted without one refinement each.
    pub with_refinements: bool,
    /// Whether each author's cells are also predicted from the other authors' alone.
    pub leaves_out: bool,
}

/// All data sets, compared.
#[derive(Serialize)]
pub struct Validated {
    schema_version: SchemaVersion,
    /// Draws that an interval is taken from.
    draws: u32,
    /// Scores of the judged cells over sets, each of which counts once.
    headlines: Vec<Headline>,
    /// Scores of each author's cells from the other authors' alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    authors: Vec<LeftOut>,
    sets: Vec<Set>,
}

/// A data set, compared.
#[derive(Serialize)]
struct Set {
    name: String,
    description: String,
    about: String,
    sources: Vec<Source>,
    profile: String,
    /// Whether no series of it was used for a fit.
    is_held_out: bool,
    /// Whether its cells are of a paper that constants of this profile were fitted to: they are no
    /// evidence for it.
    #[serde(skip)]
    is_circular: bool,
    /// Scores of the series that constants may be fitted to.
    fitted: Option<Scored>,
    /// Scores of all other series.
    judged: Scored,
    /// Median error of a judged cell predicted by the other series of its setting.
    floor: Option<f64>,
    /// Scores of the judged series without one refinement each, where it changes them.
    without: Vec<Without>,
    targets: Vec<Verdict>,
    cells: Vec<Compared>,
}

/// Scores without a refinement.
#[derive(Serialize)]
struct Without {
    refinement: &'static str,
    judged: Score,
}

/// Compares the simulator with every data set.
///
/// # Errors
/// When a file, its data or its profile cannot be used.
pub fn validate(request: &Request<'_>) -> Result<Validated, Error> {
    let files: Vec<File> = (request.files.iter())
        .map(|path| File::read(path, request.profile))
        .collect::<Result<_, _>>()?;
    let sets: Vec<Set> = (files.iter())
        .map(|file| set(file, request))
        .collect::<Result<_, _>>()?;
    let authors = if request.leaves_out {
        authors::left_out(&files, request.draws)?
    } else {
        Vec::new()
    };
    Ok(Validated {
        schema_version: VALIDATION_VERSION,
        draws: request.draws,
        headlines: headlines(&sets),
        authors,
        sets,
    })
}

/// Predicts the quantities that a validation file's data name, before they are measured: CSV.
///
/// # Errors
/// When the file, its data or its profile cannot be used.
pub fn predict(path: &Path, profile: Option<&str>, draws: u32) -> Result<String, Error> {
    rounds::predict(&File::read(path, profile)?, draws)
}

impl Validated {
    /// Returns whether every target is met, or missed, as its file expects.
    pub fn is_expected(&self) -> bool {
        let mut targets = self.sets.iter().flat_map(|set| &set.targets);
        targets.all(Verdict::is_expected)
    }
}

impl Validated {
    /// Returns the scores by which answers say what their profile misses by.
    pub fn scores(&self, profile: &str) -> misses::ProfileScores {
        let sets = self.sets.iter().filter(|set| !set.is_circular);
        let score = |set: &Set| misses::Score {
            name: set.name.clone(),
            cells: set.judged.cells,
            median_error: Some(set.judged.score.median_error).filter(|error| error.is_finite()),
            coverage: set.judged.coverage,
        };
        misses::ProfileScores {
            profile: profile.to_owned(),
            headlines: self.headlines.clone(),
            sets: sets.map(score).collect(),
        }
    }
}

/// Returns the scores over sets, without those that the profile was fitted to: of each scope, for
/// authors who gave the profile no constant and for those who did.
fn headlines(sets: &[Set]) -> Vec<Headline> {
    let groups = Scope::ALL.into_iter();
    let groups = groups.flat_map(|scope| [false, true].map(|gave| (scope, gave)));
    let headline = |(scope, gave): (Scope, bool)| {
        let of = |set: &Set| {
            let own = set.cells.iter().filter(|cell| {
                !cell.is_fitted && cell.scope == scope && cell.gave_a_constant == gave
            });
            Scored::of(&own.cloned().collect::<Vec<_>>())
        };
        let sets = sets.iter().filter(|set| !set.is_circular);
        score::over_sets(scope, gave, &sets.filter_map(of).collect::<Vec<_>>())
    };
    groups.filter_map(headline).collect()
}

/// Compares the simulator with one data set.
fn set(file: &File, request: &Request<'_>) -> Result<Set, Error> {
    // Predictions of every cell, with intervals.
    let cells = file.cells()?;
    let predictor = Predictor::new(file)?;
    let predicted = predictor.predict(&cells, request.draws, None)?;
    let compare = compare(file, &predictor);
    let compared: Vec<Compared> = cells.iter().zip(&predicted).map(&compare).collect();
    let (fitted, judged): (Vec<_>, Vec<_>) =
        compared.iter().cloned().partition(|cell| cell.is_fitted);
    let score = Scored::of(&judged).ok_or_else(|| file.error("no series is judged"))?;
    // What each refinement adds.
    let mut without = Vec::new();
    let refinements = if request.with_refinements {
        predictor.refinements()
    } else {
        Vec::new()
    };
    for refinement in refinements {
        let predicted = predictor.predict(&cells, 0, Some(refinement))?;
        let compared = cells.iter().zip(&predicted).map(&compare);
        let judged: Vec<_> = compared.filter(|cell| !cell.is_fitted).collect();
        let Some(judged) = Scored::of(&judged) else {
            continue;
        };
        if judged.score.differs(&score.score) {
            without.push(Without {
                refinement: refinement.title(),
                judged: judged.score,
            });
        }
    }
    Ok(Set {
        name: file.name.clone(),
        description: file.description.clone(),
        about: file.about.clone(),
        sources: file.sources.clone(),
        profile: predictor.platform().name.clone(),
        is_held_out: file.fit.is_empty(),
        is_circular: file.experiment.is_some() && predictor.is_fitted_to_a_paper(),
        fitted: Scored::of(&fitted),
        floor: score::floor(&cells, &judged),
        targets: (file.targets.iter())
            .map(|target| target.verdict(&score))
            .collect(),
        judged: score,
        without,
        cells: compared,
    })
}

/// Returns the comparison of a cell with its prediction.
fn compare<'a>(
    file: &'a File,
    predictor: &'a Predictor,
) -> impl Fn((&Cell, &Predicted)) -> Compared + 'a {
    |(cell, predicted)| Compared {
        series: cell.series.clone(),
        author: file.author(&cell.series).to_owned(),
        gave_a_constant: file.gave_a_constant(&cell.series, predictor.platform()),
        scope: cell.scope(),
        setting: cell.setting.to_string(),
        statistic: cell.statistic.to_string(),
        measured: cell.measured,
        predicted: predicted.value,
        low: predicted.low,
        high: predicted.high,
        is_fitted: file.fit.contains(&cell.series),
    }
}
