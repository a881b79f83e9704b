//! Break-evens: where functions and instances cost the same.

use serde::Serialize;

use super::Searched;
use super::bench::Point;
use crate::error::Error;
use crate::forecast::places::Draw;
use crate::format::{count, duration, number, usd};
use crate::rows::OwnModel;

/// Hours of a month of 30 days, for which an instance may be kept.
const MONTH_H: f64 = 720.0;

/// Factors of a quantity between which a break-even is searched for.
const FACTORS: [f64; 9] = [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4];

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
    let pair = [functions, instances].map(|index| &searched.points[index]);
    let mut found: Vec<BreakEven> = runs(searched, functions, instances).into_iter().collect();
    let job = &pair[1].row.job;
    if let Some(own) = &pair[0].row.own_model {
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
    let run = searched.found[functions].as_ref().ok()?.price;
    let kept = searched.found[instances].as_ref().ok()?.price;
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
            "an instance kept all month ({}) never pays against functions: it has time for {} runs, \
             and {} would have to share its price",
            usd(month_usd),
            number(most),
            number(at)
        )
    } else {
        format!(
            "functions are cheaper than an instance kept all month ({}) below {} runs a month, of \
             {} each on the instance",
            usd(month_usd),
            number(at),
            duration(kept.seconds)
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
                "paid by the run, functions become cheaper {side} {} {name} ({} now)",
                number(value),
                count(now)
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

/// Finds the crossing that is nearest to the quantity as it is.
fn crossing(
    searched: &Searched<'_>,
    pair: [&Point; 2],
    vary: impl Fn(&Point, f64) -> Option<Point>,
) -> Result<Crossing, Error> {
    // Whether functions are cheaper; unknown where one of the two is impossible.
    let functions_win = |factor: f64| -> Result<Option<bool>, Error> {
        let mut dollars = [None; 2];
        for (usd, point) in dollars.iter_mut().zip(pair) {
            if let Some(point) = vary(point, factor) {
                let found = searched.bench.short(&point, Draw(None))?;
                *usd = found.ok().map(|figures| figures.price.usd);
            }
        }
        Ok(match dollars {
            [Some(functions), Some(instances)] => Some(functions < instances),
            _ => None,
        })
    };
    let mut grid = Vec::with_capacity(FACTORS.len());
    for factor in FACTORS {
        grid.push((factor, functions_win(factor)?));
    }
    let now = functions_win(1.0)?;
    let changes = grid
        .windows(2)
        .filter(|pair| pair[0].1.is_some() && pair[1].1.is_some() && pair[0].1 != pair[1].1);
    let distance = |pair: &&[(f64, Option<bool>)]| (pair[0].0 * pair[1].0).sqrt().log10().abs();
    let nearest = changes.min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let Some(nearest) = nearest else {
        let cheaper = if now == Some(true) {
            "function"
        } else {
            "instance"
        };
        return Ok(Crossing::Never { cheaper });
    };
    let functions_below = nearest[0].1 == Some(true);
    let (mut low, mut high) = (nearest[0].0, nearest[1].0);
    for _ in 0..BISECTIONS {
        let middle = (low * high).sqrt();
        match functions_win(middle)? {
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
