//! The recorded reproduction of the shipped papers, changed: what is lost, split or renamed never
//! makes an open statement or figure agree.

use std::collections::{BTreeMap, BTreeSet};

use epochcost_judge::analysis::census::Census;
use epochcost_judge::analysis::items::{How, ItemOverview, JudgedClaim};
use epochcost_judge::analysis::overview::Overview;
use epochcost_judge::audit;
use epochcost_spec::claims::{Lost, VerdictKind};
use epochcost_spec::published::Paper;

use crate::support::shipped;

type Words = BTreeMap<String, VerdictKind>;

/// The papers, each with what was observed of it.
fn papers() -> Vec<(Paper, Vec<ItemOverview>)> {
    let record = shipped("results/records/reproduction/summary.json");
    let overview: Overview = serde_json::from_str(&record).unwrap();
    let of = |paper: Paper| {
        let all = overview.items.iter();
        let own = all.filter(|item| item.paper == paper.name);
        let mut own: Vec<ItemOverview> = own.cloned().collect();
        for item in &mut own {
            item.claims.retain(|claim| claim.verdict.kind.is_of_paper());
        }
        (paper, own)
    };
    let papers = audit::read(&[], None).unwrap();
    papers.into_iter().map(of).collect()
}

fn words(items: &[ItemOverview]) -> Words {
    let census = Census::of(items.iter());
    let statements = census.statements.keys();
    let statements = statements.map(|id| ((*id).to_owned(), census.readings(id).word));
    let figures = census.figures.keys();
    let figures = figures.map(|cell| (cell.clone(), census.figure(cell)));
    statements.chain(figures).collect()
}

fn lost(paper: &Paper, claim: &JudgedClaim) -> Lost {
    let claim = claim.verdict.claim.clone();
    let of = paper.subject(&claim).unwrap_or_default();
    Lost { claim, of }
}

/// Fails if something was open and agrees now.
#[track_caller]
fn none_turned(before: &Words, after: &[ItemOverview], what: &str) {
    assert_eq!(turned(before, &words(after)), [""; 0], "{what}");
}

/// What was open and agrees now.
fn turned(before: &Words, after: &Words) -> Vec<String> {
    let is_turned = |(of, word): &(&String, &VerdictKind)| {
        word.agrees() && before.get(*of).is_some_and(|before| !before.agrees())
    };
    let turned = after.iter().filter(is_turned);
    let told = turned.map(|(of, word)| format!("{of}: {}, then {word}", before[of]));
    told.collect()
}

#[test]
fn a_recorded_claim_names_its_statement_or_cell() {
    for (paper, items) in papers() {
        for claim in items.iter().flat_map(|item| &item.claims) {
            let verdict = &claim.verdict;
            let of = match &verdict.cell {
                Some(cell) => cell.to_string(),
                None => verdict.statement.rsplit(": ").next().unwrap().to_owned(),
            };
            assert_eq!(paper.subject(&verdict.claim), Some(of), "{}", verdict.claim);
        }
    }
}

/// Table I of the P2P paper is of a mini-batch by its heading, and of an epoch by the text.
#[test]
fn a_figure_read_in_several_ways_agrees_or_differs_in_all() {
    let mut open = 0;
    for (_, items) in papers() {
        let census = Census::of(items.iter());
        for (cell, all) in &census.figures {
            let claims: BTreeSet<&str> = all.iter().map(|one| &*one.verdict.claim).collect();
            if claims.len() < 2 {
                continue;
            }
            let of_reading = |claim: &&str| {
                let mut own = items.clone();
                for item in &mut own {
                    item.claims.retain(|judged| judged.verdict.claim == *claim);
                }
                Census::of(own.iter()).figure(cell)
            };
            let words: Vec<VerdictKind> = claims.iter().map(of_reading).collect();
            let word = census.figure(cell);
            let are = |is_so: fn(VerdictKind) -> bool| words.iter().all(|word| is_so(*word));
            assert_eq!(word.agrees(), are(VerdictKind::agrees), "{cell}: {words:?}");
            let all_differ = are(VerdictKind::differs);
            assert_eq!(word.differs(), all_differ, "{cell}: {words:?}");
            open += usize::from(word == VerdictKind::Open);
        }
    }
    assert!(open >= 4, "{open}");
}

#[test]
fn losing_an_observation_makes_nothing_agree() {
    let mut forgotten = 0;
    for (paper, mut items) in papers() {
        let before = words(&items);
        none_turned(&before, &items, "as it was");
        for item in 0..items.len() {
            for claim in 0..items[item].claims.len() {
                let taken = items[item].claims.remove(claim);
                forgotten += turned(&before, &words(&items)).len();
                items[item].lost = vec![lost(&paper, &taken)];
                none_turned(&before, &items, &taken.verdict.claim);
                items[item].lost.clear();
                items[item].claims.insert(claim, taken);
            }
        }
    }
    // Without the record as memory some would.
    assert!(forgotten > 0);
}

/// An experiment in two files: formulas over rows of both are lost, and so is the old name.
fn split(paper: &Paper, items: &[ItemOverview], index: usize, both: usize) -> Vec<ItemOverview> {
    let mut split = items.to_vec();
    let part = |name: &str, third: usize| {
        let mut part = items[index].clone();
        part.id.push_str(name);
        let mut place = 0;
        part.claims.retain(|_| {
            place += 1;
            place % 3 == third
        });
        part
    };
    let claims = split[index].claims.drain(..);
    split[index].lost = claims.map(|claim| lost(paper, &claim)).collect();
    split.extend([part("-1", both), part("-2", (both + 1) % 3)]);
    split
}

/// A claim of another name is an instance of its own, and the one it was is lost.
fn renamed(paper: &Paper, items: &[ItemOverview], index: usize, place: usize) -> Vec<ItemOverview> {
    let mut renamed = items.to_vec();
    let claim = &mut renamed[index].claims[place];
    let lost = lost(paper, claim);
    claim.verdict.claim.push_str(", in other words");
    renamed[index].lost = vec![lost];
    renamed
}

/// What is not run here keeps the record's word.
fn left_out(items: &[ItemOverview], index: usize) -> Vec<ItemOverview> {
    let mut left_out = items.to_vec();
    for claim in &mut left_out[index].claims {
        if claim.how != How::NotRun {
            claim.recorded = Some(claim.verdict.verdict);
            claim.how = How::NotRun;
        }
    }
    left_out
}

#[test]
fn splitting_renaming_and_leaving_out_make_nothing_agree() {
    for (paper, items) in papers() {
        let before = words(&items);
        for (index, item) in items.iter().enumerate() {
            for both in 0..3 {
                none_turned(&before, &split(&paper, &items, index, both), &item.id);
            }
            for (place, claim) in item.claims.iter().enumerate() {
                let renamed = renamed(&paper, &items, index, place);
                none_turned(&before, &renamed, &claim.verdict.claim);
            }
            none_turned(&before, &left_out(&items, index), "left out");
        }
    }
}
