//! A profile of one's own account: the constants of another, moved towards one's own measurements.
//!
//! Every constant with a range is a normal belief about its logarithm, around the stated value and as
//! wide as its draws or as authors differ. A row shows the constants that its figure depends on, times
//! the level of its day, times an error of the model and of measuring a few times. What is believed
//! after all rows is written as values and ranges.

mod belief;
mod fit;
mod linear;
mod plan;
mod rows;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;

use epochcost_simulator::ProbeClient;
use epochcost_simulator::profile::{Constant, Profile};
use epochcost_spec::cost::PriceBook;
use epochcost_spec::profiles;
use serde::Serialize;

use self::fit::{Confused, Fitted, INFORMED, fit};
use self::linear::{Parameter, linear};
use self::plan::Proposals;
use super::rounds::Prices;
use super::score::median;
use crate::error::{Error, Result};

pub(super) use self::linear::{Row, What};

/// What a profile is calibrated by.
#[derive(Clone, Copy, Debug)]
pub struct Calibration<'a> {
    /// Tables, logs and run directories.
    pub from: &'a [PathBuf],
    /// The profile to begin with, by name or file.
    pub profile: &'a str,
    /// Name of the profile that is made.
    pub name: &'a str,
    /// The client of functions whose logs are read, and of measurements that are proposed.
    pub client: ProbeClient,
    /// Whether measurements are proposed.
    pub proposes: bool,
    /// The day of the calibration, `YYYY-MM-DD`.
    pub date: &'a str,
}

/// A profile, calibrated.
#[derive(Serialize)]
pub struct Calibrated {
    /// The profile that was begun with.
    profile: String,
    /// Rows that were read, and days that they are of.
    rows: usize,
    days: usize,
    /// Lines of logs that were there before, and do not count.
    #[serde(skip_serializing_if = "is_zero")]
    repeated: usize,
    /// Constants that moved, that which rows say most of first.
    constants: Vec<Moved>,
    /// Constants that stay, since rows do not tell them from others.
    stay: Vec<Confused>,
    /// Rows that move no constant.
    unused: Vec<String>,
    /// Median absolute relative error of the other rows, before and after; they are what the constants were
    /// moved by.
    error: Option<[f64; 2]>,
    /// Measurements worth making next.
    #[serde(skip_serializing_if = "Option::is_none")]
    proposed: Option<Proposals>,
    #[serde(skip)]
    made: Profile<Constant>,
}

/// A constant that rows moved.
#[derive(Serialize)]
struct Moved {
    path: String,
    /// Value, lowest and highest, of the profile that was begun with.
    before: [f64; 3],
    /// The same in the profile that was made.
    after: [f64; 3],
    /// Share of the belief's variance that rows took.
    weight: f64,
    /// Rows whose figure changes by a tenth or more of what the constant changes by.
    rows: usize,
    /// Scatter of the rows that it matters most to, over that of their errors and days; 1 if less.
    scatter: f64,
}

/// Calibrates a profile by measurements, or proposes some.
///
/// # Errors
/// When a measurement or the profile cannot be used.
pub fn calibrate(request: &Calibration<'_>) -> Result<Calibrated> {
    let profile = profiles::platform(request.profile)?;
    if request.client != ProbeClient::Compiled && profile.interpreted.is_none() {
        return Err(Error::Usage {
            problem: format!(
                "the profile {} describes no interpreted client",
                profile.name
            ),
            remedy: "leave out --client, or name another profile with --profile".to_owned(),
        });
    }
    let (mut rows, mut seen) = (Vec::new(), rows::Seen::default());
    for path in request.from {
        rows.extend(rows::read(path, request.client, &profile, &mut seen)?);
    }
    let prices = Prices::shipped()?;
    let fitted = fit(&profile, Parameter::all(&profile), &rows, &prices, None);
    if let Some((place, ratio)) = fitted.far.first() {
        return Err(Error::Usage {
            problem: format!("{place}: it is {ratio:.2e} times what the profile predicts"),
            remedy: "give seconds (dollars of a cost), or another profile".to_owned(),
        });
    }
    let made = made(&profile, &fitted, &rows, request);
    let proposed = if request.proposes {
        let book = PriceBook::shipped()?;
        Some(plan::propose(
            &made,
            &fitted,
            request.client,
            &prices,
            &book,
        )?)
    } else {
        None
    };
    Ok(Calibrated {
        repeated: seen.repeated,
        ..Calibrated::new(&profile, made, &fitted, &rows, proposed)
    })
}

/// Least deviation of a constant's logarithm where an author is left out: a factor of 7 either way, so
/// that what the profile states of it hardly counts.
const OPEN: f64 = 2.0;
/// Share of that variance that other authors must take from a constant before it moves.
const KNOWN: f64 = 0.9;

/// Returns what a profile becomes by some of `rows` alone, whatever it states of the constants that they
/// show: its argument has, for each row, whether it counts.
pub(super) fn without<'a>(
    profile: &'a Profile<Constant>,
    rows: &'a [Row],
    prices: &'a Prices,
) -> impl Fn(&[bool]) -> Profile<Constant> + 'a {
    let mut open = Parameter::all(profile);
    for parameter in &mut open {
        parameter.deviation = parameter.deviation.max(OPEN);
    }
    let lines = linear(profile, &open, rows, prices, None);
    move |counts| {
        let kept = rows.iter().zip(&lines).zip(counts);
        let kept = kept.filter(|(_, counts)| **counts).map(|(kept, _)| kept);
        let (rows, lines): (Vec<Row>, Vec<_>) =
            kept.map(|(row, line)| (row.clone(), line.clone())).unzip();
        let fitted = fit(profile, open.clone(), &rows, prices, Some(lines));
        fitted.profile(profile, KNOWN, |_, constant| constant.clone())
    }
}

/// Returns the profile that follows from rows.
fn made(
    profile: &Profile<Constant>,
    fitted: &Fitted,
    rows: &[Row],
    request: &Calibration<'_>,
) -> Profile<Constant> {
    let from: Vec<String> = (request.from.iter())
        .map(|path| path.display().to_string())
        .collect();
    let from = from.join(", ");
    let moved = fitted.profile(profile, INFORMED, |rows, constant| {
        let (low, high) = constant.range();
        let source = format!(
            "rows of {from}: {rows}; before, {} ({low} to {high}): {}",
            constant.value, constant.source
        );
        Constant {
            source,
            date: request.date.to_owned(),
            ..constant.clone()
        }
    });
    Profile {
        name: request.name.to_owned(),
        about: format!(
            "{}, calibrated by {from} (rows: {}). {}",
            profile.name,
            rows.len(),
            profile.about
        ),
        ..moved
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Calibrated {
    fn new(
        profile: &Profile<Constant>,
        made: Profile<Constant>,
        fitted: &Fitted,
        rows: &[Row],
        proposed: Option<Proposals>,
    ) -> Self {
        let range = |constant: &Constant| {
            let (low, high) = constant.range();
            [constant.value, low, high]
        };
        let (old, new) = (profile.constants(), made.constants());
        let moved = |index: usize| {
            let parameter = &fitted.parameters[index];
            let place = old.iter().position(|(path, _)| parameter.has(path))?;
            (fitted.weight(index) >= INFORMED).then(|| Moved {
                path: parameter.path.clone(),
                before: range(&old[place].1),
                after: range(&new[place].1),
                weight: fitted.weight(index),
                rows: fitted.rows[index],
                scatter: fitted.scatter[index],
            })
        };
        let mut constants: Vec<Moved> = (0..fitted.parameters.len()).filter_map(moved).collect();
        constants.sort_by(|one, other| other.weight.total_cmp(&one.weight));
        let error = |of: fn(&(f64, f64)) -> f64| {
            let ratios = fitted.ratios.iter().map(of);
            median(ratios.map(|ratio| (1.0 / ratio - 1.0).abs()).collect())
        };
        let series: BTreeSet<&str> = rows.iter().map(|row| row.series.as_str()).collect();
        Self {
            profile: profile.name.clone(),
            rows: rows.len(),
            days: series.len(),
            repeated: 0,
            constants,
            stay: fitted.confused.clone(),
            unused: fitted.unused.clone(),
            error: (!fitted.ratios.is_empty())
                .then(|| [error(|ratio| ratio.0), error(|ratio| ratio.1)]),
            proposed,
            made,
        }
    }

    /// Returns the calibrated profile.
    pub fn made(&self) -> &Profile<Constant> {
        &self.made
    }
}
