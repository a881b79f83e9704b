//! A reproduction beside the recorded one of this repository.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::overview::{ItemOverview, JudgedClaim, Overview};
use crate::claims::VerdictKind;
use crate::results::ItemState;

/// Place of the recorded reproduction, from the repository's root.
pub const RECORD: &str = "results/records/reproduction/summary.json";

/// Comparison of a reproduction with the recorded one, item by item and claim by claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordComparison {
    /// The record's file.
    pub path: PathBuf,
    /// Day on which its last item began to run; null if it has no run.
    pub date: Option<String>,
    /// Commit of the sources that it was made with; null outside a repository.
    pub commit: Option<String>,
    /// Verdicts that both have.
    pub compared: usize,
    /// Those that are not the same.
    pub different: Vec<Difference>,
    /// Items whose experiment changed since: the record is older than what it judges.
    pub outdated: Vec<String>,
    /// Items that the record does not have.
    pub missing: Vec<String>,
}

/// A claim with two verdicts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The item.
    pub item: String,
    /// The claim.
    pub claim: String,
    /// The row that it is about.
    pub row: Option<String>,
    /// Verdict in the record.
    pub recorded: VerdictKind,
    /// Verdict of this reproduction.
    pub now: VerdictKind,
}

impl RecordComparison {
    /// Compares `overview` with the record at `path`; none if there is no record, or one
    /// that this version cannot read.
    pub fn with(path: &Path, overview: &Overview) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let record: Overview = serde_json::from_str(&text).ok()?;
        (record.schema_version.major == overview.schema_version.major)
            .then(|| Self::of(path, &record, overview))
    }

    fn of(path: &Path, record: &Overview, overview: &Overview) -> Self {
        let items = record.items.iter();
        let recorded: BTreeMap<&str, &ItemOverview> =
            items.map(|item| (item.id.as_str(), item)).collect();
        let mut comparison = Self {
            path: path.to_owned(),
            date: date(record),
            commit: record.items.iter().find_map(|item| item.commit.clone()),
            ..Self::default()
        };
        let done = |item: &&ItemOverview| item.state == ItemState::Done;
        for item in overview.items.iter().filter(done) {
            match recorded.get(item.id.as_str()).filter(|item| done(item)) {
                Some(old) => comparison.add(old, item),
                None => comparison.missing.push(item.id.clone()),
            }
        }
        comparison
    }

    fn add(&mut self, old: &ItemOverview, new: &ItemOverview) {
        let is_whole = old.reduced.is_empty() && new.reduced.is_empty();
        if is_whole && old.experiment_sha256 != new.experiment_sha256 {
            self.outdated.push(new.id.clone());
        }
        let verdicts = old.claims.iter().map(|claim| (key(claim), claim));
        let verdicts: BTreeMap<_, _> = verdicts.collect();
        for claim in &new.claims {
            let Some(before) = verdicts.get(&key(claim)) else {
                continue;
            };
            self.compared += 1;
            let (recorded, now) = (before.verdict.verdict, claim.verdict.verdict);
            if recorded != now {
                self.different.push(Difference {
                    item: new.id.clone(),
                    claim: claim.verdict.claim.clone(),
                    row: claim.verdict.row.clone(),
                    recorded,
                    now,
                });
            }
        }
    }

    /// Returns it in sentences.
    pub fn text(&self) -> String {
        let name = match (&self.date, &self.commit) {
            (Some(date), Some(commit)) => {
                let commit: String = commit.chars().take(9).collect();
                format!("of {date} at {commit}")
            }
            (Some(date), None) => format!("of {date}"),
            _ => "without a date".into(),
        };
        let same = self.compared - self.different.len();
        let mut text = format!(
            "Record {name} ({}): {same} of {} verdicts are the same.",
            self.path.display(),
            self.compared
        );
        for (items, what) in [
            (
                &self.outdated,
                "The record is older than what it judges: changed since are",
            ),
            (&self.missing, "The record does not have"),
        ] {
            if !items.is_empty() {
                text.push_str(&format!(" {what} {}.", items.join(", ")));
            }
        }
        text
    }
}

fn key(claim: &JudgedClaim) -> (&str, Option<&str>) {
    (&claim.verdict.claim, claim.verdict.row.as_deref())
}

/// Returns the day on which the last item began: run ids begin with their time.
fn date(record: &Overview) -> Option<String> {
    let ids = record
        .items
        .iter()
        .filter_map(|item| item.run_id.as_deref());
    ids.filter_map(|id| id.get(..10)).max().map(str::to_owned)
}
