//! `profile`: measure a compute profile, which simulations stand on: of this program's models on
//! this machine, or of any training; `profile calibrate`: a platform profile of one's own.

mod calibrate;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::TypedValueParser;
use epochcost_planner::error::Error;
use epochcost_planner::profiling::{
    self, Plan, Request, SamplesPerStep, ScriptPlan, ScriptRequest,
};
use epochcost_record::Machine;
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::{Output, eprint_line};
use epochcost_systems::Device;

use super::selection::named;
use crate::run::stop_signal;

/// Batch sizes of this program's models, unless others are named.
const BATCHES: [usize; 3] = [8, 32, 128];
/// Fewest timed steps of this program's models, and of other programs.
const STEPS: (usize, usize) = (3, 20);

/// `profile`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// What to do with platform profiles.
    #[command(subcommand)]
    action: Option<Action>,
    /// A program to profile as it is, after `--`: `epochcost profile -- python train.py`.
    /// Without one, this program's own models are measured.
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
    /// A model to measure, more than once for more; by default every model of fewer than
    /// 100 million parameters.
    #[arg(long = "model", value_name = "MODEL", conflicts_with = "program")]
    models: Vec<String>,
    /// Batch sizes. A line is fitted to their times, so give two or more; 8, 32 and 128 of
    /// models. In a program's arguments, they stand where `{batch}` is.
    #[arg(long = "batch", value_name = "B", value_delimiter = ',')]
    batches: Vec<NonZeroUsize>,
    /// What to compute on. On a GPU, threads are of no account.
    #[arg(long, value_parser = device(), default_value = "cpu", conflicts_with = "program")]
    device: Device,
    /// Numbers of threads, 1 among them; by default 1 and all cores.
    #[arg(long, value_name = "T", value_delimiter = ',')]
    threads: Vec<NonZeroUsize>,
    /// Fewest steps that each process times after its warm-up, 3 of models; steps after
    /// which a program is ended, 20.
    #[arg(long, value_name = "N")]
    steps: Option<NonZeroUsize>,
    /// Processes for each point of a model.
    #[arg(
        long,
        value_name = "N",
        default_value = "3",
        conflicts_with = "program"
    )]
    rounds: NonZeroUsize,
    /// Time of steps after which a program is ended (30s, 2m).
    #[arg(
        long = "for",
        value_name = "TIME",
        default_value = "60s",
        allow_hyphen_values = true,
        requires = "program"
    )]
    limit: jiff::SignedDuration,
    /// Samples of a step of a program, where they are not what is found: a number for each
    /// batch size (8 or 8,16), or a factor of what is found (x0.5).
    #[arg(long, value_name = "N|xF", requires = "program")]
    samples_per_step: Option<SamplesPerStep>,
    /// Name of a program's model; by default that of its file.
    #[arg(long, value_name = "NAME", requires = "program")]
    name: Option<String>,
    /// Write a program's times as they are here, and not carried to a vCPU of a function
    /// or to a T4.
    #[arg(long, requires = "program")]
    as_measured: bool,
    /// Write the profile even if the times do not lie on a line.
    #[arg(long)]
    allow_bad_fit: bool,
    /// The file to write; by default one under `results/profiles/`, named for
    /// the CPU or the program, and the date.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
}

/// What there is to do beside measuring steps.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Move a platform profile towards measurements of one's own account.
    ///
    /// Writes the profile with a new value and range for each constant that the measurements say
    /// something of; few move little. Says how far each moved, and by how many rows.
    Calibrate(calibrate::Args),
}

/// Returns the parser of a device's name.
fn device() -> impl TypedValueParser<Value = Device> {
    named(&[Device::Cpu, Device::Cuda], |device| match device {
        Device::Cpu => "cpu",
        Device::Cuda => "cuda",
    })
}

impl Args {
    fn request<'a>(&'a self, batches: &'a [NonZeroUsize]) -> Request<'a> {
        Request {
            models: &self.models,
            batches,
            device: self.device,
            threads: &self.threads,
            steps: (self.steps.or(NonZeroUsize::new(STEPS.0))).unwrap_or(NonZeroUsize::MIN),
            rounds: self.rounds,
            out: self.out.as_deref(),
            force: self.force,
            allows_bad_fit: self.allow_bad_fit,
        }
    }

    /// Returns the batch sizes of this program's models.
    fn model_batches(&self) -> Vec<NonZeroUsize> {
        if self.batches.is_empty() {
            return BATCHES.into_iter().filter_map(NonZeroUsize::new).collect();
        }
        self.batches.clone()
    }
}

/// Measures the profile and writes it to a file.
///
/// # Errors
/// [`Error::Usage`] for what cannot be measured and for a file that is there,
/// before any work starts; then whatever kept a process from measuring.
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    if let Some(Action::Calibrate(args)) = &args.action {
        return calibrate::run(args, output);
    }
    let machine = Machine::here(Vec::new());
    if args.program.is_empty() {
        let plan = Plan::new(&args.request(&args.model_batches()), machine)?;
        return until_stopped(profiling::measure(&plan, output)).await;
    }
    let plain = |numbers: &[NonZeroUsize]| -> Vec<usize> {
        numbers.iter().map(|number| number.get()).collect()
    };
    let limit = Duration::try_from(args.limit).ok();
    let limit = limit.filter(|limit| !limit.is_zero());
    let plan = ScriptPlan::new(
        &ScriptRequest {
            command: &args.program,
            batches: &plain(&args.batches),
            threads: &plain(&args.threads),
            steps: args.steps.map_or(STEPS.1, NonZeroUsize::get),
            limit: limit.ok_or_else(|| {
                Error::usage(
                    format!("--for {} is no time", args.limit),
                    "give a time above 0 with its unit: 30s, 2m",
                )
            })?,
            samples_per_step: args.samples_per_step.as_ref(),
            name: args.name.as_deref(),
            out: args.out.as_deref(),
            force: args.force,
            allows_bad_fit: args.allow_bad_fit,
            as_measured: args.as_measured,
        },
        machine,
    )?;
    until_stopped(profiling::measure_script(&plan, output)).await
}

/// Measures until a signal arrives.
async fn until_stopped(measuring: impl Future<Output = Result<(), Error>>) -> Result<Exit, Error> {
    let stopped = stop_signal()?;
    tokio::select! {
        done = measuring => done.map(|()| Exit::Done),
        () = stopped => {
            eprint_line("interrupted; no profile was written");
            Ok(Exit::Interrupted)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches};

    use super::*;

    #[test]
    fn by_default_three_batch_sizes_are_measured_three_times() {
        let matches = Args::augment_args(Command::new("profile"))
            .try_get_matches_from(["profile"])
            .unwrap();
        let args = Args::from_arg_matches(&matches).unwrap();
        let batches = args.model_batches();
        let request = args.request(&batches);
        let batches: Vec<usize> = request.batches.iter().map(|batch| batch.get()).collect();
        assert_eq!(batches, [8, 32, 128]);
        assert_eq!((request.steps.get(), request.rounds.get()), (3, 3));
        assert_eq!(request.device, Device::Cpu);
        assert!(request.models.is_empty() && request.threads.is_empty() && !request.force);
        assert!(!request.allows_bad_fit);
    }
}
