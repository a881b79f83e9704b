//! What a forecast was asked for beside its rows, and what it stands on.

use epochcost_judge::analysis::titles::{device_title, model_title};
use epochcost_report::{Cell, Section};
use epochcost_simulator::profile::ComputeOrigin;
use epochcost_spec::format::{UNKNOWN, count, exact, number};

use super::{Estimate, section};
use crate::columns::page_table;
use crate::forecast::limits::Boundary;
use crate::forecast::memory::Cheapest;
use crate::forecast::uncertainty::Interval;
use crate::forecast::{Forecast, text};

impl Forecast {
    pub(super) fn cheapest_sizes(&self) -> Option<Section> {
        let found = self.cheapest_memory.as_ref()?;
        let of = |cheapest: &Cheapest, of: fn(&Estimate) -> f64| {
            Cell::of(cheapest.estimate.as_ref().map(of), number)
        };
        let table = page_table(
            "The cheapest memory size of each row's functions",
            found,
            [
                ("row:", &|one| Cell::text(&one.id)),
                ("MB", &|one| Cell::of(one.memory_mb.map(f64::from), count)),
                ("s/epoch", &|one| of(one, |e| e.seconds_per_epoch)),
                ("total s", &|one| of(one, |e| e.seconds)),
                ("$ paper", &|one| of(one, |e| e.cost_paper_usd)),
                ("$ full", &|one| of(one, |e| e.cost_full_usd)),
                ("sizes tried", &|one| Cell::whole(one.simulated_sizes)),
            ],
        );
        let of = self.account.as_str();
        let note = format!(
            "By the {of} cost model, on a grid of 64 MB, over sizes that are feasible, in 95 % of draws too."
        );
        Some(section("memory", "Cheapest memory", vec![table], note))
    }

    pub(super) fn limits(&self) -> Option<Section> {
        let (found, up_to) = self.limits.as_ref().zip(self.limits_up_to)?;
        let then = |boundary: &Boundary| {
            let line = text::limit(boundary, up_to);
            Cell::text(line.split_once("; ").map_or(&*line, |(_, then)| then))
        };
        let table = page_table(
            "How far each row scales",
            found,
            [
                ("row:", &|one| Cell::text(&one.id)),
                ("workers", &|one| Cell::whole(one.feasible_up_to)),
                ("then…", &then),
            ],
        );
        let note = "Most workers that are possible, with batch size, batches per worker, epochs and \
                    memory as they are.";
        Some(section("limits", "Limits", vec![table], note.into()))
    }

    pub(super) fn intervals(&self) -> Option<Section> {
        let found = self.uncertainty.as_ref()?;
        let range = |row: &Interval, figure: &str| {
            let range = row.of_figure(figure);
            let text = range.map(|p| format!("{} ({})", number(p.p50), p.ends(number)));
            Cell::with(range.map(|p| p.p50), text.unwrap_or_else(|| UNKNOWN.into()))
        };
        let table = page_table(
            "Median (5th to 95th percentile) over draws of the constants' ranges",
            &found.rows,
            [
                ("row:", &|row| Cell::text(&row.id)),
                ("s/epoch", &|row| range(row, "seconds_per_epoch")),
                ("total s", &|row| range(row, "seconds")),
                ("$ paper", &|row| range(row, "cost_paper_usd")),
                ("$ full", &|row| range(row, "cost_full_usd")),
                ("feasible", &|row| Cell::whole(row.feasible_samples)),
            ],
        );
        let note = format!("{}.", found.note());
        Some(section("uncertainty", "Uncertainty", vec![table], note))
    }

    /// What the figures are worth.
    pub(super) fn origin(&self) -> Section {
        let simulation = &self.simulation;
        let mut constants = page_table(
            format!(
                "Every constant of the platform profile {}",
                &simulation.profile
            ),
            &simulation.constants,
            [
                ("constant:", &|one| Cell::text(&one.path)),
                ("value", &|one| Cell::of(Some(one.value), exact)),
                ("range:", &|one| {
                    let range = one.low.zip(one.high);
                    let ends =
                        range.map(|(low, high)| format!("{} to {}", number(low), number(high)));
                    Cell::text(ends.unwrap_or_default())
                }),
                ("source…", &|one| Cell::text(&one.source)),
                ("date:", &|one| {
                    Cell::text(one.date.as_deref().unwrap_or(""))
                }),
            ],
        );
        constants.is_folded = true;
        let costs = (simulation.compute.iter())
            .flat_map(|known| known.costs.iter().map(move |cost| (known, cost)));
        let origin = |origin: ComputeOrigin| text::origin(self, origin);
        let seconds = |seconds: f64| Cell::of(Some(seconds), number);
        let compute = page_table(
            "Compute profiles",
            &costs.collect::<Vec<_>>(),
            [
                ("profile:", &|(known, _)| Cell::text(&known.name)),
                ("numbers:", &|(of, _)| Cell::text(origin(of.origin))),
                ("model:", &|(_, cost)| Cell::text(model_title(&cost.model))),
                ("device:", &|(_, cost)| {
                    Cell::text(device_title(cost.device))
                }),
                ("s/sample", &|(_, cost)| seconds(cost.sample_s)),
                ("s/step", &|(_, cost)| seconds(cost.fixed_s)),
            ],
        );
        let limits = if simulation.limits { "on" } else { "off" };
        let note = format!("Limits of the platform are {limits}.");
        let mut section = section("origin", "Sources", vec![compute, constants], note);
        let unused = self.unused_compute.len();
        if unused > 0 {
            (section.notes).push(format!(
                "{unused} named compute profiles are used by no row."
            ));
        }
        section
    }
}
