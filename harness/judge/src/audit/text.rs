//! Findings as people read them: plain text of at most 100 columns.

use epochcost_spec::format::{self, wrapped};
use epochcost_spec::formula::{Compared, Op, Side};

use super::sentence::{Reading, Sentence, sentences as read};
use super::{Finding, Outcome};
use crate::analysis::census::listed;

/// Returns papers that findings are about, each with its own.
pub fn by_paper(findings: &[Finding]) -> Vec<(&str, Vec<&Finding>)> {
    let mut papers: Vec<(&str, Vec<&Finding>)> = Vec::new();
    for finding in findings {
        match (papers.iter_mut()).find(|(_, own)| own[0].paper == finding.paper) {
            Some((_, own)) => own.push(finding),
            None => papers.push((&finding.cite, vec![finding])),
        }
    }
    papers
}

/// Returns how many differ, agree and cannot be checked, and where the checked ones stand.
pub fn counted(findings: &[&Finding]) -> String {
    let of_data = match origins(findings) {
        [_, 0] => String::new(),
        [printed, data] => format!(
            "; of {} checked, {printed} printed in the paper, {data} in its authors' data",
            printed + data
        ),
    };
    let outcomes = [Outcome::Differs, Outcome::Agrees, Outcome::CannotBeChecked];
    let [differ, agree, others] = outcomes.map(|outcome| count(findings, outcome));
    let all = findings.len();
    format!("{all} figures: {differ} differ, {agree} agree, {others} cannot be checked{of_data}")
}

fn count(findings: &[&Finding], outcome: Outcome) -> usize {
    findings.iter().filter(|one| one.outcome == outcome).count()
}

/// Returns how many of the checked figures the paper prints, and how many need its authors' data.
fn origins(findings: &[&Finding]) -> [usize; 2] {
    let is_checked = |one: &&&Finding| one.outcome != Outcome::CannotBeChecked;
    let checked = findings.iter().filter(is_checked);
    let is_data = |one: &&&Finding| one.inputs.iter().any(|input| input.authors_data);
    let data = checked.clone().filter(is_data).count();
    [checked.count() - data, data]
}

/// Returns a figure with its unit, in at least three digits.
pub(crate) fn figure(value: f64, unit: &str) -> String {
    let text = match value.abs() {
        size if size >= 1000.0 => format::count((value * 100.0).round() / 100.0),
        size if size > 0.0 && size < 0.1 => {
            let decimals = (3.0 - size.log10().floor()).clamp(0.0, 12.0) as usize;
            format!("{value:.decimals$}")
        }
        _ => {
            let text = format!("{value:.4}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    };
    with_unit(text, unit)
}

fn with_unit(text: String, unit: &str) -> String {
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
        length if length <= LONG => with_unit(text, unit),
        _ => figure(value, unit),
    }
}

/// Returns one side, with the row that it is of.
pub fn side(side: &Side) -> String {
    let row = side.row.as_ref();
    let row = row.map_or(String::new(), |row| format!(" ({row})"));
    format!("{}{row}", stated(side.value, &side.unit))
}

/// Returns how far the left side is from the right one; nothing where they are equal in four
/// digits.
pub fn difference(compared: &Compared) -> String {
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
pub fn right(compared: &Compared) -> String {
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
pub fn inputs(finding: &Finding) -> String {
    let inputs = finding.inputs.iter();
    let inputs = inputs.map(|input| {
        let authors = Some(", authors' data").filter(|_| input.authors_data);
        let (value, origin) = (stated(input.value, ""), authors.unwrap_or_default());
        format!("{} {value} ({}{origin})", input.name, input.place)
    });
    inputs.collect::<Vec<_>>().join(", ")
}

impl Sentence<'_> {
    fn weight(&self) -> u8 {
        self.readings[0].mark.weight
    }

    /// Returns what it says, where, and for how many it holds; where that depends on the reading,
    /// also the first reading of which something else came.
    fn text(&self) -> String {
        let mark = self.marks().find(|mark| mark.counted > 0);
        let mark = mark.unwrap_or(&self.readings[0].mark);
        let held = match (mark.held, mark.counted) {
            (_, 0) => String::new(),
            (held, counted) => format!(": holds for {held} of {counted}"),
        };
        let mut others = self.marks().filter(|other| other.counted > 0);
        let other = others.find(|other| other.outcome != mark.outcome);
        let other = other.map_or(String::new(), |other| {
            let says = other.says.trim_end_matches('.');
            let (held, counted) = (other.held, other.counted);
            format!(", in another reading: {says} ({held} of {counted})")
        });
        let (says, place) = (mark.says.trim_end_matches('.'), &mark.place);
        format!("{says} ({place}{held}){other}")
    }
}

/// Returns what the findings come to: for each paper its conclusions that stand, fall, depend on
/// the reading and cannot be told; then the figures that differ, and what else falls. Of a part of
/// the findings, returns the counts alone.
pub fn answer(findings: &[Finding], is_part: bool) -> Vec<String> {
    if is_part {
        let papers = by_paper(findings).into_iter();
        let counts = papers.map(|(cite, own)| format!("{cite}: {}.", counted(&own)));
        return counts.collect();
    }
    [summary(findings), fallen(findings)].concat()
}

const UNDECIDED: &str = "undecided by what is printed";

/// Returns the sentences before the list of those that are contradicted.
fn summary(findings: &[Finding]) -> Vec<String> {
    let differs = |own: &[&Finding]| count(own, Outcome::Differs);
    let mut sentences = Vec::new();
    let papers = by_paper(findings);
    for (cite, own) in &papers {
        sentences.extend(conclusions(cite, own));
    }
    let checked = |own: &[&Finding]| origins(own).iter().sum::<usize>();
    let of_paper = |(cite, own): &(&str, Vec<&Finding>)| {
        format!("{} of {} in {cite}", differs(own), checked(own))
    };
    let of_papers: Vec<String> = papers.iter().map(of_paper).collect();
    let all: Vec<&Finding> = findings.iter().collect();
    let (of, each) = match papers.as_slice() {
        [(cite, _)] => (format!(" of {cite}"), String::new()),
        _ => (String::new(), format!(": {}", of_papers.join(", "))),
    };
    let (count, off) = (checked(&all), differs(&all));
    sentences.push(format!(
        "Of {count} checked figures{of}, {off} do not follow from what the paper and its authors \
         give{each}."
    ));
    for (cite, own) in &papers {
        let [printed, data] = origins(own);
        if data > 0 {
            sentences.push(format!(
                "Of {} checked figures of {cite}, {printed} are printed in the paper, {data} need its \
                 authors' data.",
                printed + data
            ));
        }
    }
    sentences.extend(furthest(&all));
    sentences.push(match fallen(findings).len() {
        0 => "No sentence is contradicted by figures of its paper or of its authors.".to_owned(),
        1 => "One sentence is contradicted by figures of its paper or of its authors:".to_owned(),
        many => format!(
            "{many} sentences are contradicted by figures of their paper or of its authors:"
        ),
    });
    sentences
}

/// Returns what the own figures of one paper say of its conclusions, an outcome a sentence.
pub fn conclusions_of(findings: &[Finding]) -> Vec<String> {
    let cite = findings.first().map_or("", |finding| &finding.cite);
    conclusions(cite, &findings.iter().collect::<Vec<_>>())
}

/// Returns what a paper's own figures say of its conclusions, an outcome a sentence.
fn conclusions(cite: &str, findings: &[&Finding]) -> Vec<String> {
    let sentences = read(findings);
    let main: Vec<&Sentence<'_>> = sentences.iter().filter(|one| one.weight() == 1).collect();
    if main.is_empty() {
        return Vec::new();
    }
    let outcomes = [
        (Some(Outcome::Agrees), ["stands", "stand"]),
        (Some(Outcome::Differs), ["falls", "fall"]),
        (None, ["depends on the reading", "depend on the reading"]),
        (Some(Outcome::CannotBeChecked), [UNDECIDED; 2]),
    ];
    let data = match origins(findings)[1] {
        0 => "",
        _ => " and its authors' data",
    };
    let all = main.len();
    let mut lines = vec![format!(
        "{cite}, by its own figures{data}: {all} main conclusions."
    )];
    lines.extend(outcomes.into_iter().filter_map(|(outcome, words)| {
        let own = main.iter().filter(|one| one.outcome() == outcome);
        let own: Vec<String> = own.map(|one| one.text()).collect();
        let word = words[usize::from(own.len() > 1)];
        Some(format!("{} {word}: {}.", own.len(), listed(&own)?))
    }));
    lines
}

/// Returns the sentences that the paper's own figures contradict in every reading, conclusions
/// first.
fn contradicted<'a>(findings: &[&'a Finding]) -> Vec<Sentence<'a>> {
    let mut all = read(findings);
    all.retain(|one| one.weight() > 0 && one.outcome() == Some(Outcome::Differs));
    all.sort_by_key(Sentence::weight);
    all
}

fn fallen(findings: &[Finding]) -> Vec<String> {
    let all: Vec<&Finding> = findings.iter().collect();
    contradicted(&all).iter().map(Sentence::text).collect()
}

/// Returns the equality whose sides are furthest apart, of the sentences that are contradicted in
/// every reading; ranks, tables and sentences with another reading are not among them.
fn furthest(findings: &[&Finding]) -> Option<String> {
    let is_equality = |one: &&&Finding| {
        let mut compared = one.compared.iter();
        one.outcome == Outcome::Differs && compared.all(|compared| compared.op == Op::Equal)
    };
    let fallen = contradicted(findings);
    let off = fallen.iter().flat_map(|one| &one.readings);
    let off = off.flat_map(|reading| &reading.findings);
    let off = off.filter(is_equality);
    let off = off.filter_map(|one| Some((one, one.distance()?)));
    let (most, _) = off.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let place = [&*most.cite, &most.place, &most.says, &most.row].join(", ");
    Some(format!(
        "Furthest off among equalities of sentences that every reading contradicts: {place}: {}.",
        comparisons(most)
    ))
}

/// Returns the findings as plain text, a block for each sentence: what differs in full, the rest in
/// a line. With `all`, every figure has a line of its own; a part of the findings has no summary.
pub fn plain(findings: &[Finding], all: bool, is_part: bool) -> String {
    let all = all || is_part;
    let mut lines: Vec<String> = Vec::new();
    if !is_part {
        lines.extend(summary(findings).iter().map(|text| wrapped("", text)));
        lines.extend(fallen(findings).iter().map(|text| wrapped("- ", text)));
        lines.push(String::new());
    }
    for (cite, own) in by_paper(findings) {
        lines.push(wrapped("", &format!("{cite} ({})", counted(&own))));
        let blocks = read(&own);
        for outcome in [Outcome::Differs, Outcome::Agrees, Outcome::CannotBeChecked] {
            let blocks = blocks.iter().filter(|one| one.foremost() == outcome);
            for (index, block) in blocks.enumerate() {
                if index == 0 || all || outcome == Outcome::Differs {
                    lines.push(String::new());
                }
                for (heading, reading) in block.headed() {
                    lines.extend(shown(&heading, reading, all));
                }
            }
        }
        lines.push(String::new());
    }
    lines.join("\n").trim_end().to_owned()
}

/// Returns a reading with its figures: all, or those that do not agree.
fn shown(heading: &str, reading: &Reading<'_>, all: bool) -> Vec<String> {
    let indent = reading.mark.reading_of.as_ref().map_or("", |_| "    ");
    let line = |begin: &str, text: &str| wrapped(&format!("{indent}{begin}"), text);
    let is_near = |finding: &&&Finding| {
        let mut compared = finding.compared.iter();
        compared.any(|one| one.holds == Some(true) && one.within_rounding == Some(false))
    };
    let near = match reading.findings.iter().filter(is_near).count() {
        0 => None,
        near => Some(format!("{near} within 1 % but beyond rounding")),
    };
    let held: Vec<String> = reading.held().into_iter().chain(near).collect();
    let held = match held.join(", ") {
        none if none.is_empty() => none,
        held => format!(" ({held})"),
    };
    let word = reading.mark.outcome.word();
    let mut lines = vec![line(&format!("  {word}  "), &format!("{heading}{held}"))];
    let is_shown =
        |one: &&&Finding| !one.compared.is_empty() && (all || one.outcome != Outcome::Agrees);
    let findings: Vec<&&Finding> = reading.findings.iter().filter(is_shown).collect();
    let formula = reading.formula().filter(|_| all || !findings.is_empty());
    lines.extend(formula.map(|formula| line("    ", formula)));
    for finding in findings {
        let text = format!("{}: {}", finding.row, comparisons(finding));
        lines.push(line("    - ", &text));
        lines.push(line("      from ", &inputs(finding)));
    }
    lines.extend(reading.remarks().iter().map(|text| line("    => ", text)));
    lines
}
