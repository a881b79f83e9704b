//! The answer of a run in a few sentences: what was fastest and cheapest, or, where
//! seconds are of this machine, what was learned; and which conclusions of the paper hold.

use epochcost_platform::{Figures, Site, figures_of, site_of};
use epochcost_record::Manifest;
use epochcost_spec::claims::{Claim, ClaimKind, Estimate, Metric, VerdictKind};
use epochcost_spec::format;

use super::names::names;
use super::summary::{RowSummary, Verdict};
use super::work::{By, Contender, Setting, guesses, settings};
use super::{RowAnalysis, conclusions, findings};

pub use super::summary::Answer;

/// Settings that are named one by one; more are counted.
const NAMED: usize = 3;

/// Why rows that guess are not ranked.
const GUESSED: &str = "What was trained in this simulation is hardly better than guessing: none is \
                       called fastest or cheapest.";

impl Answer {
    /// Returns the answer of a run's rows and verdicts.
    pub(super) fn of(
        rows: &[RowAnalysis],
        summaries: &[RowSummary],
        claims: &[Claim],
        verdicts: &[Verdict],
        manifest: &Manifest,
    ) -> Self {
        let platform = manifest.platform.as_str();
        let (names, target) = (names(summaries), target(claims));
        // Seconds of this machine's shared cores name no winner.
        if site_of(platform) == Some(Site::ThisMachine) || manifest.rehearsed {
            let rest = verdicts.iter().filter(|verdict| !findings::tells(verdict));
            return Self {
                findings: findings::of_run(summaries, &names, verdicts, target),
                conclusions: conclusions::of_run(rest),
                ..Self::default()
            };
        }
        let simulated = figures_of(platform) == Figures::Simulated;
        let ranks_nothing = |why: String| Self {
            fastest: why,
            conclusions: conclusions::of_run(verdicts.iter()),
            ..Self::default()
        };
        if let Some(wanted) = unlearned(claims, rows).filter(|_| simulated) {
            return ranks_nothing(named_none(wanted));
        }
        let settings = settings(rows, &names, target);
        if settings.is_empty() && target.is_none() && rows.iter().any(guesses) {
            return ranks_nothing(GUESSED.into());
        }
        let origin = if simulated { " (simulated)" } else { "" };
        Self {
            cheapest: cheapest(&settings, origin),
            ..ranks_nothing(fastest(&settings, origin))
        }
    }

    /// Returns the sentences, without those that are empty.
    pub fn sentences(&self) -> Vec<&str> {
        let best = [&self.fastest, &self.cheapest].into_iter();
        let all = best.chain(&self.findings).chain([&self.conclusions]);
        let said = all.filter(|sentence| !sentence.is_empty());
        said.map(String::as_str).collect()
    }
}

/// Returns findings as sentences: what each says, the ratio of its two sides, and its verdict with
/// the share of draws in which it holds.
pub fn told<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Vec<String> {
    let findings = verdicts.filter(|verdict| verdict.kind == ClaimKind::Own);
    let sentence = |verdict: &Verdict| {
        let ratio = verdict.observed.filter(|_| verdict.ranking);
        let ratio = ratio.map(|ratio| format!("{}×, ", format::number(ratio)));
        let ratio = ratio.unwrap_or_default();
        let kind = verdict.verdict;
        let open = match kind {
            VerdictKind::Holds => String::new(),
            _ => format!("{kind}: "),
        };
        let word = match &verdict.draws {
            None => kind.to_string(),
            Some(draws) if draws.agree == draws.draws => format!("{open}holds in all draws"),
            Some(draws) => format!("{open}holds in {} of draws", format::percent(draws.share)),
        };
        format!("{}: {ratio}{word}.", verdict.claim)
    };
    findings.map(sentence).collect()
}

/// Returns the accuracy, in 0..=1, that claims require, by its time or at all; the highest of
/// several. Claims that options exclude require nothing: a simulation of sizes has no accuracy.
pub fn target(claims: &[Claim]) -> Option<f64> {
    highest(claims.iter().filter(|claim| claim.excluded.is_none()))
}

fn highest<'a>(claims: impl Iterator<Item = &'a Claim>) -> Option<f64> {
    let targets = claims.filter_map(|claim| claim.target);
    targets.max_by(f64::total_cmp)
}

/// Returns the accuracy that claims require of rows of which none has any.
pub(super) fn unlearned(claims: &[Claim], rows: &[RowAnalysis]) -> Option<f64> {
    let accuracy = |row: &RowAnalysis| row.estimate(Metric::Accuracy).mean;
    let is_unlearned = rows.iter().all(|row| accuracy(row).is_none());
    highest(claims.iter()).filter(|_| is_unlearned)
}

/// Returns why rows that were trained nowhere are not ranked, if claims compare them at an accuracy.
pub fn unranked(claims: &[Claim]) -> Option<String> {
    highest(claims.iter()).map(named_none)
}

fn named_none(wanted: f64) -> String {
    format!(
        "Sizes were simulated and nothing was trained: this experiment compares systems at {} \
         accuracy, so none is called fastest or cheapest.",
        format::goal(wanted)
    )
}

/// Returns the settings in which several rows do the same work.
fn compared(settings: &[Setting]) -> Vec<&Setting> {
    settings.iter().filter(|one| one.is_compared()).collect()
}

fn fastest(settings: &[Setting], origin: &str) -> String {
    let compared = compared(settings);
    match (compared.as_slice(), settings) {
        ([], [one]) => alone(one, origin),
        ([], [_, ..]) => {
            "No two rows of this run do the same work: none is called the fastest.".into()
        }
        ([], []) => String::new(),
        ([one], _) => fastest_of(one, origin),
        (several, _) if several.len() <= NAMED => {
            let each = several.iter().filter_map(|setting| {
                let rows = setting.best(By::Seconds);
                let best = rows.first()?;
                let seconds = duration(best.seconds.mean?);
                let tie = tie(", ", &rows);
                Some(format!("{}: {} ({seconds}){tie}", setting.name, best.name))
            });
            let each: Vec<String> = each.collect();
            let (what, each) = (several[0].basis(), each.join("; "));
            format!("Fastest {what}{origin}: {each}.")
        }
        (several, _) => format!(
            "{} settings that differ in their work{origin}: the charts and the table show each, \
             and no system is named over all.",
            several.len()
        ),
    }
}

/// Returns which rows tie with the best, which is the first, behind a sign; nothing if none does.
fn tie(sign: &str, best: &[&Contender]) -> String {
    match best {
        [] | [_] => String::new(),
        [_, one] => format!("{sign}no clear lead over {}", one.name),
        [_, one, rest @ ..] => {
            format!(
                "{sign}no clear lead over {} and {} more",
                one.name,
                rest.len()
            )
        }
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
    let (order, basis) = (setting.order(By::Seconds), setting.basis());
    let [best, next, ..] = order.as_slice() else {
        return String::new();
    };
    let seconds = |row: &Contender| format::or_unknown(row.seconds.mean, duration);
    let mut text = format!("Fastest: {}, {} {basis}{origin}", best.name, seconds(best));
    let tie = tie("; ", &setting.best(By::Seconds));
    let next = format!("; next: {}, {}", next.name, seconds(next));
    text.push_str(if tie.is_empty() { &next } else { &tie });
    if best.trials == 1 && origin.is_empty() {
        text.push_str(" (one trial each: a lead may be chance)");
    }
    text.push('.');
    if setting.left_out > 0 {
        let why = match setting.target {
            Some(_) => "Did not get there",
            None => "Left out, since hardly better than guessing",
        };
        let out = setting.left_out;
        let all = out + setting.contenders.len();
        text.push_str(&format!(" {why}: {out} of {all} rows."));
    }
    if setting.on_cpu > 0 {
        text.push_str(&format!(
            " {} rows († in the table) stand for a GPU, were computed on a CPU, and are left out.",
            setting.on_cpu
        ));
    }
    text
}

fn cheapest(settings: &[Setting], origin: &str) -> String {
    let compared = compared(settings);
    match (compared.as_slice(), settings) {
        ([], [one]) => one.contenders.first().map_or_else(String::new, |row| {
            let (usd, basis, minimum) = (dollars(row), one.basis(), minimum([row]));
            format!("It costs {usd} {basis} with everything billed{origin}{minimum}.")
        }),
        ([], _) => String::new(),
        ([one], _) => cheapest_of(one, origin),
        (several, _) if several.len() <= NAMED => {
            let each = several.iter().filter_map(|setting| {
                let rows = setting.best(By::Usd);
                let best = *rows.first()?;
                let usd = format::usd(best.usd.mean?);
                let name = &setting.name;
                let tie = tie(", ", &rows);
                let other = setting.cheapest_on(!best.on_functions);
                let beside = other.map(|other| format!(", {}", beside(best, other).join(" ")));
                let beside = beside.unwrap_or_default();
                let minimum = minimum(std::iter::once(best).chain(other));
                let (row, host) = (&best.name, &best.host);
                Some(format!(
                    "{name}: {row} on {host} ({usd}){tie}{beside}{minimum}"
                ))
            });
            let (each, what) = (each.collect::<Vec<_>>().join("; "), several[0].basis());
            format!("Cheapest {what} with everything billed{origin}: {each}.")
        }
        _ => String::new(),
    }
}

fn cheapest_of(setting: &Setting, origin: &str) -> String {
    let rows = setting.best(By::Usd);
    let Some(&best) = rows.first() else {
        return String::new();
    };
    let (name, host, usd) = (&best.name, &best.host, dollars(best));
    let (basis, tie) = (setting.basis(), tie("; ", &rows));
    let begin =
        format!("Cheapest: {name} on {host}, {usd} {basis} with everything billed{origin}{tie}");
    let kind = ["on rented instances", "on functions"][usize::from(!best.on_functions)];
    let other = setting.cheapest_on(!best.on_functions);
    let beside = match other {
        Some(other) => format!("the cheapest {kind}, {}", beside(best, other).join(", ")),
        None => format!("no row of the run computes {kind}"),
    };
    let minimum = minimum(std::iter::once(best).chain(other));
    format!("{begin}; {beside}{minimum}.")
}

fn dollars(row: &Contender) -> String {
    format::or_unknown(row.usd.mean, format::usd)
}

/// Returns which of the rows pay an instance's minimum charge, in parentheses.
fn minimum<'r>(rows: impl IntoIterator<Item = &'r Contender>) -> String {
    let paying = rows.into_iter().filter(|row| row.holds_minimum);
    let names: Vec<&str> = paying.map(|row| row.name.as_str()).collect();
    match names.as_slice() {
        [] => String::new(),
        names => {
            let names = names.join(", ");
            format!(" ({names}: with an instance's minimum charge of 60 s)")
        }
    }
}

/// Returns the cheapest row on the other kind of host, and how it compares with the cheapest.
fn beside(best: &Contender, other: &Contender) -> [String; 2] {
    let host = Some(&other.host).filter(|_| !other.on_functions);
    let instances = host.map_or(String::new(), |host| format!(" on {host}"));
    let factor = format::or_unknown(quotient(other.usd, best.usd), format::number);
    let (name, usd) = (&other.name, dollars(other));
    [
        format!("{name}{instances}"),
        format!("costs {factor} times as much ({usd})"),
    ]
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
