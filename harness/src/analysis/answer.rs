//! The answer of a run in three sentences: what was fastest, what was cheapest,
//! and which conclusions of the paper hold.

use super::names::names;
use super::summary::{RowSummary, Verdict};
use super::work::{Contender, Setting, settings};
use super::{RowAnalysis, conclusions};
use crate::claims::{Claim, Estimate, Metric, ratio};
use crate::format;
use crate::platform::{Figures, figures_of};

pub use super::summary::Answer;

/// A ratio from which on a figure is more than slightly larger.
const SLIGHTLY: f64 = 1.005;

/// Settings that are named one by one; more are counted.
const NAMED: usize = 3;

impl Answer {
    /// Returns the answer of a run's rows and verdicts.
    pub(super) fn of(
        rows: &[RowAnalysis],
        summaries: &[RowSummary],
        claims: &[Claim],
        verdicts: &[Verdict],
        platform: &str,
    ) -> Self {
        let names = names(summaries);
        let settings = settings(rows, &names, target(claims));
        let origin = match figures_of(platform) {
            Figures::Simulated => " (simulated)",
            Figures::Measured => "",
        };
        Self {
            fastest: fastest(&settings, origin),
            cheapest: cheapest(&settings, origin),
            conclusions: conclusions::of_run(verdicts.iter()),
        }
    }

    /// Returns the answer of several runs, with what `verdicts` say of all.
    pub(super) fn of_runs(settings: &[Setting], conclusions: String) -> Self {
        let compared: Vec<&Setting> = settings.iter().filter(|one| one.is_compared()).collect();
        Self {
            fastest: counted("fastest", &compared, Setting::fastest),
            cheapest: format!(
                "{}{}",
                counted("cheapest", &compared, Setting::cheapest),
                against_instances(&compared)
            ),
            conclusions,
        }
    }

    /// Returns the three sentences, without those that are empty.
    pub fn sentences(&self) -> Vec<&str> {
        let all = [&self.fastest, &self.cheapest, &self.conclusions];
        let said = all.into_iter().filter(|sentence| !sentence.is_empty());
        said.map(String::as_str).collect()
    }
}

/// Returns the accuracy, in 0..=1, that claims require, by its time or at all;
/// the highest of several.
pub fn target(claims: &[Claim]) -> Option<f64> {
    let least = |claim: &Claim| {
        let is_accuracy = claim.metric == Some(Metric::Accuracy) && claim.over.is_none();
        let unit = claim.unit.as_deref().unwrap_or_default();
        let mut units = Metric::Accuracy.units().iter();
        let (_, factor) = units.find(|(name, _)| *name == unit)?;
        claim
            .at_least
            .filter(|_| is_accuracy)
            .map(|least| least / factor)
    };
    claims
        .iter()
        .filter_map(|claim| claim.target.or_else(|| least(claim)))
        .max_by(f64::total_cmp)
}

fn fastest(settings: &[Setting], origin: &str) -> String {
    let compared: Vec<&Setting> = settings.iter().filter(|one| one.is_compared()).collect();
    match (compared.as_slice(), settings) {
        ([], [one]) => alone(one, origin),
        ([], [_, ..]) => {
            "No two rows of this run do the same work: none is called the fastest.".into()
        }
        ([], []) => String::new(),
        ([one], _) => fastest_of(one, origin),
        (several, _) if several.len() <= NAMED => {
            let each = several.iter().filter_map(|setting| {
                let best = setting.fastest()?;
                let seconds = duration(best.seconds.mean?);
                Some(format!("{}: {} ({seconds})", setting.name, best.name))
            });
            let each: Vec<String> = each.collect();
            let what = several.first().map_or_else(String::new, |one| one.basis());
            format!("Fastest {what}{origin}: {}.", each.join("; "))
        }
        (several, _) => counted("fastest", several, Setting::fastest),
    }
}

/// Returns the sentence on the only row.
fn alone(setting: &Setting, origin: &str) -> String {
    let Some(row) = setting.contenders.first() else {
        return String::new();
    };
    let seconds = format::or_unknown(row.seconds.mean, duration);
    let name = &row.name;
    format!("{name} takes {seconds} {}{origin}.", setting.basis())
}

fn fastest_of(setting: &Setting, origin: &str) -> String {
    let (order, basis) = (setting.by_seconds(), setting.basis());
    let [best, next, ..] = order.as_slice() else {
        return String::new();
    };
    let seconds = |row: &Contender| format::or_unknown(row.seconds.mean, duration);
    let mut text = format!("Fastest: {}, {} {basis}{origin}", best.name, seconds(best));
    // A lead that the trials do not decide is none.
    let is_close = |row: &&Contender| {
        let apart = best.time_ratio(row);
        let is_equal = apart.mean.is_some_and(|ratio| ratio < SLIGHTLY);
        is_equal || apart.ci95.is_some_and(|[low, _]| low <= 1.0)
    };
    let close: Vec<&str> = (order[1..].iter())
        .filter(is_close)
        .map(|row| row.name.as_str())
        .collect();
    match close.as_slice() {
        [] => text.push_str(&format!("; next: {}, {}", next.name, seconds(next))),
        [one] => text.push_str(&format!("; the trials do not tell it apart from {one}")),
        [one, rest @ ..] => {
            let more = rest.len();
            text.push_str(&format!(
                "; the trials do not tell it apart from {one} and {more} more"
            ));
        }
    }
    if best.trials == 1 && origin.is_empty() {
        text.push_str(" (one trial each: a lead may be chance)");
    }
    text.push('.');
    if setting.left_out > 0 {
        text.push_str(&format!(" {} rows did not get there.", setting.left_out));
    }
    text
}

fn cheapest(settings: &[Setting], origin: &str) -> String {
    let compared: Vec<&Setting> = settings.iter().filter(|one| one.is_compared()).collect();
    match (compared.as_slice(), settings) {
        ([], [one]) => one.contenders.first().map_or_else(String::new, |row| {
            let usd = format::or_unknown(row.usd.mean, format::usd);
            let basis = one.basis();
            format!("It costs {usd} {basis} with everything billed{origin}.")
        }),
        ([], _) => String::new(),
        ([one], _) => cheapest_of(one, origin),
        (several, _) if several.len() <= NAMED => {
            let each = several.iter().filter_map(|setting| {
                let best = setting.cheapest()?;
                let usd = format::usd(best.usd.mean?);
                let name = &setting.name;
                Some(format!("{name}: {} ({usd}){}", best.name, beside(setting)))
            });
            let each: Vec<String> = each.collect();
            let what = several.first().map_or_else(String::new, |one| one.basis());
            format!(
                "Cheapest {what} with everything billed{origin}: {}.",
                each.join("; ")
            )
        }
        (several, _) => format!(
            "{}{}",
            counted("cheapest", several, Setting::cheapest),
            against_instances(several)
        ),
    }
}

fn cheapest_of(setting: &Setting, origin: &str) -> String {
    let Some(best) = setting.cheapest() else {
        return String::new();
    };
    let kinds = ["on rented instances", "on functions"];
    let place = kinds[usize::from(best.on_functions)];
    let usd = format::or_unknown(best.usd.mean, format::usd);
    let mut text = format!(
        "Cheapest: {} {place}, {usd} {} with everything billed{origin}",
        best.name,
        setting.basis()
    );
    let kind = kinds[usize::from(!best.on_functions)];
    match setting.cheapest_on(!best.on_functions) {
        Some(other) => {
            let factor = quotient(other.usd, best.usd);
            text.push_str(&format!(
                "; the cheapest {kind}, {}, costs {} times as much ({})",
                other.name,
                format::or_unknown(factor, format::number),
                format::or_unknown(other.usd.mean, format::usd)
            ));
        }
        None => text.push_str(&format!("; no row of the run computes {kind}")),
    }
    text.push('.');
    text
}

/// Returns how the cheapest row of a setting compares with the other kind of host.
fn beside(setting: &Setting) -> String {
    let cheapest = |on_functions| setting.cheapest_on(on_functions);
    match (cheapest(true), cheapest(false)) {
        (Some(functions), Some(instances)) => {
            let factor = quotient(functions.usd, instances.usd);
            let factor = format::or_unknown(factor, format::number);
            format!(", functions at {factor} times the price of instances")
        }
        _ => String::new(),
    }
}

/// Returns which systems lead how many of several settings.
fn counted(
    word: &str,
    settings: &[&Setting],
    best: impl Fn(&Setting) -> Option<Contender>,
) -> String {
    let mut leads: Vec<(String, usize)> = Vec::new();
    for leader in settings.iter().filter_map(|setting| best(setting)) {
        match leads.iter_mut().find(|(name, _)| *name == leader.system) {
            Some((_, count)) => *count += 1,
            None => leads.push((leader.system, 1)),
        }
    }
    // The first that has most comes first.
    leads.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let all: usize = leads.iter().map(|(_, count)| count).sum();
    if all == 0 {
        return String::new();
    }
    let simulated = settings.iter().filter(|one| one.is_simulated).count();
    let origin = match simulated {
        0 => String::new(),
        count if count == settings.len() => " (all simulated)".into(),
        count => format!(" ({count} of them simulated)"),
    };
    let shown: Vec<String> = (leads.iter().take(NAMED))
        .map(|(name, count)| format!("{name} in {count}"))
        .collect();
    let rest: usize = leads.iter().skip(NAMED).map(|(_, count)| count).sum();
    let rest = match rest {
        0 => String::new(),
        rest => format!(", others in {rest}"),
    };
    let capital = format!("{}{}", word[..1].to_uppercase(), &word[1..]);
    format!(
        "{capital} in {all} settings{origin} in which several rows do the same work: {}{rest}.",
        shown.join(", ")
    )
}

/// Returns in how many settings functions cost less than rented instances.
fn against_instances(settings: &[&Setting]) -> String {
    let factors: Vec<f64> = settings
        .iter()
        .filter_map(|setting| {
            let functions = setting.cheapest_on(true)?.usd;
            quotient(functions, setting.cheapest_on(false)?.usd)
        })
        .collect();
    if factors.is_empty() {
        return " None of them has both functions and rented instances.".into();
    }
    let cheaper = factors.iter().filter(|factor| **factor < 1.0).count();
    let least = factors.iter().copied().fold(f64::INFINITY, f64::min);
    let most = factors.iter().copied().fold(0.0, f64::max);
    let range = if most / least < SLIGHTLY {
        format::number(most)
    } else {
        format!("{} to {}", format::number(least), format::number(most))
    };
    format!(
        " Functions are cheaper than rented instances in {cheaper} of the {} that have both; with \
         everything billed they cost {range} times as much.",
        factors.len()
    )
}

/// Returns a length of time in the unit that suits it.
fn duration(seconds: f64) -> String {
    match seconds {
        long if long >= 7200.0 => format!("{} h", format::number(long / 3600.0)),
        middle if middle >= 120.0 => format!("{} min", format::number(middle / 60.0)),
        short => format::seconds(short),
    }
}

fn quotient(value: Estimate, divisor: Estimate) -> Option<f64> {
    let (value, divisor) = (value.mean?, divisor.mean?);
    (divisor > 0.0).then(|| value / divisor)
}

impl Contender {
    /// Returns the ratio of another row's seconds to this one's, over the trials
    /// that both have.
    fn time_ratio(&self, other: &Self) -> Estimate {
        let pairs: Vec<(f64, f64)> = (other.times.iter())
            .filter_map(|(trial, value)| {
                let own = self.times.iter().find(|(known, _)| known == trial)?;
                Some((*value, own.1))
            })
            .collect();
        ratio::paired(&pairs)
    }
}
