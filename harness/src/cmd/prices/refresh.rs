//! `prices refresh`: a price book from the Pricing API, and what differs.

use std::io::Write;

use epochcost_aws::pricing::{PriceError, Refreshed, fetch_as_configured, queries};

use super::RefreshArgs;
use crate::cost::{Price, PriceBook};
use crate::error::Error;
use crate::exit::Exit;
use crate::results::ResultsError;
use crate::ui::{Output, table};

pub(super) async fn run(args: &RefreshArgs, output: Output) -> Result<Exit, Error> {
    let old = PriceBook::shipped().map_err(ResultsError::from)?;
    let instance_types: Vec<&str> = (old.prices().iter())
        .filter_map(|price| price.dimension.strip_prefix("ec2/"))
        .collect();
    let answers = fetch_as_configured(&args.region, &queries(&instance_types)).await?;
    let (mut new, mut missing) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(price) => new.push(price),
            Err(error @ PriceError::NotOffered { .. }) => missing.push(error),
            Err(error) => {
                return Err(Error::Lacks {
                    what: error.to_string(),
                    remedy: "no price book was written: look at the price in the console".into(),
                });
            }
        }
    }
    let prices = merged(&new, &old);
    let today = jiff::Zoned::now().date();
    let text = written(&args.region, &today.to_string(), &prices);
    // What was written must be readable before anybody stands on it.
    PriceBook::parse(&text).map_err(ResultsError::from)?;
    let failed = |source| Error::Io {
        doing: format!("write {}", args.out.display()),
        source,
    };
    let mut file = std::fs::File::create_new(&args.out).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    output.text(differences(&prices, &old));
    for error in &missing {
        output.message(format_args!("left out: {error}"));
    }
    if args.region != old.region() {
        output.message(format_args!("compared with the prices of {}", old.region()));
    }
    output.json(&prices);
    Ok(Exit::Done)
}

/// The new prices, and those old ones that are not AWS's to say or nothing.
fn merged(new: &[Refreshed], old: &PriceBook) -> Vec<Price> {
    let fresh = new.iter().map(|price| Price {
        dimension: price.dimension.clone(),
        unit: price.unit.clone(),
        usd: price.usd,
        about: price.about.clone(),
        source: price.source.clone(),
    });
    let kept = old.prices().iter().filter(|price| {
        price.dimension == "s3_delete"
            || price.dimension == "logs_gb_month"
            || price.dimension.starts_with("serverless_gpu/")
    });
    fresh.chain(kept.cloned()).collect()
}

/// As a price book is read. Strings of JSON are strings of YAML.
fn written(region: &str, date: &str, prices: &[Price]) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut text = format!(
        "region: {}\ndate: {date}\nnote: from the Pricing API; what it does not say is kept\nprices:\n",
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
