//! The charts of a report.

mod breakdowns;
mod learning;
mod pareto;
mod timelines;

use epochcost_systems::StageSeconds;
use serde::Serialize;

use super::names::system_title;
use super::provenance::Provenance;
use crate::analysis::{Analysis, RowAnalysis};
use crate::claims::Claim;

pub(super) use timelines::timelines;

/// A chart with what a reader must know of it.
#[derive(Debug, Serialize)]
pub(super) struct Chart {
    pub id: String,
    pub title: String,
    pub caption: String,
    pub svg: String,
    /// The system that it is of; empty where it is of all.
    pub system: String,
}

impl Chart {
    fn of_all(id: &str, title: &str, caption: String, svg: String) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            caption,
            svg,
            system: String::new(),
        }
    }
}

/// A row as charts show it.
pub(super) struct Labelled<'a> {
    /// Index of its colour.
    series: usize,
    pub name: &'a str,
    pub system: String,
    pub row: &'a RowAnalysis,
}

/// Returns every row with its name and colour.
pub(super) fn labelled<'a>(analysis: &'a Analysis, names: &'a [String]) -> Vec<Labelled<'a>> {
    let rows = names.iter().zip(&analysis.rows).enumerate();
    rows.map(|(series, (name, row))| Labelled {
        series,
        name,
        system: system_title(&row.planned.row.job.system),
        row,
    })
    .collect()
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
    let target = learning::target(claims);
    let verdicts = &analysis.summary.verdicts;
    let charts = [
        pareto::time_against_cost(rows, verdicts, platform),
        learning::accuracy_by_time(rows, target, provenance),
        learning::accuracy_by_cost(rows, target),
        breakdowns::stages(rows),
        breakdowns::costs(rows),
        breakdowns::traffic(rows),
        learning::loss(rows),
    ];
    charts.into_iter().flatten().collect()
}
