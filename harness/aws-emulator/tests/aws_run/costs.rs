//! What a run costs whatever happens to it: in the emulated cloud's time, nothing is paid by the
//! second or the hour beyond a trial's end, and no failures exceed the worst case that was printed.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::cloud::{Cloud, RUN};
use crate::faults::{Fate, ProxiedRequest, through};

/// Time after which nothing is paid by the hour where the machine of a run has died: its lease, and
/// a minute.
const LEASE_ENDS_S: u64 = epochcost_aws_plan::LEASE_S + 60;
/// Time after which the last instances, the hosts, end themselves: the shortest deadline of a trial, since
/// its forecast is seconds, and 20 minutes.
const INSTANCES_END_S: u64 = 600 + 1200;
/// Lines of the journal when a trial of SPIRT has all that it needs.
const MADE: usize = 60;

/// Lets the lease end: nothing is paid by the hour then, and nothing runs when the switch has looked again.
fn lease_ends(cloud: &Cloud, skip_s: u64, span_s: u64, when: &str) {
    cloud.skip(skip_s);
    cloud.costs_nothing(false, when);
    // The switch looks again twice, and is done; the first span may still end its first wait.
    cloud.pass(3, span_s);
    cloud.costs_nothing(true, when);
}

/// The machine of a run dies after its first line in the journal and after each fifth from there, or as
/// many as `TEST_KILL_EVERY` says, and instances cannot upload their logs. Nobody cleans up: the switch
/// ends what the run has.
#[test]
fn a_run_that_dies_anywhere_stops_costing_by_itself() {
    let Some(cloud) = Cloud::of("spirt") else {
        return;
    };
    cloud.refuse_logs();
    let every = std::env::var("TEST_KILL_EVERY").map_or(5, |every| every.parse().unwrap());
    let mut rented = 0;
    for lines in (1..).step_by(every) {
        let out = format!("run-{lines}");
        let command = cloud.command(&format!("{RUN} --out {out}"));
        let delay = Duration::from_millis(lines as u64 * 37 % 700);
        let has_ended = cloud.kill_after(command, &out, lines, delay).is_some();
        // The emulated EC2 starts what was asked for.
        sleep(Duration::from_millis(600));
        let before = cloud.account();
        rented += before["rented"].as_array().unwrap().len();
        let when = format!("killed after line {lines}");
        lease_ends(&cloud, LEASE_ENDS_S, 600, &when);
        cloud.clean();
        // The next run reckons by real time: the time at which its switch acts must lie ahead.
        cloud.rewind();
        if has_ended {
            assert!(lines > 3 * 30);
            break;
        }
    }
    assert!(rented * every > 100, "{rented}");
}

/// The machine dies within a training of 330 epochs, whose deadline is hours away, between its
/// journal's lines and within epochs: after an hour nothing costs any more, and no function starts
/// another.
#[test]
fn a_long_training_whose_machine_died_ends_within_an_hour() {
    let Some(cloud) = Cloud::of("spirt") else {
        return;
    };
    cloud.edit("x.yaml", "epochs: 2", "epochs: 330");
    for delay_s in [0, 6, 12] {
        let out = format!("run-{delay_s}");
        let command = cloud.command(&format!("{RUN} --out {out}"));
        // A line before and after each of what all trials and this one need.
        let delay = Duration::from_secs(delay_s);
        assert_eq!(cloud.kill_after(command, &out, MADE, delay), None);
        let before = cloud.account();
        assert!(!before["rented"].as_array().unwrap().is_empty(), "{before}");
        lease_ends(&cloud, LEASE_ENDS_S, (3600 - LEASE_ENDS_S) / 3, &out);
        let after_an_hour = cloud.account();
        cloud.skip(86_400);
        sleep(Duration::from_secs(5));
        let after_a_day = cloud.account();
        for part in ["charged", "rented", "running"] {
            assert_eq!(after_an_hour[part], after_a_day[part], "{part}");
        }
        cloud.clean();
        cloud.rewind();
    }
}

/// Numbers of a small generator (Numerical Recipes' linear congruential one).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = (self.0.wrapping_mul(6_364_136_223_846_793_005))
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Quantities of a worst case by dimension, with their prices.
type Bound = BTreeMap<String, (f64, f64)>;

/// Returns the printed worst case.
fn worst_case(cloud: &Cloud, file: &str) -> Bound {
    let plan = cloud.run(&format!("plan {file} --platform aws --json"));
    let plan = plan.ends(0).json();
    let mut bound = Bound::new();
    for line in plan["aws"]["worst_case"].as_array().unwrap() {
        let number = |field: &str| line[field].as_f64().unwrap();
        let dimension = line["dimension"].as_str().unwrap().to_owned();
        let (quantity, unit_usd) = bound.entry(dimension).or_default();
        *quantity += number("quantity");
        *unit_usd = number("unit_usd");
    }
    bound
}

/// Checks that every charge is within the bound.
#[track_caller]
fn is_bound(cloud: &Cloud, bound: &Bound, what: &str) {
    let account = cloud.account();
    let charged = account["charged"].as_object().unwrap().iter();
    let over: Vec<String> = charged
        .filter_map(|(dimension, charged)| {
            let (at_most, _) = bound.get(dimension).copied().unwrap_or_default();
            let charged = charged.as_f64().unwrap();
            let is_over = charged > at_most + 1e-9;
            is_over.then(|| format!("{charged} of {dimension}, at most {at_most}"))
        })
        .collect();
    assert!(over.is_empty(), "{what}: {over:?}");
}

/// Requests fail at random, invocations are delivered twice, logs are lost, and the run dies
/// somewhere or nowhere.
#[test]
fn no_sequence_of_failures_costs_more_than_the_worst_case() {
    for (seed, system) in [
        (1, "spirt"),
        (2, "scatterreduce"),
        (3, "spirt"),
        (4, "mlless"),
    ] {
        let Some(cloud) = Cloud::of(system) else {
            return;
        };
        let numbers = Mutex::new(Numbers(seed));
        let rule = move |request: &ProxiedRequest<'_>| {
            let number = numbers.lock().unwrap().below(100);
            match number {
                0..2 => Fate::Refused(503, "SlowDown"),
                2..4 => Fate::Refused(429, "TooManyRequestsException"),
                4..30 if request.path.ends_with("/invocations") => Fate::Twice,
                _ => Fate::Through,
            }
        };
        let bound = worst_case(&cloud, "x.yaml");
        let mut numbers = Numbers(100 + seed);
        if numbers.below(2) == 0 {
            cloud.refuse_logs();
        }
        let lines = 5 + numbers.below(80) as usize;
        let delay = Duration::from_millis(numbers.below(2000));
        let mut command = cloud.command(&format!("{RUN} --out run"));
        command
            .envs(through(&cloud, rule))
            .env("EPOCHCOST_LOG_PATIENCE_S", "2");
        cloud.kill_after(command, "run", lines, delay);
        sleep(Duration::from_millis(600));
        // Instances end themselves before the lease does, and the emulator sees it a little later.
        for _ in 0..INSTANCES_END_S / 60 + 1 {
            cloud.skip(60);
            sleep(Duration::from_millis(20));
        }
        sleep(Duration::from_secs(3));
        let when = format!("{system}, seed {seed}");
        lease_ends(&cloud, LEASE_ENDS_S - INSTANCES_END_S, 600, &when);
        is_bound(&cloud, &bound, &when);
    }
}

/// Returns what the account was charged, US dollars, by the prices of `bound`.
fn charged_usd(cloud: &Cloud, bound: &Bound) -> f64 {
    let account = cloud.account();
    let charged = account["charged"].as_object().unwrap().iter();
    charged
        .map(|(dimension, quantity)| quantity.as_f64().unwrap() * bound[dimension].1)
        .sum()
}

/// Returns the dollars after `before` in a text.
fn dollars(text: &str, before: &str) -> f64 {
    let (_, rest) = text.split_once(before).expect(text);
    rest.split(' ').next().unwrap().parse().unwrap()
}

/// A run under a limit is killed somewhere, again and again, and gone on with until it ends or its next
/// trial does not fit: whatever the limit, the account was charged no more.
#[test]
fn a_limit_holds_for_a_run_and_all_that_go_on_with_it() {
    let mut ended = [0; 2];
    for (seed, share) in [(1, 1.2), (2, 2.5), (3, 400.0)] {
        let Some(cloud) = Cloud::of("scatterreduce, gpu_baseline") else {
            return;
        };
        cloud.edit("x.yaml", "trials: 1\n", "trials: 3\n");
        let bound = worst_case(&cloud, "x.yaml");
        // What the least that can be started may cost is said; nothing is made.
        let refused = cloud.run(&format!("{RUN} --out run --max-usd 0")).ends(6);
        let least_usd = dollars(&refused.message(), "what comes next may cost ");
        cloud.assert_empty();
        let limit_usd = share * least_usd;
        let run = format!("{RUN} --out run --max-usd {limit_usd} --resume");
        let mut numbers = Numbers(seed);
        let code = (0..4).find_map(|_| {
            let lines = cloud.journaled("run") + 2 + numbers.below(40) as usize;
            let delay = Duration::from_millis(numbers.below(900));
            cloud.kill_after(cloud.command(&run), "run", lines, delay)
        });
        let code = code.unwrap_or_else(|| cloud.run(&run).code());
        cloud.clean();
        let charged_usd = charged_usd(&cloud, &bound);
        println!("seed {seed}: {charged_usd:.5} of {limit_usd:.5} USD, exit code {code}");
        assert!(charged_usd <= limit_usd, "{charged_usd} of {limit_usd}");
        match code {
            0 => ended[0] += 1,
            6 => ended[1] += 1,
            _ => panic!("seed {seed}: {code}"),
        }
    }
    assert!(ended[0] > 0 && ended[1] > 0, "{ended:?}");
}

/// The first run in a new account: two functions and S3. Its worst case is below five cents, and, but
/// for the switch that acts where this machine has died, at most twenty times what it uses where every
/// second counts as much as here.
#[test]
fn the_first_run_costs_little_and_its_worst_case_is_near() {
    let Some(cloud) = Cloud::start() else { return };
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/aws-first.yaml"
    );
    let bound = worst_case(&cloud, &format!("'{file}'"));
    let worst_usd: f64 = bound.values().map(|(quantity, usd)| quantity * usd).sum();
    let run = format!("run '{file}' --platform aws --yes --max-usd 0.05 --out run");
    cloud.run(&run).ends(0);
    cloud.assert_empty();
    is_bound(&cloud, &bound, "aws-first");
    let forecast: Value = serde_json::from_str(&cloud.read("run/forecast.json")).unwrap();
    let row = &forecast["rows"][0];
    let expected_usd = row["usd"].as_f64().unwrap();
    assert!(expected_usd > 0.0 && row["seconds"].as_f64().unwrap() > 0.0);
    let used_usd = charged_usd(&cloud, &bound);
    println!("worst case {worst_usd:.5} USD, used {used_usd:.5} USD");
    assert!(expected_usd < worst_usd && worst_usd < 0.05, "{worst_usd}");
    let (transitions, usd) = bound["state_transition"];
    let without_usd = worst_usd - transitions * usd;
    let is_near = without_usd <= 20.0 * used_usd;
    assert!(is_near, "{without_usd} and {used_usd}");
}
