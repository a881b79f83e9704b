//! Work of a trial whose workers are instances: each uploads its log to the run's
//! bucket when it ends.

use std::collections::BTreeMap;
use std::time::Duration;

use epochcost_aws::{deployment, objects, resource, workers};
use epochcost_spec::metering::{Invocation, TrialOutcome};
use epochcost_systems::Host;
use tokio::time::{Instant, sleep};

use super::context::{LogTail, POLL_INTERVAL, Trial, unix_s};
use super::log::{Seen, of_instance};
use super::progress::steps_in;
use super::{executions, unusable};
use crate::{PlatformError, Progress};

/// Time limit from an instance's start until its worker runs, seconds.
const BOOT_S: u64 = 360;
/// Polls of the bucket per check whether the instances are alive.
const POLLS_PER_STATE_CHECK: u32 = 10;

/// Uploads each worker's task under the key that it reads.
pub(super) async fn put_tasks(trial: &Trial<'_>) -> Result<(), PlatformError> {
    let bucket = deployment::objects_bucket(&trial.aws.scope);
    for (function, rank) in workers::launched(&trial.training)? {
        let mut task = trial.task_bytes(function, rank)?;
        // A worker on an instance reads one line.
        task.push(b'\n');
        let key = workers::task_key(trial.place, rank);
        objects::put(&trial.aws.clients, &bucket, &key, task.into()).await?;
    }
    Ok(())
}

/// Waits for every worker's log, and reads it.
pub(super) async fn work(
    trial: &Trial<'_>,
    progress: &dyn Progress,
) -> Result<TrialOutcome, PlatformError> {
    let launched = workers::launched(&trial.training)?;
    let started_s = unix_s();
    let mut tail = trial.log_tail()?;
    let (logs, missing) = wait(trial, &launched, &mut tail, progress).await?;
    // Now the lists have them.
    let boots = boots(trial, &launched).await?;
    // What workers invoked, where they did.
    let transitions = executions::count(trial, &mut tail).await?;
    let mut outcome = if trial.training.calls().map_err(unusable)?.is_empty() {
        TrialOutcome {
            failure: missing,
            ..TrialOutcome::default()
        }
    } else {
        tail.complete(trial, missing, progress).await?
    };
    outcome.transitions = transitions;
    for (rank, seen) in logs {
        let function = launched.iter().find(|(_, known)| *known == rank);
        let function = function.map_or("", |(function, _)| function);
        if let Some(reason) = seen.failure() {
            let text = format!("{function} of worker {rank} failed: {reason}");
            outcome.failure.get_or_insert(text);
        }
        outcome
            .invocations
            .push(invocation(trial, function, rank, &seen, boots.get(&rank)));
        outcome.records.extend(seen.records);
    }
    // Paid for, too, whatever became of their log.
    for (function, rank) in launched {
        let is_known =
            (outcome.invocations.iter()).any(|one| one.host == Host::Instance && one.rank == rank);
        if let Some(at) = boots.get(&rank).filter(|_| !is_known) {
            let mut seen = of_instance("");
            (seen.started_s, seen.ended_s) = (*at, Some(unix_s()));
            let lost = invocation(trial, function, rank, &seen, None);
            outcome.invocations.push(lost);
        }
    }
    let by_end = |a: &Invocation, b: &Invocation| a.ended_s.total_cmp(&b.ended_s);
    outcome.invocations.sort_by(by_end);
    let begins = outcome.invocations.iter().map(|one| one.started_s);
    outcome.started_s = begins.min_by(f64::total_cmp).unwrap_or(started_s);
    let ended_s = outcome
        .invocations
        .last()
        .map_or(started_s, |last| last.ended_s);
    outcome.wall_s = (ended_s - outcome.started_s).max(0.0);
    progress.steps(steps_in(&outcome.records));
    let booting = outcome.invocations.iter().filter_map(|one| match one.host {
        Host::Instance => one.init_ms,
        Host::Function => None,
    });
    let longest_s = booting.max_by(f64::total_cmp).unwrap_or_default() / 1e3;
    outcome.warnings.push(format!(
        "times of workers on instances begin when their worker starts; from their launch until then, \
         of which EC2 charges what they ran, it took them up to {longest_s:.0} s"
    ));
    Ok(outcome)
}

/// Returns the launch time of each worker's instance that EC2 reports, seconds since
/// the Unix epoch.
pub(super) async fn boots(
    trial: &Trial<'_>,
    launched: &[(&'static str, usize)],
) -> Result<BTreeMap<usize, f64>, PlatformError> {
    let mut boots = BTreeMap::new();
    for (_, rank) in launched {
        let launched_s = resource::launched_s(&trial.aws.clients, &name(trial, *rank)).await?;
        boots.extend(launched_s.map(|at| (*rank, at)));
    }
    Ok(boots)
}

/// Returns the name of a worker's instance.
fn name(trial: &Trial<'_>, rank: usize) -> String {
    workers::instance_name(&trial.aws.scope, &trial.training, trial.place, rank)
}

pub(super) type Logs = BTreeMap<usize, Seen>;

/// Waits for the logs; returns them, and the reason if one of them is missing for good.
pub(super) async fn wait(
    trial: &Trial<'_>,
    launched: &[(&'static str, usize)],
    tail: &mut LogTail,
    progress: &dyn Progress,
) -> Result<(Logs, Option<String>), PlatformError> {
    let clients = &trial.aws.clients;
    let bucket = deployment::objects_bucket(&trial.aws.scope);
    let limit_s = trial.training.deadline_s().map_err(unusable)? + BOOT_S;
    let (began, mut logs, mut polls) = (Instant::now(), Logs::new(), 0);
    let spending = trial.spending()?;
    loop {
        // The functions' logs are polled as often as the instances' states.
        match polls % POLLS_PER_STATE_CHECK {
            0 => spending.check(&tail.poll(trial, progress).await?)?,
            _ => spending.check(&[])?,
        };
        let mut silent = BTreeMap::new();
        // In this order: an instance leaves its log before it ends.
        let is_turn = polls % POLLS_PER_STATE_CHECK == POLLS_PER_STATE_CHECK - 1;
        for (_, rank) in launched.iter().filter(|(_, rank)| !logs.contains_key(rank)) {
            if is_turn
                && let Some(reason) = resource::ended_by(clients, &name(trial, *rank)).await?
            {
                silent.insert(*rank, reason);
            }
        }
        for (_, rank) in launched {
            if logs.contains_key(rank) {
                continue;
            }
            let key = workers::log_key(trial.place, *rank);
            if let Some(text) = objects::get(clients, &bucket, &key).await? {
                let text = String::from_utf8_lossy(&text).into_owned();
                logs.insert(*rank, of_instance(&text));
            } else if let Some(reason) = silent.get(rank) {
                let text =
                    format!("the instance of worker {rank} ended without a log; EC2: {reason}");
                return Ok((logs, Some(text)));
            }
        }
        if logs.len() == launched.len() {
            return Ok((logs, None));
        }
        if logs.values().any(|seen| seen.failure().is_some()) {
            // The others wait for a worker that has failed.
            return Ok((logs, None));
        }
        if began.elapsed() > Duration::from_secs(limit_s) {
            let silent = launched.iter().find(|(_, rank)| !logs.contains_key(rank));
            let rank = silent.map_or(0, |(_, rank)| *rank);
            let text = format!("the instance of worker {rank} did not report within {limit_s} s");
            return Ok((logs, Some(text)));
        }
        polls += 1;
        sleep(POLL_INTERVAL).await;
    }
}

/// Returns how long an instance booted from its launch until its worker began, ms, and what is
/// charged, ms: from when it ran. Without that time, from its launch, at which it was pending.
fn times_ms(seen: &Seen, launched_s: Option<f64>) -> (Option<f64>, u64) {
    let since_ms = |at: f64| (seen.started_s - at).max(0.0) * 1e3;
    let init_ms = launched_s.map(since_ms);
    let boot_ms = seen.booted_s.map(since_ms).or(init_ms);
    (
        init_ms,
        (duration_ms(seen) + boot_ms.unwrap_or_default()).ceil() as u64,
    )
}

fn duration_ms(seen: &Seen) -> f64 {
    let ended_s = seen.ended_s.unwrap_or(seen.started_s);
    (ended_s - seen.started_s).max(0.0) * 1e3
}

/// Returns a worker's process on its instance as an invocation; booting is its init.
pub(super) fn invocation(
    trial: &Trial<'_>,
    function: &str,
    rank: usize,
    seen: &Seen,
    launched_s: Option<&f64>,
) -> Invocation {
    let (init_ms, billed_ms) = times_ms(seen, launched_s.copied());
    Invocation {
        request_id: name(trial, rank),
        host: Host::Instance,
        function: function.to_owned(),
        rank,
        alike: 1,
        epoch: 0,
        batch: None,
        sandbox: format!("instance-{rank}"),
        started_s: seen.started_s,
        ended_s: seen.ended_s.unwrap_or(seen.started_s),
        cold: true,
        init_ms,
        duration_ms: duration_ms(seen),
        billed_ms,
        memory_mb: None,
        peak_memory_mb: None,
        cpu_ms: None,
        error: seen.failure(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_charged_from_when_it_ran() {
        let mut seen = of_instance("");
        (seen.booted_s, seen.started_s, seen.ended_s) = (Some(90.5), 100.5, Some(103.25));
        assert_eq!(times_ms(&seen, Some(80.0)), (Some(20_500.0), 12_750));
        assert_eq!(times_ms(&seen, None), (None, 12_750));
        seen.booted_s = None;
        assert_eq!(times_ms(&seen, Some(80.0)), (Some(20_500.0), 23_250));
    }
}
