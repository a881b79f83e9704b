//! What a run costs whatever happens to it: in the emulated cloud's time, nothing is paid by the
//! second or the hour beyond a trial's end, and no failures exceed the worst case that was printed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::cloud::{Cloud, experiment, printed};
use crate::faults::{Fate, ProxiedRequest, proxy};
use crate::journaled;

/// Time after which nothing is paid by the hour where the machine of a run has died: its lease, and
/// a minute.
const LEASE_ENDS_S: u64 = epochcost_aws_plan::LEASE_S + 60;
/// Time after which the last instances, the hosts, end themselves: the shortest deadline of a trial, since
/// its forecast is seconds, and 20 minutes.
const INSTANCES_END_S: u64 = 600 + 1200;
/// Lines of the journal when a trial of SPIRT has all that it needs.
const MADE: usize = 60;
/// Time for which processes of this machine may go on after the emulated time is over.
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts a run, and kills it `delay` after its journal has `lines`; returns whether it ended
/// before.
fn kill(
    cloud: &Cloud,
    directory: &Path,
    more: &[(&str, &str)],
    lines: usize,
    delay: Duration,
) -> bool {
    let out = directory.join(format!("run-{lines}"));
    let mut command = cloud.command(&to(&directory.join("x.yaml"), &out, &[]));
    command.envs(more.iter().copied()).current_dir(directory);
    kill_after(command, &out, lines, delay).is_some()
}

/// Returns the arguments of a run of `file` into `out`.
fn to(file: &Path, out: &Path, more: &[&str]) -> Vec<String> {
    let (file, out) = (file.display().to_string(), out.display().to_string());
    let arguments = ["run", &file, "--platform", "aws", "--yes", "--out", &out];
    arguments
        .iter()
        .chain(more)
        .map(|&one| one.into())
        .collect()
}

/// Starts `command`, and kills it `delay` after the journals in `out` have `lines`; returns its exit
/// code if it ended before.
fn kill_after(mut command: Command, out: &Path, lines: usize, delay: Duration) -> Option<i32> {
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if journaled(out) >= lines {
            std::thread::sleep(delay);
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The machine of a run dies after its first line in the journal and after each fifth from there, or as
/// many as `TEST_KILL_EVERY` says, and instances cannot upload their logs. Nobody cleans up: the switch
/// ends what the run has.
#[test]
fn a_run_that_dies_anywhere_stops_costing_by_itself() {
    let Some(cloud) = Cloud::start_with_services() else {
        return;
    };
    cloud.refuse_logs();
    let directory = tempfile::tempdir().unwrap();
    experiment(directory.path(), "systems: [spirt]\n");
    let every = std::env::var("TEST_KILL_EVERY").map_or(5, |every| every.parse().unwrap());
    let mut rented = 0;
    for lines in (1..).step_by(every) {
        let delay = Duration::from_millis(lines as u64 * 37 % 700);
        let has_ended = kill(&cloud, directory.path(), &[], lines, delay);
        // The emulated EC2 starts what was asked for.
        std::thread::sleep(Duration::from_millis(600));
        let before = cloud.account();
        rented += before["rented"].as_array().unwrap().len();
        cloud.skip(LEASE_ENDS_S);
        let left = cloud.left(false, PATIENCE);
        assert!(left.is_empty(), "killed after line {lines}: {left:?}");
        // The switch looks again twice, and is done; the first span may still end its first wait.
        cloud.pass(3, 600, PATIENCE);
        let left = cloud.left(true, PATIENCE);
        assert!(left.is_empty(), "killed after line {lines}: {left:?}");
        let region = ["aws", "clean", "--yes", "--region", crate::REGION];
        let cleaned = cloud.run(directory.path(), &region);
        assert_eq!(cleaned.status.code(), Some(0), "{}", printed(&cleaned));
        cloud.assert_empty();
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
    let Some(cloud) = Cloud::start_with_services() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = experiment(directory.path(), "systems: [spirt]\n");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("epochs: 2", "epochs: 330")).unwrap();
    for delay_s in [0, 6, 12] {
        let out = directory.path().join(format!("run-{delay_s}"));
        let command = cloud.command(&to(Path::new(&file), &out, &[]));
        // A line before and after each of what all trials and this one need.
        let delay = Duration::from_secs(delay_s);
        assert_eq!(kill_after(command, &out, MADE, delay), None);
        let before = cloud.account();
        assert!(!before["rented"].as_array().unwrap().is_empty(), "{before}");
        cloud.skip(LEASE_ENDS_S);
        let left = cloud.left(false, PATIENCE);
        assert!(left.is_empty(), "{left:?}");
        // The switch looks again twice, and is done; the first span may still end its first wait.
        cloud.pass(3, (3600 - LEASE_ENDS_S) / 3, PATIENCE);
        let left = cloud.left(true, PATIENCE);
        assert!(left.is_empty(), "{left:?}");
        let after_an_hour = cloud.account();
        cloud.skip(86_400);
        std::thread::sleep(Duration::from_secs(5));
        let after_a_day = cloud.account();
        for part in ["charged", "rented", "running"] {
            assert_eq!(after_an_hour[part], after_a_day[part], "{part}");
        }
        let region = ["aws", "clean", "--yes", "--region", crate::REGION];
        let cleaned = cloud.run(directory.path(), &region);
        assert_eq!(cleaned.status.code(), Some(0), "{}", printed(&cleaned));
        cloud.assert_empty();
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

/// Returns the quantities of the printed worst case by dimension, with their prices.
fn worst_case(cloud: &Cloud, directory: &Path, file: &str) -> BTreeMap<String, (f64, f64)> {
    let planned = cloud.run(directory, &["plan", file, "--platform", "aws", "--json"]);
    assert_eq!(planned.status.code(), Some(0), "{}", printed(&planned));
    let plan: Value = serde_json::from_slice(&planned.stdout).unwrap();
    let mut bound = BTreeMap::new();
    for line in plan["aws"]["worst_case"].as_array().unwrap() {
        let number = |field: &str| line[field].as_f64().unwrap();
        let dimension = line["dimension"].as_str().unwrap().to_owned();
        let (quantity, unit_usd): &mut (f64, f64) = bound.entry(dimension).or_default();
        *quantity += number("quantity");
        *unit_usd = number("unit_usd");
    }
    bound
}

/// Checks that every charge is within the bound.
#[track_caller]
fn is_bound(cloud: &Cloud, bound: &BTreeMap<String, (f64, f64)>, what: &str) {
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
        let Some(cloud) = Cloud::start_with_services() else {
            return;
        };
        let numbers = std::sync::Mutex::new(Numbers(seed));
        let rule = move |request: &ProxiedRequest<'_>| {
            let number = numbers.lock().unwrap().below(100);
            match number {
                0..2 => Fate::Refused(503, "SlowDown"),
                2..4 => Fate::Refused(429, "TooManyRequestsException"),
                4..30 if request.path.ends_with("/invocations") => Fate::Twice,
                _ => Fate::Through,
            }
        };
        let rule: crate::faults::Rule = Arc::new(rule);
        let moto = proxy(&cloud.moto.url, rule.clone());
        let own = proxy(&cloud.emulator.url, rule);
        let directory = tempfile::tempdir().unwrap();
        let file = experiment(directory.path(), &format!("systems: [{system}]\n"));
        let bound = worst_case(&cloud, directory.path(), &file);
        let mut numbers = Numbers(100 + seed);
        if numbers.below(2) == 0 {
            cloud.refuse_logs();
        }
        let lines = 5 + numbers.below(80) as usize;
        let through = [
            ("AWS_ENDPOINT_URL", moto.as_str()),
            ("AWS_ENDPOINT_URL_LAMBDA", &own),
            ("AWS_ENDPOINT_URL_SFN", &own),
            ("EPOCHCOST_LOG_PATIENCE_S", "2"),
        ];
        let delay = Duration::from_millis(numbers.below(2000));
        kill(&cloud, directory.path(), &through, lines, delay);
        std::thread::sleep(Duration::from_millis(600));
        // Instances end themselves before the lease does, and the emulator sees it a little later.
        for _ in 0..INSTANCES_END_S / 60 + 1 {
            cloud.skip(60);
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_secs(3));
        cloud.skip(LEASE_ENDS_S - INSTANCES_END_S);
        let left = cloud.left(false, PATIENCE);
        assert!(left.is_empty(), "seed {seed}: {left:?}");
        // The switch looks again twice, and is done; the first span may still end its first wait.
        cloud.pass(3, 600, PATIENCE);
        let left = cloud.left(true, PATIENCE);
        assert!(left.is_empty(), "seed {seed}: {left:?}");
        is_bound(&cloud, &bound, &format!("{system}, seed {seed}"));
    }
}

/// Returns what the account was charged, US dollars, by the prices of `bound`.
fn charged_usd(cloud: &Cloud, bound: &BTreeMap<String, (f64, f64)>) -> f64 {
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
        let Some(cloud) = Cloud::start() else { return };
        let directory = tempfile::tempdir().unwrap();
        let file = experiment(directory.path(), "systems: [scatterreduce, gpu_baseline]\n");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("trials: 1\n", "trials: 3\n")).unwrap();
        let file = Path::new(&file);
        let bound = worst_case(&cloud, directory.path(), &file.display().to_string());
        let out = directory.path().join("run");
        let run = |more: &[&str]| {
            let mut command = cloud.command(&to(file, &out, more));
            command.current_dir(directory.path());
            command
        };
        // What the least that can be started may cost is said; nothing is made.
        let refused = run(&["--max-usd", "0"]).output().unwrap();
        let said = printed(&refused);
        assert_eq!(refused.status.code(), Some(6), "{said}");
        let least_usd = dollars(&said, "what comes next may cost ");
        cloud.assert_empty();
        let limit_usd = share * least_usd;
        let limit = limit_usd.to_string();
        let mut numbers = Numbers(seed);
        let mut code = None;
        for _ in 0..4 {
            let lines = journaled(&out) + 2 + numbers.below(40) as usize;
            let delay = Duration::from_millis(numbers.below(900));
            code = kill_after(run(&["--max-usd", &limit, "--resume"]), &out, lines, delay);
            if code.is_some() {
                break;
            }
        }
        let code = code.or_else(|| {
            let last = run(&["--max-usd", &limit, "--resume"]).output().unwrap();
            last.status.code()
        });
        let cleaned = cloud.run(
            directory.path(),
            &["aws", "clean", "--yes", "--region", crate::REGION],
        );
        assert_eq!(cleaned.status.code(), Some(0), "{}", printed(&cleaned));
        cloud.assert_empty();
        let charged_usd = charged_usd(&cloud, &bound);
        println!("seed {seed}: {charged_usd:.5} of {limit_usd:.5} USD, exit code {code:?}");
        assert!(charged_usd <= limit_usd, "{charged_usd} of {limit_usd}");
        match code {
            Some(0) => ended[0] += 1,
            Some(6) => ended[1] += 1,
            _ => panic!("seed {seed}: {code:?}"),
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
    let directory = tempfile::tempdir().unwrap();
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/aws-first.yaml"
    );
    let out = directory.path().join("run").display().to_string();
    let bound = worst_case(&cloud, directory.path(), file);
    let worst_usd: f64 = bound.values().map(|(quantity, usd)| quantity * usd).sum();
    let arguments = [
        "run",
        file,
        "--platform",
        "aws",
        "--yes",
        "--max-usd",
        "0.05",
        "--out",
        &out,
    ];
    let ran = cloud.run(directory.path(), &arguments);
    assert_eq!(ran.status.code(), Some(0), "{}", printed(&ran));
    cloud.assert_empty();
    is_bound(&cloud, &bound, "aws-first");
    let forecast = std::fs::read_to_string(Path::new(&out).join("forecast.json")).unwrap();
    let forecast: Value = serde_json::from_str(&forecast).unwrap();
    let row = &forecast["rows"][0];
    let expected_usd = row["usd"].as_f64().unwrap();
    assert!(expected_usd > 0.0 && row["seconds"].as_f64().unwrap() > 0.0);
    let used_usd = charged_usd(&cloud, &bound);
    println!("worst case {worst_usd:.5} USD, used {used_usd:.5} USD");
    assert!(expected_usd < worst_usd && worst_usd < 0.05, "{worst_usd}");
    let (transitions, usd) = bound["state_transition"];
    let without_usd = worst_usd - transitions * usd;
    assert!(
        without_usd <= 20.0 * used_usd,
        "{without_usd} and {used_usd}"
    );
}
