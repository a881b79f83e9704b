//! The simulator against measurements that its constants were not fitted to.
//!
//! A validation file names a data set, the series that constants may have been fitted to, and
//! targets. Every other series is judged: each cell of it is predicted by the simulator's own
//! stations, channels and starts, and compared with what was measured. A recorded local run is
//! such a set, too (`run`).

mod authors;
mod calibrate;
mod cells;
mod file;
mod predict;
mod rounds;
mod run;
mod score;
mod text;

use std::path::{Path, PathBuf};

use epochcost_record::SchemaVersion;
use epochcost_spec::profiles::misses::{self, Headline, Scope};
use serde::Serialize;

use self::authors::LeftOut;
use self::cells::Cell;
use self::file::{File, Source};
use self::predict::Predictor;
use self::score::{Compared, Predicted, Score, Scored, Verdict};
use super::recorded::is_run;
use crate::error::{Error, Result};

pub use self::file::File as Validation;

pub use self::calibrate::{Calibrated, Calibration, calibrate};
pub use self::text::Form;

/// The version of the format of a validation's result.
const VALIDATION_VERSION: SchemaVersion = SchemaVersion { major: 2, minor: 1 };

/// What is validated, and how.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The validation files and run directories.
    pub files: &'a [PathBuf],
    /// The platform profile, in the place of that of the files and of the runs' machines.
    pub profile: Option<&'a str>,
    /// Compute profiles, in the place of the runs' own steps.
    pub compute: &'a [String],
    /// The share by which a simulated wall time of a run may be off.
    pub within: Option<f64>,
    /// Draws of the constants' ranges: by default 200 of files, none of runs.
    pub draws: Option<u32>,
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sources: Vec<Source>,
    /// Profile, division and sources in one line.
    #[serde(skip)]
    stands_on: String,
    profile: String,
    /// Whether no series of it was used for a fit.
    is_held_out: bool,
    /// Whether its cells are of a paper that constants of this profile were fitted to: they are no
    /// evidence for it.
    #[serde(skip)]
    is_circular: bool,
    /// Scores of the series that constants may be fitted to.
    fitted: Option<Scored>,
    /// Scores of all other series; of the wall times of a run.
    judged: Scored,
    /// Scores of each figure of a run's rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    figures: Vec<FigureScore>,
    /// Median error of a judged cell predicted by the other series of its setting.
    floor: Option<f64>,
    /// Scores of the judged series without one refinement each, where it changes them.
    without: Vec<Without>,
    targets: Vec<Verdict>,
    /// Whether targets are held to be as expected: on the profile that they were stated for.
    #[serde(skip)]
    is_expected: bool,
    cells: Vec<Compared>,
    /// Rows of a run that are not compared, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// Scores of a figure of a run's rows.
#[derive(Serialize)]
struct FigureScore {
    figure: &'static str,
    #[serde(flatten)]
    scored: Scored,
}

/// Scores without a refinement.
#[derive(Serialize)]
struct Without {
    refinement: &'static str,
    judged: Score,
}

/// Draws of a file's cells.
const DRAWS: u32 = 200;

/// Compares the simulator with every data set.
///
/// # Errors
/// When a file, its data, a run or a profile cannot be used.
pub fn validate(request: &Request<'_>) -> Result<Validated> {
    let (runs, files): (Vec<_>, Vec<_>) = request.files.iter().partition(|path| is_run(path));
    if runs.is_empty() && (!request.compute.is_empty() || request.within.is_some()) {
        return Err(Error::Usage {
            problem: "`--compute` and `--within` are of recorded runs, and none is named"
                .to_owned(),
            remedy: "name the directory of a local run".to_owned(),
        });
    }
    let files: Vec<File> = (files.iter())
        .map(|path| File::read(path, request.profile))
        .collect::<Result<_, _>>()?;
    let draws = request.draws.unwrap_or(DRAWS);
    let of_files = files.iter().map(|file| set(file, draws, request));
    let of_runs = runs.iter().map(|path| run::set(path, request));
    let sets: Vec<Set> = of_files.chain(of_runs).collect::<Result<_, _>>()?;
    let authors = if request.leaves_out {
        authors::left_out(&files, draws)?
    } else {
        Vec::new()
    };
    let of_runs = files.is_empty() && request.draws.is_none();
    Ok(Validated {
        schema_version: VALIDATION_VERSION,
        draws: if of_runs { 0 } else { draws },
        headlines: headlines(&sets),
        authors,
        sets,
    })
}

/// Reads and checks a validation file with its profile and its data.
///
/// # Errors
/// When they cannot be read or used.
pub fn check(path: &Path) -> Result<()> {
    let file = File::read(path, None)?;
    file.platform()?;
    file.cells().map(drop)
}

/// Predicts the quantities that a validation file's data name, before they are measured: CSV.
///
/// # Errors
/// When the file, its data or its profile cannot be used.
pub fn predict(path: &Path, profile: Option<&str>, draws: Option<u32>) -> Result<String> {
    rounds::predict(&File::read(path, profile)?, draws.unwrap_or(DRAWS))
}

impl Validated {
    /// Returns whether every target is met, or missed, as its file expects on its own profile.
    pub fn is_expected(&self) -> bool {
        let sets = self.sets.iter().filter(|set| set.is_expected);
        sets.flat_map(|set| &set.targets).all(Verdict::is_expected)
    }

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
            let judged = set.cells.iter().filter(|cell| !cell.is_fitted);
            let own = judged.filter(|cell| (cell.scope, cell.gave_a_constant) == (scope, gave));
            Scored::of(&own.cloned().collect::<Vec<_>>())
        };
        let sets = sets.iter().filter(|set| !set.is_circular);
        score::over_sets(scope, gave, &sets.filter_map(of).collect::<Vec<_>>())
    };
    groups.filter_map(headline).collect()
}

/// Compares the simulator with one data set.
fn set(file: &File, draws: u32, request: &Request<'_>) -> Result<Set> {
    // Predictions of every cell, with intervals.
    let cells = file.cells()?;
    let predictor = Predictor::new(file)?;
    let predicted = predictor.predict(&cells, draws, None)?;
    let compare = compare(file, &predictor);
    let compared: Vec<Compared> = cells.iter().zip(predicted).map(&compare).collect();
    let (fitted, judged): (Vec<_>, Vec<_>) =
        compared.iter().cloned().partition(|cell| cell.is_fitted);
    let score = Scored::of(&judged).ok_or_else(|| file.error("no series is judged"))?;
    // What each refinement adds.
    let mut without = Vec::new();
    let refinements = request.with_refinements.then(|| predictor.refinements());
    for refinement in refinements.unwrap_or_default() {
        let predicted = predictor.predict(&cells, 0, Some(refinement))?;
        let compared = cells.iter().zip(predicted).map(&compare);
        let judged: Vec<_> = compared.filter(|cell| !cell.is_fitted).collect();
        let judged = Scored::of(&judged).map(|judged| judged.score);
        if let Some(judged) = judged.filter(|judged| judged.differs(&score.score)) {
            let refinement = refinement.title();
            without.push(Without { refinement, judged });
        }
    }
    Ok(Set {
        name: file.name.clone(),
        description: file.description.clone(),
        about: file.about.clone(),
        sources: file.sources.clone(),
        stands_on: file.stands_on(&predictor.platform().name),
        profile: predictor.platform().name.clone(),
        is_held_out: file.fit.is_empty(),
        is_circular: file.experiment.is_some() && predictor.is_fitted_to_a_paper(),
        fitted: Scored::of(&fitted),
        floor: score::floor(&cells, &judged),
        targets: (file.targets.iter())
            .map(|target| target.verdict(&score))
            .collect(),
        is_expected: request.profile.is_none(),
        judged: score,
        figures: Vec::new(),
        without,
        cells: compared,
        notes: Vec::new(),
    })
}

/// Returns the comparison of a cell with its prediction.
fn compare<'a>(
    file: &'a File,
    predictor: &'a Predictor,
) -> impl Fn((&Cell, Predicted)) -> Compared + 'a {
    |(cell, predicted)| {
        let gave_a_constant = file.gave_a_constant(&cell.series, predictor.platform());
        let is_fitted = file.fit.contains(&cell.series);
        let author = file.author(&cell.series);
        Compared::new(cell, predicted, author, gave_a_constant, is_fitted)
    }
}
