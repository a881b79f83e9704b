//! One page over several runs: every claim of every item, with its verdict.

use std::collections::BTreeMap;
use std::path::Path;

use epochcost_judge::analysis::items::{How, ItemOverview, JudgedClaim};
use epochcost_judge::analysis::names::names;
use epochcost_judge::analysis::overview::{AnalysedRun, Overview};
use epochcost_judge::analysis::warnings::Warning;
use epochcost_platform::{Site, site_of};
use epochcost_record::{ItemState, ResultsError, pretty, write_whole};
use epochcost_spec::claims::{ClaimKind, VerdictKind};
use epochcost_spec::exit::Exit;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

use super::facts::facts;
use super::notes;
use super::provenance::Provenance;
use super::render;
use super::table::Link;
use super::tally::{Strip, TallyLine, strips, tally};
use super::view::{
    Fact, StripItem, VerdictLine, excluded, sentences, strip_of, verdict_line, warnings_title,
};

const HTML: &str = include_str!("../../../templates/overview.html");
const MARKDOWN: &str = include_str!("../../../templates/overview.md");

/// What a link's path may hold as it is.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'.')
    .remove(b'-')
    .remove(b'_');

/// Writes `summary.json`, `report.html` and `report.md` over several runs into
/// `directory`. The same results always give the same bytes.
///
/// # Errors
/// When a file could not be written.
pub fn write_overview(
    directory: &Path,
    overview: &Overview,
    runs: &[Option<AnalysedRun>],
) -> Result<(), ResultsError> {
    let summary = directory.join("summary.json");
    write_whole(&summary, &pretty(&summary, overview)?)?;
    let view = View::new(directory, overview, runs);
    for (name, template) in [("report.html", HTML), ("report.md", MARKDOWN)] {
        let text = render(name, template, &view)?;
        write_whole(&directory.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// Everything that the templates show; texts are not yet escaped.
#[derive(Debug, Serialize)]
struct View {
    title: &'static str,
    /// Whether the items are those of papers; otherwise any runs.
    is_reproduction: bool,
    headline: String,
    exit_code: u8,
    ending: String,
    /// The answer: which statements of each paper hold.
    answer: Vec<String>,
    /// Comparison with the recorded verdicts, in sentences; empty without one.
    record: String,
    /// Claims whose verdict is not the recorded one.
    differences: Vec<String>,
    strips: Vec<Strip>,
    words: Vec<&'static str>,
    tally: Vec<TallyLine>,
    unexpected: Vec<ClaimLine>,
    /// Items that were not run to their end.
    not_done: Vec<ItemLine>,
    /// Why claims of the others have no observed figure.
    not_run: Vec<ReasonLine>,
    papers: Vec<PaperView>,
}

#[derive(Debug, Serialize)]
struct PaperView {
    name: String,
    /// Its own page; empty without one.
    page: String,
    items: Vec<ItemView>,
}

#[derive(Debug, Serialize)]
struct ItemView {
    line: ItemLine,
    /// Whether its details are shown at once.
    is_open: bool,
    strip: Vec<StripItem>,
    trials: String,
    reduced: Vec<String>,
    statements: Vec<ClaimLine>,
    figures: Vec<ClaimLine>,
    own: Vec<ClaimLine>,
    checks: Vec<ClaimLine>,
    /// "20 of 20 checks hold".
    checks_hold: String,
    warnings: Vec<String>,
    warnings_title: String,
    excluded: String,
    facts: Vec<Fact>,
}

#[derive(Debug, Serialize)]
struct ItemLine {
    id: String,
    /// Anchor of its section of the page.
    anchor: String,
    description: String,
    /// Origin of its figures; its state where it has none.
    tag: &'static str,
    state: &'static str,
    why: String,
    claims: usize,
    /// Path of its own report; empty without a run.
    run: String,
}

/// Claims without an observed figure that share the reason.
#[derive(Debug, Serialize)]
struct ReasonLine {
    word: &'static str,
    reason: String,
    claims: usize,
    items: Vec<ItemLink>,
}

#[derive(Debug, PartialEq, Serialize)]
struct ItemLink {
    id: String,
    anchor: String,
}

#[derive(Debug, Serialize)]
struct ClaimLine {
    item: String,
    anchor: String,
    how: &'static str,
    is_simulated: bool,
    line: VerdictLine,
}

impl View {
    fn new(directory: &Path, overview: &Overview, runs: &[Option<AnalysedRun>]) -> Self {
        let anchors = anchors(&overview.items);
        let runs = runs.iter().map(Option::as_ref);
        let items = || overview.items.iter().zip(runs.clone()).zip(&anchors);
        let mut papers: Vec<PaperView> = Vec::new();
        for ((item, run), anchor) in items() {
            let view = item_view(item, run, anchor);
            match papers.iter_mut().find(|paper| paper.name == item.paper) {
                Some(paper) => paper.items.push(view),
                None => papers.push(PaperView {
                    name: item.paper.clone(),
                    page: page_of(directory, &item.paper),
                    items: vec![view],
                }),
            }
        }
        let is_reproduction = !items().any(|((item, run), _)| is_named_by_run(item, run));
        let unexpected = items().flat_map(|((item, run), anchor)| {
            claim_lines(item, run, anchor, |claim| claim.unexpected)
        });
        let not_done = items().filter(|((item, _), _)| item.state != ItemState::Done);
        let not_done = not_done.map(|((item, _), anchor)| item_line(item, anchor));
        let (words, tally) = tally(overview);
        let titles = ["Several runs", "Reproduction"];
        Self {
            title: titles[usize::from(is_reproduction)],
            is_reproduction,
            headline: headline(overview),
            exit_code: overview.exit_code,
            ending: ending(overview),
            answer: sentences(&overview.answer),
            record: overview.record.text(),
            differences: overview.record.lines(),
            strips: strips(overview),
            words: words.into_iter().map(VerdictKind::as_str).collect(),
            tally,
            unexpected: unexpected.collect(),
            not_done: not_done.collect(),
            not_run: not_run(overview, &anchors),
            papers,
        }
    }
}

/// Returns whether an item is a run of any origin, which has no name but that of its run.
fn is_named_by_run(item: &ItemOverview, run: Option<&AnalysedRun>) -> bool {
    run.is_some_and(|run| item.id.ends_with(&run.directory.manifest().run_id))
}

fn headline(overview: &Overview) -> String {
    let (mut here, mut simulated, mut elsewhere) = (0, 0, BTreeMap::<&str, usize>::new());
    let done = || (overview.items.iter()).filter(|item| item.state == ItemState::Done);
    let run = done().filter(|item| item.run.is_some());
    for platform in run.filter_map(|item| item.platform.as_deref()) {
        match site_of(platform) {
            Some(Site::ThisMachine) => here += 1,
            Some(Site::VirtualTime) => simulated += 1,
            Some(Site::Cloud(title)) => *elsewhere.entry(title).or_default() += 1,
            None => *elsewhere.entry(platform).or_default() += 1,
        }
    }
    let elsewhere = elsewhere.iter();
    let elsewhere = elsewhere.map(|(place, items)| format!(", {items} measured on {place}"));
    let elsewhere: String = elsewhere.collect();
    let items = overview.items.len();
    // How many items are done, and how.
    let done = done().count();
    let mut parts = vec![format!(
        "{done} of {items} items done: {here} measured locally, {simulated} simulated{elsewhere}."
    )];
    // What was left out, on request.
    if items < overview.catalogue {
        parts.push(format!("There are {} items in all.", overview.catalogue));
    }
    if !overview.asked.is_empty() {
        let (asked, others) = (
            overview.asked.join(", "),
            "other items are as they were recorded",
        );
        parts.push(format!("The last command asked for {asked}; {others}."));
    }
    if overview.quick {
        parts.push("A quick reproduction: long items are reduced or left out.".into());
    }
    let platform = overview.platform.iter();
    parts.extend(platform.map(|name| format!("Limited to items of the platform {name}.")));
    parts.extend(overview.misses());
    parts.push("Published figures are in italics, simulated ones underlined with dots.".into());
    parts.join(" ")
}

/// Returns the way from the page over all items to an item's run; empty without one.
fn run_of(item: &ItemOverview) -> String {
    let run = item.run.as_ref().map(|run| run.display().to_string());
    run.map_or_else(String::new, |run| {
        utf8_percent_encode(&run, PATH).to_string()
    })
}

/// Returns a link to an item's report; its address is empty without a run.
pub(super) fn link_to(item: &ItemOverview, text: String) -> Link {
    let href = match run_of(item).as_str() {
        "" => String::new(),
        run => format!("{run}/report.html"),
    };
    Link { text, href }
}

/// Returns the name of a paper's page; empty without one.
fn page_of(directory: &Path, paper: &str) -> String {
    let name = Some(format!("{paper}.html"));
    let there = name.filter(|name| directory.join(name).is_file());
    there.unwrap_or_default()
}

/// Returns why the exit code is not 0; nothing if it is.
fn ending(overview: &Overview) -> String {
    let asked = overview.asked_for();
    let failed_trials: usize = asked.iter().map(|item| item.failed_trials).sum();
    let failed = |item: &&&ItemOverview| item.state == ItemState::Failed;
    let failed_items = asked.iter().filter(failed).count();
    let unexpected: usize = asked.iter().map(|item| item.counts.unexpected).sum();
    match overview.exit_status() {
        Exit::Done => String::new(),
        Exit::Failed => format!(
            "verdicts that are not as expected: {unexpected}; failed items: {failed_items}; failed \
             trials: {failed_trials}"
        ),
        Exit::Lacks => "nothing could be run here".into(),
        _ => "not every item was run to its end".into(),
    }
}

fn not_run(overview: &Overview, anchors: &[String]) -> Vec<ReasonLine> {
    let mut lines: Vec<ReasonLine> = Vec::new();
    let items = overview.items.iter().zip(anchors);
    let done = items.filter(|(item, _)| item.state == ItemState::Done);
    let claims = done.flat_map(|known| known.0.claims.iter().map(move |claim| (known, claim)));
    for ((item, anchor), claim) in claims {
        if claim.how != How::NotRun {
            continue;
        }
        let (word, reason) = (claim.verdict.verdict.as_str(), &claim.verdict.reason);
        let link = ItemLink {
            id: item.id.clone(),
            anchor: anchor.clone(),
        };
        match (lines.iter_mut()).find(|line| line.word == word && line.reason == *reason) {
            Some(line) => {
                line.claims += 1;
                if !line.items.contains(&link) {
                    line.items.push(link);
                }
            }
            None => lines.push(ReasonLine {
                word,
                reason: reason.clone(),
                claims: 1,
                items: vec![link],
            }),
        }
    }
    lines
}

fn item_view(item: &ItemOverview, run: Option<&AnalysedRun>, anchor: &str) -> ItemView {
    let of_paper = |claim: &JudgedClaim| claim.verdict.kind.is_of_paper();
    let lines = |wanted: &dyn Fn(&JudgedClaim) -> bool| claim_lines(item, run, anchor, wanted);
    ItemView {
        line: item_line(item, anchor),
        is_open: item.counts.unexpected > 0
            || item.failed_trials > 0
            || item.state == ItemState::Failed,
        strip: strip_of(&item.counts.all()),
        trials: match (item.trials, item.failed_trials) {
            (0, _) => String::new(),
            (1, 0) => "1 trial".into(),
            (trials, 0) => format!("{trials} trials"),
            (trials, failed) => format!("{trials} trials, {failed} failed"),
        },
        reduced: item.reduced.clone(),
        statements: lines(&|claim| of_paper(claim) && !claim.verdict.is_on_figure()),
        figures: lines(&|claim| of_paper(claim) && claim.verdict.is_on_figure()),
        own: lines(&|claim| claim.verdict.kind == ClaimKind::Own),
        checks: lines(&|claim| claim.verdict.kind == ClaimKind::Check),
        checks_hold: item.counts.checks_hold().unwrap_or_default(),
        warnings: run.map_or_else(Vec::new, |run| {
            run.analysis.warnings().iter().map(Warning::line).collect()
        }),
        warnings_title: run.map_or_else(String::new, |run| warnings_title(run.analysis.warnings())),
        excluded: run.map_or_else(String::new, |run| excluded(&run.analysis.summary.excluded)),
        facts: run.map_or_else(Vec::new, |run| facts(&run.directory)),
    }
}

fn item_line(item: &ItemOverview, anchor: &str) -> ItemLine {
    ItemLine {
        id: item.id.clone(),
        anchor: anchor.to_owned(),
        description: item.description.clone(),
        tag: match (&item.run, &item.platform) {
            (None, _) => item.state.as_str(),
            (Some(_), Some(platform)) => Provenance::of_platform(platform).as_str(),
            (Some(_), None) => Provenance::Measured.as_str(),
        },
        state: item.state.as_str(),
        why: item.why.clone().unwrap_or_default(),
        claims: item.claims.len(),
        run: run_of(item),
    }
}

/// Returns the anchor of each item's section. Two copies of a run have one name.
fn anchors(items: &[ItemOverview]) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for item in items {
        let mut anchor = item.id.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        while anchors.contains(&anchor) {
            anchor.push_str("-again");
        }
        anchors.push(anchor);
    }
    anchors
}

fn claim_lines(
    item: &ItemOverview,
    run: Option<&AnalysedRun>,
    anchor: &str,
    wanted: impl Fn(&JudgedClaim) -> bool,
) -> Vec<ClaimLine> {
    let rows = run.map_or(&[][..], |run| &run.analysis.summary.rows);
    let names = names(rows);
    let claims = notes::grouped(&item.claims, |claim| &claim.verdict).into_iter();
    let line = |claim: &JudgedClaim| ClaimLine {
        item: item.id.clone(),
        anchor: anchor.to_owned(),
        how: claim.how.as_str(),
        is_simulated: matches!(claim.how, How::Simulated | How::ByConstruction),
        line: verdict_line(&claim.verdict, &names, rows),
    };
    claims.filter(|claim| wanted(claim)).map(line).collect()
}
