//! `profile calibrate`: a platform profile of one's own account, or a compute profile of a local run.

use std::path::PathBuf;

use clap::builder::TypedValueParser;
use epochcost_simulator::ProbeClient;
use serde::Serialize;

use epochcost_planner::error::Error;
use epochcost_planner::forecast::validate::{Calibration, calibrate};
use epochcost_planner::forecast::{disagreement, recorded_steps};
use epochcost_planner::profiling::costs_table;
use epochcost_record::{probe_file, write_whole};
use epochcost_spec::exit::Exit;
use epochcost_spec::profiles;
use epochcost_spec::ui::Output;

use crate::cmd::selection::named;

/// `profile calibrate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Own measurements: a table with the columns of `epochcost dev validate` (seconds), a log of Lambda
    /// functions with its REPORT lines, or the directory of a run on AWS. All that there are at once.
    /// A finished local run stands alone, and gives a compute profile: what its steps took, less what they
    /// waited for the host's cores.
    #[arg(value_name = "FROM")]
    from: Vec<PathBuf>,
    /// The platform profile to begin with, by name or file.
    #[arg(long, value_name = "NAME|FILE", default_value = profiles::DEFAULT)]
    profile: String,
    /// The file to write the calibrated profile to, which takes the file's name.
    #[arg(long, value_name = "FILE", requires = "from")]
    out: Option<PathBuf>,
    /// Replace the file if it is there.
    #[arg(long, requires = "out")]
    force: bool,
    /// The client of the functions of a log, and of the measurements of --probe.
    #[arg(long, value_parser = client(), default_value = "compiled")]
    client: ProbeClient,
    /// Name the three smallest measurements that narrow ranges most, with their price, and print the table
    /// to fill in; with FROM, after those.
    #[arg(long)]
    probe: bool,
}

/// Returns the parser of a client's name.
fn client() -> impl TypedValueParser<Value = ProbeClient> {
    let clients = &[ProbeClient::Compiled, ProbeClient::Interpreted];
    named(clients, |client| match client {
        ProbeClient::Compiled => "compiled",
        ProbeClient::Interpreted | ProbeClient::Streaming => "interpreted",
    })
}

/// Prints how far measurements move each constant, and writes the profile.
///
/// # Errors
/// [`Error::Usage`] for measurements or a profile that cannot be used, and for a file that is there.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    if args.from.is_empty() && !args.probe {
        return Err(Error::usage(
            "there is nothing to calibrate by",
            "name measurements, or ask which to make with --probe",
        ));
    }
    let mut name = args.profile.as_str();
    if let Some(out) = &args.out {
        if out.exists() && !args.force {
            return Err(Error::usage(
                format!("{} is there already", out.display()),
                "replace it with --force, or name another file with --out",
            ));
        }
        probe_file(out, "--out")?;
        let stem = out.file_stem().and_then(|stem| stem.to_str());
        name = stem.unwrap_or(name);
    }
    let steps = match args.from.as_slice() {
        [run] => recorded_steps(run)?,
        _ => None,
    };
    if let Some(mut steps) = steps {
        if args.probe {
            return Err(Error::usage(
                "a local run says nothing of a cloud that `--probe` could measure",
                "leave out one of both",
            ));
        }
        for doubt in steps.models.iter().filter_map(disagreement) {
            output.message(format_args!("warning: {doubt}"));
        }
        output.text(costs_table(&steps));
        output.json(&steps);
        if args.out.is_some() {
            steps.name = name.to_owned();
        }
        return written(args, &steps, output);
    }
    let calibrated = calibrate(&Calibration {
        from: &args.from,
        profile: &args.profile,
        name,
        client: args.client,
        proposes: args.probe,
        date: &jiff::Zoned::now().date().to_string(),
    })?;
    output.text(calibrated.text());
    output.json(&calibrated);
    written(args, calibrated.made(), output)
}

/// Writes a profile, if a file is asked for.
fn written(args: &Args, profile: &impl Serialize, output: Output) -> Result<Exit, Error> {
    let Some(out) = &args.out else {
        return Ok(Exit::Done);
    };
    let failed = Error::io(format!("write the profile {}", out.display()));
    let yaml = serde_yaml::to_string(profile).map_err(std::io::Error::other);
    let yaml = yaml.map_err(failed)?;
    write_whole(out, yaml.as_bytes())?;
    output.message(format_args!("wrote {}", out.display()));
    Ok(Exit::Done)
}
