//! From claims and figures to verdicts.

use epochcost_simulator::profile::ComputeOrigin;

use super::RowAnalysis;
use super::claims::{Claim, Selector, Word};
use super::statistics::Estimate;
use super::summary::Verdict;
use crate::results::{Manifest, PlannedRow, SimulationRecord};

/// The rows of a run, as the claims see them.
pub(super) struct Judge<'a> {
    pub rows: &'a [RowAnalysis],
    pub manifest: &'a Manifest,
}

impl Judge<'_> {
    /// One verdict for each row that the claim selects, or one that says that
    /// there is none.
    pub fn judge(&self, claim: &Claim) -> Vec<Verdict> {
        let selected: Vec<&RowAnalysis> = self
            .rows
            .iter()
            .filter(|row| matches(&claim.select, &row.planned))
            .collect();
        if selected.is_empty() {
            let reason = "this run has no such row".to_owned();
            return vec![verdict(
                claim,
                None,
                Estimate::default(),
                Word::NotRun,
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
        let mut rows = vec![row];
        let mut observed = row.estimate(claim.metric);
        if let Some(over) = &claim.over {
            match self.divisor(over, row) {
                Ok(divisor) => {
                    observed = row.over(divisor, |row, trial| {
                        trial.metric(claim.metric, &row.planned.row.job)
                    });
                    rows.push(divisor);
                }
                Err(reason) => {
                    return verdict(claim, id, Estimate::default(), Word::NotRun, reason);
                }
            }
        }
        let (word, reason) = match self.obstacle(claim, &rows, observed) {
            Some(obstacle) => obstacle,
            None => self.compare(claim, &rows, observed),
        };
        verdict(claim, id, observed, word, reason)
    }

    /// The one row that `over` selects; what it leaves out is as in `row`.
    fn divisor(&self, over: &Selector, row: &RowAnalysis) -> Result<&RowAnalysis, String> {
        let filled = fill(over, &row.planned);
        let mut found = self
            .rows
            .iter()
            .filter(|other| matches(&filled, &other.planned));
        match (found.next(), found.next()) {
            (Some(divisor), None) => Ok(divisor),
            (None, _) => Err("this run has no row to divide by".into()),
            (Some(_), Some(_)) => {
                Err("more than one row could be divided by: let `over` say which".into())
            }
        }
    }

    /// What keeps the two figures from being compared at all; `rows` are the
    /// selected one and what it is divided by.
    fn obstacle(
        &self,
        claim: &Claim,
        rows: &[&RowAnalysis],
        observed: Estimate,
    ) -> Option<(Word, String)> {
        let row = rows.first()?;
        if let Some(why) = rows.iter().find_map(|row| row.planned.infeasible.clone()) {
            return Some((Word::Infeasible, why));
        }
        if observed.mean.is_none() {
            let of = rows
                .iter()
                .find(|row| row.estimate(claim.metric).mean.is_none());
            return Some((Word::NotRun, self.missing(claim, of.unwrap_or(row))));
        }
        let published = claim.published.is_some();
        if published
            && claim.metric.is_learned()
            && self.generated(&row.planned.row.job.data.dataset)
        {
            let reason = format!(
                "trained on {}, a generated set: not comparable with what is published for the \
                 original data",
                row.planned.row.job.data.dataset
            );
            return Some((Word::Undecided, reason));
        }
        let machine = self
            .one_machine()
            .filter(|_| published && claim.metric.is_timed())?;
        let what = if claim.metric.unit() == "USD" {
            "a cost computed from seconds"
        } else {
            "a time"
        };
        let reason = format!("{what} of {machine}: not comparable with one published for AWS");
        Some((Word::Undecided, reason))
    }

    /// The one machine whose seconds these are, if they are of no cloud.
    fn one_machine(&self) -> Option<String> {
        match (self.manifest.platform.as_str(), self.simulation()) {
            ("local", _) => Some("this machine and its loopback network".into()),
            (_, Some(record)) if record.is_one_host() => {
                Some(format!("the one machine of the profile {}", record.profile))
            }
            _ => None,
        }
    }

    fn simulation(&self) -> Option<&SimulationRecord> {
        self.manifest.simulation.as_ref()
    }

    /// Holds the observed value against the band, unless it is what was put in.
    fn compare(&self, claim: &Claim, rows: &[&RowAnalysis], observed: Estimate) -> (Word, String) {
        let (word, reason) = compare(claim, observed, rows.iter().any(|row| row.is_sampled));
        match self.put_in(claim, rows) {
            Some(what) => (Word::ByConstruction, format!("{what}; {reason}")),
            None => (word, reason),
        }
    }

    /// What was put into the simulation that the observed figure is computed
    /// from, or that is the published one.
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
        let stands_on_compute = claim.metric.stands_on_compute();
        stands_on_compute.then(|| rows.iter().find_map(published))?
    }

    /// Whether a dataset is, or must be taken for, a generated one.
    fn generated(&self, dataset: &str) -> bool {
        let found = self
            .manifest
            .datasets
            .iter()
            .find(|record| record.name == dataset);
        found.is_none_or(|record| record.generated)
    }

    /// Why a row does not have the claim's figure.
    fn missing(&self, claim: &Claim, row: &RowAnalysis) -> String {
        let trains = self.simulation().is_none_or(|record| record.real_compute);
        match (row.trials.len(), row.succeeded().count()) {
            (0, _) => "no trial of this row was run".into(),
            (run, 0) => format!("{run} of {run} trials of this row failed"),
            _ if claim.metric.is_learned() && !trains => {
                "nothing was trained: only sizes were simulated (`real_compute: true` trains)"
                    .into()
            }
            _ => "the figure was not recorded".into(),
        }
    }
}

fn compare(claim: &Claim, observed: Estimate, is_sampled: bool) -> (Word, String) {
    let (Some(mean), band) = (observed.mean, claim.band()) else {
        return (Word::NotRun, "the figure was not recorded".into());
    };
    let inside = band.contains(mean);
    if let Some([low, high]) = observed.ci95
        && (band.contains(low) != inside || band.contains(high) != inside)
    {
        let reason = match is_sampled {
            true => "the ranges of the profile's constants reach across an edge of the band",
            false => "the 95 % interval crosses an edge of the band: more trials would decide",
        };
        return (Word::Undecided, reason.into());
    }
    let trials = match observed.n {
        1 => "one trial, so without an interval".to_owned(),
        n => format!("{n} trials"),
    };
    if inside {
        return (Word::Reproduced, format!("inside the band ({trials})"));
    }
    let same_side = |published: f64| (published > 1.0) == (mean > 1.0) && mean != 1.0;
    if claim.over.is_some() && claim.published.is_some_and(same_side) {
        return (
            Word::DirectionOnly,
            format!("the same side of 1, outside the band ({trials})"),
        );
    }
    (Word::NotReproduced, format!("outside the band ({trials})"))
}

fn verdict(
    claim: &Claim,
    row: Option<String>,
    observed: Estimate,
    word: Word,
    reason: String,
) -> Verdict {
    let band = claim.band();
    let ratio = observed
        .mean
        .zip(claim.published)
        .map(|(observed, published)| observed / published);
    Verdict {
        claim: claim.claim.clone(),
        row,
        metric: claim.metric,
        unit: claim.unit().to_owned(),
        source: claim.source.clone(),
        published: claim.published,
        observed: observed.mean,
        observed_ci95: observed.ci95,
        ratio: ratio.filter(|ratio| ratio.is_finite()),
        band: [band.low, band.high],
        verdict: word,
        expect: claim.expect,
        reason,
    }
}

/// Whether `row` agrees with every field that `selector` gives.
pub fn matches(selector: &Selector, planned: &PlannedRow) -> bool {
    let (row, job) = (&planned.row, &planned.row.job);
    agrees(selector.row.as_ref(), &row.id)
        && agrees(selector.system.as_ref(), &job.system)
        && agrees(selector.model.as_ref(), &job.model)
        && agrees(selector.dataset.as_ref(), &job.data.dataset)
        && agrees(selector.fidelity.as_ref(), &job.fidelity)
        && agrees(selector.workers.as_ref(), &job.workers)
        && agrees(selector.batch_size.as_ref(), &job.batch_size)
        && agrees(selector.memory_mb.as_ref(), &row.memory_mb)
}

fn agrees<T: PartialEq>(wanted: Option<&T>, value: &T) -> bool {
    wanted.is_none_or(|wanted| wanted == value)
}

/// `selector` with what it leaves out taken from `planned`; the memory size is
/// left open, since every system has its own.
fn fill(selector: &Selector, planned: &PlannedRow) -> Selector {
    if selector.row.is_some() {
        return selector.clone();
    }
    let job = &planned.row.job;
    let filled = selector.clone();
    Selector {
        row: None,
        system: filled.system.or_else(|| Some(job.system.clone())),
        model: filled.model.or_else(|| Some(job.model.clone())),
        dataset: filled.dataset.or_else(|| Some(job.data.dataset.clone())),
        fidelity: filled.fidelity.or(Some(job.fidelity)),
        workers: filled.workers.or(Some(job.workers)),
        batch_size: filled.batch_size.or(Some(job.batch_size)),
        memory_mb: filled.memory_mb,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn word(claim: &str, mean: f64, ci95: Option<[f64; 2]>) -> Word {
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
        assert_eq!(word(FACTOR, 12.0, None), Word::Reproduced);
        assert_eq!(word(FACTOR, 2.0, None), Word::DirectionOnly);
        assert_eq!(word(FACTOR, 0.5, None), Word::NotReproduced);
        assert_eq!(word(FACTOR, 1.0, None), Word::NotReproduced);
        let plain = FACTOR.replace(r#""over": {}, "#, "");
        assert_eq!(word(&plain, 2.0, None), Word::NotReproduced);
    }

    #[test]
    fn an_interval_across_an_edge_decides_nothing() {
        assert_eq!(word(FACTOR, 12.0, Some([11.0, 13.0])), Word::Reproduced);
        assert_eq!(word(FACTOR, 12.0, Some([9.0, 15.0])), Word::Undecided);
        assert_eq!(word(FACTOR, 9.0, Some([7.0, 11.0])), Word::Undecided);
        assert_eq!(word(FACTOR, 5.0, Some([4.0, 6.0])), Word::DirectionOnly);
    }
}
