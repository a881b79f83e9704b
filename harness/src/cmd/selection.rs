//! The experiments that a verb works on, and what options lay over them.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use epochcost_experiment::{Experiment, Options, PlatformKind, Services};
use epochcost_planner::error::Error;
use epochcost_platform::Site;

/// Experiments, and what is laid over them.
#[derive(Debug, clap::Args)]
pub struct Selection {
    /// Experiments: files, or names of shipped ones, as `smoke` or `cost-performance/table2`.
    #[arg(required = true, value_name = "EXPERIMENT")]
    pub experiments: Vec<PathBuf>,
    /// Set a field: a dotted path, `=` and a YAML value, as in
    /// `--set epochs=1 --set systems.0.batch_size=16 --set 'systems.*.epochs=2'`.
    #[arg(long, value_name = "A.B=C")]
    pub set: Vec<String>,
    /// Repetitions of each row.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = repetitions)]
    pub trials: Option<usize>,
    /// Platform to run on.
    #[arg(long, value_parser = platform())]
    pub platform: Option<PlatformKind>,
    /// What serves the channels of the local platform.
    #[arg(long, value_parser = services())]
    pub services: Option<Services>,
}

fn repetitions(text: &str) -> Result<usize, String> {
    let number = text.parse();
    number.map_err(|_| "give a whole number of 1 or more".to_owned())
}

impl Selection {
    /// What is laid over each file.
    pub fn options(&self) -> Options {
        Options {
            set: self.set.clone(),
            trials: self.trials,
            platform: self.platform,
            services: self.services,
            ..Options::default()
        }
    }

    /// Refuses services for an experiment that runs where there are none of them.
    ///
    /// # Errors
    /// [`Error::Usage`] unless it runs on this machine.
    pub fn check_services(&self, experiment: &Experiment) -> Result<(), Error> {
        let platform = experiment.platform;
        match self.services {
            Some(services) if platform.site() != Site::ThisMachine => Err(Error::usage(
                format!(
                    "--services {} is of the platform local, and {} runs on {}",
                    services.as_str(),
                    experiment.name,
                    platform.as_str()
                ),
                "add --platform local, or leave it out",
            )),
            _ => Ok(()),
        }
    }
}

/// Returns the parser of an option that takes the name of one of `values`.
pub(super) fn named<T: Copy + Send + Sync + 'static>(
    values: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(values.iter().map(|value| name(*value)));
    names.try_map(move |given| {
        let value = values.iter().find(|value| name(**value) == given);
        value.copied().ok_or("no such name")
    })
}

/// Returns the parser of a platform's name.
pub(super) fn platform() -> impl TypedValueParser<Value = PlatformKind> {
    named(PlatformKind::all(), PlatformKind::as_str)
}

fn services() -> impl TypedValueParser<Value = Services> {
    named(&[Services::Embedded, Services::Real], Services::as_str)
}
