//! Tables II and III of Barrak et al. 2023: rates, costs and their ratio.

use super::finding::{Input, Outcome};
use super::p2p::check;
use super::ranking::Ranking;
use super::{AuditError, Findings, Paper, Sources};
use crate::format;
use crate::published::{Quantity, Row};

const SECONDS_PER_HOUR: f64 = 3600.0;

/// MB in a GB, as AWS bills functions.
const MB_PER_GIB: f64 = 1024.0;

/// USD per GB-second on Arm, AWS list price since 2021.
const ARM_GB_SECOND: f64 = 0.0000133334;

/// Checks the rates of functions and instances against AWS's list prices.
pub(super) fn rates(sources: Sources<'_>) -> Findings {
    let formula = "MB / 1024 × price of a GB-second on Arm";
    let lambda = check("Table II", "price of a function per second", formula, "USD");
    let formula = "price of the instance per hour / 3600";
    let mut findings = Vec::new();
    // Rates of functions, by memory size.
    let table2 = sources.published.table("p2p_table2_serverless.csv")?;
    for row in table2.rows() {
        let memory = row.number("lambda_memory_mb")?;
        let inputs = vec![
            Input::exact("MB", &memory),
            Input::from(
                "price",
                ARM_GB_SECOND,
                "https://aws.amazon.com/lambda/pricing/",
            ),
        ];
        let computed = memory.value / MB_PER_GIB * ARM_GB_SECOND;
        let name = format!("{} MB", memory.value);
        findings.push(lambda.finding(
            name,
            inputs,
            computed,
            &row.number("lambda_usd_per_second")?,
        ));
    }
    // Rates of instances, of both tables.
    let table3 = sources.published.table("p2p_table3_instance.csv")?;
    for (item, table) in [("Table II", table2), ("Table III", table3)] {
        let ec2 = check(item, "price of an instance per second", formula, "USD");
        let Some(row) = table.rows().next() else {
            continue;
        };
        let instance = row.text("instance")?;
        let price = sources.prices.price(&format!("ec2/{instance}"))?;
        let inputs = vec![Input::from("price", price.usd, price.source.clone())];
        let computed = price.usd / SECONDS_PER_HOUR;
        findings.push(ec2.finding(
            instance,
            inputs,
            computed,
            &row.number("ec2_usd_per_second")?,
        ));
    }
    Ok(findings)
}

/// Returns a peer's cost by the paper's formula, from a row of Table II.
fn serverless_cost(row: Row<'_>) -> Result<(Vec<Input>, f64), AuditError> {
    let lambda = row.number("lambda_usd_per_second")?;
    let batches = row.number("batches")?;
    let ec2 = row.number("ec2_usd_per_second")?;
    let seconds = row.number("seconds")?;
    let computed = (lambda.value * batches.value + ec2.value) * seconds.value;
    let inputs = vec![
        Input::of("rate of Lambda", &lambda),
        Input::exact("batches", &batches),
        Input::of("rate of EC2", &ec2),
        Input::of("seconds", &seconds),
    ];
    Ok((inputs, computed))
}

/// Checks Table II's costs.
pub(super) fn serverless(sources: Sources<'_>) -> Findings {
    let formula = "(rate of Lambda × batches + rate of EC2) × seconds";
    let check = check("Table II", "cost per peer with Lambda", formula, "USD");
    let table = sources.published.table("p2p_table2_serverless.csv")?;
    // The order of batch sizes, printed and recomputed.
    let (mut printed, mut own) = (Vec::new(), Vec::new());
    for row in table.rows() {
        let name = format!("batch size {}", row.text("batch_size")?);
        printed.push((name.clone(), row.number("cost_per_peer_usd")?.value));
        own.push((name, serverless_cost(row)?.1));
    }
    let (printed, own) = (Ranking::new(printed), Ranking::new(own));
    let survives = if printed.agrees_with(&own) {
        "the order of batch sizes by cost survives"
    } else {
        "the order of batch sizes by cost does not survive"
    };
    let mut findings = Vec::new();
    for row in table.rows() {
        let (inputs, computed) = serverless_cost(row)?;
        let name = format!("batch size {}", row.text("batch_size")?);
        // Each cost, with what a wrong one does to the order.
        let finding = check.finding(name, inputs, computed, &row.number("cost_per_peer_usd")?);
        findings.push(if finding.differs() {
            let instance = instance_row(sources, row.text("batch_size")?)?;
            let on_instances = instance.number("cost_per_peer_usd")?.value;
            finding.concluding(format!(
                "{survives}: recomputed {}; Lambda costs {} times the instance's {}",
                own.text(),
                format::number(computed / on_instances),
                format::number(on_instances)
            ))
        } else {
            finding
        });
    }
    Ok(findings)
}

/// Checks Table III's costs.
pub(super) fn instances(sources: Sources<'_>) -> Findings {
    let check = check(
        "Table III",
        "cost per peer on instances",
        "rate of EC2 × seconds",
        "USD",
    );
    let mut findings = Vec::new();
    for row in sources.published.table("p2p_table3_instance.csv")?.rows() {
        let rate = row.number("ec2_usd_per_second")?;
        let seconds = row.number("seconds")?;
        let inputs = vec![
            Input::of("rate of EC2", &rate),
            Input::of("seconds", &seconds),
        ];
        let name = format!("batch size {}", row.text("batch_size")?);
        let computed = rate.value * seconds.value;
        findings.push(check.finding(name, inputs, computed, &row.number("cost_per_peer_usd")?));
    }
    Ok(findings)
}

fn instance_row<'a>(sources: Sources<'a>, size: &str) -> Result<Row<'a>, AuditError> {
    let table = sources.published.table("p2p_table3_instance.csv")?;
    Ok(table.row(&[("batch_size", size)])?)
}

/// One batch size: costs with Lambda and on instances, and their ratio.
struct Costs<'a> {
    size: &'a str,
    serverless: Quantity,
    instance: Quantity,
    ratio: f64,
}

fn costs(sources: Sources<'_>) -> Result<Vec<Costs<'_>>, AuditError> {
    let mut all = Vec::new();
    for row in sources.published.table("p2p_table2_serverless.csv")?.rows() {
        let size = row.text("batch_size")?;
        let serverless = row.number("cost_per_peer_usd")?;
        let instance = instance_row(sources, size)?.number("cost_per_peer_usd")?;
        all.push(Costs {
            size,
            ratio: serverless.value / instance.value,
            serverless,
            instance,
        });
    }
    Ok(all)
}

/// Checks the paper's three figures for one ratio.
pub(super) fn ratio(sources: Sources<'_>) -> Findings {
    let what = "serverless cost over instance cost, the largest";
    let formula = "cost of Table II / cost of Table III, largest over batch sizes";
    let check = check("abstract, text, conclusion", what, formula, "");
    let all = costs(sources)?;
    // The largest ratio of the tables.
    let most = all.iter().max_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let Some(most) = most else {
        return Ok(Vec::new());
    };
    let mut findings = Vec::new();
    for item in ["abstract", "text", "conclusion"] {
        let quantity = "serverless cost over instance cost";
        let key = [Paper::P2p.cited(), item, quantity, "VGG-11"];
        let stated = sources.published.stated(key)?;
        let inputs = vec![
            Input::of("cost of Table II", &most.serverless),
            Input::of("cost of Table III", &most.instance),
        ];
        let name = format!("{item}: {}, batch size {}", stated.value, most.size);
        let finding = check.finding(name, inputs, most.ratio, &stated);
        if finding.within_rounding == Some(true) {
            findings.push(finding);
            continue;
        }
        // A wrong one may be the ratio of another batch size.
        let finding = finding.with_outcome(Outcome::Differs);
        let other = all
            .iter()
            .find(|costs| (costs.ratio - stated.value).abs() <= stated.half_digit);
        let explained = match other {
            Some(other) => finding.explained(format!(
                "it is the ratio of batch size {} ({} / {})",
                other.size, other.serverless.value, other.instance.value
            )),
            None => finding.explained("it is the ratio of no printed batch size, rounded"),
        };
        findings.push(explained.concluding(format!(
            "that Lambda costs more holds at every batch size: {}",
            ratios(&all)
        )));
    }
    Ok(findings)
}

fn ratios(all: &[Costs<'_>]) -> String {
    let ratios = all.iter();
    let ratios =
        ratios.map(|costs| format!("{} times at {}", format::number(costs.ratio), costs.size));
    ratios.collect::<Vec<_>>().join(", ")
}
