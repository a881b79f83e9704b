//! `dev validate`: the simulator against measurements that it was not fitted to, and recorded runs.

use std::path::{Path, PathBuf};

use epochcost_experiment::validation_files;
use epochcost_planner::error::Error;
use epochcost_planner::forecast::is_run;
use epochcost_planner::forecast::validate::{self, Form, Request};
use epochcost_spec::chain::chain;
use epochcost_spec::exit::Exit;
use epochcost_spec::profiles::misses;
use epochcost_spec::shipped;
use epochcost_spec::suggest::did_you_mean;
use epochcost_spec::ui::Output;

use crate::cmd::{done_or_failed, write_file};

/// Directory of validations, in that of experiments.
const VALIDATION: &str = "validation";

/// Directory of the judges, in that of validations.
const JUDGES: &str = "judges";

/// `dev validate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Validation files, or directories of finished local runs, whose figures are compared with their
    /// simulation; the files in experiments/validation, if none is named.
    #[arg(value_name = "FILE|RUN")]
    files: Vec<PathBuf>,
    /// The platform profile, by name or file, in the place of that of the files: targets are then shown
    /// and not compared with what the files expect. Of a run, in the place of `laptop` with the cores of
    /// its machine.
    #[arg(long, value_name = "NAME|FILE")]
    profile: Option<String>,
    /// A compute profile, by name or file, in the place of the steps that a run recorded: a prediction
    /// that knows nothing of the run. More than once: the first that knows a model counts.
    #[arg(long, value_name = "NAME|FILE")]
    compute: Vec<String>,
    /// Exit with 3 if the simulated wall time of any row of a run is off by more than this share of the
    /// recorded one.
    #[arg(long, value_name = "SHARE", value_parser = share, allow_hyphen_values = true)]
    within: Option<f64>,
    /// Draws of the constants' ranges, whose 5th to 95th percentile is a cell's interval: 200 of files, and
    /// of runs none by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(40..=5000))]
    draws: Option<u32>,
    /// Show every cell.
    #[arg(long)]
    cells: bool,
    /// Print Markdown instead of plain text.
    #[arg(long)]
    markdown: bool,
    /// Also predict each author's figures from the constants that those of all other authors give, the
    /// judges' among them if no file is named.
    #[arg(long, conflicts_with_all = ["record", "predict", "within"])]
    leave_one_out: bool,
    /// Write the profile's scores, on the judges too, into this file, from which plans and reports say what
    /// it misses by, in the place of those that it has. Scores without single refinements are left out.
    #[arg(
        long,
        value_name = "FILE",
        requires = "profile",
        conflicts_with = "files"
    )]
    record: Option<PathBuf>,
    /// Predict the quantities that FILE's data name before they are measured, and write them into
    /// this CSV file: value, 5th and 95th percentile.
    #[arg(long, value_name = "CSV", requires = "files", conflicts_with_all = ["record", "cells", "markdown", "compute", "within"])]
    predict: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("give a share of more than 0, as 0.25".to_owned()),
    }
}

/// Prints predicted against measured figures, and what they amount to.
///
/// # Errors
/// When a file, its data, a run or a profile cannot be used.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    if let Some(path) = &args.predict {
        return predict(args, path, output);
    }
    let files = args.files.iter().map(|file| named(file));
    let mut files = files.collect::<Result<Vec<PathBuf>, Error>>()?;
    if files.is_empty() {
        let directory = shipped::experiments().join(VALIDATION);
        let with_judges = args.leave_one_out || args.record.is_some();
        let judges = with_judges.then(|| directory.join(JUDGES));
        for directory in [Some(directory), judges].into_iter().flatten() {
            let found = validation_files(&directory).map_err(|error| {
                Error::usage(
                    chain(&error),
                    "run it at the root of a checkout, or name files",
                )
            });
            files.extend(found?);
        }
    }
    let validated = validate::validate(&Request {
        files: &files,
        profile: args.profile.as_deref(),
        compute: &args.compute,
        within: args.within,
        draws: args.draws,
        with_refinements: args.record.is_none() && !args.leave_one_out,
        leaves_out: args.leave_one_out,
    })?;
    if let (Some(path), Some(profile)) = (&args.record, &args.profile) {
        misses::record(path, validated.scores(profile))
            .map_err(Error::io(format!("write {}", path.display())))?;
        output.message(format_args!("wrote {}", path.display()));
    }
    let form = if args.markdown {
        Form::Markdown
    } else {
        Form::Plain
    };
    output.text(validated.shown(form, args.cells));
    output.json(&validated);
    let is_done = args.leave_one_out || validated.is_expected();
    Ok(done_or_failed(is_done))
}

/// Writes the predictions of one file.
fn predict(args: &Args, path: &Path, output: Output) -> Result<Exit, Error> {
    let [file] = args.files.as_slice() else {
        return Err(Error::usage(
            "`--predict` takes one validation file",
            "name one FILE",
        ));
    };
    let predicted = validate::predict(&named(file)?, args.profile.as_deref(), args.draws)?;
    write_file(path, &predicted, output)?;
    Ok(Exit::Done)
}

/// Returns the file of a validation that a user named, by its path or its name; a run as it is.
///
/// # Errors
/// [`Error::Usage`] with the nearest name.
fn named(file: &Path) -> Result<PathBuf, Error> {
    if is_run(file) {
        return Ok(file.to_owned());
    }
    let found = shipped::experiment(&Path::new(VALIDATION).join(file));
    let mut found = [shipped::experiment(file), found].into_iter();
    if let Some(found) = found.find(|file| shipped::is_file(file)) {
        return Ok(found);
    }
    let directory = shipped::experiments().join(VALIDATION);
    let files = validation_files(&directory).unwrap_or_default();
    let stems = files.iter().filter_map(|file| file.file_stem()?.to_str());
    let given = shipped::id(file).unwrap_or_default();
    Err(Error::usage(
        format!("there is no validation `{}`", file.display()),
        did_you_mean(given, &stems.collect::<Vec<_>>()),
    ))
}
