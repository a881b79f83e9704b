//! Verdicts from claims and figures.

use super::RowAnalysis;
use super::agreement;
use super::basis;
use super::causes::Effect;
use super::leads;
use super::rules::{Circumstances, decide, incomparable};
use super::summary::{Change, Predicted, Verdict};
use crate::claims::{
    Band, Cause, Claim, Estimate, Metric, Prediction, Scale, Selector, VerdictKind, fill, matches,
};
use crate::platform::{Site, site_of};
use crate::results::{Manifest, SimulationRecord};

/// The rows of a run, as the claims see them.
pub(super) struct Judge<'a> {
    pub rows: &'a [RowAnalysis],
    pub claims: &'a [Claim],
    pub manifest: &'a Manifest,
}

impl Judge<'_> {
    /// Returns one verdict for each row that the claim selects, or one that
    /// says that there is none.
    pub fn judge(&self, claim: &Claim) -> Vec<Verdict> {
        if let Some(formula) = &claim.formula {
            return self.judge_formula(claim, formula);
        }
        if let Some(reason) = &claim.not_run {
            let nothing = Estimate::default();
            return vec![verdict(
                claim,
                None,
                nothing,
                VerdictKind::NotRun,
                reason.clone(),
            )];
        }
        let selected: Vec<&RowAnalysis> = self
            .rows
            .iter()
            .filter(|row| matches(&claim.select, &row.planned.row))
            .collect();
        if selected.is_empty() {
            let reason = "this run has no such row".to_owned();
            return vec![verdict(
                claim,
                None,
                Estimate::default(),
                VerdictKind::NotRun,
                reason,
            )];
        }
        selected
            .into_iter()
            .map(|row| self.judge_row(claim, row))
            .collect()
    }

    fn judge_row(&self, claim: &Claim, row: &RowAnalysis) -> Verdict {
        let id = Some(row.planned.row.id.clone());
        let (rows, observed) = match self.observe(claim, row) {
            Ok(observed) => observed,
            Err(reason) => {
                return verdict(claim, id, Estimate::default(), VerdictKind::NotRun, reason);
            }
        };
        let at = self.circumstances(claim, &rows);
        let (kind, reason) = match self.obstacle(claim, &rows, observed) {
            Some(obstacle) => obstacle,
            None => decide(claim, self.claims, observed, &at),
        };
        // More trials decide nothing where the figures cannot be compared.
        let is_open = kind == VerdictKind::Undecided
            && crosses(claim.band(), observed)
            && incomparable(claim, observed, &at).is_none()
            && site_of(&self.manifest.platform) == Some(Site::ThisMachine);
        let ids = rows.iter().map(|row| row.planned.row.id.clone());
        Verdict {
            undecided_rows: ids.filter(|_| is_open).collect(),
            causes: self.effects(claim, row, observed),
            draws: agreement::of(claim, &rows, self.draws())
                .filter(|_| observed.mean.is_some())
                .and_then(Result::ok),
            ..verdict(claim, id, observed, kind, reason)
        }
    }

    /// Returns the claim's figure of `row`, in the claim's unit, with the rows
    /// that it is computed from: `row` and what it is divided by.
    fn observe<'r>(
        &'r self,
        claim: &Claim,
        row: &'r RowAnalysis,
    ) -> Result<(Vec<&'r RowAnalysis>, Estimate), String> {
        let (mut rows, mut observed) = (vec![row], row.observe(claim));
        if let Some(over) = &claim.over {
            let divisor = self.other(over, row).map_err(|found| match found {
                0 => "this run has no row to divide by".to_owned(),
                _ => "more than one row could be divided by: name it in `over`".to_owned(),
            })?;
            observed = row.observe_over(claim, divisor);
            rows.push(divisor);
        }
        Ok((rows, observed.scaled(claim.scale().unwrap_or(Scale::NONE))))
    }

    /// Returns what each cause does to the claim's figure, of which `row` has
    /// `base`.
    fn effects(&self, claim: &Claim, row: &RowAnalysis, base: Estimate) -> Vec<Effect> {
        let effect = |cause: &Cause| {
            let found = self.other(&cause.select, row).ok();
            let observed = found.and_then(|other| self.observe(claim, other).ok());
            let observed = observed.map_or_else(Estimate::default, |(_, observed)| observed);
            let id = found.map(|other| other.planned.row.id.as_str());
            Effect::new(claim, cause, id, base, observed)
        };
        claim.causes.iter().map(effect).collect()
    }

    /// Returns the one row that `selector` selects, with what it leaves out as
    /// in `row`; else, how many it could be.
    fn other(&self, selector: &Selector, row: &RowAnalysis) -> Result<&RowAnalysis, usize> {
        let filled = fill(selector, &row.planned.row);
        let found = self.rows.iter();
        let found: Vec<_> = found
            .filter(|other| matches(&filled, &other.planned.row))
            .collect();
        match found.as_slice() {
            [one] => Ok(one),
            several => Err(several.len()),
        }
    }

    /// Returns what keeps the two figures from being compared at all; `rows`
    /// are the selected one and what it is divided by.
    fn obstacle(
        &self,
        claim: &Claim,
        rows: &[&RowAnalysis],
        observed: Estimate,
    ) -> Option<(VerdictKind, String)> {
        let row = rows.first()?;
        if let Some(why) = rows.iter().find_map(|row| row.planned.infeasible.clone()) {
            return Some((VerdictKind::Infeasible, why));
        }
        if observed.mean.is_none() {
            let lacks = |(place, row): &(usize, &&RowAnalysis)| match *place {
                0 => row.observe(claim).mean.is_none(),
                _ => row.observe_divisor(claim).mean.is_none(),
            };
            let of = rows.iter().enumerate().find(lacks);
            let row = of.map_or(row, |(_, row)| row);
            return Some(self.missing(claim.metric, claim.target, row));
        }
        None
    }

    /// Returns what decides a verdict beside the observed value; `rows` are the
    /// selected one and what it is divided by.
    fn circumstances(&self, claim: &Claim, rows: &[&RowAnalysis]) -> Circumstances {
        let dataset = rows.first().map(|row| &row.planned.row.job.data.dataset);
        let record = self.simulation();
        let by_draws = agreement::of(claim, rows, self.draws()).map(agreement::verdict);
        Circumstances {
            lead: leads::of(claim, rows),
            is_one_seed: rows.iter().any(|row| row.succeeded().count() == 1),
            is_sampled: rows.iter().any(|row| row.is_sampled),
            generated: dataset.filter(|dataset| self.generated(dataset)).cloned(),
            machine: self.one_machine(),
            fits: record.map_or_else(Vec::new, |record| {
                basis::fits(rows, record, by_draws.is_some())
            }),
            held_out: record.map_or_else(Vec::new, |record| record.held_out.clone()),
            decided: by_draws,
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
        let found = self
            .manifest
            .datasets
            .iter()
            .find(|record| record.name == dataset);
        found.is_none_or(|record| record.generated)
    }

    /// Returns why a row does not have a figure.
    pub(super) fn missing(
        &self,
        metric: Option<Metric>,
        target: Option<f64>,
        row: &RowAnalysis,
    ) -> (VerdictKind, String) {
        let trains = self.simulation().is_none_or(|record| record.real_compute);
        let is_learned = metric.is_some_and(Metric::is_learned);
        let reason = match (row.trials.len(), row.succeeded().count(), target) {
            (0, ..) => "no trial of this row was run".into(),
            (run, 0, _) => format!("{run} of {run} trials of this row failed"),
            _ if is_learned && !trains => {
                "nothing was trained: only sizes were simulated (`real_compute: true` trains)"
                    .into()
            }
            (.., Some(target)) => return not_reached(row, target),
            _ => "the figure was not recorded".into(),
        };
        (VerdictKind::NotRun, reason)
    }
}

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
    (VerdictKind::Undecided, reason)
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

/// Compares the observed value with the band, whatever else decides the verdict.
pub(super) fn compare(
    claim: &Claim,
    observed: Estimate,
    is_sampled: bool,
) -> (VerdictKind, String) {
    let found = within(claim.band(), observed, is_sampled);
    let (VerdictKind::NotReproduced, Some(mean)) = (found.0, observed.mean) else {
        return found;
    };
    // A ratio of 1 says that the two are equal, in whatever unit it is given.
    let equal = claim.scale().unwrap_or(Scale::NONE).apply(1.0);
    let same_side = |published: f64| (published > equal) == (mean > equal) && mean != equal;
    if claim.over.is_some() && claim.published.is_some_and(same_side) {
        let reason = found
            .1
            .replacen("outside", "the same side of 1, outside", 1);
        return (VerdictKind::DirectionOnly, reason);
    }
    found
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
        return (VerdictKind::Undecided, reason.into());
    }
    let trials = match observed.n {
        1 => "one trial, so without an interval".to_owned(),
        n => format!("{n} trials"),
    };
    if band.contains(mean) {
        return (
            VerdictKind::Reproduced,
            format!("inside the band ({trials})"),
        );
    }
    (
        VerdictKind::NotReproduced,
        format!("outside the band ({trials})"),
    )
}

pub(super) fn verdict(
    claim: &Claim,
    row: Option<String>,
    observed: Estimate,
    kind: VerdictKind,
    reason: String,
) -> Verdict {
    let explanation = claim.explanation.as_ref();
    let disagrees = matches!(
        kind,
        VerdictKind::NotReproduced | VerdictKind::DirectionOnly
    );
    let reason = match explanation.filter(|_| claim.expect == Some(kind)) {
        Some(explanation) => format!("{reason}. {}", explanation.text),
        None if disagrees => format!("{reason}; unexplained"),
        None => reason,
    };
    let band = claim.band();
    let ratio = observed
        .mean
        .zip(claim.published)
        .map(|(observed, published)| observed / published);
    Verdict {
        claim: claim.claim.clone(),
        kind: claim.kind,
        of: claim.of.clone(),
        statement: claim.counted_as(),
        row,
        ranking: claim.is_ranking(),
        metric: claim.metric,
        unit: claim.unit().to_owned(),
        source: claim.source.clone(),
        cell: claim.cell.clone(),
        published: claim.published,
        observed: observed.mean,
        observed_ci95: observed.ci95,
        ratio: ratio.filter(|ratio| ratio.is_finite()),
        band: [band.low, band.high],
        verdict: kind,
        expect: claim.expect,
        evidence: explanation.map_or_else(Vec::new, |explanation| explanation.evidence.clone()),
        predicted: claim.history.last().map(|last| Predicted {
            date: last.date.clone(),
            known: last.known,
        }),
        changes: changes(claim),
        draws: None,
        undecided_rows: Vec::new(),
        reason,
        causes: Vec::new(),
    }
}

/// Returns every change of a claim's terms that the ledger records.
fn changes(claim: &Claim) -> Vec<Change> {
    let pairs = claim.history.windows(2);
    let change = |pair: &[Prediction]| {
        let [old, new] = pair else { return None };
        Some(Change {
            date: new.date.clone(),
            known: new.known,
            what: new.changes_since(old),
            why: new.why.clone(),
        })
    };
    pairs.filter_map(change).collect()
}

/// Returns the verdict on a claim of an experiment that was not run.
pub(crate) fn not_run(claim: &Claim, reason: &str) -> Verdict {
    verdict(
        claim,
        None,
        Estimate::default(),
        VerdictKind::NotRun,
        reason.to_owned(),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn kind(claim: &str, mean: f64, ci95: Option<[f64; 2]>) -> VerdictKind {
        let claim: Claim = serde_json::from_str(claim).unwrap();
        let n = if ci95.is_some() { 3 } else { 1 };
        let observed = Estimate {
            mean: Some(mean),
            ci95,
            n,
        };
        compare(&claim, observed, false).0
    }

    const FACTOR: &str = r#"{"claim": "c", "kind": "published", "select": {}, "over": {}, "metric": "bytes",
        "published": 13, "tolerance": 0.2}"#;

    #[test]
    fn a_factor_on_the_published_side_of_one_keeps_its_direction() {
        assert_eq!(kind(FACTOR, 12.0, None), VerdictKind::Reproduced);
        assert_eq!(kind(FACTOR, 2.0, None), VerdictKind::DirectionOnly);
        assert_eq!(kind(FACTOR, 0.5, None), VerdictKind::NotReproduced);
        assert_eq!(kind(FACTOR, 1.0, None), VerdictKind::NotReproduced);
        let plain = FACTOR.replace(r#""over": {}, "#, "");
        assert_eq!(kind(&plain, 2.0, None), VerdictKind::NotReproduced);
    }

    /// An interval that holds the whole band reaches across both of its edges, although
    /// its ends and its mean lie outside.
    #[test]
    fn an_interval_around_the_band_decides_nothing() {
        assert_eq!(
            kind(FACTOR, 16.0, Some([6.0, 26.0])),
            VerdictKind::Undecided
        );
        assert_eq!(
            kind(FACTOR, 16.0, Some([15.7, 26.0])),
            VerdictKind::DirectionOnly
        );
    }

    #[test]
    fn an_interval_across_an_edge_decides_nothing() {
        assert_eq!(
            kind(FACTOR, 12.0, Some([11.0, 13.0])),
            VerdictKind::Reproduced
        );
        assert_eq!(
            kind(FACTOR, 12.0, Some([9.0, 15.0])),
            VerdictKind::Undecided
        );
        assert_eq!(kind(FACTOR, 9.0, Some([7.0, 11.0])), VerdictKind::Undecided);
        assert_eq!(
            kind(FACTOR, 5.0, Some([4.0, 6.0])),
            VerdictKind::DirectionOnly
        );
    }
}
