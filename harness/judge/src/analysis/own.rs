//! Verdicts on formulas over the rows of a run, trial by trial and draw by draw: statements of papers,
//! checks and findings.

use std::collections::BTreeSet;

use epochcost_platform::{Site, site_of};
use epochcost_spec::claims::own::{self, Figure, OverRows, Place};
use epochcost_spec::claims::ratio::{of_draws, paired};
use epochcost_spec::claims::{Band, Claim, Estimate, Metric, RATIO_UNIT, VerdictKind};
use epochcost_spec::formula::{Compared, Instance, Op};
use epochcost_spec::rows::Row;

use super::agreement::{self, Agreement};
use super::evidence;
use super::rules::{decide, incomparable};
use super::summary::Verdict;
use super::verdicts::{self, Judge, crosses, not_run, ratio, verdict, within};
use super::{RowAnalysis, leads};

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
            VerdictKind::Agrees => 2,
            VerdictKind::Differs => 0,
            _ => 1,
        }
    }
}

/// One of a formula's places, in every world.
struct Judged<'a> {
    place: &'a Place,
    /// Rows that are read, each once.
    rows: Vec<&'a RowAnalysis>,
    /// The place in each trial that has its figures.
    trials: Vec<&'a Place>,
    /// Whether it holds in each draw, with the ratio that it compares first.
    draws: Vec<Option<(bool, Option<f64>)>>,
    /// Number of draws in which it fails for figures that are equal.
    tied: usize,
}

impl Judge<'_> {
    /// Returns a verdict for each place of a formula, or one that says that there is none.
    pub fn judge_formula(&self, claim: &Claim, formula: &str) -> Vec<Verdict> {
        let rows: Vec<&Row> = self.rows.iter().map(|row| &row.planned.row).collect();
        let mut over = match OverRows::new(formula, &rows) {
            Ok(over) => over,
            Err(error) => return vec![not_run(claim, &error.problem)],
        };
        let row = |id: &str| self.row(id);
        // Its places in each trial.
        let trials = self.rows.iter().flat_map(|row| &row.trials);
        let numbers: BTreeSet<usize> = trials.map(|trial| trial.trial.id.trial).collect();
        let trials = numbers.into_iter().filter_map(|number| {
            let world = over.world(|id, figure| row(id)?.of_trial(figure, number));
            world.ok()
        });
        let trials: Vec<Vec<Option<Place>>> = trials.collect();
        // What each place comes to in each draw.
        let mut draws = vec![Vec::new(); over.places.len()];
        let mut tied = vec![0; over.places.len()];
        if over.places.iter().any(agreement::is_drawn) {
            for draw in 0..self.draws() as usize {
                let world = over.world(|id, (metric, target)| {
                    let values = row(id)?.draws.as_ref()?.values(metric, target)?;
                    *values.get(draw)?
                });
                let mut world = world.unwrap_or_default().into_iter();
                for (found, tied) in draws.iter_mut().zip(&mut tied) {
                    let first = |place: &Place| place.all.first()?.any.first()?.ratio;
                    let place = world.next().flatten();
                    *tied += usize::from(place.as_ref().is_some_and(Place::is_tied));
                    found.push(place.map(|place| (place.holds(), first(&place))));
                }
            }
        }
        let places = over.places.iter().enumerate().zip(draws).zip(tied);
        let judged = places.map(|(((index, place), draws), tied)| {
            let trials = trials.iter().filter_map(|world| world[index].as_ref());
            let judged = Judged {
                place,
                rows: place.rows().into_iter().filter_map(row).collect(),
                trials: trials.collect(),
                draws,
                tied,
            };
            self.judge_place(claim, &judged)
        });
        judged.collect()
    }

    fn judge_place(&self, claim: &Claim, judged: &Judged<'_>) -> Verdict {
        let rows = &judged.rows;
        let reads = judged.place.reads();
        let figures: Vec<Figure> = reads.iter().map(|(_, figure)| *figure).collect();
        let at = self.circumstances(rows);
        let value = printed_value(claim, judged);
        let mut draws = None;
        let mut evidence = None;
        let told = match self.obstacle_of(&reads, rows) {
            Some((kind, reason)) => Told::without_figure(kind, reason),
            None => {
                let mut told = self.compare_place(judged);
                if let Some(value) = &value {
                    let found = self.compare_value(value, claim.in_points, judged, &mut told);
                    evidence = found.evidence;
                    (told.kind, told.reason) = (found.kind, found.reason);
                } else if let Some(agreement) = self.agreement(judged) {
                    draws = agreement.clone().ok();
                    let is_untold = claim.kind.is_of_paper() && judged.tied > 0;
                    (told.kind, told.reason) = match agreement {
                        Ok(agreement) if is_untold => agreement.with_ties(judged.tied),
                        agreement => agreement::verdict(agreement),
                    };
                }
                if incomparable(claim, &figures, &at).is_some() {
                    told.is_open = false;
                    evidence = None;
                }
                let found = (told.kind, told.reason);
                (told.kind, told.reason) = decide(claim, self.claims, &figures, found, &at);
                told
            }
        };
        let ids = rows.iter().map(|row| row.planned.row.id.clone());
        let is_open = told.is_open && told.kind == VerdictKind::Open;
        let observed = told.observed.mean;
        let published = value.map(|value| value.number);
        let kind = told.kind.for_kind(claim.kind);
        Verdict {
            ranking: reads.len() > 1 && published.is_none(),
            metric: figures.first().map(|(metric, _)| *metric),
            unit: told.unit,
            published,
            ratio: ratio(observed, published),
            evidence,
            band: [told.band.low, told.band.high].map(|end| end.filter(|_| published.is_none())),
            draws: draws.filter(|_| observed.is_some()),
            undecided_rows: ids.clone().filter(|_| is_open).collect(),
            ..verdict(claim, ids.clone().next(), told.observed, kind, told.reason)
        }
    }

    /// Compares a figure that a paper's statement gives with what the formula observes.
    fn compare_value(
        &self,
        value: &Value,
        in_points: bool,
        judged: &Judged<'_>,
        told: &mut Told,
    ) -> verdicts::Told {
        // The ratio is that of the left side to the right one.
        let of_ratio = |ratio: f64| {
            let drawn = value.number * ratio;
            if value.is_left {
                value.number.powi(2) / drawn
            } else {
                drawn
            }
        };
        let drawn = self.agreement(judged).and_then(Result::ok).map(|_| {
            let ratios = (judged.draws.iter().flatten()).filter_map(|(_, ratio)| *ratio);
            ratios.map(of_ratio).collect::<Vec<f64>>()
        });
        if let Some(drawn) = &drawn {
            told.observed.ci95 = Estimate::of_samples(drawn).ci95;
        }
        let is_percentage = in_points || told.unit == "%";
        let of_trials = told.observed.half_width().zip(told.observed.mean);
        let unit = |mean: f64| if is_percentage { 1.0 } else { mean };
        let of_trials = of_trials.map(|(half, mean)| half / 1.96 / unit(mean));
        let spread = match &drawn {
            Some(drawn) => evidence::spread(drawn, is_percentage),
            None => of_trials,
        };
        let reads = judged.place.reads();
        let metric = (reads.first()).map_or(Metric::SecondsPerEpoch, |(_, (metric, _))| *metric);
        let printed = (value.number, value.half_digit);
        verdicts::told(metric, printed, told.observed, spread, is_percentage)
    }

    /// Returns what keeps a place from being judged at all.
    pub(super) fn obstacle_of(
        &self,
        reads: &[(&str, Figure)],
        rows: &[&RowAnalysis],
    ) -> Option<(VerdictKind, String)> {
        if let Some(why) = rows.iter().find_map(|row| row.planned.infeasible.clone()) {
            return Some((VerdictKind::Infeasible, why));
        }
        let lacks = |(id, figure): &(&str, Figure)| {
            let row = rows.iter().find(|row| row.planned.row.id == *id)?;
            let is_lacking = row.observe_figure(*figure).mean.is_none();
            is_lacking.then_some((row, *figure))
        };
        let (row, figure) = reads.iter().find_map(lacks)?;
        Some(self.missing(figure, row))
    }

    /// Returns the draws in which a ranking holds; none where it is not judged over draws.
    fn agreement(&self, judged: &Judged<'_>) -> Option<Result<Agreement, String>> {
        if self.draws() == 0 || !agreement::is_drawn(judged.place) {
            return None;
        }
        let mut reads = judged.place.reads().into_iter();
        let lacking = reads.find_map(|(id, figure)| {
            let row = judged.rows.iter().find(|row| row.planned.row.id == id)?;
            agreement::values(row, figure).err()
        });
        Some(match lacking {
            Some(reason) => Err(reason),
            None => Ok(Agreement::over(judged.draws.iter().copied())),
        })
    }

    /// Compares the figures of a place: each instance must hold, and of its parts one.
    fn compare_place(&self, judged: &Judged<'_>) -> Told {
        let all = judged.place.all.iter().enumerate();
        let all = all.filter_map(|(instance, parts)| {
            let told = (0..parts.any.len()).map(|part| self.compare_part(judged, (instance, part)));
            told.max_by_key(Told::support)
        });
        let worst = all.min_by_key(Told::support);
        worst.unwrap_or_else(|| Told::without_figure(VerdictKind::NotRun, "nothing is compared"))
    }

    fn compare_part(&self, judged: &Judged<'_>, (instance, part): (usize, usize)) -> Told {
        let rows = &judged.rows;
        let both = judged.trials.iter().filter_map(|place| {
            let instance = place.all.get(instance)?;
            Some((instance.any.get(part)?, instance))
        });
        let both: Vec<(&Compared, &Instance)> = both.collect();
        let Some((first, of_first)) = both.first() else {
            let reason = "no trial of all these rows has the figures, or a formula divides by 0";
            return Told::without_figure(VerdictKind::NotRun, reason);
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
        let both = both.iter().map(|(compared, _)| sides(compared));
        let both: Vec<(f64, f64)> = both.collect();
        let (is_left_stated, is_right_stated) = (first.left.reads == 0, first.right.reads == 0);
        // Nothing is a multiple of 0: what is compared with it is their difference.
        let is_over_zero = both.iter().all(|(_, right)| *right == 0.0);
        let own = first.left.unit.as_str();
        let (observed, limit, op, unit) = if is_left_stated {
            let values = both.iter().map(|(_, right)| *right);
            let (limit, op) = (first.left.value, first.op.mirrored());
            (of(values, is_sampled), limit, op, first.right.unit.as_str())
        } else if is_right_stated {
            let values = both.iter().map(|(left, _)| *left);
            (of(values, is_sampled), first.right.value, first.op, own)
        } else if is_over_zero {
            let values = both.iter().map(|(left, right)| left - right);
            (of(values, is_sampled), 0.0, first.op, own)
        } else {
            let ratios = if is_sampled { of_draws } else { paired };
            (ratios(&both), 1.0, first.op, RATIO_UNIT)
        };
        let band = band(op, limit);
        let (mut kind, mut reason) = within(band, observed, is_sampled);
        let is_strict = matches!(op, Op::Less | Op::More);
        if is_strict && observed.mean == Some(limit) {
            (kind, reason) = (VerdictKind::Differs, "the two are equal".into());
        }
        let is_here = site_of(&self.manifest.platform) == Some(Site::ThisMachine);
        Told {
            kind,
            reason,
            observed,
            band,
            unit: unit.to_owned(),
            is_open: is_here && crosses(band, observed),
        }
    }
}

impl RowAnalysis {
    /// Returns the mean of a figure.
    pub(super) fn observe_figure(&self, (metric, target): Figure) -> Estimate {
        match target {
            Some(target) => self.seconds_to(target),
            None => self.estimate(metric),
        }
    }

    /// Returns a figure of the trial of that number. A time to an accuracy that one trial does
    /// not reach is that of none.
    fn of_trial(&self, (metric, target): Figure, number: usize) -> Option<f64> {
        let is_it = |trial: &super::TrialAnalysis| trial.trial.id.trial == number;
        let Some(target) = target else {
            let values = self.values(metric).into_iter();
            let mut own = values.filter(|(trial, _)| is_it(trial));
            return own.next().map(|(_, value)| value);
        };
        self.seconds_to(target).mean?;
        let mut trials = self.succeeded();
        trials.find(|trial| is_it(trial))?.time_to_accuracy(target)
    }
}

/// A figure that a statement gives.
struct Value {
    number: f64,
    half_digit: f64,
    is_left: bool,
}

/// Returns the figure that a paper's statement gives, if it gives one and not an order: one side of
/// `=` or `~` that reads no row.
fn printed_value(claim: &Claim, judged: &Judged<'_>) -> Option<Value> {
    let [Instance { any, .. }] = judged.place.all.as_slice() else {
        return None;
    };
    let ([compared], true) = (any.as_slice(), claim.kind.is_of_paper()) else {
        return None;
    };
    let is_equality = matches!(compared.op, Op::Equal | Op::About);
    let (side, is_left) = match (compared.left.reads, compared.right.reads) {
        (0, _) => (&compared.left, true),
        (_, 0) => (&compared.right, false),
        _ => return None,
    };
    is_equality.then_some(Value {
        number: side.value,
        half_digit: side.reach,
        is_left,
    })
}

/// Returns both numbers of a comparison in the unit of the left one.
fn sides(compared: &Compared) -> (f64, f64) {
    let (left, right) = (&compared.left, &compared.right);
    let is_alike = left.unit == right.unit || left.unit.is_empty() || right.unit.is_empty();
    let converted = compared.ratio.filter(|ratio| !is_alike && *ratio != 0.0);
    let right = converted.map_or(right.value, |ratio| left.value / ratio);
    (left.value, right)
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
    let reach = match op {
        Op::About => limit.abs() / 10.0,
        _ => 0.0,
    };
    Band {
        low: (!matches!(op, Op::Less | Op::AtMost)).then_some(limit - reach),
        high: (!matches!(op, Op::More | Op::AtLeast)).then_some(limit + reach),
    }
}

/// Returns the test images by which one row leads another, where a part asks for a lead: of
/// accuracies, and of no less than none.
fn lead(compared: &Compared, instance: &Instance, rows: &[&RowAnalysis]) -> Option<Estimate> {
    let reads = own::reads(std::slice::from_ref(instance));
    let [(one, (Metric::Accuracy, _)), (other, (Metric::Accuracy, _))] = reads.as_slice() else {
        return None;
    };
    if (compared.left.reads, compared.right.reads) != (1, 1) {
        return None;
    }
    let (leader, behind, least) = match compared.op {
        Op::AtLeast | Op::More => (one, other, compared.right.value),
        Op::AtMost | Op::Less => (other, one, compared.left.value),
        Op::Equal | Op::About => return None,
    };
    let mut inputs = instance.inputs.iter();
    let of_behind = inputs.find(|input| input.place == *behind)?.value;
    let row = |id: &str| rows.iter().find(|row| row.planned.row.id == id);
    let asks_for_lead = least >= of_behind;
    asks_for_lead.then(|| Some(leads::between(row(leader)?, row(behind)?)))?
}
