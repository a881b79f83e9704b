//! Barrak et al. 2023: times and resources.

use super::finding::{Check, Finding, Input, Outcome};
use super::{AuditError, Findings, Paper, Sources};
use crate::format;
use crate::published::Row;

/// An update of the same number of parameters may differ by this factor
/// between datasets without a remark.
const LIKE_FACTOR: f64 = 2.0;

/// Percent of CPU time that one vCPU can use.
const PERCENT_PER_VCPU: f64 = 100.0;

/// vCPUs of the t2.medium and t2.large (AWS, EC2 instance types).
const VCPUS: f64 = 2.0;

pub(super) const fn check(
    item: &'static str,
    what: &'static str,
    formula: &'static str,
    unit: &'static str,
) -> Check {
    Check {
        paper: Paper::P2p,
        item,
        what,
        formula,
        unit,
    }
}

/// Checks that no stage uses more CPU time than the instance has.
pub(super) fn cpu(sources: Sources<'_>) -> Findings {
    let what = "CPU use against the instance's vCPUs";
    let check = check("Table I", what, "vCPUs × 100", "%");
    let mut highest: Option<(Row<'_>, f64)> = None;
    for row in sources.published.table("p2p_table1.csv")?.rows() {
        let used = row.number("cpu_percent")?.value;
        if highest.is_none_or(|(_, most)| used > most) {
            highest = Some((row, used));
        }
    }
    let Some((row, used)) = highest else {
        return Ok(Vec::new());
    };
    let limit = VCPUS * PERCENT_PER_VCPU;
    let outcome = if used <= limit {
        Outcome::Agrees
    } else {
        Outcome::Differs
    };
    let inputs = vec![Input::from("vCPUs", VCPUS, "AWS, t2.medium and t2.large")];
    let name = format!("highest: {}, {}", row.text("model")?, row.text("stage")?);
    Ok(vec![
        check
            .unchecked(name, inputs)
            .with_computed(limit)
            .with_printed(&row.number("cpu_percent")?)
            .with_outcome(outcome),
    ])
}

/// Checks that a model update takes as long whatever the dataset: it has as
/// many parameters.
pub(super) fn updates(sources: Sources<'_>) -> Findings {
    let what = "model update on two datasets";
    let check = check("Table I", what, "the same model, the same parameters", "s");
    let table = sources.published.table("p2p_table1.csv")?;
    let mut findings = Vec::new();
    for model in ["SqueezeNet 1.1", "MobileNet V3 Small", "VGG-11"] {
        // The same model's update on either data set.
        let of = |dataset: &str| {
            let wanted = [
                ("model", model),
                ("dataset", dataset),
                ("stage", "model update"),
            ];
            table.row(&wanted)?.number("seconds")
        };
        let (mnist, cifar) = (of("MNIST")?, of("CIFAR")?);
        let factor = mnist.value / cifar.value;
        let finding = check
            .unchecked(model, vec![Input::of("on CIFAR", &cifar)])
            .with_computed(cifar.value)
            .with_printed(&mnist);
        // Alike within a factor, or one of them is odd.
        let is_like = (1.0 / LIKE_FACTOR..=LIKE_FACTOR).contains(&factor);
        findings.push(if is_like {
            finding.with_outcome(Outcome::Agrees)
        } else {
            finding
                .with_outcome(Outcome::Differs)
                .explained(format!(
                    "a factor of {} for the same arithmetic: one of the two is misprinted or \
             was disturbed",
                    format::number(factor)
                ))
                .concluding("no conclusion of the paper stands on it: gradients take longest")
        });
    }
    Ok(findings)
}

/// Checks Table I's time per batch, times its batches, against Table III's
/// epoch.
pub(super) fn batch_times(sources: Sources<'_>) -> Findings {
    let what = "Table III's time from Table I's time per batch (VGG-11, MNIST)";
    let check = check("Table I", what, "seconds per batch × batches", "s");
    let table1 = sources.published.table("p2p_table1.csv")?;
    let wanted = [
        ("model", "VGG-11"),
        ("dataset", "MNIST"),
        ("stage", "compute gradients (per batch)"),
    ];
    // Table I: seconds of a batch, and their number.
    let seconds = table1.row(&wanted)?.number("seconds")?;
    let key = [Paper::P2p.cited(), "Table I", "batches", ""];
    let batches = sources.published.stated(key)?;
    let mut findings = Vec::new();
    for row in sources.published.table("p2p_table2_serverless.csv")?.rows() {
        if row.number("batches")?.value != batches.value {
            continue;
        }
        let size = row.text("batch_size")?;
        let table3 = sources.published.table("p2p_table3_instance.csv")?;
        // Table III: seconds of the epoch with as many batches.
        let printed = table3.row(&[("batch_size", size)])?.number("seconds")?;
        let inputs = vec![
            Input::of("seconds per batch", &seconds),
            Input::exact("batches", &batches),
        ];
        let computed = seconds.value * batches.value;
        let finding = check.finding(format!("batch size {size}"), inputs, computed, &printed);
        findings.push(if finding.differs() {
            compared(finding, times(sources, size)?, computed)
        } else {
            finding
        });
    }
    Ok(findings)
}

/// Returns the finding with the two times side by side, and the saving with
/// either.
fn compared(finding: Finding, tables: Vec<Input>, computed: f64) -> Finding {
    let as_printed = saved(&tables);
    let with_table1 = match tables.as_slice() {
        [with, _] => (1.0 - with.value / computed) * 100.0,
        _ => f64::NAN,
    };
    let factor = finding.ratio.map_or(f64::NAN, |ratio| 1.0 / ratio);
    finding
        .explained(format!(
            "on the same instance type, with as many batches, the one is {} times the other: \
             they are not of the same batch size, or not both of what their headings say",
            format::number(factor)
        ))
        .concluding(format!(
            "the paper's savings follow from Tables II and III ({as_printed:.1} % at this batch \
             size); with Table I's time it would be {with_table1:.1} %"
        ))
}

/// Checks the batches per peer from samples, peers and batch size.
pub(super) fn batches(sources: Sources<'_>) -> Findings {
    let what = "batches per peer";
    let check = check("Table II", what, "⌈samples / peers / batch size⌉", "");
    let cited = Paper::P2p.cited();
    let samples = sources
        .published
        .stated([cited, "Table II", "training samples", "MNIST"])?;
    let peers = sources.published.stated([cited, "Table II", "peers", ""])?;
    let mut findings = Vec::new();
    for row in sources.published.table("p2p_table2_serverless.csv")?.rows() {
        let size = row.number("batch_size")?;
        let inputs = vec![
            Input::exact("samples", &samples),
            Input::exact("peers", &peers),
            Input::exact("batch size", &size),
        ];
        let computed = (samples.value / peers.value / size.value).ceil();
        let name = format!("batch size {}", size.value);
        findings.push(check.finding(name, inputs, computed, &row.number("batches")?));
    }
    Ok(findings)
}

/// Returns the times of one batch size, with and without functions.
fn times(sources: Sources<'_>, size: &str) -> Result<Vec<Input>, AuditError> {
    let of = |file: &str| {
        let table = sources.published.table(file)?;
        table.row(&[("batch_size", size)])?.number("seconds")
    };
    Ok(vec![
        Input::of("with Lambda, s", &of("p2p_table2_serverless.csv")?),
        Input::of("on instances, s", &of("p2p_table3_instance.csv")?),
    ])
}

fn saved(times: &[Input]) -> f64 {
    match times {
        [with, without] => (1.0 - with.value / without.value) * 100.0,
        _ => f64::NAN,
    }
}

/// Checks the shares of gradient computation time that the text says are saved.
pub(super) fn time_saved(sources: Sources<'_>) -> Findings {
    let what = "gradient computation time saved";
    let check = check("text", what, "1 - with Lambda / on instances", "%");
    let mut findings = Vec::new();
    for row in sources.published.table("p2p_text.csv")?.rows() {
        let printed = row.number("value")?;
        let setting = row.text("setting")?;
        // Claims that are no arithmetic are listed, not checked.
        match row.text("claim")? {
            "gradient computation time saved by serverless" => {}
            "synchronous accuracy" => {
                let check = Check {
                    what: "accuracy of a run",
                    formula: "",
                    ..check
                };
                let finding = check.unchecked(setting, Vec::new()).with_printed(&printed);
                findings.push(finding.explained("a result of training, not of arithmetic"));
                continue;
            }
            _ => continue,
        }
        // Recomputed from the tables, which are of 4 peers.
        let size = setting.rsplit_once("batch ").map_or("", |(_, size)| size);
        let inputs = times(sources, size)?;
        let percent = saved(&inputs);
        findings.push(if setting.contains("4 workers") {
            let finding = check.finding(setting, inputs, percent, &printed);
            let largest = largest_saving(sources)?;
            finding.concluding(largest)
        } else {
            check
                .unchecked(setting, Vec::new())
                .with_printed(&printed)
                .explained(format!(
                    "the tables are of 4 peers, where this batch size saves {} %; no time of \
             this setting is printed",
                    format::number(percent)
                ))
        });
    }
    Ok(findings)
}

/// Returns which batch size saves most.
fn largest_saving(sources: Sources<'_>) -> Result<String, AuditError> {
    let mut most: Option<(&str, f64)> = None;
    for row in sources.published.table("p2p_table3_instance.csv")?.rows() {
        let size = row.text("batch_size")?;
        let percent = saved(&times(sources, size)?);
        if most.is_none_or(|(_, best)| percent > best) {
            most = Some((size, percent));
        }
    }
    let (size, percent) = most.unwrap_or(("none", f64::NAN));
    Ok(format!(
        "of the printed batch sizes, {size} saves most ({percent:.2} %), as the paper says by \
         \"up to\""
    ))
}
