//! Findings as people read them: plain text of at most 100 columns.

use super::{Finding, Mark, Outcome, marks};
use crate::format::{self, wrapped};
use crate::formula::{Compared, Op, Side};

/// Findings of one outcome and statement.
pub(crate) struct Group<'a> {
    pub(crate) mark: Mark,
    pub(crate) findings: Vec<&'a Finding>,
}

impl Group<'_> {
    /// Returns the place with what is said there.
    pub(crate) fn heading(&self) -> String {
        format!("{}: {}", self.mark.place, self.mark.says)
    }

    /// Returns the formula, if there is one.
    pub(crate) fn formula(&self) -> Option<&str> {
        self.findings.first()?.formula.as_deref()
    }

    /// Returns how many instances hold, if there are several.
    pub(crate) fn held(&self) -> Option<String> {
        let Mark { held, counted, .. } = self.mark;
        (counted > 1).then(|| format!("holds for {held} of {counted}"))
    }

    /// Returns notes and reasons, each once, in order.
    pub(crate) fn remarks(&self) -> Vec<&str> {
        let mut texts: Vec<&str> = Vec::new();
        for text in self.findings.iter().flat_map(|finding| remarks(finding)) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts
    }
}

/// Returns the findings with that outcome, statement by statement.
pub(crate) fn groups<'a>(findings: &[&'a Finding], outcome: Outcome) -> Vec<Group<'a>> {
    let owned: Vec<Finding> = findings.iter().map(|finding| (*finding).clone()).collect();
    let with = marks(&owned).into_iter().map(|mark| {
        let is_its =
            |finding: &&&Finding| finding.outcome == outcome && finding.statement == mark.statement;
        let findings = findings.iter().filter(is_its).copied().collect();
        Group { mark, findings }
    });
    with.filter(|group| !group.findings.is_empty()).collect()
}

/// Returns papers that findings are about, each with its own.
pub(crate) fn by_paper(findings: &[Finding]) -> Vec<(&str, Vec<&Finding>)> {
    let mut papers: Vec<(&str, Vec<&Finding>)> = Vec::new();
    for finding in findings {
        match papers
            .iter_mut()
            .find(|(_, own)| own[0].paper == finding.paper)
        {
            Some((_, own)) => own.push(finding),
            None => papers.push((&finding.cite, vec![finding])),
        }
    }
    papers
}

/// Returns how many differ, agree and cannot be checked.
pub(crate) fn counted(findings: &[&Finding]) -> String {
    let count = |outcome| {
        findings
            .iter()
            .filter(|finding| finding.outcome == outcome)
            .count()
    };
    format!(
        "{} figures: {} differ, {} agree, {} cannot be checked",
        findings.len(),
        count(Outcome::Differs),
        count(Outcome::Agrees),
        count(Outcome::CannotBeChecked)
    )
}

/// Returns a figure with its unit, in at least three digits.
pub(crate) fn figure(value: f64, unit: &str) -> String {
    let text = match value.abs() {
        size if size >= 1000.0 => format::count((value * 100.0).round() / 100.0),
        size if size > 0.0 && size < 0.1 => {
            let decimals = (3.0 - size.log10().floor()).clamp(0.0, 12.0) as usize;
            format!("{value:.decimals$}")
        }
        _ => format!("{value:.4}")
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
    };
    match unit {
        "" => text,
        unit => format!("{text} {unit}"),
    }
}

/// Returns a printed figure as it is printed; one that was computed, in four digits.
pub(crate) fn stated(value: f64, unit: &str) -> String {
    /// More characters than any published figure has.
    const LONG: usize = 12;
    let text = format::exact(value);
    match text.chars().count() {
        length if length <= LONG => format!("{text} {unit}").trim_end().to_owned(),
        _ => figure(value, unit),
    }
}

/// Returns one side, with the row that it is of.
pub(crate) fn side(side: &Side) -> String {
    let row = side
        .row
        .as_ref()
        .map_or(String::new(), |row| format!(" ({row})"));
    format!("{}{row}", stated(side.value, &side.unit))
}

/// Returns how far the left side is from the right one; nothing where they are equal in four
/// digits.
pub(crate) fn difference(compared: &Compared) -> String {
    match compared.ratio.map(|ratio| (ratio, (ratio - 1.0) * 100.0)) {
        Some((ratio, _)) if !(0.5..=2.0).contains(&ratio) => {
            format!("{} times it", format::number(ratio))
        }
        Some((_, percent)) if percent >= 0.05 => format!("{percent:.1} % above it"),
        Some((_, percent)) if percent <= -0.05 => format!("{:.1} % below it", -percent),
        _ => String::new(),
    }
}

/// Returns the right side with the sign of what it is to the left one.
pub(crate) fn right(compared: &Compared) -> String {
    let sign = match compared.holds {
        Some(true) | None => compared.op.sign(),
        Some(false) => compared.op.opposite(),
    };
    format!("{sign} {}", side(&compared.right))
}

/// Returns what is compared, as it is.
fn comparisons(finding: &Finding) -> String {
    let each = finding.compared.iter().map(|one| {
        let unjudged = one.holds.map_or("not judged: ", |_| "");
        let off = Some(difference(one)).filter(|off| !off.is_empty());
        let off = off.map_or(String::new(), |off| format!(" ({off})"));
        format!("{unjudged}{} {}{off}", side(&one.left), right(one))
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Returns every input with its place.
pub(crate) fn inputs(finding: &Finding) -> String {
    let inputs = finding.inputs.iter();
    let inputs = inputs.map(|input| {
        format!(
            "{} {} ({})",
            input.name,
            stated(input.value, ""),
            input.place
        )
    });
    inputs.collect::<Vec<_>>().join(", ")
}

/// Returns the notes on a finding, and why it cannot be checked.
pub(crate) fn remarks(finding: &Finding) -> impl Iterator<Item = &str> {
    let why = finding.why.iter().map(String::as_str);
    finding.notes.iter().map(String::as_str).chain(why)
}

/// A sentence of a paper with its readings.
struct Sentence {
    marks: Vec<Mark>,
}

impl Sentence {
    fn weight(&self) -> u8 {
        self.marks[0].weight
    }

    /// Returns what came of it: `None` if it depends on the reading.
    fn outcome(&self) -> Option<Outcome> {
        let told = |mark: &&Mark| mark.outcome != Outcome::CannotBeChecked;
        let mut told = self.marks.iter().filter(told).map(|mark| mark.outcome);
        let Some(first) = told.next() else {
            return Some(Outcome::CannotBeChecked);
        };
        told.all(|outcome| outcome == first).then_some(first)
    }

    /// Returns what it says, where, and for how many it holds; where that depends on the reading,
    /// also the first reading of which something else came.
    fn text(&self) -> String {
        let mark = self
            .marks
            .iter()
            .find(|mark| mark.counted > 0)
            .unwrap_or(&self.marks[0]);
        let held = match (mark.held, mark.counted) {
            (_, 0) => String::new(),
            (held, counted) => format!(": holds for {held} of {counted}"),
        };
        let mut others = self.marks.iter().filter(|other| other.counted > 0);
        let other = others.find(|other| other.outcome != mark.outcome);
        let other = other.map_or(String::new(), |other| {
            let says = other.says.trim_end_matches('.');
            let (held, counted) = (other.held, other.counted);
            format!(", in another reading: {says} ({held} of {counted})")
        });
        format!(
            "{} ({}{held}){other}",
            mark.says.trim_end_matches('.'),
            mark.place
        )
    }
}

/// Returns the sentences of findings, each with its readings.
fn read(findings: &[Finding]) -> Vec<Sentence> {
    let mut sentences: Vec<Sentence> = Vec::new();
    for mark in marks(findings).into_iter().filter(|mark| mark.weight > 0) {
        let of = mark.reading_of.as_ref();
        let is_its = |one: &&mut Sentence| {
            let first = &one.marks[0];
            let own = first.reading_of.as_ref().unwrap_or(&first.statement);
            first.paper == mark.paper && of.is_some_and(|of| *of == first.statement || of == own)
        };
        match sentences.iter_mut().find(is_its) {
            Some(sentence) => sentence.marks.push(mark),
            None => sentences.push(Sentence { marks: vec![mark] }),
        }
    }
    sentences
}

/// Returns what the findings come to: for each paper its conclusions that stand, fall, depend on
/// the reading and cannot be told; then the figures that differ, and what else falls.
pub fn sentences(findings: &[Finding]) -> Vec<String> {
    let (mut sentences, fallen) = (summary(findings), fallen(findings));
    sentences.extend(fallen);
    sentences
}

/// Conclusions of one outcome that are named.
const NAMED: usize = 3;

/// Returns the sentences before the list of those that are contradicted.
fn summary(findings: &[Finding]) -> Vec<String> {
    let differs = |own: &[&Finding]| {
        own.iter()
            .filter(|one| one.outcome == Outcome::Differs)
            .count()
    };
    let mut sentences = Vec::new();
    let papers = by_paper(findings);
    for (cite, own) in &papers {
        let own: Vec<Finding> = own.iter().map(|finding| (*finding).clone()).collect();
        sentences.extend(conclusions(cite, &read(&own)));
    }
    let of_papers: Vec<String> = papers
        .iter()
        .map(|(cite, own)| format!("{} of {} in {cite}", differs(own), own.len()))
        .collect();
    let all: Vec<&Finding> = findings.iter().collect();
    sentences.push(format!(
        "Of {} figures, {} do not follow from the paper's own figures: {}.",
        all.len(),
        differs(&all),
        of_papers.join(", ")
    ));
    sentences.extend(furthest(findings));
    sentences.push(match fallen(findings).len() {
        0 => "No sentence is contradicted by its paper's own figures.".to_owned(),
        1 => "One sentence is contradicted by its paper's own figures:".to_owned(),
        many => format!("{many} sentences are contradicted by their paper's own figures:"),
    });
    sentences
}

/// Returns what the own figures of one paper say of its conclusions, an outcome a sentence.
pub fn conclusions_of(findings: &[Finding]) -> Vec<String> {
    let cite = findings.first().map_or("", |finding| &finding.cite);
    conclusions(cite, &read(findings))
}

/// Returns what a paper's own figures say of its conclusions, an outcome a sentence.
fn conclusions(cite: &str, sentences: &[Sentence]) -> Vec<String> {
    let main: Vec<&Sentence> = sentences.iter().filter(|one| one.weight() == 1).collect();
    if main.is_empty() {
        return Vec::new();
    }
    let outcomes = [
        (Some(Outcome::Agrees), ["stands", "stand"]),
        (Some(Outcome::Differs), ["falls", "fall"]),
        (None, ["depends on the reading", "depend on the reading"]),
        (
            Some(Outcome::CannotBeChecked),
            ["undecided by what is printed"; 2],
        ),
    ];
    let mut lines = vec![format!(
        "{cite}, by its own figures: {} main conclusions.",
        main.len()
    )];
    for (outcome, words) in outcomes {
        let own: Vec<&&Sentence> = main.iter().filter(|one| one.outcome() == outcome).collect();
        if own.is_empty() {
            continue;
        }
        let named: Vec<String> = own.iter().take(NAMED).map(|one| one.text()).collect();
        let rest = match own.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let word = words[usize::from(own.len() > 1)];
        lines.push(format!("{} {word}: {}{rest}.", own.len(), named.join("; ")));
    }
    lines
}

/// Returns the sentences that the paper's own figures contradict in every reading, conclusions
/// first.
fn fallen(findings: &[Finding]) -> Vec<String> {
    let read = read(findings);
    let mut fallen: Vec<&Sentence> = read
        .iter()
        .filter(|one| one.outcome() == Some(Outcome::Differs))
        .collect();
    fallen.sort_by_key(|one| one.weight());
    fallen.iter().map(|one| one.text()).collect()
}

/// Returns the equality whose sides are furthest apart, of those that hold in no reading.
fn furthest(findings: &[Finding]) -> Option<String> {
    let read = read(findings);
    let fallen = read
        .iter()
        .filter(|one| one.outcome() == Some(Outcome::Differs));
    let fallen: Vec<(&str, &str)> = fallen
        .flat_map(|one| &one.marks)
        .map(|mark| (&*mark.paper, &*mark.statement))
        .collect();
    let is_equality = |one: &&Finding| {
        one.outcome == Outcome::Differs
            && fallen.contains(&(&one.paper, &one.statement))
            && one.compared.iter().all(|compared| compared.op == Op::Equal)
    };
    let off = findings.iter().filter(is_equality);
    let off = off.filter_map(|one| Some((one, one.distance()?)));
    let (most, _) = off.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    Some(format!(
        "Furthest off: {}, {}, {}, {}: {}.",
        most.cite,
        most.place,
        most.says,
        most.row,
        comparisons(most)
    ))
}

/// Returns the findings as plain text: what differs in full, the rest in one line per
/// statement. With `all`, every figure that agrees has a line of its own.
pub fn plain(findings: &[Finding], all: bool) -> String {
    let summary = summary(findings).into_iter();
    let mut lines: Vec<String> = summary.map(|sentence| wrapped("", &sentence)).collect();
    lines.extend(fallen(findings).iter().map(|text| wrapped("- ", text)));
    lines.push(String::new());
    for (cite, own) in by_paper(findings) {
        lines.push(format!("{cite} ({})", counted(&own)));
        for group in groups(&own, Outcome::Differs) {
            lines.push(String::new());
            lines.extend(detailed(&group));
        }
        lines.extend(section("agrees", &groups(&own, Outcome::Agrees), all));
        let unknown = groups(&own, Outcome::CannotBeChecked);
        lines.extend(section("cannot be checked", &unknown, true));
        lines.push(String::new());
    }
    lines.join("\n").trim_end().to_owned()
}

fn detailed(group: &Group<'_>) -> Vec<String> {
    let held = group
        .held()
        .map_or(String::new(), |held| format!(" ({held})"));
    let mut lines = vec![wrapped(
        "  differs  ",
        &format!("{}{held}", group.heading()),
    )];
    lines.extend(group.formula().map(|formula| wrapped("    ", formula)));
    for finding in &group.findings {
        let text = format!("{}: {}", finding.row, comparisons(finding));
        lines.push(wrapped("    - ", &text));
        lines.push(wrapped("      from ", &inputs(finding)));
    }
    lines.extend(group.remarks().iter().map(|text| wrapped("    => ", text)));
    lines
}

fn section(title: &str, groups: &[Group<'_>], all: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if !groups.is_empty() {
        lines.extend([String::new(), format!("  {title}")]);
    }
    for group in groups {
        let count = group.findings.len();
        let is_near = |finding: &&&Finding| {
            finding
                .compared
                .iter()
                .any(|one| one.holds == Some(true) && one.within_rounding == Some(false))
        };
        let beyond = match group.findings.iter().filter(is_near).count() {
            0 => String::new(),
            near => format!(", {near} of them within 1 % but beyond rounding"),
        };
        let noun = if count == 1 { "figure" } else { "figures" };
        let heading = if group.findings[0].compared.is_empty() {
            group.heading()
        } else {
            format!("{} ({count} {noun}{beyond})", group.heading())
        };
        lines.push(wrapped("    ", &heading));
        if all {
            // Every figure with a line of its own.
            let compared = group
                .findings
                .iter()
                .filter(|finding| !finding.compared.is_empty());
            lines.extend(compared.map(|finding| {
                wrapped(
                    "      - ",
                    &format!("{}: {}", finding.row, comparisons(finding)),
                )
            }));
        }
        lines.extend(
            group
                .remarks()
                .iter()
                .map(|text| wrapped("      => ", text)),
        );
    }
    lines
}
