//! A forecast as a page: the answer, time against cost, and what both are made of.

mod asked;
mod sentences;

use epochcost_judge::analysis::titles::{model_title, system_title};
use epochcost_report::{
    COST_NAMES, Cell, Chart, Page, Parts, Section, Table, TimeAndCost, cost_parts, stacked,
    time_cost,
};
use epochcost_spec::format::{self, bytes, count, duration, number, usd};

use super::estimate::Estimate;
use super::rows::PlannedRow;
use super::{Forecast, alone, text};

/// Models that have a chart each; of more there is none.
const MOST_DRAWN: usize = 6;

/// Samples of the unit of work that rows with unlike numbers of them are compared by.
const UNIT: f64 = 1000.0;

/// A row that is possible, with the figures that rows are compared by.
struct Contender<'a> {
    row: &'a PlannedRow,
    seconds: f64,
    usd: f64,
}

impl Forecast {
    /// Returns the possible rows of a model, but for those whose GPU nothing is known of.
    fn contenders(&self, model: &str) -> Vec<Contender<'_>> {
        let rows = self.rows.iter().filter(|row| row.model == model);
        let rows = rows.filter(|row| !row.cpu_for_gpu);
        rows.filter_map(|row| {
            let estimate = row.estimate.as_ref()?;
            let unit = if self.frontier_by_sample {
                UNIT / row.samples as f64
            } else {
                1.0
            };
            Some(Contender {
                row,
                seconds: estimate.seconds * unit,
                usd: estimate.usd(self.account) * unit,
            })
        })
        .collect()
    }

    /// Returns what seconds and dollars are for.
    fn basis(&self) -> &'static str {
        if self.frontier_by_sample {
            " per 1,000 samples"
        } else {
            ""
        }
    }

    /// Returns the forecast as a page.
    pub fn page(&self) -> Page {
        let mut sections = Vec::new();
        sections.extend(self.answer.as_ref().map(|answer| answer.section()));
        sections.push(self.figures());
        sections.push(self.stages());
        sections.push(self.bills());
        sections.push(self.traffic());
        sections.extend(self.cheapest_sizes());
        sections.extend(self.limits());
        sections.extend(self.intervals());
        sections.push(self.origin());
        let mut answer = self.sentences();
        answer.extend(self.misses.iter().cloned());
        Page {
            title: format!("Plan of {}", self.experiment),
            about: "what it would take, before anything runs".into(),
            tag: "simulated",
            answer,
            notes: vec![format!(
                "Every figure is simulated with sizes only: nothing was run and nothing spent. {}",
                (self.answer.as_ref()).map_or_else(
                    || "Costs are list prices.".to_owned(),
                    |answer| answer.prices()
                )
            )],
            sections,
            ..Page::default()
        }
    }

    fn figures(&self) -> Section {
        let mut table = Table::new(
            "Every row of the experiment",
            &[
                "row:",
                "system:",
                "fidelity:",
                "workers",
                "batch",
                "memory:",
                "s/epoch",
                "total s",
                "$ paper",
                "$ full",
                "frontier:",
                "why not…",
            ],
        );
        for row in &self.rows {
            let of = |of: fn(&Estimate) -> f64| figure(row, of, number);
            let why = why_not(row);
            let class = if why.is_some() { "infeasible" } else { "" };
            let cells = vec![
                Cell::text(&row.id),
                Cell::text(system_title(&row.system)),
                Cell::text(row.fidelity.as_str()),
                Cell::whole(row.workers),
                Cell::whole(row.batch_size),
                Cell::text(text::memory(row)),
                of(|e| e.seconds_per_epoch),
                of(|e| e.seconds),
                of(|e| e.cost_paper_usd),
                of(|e| e.cost_full_usd),
                Cell::text(if row.on_frontier { "yes" } else { "" }),
                Cell::text(why.unwrap_or_default()),
            ];
            table.classed_row(class, cells);
        }
        table.without_silent();
        let account = self.account.as_str();
        Section {
            id: "rows".into(),
            title: "Time and cost".into(),
            charts: self.time_cost(),
            tables: vec![table],
            notes: vec![format!(
                "On the frontier: nothing of the same model is both faster and cheaper by the {account} \
                 cost model{}.",
                self.basis()
            )],
            ..Section::default()
        }
    }

    /// Draws the possible rows of each model, as rows of several do unlike work; of many
    /// models, nothing.
    fn time_cost(&self) -> Vec<Chart> {
        let models = self.models();
        if models.len() > MOST_DRAWN {
            return Vec::new();
        }
        let several = models.len() > 1;
        let charts = models.iter().enumerate().map(|(place, model)| {
            let points: Vec<TimeAndCost> = (self.contenders(model).iter())
                .map(|one| TimeAndCost {
                    name: one.row.name.clone(),
                    system: system_title(&one.row.system),
                    seconds: one.seconds,
                    usd: one.usd,
                })
                .collect();
            let of = if several {
                format!("{}: ", model_title(model))
            } else {
                String::new()
            };
            let caption =
                format!("{of}Down and left is better; a dashed step is the Pareto frontier.");
            let basis = self.basis();
            let words = [
                format!("simulated seconds{basis} (log)"),
                format!("cost{basis}, USD (log)"),
            ];
            let id = match place {
                0 => "time-cost".to_owned(),
                _ => format!("time-cost-{}", place + 1),
            };
            time_cost(&id, &points, caption, [&words[0], &words[1]])
        });
        charts.flatten().collect()
    }

    /// Returns the models of all rows, in the order of their names.
    fn models(&self) -> Vec<&str> {
        let mut models: Vec<&str> = self.rows.iter().map(|row| row.model.as_str()).collect();
        models.sort_unstable();
        models.dedup();
        models
    }

    fn stages(&self) -> Section {
        const STAGES: [&str; 5] = [
            "fetch dataset",
            "compute gradients",
            "synchronise",
            "update model",
            "detect convergence",
        ];
        let of = |estimate: &Estimate| {
            let stages = &estimate.stage_seconds;
            [
                stages.fetch_dataset,
                stages.compute_gradients,
                stages.synchronise,
                stages.update_model,
                stages.detect_convergence,
            ]
        };
        let parts: Vec<Parts> = (self.estimated())
            .map(|(row, estimate)| Parts {
                name: row.name.clone(),
                values: of(estimate).map(|value| value.unwrap_or(0.0)).into(),
                tick: Some(estimate.seconds_per_epoch),
            })
            .collect();
        let heading: Vec<&str> = std::iter::once("row:").chain(STAGES).collect();
        let mut table = Table::new("Every stage in figures", &heading);
        table.is_folded = true;
        for (row, estimate) in self.estimated() {
            let cells = of(estimate).map(|value| Cell::of(value, number));
            table.row(std::iter::once(Cell::text(&row.id)).chain(cells).collect());
        }
        let caption = "Seconds per worker and epoch, summed over its functions: those that run in \
                       parallel each count, so that the sum may pass the wall time of the epoch."
            .into();
        let words = ["stages", "Where the time goes", "wall seconds of an epoch"];
        Section {
            id: "stages-of-rows".into(),
            title: "Where the time goes".into(),
            charts: stacked(words, caption, &STAGES, &parts, format::seconds)
                .into_iter()
                .collect(),
            tables: vec![table],
            ..Section::default()
        }
    }

    fn bills(&self) -> Section {
        let mut parts = Vec::new();
        let mut table = Table::new(
            "Every line of both bills",
            &[
                "row:",
                "cost model:",
                "dimension:",
                "unit:",
                "quantity",
                "unit price",
                "cost",
            ],
        );
        table.is_folded = true;
        for (row, estimate) in self.estimated() {
            let [paper, full] = &estimate.bills;
            let items = full.items.iter();
            parts.push(Parts {
                name: row.name.clone(),
                values: cost_parts(items.map(|item| (item.dimension.as_str(), item.usd))).into(),
                tick: Some(paper.total_usd()),
            });
            for bill in &estimate.bills {
                for item in &bill.items {
                    table.row(vec![
                        Cell::text(&row.id),
                        Cell::text(bill.cost_model.as_str()),
                        Cell::text(&item.dimension),
                        Cell::text(&item.unit),
                        Cell::of(Some(item.quantity), number),
                        Cell::of(Some(item.unit_price_usd), usd),
                        Cell::of(Some(item.usd), usd),
                    ]);
                }
            }
        }
        let caption = "Cost of one training with everything billed. Short trainings pay most for \
                       what is charged by the minute or hour."
            .into();
        let words = [
            "costs",
            "Where the money goes",
            "cost by the paper's cost model",
        ];
        Section {
            id: "bills".into(),
            title: "Where the money goes".into(),
            charts: stacked(words, caption, &COST_NAMES, &parts, usd)
                .into_iter()
                .collect(),
            tables: vec![table],
            ..Section::default()
        }
    }

    fn traffic(&self) -> Section {
        let mut table = Table::new(
            "Traffic of the exchange, and memory",
            &[
                "row:",
                "samples",
                "puts",
                "gets",
                "lists",
                "messages",
                "bytes up",
                "bytes down",
                "peak MB",
                "smallest MB",
            ],
        );
        for (row, estimate) in self.estimated() {
            let traffic = &estimate.traffic;
            let whole = |value: u64| Cell::of(Some(value as f64), count);
            let size = |value: u64| Cell::of(Some(value as f64), bytes);
            let smallest = row.smallest_memory_mb.map(f64::from);
            table.row(vec![
                Cell::text(&row.id),
                whole(row.samples as u64),
                whole(traffic.puts),
                whole(traffic.gets),
                whole(traffic.lists),
                whole(traffic.messages),
                size(traffic.bytes_up),
                size(traffic.bytes_down),
                whole(estimate.peak_memory_mb),
                Cell::of(smallest, count),
            ]);
        }
        Section {
            id: "traffic".into(),
            title: "Traffic and memory".into(),
            tables: vec![table],
            notes: vec![
                "Samples are of all workers and epochs. The smallest functions have the memory and \
                 the time."
                    .into(),
            ],
            ..Section::default()
        }
    }

    /// Returns the possible rows with what they take.
    fn estimated(&self) -> impl Iterator<Item = (&PlannedRow, &Estimate)> {
        let rows = self.rows.iter();
        rows.filter_map(|row| Some((row, row.estimate.as_ref()?)))
    }
}

fn is_alone(row: &PlannedRow) -> bool {
    row.system == alone::SYSTEM && row.workers == 1
}

/// Returns why a row is not possible; nothing if it is.
fn why_not(row: &PlannedRow) -> Option<String> {
    let limit = row.infeasible.as_ref().map(ToString::to_string);
    limit
        .or_else(|| (row.impossible.as_ref()).map(|why| format!("cannot be run: {why}")))
        .or_else(|| row.failure.as_ref().map(|why| format!("fails: {why}")))
}

fn figure(row: &PlannedRow, of: fn(&Estimate) -> f64, format: fn(f64) -> String) -> Cell {
    Cell::of(row.estimate.as_ref().map(of), format)
}

/// Returns a time in the unit that people say it in.
fn seconds(value: f64) -> String {
    if value < 120.0 {
        format::seconds(value)
    } else {
        duration(value)
    }
}
