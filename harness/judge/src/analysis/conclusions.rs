//! Which of a paper's conclusions hold, in a sentence.

use epochcost_spec::claims::{ClaimKind, VerdictKind};

use super::census::{Census, together};
use super::items::{How, ItemOverview, papers};
use super::summary::Verdict;

/// Conclusions that do not hold are named up to this many.
const NAMED: usize = 2;

/// Sentence where no claim is a paper's.
pub(super) const WITHOUT_PAPER: &str = "This run tests no published statement.";

/// Words for claims of one kind: of one, and of several.
struct Words {
    noun: &'static str,
    hold: [&'static str; 2],
    fail: [&'static str; 2],
    fails_alone: &'static str,
    /// Whether those that fail are named.
    is_named: bool,
}

const CONCLUSIONS: Words = Words {
    noun: "conclusion",
    hold: ["holds", "hold"],
    fail: ["does not", "do not"],
    fails_alone: "does not hold",
    is_named: true,
};

const FIGURES: Words = Words {
    noun: "published figure",
    hold: ["agrees", "agree"],
    fail: ["differs", "differ"],
    fails_alone: "differs",
    is_named: false,
};

/// Published claims, counted by what came out.
#[derive(Default)]
struct Tally<'a> {
    hold: usize,
    fail: Vec<&'a str>,
    open: usize,
}

impl<'a> Tally<'a> {
    fn of(verdicts: impl Iterator<Item = &'a Verdict>) -> Self {
        let mut tally = Self::default();
        for verdict in verdicts {
            match verdict.verdict {
                kind if kind.agrees() => tally.hold += 1,
                kind if kind.differs() => tally.fail.push(&verdict.claim),
                _ => tally.open += 1,
            }
        }
        tally
    }

    fn all(&self) -> usize {
        self.hold + self.fail.len() + self.open
    }
}

/// Returns the sentence on the published claims among `verdicts`: on conclusions
/// (a paper's statements), then on its printed figures. Without a published claim, it says so.
pub(super) fn of_run<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> String {
    let verdicts: Vec<&Verdict> = verdicts.collect();
    let published = |is_figure: bool| {
        let all = verdicts.iter().copied();
        let all = all.filter(|verdict| verdict.kind == ClaimKind::Published);
        Tally::of(all.filter(|verdict| verdict.is_on_figure() == is_figure))
    };
    let tallies = [
        (published(false), &CONCLUSIONS),
        (published(true), &FIGURES),
    ];
    let tallies = tallies.iter().filter(|(tally, _)| tally.all() > 0);
    let sentences = tallies.map(|(tally, words)| sentence(tally, words));
    match sentences.collect::<Vec<_>>().as_slice() {
        [] => without_paper(&verdicts),
        sentences => sentences.join(" "),
    }
}

/// Returns the sentences on the statements and printed figures of each paper, each counted once;
/// measured ones apart from simulated ones, and from claims that were not run.
pub(super) fn by_paper(items: &[ItemOverview]) -> Vec<String> {
    let told = |paper: &str, origin: How| {
        let of_paper = items.iter().filter(|item| item.paper == paper);
        let own: Vec<&ItemOverview> = of_paper.filter(|item| item.origin() == origin).collect();
        if origin == How::NotRun {
            let claims = own.iter().flat_map(|item| &item.claims);
            let published = claims.filter(|claim| claim.verdict.kind == ClaimKind::Published);
            return match published.count() {
                0 => None,
                1 => Some(format!("{paper}: 1 published claim was not run.")),
                all => Some(format!("{paper}: {all} published claims were not run.")),
            };
        }
        let told = Census::of(own.into_iter()).sentences().join(" ");
        (!told.is_empty()).then(|| format!("{paper}, {}: {told}", origin.as_str()))
    };
    let of_paper = |paper: &str| How::OF_ITEMS.map(|origin| told(paper, origin));
    let told = papers(items).into_iter().flat_map(of_paper);
    told.flatten().collect()
}

fn sentence(tally: &Tally<'_>, words: &Words) -> String {
    let (hold, fail) = (tally.hold, tally.fail.len());
    // The verb that goes with a number.
    let of = |forms: [&'static str; 2], count: usize| forms[usize::from(count != 1)];
    if tally.all() == 1 {
        let outcome = match (hold, fail) {
            (1, _) => words.hold[0],
            (_, 1) => words.fails_alone,
            _ => "is undecided in this run",
        };
        return format!("The one {} tested here {outcome}.", words.noun);
    }
    let mut parts = vec![format!("{hold} {}", of(words.hold, hold))];
    if fail > 0 {
        let names = match fail {
            1..=NAMED if words.is_named => format!(" ({})", tally.fail.join("; ")),
            _ => String::new(),
        };
        parts.push(format!("{fail} {}{names}", of(words.fail, fail)));
    }
    if tally.open > 0 {
        let are = of(["is undecided", "are undecided"], tally.open);
        parts.push(format!("{} {are}", tally.open));
    }
    let (all, noun) = (tally.all(), words.noun);
    format!("Of {all} {noun}s tested here, {}.", together(parts))
}

fn without_paper(verdicts: &[&Verdict]) -> String {
    let own = verdicts.iter().filter(|one| one.kind == ClaimKind::Own);
    let (mut all, mut hold, mut expected, mut surprising) = (0, 0, 0, 0);
    for verdict in own {
        all += 1;
        hold += usize::from(verdict.verdict == VerdictKind::Holds);
        match verdict.expect {
            Some(expect) if expect == verdict.verdict => expected += 1,
            Some(_) => surprising += 1,
            None => {}
        }
    }
    let expectations = match (expected, surprising) {
        (0, 0) => String::new(),
        (expected, 0) if expected == all => "; all are as expected".into(),
        (expected, 0) => format!("; {expected} are as expected"),
        (_, 1) => "; one is not as expected".into(),
        (_, surprising) => format!("; {surprising} are not as expected"),
    };
    let noun = if all == 1 { "finding" } else { "findings" };
    let verb = if hold == 1 { "holds" } else { "hold" };
    match all {
        0 => WITHOUT_PAPER.into(),
        all => format!(
            "This run tests no published statement; of {all} {noun} of this project, {hold} \
             {verb}{expectations}."
        ),
    }
}
