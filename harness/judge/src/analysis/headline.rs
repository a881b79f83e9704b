//! The finding of a run as the title of its chart of time against cost.

use epochcost_platform::{Figures, Site, figures_of, site_of};
use epochcost_spec::claims::Claim;

use super::answer::{target, unlearned};
use super::findings::is_too_short;
use super::names::names;
use super::work::{By, Contender, Setting, guesses, settings};
use super::{Analysis, epochs_are_alike};

/// Name of the chart.
pub const NAME: &str = "Time against cost";

/// Settings whose findings are told one by one.
const NAMED: usize = 2;

/// Returns what is fastest and what is cheapest, under the conditions under which the answer says
/// so; else why the chart ranks nothing.
pub fn headline(analysis: &Analysis, claims: &[Claim], platform: &str) -> String {
    let (rows, summaries) = (&analysis.rows, &analysis.summary.rows);
    let target = target(claims);
    let is_here = site_of(platform) == Some(Site::ThisMachine);
    if is_here && is_too_short(summaries, target) {
        return format!("{NAME}: too short to compare");
    }
    if is_here {
        return format!("{NAME} on this machine: no ranking");
    }
    let is_simulated = figures_of(platform) == Figures::Simulated;
    if is_simulated && unlearned(claims, rows).is_some() {
        return format!("{NAME}: nothing was trained, no ranking");
    }
    if target.is_none() && !epochs_are_alike(rows.iter()) {
        return NAME.to_owned();
    }
    let settings = settings(rows, &names(summaries), target);
    if settings.is_empty() && rows.iter().any(guesses) {
        return format!("{NAME}: nothing was learned, no ranking");
    }
    let compared = settings.iter().filter(|setting| setting.is_compared());
    // A lead of one trial may be chance, except in a simulation.
    let told = |setting: &Setting| finding(setting).filter(|_| is_simulated || repeats(setting));
    let findings = compared.map(|setting| Some((setting, told(setting)?)));
    let findings = findings.collect::<Option<Vec<_>>>().unwrap_or_default();
    let Some((setting, finding)) = findings.first() else {
        return NAME.to_owned();
    };
    let (all, basis) = (findings.len(), setting.basis());
    if findings.iter().all(|(_, other)| other == finding) {
        let scope = match all {
            1 => String::new(),
            all => format!(", in all {all} settings"),
        };
        return format!("{finding} {basis}{scope}");
    }
    if all > NAMED {
        return NAME.to_owned();
    }
    let each = (findings.iter()).map(|(setting, finding)| format!("{}: {finding}", setting.name));
    format!("{} {basis}", each.collect::<Vec<_>>().join("; "))
}

fn repeats(setting: &Setting) -> bool {
    setting.contenders.iter().all(|row| row.trials > 1)
}

/// Returns which rows are the fastest and which the cheapest.
fn finding(setting: &Setting) -> Option<String> {
    let [fastest, cheapest] = [By::Seconds, By::Usd].map(|by| setting.best(by));
    match (fastest.as_slice(), cheapest.as_slice()) {
        ([], _) | (_, []) => None,
        ([fast], [cheap]) if fast.name == cheap.name => {
            Some(format!("{} is fastest and cheapest", fast.name))
        }
        (fast, cheap) => Some(format!("{} fastest, {} cheapest", are(fast), are(cheap))),
    }
}

/// Returns the names of rows with their verb.
fn are(rows: &[&Contender]) -> String {
    match rows {
        [] => String::new(),
        [one] => format!("{} is", one.name),
        [one, two] => format!("{} and {} tie as", one.name, two.name),
        [one, rest @ ..] => format!("{} and {} more tie as", one.name, rest.len()),
    }
}
