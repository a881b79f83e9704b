//! `replay`: a recorded local run again in virtual time, on the same machine's
//! profile or under another memory size, worker count or platform.

use std::path::PathBuf;

use crate::error::Error;
use crate::exit::Exit;
use crate::forecast::replay::{self, Replay, Request};
use crate::report;
use crate::results::probe_file;
use crate::run::stop_signal;
use crate::ui::{Output, eprint_line};

/// `replay`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory of a finished run on the local platform.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// The platform profile, by name or file; by default `laptop` with as many
    /// cores as the run's machine, so that both can be compared.
    #[arg(long, value_name = "NAME|FILE")]
    profile: Option<String>,
    /// A compute profile, by name or file, in the place of the steps that the
    /// run recorded: a prediction that knows nothing of the run.
    #[arg(long, value_name = "NAME|FILE")]
    compute: Option<String>,
    /// Another memory size of every function.
    #[arg(long, value_name = "MB")]
    memory: Option<u32>,
    /// Another number of workers; each keeps its mini-batches.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// Exit with 3 if the simulated wall time of any row is off by more than
    /// this share of the recorded one.
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with_all = ["memory", "workers"])]
    within: Option<f64>,
    /// Write the comparison to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Also write the comparison as a page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace the file if it is there.
    #[arg(long, requires = "out")]
    force: bool,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("give a share of more than 0, as 0.25".to_owned()),
    }
}

impl Args {
    fn request(&self) -> Request<'_> {
        Request {
            run: &self.run,
            profile: self.profile.as_deref(),
            compute: self.compute.as_deref(),
            memory_mb: self.memory,
            workers: self.workers.map(usize::from),
            within: self.within,
        }
    }
}

/// Simulates every row of a run again and compares.
///
/// # Errors
/// [`Error::Usage`] for what cannot be replayed; then whatever kept a row from
/// being simulated.
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    if let Some(out) = &args.out {
        replay::check(out, args.force)?;
    }
    if let Some(path) = &args.html {
        probe_file(path)?;
    }
    let replay = Replay::new(&args.request()).await?;
    let stopped = stop_signal()?;
    tokio::select! {
        done = execute(&replay, args, output) => done,
        () = stopped => {
            eprint_line("interrupted; nothing was written");
            Ok(Exit::Interrupted)
        }
    }
}

async fn execute(replay: &Replay, args: &Args, output: Output) -> Result<Exit, Error> {
    let comparison = replay.compare().await?;
    if let Some(out) = &args.out {
        replay::write(&comparison, out)?;
    }
    if let Some(path) = &args.html {
        report::write_page(path, &comparison.page())?;
        output.message(format_args!("page: {}", path.display()));
    }
    output.text(replay::text(&comparison));
    output.json(&comparison);
    if let Some(out) = &args.out {
        output.message(format_args!("record: {}", out.display()));
    }
    Ok(comparison.exit())
}
