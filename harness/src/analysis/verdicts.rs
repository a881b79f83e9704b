//! Verdicts from claims and figures.

use epochcost_simulator::profile::ComputeOrigin;

use super::RowAnalysis;
use super::causes::Effect;
use super::summary::Verdict;
use crate::claims::{Cause, Claim, Estimate, Metric, Scale, Selector, VerdictKind, fill, matches};
use crate::platform::{Site, site_of};
use crate::results::{Manifest, SimulationRecord};

/// The rows of a run, as the claims see them.
pub(super) struct Judge<'a> {
    pub rows: &'a [RowAnalysis],
    pub manifest: &'a Manifest,
}

impl Judge<'_> {
    /// Returns one verdict for each row that the claim selects, or one that
    /// says that there is none.
    pub fn judge(&self, claim: &Claim) -> Vec<Verdict> {
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
        let (kind, reason) = match self.obstacle(claim, &rows, observed) {
            Some(obstacle) => obstacle,
            None => self.compare(claim, &rows, observed),
        };
        Verdict {
            causes: self.effects(claim, row, observed),
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
        let (row, metric) = (rows.first()?, claim.metric?);
        if let Some(why) = rows.iter().find_map(|row| row.planned.infeasible.clone()) {
            return Some((VerdictKind::Infeasible, why));
        }
        if observed.mean.is_none() {
            let of = rows.iter().find(|row| row.observe(claim).mean.is_none());
            return Some(self.missing(claim, of.unwrap_or(row)));
        }
        let published = claim.published.is_some();
        if metric.is_learned() && (published || claim.source.is_some()) {
            let dataset = &row.planned.row.job.data.dataset;
            if self.generated(dataset) {
                return Some((
                    VerdictKind::Undecided,
                    on_generated(claim, observed, dataset),
                ));
            }
        }
        let machine = self
            .one_machine()
            .filter(|_| published && metric.is_timed())?;
        let what = if metric.unit() == "USD" {
            "a cost computed from seconds"
        } else {
            "a time"
        };
        let reason = format!("{what} of {machine}: not comparable with one published for AWS");
        Some((VerdictKind::Undecided, reason))
    }

    /// Returns the one machine whose seconds these are, if they are of no
    /// cloud.
    fn one_machine(&self) -> Option<String> {
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

    /// Compares the observed value with the band, unless it is what was put in.
    fn compare(
        &self,
        claim: &Claim,
        rows: &[&RowAnalysis],
        observed: Estimate,
    ) -> (VerdictKind, String) {
        let (kind, reason) = compare(claim, observed, rows.iter().any(|row| row.is_sampled));
        match self.put_in(claim, rows) {
            Some(what) => (VerdictKind::ByConstruction, format!("{what}; {reason}")),
            None => (kind, reason),
        }
    }

    /// Returns what was put into the simulation that the observed figure is
    /// computed from, or that is the published one.
    fn put_in(&self, claim: &Claim, rows: &[&RowAnalysis]) -> Option<String> {
        self.simulation()?;
        if let Some(what) = &claim.put_in {
            return Some(what.clone());
        }
        let published = |row: &&RowAnalysis| {
            let used = row.planned.compute.as_ref()?;
            (used.origin == ComputeOrigin::Published).then(|| {
                format!(
                    "computed from published durations (compute profile {})",
                    used.profile
                )
            })
        };
        let stands_on_compute = claim.metric?.stands_on_compute();
        stands_on_compute.then(|| rows.iter().find_map(published))?
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

    /// Returns why a row does not have the claim's figure.
    fn missing(&self, claim: &Claim, row: &RowAnalysis) -> (VerdictKind, String) {
        let trains = self.simulation().is_none_or(|record| record.real_compute);
        let is_learned = claim.metric.is_some_and(Metric::is_learned);
        let reason = match (row.trials.len(), row.succeeded().count(), claim.target) {
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

/// Explains why figures on the original data, rankings included, cannot be
/// compared with those of training on other data; and which way they fall there.
fn on_generated(claim: &Claim, observed: Estimate, dataset: &str) -> String {
    let inside = observed.mean.map(|mean| claim.band().contains(mean));
    let there = match inside.filter(|_| claim.published.is_none()) {
        Some(true) => "; there it is as published",
        Some(false) => "; there it is not as published",
        None => "",
    };
    format!(
        "trained on {dataset}, a generated set: not comparable with what is published for the \
         original data{there}"
    )
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

fn compare(claim: &Claim, observed: Estimate, is_sampled: bool) -> (VerdictKind, String) {
    let (Some(mean), band) = (observed.mean, claim.band()) else {
        return (VerdictKind::NotRun, "the figure was not recorded".into());
    };
    let inside = band.contains(mean);
    if let Some([low, high]) = observed.ci95
        && (band.contains(low) != inside || band.contains(high) != inside)
    {
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
    if inside {
        return (
            VerdictKind::Reproduced,
            format!("inside the band ({trials})"),
        );
    }
    // A ratio of 1 says that the two are equal, in whatever unit it is given.
    let equal = claim.scale().unwrap_or(Scale::NONE).apply(1.0);
    let same_side = |published: f64| (published > equal) == (mean > equal) && mean != equal;
    if claim.over.is_some() && claim.published.is_some_and(same_side) {
        return (
            VerdictKind::DirectionOnly,
            format!("the same side of 1, outside the band ({trials})"),
        );
    }
    (
        VerdictKind::NotReproduced,
        format!("outside the band ({trials})"),
    )
}

fn verdict(
    claim: &Claim,
    row: Option<String>,
    observed: Estimate,
    kind: VerdictKind,
    reason: String,
) -> Verdict {
    let explanation = claim.explanation.as_ref();
    let reason = match explanation.filter(|_| claim.expect == Some(kind)) {
        Some(explanation) => format!("{reason}. {explanation}"),
        None => reason,
    };
    let band = claim.band();
    let ratio = observed
        .mean
        .zip(claim.published)
        .map(|(observed, published)| observed / published);
    Verdict {
        claim: claim.claim.clone(),
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
        reason,
        causes: Vec::new(),
    }
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

    const FACTOR: &str = r#"{"claim": "c", "select": {}, "over": {}, "metric": "bytes",
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
