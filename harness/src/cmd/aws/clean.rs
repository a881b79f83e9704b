//! `aws clean`: finds what runs left on AWS, and removes it.

use std::io::{BufRead, IsTerminal, stdin};

use serde::Serialize;

use epochcost_planner::error::Error;
use epochcost_platform::{Removal, Resource, SurveyFilter, cloud};
use epochcost_spec::cost::PriceBook;
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::{Output, eprint_line, table_of};

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
struct Line<'a> {
    #[serde(flatten)]
    resource: &'a Resource,
    removed: bool,
    /// Why it is still there.
    refusal: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn of(resource: &'a Resource) -> Self {
        Self {
            resource,
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
    output.text(shown(found));
    if args.dry_run {
        output.json(&found.iter().map(Line::of).collect::<Vec<_>>());
        return Ok(Exit::Done);
    }
    agree(args, found.len())?;
    Ok(print(&survey.remove().await, output))
}

fn shown(resources: &[Resource]) -> String {
    let row = |resource: &Resource| {
        let Resource {
            kind,
            name,
            region,
            run,
            expires,
            usd_per_month,
        } = resource.clone();
        let usd = usd_per_month.map_or("no price".to_owned(), |usd| format!("{usd:.2}"));
        let expires = expires.unwrap_or_else(|| "-".to_owned());
        [kind, name, region, run, expires, usd]
    };
    let heading = ["what", "name", "region", "run", "expires", "$ per month"];
    table_of(heading, resources, row)
}

fn agree(args: &Args, count: usize) -> Result<(), Error> {
    let refused = |reason| {
        let remedy = "agree with --yes, or list the resources with --dry-run";
        Err(Error::usage(
            format!("nothing was removed: {reason}"),
            remedy,
        ))
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
        refusal: leftover.refusal.as_deref(),
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
