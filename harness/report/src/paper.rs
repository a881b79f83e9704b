//! The page of a paper: its conclusions, its tables in their own shape, its sentences and set-ups,
//! each with what its own figures and ours say.

use std::collections::BTreeMap;

use epochcost_experiment::Left;
use epochcost_judge::analysis::census::{self, Census, Observation};
use epochcost_judge::analysis::items::ItemOverview;
use epochcost_judge::analysis::overview::Overview;
use epochcost_judge::audit::{self, Finding, Mark, Outcome};
use epochcost_spec::claims::VerdictKind;
use epochcost_spec::published::{Kind, Note, Paper, PublishedError, SetUp, Stance, Statement};

use super::overview::link_to;
use super::page::{Page, Section, Switch};
use super::paper_tables::{self, Rows};
use super::predictions;
use super::table::{Cell, Link, Table};
use super::view::class_and_sign;

/// Where each experiment leaves the set-ups of its paper.
pub type Deviations = Vec<(String, Left)>;

/// Returns the page of a paper over a reproduction.
///
/// # Errors
/// When a formula of the paper cannot be evaluated.
pub fn paper_page(
    paper: &Paper,
    overview: &Overview,
    rows: &Rows<'_>,
    deviations: &Deviations,
) -> Result<Page, PublishedError> {
    let findings = audit::of_paper(paper)?;
    let marks = audit::marks(&findings);
    let own = overview.items.iter();
    let observed = Census::of(own.filter(|item| item.paper == paper.name));
    let mut sections = vec![
        conclusions(paper, &marks, &observed),
        sentences(paper, &marks, &observed),
    ];
    let switch = |table| paper_tables::switch(paper, table, &observed, rows);
    let switches: Vec<Switch> = paper.tables.iter().filter_map(switch).collect();
    let notes = vec![
        "A cell has the printed figure, and below it ours over the printed one with the 2.5th and 97.5th \
         percentile of draws, by experiment. Its word is that of the best standing that decides: \
         measured, simulated by constants of others, fitted to the paper. By one experiment, it is that \
         one's."
            .to_owned(),
    ];
    if !switches.is_empty() {
        let tables = Section {
            switches,
            notes,
            ..Section::of("tables", "Tables", Vec::new())
        };
        sections.insert(1, tables);
    }
    let mut answer = answer(paper, &findings, &observed);
    if let Some((sentence, section)) = predictions::section(paper, &overview.items) {
        answer.push(sentence);
        sections.push(section);
    }
    sections.extend(setups(paper, deviations));
    Ok(Page {
        title: paper.cite.clone(),
        about: "what the paper says, by its own figures and by this reproduction".into(),
        answer,
        sections,
        ..Page::default()
    })
}

/// Returns the answer: what the paper's own figures say of its conclusions, then what ours do.
fn answer(paper: &Paper, findings: &[Finding], observed: &Census<'_>) -> Vec<String> {
    let mut sentences = audit::text::conclusions_of(findings);
    let is_main = |one: &&Statement| one.weight == 1 && one.reading_of.is_none();
    let main = paper.statements.iter().filter(is_main);
    let main = main.map(|one| (one, observed.readings(&one.id).word));
    let main: Vec<(&Statement, VerdictKind)> = main.collect();
    let kinds: [([&str; 2], census::Kind); 3] = [
        (["agrees", "agree"], VerdictKind::agrees),
        (["differs", "differ"], VerdictKind::differs),
        (["is open", "are open"], |word| {
            matches!(word, VerdictKind::Open | VerdictKind::ByConstruction)
        }),
    ];
    let told = kinds.map(|(words, is_so)| {
        let own = main.iter().filter(|(_, word)| is_so(*word));
        let own = own.map(|(one, _)| one.says.trim_end_matches('.').to_owned());
        let own: Vec<String> = own.collect();
        let what = words[usize::from(own.len() > 1)];
        census::listed(&own).map(|list| format!("{} {what}: {list}.", own.len()))
    });
    let ran = main.iter().filter(|(_, word)| *word != VerdictKind::NotRun);
    let (ran, all) = (ran.count(), main.len());
    sentences.push(format!(
        "By this reproduction: {ran} of {all} main conclusions have figures."
    ));
    sentences.extend(told.into_iter().flatten());
    sentences
}

fn conclusions(paper: &Paper, marks: &[Mark], observed: &Census<'_>) -> Section {
    let is_main = |statement: &&Statement| statement.weight == 1;
    let table = statements("Conclusions", paper, marks, observed, &is_main);
    Section::of("conclusions", "Conclusions", vec![table])
}

fn sentences(paper: &Paper, marks: &[Mark], observed: &Census<'_>) -> Section {
    let tables = [
        (Kind::Ranking, "Orders"),
        (Kind::Value, "Values"),
        (Kind::Cause, "Causes"),
        (Kind::Drawing, "Drawings"),
        (Kind::SetUp, "Set-ups"),
        (Kind::Check, "Whether its figures fit together"),
    ];
    let tables = tables.map(|(kind, title)| {
        let is_its = |one: &&Statement| one.weight != 1 && one.kind == kind;
        let mut table = statements(title, paper, marks, observed, &is_its);
        table.caption = format!("{title}: {}", table.lines.len());
        table.is_folded = true;
        table
    });
    let tables = tables.into_iter().filter(|table| !table.lines.is_empty());
    Section::of("sentences", "Sentences", tables.collect())
}

/// Returns statements with both of their words.
fn statements(
    title: &str,
    paper: &Paper,
    marks: &[Mark],
    observed: &Census<'_>,
    is_wanted: &dyn Fn(&&Statement) -> bool,
) -> Table {
    let heading = "statement: | place: | its own figures: | ours: | where: | why…";
    let mut table = Table::headed(title, heading);
    for statement in paper.statements.iter().filter(is_wanted) {
        let mark = marks.iter().find(|mark| mark.statement == statement.id);
        let mut says = Cell::text(&statement.says);
        if let Some(of) = &statement.reading_of {
            says = says.above(format!("a reading of {of}"));
        }
        table.row(vec![
            says,
            Cell::text(&statement.place),
            mark.map_or_else(Cell::default, own_word),
            our_word(paper, &statement.id, observed),
            Cell::default().with_links(items(&statement.id, observed)),
            Cell::text(why(statement, paper)),
        ]);
    }
    table
}

/// Returns the word of a paper's own figures on a statement.
fn own_word(mark: &Mark) -> Cell {
    let (class, text) = match mark.outcome {
        Outcome::Agrees => ("good", "stands"),
        Outcome::Differs => ("bad", "falls"),
        Outcome::CannotBeChecked => return Cell::text("not printed"),
    };
    let cell = Cell::badge(class, text);
    if mark.counted > 1 {
        cell.above(format!("{} of {}", mark.held, mark.counted))
    } else {
        cell
    }
}

fn our_word(paper: &Paper, id: &str, observed: &Census<'_>) -> Cell {
    let told = observed.statement(id);
    let word = told.word;
    if word == VerdictKind::NotRun {
        return Cell::text("not run");
    }
    let (class, sign) = class_and_sign(word);
    let cell = Cell::badge(class, format!("{sign} {word}"));
    let instances = observed.statements.get(id).into_iter().flatten();
    let is_predicted =
        |one: &Observation<'_>| predictions::of(paper, one.item, &one.verdict.claim).is_some();
    let predicted = instances.filter(|(_, all)| all.iter().any(is_predicted));
    let predicted = predicted.count();
    let mut below = Vec::new();
    if told.instances > 1 {
        let (agree, all, differ) = (told.agree, told.instances, told.differ);
        below.push(format!("{agree} of {all} agree, {differ} differ"));
    }
    if predicted > 0 {
        below.push(format!("{predicted} predicted"));
    }
    cell.above(below.join("; "))
}

/// Returns the experiments that observe a statement, each with its report.
fn items(id: &str, observed: &Census<'_>) -> Vec<Link> {
    let instances = observed.statements.get(id).into_iter().flatten();
    let mut links: Vec<Link> = Vec::new();
    for observation in instances.flat_map(|(_, all)| all) {
        let text = name(observation.item);
        if !links.iter().any(|link| link.text == text) {
            links.push(link_to(observation.item, text.to_owned()));
        }
    }
    links
}

pub(super) fn name(item: &ItemOverview) -> &str {
    item.id.rsplit('/').next().unwrap_or_default()
}

/// Returns why no formula says it, or a note on the experiments.
fn why(statement: &Statement, paper: &Paper) -> String {
    let is_its = |note: &&Note| note.about == statement.id && !note.experiment.is_empty();
    let note = (paper.notes.iter().find(is_its)).map(|note| note.text.clone());
    statement.why.clone().or(note).unwrap_or_default()
}

/// Returns why experiments beside the tables of a set-up leave it, with their names.
fn left_by<'a>(setup: &SetUp, deviations: &'a Deviations) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (item, left) in deviations.iter().filter(|_| !setup.is_open()) {
        let is_beside = left.tables.iter().any(|table| setup.is_of_some(table));
        if let Some(why) = left.fields.get(&setup.field).filter(|_| is_beside) {
            let item = item.rsplit('/').next().unwrap_or(item);
            reasons.entry(why).or_default().push(item);
        }
    }
    reasons
}

/// Returns the set-ups, as the paper states them.
fn setups(paper: &Paper, deviations: &Deviations) -> Option<Section> {
    let mut counts: BTreeMap<Stance, usize> = BTreeMap::new();
    for setup in &paper.setups {
        let stance = setup.stance(|_| !left_by(setup, deviations).is_empty());
        *counts.entry(stance).or_default() += 1;
    }
    let counts = counts.iter().map(|(stance, count)| {
        let words = match stance {
            Stance::Followed => "followed",
            Stance::Left => "left by at least one experiment",
            Stance::Open => "left open by the paper",
            Stance::OfNoRun => "that no run can follow",
            Stance::Unsaid => "of which nothing is said",
        };
        format!("{count} {words}")
    });
    let counts = counts.collect::<Vec<_>>().join(", ");
    let mut table = Table::headed(
        format!("{} set-ups: {counts}", paper.setups.len()),
        "what: | value: | unit: | place: | for: | reading: | followed:",
    );
    for setup in &paper.setups {
        let value = if setup.is_open() {
            "left open"
        } else {
            &setup.value
        };
        let cells = [
            &setup.name.replace('_', " "),
            value,
            &setup.unit,
            &setup.place,
            &setup.of,
            &setup.reading,
        ];
        let left = left_by(setup, deviations);
        let left = (left.iter()).map(|(why, items)| format!("not by {}: {why}", items.join(", ")));
        let said = (!setup.followed.is_empty()).then(|| setup.followed.clone());
        let mut cells = cells.map(Cell::text).to_vec();
        let followed: Vec<String> = said.into_iter().chain(left).collect();
        cells.push(Cell::text(followed.join("; ")));
        table.row(cells);
    }
    table.is_folded = true;
    (!table.lines.is_empty()).then(|| Section::of("set-ups", "Set-ups", vec![table]))
}
