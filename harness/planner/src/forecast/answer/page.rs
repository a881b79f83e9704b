//! The answer as a section of a page.

use epochcost_report::{Cell, Section, TimeAndCost, time_cost};
use epochcost_spec::format::{count, duration, usd};

use super::ranges::Chance;
use super::text::ends;
use super::{Answer, Choice};
use crate::columns::page_table;

impl Answer {
    /// Returns the answer in sentences.
    pub(crate) fn sentences(&self) -> &[String] {
        &self.sentences
    }

    /// Returns the settings that nothing is both faster and cheaper than.
    pub(crate) fn section(&self) -> Section {
        const WORDS: [&str; 2] = ["the answer", "a tie"];
        let keeps = |choice: &Choice| {
            let share = |chance: Chance| chance.kept as f64 / chance.draws as f64;
            Cell::with(choice.chance.map(share), choice.percent())
        };
        let table = page_table(
            "Settings that nothing is both faster and cheaper than",
            &self.frontier,
            [
                ("setting:", &|one| Cell::text(&one.what)),
                ("answer:", &|one| Cell::text(self.mark(one, WORDS))),
                ("time", &|one| Cell::of(Some(one.price.seconds), duration)),
                ("range:", &|of| Cell::text(of.seconds_ends())),
                ("cost", &|one| Cell::of(Some(one.price.usd), usd)),
                ("range:", &|one| Cell::text(ends(one.usd_range, usd))),
                ("keeps the goal", &keeps),
                ("steps per epoch", &|one| Cell::whole(one.steps_per_epoch)),
            ],
        );
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
        let chart = time_cost("frontier", &points, caption.into(), words);
        Section {
            id: "answer-frontier".into(),
            title: "Where to train".into(),
            charts: chart.into_iter().collect(),
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

    /// Returns the word for the answer, for a tie with it, or nothing.
    pub(super) fn mark(&self, choice: &Choice, [answer, tie]: [&'static str; 2]) -> &'static str {
        let is_answer = (self.answer.as_ref()).is_some_and(|one| one.index == choice.index);
        match (is_answer, choice.is_tie) {
            (true, _) => answer,
            (false, true) => tie,
            (false, false) => "",
        }
    }
}
