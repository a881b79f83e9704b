//! Break-evens: where functions and instances cost the same.

use epochcost_spec::format::{count, usd};
use serde::Serialize;

use super::bench::{Point, cut};
use super::decide::{Ground, MANY};
use super::{Choice, Searched};
use crate::error::Result;
use crate::forecast::places::Draw;
use crate::forecast::{parallel, work};

/// Hours of a month of 30 days, for which an instance may be kept.
const MONTH_H: f64 = 720.0;

/// Factors of a quantity between which a break-even is searched for.
const FACTORS: [f64; 9] = [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4];

/// Relative distance of a break-even within which neither host is said to be cheaper.
const TIE: f64 = 0.1;

/// Bisections of a factor of ten.
const BISECTIONS: u32 = 7;

/// Times at most that a crossing is found again, by dollars as they would be shown there.
const ROUNDS: u32 = 4;

/// Relative distance of two crossings found one after the other at which the last one stands.
const SAME: f64 = 0.05;

/// A quantity that would change the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct BreakEven {
    /// Name of the quantity: `runs_per_month`, `trainable_parameters`, `samples`.
    pub(super) quantity: &'static str,
    /// Its value now; null of runs.
    pub(super) now: Option<f64>,
    /// The nearest value at which the other one becomes cheaper; null if none was found in four
    /// orders of magnitude either way.
    pub(super) at: Option<f64>,
    /// Which host is cheaper below that value; null without one.
    pub(super) cheaper_below: Option<&'static str>,
    /// The break-even in words.
    pub(super) text: String,
}

/// Returns the break-evens between the best on functions and the best on instances, by the dollars
/// that are shown of them. `grows_data`: whether the data have as many samples as are trained.
///
/// # Errors
/// When a row is none of a known system, or something has no price.
pub(super) fn break_evens(
    searched: &Searched<'_>,
    [functions, instances]: [Option<&Choice>; 2],
    grows_data: bool,
) -> Result<Vec<BreakEven>> {
    let (Some(functions), Some(instances)) = (functions, instances) else {
        return Ok(Vec::new());
    };
    let pair = [functions, instances];
    let mut found: Vec<BreakEven> = runs(searched, functions, instances).into_iter().collect();
    let job = &searched.points[instances.index].row.job;
    if let Some(own) = &searched.points[functions.index].row.own_model {
        let now = own.parameters as f64;
        let at = crossing(searched, pair, with_parameters)?;
        found.push(of("trainable_parameters", "trainable parameters", now, at));
    }
    let now = work::samples(job) as f64;
    let at = crossing(searched, pair, |point, factor| {
        with_samples(point, factor, grows_data)
    })?;
    found.push(of("samples", "samples", now, at));
    Ok(found)
}

/// Returns the runs per month from which on an instance that is kept costs no more than
/// functions that are paid by the run.
fn runs(searched: &Searched<'_>, functions: &Choice, instances: &Choice) -> Option<BreakEven> {
    let run = functions.price;
    let point = &searched.points[instances.index];
    let site = searched.site(point);
    let is_one = super::alone::is_one_machine(&point.row);
    let workers = point.row.job.workers as f64;
    let machines = if is_one { 1.0 } else { workers };
    let bench = searched.bench;
    let month_usd = MONTH_H * machines * site.hourly_usd(bench.prices, bench.account)?;
    let at = month_usd / run.usd;
    // An instance that is kept boots once; both at their stated values.
    let boot_s = bench.stated(point).0.instance.boot_s;
    let stated_s = searched.figures(instances.index)?.price.seconds;
    let most = MONTH_H * 3600.0 / (stated_s - boot_s).max(f64::MIN_POSITIVE);
    // More runs than fit into the month would need another instance.
    let text = if at > most {
        format!(
            "keeping an instance all month ({}) never pays: it would need {} runs and has time for \
             {}",
            usd(month_usd),
            about(at),
            about(most)
        )
    } else {
        format!(
            "if an instance ran all month ({}), functions would be cheaper below about {} runs per \
             month",
            usd(month_usd),
            about(at)
        )
    };
    Some(BreakEven {
        quantity: "runs_per_month",
        now: None,
        at: Some(at),
        cheaper_below: Some("function"),
        text,
    })
}

/// Returns a quantity with two significant digits.
fn about(value: f64) -> String {
    rounded(value, 2)
}

/// Returns a quantity with so many significant digits.
fn rounded(value: f64, digits: i32) -> String {
    let magnitude = value.abs().max(f64::MIN_POSITIVE).log10().floor();
    let scale = 10f64.powf(magnitude - f64::from(digits - 1));
    count((value / scale).round() * scale)
}

/// Returns a break-even in words.
fn of(quantity: &'static str, name: &str, now: f64, at: Crossing) -> BreakEven {
    let (value, below, text) = match at {
        Crossing::At {
            factor,
            functions_now,
            is_possible,
            is_close,
        } => {
            let value = now * factor;
            let (cheaper, other) = hosts(!functions_now);
            let side = if factor < 1.0 { "below" } else { "above" };
            let is_tie = (factor - 1.0).abs() < TIE;
            let tie = if is_tie { ": a tie" } else { "" };
            let mut text = format!(
                "paid by the run, {cheaper} become cheaper {side} about {} {name} ({} now{tie})",
                rounded(value, if is_close { 2 } else { 1 }),
                about(now)
            );
            if !is_possible {
                text += &format!(", where {other} are not possible");
            }
            let is_function = functions_now == (factor >= 1.0);
            let below = if is_function { "function" } else { "instance" };
            (Some(value), Some(below), text)
        }
        Crossing::Never {
            functions_now,
            tried: [least, most],
        } => {
            let (other, _) = hosts(!functions_now);
            let text = format!(
                "{other} are not cheaper at any number of {name} that was tried, factors of ten from \
                 {} to {} ({} now)",
                about(now * least),
                about(now * most),
                about(now)
            );
            (None, None, text)
        }
    };
    BreakEven {
        quantity,
        now: Some(now),
        at: value,
        cheaper_below: below,
        text,
    }
}

/// Returns the words for functions and for instances, in the other order if not `functions_first`.
fn hosts(functions_first: bool) -> (&'static str, &'static str) {
    if functions_first {
        ("functions", "instances")
    } else {
        ("instances", "functions")
    }
}

/// Where another of two settings becomes cheaper, as a factor of a quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crossing {
    At {
        factor: f64,
        /// Whether functions are cheaper at the quantity as it is.
        functions_now: bool,
        /// Whether the other setting, which is cheaper now, is possible there.
        is_possible: bool,
        /// Whether it was found by dollars as they would be shown there, not as they are scaled
        /// here.
        is_close: bool,
    },
    Never {
        functions_now: bool,
        /// Least and largest factor at which the two were compared.
        tried: [f64; 2],
    },
}

/// The dollars of two settings by a factor of a quantity.
struct Pair<'a, V> {
    searched: &'a Searched<'a>,
    points: [usize; 2],
    vary: V,
    /// Dollars of each setting over those of its shortest simulations, at the quantity as it is.
    scales: [f64; 2],
    /// The same at another factor, between which and 1 scales lie between the two: what shortest
    /// simulations leave out weighs otherwise in a long training than in a short one.
    there: Option<(f64, [f64; 2])>,
}

impl<'a, V: Fn(&Point, f64) -> Option<Point> + Sync> Pair<'a, V> {
    fn new(searched: &'a Searched<'a>, choices: [&Choice; 2], vary: V) -> Result<Self> {
        let mut pair = Self {
            searched,
            points: choices.map(|choice| choice.index),
            vary,
            scales: [1.0; 2],
            there: None,
        };
        pair.scales = pair.scales_to(1.0, choices.map(|choice| Some(choice.price.usd)))?;
        Ok(pair)
    }

    /// Returns the scales by which the shortest simulations at a factor come to these dollars; those
    /// that there are where one of the two is not known.
    fn scales_to(&self, factor: f64, usd: [Option<f64>; 2]) -> Result<[f64; 2]> {
        let rough = self.usd(&[factor])?;
        let mut scales = [0, 1].map(|which| self.scale(which, factor));
        for ((scale, usd), rough) in scales.iter_mut().zip(usd).zip(rough) {
            let rough = rough.filter(|rough| rough.is_finite() && *rough > 0.0);
            if let Some((usd, rough)) = usd.zip(rough) {
                *scale *= usd / rough;
            }
        }
        Ok(scales)
    }

    /// Returns the scale of a setting at a factor.
    fn scale(&self, which: usize, factor: f64) -> f64 {
        let now = self.scales[which];
        match self.there {
            Some((at, there)) if at != 1.0 => {
                let share = (factor.ln() / at.ln()).clamp(0.0, 1.0);
                now * (there[which] / now).powf(share)
            }
            _ => now,
        }
    }

    /// Takes the scales at a factor from the dollars that would be shown of both settings there;
    /// returns whether it could, at little cost.
    fn look_at(&mut self, factor: f64) -> Result<bool> {
        if !(self.points.iter()).all(|index| self.searched.draws_quickly(*index)) {
            return Ok(false);
        }
        let points = self.points.iter();
        let points = points.map(|index| (self.vary)(&self.searched.points[*index], factor));
        let Some(points) = points.collect::<Option<Vec<Point>>>() else {
            return Ok(false);
        };
        let mut there = Searched::of(self.searched.bench, points);
        there.draws = self.searched.draws.again();
        let both = [0, 1];
        there.simulate(&both)?;
        for index in both {
            Ground::settle(&mut there, index)?;
        }
        there.draw(&both, MANY)?;
        let usd = both.map(|index| there.shown(index).map(|price| price.usd));
        self.there = Some((factor, self.scales_to(factor, usd)?));
        Ok(true)
    }

    /// Returns the dollars of both settings at each factor, one setting after the other: infinite
    /// where one is impossible, none where it cannot be varied so far.
    fn usd(&self, factors: &[f64]) -> Result<Vec<Option<f64>>> {
        let tasks: Vec<(f64, usize)> = (factors.iter())
            .flat_map(|factor| [(*factor, 0), (*factor, 1)])
            .collect();
        parallel::try_map(&tasks, |(factor, which)| {
            let point = &self.searched.points[self.points[*which]];
            let Some(point) = (self.vary)(point, *factor) else {
                return Ok(None);
            };
            let found = self.searched.bench.rough(&point, Draw(None))?;
            let usd = found.map(|figures| figures.price.usd * self.scale(*which, *factor));
            Ok(Some(usd.unwrap_or(f64::INFINITY)))
        })
    }

    /// Returns the dollars on functions and on instances at each factor where one of them is
    /// possible.
    fn compared(&self, factors: &[f64]) -> Result<Vec<Option<[f64; 2]>>> {
        let usd = self.usd(factors)?;
        let pairs = usd.chunks(2).map(|pair| match pair {
            [Some(a), Some(b)] if a.is_finite() || b.is_finite() => Some([*a, *b]),
            _ => None,
        });
        Ok(pairs.collect())
    }
}

/// Finds the crossing that is nearest to the quantity as it is.
fn crossing(
    searched: &Searched<'_>,
    choices: [&Choice; 2],
    vary: impl Fn(&Point, f64) -> Option<Point> + Sync,
) -> Result<Crossing> {
    let mut pair = Pair::new(searched, choices, vary)?;
    let [functions, instances] = choices.map(|choice| choice.price.usd);
    let functions_now = functions < instances;
    let mut found = nearest(&pair, functions_now)?;
    for _ in 0..ROUNDS {
        let Crossing::At { factor: before, .. } = found else {
            break;
        };
        if !pair.look_at(before)? {
            break;
        }
        found = nearest(&pair, functions_now)?;
        if let Crossing::At {
            factor, is_close, ..
        } = &mut found
            && (*factor / before - 1.0).abs() < SAME
        {
            *is_close = true;
            break;
        }
    }
    Ok(found)
}

/// Finds the nearest crossing by the scales that are known.
fn nearest<V: Fn(&Point, f64) -> Option<Point> + Sync>(
    pair: &Pair<'_, V>,
    functions_now: bool,
) -> Result<Crossing> {
    let changes = |usd: Option<[f64; 2]>| usd.filter(|[f, i]| (f < i) != functions_now);
    // Outwards from the quantity as it is, up to the first change on either side.
    let middle = FACTORS.len() / 2;
    let mut tried = [1.0; 2];
    for distance in 1..=middle {
        let (below, above) = (middle - distance, middle + distance);
        let found = pair.compared(&[FACTORS[below], FACTORS[above]])?;
        for ((inner, outer), usd) in [(below + 1, below), (above - 1, above)]
            .into_iter()
            .zip(found)
        {
            let Some(mut changed) = changes(usd) else {
                if usd.is_some() {
                    tried[usize::from(outer > middle)] = FACTORS[outer];
                }
                continue;
            };
            let (mut near, mut far) = (FACTORS[inner], FACTORS[outer]);
            for _ in 0..BISECTIONS {
                let factor = (near * far).sqrt();
                match changes(pair.compared(&[factor])?[0]) {
                    Some(usd) => (far, changed) = (factor, usd),
                    None => near = factor,
                }
            }
            return Ok(Crossing::At {
                factor: (near * far).sqrt(),
                functions_now,
                is_possible: changed.iter().all(|usd| usd.is_finite()),
                is_close: false,
            });
        }
    }
    Ok(Crossing::Never {
        functions_now,
        tried,
    })
}

/// Returns a point whose model exchanges so many times as many scalars, at the same
/// operations per sample: adapters in place of a whole model, say.
fn with_parameters(point: &Point, factor: f64) -> Option<Point> {
    let mut point = point.clone();
    let own = point.row.own_model.as_mut()?;
    let parameters = (own.parameters as f64 * factor).round().max(1.0);
    own.parameters = parameters as usize;
    Some(point)
}

/// Returns a point that trains so many times as many mini-batches, of as much more data or of the
/// same, as `--samples` does; none with fewer than one.
pub(super) fn with_samples(point: &Point, factor: f64, grows_data: bool) -> Option<Point> {
    let mut point = point.clone();
    let job = &mut point.row.job;
    let batches = (job.batches_per_worker as f64 * factor).round() as usize;
    if batches == 0 {
        return None;
    }
    let data = job.data.train_samples;
    *job = cut(job, batches, job.epochs);
    if !grows_data {
        let used = work::samples(job) / job.epochs.max(1);
        job.data.train_samples = data.max(used);
    }
    Some(point)
}
