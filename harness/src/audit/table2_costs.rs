//! Table 2 of Barrak et al. 2025: costs.

use epochcost_systems::{DataPlan, Device, Evaluate, Fidelity, Job, find, find_model};

use super::finding::{Finding, Input, Outcome};
use super::ranking::{Ranking, percent};
use super::table2::{GPU, MODELS, check, function_rows, rows, setting};
use super::{AuditError, Findings, Sources};
use crate::format;
use crate::published::{Quantity, Row};

const SECONDS_PER_HOUR: f64 = 3600.0;

/// MB in a GB where GB are counted in powers of two.
const MB_PER_GIB: f64 = 1024.0;

/// A GB-second on Arm as a share of one on x86, AWS list prices since 2021:
/// 0.0000133334 and 0.0000166667 USD.
const ARM_SHARE: f64 = 0.0000133334 / 0.0000166667;

/// What the table's formula takes beside its cells.
struct Prices {
    gb_second: Quantity,
    mb_per_gb: Quantity,
    instance_hour: Quantity,
    workers: Quantity,
}

impl Prices {
    fn of(sources: Sources<'_>) -> Result<Self, AuditError> {
        Ok(Self {
            gb_second: setting(sources, "price", "Lambda")?,
            mb_per_gb: setting(sources, "megabytes in a gigabyte", "Lambda")?,
            instance_hour: setting(sources, "price", "g4dn.xlarge")?,
            workers: setting(sources, "workers", "")?,
        })
    }

    /// Returns the cost of one function.
    fn function(&self, row: Row<'_>) -> Result<f64, AuditError> {
        let seconds = row.number("seconds_per_batch")?.value;
        let gigabytes = row.number("peak_ram_mb")?.value / self.mb_per_gb.value;
        Ok(seconds * gigabytes * self.gb_second.value)
    }

    /// Returns the cost of one GPU instance for an epoch.
    fn instance(&self, row: Row<'_>) -> Result<f64, AuditError> {
        let seconds = row.number("total_seconds")?.value;
        Ok(seconds * self.instance_hour.value / SECONDS_PER_HOUR)
    }

    /// Returns the cost of an epoch, all from times, memory and prices.
    fn total(&self, framework: &str, row: Row<'_>) -> Result<f64, AuditError> {
        let worker = match framework {
            GPU => self.instance(row)?,
            _ => self.function(row)? * row.number("batches_per_worker")?.value,
        };
        Ok(worker * self.workers.value)
    }

    /// Returns the costs of an epoch of every framework.
    fn totals(&self, rows: &[(&str, Row<'_>)]) -> Result<Ranking, AuditError> {
        let total =
            |(name, row): &(&str, Row<'_>)| Ok(((*name).to_owned(), self.total(name, *row)?));
        let totals: Result<Vec<_>, AuditError> = rows.iter().map(total).collect();
        Ok(Ranking::new(totals?))
    }
}

/// Returns the costs of an epoch as the table prints them.
fn printed_totals(rows: &[(&str, Row<'_>)]) -> Result<Ranking, AuditError> {
    let mut printed = Vec::new();
    for (name, row) in rows {
        printed.push(((*name).to_owned(), row.number("total_cost_usd")?.value));
    }
    Ok(Ranking::new(printed))
}

/// Checks the cost of one function, and of one GPU instance, from times and
/// prices.
pub(super) fn functions(sources: Sources<'_>) -> Findings {
    let prices = Prices::of(sources)?;
    let formula = "seconds per batch × MB / MB in a GB × price";
    let function = check("cost of a function", formula, "USD");
    let formula = "total seconds × price / 3600";
    let instance = check("cost of a GPU instance", formula, "USD");
    let mut findings = Vec::new();
    for model in MODELS {
        let rows = rows(sources, model)?;
        for (framework, row) in &rows {
            let name = format!("{model}, {framework}");
            // An instance by its seconds, a function by seconds and memory.
            let finding = if *framework == GPU {
                let inputs = vec![
                    Input::of("total seconds", &row.number("total_seconds")?),
                    Input::exact("price", &prices.instance_hour),
                ];
                let printed = row.number("cost_per_worker_usd")?;
                instance.finding(name, inputs, prices.instance(*row)?, &printed)
            } else {
                let inputs = vec![
                    Input::of("seconds per batch", &row.number("seconds_per_batch")?),
                    Input::of("MB", &row.number("peak_ram_mb")?),
                    Input::exact("MB in a GB", &prices.mb_per_gb),
                    Input::exact("price", &prices.gb_second),
                ];
                let printed = row.number("cost_per_function_usd")?;
                function.finding(name, inputs, prices.function(*row)?, &printed)
            };
            // A wrong cost, with what could explain it.
            findings.push(if finding.differs() {
                judged(finding, *row, &rows, &prices)?
            } else {
                finding
            });
        }
    }
    Ok(findings)
}

/// Returns a wrong cost with what could explain it, and what it does to the
/// order.
fn judged(
    finding: Finding,
    row: Row<'_>,
    rows: &[(&str, Row<'_>)],
    prices: &Prices,
) -> Result<Finding, AuditError> {
    let explained = match finding.check {
        "cost of a function" => finding
            .clone()
            .explained(explanation(&finding, row, prices)?),
        _ => finding,
    };
    let (printed, own) = (printed_totals(rows)?, prices.totals(rows)?);
    let survives = if printed.agrees_with(&own) {
        "the order of the model's total costs survives"
    } else {
        "the order of the model's total costs does not survive"
    };
    Ok(explained.concluding(format!(
        "{survives}: printed {}; recomputed {}{}",
        printed.text(),
        own.text(),
        against_gpu(rows, prices)?
    )))
}

/// Returns which memory size would give the printed cost, and which other
/// prices would not.
fn explanation(finding: &Finding, row: Row<'_>, prices: &Prices) -> Result<String, AuditError> {
    let (Some(computed), Some(printed)) = (finding.computed, &finding.printed) else {
        return Ok(String::new());
    };
    let memory = row.number("peak_ram_mb")?.value;
    let implied = memory * printed.value / computed;
    let others = [
        (
            "1 GB = 1024 MB",
            computed * prices.mb_per_gb.value / MB_PER_GIB,
        ),
        ("the price of a GB-second on Arm", computed * ARM_SHARE),
    ];
    let others = others.map(|(name, cost)| {
        let explains = (printed.value / cost - 1.0).abs() <= super::TOLERANCE;
        let word = if explains {
            "explains it"
        } else {
            "does not explain it"
        };
        format!("{name} would give {} and {word}", format::number(cost))
    });
    Ok(format!(
        "the printed cost is that of {implied:.0} MB where the table has {memory:.0}; {}",
        others.join("; ")
    ))
}

/// Returns how the cheapest functions compare with the GPU, printed and
/// recomputed.
fn against_gpu(rows: &[(&str, Row<'_>)], prices: &Prices) -> Result<String, AuditError> {
    let Some((_, gpu)) = rows.iter().find(|(name, _)| *name == GPU) else {
        return Ok(String::new());
    };
    let on_functions: Vec<_> = rows
        .iter()
        .filter(|(name, _)| *name != GPU)
        .copied()
        .collect();
    let (printed, own) = (
        printed_totals(&on_functions)?,
        prices.totals(&on_functions)?,
    );
    let (Some(before), Some(after)) = (printed.first(), own.first()) else {
        return Ok(String::new());
    };
    Ok(format!(
        ". The cheapest on functions ({}) against the GPU: printed {}, recomputed {} ({})",
        before.0,
        percent(gpu.number("total_cost_usd")?.value, before.1),
        percent(prices.total(GPU, *gpu)?, after.1),
        after.0,
    ))
}

/// Checks the cost per worker from that per function, and the total from that per
/// worker.
pub(super) fn multiples(sources: Sources<'_>) -> Findings {
    let workers = setting(sources, "workers", "")?;
    let worker = check(
        "cost per worker",
        "printed cost of a function × batches",
        "USD",
    );
    let total = check("total cost", "printed cost per worker × workers", "USD");
    let mut findings = Vec::new();
    // A worker's cost from its functions'.
    for (name, row) in function_rows(sources)? {
        let function = row.number("cost_per_function_usd")?;
        let batches = row.number("batches_per_worker")?;
        let computed = function.value * batches.value;
        let inputs = vec![
            Input::of("cost of a function", &function),
            Input::exact("batches", &batches),
        ];
        let printed = row.number("cost_per_worker_usd")?;
        findings.push(worker.finding(name, inputs, computed, &printed));
    }
    for model in MODELS {
        // The total from a worker's.
        for (framework, row) in rows(sources, model)? {
            let one = row.number("cost_per_worker_usd")?;
            let inputs = vec![
                Input::of("cost per worker", &one),
                Input::exact("workers", &workers),
            ];
            let printed = row.number("total_cost_usd")?;
            let computed = one.value * workers.value;
            let name = format!("{model}, {framework}");
            findings.push(total.finding(name, inputs, computed, &printed));
        }
    }
    Ok(findings)
}

/// The systems of the table that exchange over S3, with their names here.
const OVER_S3: [(&str, &str); 4] = [
    ("ScatterReduce", "scatterreduce"),
    ("AllReduce", "allreduce"),
    ("MLLess", "mlless"),
    (GPU, "gpu_baseline"),
];

/// Computes what requests, which the formula leaves out, would add at list
/// prices.
pub(super) fn requests(sources: Sources<'_>) -> Findings {
    let formula = "recomputed total cost + writes × price of a PUT + reads × price of a GET";
    let check = check("total cost with the requests to S3", formula, "USD");
    let prices = Prices::of(sources)?;
    let mut findings = Vec::new();
    for model in MODELS {
        let rows = rows(sources, model)?;
        let (mut with, mut found) = (Vec::new(), Vec::new());
        for (framework, row) in &rows {
            let total = prices.total(framework, *row)?;
            // Systems over S3 pay for requests, others do not.
            let Some((_, system)) = OVER_S3.iter().find(|(name, _)| name == framework) else {
                with.push(((*framework).to_owned(), total));
                continue;
            };
            let (inputs, charge) = charges(sources, model, system)?;
            with.push(((*framework).to_owned(), total + charge));
            // The total with requests, beside the one without.
            let outcome = if charge / total > super::TOLERANCE {
                Outcome::Differs
            } else {
                Outcome::Agrees
            };
            let cost = Input::from("recomputed total cost", total, "times, memory and prices");
            let inputs = [vec![cost], inputs].concat();
            let finding = check
                .unchecked(format!("{model}, {framework}"), inputs)
                .with_computed(total + charge)
                .with_printed(&row.number("total_cost_usd")?)
                .with_outcome(outcome)
                .explained(format!(
                    "requests add {} USD, {} of the recomputed cost; lists and reads that find \
                     nothing would come on top",
                    format::number(charge),
                    format::percent(charge / total)
                ));
            found.push(finding);
        }
        // What requests do to the order of totals.
        let (own, with) = (prices.totals(&rows)?, Ranking::new(with));
        let survives = if own.agrees_with(&with) {
            "requests do not change the order of total costs"
        } else {
            "the order of total costs does not survive"
        };
        let consequence = format!(
            "{survives}: recomputed {}; with requests {}",
            own.text(),
            with.text()
        );
        findings.extend(found.into_iter().map(|finding| {
            if finding.differs() {
                finding.concluding(consequence.clone())
            } else {
                finding
            }
        }));
    }
    Ok(findings)
}

/// Returns writes and reads of an epoch by the system's closed form, and their
/// price.
fn charges(
    sources: Sources<'_>,
    model: &str,
    system: &'static str,
) -> Result<(Vec<Input>, f64), AuditError> {
    let unknown = || AuditError::ClosedForm(system);
    let known = find(system).ok_or_else(unknown)?;
    let model = match model {
        "MobileNet" => "mobilenet",
        _ => "resnet18",
    };
    let sizes = find_model(model).ok_or_else(unknown)?.sizes;
    let job = job(sources, model, system)?;
    let traffic = known.bind(&job).and_then(|known| known.traffic(sizes));
    let traffic = traffic.map_err(|_| unknown())?;
    let put = sources.prices.price("s3_put")?;
    let get = sources.prices.price("s3_get")?;
    let (puts, gets) = (traffic.puts as f64, traffic.gets as f64);
    let form = format!("closed form of {system}");
    let inputs = vec![
        Input::from("writes", puts, form.clone()),
        Input::from("reads", gets, form),
        Input::from("price of a PUT", put.usd, put.source.clone()),
        Input::from("price of a GET", get.usd, get.source.clone()),
    ];
    Ok((inputs, puts * put.usd + gets * get.usd))
}

/// One epoch of the table's set-up.
fn job(sources: Sources<'_>, model: &str, system: &'static str) -> Result<Job, AuditError> {
    let unknown = || AuditError::ClosedForm(system);
    let known = find(system).ok_or_else(unknown)?;
    let Some((_, row)) = function_rows(sources)?.into_iter().next() else {
        return Err(unknown());
    };
    let count = |quantity: Quantity| quantity.value as usize;
    let settings = known.settings(Fidelity::Paper, &serde_json::Map::new());
    Ok(Job {
        trial: String::new(),
        system: system.to_owned(),
        fidelity: Fidelity::Paper,
        settings: settings.map_err(|_| unknown())?,
        model: model.to_owned(),
        data: DataPlan {
            dataset: "cifar10".to_owned(),
            record_bytes: 3073,
            train_samples: count(setting(sources, "training samples", "CIFAR-10")?),
            validation_samples: 0,
            test_samples: 0,
            augment: false,
        },
        workers: count(setting(sources, "workers", "")?),
        batch_size: count(setting(sources, "batch size", "")?),
        batches_per_worker: count(row.number("batches_per_worker")?),
        epochs: 1,
        seed: 0,
        optimizer: known.optimizer(Fidelity::Paper),
        evaluate: Evaluate::Never,
        device: Device::Cpu,
        attack: None,
    })
}
