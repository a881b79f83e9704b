//! `aws prices refresh`: a price book from the Pricing API, and what differs.

use std::collections::BTreeSet;
use std::io::Write;

use epochcost_planner::error::Error;
use epochcost_platform::cloud;
use epochcost_record::probe_file;
use epochcost_spec::cost::{Price, PriceBook};
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::{Output, table_of};
use epochcost_spec::yaml::named;

use super::RefreshArgs;

/// Writes a price book from the Pricing API, and shows what differs.
///
/// # Errors
/// When this build has no clients, a price is not available, or the file cannot
/// be written.
pub(super) async fn run(args: &RefreshArgs, output: Output) -> Result<Exit, Error> {
    let cloud = cloud()?;
    let old = PriceBook::shipped()?;
    if args.out.exists() {
        return Err(Error::usage(
            format!("{} is there already", args.out.display()),
            "name another file with --out",
        ));
    }
    probe_file(&args.out, "--out")?;
    let refreshed = cloud.prices(&args.region, &old).await?;
    // Another region's price is no substitute.
    let is_same_region = args.region == old.region();
    let uncertain = refreshed.uncertain.iter().filter(|_| is_same_region);
    let uncertain: BTreeSet<&str> = uncertain.map(|(dimension, _)| &**dimension).collect();
    let prices = merged(refreshed.prices, &old, &uncertain);
    let today = jiff::Zoned::now().date();
    let text =
        named::line("prices", &args.out) + &written(&args.region, &today.to_string(), &prices);
    // A price book that cannot be read is not written.
    PriceBook::parse(&args.out.display().to_string(), &text)?;
    let failed = Error::io(format!("write {}", args.out.display()));
    let mut file = std::fs::File::create_new(&args.out).map_err(&failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    output.text(differences(&prices, &old));
    for error in &refreshed.missing {
        output.message(format_args!("left out: {error}"));
    }
    for (dimension, error) in &refreshed.uncertain {
        let became = if uncertain.contains(dimension.as_str()) {
            "kept as it was"
        } else {
            "left out"
        };
        output.message(format_args!("{became}: {error}"));
    }
    if args.region != old.region() {
        output.message(format_args!("compared with the prices of {}", old.region()));
    }
    output.json(&prices);
    Ok(Exit::Done)
}

/// Returns the new prices, and those old ones that the Pricing API does not have, that cost
/// nothing, or whose new price is `uncertain`.
fn merged(fresh: Vec<Price>, old: &PriceBook, uncertain: &BTreeSet<&str>) -> Vec<Price> {
    let kept = old.prices().iter().filter(|price| {
        uncertain.contains(price.dimension.as_str())
            || price.dimension == "s3_delete"
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
    let row = |price: &Price| {
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
    };
    table_of(["dimension", "before", "now", "change"], new, row)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One price that the API does not say for certain keeps nobody from the others.
    #[test]
    fn an_uncertain_price_is_kept_and_the_others_are_new() {
        let old = PriceBook::shipped().unwrap();
        let fresh = Price {
            usd: 1.0,
            ..old.price("lambda_request").unwrap().clone()
        };
        let of = |uncertain: &[&str]| {
            let prices = merged(
                vec![fresh.clone()],
                &old,
                &uncertain.iter().copied().collect(),
            );
            let usd = |dimension: &str| {
                let found = prices.iter().find(|price| price.dimension == dimension);
                found.map(|price| price.usd)
            };
            (usd("lambda_request"), usd("logs_gb"), usd("s3_put"))
        };
        assert_eq!(of(&[]), (Some(1.0), None, None));
        let kept = old.price("logs_gb").unwrap().usd;
        assert_eq!(of(&["logs_gb"]), (Some(1.0), Some(kept), None));
    }
}
