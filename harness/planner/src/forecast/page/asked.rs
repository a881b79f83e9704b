//! What a forecast was asked for beside its rows, and what it stands on.

use epochcost_judge::analysis::titles::{device_title, model_title};
use epochcost_report::{Cell, Section, Table};
use epochcost_spec::format::{self, count, number};

use super::Estimate;
use crate::forecast::uncertainty::Percentiles;
use crate::forecast::{Forecast, text};

impl Forecast {
    pub(super) fn cheapest_sizes(&self) -> Option<Section> {
        let found = self.cheapest_memory.as_ref()?;
        let mut table = Table::new(
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
            table.row(vec![
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
            tables: vec![table],
            notes: vec![format!(
                "By the {} cost model, on a grid of 64 MB, over sizes that are feasible.",
                self.account.as_str()
            )],
            ..Section::default()
        })
    }

    pub(super) fn limits(&self) -> Option<Section> {
        let (found, up_to) = self.limits.as_ref().zip(self.limits_up_to)?;
        let mut table = Table::new("How far each row scales", &["row:", "workers", "then…"]);
        for boundary in found {
            let line = text::limit(boundary, up_to);
            let then = line
                .split_once("; ")
                .map_or(line.as_str(), |(_, then)| then);
            table.row(vec![
                Cell::text(&boundary.id),
                Cell::whole(boundary.feasible_up_to),
                Cell::text(then),
            ]);
        }
        Some(Section {
            id: "limits".into(),
            title: "Limits".into(),
            tables: vec![table],
            notes: vec![
                "Most workers that are possible, with batch size, batches per worker, epochs and \
                 memory as they are."
                    .into(),
            ],
            ..Section::default()
        })
    }

    pub(super) fn intervals(&self) -> Option<Section> {
        let found = self.uncertainty.as_ref()?;
        let mut table = Table::new(
            "Median (5th to 95th percentile) over draws of the constants' ranges",
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
            table.row(vec![
                Cell::text(&row.id),
                cell(row.of_figure("seconds_per_epoch")),
                cell(row.of_figure("seconds")),
                cell(row.of_figure("cost_paper_usd")),
                cell(row.of_figure("cost_full_usd")),
                Cell::whole(row.feasible_samples),
            ]);
        }
        Some(Section {
            id: "uncertainty".into(),
            title: "Uncertainty".into(),
            tables: vec![table],
            notes: vec![format!("{}.", found.note())],
            ..Section::default()
        })
    }

    /// What the figures are worth.
    pub(super) fn origin(&self) -> Section {
        let simulation = &self.simulation;
        let mut constants = Table::new(
            format!(
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
        let mut compute = Table::new(
            "Compute profiles",
            &[
                "profile:", "numbers:", "model:", "device:", "s/sample", "s/step",
            ],
        );
        for known in &simulation.compute {
            for cost in &known.costs {
                compute.row(vec![
                    Cell::text(&known.name),
                    Cell::text(text::origin(self, known.origin)),
                    Cell::text(model_title(&cost.model)),
                    Cell::text(device_title(cost.device)),
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
            title: "Sources".into(),
            tables: vec![compute, constants],
            notes,
            ..Section::default()
        }
    }
}
