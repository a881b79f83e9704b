//! A forecast as a page: the answer, time against cost, and what both are made of.

mod asked;
mod sentences;

use std::collections::BTreeSet;

use epochcost_judge::analysis::titles::{model_title, system_title};
use epochcost_report::{
    COST_NAMES, Cell, Chart, Page, Parts, Section, Table, TimeAndCost, cost_parts, stacked,
    time_cost,
};
use epochcost_spec::format::{self, bytes, count, duration, number, usd};

use super::estimate::Estimate;
use super::rows::PlannedRow;
use super::{Forecast, text};
use crate::columns::page_table;

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
        let of = |row: &PlannedRow, of: fn(&Estimate) -> f64| {
            Cell::of(row.estimate.as_ref().map(of), number)
        };
        let frontier = |row: &PlannedRow| Cell::text(if row.on_frontier { "yes" } else { "" });
        let mut table = page_table(
            "Every row of the experiment",
            &self.rows,
            [
                ("row:", &|row| Cell::text(&row.id)),
                ("system:", &|row| Cell::text(system_title(&row.system))),
                ("fidelity:", &|row| Cell::text(row.fidelity.as_str())),
                ("workers", &|row| Cell::whole(row.workers)),
                ("batch", &|row| Cell::whole(row.batch_size)),
                ("memory:", &|row| Cell::text(text::memory(row))),
                ("s/epoch", &|row| of(row, |e| e.seconds_per_epoch)),
                ("total s", &|row| of(row, |e| e.seconds)),
                ("$ paper", &|row| of(row, |e| e.cost_paper_usd)),
                ("$ full", &|row| of(row, |e| e.cost_full_usd)),
                ("frontier:", &frontier),
                ("why not…", &|row| {
                    Cell::text(row.why_not().or(row.in_draws()).unwrap_or_default())
                }),
            ],
        );
        for (line, row) in table.lines.iter_mut().zip(&self.rows) {
            if row.why_not().is_some() {
                line.class = "infeasible";
            }
        }
        table.without_silent();
        let note = format!(
            "On the frontier: nothing of the same model is both faster and cheaper by the {} cost \
             model{}.",
            self.account.as_str(),
            self.basis()
        );
        Section {
            charts: self.time_cost(),
            ..section("rows", "Time and cost", vec![table], note)
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
            let mut caption =
                "Down and left is better; a dashed step is the Pareto frontier.".to_owned();
            if several {
                caption = format!("{}: {caption}", model_title(model));
            }
            let basis = self.basis();
            let seconds = format!("simulated seconds{basis} (log)");
            let cost = format!("cost{basis}, USD (log)");
            let id = match place {
                0 => "time-cost".to_owned(),
                _ => format!("time-cost-{}", place + 1),
            };
            time_cost(&id, &points, caption, [&seconds, &cost])
        });
        charts.flatten().collect()
    }

    /// Returns the models of all rows, in the order of their names.
    fn models(&self) -> BTreeSet<&str> {
        self.rows.iter().map(|row| row.model.as_str()).collect()
    }

    fn stages(&self) -> Section {
        const STAGES: [&str; 5] = [
            "fetch dataset",
            "compute gradients",
            "synchronise",
            "update model",
            "detect convergence",
        ];
        let heading: Vec<&str> = std::iter::once("row:").chain(STAGES).collect();
        let mut table = Table::new("Every stage in figures", &heading);
        table.is_folded = true;
        let mut parts = Vec::new();
        for (row, estimate) in self.estimated() {
            let stages = estimate.stage_seconds.all();
            parts.push(Parts {
                name: row.name.clone(),
                values: stages.into(),
                tick: Some(estimate.seconds_per_epoch),
            });
            let cells = stages.map(|value| Cell::of(Some(value), number));
            table.row(std::iter::once(Cell::text(&row.id)).chain(cells).collect());
        }
        let caption = "Seconds per worker and epoch, summed over its functions: those that run in \
                       parallel each count, so that the sum may pass the wall time of the epoch."
            .into();
        let words = ["stages", "Where the time goes", "wall seconds of an epoch"];
        let chart = stacked(words, caption, &STAGES, &parts, format::seconds);
        Section {
            id: "stages-of-rows".into(),
            title: "Where the time goes".into(),
            charts: chart.into_iter().collect(),
            tables: vec![table],
            ..Section::default()
        }
    }

    fn bills(&self) -> Section {
        let (mut parts, mut items) = (Vec::new(), Vec::new());
        for (row, estimate) in self.estimated() {
            let [paper, full] = &estimate.bills;
            let billed = full.items.iter();
            parts.push(Parts {
                name: row.name.clone(),
                values: cost_parts(billed.map(|item| (item.dimension.as_str(), item.usd))).into(),
                tick: Some(paper.total_usd()),
            });
            for bill in &estimate.bills {
                items.extend(bill.items.iter().map(|item| (row, bill.cost_model, item)));
            }
        }
        let figure = |figure: f64, text: fn(f64) -> String| Cell::of(Some(figure), text);
        let mut table = page_table(
            "Every line of both bills",
            &items,
            [
                ("row:", &|(row, ..)| Cell::text(&row.id)),
                ("cost model:", &|(_, of, _)| Cell::text(of.as_str())),
                ("dimension:", &|(.., item)| Cell::text(&item.dimension)),
                ("unit:", &|(.., item)| Cell::text(&item.unit)),
                ("quantity", &|(.., item)| figure(item.quantity, number)),
                ("unit price", &|(.., item)| figure(item.unit_price_usd, usd)),
                ("cost", &|(.., item)| figure(item.usd, usd)),
            ],
        );
        table.is_folded = true;
        let caption = "Cost of one training with everything billed. Short trainings pay most for \
                       what is charged by the minute or hour."
            .into();
        let words = [
            "costs",
            "Where the money goes",
            "cost by the paper's cost model",
        ];
        let chart = stacked(words, caption, &COST_NAMES, &parts, usd);
        Section {
            id: "bills".into(),
            title: "Where the money goes".into(),
            charts: chart.into_iter().collect(),
            tables: vec![table],
            ..Section::default()
        }
    }

    fn traffic(&self) -> Section {
        let whole = |value: u64| Cell::of(Some(value as f64), count);
        let size = |value: u64| Cell::of(Some(value as f64), bytes);
        let smallest = |row: &PlannedRow| Cell::of(row.smallest_memory_mb.map(f64::from), count);
        let table = page_table(
            "Traffic of the exchange, and memory",
            &self.estimated().collect::<Vec<_>>(),
            [
                ("row:", &|(row, _)| Cell::text(&row.id)),
                ("samples", &|(row, _)| whole(row.samples as u64)),
                ("puts", &|(_, of)| whole(of.traffic.puts)),
                ("gets", &|(_, of)| whole(of.traffic.gets)),
                ("lists", &|(_, of)| whole(of.traffic.lists)),
                ("messages", &|(_, of)| whole(of.traffic.messages)),
                ("bytes up", &|(_, of)| size(of.traffic.bytes_up)),
                ("bytes down", &|(_, of)| size(of.traffic.bytes_down)),
                ("peak MB", &|(_, of)| whole(of.peak_memory_mb)),
                ("smallest MB", &|(row, _)| smallest(row)),
            ],
        );
        let note = "Samples are of all workers and epochs. The smallest functions have the memory and \
                    the time.";
        section("traffic", "Traffic and memory", vec![table], note.into())
    }

    /// Returns the possible rows with what they take.
    pub(super) fn estimated(&self) -> impl Iterator<Item = (&PlannedRow, &Estimate)> {
        let rows = self.rows.iter();
        rows.filter_map(|row| Some((row, row.estimate.as_ref()?)))
    }
}

/// Returns a section of tables with a note.
fn section(id: &str, title: &str, tables: Vec<Table>, note: String) -> Section {
    Section {
        id: id.into(),
        title: title.into(),
        tables,
        notes: vec![note],
        ..Section::default()
    }
}

/// Returns a time in the unit that people say it in.
fn seconds(value: f64) -> String {
    if value < 120.0 {
        format::seconds(value)
    } else {
        duration(value)
    }
}
