//! A forecast as tables for people.

use epochcost_judge::analysis::titles::{device_title, model_title};
use epochcost_report::{COST_NAMES, cost_parts};
use epochcost_simulator::profile::ComputeOrigin;
use epochcost_spec::format::{bytes_in_column, count, duration, megabytes, number, usd, wrapped};
use epochcost_spec::ui::table;

use super::Forecast;
use super::estimate::Estimate;
use super::limits::{Boundary, Obstacle};
use super::memory::Cheapest;
use super::rows::PlannedRow;
use super::uncertainty::{Percentiles, Uncertainty};

/// The text of a forecast; with `verbose`, every line item of both bills.
pub(super) fn of(plan: &Forecast, verbose: bool) -> String {
    let first = (plan.answer.as_ref()).map_or_else(|| sentences(plan), |answer| answer.text());
    if plan.rows.is_empty() {
        // Without a goal there are rows.
        let more = "-v: what the rows of the experiment take";
        return [first, misses(plan), format!("{}\n{more}", stands_on(plan))].join("\n\n");
    }
    let mut parts = vec![
        first,
        misses(plan),
        times_and_dollars(&plan.rows),
        legend(plan),
        by_sample(plan),
        traffic_and_memory(&plan.rows),
        bills(&plan.rows, verbose),
    ];
    parts.extend(
        plan.cheapest_memory
            .as_deref()
            .map(|found| cheapest(found, plan)),
    );
    parts.extend(
        plan.limits
            .as_deref()
            .zip(plan.limits_up_to.zip(plan.limits_within_s))
            .map(|(found, (up_to, within_s))| limits(found, up_to, within_s)),
    );
    parts.extend(
        plan.uncertainty
            .as_ref()
            .map(|found| uncertainty(found, plan)),
    );
    parts.push(stands_on(plan));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// What the forecast comes to, a sentence a line.
fn sentences(plan: &Forecast) -> String {
    let lines: Vec<String> = (plan.sentences().iter())
        .map(|sentence| wrapped("", sentence))
        .collect();
    lines.join("\n")
}

/// Returns what the platform profiles miss by, a sentence a line.
fn misses(plan: &Forecast) -> String {
    let lines: Vec<String> = plan.misses.iter().map(|said| wrapped("", said)).collect();
    lines.join("\n")
}

/// A figure of a row's estimate.
fn figure(row: &PlannedRow, of: impl Fn(&Estimate) -> String) -> String {
    row.estimate.as_ref().map_or("-".to_owned(), of)
}

fn times_and_dollars(rows: &[PlannedRow]) -> String {
    let heading = [
        "",
        "row",
        "W",
        "b",
        "memory",
        "s/epoch",
        "total",
        "compute s",
        "sync s",
        "$ paper",
        "$ full",
    ];
    let lines: Vec<_> = rows
        .iter()
        .map(|row| {
            let stage = |seconds: Option<f64>| seconds.map_or("-".to_owned(), number);
            [
                if row.on_frontier { "*" } else { "" }.to_owned(),
                row.id.clone(),
                row.workers.to_string(),
                row.batch_size.to_string(),
                memory(row),
                figure(row, |e| number(e.seconds_per_epoch)),
                figure(row, |e| duration(e.seconds)),
                figure(row, |e| stage(e.stage_seconds.compute_gradients)),
                figure(row, |e| stage(e.stage_seconds.synchronise)),
                figure(row, |e| number(e.cost_paper_usd)),
                figure(row, |e| number(e.cost_full_usd)),
            ]
        })
        .collect();
    let mut text = table(heading, &lines);
    for row in rows {
        if let Some(infeasible) = &row.infeasible {
            text.push_str(&format!("\n{}: {infeasible}", row.id));
        }
        if let Some(reason) = &row.impossible {
            text.push_str(&format!("\n{}: cannot be run: {reason}", row.id));
        }
        if let Some(failure) = &row.failure {
            text.push_str(&format!("\n{}: fails: {failure}", row.id));
        }
    }
    text
}

pub(super) fn memory(row: &PlannedRow) -> String {
    match (&row.instance_type, row.memory_mb) {
        (Some(instance), None) => instance.clone(),
        (Some(instance), Some(mb)) => format!("{instance}, {}", megabytes(mb.into())),
        (None, Some(mb)) => megabytes(mb.into()),
        (None, None) => "-".to_owned(),
    }
}

fn legend(plan: &Forecast) -> String {
    let each = if plan.frontier_by_sample {
        " per sample (rows train different numbers of them)"
    } else {
        ""
    };
    let mut text = format!(
        "* on the Pareto frontier of total seconds against {} dollars{each}; compute s and sync s: \
         per worker and epoch",
        plan.account.as_str()
    );
    if let Some(uncertainty) = &plan.uncertainty {
        text = format!("{text}. {}", uncertainty.note());
    }
    wrapped("", &text)
}

/// Returns the time and the price of a sample, which compare rows that train different
/// numbers of them, and the part that evaluation has in the time.
fn by_sample(plan: &Forecast) -> String {
    let lines: Vec<_> = (plan.rows.iter())
        .map(|row| {
            let each = |of: fn(&Estimate) -> f64, scale: f64| {
                figure(row, |e| number(of(e) * scale / row.samples as f64))
            };
            [
                row.id.clone(),
                count(row.samples as f64),
                figure(row, |e| {
                    (e.stage_seconds.detect_convergence).map_or("-".to_owned(), number)
                }),
                each(|e| e.seconds, 1e3),
                each(|e| e.cost_paper_usd, 1e6),
                each(|e| e.cost_full_usd, 1e6),
            ]
        })
        .collect();
    let heading = [
        "work",
        "samples",
        "detect s",
        "ms/sample",
        "$ paper/M",
        "$ full/M",
    ];
    format!(
        "{}\nsamples: of all workers and epochs; detect s: per worker and epoch; $ per million \
         samples",
        table(heading, &lines)
    )
}

fn traffic_and_memory(rows: &[PlannedRow]) -> String {
    let heading = [
        "exchange",
        "puts",
        "gets",
        "lists",
        "messages",
        "up",
        "down",
        "peak MB",
        "smallest MB",
    ];
    let lines: Vec<_> = rows
        .iter()
        .map(|row| {
            [
                row.id.clone(),
                figure(row, |e| e.traffic.puts.to_string()),
                figure(row, |e| e.traffic.gets.to_string()),
                figure(row, |e| e.traffic.lists.to_string()),
                figure(row, |e| e.traffic.messages.to_string()),
                figure(row, |e| bytes_in_column(e.traffic.bytes_up)),
                figure(row, |e| bytes_in_column(e.traffic.bytes_down)),
                figure(row, |e| e.peak_memory_mb.to_string()),
                (row.smallest_memory_mb).map_or("-".to_owned(), |mb| mb.to_string()),
            ]
        })
        .collect();
    format!(
        "{}\nsmallest MB: the smallest functions that have the memory and the time",
        table(heading, &lines)
    )
}

fn bills(rows: &[PlannedRow], verbose: bool) -> String {
    let estimated = rows
        .iter()
        .filter_map(|row| Some((row, row.estimate.as_ref()?)));
    let of = |(row, estimate): (&PlannedRow, &Estimate)| {
        if verbose {
            itemised(row, estimate)
        } else {
            compact(row, estimate)
        }
    };
    estimated.map(of).collect::<Vec<_>>().join("\n")
}

/// One line: the sum and what it is made of, largest first, in words. The names that bills
/// use stand in the itemised one.
fn compact(row: &PlannedRow, estimate: &Estimate) -> String {
    let [_, full] = &estimate.bills;
    let items = full.items.iter();
    let sums = cost_parts(items.map(|item| (item.dimension.as_str(), item.usd)));
    // Deletes are requests that cost nothing.
    let named = COST_NAMES.into_iter().zip(sums);
    let mut parts: Vec<(&str, f64)> = named.filter(|(_, usd)| *usd > 0.0).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let parts: Vec<String> = parts
        .iter()
        .map(|(name, dollars)| format!("{name} {}", usd(*dollars)))
        .collect();
    let total = usd(full.total_usd());
    wrapped("", &format!("{}: {total} = {}", row.id, parts.join(" + ")))
}

fn itemised(row: &PlannedRow, estimate: &Estimate) -> String {
    let lines: Vec<_> = (estimate.bills.iter())
        .flat_map(|bill| bill.items.iter().map(move |item| (bill.cost_model, item)))
        .map(|(of, item)| {
            [
                of.as_str().to_owned(),
                item.dimension.clone(),
                number(item.quantity),
                item.unit.clone(),
                number(item.unit_price_usd),
                number(item.usd),
            ]
        })
        .collect();
    let heading = ["account", "line item", "quantity", "unit", "$ a unit", "$"];
    format!("{}\n{}\n", row.id, table(heading, &lines))
}

fn cheapest(found: &[Cheapest], plan: &Forecast) -> String {
    let own = |id: &str| plan.rows.iter().find(|row| row.id == id);
    let lines: Vec<_> = found
        .iter()
        .map(|cheapest| {
            let figure = |of: fn(&Estimate) -> f64| {
                let estimate = cheapest.estimate.as_ref();
                estimate.map_or("-".to_owned(), |estimate| number(of(estimate)))
            };
            let here = own(&cheapest.id).and_then(|row| row.estimate.as_ref());
            [
                cheapest.id.clone(),
                (cheapest.memory_mb).map_or("-".to_owned(), |mb| mb.to_string()),
                figure(|e| e.seconds_per_epoch),
                figure(|e| e.seconds),
                figure(|e| e.cost_paper_usd),
                figure(|e| e.cost_full_usd),
                here.map_or("-".to_owned(), |e| number(e.stated_usd(plan.account))),
                cheapest.simulated_sizes.to_string(),
            ]
        })
        .collect();
    let heading = [
        "cheapest memory",
        "MB",
        "s/epoch",
        "total s",
        "$ paper",
        "$ full",
        "$ as it is",
        "sizes",
    ];
    format!(
        "{}\nby the {} account, on a grid of 64 MB, over sizes that are feasible",
        table(heading, &lines),
        plan.account.as_str()
    )
}

fn limits(found: &[Boundary], up_to: u32, within_s: f64) -> String {
    let mut lines = vec![
        "limits, with batch size, batches per worker, epochs and memory as they are:".to_owned(),
    ];
    lines.extend(found.iter().map(|boundary| limit(boundary, up_to)));
    let cut: Vec<_> = (found.iter())
        .filter(|boundary| boundary.is_cut)
        .map(|boundary| boundary.id.as_str())
        .collect();
    if !cut.is_empty() {
        lines.push(format!(
            "not settled within {within_s:.0} s (--limits-within): {}",
            cut.join(", ")
        ));
    }
    lines.join("\n")
}

/// The boundary of one row, as a sentence.
pub(super) fn limit(boundary: &Boundary, up_to: u32) -> String {
    let (id, workers) = (&boundary.id, boundary.feasible_up_to);
    let feasible = match workers {
        0 if boundary.is_cut => "at no number of workers so far".to_owned(),
        0 => "at no number of workers".to_owned(),
        1 => "up to 1 worker".to_owned(),
        _ => format!("up to {workers} workers"),
    };
    let then = (boundary.fails_at.zip(boundary.then.as_ref())).map(|(at, obstacle)| {
        let obstacle = match obstacle {
            Obstacle::Infeasible(met) => format!("{}: {}", met.limit.as_str(), met.reason),
            Obstacle::Failed(reason) => format!("fails: {reason}"),
        };
        (at, format!("at {at}: {obstacle}"))
    });
    match (then, &boundary.not_simulated) {
        (Some((_, then)), None) => format!("{id}: feasible {feasible}; {then}"),
        (Some((at, then)), Some(why)) if at == workers + 1 => {
            format!("{id}: feasible {feasible}; {then}; by representatives: {why}")
        }
        (Some((_, then)), Some(why)) => {
            format!("{id}: feasible {feasible}; {then}; not simulated between: {why}")
        }
        (None, Some(why)) => format!("{id}: feasible {feasible}; not simulated beyond: {why}"),
        (None, None) => format!("{id}: feasible up to {up_to} workers, the most asked for"),
    }
}

fn uncertainty(found: &Uncertainty, plan: &Forecast) -> String {
    let interval = |percentiles: Option<Percentiles>| match percentiles {
        None => "-".to_owned(),
        Some(p) => format!("{} [{}, {}]", number(p.p50), number(p.p5), number(p.p95)),
    };
    let lines: Vec<_> = (found.rows.iter())
        .map(|row| {
            let others = row.infeasible_samples.iter();
            let others = others.map(|(why, count)| format!(", {why} {count}"));
            [
                row.id.clone(),
                interval(row.of_figure("seconds_per_epoch")),
                interval(row.of_figure("seconds")),
                interval(row.of_figure("cost_paper_usd")),
                interval(row.of_figure("cost_full_usd")),
                format!("{}{}", row.feasible_samples, others.collect::<String>()),
            ]
        })
        .collect();
    let heading = [
        "median [5 %, 95 %]",
        "s/epoch",
        "total s",
        "$ paper",
        "$ full",
        "feasible",
    ];
    let constants = plan.simulation.constants.iter();
    let ranged: Vec<_> = constants
        .filter(|constant| found.ranged.contains(&constant.path))
        .map(|constant| {
            [
                constant.path.clone(),
                number(constant.low.unwrap_or(constant.value)),
                number(constant.value),
                number(constant.high.unwrap_or(constant.value)),
            ]
        })
        .collect();
    format!(
        "{}\n{}",
        table(heading, &lines),
        table(["sampled constant", "low", "value", "high"], &ranged)
    )
}

/// What the figures are worth.
fn stands_on(plan: &Forecast) -> String {
    let simulation = &plan.simulation;
    let stated = simulation.constants.iter().filter(|c| c.stated).count();
    let stated = match stated {
        0 => String::new(),
        count => format!(", {count} of them stated by the experiment"),
    };
    let mut lines = vec![
        "every figure is simulated; nothing was run".to_owned(),
        format!(
            "platform profile: {} ({} constants with their sources{stated}), limits {}",
            simulation.profile,
            simulation.constants.len(),
            if simulation.limits { "on" } else { "off" }
        ),
        format!("prices: {}", plan.priced),
    ];
    let carried = |row: &PlannedRow| row.estimate.as_ref()?.carried_on_from_epochs;
    if let Some(least) = plan.rows.iter().filter_map(carried).min() {
        lines.push(format!(
            "trainings of many epochs: carried on from their first {least} or more"
        ));
    }
    for compute in &simulation.compute {
        let costs = compute.costs.iter();
        let models: Vec<String> = costs
            .map(|cost| {
                format!(
                    "{} on a {}",
                    model_title(&cost.model),
                    device_title(cost.device)
                )
            })
            .collect();
        lines.push(format!(
            "compute profile: {} ({}), for {}",
            compute.name,
            origin(plan, compute.origin),
            models.join(", ")
        ));
    }
    lines.join("\n")
}

/// Returns what the steps of a compute profile are. Places start from references, and take
/// steps for theirs that were measured elsewhere and not carried.
pub(super) fn origin(plan: &Forecast, origin: ComputeOrigin) -> &'static str {
    match origin {
        ComputeOrigin::Measured if plan.answer.is_some() => {
            "measured, and taken as the steps of one vCPU of a function on x86, or of a T4"
        }
        ComputeOrigin::Measured => "measured",
        ComputeOrigin::Published => {
            "published durations: what follows from them is true by construction"
        }
        ComputeOrigin::Stated => "stated rates of operations",
        ComputeOrigin::Scaled => "measured on another device and scaled",
    }
}
