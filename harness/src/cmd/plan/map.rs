//! `plan map`: where training is cheapest, and where it is fastest.

use std::path::PathBuf;

use epochcost_planner::error::Error;
use epochcost_planner::forecast::{Goal, MapRequest, map, shifts};
use epochcost_record::probe_file;
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::Output;

use crate::cmd::write_file;

/// `plan map`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Time within which a training must end (90min, 2h).
    #[arg(
        long,
        value_name = "TIME",
        default_value = "2h",
        allow_hyphen_values = true
    )]
    deadline: String,
    /// Most that a training may cost (5usd).
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    budget: Option<String>,
    /// Samples of a training.
    #[arg(long, value_name = "N", default_value = "50000",
          value_parser = clap::value_parser!(u64).range(128..))]
    samples: u64,
    /// A place to compare, by name or file; more than once, several. By default all that
    /// docs/PLACES.md lists.
    #[arg(long, value_name = "NAME|FILE")]
    place: Vec<String>,
    /// Draw the own model of an experiment as a point, with its best settings among those that the
    /// map tries, for the samples, epochs, batch size and rates of its file, such as
    /// `epochcost profile -- PROGRAM` writes.
    #[arg(long, value_name = "EXPERIMENT")]
    model: Option<PathBuf>,
    /// Say how the map moves without S3 Express, with constants that were fitted to a paper, with an
    /// interpreted client and with fewer bytes to exchange, and draw nothing. Takes as long as six
    /// maps.
    #[arg(long, conflicts_with_all = ["model", "out"])]
    shifts: bool,
    /// Where to write the picture.
    #[arg(long, value_name = "FILE.svg", default_value = "map.svg")]
    out: PathBuf,
}

/// Writes the map as a picture, and prints what it shows.
///
/// # Errors
/// When an option or a place cannot be used, or the picture cannot be written.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let goal = Goal::parse(Some(&args.deadline), args.budget.as_deref())?;
    let request = MapRequest {
        places: &args.place,
        goal: goal.unwrap_or_default(),
        samples: args.samples,
        cells: None,
        model: args.model.as_deref(),
    };
    if args.shifts {
        let moved = shifts(&request)?;
        output.text(moved.text());
        output.json(&moved);
        return Ok(Exit::Done);
    }
    // A pipe or device is written to as it is.
    if !args.out.exists() || args.out.is_dir() {
        probe_file(&args.out, "--out")?;
    }
    let drawn = map(&request)?;
    write_file(&args.out, &drawn.svg(), output)?;
    output.text([&drawn.sentences[..], &drawn.misses].concat().join("\n"));
    output.json(&drawn);
    Ok(Exit::Done)
}
