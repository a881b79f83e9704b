//! A forecast as a page: the answer, time against cost, and what both are made of.

use super::estimate::Estimate;
use super::rows::PlannedRow;
use super::uncertainty::Percentiles;
use super::{Forecast, alone, text};
use crate::analysis::names::system_title;
use crate::cost::CostModel;
use crate::format::{self, bytes, count, duration, number, usd};
use crate::report::{
    COST_NAMES, Cell, Chart, Page, Parts, Section, Sheet, TimeAndCost, cost_parts, stacked,
    time_cost,
};

/// Models that are spoken of one by one; more are counted.
const NAMED: usize = 3;

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
    /// Returns what the forecast comes to: where to train under the goal; without one, what
    /// is fastest, what is cheapest beside one instance alone, and what is not possible.
    pub fn sentences(&self) -> Vec<String> {
        if let Some(answer) = &self.answer {
            return answer.sentences().to_vec();
        }
        let models = self.models();
        let several = models.len() > 1;
        let of = |sentence: fn(&Self, &str) -> Option<String>| {
            let found = models.iter().take(NAMED).filter_map(|model| {
                let sentence = sentence(self, model)?;
                Some(if several {
                    format!("{model}: {sentence}")
                } else {
                    sentence
                })
            });
            found.collect::<Vec<_>>().join("; ")
        };
        let rest = match models.len().saturating_sub(NAMED) {
            0 => String::new(),
            rest => format!("; {rest} more models below"),
        };
        let lines = [
            ("Fastest", of(Self::fastest)),
            ("Cheapest", of(Self::cheapest)),
        ];
        let lines = lines.into_iter().filter(|(_, text)| !text.is_empty());
        let mut sentences: Vec<String> = lines
            .map(|(word, text)| format!("{word} (simulated): {text}{rest}."))
            .collect();
        sentences.push(self.possible());
        sentences
    }

    /// Returns the possible rows of a model.
    fn contenders(&self, model: &str) -> Vec<Contender<'_>> {
        let rows = self.rows.iter().filter(|row| row.model == model);
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

    fn fastest(&self, model: &str) -> Option<String> {
        let mut order = self.contenders(model);
        order.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let (best, rest) = order.split_first()?;
        let time = |one: &Contender<'_>| seconds(one.seconds);
        let next = rest.first().map_or_else(String::new, |next| {
            format!("; next: {}, {}", next.row.id, time(next))
        });
        let basis = self.basis();
        Some(format!("{}, {}{basis}{next}", best.row.id, time(best)))
    }

    fn cheapest(&self, model: &str) -> Option<String> {
        let mut order = self.contenders(model);
        order.sort_by(|a, b| a.usd.total_cmp(&b.usd));
        let (best, rest) = order.split_first()?;
        let account = match self.account {
            CostModel::Full => "with everything billed",
            CostModel::Paper => "by the paper's cost model",
        };
        let mut text = format!(
            "{}, {}{} {account}",
            best.row.id,
            usd(best.usd),
            self.basis()
        );
        let plain = order.iter().find(|one| is_alone(one.row));
        match plain {
            Some(plain) if plain.row.id == best.row.id => {
                text.push_str(", which is the plain alternative, one instance alone");
                if let Some(next) = rest.first() {
                    let factor = number(next.usd / best.usd);
                    text.push_str(&format!("; next: {}, {factor} times as much", next.row.id));
                }
            }
            Some(plain) => text.push_str(&format!(
                "; one instance alone costs {} times as much ({}) and takes {}",
                number(plain.usd / best.usd),
                usd(plain.usd),
                seconds(plain.seconds)
            )),
            None => {
                if let Some(next) = rest.first() {
                    text.push_str(&format!("; next: {}, {}", next.row.id, usd(next.usd)));
                }
            }
        }
        Some(text)
    }

    /// Returns how many rows are possible, and what keeps the first of the others from it.
    fn possible(&self) -> String {
        let all = self.rows.len();
        let mut others = self
            .rows
            .iter()
            .filter_map(|row| Some((row, why_not(row)?)));
        let Some((row, why)) = others.next() else {
            return format!("All {all} rows are possible.");
        };
        let more = others.count();
        let named = match more {
            0 => row.id.clone(),
            more => format!("{} and {more} more", row.id),
        };
        let why = why.trim_end_matches('.');
        let verb = if more == 0 { "is" } else { "are" };
        let count = more + 1;
        format!("Of {all} rows {count} {verb} not possible ({named}: {why}).")
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
        let answer = self.sentences();
        Page {
            title: format!("Plan of {}", self.experiment),
            about: "what it would take, before anything runs".into(),
            tag: "simulated",
            answer,
            notes: vec![
                "Every figure is simulated with sizes only: nothing was run and nothing spent. \
                 Costs are list prices."
                    .into(),
            ],
            sections,
        }
    }

    fn figures(&self) -> Section {
        let mut sheet = Sheet::new(
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
            sheet.classed_row(class, cells);
        }
        if self.rows.iter().all(|row| why_not(row).is_none()) {
            sheet.without_last_column();
        }
        let account = self.account.as_str();
        Section {
            id: "rows".into(),
            title: "Time and cost".into(),
            charts: self.time_cost(),
            tables: vec![sheet],
            notes: vec![format!(
                "On the frontier: nothing of the same model is both faster and cheaper by the {account} \
                 cost model{}.",
                self.basis()
            )],
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
                    name: one.row.id.clone(),
                    system: system_title(&one.row.system),
                    seconds: one.seconds,
                    usd: one.usd,
                })
                .collect();
            let of = if several {
                format!("{model}: ")
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
                name: row.id.clone(),
                values: of(estimate).map(|value| value.unwrap_or(0.0)).into(),
                tick: Some(estimate.seconds_per_epoch),
            })
            .collect();
        let heading: Vec<&str> = std::iter::once("row:").chain(STAGES).collect();
        let mut sheet = Sheet::new("Every stage in figures", &heading);
        sheet.is_folded = true;
        for (row, estimate) in self.estimated() {
            let cells = of(estimate).map(|value| Cell::of(value, number));
            sheet.row(std::iter::once(Cell::text(&row.id)).chain(cells).collect());
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
            tables: vec![sheet],
            notes: Vec::new(),
        }
    }

    fn bills(&self) -> Section {
        let mut parts = Vec::new();
        let mut sheet = Sheet::new(
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
        sheet.is_folded = true;
        for (row, estimate) in self.estimated() {
            let [_, full] = &estimate.bills;
            let items = full.items.iter();
            parts.push(Parts {
                name: row.id.clone(),
                values: cost_parts(items.map(|item| (item.dimension.as_str(), item.usd))).into(),
                tick: Some(estimate.cost_paper_usd),
            });
            for bill in &estimate.bills {
                for item in &bill.items {
                    sheet.row(vec![
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
            tables: vec![sheet],
            notes: Vec::new(),
        }
    }

    fn traffic(&self) -> Section {
        let mut sheet = Sheet::new(
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
            sheet.row(vec![
                Cell::text(&row.id),
                whole(row.samples as u64),
                whole(traffic.puts),
                whole(traffic.gets),
                whole(traffic.lists),
                whole(traffic.messages),
                size(traffic.bytes_up),
                size(traffic.bytes_down),
                whole(estimate.peak_memory_mb.into()),
                Cell::of(smallest, count),
            ]);
        }
        Section {
            id: "traffic".into(),
            title: "Traffic and memory".into(),
            tables: vec![sheet],
            notes: vec![
                "Samples are of all workers and epochs. The smallest functions have the memory and \
                 the time."
                    .into(),
            ],
            ..Section::default()
        }
    }

    fn cheapest_sizes(&self) -> Option<Section> {
        let found = self.cheapest_memory.as_ref()?;
        let mut sheet = Sheet::new(
            "The cheapest memory size of each row's functions",
            &[
                "row:",
                "MB",
                "s/epoch",
                "total s",
                "$ paper",
                "$ full",
                "sizes tried",
            ],
        );
        for cheapest in found {
            let estimate = cheapest.estimate.as_ref();
            let of = |of: fn(&Estimate) -> f64| Cell::of(estimate.map(of), number);
            sheet.row(vec![
                Cell::text(&cheapest.id),
                Cell::of(cheapest.memory_mb.map(f64::from), count),
                of(|e| e.seconds_per_epoch),
                of(|e| e.seconds),
                of(|e| e.cost_paper_usd),
                of(|e| e.cost_full_usd),
                Cell::whole(cheapest.simulated_sizes),
            ]);
        }
        Some(Section {
            id: "memory".into(),
            title: "Cheapest memory".into(),
            tables: vec![sheet],
            notes: vec![format!(
                "By the {} cost model, on a grid of 64 MB, over sizes that are feasible.",
                self.account.as_str()
            )],
            ..Section::default()
        })
    }

    fn limits(&self) -> Option<Section> {
        let (found, up_to) = self.limits.as_ref().zip(self.limits_up_to)?;
        let mut sheet = Sheet::new("How far each row scales", &["row:", "workers", "then…"]);
        for boundary in found {
            let line = text::limit(boundary, up_to);
            let then = line
                .split_once("; ")
                .map_or(line.as_str(), |(_, then)| then);
            sheet.row(vec![
                Cell::text(&boundary.id),
                Cell::whole(boundary.feasible_up_to),
                Cell::text(then),
            ]);
        }
        Some(Section {
            id: "limits".into(),
            title: "Limits".into(),
            tables: vec![sheet],
            notes: vec![
                "Most workers that are possible, with batch size, batches per worker, epochs and \
                 memory as they are."
                    .into(),
            ],
            ..Section::default()
        })
    }

    fn intervals(&self) -> Option<Section> {
        let found = self.uncertainty.as_ref()?;
        let mut sheet = Sheet::new(
            "Percentiles over samples of the constants' ranges",
            &[
                "row:", "s/epoch", "total s", "$ paper", "$ full", "feasible",
            ],
        );
        for row in &found.rows {
            let cell = |percentiles: Option<Percentiles>| {
                let text = percentiles
                    .map(|p| format!("{} ({} to {})", number(p.p50), number(p.p5), number(p.p95)));
                Cell::with(
                    percentiles.map(|p| p.p50),
                    text.unwrap_or_else(|| format::UNKNOWN.into()),
                )
            };
            sheet.row(vec![
                Cell::text(&row.id),
                cell(row.seconds_per_epoch),
                cell(row.seconds),
                cell(row.cost_paper_usd),
                cell(row.cost_full_usd),
                Cell::whole(row.feasible_samples),
            ]);
        }
        Some(Section {
            id: "uncertainty".into(),
            title: "Uncertainty".into(),
            tables: vec![sheet],
            notes: vec![format!(
                "Median (5th to 95th percentile) over {} samples of seed {}; compute times have no \
                 ranges.",
                found.samples, found.seed
            )],
            ..Section::default()
        })
    }

    /// What the figures are worth.
    fn origin(&self) -> Section {
        let simulation = &self.simulation;
        let mut constants = Sheet::new(
            &format!(
                "Every constant of the platform profile {}",
                simulation.profile
            ),
            &["constant:", "value", "range:", "source…", "date:"],
        );
        constants.is_folded = true;
        for constant in &simulation.constants {
            let range = match (constant.low, constant.high) {
                (Some(low), Some(high)) => format!("{} to {}", number(low), number(high)),
                _ => String::new(),
            };
            constants.row(vec![
                Cell::text(&constant.path),
                Cell::of(Some(constant.value), format::exact),
                Cell::text(range),
                Cell::text(&constant.source),
                Cell::text(constant.date.clone().unwrap_or_default()),
            ]);
        }
        let mut compute = Sheet::new(
            "Compute profiles",
            &[
                "profile:", "numbers:", "model:", "device:", "s/sample", "s/step",
            ],
        );
        for known in &simulation.compute {
            for cost in &known.costs {
                compute.row(vec![
                    Cell::text(&known.name),
                    Cell::text(text::origin(known.origin)),
                    Cell::text(&cost.model),
                    Cell::text(format!("{:?}", cost.device).to_lowercase()),
                    Cell::of(Some(cost.sample_s), number),
                    Cell::of(Some(cost.fixed_s), number),
                ]);
            }
        }
        let unused = self.unused_compute.len();
        let mut notes = vec![format!(
            "Limits of the platform are {}.",
            if simulation.limits { "on" } else { "off" }
        )];
        if unused > 0 {
            notes.push(format!(
                "{unused} named compute profiles are used by no row."
            ));
        }
        Section {
            id: "origin".into(),
            title: "What this stands on".into(),
            tables: vec![compute, constants],
            notes,
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
        .or_else(|| row.impossible.clone())
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
