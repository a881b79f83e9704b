//! `predictions.csv`: what was said of a claim before it was observed.

use super::super::{PublishedError, Table};
use crate::claims::VerdictKind;

/// The file's name, in the paper's folder.
pub(super) const PREDICTIONS: &str = "predictions.csv";

/// Words that are predicted, with the sides of a verdict that they stand for.
const WORDS: [(&str, bool); 4] = [
    ("agrees", true),
    ("holds", true),
    ("differs", false),
    ("fails", false),
];

/// What was predicted of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The experiment, by its file's name.
    pub experiment: String,
    /// The claim, as its experiment makes it today.
    pub claim: String,
    /// Prediction, as it is written.
    pub predicts: String,
    /// The commit in which it first stood; that of its line, if empty.
    pub commit: String,
    /// Words of the claim in that commit; today's, if empty.
    pub then: String,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// The verdict is for the claim, or against it.
    Word(bool),
    /// The observed figure, in the printed unit, lies within these ends, or outside.
    Interval { ends: [f64; 2], is_inside: bool },
}

impl Prediction {
    /// Returns whether it came true; none where that cannot be told.
    pub fn came_true(&self, verdict: VerdictKind, observed: Option<f64>) -> Option<bool> {
        match self.what {
            What::Word(is_for) => {
                let for_it = verdict.agrees() || verdict == VerdictKind::Holds;
                let against = verdict.differs() || verdict == VerdictKind::Fails;
                (for_it || against).then_some(for_it == is_for)
            }
            What::Interval { ends, is_inside } => {
                let is_within = observed.map(|value| (ends[0]..=ends[1]).contains(&value));
                is_within.map(|is_within| is_within == is_inside)
            }
        }
    }
}

/// Reads the predictions of a file.
pub(super) fn predictions(table: &Table) -> Result<Vec<Prediction>, PublishedError> {
    table.refuse_repeated(&["experiment", "claim"])?;
    let mut all = Vec::new();
    for row in table.rows() {
        let text = |name: &str| row.text(name).map(str::to_owned);
        let predicts = text("predicts")?;
        let what = what(&predicts).ok_or_else(|| {
            let reason = format!(
                "{predicts:?} is no prediction: write `LOW to HIGH`, `not LOW to HIGH`, agrees, \
                 differs, holds or fails"
            );
            PublishedError::table(row.place_of("predicts"), reason)
        })?;
        all.push(Prediction {
            experiment: text("experiment")?,
            claim: text("claim")?,
            predicts,
            commit: text("commit")?,
            then: text("then")?,
            what,
        });
    }
    Ok(all)
}

fn what(text: &str) -> Option<What> {
    if let Some((_, is_for)) = WORDS.iter().find(|(word, _)| *word == text) {
        return Some(What::Word(*is_for));
    }
    let interval = text.strip_prefix("not ");
    let (low, high) = interval.unwrap_or(text).split_once(" to ")?;
    let end = |end: &str| end.parse::<f64>().ok().filter(|end| end.is_finite());
    let ends = [end(low)?, end(high)?];
    let is_inside = interval.is_none();
    (ends[0] <= ends[1]).then_some(What::Interval { ends, is_inside })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::holds;

    use VerdictKind::{Differs, Holds, Open, RatherAgrees};

    fn read(predicts: &str) -> Result<Prediction, String> {
        let text = format!("experiment,claim,predicts,commit,then\na,s[x],{predicts},,\n");
        let table = Table::parse("predictions.csv", &text).unwrap();
        let all = predictions(&table).map_err(|error| error.to_string());
        all.map(|all| all.into_iter().next().unwrap())
    }

    #[test]
    fn a_prediction_comes_true_or_not() {
        for (predicts, verdict, observed, came_true) in [
            ("agrees", RatherAgrees, None, Some(true)),
            ("agrees", Differs, None, Some(false)),
            ("differs", Differs, None, Some(true)),
            ("fails", Holds, None, Some(false)),
            ("agrees", Open, Some(1.0), None),
            ("8 to 12", Differs, Some(8.0), Some(true)),
            ("8 to 12", RatherAgrees, Some(12.5), Some(false)),
            ("not 8 to 12", Open, Some(12.5), Some(true)),
            ("8 to 12", Open, None, None),
        ] {
            let prediction = read(predicts).unwrap();
            let found = prediction.came_true(verdict, observed);
            assert_eq!(found, came_true, "{predicts}");
        }
    }

    #[test]
    fn what_is_no_prediction_is_refused() {
        for predicts in ["open", "12 to 8", "8", "8 to many", "nan to 1"] {
            let says = ["predictions.csv:2:8", "LOW to HIGH"];
            holds(read(predicts).unwrap_err(), &says);
        }
    }
}
