//! What a report says, made once and shown as HTML and as Markdown.

use std::collections::BTreeMap;

use serde::Serialize;

use super::causes;
use super::charts::{self, Chart};
use super::format::{self, UNKNOWN};
use super::names::names;
use super::provenance::{self, Provenance};
use super::simulation::SimulationView;
use crate::analysis::claims::Word;
use crate::analysis::summary::{RowSummary, TrafficMeans, Verdict};
use crate::analysis::{Analysis, RowAnalysis, TrialAnalysis};
use crate::cost::{Bill, LineItem};
use crate::results::RunDirectory;

/// Everything that the templates show; texts are not yet escaped.
#[derive(Debug, Serialize)]
pub(super) struct View {
    pub title: String,
    pub run_id: String,
    pub provenance: Provenance,
    /// Behind headings; empty where every figure was measured.
    pub tag: &'static str,
    pub headline: String,
    pub strip: Vec<StripItem>,
    pub summary: Vec<SummaryLine>,
    pub charts: Vec<Chart>,
    pub verdicts: Vec<VerdictLine>,
    pub stages: Vec<StageLine>,
    pub bills: Vec<BillLine>,
    pub traffic: Vec<TrafficLine>,
    pub trials: Vec<TrialLine>,
    pub warnings: Vec<String>,
    pub simulation: Option<SimulationView>,
    pub facts: Vec<Fact>,
    pub money: &'static str,
    /// What stands behind a mean.
    pub interval: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct StripItem {
    pub class: &'static str,
    pub sign: &'static str,
    pub word: String,
    pub count: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct SummaryLine {
    pub name: String,
    pub fidelity: &'static str,
    pub setting: String,
    pub seconds: String,
    pub cost_paper: String,
    pub cost_full: String,
    pub billed: String,
    pub peak_memory: String,
    pub bytes: String,
    pub loss: String,
    pub accuracy: String,
    pub replicas: String,
    pub trials: String,
    pub failed: bool,
    pub infeasible: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct VerdictLine {
    pub class: &'static str,
    pub sign: &'static str,
    pub word: String,
    pub unexpected: bool,
    pub claim: String,
    pub row: String,
    pub source: String,
    pub published: String,
    pub observed: String,
    pub interval: String,
    pub ratio: String,
    pub band: String,
    pub reason: String,
    /// What accounts for the gap, a line a cause.
    pub causes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct StageLine {
    pub name: String,
    pub cells: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct BillLine {
    pub name: String,
    pub account: &'static str,
    pub dimension: String,
    pub quantity: String,
    pub unit: String,
    pub price: String,
    pub usd: String,
}

#[derive(Debug, Serialize)]
pub(super) struct TrafficLine {
    pub name: String,
    pub cells: Vec<String>,
    pub expected: Vec<String>,
    pub agrees: String,
    pub differs: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct TrialLine {
    pub name: String,
    pub trial: usize,
    pub seed: String,
    pub seconds: String,
    pub wall: String,
    pub cost: String,
    pub cold: String,
    pub cpu: String,
    pub loss: String,
    pub accuracy: String,
    pub failure: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Fact {
    pub name: &'static str,
    pub value: String,
}

impl View {
    pub(super) fn new(run: &RunDirectory, analysis: &Analysis) -> Self {
        let names = names(&analysis.summary.rows);
        let manifest = run.manifest();
        let provenance = Provenance::of_platform(&manifest.platform);
        let rows = || names.iter().zip(&analysis.rows);
        let summaries = || names.iter().zip(&analysis.summary.rows);
        Self {
            title: manifest.experiment.clone(),
            run_id: manifest.run_id.clone(),
            provenance,
            tag: match provenance {
                Provenance::Simulated => "simulated",
                _ => "",
            },
            headline: provenance::headline(manifest),
            strip: strip(analysis),
            summary: summaries()
                .zip(&analysis.rows)
                .map(|((name, row), trials)| summary_line(name, row, trials))
                .collect(),
            charts: charts::all(analysis, &names, &manifest.platform),
            verdicts: analysis
                .summary
                .verdicts
                .iter()
                .map(|verdict| verdict_line(verdict, &names, &analysis.summary.rows))
                .collect(),
            stages: rows().map(|(name, row)| stage_line(name, row)).collect(),
            bills: rows()
                .flat_map(|(name, row)| bill_lines(name, row))
                .collect(),
            traffic: summaries()
                .map(|(name, row)| traffic_line(name, row))
                .collect(),
            trials: rows()
                .flat_map(|(name, row)| trial_lines(name, row))
                .collect(),
            warnings: analysis.warnings.clone(),
            simulation: manifest.simulation.as_ref().map(SimulationView::of),
            facts: super::facts::facts(run),
            money: provenance::money(manifest),
            interval: provenance::interval(manifest),
        }
    }
}

/// The class and sign of a verdict's word: no verdict is told by colour alone.
pub(super) fn look(word: Word) -> (&'static str, &'static str) {
    match word {
        Word::Reproduced => ("good", "✓"),
        Word::DirectionOnly => ("fair", "≈"),
        Word::NotReproduced => ("bad", "✗"),
        Word::Undecided => ("open", "?"),
        Word::ByConstruction => ("open", "="),
        Word::NotRun => ("none", "○"),
        Word::Infeasible => ("none", "∅"),
    }
}

/// One item for each word that was given, with its count.
pub(super) fn strip_of(counts: &BTreeMap<Word, usize>) -> Vec<StripItem> {
    let counted = Word::ALL.map(|word| (word, counts.get(&word).copied().unwrap_or(0)));
    let item = |(word, count): (Word, usize)| {
        let (class, sign) = look(word);
        StripItem {
            class,
            sign,
            word: word.as_str().into(),
            count,
        }
    };
    let given = counted.into_iter().filter(|(_, count)| *count > 0);
    given.map(item).collect()
}

fn strip(analysis: &Analysis) -> Vec<StripItem> {
    let mut counts: BTreeMap<Word, usize> = BTreeMap::new();
    for verdict in &analysis.summary.verdicts {
        *counts.entry(verdict.verdict).or_default() += 1;
    }
    let mut strip = strip_of(&counts);
    let rows = &analysis.summary.rows;
    let failed: usize = rows.iter().map(|row| row.failed_trials).sum();
    let done: usize = rows.iter().map(|row| row.trials - row.failed_trials).sum();
    let item = |class, sign, count, one: &str, many: &str| StripItem {
        class,
        sign,
        word: if count == 1 { one } else { many }.into(),
        count,
    };
    strip.push(item("plain", "●", done, "trial done", "trials done"));
    if failed > 0 {
        strip.push(item("bad", "✗", failed, "trial failed", "trials failed"));
    }
    let infeasible = rows.iter().filter(|row| row.infeasible.is_some()).count();
    if infeasible > 0 {
        let (class, sign) = look(Word::Infeasible);
        strip.push(item(
            class,
            sign,
            infeasible,
            "infeasible row",
            "infeasible rows",
        ));
    }
    strip
}

fn summary_line(name: &str, row: &RowSummary, trials: &RowAnalysis) -> SummaryLine {
    let may_differ = trials
        .succeeded()
        .any(|trial| trial.trial.replicas_may_differ.is_some());
    SummaryLine {
        name: name.to_owned(),
        fidelity: row.fidelity.as_str(),
        setting: format!(
            "{}, {}, W = {}, batch {}, {} × {} batches{}",
            row.model,
            row.dataset,
            row.workers,
            row.batch_size,
            row.epochs,
            row.batches_per_worker,
            row.memory_mb
                .map_or(String::new(), |mb| format!(", {mb} MB"))
        ),
        seconds: format::estimate(row.seconds_per_epoch),
        cost_paper: format::or_unknown(row.cost_paper_usd, format::usd),
        cost_full: format::or_unknown(row.cost_full_usd, format::usd),
        billed: format::or_unknown(row.billed_ms, |ms| format::seconds(ms / 1e3)),
        peak_memory: format::or_unknown(row.peak_memory_mb, |mb| format!("{mb:.0} MB")),
        bytes: format::or_unknown(row.traffic.bytes(), format::bytes),
        loss: format::or_unknown(row.train_loss, format::number),
        accuracy: format::or_unknown(row.accuracy, format::percent),
        replicas: match row.replicas_identical {
            Some(false) if may_differ => "no, need not be".into(),
            known => format::yes(known),
        },
        trials: match (row.failed_trials, &row.infeasible) {
            (0, Some(_)) => "infeasible".into(),
            (0, None) => row.trials.to_string(),
            (failed, _) => format!("{}, {failed} failed", row.trials),
        },
        failed: row.failed_trials > 0,
        infeasible: row.infeasible.clone(),
    }
}

/// A verdict as people read it; `names` are those of `rows`.
pub(super) fn verdict_line(
    verdict: &Verdict,
    names: &[String],
    rows: &[RowSummary],
) -> VerdictLine {
    let (class, sign) = look(verdict.verdict);
    let value = |value: f64| match verdict.unit.as_str() {
        "bytes" => format::bytes(value),
        "USD" => format::usd(value),
        "" => format::number(value),
        unit => format!("{} {unit}", format::number(value)),
    };
    let named = rows
        .iter()
        .zip(names)
        .find(|(row, _)| Some(&row.id) == verdict.row.as_ref());
    let band = match verdict.band {
        [Some(low), Some(high)] => format!("{} to {}", value(low), value(high)),
        [Some(low), None] => format!("at least {}", value(low)),
        [None, Some(high)] => format!("at most {}", value(high)),
        [None, None] => UNKNOWN.into(),
    };
    let interval = verdict.observed_ci95.map_or(String::new(), |[low, high]| {
        format!("{} to {}", format::number(low), format::number(high))
    });
    let unexpected = !verdict.holds();
    let reason = match verdict.expect {
        Some(word) if unexpected => format!("expected: {word}; {}", verdict.reason),
        _ => verdict.reason.clone(),
    };
    VerdictLine {
        class,
        sign,
        word: verdict.verdict.as_str().into(),
        unexpected,
        claim: verdict.claim.clone(),
        row: named.map_or_else(|| UNKNOWN.into(), |(_, name)| name.clone()),
        source: verdict.source.clone().unwrap_or_default(),
        published: format::or_unknown(verdict.published, value),
        observed: format::or_unknown(verdict.observed, value),
        interval,
        ratio: format::or_unknown(verdict.ratio, format::number),
        band,
        reason,
        causes: (verdict.causes.iter())
            .map(|effect| causes::line(effect, value))
            .collect(),
    }
}

fn stage_line(name: &str, row: &RowAnalysis) -> StageLine {
    let cells = charts::STAGES
        .iter()
        .flat_map(|(_, parts)| parts.iter())
        .map(|(_, seconds)| format::or_unknown(row.stage(seconds), format::seconds))
        .collect();
    StageLine {
        name: name.to_owned(),
        cells,
    }
}

/// Mean bills of a row, line by line.
fn bill_lines(name: &str, row: &RowAnalysis) -> Vec<BillLine> {
    let of = |account: &'static str, bill: fn(&TrialAnalysis) -> &Bill| {
        let items = mean_items(row, bill);
        items.into_iter().map(move |item| BillLine {
            name: name.to_owned(),
            account,
            dimension: item.dimension,
            quantity: format::count(item.quantity),
            unit: item.unit,
            price: format!("${}", item.unit_price_usd),
            usd: format::usd(item.usd),
        })
    };
    of("paper", |trial| &trial.paper)
        .chain(of("full", |trial| &trial.full))
        .collect()
}

/// Each line of the bills of a row's trials, as a mean over all of them.
pub(super) fn mean_items(
    row: &RowAnalysis,
    bill: impl Fn(&TrialAnalysis) -> &Bill,
) -> Vec<LineItem> {
    let trials = row.succeeded().count() as f64;
    let mut items: Vec<LineItem> = Vec::new();
    for item in row.succeeded().flat_map(|trial| &bill(trial).items) {
        let (quantity, usd) = (item.quantity / trials, item.usd / trials);
        match items
            .iter_mut()
            .find(|known| known.dimension == item.dimension)
        {
            Some(known) => {
                known.quantity += quantity;
                known.usd += usd;
            }
            None => items.push(LineItem {
                quantity,
                usd,
                ..item.clone()
            }),
        }
    }
    items
}

fn traffic_line(name: &str, row: &RowSummary) -> TrafficLine {
    let expected = row.closed_form.map(|form| TrafficMeans::of(&[form]));
    let cells = |traffic: &TrafficMeans| {
        let counts = [
            traffic.puts,
            traffic.gets,
            traffic.messages,
            traffic.deliveries,
            traffic.in_store,
        ];
        let mut cells: Vec<String> = counts
            .map(|value| format::or_unknown(value, format::count))
            .into();
        cells.extend(
            [traffic.bytes_up, traffic.bytes_down]
                .map(|value| format::or_unknown(value, format::count)),
        );
        cells
    };
    TrafficLine {
        name: name.to_owned(),
        cells: cells(&row.traffic),
        expected: expected.as_ref().map(cells).unwrap_or_default(),
        agrees: format::yes(row.traffic_matches),
        differs: row.traffic_matches == Some(false),
    }
}

fn trial_lines(name: &str, row: &RowAnalysis) -> Vec<TrialLine> {
    use crate::analysis::claims::Metric;

    row.trials
        .iter()
        .map(|trial| {
            let metric = |metric| trial.metric(metric, &row.planned.row.job);
            TrialLine {
                name: name.to_owned(),
                trial: trial.trial.id.trial,
                seed: trial.trial.seed.to_string(),
                seconds: format::or_unknown(metric(Metric::SecondsPerEpoch), format::number),
                wall: format::seconds(trial.trial.wall_s),
                cost: format::or_unknown(metric(Metric::CostFullUsd), format::usd),
                cold: format!("{} of {}", trial.cold_starts(), trial.invocations.len()),
                cpu: format::or_unknown(trial.cpu_ms(), |ms| format::seconds(ms / 1e3)),
                loss: format::or_unknown(metric(Metric::TrainLoss), format::number),
                accuracy: format::or_unknown(metric(Metric::Accuracy), format::percent),
                failure: trial.trial.failure.clone().unwrap_or_default(),
            }
        })
        .collect()
}
