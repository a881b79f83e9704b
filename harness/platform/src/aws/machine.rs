//! Work of a trial on one machine: an instance that runs it on the local platform, and hands in what was
//! recorded.

use bytes::Bytes;
use epochcost_aws::{deployment, objects, workers};
use epochcost_spec::metering::{Invocation, TrialOutcome};

use super::context::Trial;
use super::instances::{boots, invocation, wait};
use crate::local::handed_over::{OUTCOME, TEST, TRAIN, TRIAL};
use crate::{PlatformError, Progress, TrialData};

/// Uploads the trial and its data.
pub(super) async fn put(trial: &Trial<'_>, data: &TrialData) -> Result<(), PlatformError> {
    let plan = serde_json::to_vec(trial.plan).map_err(PlatformError::unwritable("trial"))?;
    for (file, body) in [
        (TRIAL, Bytes::from(plan)),
        (TRAIN, data.train.clone()),
        (TEST, data.test.clone()),
    ] {
        objects::put(&trial.aws.clients, &bucket(trial), &key(trial, file), body).await?;
    }
    Ok(())
}

/// Waits for the instance's log, and reads what it handed in before.
pub(super) async fn work(
    trial: &Trial<'_>,
    progress: &dyn Progress,
) -> Result<TrialOutcome, PlatformError> {
    let launched = workers::launched(&trial.training)?;
    let mut tail = trial.log_tail()?;
    let (logs, missing) = wait(trial, &launched, &mut tail, progress).await?;
    let boots = boots(trial, &launched).await?;
    let (clients, bucket) = (&trial.aws.clients, bucket(trial));
    let outcome = objects::get(clients, &bucket, &key(trial, OUTCOME)).await?;
    let mut outcome = match outcome {
        Some(outcome) => serde_json::from_slice(&outcome).map_err(|error| {
            PlatformError::Worker(format!("what a machine handed in is unreadable: {error}"))
        })?,
        None => TrialOutcome {
            failure: Some(missing.unwrap_or_else(|| {
                let log = logs.values().next().map(|seen| seen.tail.join("\n"));
                let log = log.unwrap_or_default();
                format!("the machine handed in no results; its log ends with:\n{log}")
            })),
            ..TrialOutcome::default()
        },
    };
    for (function, rank) in launched {
        let (seen, launched_s) = (logs.get(&rank), boots.get(&rank));
        if let Some(seen) = seen {
            outcome.invocations.push(Invocation {
                error: outcome.failure.clone(),
                ..invocation(trial, function, rank, seen, launched_s)
            });
        }
    }
    Ok(outcome)
}

fn bucket(trial: &Trial<'_>) -> String {
    deployment::objects_bucket(&trial.aws.scope)
}

fn key(trial: &Trial<'_>, file: &str) -> String {
    format!("{}/{file}", workers::machine_prefix(trial.place))
}
