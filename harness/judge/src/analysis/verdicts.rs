//! Verdicts on printed figures: what a row observes beside a cell of a paper.

use epochcost_platform::{Site, site_of};
use epochcost_record::{Manifest, SimulationRecord};
use epochcost_spec::claims::{
    Band, Cause, Claim, ClaimKind, Estimate, Metric, Printed, Scale, VerdictKind,
};

use super::RowAnalysis;
use super::agreement;
use super::basis;
use super::causes::Effect;
use super::evidence::{self, Figure};
use super::rules::{Circumstances, decide, incomparable};
use super::summary::Verdict;
use super::work::is_cpu_for_gpu;

/// The rows of a run, as the claims see them.
pub(super) struct Judge<'a> {
    pub rows: &'a [RowAnalysis],
    pub claims: &'a [Claim],
    pub manifest: &'a Manifest,
}

impl Judge<'_> {
    /// Returns the verdicts on a claim: one for a printed figure, one for each place of a formula. Of a
    /// rehearsal nothing is expected but that this program works.
    pub fn judge(&self, claim: &Claim) -> Vec<Verdict> {
        let mut verdicts = self.verdicts(claim);
        if self.manifest.rehearsed && claim.kind != ClaimKind::Check {
            let all = verdicts.iter_mut();
            all.for_each(|verdict| verdict.expect = None);
        }
        verdicts
    }

    fn verdicts(&self, claim: &Claim) -> Vec<Verdict> {
        if let Some(formula) = &claim.formula {
            return self.judge_formula(claim, formula);
        }
        let found = claim.printed.as_ref().zip(claim.metric);
        let row = found.and_then(|(printed, _)| self.row(&printed.row));
        let (Some((printed, metric)), Some(row)) = (found, row) else {
            return vec![not_run(claim, "this run has no such row")];
        };
        vec![self.judge_printed(claim, (printed, metric), row)]
    }

    pub(super) fn row(&self, id: &str) -> Option<&RowAnalysis> {
        self.rows.iter().find(|row| row.planned.row.id == id)
    }

    fn judge_printed(
        &self,
        claim: &Claim,
        (printed, metric): (&Printed, Metric),
        row: &RowAnalysis,
    ) -> Verdict {
        let figure = (metric, claim.target);
        let scale = claim.scale().unwrap_or(Scale::NONE);
        let drawn = agreement::values(row, figure).ok();
        let drawn: Option<Vec<f64>> = drawn.map(|all| all.iter().copied().flatten().collect());
        let mut observed = row.observe_figure(figure).scaled(scale);
        if let Some(drawn) = drawn.as_deref().filter(|drawn| drawn.len() > 1) {
            observed.ci95 = Estimate::of_samples(drawn).scaled(scale).ci95;
        }
        let at = self.circumstances(&[row]);
        let obstacle = self.obstacle_of(&[(row.planned.row.id.as_str(), figure)], &[row]);
        let mut evidence = None;
        let (kind, reason) = match obstacle {
            Some(obstacle) => obstacle,
            None => {
                let told = tell(metric, printed, observed, drawn.as_deref(), row.is_sampled);
                evidence = told.evidence;
                decide(claim, self.claims, &[figure], (told.kind, told.reason), &at)
            }
        };
        let is_comparable = incomparable(claim, &[figure], &at).is_none();
        let is_here = site_of(&self.manifest.platform) == Some(Site::ThisMachine);
        let is_open = kind == VerdictKind::Open && is_comparable && is_here && observed.n > 1;
        let id = row.planned.row.id.clone();
        Verdict {
            undecided_rows: is_open.then(|| id.clone()).into_iter().collect(),
            causes: self.effects(claim, printed, figure, observed),
            evidence: evidence.filter(|_| is_comparable),
            ..verdict(claim, Some(id), observed, kind, reason)
        }
    }

    /// Returns what each cause does to the figure, of which the claim's row has `base`.
    fn effects(
        &self,
        claim: &Claim,
        printed: &Printed,
        figure: agreement::Figure,
        base: Estimate,
    ) -> Vec<Effect> {
        let scale = claim.scale().unwrap_or(Scale::NONE);
        let effect = |cause: &Cause| {
            let found = self.row(&cause.row);
            let observed = found.map(|row| row.observe_figure(figure).scaled(scale));
            Effect::new(printed.value, cause, base, observed.unwrap_or_default())
        };
        printed.causes.iter().map(effect).collect()
    }

    /// Returns what decides a verdict beside the observed value.
    pub(super) fn circumstances(&self, rows: &[&RowAnalysis]) -> Circumstances {
        let record = self.simulation();
        let datasets = rows.iter().map(|row| &row.planned.row.job.data.dataset);
        let mut datasets = datasets.filter(|dataset| self.generated(dataset));
        let on_cpu = rows.iter().find(|row| is_cpu_for_gpu(row));
        let others = rows.iter().find(|row| !is_cpu_for_gpu(row));
        Circumstances {
            rehearsed: self.manifest.rehearsed,
            is_one_seed: rows.iter().any(|row| row.succeeded().count() == 1),
            generated: datasets.next().cloned(),
            machine: self.one_machine(),
            simulated: record.is_some(),
            fits: record.map_or_else(Vec::new, |record| basis::fits(rows, record)),
            on_cpu: others.and(on_cpu).map(|row| row.planned.row.id.clone()),
        }
    }

    /// Returns the one machine whose seconds these are, if they are of no
    /// cloud.
    pub(super) fn one_machine(&self) -> Option<String> {
        match (site_of(&self.manifest.platform), self.simulation()) {
            (Some(Site::ThisMachine), _) => Some("this machine and its loopback network".into()),
            (_, Some(record)) if record.is_one_host() => {
                Some(format!("the one machine of the profile {}", record.profile))
            }
            _ => None,
        }
    }

    fn simulation(&self) -> Option<&SimulationRecord> {
        self.manifest.simulation.as_ref()
    }

    /// Returns how many draws rankings are judged over; 0 without draws.
    pub(super) fn draws(&self) -> u32 {
        self.simulation().map_or(0, |record| record.draws)
    }

    /// Returns whether a dataset is, or must be taken for, a generated one.
    fn generated(&self, dataset: &str) -> bool {
        let mut records = self.manifest.datasets.iter();
        let found = records.find(|record| record.name == dataset);
        found.is_none_or(|record| record.generated)
    }

    /// Returns why a row does not have a figure.
    pub(super) fn missing(
        &self,
        (metric, target): agreement::Figure,
        row: &RowAnalysis,
    ) -> (VerdictKind, String) {
        let trains = self.simulation().is_none_or(|record| record.real_compute);
        let is_learned = metric.is_learned();
        let reason = match (row.trials.len(), row.succeeded().count(), target) {
            (0, ..) => "no trial of this row was run".into(),
            (run, 0, _) => format!("{run} of {run} trials of this row failed"),
            _ if is_learned && !trains => NOTHING_TRAINED.into(),
            (.., Some(target)) => return not_reached(row, target),
            _ => "the figure was not recorded".into(),
        };
        (VerdictKind::NotRun, reason)
    }
}

const NOTHING_TRAINED: &str =
    "nothing was trained: only sizes were simulated (`real_compute: true` trains)";

/// Returns the verdict on a trial that ends before it is accurate enough: it
/// takes longer, not how long.
fn not_reached(row: &RowAnalysis, target: f64) -> (VerdictKind, String) {
    let best = row.succeeded().map(|trial| trial.best_accuracy());
    let reason = match best.collect::<Option<Vec<f64>>>() {
        None => return (VerdictKind::NotRun, "no accuracy was recorded".into()),
        Some(best) => format!(
            "{:.1} % accuracy was not reached in {} epochs: the best of a trial was {:.1} % at least",
            100.0 * target,
            row.planned.row.job.epochs,
            100.0 * best.into_iter().fold(f64::INFINITY, f64::min),
        ),
    };
    (VerdictKind::Open, reason)
}

/// What an observed value says of a printed one, whatever it rests on.
pub(super) struct Told {
    pub kind: VerdictKind,
    pub reason: String,
    /// How much likelier the printed figure is if the paper is right than if it is off by two.
    pub evidence: Option<f64>,
}

/// Compares an observed value with a printed one.
fn tell(
    metric: Metric,
    printed: &Printed,
    observed: Estimate,
    drawn: Option<&[f64]>,
    is_sampled: bool,
) -> Told {
    let is_percentage = printed.unit == "%";
    // Draws give how far constants move a figure; trials how far their mean may lie off.
    let of_trials = || {
        let [low, high] = observed.ci95?;
        let mean = observed.mean.filter(|mean| *mean > 0.0)?;
        let deviation = (high - low) / if is_sampled { 4.0 } else { 3.92 };
        Some(deviation / if is_percentage { 1.0 } else { mean })
    };
    let spread = match drawn {
        Some(drawn) => evidence::spread(drawn, is_percentage),
        None => of_trials(),
    };
    let printed = (printed.value, printed.half_digit);
    told(metric, printed, observed, spread, is_percentage)
}

/// Returns what an observed value with that spread says of a printed one.
pub(super) fn told(
    metric: Metric,
    (printed, half_digit): (f64, f64),
    observed: Estimate,
    spread: Option<f64>,
    is_percentage: bool,
) -> Told {
    let open = |reason: &str| Told {
        kind: VerdictKind::Open,
        reason: reason.to_owned(),
        evidence: None,
    };
    let Some(mean) = observed.mean else {
        return open("the figure was not recorded");
    };
    // Bytes and counts follow from the system.
    if !metric.is_of_machine() && !metric.is_learned() {
        let is_equal = (mean - printed).abs() <= half_digit.max(1e-9 * printed.abs());
        let (kind, outcome) = if is_equal {
            (VerdictKind::Agrees, "equal")
        } else {
            (VerdictKind::Differs, "not equal")
        };
        return Told {
            kind,
            ..open(&format!("a count, {outcome}"))
        };
    }
    let Some(spread) = spread else {
        return open(match observed.n {
            1 => "one trial, of which nothing is drawn: how far it may lie off is not known",
            _ => "how far the figure may lie off is not known",
        });
    };
    let figure = Figure {
        printed,
        half_digit,
        observed: mean,
        spread,
        is_percentage,
    };
    let Some(evidence) = figure.evidence() else {
        return open("a figure of 0 is no factor of another");
    };
    Told {
        kind: evidence::word(evidence),
        reason: reason(&figure, evidence),
        evidence: Some(evidence),
    }
}

/// Says how likely a printed figure is, and the same if the model errs more.
fn reason(figure: &Figure, evidence: f64) -> String {
    let odds = |evidence: f64| match evidence {
        _ if evidence >= 1000.0 => "over 1000 : 1 for".to_owned(),
        _ if evidence >= 1.0 => format!("{evidence:.1} : 1 for"),
        _ if evidence > 1e-3 => format!("1 : {:.1} against", 1.0 / evidence),
        _ => "over 1 : 1000 against".to_owned(),
    };
    let (wrong, model) = if figure.is_percentage {
        let wrong = format!("{} points off", evidence::OFF_POINTS);
        (wrong, format!("{} point", evidence::MODEL_POINTS))
    } else {
        let wrong = "off by a factor of two".to_owned();
        (wrong, format!("{:.0} %", 100.0 * evidence::MODEL))
    };
    let [twice, four] = [2.0, 4.0].map(|by| figure.with_model(by).map_or(String::new(), odds));
    format!(
        "{} the figure rather than one {wrong}, if the model is right within {model} (twice that: \
         {twice}; four times: {four})",
        odds(evidence)
    )
}

/// Returns whether the 95 % interval of the observed value lies neither inside the band nor
/// wholly beside it.
pub(super) fn crosses(band: Band, observed: Estimate) -> bool {
    let Some([low, high]) = observed.ci95 else {
        return false;
    };
    let is_inside = band.contains(low) && band.contains(high);
    let is_beside =
        band.high.is_some_and(|end| low > end) || band.low.is_some_and(|end| high < end);
    !is_inside && !is_beside
}

/// Compares an observed value with a band.
pub(super) fn within(band: Band, observed: Estimate, is_sampled: bool) -> (VerdictKind, String) {
    let Some(mean) = observed.mean else {
        return (VerdictKind::NotRun, "the figure was not recorded".into());
    };
    if crosses(band, observed) {
        let reason = if is_sampled {
            "the ranges of the profile's constants reach across an edge of the band"
        } else {
            "the 95 % interval crosses an edge of the band: more trials would decide"
        };
        return (VerdictKind::Open, reason.into());
    }
    let trials = match observed.n {
        1 => "one trial, so without an interval".to_owned(),
        n => format!("{n} trials"),
    };
    if band.contains(mean) {
        return (VerdictKind::Agrees, format!("inside the band ({trials})"));
    }
    (VerdictKind::Differs, format!("outside the band ({trials})"))
}

/// Returns an observed value over a published one; none where that is no number.
pub(super) fn ratio(observed: Option<f64>, published: Option<f64>) -> Option<f64> {
    let both = observed.zip(published);
    let ratio = both.map(|(observed, published)| observed / published);
    ratio.filter(|ratio| ratio.is_finite())
}

pub(super) fn verdict(
    claim: &Claim,
    row: Option<String>,
    observed: Estimate,
    kind: VerdictKind,
    reason: String,
) -> Verdict {
    let printed = claim.printed.as_ref();
    let published = printed.map(|printed| printed.value);
    let unit = match (printed, claim.metric) {
        (Some(printed), _) => &printed.unit,
        (None, Some(metric)) => metric.unit(),
        (None, None) => "",
    };
    Verdict {
        claim: claim.claim.clone(),
        kind: claim.kind,
        of: claim.of.clone(),
        statement: claim.counted_as(),
        reading_of: claim.reading_of.clone(),
        row,
        ranking: false,
        metric: claim.metric,
        unit: unit.to_owned(),
        source: claim.source.clone(),
        cell: printed.map(|printed| printed.cell.clone()),
        published,
        observed: observed.mean,
        observed_ci95: observed.ci95,
        ratio: ratio(observed.mean, published),
        evidence: None,
        band: [None, None],
        verdict: kind,
        expect: claim.expect,
        note: claim.note.clone(),
        draws: None,
        undecided_rows: Vec::new(),
        reason,
        causes: Vec::new(),
    }
}

/// Returns the verdict on a claim of an experiment that was not run.
pub(crate) fn not_run(claim: &Claim, reason: &str) -> Verdict {
    let (observed, kind) = (Estimate::default(), VerdictKind::NotRun);
    verdict(claim, None, observed, kind, reason.to_owned())
}
