//! `prices refresh`: a price book from the Pricing API, and what differs.

use std::io::Write;

use super::RefreshArgs;
use crate::cost::{Price, PriceBook};
use crate::error::Error;
use crate::exit::Exit;
use crate::platform::cloud;
use crate::results::ResultsError;
use crate::ui::{Output, table};

/// Writes a price book from the Pricing API, and shows what differs.
///
/// # Errors
/// When this build has no clients, a price is not available, or the file cannot
/// be written.
pub(super) async fn run(args: &RefreshArgs, output: Output) -> Result<Exit, Error> {
    let cloud = cloud()?;
    let old = PriceBook::shipped().map_err(ResultsError::from)?;
    let refreshed = cloud.prices(&args.region, &old).await?;
    let prices = merged(refreshed.prices, &old);
    let today = jiff::Zoned::now().date();
    let text = written(&args.region, &today.to_string(), &prices);
    // A price book that cannot be read is not written.
    PriceBook::parse(&text).map_err(ResultsError::from)?;
    let failed = |source| Error::Io {
        doing: format!("write {}", args.out.display()),
        source,
    };
    let mut file = std::fs::File::create_new(&args.out).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    output.text(differences(&prices, &old));
    for error in &refreshed.missing {
        output.message(format_args!("left out: {error}"));
    }
    if args.region != old.region() {
        output.message(format_args!("compared with the prices of {}", old.region()));
    }
    output.json(&prices);
    Ok(Exit::Done)
}

/// Returns the new prices, and those old ones that the Pricing API does not have
/// or that cost nothing.
fn merged(fresh: Vec<Price>, old: &PriceBook) -> Vec<Price> {
    let kept = old.prices().iter().filter(|price| {
        price.dimension == "s3_delete"
            || price.dimension == "logs_gb_month"
            || price.dimension.starts_with("serverless_gpu/")
    });
    fresh.into_iter().chain(kept.cloned()).collect()
}

/// Returns the text of a price book file. Strings of JSON are strings of YAML.
fn written(region: &str, date: &str, prices: &[Price]) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut text = format!(
        "region: {}\ndate: {date}\nnote: from the Pricing API; prices that it does not state are kept\nprices:\n",
        quoted(region)
    );
    for price in prices {
        text.push_str(&format!(
            "  - dimension: {}\n    unit: {}\n    usd: {}\n    about: {}\n    source: {}\n",
            quoted(&price.dimension),
            quoted(&price.unit),
            price.usd,
            quoted(&price.about),
            quoted(&price.source)
        ));
    }
    text
}

fn differences(new: &[Price], old: &PriceBook) -> String {
    let rows: Vec<[String; 4]> = new
        .iter()
        .map(|price| {
            let before = old.price(&price.dimension).ok().map(|price| price.usd);
            let change = match before {
                None => "new".to_owned(),
                Some(before) if before == price.usd => "same".to_owned(),
                Some(before) if before > 0.0 => {
                    format!("{:+.2} %", (price.usd / before - 1.0) * 100.0)
                }
                Some(_) => "was free".to_owned(),
            };
            [
                price.dimension.clone(),
                before.map_or("-".to_owned(), |usd| usd.to_string()),
                price.usd.to_string(),
                change,
            ]
        })
        .collect();
    table(["dimension", "before", "now", "change"], &rows)
}
