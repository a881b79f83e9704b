//! Sentences with their readings, and those that a reader asks for.

use std::collections::BTreeSet;

use epochcost_spec::suggest::{did_you_mean, listed};

use super::{AuditError, Finding, Mark, Outcome, marks};

/// A statement with its instances.
pub struct Reading<'a> {
    /// The statement as its file marks it.
    pub mark: Mark,
    /// What became of each instance.
    pub findings: Vec<&'a Finding>,
}

/// A sentence of a paper, or what follows within a table, with its readings; the first is its own.
pub struct Sentence<'a> {
    pub(super) readings: Vec<Reading<'a>>,
}

impl Reading<'_> {
    /// Returns the formula, if there is one.
    pub fn formula(&self) -> Option<&str> {
        self.findings.first()?.formula.as_deref()
    }

    /// Returns how many instances hold, if there are several.
    pub fn held(&self) -> Option<String> {
        let Mark { held, counted, .. } = self.mark;
        (counted > 1).then(|| format!("holds for {held} of {counted}"))
    }

    /// Returns notes and reasons, each once, in order.
    pub fn remarks(&self) -> Vec<&str> {
        let mut texts: Vec<&str> = Vec::new();
        for text in self.findings.iter().flat_map(|finding| finding.remarks()) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts
    }

    fn has(&self, word: &str) -> bool {
        let texts = [Some(self.mark.says.as_str()), self.formula()];
        let mut texts = texts.into_iter().flatten();
        texts.any(|text| text.to_lowercase().contains(&word.to_lowercase()))
    }
}

impl Sentence<'_> {
    /// Returns what came of each reading.
    pub fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.readings.iter().map(|reading| &reading.mark)
    }

    /// Returns the readings, each with its heading: the sentence with its place, then the others.
    pub fn headed(&self) -> impl Iterator<Item = (String, &Reading<'_>)> {
        self.readings.iter().map(|reading| {
            let Mark { place, says, .. } = &reading.mark;
            let heading = match &reading.mark.reading_of {
                None => format!("{place}: {says}"),
                Some(_) if *place == self.readings[0].mark.place => {
                    format!("in another reading: {says}")
                }
                Some(_) => format!("in another reading, {place}: {says}"),
            };
            (heading, reading)
        })
    }

    /// Returns what came of it: `None` if it depends on the reading.
    pub fn outcome(&self) -> Option<Outcome> {
        let told = |mark: &&Mark| mark.outcome != Outcome::CannotBeChecked;
        let mut told = self.marks().filter(told).map(|mark| mark.outcome);
        let Some(first) = told.next() else {
            return Some(Outcome::CannotBeChecked);
        };
        told.all(|outcome| outcome == first).then_some(first)
    }

    /// Returns the outcome among its readings that a reader looks for first.
    pub fn foremost(&self) -> Outcome {
        let has = |outcome: &Outcome| self.marks().any(|mark| mark.outcome == *outcome);
        let order = [Outcome::Differs, Outcome::Agrees];
        (order.into_iter().find(has)).unwrap_or(Outcome::CannotBeChecked)
    }
}

/// Returns the sentences of findings, each with its readings.
pub fn sentences<'a>(findings: &[&'a Finding]) -> Vec<Sentence<'a>> {
    let mut sentences: Vec<Sentence<'_>> = Vec::new();
    for mark in marks(findings.iter().copied()) {
        let is_its =
            |one: &&Finding| (&one.paper, &one.statement) == (&mark.paper, &mark.statement);
        let findings = findings.iter().copied().filter(is_its).collect();
        let root = |mark: &Mark| mark.reading_of.clone().unwrap_or(mark.statement.clone());
        let own = sentences.iter_mut().find(|one| {
            let first = &one.readings[0].mark;
            first.paper == mark.paper && root(first) == root(&mark)
        });
        let is_first = mark.reading_of.is_none();
        let reading = Reading { mark, findings };
        match own {
            Some(sentence) if is_first => sentence.readings.insert(0, reading),
            Some(sentence) => sentence.readings.push(reading),
            None => {
                let readings = vec![reading];
                sentences.push(Sentence { readings });
            }
        }
    }
    sentences
}

/// Returns the findings on sentences at a place and with a word, and on their other readings.
///
/// # Errors
/// When there is none: with the places that exist.
pub fn chosen(
    findings: &[Finding],
    place: Option<&str>,
    word: Option<&str>,
) -> Result<Vec<Finding>, AuditError> {
    let all: Vec<&Finding> = findings.iter().collect();
    let mut all = sentences(&all);
    all.retain(|one| word.is_none_or(|word| one.readings.iter().any(|own| own.has(word))));
    let is_there =
        |one: &&Sentence<'_>| place.is_none_or(|at| one.marks().any(|mark| is_at(&mark.place, at)));
    let own = all.iter().filter(is_there).flat_map(|one| &one.readings);
    let own = own.flat_map(|reading| &reading.findings);
    let own: Vec<Finding> = own.map(|finding| (*finding).clone()).collect();
    if !own.is_empty() {
        return Ok(own);
    }
    let places = all.iter().flat_map(|one| one.marks());
    let places = places.flat_map(|mark| mark.place.split(';'));
    let sections = places.filter_map(|place| place.split('¶').next());
    let known = sections.map(|section| section.trim().trim_start_matches('§'));
    let known: Vec<&str> = known.collect::<BTreeSet<_>>().into_iter().collect();
    let at = place.map_or(String::new(), |place| format!(" at `{place}`"));
    let with = word.map_or(String::new(), |word| format!(" with `{word}`"));
    let remedy = match word {
        None => did_you_mean(place.unwrap_or_default(), &known),
        Some(word) if !known.is_empty() => format!("`{word}` is at {}", listed(&known)),
        Some(_) => "sentences are in this project's words: give a part of one, or of its formula"
            .to_owned(),
    };
    Err(AuditError::NothingChosen {
        what: format!("{at}{with}"),
        remedy,
    })
}

/// Returns whether one of a sentence's places is the one that is asked for, or below it.
fn is_at(places: &str, asked: &str) -> bool {
    let asked = asked.to_lowercase().replace('§', "");
    let asked = asked.trim_start_matches("section ").trim();
    let table = tables(asked);
    places.to_lowercase().split(';').any(|place| match &table {
        Some((kind, numbers)) => tables(place).is_some_and(|(own_kind, own)| {
            own_kind == *kind && own.iter().any(|number| numbers.contains(number))
        }),
        None => is_below(place, asked),
    })
}

/// Returns whether a place begins a word with what is asked for, and no longer name goes on there.
/// A number alone is a section's.
fn is_below(place: &str, asked: &str) -> bool {
    let Some(last) = asked.chars().next_back() else {
        return false;
    };
    place.match_indices(asked).any(|(start, found)| {
        let before = place[..start].chars().next_back().unwrap_or(' ');
        let begins = before == '§' || (before == ' ' && number(asked).is_none());
        let next = place[start + found.len()..].chars().next().unwrap_or(' ');
        let goes_on = (last.is_alphabetic() && next.is_alphabetic())
            || (last.is_numeric() && next.is_numeric());
        begins && !goes_on
    })
}

/// Returns whether tables or figures are named, with their numbers.
fn tables(place: &str) -> Option<(&'static str, Vec<u8>)> {
    ["table", "fig"].into_iter().find_map(|kind| {
        let rest = place.split_once(kind)?.1;
        let rest = rest.trim_start_matches("ure").trim_start_matches('s');
        let words = rest.split(|character: char| !character.is_alphanumeric());
        let numbers: Vec<u8> = words.filter_map(number).collect();
        match numbers[..] {
            [] => None,
            [first, last] if rest.contains(" to ") => Some((kind, (first..=last).collect())),
            _ => Some((kind, numbers)),
        }
    })
}

/// Returns an Arabic or a Roman number.
fn number(word: &str) -> Option<u8> {
    const ROMAN: [&str; 10] = ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x"];
    let roman = (1..).zip(ROMAN).find(|(_, roman)| *roman == word);
    roman.map_or_else(|| word.parse().ok(), |(number, _)| Some(number))
}
