//! The charts of a report.

mod breakdowns;
mod learning;
mod pareto;
mod sweep;
mod timelines;

use epochcost_judge::analysis::answer::target;
use epochcost_judge::analysis::headline::headline;
use epochcost_judge::analysis::titles::system_title;
use epochcost_judge::analysis::{Analysis, RowAnalysis};
use epochcost_spec::claims::Claim;
use epochcost_systems::{Job, StageSeconds};
use serde::Serialize;

use super::chart::{Look, Size, looks};
use super::provenance::Provenance;
use super::table::Table;

pub use breakdowns::{COST_NAMES, cost_parts};
pub(super) use timelines::Timelines;

/// A chart with what a reader must know of it.
#[derive(Debug, Serialize)]
pub struct Chart {
    /// Unique in its page.
    pub id: String,
    /// Name in lists of sections.
    pub name: String,
    /// Heading: the finding, where there is one.
    pub title: String,
    /// What a reader must know of it.
    pub caption: String,
    /// The chart for a wide window.
    pub svg: String,
    /// The chart for a narrow one.
    pub narrow: String,
    /// The figures behind it, as CSV; none of a timeline, whose figures are in the trace.
    pub csv: Option<String>,
    /// The system that it is of; empty where it is of all.
    pub system: String,
}

impl Chart {
    /// Draws a chart of all systems; nothing if there is nothing to draw.
    pub(super) fn of_all(
        id: &str,
        title: &str,
        caption: String,
        data: &Table,
        draw: impl Fn(Size) -> Option<String>,
    ) -> Option<Self> {
        let [svg, narrow] = every_size(draw)?;
        Some(Self {
            id: id.into(),
            name: title.into(),
            title: title.into(),
            caption,
            svg,
            narrow,
            csv: Some(data.csv()),
            system: String::new(),
        })
    }
}

/// Draws a chart for windows of every size; nothing if there is nothing to draw.
pub(super) fn every_size(draw: impl Fn(Size) -> Option<String>) -> Option<[String; 2]> {
    let [wide, narrow] = Size::ALL.map(draw);
    Some([wide?, narrow?])
}

/// A row as charts show it.
pub(super) struct Labelled<'a> {
    /// Colour of its system and mark of its model, or of what else distinguishes it.
    look: Look,
    pub name: &'a str,
    pub system: String,
    pub row: &'a RowAnalysis,
}

/// Rows of which each has a mark of its own; of more, systems have.
pub(super) const MOST_LOOKS: usize = 24;

/// Returns every row with its name and look.
pub(super) fn labelled<'a>(analysis: &'a Analysis, names: &'a [String]) -> Vec<Labelled<'a>> {
    let jobs = analysis.rows.iter().map(|row| &row.planned.row.job);
    let jobs: Vec<&Job> = jobs.collect();
    let has_models = jobs.windows(2).any(|pair| pair[0].model != pair[1].model);
    let is_one_of_many = jobs.len() > MOST_LOOKS;
    let variant = |(job, name): (&'a Job, &'a String)| match has_models {
        _ if is_one_of_many => "",
        true => job.model.as_str(),
        false => variant_of(name),
    };
    let series = jobs.iter().copied().zip(names);
    let looks = looks(series.map(|row| (row.0.system.as_str(), variant(row))));
    let labelled = |((name, row), look): ((&'a String, &'a RowAnalysis), Look)| Labelled {
        look,
        name,
        system: system_title(&row.planned.row.job.system),
        row,
    };
    let rows = names.iter().zip(&analysis.rows).zip(looks);
    rows.map(labelled).collect()
}

/// Returns what a row's name has beside its system.
fn variant_of(name: &str) -> &str {
    name.split_once(" · ").map_or("", |(_, rest)| rest)
}

/// One part of a stage: its name and its seconds.
type Part = (&'static str, fn(&StageSeconds) -> f64);

/// The paper's five stages, and the parts of "synchronise", in the order in
/// which a step takes them.
pub(super) const STAGES: [(&str, &[Part]); 5] = [
    ("fetch dataset", &[("fetch dataset", |s| s.fetch_dataset)]),
    (
        "compute gradients",
        &[("compute gradients", |s| s.compute_gradients)],
    ),
    (
        "synchronise",
        &[
            ("serialise", |s| s.serialise),
            ("put", |s| s.put),
            ("wait", |s| s.wait),
            ("get", |s| s.get),
            ("aggregate", |s| s.aggregate),
        ],
    ),
    ("update model", &[("update model", |s| s.update_model)]),
    (
        "detect convergence",
        &[("detect convergence", |s| s.detect_convergence)],
    ),
];

/// Returns every chart of all rows that the run has figures for.
pub(super) fn all(
    analysis: &Analysis,
    rows: &[Labelled<'_>],
    claims: &[Claim],
    platform: &str,
) -> Vec<Chart> {
    let provenance = Provenance::of_platform(platform);
    let target = target(claims);
    let verdicts = &analysis.summary.verdicts;
    let title = headline(analysis, claims, platform);
    let charts = [
        pareto::time_against_cost(rows, verdicts, platform, target, &title),
        learning::accuracy_by_time(rows, target, provenance),
        learning::accuracy_by_cost(rows, target),
        breakdowns::stages(rows),
        breakdowns::costs(rows),
        breakdowns::traffic(rows),
        learning::loss(rows),
    ];
    let mut charts: Vec<Chart> = charts.into_iter().flatten().collect();
    // A sweep is what a run with one is about.
    charts.splice(0..0, sweep::sweeps(rows, claims, provenance));
    charts
}
