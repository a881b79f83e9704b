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
mod tests {
    #![allow(clippy::unwrap_used)]
    use epochcost_systems::{Fidelity, testing};
    use serde_json::Map;

    use super::*;
    use crate::Limits;

    struct Book;

    impl Prices for Book {
        fn price(&self, dimension: &str) -> Result<(f64, String), String> {
            let usd = match dimension {
                "lambda_gb_second" => 0.0000166667,
                "lambda_request" => 2e-7,
                "state_transition" => 2.5e-5,
                "ec2/t2.medium" => 0.0464,
                "ec2/g4dn.xlarge" => 0.526,
                "s3_put" => 5e-6,
                "s3_get" => 4e-7,
                "s3_list" => 5e-6,
                "s3_gb_month" => 0.023,
                "logs_gb" => 0.5,
                "ebs_gp3_gb_month" => 0.08,
                "metric_read" => 1e-5,
                "vpc_endpoint_hour" | "vpc_endpoint_gb" => 0.01,
                "ipv4_address_hour" => 0.005,
                other => return Err(format!("no price for {other}")),
            };
            Ok((usd, "unit".to_owned()))
        }
    }

    /// Four workers, three mini-batches, three epochs.
    fn training(system: &str) -> Training {
        Training {
            row: system.to_owned(),
            job: testing::job(system, Fidelity::Paper, 4, &Map::new()).unwrap(),
            memory_mb: 2048,
            limits: Limits {
                timeout_s: 900,
                allowance: Allowance {
                    lists: u64::MAX,
                    reads: u64::MAX,
                },
            },
            by_function: BTreeMap::new(),
            trial_s: None,
            instance_type: "g4dn.xlarge".into(),
            one_machine: false,
            gpus: None,
            trials: 2,
            uses_tensor_store: system == "spirt",
            uses_queue: system == "spirt",
            puts: 10,
            bytes_up: 1 << 30,
            gets: 20,
            data_gets: 5,
        }
    }

    #[track_caller]
    fn is_close(found: f64, expected: f64) {
        assert!(
            (found / expected - 1.0).abs() < 1e-12,
            "{found} for {expected}"
        );
    }

    fn quantity(lines: &[Line], dimension: &str) -> f64 {
        let of = lines.iter().filter(|line| line.dimension == dimension);
        of.map(|line| line.quantity).sum()
    }

    #[test]
    fn a_workflow_costs_every_state_of_every_peer_to_its_time_out() {
        let row = training("spirt");
        let lines = worst_case(std::slice::from_ref(&row), &Book).unwrap();
        // 8 states, of which one invokes a function per mini-batch; one bootstrap per peer.
        let invocations = 2.0 * 4.0 * (1.0 + 3.0 * (7.0 + 3.0));
        assert_eq!(quantity(&lines, "lambda_request"), 2.0 * invocations);
        assert_eq!(
            quantity(&lines, "lambda_gb_second"),
            invocations * 900.0 * 2.0
        );
        // Seven metrics of each of nine functions, one of each of five hosts.
        assert_eq!(
            quantity(&lines, "metric_read"),
            2.0 * 13.0 * (9.0 * 7.0 + 5.0)
        );
        // A map is a transition itself.
        let of_row: Vec<Line> = lines
            .iter()
            .filter(|l| !l.row.is_empty())
            .cloned()
            .collect();
        assert_eq!(
            quantity(&of_row, "state_transition"),
            2.0 * 4.0 * 3.0 * 11.0
        );
        // The switch acts before the first trial and in each of two, with nine functions and at most
        // eight executions of one machine; it is begun anew every ten minutes.
        let of_all = quantity(&lines, "state_transition") - quantity(&of_row, "state_transition");
        let acting = switch_transitions(0, 0, 0) + 2 * switch_transitions(9, 1, 8);
        let renewals = 2 + 3600 / 600 + 2 * (2 + (900 * (3 * 9 + 1) + 1200 + 2700) / 600);
        assert_eq!(of_all, (acting + 2 * renewals) as f64);
        // One tensor store per peer and the queue, for as long as a trial may take.
        let hours = (900.0 * (3.0 * 9.0 + 1.0) + 1200.0 + 120.0) / 3600.0;
        is_close(quantity(&lines, "ec2/t2.medium"), 2.0 * 5.0 * hours);
        is_close(quantity(&lines, "ipv4_address_hour"), 2.0 * 5.0 * hours);
        // To Lambda and to Step Functions; S3's costs nothing.
        let run = 2.0 * (900.0 * (3.0 * 9.0 + 1.0) + 1200.0) / 3600.0 + 1.0;
        assert!((quantity(&lines, "vpc_endpoint_hour") - 2.0 * run).abs() < 1e-9);
        let gb = invocations * 2.0 * 16_384.0 / 1e9;
        assert_eq!(quantity(&lines, "vpc_endpoint_gb"), gb);
        assert_eq!(quantity(&lines, "ec2/g4dn.xlarge"), 0.0);
        assert_eq!(quantity(&lines, "s3_gb_month"), 2.0 * 2.0 * 2.0 / 30.0);
    }

    /// The local platform on one instance needs nothing else, whatever the system has elsewhere.
    #[test]
    fn a_machine_is_all_that_a_row_on_it_needs() {
        let mut row = training("spirt");
        row.one_machine = true;
        let lines = worst_case(std::slice::from_ref(&row), &Book).unwrap();
        let hours = (900.0 * (3.0 * 9.0 + 1.0) + 480.0 + 120.0) / 3600.0;
        is_close(quantity(&lines, "ec2/g4dn.xlarge"), 2.0 * hours);
        for none in [
            "lambda_gb_second",
            "ec2/t2.medium",
            "vpc_endpoint_hour",
            "vpc_endpoint_gb",
        ] {
            assert_eq!(quantity(&lines, none), 0.0, "{none}");
        }
    }

    #[test]
    fn instances_are_paid_until_the_deadline_and_no_function_is() {
        let lines = worst_case(&[training("gpu_baseline")], &Book).unwrap();
        let hours = (900.0 * 4.0 + 480.0 + 120.0) / 3600.0;
        is_close(quantity(&lines, "ec2/g4dn.xlarge"), 2.0 * 4.0 * hours);
        is_close(quantity(&lines, "ipv4_address_hour"), 2.0 * 4.0 * hours);
        assert_eq!(quantity(&lines, "lambda_gb_second"), 0.0);
        assert_eq!(quantity(&lines, "ec2/t2.medium"), 0.0);
        assert_eq!(quantity(&lines, "vpc_endpoint_hour"), 0.0);
    }

    /// The network is the run's: other rows' time is paid for, too, once.
    #[test]
    fn endpoints_are_paid_for_as_long_as_the_run() {
        let hours = |rows: &[Training]| {
            let lines = worst_case(rows, &Book).unwrap();
            let of_all = lines.iter().filter(|line| line.row.is_empty());
            assert!(of_all.count() <= 3 + 3);
            quantity(&lines, "vpc_endpoint_hour")
        };
        let (alone, other) = (training("spirt"), training("allreduce"));
        assert_eq!(hours(std::slice::from_ref(&other)), 0.0);
        let both = hours(&[alone.clone(), other.clone()]);
        let more = 2.0 * 2.0 * (other.deadline_s().unwrap() + AROUND_TRIAL_S) as f64 / 3600.0;
        assert!((both - hours(&[alone]) - more).abs() < 1e-9);
    }

    #[test]
    fn what_has_no_price_is_an_error() {
        let mut row = training("gpu_baseline");
        row.instance_type = "p9.mega".into();
        let error = worst_case(&[row], &Book).unwrap_err();
        assert!(error.to_string().contains("ec2/p9.mega"));
    }

    /// A listing costs 12.5 times as much as a read.
    #[test]
    fn a_system_that_waits_by_listing_is_charged_for_listings() {
        for (system, lists) in [
            ("scatterreduce", true),
            ("allreduce", true),
            ("mlless", false),
        ] {
            let row = training(system);
            let lines = worst_case(std::slice::from_ref(&row), &Book).unwrap();
            let of_row = lines.iter().filter(|line| !line.row.is_empty());
            let listed = of_row.filter(|line| line.dimension == "s3_list").count() > 0;
            assert_eq!(listed, lists, "{system}");
        }
    }

    /// A worker that polls once per second lists a hundredth as often.
    #[test]
    fn slow_polls_cost_less() {
        let mut row = training("scatterreduce");
        let lists = |row: &Training| {
            let lines = worst_case(std::slice::from_ref(row), &Book).unwrap();
            quantity(&lines, "s3_list") - 3.0 * LOOKS
        };
        row.job.settings["list_poll_ms"] = 0.into();
        let at_once = lists(&row);
        row.job.settings["list_poll_ms"] = 1000.into();
        assert!((at_once / lists(&row) - 100.0).abs() < 1e-9);
    }

    /// Each of the objects that are polled for at once is read at the pace of the setting.
    #[test]
    fn objects_are_polled_for_as_often_as_settings_say() {
        let reads = |poll_ms: u64, at_once: u64| {
            let mut row = training("gpu_baseline");
            row.gets = 0;
            row.job.settings["poll_ms"] = poll_ms.into();
            row.job.settings["transfers_at_once"] = at_once.into();
            let lines = worst_case(std::slice::from_ref(&row), &Book).unwrap();
            let of_row = lines.iter().filter(|line| !line.row.is_empty());
            let of_row = of_row.filter(|line| line.dimension == "s3_get");
            let waiting_s = 4.0 * 2.0 * row.deadline_s().unwrap() as f64;
            of_row.map(|line| line.quantity).sum::<f64>() / waiting_s
        };
        is_close(reads(100, 1), 10.0);
        is_close(reads(100, 3), 30.0);
        is_close(reads(2_000, 1), 0.5);
        is_close(reads(0, 1), POLLS_PER_SECOND);
    }

    /// A worker that may not list more often is not charged for more.
    #[test]
    fn no_worker_asks_for_more_than_it_may() {
        let mut row = training("scatterreduce");
        row.job.settings["list_poll_ms"] = 0.into();
        row.limits.allowance = Allowance {
            lists: 500,
            reads: 3,
        };
        let lines = worst_case(std::slice::from_ref(&row), &Book).unwrap();
        let invocations: u64 = row.calls().unwrap().iter().map(|call| call.at_most).sum();
        let asking = (2 * invocations) as f64;
        is_close(quantity(&lines, "s3_list"), asking * 500.0 + 3.0 * LOOKS);
        is_close(
            quantity(&lines, "s3_get"),
            asking * 3.0 + 2.0 * BUCKETS * LOOKS,
        );
    }

    /// What a trial of more than a day has stored stays until its end, and is paid for as long; how many
    /// trials there are is the same to it.
    #[test]
    fn objects_stay_as_long_as_their_trial() {
        let mut row = training("scatterreduce");
        let kept = |row: &Training| {
            let lines = worst_case(std::slice::from_ref(row), &Book).unwrap();
            quantity(&lines, "s3_gb_month") / row.trials as f64
        };
        row.trial_s = Some(DAY_S - AROUND_TRIAL_S);
        let short = kept(&row);
        row.trials = 9;
        is_close(kept(&row), short);
        row.trial_s = Some(2 * DAY_S);
        is_close(kept(&row) / short, 4.0 / 2.0);
    }

    /// Trials that are started one by one cost at most what they cost together.
    #[test]
    fn shares_add_up() {
        let mut rows = ["spirt", "allreduce", "gpu_baseline"].map(training);
        for (trials, row) in (1..).zip(&mut rows) {
            row.trials = trials;
        }
        let Shares { run, trials } = shares(&rows, &Book).unwrap();
        let of_rows = rows.iter().zip(&trials).flat_map(|(row, share)| {
            let usd =
                |(dimension, usd): (&String, &f64)| (dimension.clone(), usd * row.trials as f64);
            share.iter().map(usd).collect::<Vec<_>>()
        });
        let mut whole = run;
        for (dimension, usd) in of_rows {
            *whole.entry(dimension).or_default() += usd;
        }
        for line in worst_case(&rows, &Book).unwrap() {
            *whole.get_mut(&line.dimension).unwrap() -= line.usd;
        }
        assert!(whole.values().all(|rest| rest.abs() < 1e-9), "{whole:?}");
    }

    /// A workflow's states run one after another: beside many short ones its trial's deadline counts.
    #[test]
    fn functions_run_no_longer_than_their_trial() {
        let mut row = training("spirt");
        row.job.epochs = 1_000;
        let gb_seconds = |row: &Training| {
            let lines = worst_case(std::slice::from_ref(row), &Book).unwrap();
            quantity(&lines, "lambda_gb_second")
        };
        row.trial_s = Some(100_000);
        // Three mini-batches of each of four peers.
        let trial_s = 100_000.0 + 2_400.0 + 660.0 + 900.0;
        assert_eq!(gb_seconds(&row), 2.0 * 2.0 * 12.0 * trial_s * 2.0);
        row.job.epochs = 3;
        let invocations = 4.0 * (1.0 + 3.0 * (7.0 + 3.0));
        assert_eq!(gb_seconds(&row), 2.0 * invocations * 900.0 * 2.0);
    }

    /// Longer, larger, more: never cheaper.
    #[test]
    fn more_of_anything_costs_no_less() {
        let usd = |row: Training| -> f64 {
            let lines = worst_case(&[row], &Book).unwrap();
            lines.iter().map(|line| line.usd).sum()
        };
        for system in [
            "spirt",
            "mlless",
            "scatterreduce",
            "allreduce",
            "gpu_baseline",
        ] {
            let base = usd(training(system));
            assert!(base > 0.0 && base.is_finite());
            let with = |change: fn(&mut Training)| {
                let mut row = training(system);
                change(&mut row);
                usd(row)
            };
            assert!(with(|row| row.trials = 3) > base, "{system}");
            assert!(with(|row| row.limits.timeout_s = 901) > base, "{system}");
            assert!(with(|row| row.memory_mb = 4096) >= base, "{system}");
            assert!(with(|row| row.job.epochs = 4) > base, "{system}");
            assert!(with(|row| row.puts = 11) > base, "{system}");
            assert!(with(|row| row.gets = 21) > base, "{system}");
            assert!(with(|row| row.data_gets = 6) > base, "{system}");
        }
    }
}
