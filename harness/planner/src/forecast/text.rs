//! A forecast as tables for people.

use epochcost_channels::Traffic;
use epochcost_judge::analysis::titles::{device_title, model_title};
use epochcost_report::{COST_NAMES, cost_parts};
use epochcost_simulator::profile::ComputeOrigin;
use epochcost_spec::format::{bytes_in_column, count, duration, megabytes, number, usd, wrapped};

use super::estimate::{Estimate, Obstacle};
use super::limits::Boundary;
use super::memory::Cheapest;
use super::rows::PlannedRow;
use super::uncertainty::{Interval, Uncertainty};
use super::{Forecast, disagreement};
use crate::columns::table;

/// The text of a forecast; with `verbose`, every line item of both bills.
pub(super) fn of(plan: &Forecast, verbose: bool) -> String {
    let first = match &plan.answer {
        Some(answer) => answer.text(),
        None => paragraph(&plan.sentences()),
    };
    if plan.rows.is_empty() {
        // Without a goal there are rows.
        let more = "-v: what the rows of the experiment take";
        let last = format!("{}\n{more}", stands_on(plan));
        return [first, paragraph(&plan.misses), last].join("\n\n");
    }
    let mut parts = vec![
        first,
        paragraph(&plan.misses),
        times_and_dollars(&plan.rows),
        legend(plan),
        by_sample(plan),
        traffic_and_memory(&plan.rows),
        bills(plan, verbose),
    ];
    let found = plan.cheapest_memory.as_deref();
    parts.extend(found.map(|found| cheapest(found, plan)));
    let within = plan.limits_up_to.zip(plan.limits_within_s);
    let found = plan.limits.as_deref().zip(within);
    parts.extend(found.map(|(found, (up_to, within_s))| limits(found, up_to, within_s)));
    let found = plan.uncertainty.as_ref();
    parts.extend(found.map(|found| uncertainty(found, plan)));
    parts.push(stands_on(plan));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// Returns sentences, each on lines of its own.
pub(super) fn paragraph(sentences: &[String]) -> String {
    let lines = sentences.iter().map(|sentence| wrapped("", sentence));
    lines.collect::<Vec<_>>().join("\n")
}

/// A figure of a row's estimate.
fn figure(row: &PlannedRow, of: impl Fn(&Estimate) -> String) -> String {
    row.estimate.as_ref().map_or("-".to_owned(), of)
}

fn times_and_dollars(rows: &[PlannedRow]) -> String {
    let of = |row: &PlannedRow, of: fn(&Estimate) -> f64| figure(row, |e| number(of(e)));
    let mut text = table(
        rows,
        [
            ("", &|row| if row.on_frontier { "*" } else { "" }.to_owned()),
            ("row", &|row| row.id.clone()),
            ("W", &|row| row.workers.to_string()),
            ("b", &|row| row.batch_size.to_string()),
            ("memory", &memory),
            ("s/epoch", &|row| of(row, |e| e.seconds_per_epoch)),
            ("total", &|row| figure(row, |e| duration(e.seconds))),
            ("compute s", &|row| {
                of(row, |e| e.stage_seconds.compute_gradients)
            }),
            ("sync s", &|row| of(row, |e| e.stage_seconds.synchronise)),
            ("$ paper", &|row| of(row, |e| e.cost_paper_usd)),
            ("$ full", &|row| of(row, |e| e.cost_full_usd)),
        ],
    );
    let reasons = rows
        .iter()
        .filter_map(|row| Some((&row.id, row.why_not()?)));
    text.extend(reasons.map(|(id, why)| format!("\n{id}: {why}")));
    let in_draws = rows
        .iter()
        .filter_map(|row| Some((&row.id, row.in_draws()?)));
    text.extend(in_draws.map(|(id, draws)| format!("\n{id}: {draws}")));
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
    let each = |row: &PlannedRow, of: fn(&Estimate) -> f64, scale: f64| {
        figure(row, |e| number(of(e) * scale / row.samples as f64))
    };
    let detecting = |row: &PlannedRow| figure(row, |e| number(e.stage_seconds.detect_convergence));
    let table = table(
        &plan.rows,
        [
            ("work", &|row| row.id.clone()),
            ("samples", &|row| count(row.samples as f64)),
            ("detect s", &detecting),
            ("ms/sample", &|row| each(row, |e| e.seconds, 1e3)),
            ("$ paper/M", &|row| each(row, |e| e.cost_paper_usd, 1e6)),
            ("$ full/M", &|row| each(row, |e| e.cost_full_usd, 1e6)),
        ],
    );
    format!(
        "{table}\nsamples: of all workers and epochs; detect s: per worker and epoch; $ per million \
         samples"
    )
}

fn traffic_and_memory(rows: &[PlannedRow]) -> String {
    let of = |row: &PlannedRow, of: fn(&Estimate) -> u64| figure(row, |e| of(e).to_string());
    let size = |row: &PlannedRow, of: fn(&Traffic) -> u64| {
        figure(row, |e| bytes_in_column(of(&e.traffic)))
    };
    let table = table(
        rows,
        [
            ("exchange", &|row| row.id.clone()),
            ("puts", &|row| of(row, |e| e.traffic.puts)),
            ("gets", &|row| of(row, |e| e.traffic.gets)),
            ("lists", &|row| of(row, |e| e.traffic.lists)),
            ("messages", &|row| of(row, |e| e.traffic.messages)),
            ("up", &|row| size(row, |traffic| traffic.bytes_up)),
            ("down", &|row| size(row, |traffic| traffic.bytes_down)),
            ("peak MB", &|row| of(row, |e| e.peak_memory_mb)),
            ("smallest MB", &|row| or_none(row.smallest_memory_mb)),
        ],
    );
    format!("{table}\nsmallest MB: the smallest functions that have the memory and the time")
}

fn or_none(number: Option<u32>) -> String {
    number.map_or("-".to_owned(), |number| number.to_string())
}

fn bills(plan: &Forecast, verbose: bool) -> String {
    let of = if verbose { itemised } else { compact };
    let bills = plan.estimated().map(|(row, estimate)| of(row, estimate));
    bills.collect::<Vec<_>>().join("\n")
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
    let parts = parts
        .iter()
        .map(|(name, dollars)| format!("{name} {}", usd(*dollars)));
    let parts: Vec<String> = parts.collect();
    let total = usd(full.total_usd());
    wrapped("", &format!("{}: {total} = {}", row.id, parts.join(" + ")))
}

fn itemised(row: &PlannedRow, estimate: &Estimate) -> String {
    let items = (estimate.bills.iter())
        .flat_map(|bill| bill.items.iter().map(move |item| (bill.cost_model, item)));
    let table = table(
        &items.collect::<Vec<_>>(),
        [
            ("account", &|(of, _)| of.as_str().to_owned()),
            ("line item", &|(_, item)| item.dimension.clone()),
            ("quantity", &|(_, item)| number(item.quantity)),
            ("unit", &|(_, item)| item.unit.clone()),
            ("$ a unit", &|(_, item)| number(item.unit_price_usd)),
            ("$", &|(_, item)| number(item.usd)),
        ],
    );
    format!("{}\n{table}\n", row.id)
}

fn cheapest(found: &[Cheapest], plan: &Forecast) -> String {
    let figure = |cheapest: &Cheapest, of: fn(&Estimate) -> f64| {
        let estimate = cheapest.estimate.as_ref();
        estimate.map_or("-".to_owned(), |estimate| number(of(estimate)))
    };
    let as_it_is = |cheapest: &Cheapest| {
        let own = plan.rows.iter().find(|row| row.id == cheapest.id);
        let estimate = own.and_then(|row| row.estimate.as_ref());
        estimate.map_or("-".to_owned(), |e| number(e.stated_usd(plan.account)))
    };
    let table = table(
        found,
        [
            ("cheapest memory", &|one| one.id.clone()),
            ("MB", &|one| or_none(one.memory_mb)),
            ("s/epoch", &|one| figure(one, |e| e.seconds_per_epoch)),
            ("total s", &|one| figure(one, |e| e.seconds)),
            ("$ paper", &|one| figure(one, |e| e.cost_paper_usd)),
            ("$ full", &|one| figure(one, |e| e.cost_full_usd)),
            ("$ as it is", &as_it_is),
            ("sizes", &|one| one.simulated_sizes.to_string()),
        ],
    );
    let account = plan.account.as_str();
    format!(
        "{table}\nby the {account} account, on a grid of 64 MB, over sizes that are feasible, in 95 % \
         of draws too"
    )
}

fn limits(found: &[Boundary], up_to: u32, within_s: f64) -> String {
    let mut lines = vec![
        "limits, with batch size, batches per worker, epochs and memory as they are:".to_owned(),
    ];
    lines.extend(found.iter().map(|boundary| limit(boundary, up_to)));
    let cut = found.iter().filter(|boundary| boundary.is_cut);
    let cut: Vec<_> = cut.map(|boundary| boundary.id.as_str()).collect();
    if !cut.is_empty() {
        let cut = cut.join(", ");
        lines.push(format!(
            "not settled within {within_s:.0} s (--limits-within): {cut}"
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
    let more = match (then, &boundary.not_simulated) {
        (Some((_, then)), None) => then,
        (Some((at, then)), Some(why)) if at == workers + 1 => {
            format!("{then}; by representatives: {why}")
        }
        (Some((_, then)), Some(why)) => format!("{then}; not simulated between: {why}"),
        (None, Some(why)) => format!("not simulated beyond: {why}"),
        (None, None) => {
            return format!("{id}: feasible up to {up_to} workers, the most asked for");
        }
    };
    format!("{id}: feasible {feasible}; {more}")
}

fn uncertainty(found: &Uncertainty, plan: &Forecast) -> String {
    let interval = |row: &Interval, figure: &str| match row.of_figure(figure) {
        None => "-".to_owned(),
        Some(p) => format!("{} [{}, {}]", number(p.p50), number(p.p5), number(p.p95)),
    };
    let feasible = |row: &Interval| {
        let others = row.infeasible_samples.iter();
        let others = others.map(|(why, count)| format!(", {why} {count}"));
        row.feasible_samples.to_string() + &others.collect::<String>()
    };
    let intervals = table(
        &found.rows,
        [
            ("median [5 %, 95 %]", &|row| row.id.clone()),
            ("s/epoch", &|row| interval(row, "seconds_per_epoch")),
            ("total s", &|row| interval(row, "seconds")),
            ("$ paper", &|row| interval(row, "cost_paper_usd")),
            ("$ full", &|row| interval(row, "cost_full_usd")),
            ("feasible", &feasible),
        ],
    );
    let constants = plan.simulation.constants.iter();
    let ranged = constants.filter(|constant| found.ranged.contains(&constant.path));
    let ranged = table(
        &ranged.collect::<Vec<_>>(),
        [
            ("sampled constant", &|one| one.path.clone()),
            ("low", &|one| number(one.low.unwrap_or(one.value))),
            ("value", &|one| number(one.value)),
            ("high", &|one| number(one.high.unwrap_or(one.value))),
        ],
    );
    format!("{intervals}\n{ranged}")
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
        let models = compute.costs.iter().map(|cost| {
            let (model, device) = (model_title(&cost.model), device_title(cost.device));
            format!("{model} on a {device}")
        });
        lines.push(format!(
            "compute profile: {} ({}), for {}",
            compute.name,
            origin(plan, compute.origin),
            models.collect::<Vec<_>>().join(", ")
        ));
        let doubts = compute.costs.iter().filter_map(disagreement);
        lines.extend(doubts.map(|doubt| format!("note: {doubt}")));
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
