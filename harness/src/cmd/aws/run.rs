//! `run --platform aws`: from consent to the last look whether anything is left.

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, stdin};
use std::path::{Path, PathBuf};

use epochcost_aws::deployment::{SERVICE_INSTANCE, Training};
use epochcost_aws::{Consent, Prices, monthly_usd, worst_case};

use super::Terms;
use super::book::Book;
use super::plan::training;
use crate::cmd::execute::stop_signal;
use crate::cmd::{Output, complain, plan};
use crate::cost::PriceBook;
use crate::error::Error;
use crate::experiment::Experiment;
use crate::platform::aws::{self, Agreed, Programs, RunningPrices};
use crate::platform::local;
use crate::report::format::usd;
use crate::results::ResultsError;

/// The rows, as AWS needs them.
fn trainings(
    experiment: &Experiment,
    prices: &PriceBook,
    output: Output,
) -> Result<Vec<Training>, Error> {
    let deployed = plan::deployments(experiment, prices, output)?;
    Ok(deployed.iter().map(training).collect())
}

fn book() -> Result<PriceBook, Error> {
    Ok(PriceBook::shipped().map_err(ResultsError::from)?)
}

fn lacks(experiment: &Experiment, what: &str, remedy: &str) -> Error {
    Error::Lacks {
        what: format!("{}: {what}", experiment.document.file.display()),
        remedy: remedy.to_owned(),
    }
}

pub(super) fn runnable(experiment: &Experiment) -> Result<(), Error> {
    let quiet = Output {
        json: false,
        verbosity: -1,
    };
    let rows = trainings(experiment, &book()?, quiet)?;
    if rows.len() < experiment.rows.len() {
        return Err(lacks(
            experiment,
            "some of its rows are impossible on Lambda",
            "`epochcost plan` names them and their limits",
        ));
    }
    for row in &experiment.rows {
        if row.sandbox.network.is_some() {
            let what = format!("{} shapes the network, and AWS has its own", row.id);
            return Err(lacks(experiment, &what, "leave `network` out"));
        }
    }
    Ok(())
}

pub(super) async fn agree(
    experiment: &Experiment,
    worker: PathBuf,
    terms: Terms,
    output: Output,
) -> Result<Agreed, Error> {
    let prices = book()?;
    let rows = trainings(experiment, &prices, output)?;
    let lines = worst_case(&rows, &Book(&prices)).map_err(|error| {
        lacks(
            experiment,
            &format!("there is no worst case: {error}"),
            "the price book lacks it; `epochcost prices refresh` writes another",
        )
    })?;
    let worst_usd: f64 = lines.iter().map(|line| line.usd).sum();
    if let Some(stale) = prices.stale(jiff::Zoned::now().date()) {
        output.message(format_args!("warning: {stale}"));
    }
    output.message(format_args!(
        "on AWS, {} rows cost at most {} at prices of {} before tax; `epochcost plan --platform \
         aws` lists it",
        rows.len(),
        usd(worst_usd),
        prices.date()
    ));
    let consent = match (terms.yes, stdin().is_terminal()) {
        (true, _) => Consent::Given,
        (false, true) => Consent::Ask,
        (false, false) => Consent::Impossible,
    };
    let price = |dimension: &str| {
        let price = Book(&prices).price(dimension).map(|(usd, _)| usd);
        price.map_err(|error| lacks(experiment, &error, "use another price book"))
    };
    let mut hours = BTreeMap::new();
    let kinds = rows.iter().map(|row| row.instance_type.as_str());
    for kind in kinds.chain([SERVICE_INSTANCE]) {
        if let Ok(usd) = price(&format!("ec2/{kind}")) {
            hours.insert(kind.to_owned(), usd);
        }
    }
    let module = needed_module(experiment, &rows, output)?;
    let terms = aws::Terms {
        limit_usd: terms.max_usd,
        consent,
        prices: RunningPrices {
            gb_second_usd: price("lambda_gb_second")?,
            request_usd: price("lambda_request")?,
            instance_hour_usd: hours,
        },
    };
    let answer = || {
        complain(format_args!("run on AWS and pay for it? Type yes:"));
        let mut answer = String::new();
        stdin().lock().read_line(&mut answer).ok().map(|_| answer)
    };
    let programs = Programs { worker, module };
    Ok(Agreed::ask(rows, programs, worst_usd, &terms, answer).await?)
}

/// The Redis module, found or built, where a row computes in its tensor stores.
fn needed_module(
    experiment: &Experiment,
    rows: &[Training],
    output: Output,
) -> Result<Option<PathBuf>, Error> {
    let mut rows = rows.iter().zip(&experiment.rows);
    if !rows.any(|(training, row)| training.uses_tensor_store && row.needs_module()) {
        return Ok(None);
    }
    output.message(format_args!(
        "looking for the Redis module; building it takes a minute"
    ));
    Ok(local::Programs::find_or_build(true, false)?.module)
}

pub(super) async fn put_away(directory: &Path, output: Output) -> Result<(), Error> {
    let say = |text: &str| output.message(format_args!("{text}"));
    // Waiting for network interfaces may be cut short: what costs is gone by then.
    let stop = stop_signal()?;
    let left = tokio::select! {
        left = aws::put_away(directory, &say) => left?,
        () = stop => return Err(Error::Lacks {
            what: "interrupted before all of the run was removed".to_owned(),
            remedy: "`epochcost clean` removes what is left".to_owned(),
        }),
    };
    if left.is_empty() {
        return Ok(());
    }
    let prices = book()?;
    for left in &left {
        let month = monthly_usd(&left.found.holding, &Book(&prices));
        let month = month.map_or("no price is known".to_owned(), usd);
        let why = (left.refusal.as_ref()).map_or(String::new(), |error| format!(": {error}"));
        output.message(format_args!(
            "still there, {month} a month: {} in {}{why}",
            left.found.address, left.found.region
        ));
    }
    Err(Error::Lacks {
        what: format!("{} resources of the run are still there", left.len()),
        remedy: "`epochcost clean` removes them".to_owned(),
    })
}
