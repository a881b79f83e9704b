//! The recorded reproduction of the shipped papers, changed: what is lost, split or renamed never
//! makes an open statement or figure agree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use epochcost_judge::analysis::census::Census;
use epochcost_judge::analysis::items::{ItemOverview, JudgedClaim};
use epochcost_judge::analysis::overview::Overview;
use epochcost_judge::audit;
use epochcost_spec::claims::Lost;
use epochcost_spec::claims::VerdictKind;
use epochcost_spec::published::Paper;

type Words = BTreeMap<String, VerdictKind>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The papers, each with what was observed of it.
fn papers() -> Vec<(Paper, Vec<ItemOverview>)> {
    let record = root().join("results/records/reproduction/summary.json");
    let overview: Overview =
        serde_json::from_str(&std::fs::read_to_string(record).unwrap()).unwrap();
    let folders: Vec<_> = (audit::names().into_iter())
        .map(|name| root().join("experiments").join(name))
        .collect();
    let of = |paper: Paper| {
        let own = overview
            .items
            .iter()
            .filter(|item| item.paper == paper.name);
        let mut own: Vec<ItemOverview> = own.cloned().collect();
        for item in &mut own {
            item.claims.retain(|claim| claim.verdict.kind.is_of_paper());
        }
        (paper, own)
    };
    audit::read(&folders, None)
        .unwrap()
        .into_iter()
        .map(of)
        .collect()
}

fn words(items: &[ItemOverview]) -> Words {
    let census = Census::of(items.iter());
    let statements = census
        .statements
        .keys()
        .map(|id| ((*id).to_owned(), census.readings(id).word));
    let figures = census
        .figures
        .keys()
        .map(|cell| (cell.clone(), census.figure(cell)));
    statements.chain(figures).collect()
}

fn lost(paper: &Paper, claim: &JudgedClaim) -> Lost {
    let claim = claim.verdict.claim.clone();
    let of = paper.subject(&claim).unwrap_or_default();
    Lost { claim, of }
}

/// What was open and agrees now.
fn turned(before: &Words, after: &Words) -> Vec<String> {
    let is_turned = |(of, word): &(&String, &VerdictKind)| {
        word.agrees() && before.get(*of).is_some_and(|before| !before.agrees())
    };
    let turned = after.iter().filter(is_turned);
    turned
        .map(|(of, word)| format!("{of}: {}, then {word}", before[of]))
        .collect()
}

/// Every claim is found again by its name alone.
#[test]
fn a_recorded_claim_names_its_statement_or_cell() {
    for (paper, items) in papers() {
        for claim in items.iter().flat_map(|item| &item.claims) {
            let of = claim.verdict.cell.as_ref().map_or_else(
                || {
                    claim
                        .verdict
                        .statement
                        .rsplit(": ")
                        .next()
                        .unwrap()
                        .to_owned()
                },
                ToString::to_string,
            );
            assert_eq!(
                paper.subject(&claim.verdict.claim),
                Some(of),
                "{}",
                claim.verdict.claim
            );
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
            assert_eq!(
                word.differs(),
                are(VerdictKind::differs),
                "{cell}: {words:?}"
            );
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
        assert_eq!(turned(&before, &before), Vec::<String>::new());
        for item in 0..items.len() {
            for claim in 0..items[item].claims.len() {
                let taken = items[item].claims.remove(claim);
                forgotten += turned(&before, &words(&items)).len();
                items[item].lost = vec![lost(&paper, &taken)];
                assert_eq!(
                    turned(&before, &words(&items)),
                    Vec::<String>::new(),
                    "{taken:?}"
                );
                items[item].lost.clear();
                items[item].claims.insert(claim, taken);
            }
        }
    }
    // Without the record as memory some would.
    assert!(forgotten > 0);
}

/// An experiment in two files: formulas over rows of both are lost, and so is the old name.
#[test]
fn splitting_an_experiment_makes_nothing_agree() {
    for (paper, items) in papers() {
        let before = words(&items);
        for (index, item) in items.iter().enumerate() {
            for both in 0..3 {
                let mut split = items.clone();
                let lost = item
                    .claims
                    .iter()
                    .map(|claim| lost(&paper, claim))
                    .collect();
                let (mut one, mut two) = (item.clone(), item.clone());
                one.id.push_str("-1");
                two.id.push_str("-2");
                let mut place = 0;
                one.claims.retain(|_| {
                    place += 1;
                    place % 3 == both
                });
                let mut place = 0;
                two.claims.retain(|_| {
                    place += 1;
                    place % 3 == (both + 1) % 3
                });
                split[index] = ItemOverview {
                    claims: Vec::new(),
                    lost,
                    ..item.clone()
                };
                split.extend([one, two]);
                assert_eq!(
                    turned(&before, &words(&split)),
                    Vec::<String>::new(),
                    "{}",
                    item.id
                );
            }
        }
    }
}

/// A claim of another name is an instance of its own, and the one it was is lost.
#[test]
fn renaming_a_statement_makes_nothing_agree() {
    for (paper, items) in papers() {
        let before = words(&items);
        for (index, item) in items.iter().enumerate() {
            for (place, claim) in item.claims.iter().enumerate() {
                let mut renamed = items.clone();
                renamed[index].lost = vec![lost(&paper, claim)];
                renamed[index].claims[place]
                    .verdict
                    .claim
                    .push_str(", in other words");
                assert_eq!(
                    turned(&before, &words(&renamed)),
                    Vec::<String>::new(),
                    "{claim:?}"
                );
            }
        }
    }
}

/// What is not run here keeps the record's word: an item that is left out makes nothing agree.
#[test]
fn an_item_that_is_not_run_makes_nothing_agree() {
    use epochcost_judge::analysis::items::{How, JudgedClaim};
    for (_, items) in papers() {
        let before = words(&items);
        for index in 0..items.len() {
            let mut left_out = items.clone();
            let ran = |claim: &&mut JudgedClaim| claim.how != How::NotRun;
            for claim in left_out[index].claims.iter_mut().filter(ran) {
                claim.recorded = Some(claim.verdict.verdict);
                claim.how = How::NotRun;
            }
            assert_eq!(turned(&before, &words(&left_out)), Vec::<String>::new());
        }
    }
}
