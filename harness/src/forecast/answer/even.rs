//! Break-evens: where functions and instances cost the same.

use serde::Serialize;

use super::Searched;
use super::bench::Point;
use crate::error::Error;
use crate::forecast::parallel;
use crate::forecast::places::Draw;
use crate::format::{count, usd};
use crate::rows::OwnModel;

/// Hours of a month of 30 days, for which an instance may be kept.
const MONTH_H: f64 = 720.0;

/// Factors of a quantity between which a break-even is searched for.
const FACTORS: [f64; 9] = [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4];

/// Relative distance of a break-even within which neither host is said to be cheaper.
const TIE: f64 = 0.1;

/// Bisections of a factor of ten.
const BISECTIONS: u32 = 7;

/// A quantity that would change the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct BreakEven {
    /// Name of the quantity: `runs_per_month`, `trainable_parameters`, `samples`.
    pub(super) quantity: &'static str,
    /// Its value now; null of runs.
    pub(super) now: Option<f64>,
    /// The value at which both cost the same; null if none was found in four orders of
    /// magnitude either way.
    pub(super) at: Option<f64>,
    /// Which host is cheaper below that value; null without one.
    pub(super) cheaper_below: Option<&'static str>,
    /// The break-even in words.
    pub(super) text: String,
}

/// Returns the break-evens between the best on functions and the best on instances.
///
/// # Errors
/// When a row is none of a known system, or something has no price.
pub(super) fn break_evens(
    searched: &Searched<'_>,
    functions: Option<usize>,
    instances: Option<usize>,
) -> Result<Vec<BreakEven>, Error> {
    let (Some(functions), Some(instances)) = (functions, instances) else {
        return Ok(Vec::new());
    };
    let pair = [functions, instances];
    let mut found: Vec<BreakEven> = runs(searched, functions, instances).into_iter().collect();
    let job = &searched.points[instances].row.job;
    if let Some(own) = &searched.points[functions].row.own_model {
        let now = own.parameters as f64;
        let at = crossing(searched, pair, with_parameters)?;
        found.push(of("trainable_parameters", "trainable parameters", now, at));
    }
    let now = crate::forecast::work::samples(job) as f64;
    let at = crossing(searched, pair, with_samples)?;
    found.push(of("samples", "samples", now, at));
    Ok(found)
}

/// Returns the runs per month from which on an instance that is kept costs no more than
/// functions that are paid by the run.
fn runs(searched: &Searched<'_>, functions: usize, instances: usize) -> Option<BreakEven> {
    let run = searched.figures(functions)?.price;
    let kept = searched.figures(instances)?.price;
    let point = &searched.points[instances];
    let site = searched.site(point);
    let machines = match point.row.job.workers {
        _ if super::alone::is_one_machine(&point.row) => 1.0,
        workers => workers as f64,
    };
    let month_usd = MONTH_H * machines * site.hourly_usd(searched.bench.prices)?;
    let at = month_usd / run.usd;
    let most = MONTH_H * 3600.0 / kept.seconds;
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
    let scale = 10f64.powf(value.abs().max(f64::MIN_POSITIVE).log10().floor() - 1.0);
    count((value / scale).round() * scale)
}

/// Returns a break-even in words.
fn of(quantity: &'static str, name: &str, now: f64, at: Crossing) -> BreakEven {
    let (value, below, text) = match at {
        Crossing::At {
            factor,
            functions_below,
        } => {
            let value = now * factor;
            let (cheaper, side) = if functions_below {
                ("function", "below")
            } else {
                ("instance", "above")
            };
            let text = format!(
                "paid by the run, functions are cheaper {side} about {} {name} ({} now{})",
                about(value),
                about(now),
                if (value / now - 1.0).abs() < TIE {
                    ": a tie"
                } else {
                    ""
                }
            );
            (Some(value), Some(cheaper), text)
        }
        Crossing::Never { cheaper } => {
            let text = format!(
                "no number of {name} within a factor of 10,000 makes {} cheaper",
                match cheaper {
                    "function" => "instances",
                    _ => "functions",
                }
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

/// Where the dollars of two settings cross, as a factor of a quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Crossing {
    At { factor: f64, functions_below: bool },
    Never { cheaper: &'static str },
}

/// The dollars of two settings by a factor of a quantity.
struct Pair<'a, V> {
    searched: &'a Searched<'a>,
    points: [usize; 2],
    vary: V,
    /// Dollars of each setting over those of its shortest simulations.
    scales: [f64; 2],
}

impl<'a, V: Fn(&Point, f64) -> Option<Point> + Sync> Pair<'a, V> {
    fn new(searched: &'a Searched<'a>, points: [usize; 2], vary: V) -> Result<Self, Error> {
        let mut pair = Self {
            searched,
            points,
            vary,
            scales: [1.0; 2],
        };
        let known = points.map(|point| searched.figures(point).map(|found| found.price.usd));
        let rough = pair.usd(&[1.0])?;
        for ((scale, known), rough) in pair.scales.iter_mut().zip(known).zip(&rough) {
            if let (Some(known), Some(rough)) = (known, rough) {
                *scale = known / rough.max(f64::MIN_POSITIVE);
            }
        }
        Ok(pair)
    }

    /// Returns the dollars of both settings at each factor, one setting after the other; none
    /// where one is impossible.
    fn usd(&self, factors: &[f64]) -> Result<Vec<Option<f64>>, Error> {
        let tasks: Vec<(f64, usize)> = (factors.iter())
            .flat_map(|factor| [(*factor, 0), (*factor, 1)])
            .collect();
        let found = parallel::map(&tasks, |(factor, which)| -> Result<Option<f64>, Error> {
            let point = &self.searched.points[self.points[*which]];
            let Some(point) = (self.vary)(point, *factor) else {
                return Ok(None);
            };
            let found = self.searched.bench.rough(&point, Draw(None))?;
            Ok(found
                .ok()
                .map(|figures| figures.price.usd * self.scales[*which]))
        });
        found.into_iter().collect()
    }

    /// Returns for each factor whether functions are cheaper; nothing where one of the two is
    /// impossible.
    fn functions_win(&self, factors: &[f64]) -> Result<Vec<Option<bool>>, Error> {
        let usd = self.usd(factors)?;
        let wins = usd.chunks(2).map(|pair| match pair {
            [Some(functions), Some(instances)] => Some(functions < instances),
            _ => None,
        });
        Ok(wins.collect())
    }
}

/// Finds the crossing that is nearest to the quantity as it is.
fn crossing(
    searched: &Searched<'_>,
    points: [usize; 2],
    vary: impl Fn(&Point, f64) -> Option<Point> + Sync,
) -> Result<Crossing, Error> {
    let pair = Pair::new(searched, points, vary)?;
    // Outwards from the quantity as it is, up to the first change on either side.
    let middle = FACTORS.len() / 2;
    let mut wins = vec![None; FACTORS.len()];
    wins[middle] = pair.functions_win(&[FACTORS[middle]])?[0];
    let mut nearest = None;
    for distance in 1..=middle {
        let (below, above) = (middle - distance, middle + distance);
        let found = pair.functions_win(&[FACTORS[below], FACTORS[above]])?;
        (wins[below], wins[above]) = (found[0], found[1]);
        let changes = |from: usize| {
            wins[from].is_some() && wins[from + 1].is_some() && wins[from] != wins[from + 1]
        };
        nearest = [below, above - 1].into_iter().find(|from| changes(*from));
        if nearest.is_some() {
            break;
        }
    }
    let Some(from) = nearest else {
        let cheaper = if wins[middle] == Some(true) {
            "function"
        } else {
            "instance"
        };
        return Ok(Crossing::Never { cheaper });
    };
    let functions_below = wins[from] == Some(true);
    let (mut low, mut high) = (FACTORS[from], FACTORS[from + 1]);
    for _ in 0..BISECTIONS {
        let middle = (low * high).sqrt();
        match pair.functions_win(&[middle])?[0] {
            Some(wins) if wins == functions_below => low = middle,
            Some(_) => high = middle,
            None => break,
        }
    }
    Ok(Crossing::At {
        factor: (low * high).sqrt(),
        functions_below,
    })
}

/// Returns a point whose model exchanges so many times as many scalars, at the same
/// operations per sample: adapters in place of a whole model, say.
fn with_parameters(point: &Point, factor: f64) -> Option<Point> {
    let mut point = point.clone();
    let own = point.row.own_model.as_mut()?;
    let parameters = (own.parameters as f64 * factor).round().max(1.0);
    *own = OwnModel {
        parameters: parameters as usize,
        ..own.clone()
    };
    Some(point)
}

/// Returns a point that trains so many times as many mini-batches; none with fewer than one.
fn with_samples(point: &Point, factor: f64) -> Option<Point> {
    let mut point = point.clone();
    let job = &mut point.row.job;
    let batches = (job.batches_per_worker as f64 * factor).round();
    if batches < 1.0 {
        return None;
    }
    let share = batches / job.batches_per_worker as f64;
    job.batches_per_worker = batches as usize;
    let used = crate::forecast::work::samples(job) / job.epochs.max(1);
    let samples = (job.data.train_samples as f64 * share).ceil() as usize;
    job.data.train_samples = samples.max(used);
    Some(point)
}
