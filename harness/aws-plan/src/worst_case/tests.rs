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
    let is_close = (found / expected - 1.0).abs() < 1e-12;
    assert!(is_close, "{found} for {expected}");
}

/// The worst case of one row.
fn of(row: &Training) -> Vec<Line> {
    worst_case(std::slice::from_ref(row), &Book).unwrap()
}

/// The lines of rows, without those of the whole run.
fn of_rows(lines: &[Line]) -> Vec<Line> {
    let is_rows = |line: &&Line| !line.row.is_empty();
    lines.iter().filter(is_rows).cloned().collect()
}

fn quantity(lines: &[Line], dimension: &str) -> f64 {
    let of = lines.iter().filter(|line| line.dimension == dimension);
    of.map(|line| line.quantity).sum()
}

/// Fails if there is anything of dimensions, parted by spaces.
#[track_caller]
fn lacks(lines: &[Line], dimensions: &str) {
    for dimension in dimensions.split(' ') {
        assert_eq!(quantity(lines, dimension), 0.0, "{dimension}");
    }
}

#[test]
fn a_workflow_costs_every_state_of_every_peer_to_its_time_out() {
    let lines = of(&training("spirt"));
    // 8 states, of which one invokes a function per mini-batch; one bootstrap per peer.
    let invocations = 2.0 * 4.0 * (1.0 + 3.0 * (7.0 + 3.0));
    assert_eq!(quantity(&lines, "lambda_request"), 2.0 * invocations);
    let gb_seconds = invocations * 900.0 * 2.0;
    assert_eq!(quantity(&lines, "lambda_gb_second"), gb_seconds);
    // Seven metrics of each of nine functions, one of each of five hosts.
    let metrics = 2.0 * 13.0 * (9.0 * 7.0 + 5.0);
    assert_eq!(quantity(&lines, "metric_read"), metrics);
    // A map is a transition itself.
    let of_row = quantity(&of_rows(&lines), "state_transition");
    assert_eq!(of_row, 2.0 * 4.0 * 3.0 * 11.0);
    // The switch acts before the first trial and in each of two, with nine functions and at most
    // eight executions of one machine; it is begun anew every ten minutes.
    let of_all = quantity(&lines, "state_transition") - of_row;
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
    lacks(&lines, "ec2/g4dn.xlarge");
    assert_eq!(quantity(&lines, "s3_gb_month"), 2.0 * 2.0 * 2.0 / 30.0);
}

/// The local platform on one instance needs nothing else, whatever the system has elsewhere.
#[test]
fn a_machine_is_all_that_a_row_on_it_needs() {
    let mut row = training("spirt");
    row.one_machine = true;
    let lines = of(&row);
    let hours = (900.0 * (3.0 * 9.0 + 1.0) + 480.0 + 120.0) / 3600.0;
    is_close(quantity(&lines, "ec2/g4dn.xlarge"), 2.0 * hours);
    lacks(
        &lines,
        "lambda_gb_second ec2/t2.medium vpc_endpoint_hour vpc_endpoint_gb",
    );
}

#[test]
fn instances_are_paid_until_the_deadline_and_no_function_is() {
    let lines = of(&training("gpu_baseline"));
    let hours = (900.0 * 4.0 + 480.0 + 120.0) / 3600.0;
    is_close(quantity(&lines, "ec2/g4dn.xlarge"), 2.0 * 4.0 * hours);
    is_close(quantity(&lines, "ipv4_address_hour"), 2.0 * 4.0 * hours);
    lacks(&lines, "lambda_gb_second ec2/t2.medium vpc_endpoint_hour");
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
    let lists = ["scatterreduce", "allreduce", "mlless"].map(|system| {
        let lines = of_rows(&of(&training(system)));
        lines.iter().any(|line| line.dimension == "s3_list")
    });
    assert_eq!(lists, [true, true, false]);
}

/// A worker that polls once per second lists a hundredth as often.
#[test]
fn slow_polls_cost_less() {
    let mut row = training("scatterreduce");
    let lists = |row: &Training| quantity(&of(row), "s3_list") - 3.0 * LOOKS;
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
        let waiting_s = 4.0 * 2.0 * row.deadline_s().unwrap() as f64;
        quantity(&of_rows(&of(&row)), "s3_get") / waiting_s
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
    let lines = of(&row);
    let invocations: u64 = row.calls().unwrap().iter().map(|call| call.at_most).sum();
    let asking = (2 * invocations) as f64;
    is_close(quantity(&lines, "s3_list"), asking * 500.0 + 3.0 * LOOKS);
    let reads = asking * 3.0 + 2.0 * BUCKETS * LOOKS;
    is_close(quantity(&lines, "s3_get"), reads);
}

/// What a trial of more than a day has stored stays until its end, and is paid for as long; how many
/// trials there are is the same to it.
#[test]
fn objects_stay_as_long_as_their_trial() {
    let mut row = training("scatterreduce");
    let kept = |row: &Training| quantity(&of(row), "s3_gb_month") / row.trials as f64;
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
        let usd = |(dimension, usd): (&String, &f64)| (dimension.clone(), usd * row.trials as f64);
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
    let gb_seconds = |row: &Training| quantity(&of(row), "lambda_gb_second");
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
    let usd = |row: &Training| of(row).iter().map(|line| line.usd).sum::<f64>();
    for system in "spirt mlless scatterreduce allreduce gpu_baseline".split(' ') {
        let base = usd(&training(system));
        assert!(base > 0.0 && base.is_finite());
        let with = |change: fn(&mut Training)| {
            let mut row = training(system);
            change(&mut row);
            usd(&row)
        };
        let changes: [fn(&mut Training); 6] = [
            |row| row.trials = 3,
            |row| row.limits.timeout_s = 901,
            |row| row.job.epochs = 4,
            |row| row.puts = 11,
            |row| row.gets = 21,
            |row| row.data_gets = 6,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            assert!(with(change) > base, "{system}, change {number}");
        }
        assert!(with(|row| row.memory_mb = 4096) >= base, "{system}");
    }
}
