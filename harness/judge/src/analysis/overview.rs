//! Several runs in one: what became of every item, every claim, and the exit code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use epochcost_record::{Item, ItemState, Reproduction, ResultsError, RunDirectory, SchemaVersion};
use epochcost_spec::claims::Claim;
use epochcost_spec::exit::Exit;
use epochcost_spec::hash::sha256_of;
use epochcost_spec::profiles::misses;
use serde::{Deserialize, Serialize};

use super::counts::Counts;
use super::items::{How, ItemOverview, JudgedClaim};
use super::record::RecordComparison;
use super::summary::{Answer, RowSummary, Verdict};
use super::{Analysis, answer, conclusions, summarise, verdicts};

/// The version of an overview's `summary.json`.
pub const OVERVIEW_VERSION: SchemaVersion = SchemaVersion { major: 4, minor: 0 };

/// A run and its analysis.
#[derive(Clone, Debug)]
pub struct AnalysedRun {
    /// Directory.
    pub directory: RunDirectory,
    /// Figures and verdicts.
    pub analysis: Analysis,
}

/// Several runs in figures: `summary.json` of a reproduction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    /// The format's version.
    pub schema_version: SchemaVersion,
    /// Exit code of the program on these results.
    pub exit_code: u8,
    /// Papers and items that were asked for; all, if there are none.
    pub asked: Vec<String>,
    /// Whether long items were reduced or left out.
    pub quick: bool,
    /// The platform that items were limited to.
    pub platform: Option<String>,
    /// Number of items that there were to choose from.
    pub catalogue: usize,
    /// Which statements of each paper hold.
    #[serde(default)]
    pub answer: Answer,
    /// Verdicts over all items.
    pub counts: Counts,
    /// Comparison with the recorded verdicts.
    #[serde(default)]
    pub record: RecordComparison,
    /// Every item that was asked for.
    pub items: Vec<ItemOverview>,
}

impl AnalysedRun {
    /// Opens and analyses a run.
    ///
    /// # Errors
    /// When a file of the run is missing or damaged.
    pub fn open(path: &Path) -> Result<Self, ResultsError> {
        Self::analyse(RunDirectory::open_cut(path)?)
    }

    /// Analyses a run.
    ///
    /// # Errors
    /// When a file of the run is missing or damaged.
    pub fn analyse(directory: RunDirectory) -> Result<Self, ResultsError> {
        let analysis = summarise(&directory)?;
        Ok(Self {
            directory,
            analysis,
        })
    }
}

impl Overview {
    /// Returns what the platform profiles of its simulated items miss by, a sentence for each.
    pub fn misses(&self) -> Vec<String> {
        let ended = self.items.iter().filter(|item| item.run.is_some());
        let profiles: BTreeSet<&str> = ended.filter_map(|item| item.profile.as_deref()).collect();
        let sentence = |profile| misses::sentence(profile, None);
        profiles.into_iter().map(sentence).collect()
    }

    /// Brings a reproduction and its runs together; `runs` has one for each
    /// item, in order, or none where the item has no run.
    pub fn new(reproduction: &Reproduction, runs: &[Option<AnalysedRun>]) -> Self {
        let items = reproduction.items.iter().zip(runs);
        let items = items.map(|(item, run)| ItemOverview::new(item, run.as_ref()));
        let items: Vec<ItemOverview> = items.collect();
        let mut overview = Self {
            schema_version: OVERVIEW_VERSION,
            exit_code: 0,
            asked: reproduction.asked.clone(),
            quick: reproduction.quick,
            platform: reproduction.platform.clone(),
            catalogue: reproduction.catalogue,
            answer: answer_of(&items),
            counts: counts(items.iter().flat_map(|item| &item.claims)),
            record: RecordComparison::of(&items),
            items,
        };
        overview.exit_code = overview.exit_status() as u8;
        overview
    }

    /// Returns the items that the command asked for: all, if it named none. The
    /// others are as they were recorded before.
    pub fn asked_for(&self) -> Vec<&ItemOverview> {
        let is_asked = |item: &&ItemOverview| {
            let mut names = self.asked.iter();
            self.asked.is_empty() || names.any(|name| is_named(name, &item.id))
        };
        self.items.iter().filter(is_asked).collect()
    }

    /// Returns how a reproduction with these results ends, by the items that were
    /// asked for:
    /// [`Exit::Interrupted`] if it was not brought to its end, [`Exit::Lacks`]
    /// if nothing at all could be run here, [`Exit::Failed`] if an item or a
    /// trial failed or a verdict is not as expected.
    pub fn exit_status(&self) -> Exit {
        let items = self.asked_for();
        let is = |state: ItemState| move |item: &&ItemOverview| item.state == state;
        let has_failed = |item: &&ItemOverview| {
            let is_lost = item.is_told() && !item.lost.is_empty();
            let is_wrong = item.failed_trials > 0 || item.counts.unexpected > 0;
            item.state == ItemState::Failed || is_wrong || is_lost
        };
        if items.iter().any(is(ItemState::Incomplete))
            || items.iter().any(is(ItemState::NotReached))
        {
            Exit::Interrupted
        } else if items.iter().any(has_failed) {
            Exit::Failed
        } else if !items.iter().any(is(ItemState::Done)) {
            Exit::Lacks
        } else {
            Exit::Done
        }
    }
}

fn counts<'a>(claims: impl Iterator<Item = &'a JudgedClaim>) -> Counts {
    Counts::of(claims.map(|claim| (&claim.verdict, claim.unexpected)))
}

/// Returns whether `name` is an item's id, the item that it is a form of, or the paper that it begins
/// with.
pub fn is_named(name: &str, id: &str) -> bool {
    let name = name.trim_end_matches('/');
    id == name || (id.strip_prefix(name)).is_some_and(|rest| rest.starts_with(['/', '.']))
}

/// The experiment of a paper's folder whose findings the page begins with.
const ANSWER: &str = "/answer";

/// Returns the answer of all runs: the findings of [`ANSWER`], then which statements of each paper
/// hold.
fn answer_of(items: &[ItemOverview]) -> Answer {
    let is_lead = |item: &&ItemOverview| item.id.ends_with(ANSWER) && item.run.is_some();
    let claims = items.iter().filter(is_lead).flat_map(|item| &item.claims);
    let mut answer = Answer {
        findings: answer::told(claims.map(|claim| &claim.verdict)),
        ..Answer::default()
    };
    answer.findings.extend(conclusions::by_paper(items));
    if answer.findings.is_empty() {
        answer.conclusions = conclusions::WITHOUT_PAPER.to_owned();
    }
    answer
}

impl ItemOverview {
    fn new(item: &Item, run: Option<&AnalysedRun>) -> Self {
        let summary = run.map(|run| &run.analysis.summary);
        let rows = || summary.iter().flat_map(|summary| &summary.rows);
        let platform = summary.map(|summary| summary.platform.clone());
        let path = run.map(|run| run.directory.path());
        let manifest = run.map(|run| run.directory.manifest());
        let git = manifest.and_then(|manifest| manifest.git.as_ref());
        let mut overview = Self {
            id: item.id.clone(),
            paper: item.paper().to_owned(),
            description: item.description.clone(),
            state: item.state,
            why: item.why.clone(),
            run: item.run.clone(),
            run_id: summary.map(|summary| summary.run_id.clone()),
            experiment_sha256: path.and_then(|path| sha256_of(&path.join("experiment.yaml")).ok()),
            commit: git.and_then(|git| git.commit.clone()),
            platform: platform.or_else(|| item.platform.clone()),
            profile: summary.and_then(|summary| summary.profile.clone()),
            bytes: path.and_then(|path| size_of(path).ok()),
            reduced: item.reduced.clone(),
            trials: rows().map(|row| row.trials).sum(),
            failed_trials: rows().map(RowSummary::surprising_failures).sum(),
            rehearsed: manifest.is_some_and(|manifest| manifest.rehearsed),
            counts: Counts::default(),
            claims: Vec::new(),
            lost: item.lost.clone(),
        };
        overview.claims = match run {
            Some(run) => judged(run, item, overview.is_whole()),
            None => absent(item),
        };
        overview.counts = counts(overview.claims.iter());
        overview
    }
}

/// Returns the size of all files of a directory and of those below it.
fn size_of(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += if found.is_dir() {
            size_of(&entry.path())?
        } else {
            found.len()
        };
    }
    Ok(bytes)
}

/// Returns the verdicts of a run, those of papers beside the verdicts that are recorded now.
fn judged(run: &AnalysedRun, item: &Item, is_whole: bool) -> Vec<JudgedClaim> {
    let summary = &run.analysis.summary;
    let claims = item.claims.iter().map(|claim| (&*claim.claim, claim));
    let claims: BTreeMap<&str, &Claim> = claims.collect();
    let judged = |verdict: &Verdict| {
        let mut verdict = verdict.clone();
        let is_of_paper = verdict.kind.is_of_paper() && !item.claims.is_empty();
        if is_of_paper {
            let own = claims.get(verdict.claim.as_str());
            verdict.expect = own.and_then(|claim| claim.expect);
        }
        let is_new = is_of_paper && is_whole && verdict.expect.is_none();
        if is_new {
            verdict.reason = format!("no recorded verdict; {}", verdict.reason);
        }
        JudgedClaim {
            how: How::of(verdict.verdict, &summary.platform),
            recorded: None,
            unexpected: is_new || !verdict.holds(),
            verdict,
        }
    };
    summary.verdicts.iter().map(judged).collect()
}

fn absent(item: &Item) -> Vec<JudgedClaim> {
    let why = (item.why.as_ref()).map_or(String::new(), |why| format!(": {why}"));
    let reason = format!("{}{why}", item.state.as_str());
    let not_run = |claim: &Claim| JudgedClaim {
        how: How::NotRun,
        recorded: claim.expect,
        unexpected: false,
        verdict: Verdict {
            expect: None,
            ..verdicts::not_run(claim, &reason)
        },
    };
    item.claims.iter().map(not_run).collect()
}
