//! The ledger of predictions states every claim of every experiment as it is.
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use epochcost::claims::Claim;
use epochcost::experiment::{Experiment, Options, yaml_files};
use epochcost::published::{Ledger, line_for};

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments")
}

/// Every claim with the name of its file in the ledger.
fn claims(ledger: &Ledger) -> Vec<(String, Claim)> {
    let files = yaml_files(&experiments()).unwrap();
    files
        .into_iter()
        .flat_map(|file| {
            let experiment = Experiment::load(&file, &Options::default())
                .unwrap_or_else(|error| panic!("{error}"));
            let name = ledger.name_of(&file);
            // Checks and findings say themselves since when they do not hold.
            let claims = experiment.claims.into_iter();
            let claims = claims.filter(|claim| claim.formula.is_none());
            claims
                .map(move |claim| (name.clone(), claim))
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn the_last_line_on_every_claim_is_the_claim() {
    let ledger = Ledger::read(&experiments()).unwrap();
    let mut missing = Vec::new();
    for (file, claim) in claims(&ledger) {
        let history = ledger.history(&file, &claim.claim);
        let why = match history.last() {
            Some(last) if last.is_of(&claim) => continue,
            Some(_) => "REASON OF THE CHANGE",
            None => "",
        };
        missing.push(line_for(&file, &claim, "YYYY-MM-DD", why));
    }
    assert!(
        missing.is_empty(),
        "append to experiments/ledger.csv, with the day, and with `after` instead of `before` \
         if a result is known:\n{}",
        missing.join("\n")
    );
}

#[test]
fn a_change_has_a_reason_and_days_do_not_go_back() {
    let ledger = Ledger::read(&experiments()).unwrap();
    let claims: BTreeSet<(&str, &str)> = ledger.claims().collect();
    for (file, claim) in claims {
        let history = ledger.history(file, claim);
        let place = format!("{file}: {claim}");
        for pair in history.windows(2) {
            assert!(
                !pair[1].why.trim().is_empty(),
                "{place}: a change without a reason"
            );
            assert!(
                pair[0].date <= pair[1].date,
                "{place}: {} after",
                pair[1].date
            );
            let changed = pair[1].changes_since(&pair[0]);
            assert!(!changed.is_empty(), "{place}: a line that changes nothing");
        }
        for line in &history {
            let digits = line.date.chars().filter(char::is_ascii_digit).count();
            assert!(
                line.date.len() == 10 && digits == 8,
                "{place}: {}",
                line.date
            );
        }
    }
}
