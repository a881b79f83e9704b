//! `check`: validate experiments and show what they expand to.

use super::Selection;
use crate::error::Error;
use crate::exit::Exit;
use crate::experiment::{Experiment, describe, expanded};
use crate::ui::{Output, eprint_line};

/// `check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to check.
    #[command(flatten)]
    selection: Selection,
}

/// Checks every file, and reports every one that is wrong.
///
/// # Errors
/// The last file's error; those before it were reported.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let options = args.selection.options();
    let mut failed = None;
    let mut experiments = Vec::new();
    for file in &args.selection.experiments {
        let loaded = Experiment::load(file, &options).and_then(|experiment| {
            if experiment.needs_data() {
                experiment.data.inspect(&experiment.document)?;
            }
            Ok(experiment)
        });
        match loaded {
            Ok(experiment) => experiments.push(experiment),
            Err(error) => {
                if let Some(earlier) = failed.replace(error) {
                    eprint_line(format_args!("error: {}", crate::chain::chain(&earlier)));
                }
            }
        }
    }
    for experiment in &experiments {
        output.text(describe(experiment));
    }
    output.json(&experiments.iter().map(expanded).collect::<Vec<_>>());
    failed.map_or(Ok(Exit::Done), |error| Err(error.into()))
}
