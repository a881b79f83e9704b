//! The answer in sentences and tables.

use epochcost_systems::{Fidelity, Host};

use super::bench::Point;
use super::points::title;
use super::{Answer, Choice, alone};
use crate::forecast::places::Site;
use crate::format::{count, duration, number, usd};
use crate::ui::table;

/// Returns a setting in words.
pub(in crate::forecast) fn describe(point: &Point, site: &Site) -> String {
    let job = &point.row.job;
    let place = &site.place.name;
    if alone::is_one_machine(&point.row) {
        let devices = match job.workers {
            1 => String::new(),
            count => format!(" with its {count} GPUs"),
        };
        return format!("one {place} alone{devices}");
    }
    let system = title(&job.system);
    let fidelity = match job.fidelity {
        Fidelity::Paper => "",
        Fidelity::Code => " as published code",
        Fidelity::Tuned => " tuned",
    };
    let workers = job.workers;
    let plural = if workers == 1 { "" } else { "s" };
    match site.place.host {
        Host::Function => format!(
            "{system}{fidelity} with {workers} worker{plural} of {} MB on {place}",
            count(point.row.memory_mb.into())
        ),
        Host::Instance => format!("{system}{fidelity} with {workers} of {place}"),
    }
}

/// Returns hours and dollars with their ranges.
fn figures(choice: &Choice) -> String {
    let (seconds, dollars) = (choice.price.seconds, choice.price.usd);
    let ranges = match (choice.seconds_range, choice.usd_range) {
        (Some(s), Some(d)) if s.p5 < s.p95 || d.p5 < d.p95 => format!(
            " (range {} to {}, {} to {})",
            duration(s.p5),
            duration(s.p95),
            usd(d.p5),
            usd(d.p95)
        ),
        _ => String::new(),
    };
    format!("{} and {}{ranges}", duration(seconds), usd(dollars))
}

/// Returns the three sentences: what to use, what the alternatives take, and what would
/// change the answer.
pub(super) fn sentences(answer: &Answer) -> Vec<String> {
    let first = match &answer.answer {
        Some(choice) => format!("Use {}: {}.", choice.what, figures(choice)),
        None => infeasible(answer),
    };
    let mut sentences = vec![first, alternatives(answer)];
    let evens: Vec<&str> = answer.break_evens.iter().map(|e| e.text.as_str()).collect();
    sentences.push(match evens.as_slice() {
        [] => "Nothing on the other kind of host is possible, so that nothing is compared with it."
            .to_owned(),
        evens => format!("What would change this: {}.", evens.join("; ")),
    });
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

fn infeasible(answer: &Answer) -> String {
    let goal = answer.goal;
    let near: Vec<String> = (answer.nearest.iter())
        .map(|choice| {
            let late = goal.deadline_s.filter(|s| choice.price.seconds > *s);
            let dear = goal.budget_usd.filter(|d| choice.price.usd > *d);
            let by = [
                late.map(|s| format!("{} late", duration(choice.price.seconds - s))),
                dear.map(|d| format!("{} over the budget", usd(choice.price.usd - d))),
            ];
            let by: Vec<String> = by.into_iter().flatten().collect();
            format!("{}, {}, {}", choice.what, figures(choice), by.join(" and "))
        })
        .collect();
    if near.is_empty() {
        return format!("Nothing can train this at all, let alone {}.", goal.text());
    }
    format!(
        "Nothing trains this {}; nearest: {}.",
        goal.text(),
        near.join("; or ")
    )
}

/// Returns the runner-up and the plain alternative; the best of several workers where the
/// answer is the plain one itself.
fn alternatives(answer: &Answer) -> String {
    let same = |a: &Option<Choice>, b: &Option<Choice>| match (a, b) {
        (Some(a), Some(b)) => a.index == b.index,
        _ => false,
    };
    let said = |name: &str, choice: &Option<Choice>| {
        choice.as_ref().map(|choice| {
            let tie = if choice.is_tie {
                ", a tie within the ranges"
            } else {
                ""
            };
            format!("{name} {} takes {}{tie}", choice.what, figures(choice))
        })
    };
    let mut parts: Vec<String> = Vec::new();
    parts.extend(said("the runner-up", &answer.runner_up));
    if same(&answer.plain, &answer.answer) {
        parts.push("one GPU alone is the answer itself".to_owned());
    } else if !same(&answer.plain, &answer.runner_up) {
        parts.extend(said("the plain alternative", &answer.plain));
    }
    let named = [&answer.answer, &answer.runner_up, &answer.plain];
    if !named.iter().any(|other| same(&answer.functions, other)) {
        parts.extend(said("the best on functions", &answer.functions));
    }
    let text = parts.join("; ");
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        None => String::new(),
    }
}

/// Returns the sentences and the frontier.
pub(super) fn of(answer: &Answer) -> String {
    let lines: Vec<_> = (answer.frontier.iter())
        .map(|choice| {
            let is_answer = (answer.answer.as_ref()).is_some_and(|a| a.index == choice.index);
            let range = |range: Option<super::Range>, text: fn(f64) -> String| {
                range.map_or(String::new(), |r| {
                    format!("{} to {}", text(r.p5), text(r.p95))
                })
            };
            let mark = if is_answer {
                "*"
            } else if choice.is_tie {
                "~"
            } else {
                ""
            };
            [
                mark.to_owned(),
                choice.what.clone(),
                duration(choice.price.seconds),
                range(choice.seconds_range, duration),
                usd(choice.price.usd),
                range(choice.usd_range, usd),
                number(choice.batches_per_worker as f64),
            ]
        })
        .collect();
    let heading = [
        "",
        "frontier",
        "time",
        "range",
        "cost",
        "range",
        "steps/epoch",
    ];
    format!(
        "{}\n\n{}\n* the answer; ~ a tie with it: better in more than 5 % of the draws of all \
         ranges. Of {} settings, bounds of time and cost rule out {}; of the others {} are \
         possible; {} samples each",
        answer.sentences.join("\n"),
        table(heading, &lines),
        count(answer.searched as f64),
        count((answer.searched - answer.simulated) as f64),
        count(answer.possible as f64),
        count(answer.samples as f64)
    )
}
