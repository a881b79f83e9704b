//! Findings as people read them: plain text of at most 100 columns, and
//! Markdown.

use super::{Finding, Outcome, Paper};
use crate::format::{self, wrapped};

/// Findings of one check, in one paper.
pub(crate) struct Group<'a> {
    pub(crate) item: &'static str,
    pub(crate) check: &'static str,
    pub(crate) formula: &'static str,
    pub(crate) findings: Vec<&'a Finding>,
}

/// Returns the findings with that outcome, check by check.
pub(crate) fn groups<'a>(findings: &[&'a Finding], outcome: Outcome) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for finding in findings.iter().filter(|finding| finding.outcome == outcome) {
        let is_its =
            |group: &&mut Group<'_>| (group.item, group.check) == (finding.item, finding.check);
        match groups.iter_mut().find(is_its) {
            Some(group) => group.findings.push(finding),
            None => groups.push(Group {
                item: finding.item,
                check: finding.check,
                formula: finding.formula,
                findings: vec![finding],
            }),
        }
    }
    groups
}

/// Returns the papers that findings are about, each with its own.
pub(crate) fn by_paper(findings: &[Finding]) -> impl Iterator<Item = (Paper, Vec<&Finding>)> {
    Paper::ALL.into_iter().filter_map(|paper| {
        let own = findings.iter().filter(|finding| finding.paper == paper);
        let own: Vec<&Finding> = own.collect();
        (!own.is_empty()).then_some((paper, own))
    })
}

/// Returns how many differ, agree and cannot be checked.
pub(crate) fn counted(findings: &[&Finding]) -> String {
    let count = |outcome| {
        let with = findings.iter().filter(|finding| finding.outcome == outcome);
        with.count()
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
        _ => format!("{:.4}", value)
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
    };
    match unit {
        "" => text,
        unit => format!("{text} {unit}"),
    }
}

/// Returns what is printed, what is computed, and how far apart they are.
fn figures(finding: &Finding) -> String {
    let unit = finding.unit;
    let computed = finding.computed.map(|value| figure(value, unit));
    let printed = finding.printed.as_ref().map(|printed| {
        format!("{} {unit}", stated(printed.value))
            .trim_end()
            .to_owned()
    });
    match (printed, computed) {
        (Some(printed), Some(computed)) => {
            let off = finding.ratio.map_or(String::new(), difference);
            format!("printed {printed}, computed {computed}{off}")
        }
        (Some(printed), None) => format!("printed {printed}"),
        (None, Some(computed)) => format!("computed {computed}"),
        (None, None) => String::new(),
    }
}

/// Returns how far the printed figure is from the computed one; nothing where
/// they are equal in four digits.
pub(crate) fn difference(ratio: f64) -> String {
    match (ratio, (ratio - 1.0) * 100.0) {
        (ratio, _) if !(0.5..=2.0).contains(&ratio) => {
            format!(": {} times it", format::number(ratio))
        }
        (_, percent) if percent >= 0.05 => format!(": {percent:.1} % above it"),
        (_, percent) if percent <= -0.05 => format!(": {:.1} % below it", -percent),
        _ => String::new(),
    }
}

/// Returns an input as it is printed; one that was computed, in four digits.
pub(crate) fn stated(value: f64) -> String {
    /// More characters than any published figure has.
    const LONG: usize = 12;
    let text = format::exact(value);
    match text.chars().count() {
        length if length <= LONG => text,
        _ => figure(value, ""),
    }
}

/// Returns every input with its cell.
pub(crate) fn inputs(finding: &Finding) -> String {
    let inputs = finding.inputs.iter();
    let inputs =
        inputs.map(|input| format!("{} {} ({})", input.name, stated(input.value), input.place));
    inputs.collect::<Vec<_>>().join(", ")
}

/// Returns every sentence with its cell.
pub(crate) fn statements(finding: &Finding) -> Vec<String> {
    let statements = finding.statements.iter();
    let text = statements.map(|statement| format!("{} ({})", statement.text, statement.place));
    text.collect()
}

/// Returns sentences and inputs with their cells.
fn sources(finding: &Finding) -> String {
    let mut all = statements(finding);
    all.extend(Some(inputs(finding)).filter(|inputs| !inputs.is_empty()));
    all.join("; ")
}

/// Returns texts of findings, each once, in order.
pub(crate) fn distinct<'a>(
    findings: &[&'a Finding],
    text: fn(&Finding) -> Option<&String>,
) -> Vec<&'a str> {
    let mut texts: Vec<&str> = Vec::new();
    for text in findings.iter().filter_map(|finding| text(finding)) {
        if !texts.contains(&text.as_str()) {
            texts.push(text);
        }
    }
    texts
}

/// Phrases of a consequence that overturns a conclusion, behind what it is about.
const OVERTURNS: [&str; 4] = [
    "does not survive",
    "the wrong way round",
    "is not that of",
    "is true of the smaller model alone",
];

/// Returns what the findings come to: how many figures differ, the furthest of them, and
/// the conclusions that do not survive.
pub fn sentences(findings: &[Finding]) -> Vec<String> {
    let differs = |own: &[&Finding]| {
        let off = own.iter().filter(|one| one.outcome == Outcome::Differs);
        off.count()
    };
    let of_papers: Vec<String> = by_paper(findings)
        .map(|(paper, own)| format!("{} of {} in {}", differs(&own), own.len(), paper.cited()))
        .collect();
    let all: Vec<&Finding> = findings.iter().collect();
    let first = format!(
        "Of {} figures, {} do not follow from the paper's own inputs: {}.",
        all.len(),
        differs(&all),
        of_papers.join(", ")
    );
    let mut sentences = vec![first];
    sentences.extend(furthest(&all));
    let overturned = overturned(&all);
    sentences.push(if overturned.is_empty() {
        "No conclusion is overturned.".to_owned()
    } else {
        format!(
            "Conclusions that do not survive: {}.",
            overturned.join("; ")
        )
    });
    sentences
}

/// Returns the finding whose printed figure is furthest from the computed one.
fn furthest(findings: &[&Finding]) -> Option<String> {
    let off = |finding: &Finding| {
        let ratio = finding.ratio.filter(|ratio| *ratio > 0.0)?;
        (finding.outcome == Outcome::Differs).then(|| ratio.ln().abs())
    };
    let known = findings.iter().filter_map(|one| Some((one, off(one)?)));
    let (most, _) = known.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    Some(format!(
        "Furthest off: {}, {}, {} of {}: {}.",
        most.paper.cited(),
        most.item,
        most.check,
        most.row,
        figures(most)
    ))
}

/// Returns what the conclusions that do not survive are about, each with its place.
fn overturned(findings: &[&Finding]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for finding in findings {
        let Some(consequence) = &finding.consequence else {
            continue;
        };
        let about = OVERTURNS
            .iter()
            .find_map(|phrase| consequence.split_once(phrase));
        let Some((about, _)) = about else { continue };
        // An aside in brackets is of figures.
        let about = about.split(" (").next().unwrap_or(about).trim();
        let about = about.strip_suffix(" is").unwrap_or(about);
        let (paper, item, check) = (finding.paper.cited(), finding.item, finding.check);
        let line = format!("{about} ({paper}, {item}: {check})");
        if !found.contains(&line) {
            found.push(line);
        }
    }
    found
}

/// Returns the findings as plain text: what differs in full, the rest in one
/// line per check. With `all`, every figure that agrees has a line of its own.
pub fn plain(findings: &[Finding], all: bool) -> String {
    let sentences = sentences(findings);
    let mut lines: Vec<String> = (sentences.iter())
        .map(|sentence| wrapped("", sentence))
        .collect();
    lines.push(String::new());
    for (paper, own) in by_paper(findings) {
        let title = format!("{} ({})", paper.cited(), counted(&own));
        lines.push(title);
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
    let mut lines = vec![
        wrapped("  differs  ", &format!("{}: {}", group.item, group.check)),
        wrapped("    ", &format!("= {}", group.formula)),
    ];
    let mut last = None;
    for finding in &group.findings {
        lines.push(wrapped(
            "    - ",
            &format!("{}: {}", finding.row, figures(finding)),
        ));
        for statement in statements(finding) {
            lines.push(wrapped("      says ", &statement));
        }
        lines.push(wrapped("      from ", &inputs(finding)));
        if finding.explanation != last
            && let Some(text) = &finding.explanation
        {
            lines.push(wrapped("      ", text));
        }
        last.clone_from(&finding.explanation);
    }
    for text in distinct(&group.findings, |finding| finding.consequence.as_ref()) {
        lines.push(wrapped("    => ", text));
    }
    lines
}

fn section(title: &str, groups: &[Group<'_>], all: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if !groups.is_empty() {
        lines.extend([String::new(), format!("  {title}")]);
    }
    for group in groups {
        let heading = format!("{}: {}", group.item, group.check);
        if all {
            lines.push(wrapped("    ", &heading));
            // Every figure with a line of its own,
            for finding in &group.findings {
                let text = [figures(finding)]
                    .into_iter()
                    .chain(statements(finding))
                    .chain(finding.explanation.clone())
                    .filter(|text| !text.is_empty())
                    .collect::<Vec<_>>()
                    .join("; ");
                lines.push(wrapped("      - ", &format!("{}: {text}", finding.row)));
            }
        } else {
            // or their number.
            let beyond = group.findings.iter();
            let beyond = beyond.filter(|finding| finding.within_rounding == Some(false));
            let beyond = match beyond.count() {
                0 => String::new(),
                count => format!(", {count} of them within 1 % but beyond rounding"),
            };
            let count = group.findings.len();
            let noun = if count == 1 { "figure" } else { "figures" };
            lines.push(wrapped(
                "    ",
                &format!("{heading} ({count} {noun}{beyond})"),
            ));
        }
        for text in distinct(&group.findings, |finding| finding.consequence.as_ref()) {
            lines.push(wrapped("      => ", text));
        }
    }
    lines
}

/// Returns the findings as Markdown: one table per check.
pub fn markdown(findings: &[Finding]) -> String {
    let mut text = String::from("# Audit of the papers' arithmetic\n\n");
    for sentence in sentences(findings) {
        text.push_str(&format!("- {}\n", sentence.replace('|', "\\|")));
    }
    for (paper, own) in by_paper(findings) {
        text.push_str(&format!("\n## {}\n\n{}.\n", paper.cited(), counted(&own)));
        for (outcome, title) in [
            (Outcome::Differs, "Differs"),
            (Outcome::Agrees, "Agrees"),
            (Outcome::CannotBeChecked, "Cannot be checked"),
        ] {
            let groups = groups(&own, outcome);
            if !groups.is_empty() {
                text.push_str(&format!("\n### {title}\n"));
            }
            for group in &groups {
                text.push_str(&markdown_group(group));
            }
        }
    }
    text
}

fn markdown_group(group: &Group<'_>) -> String {
    let escaped = |text: &str| text.replace('|', "\\|");
    let mut text = format!("\n**{}: {}**", group.item, escaped(group.check));
    if !group.formula.is_empty() {
        text.push_str(&format!(" = {}", escaped(group.formula)));
    }
    text.push_str("\n\n| of | result | inputs | remark |\n| --- | --- | --- | --- |\n");
    for finding in &group.findings {
        text.push_str(&format!(
            "| {} | {} | {} | {} |\n",
            escaped(&finding.row),
            figures(finding),
            escaped(&sources(finding)),
            escaped(finding.explanation.as_deref().unwrap_or_default()),
        ));
    }
    for consequence in distinct(&group.findings, |finding| finding.consequence.as_ref()) {
        text.push_str(&format!("\nConsequence: {}\n", escaped(consequence)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Published, audit};
    use crate::cost::PriceBook;
    use crate::format::COLUMNS;

    fn shipped() -> Vec<Finding> {
        let published = Published::shipped().unwrap();
        audit(&Paper::ALL, &published, &PriceBook::shipped().unwrap()).unwrap()
    }

    #[test]
    fn no_line_is_wider_than_a_hundred_columns() {
        for all in [false, true] {
            let text = plain(&shipped(), all);
            let widest = text
                .lines()
                .max_by_key(|line| line.chars().count())
                .unwrap();
            assert!(widest.chars().count() <= COLUMNS, "{widest}");
        }
    }

    #[test]
    fn every_finding_is_in_the_markdown() {
        let findings = shipped();
        let text = markdown(&findings);
        let rows = text.lines().filter(|line| {
            line.starts_with("| ") && !line.starts_with("| ---") && !line.starts_with("| of |")
        });
        assert_eq!(rows.count(), findings.len());
    }

    /// Counts are those of the findings, and a conclusion is named once per place.
    #[test]
    fn the_audit_begins_with_what_it_comes_to() {
        let findings = shipped();
        let said = sentences(&findings);
        let [first, furthest, last] = &said[..] else {
            panic!("three sentences");
        };
        let differ = findings
            .iter()
            .filter(|one| one.outcome == Outcome::Differs);
        let differ = differ.count();
        let expected = format!("Of {} figures, {differ} do not follow", findings.len());
        assert!(first.starts_with(&expected), "{first}");
        // No other is further off.
        let ratio = |finding: &Finding| finding.ratio.map_or(0.0, |ratio| ratio.ln().abs());
        let differing = findings
            .iter()
            .filter(|one| one.outcome == Outcome::Differs);
        let most = differing
            .max_by(|a, b| ratio(a).total_cmp(&ratio(b)))
            .unwrap();
        assert!(
            furthest.contains(&most.row) && furthest.contains(most.item),
            "{furthest}"
        );
        assert!(
            last.starts_with("Conclusions that do not survive: "),
            "{last}"
        );
        let place = "the order of total costs (Barrak et al. 2025, Table 2:";
        assert_eq!(last.matches(place).count(), 1, "{last}");
        assert!(plain(&findings, false).starts_with(&first[..40]));

        let agreeing: Vec<Finding> = findings
            .into_iter()
            .filter(|one| one.outcome == Outcome::Agrees && one.consequence.is_none())
            .collect();
        assert_eq!(
            sentences(&agreeing).last().unwrap(),
            "No conclusion is overturned."
        );
    }

    #[test]
    fn figures_keep_the_digits_that_matter() {
        assert_eq!(figure(0.000_489_57, "USD"), "0.0004896 USD");
        assert_eq!(figure(344.232, "s"), "344.232 s");
        assert_eq!(figure(3_217_226.0, ""), "3,217,226");
    }
}
