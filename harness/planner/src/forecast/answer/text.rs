//! The answer in sentences and tables.

use epochcost_spec::format::{count, duration, megabytes, usd, wrapped};
use epochcost_spec::ui::table;
use epochcost_systems::{Fidelity, Host};

use super::bench::Point;
use super::points::title;
use super::ranges::Chance;
use super::{Answer, Choice, alone};
use crate::forecast::places::Site;
use crate::forecast::uncertainty::Percentiles;

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
fn figures(choice: &Choice) -> String {
    let (seconds, dollars) = (choice.price.seconds, choice.price.usd);
    let mut said: Vec<String> = Vec::new();
    if let (Some(s), Some(d)) = (choice.seconds_range, choice.usd_range)
        && (s.p5 < s.p95 || d.p5 < d.p95)
    {
        said.push(format!("range {}, {}", s.ends(duration), d.ends(usd)));
    }
    said.extend(
        choice
            .assumed()
            .map(|(what, date)| format!("{what} assumed, not read on {date}")),
    );
    if !choice.is_memory_checked {
        said.push("memory not checked".to_owned());
    }
    let said = match said.as_slice() {
        [] => String::new(),
        said => format!(" ({})", said.join("; ")),
    };
    format!("{} and {}{said}", duration(seconds), usd(dollars))
}

impl Choice {
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
            let percent = 100.0 * kept as f64 / draws.max(1) as f64;
            format!("in {} of {draws} draws", share(percent))
        }
    }

    /// Returns the share of the draws for a column.
    pub(super) fn percent(self) -> String {
        share(100.0 * self.kept as f64 / self.draws.max(1) as f64)
    }

    fn is_enough(self) -> bool {
        self.draws - self.kept <= self.draws / super::decide::MISSES
    }
}

/// Returns a percentage without decimals that 200 draws do not bear.
fn share(percent: f64) -> String {
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
    sentences.extend(
        answer
            .samples_rounded
            .iter()
            .map(|rounded| rounded.text.clone()),
    );
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
        _ => "Nothing on the other kind of host is possible, so that nothing is compared with it."
            .to_owned(),
    });
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

fn first(answer: &Answer) -> String {
    let within = answer.goal.limits();
    let keeps = |choice: &Choice| {
        let chance = choice.chance.map(Chance::text);
        chance.map_or_else(String::new, |chance| {
            format!(" It keeps {within} {chance}.")
        })
    };
    match (&answer.answer, &answer.likeliest) {
        (Some(choice), _) => {
            let own = answer.question.steps_per_epoch;
            let steps = if choice.steps_per_epoch < own {
                format!(
                    " It takes {} optimizer steps per epoch, and the experiment {}: accuracy may \
                     differ.",
                    count(choice.steps_per_epoch as f64),
                    count(own as f64)
                )
            } else {
                String::new()
            };
            format!(
                "Use {}: {}.{}{steps}",
                choice.what,
                figures(choice),
                keeps(choice)
            )
        }
        (None, Some(choice)) => format!(
            "No setting keeps {within} in 95 % of the draws. The likeliest is {}: {}.{}",
            choice.what,
            figures(choice),
            keeps(choice)
        ),
        (None, None) => infeasible(answer),
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
            let by = match by.as_slice() {
                [] => String::new(),
                by => format!(", {}", by.join(" and ")),
            };
            format!("{}, {}{by}", choice.what, figures(choice))
        })
        .collect();
    if near.is_empty() {
        return format!("Nothing can train this at all, let alone {}.", goal.text());
    }
    format!(
        "Nothing trains this {}. Nearest: {}.",
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
    if same(&answer.plain, &answer.answer) {
        parts.push("one GPU alone is the answer itself".to_owned());
    } else if !same(&answer.plain, &answer.runner_up) {
        parts.extend(said("the plain alternative", &answer.plain));
    }
    let named = [&answer.answer, &answer.runner_up, &answer.plain];
    if !named.iter().any(|other| same(&answer.functions, other)) {
        parts.extend(said("the best on functions", &answer.functions));
    }
    let sentence = |part: &String| {
        let mut letters = part.chars();
        let first = letters
            .next()
            .map(|letter| letter.to_uppercase().to_string());
        format!("{}{}.", first.unwrap_or_default(), letters.as_str())
    };
    parts.iter().map(sentence).collect::<Vec<_>>().join(" ")
}

/// Returns the sentences and the frontier.
pub(super) fn of(answer: &Answer) -> String {
    let lines: Vec<_> = (answer.frontier.iter())
        .map(|choice| {
            let is_answer = (answer.answer.as_ref()).is_some_and(|a| a.index == choice.index);
            let own_range = |own: Option<Percentiles>, text: fn(f64) -> String| {
                own.map_or(String::new(), |own| own.ends(text))
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
                own_range(choice.seconds_range, duration),
                usd(choice.price.usd),
                own_range(choice.usd_range, usd),
                choice.chance.map_or(String::new(), Chance::percent),
                count(choice.steps_per_epoch as f64),
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
        "keeps it",
        "steps/epoch",
    ];
    let sentences: Vec<String> = (answer.sentences.iter())
        .map(|sentence| wrapped("", sentence))
        .collect();
    let legend = format!(
        "* the answer; ~ a tie with it. keeps it: draws of all ranges that keep the goal. \
         steps/epoch: optimizer steps, {} of the experiment. Of {} settings, bounds of time and cost \
         rule out {}; of the others {} are possible; {} samples each, in whole mini-batches of all workers. {}",
        count(answer.question.steps_per_epoch as f64),
        count(answer.searched as f64),
        count((answer.searched - answer.simulated) as f64),
        count(answer.possible as f64),
        count(answer.samples as f64),
        answer.prices()
    );
    format!(
        "{}\n\n{}\n{}",
        sentences.join("\n"),
        table(heading, &lines),
        wrapped("", &legend)
    )
}

impl Answer {
    /// Returns which prices were read, and which were assumed.
    pub(in crate::forecast) fn prices(&self) -> String {
        let mut assumed: Vec<String> = (self.shown())
            .flat_map(|choice| {
                let place = &choice.place;
                choice
                    .assumed()
                    .map(move |(what, date)| format!("{what} at {place} ({date})"))
            })
            .collect();
        assumed.sort_unstable();
        assumed.dedup();
        match assumed.as_slice() {
            [] => "Costs are list prices.".to_owned(),
            assumed => format!(
                "Costs are list prices, but for what was assumed, not read: {}.",
                assumed.join(", ")
            ),
        }
    }
}
