//! `profile`: measure this machine's compute profile, which simulations stand on.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;
use epochcost_systems::Device;

use crate::error::Error;
use crate::exit::Exit;
use crate::profiling::{self, Plan, Request};
use crate::results::Machine;
use crate::run::stop_signal;
use crate::ui::{Output, eprint_line};

/// `profile`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A model to measure, more than once for more; by default every model of fewer than
    /// 100 million parameters.
    #[arg(long = "model", value_name = "MODEL")]
    models: Vec<String>,
    /// Batch sizes. A line is fitted to their times, so give two or more.
    #[arg(long = "batch", value_name = "B", value_delimiter = ',', default_values = ["8", "32", "128"])]
    batches: Vec<NonZeroUsize>,
    /// What to compute on. On a GPU, threads are of no account.
    #[arg(long, value_enum, default_value = "cpu")]
    device: DeviceName,
    /// Numbers of threads, 1 among them; by default 1 and all cores.
    #[arg(long, value_name = "T", value_delimiter = ',')]
    threads: Vec<NonZeroUsize>,
    /// Fewest steps that each process times, after its warm-up.
    #[arg(long, value_name = "N", default_value = "3")]
    steps: NonZeroUsize,
    /// Processes for each point.
    #[arg(long, value_name = "N", default_value = "3")]
    rounds: NonZeroUsize,
    /// The file to write; by default one under `results/profiles/`, named for
    /// the CPU and the date.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
}

/// A device by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DeviceName {
    Cpu,
    Cuda,
}

impl From<DeviceName> for Device {
    fn from(name: DeviceName) -> Self {
        match name {
            DeviceName::Cpu => Self::Cpu,
            DeviceName::Cuda => Self::Cuda,
        }
    }
}

impl Args {
    fn request(&self) -> Request<'_> {
        Request {
            models: &self.models,
            batches: &self.batches,
            device: self.device.into(),
            threads: &self.threads,
            steps: self.steps,
            rounds: self.rounds,
            out: self.out.as_deref(),
            force: self.force,
        }
    }
}

/// Measures the profile and writes it to a file.
///
/// # Errors
/// [`Error::Usage`] for what cannot be measured and for a file that is there,
/// before any work starts; then whatever kept a process from measuring.
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let plan = Plan::new(&args.request(), Machine::here(Vec::new()))?;
    let stopped = stop_signal()?;
    tokio::select! {
        done = profiling::measure(&plan, output) => done.map(|()| Exit::Done),
        () = stopped => {
            eprint_line("interrupted; no profile was written");
            Ok(Exit::Interrupted)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::{Args as _, Command, FromArgMatches};

    use super::*;

    #[test]
    fn by_default_three_batch_sizes_are_measured_three_times() {
        let matches = Args::augment_args(Command::new("profile"))
            .try_get_matches_from(["profile"])
            .unwrap();
        let args = Args::from_arg_matches(&matches).unwrap();
        let request = args.request();
        let batches: Vec<usize> = request.batches.iter().map(|batch| batch.get()).collect();
        assert_eq!(batches, [8, 32, 128]);
        assert_eq!((request.steps.get(), request.rounds.get()), (3, 3));
        assert_eq!(request.device, Device::Cpu);
        assert!(request.models.is_empty() && request.threads.is_empty() && !request.force);
    }
}
