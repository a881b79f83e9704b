//! A comparison of a run with its replay in sentences and as a page.

use super::compare::{Comparison, Figures, RowComparison};
use super::show::{STAGES, numbers};
use crate::analysis::names::system_title;
use crate::format::{self, number, seconds, usd};
use crate::report::{Cell, Page, Parts, Section, Table, stacked};

/// Share of the recorded figure within which a simulated one is called near.
const NEAR: f64 = 0.1;

/// A ratio of simulated over recorded, with its row.
type Ratio<'a> = (&'a str, f64);

impl Comparison {
    /// Returns the comparison in three sentences: time, cost, and what stands behind them.
    pub fn sentences(&self) -> Vec<String> {
        let times = self.ratios(|figures| figures.wall_s.mean);
        let costs = self.ratios(|figures| Some(figures.cost_full_usd));
        let mut sentences = Vec::new();
        sentences.extend(sentence("wall time", &times));
        sentences.extend(sentence("cost with everything billed", &costs));
        sentences.push(self.basis());
        sentences
    }

    /// Returns simulated over recorded figures of every row that has both, the least first.
    fn ratios(&self, of: fn(&Figures) -> Option<f64>) -> Vec<Ratio<'_>> {
        let rows = self.rows.iter();
        let mut ratios: Vec<Ratio<'_>> = rows
            .filter_map(|row| {
                let recorded = of(row.recorded.as_ref()?)?;
                let ratio = of(row.simulated.as_ref()?)? / recorded;
                (recorded > 0.0 && ratio.is_finite()).then_some((row.id.as_str(), ratio))
            })
            .collect();
        ratios.sort_by(|a, b| a.1.total_cmp(&b.1));
        ratios
    }

    /// Returns what was simulated, on what, and how many rows were not.
    fn basis(&self) -> String {
        let replay = &self.replay;
        let machine = if replay.is_same_machine {
            "the run's own machine"
        } else {
            "another platform"
        };
        let steps = replay.compute.as_ref().map_or_else(
            || "steps as the run recorded them".to_owned(),
            |compute| format!("steps of the compute profile {compute}"),
        );
        let changed = [
            replay.memory_mb.map(|mb| format!("functions of {mb} MB")),
            replay.workers.map(|workers| format!("{workers} workers")),
        ];
        let changed: String = changed
            .iter()
            .flatten()
            .map(|text| format!(", {text}"))
            .collect();
        let missing = self
            .rows
            .iter()
            .filter(|row| row.simulated.is_none())
            .count();
        let missing = match missing {
            0 => String::new(),
            count => format!("; {count} of {} rows have no replay", self.rows.len()),
        };
        let profile = &replay.profile;
        format!("Replayed on {profile} ({machine}), {steps}{changed}{missing}.")
    }

    /// Returns the comparison as a page.
    pub fn page(&self) -> Page {
        Page {
            title: format!("Replay of {}", self.run.run_id),
            about: format!(
                "the recorded run of {} beside its simulation on {}",
                self.run.experiment, self.replay.profile
            ),
            tag: "",
            answer: self.sentences(),
            notes: vec![
                "Recorded figures were measured, simulated ones computed in virtual time; a ratio is \
                 simulated over recorded."
                    .into(),
            ],
            sections: vec![self.figures(), self.stages()],
            ..Page::default()
        }
    }

    fn figures(&self) -> Section {
        let wall = |figures: &Option<Figures>| figures.as_ref().and_then(|one| one.wall_s.mean);
        let parts: Vec<Parts> = (self.rows.iter())
            .map(|row| Parts {
                name: row.id.clone(),
                values: vec![wall(&row.recorded).unwrap_or(0.0)],
                tick: wall(&row.simulated),
            })
            .collect();
        let words = ["wall", "Recorded and simulated wall time", "simulated"];
        let caption =
            "A bar is the recorded wall time of a trial, the tick across it the simulated \
                       one."
                .into();
        Section {
            id: "figures".into(),
            title: "Time and cost".into(),
            charts: stacked(words, caption, &["recorded"], &parts, seconds)
                .into_iter()
                .collect(),
            tables: vec![self.table()],
            ..Section::default()
        }
    }

    fn table(&self) -> Table {
        let mut table = Table::new(
            "Every row, recorded and simulated",
            &[
                "row:",
                "system:",
                "workers",
                "recorded s",
                "simulated s",
                "ratio",
                "recorded $",
                "simulated $",
                "ratio",
                "note…",
            ],
        );
        for row in &self.rows {
            table.row(cells(row));
        }
        table.without_silent();
        table
    }

    fn stages(&self) -> Section {
        let heading: Vec<&str> = ["row:", "figures:"].into_iter().chain(STAGES).collect();
        let mut table = Table::new("Seconds by stage, per worker", &heading);
        for row in &self.rows {
            for (what, figures) in [("recorded", &row.recorded), ("simulated", &row.simulated)] {
                let Some(figures) = figures else { continue };
                let values = numbers(figures).into_iter().take(STAGES.len());
                let values = values.map(|value| Cell::of(Some(value), number));
                let texts = [Cell::text(&row.id), Cell::text(what)];
                table.row(texts.into_iter().chain(values).collect());
            }
        }
        Section {
            id: "stages".into(),
            title: "Stages".into(),
            tables: vec![table],
            ..Section::default()
        }
    }
}

fn cells(row: &RowComparison) -> Vec<Cell> {
    type Figure = fn(&Figures) -> Option<f64>;
    let of =
        |figures: &Option<Figures>, of: fn(&Figures) -> Option<f64>| figures.as_ref().and_then(of);
    let (wall, cost): (Figure, Figure) = (
        |figures| figures.wall_s.mean,
        |figures| Some(figures.cost_full_usd),
    );
    let [recorded_s, simulated_s] = [&row.recorded, &row.simulated].map(|one| of(one, wall));
    let [recorded, simulated] = [&row.recorded, &row.simulated].map(|one| of(one, cost));
    let ratio = |simulated: Option<f64>, recorded: Option<f64>| {
        let ratio = simulated.zip(recorded).map(|(s, r)| s / r);
        Cell::of(ratio.filter(|ratio| ratio.is_finite()), number)
    };
    let figures = row.simulated.as_ref().or(row.recorded.as_ref());
    let workers = figures.map(|one| one.workers as f64);
    vec![
        Cell::text(&row.id),
        Cell::text(system_title(&row.system)),
        Cell::of(workers, format::count),
        Cell::of(recorded_s, number),
        Cell::of(simulated_s, number),
        ratio(simulated_s, recorded_s),
        Cell::of(recorded, usd),
        Cell::of(simulated, usd),
        ratio(simulated, recorded),
        Cell::text(row.note.clone().unwrap_or_default()),
    ]
}

/// Returns the sentence on ratios in ascending order; nothing without any.
fn sentence(what: &str, ratios: &[Ratio<'_>]) -> Option<String> {
    let (low, high) = (ratios.first()?, ratios.last()?);
    if ratios.len() == 1 {
        return Some(format!(
            "Simulated {what}: {} times the recorded one.",
            number(low.1)
        ));
    }
    let middle = ratios.len() / 2;
    let median = if ratios.len().is_multiple_of(2) {
        (ratios[middle - 1].1 + ratios[middle].1) / 2.0
    } else {
        ratios[middle].1
    };
    let near = ratios
        .iter()
        .filter(|(_, ratio)| (ratio - 1.0).abs() <= NEAR);
    Some(format!(
        "Simulated {what}: {} times the recorded one at the median, from {} ({}) to {} ({}); within \
         {:.0} % for {} of {} rows.",
        number(median),
        number(low.1),
        low.0,
        number(high.1),
        high.0,
        100.0 * NEAR,
        near.count(),
        ratios.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_said_with_their_median_and_both_ends() {
        let ratios = [("a", 0.5), ("b", 0.95), ("c", 1.05), ("d", 4.0)];
        let text = sentence("wall time", &ratios).unwrap();
        assert_eq!(
            text,
            "Simulated wall time: 1.00 times the recorded one at the median, from 0.500 (a) to 4.00 \
             (d); within 10 % for 2 of 4 rows."
        );
        assert!(sentence("cost", &[]).is_none());
        assert!(
            sentence("cost", &ratios[..1])
                .unwrap()
                .contains("0.500 times")
        );
    }
}
