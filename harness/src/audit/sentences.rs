//! Sentences of Barrak et al. 2025 against the figures of its tables.

use super::finding::{Check, Finding, Input, Statement};
use super::ranking::Ranking;
use super::{AuditError, Findings, Paper, Sources, table2};
use crate::format;
use crate::published::{Quantity, Row};

/// Name of the GPU baseline in Table 3.
const GPU: &str = "GPU-based";

const fn check(
    item: &'static str,
    what: &'static str,
    formula: &'static str,
    unit: &'static str,
) -> Check {
    Check {
        paper: Paper::CostPerformance,
        item,
        what,
        formula,
        unit,
    }
}

fn says(sources: Sources<'_>, item: &str, key: &str) -> Result<Statement, AuditError> {
    let paper = Paper::CostPerformance.cited();
    Ok(sources.published.statement([paper, item, key])?)
}

/// Returns a column of Table 3, by framework.
fn column<'a>(sources: Sources<'a>, name: &str) -> Result<Vec<(&'a str, Quantity)>, AuditError> {
    let mut column = Vec::new();
    for row in sources.published.table("cp_table3.csv")?.rows() {
        column.push((row.text("framework")?, row.number(name)?));
    }
    Ok(column)
}

fn ranked(column: &[(&str, Quantity)]) -> Ranking {
    let items = column.iter();
    Ranking::new(items.map(|(name, quantity)| ((*name).to_owned(), quantity.value)))
}

/// Checks that no framework ends more accurate than the GPU baseline.
pub(super) fn accuracy(sources: Sources<'_>) -> Findings {
    let formula = "largest final accuracy of Table 3";
    let check = check("abstract", "highest accuracy", formula, "%");
    let column = column(sources, "final_accuracy_percent")?;
    let gpu = column.iter().find(|(name, _)| *name == GPU);
    let best = column
        .iter()
        .max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value));
    let (Some((_, gpu)), Some((name, best))) = (gpu, best) else {
        return Ok(Vec::new());
    };
    let holds = *name == GPU;
    let finding = check
        .unchecked(GPU, vec![Input::of("final accuracy, %", best)])
        .stating([says(sources, "abstract", "accuracy")?])
        .with_computed(best.value)
        .with_printed(gpu)
        .judged(holds);
    Ok(vec![if holds {
        finding
    } else {
        finding
            .explained(format!(
                "{name} ends {} points higher; the paper gives no number of runs and no interval",
                format::number(best.value - gpu.value)
            ))
            .concluding(format!(
                "the table's order of final accuracies is {}",
                ranked(&column).text()
            ))
    }])
}

/// Checks that no framework takes less time to its accuracy than the GPU
/// baseline.
pub(super) fn convergence(sources: Sources<'_>) -> Findings {
    let formula = "shortest time of Table 3";
    let check = check("abstract", "fastest convergence", formula, "min");
    let column = column(sources, "time_to_80_minutes")?;
    let gpu = column.iter().find(|(name, _)| *name == GPU);
    let best = column
        .iter()
        .min_by(|(_, a), (_, b)| a.value.total_cmp(&b.value));
    let (Some((_, gpu)), Some((name, best))) = (gpu, best) else {
        return Ok(Vec::new());
    };
    Ok(vec![
        check
            .unchecked(GPU, vec![Input::of("minutes", best)])
            .stating([says(sources, "abstract", "convergence")?])
            .with_computed(best.value)
            .with_printed(gpu)
            .judged(*name == GPU)
            .concluding(format!(
                "the table's order of times is {}",
                ranked(&column).text()
            )),
    ])
}

/// The exchange of one model between 16 workers.
struct Exchange<'a> {
    model: &'a str,
    workers: Quantity,
    allreduce: Quantity,
    scatterreduce: Quantity,
}

impl<'a> Exchange<'a> {
    fn of(sources: Sources<'a>, model: &str) -> Result<Self, AuditError> {
        let technique = ("technique", "AllReduce vs ScatterReduce (LambdaML)");
        let table = sources.published.table("cp_communication.csv")?;
        let row: Row<'a> = table.row(&[technique, ("model", model)])?;
        Ok(Self {
            model: row.text("model")?,
            workers: row.number("workers")?,
            allreduce: row.number("baseline")?,
            scatterreduce: row.number("optimised")?,
        })
    }

    fn inputs(&self) -> [Input; 2] {
        [
            Input::of("AllReduce, s", &self.allreduce),
            Input::of("ScatterReduce, s", &self.scatterreduce),
        ]
    }

    /// Returns AllReduce's time over ScatterReduce's.
    fn ratio(&self) -> f64 {
        self.allreduce.value / self.scatterreduce.value
    }
}

/// Checks which of the two exchanges suffers more from a larger model.
pub(super) fn larger_models(sources: Sources<'_>) -> Findings {
    let formula =
        "growth of AllReduce's time from MobileNet to ResNet-50 / growth of ScatterReduce's";
    let check = check("§4.2", "exchange of larger models", formula, "");
    let small = Exchange::of(sources, "MobileNet")?;
    let large = Exchange::of(sources, "ResNet-50")?;
    let growth = large.ratio() / small.ratio();
    let inputs = small.inputs().into_iter().chain(large.inputs()).collect();
    let holds = growth <= 1.0;
    let finding = check
        .unchecked("MobileNet to ResNet-50, 16 workers", inputs)
        .stating([says(sources, "§4.2", "larger models")?])
        .with_computed(growth)
        .judged(holds);
    Ok(vec![if holds {
        finding
    } else {
        finding
            .explained(format!(
                "from the smaller model to the larger AllReduce takes {} times as long and ScatterReduce \
                 {} times: with {} AllReduce takes {} times ScatterReduce's time",
                format::number(large.allreduce.value / small.allreduce.value),
                format::number(large.scatterreduce.value / small.scatterreduce.value),
                large.model,
                format::number(large.ratio()),
            ))
            .concluding(
                "the advice is the wrong way round: by the paper's own times ScatterReduce is the \
                 exchange for the larger model",
            )
    }])
}

/// Checks which of the two exchanges is faster with the largest number of
/// workers.
pub(super) fn more_workers(sources: Sources<'_>) -> Findings {
    let formula = "time of AllReduce / time of ScatterReduce, at most 1";
    let check = check("§4.2", "exchange between more workers", formula, "");
    let mut findings = Vec::new();
    for model in ["MobileNet", "ResNet-50"] {
        let exchange = Exchange::of(sources, model)?;
        let holds = exchange.ratio() <= 1.0;
        let row = format!("{model}, {} workers", exchange.workers.value);
        let finding = check
            .unchecked(row, exchange.inputs().into())
            .stating([says(sources, "§4.2", "more workers")?])
            .with_computed(exchange.ratio())
            .judged(holds);
        findings.push(if holds {
            finding
        } else {
            finding.concluding(
                "the sentence is true of the smaller model alone; the text has no time of fewer \
                 workers, from which a trend could be computed",
            )
        });
    }
    Ok(findings)
}

/// Checks what the GPU baseline runs on: two sentences contradict each other,
/// and Table 2's costs say how many instances are billed.
pub(super) fn machines(sources: Sources<'_>) -> Findings {
    let formula = "total cost / cost of a worker";
    let check = check("§2 and §4.3", "instances of the GPU baseline", formula, "");
    let statements = [
        says(sources, "§2", "machines")?,
        says(sources, "§4.3", "machines")?,
    ];
    let mut findings = Vec::new();
    for model in table2::MODELS {
        let rows = table2::rows(sources, model)?;
        let Some((_, row)) = rows.iter().find(|(name, _)| *name == table2::GPU) else {
            continue;
        };
        let total = row.number("total_cost_usd")?;
        let worker = row.number("cost_per_worker_usd")?;
        let inputs = vec![
            Input::of("total cost, USD", &total),
            Input::of("cost of a worker, USD", &worker),
        ];
        let instances = total.value / worker.value;
        let finding = check
            .unchecked(format!("{model}, {}", table2::GPU), inputs)
            .stating(statements.clone())
            .with_computed(instances)
            .judged(false);
        findings.push(described(finding, instances));
    }
    Ok(findings)
}

fn described(finding: Finding, instances: f64) -> Finding {
    let side = if instances > 1.5 {
        "the table bills separate machines, as §2 has it: a g4dn.xlarge has one GPU"
    } else {
        "the table bills one instance, as §4.3 has it"
    };
    finding.explained(side).concluding(
        "times to accuracy (§4.3) and times and costs of an epoch (Table 2) may be of different \
         machines: within one instance gradients need not pass through S3",
    )
}
