//! Upper bound of the cost of rows: every invocation times out, every trial lasts until
//! its deadline, and everything that waits polls as often as it can and may.

use std::collections::BTreeMap;

use epochcost_channels::Allowance;
use epochcost_systems::SystemError;
use serde::Serialize;
use thiserror::Error;

use crate::{
    AROUND_TRIAL_S, AROUND_WORKER_S, EndpointService, FunctionCalls, SERVICE_INSTANCE, Training,
    endpoints,
};

/// Time for which everything that a run pays for outlives this program, s: its lease.
pub const LEASE_S: u64 = 2_400;
/// Time after which the lease is begun anew, s.
pub const RENEWED_S: u64 = 600;
/// Number of times that the dead man's switch looks for what to end.
pub const SWITCH_ROUNDS: usize = 3;
/// Attempts of its calls that EC2 refuses.
pub const SWITCH_RETRIES: usize = 4;
/// Time in which the switch has ended a run whose lease is over, s: all its rounds.
const SWITCH_S: u64 = 660;
/// Transitions of an execution of the switch that is stopped while it waits.
const WAITING_TRANSITIONS: u64 = 2;

/// Returns the upper bound of the transitions of one execution of the switch: its begin, its wait and
/// its end; in each round a removal of each function and its end; of each of `machines` a look at what
/// runs, a stop of each of `executions`, and their ends; of instances and endpoints a look, a choice,
/// a removal, with all attempts; and a wait but after the last.
pub const fn switch_transitions(functions: u64, machines: u64, executions: u64) -> u64 {
    let of_functions = 1 + 2 * functions;
    let of_machines = 1 + machines * (3 + 2 * executions);
    let of_ec2 = 2 * (3 + 2 * SWITCH_RETRIES as u64);
    2 + SWITCH_ROUNDS as u64 * (of_functions + of_machines + of_ec2 + 1)
}

/// Metrics of a function that are read, each of which is charged.
pub const METRICS_OF_FUNCTION: usize = 7;
/// Metrics of an instance that are read.
pub const METRICS_OF_INSTANCE: usize = 1;

/// Prices of a price book.
pub trait Prices {
    /// Returns US dollars per unit of a dimension, and the name of the unit.
    ///
    /// # Errors
    /// When the book has no such price.
    fn price(&self, dimension: &str) -> Result<(f64, String), String>;
}

/// Reason why there is no worst case.
#[derive(Debug, Error)]
pub enum WorstCaseError {
    /// A row's settings are invalid for its system.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A dimension has no price.
    #[error("{0}")]
    Price(String),
}

/// Polls per second of a waiting function: one round trip to S3 takes at least 10 ms.
const POLLS_PER_SECOND: f64 = 100.0;
/// Time that an instance takes to end, s: it is paid for until its system has stopped.
const ENDING_S: u64 = 120;
/// Buckets of a run: one of its programs, and one of its objects.
const BUCKETS: f64 = 2.0;
/// Requests that make a bucket and fill it: its own, its tags, its access and its expiry, and
/// programs; each may be sent twice.
const BUCKET_PUTS: f64 = 2.0 * (4.0 + 3.0);
/// Times that a run looks for what exists: before it makes something, while lists are behind, and
/// when it removes everything.
const LOOKS: f64 = 16.0;
/// Bytes of log lines per invocation, and per step that it records.
const LOG_BYTES: f64 = 8_192.0;
/// Minimum charge of EC2, seconds.
const EC2_MINIMUM_S: u64 = 60;
/// Time for which a run's resources may exist beyond the deadlines of its trials, s.
const GRACE_S: u64 = 3_600;
/// Seconds of a day, in which S3 counts the age of objects.
const DAY_S: u64 = 86_400;
const MONTH_DAYS: f64 = 30.0;
/// Seconds from the creation of shared resources until the first trial, and from the end
/// of the last trial until its endpoints are gone.
const AROUND_S: u64 = 3_600;
/// Seconds after a trial for which the lease may be needed: functions hold their interfaces.
const REMOVAL_S: u64 = 2_700;
/// Upper bound of the bytes of a task and of its answer: a task is about 1 KB and some
/// bytes per mini-batch.
const TASK_BYTES: f64 = 16_384.0;
/// Availability zones of an interface endpoint, each of which is charged: a run's network
/// has one subnet.
const ENDPOINT_ZONES: f64 = 1.0;
/// Polls of CloudWatch's metrics after a trial: one every 15 s for 3 minutes.
const METRIC_POLLS: f64 = 13.0;
/// Bytes of a gigabyte of traffic.
const GB: f64 = 1e9;
const GIB: f64 = (1u64 << 30) as f64;

/// Line of the worst case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Row; empty for what all rows share.
    pub row: String,
    /// Dimension of the price book.
    pub dimension: String,
    /// Purpose.
    pub what: String,
    /// Quantity, in units.
    pub quantity: f64,
    /// Unit.
    pub unit: String,
    /// US dollars per unit.
    pub unit_usd: f64,
    /// US dollars.
    pub usd: f64,
}

/// Returns every line of every row, and those of the network.
///
/// # Errors
/// When a row's settings are invalid for its system, or a dimension has no price.
pub fn worst_case(rows: &[Training], prices: &dyn Prices) -> Result<Vec<Line>, WorstCaseError> {
    kept_for(object_days(rows)?, rows, prices)
}

/// Returns the seconds after which everything of a run of these rows expires: all trials at their
/// deadlines, and an hour.
///
/// # Errors
/// When there is no such system.
pub fn lasts_s(rows: &[Training]) -> Result<u64, SystemError> {
    let mut seconds = GRACE_S;
    for row in rows {
        let trial = row.deadline_s()?.saturating_add(AROUND_TRIAL_S);
        seconds = seconds.saturating_add(trial.saturating_mul(row.trials));
    }
    Ok(seconds)
}

/// Returns the seconds for which a trial needs its objects, at most, whichever it is of these rows.
///
/// # Errors
/// When there is no such system.
pub fn object_s(rows: &[Training]) -> Result<u64, SystemError> {
    let mut longest_s = 0;
    for row in rows {
        longest_s = longest_s.max(row.deadline_s()?.saturating_add(AROUND_TRIAL_S));
    }
    Ok(longest_s)
}

/// Returns the days until objects are gone: they expire with their trial, and S3 removes them within
/// another day.
fn object_days(rows: &[Training]) -> Result<f64, SystemError> {
    Ok((object_s(rows)?.div_ceil(DAY_S) + 1) as f64)
}

/// As [`worst_case`], where objects are kept for so many days.
fn kept_for(
    days: f64,
    rows: &[Training],
    prices: &dyn Prices,
) -> Result<Vec<Line>, WorstCaseError> {
    let mut lines = Vec::new();
    for row in rows {
        row_lines(row, days, prices, &mut lines)?;
    }
    bucket_lines(prices, &mut lines)?;
    network_lines(rows, prices, &mut lines)?;
    Ok(lines)
}

/// US dollars by dimension of the price book.
pub type Share = BTreeMap<String, f64>;

/// The worst case by what is started at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// What all trials share: buckets, and endpoints before the first trial and after the last.
    pub run: Share,
    /// One trial of each row.
    pub trials: Vec<Share>,
}

/// Returns the worst case of what all trials share, and of one trial of each row.
///
/// # Errors
/// As of [`worst_case`].
pub fn shares(rows: &[Training], prices: &dyn Prices) -> Result<Shares, WorstCaseError> {
    // Every line grows in proportion to a row's trials, but for what is shared; objects stay as
    // long as all trials take.
    let days = object_days(rows)?;
    let with = |started: Option<usize>| -> Result<Share, WorstCaseError> {
        let trials = |at| u64::from(started == Some(at));
        let rows = rows.iter().enumerate().map(|(at, row)| Training {
            trials: trials(at),
            ..row.clone()
        });
        let mut share = Share::new();
        for line in kept_for(days, &rows.collect::<Vec<_>>(), prices)? {
            *share.entry(line.dimension).or_default() += line.usd;
        }
        Ok(share)
    };
    let run = with(None)?;
    let trial = |at| -> Result<Share, WorstCaseError> {
        let mut share = with(Some(at))?;
        for (dimension, usd) in &mut share {
            *usd -= run.get(dimension).copied().unwrap_or_default();
        }
        Ok(share)
    };
    let trials = (0..rows.len()).map(trial).collect::<Result<_, _>>()?;
    Ok(Shares { run, trials })
}

/// Adds the requests with which a run makes, finds and removes its buckets.
fn bucket_lines(prices: &dyn Prices, lines: &mut Vec<Line>) -> Result<(), WorstCaseError> {
    let mut charge = |dimension, quantity| {
        let what = "the run's own requests for its buckets";
        charge(("", prices), lines, dimension, what, quantity)
    };
    charge("s3_put", BUCKETS * BUCKET_PUTS)?;
    // All buckets are listed, and what each holds.
    charge("s3_list", (1.0 + BUCKETS) * LOOKS)?;
    // Where a bucket is, and its tags.
    charge("s3_get", 2.0 * BUCKETS * LOOKS)
}

/// Adds a line; none where the quantity is 0.
fn charge(
    (row, prices): (&str, &dyn Prices),
    lines: &mut Vec<Line>,
    dimension: &str,
    what: &str,
    quantity: f64,
) -> Result<(), WorstCaseError> {
    if quantity <= 0.0 {
        return Ok(());
    }
    let (unit_usd, unit) = prices.price(dimension).map_err(WorstCaseError::Price)?;
    lines.push(Line {
        row: row.to_owned(),
        dimension: dimension.to_owned(),
        what: what.to_owned(),
        quantity,
        unit,
        unit_usd,
        usd: quantity * unit_usd,
    });
    Ok(())
}

/// Adds the lines of the network and of the switch: both exist as long as the run.
fn network_lines(
    rows: &[Training],
    prices: &dyn Prices,
    lines: &mut Vec<Line>,
) -> Result<(), WorstCaseError> {
    let services = endpoints(rows)?;
    let interfaces = services.iter().filter(|service| service.is_interface());
    let interfaces = interfaces.count() as f64;
    // The switch may act before the first trial, and in each.
    let waiting = |seconds: u64| (2 + seconds / RENEWED_S) * WAITING_TRANSITIONS;
    let (mut run_s, mut bytes) = (AROUND_S, 0.0);
    let mut transitions = switch_transitions(0, 0, 0) + waiting(AROUND_S);
    for row in rows {
        let trial_s = row.deadline_s()? + AROUND_TRIAL_S;
        run_s += trial_s * row.trials;
        bytes += endpoint_bytes(row, &services)?;
        let machines = u64::from(row.transitions()? > 0);
        // The next epoch of a peer begins before the last one ends.
        let executions = 2 * row.job.workers as u64;
        let acting = switch_transitions(row.calls()?.len() as u64, machines, executions);
        transitions += row.trials * (acting + waiting(trial_s + REMOVAL_S));
    }
    let mut charge =
        |dimension, what, quantity| charge(("", prices), lines, dimension, what, quantity);
    charge(
        "vpc_endpoint_hour",
        "interface endpoints until every trial's deadline",
        interfaces * ENDPOINT_ZONES * run_s as f64 / 3600.0,
    )?;
    charge(
        "state_transition",
        "the switch that ends the run where this machine has died",
        transitions as f64,
    )?;
    charge(
        "vpc_endpoint_gb",
        "tasks, answers and polls through endpoints",
        bytes / GB,
    )
}

/// Returns the bytes of a row through interface endpoints: task and answer of each
/// invocation, and polls of whatever waits for executions.
fn endpoint_bytes(
    row: &Training,
    services: &std::collections::BTreeSet<EndpointService>,
) -> Result<f64, SystemError> {
    if !services.contains(&EndpointService::Functions) || row.service_hosts()? == 0 {
        return Ok(0.0);
    }
    let invocations: u64 = row.calls()?.iter().map(|called| called.at_most).sum();
    let polls = match row.transitions()? {
        0 => 0.0,
        _ => {
            let asked = polls_per_second(row, "status_poll_ms").unwrap_or(POLLS_PER_SECOND);
            row.instances()? as f64 * row.deadline_s()? as f64 * asked
        }
    };
    Ok((invocations as f64 + polls) * row.trials as f64 * 2.0 * TASK_BYTES)
}

/// Returns how often a setting has a worker poll; none without the setting.
fn polls_per_second(row: &Training, setting: &str) -> Option<f64> {
    let interval_ms = row.job.settings.get(setting);
    let interval_ms = interval_ms.and_then(serde_json::Value::as_f64);
    interval_ms.map(|ms| POLLS_PER_SECOND.min(1e3 / ms))
}

/// Polls of one waiting worker.
struct Polls {
    lists_per_second: f64,
    reads_per_second: f64,
}

impl Polls {
    /// Returns how often a row's workers poll: as their settings say, and never more often than
    /// the service answers.
    fn of(row: &Training) -> Result<Self, SystemError> {
        let per_second = |setting: &str| polls_per_second(row, setting);
        if !row.system()?.deployment().polls_by_listing {
            let at_once = row.job.settings.get("transfers_at_once");
            let at_once = at_once.and_then(serde_json::Value::as_f64).unwrap_or(1.0);
            return Ok(Self {
                lists_per_second: 0.0,
                reads_per_second: at_once * per_second("poll_ms").unwrap_or(POLLS_PER_SECOND),
            });
        }
        Ok(Self {
            lists_per_second: per_second("list_poll_ms").unwrap_or(POLLS_PER_SECOND),
            reads_per_second: per_second("merged_poll_ms").unwrap_or_default(),
        })
    }
}

/// Returns the seconds that functions of a trial run at most: every invocation until its time-out, and
/// as many as run at once, twice as one may start the next, until nothing starts another: the trial's
/// deadline, or where this program has died the end of the run's lease.
fn function_s(row: &Training, calls: &[FunctionCalls]) -> Result<u64, SystemError> {
    let (mut all_s, mut longest_s) = (0u64, 0);
    for called in calls {
        let timeout_s = row.limits(called.function).timeout_s;
        all_s = all_s.saturating_add(called.at_most.saturating_mul(timeout_s));
        longest_s = longest_s.max(timeout_s);
    }
    let around_s = AROUND_TRIAL_S.max(LEASE_S + SWITCH_S);
    let trial_s = row.deadline_s()?.saturating_add(around_s + longest_s);
    Ok(all_s.min(trial_s.saturating_mul(2 * row.functions_at_once()?)))
}

/// Adds the lines of a row.
fn row_lines(
    row: &Training,
    days: f64,
    prices: &dyn Prices,
    lines: &mut Vec<Line>,
) -> Result<(), WorstCaseError> {
    let trials = row.trials as f64;
    let mut charge = |dimension: &str, what: &str, quantity: f64| {
        charge((&row.row, prices), lines, dimension, what, quantity)
    };
    let calls = row.calls()?;
    let invocations: u64 = calls.iter().map(|called| called.at_most).sum();
    let invocations = invocations as f64 * trials;
    let deadline_s = row.deadline_s()?;
    let function_s = function_s(row, &calls)? as f64 * trials;
    let instances = row.instances()?;
    // An instance whose trial nobody watches any more ends itself at this time.
    let hours = |count: f64, around_s: u64| {
        let lived_s = (deadline_s + around_s + ENDING_S).max(EC2_MINIMUM_S) as f64;
        count * trials * lived_s / 3600.0
    };
    let hosts = row.service_hosts()? as f64;
    let worker_hours = hours(instances as f64, AROUND_WORKER_S);
    let host_hours = hours(hosts, AROUND_TRIAL_S);
    // Functions and state machines.
    charge(
        "lambda_gb_second",
        "every invocation until its time-out, or that of its trial",
        function_s * f64::from(row.memory_mb) / 1024.0,
    )?;
    // Lambda's queue delivers at least once; a second delivery finds the claim of the first.
    charge(
        "lambda_request",
        "invocations, each delivered twice",
        2.0 * invocations,
    )?;
    let transitions = row.transitions()? as f64 * trials;
    charge("state_transition", "state transitions", transitions)?;
    // Instances of workers and of services, with addresses and volumes.
    charge(
        &format!("ec2/{}", row.instance_type),
        "workers until the trial's deadline",
        worker_hours,
    )?;
    charge(
        &format!("ec2/{SERVICE_INSTANCE}"),
        "tensor stores and queue until the trial's deadline",
        host_hours,
    )?;
    charge(
        "ipv4_address_hour",
        "public addresses of instances",
        worker_hours + host_hours,
    )?;
    charge(
        "ebs_gp3_gb_month",
        "root volumes of instances",
        (worker_hours + host_hours) * ROOT_GB / (MONTH_DAYS * 24.0),
    )?;
    // Objects. The closed form counts each gradient once; a repeated step doubles it.
    charge(
        "s3_put",
        "objects written, each twice, and the dataset",
        (2 * row.puts + row.data_gets) as f64 * trials,
    )?;
    let waiting_s = function_s + instances as f64 * trials * deadline_s as f64;
    let (polls, on_instances) = (Polls::of(row)?, row.on_instances()?);
    let asking = calls.iter().map(|called| (called.function, called.at_most));
    let asking: Vec<_> = asking.chain(on_instances).collect();
    let at_most = |polled: f64, allowed: fn(&Allowance) -> u64| {
        let allowed = |(function, times): &(&str, u64)| {
            *times as f64 * allowed(&row.limits(function).allowance) as f64
        };
        polled.min(trials * asking.iter().map(allowed).sum::<f64>())
    };
    charge(
        "s3_list",
        "buckets listed while workers wait",
        at_most(waiting_s * polls.lists_per_second, |allowed| allowed.lists),
    )?;
    charge(
        "s3_get",
        "objects read, each twice, and polled for while workers wait",
        at_most(
            waiting_s * polls.reads_per_second + 2.0 * row.gets as f64 * trials,
            |allowed| allowed.reads,
        ),
    )?;
    charge(
        "s3_gb_month",
        "objects until they expire",
        2.0 * row.bytes_up as f64 * trials / GIB * days / MONTH_DAYS,
    )?;
    // Logs and metrics.
    let steps = (row.job.workers * row.job.epochs * row.job.batches_per_worker) as f64 * trials;
    charge(
        "logs_gb",
        "log lines",
        (invocations + steps) * LOG_BYTES / GIB,
    )?;
    let functions = row.calls()?.len() * METRICS_OF_FUNCTION;
    let metrics = functions as f64 + (instances as f64 + hosts) * METRICS_OF_INSTANCE as f64;
    charge(
        "metric_read",
        "metrics read until they agree with the log",
        metrics * METRIC_POLLS * trials,
    )?;
    Ok(())
}

/// Gigabytes of an instance's root volume: the largest image, which has NVIDIA's drivers,
/// and room for the data.
const ROOT_GB: f64 = 75.0;

#[cfg(test)]
mod tests;
