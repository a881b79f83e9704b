//! Search for faults that break what every system promises: schedules drawn by a seed, run in
//! virtual time, judged by the same row without faults, and shrunk.

mod judge;
mod schedule;

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde::Serialize;

use epochcost_experiment::Experiment;
use epochcost_planner::error::Error;
use epochcost_platform::{Platform, SpendingConsent, TrialData};
use epochcost_spec::chain::chain;
use epochcost_spec::rows::{Fault, TrialPlan};
use epochcost_spec::ui::Output;
use epochcost_spec::yaml::document::Value;
use schedule::Possible;

use super::prepared::{Prepared, open};

pub use judge::Observed;

/// Longest that a trial in virtual time may take on this machine's clock.
const PATIENCE: Duration = Duration::from_secs(120);
/// One schedule in so many runs twice, and must end alike.
const REPEATED: usize = 16;

/// An experiment whose rows are searched.
pub struct Search {
    experiment: Experiment,
    platform: Box<dyn Platform>,
    data: TrialData,
    seed: u64,
    subjects: Vec<Subject>,
}

/// A row, what can happen to it, and its trial without faults.
struct Subject {
    plan: TrialPlan,
    possible: Possible,
    whole: Observed,
}

/// Result of a search.
#[derive(Debug, Default, Serialize)]
pub struct Found {
    /// Number of schedules that ran.
    pub schedules: usize,
    /// Number of schedules whose row failed.
    pub failed: usize,
    /// Promises that were broken.
    pub violations: Vec<Violation>,
}

/// A promise that a row broke.
#[derive(Clone, Debug, Serialize)]
pub struct Violation {
    /// Number of the schedule.
    pub schedule: usize,
    /// Id of the row.
    pub row: String,
    /// What happened.
    pub broken: String,
    /// Fewest of the schedule's faults that break it.
    pub faults: Vec<Fault>,
    /// YAML of the experiment that repeats it.
    pub replay: String,
}

impl Search {
    /// Runs every row without faults, and finds the places where faults can happen.
    ///
    /// # Errors
    /// When the experiment cannot be simulated, or has a row that fails by itself.
    pub async fn open(experiment: Experiment, seed: u64, output: Output) -> Result<Self, Error> {
        let mut opened = open(&experiment, None)?;
        let consent = SpendingConsent::default();
        let prepared = Prepared::of(&experiment, &mut opened, consent, output).await?;
        let mut subjects = Vec::new();
        for plan in experiment.plans_of(0..1) {
            let everywhere = schedule::everywhere(&plan.row.job);
            let (platform, data) = (opened.platform.as_ref(), &prepared.data);
            let whole = trial(platform, data, &plan, &[]).await;
            let survey = trial(platform, data, &plan, &everywhere).await;
            let failed = |reason| {
                Error::usage(
                    format!("row {} fails without faults: {reason}", plan.row.id),
                    "run it with --platform sim, and mend that first",
                )
            };
            let whole = whole.and_then(Observed::ended).map_err(failed)?;
            let survey = survey.and_then(Observed::ended).map_err(failed)?;
            let seed = schedule::mix(seed, subjects.len());
            let possible = Possible::new(&plan, &everywhere, &survey.trial.faults, seed);
            subjects.push(Subject {
                plan,
                possible,
                whole,
            });
        }
        Ok(Self {
            experiment,
            platform: opened.platform,
            data: prepared.data,
            seed,
            subjects,
        })
    }

    /// Returns the row and the faults of a schedule: rows take turns, each with every kind of
    /// fault at every place first, alone, then with several at a time.
    pub fn schedule(&self, number: usize) -> (&str, Vec<Fault>) {
        let (subject, faults) = self.drawn(number);
        (&subject.plan.row.id, faults)
    }

    fn drawn(&self, number: usize) -> (&Subject, Vec<Fault>) {
        let count = self.subjects.len();
        let subject = &self.subjects[number % count];
        let seed = schedule::mix(self.seed, number);
        (subject, subject.possible.schedule(number / count, seed))
    }

    /// Returns the trial of a row without faults, by the row's id.
    pub fn whole(&self, id: &str) -> Option<&Observed> {
        let mut subjects = self.subjects.iter();
        let subject = subjects.find(|subject| subject.plan.row.id == id);
        subject.map(|subject| &subject.whole)
    }

    /// Runs schedules 0 to `count`, and reports how far it is.
    ///
    /// # Errors
    /// When a violation cannot be written as an experiment.
    pub async fn run(&self, count: usize, progress: impl Fn(&Found)) -> Result<Found, Error> {
        let mut found = Found::default();
        let tasks = (0..count).map(|number| self.one(number));
        let mut ended = stream::iter(tasks).buffered(self.platform.concurrent_trials());
        while let Some((failed, violation)) = ended.next().await {
            found.schedules += 1;
            found.failed += usize::from(failed);
            found.violations.extend(violation.transpose()?);
            progress(&found);
        }
        Ok(found)
    }

    /// Whether the row failed, and the promise that it broke.
    async fn one(&self, number: usize) -> (bool, Option<Result<Violation, Error>>) {
        let (subject, faults) = self.drawn(number);
        let twice = number.is_multiple_of(REPEATED);
        let (failed, broken) = self.verdict(subject, &faults, twice).await;
        let Some(broken) = broken else {
            return (failed, None);
        };
        let breaks = async |fewer: &[Fault]| {
            let (_, again) = self.verdict(subject, fewer, true).await;
            again.as_ref() == Some(&broken)
        };
        let faults = Self::shrunk(faults, breaks).await;
        let id = &subject.plan.row.id;
        let violation = self.replay(id, &faults).map(|replay| Violation {
            schedule: number,
            row: id.clone(),
            broken,
            faults,
            replay,
        });
        (failed, Some(violation))
    }

    async fn verdict(
        &self,
        subject: &Subject,
        faults: &[Fault],
        twice: bool,
    ) -> (bool, Option<String>) {
        let run = || trial(self.platform.as_ref(), &self.data, &subject.plan, faults);
        let first = run().await;
        let (failed, mut broken) = match &first {
            Err(reason) => (false, Some(format!("there is no result: {reason}"))),
            Ok(first) => (
                first.trial.failure.is_some(),
                first.broken(faults, &subject.whole),
            ),
        };
        if broken.is_none() && twice && run().await != first {
            broken = Some("the same faults end otherwise".to_owned());
        }
        (failed, broken)
    }

    /// Returns the fewest of `faults` that still break something, leaving out one at a time.
    pub async fn shrunk(
        mut faults: Vec<Fault>,
        breaks: impl AsyncFn(&[Fault]) -> bool,
    ) -> Vec<Fault> {
        let mut next = 0;
        while next < faults.len() {
            let mut fewer = faults.clone();
            fewer.remove(next);
            if breaks(&fewer).await {
                (faults, next) = (fewer, 0);
            } else {
                next += 1;
            }
        }
        faults
    }

    /// Returns the experiment of the entry that a row is of, by the row's id, with `faults`.
    ///
    /// # Errors
    /// When its document does not take them.
    pub fn replay(&self, id: &str, faults: &[Fault]) -> Result<String, Error> {
        let mut document = self.experiment.document.clone();
        let entries = match document.root.get("systems").map(|systems| &systems.value) {
            Some(Value::List(entries)) => entries.len(),
            _ => 0,
        };
        // A sweep makes as many rows of each entry.
        let mut subjects = self.subjects.iter();
        let row = subjects.position(|subject| subject.plan.row.id == id);
        let place = row.unwrap_or_default() * entries / self.subjects.len().max(1);
        let json = serde_json::to_string(faults).unwrap_or_default();
        document.set_option("faults", &format!("systems.{place}.faults"), &json)?;
        if let Value::Map(fields) = &mut document.root.value {
            for field in fields.iter_mut().filter(|field| field.key == "systems") {
                if let Value::List(systems) = &mut field.node.value {
                    *systems = vec![systems.swap_remove(place)];
                }
            }
        }
        Ok(document.resolved())
    }
}

/// Runs one trial with `faults`, or says why it gave none.
async fn trial(
    platform: &dyn Platform,
    data: &TrialData,
    plan: &TrialPlan,
    faults: &[Fault],
) -> Result<Observed, String> {
    let mut plan = plan.clone();
    plan.row.faults = faults.to_vec();
    let running = platform.run_trial(&plan, data, &());
    match tokio::time::timeout(PATIENCE, running).await {
        Err(_) => Err(format!("no answer in {} s", PATIENCE.as_secs())),
        Ok(Err(error)) => Err(chain(&error)),
        Ok(Ok(outcome)) => Ok(Observed::of(&plan, &outcome)),
    }
}
