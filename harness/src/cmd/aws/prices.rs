//! `aws prices`: what things cost.

mod refresh;

use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;

use epochcost_planner::error::Error;
use epochcost_spec::cost::{Price, PriceBook};
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::{Output, table_of};

/// `aws prices`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show every price, its unit and its source.
    Show,
    /// Write a price book from the Pricing API, and show what differs.
    Refresh(RefreshArgs),
}

/// `aws prices refresh`.
#[derive(Debug, clap::Args)]
pub struct RefreshArgs {
    /// The region that is priced.
    #[arg(long, value_name = "REGION", default_value = "us-east-1")]
    pub region: String,
    /// File to write the price book to; an existing file is not overwritten.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// The price book as JSON.
#[derive(Serialize)]
struct Shown<'a> {
    region: &'a str,
    date: String,
    note: &'a str,
    prices: &'a [Price],
}

/// Shows the price book that bills are made with, or writes another.
///
/// # Errors
/// When the price book is unusable, or the Pricing API cannot be asked.
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    match &args.action {
        Action::Show => show(output),
        Action::Refresh(args) => refresh::run(args, output).await,
    }
}

fn show(output: Output) -> Result<Exit, Error> {
    let book = PriceBook::shipped()?;
    let row = |price: &Price| {
        let Price {
            dimension,
            unit,
            usd,
            about,
            source,
        } = price.clone();
        [dimension, usd.to_string(), unit, about, source]
    };
    let heading = ["dimension", "USD", "unit", "what", "source"];
    output.text(table_of(heading, book.prices(), row));
    let (region, date, note) = (book.region(), book.date().to_string(), book.note());
    output.message(format_args!("{region}, {date}: {note}"));
    let today = jiff::Zoned::now().date();
    if let Some(warning) = book.stale(today) {
        output.message(format_args!("warning: {warning}"));
    }
    output.json(&Shown {
        region,
        date,
        note,
        prices: book.prices(),
    });
    Ok(Exit::Done)
}
