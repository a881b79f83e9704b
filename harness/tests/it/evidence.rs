//! Explanations name figures: every name is followed, and every figure compared.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use epochcost::audit::{self, audit};
use epochcost::claims::{Audited, Claim, Computed, Evidence, Observed};
use epochcost::experiment::{Experiment, Options, yaml_files};
use epochcost::published::number;
use serde_json::Value;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn experiments() -> PathBuf {
    repository().join("experiments")
}

/// The claims of every experiment, by `paper/item`.
fn claims() -> BTreeMap<String, (PathBuf, Vec<Claim>)> {
    let files = yaml_files(&experiments()).unwrap();
    files
        .into_iter()
        .map(|file| {
            let item = file.strip_prefix(experiments()).unwrap().with_extension("");
            let experiment = Experiment::load(&file, &Options::default())
                .unwrap_or_else(|error| panic!("{error}"));
            let item = item.to_str().unwrap().replace('\\', "/");
            (item, (file, experiment.claims))
        })
        .collect()
}

/// Every piece of evidence, with its place for messages.
fn evidence(all: &BTreeMap<String, (PathBuf, Vec<Claim>)>) -> Vec<(String, &Path, &Evidence)> {
    let mut found = Vec::new();
    for (item, (file, claims)) in all {
        for claim in claims {
            let place = format!("{item}: {}", claim.claim);
            for evidence in claim.explanation.iter().flat_map(|known| &known.evidence) {
                found.push((place.clone(), file.as_path(), evidence));
            }
        }
    }
    found
}

/// Whether `value` is `stated` to the digits in which that is given.
fn agrees(stated: f64, value: f64) -> bool {
    let text = stated.to_string();
    let decimals = text
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    // Whole figures may be rounded to three digits.
    let coarse = if decimals == 0 {
        0.005 * stated.abs()
    } else {
        0.0
    };
    (stated - value).abs() <= (0.500_001 * 10f64.powi(-(decimals as i32))).max(coarse)
}

#[test]
fn every_experiment_and_claim_that_is_named_exists() {
    let all = claims();
    for (place, _, evidence) in evidence(&all) {
        let Evidence::Observed(observed) = evidence else {
            continue;
        };
        let (_, claims) = all
            .get(&observed.item)
            .unwrap_or_else(|| panic!("{place}: there is no experiment {}", observed.item));
        let claim = claims.iter().find(|claim| claim.claim == observed.claim);
        let claim = claim.unwrap_or_else(|| panic!("{place}: no claim {:?}", observed.claim));
        assert_eq!(claim.unit(), observed.unit, "{place}: {}", observed.claim);
        if let Some(cause) = &observed.cause {
            let known = claim.causes.iter().any(|known| known.cause == *cause);
            assert!(
                known,
                "{place}: {:?} has no cause {cause:?}",
                observed.claim
            );
        }
    }
}

/// Every recorded reproduction, newest last by its directory's name.
fn records() -> Vec<Value> {
    let directory = repository().join("results/records");
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path().join("summary.json"))
        .filter(|file| file.is_file())
        .collect();
    files.sort();
    let read = |file: PathBuf| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let records: Vec<Value> = files.into_iter().map(read).collect();
    records
        .into_iter()
        .filter(|record| record["items"].is_array())
        .collect()
}

fn recorded(record: &Value, observed: &Observed) -> Option<f64> {
    let items = record["items"].as_array()?;
    let item = items.iter().find(|item| item["id"] == *observed.item)?;
    let verdict = (item["claims"].as_array()?.iter())
        .map(|claim| &claim["verdict"])
        .find(|verdict| verdict["claim"] == *observed.claim)?;
    match &observed.cause {
        None => verdict["observed"].as_f64(),
        Some(cause) => {
            let causes = verdict["causes"].as_array()?;
            causes.iter().find(|known| known["cause"] == *cause)?["observed"].as_f64()
        }
    }
}

#[test]
fn observed_figures_are_those_of_the_record() {
    let Some(record) = records().pop() else {
        eprintln!("there is no reproduction under results/records: not compared");
        return;
    };
    let all = claims();
    for (place, _, evidence) in evidence(&all) {
        let Evidence::Observed(observed) = evidence else {
            continue;
        };
        let Some(value) = recorded(&record, observed) else {
            panic!(
                "{place}: the record does not have {}: {}",
                observed.item, observed.claim
            );
        };
        assert!(
            agrees(observed.figure, value),
            "{place}: {value} of {observed:?}"
        );
    }
}

#[test]
fn audited_figures_are_those_of_the_audit() {
    let findings = audit(&audit::read(&[], None).unwrap()).unwrap();
    let all = claims();
    for (place, _, evidence) in evidence(&all) {
        let Evidence::Audited(Audited {
            paper,
            check,
            row,
            figure,
        }) = evidence
        else {
            continue;
        };
        let found = findings.iter().find(|finding| {
            finding.paper == *paper && finding.statement == *check && finding.row == *row
        });
        let found = found.unwrap_or_else(|| panic!("{place}: no finding {paper}: {check}, {row}"));
        let computed = found.compared[0].left.value;
        assert!(
            agrees(*figure, computed),
            "{place}: {computed} of {check}, {row}"
        );
    }
}

#[test]
fn computed_figures_follow_from_their_cells() {
    let all = claims();
    for (place, file, evidence) in evidence(&all) {
        let Evidence::Computed(Computed {
            cells,
            formula,
            figure,
        }) = evidence
        else {
            continue;
        };
        let values: Vec<f64> = cells
            .iter()
            .map(|cell| number(file, cell).unwrap())
            .collect();
        let value =
            arithmetic::value(formula, &values).unwrap_or_else(|| panic!("{place}: {formula}"));
        assert!(
            agrees(*figure, value),
            "{place}: {formula} = {value}, not {figure}"
        );
    }
    assert_eq!(
        arithmetic::value("(a + 2 * b) / 4 - 1", &[2.0, 3.0]),
        Some(1.0)
    );
    assert_eq!(arithmetic::value("a +", &[2.0]), None);
}

/// Arithmetic on cells that are named by letters.
mod arithmetic {
    struct Reader<'a> {
        rest: &'a str,
        values: &'a [f64],
    }

    pub fn value(formula: &str, values: &[f64]) -> Option<f64> {
        let mut reader = Reader {
            rest: formula,
            values,
        };
        let value = reader.sum()?;
        reader.rest.trim().is_empty().then_some(value)
    }

    impl Reader<'_> {
        fn takes(&mut self, sign: char) -> bool {
            match self.rest.trim_start().strip_prefix(sign) {
                Some(rest) => {
                    self.rest = rest;
                    true
                }
                None => false,
            }
        }

        fn sum(&mut self) -> Option<f64> {
            let mut value = self.product()?;
            loop {
                if self.takes('+') {
                    value += self.product()?;
                } else if self.takes('-') {
                    value -= self.product()?;
                } else {
                    return Some(value);
                }
            }
        }

        fn product(&mut self) -> Option<f64> {
            let mut value = self.operand()?;
            loop {
                if self.takes('*') {
                    value *= self.operand()?;
                } else if self.takes('/') {
                    value /= self.operand()?;
                } else {
                    return Some(value);
                }
            }
        }

        fn operand(&mut self) -> Option<f64> {
            if self.takes('(') {
                let value = self.sum()?;
                return self.takes(')').then_some(value);
            }
            let rest = self.rest.trim_start();
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.';
            let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
            let (word, rest) = rest.split_at(end);
            self.rest = rest;
            match word.as_bytes() {
                [letter @ b'a'..=b'z'] => self.values.get(usize::from(letter - b'a')).copied(),
                _ => word.parse().ok(),
            }
        }
    }
}
