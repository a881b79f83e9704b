//! Content of a report, made once and shown as HTML and as Markdown.

use std::collections::BTreeMap;

use epochcost_judge::analysis::Analysis;
use epochcost_judge::analysis::answer::Answer;
use epochcost_judge::analysis::summary::{Excluded, RowSummary, Summary, Verdict};
use epochcost_judge::analysis::titles::system_title;
use epochcost_judge::analysis::warnings::Warning;
use epochcost_record::RunDirectory;
use epochcost_spec::claims::{ClaimKind, Metric, VerdictKind};
use epochcost_spec::format::{self, UNKNOWN};
use serde::Serialize;

use super::chart::{Band, band as band_image};
use super::charts::{Chart, Labelled, Timelines};
use super::downloads::Download;
use super::notes::{self, cause};
use super::provenance::{self, Provenance};
use super::rows;
use super::simulation::SimulationView;
use super::table::{Table, exact};
use super::usage::usage;

/// Verdicts that are shown open.
const MOST_OPEN: usize = 40;

/// Everything that the templates show; texts are not yet escaped.
#[derive(Debug, Serialize)]
pub(super) struct View {
    pub title: String,
    /// The answer, a sentence each.
    pub answer: Vec<String>,
    pub run_id: String,
    pub provenance: Provenance,
    /// Behind headings; empty where every figure was measured.
    pub tag: &'static str,
    pub headline: String,
    pub strip: Vec<StripItem>,
    pub summary: Shown,
    /// Settings of each row.
    pub settings: Vec<Fact>,
    pub charts: Vec<Chart>,
    pub timelines: Vec<Chart>,
    /// Rows whose timeline is in the trace alone.
    pub timelines_left_out: usize,
    /// Heading of the verdicts.
    pub verdicts_title: String,
    pub verdicts: Vec<VerdictLine>,
    /// Whether a verdict is on a published figure.
    pub is_of_paper: bool,
    /// What the folded verdicts are, "12 of 12 findings hold"; empty where they are not folded.
    pub folded: String,
    pub checks: Vec<VerdictLine>,
    /// "20 of 20 checks hold"; empty without checks.
    pub checks_hold: String,
    /// Claims that options of the command exclude, in a sentence; empty without.
    pub excluded: String,
    pub excluded_claims: Vec<Excluded>,
    pub epochs: Shown,
    pub stages: Shown,
    pub usage: Shown,
    pub costs: Shown,
    pub traffic: Shown,
    pub trials: Shown,
    pub warnings: Vec<WarningLine>,
    /// Number of warnings, and of their kinds, in words.
    pub warnings_title: String,
    pub simulation: Option<SimulationView>,
    pub facts: Vec<Fact>,
    /// Filled once the files are written.
    pub downloads: Vec<Download>,
    pub money: &'static str,
    /// The note on the interval behind a mean.
    pub interval: &'static str,
}

/// A table, and itself as Markdown.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    #[serde(flatten)]
    pub table: Table,
    pub markdown: String,
}

impl From<Table> for Shown {
    fn from(table: Table) -> Self {
        Self {
            markdown: table.markdown(),
            table,
        }
    }
}

#[derive(Debug, Serialize)]
pub struct StripItem {
    pub class: &'static str,
    pub sign: &'static str,
    pub word: String,
    pub count: usize,
    /// The verdict that it counts, as in [`VerdictLine`]; empty for trials and rows.
    pub key: String,
}

impl StripItem {
    /// Returns a count of something else than verdicts of a kind.
    pub(super) fn new(
        (class, sign): (&'static str, &'static str),
        count: usize,
        word: &str,
    ) -> Self {
        Self {
            class,
            sign,
            word: word.to_owned(),
            count,
            key: String::new(),
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct VerdictLine {
    pub class: &'static str,
    pub sign: &'static str,
    pub word: String,
    /// The kind of verdict as `summary.json` writes it; the page's filter uses it.
    pub key: String,
    pub unexpected: bool,
    pub claim: String,
    pub row: String,
    /// The row's system; empty where the claim selects no row.
    pub system: String,
    pub source: String,
    /// Unit of the exact figures; `1` of a share, a count or yes and no.
    pub unit: String,
    pub published: String,
    pub observed: String,
    pub interval: String,
    pub ratio: String,
    pub band: String,
    pub reason: String,
    /// Kind of claim, where it is not published; of a consequence, what it
    /// follows from.
    pub kind: String,
    /// What explains the gap, one line per cause.
    pub causes: Vec<String>,
    /// Changes of the claim's terms, and the evidence of its explanation.
    pub notes: Vec<String>,
    /// Every digit of the published and the observed figure and of their ratio.
    pub exact: [String; 3],
    /// The band and both figures as a small image; empty without a band.
    pub image: String,
}

/// A kind of warning.
#[derive(Debug, Serialize)]
pub(super) struct WarningLine {
    pub text: String,
    /// Rows that it is about, by their ids; empty for the whole run.
    pub rows: String,
    pub count: usize,
    /// All in one line.
    pub line: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Fact {
    pub name: String,
    pub value: String,
}

impl Fact {
    pub(super) fn new(name: &str, value: String) -> Self {
        let name = name.to_owned();
        Self { name, value }
    }
}

/// The charts of a run, drawn.
pub(super) struct Charts {
    pub all: Vec<Chart>,
    pub timelines: Timelines,
}

impl View {
    pub(super) fn new(
        run: &RunDirectory,
        analysis: &Analysis,
        labelled: &[Labelled<'_>],
        charts: Charts,
    ) -> Self {
        let manifest = run.manifest();
        let provenance = Provenance::of_platform(&manifest.platform);
        let names: Vec<String> = labelled.iter().map(|row| row.name.to_owned()).collect();
        let summary = &analysis.summary;
        let lines = |of_kind: &dyn Fn(ClaimKind) -> bool| -> Vec<VerdictLine> {
            let verdicts = notes::grouped(&summary.verdicts, |verdict| verdict).into_iter();
            let verdicts = verdicts.filter(|verdict| of_kind(verdict.kind));
            let line = |verdict| verdict_line(verdict, &names, &summary.rows);
            verdicts.map(line).collect()
        };
        let setting = |(name, row): (&String, &RowSummary)| {
            Fact::new(name, format!("{}: {}", row.described(), rows::setting(row)))
        };
        Self {
            title: manifest.experiment.clone(),
            run_id: manifest.run_id.clone(),
            provenance,
            tag: match provenance {
                Provenance::Simulated => "simulated",
                _ => "",
            },
            // Conclusions.
            headline: provenance::headline(manifest),
            answer: sentences(&summary.answer),
            strip: strip(analysis),
            summary: rows::summary(labelled, &summary.rows, summary.target_accuracy).into(),
            settings: names.iter().zip(&summary.rows).map(setting).collect(),
            // Figures, and the tables of details.
            charts: charts.all,
            timelines: charts.timelines.charts,
            timelines_left_out: charts.timelines.left_out,
            verdicts_title: verdicts_title(summary, provenance),
            verdicts: lines(&|kind| kind != ClaimKind::Check),
            is_of_paper: (summary.verdicts.iter()).any(|verdict| verdict.kind.is_of_paper()),
            folded: folded(summary),
            checks: lines(&|kind| kind == ClaimKind::Check),
            checks_hold: summary.counts.checks_hold().unwrap_or_default(),
            excluded: excluded(&summary.excluded),
            excluded_claims: summary.excluded.clone(),
            epochs: rows::epochs(labelled).into(),
            stages: rows::stages(labelled).into(),
            usage: usage(labelled).into(),
            costs: rows::costs(labelled).into(),
            traffic: rows::traffic(labelled, &summary.rows).into(),
            trials: rows::trials(labelled).into(),
            // What the figures stand on.
            warnings: analysis.warnings().iter().map(warning_line).collect(),
            warnings_title: warnings_title(analysis.warnings()),
            simulation: manifest.simulation.as_ref().map(SimulationView::of),
            facts: super::facts::facts(run),
            downloads: Vec::new(),
            money: provenance::money(manifest),
            interval: provenance::interval(manifest),
        }
    }
}

/// Returns the class and the sign of a kind of verdict: colour alone would not
/// distinguish them for every reader.
pub(super) fn class_and_sign(kind: VerdictKind) -> (&'static str, &'static str) {
    match kind {
        VerdictKind::Agrees => ("good", "✓"),
        VerdictKind::RatherAgrees => ("fair", "≈"),
        VerdictKind::Open => ("open", "?"),
        VerdictKind::RatherDiffers => ("poor", "≠"),
        VerdictKind::Differs => ("bad", "✗"),
        VerdictKind::ByConstruction => ("open", "="),
        VerdictKind::Holds => ("good", "+"),
        VerdictKind::Fails => ("bad", "−"),
        VerdictKind::NotRun => ("none", "○"),
        VerdictKind::Infeasible => ("none", "∅"),
    }
}

/// Returns one item for each kind of verdict that occurs, with its count.
pub(super) fn strip_of(counts: &BTreeMap<VerdictKind, usize>) -> Vec<StripItem> {
    let item = |(kind, count): (&VerdictKind, &usize)| StripItem {
        key: kind.as_str().replace(' ', "_"),
        ..StripItem::new(class_and_sign(*kind), *count, kind.as_str())
    };
    counts.iter().map(item).collect()
}

/// Returns the sentences of an answer.
pub(super) fn sentences(answer: &Answer) -> Vec<String> {
    let said = answer.sentences().into_iter();
    said.map(str::to_owned).collect()
}

/// Returns how many claims options exclude, in a sentence; nothing without any.
pub(super) fn excluded(excluded: &[Excluded]) -> String {
    let Some(first) = excluded.first() else {
        return String::new();
    };
    // Every reason begins with the options.
    let options = (first.why.rsplit_once(": ")).map_or("", |(options, _)| options);
    let (count, noun, verb) = match excluded.len() {
        1 => (1, "claim", "is"),
        count => (count, "claims", "are"),
    };
    format!("{count} {noun} of the experiment {verb} excluded by {options}.")
}

/// Returns what the verdicts are, if they are folded: findings of this project that all hold, or
/// so many verdicts that the charts would be pages below.
fn folded(summary: &Summary) -> String {
    let claims = || (summary.verdicts.iter()).filter(|verdict| verdict.kind != ClaimKind::Check);
    let all_hold = claims()
        .all(|verdict| verdict.kind == ClaimKind::Own && verdict.verdict == VerdictKind::Holds);
    match claims().count() {
        count @ 2.. if all_hold => format!("{count} of {count} findings hold"),
        count if count > MOST_OPEN => format!("{count} verdicts, claim by claim"),
        _ => String::new(),
    }
}

/// Returns the heading of the verdicts: nothing is published that no paper says.
fn verdicts_title(summary: &Summary, provenance: Provenance) -> String {
    let mut verdicts = summary.verdicts.iter();
    if verdicts.any(|verdict| verdict.kind.is_of_paper()) {
        format!("Published against {provenance}")
    } else {
        let own = |verdict: &Verdict| verdict.kind == ClaimKind::Own;
        let titles = ["Checks", "Findings of this project"];
        titles[usize::from(summary.verdicts.iter().any(own))].into()
    }
}

fn warning_line(warning: &Warning) -> WarningLine {
    WarningLine {
        text: warning.text.clone(),
        rows: warning.rows.join(", "),
        count: warning.rows.len(),
        line: warning.line(),
    }
}

/// Returns the number of warnings and of their kinds: "21 warnings of 4 kinds".
pub(super) fn warnings_title(warnings: &[Warning]) -> String {
    let all: usize = warnings.iter().map(|warning| warning.times).sum();
    match (all, warnings.len()) {
        (0, _) => String::new(),
        (1, _) => "1 warning".into(),
        (all, 1) => format!("{all} warnings of one kind"),
        (all, kinds) => format!("{all} warnings of {kinds} kinds"),
    }
}

/// Returns all checks as one item: they are invariants of the program, and no
/// reproductions.
fn checks(summary: &Summary) -> Option<StripItem> {
    let checks = &summary.counts.checks;
    let all: usize = checks.values().sum();
    let hold = checks.get(&VerdictKind::Holds).copied().unwrap_or(0);
    let look = class_and_sign(match all - hold {
        0 => VerdictKind::Holds,
        _ => VerdictKind::Fails,
    });
    (all > 0).then(|| StripItem::new(look, hold, &format!("of {all} checks hold")))
}

fn strip(analysis: &Analysis) -> Vec<StripItem> {
    let mut counts: BTreeMap<VerdictKind, usize> = BTreeMap::new();
    let verdicts = analysis.summary.verdicts.iter();
    for verdict in verdicts.filter(|verdict| verdict.kind != ClaimKind::Check) {
        *counts.entry(verdict.verdict).or_default() += 1;
    }
    let mut strip = strip_of(&counts);
    strip.extend(checks(&analysis.summary));
    let rows = &analysis.summary.rows;
    // Trials and infeasible rows, after the verdicts.
    let failed: usize = rows.iter().map(RowSummary::surprising_failures).sum();
    let done = rows.iter().map(|row| row.trials).sum::<usize>() - failed;
    let item =
        |look, count, words: [&str; 2]| StripItem::new(look, count, words[usize::from(count != 1)]);
    strip.push(item(("plain", "●"), done, ["trial done", "trials done"]));
    if failed > 0 {
        let words = ["trial failed", "trials failed"];
        strip.push(item(("bad", "✗"), failed, words));
    }
    let infeasible = rows.iter().filter(|row| row.infeasible.is_some()).count();
    if infeasible > 0 {
        let (look, words) = (
            VerdictKind::Infeasible,
            ["infeasible row", "infeasible rows"],
        );
        strip.push(item(class_and_sign(look), infeasible, words));
    }
    strip
}

/// Returns a verdict as people read it; `names` are those of `rows`.
pub(super) fn verdict_line(
    verdict: &Verdict,
    names: &[String],
    rows: &[RowSummary],
) -> VerdictLine {
    let (class, sign) = class_and_sign(verdict.verdict);
    // Figures in the claim's unit, as text.
    let is_accuracy = verdict.metric == Some(Metric::Accuracy) && verdict.unit.is_empty();
    let value = |value: f64| match verdict.unit.as_str() {
        "bytes" => format::bytes(value),
        "USD" => format::usd(value),
        "" if is_accuracy => format::percent(value),
        "" => format::number(value),
        unit => format!("{} {unit}", format::number(value)),
    };
    let mut named = rows.iter().zip(names);
    let named = named.find(|(row, _)| Some(&row.id) == verdict.row.as_ref());
    let band = match verdict.band {
        [Some(low), Some(high)] => format!("{} to {}", value(low), value(high)),
        [Some(low), None] => format!("at least {}", value(low)),
        [None, Some(high)] => format!("at most {}", value(high)),
        [None, None] => UNKNOWN.into(),
    };
    let number: fn(f64) -> String = if is_accuracy {
        format::percent
    } else {
        format::number
    };
    let interval = verdict.observed_ci95.map_or(String::new(), |[low, high]| {
        format!("{} to {}", number(low), number(high))
    });
    // Why the verdict is as it is, or not as expected.
    let unexpected = !verdict.holds();
    let reason = match verdict.expect {
        Some(kind) if unexpected => format!("expected: {kind}; {}", verdict.reason),
        _ => verdict.reason.clone(),
    };
    let published = format::or_unknown(verdict.published, value);
    let observed = format::or_unknown(verdict.observed, value);
    let provenance = named.map_or(Provenance::Measured, |(row, _)| {
        Provenance::of_platform(&row.platform)
    });
    let causes = verdict.causes.iter().map(|effect| cause(effect, value));
    // The band as an image.
    let image = band_image(&Band {
        ends: verdict.band,
        published: verdict.published,
        observed: verdict.observed,
        interval: verdict.observed_ci95,
        class: provenance.as_str(),
        title: format!("band {band}; published {published}; {provenance} {observed}"),
    });
    VerdictLine {
        class,
        sign,
        word: verdict.verdict.as_str().into(),
        key: verdict.verdict.as_str().replace(' ', "_"),
        unexpected,
        claim: verdict.claim.clone(),
        row: named.map_or_else(|| UNKNOWN.into(), |(_, name)| name.clone()),
        system: named.map_or(String::new(), |(row, _)| system_title(&row.system)),
        source: verdict.source.clone().unwrap_or_default(),
        unit: match verdict.unit.as_str() {
            "" => "1".to_owned(),
            unit => unit.to_owned(),
        },
        published,
        observed,
        interval,
        ratio: format::or_unknown(verdict.ratio, format::number),
        band,
        reason,
        causes: causes.collect(),
        kind: notes::kind(verdict),
        notes: verdict.note.iter().cloned().collect(),
        exact: [verdict.published, verdict.observed, verdict.ratio].map(exact),
        image: image.unwrap_or_default(),
    }
}
