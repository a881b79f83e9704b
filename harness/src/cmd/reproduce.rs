//! `reproduce`: the papers' tables and figures, each a run of its own, and one
//! page over all of them.

use std::path::{Path, PathBuf};

use epochcost_experiment::PlatformKind;
use epochcost_planner::error::Error;
use epochcost_spec::exit::Exit;
use epochcost_spec::shipped;
use epochcost_spec::ui::Output;

use super::Spending;
use super::selection::platform;
use crate::run::SpendingConsent;
use crate::run::reproduction::{Request, reproduce};

/// `reproduce`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Papers and items, as `cost-performance` or `cost-performance/table2`; by
    /// default all.
    #[arg(value_name = "PAPER[/ITEM]")]
    items: Vec<String>,
    /// Reduce long items, or leave them out, as their files state.
    #[arg(long)]
    quick: bool,
    /// Only items that run on this platform, or have a form for it. An item's claims are written for
    /// its platform; `run --platform` runs one elsewhere.
    #[arg(long, value_parser = platform())]
    platform: Option<PlatformKind>,
    /// Directory of the runs and the page over them.
    #[arg(long, value_name = "DIR", default_value = "results/reproduce")]
    out: PathBuf,
    /// Run everything anew; what is there is set aside.
    #[arg(long)]
    fresh: bool,
    /// Show what would be run and what is done already, then stop; on `aws` what it needs, is expected to
    /// cost and costs at most.
    #[arg(long)]
    dry_run: bool,
    /// Spread the trials of each item over so many days on a cloud: this visit runs what is due, one trial of
    /// each row, and removes all that it made. The same command, from a timer, goes on.
    #[arg(long, value_name = "N", requires = "platform", conflicts_with_all = ["dry_run", "fresh"], value_parser = days)]
    days: Option<f64>,
    /// Wait for the visits that are left.
    #[arg(long, requires = "days")]
    wait: bool,
    /// What the items may cost together.
    #[command(flatten)]
    spending: Spending,
    /// Record the verdicts of whole items, with the reason why they changed: `verdicts.csv` in the
    /// papers' directories.
    #[arg(long, value_name = "WHY", conflicts_with = "quick")]
    accept: Option<String>,
    /// Directory that holds the papers' directories: by default `experiments`, or, where there
    /// is none, those that this program brings along.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

fn days(text: &str) -> Result<f64, String> {
    let days = text.parse().ok();
    days.filter(|days| (0.0..=3660.0).contains(days))
        .ok_or_else(|| "a number of days, 0 to 3660".to_owned())
}

/// Runs what is not recorded yet, and writes the page over all items.
///
/// # Errors
/// For a name that is none, where nothing is selected, and when results cannot
/// be written. What goes wrong with an item is reported on the page.
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let is_cloud = (args.platform).is_some_and(|platform| platform.site().is_cloud());
    if args.days.is_some() && !is_cloud {
        return Err(Error::usage(
            "--days spreads trials over days where each costs money",
            "leave it out, or name a cloud by --platform",
        ));
    }
    let directory = args.directory.clone().unwrap_or_else(shipped::experiments);
    // Items are named like experiments, by their files as well.
    let items = args.items.iter().map(|item| {
        let item = item.trim_end_matches('/');
        shipped::id(Path::new(item)).unwrap_or(item).to_owned()
    });
    let items: Vec<String> = items.collect();
    let request = Request {
        items: &items,
        quick: args.quick,
        platform: args.platform,
        out: &args.out,
        fresh: args.fresh,
        dry_run: args.dry_run,
        days: args.days,
        wait: args.wait,
        consent: SpendingConsent {
            yes: args.spending.yes,
            max_usd: args.spending.max_usd,
            spent_in: Some(args.out.clone()),
            prices: args.spending.prices()?,
        },
        accept: args.accept.as_deref(),
        directory: &directory,
    };
    reproduce(&request, output).await
}
