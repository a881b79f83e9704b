//! The answer as a section of a page.

use epochcost_report::{Cell, Section, Table, TimeAndCost, time_cost};
use epochcost_spec::format::{count, duration, usd};

use super::ranges::Chance;
use super::{Answer, Choice};
use crate::forecast::uncertainty::Percentiles;

impl Answer {
    /// Returns the answer in sentences.
    pub(in crate::forecast) fn sentences(&self) -> &[String] {
        &self.sentences
    }

    /// Returns the settings that nothing is both faster and cheaper than.
    pub(in crate::forecast) fn section(&self) -> Section {
        let mut table = Table::new(
            "Settings that nothing is both faster and cheaper than",
            &[
                "setting:",
                "answer:",
                "time",
                "range:",
                "cost",
                "range:",
                "keeps the goal",
                "steps per epoch",
            ],
        );
        for choice in &self.frontier {
            let range = |range: Option<Percentiles>, text: fn(f64) -> String| {
                range.map_or_else(String::new, |range| range.ends(text))
            };
            table.row(vec![
                Cell::text(&choice.what),
                Cell::text(self.mark(choice)),
                Cell::of(Some(choice.price.seconds), duration),
                Cell::text(range(choice.seconds_range, duration)),
                Cell::of(Some(choice.price.usd), usd),
                Cell::text(range(choice.usd_range, usd)),
                Cell::with(
                    choice
                        .chance
                        .map(|chance| chance.kept as f64 / chance.draws as f64),
                    choice.chance.map_or_else(String::new, Chance::percent),
                ),
                Cell::whole(choice.steps_per_epoch),
            ]);
        }
        let points: Vec<TimeAndCost> = (self.frontier.iter())
            .map(|choice| TimeAndCost {
                name: choice.what.clone(),
                system: choice.place.clone(),
                seconds: choice.price.seconds,
                usd: choice.price.usd,
            })
            .collect();
        let caption = "Down and left is better: the frontier of all settings that were searched.";
        let words = ["simulated seconds (log)", "cost, USD (log)"];
        Section {
            id: "answer-frontier".into(),
            title: "Where to train".into(),
            charts: time_cost("frontier", &points, caption.into(), words)
                .into_iter()
                .collect(),
            tables: vec![table],
            notes: vec![format!(
                "Of {} settings, {} are possible; {} samples each, in whole mini-batches of all workers. A setting keeps the goal if 95 % \
                 of the draws of all ranges do. Two settings tie if the one that is behind is ahead \
                 in more than 5 % of them. The experiment takes {} optimizer steps per epoch; fewer, \
                 larger steps may learn less.",
                count(self.searched as f64),
                count(self.possible as f64),
                count(self.samples as f64),
                count(self.question.steps_per_epoch as f64)
            )],
            ..Section::default()
        }
    }

    fn mark(&self, choice: &Choice) -> &'static str {
        let is_answer = (self.answer.as_ref()).is_some_and(|one| one.index == choice.index);
        match (is_answer, choice.is_tie) {
            (true, _) => "the answer",
            (false, true) => "a tie",
            (false, false) => "",
        }
    }
}
