//! `aws clean`: finds what runs left on AWS, and removes it.

use std::io::{BufRead, IsTerminal, stdin};

use serde::Serialize;

use epochcost_planner::error::Error;
use epochcost_platform::{Removal, Resource, SurveyFilter, cloud};
use epochcost_spec::cost::PriceBook;
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::{Output, eprint_line, table};

/// `aws clean`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show what is there and what it costs per month, and remove nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Search this region only; may be repeated. By default in all that the
    /// account has enabled.
    #[arg(long, value_name = "REGION")]
    pub region: Vec<String>,
    /// What belongs to this run only: the twelve digits in its names.
    #[arg(long, value_name = "ID", conflicts_with = "expired")]
    pub run: Option<String>,
    /// What has expired only.
    #[arg(long)]
    pub expired: bool,
    /// Remove without asking.
    #[arg(long)]
    pub yes: bool,
}

/// A resource that was found.
#[derive(Serialize)]
struct Line {
    kind: String,
    name: String,
    region: String,
    run: String,
    expires: Option<String>,
    /// Cost as it is, US dollars per month; null where it has no price.
    usd_per_month: Option<f64>,
    removed: bool,
    /// Why it is still there.
    refusal: Option<String>,
}

impl Line {
    fn of(resource: &Resource) -> Self {
        let resource = resource.clone();
        Self {
            kind: resource.kind,
            name: resource.name,
            region: resource.region,
            run: resource.run,
            expires: resource.expires,
            usd_per_month: resource.usd_per_month,
            removed: false,
            refusal: None,
        }
    }
}

/// Finds and removes what runs left.
///
/// # Errors
/// When this build has no clients, a service could not be asked, or the user
/// declined.
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let cloud = cloud()?;
    let book = PriceBook::shipped()?;
    let filter = SurveyFilter {
        regions: args.region.clone(),
        run: args.run.clone(),
        expired: args.expired,
    };
    let survey = cloud.survey(&filter, &book, output).await?;
    let found = survey.resources();
    if found.is_empty() {
        output.text("nothing is there");
        output.json(&[] as &[Line]);
        return Ok(Exit::Done);
    }
    let lines: Vec<Line> = found.iter().map(Line::of).collect();
    output.text(shown(&lines));
    if args.dry_run {
        output.json(&lines);
        return Ok(Exit::Done);
    }
    agree(args, found.len())?;
    Ok(print(&survey.remove().await, output))
}

fn shown(lines: &[Line]) -> String {
    let rows: Vec<[String; 6]> = (lines.iter())
        .map(|line| {
            let usd = |usd: f64| format!("{usd:.2}");
            [
                line.kind.clone(),
                line.name.clone(),
                line.region.clone(),
                line.run.clone(),
                line.expires.clone().unwrap_or_else(|| "-".to_owned()),
                line.usd_per_month.map_or("no price".to_owned(), usd),
            ]
        })
        .collect();
    table(
        ["what", "name", "region", "run", "expires", "$ per month"],
        &rows,
    )
}

fn agree(args: &Args, count: usize) -> Result<(), Error> {
    let refused = |reason: &str| {
        Err(Error::Usage {
            problem: format!("nothing was removed: {reason}"),
            remedy: "agree with --yes, or list the resources with --dry-run".to_owned(),
        })
    };
    if args.yes {
        return Ok(());
    }
    if !stdin().is_terminal() {
        return refused("there is no terminal to ask at");
    }
    eprint_line(format_args!("remove these {count} resources? Type yes:"));
    let mut answer = String::new();
    match stdin().lock().read_line(&mut answer) {
        Ok(_) if answer.trim() == "yes" => Ok(()),
        _ => refused("the answer was not \"yes\""),
    }
}

/// Prints what is gone and what is not.
fn print(removal: &Removal, output: Output) -> Exit {
    let removed = removal.removed.iter().map(|resource| Line {
        removed: true,
        ..Line::of(resource)
    });
    let leftovers = removal.leftovers.iter().map(|leftover| Line {
        refusal: leftover.refusal.clone(),
        ..Line::of(&leftover.resource)
    });
    let lines: Vec<Line> = removed.chain(leftovers).collect();
    output.json(&lines);
    output.text(format!("removed {}", removal.removed.len()));
    for leftover in &removal.leftovers {
        let Resource { kind, name, .. } = &leftover.resource;
        let why = leftover.refusal.as_deref().unwrap_or_default();
        output.message(format_args!("still there: {kind} {name}: {why}"));
    }
    if removal.leftovers.is_empty() {
        Exit::Done
    } else {
        Exit::Internal
    }
}
