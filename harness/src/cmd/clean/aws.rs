//! `clean`: finds what runs left on AWS, and removes it.

use std::io::{BufRead, IsTerminal, stdin};

use epochcost_aws::resource::Found;
use epochcost_aws::{AwsError, Clients, Removal, RunFilter, monthly_usd, remove_all, survey};
use serde::Serialize;

use super::Args;
use crate::cost::{Book, PriceBook};
use crate::error::Error;
use crate::exit::Exit;
use crate::results::ResultsError;
use crate::ui::{Output, eprint_line, table};

/// Something that was found.
#[derive(Serialize)]
struct Line {
    kind: String,
    name: String,
    region: String,
    run: String,
    expires: Option<String>,
    /// US dollars a month as it is; null where it has no price.
    usd_per_month: Option<f64>,
    removed: bool,
    /// Why it is still there.
    refusal: Option<String>,
}

impl Line {
    fn of(found: &Found, book: &PriceBook) -> Self {
        Self {
            kind: found.address.kind.to_string(),
            name: found.address.name.clone(),
            region: found.region.clone(),
            run: found.run.to_string(),
            expires: found.expires.map(|expires| expires.to_string()),
            usd_per_month: monthly_usd(&found.holding, &Book(book)).ok(),
            removed: false,
            refusal: None,
        }
    }
}

pub(super) async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let book = PriceBook::shipped().map_err(ResultsError::from)?;
    let whose = whose(args)?;
    let clients = Clients::load(args.region.first().map(String::as_str)).await?;
    let regions = match args.region.as_slice() {
        [] => clients.regions().await?,
        named => named.to_vec(),
    };
    let account = clients.identity().await?.account;
    output.message(format_args!(
        "looking for resources of epochcost in account {account}, {} regions",
        regions.len()
    ));
    let found = survey(&clients, &regions, &whose).await?;
    if found.is_empty() {
        output.text("nothing is there");
        output.json(&[] as &[Line]);
        return Ok(Exit::Done);
    }
    let lines: Vec<Line> = found.iter().map(|found| Line::of(found, &book)).collect();
    output.text(shown(&lines));
    if args.dry_run {
        output.json(&lines);
        return Ok(Exit::Done);
    }
    agree(args, found.len())?;
    Ok(tell(&remove_all(found, &clients).await, &book, output))
}

fn whose(args: &Args) -> Result<RunFilter, Error> {
    match &args.run {
        Some(run) => match run.parse() {
            Ok(run) => Ok(RunFilter::Run(run)),
            Err(problem) => Err(Error::Usage {
                problem,
                remedy: "`epochcost clean --dry-run` lists the runs that left something".into(),
            }),
        },
        None if args.expired => Ok(RunFilter::ExpiredAt(jiff::Timestamp::now())),
        None => Ok(RunFilter::AllRuns),
    }
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
        ["what", "name", "region", "run", "expires", "$ a month"],
        &rows,
    )
}

fn agree(args: &Args, count: usize) -> Result<(), Error> {
    let refused = |reason: &str| {
        Err(Error::Usage {
            problem: format!("nothing was removed: {reason}"),
            remedy: "agree with --yes, or look with --dry-run".to_owned(),
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

/// Says what is gone and what is not.
fn tell(removal: &Removal, book: &PriceBook, output: Output) -> Exit {
    let gone = removal.removed.iter().map(|found| Line {
        removed: true,
        ..Line::of(found, book)
    });
    let left = removal
        .leftovers
        .iter()
        .map(|(found, error): &(Found, AwsError)| Line {
            refusal: Some(error.to_string()),
            ..Line::of(found, book)
        });
    let lines: Vec<Line> = gone.chain(left).collect();
    output.json(&lines);
    output.text(format!("removed {}", removal.removed.len()));
    for (found, error) in &removal.leftovers {
        output.message(format_args!("still there: {}: {error}", found.address));
    }
    match removal.leftovers.is_empty() {
        true => Exit::Done,
        false => Exit::Internal,
    }
}
