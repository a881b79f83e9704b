//! The answer in sentences and tables.

use std::collections::BTreeSet;

use epochcost_spec::cost::PriceBook;
use epochcost_spec::format::{count, duration, megabytes, usd, wrapped};
use epochcost_systems::{Fidelity, Host};

use super::bench::Point;
use super::points::title;
use super::ranges::Chance;
use super::{Answer, Choice, alone};
use crate::columns::table;
use crate::forecast::places::Site;
use crate::forecast::text::paragraph;
use crate::forecast::uncertainty::Percentiles;

/// Returns a setting in words.
pub(crate) fn describe(point: &Point, site: &Site) -> String {
    let job = &point.row.job;
    let place = &site.place.name;
    if alone::is_one_machine(&point.row) {
        let devices = match job.workers {
            1 => String::new(),
            count => format!(" with its {count} GPUs"),
        };
        return format!("one {place} alone{devices}");
    }
    let memory = megabytes(point.row.memory_mb.into());
    if site.place.host == Host::Function && alone::is_one_function(&point.row) {
        return match place.strip_prefix("lambda-") {
            Some(kind) if site.is_lambda() => format!("one Lambda function ({kind}, {memory})"),
            _ => format!("one function ({place}, {memory})"),
        };
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
        Host::Function => {
            format!("{system}{fidelity} with {workers} worker{plural} of {memory} on {place}")
        }
        Host::Instance => format!("{system}{fidelity} with {workers} of {place}"),
    }
}

/// Returns hours and dollars with their ranges, and what of the price was assumed.
pub(super) fn figures(choice: &Choice) -> String {
    let (seconds, dollars) = (choice.price.seconds, choice.price.usd);
    let mut said: Vec<String> = Vec::new();
    if let (Some(s), Some(d)) = (choice.seconds_range, choice.usd_range)
        && (s.p5 < s.p95 || d.p5 < d.p95)
    {
        said.push(format!("range {}, {}", s.ends(duration), d.ends(usd)));
    }
    let lost = choice.impossible.as_ref();
    said.extend(lost.map(|lost| format!("{} of draws impossible: {}", lost.share, lost.reason)));
    let assumed = choice.assumed();
    said.extend(assumed.map(|(what, date)| format!("{what} assumed, not read on {date}")));
    if !choice.is_memory_checked {
        said.push("memory not checked".to_owned());
    }
    let mut text = format!("{} and {}", duration(seconds), usd(dollars));
    if !said.is_empty() {
        text += &format!(" ({})", said.join("; "));
    }
    text
}

impl Choice {
    /// Returns the share of the draws that keep the goal, for a column; nothing if it was not drawn.
    pub(super) fn percent(&self) -> String {
        self.chance
            .map_or_else(String::new, |chance| share(chance.percent()))
    }

    /// Returns the range of seconds, for a column, and the share of draws that are in none.
    pub(super) fn seconds_ends(&self) -> String {
        let mut text = ends(self.seconds_range, duration);
        let lost = self.impossible.as_ref();
        text.extend(lost.map(|lost| format!(", {} impossible", lost.share)));
        text
    }

    /// Returns the prices that were assumed, in words, and the day of each.
    pub(super) fn assumed(&self) -> impl Iterator<Item = (String, &str)> {
        self.assumed_prices.iter().map(|price| {
            let what = match price.dimension.strip_prefix("ec2/") {
                Some(_) => "price".to_owned(),
                None => format!("price of {}", price.dimension),
            };
            (what, price.date.as_str())
        })
    }
}

impl Chance {
    /// Returns the share of the draws in words.
    pub(super) fn text(self) -> String {
        let Self { kept, draws } = self;
        if kept == draws {
            format!("in all {draws} draws")
        } else if kept == 0 {
            format!("in none of {draws} draws")
        } else {
            format!("in {} of {draws} draws", share(self.percent()))
        }
    }

    fn percent(self) -> f64 {
        100.0 * self.kept as f64 / self.draws.max(1) as f64
    }

    fn is_enough(self) -> bool {
        self.draws - self.kept <= self.draws / super::decide::MISSES
    }
}

/// Returns a percentage without decimals that 200 draws do not bear.
pub(super) fn share(percent: f64) -> String {
    if percent.fract() == 0.0 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// Returns the question, what to use, what the alternatives take, and what would change the
/// answer.
pub(super) fn sentences(answer: &Answer) -> Vec<String> {
    let mut sentences = vec![answer.question.text.clone()];
    let rounded = answer.samples_rounded.iter();
    sentences.extend(rounded.map(|rounded| rounded.text.clone()));
    sentences.push(first(answer));
    sentences.extend(fewer_steps(answer));
    sentences.push(alternatives(answer));
    let evens: Vec<&str> = answer.break_evens.iter().map(|e| e.text.as_str()).collect();
    sentences.push(match (&answer.functions, &answer.instances) {
        (Some(functions), Some(instances)) => format!(
            "What would change this, where functions stand for {} and instances for {}: {}.",
            functions.what,
            instances.what,
            evens.join("; ")
        ),
        (None, None) => String::new(),
        (functions, _) => {
            let other = if functions.is_some() {
                "instances"
            } else {
                "functions"
            };
            let why = if answer.has_both_hosts {
                "is possible"
            } else {
                "was searched"
            };
            format!("No setting on {other} {why}, so that nothing is compared with them.")
        }
    });
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

fn first(answer: &Answer) -> String {
    let within = answer.goal.limits();
    let said = |choice: &Choice| {
        let mut text = format!("{}: {}.", choice.what, figures(choice));
        let chance = choice.chance.map(Chance::text);
        text.extend(chance.map(|chance| format!(" It keeps {within} {chance}.")));
        text
    };
    match (&answer.answer, &answer.likeliest) {
        (Some(choice), _) => {
            let own = answer.question.steps_per_epoch;
            let mut text = format!("Use {}", said(choice));
            if choice.steps_per_epoch < own {
                text += &format!(
                    " It takes {} optimizer steps per epoch, and the experiment {}: accuracy may \
                     differ.",
                    count(choice.steps_per_epoch as f64),
                    count(own as f64)
                );
            }
            text
        }
        (None, Some(choice)) => {
            let fewer = with_steps(answer);
            format!(
                "No setting{fewer} keeps {within} in 95 % of the draws. The likeliest is {}",
                said(choice)
            )
        }
        (None, None) => infeasible(answer),
    }
}

/// Returns what a denial is about, where a setting with fewer optimizer steps keeps the goal.
fn with_steps(answer: &Answer) -> &'static str {
    match &answer.fewer_steps {
        Some(_) => " with the experiment's optimizer steps",
        None => "",
    }
}

/// Returns what is ahead of the answer with fewer optimizer steps.
fn fewer_steps(answer: &Answer) -> Option<String> {
    let choice = answer.fewer_steps.as_ref()?;
    Some(format!(
        "Excluded: {}, {}. It takes fewer optimizer steps, {} per epoch where the experiment takes \
         {}, and may learn less; --any-steps includes it.",
        choice.what,
        figures(choice),
        count(choice.steps_per_epoch as f64),
        count(answer.question.steps_per_epoch as f64)
    ))
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
            let by = by.join(" and ");
            let comma = if by.is_empty() { "" } else { ", " };
            format!("{}, {}{comma}{by}", choice.what, figures(choice))
        })
        .collect();
    if near.is_empty() {
        let why = answer.why_not.iter().map(|why| format!(" ({why})"));
        let why: String = why.collect();
        let within = goal.text();
        if answer.possible == 0 {
            return format!("Nothing can train this at all{why}, let alone {within}.");
        }
        let steps = count(answer.question.steps_per_epoch as f64);
        let mut text = format!(
            "No setting with the experiment's {steps} optimizer steps per epoch can train this{why}, \
             let alone {within}."
        );
        if answer.fewer_steps.is_none() {
            text += " --any-steps includes settings with fewer.";
        }
        return text;
    }
    let (within, near) = (goal.text(), near.join("; or "));
    let fewer = with_steps(answer);
    format!("Nothing{fewer} trains this {within}. Nearest: {near}.")
}

/// Returns the runner-up and the plain alternative; the best of several workers where the
/// answer is the plain one itself.
fn alternatives(answer: &Answer) -> String {
    let same = |a: &Option<Choice>, b: &Option<Choice>| {
        let both = a.as_ref().zip(b.as_ref());
        both.is_some_and(|(a, b)| a.index == b.index)
    };
    let within = answer.goal.limits();
    let said = |name: &str, choice: &Option<Choice>| {
        choice.as_ref().map(|choice| {
            let chance = choice.chance.filter(|chance| !chance.is_enough());
            let more = match (choice.is_tie, chance) {
                (true, _) => ", a tie within the ranges".to_owned(),
                (false, Some(chance)) => format!(", and keeps {within} {}", chance.text()),
                (false, None) => String::new(),
            };
            format!("{name}, {}, takes {}{more}", choice.what, figures(choice))
        })
    };
    let mut parts: Vec<String> = Vec::new();
    parts.extend(said("the runner-up", &answer.runner_up));
    // Without a likeliest one, the nearest were named with their figures.
    let nearest = answer.nearest.iter().filter(|_| answer.likeliest.is_none());
    let near: Vec<usize> = nearest.map(|choice| choice.index).collect();
    let is_near = |a: &Option<Choice>| a.as_ref().is_some_and(|a| near.contains(&a.index));
    let named = [&answer.likeliest, &answer.runner_up];
    if same(&answer.plain, &answer.answer) {
        parts.push("one GPU alone is the answer itself".to_owned());
    } else if !is_near(&answer.plain) && !named.iter().any(|other| same(&answer.plain, other)) {
        parts.extend(said("the plain alternative", &answer.plain));
    }
    let named = [
        &answer.answer,
        &answer.likeliest,
        &answer.runner_up,
        &answer.plain,
    ];
    if !is_near(&answer.functions) && !named.iter().any(|other| same(&answer.functions, other)) {
        parts.extend(said("the best on functions", &answer.functions));
    }
    let sentence = |part: &String| {
        let (first, rest) = part.split_at(1);
        format!("{}{rest}.", first.to_uppercase())
    };
    parts.iter().map(sentence).collect::<Vec<_>>().join(" ")
}

/// Returns the ends of a range in words; nothing without one.
pub(super) fn ends(range: Option<Percentiles>, text: fn(f64) -> String) -> String {
    range.map_or_else(String::new, |range| range.ends(text))
}

impl Answer {
    /// Returns the answer for people: its sentences, and the frontier.
    pub(crate) fn text(&self) -> String {
        let frontier = table(
            &self.frontier,
            [
                ("", &|one| self.mark(one, ["*", "~"]).to_owned()),
                ("frontier", &|one| one.what.clone()),
                ("time", &|one| duration(one.price.seconds)),
                ("range", &Choice::seconds_ends),
                ("cost", &|one| usd(one.price.usd)),
                ("range", &|one| ends(one.usd_range, usd)),
                ("keeps it", &Choice::percent),
                ("steps/epoch", &|one| count(one.steps_per_epoch as f64)),
            ],
        );
        let legend = format!(
            "* the answer; ~ a tie with it. keeps it: draws of all ranges that keep the goal. \
             steps/epoch: optimizer steps, {} of the experiment. Of {} settings, bounds of time and cost \
             rule out {}; of the others {} are possible; {} samples each, in whole mini-batches of all workers. {}",
            count(self.question.steps_per_epoch as f64),
            count(self.searched as f64),
            count((self.searched - self.simulated) as f64),
            count(self.possible as f64),
            count(self.samples as f64),
            self.prices()
        );
        let sentences = paragraph(&self.sentences);
        format!("{sentences}\n\n{frontier}\n{}", wrapped("", &legend))
    }

    /// Returns which prices are not those of a given price book, but of the places that are shown.
    pub(super) fn own_prices(&self, sites: &[Site], book: &PriceBook) -> Option<String> {
        let shown: BTreeSet<&str> = self.shown().map(|choice| &*choice.place).collect();
        let shown = (sites.iter()).filter(|site| shown.contains(&*site.place.name));
        let own = shown.flat_map(|site| {
            let prices = site.place.prices.iter();
            prices.map(|price| {
                let (place, date) = (&site.place.name, &price.date);
                format!("{} at {place} ({date})", price.dimension)
            })
        });
        let own: Vec<String> = own.collect();
        (!own.is_empty()).then(|| {
            format!(
                "Places keep their own prices, which the price book of {}, {}, does not replace: {}.",
                book.region(),
                book.date(),
                own.join(", ")
            )
        })
    }

    /// Returns which prices were read, and which were assumed.
    pub(crate) fn prices(&self) -> String {
        let assumed = self.shown().flat_map(|choice| {
            let of_choice = choice.assumed();
            of_choice.map(move |(what, date)| format!("{what} at {} ({date})", choice.place))
        });
        let assumed: Vec<String> = assumed.collect::<BTreeSet<_>>().into_iter().collect();
        match assumed.as_slice() {
            [] => "Costs are list prices.".to_owned(),
            assumed => format!(
                "Costs are list prices, but for what was assumed, not read: {}.",
                assumed.join(", ")
            ),
        }
    }
}
