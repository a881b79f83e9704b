//! An appendix for artefact evaluation, filled in from a recorded reproduction: the
//! sections that EuroSys and SOSP ask for in 2026, in Markdown and LaTeX.

use std::collections::BTreeSet;

use epochcost_judge::analysis::items::{How, ItemOverview, JudgedClaim};
use epochcost_judge::analysis::overview::Overview;
use epochcost_record::ItemState;
use epochcost_spec::claims::{ClaimKind, VerdictKind};
use epochcost_spec::format;

use super::export::latex_text;
use super::markdown_cell;
use super::table::{Cell, Table};

/// An appendix in both forms.
#[derive(Clone, Debug)]
pub struct Appendix {
    /// For readers of the repository.
    pub markdown: String,
    /// For the paper: sections of an appendix, without a preamble.
    pub latex: String,
    /// Number of claims.
    pub claims: usize,
}

/// What the sections need of the document that they stand in.
const PACKAGES: &str =
    "% Needs \\usepackage[T1]{fontenc} and \\usepackage{array,booktabs,longtable}.\n\n";

/// The text, in blocks with an empty line between them.
const TEXT: &str = include_str!("../../../templates/appendix.txt");

/// A part of the appendix.
enum Part {
    Section(String),
    Subsection(String),
    Text(String),
    Code(String),
    Table(Table),
}

/// Returns the appendix on the items of `papers`, or of all.
pub fn appendix(record: &Overview, papers: &[String]) -> Appendix {
    let is_asked = |item: &&ItemOverview| papers.is_empty() || papers.contains(&item.paper);
    let items: Vec<&ItemOverview> = record.items.iter().filter(is_asked).collect();
    let claims = claims(&items);
    let parts = parts(&items, &claims, &record.items);
    let latex: String = parts.iter().map(latex).collect();
    Appendix {
        markdown: parts.iter().map(markdown).collect(),
        latex: format!("{PACKAGES}{latex}"),
        claims: claims.len(),
    }
}

/// A major claim: a statement of a paper, with the first item that tests it.
struct MajorClaim<'a> {
    item: usize,
    claim: &'a JudgedClaim,
}

/// Returns the conclusions of the papers, each once.
fn claims<'a>(items: &[&'a ItemOverview]) -> Vec<MajorClaim<'a>> {
    let mut known = BTreeSet::new();
    let mut claims = Vec::new();
    for (place, item) in items.iter().enumerate() {
        for claim in &item.claims {
            let verdict = &claim.verdict;
            let is_statement = verdict.kind == ClaimKind::Published && !verdict.is_on_figure();
            let is_tested = claim.how != How::NotRun;
            if is_statement && is_tested && known.insert((&item.id, &verdict.claim)) {
                claims.push(MajorClaim { item: place, claim });
            }
        }
    }
    claims
}

fn parts(items: &[&ItemOverview], claims: &[MajorClaim<'_>], all: &[ItemOverview]) -> Vec<Part> {
    let text = TEXT.replace("{experiments}", &items.len().to_string());
    let text = text.replace("{claims}", &claims.len().to_string());
    let part = |block: &str| match block {
        "[table of claims]" => Part::Table(claims_table(claims)),
        "[table of experiments]" => Part::Table(items_table(items, all)),
        block => part(block),
    };
    text.trim_end().split("\n\n").map(part).collect()
}

/// Returns a block of the text, by its beginning.
fn part(block: &str) -> Part {
    let own = |prefix: &str| block.strip_prefix(prefix).map(str::to_owned);
    let code = || Some(own("```\n")?.trim_end_matches("\n```").to_owned());
    (own("## ").map(Part::Section))
        .or_else(|| own("### ").map(Part::Subsection))
        .or_else(|| code().map(Part::Code))
        .unwrap_or_else(|| Part::Text(block.to_owned()))
}

fn claims_table(claims: &[MajorClaim<'_>]) -> Table {
    let mut table = Table::headed(
        "Major claims, with the experiment that tests each",
        "claim: | statement: | source: | proven by: | expected verdict:",
    );
    for (place, major) in claims.iter().enumerate() {
        let verdict = &major.claim.verdict;
        table.row(vec![
            Cell::text(format!("C{}", place + 1)),
            Cell::text(&verdict.claim),
            Cell::text(verdict.source.clone().unwrap_or_default()),
            Cell::text(format!("E{}", major.item + 1)),
            Cell::text(verdict.verdict.as_str()),
        ]);
    }
    table
}

fn items_table(items: &[&ItemOverview], all: &[ItemOverview]) -> Table {
    let heading = "experiment: | command: | platform: | minutes: | disk: | expected verdicts:";
    let mut table = Table::headed("Experiments", heading);
    for (place, item) in items.iter().enumerate() {
        let minutes = seconds(item, all).map(|seconds| seconds / 60.0);
        table.row(vec![
            Cell::text(format!("E{}", place + 1)),
            Cell::text(format!("epochcost reproduce {}", item.id)),
            Cell::text(item.platform.clone().unwrap_or_default()),
            Cell::text(minutes.map_or_else(|| format::UNKNOWN.into(), within)),
            Cell::of(item.bytes.map(|bytes| bytes as f64), format::bytes),
            Cell::text(expected(item)),
        ]);
    }
    table
}

/// No item takes as long: a longer gap lies between two reproductions, seconds.
const LONGEST_S: f64 = 4.0 * 3600.0;

/// Returns minutes as people plan with them.
fn within(minutes: f64) -> String {
    match minutes {
        short if short < 1.0 => "under 1".to_owned(),
        long => format!("{:.0}", long.ceil()),
    }
}

/// Returns how long an item took in the recorded reproduction: from its start to that of
/// the next, which ran after it. Not known of the last.
fn seconds(item: &ItemOverview, all: &[ItemOverview]) -> Option<f64> {
    let start = begun(item)?;
    // Items that begin in the same second took less than one.
    let last = all.iter().rfind(|other| begun(other) == Some(start));
    if last.is_some_and(|last| last.id != item.id) {
        return Some(0.0);
    }
    let later = all.iter().filter_map(begun).filter(|other| *other > start);
    let next = later.min()?;
    // What is reused was recorded on another day.
    Some((next - start) as f64).filter(|seconds| *seconds < LONGEST_S)
}

/// Returns when an item's run began, by its id (`2026-11-22T18-45-57Z-NAME`), seconds.
fn begun(item: &ItemOverview) -> Option<i64> {
    let id = item.run_id.as_deref()?.get(..20)?;
    let (day, time) = id.split_once('T')?;
    let text = format!("{day}T{}", time.replace('-', ":"));
    let at: jiff::Timestamp = text.parse().ok()?;
    Some(at.as_second())
}

/// Returns the verdicts of an item by kind, as recorded.
fn expected(item: &ItemOverview) -> String {
    if item.state != ItemState::Done {
        return item.state.as_str().to_owned();
    }
    let verdicts = || item.claims.iter().map(|claim| claim.verdict.verdict);
    let count = |kind| verdicts().filter(|verdict| *verdict == kind).count();
    let kinds = VerdictKind::ALL.map(|kind| (count(kind), kind.as_str()));
    let kinds = kinds.iter().filter(|(count, _)| *count > 0);
    let kinds = kinds.map(|(count, kind)| format!("{count} {kind}"));
    kinds.collect::<Vec<_>>().join(", ")
}

fn markdown(part: &Part) -> String {
    match part {
        Part::Section(title) => format!("## {title}\n\n"),
        Part::Subsection(title) => format!("### {title}\n\n"),
        Part::Text(text) => format!("{}\n\n", markdown_cell(text)),
        Part::Code(code) => format!("```\n{code}\n```\n\n"),
        Part::Table(table) => format!("{}\n", table.markdown()),
    }
}

fn latex(part: &Part) -> String {
    match part {
        Part::Section(title) => format!("\\section{{{title}}}\n\n"),
        Part::Subsection(title) => format!("\\subsection{{{title}}}\n\n"),
        Part::Text(text) => format!("{}\n\n", latex_text(text)),
        Part::Code(code) => format!("\\begin{{verbatim}}\n{code}\n\\end{{verbatim}}\n\n"),
        Part::Table(table) => format!("{}\n", table.long_latex()),
    }
}
