//! Verdicts on checks and findings: their formulas over the rows of a run, trial by trial and
//! draw by draw.

use std::collections::BTreeSet;

use super::agreement::{self, Agreement};
use super::rules::ONE_SEED;
use super::summary::Verdict;
use super::verdicts::{Judge, crosses, verdict, within};
use super::{RowAnalysis, leads};
use crate::claims::own::{self, Figure, Place};
use crate::claims::{Band, Claim, Estimate, Metric, RATIO_UNITS, VerdictKind, ratio};
use crate::formula::{Compared, Formula, Op};
use crate::platform::{Site, site_of};
use crate::rows::Row;

/// What came of a comparison, or of a formula in one place.
struct Told {
    kind: VerdictKind,
    reason: String,
    observed: Estimate,
    band: Band,
    unit: String,
    /// Whether further trials could decide it.
    is_open: bool,
}

impl Told {
    fn without_figure(kind: VerdictKind, reason: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
            observed: Estimate::default(),
            band: Band::default(),
            unit: String::new(),
            is_open: false,
        }
    }

    /// Returns how much it says for the finding.
    fn support(&self) -> u8 {
        match self.kind {
            VerdictKind::Reproduced => 2,
            VerdictKind::NotReproduced => 0,
            _ => 1,
        }
    }
}

/// A formula over the rows of a run.
struct Worlds<'a> {
    rows: &'a [RowAnalysis],
    formula: Formula,
    /// Its places in each trial and in each draw.
    trials: Vec<Vec<Place>>,
    draws: Vec<Vec<Place>>,
}

impl<'a> Worlds<'a> {
    fn row(&self, id: &str) -> Option<&'a RowAnalysis> {
        self.rows.iter().find(|row| row.planned.row.id == id)
    }

    /// Returns the formula's places where rows have these figures.
    fn world(&self, value: impl Fn(&RowAnalysis, Figure) -> Option<f64>) -> Vec<Place> {
        let places = own::places(&self.formula, &planned(self.rows), |row, figure| {
            value(self.row(&row.id)?, figure)
        });
        places.unwrap_or_default()
    }

    /// Returns what is compared in one place and one part of the formula, world by world.
    fn compared<'w>(
        worlds: &'w [Vec<Place>],
        place: &'w Place,
        (instance, part): (usize, usize),
    ) -> impl Iterator<Item = (&'w Compared, &'w Place)> {
        worlds.iter().filter_map(move |world| {
            let own = world.iter().find(|own| own.at == place.at)?;
            Some((own.all.get(instance)?.any.get(part)?, own))
        })
    }
}

impl Judge<'_> {
    /// Returns a verdict for each place of a formula, or one that says that there is none.
    pub fn judge_formula(&self, claim: &Claim, formula: &str) -> Vec<Verdict> {
        let planned = Formula::parse(formula).and_then(|formula| {
            let places = own::planned(&formula, &planned(self.rows))?;
            Ok((formula, places))
        });
        let (formula, places) = match planned {
            Ok(planned) => planned,
            Err(error) => {
                let nothing = Estimate::default();
                return vec![verdict(
                    claim,
                    None,
                    nothing,
                    VerdictKind::NotRun,
                    error.problem,
                )];
            }
        };
        let mut worlds = Worlds {
            rows: self.rows,
            formula,
            trials: Vec::new(),
            draws: Vec::new(),
        };
        let trials = self.rows.iter().flat_map(|row| &row.trials);
        let numbers: BTreeSet<usize> = trials.map(|trial| trial.trial.id.trial).collect();
        worlds.trials = numbers
            .into_iter()
            .map(|number| worlds.world(|row, figure| row.of_trial(figure, number)))
            .collect();
        if places.iter().any(agreement::is_drawn) {
            worlds.draws = (0..self.draws() as usize)
                .map(|draw| {
                    worlds.world(|row, (metric, target)| {
                        *row.draws.as_ref()?.values(metric, target)?.get(draw)?
                    })
                })
                .collect();
        }
        let judged = places
            .iter()
            .map(|place| self.judge_place(claim, place, &worlds));
        judged.collect()
    }

    fn judge_place(&self, claim: &Claim, place: &Place, worlds: &Worlds<'_>) -> Verdict {
        let ids = place.rows();
        let rows: Vec<&RowAnalysis> = ids.iter().filter_map(|id| worlds.row(id)).collect();
        let reads = place.reads();
        let metric = reads.first().map(|(_, (metric, _))| *metric);
        let mut draws = None;
        let told = match self.obstacle_of(place, &rows, worlds) {
            Some((kind, reason)) => Told::without_figure(kind, reason),
            None => {
                let mut told = self.compare_place(place, &rows, worlds);
                if let Some(agreement) = self.agreement(place, &rows, worlds) {
                    draws = agreement.clone().ok();
                    (told.kind, told.reason) = agreement::verdict(agreement);
                }
                if let Some(reason) = self.incomparable_place(&reads, &rows) {
                    (told.kind, told.reason) = (VerdictKind::Undecided, reason);
                    told.is_open = false;
                }
                told
            }
        };
        let own = verdict(
            claim,
            ids.first().map(|id| (*id).to_owned()),
            told.observed,
            told.kind.for_kind(claim.kind),
            told.reason,
        );
        Verdict {
            ranking: rows.len() > 1,
            metric,
            unit: told.unit,
            band: [told.band.low, told.band.high],
            draws: draws.filter(|_| told.observed.mean.is_some()),
            undecided_rows: ids
                .iter()
                .filter(|_| told.is_open && told.kind == VerdictKind::Undecided)
                .map(|id| (*id).to_owned())
                .collect(),
            ..own
        }
    }

    /// Returns what keeps a place from being judged at all.
    fn obstacle_of(
        &self,
        place: &Place,
        rows: &[&RowAnalysis],
        worlds: &Worlds<'_>,
    ) -> Option<(VerdictKind, String)> {
        if let Some(why) = rows.iter().find_map(|row| row.planned.infeasible.clone()) {
            return Some((VerdictKind::Infeasible, why));
        }
        let lacks = |(id, figure): &(&str, Figure)| {
            let row = worlds.row(id)?;
            row.observe_figure(*figure)
                .mean
                .is_none()
                .then_some((row, *figure))
        };
        let reads = place.reads();
        let (row, (metric, target)) = reads.iter().find_map(lacks)?;
        Some(self.missing(Some(metric), target, row))
    }

    /// Returns why a place decides nothing whatever its figures are.
    fn incomparable_place(
        &self,
        reads: &[(&str, Figure)],
        rows: &[&RowAnalysis],
    ) -> Option<String> {
        if rows.len() < 2 {
            return None;
        }
        let has = |is_so: fn(Metric) -> bool| reads.iter().any(|(_, (metric, _))| is_so(*metric));
        // Another processor's rounding can turn what one seed says.
        if has(|metric| metric == Metric::TimeToAccuracy)
            && rows.iter().any(|row| row.succeeded().count() == 1)
        {
            return Some(ONE_SEED.into());
        }
        let machine = self.one_machine()?;
        has(Metric::is_share_of_processor).then(|| {
            format!("a use of the processor of {machine}, which depends on what else it computes")
        })
    }

    /// Returns the draws in which a ranking holds; none where it is not judged over draws.
    fn agreement(
        &self,
        place: &Place,
        rows: &[&RowAnalysis],
        worlds: &Worlds<'_>,
    ) -> Option<Result<Agreement, String>> {
        if self.draws() == 0 || !agreement::is_drawn(place) {
            return None;
        }
        for row in rows {
            let id = &row.planned.row.id;
            let Some(drawn) = &row.draws else {
                return Some(Err(format!("there are no draws of {id}")));
            };
            if let Some(refused) = &drawn.refused {
                return Some(Err(format!("{id} has no draws: {refused}")));
            }
        }
        let found = |world: &Vec<Place>| {
            let own = world.iter().find(|own| own.at == place.at)?;
            let ratio = own.all.first()?.any.first()?.ratio?;
            (own.all.len() == place.all.len()).then_some((own.holds(), ratio))
        };
        Some(Ok(Agreement::over(worlds.draws.iter().map(found))))
    }

    /// Compares the figures of a place: each instance must hold, and of its parts one.
    fn compare_place(&self, place: &Place, rows: &[&RowAnalysis], worlds: &Worlds<'_>) -> Told {
        let all = place
            .all
            .iter()
            .enumerate()
            .filter_map(|(instance, parts)| {
                let parts = 0..parts.any.len();
                let told =
                    parts.map(|part| self.compare_part(place, (instance, part), rows, worlds));
                told.max_by_key(Told::support)
            });
        let worst = all.min_by_key(Told::support);
        worst.unwrap_or_else(|| Told::without_figure(VerdictKind::NotRun, "nothing is compared"))
    }

    fn compare_part(
        &self,
        place: &Place,
        part: (usize, usize),
        rows: &[&RowAnalysis],
        worlds: &Worlds<'_>,
    ) -> Told {
        let pairs: Vec<_> = Worlds::compared(&worlds.trials, place, part).collect();
        let Some((first, of_first)) = pairs.first() else {
            return Told::without_figure(VerdictKind::NotRun, "the rows have no trial in common");
        };
        // A leading accuracy is counted in test images.
        if let Some(lead) = lead(first, of_first, rows) {
            let (kind, reason) = leads::decide(lead);
            return Told {
                observed: lead,
                unit: "test images".into(),
                ..Told::without_figure(kind, reason)
            };
        }
        let is_sampled = rows.iter().any(|row| row.is_sampled);
        let both = pairs.iter().map(|(compared, _)| sides(compared));
        let is_against_number = first.left.reads == 0 || first.right.reads == 0;
        let (observed, limit, op) = match (first.left.reads, first.right.reads) {
            (0, _) => (
                of(both.map(|(_, right)| right), is_sampled),
                first.left.value,
                first.op.mirrored(),
            ),
            (_, 0) => (
                of(both.map(|(left, _)| left), is_sampled),
                first.right.value,
                first.op,
            ),
            _ => {
                let both: Vec<(f64, f64)> = both.collect();
                let observed = if is_sampled {
                    ratio::of_draws(&both)
                } else {
                    ratio::paired(&both)
                };
                (observed, 1.0, first.op)
            }
        };
        let band = band(op, limit);
        let (mut kind, mut reason) = within(band, observed, is_sampled);
        let is_strict = matches!(op, Op::Less | Op::More);
        if is_strict && observed.mean == Some(limit) {
            (kind, reason) = (VerdictKind::NotReproduced, "the two are equal".into());
        }
        let unit = if is_against_number {
            let side = if first.left.reads == 0 {
                &first.right
            } else {
                &first.left
            };
            side.unit.clone()
        } else {
            RATIO_UNITS[0].to_owned()
        };
        let is_here = site_of(&self.manifest.platform) == Some(Site::ThisMachine);
        Told {
            kind,
            reason,
            observed,
            band,
            unit,
            is_open: is_here && crosses(band, observed),
        }
    }
}

impl RowAnalysis {
    /// Returns the mean of a figure.
    fn observe_figure(&self, (metric, target): Figure) -> Estimate {
        match target {
            Some(target) => self.time_to_accuracy(target),
            None => self.estimate(metric),
        }
    }

    /// Returns a figure of the trial of that number. A time to an accuracy that one trial does
    /// not reach is that of none.
    fn of_trial(&self, (metric, target): Figure, number: usize) -> Option<f64> {
        let is_it = |trial: &super::TrialAnalysis| trial.trial.id.trial == number;
        let Some(target) = target else {
            let values = self.values(metric).into_iter();
            return values
                .filter(|(trial, _)| is_it(trial))
                .map(|(_, value)| value)
                .next();
        };
        self.time_to_accuracy(target).mean?;
        let mut trials = self.succeeded();
        trials.find(|trial| is_it(trial))?.time_to_accuracy(target)
    }
}

fn planned(rows: &[RowAnalysis]) -> Vec<&Row> {
    rows.iter().map(|row| &row.planned.row).collect()
}

/// Returns both numbers of a comparison in the unit of the left one.
fn sides(compared: &Compared) -> (f64, f64) {
    let (left, right) = (&compared.left, &compared.right);
    let is_alike = left.unit == right.unit || left.unit.is_empty() || right.unit.is_empty();
    let converted = compared.ratio.filter(|ratio| !is_alike && *ratio != 0.0);
    (
        left.value,
        converted.map_or(right.value, |ratio| left.value / ratio),
    )
}

fn of(values: impl Iterator<Item = f64>, is_sampled: bool) -> Estimate {
    let values: Vec<f64> = values.collect();
    if is_sampled {
        Estimate::of_samples(&values)
    } else {
        Estimate::of(&values)
    }
}

/// Returns where a figure must lie that compares with a number so.
fn band(op: Op, limit: f64) -> Band {
    let reach = if op == Op::About {
        limit.abs() / 10.0
    } else {
        0.0
    };
    Band {
        low: (!matches!(op, Op::Less | Op::AtMost)).then_some(limit - reach),
        high: (!matches!(op, Op::More | Op::AtLeast)).then_some(limit + reach),
    }
}

/// Returns the test images by which one row leads another, where a part asks for a lead: of
/// accuracies, and of no less than none.
fn lead(compared: &Compared, place: &Place, rows: &[&RowAnalysis]) -> Option<Estimate> {
    let [one, other] = rows else { return None };
    let is_accuracy = |(_, (metric, _)): &(&str, Figure)| *metric == Metric::Accuracy;
    let is_of_two = compared.left.reads == 1 && compared.right.reads == 1;
    if !is_of_two || !place.reads().iter().all(is_accuracy) {
        return None;
    }
    let value = |row: &RowAnalysis| {
        let inputs = place.all.iter().flat_map(|instance| &instance.inputs);
        let mut own = inputs.filter(|input| input.place == row.planned.row.id);
        own.next().map(|input| input.value)
    };
    let (leader, behind, least) = match compared.op {
        Op::AtLeast | Op::More => (one, other, compared.right.value),
        Op::AtMost | Op::Less => (other, one, compared.left.value),
        Op::Equal | Op::About => return None,
    };
    (least >= value(behind)?).then(|| leads::between(leader, behind))
}
